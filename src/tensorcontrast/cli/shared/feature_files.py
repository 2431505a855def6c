"""Files of features: rows are written as they come, and a file appears whole or not at all."""

from __future__ import annotations

import csv
import io
import os
import re
import secrets
import shutil
import zipfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from tensorcontrast.cli.shared.session import UsageFailure
from tensorcontrast.errors import FileError, InvalidInputError
from tensorcontrast.io.atomic import atomic_write
from tensorcontrast.utils.names import csv_text
from tensorcontrast.utils.optional import optional

__all__ = ["FORMATS", "check", "may_replace", "writing"]

Array = NDArray[Any]
npy: Any = np.lib.format
#: Takes the features of the next windows.
Write = Callable[[Array], None]

FORMATS = (".npz", ".csv", ".parquet", ".zarr")
#: The attribute of our stores, and the layout of those with features.
ABOUT, LAYOUT = "tensorcontrast", 1


def check(path: Path) -> str:
    """Return the format that a name asks for; raise where there is none, or a package lacks."""
    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        raise UsageFailure(
            f"-o {path.name}: features are written as {', '.join(FORMATS[:-1])} or {FORMATS[-1]}; "
            "give such a name"
        )
    if suffix == ".parquet":
        _pyarrow()
    if suffix == ".zarr":
        _zarr()
    return suffix


@contextmanager
def writing(
    target: Path,
    rec: Any,
    width: int,
    *,
    group_rows: int = 2**16,
    chunk_bytes: int = 4 * 2**20,
) -> Iterator[Write]:
    """Write the features of recordings, ``width`` of each, block by block.

    Parameters
    ----------
    target : path
        Its name says the format; see :data:`FORMATS`.
    rec : Recordings or StoredRecordings
        What is known of the windows goes next to their features.
    width : int
        Number of features.
    group_rows : int
        Rows of a group of a Parquet file.
    chunk_bytes : int
        Bytes of a chunk of a Zarr store.
    """
    kinds: dict[str, Callable[..., AbstractContextManager[Write]]] = {
        ".npz": _npz,
        ".csv": _csv,
        ".parquet": partial(_parquet, group_rows=group_rows),
        ".zarr": partial(_store, chunk_bytes=chunk_bytes),
    }
    done = 0
    with kinds[check(target)](target, rec, width) as write:

        def count(block: Array) -> None:
            nonlocal done
            if block.shape[1:] != (width,) or done + len(block) > len(rec):
                raise InvalidInputError(
                    f"features of shape {block.shape} after {done} of {len(rec)} windows do not "
                    f"fit rows of {width}"
                )
            if len(block):
                write(block)
            done += len(block)

        yield count
        if done != len(rec):
            raise InvalidInputError(f"there are features of {done} of {len(rec)} windows only")


# ------------------------------------------------------------------------------- tables


def _facts(rec: Any, rows: slice) -> dict[str, Array]:
    """Columns of what is known of each window."""
    table: dict[str, Array] = {}
    if rec.y is not None:
        if rec.classes is not None:
            names = np.array([*rec.classes, ""])
            table["label"] = names[rec.y[rows]]  # -1, no label, is the last one
        else:
            table["label"] = rec.y[rows]
    if rec.groups is not None:
        table["group"] = rec.groups[rows]
    return table | {
        name: values[rows]
        for name, values in rec.columns.items()
        if values.ndim == 1 and name not in table
    }


def _table(features: Array, rec: Any, start: int) -> dict[str, Array]:
    """One column a feature, after what is known of each window."""
    from tensorcontrast.utils.estimators import component_names

    table = _facts(rec, slice(start, start + len(features)))
    return table | dict(zip(component_names(features.shape[1]), features.T, strict=True))


@contextmanager
def _csv(target: Path, rec: Any, width: int) -> Iterator[Write]:
    with atomic_write(target) as stream:
        text = io.TextIOWrapper(stream, encoding="utf-8", newline="", write_through=True)
        try:
            writer, at = csv.writer(text), 0

            def write(block: Array) -> None:
                nonlocal at
                table = _table(block, rec, at)
                if not at:
                    writer.writerow(map(csv_text, table))
                writer.writerows(zip(*map(_csv_cells, table.values()), strict=True))
                at += len(block)

            yield write
            text.flush()
        finally:
            text.detach()


def _csv_cells(values: Array) -> list[Any]:
    """Cells of a column: numbers, or text that no spreadsheet takes for a formula."""
    if values.dtype.kind == "f":
        return [f"{v:.9g}" for v in values.tolist()]
    if values.dtype.kind in "iub":
        return values.tolist()
    return [csv_text(str(v)) for v in values.tolist()]


@contextmanager
def _parquet(target: Path, rec: Any, width: int, *, group_rows: int) -> Iterator[Write]:
    pyarrow, parquet = _pyarrow()
    with atomic_write(target) as stream:
        writer: Any = None

        def put(start: int, rows: Array) -> None:
            nonlocal writer
            columns = _table(rows, rec, start).items()
            table = pyarrow.table({name: pyarrow.array(values) for name, values in columns})
            writer = writer or parquet.ParquetWriter(stream, table.schema)
            writer.write_table(table, row_group_size=group_rows)

        try:
            with _in_rows_of(group_rows, put) as write:
                yield write
            writer.close()
        except pyarrow.ArrowException as error:
            raise FileError(f"{target}: cannot be written: {error}") from error
        finally:
            if writer is not None and writer.is_open:  # of a file that will not be there
                with suppress(Exception):
                    writer.close()
                writer.is_open = False


def _pyarrow() -> tuple[Any, Any]:
    return optional("pyarrow", "data"), optional("pyarrow.parquet", "data")


@contextmanager
def _in_rows_of(size: int, put: Callable[[int, Array], None]) -> Iterator[Write]:
    """Gather rows, and put so many at a time with the number of the first; the rest at the end."""
    waiting: list[Array] = []
    at = 0

    def pour(least: int) -> None:
        nonlocal at, waiting
        while sum(map(len, waiting)) >= least:
            rows = np.concatenate(waiting)
            put(at, rows[:size])
            at += len(rows[:size])
            waiting = [rows[size:]]

    def write(block: Array) -> None:
        waiting.append(block)
        pour(size)

    yield write
    pour(1)


# ------------------------------------------------------------------------------- arrays


@contextmanager
def _npz(target: Path, rec: Any, width: int) -> Iterator[Write]:
    known = {name: getattr(rec, name) for name in ("y", "groups", "classes")}
    arrays = {name: np.asarray(value) for name, value in known.items() if value is not None}
    taken = {"features", *arrays, "file", "allow_pickle"}
    arrays |= {name: values for name, values in rec.columns.items() if name not in taken}
    with atomic_write(target) as stream, zipfile.ZipFile(stream, "w") as archive:
        with _member(archive, "features") as member:
            begun = False

            def write(block: Array) -> None:
                nonlocal begun
                rows = np.ascontiguousarray(block)
                if not begun:
                    about = npy.header_data_from_array_1_0(rows)
                    about["shape"] = (len(rec), width)
                    npy.write_array_header_1_0(member, about)
                    begun = True
                member.write(rows.reshape(-1).view(np.uint8).data)

            yield write
        for name, values in arrays.items():
            with _member(archive, name) as member:
                npy.write_array(member, np.asarray(values), allow_pickle=False)


def _member(archive: zipfile.ZipFile, name: str) -> IO[bytes]:
    """Open an array of a ``.npz`` for writing; the same arrays make the same file."""
    return archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True)


# ------------------------------------------------------------------------------- stores


@contextmanager
def _store(target: Path, rec: Any, width: int, *, chunk_bytes: int) -> Iterator[Write]:
    """Write a Zarr group: ``features``, ``y``, ``groups`` and columns; text as numbers of names."""
    with _whole_folder(target) as folder:
        group = _zarr().open_group(str(folder), mode="w", zarr_format=3)
        rows = max(1, min(len(rec), chunk_bytes // (4 * width)))
        array: Any = None

        def put(start: int, block: Array) -> None:
            nonlocal array
            if array is None:
                array = group.create_array(
                    "features", shape=(len(rec), width), chunks=(rows, width), dtype=block.dtype
                )
            array[start : start + len(block)] = block

        with _in_rows_of(rows, put) as write:
            yield write
        _describe(group, rec)


def _describe(group: Any, rec: Any) -> None:
    about: dict[str, Any] = {
        "format": LAYOUT,
        "kind": "features",
        "data": rec.name,
        "classes": None if rec.classes is None else list(rec.classes),
        "columns": {},
        "names": {},
    }
    arrays: dict[str, Array] = {}
    if rec.y is not None:
        arrays["y"] = rec.y
    if rec.groups is not None:
        arrays["groups"] = rec.groups
    for name, values in rec.columns.items():
        taken = {"features", *(key.casefold() for key in arrays)}
        key, number = name, 0
        while not re.fullmatch(r"\w[\w -]*", key, re.ASCII) or key.casefold() in taken:
            key, number = f"column_{number}", number + 1
        about["columns"][key] = name
        arrays[key] = values
    for key, values in arrays.items():
        if values.dtype.kind not in "iufb":
            names, codes = np.unique(values.astype(np.str_), return_inverse=True)
            about["names"][key] = names.tolist()
            values = codes.reshape(values.shape).astype(np.int32)
        chunks = (min(len(values), 2**20), *values.shape[1:])
        group.create_array(key, data=values, chunks=chunks)
    group.attrs[ABOUT] = about


def may_replace(path: Path) -> None:
    """Raise where a folder is not a store of features: nothing else is ever deleted."""
    if not path.is_dir():
        return
    try:
        about = dict(_zarr().open_group(str(path), mode="r").attrs).get(ABOUT, {})
    except Exception:
        about = {}
    if not isinstance(about, dict) or about.get("kind") != "features":
        raise FileError(
            f"{path} is a folder, but not one with features that transform wrote, and is kept; "
            "choose another name"
        )


@contextmanager
def _whole_folder(path: Path) -> Iterator[Path]:
    """Make a folder next to ``path`` that takes its name when all went well."""
    temporary = _hidden(path)
    try:
        temporary.mkdir()
        yield temporary
        for file in temporary.rglob("*"):
            _sync(file)
        _put(temporary, path)
    except OSError as error:
        raise FileError(f"{path}: cannot be written: {error}") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    _sync(path.parent)


def _put(new: Path, path: Path) -> None:
    if not os.path.lexists(path):
        new.rename(path)
        return
    old = _hidden(path)
    path.rename(old)
    try:
        new.rename(path)
    except BaseException:
        old.rename(path)
        raise
    shutil.rmtree(old, ignore_errors=True) if old.is_dir() else old.unlink()


def _hidden(path: Path) -> Path:
    return path.parent / f".tensorcontrast-{secrets.token_hex(8)}.part"


def _sync(path: Path) -> None:
    """Bring what was written to the disk, where the system allows it."""
    with suppress(OSError):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _zarr() -> Any:
    from tensorcontrast.utils.optional import optional

    return optional("zarr", "dask")
