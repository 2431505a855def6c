"""The demonstration behind ``make demo``: features and answers of real recordings with few labels.

Smartwatch recordings of seven exercises by ten people (synthetic recordings where those are not
installed) are split by subject; features are learned without labels from five people, a logistic
classifier is trained on labelled windows of two others, and tested on three never seen. It ends
with answers: a classifier of 60 labels says what the people whom it has not seen did when.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from tensorcontrast.cli.shared.session import Code, Session, UsageFailure, listing, safe
from tensorcontrast.errors import DataNotFoundError
from tensorcontrast.io.atomic import atomic_write

if TYPE_CHECKING:
    from tensorcontrast.classify.evaluation import AnswerScores
    from tensorcontrast.evaluate.benchmark import Benchmark
    from tensorcontrast.recordings import Recordings

__all__ = ["benchmark", "demo"]

SPLITS = (
    "32 features learned without labels from half of the people, a logistic classifier on labelled "
    "windows of 20 %, tested on people never seen."
)

#: Labels of the classifier that gives answers, and the share of people to whom it gives them.
N_LABELS, TEST_SHARE = 60, 0.3


def benchmark() -> Benchmark:
    """Return the comparison of the demonstration, on what is installed."""
    from tensorcontrast.datasets import load_watch
    from tensorcontrast.evaluate.benchmark import Benchmark, Dataset, Method

    # Three of the ten people to test on: one alone is chance.
    people = (0.5, 0.2, 0.3)
    dataset = Dataset("watch", "watch", fractions=people)
    try:
        load_watch(download=False)
    except DataNotFoundError:
        options = {"n_samples": 1200, "n_classes": 5, "n_subjects": 10}
        dataset = Dataset("synthetic", "synthetic", options=options, fractions=people)
    methods = [
        Method("CPD", "cpd"),
        Method("ATD", "atd"),
        Method("PLC (paper)", "plc-paper"),
        Method("PLC", "plc"),
        Method("PCA", "pca"),
    ]
    return Benchmark([dataset], methods, budgets=[30, 60, "100%"], draws=3)


def demo(
    session: Session,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FOLDER", help="Where to write.")
    ] = Path("demo-report"),
    jobs: Annotated[
        int,
        typer.Option("--jobs", "-j", metavar="N", help="Fits at a time; -1: all processors."),
    ] = -1,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Compute anew what an earlier demonstration left.")
    ] = False,
) -> None:
    """Compare five methods on embedded recordings, and give answers; ends in about two minutes.

    CPD, ATD, PLC of the paper, PLC and PCA on smartwatch recordings of ten people, at three label
    budgets, as a table and a figure. Then a classifier of 60 labels answers for people it has not
    seen, with a confusion matrix, a timeline and a report of what it learned.
    """
    from tensorcontrast.evaluate.benchmark import run
    from tensorcontrast.report.figures import plot_label_curve
    from tensorcontrast.report.style import save_figure
    from tensorcontrast.report.tables import score_table

    if jobs == 0:
        raise UsageFailure("--jobs 0 computes nothing; give a number, or -1 for all processors")
    wanted = benchmark()
    name = wanted.datasets[0].name
    if name == "synthetic":
        session.warn(
            "the smartwatch recordings are not installed (pip install 'tensorcontrast[data]'); "
            "synthetic ones take their place"
        )
    session.note(SPLITS)
    output = output.expanduser()
    results = output / "results.jsonl"
    if fresh:
        results.unlink(missing_ok=True)
    with session.progress("fits") as update:

        def show(done: int, total: int, text: str) -> None:
            update(done=done, total=total, text=f"{done}/{total} fits: {text}")

        cells = run(wanted, results, n_jobs=jobs, progress=show)
    good = [cell for cell in cells if not cell.error]
    for cell in {cell.method: cell for cell in cells if cell.error}.values():
        session.warn(f"{cell.method}, seed {cell.seed}, failed: {cell.error}")
    if len(good) < len(cells):
        session.exit_code = Code.PARTIAL if good else Code.FAILED
    if not good:
        return
    table = score_table(good, f"Accuracy on {name}, mean ± sd over {len(wanted.seeds)} seeds")
    with atomic_write(output / "accuracy.md") as stream:
        stream.write(f"{table.markdown()}\n".encode())
    save_figure(plot_label_curve(good), output, "label-curve", ["png"])
    report = _give_answers(session, wanted, output, table)
    session.result(
        {
            "results": str(results),
            "cells": len(good),
            "failed": [{"method": c.method, "message": c.error} for c in cells if c.error],
            "table": {"head": list(table.head), "rows": [list(row) for row in table.rows]},
            "report": str(report),
            "seconds": round(session.seconds, 3),
        },
        safe(f"{session.seconds:.0f} s. Look at {report}"),
    )


def _give_answers(session: Session, wanted: Benchmark, folder: Path, table: Any) -> Path:
    """Train with 60 labels, answer for people who were not seen; write answers and report."""
    from tensorcontrast.classify import ContrastiveClassifier
    from tensorcontrast.classify.evaluation import score_answers
    from tensorcontrast.evaluate.protocol import label_budget
    from tensorcontrast.report.style import save_figure
    from tensorcontrast.report.timeline_figure import plot_timeline
    from tensorcontrast.report.write import model_report

    rec = wanted.datasets[0].load()
    assert rec.y is not None and rec.groups is not None
    people = np.random.default_rng(0).permutation(np.unique(rec.groups))
    unseen = np.isin(rec.groups, people[: max(1, round(TEST_SHARE * len(people)))])
    train, test = rec[~unseen], _in_sequence(rec[unseen])
    assert train.y is not None and test.y is not None
    y = np.full(len(train), -1)
    chosen = label_budget(train.y, N_LABELS, seed=0)
    y[chosen] = train.y[chosen]
    with session.progress(f"answers from {N_LABELS} labels"):
        model = ContrastiveClassifier(random_state=0).fit(train._with(y=y))
        answers = model.timeline(test)
        names = np.array([*(test.classes or map(str, range(test.n_classes)))])
        label, share, classes = answers.label, answers.probabilities, answers.classes
        scores = score_answers(names[test.y], label, share, classes, test.groups)
        sure = np.eye(test.n_classes)[test.y]
        truth = type(answers).from_answers(test, names[test.y], sure, names.tolist())
        answers.merged().write(folder / "answers.csv")
        save_figure(plot_timeline(answers, truth), folder, "timeline", ["png"])
        report = model_report(model, test, folder, figures=False, diagnose=False)
    if not session.as_json:
        session.out.print(table.rich())
        _tell(session, scores, int((~unseen).sum()), folder)
    return report


def _in_sequence(rec: Recordings) -> Recordings:
    """Join the recordings of a person into one session, one after the other."""
    start, source = rec.columns.get("start"), rec.columns.get("recording")
    step = rec.n_times
    if start is not None and source is not None and len(rec) > 1 and source[0] == source[1]:
        step = int(start[1] - start[0])
    assert rec.groups is not None
    person = np.array([f"person {group}" for group in rec.groups.tolist()])
    place = np.zeros(len(rec), dtype=np.int64)
    for name in np.unique(person):
        own = person == name
        place[own] = np.arange(own.sum()) * step
    return rec._with(columns={**rec.columns, "recording": person, "start": place})


def _tell(session: Session, scores: AnswerScores, n_windows: int, folder: Path) -> None:
    short = [str(safe(name, 12)) for name in scores.classes]
    matrix = listing("did \\ answer", *short, numbers=tuple(short))
    for name, counts in zip(scores.classes, scores.confusion.tolist(), strict=True):
        matrix.add_row(safe(name, 24), *(str(count) for count in counts))
    session.out.print(
        f"{N_LABELS} labels among {n_windows:,} windows, answers for {scores.n_windows:,} windows "
        f"of {len(scores.by_group)} people never seen: accuracy {scores.accuracy:.3f} (always the "
        f"largest class: {scores.majority:.3f}), calibration error {scores.calibration_error:.3f}"
    )
    session.out.print(matrix)
    session.out.print(
        safe(f"What they did when: {folder / 'answers.csv'}, {folder / 'timeline.png'}")
    )
