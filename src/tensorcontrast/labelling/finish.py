"""The end of labelling: the model file, the table of labels, and a report of both."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from tensorcontrast.classify.evaluation import AnswerScores, score_answers, what_decides
from tensorcontrast.io.atomic import atomic_write
from tensorcontrast.labelling.tables import export_csv
from tensorcontrast.recordings import Recordings
from tensorcontrast.report.data import FigureItem, ReportData, environment
from tensorcontrast.report.of_answers import MAX_NAME, WIDTH, plot_confusion, plot_reliability
from tensorcontrast.report.style import BLUE, MUTED, new_figure, styled
from tensorcontrast.report.text import figure_text
from tensorcontrast.report.write import write_report

if TYPE_CHECKING:
    from tensorcontrast.classify import ContrastiveClassifier
    from tensorcontrast.labelling.project import Project

__all__ = ["HeldOut", "write_results"]


class HeldOut(NamedTuple):
    """Labels, and answers of models that have not seen them."""

    labels: NDArray[np.str_]
    answers: NDArray[Any]
    groups: NDArray[Any] | None


def write_results(
    rec: Recordings,
    project: Project,
    model: ContrastiveClassifier,
    labels: Mapping[int, str],
    target: Path,
    *,
    held: HeldOut,
    command: str = "",
) -> list[Path]:
    """Write model, labels and report next to each other; returns the files, the model first."""
    table, page = target.with_suffix(".csv"), target.with_suffix(".html")
    if table.exists() and table.name not in project.about().get("tables", []):
        table = target.with_name(f"{target.stem}-labels.csv")
    model.save(target)
    with atomic_write(table) as stream:
        stream.write(export_csv(rec, labels))
    project.remember("tables", [table.name])
    write_report(_report(rec, project, model, labels, held, command), page, figures=False)
    return [target, page, table]


def _report(
    rec: Recordings,
    project: Project,
    model: ContrastiveClassifier,
    labels: Mapping[int, str],
    held: HeldOut,
    command: str,
) -> ReportData:
    checked, curve = model.validation_, project.estimates()
    given = project.labels()
    seconds = [label.seconds for label in given.values() if label.seconds is not None]
    people = sorted({label.who for label in given.values() if label.who})
    by = "other subjects" if checked["by"] == "group" else "other windows"
    figures = []
    if curve:
        figures.append(
            FigureItem(
                "curve",
                "Accuracy by number of labels",
                "Accuracy on labelled windows that were held out, with its 95 % interval.",
                plot_curve(curve),
            )
        )
    if checked["accuracy"] is not None:
        figures.append(
            FigureItem(
                "confusion",
                "Confusion matrix",
                "Labels (rows) by answers of models that have not seen the window (columns).",
                plot_confusion(_scores(model, held)),
            )
        )
        figures.append(
            FigureItem(
                "reliability",
                "Calibration",
                "Accuracy against probability, of the same answers.",
                plot_reliability(_scores(model, held)),
            )
        )
    figures.append(
        FigureItem(
            "labels", "Labels by class", "Number of labelled windows.", plot_counts(labels.values())
        )
    )
    accuracy = "—"
    if checked["accuracy"] is not None:
        accuracy = f"{checked['accuracy']:.3f} on {checked['n_windows']} windows"
    return ReportData(
        title=f"Labels of {rec.name or 'recordings'}",
        question=[
            "What was labelled, and how well does a classifier of these labels answer?",
            f"Accuracy is measured on labelled windows, by models trained on {by}. Suggested "
            "windows are harder than others, so that it may be higher on all windows.",
        ],
        facts=[
            ("windows", f"{len(rec):,}"),
            ("labels", f"{len(labels):,}"),
            ("classes", str(len(set(labels.values())))),
            ("accuracy, held out", accuracy),
            ("labelled by", ", ".join(people) or "—"),
            ("time per label", f"{np.median(seconds):.1f} s" if seconds else "—"),
            ("time in all", f"{sum(seconds) / 60:.1f} min" if seconds else "—"),
            ("decided by", what_decides(model)["classifier"]),
        ],
        figures=figures,
        notes=[f"Single events, with who and when, are in {project.path.name}."],
        environment=environment(),
        command=command,
    )


def _scores(model: ContrastiveClassifier, held: HeldOut) -> AnswerScores:
    names = [str(name) for name in model.classes_.tolist()]
    answers = np.array(names)[held.answers.argmax(axis=1)]
    return score_answers(held.labels, answers, held.answers, names, held.groups)


@styled
def plot_curve(curve: list[tuple[int, float, float, float]]) -> Figure:
    """Draw the estimated accuracy over the number of labels."""
    figure = new_figure(WIDTH, 3.0)
    axis: Any = figure.subplots()
    n, accuracy, low, high = (np.array(v) for v in zip(*curve, strict=True))
    axis.fill_between(n, low, high, color=BLUE, alpha=0.18, linewidth=0)
    axis.plot(n, accuracy, color=BLUE, marker="o" if len(n) < 30 else None, markersize=3)
    axis.set_ylim(0, 1.02)
    axis.set_xlabel("labels")
    axis.set_ylabel("accuracy")
    return figure


@styled
def plot_counts(labels: Any) -> Figure:
    """Draw the number of labels of each class."""
    names, counts = np.unique(np.array(list(labels), dtype=np.str_), return_counts=True)
    figure = new_figure(WIDTH, 0.9 + 0.28 * len(names))
    axis: Any = figure.subplots()
    axis.barh(range(len(names)), counts, color=BLUE, height=0.7)
    for i, count in enumerate(counts.tolist()):
        axis.text(count, i, f" {count:,}", va="center", fontsize=8, color=MUTED)
    axis.set_yticks(range(len(names)), [figure_text(name, MAX_NAME) for name in names.tolist()])
    axis.set_ylim(len(names) - 0.4, -0.6)
    axis.set_xlim(0, 1.15 * counts.max())
    axis.set_xlabel("labels")
    axis.grid(True, axis="x")
    axis.grid(False, axis="y")
    return figure
