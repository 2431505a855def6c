"""Looking at what was learned: figures, and a report in one file.

Names are imported when they are first used, so that ``report.text`` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tensorcontrast.report.components import describe_components
    from tensorcontrast.report.diagnosis import plot_rank_curve
    from tensorcontrast.report.feature_figure import plot_feature
    from tensorcontrast.report.figures import (
        plot_components,
        plot_convergence,
        plot_embedding,
        plot_graph,
        plot_label_curve,
    )
    from tensorcontrast.report.style import save_figure
    from tensorcontrast.report.write import model_report, write_report

_WHERE = {
    "components": ("describe_components",),
    "diagnosis": ("plot_rank_curve",),
    "feature_figure": ("plot_feature",),
    "figures": (
        "plot_components",
        "plot_convergence",
        "plot_embedding",
        "plot_graph",
        "plot_label_curve",
    ),
    "style": ("save_figure",),
    "write": ("model_report", "write_report"),
}

__all__ = [
    "describe_components",
    "model_report",
    "plot_components",
    "plot_convergence",
    "plot_embedding",
    "plot_feature",
    "plot_graph",
    "plot_label_curve",
    "plot_rank_curve",
    "save_figure",
    "write_report",
]


def __getattr__(name: str) -> Any:
    for module, names in _WHERE.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
