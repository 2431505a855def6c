"""Commands that learn and give answers: several DATA as one, tables of labels, trained models."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tensorcontrast.cli.shared import data as recordings
from tensorcontrast.cli.shared.failures import UsageFailure
from tensorcontrast.cli.shared.options import DATASETS, complete_data
from tensorcontrast.cli.shared.session import Session
from tensorcontrast.errors import InvalidInputError

if TYPE_CHECKING:
    from tensorcontrast.classify import ContrastiveClassifier
    from tensorcontrast.distributed.store import StoredRecordings
    from tensorcontrast.features import ContrastiveFeatures
    from tensorcontrast.readers.label_table import LabelRow
    from tensorcontrast.recordings import Recordings

__all__ = ["ManyData", "load_classifier", "read_all"]

ManyData = Annotated[
    list[str],
    typer.Argument(
        metavar="DATA...",
        help="One or more of: npz, CSV, Parquet, EDF/BDF, WFDB, .ts, a folder, a pattern such as "
        f"'data/*.csv', a built-in dataset ({', '.join(DATASETS)}); or one Zarr store.",
        autocompletion=complete_data,
        show_default=False,
    ),
]


def read_all(
    session: Session,
    data: list[str],
    options: recordings.Reading,
    *,
    model: ContrastiveFeatures | None = None,
    gaps: bool = False,
) -> Any:
    """Read every DATA as one data set, with the labels of ``--labels FILE`` where that is given.

    Of a Zarr store no signals are read; its labels are.
    """
    from tensorcontrast.distributed.store import is_store
    from tensorcontrast.readers.label_table import (
        is_label_table,
        label_recordings,
        read_label_table,
    )
    from tensorcontrast.recordings import Recordings

    table = options.labels if is_label_table(options.labels) else None
    rows = None
    if table is not None:
        rows = read_label_table(table)
        options = replace(options, labels=None)
    if model is not None and model.fs_ is not None and options.step is not None:
        options = replace(options, step=_step_in_samples(options.step, model.fs_))
    stores = [name for name in data if is_store(name)]
    if stores and len(data) > 1:
        raise UsageFailure(
            f"{stores[0]} is a store, which is a data set of its own; name it alone, or convert "
            "all recordings into one store"
        )
    if stores:
        return _open_store(session, stores[0], options, model, table, rows)
    recs = [recordings.read(session, name, options, model=model, gaps=gaps) for name in data]
    for name, rec in zip(data, recs, strict=True):
        _check_alike(rec, recs[0], name, data[0])
    rec = recs[0] if len(recs) == 1 else Recordings.concat(recs)
    if rows is None:
        return rec
    share = {} if options.label_share is None else {"min_share": options.label_share}
    return label_recordings(rec, rows, where=str(table), **share)


def _open_store(
    session: Session,
    name: str,
    options: recordings.Reading,
    model: ContrastiveFeatures | None,
    table: str | None,
    rows: list[LabelRow] | None,
) -> StoredRecordings:
    """Open a store, for a model in the form that it was fitted on, with the labels of a table."""
    from tensorcontrast.cli.shared import stored
    from tensorcontrast.cli.shared.cluster import Cluster, open_data
    from tensorcontrast.readers.label_table import labels_by_time

    share = {} if options.label_share is None else {"min_share": options.label_share}
    if rows is not None:
        options = replace(options, label_share=None)
    rec: Any
    if model is None:
        rec = open_data(name, options, Cluster())
    else:
        rec = stored.opened(session, name, options, Cluster(), model=model)
    if rows is not None:
        y, classes = labels_by_time(rec, rows, where=str(table), **share)
        rec = replace(rec, y=y, classes=classes)
    opened: StoredRecordings = rec
    return opened


def _step_in_samples(step: str, fs: float) -> str:
    """Step in samples, as the windows of a model are; what is no number is reported later."""
    try:
        seconds = float(step.removesuffix("s"))
    except ValueError:
        return step
    return f"{max(1, round(seconds * fs))}pt" if 0 < seconds < 1e9 else step


def _check_alike(rec: Recordings, first: Recordings, name: str, first_name: str) -> None:
    if rec.fs != first.fs:
        rates = ["an unknown rate" if r.fs is None else f"{r.fs:g} Hz" for r in (rec, first)]
        raise InvalidInputError(
            f"{name} has {rates[0]}, but {first_name} has {rates[1]}; bring both to one "
            "rate with --resample HZ, pass --fs where the rate is unknown, or leave one out"
        )
    if rec.n_times != first.n_times:
        raise InvalidInputError(
            f"{name} has windows of {rec.n_times} samples, but {first_name} of {first.n_times}; "
            "cut both with --window"
        )


def load_classifier(path: Path) -> ContrastiveClassifier:
    """Read a model that gives answers."""
    from tensorcontrast.classify import ContrastiveClassifier
    from tensorcontrast.io.model_files import load_model

    model = load_model(path.expanduser())
    if not isinstance(model, ContrastiveClassifier):
        raise InvalidInputError(
            f"{path} holds a {type(model).__name__}, which knows no classes; write a model that "
            "does with: tensorcontrast train DATA --labels LABELS -o model.tcm"
        )
    return model
