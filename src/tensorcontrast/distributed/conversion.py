"""A folder of EDF, WFDB or npz files as one chunked Zarr store, which a stopped run goes on with.

Files are read one after the other. Whenever windows for a chunk have come together they are
appended, and then the store notes how far it is: what lies behind that note is written again by the
next run, so that a conversion that was stopped ends with the same store as one that was not.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorcontrast import readers
from tensorcontrast.distributed.store import ABOUT, FORMAT, UNFINISHED
from tensorcontrast.errors import DataNotFoundError, FileError, InvalidInputError
from tensorcontrast.io.atomic import one_at_a_time
from tensorcontrast.readers.edf import annotations_only
from tensorcontrast.readers.grouping import groups_by_name
from tensorcontrast.recordings import Recordings
from tensorcontrast.utils.optional import optional

Array = NDArray[Any]
#: Called with the number of files that are done, and of all.
Progress = Callable[[int, int], object]

SUFFIXES = (".edf", ".bdf", ".hea", ".npz")

CHUNK_BYTES = 16 * 2**20
"""Bytes of signals in a chunk."""

NO_START = -1
"""Start of a window whose place in its recording is not known."""

#: What is stored of each window, beside its signals.
COLUMNS = {"y": np.int32, "groups": np.int32, "recording": np.int32, "start": np.int64}


def convert(
    source: str | Path,
    target: str | Path,
    *,
    window_s: float | None = None,
    overlap: float = 0.0,
    channels: Sequence[str] | None = None,
    drop_nan: bool = False,
    groups: str | None = None,
    labels: str | None = None,
    annotations: str | None = None,
    chunk_bytes: int = CHUNK_BYTES,
    progress: Progress | None = None,
) -> Path:
    """Write the recordings of a folder to a Zarr store.

    Parameters
    ----------
    source : path
        A folder, searched with all folders below it for ``.edf``, ``.bdf``, ``.hea`` and
        ``.npz``; or one such file.
    target : path
        The store. One that a stopped conversion of the same files has left is finished.
    window_s, overlap, channels
        As in the readers of EDF and WFDB, with their default for long recordings.
    drop_nan : bool
        Leave out windows with missing values; they are an error otherwise.
    groups : str, optional
        A regular expression with a part named ``group``, such as ``(?P<group>S[0-9]+)``: what it
        matches in the name of a file, below the folder, is the group of its windows. By default
        groups are those of npz files, the patient codes of EDF+ and BDF+ files, and else the names
        of the files.
    labels, annotations : str, optional
        Annotations of EDF, BDF and WFDB files as labels, as in their readers. Files of a folder
        that hold annotations only are not recordings.
    chunk_bytes : int
        Size of a chunk before compression.
    progress : callable, optional
        Called with the number of files that are done, and of all.

    Returns
    -------
    Path
        The store, for :func:`~tensorcontrast.distributed.open_store`.

    Examples
    --------
    >>> import tempfile
    >>> from tensorcontrast.datasets import make_synthetic
    >>> from tensorcontrast.distributed import convert, open_store
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = make_synthetic(20, 2, 32, random_state=0).save(f"{folder}/a.npz")
    ...     rec = open_store(convert(path, f"{folder}/a.zarr"))
    >>> rec.name, rec.X.shape, rec.channels
    ('a.zarr', (20, 2, 32), ('ch0', 'ch1'))
    """
    zarr, _ = optional("zarr", "dask"), optional("dask.array", "dask")  # to write and to open it
    if annotations is not None and labels is None:
        raise InvalidInputError(
            "annotations= needs labels= that says which annotations are labels; pass "
            "labels='annotations' for all"
        )
    folder, files = files_of(Path(source).expanduser())
    if len(files) > 1:
        files = [name for name in files if not annotations_only(folder / name)]
        if not files:
            raise FileError(f"{source}: holds annotations only, no signals")
    if groups is not None:
        groups_by_name(groups, files)  # reported before anything is written
    reading: dict[str, Any] = {
        "window_s": window_s,
        "overlap": float(overlap),
        "channels": None if channels is None else list(channels),
        "labels": labels,
        "annotations": annotations,
        "groups": groups,
        "drop_nan": drop_nan,
    }
    path = Path(target).expanduser()
    if not path.parent.is_dir():
        raise FileError(f"{path}: the folder {path.parent} does not exist; make it first")
    with one_at_a_time(path):
        node: Any = None
        if path.exists() and not (path.is_dir() and not any(path.iterdir())):
            node = zarr.open_group(str(path), mode="a") if (path / "zarr.json").is_file() else None
            if node is None or UNFINISHED not in node.attrs:
                raise FileError(
                    f"{path} exists and is not overwritten; remove it or name another place"
                )
        key = json.dumps([reading, chunk_bytes])
        stats = [(n, (s := (folder / n).stat()).st_size, s.st_mtime_ns) for n in files]
        state: dict[str, Any] = {} if node is None else dict(node.attrs[UNFINISHED])
        if state.get("key") != key or state["stats"] != [list(s) for s in stats[: state["done"]]]:
            state = {"key": key, "done": 0, "rows": 0, "facts": None, "stats": []}
            state |= {"labelled": False, "groups": [], "classes": []}
            node = zarr.open_group(
                str(path), mode="w", zarr_format=3, attributes={UNFINISHED: state}
            )
        notify = progress or (lambda done, total: None)
        notify(state["done"], len(files))
        waiting: list[Recordings] = []
        for done, name in enumerate(files[state["done"] :], state["done"] + 1):
            rec = _read_file(folder, name, reading)
            if rec is not None:
                _check_alike(name, rec, state)
                waiting.append(rec)
            if sum(rec.X.nbytes for rec in waiting) >= chunk_bytes or done == len(files):
                _append(node, state, waiting, files, chunk_bytes)
                state |= {"done": done, "stats": stats[:done]}
                node.attrs[UNFINISHED] = state
                waiting = []
            notify(done, len(files))
        _finish(node, state, files, path)
    return path


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


def _read_file(folder: Path, name: str, reading: dict[str, Any]) -> Recordings | None:
    """Windows of one file, with the file's name; None where nothing is left."""
    path = folder / name
    kind = readers._format_of(path)
    accepted = readers.options_of(kind)
    given: dict[str, Any] = {"allow_nan": reading["drop_nan"]}
    if reading["window_s"] is not None:
        if not readers.cuts(kind):
            raise InvalidInputError(
                f"{path}: {kind} files hold windows already; leave the window out, or convert "
                "other files apart from them"
            )
        given |= {"window_s": reading["window_s"], "overlap": reading["overlap"]}
    if "channels" in accepted:
        given["channels"] = reading["channels"]
    if reading["labels"] is not None and "labels" in accepted:
        given |= {"labels": reading["labels"], "annotations": reading["annotations"]}
    rec = readers.read(path, format=kind, **given)
    if reading["channels"] is not None and rec.channels != tuple(reading["channels"]):
        rec = rec.select(channels=reading["channels"])
    # A file of one window is that window; where several windows are from in it is not known.
    start = rec.columns.get("start", np.full(len(rec), 0 if len(rec) == 1 else NO_START))
    groups = rec.groups
    if reading["groups"] is not None:
        groups = np.repeat(groups_by_name(reading["groups"], [name]), len(rec))
    elif groups is None or (groups.astype(np.str_) == path.stem).all():
        # Files of one name in several folders are not of one subject.
        groups = np.full(len(rec), Path(name).with_suffix("").as_posix())
    rec = rec._with(groups=groups, columns={"file": np.full(len(rec), name), "start": start})
    if reading["drop_nan"]:
        keep = np.isfinite(rec.X.reshape(len(rec), -1)).all(axis=1)
        return rec[keep] if keep.any() else None
    return rec


#: What to do about files that differ.
_WAYS_OUT = {
    "sampling rate": "resample one of them",
    "channels": "choose channels that all have",
    "number of channels": "choose channels that all have",
    "points of a window": "give a window",
    "units": "choose channels of one unit",
    "type of numbers": "save them as one type",
}


def _check_alike(name: str, rec: Recordings, state: dict[str, Any]) -> None:
    """Raise where a file differs from the first one in what all must have in common."""
    facts = {
        "channels": None if rec.channels is None else list(rec.channels),
        "number of channels": rec.n_channels,
        "points of a window": rec.n_times,
        "sampling rate": rec.fs,
        "units": list(rec.units) if isinstance(rec.units, tuple) else rec.units,
        "type of numbers": rec.X.dtype.name,
    }
    if state["facts"] is None:
        state |= {"facts": facts, "first": name}
    for key, way_out in _WAYS_OUT.items():
        if facts[key] != state["facts"][key]:
            a, b = (
                f"{value:g} Hz" if isinstance(value, float) else value
                for value in (facts[key], state["facts"][key])
            )
            raise FileError(
                f"{name}: {key} is {a}, but {state['first']} has {b}; {way_out}, or convert them "
                "apart"
            )
    numbered = rec.y is not None and not rec.classes and bool((rec.y >= 0).any())
    if (numbered and state["classes"]) or (rec.classes and state.get("numbered")):
        raise InvalidInputError(
            f"{name}: some files label windows by number, and others by name, such as "
            f"{(rec.classes or state['classes'])[0]!r}; save all of them with the names of the "
            "classes"
        )
    state |= {
        "numbered": bool(state.get("numbered")) or numbered,
        "labelled": state["labelled"] or rec.y is not None,
        "classes": [*dict.fromkeys([*state["classes"], *(rec.classes or ())])],
    }


def _append(
    node: Any, state: dict[str, Any], recs: list[Recordings], files: list[str], chunk_bytes: int
) -> None:
    """Write windows behind those that are there; what an earlier run left there is replaced."""
    if not recs:
        return
    place = {name: i for i, name in enumerate(files)}
    columns: dict[str, list[Any]] = {name: [] for name in COLUMNS}
    for rec in recs:
        names = np.asarray(rec.groups).astype(np.str_).tolist()
        state["groups"] = [*dict.fromkeys([*state["groups"], *names])]
        code = {name: i for i, name in enumerate(state["groups"])}
        table = np.array([*(state["classes"].index(c) for c in rec.classes or ()), -1])
        y = np.full(len(rec), -1) if rec.y is None else rec.y
        columns["y"].append(table[y] if rec.classes else y)
        columns["groups"].append([code[name] for name in names])
        columns["recording"].append(np.full(len(rec), place[str(rec.columns["file"][0])]))
        columns["start"].append(rec.columns["start"])
    X = np.concatenate([rec.X for rec in recs])
    arrays = {"X": X, **{name: np.concatenate(columns[name]) for name in COLUMNS}}
    stop = state["rows"] + len(X)
    for name, values in arrays.items():
        if name not in node:
            dtype = COLUMNS.get(name, X.dtype)
            rows = max(1, chunk_bytes // X[0].nbytes) if name == "X" else 2**20
            shape, config = values.shape[1:], {"write_empty_chunks": True}
            node.create_array(
                name, shape=(0, *shape), chunks=(rows, *shape), dtype=dtype, config=config
            )
        array = node[name]
        array.resize((stop, *values.shape[1:]))
        array[state["rows"] : stop] = values
    state["rows"] = stop


def _finish(node: Any, state: dict[str, Any], files: list[str], path: Path) -> None:
    """Sort the names of groups and classes, and say what is in the store."""
    facts = state["facts"]
    if facts is None:
        raise FileError(f"{path}: every window has missing values; nothing is left")
    for name, key in (("groups", "groups"), ("y", "classes")):
        order = np.argsort(state[key])
        if len(order):
            codes = np.append(np.argsort(order), -1).astype(np.int32)
            node[name][:] = codes[node[name][:]]
    if not state["labelled"]:
        del node["y"]
    if (node["start"][:] == NO_START).any():
        del node["start"]
    node.attrs[ABOUT] = {
        "format": FORMAT,
        "fs": facts["sampling rate"],
        "channels": facts["channels"],
        "units": facts["units"],
        "classes": sorted(state["classes"]) or None,
        "groups": sorted(state["groups"]),
        "files": files,
    }
    del node.attrs[UNFINISHED]
