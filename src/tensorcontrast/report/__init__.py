"""Looking at what was learned: figures, tables, and a report in one file.

Names are imported when they are first used, so that ``report.text`` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tensorcontrast.report.components import Component, describe_components
    from tensorcontrast.report.data import ReportData
    from tensorcontrast.report.diagnosis import plot_rank_curve
    from tensorcontrast.report.evidence_figures import (
        plot_ablation,
        plot_adjacency,
        plot_iterations,
        plot_seeds,
        plot_true_graph,
        plot_tsne_stages,
    )
    from tensorcontrast.report.feature_figure import plot_feature
    from tensorcontrast.report.figures import (
        plot_components,
        plot_convergence,
        plot_embedding,
        plot_graph,
        plot_label_curve,
    )
    from tensorcontrast.report.of_model import report_from_model
    from tensorcontrast.report.of_run import report_from_run
    from tensorcontrast.report.style import save_figure
    from tensorcontrast.report.tables import ScoreTable, run_tables, score_tables
    from tensorcontrast.report.text import plain
    from tensorcontrast.report.write import model_report, write_report

_WHERE = {
    "components": ("Component", "describe_components"),
    "data": ("ReportData",),
    "diagnosis": ("plot_rank_curve",),
    "evidence_figures": (
        "plot_ablation",
        "plot_adjacency",
        "plot_iterations",
        "plot_seeds",
        "plot_true_graph",
        "plot_tsne_stages",
    ),
    "feature_figure": ("plot_feature",),
    "figures": (
        "plot_components",
        "plot_convergence",
        "plot_embedding",
        "plot_graph",
        "plot_label_curve",
    ),
    "of_model": ("report_from_model",),
    "of_run": ("report_from_run",),
    "style": ("save_figure",),
    "tables": ("ScoreTable", "run_tables", "score_tables"),
    "text": ("plain",),
    "write": ("model_report", "write_report"),
}

__all__ = [
    "Component",
    "ReportData",
    "ScoreTable",
    "describe_components",
    "model_report",
    "plain",
    "plot_ablation",
    "plot_adjacency",
    "plot_components",
    "plot_convergence",
    "plot_embedding",
    "plot_feature",
    "plot_graph",
    "plot_iterations",
    "plot_label_curve",
    "plot_rank_curve",
    "plot_seeds",
    "plot_true_graph",
    "plot_tsne_stages",
    "report_from_model",
    "report_from_run",
    "run_tables",
    "save_figure",
    "score_tables",
    "write_report",
]


def __getattr__(name: str) -> Any:
    for module, names in _WHERE.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
