"""Files read in batches, each into one part of a store: whole or not at all."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorcontrast.errors import (
    DataNotFoundError,
    FileError,
    InvalidInputError,
    TensorContrastWarning,
)
from tensorcontrast.io.atomic import atomic_write
from tensorcontrast.readers.grouping import groups_by_name
from tensorcontrast.recordings import Recordings

Array = NDArray[Any]

SUFFIXES = (".edf", ".bdf", ".hea", ".npz")
#: Start of a window whose place in its recording is not known.
NO_START = -1
#: Bytes of files that are read into one part.
BATCH_BYTES = 16 * 2**20


@dataclass(frozen=True)
class Options:
    """How files are read."""

    window_s: float | None = None
    overlap: float = 0.0
    channels: tuple[str, ...] | None = None
    drop_nan: bool = False
    groups: str | None = None
    labels: str | None = None
    annotations: str | None = None


@dataclass(frozen=True)
class Batch:
    """Files of one part: names below the folder."""

    folder: str
    files: tuple[str, ...]
    options: Options

    @property
    def key(self) -> str:
        """Name of the part: another one where the files or the options are others."""
        stats = [
            (name, (p := Path(self.folder, name).stat()).st_size, p.st_mtime_ns)
            for name in self.files
        ]
        text = json.dumps([stats, asdict(self.options)])
        return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


def files_of(source: Path) -> tuple[Path, list[str]]:
    """Folder and the files below it that can be read, in a fixed order."""
    if source.is_file():
        return source.parent, [source.name]
    if not source.is_dir():
        raise DataNotFoundError(f"{source}: no such file or folder")
    found = sorted(
        path.relative_to(source).as_posix()
        for path in source.rglob("*")
        if path.suffix.lower() in SUFFIXES and path.is_file()
    )
    if not found:
        raise DataNotFoundError(
            f"{source}: holds no file that ends in {', '.join(SUFFIXES)}; name another folder"
        )
    return source, found


def batches(
    folder: Path, files: list[str], options: Options, batch_bytes: int = BATCH_BYTES
) -> Iterator[Batch]:
    """Files in their order, at least ``batch_bytes`` together: no part is tiny or huge."""
    some: list[str] = []
    size = 0
    for name in files:
        path = folder / name
        size += path.stat().st_size
        data = path.with_suffix(".dat")
        if path.suffix == ".hea" and data.is_file():
            size += data.stat().st_size
        some.append(name)
        if size >= batch_bytes:
            yield Batch(str(folder), tuple(some), options)
            some, size = [], 0
    if some:
        yield Batch(str(folder), tuple(some), options)


def read_batch(batch: Batch, path: Path) -> list[str]:
    """Read files into one part; gives the warnings of the readers."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", TensorContrastWarning)
        recs = []
        for name in batch.files:
            rec = _read_file(batch, name)
            if rec is not None:
                recs.append(rec)
                check_alike(name, _facts(rec), str(recs[0].columns["file"][0]), _facts(recs[0]))
    notes = [str(w.message) for w in caught if issubclass(w.category, TensorContrastWarning)]
    # The signals first: where the rest is, they are.
    with atomic_write(path.with_suffix(".npy")) as stream:
        np.save(stream, np.concatenate([rec.X for rec in recs]) if recs else np.zeros((0, 0, 0)))
    names = sorted({c for rec in recs for c in rec.classes or ()})
    labelled = any(rec.y is not None for rec in recs)
    about = {"labelled": labelled, "classes": names, "facts": _facts(recs[0]) if recs else None}
    columns = {
        "y": _joined([_labels(rec, names) for rec in recs]),
        "groups": _joined([np.asarray(rec.groups).astype(np.str_) for rec in recs]),
        "source": _joined([rec.columns["file"] for rec in recs]),
        "start": _joined([rec.columns["start"] for rec in recs]),
    }
    with atomic_write(path) as stream:
        np.savez(stream, **{"about": np.array(json.dumps(about)), **columns})  # type: ignore[arg-type]
    return notes


def _joined(parts: list[Array]) -> Array:
    return np.concatenate(parts) if parts else np.zeros(0)


def _read_file(batch: Batch, name: str) -> Recordings | None:
    """Windows of one file, with the file's name; None where nothing is left."""
    from tensorcontrast import readers

    path, options = Path(batch.folder, name), batch.options
    kind = readers._format_of(path)
    accepted = readers.options_of(kind)
    given: dict[str, Any] = {"allow_nan": options.drop_nan}
    if options.window_s is not None:
        if not readers.cuts(kind):
            raise InvalidInputError(
                f"{path}: {kind} files hold windows already; leave the window out, or convert "
                "other files apart from them"
            )
        given |= {"window_s": options.window_s, "overlap": options.overlap}
    if options.channels is not None and "channels" in accepted:
        given["channels"] = list(options.channels)
    if options.labels is not None and "labels" in accepted:
        given |= {"labels": options.labels, "annotations": options.annotations}
    rec = readers.read(path, format=kind, **given)
    if options.channels is not None and rec.channels != options.channels:
        rec = rec.select(channels=list(options.channels))
    # A file of one window is that window; where several windows are from in it is not known.
    start = rec.columns.get("start", np.full(len(rec), 0 if len(rec) == 1 else NO_START))
    groups = rec.groups
    if options.groups is not None:
        groups = np.repeat(groups_by_name(options.groups, [name]), len(rec))
    elif groups is None or (groups.astype(np.str_) == path.stem).all():
        # Files of one name in several folders are not of one subject.
        groups = np.full(len(rec), Path(name).with_suffix("").as_posix())
    rec = rec._with(
        groups=groups, columns={"file": np.full(len(rec), name), "start": start.astype(np.int64)}
    )
    if options.drop_nan:
        keep = np.isfinite(rec.X.reshape(len(rec), -1)).all(axis=1)
        if not keep.any():
            return None
        rec = rec[keep]
    return rec


def _labels(rec: Recordings, names: list[str]) -> NDArray[np.int64]:
    if rec.y is None:
        return np.full(len(rec), -1, dtype=np.int64)
    if not rec.classes:
        return _by_number(rec.y, names).astype(np.int64)
    table = np.array([*(names.index(c) for c in rec.classes), -1])
    return table[rec.y]


def _by_number(y: NDArray[Any], names: list[str]) -> NDArray[Any]:
    """Check that labels without class names do not meet labels with names."""
    if names and (y >= 0).any():
        raise InvalidInputError(
            f"some files label windows by number, such as {int(y.max())}, and others by name, such "
            f"as {names[0]!r}; save all of them with the names of the classes"
        )
    return y


def _facts(rec: Recordings) -> dict[str, Any]:
    """Return what all files of a store have in common, as plain data."""
    return {
        "channels": None if rec.channels is None else list(rec.channels),
        "number of channels": rec.n_channels,
        "points of a window": rec.n_times,
        "sampling rate": rec.fs,
        "units": list(rec.units) if isinstance(rec.units, tuple) else rec.units,
        "type of numbers": rec.X.dtype.name,
    }


#: What to do about files that differ.
_WAYS_OUT = {
    "sampling rate": "resample one of them",
    "channels": "choose channels that all have",
    "number of channels": "choose channels that all have",
    "points of a window": "give a window",
    "units": "choose channels of one unit",
    "type of numbers": "save them as one type",
}


def check_alike(where: str, facts: dict[str, Any], other: str, first: dict[str, Any]) -> None:
    """Raise where a file differs from another one in what all must have in common."""
    for key, way_out in _WAYS_OUT.items():
        if facts[key] != first[key]:
            a, b = (f"{v:g} Hz" if isinstance(v, float) else v for v in (facts[key], first[key]))
            raise FileError(
                f"{where}: {key} is {a}, but {other} has {b}; {way_out}, or convert them apart"
            )


@dataclass(frozen=True)
class Part:
    """Windows of one batch: the signals in a file of their own, the rest here."""

    path: Path
    about: dict[str, Any]
    columns: dict[str, Array]

    @classmethod
    def from_path(cls, path: Path) -> Part:
        """Read all but the signals."""
        with np.load(path, allow_pickle=False) as content:
            columns = {key: content[key] for key in content.files}
        return cls(path, json.loads(str(columns.pop("about"))), columns)

    def __len__(self) -> int:
        return len(self.columns["source"])


def renumbered(part: Part, names: list[str]) -> NDArray[np.int32]:
    """Labels of a part by the names of the classes of all parts."""
    own = part.about["classes"]
    if not own:
        return _by_number(part.columns["y"], names).astype(np.int32)
    table = np.array([*(names.index(c) for c in own), -1], dtype=np.int32)
    return np.asarray(table[part.columns["y"]])
