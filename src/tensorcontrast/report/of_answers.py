"""The page of an evaluation of answers: scores, confusion matrix, calibration, subjects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure

from tensorcontrast.report.data import FigureItem, ReportData, environment
from tensorcontrast.report.style import BLUE, GREY, INK, MUTED, VERMILION, new_figure, styled
from tensorcontrast.report.text import plain

if TYPE_CHECKING:
    from tensorcontrast.classify.evaluation import AnswerScores

__all__ = [
    "decision_facts",
    "plot_confusion",
    "plot_curve",
    "plot_reliability",
    "plot_sureness",
    "report_of_answers",
]

#: Longest name on an axis.
MAX_NAME = 20
#: Inches of a figure that a phone shows whole.
WIDTH = 4.2


def report_of_answers(
    scores: AnswerScores,
    *,
    title: str,
    leakage: str = "",
    command: str = "",
    decision: Mapping[str, Any] | None = None,
) -> ReportData:
    """Gather what the page shows.

    Parameters
    ----------
    scores : AnswerScores
    title : str
        Of the page.
    leakage : str
        What train and test share, where that was allowed.
    command : str
        That writes the page again.
    decision : mapping, optional
        See :func:`tensorcontrast.classify.evaluation.what_decides`.
    """
    auc = "—" if scores.macro_auc is None else f"{scores.macro_auc:.3f}"
    figures = [
        FigureItem(
            "confusion",
            "Confusion matrix",
            "True classes (rows) by answers (columns): number of windows, and shade by the share "
            "of the row.",
            plot_confusion(scores),
        ),
        FigureItem(
            "reliability",
            "Calibration",
            "Accuracy of the most likely class against its probability. On the diagonal, "
            f"probabilities can be taken at their word. Expected calibration error: "
            f"{scores.calibration_error:.3f}.",
            plot_reliability(scores),
        ),
        FigureItem(
            "sureness",
            "How sure the answers are",
            "Windows by the probability of their most likely class, right or wrong."
            + (f" {_abstentions(scores)}" if scores.n_unknown else ""),
            plot_sureness(scores),
        ),
        FigureItem(
            "classes",
            "Recall by class",
            "Share of the windows of a class that are answered with it.",
            _bars([(r["class"], r["recall"]) for r in scores.by_class if r["windows"]], "recall"),
        ),
    ]
    if scores.by_group:
        subjects = [(row["group"], row["accuracy"]) for row in scores.by_group]
        figures.append(
            FigureItem(
                "subjects",
                "Accuracy by subject",
                "Share of the windows of each subject that are answered rightly.",
                _bars(subjects, "accuracy"),
            )
        )
    lines = [
        f"{row['class']}: {row['windows']} windows, recall {_number(row['recall'])}, precision "
        f"{_number(row['precision'])}, F1 {_number(row['f1'])}, AUC {_number(row['auc'])}"
        for row in scores.by_class
    ]
    return ReportData(
        title=title,
        question=["How well does the model answer for windows that it was not trained on?"],
        facts=[
            ("windows", f"{scores.n_windows:,}"),
            ("subjects", str(len(scores.by_group) or "not known")),
            ("accuracy", f"{scores.accuracy:.3f}"),
            ("balanced accuracy", f"{scores.balanced_accuracy:.3f}"),
            ("macro F1", f"{scores.macro_f1:.3f}"),
            ("macro AUC", auc),
            ("always the largest class", f"{scores.majority:.3f}"),
            ("calibration error", f"{scores.calibration_error:.3f}"),
            ("without an answer", str(scores.n_unknown)),
            *([] if decision is None else decision_facts(decision)),
        ],
        figures=figures,
        notes=[*lines, *([leakage] if leakage else [])],
        environment=environment(),
        command=command,
    )


@styled
def plot_confusion(scores: AnswerScores) -> Figure:
    """Draw the confusion matrix with the number of windows in each cell."""
    k, width = scores.confusion.shape
    figure = new_figure(max(WIDTH, 1.4 + 0.4 * width), max(3.0, 1.0 + 0.4 * k))
    axis: Any = figure.subplots()
    totals = scores.confusion.sum(axis=1, keepdims=True)
    share = scores.confusion / np.maximum(totals, 1)
    axis.imshow(share, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    for i, j in np.ndindex(k, width):
        if scores.confusion[i, j]:
            ink = "white" if share[i, j] > 0.55 else INK
            axis.text(j, i, str(scores.confusion[i, j]), ha="center", va="center", color=ink)
    names = [plain(name, MAX_NAME) for name in scores.classes]
    axis.set_xticks(range(width), names, rotation=30, ha="right")
    axis.set_yticks(range(k), names[:k])
    axis.set_xlabel("answer")
    axis.set_ylabel("label")
    axis.grid(False)
    return figure


def plot_reliability(scores: AnswerScores) -> Figure:
    """Draw accuracy against probability; points are larger where there are more answers."""
    return plot_curve(scores.reliability)


@styled
def plot_curve(curve: Mapping[str, Any]) -> Figure:
    """Draw a reliability curve, as :func:`reliability_curve` returns it."""
    figure = new_figure(WIDTH, 3.6)
    axis: Any = figure.subplots()
    size = 20 + 180 * curve["count"] / curve["count"].max()
    axis.plot([0, 1], [0, 1], color=GREY, linewidth=1, linestyle=(0, (4, 3)))
    axis.plot(curve["probability"], curve["accuracy"], color=BLUE)
    axis.scatter(curve["probability"], curve["accuracy"], s=size, color=BLUE, alpha=0.8)
    axis.set_xlim(0, 1.02)
    axis.set_ylim(0, 1.02)
    axis.set_xlabel("probability")
    axis.set_ylabel("accuracy")
    return figure


@styled
def plot_sureness(scores: AnswerScores) -> Figure:
    """Draw the number of windows by their probability: right answers, and wrong ones on top."""
    figure = new_figure(WIDTH, 3.0)
    axis: Any = figure.subplots()
    curve = scores.reliability
    middle = np.minimum(np.floor(curve["probability"] * 10), 9) / 10 + 0.05
    right = curve["count"] * curve["accuracy"]
    axis.bar(middle, right, width=0.09, color=BLUE, label="right")
    axis.bar(middle, curve["count"] - right, 0.09, right, color=VERMILION, label="wrong")
    axis.set_xlim(0, 1.02)
    axis.set_xlabel("probability")
    axis.set_ylabel("windows")
    axis.legend(loc="upper left")
    return figure


def _abstentions(scores: AnswerScores) -> str:
    """Say how good the answers are that were given."""
    n = scores.n_windows - scores.n_unknown
    message = f"{scores.n_unknown} of {scores.n_windows} windows have no answer"
    if not n:
        return f"{message}."
    return f"{message}; of the other {n}, {scores.accuracy * scores.n_windows / n:.1%} are right."


def decision_facts(decision: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Say what decides, as facts of a report."""
    rows = [
        ("decided by", decision["classifier"]),
        ("softmax temperature", f"{decision['temperature']:.3g}"),
    ]
    if decision["smooth"]:
        rows.append(("neighbouring windows", "count (Viterbi)"))
    if decision["abstain"] is not None:
        rows.append(("no answer below", f"{decision['abstain']:g}"))
    return rows


@styled
def _bars(rows: list[tuple[str, float]], what: str) -> Figure:
    figure = new_figure(WIDTH, 0.9 + 0.28 * len(rows))
    axis: Any = figure.subplots()
    axis.barh(range(len(rows)), [value for _, value in rows], color=BLUE, height=0.7)
    for i, (_, value) in enumerate(rows):
        axis.text(value + 0.01, i, f"{value:.2f}", va="center", fontsize=8, color=MUTED)
    axis.set_yticks(range(len(rows)), [plain(name, MAX_NAME) for name, _ in rows])
    axis.set_ylim(len(rows) - 0.4, -0.6)
    axis.set_xlim(0, 1.12)
    axis.set_xlabel(what)
    axis.grid(True, axis="x")
    axis.grid(False, axis="y")
    return figure


def _number(value: float | None) -> str:
    return "—" if value is None else f"{value:.3f}"
