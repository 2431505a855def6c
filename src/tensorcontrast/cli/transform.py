"""``tensorcontrast transform``: features of recordings as a file."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from tensorcontrast.cli import data as recordings
from tensorcontrast.cli import model as models
from tensorcontrast.cli.failures import UsageFailure
from tensorcontrast.cli.options import Force
from tensorcontrast.cli.session import Session, facts, safe
from tensorcontrast.errors import FileError
from tensorcontrast.files import atomic_write

if TYPE_CHECKING:
    from tensorcontrast.features import ContrastiveFeatures
    from tensorcontrast.recordings import Recordings

Array = NDArray[Any]

#: Windows of which the features are made between two looks of the progress bar.
BLOCK = 2000


def transform(
    session: Session,
    model: models.Model,
    data: recordings.Data,
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="What to write: .npz, .csv or .parquet.",
            show_default=False,
        ),
    ],
    reading: recordings.Reading = recordings.Reading(),  # noqa: B008
    force: Force = False,
) -> None:
    """Turn recordings into features by a fitted model.

    One row a window, with its label, subject and place where DATA has them. Channels are picked
    by name and longer signals cut as the model needs.
    """
    write = _writer(output)
    target = session.target(output, force=force)
    fitted = models.load(model)
    rec = recordings.read(session, data, reading, model=fitted)
    features = features_of(session, fitted, rec)
    with session.progress(f"writing {target.name}"), atomic_write(target) as stream:
        write(stream, features, rec)
    session.result(
        {
            "features": str(target),
            "model": str(model),
            "data": rec.name,
            "samples": len(features),
            "n_features": features.shape[1],
            "labelled": 0 if rec.y is None else int((rec.y >= 0).sum()),
            "groups": 0 if rec.groups is None else len(np.unique(rec.groups)),
            "seconds": round(session.seconds, 3),
        },
        facts(
            {
                "features": safe(target),
                "size": f"{len(features):,} windows × {features.shape[1]} features",
                "time": f"{session.seconds:.1f} s",
            }
        ),
        summary=True,
    )


def features_of(session: Session, model: ContrastiveFeatures, rec: Recordings) -> Array:
    """Features (n, rank), with progress."""
    parts = []
    with session.progress("features", total=len(rec)) as update:
        for start in range(0, len(rec), BLOCK):
            parts.append(model.transform(rec[start : start + BLOCK]))
            update(done=min(len(rec), start + BLOCK))
    return np.concatenate(parts)


def _writer(path: Path) -> Callable[[IO[bytes], Array, Recordings], None]:
    writers = {".npz": _write_npz, ".csv": _write_csv, ".parquet": _write_parquet}
    if path.suffix.lower() not in writers:
        raise UsageFailure(
            f"-o {path.name}: features are written as .npz, .csv or .parquet; give such a name"
        )
    if path.suffix.lower() == ".parquet":
        _pyarrow()
    return writers[path.suffix.lower()]


def columns(features: Array, rec: Recordings) -> dict[str, Array]:
    """One column a feature, after what is known of each window."""
    table: dict[str, Array] = {}
    if rec.y is not None:
        if rec.classes is not None:
            names = np.array([*rec.classes, ""])
            table["label"] = names[rec.y]  # -1, no label, is the last one
        else:
            table["label"] = rec.y
    if rec.groups is not None:
        table["group"] = rec.groups
    table |= {
        name: values
        for name, values in rec.columns.items()
        if values.ndim == 1 and name not in table
    }
    return table | {f"component_{r}": features[:, r] for r in range(features.shape[1])}


def _write_npz(stream: IO[bytes], features: Array, rec: Recordings) -> None:
    arrays: dict[str, Any] = {"features": features}
    for name in ("y", "groups", "classes"):
        value = getattr(rec, name)
        if value is not None:
            arrays[name] = np.asarray(value)
    taken = {*arrays, "file", "allow_pickle"}
    arrays |= {name: values for name, values in rec.columns.items() if name not in taken}
    np.savez(stream, allow_pickle=False, **arrays)


def _write_csv(stream: IO[bytes], features: Array, rec: Recordings) -> None:
    table = columns(features, rec)
    text = io.TextIOWrapper(stream, encoding="utf-8", newline="", write_through=True)
    try:
        writer = csv.writer(text)
        writer.writerow(table)
        cells = [
            [f"{v:.9g}" for v in values.tolist()] if values.dtype.kind == "f" else values.tolist()
            for values in table.values()
        ]
        writer.writerows(zip(*cells, strict=True))
        text.flush()
    finally:
        text.detach()


def _write_parquet(stream: IO[bytes], features: Array, rec: Recordings) -> None:
    pyarrow, parquet = _pyarrow()
    table = {name: pyarrow.array(values) for name, values in columns(features, rec).items()}
    try:
        parquet.write_table(pyarrow.table(table), stream)
    except pyarrow.ArrowException as error:
        raise FileError(f"the Parquet file cannot be written: {error}") from error


def _pyarrow() -> tuple[Any, Any]:
    from tensorcontrast.readers._files import optional

    return optional("pyarrow"), optional("pyarrow.parquet")
