"""Scores of methods over repeats, published figures, and what label budgets are called."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

__all__ = ["METRICS", "Published", "Score", "ScoreRow", "budget_name"]

METRICS = {
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced accuracy",
    "macro_f1": "macro F1",
}


@dataclass(frozen=True)
class Score:
    """Scores of one method at one label budget, one value a repeat."""

    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Mean over the repeats."""
        return float(np.mean(self.values))

    @property
    def sd(self) -> float:
        """Standard deviation over the repeats (n − 1); NaN for one repeat."""
        return float(np.std(self.values, ddof=1)) if len(self.values) > 1 else math.nan

    def __str__(self) -> str:
        sd = "" if math.isnan(self.sd) else f" ± {self.sd:.3f}"
        return f"{self.mean:.3f}{sd}"


@dataclass(frozen=True)
class Published:
    """A published figure: mean, and sd where it is given."""

    mean: float
    sd: float | None = None

    def __str__(self) -> str:
        return f"{self.mean:.3f}" + ("" if self.sd is None else f" ± {self.sd:.3f}")


@dataclass(frozen=True)
class ScoreRow:
    """What is known of one method on one dataset."""

    method: str
    scores: Mapping[str, Score]
    published: Published | None = None
    epoch_seconds: float | None = None
    fit_seconds: float | None = None
    n_parameters: int | None = None
    note: str = ""
    competes: bool = True
    """False for an upper bound that was shown labels: it is never the best of a column."""


def budget_name(budget: object) -> str:
    """Name a label budget: "30 labels", "5 % of labels", "all labels"."""
    text = str(budget).strip()
    if text in ("100%", "all", "1.0"):
        return "all labels"
    if text.endswith("%"):
        return f"{text[:-1].strip()} % of labels"
    return f"{text} label" if text == "1" else f"{text} labels"
