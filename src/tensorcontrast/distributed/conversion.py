"""A folder of EDF, WFDB or npz files as one chunked Zarr store, in parallel and resumable.

Files are read in batches, each into a part of the store; then the parts become the chunks of one
array. Parts and chunks appear whole or not at all, so whatever is there after a stop is kept, and
a conversion that was stopped ends with the same store as one that was not.
"""

from __future__ import annotations

import multiprocessing
import shutil
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorcontrast.distributed.parts import (
    BATCH_BYTES,
    NO_START,
    Batch,
    Options,
    Part,
    batches,
    check_alike,
    files_of,
    read_batch,
    renumbered,
)
from tensorcontrast.distributed.store import ABOUT, FORMAT
from tensorcontrast.errors import FileError, InvalidInputError, TensorContrastWarning
from tensorcontrast.io.atomic import one_at_a_time
from tensorcontrast.readers.edf import annotations_only
from tensorcontrast.readers.grouping import groups_by_name
from tensorcontrast.utils.optional import optional

Array = NDArray[Any]
#: Called with what is done, all there is to do, and words.
Progress = Callable[[int, int, str], object]

#: Bytes of signals in a chunk.
CHUNK_BYTES = 16 * 2**20


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
    workers: int = 1,
    chunk_bytes: int = CHUNK_BYTES,
    batch_bytes: int = BATCH_BYTES,
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
    workers : int
        Processes that read and write.
    chunk_bytes : int
        Size of a chunk before compression.
    batch_bytes : int
        Bytes of files that are read into one part of a conversion. A stopped conversion goes on
        after the last whole part.
    progress : callable, optional
        Called with steps done, steps there are, and what is going on.

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
    for name in ("zarr", "dask.array"):  # to write the store, and to open it
        optional(name, "dask")
    options = Options(
        window_s,
        float(overlap),
        None if channels is None else tuple(channels),
        drop_nan,
        groups,
        labels,
        annotations,
    )
    if annotations is not None and labels is None:
        raise InvalidInputError(
            "annotations= needs labels= that says which annotations are labels; pass "
            "labels='annotations' for all"
        )
    if workers < 1:
        raise InvalidInputError(f"workers={workers}: at least one process is needed")
    folder, files = files_of(Path(source).expanduser())
    if len(files) > 1:
        files = [name for name in files if not annotations_only(folder / name)]
        if not files:
            raise FileError(f"{source}: holds annotations only, no signals")
    if groups is not None:
        groups_by_name(groups, files)  # reported before anything is written
    store = Path(target).expanduser()
    if store.exists() and not (store / "parts").is_dir():
        raise FileError(f"{store} exists and is not overwritten; remove it or name another place")
    if not store.parent.is_dir():
        raise FileError(f"{store}: the folder {store.parent} does not exist; make it first")
    notify = progress or (lambda done, total, text: None)
    with one_at_a_time(store):
        (store / "parts").mkdir(parents=True, exist_ok=True)
        jobs = list(batches(folder, files, options, batch_bytes))
        paths = [store / "parts" / f"{batch.key}.npz" for batch in jobs]
        _read_all(jobs, paths, workers, notify)
        parts = [Part.from_path(path) for path in paths]
        _Assembly(store, jobs, parts, chunk_bytes).run(workers, notify)
        shutil.rmtree(store / "parts")
    return store


def _read_all(groups: list[Batch], paths: list[Path], workers: int, notify: Progress) -> None:
    waiting = [
        (batch, path) for batch, path in zip(groups, paths, strict=True) if not path.is_file()
    ]
    total = len(groups)
    notify(total - len(waiting), total, "reading")
    files: dict[str, list[str]] = {}  # by what was said of them
    for done, notes in enumerate(_parallel(read_batch, waiting, workers), 1):
        for note in notes:
            name, _, said = note.partition(": ")
            files.setdefault(said, []).append(name)
        notify(total - len(waiting) + done, total, "reading")
    for said, names in files.items():
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        warnings.warn(f"{min(names)}{more}: {said}", TensorContrastWarning, stacklevel=4)


def _parallel(
    function: Callable[..., Any], jobs: Sequence[tuple[Any, ...]], workers: int
) -> Iterator[Any]:
    """Results in the order in which they are ready, from so many processes."""
    if workers == 1 or len(jobs) < 2:
        for job in jobs:
            yield function(*job)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(workers, len(jobs)), mp_context=context) as pool:
        try:
            for future in as_completed([pool.submit(function, *job) for job in jobs]):
                yield future.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


@dataclass
class _Assembly:
    """From parts to the chunks of one array."""

    store: Path
    batches: list[Batch]
    parts: list[Part]
    chunk_bytes: int

    def run(self, workers: int, notify: Progress) -> None:
        """Make the arrays, fill in the chunks that are missing, then say what is in the store."""
        facts = self._facts()
        edges = np.cumsum([0, *map(len, self.parts)]).tolist()
        shape = (edges[-1], facts["number of channels"], facts["points of a window"])
        dtype = np.dtype(facts["type of numbers"])
        rows = max(1, min(shape[0], self.chunk_bytes // (shape[1] * shape[2] * dtype.itemsize)))
        group = self._array(shape, rows, dtype)
        places = [(a, min(a + rows, shape[0])) for a in range(0, shape[0], rows)]
        chunks = self.store / "X" / "c"
        missing = [place for place in places if not (chunks / f"{place[0] // rows}/0/0").is_file()]
        notify(len(places) - len(missing), len(places), "writing")
        jobs = [(self.store, place, self._overlaps(edges, place)) for place in missing]
        for done, _ in enumerate(_parallel(_write_chunk, jobs, workers), 1):
            notify(len(places) - len(missing) + done, len(places), "writing")
        self._describe(group, facts)

    def _facts(self) -> dict[str, Any]:
        """Return what all parts have in common."""
        facts: dict[str, Any] | None = None
        first = ""
        for batch, part in zip(self.batches, self.parts, strict=True):
            described = part.about["facts"]
            if described is not None:
                if facts is None:
                    facts, first = described, batch.files[0]
                check_alike(batch.files[0], described, first, facts)
        if facts is None:
            raise FileError(f"{self.store}: every window has missing values; nothing is left")
        return facts

    def _array(self, shape: tuple[int, ...], rows: int, dtype: np.dtype[Any]) -> Any:
        """Open the group with an array of this shape, as it is where it is there already."""
        group = optional("zarr", "dask").open_group(str(self.store), mode="a", zarr_format=3)
        chunks = (rows, *shape[1:])
        layout = (shape, chunks, dtype)
        if "X" in group:
            there = group["X"]
            if (there.shape, there.chunks, there.dtype) != layout:
                del group["X"]  # of other files or options
        if "X" not in group:
            config = {"write_empty_chunks": True}
            group.create_array("X", shape=shape, chunks=chunks, dtype=dtype, config=config)
        for left in (self.store / "X").rglob("*.partial"):
            left.unlink()
        return group

    def _overlaps(self, edges: list[int], place: tuple[int, int]) -> list[tuple[Path, int, int]]:
        """Signals that hold rows of a chunk, with the rows."""
        start, stop = place
        return [
            (part.path.with_suffix(".npy"), max(start, a) - a, min(stop, b) - a)
            for part, a, b in zip(self.parts, edges[:-1], edges[1:], strict=True)
            if a < stop and b > start
        ]

    def _describe(self, group: Any, facts: dict[str, Any]) -> None:
        parts = [part for part in self.parts if len(part)]
        files = [name for batch in self.batches for name in batch.files]
        place = {name: i for i, name in enumerate(files)}
        column = {
            key: np.concatenate([part.columns[key] for part in parts])
            for key in ("groups", "source", "start")
        }
        group_names, codes = np.unique(column["groups"], return_inverse=True)
        arrays: dict[str, Array] = {
            "groups": codes.astype(np.int32),
            "recording": np.array([place[f] for f in column["source"].tolist()], dtype=np.int32),
        }
        if (column["start"] != NO_START).all():
            arrays["start"] = column["start"].astype(np.int64)
        names = sorted({c for part in parts for c in part.about["classes"]})
        if any(part.about["labelled"] for part in parts):
            arrays["y"] = np.concatenate([renumbered(part, names) for part in parts])
        for key, values in arrays.items():
            group.create_array(key, data=values, chunks=(min(len(values), 2**20),), overwrite=True)
        group.attrs[ABOUT] = {
            "format": FORMAT,
            "fs": facts["sampling rate"],
            "channels": facts["channels"],
            "units": facts["units"],
            "classes": names or None,
            "groups": group_names.tolist(),
            "files": files,
        }


def _write_chunk(store: Path, place: tuple[int, int], signals: list[tuple[Path, int, int]]) -> None:
    rows = [np.load(path, mmap_mode="r", allow_pickle=False)[a:b] for path, a, b in signals]
    array = optional("zarr", "dask").open_array(str(store / "X"), mode="r+")
    array[place[0] : place[1]] = np.concatenate(rows)
