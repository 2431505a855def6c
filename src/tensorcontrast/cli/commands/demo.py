"""The demonstration behind ``make demo``: features and answers of real recordings with few labels.

Smartwatch recordings of seven exercises by ten people (synthetic recordings where those are not
installed) are split by subject; features are learned without labels from five people, a logistic
classifier is trained on labelled windows of two others, and tested on three never seen. It ends
with answers: a classifier of 60 labels says what the people whom it has not seen did when.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tensorcontrast.cli.commands.bench import execute, show_run
from tensorcontrast.cli.shared.session import Session, listing, safe

if TYPE_CHECKING:
    from tensorcontrast.classify.evaluation import AnswerScores
    from tensorcontrast.evaluate.config import BenchConfig
    from tensorcontrast.recordings import Recordings

__all__ = ["configuration", "demo"]

SPLITS = (
    "32 features learned without labels from half of the people, a logistic classifier on labelled "
    "windows of 20 %, tested on people never seen."
)


#: Labels of the classifier that gives answers, and the share of people to whom it gives them.
N_LABELS, TEST_SHARE = 60, 0.3


def configuration(**changes: Any) -> BenchConfig:
    """Return the benchmark of the demonstration, on what is installed."""
    from tensorcontrast.datasets import load_watch
    from tensorcontrast.errors import DataNotFoundError
    from tensorcontrast.evaluate.presets import preset

    try:
        load_watch(download=False)
    except DataNotFoundError:
        title = "Features of synthetic recordings with few labels"
        options = {"n_samples": 1200, "n_classes": 5, "n_subjects": 10}
        changes = {
            "datasets": [{"name": "synthetic", "options": options}],
            "title": title,
        } | changes
    return preset("demo", **changes)


def demo(
    session: Session,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FOLDER", help="Where to write.")
    ] = Path("demo-report"),
    jobs: Annotated[
        int | None,
        typer.Option("--jobs", "-j", metavar="N", help="Fits at a time; -1: all processors."),
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Compute anew what an earlier demonstration left.")
    ] = False,
) -> None:
    """Compare five methods on embedded recordings, and give answers; ends in about two minutes.

    CPD, ATD, PLC of the paper, PLC and PCA on smartwatch recordings of ten people, at three label
    budgets, with a table here and a report to look at. Then a classifier of 60 labels answers for
    people it has not seen, with a confusion matrix and a timeline.
    """
    config = configuration()
    if config.datasets[0].name == "synthetic":
        session.warn(
            "the smartwatch recordings are not installed (pip install 'tensorcontrast[data]'); "
            "synthetic ones take their place"
        )
    session.note(SPLITS)
    run = execute(session, config, output / "run", jobs=jobs, fresh=fresh)
    show_run(session, run, report=output)
    if run.ok:
        _give_answers(session, config, output)


def _give_answers(session: Session, config: BenchConfig, folder: Path) -> None:
    """Train with 60 labels, answer for people who were not seen, write the answers and a picture.

    With ``--json``, whose one object is the run's, only the files are written.
    """
    import numpy as np

    from tensorcontrast.classify import ContrastiveClassifier
    from tensorcontrast.classify.evaluation import score_answers
    from tensorcontrast.evaluate import data
    from tensorcontrast.evaluate.protocol import label_budget
    from tensorcontrast.report.style import save_figure
    from tensorcontrast.report.timeline_figure import plot_timeline

    rec = data.load(config.datasets[0])
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
    if not session.as_json:
        _tell(session, scores, int((~unseen).sum()), folder)


def _in_sequence(rec: Recordings) -> Recordings:
    """Join the recordings of a person into one session, one after the other."""
    import numpy as np

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
