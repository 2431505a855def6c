"""``tensorcontrast suggest``: which windows to label next, as a table to fill in."""

from __future__ import annotations

import csv
import io
import warnings
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from tensorcontrast.cli.shared import data as recordings
from tensorcontrast.cli.shared import stored
from tensorcontrast.cli.shared.models import Model, load
from tensorcontrast.cli.shared.options import Force
from tensorcontrast.cli.shared.session import Session, UsageFailure, facts, listing, safe
from tensorcontrast.cli.shared.stored import ManyData, read_all
from tensorcontrast.errors import FileError, InvalidInputError, TensorContrastWarning
from tensorcontrast.io.atomic import atomic_write
from tensorcontrast.utils.names import csv_text

if TYPE_CHECKING:
    from tensorcontrast.classify import AccuracyEstimate
    from tensorcontrast.readers.label_table import LabelRow

__all__ = ["suggest"]

Array = NDArray[Any]
SUGGESTIONS = "Suggestions"
DELIMITERS = {".csv": ",", ".tsv": "\t"}
COLUMNS = ("recording", "start_s", "end_s", "label", "guess", "probability", "window")
#: Labels by which it is judged whether more of them change answers.
LAST_LABELS = 10
#: Windows, and bytes of windows, that suggestions are made from, at most.
MAX_WINDOWS, MAX_BYTES = 10_000, 512 * 2**20


def _option(*names: str, help: str, **more: Any) -> Any:
    return typer.Option(*names, help=help, rich_help_panel=SUGGESTIONS, show_default=False, **more)


def suggest(
    session: Session,
    model: Model,
    data: ManyData,
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Table to write and fill in: .csv or .tsv.",
            show_default=False,
        ),
    ],
    count: Annotated[
        int, _option("--count", "-n", metavar="N", help="Windows to suggest (20).", min=1)
    ] = 20,
    skip: Annotated[
        Path | None,
        _option(
            "--skip",
            metavar="FILE",
            help="An earlier table of suggestions; its rows without a label are not suggested "
            "again.",
        ),
    ] = None,
    with_labels: Annotated[
        bool,
        _option("--with-labels", help="Also write the rows of --labels FILE, so one file has all."),
    ] = False,
    seed: Annotated[int, _option("--seed", "-s", metavar="N", help="Seed (0).", min=0)] = 0,
    reading: recordings.Reading = recordings.Reading(),  # noqa: B008
    force: Force = False,
) -> None:
    """Suggest which windows to label next, the most useful first.

    The table has recording, start_s, end_s and an empty label; fill it in and pass it to train
    with --labels. Rows that stay empty are not used. Windows that have a label already, by
    --labels FILE or in DATA, are not suggested. MODEL is a file of train, or of fit before there
    are labels.
    """
    from tensorcontrast.io.model_files import load_model
    from tensorcontrast.readers.label_table import is_label_table, read_label_table

    if output.suffix.lower() not in DELIMITERS:
        raise UsageFailure(f"-o {output.name}: suggestions are written as .csv or .tsv")
    rows = read_label_table(str(reading.labels)) if is_label_table(reading.labels) else None
    if with_labels and rows is None:
        raise UsageFailure("--with-labels needs --labels FILE, a table of labels")
    target = session.target(output, force=force)
    fitted = load_model(model.expanduser())
    features = load(model)
    rec = read_all(session, data, reading, model=features, gaps=features.missing == "mask")
    if rec.fs is None or "start" not in rec.columns or "recording" not in rec.columns:
        raise InvalidInputError(
            "the windows do not say when they are from, so that a table cannot name them; use "
            "continuous recordings of a known rate (pass --fs)"
        )
    rec, numbers = looked_at(session, rec, features)
    state = _State.of_windows(session, fitted, features, rec)
    closed = _skipped(rec, skip) | _touched(rec, rows)
    found = _suggested(session, state, rec, count, seed, closed)
    table = _table(rec, found, numbers, state)
    progress = _progress_of(state, rec, rows, reading.label_share)
    _write(target, table, rows or [] if with_labels else [])
    _tell(session, target, model, rec, table, int((state.y >= 0).sum()), progress)


# ------------------------------------------------------------------------------------ windows


@dataclass(frozen=True)
class _State:
    """What is known of the windows.

    Attributes
    ----------
    rows : (n, q) array
        Rows that distances are taken in and a logistic regression sees.
    y : (n,) int array
        Labels; −1 for unknown.
    names : tuple of str
        Classes in the order of ``probability``.
    probability : (n, k) array or None
        Of each class; None where there is no classifier and labels are of less than two classes.
    by_margin : bool
        Whether there are enough labels to go by the probabilities.
    """

    rows: Array
    y: NDArray[np.int64]
    names: tuple[str, ...]
    probability: Array | None
    by_margin: bool

    @classmethod
    def of_windows(cls, session: Session, model: Any, features: Any, rec: Any) -> _State:
        from tensorcontrast.classify import ContrastiveClassifier
        from tensorcontrast.classify.suggest import (
            MIN_LABELS_FOR_MARGIN,
            class_probabilities,
            feature_rows,
        )

        y = np.full(len(rec), -1) if rec.y is None else np.asarray(rec.y)
        if not isinstance(model, ContrastiveClassifier):
            rows = feature_rows(stored.features_of(session, features, rec))
            names = tuple(map(str, rec.classes or range(int(y.max()) + 1)))
            found = class_probabilities(rows, y, len(names))
            return cls(rows, y, names, found, int((y >= 0).sum()) >= MIN_LABELS_FOR_MARGIN)
        parts, done = [], 0
        with session.progress("windows", total=len(rec)) as update:
            for block in stored.window_blocks(rec, gaps=features.missing == "mask"):
                parts.append(model.rows(block.X).astype(np.float32))
                done += len(block)
                update(done=done)
        rows = np.concatenate(parts)
        enough = int(model.n_labels_.sum()) >= MIN_LABELS_FOR_MARGIN
        return cls(rows, y, tuple(map(str, model.classes_)), model.proba_of_rows(rows), enough)

    def guess(self, window: int) -> tuple[str, float | None]:
        """Most likely class of a window and its probability."""
        if self.probability is None:
            return "", None
        best = int(self.probability[window].argmax())
        return self.names[best], round(float(self.probability[window, best]), 4)


def looked_at(
    session: Session, rec: Any, features: Any, max_windows: int = MAX_WINDOWS
) -> tuple[Any, NDArray[np.int64]]:
    """Take windows into memory: all, or of a large data set the labelled and some of the others."""
    row = max(1, rec.n_channels * rec.n_times * rec.X.dtype.itemsize)
    most = max(1, min(max_windows, MAX_BYTES // row))
    numbers = np.arange(len(rec))
    if len(rec) > most:
        labelled = np.flatnonzero(rec.y >= 0) if rec.y is not None else numbers[:0]
        others = np.setdiff1d(numbers, labelled)
        if len(labelled) > most // 2:
            labelled = labelled[np.linspace(0, len(labelled) - 1, most // 2).astype(np.intp)]
        count = min(len(others), most - len(labelled))
        others = others[np.linspace(0, len(others) - 1, count).astype(np.intp)]
        numbers = np.union1d(labelled, others)
        session.note(f"suggestions are from {len(numbers):,} of {len(rec):,} windows, evenly taken")
    return stored.taken(rec, numbers, gaps=features.missing == "mask"), numbers


def _skipped(rec: Any, path: Path | None) -> NDArray[np.bool_]:
    """Mask of the windows whose label was left empty in an earlier table."""
    from tensorcontrast.readers.label_table import labels_by_time, read_label_table

    out = np.zeros(len(rec), dtype=bool)
    if path is None:
        return out
    rows = read_label_table(path, empty=True)
    if rows:
        codes, _ = labels_by_time(rec, [replace(r, label="?") for r in rows], where=str(path))
        out[codes >= 0] = True
    return out


def _touched(rec: Any, rows: list[LabelRow] | None) -> NDArray[np.bool_]:
    """Mask of the windows that a labelled stretch reaches into, which train would refuse twice."""
    from tensorcontrast.readers.label_table import labels_by_time

    if rows is None:
        return np.zeros(len(rec), dtype=bool)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TensorContrastWarning)  # reported when labels were read
        any_label = [replace(r, label="?") for r in rows]
        codes, _ = labels_by_time(rec, any_label, where="--labels", min_share=1e-6)
    return np.asarray(codes >= 0)


def _suggested(
    session: Session, state: _State, rec: Any, count: int, seed: int, closed: NDArray[np.bool_]
) -> NDArray[np.intp]:
    """Windows to label: none shares time with another, or with a labelled one."""
    from tensorcontrast.classify.suggest import order_rows, reduced_rows

    source = np.unique(np.asarray(rec.columns["recording"]).astype(np.str_), return_inverse=True)[1]
    start = np.asarray(rec.columns["start"], dtype=np.int64)
    labelled = np.flatnonzero(state.y >= 0)
    closed = closed | _sharing_time(source, start, labelled, rec.n_times)
    left = int((~closed).sum())
    if not left:
        raise InvalidInputError(
            f"none of the {len(rec):,} windows is left to label: {len(labelled):,} have a label, "
            "and the others overlap these or were skipped; name other recordings"
        )
    if state.by_margin and state.probability is not None:
        probability = state.probability
    else:
        probability = np.full((len(rec), 2), 0.5)  # every window counts the same
    near = reduced_rows(state.rows)
    chosen: list[int] = []
    marked = state.y.copy()  # what covers its cluster: labelled or suggested
    while len(chosen) < count:
        new = order_rows(
            near,
            marked,
            count - len(chosen),
            rec.groups,
            exclude=closed,
            probability=probability,
            random_state=seed,
        )
        if not len(new):
            break
        for window in new[~closed[new]].tolist():
            if not closed[window]:  # which an earlier one of the same round may have done
                chosen.append(window)
                marked[window] = 0
                closed |= _sharing_time(source, start, np.array([window]), rec.n_times)
    if len(chosen) < count:
        session.note(
            f"{len(chosen)} of {count} suggestions: the other windows overlap these or labelled "
            "ones, or are their near-duplicates"
        )
    return np.array(chosen, dtype=np.intp)


def _sharing_time(source: Array, start: Array, labelled: Array, n_times: int) -> NDArray[np.bool_]:
    """Mask of the windows that share time with one of these, in the same recording."""
    out = np.zeros(len(start), dtype=bool)
    for one in np.unique(source[labelled]):
        own = np.flatnonzero(source == one)
        begins = np.sort(start[labelled[source[labelled] == one]])
        after = np.searchsorted(begins, start[own])
        last, following = (
            begins[np.maximum(after - 1, 0)],
            begins[np.minimum(after, len(begins) - 1)],
        )
        gap = np.minimum(np.abs(start[own] - last), np.abs(start[own] - following))
        out[own] = gap < n_times
    return out


# ------------------------------------------------------------------------------------ stopping


@dataclass(frozen=True)
class _Progress:
    """How far the labels have come."""

    accuracy: AccuracyEstimate
    changed: float | None

    @property
    def text(self) -> str:
        """Both in words."""
        if self.accuracy.accuracy is None:
            return "labels of two classes, two each, are needed for an estimate"
        return (
            f"{self.accuracy.accuracy:.0%} of {self.accuracy.n} labelled windows, each held out "
            f"(95 % interval {self.accuracy.low:.0%} to {self.accuracy.high:.0%})"
        )


def _progress_of(
    state: _State, rec: Any, rows: list[LabelRow] | None, share: float | None
) -> _Progress:
    """Estimate the accuracy, and compare answers with and without the last labels."""
    from tensorcontrast.classify.suggest import class_probabilities, estimate_from_rows
    from tensorcontrast.readers.label_table import labels_by_time

    found = estimate_from_rows(state.rows, state.y, rec.groups, random_state=0)
    changed = None
    if rows is not None and len(rows) > LAST_LABELS:
        more = {} if share is None else {"min_share": share}
        answers = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TensorContrastWarning)
            for some in (rows[:-LAST_LABELS], rows):
                try:
                    y, classes = labels_by_time(rec, some, where="--labels", **more)
                except FileError:  # none of these is in the windows that were looked at
                    break
                p = class_probabilities(state.rows, y, len(classes))
                if p is None:
                    break
                answers.append(np.array(classes)[p.argmax(axis=1)])
        if len(answers) == 2:
            changed = float(np.mean(answers[0] != answers[1]))
    return _Progress(found, changed)


# -------------------------------------------------------------------------------------- output


def _table(rec: Any, found: NDArray[np.intp], numbers: Array, state: _State) -> list[list[Any]]:
    begin = np.asarray(rec.columns["start"], dtype=np.float64) / rec.fs
    source = np.asarray(rec.columns["recording"]).astype(np.str_)
    out: list[list[Any]] = []
    for window in found.tolist():
        guess, probability = state.guess(window)
        times = [round(float(t), 6) for t in (begin[window], begin[window] + rec.n_times / rec.fs)]
        out.append([str(source[window]), *times, "", guess, probability, int(numbers[window])])
    return out


def _write(target: Path, table: list[list[Any]], rows: list[LabelRow]) -> None:
    """Write the suggestions, and after them rows that have a label."""
    for row in rows:
        end = "" if row.end_s is None else row.end_s
        table = [*table, [row.recording or "", row.start_s, end, row.label, "", None, ""]]
    text = io.StringIO(newline="")
    writer = csv.writer(text, delimiter=DELIMITERS[target.suffix.lower()], lineterminator="\n")
    writer.writerow(COLUMNS)
    for cells in table:
        writer.writerow([csv_text(v) if isinstance(v, str) else v for v in cells])
    with atomic_write(target) as stream:
        stream.write(text.getvalue().encode())


def _tell(
    session: Session,
    target: Path,
    model: Path,
    rec: Any,
    table: list[list[Any]],
    n_labels: int,
    progress: _Progress,
) -> None:
    shown: dict[str, object] = {
        "to label": safe(target),
        "size": f"{len(table)} of {len(rec):,} windows, {n_labels:,} are labelled",
    }
    if n_labels:
        shown["accuracy"] = progress.text
    if progress.changed is not None:
        shown["last labels"] = (
            f"the last {LAST_LABELS} changed {progress.changed:.1%} of the answers"
        )
    shown["next"] = "fill in the column label, then: tensorcontrast train DATA --labels FILE"
    listed_ = listing("recording", "start_s", "end_s", "guess", "probability",
                      numbers=("start_s", "end_s", "probability"))  # fmt: skip
    for source, start, end, _, guess, probability, _ in table[:10]:
        sure = "" if probability is None else f"{probability:.2f}"
        listed_.add_row(safe(source, 40), f"{start:g}", f"{end:g}", safe(guess, 40), sure)
    session.result(
        {
            "suggestions": str(target),
            "model": str(model),
            "data": rec.name,
            "windows": len(rec),
            "labelled": n_labels,
            "rows": [dict(zip(COLUMNS, row, strict=True)) for row in table],
            "accuracy": asdict(progress.accuracy),
            "changed_by_last_labels": progress.changed,
            "seconds": round(session.seconds, 3),
        },
        facts({**shown, "time": f"{session.seconds:.1f} s"}),
        listed_,
        summary=True,
    )
