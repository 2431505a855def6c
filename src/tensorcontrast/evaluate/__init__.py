"""Evaluation: splits without shared subjects, label budgets, a linear probe, benchmark runs."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tensorcontrast.decompose.diagnosis import match_components
    from tensorcontrast.evaluate.protocol import (
        atd_har_split,
        label_budget,
        linear_probe,
        official_split,
        subject_split,
    )
    from tensorcontrast.evaluate.rank import RankCurve, rank_curve

__all__ = [
    "RankCurve",
    "atd_har_split",
    "label_budget",
    "linear_probe",
    "match_components",
    "official_split",
    "rank_curve",
    "subject_split",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # On first use: help and completion of the command line need none of them.
    where = f"{__name__}.{'rank' if name.lower().startswith('rank') else 'protocol'}"
    if name == "match_components":
        where = "tensorcontrast.decompose.diagnosis"
    return getattr(import_module(where), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
