"""Evaluation: splits without shared subjects, label budgets, a linear probe, benchmark runs."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tensorcontrast.decompose.diagnosis import match_components
    from tensorcontrast.evaluate.config import BenchConfig, load_config
    from tensorcontrast.evaluate.presets import preset
    from tensorcontrast.evaluate.protocol import (
        ProbeResult,
        Split,
        atd_har_split,
        label_budget,
        linear_probe,
        official_split,
        subject_split,
    )
    from tensorcontrast.evaluate.rank import RankCurve, RankPoint, rank_curve
    from tensorcontrast.evaluate.run import Run

__all__ = [
    "BenchConfig",
    "ProbeResult",
    "RankCurve",
    "RankPoint",
    "Run",
    "Split",
    "atd_har_split",
    "label_budget",
    "linear_probe",
    "load_config",
    "match_components",
    "official_split",
    "preset",
    "rank_curve",
    "subject_split",
]

# Imported on first use: help and completion of the command line need none of them.
_MODULES = {
    "BenchConfig": "config",
    "RankCurve": "rank",
    "RankPoint": "rank",
    "Run": "run",
    "load_config": "config",
    "preset": "presets",
    "rank_curve": "rank",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "match_components":
        return import_module("tensorcontrast.decompose.diagnosis").match_components
    module = import_module(f"{__name__}.{_MODULES.get(name, 'protocol')}")
    return getattr(module, name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
