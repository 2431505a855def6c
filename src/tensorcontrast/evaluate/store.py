"""Cells on disk: one JSON line each, added in one piece, by any number of processes.

A line counts once its line end is there. What a killed process left behind it is dropped: readers
skip it, and the next writer cuts it off. Writers hold a lock on the file.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tensorcontrast.errors import DamagedFileError, FileError, NewerFileError
from tensorcontrast.io.atomic import atomic_write

__all__ = ["FORMAT", "append", "read", "read_json", "write_json"]

#: Version of the layout of run folders.
FORMAT = 1
#: Name of the checksum in every line and file.
CHECKSUM = "checksum"


def append(path: Path, records: Sequence[Mapping[str, Any]]) -> None:
    """Add records as lines: all of them or, where the disk is full, none."""
    text = "".join(_text(_sealed(_plain(record))) + "\n" for record in records).encode()
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666)
    except OSError as error:
        raise FileError(f"{path}: cannot be written: {error}") from error
    try:
        with _locked(handle):
            end = _end_of_lines(handle)
            os.ftruncate(handle, end)
            os.lseek(handle, end, os.SEEK_SET)
            try:
                done = 0
                while done < len(text):
                    done += os.write(handle, text[done:])
                os.fsync(handle)
            except BaseException:
                os.ftruncate(handle, end)
                raise
    except OSError as error:
        raise FileError(
            f"{path}: cannot be written: {error}; the cells before are kept, make room and run "
            "again to go on"
        ) from error
    finally:
        os.close(handle)


def read(path: Path) -> list[dict[str, Any]]:
    """Return the records of all whole lines; none where there is no file."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise FileError(f"{path}: cannot be read: {error}") from error
    out = []
    for number, line in enumerate(data.split(b"\n")[:-1], start=1):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            record = None
        if not isinstance(record, dict):
            raise DamagedFileError(
                f"{path} line {number}: is not a cell; delete the line and run again, which "
                "computes that cell anew"
            )
        if not _whole(record):
            raise DamagedFileError(
                f"{path} line {number}: was changed since it was written; delete the line and run "
                "again, which computes that cell anew"
            )
        out.append(record)
    return out


def _text(record: Mapping[str, Any]) -> str:
    return json.dumps(record, sort_keys=True, ensure_ascii=False, allow_nan=False)


def _sealed(record: dict[str, Any]) -> dict[str, Any]:
    """Record with the checksum of all else in it."""
    return {**record, CHECKSUM: hashlib.sha256(_text(record).encode()).hexdigest()[:16]}


def _whole(record: dict[str, Any]) -> bool:
    """Whether the checksum is right, which is taken out; true where there is none."""
    found = record.pop(CHECKSUM, None)
    if found is None:
        return True
    try:
        return found == _sealed(record)[CHECKSUM]
    except (ValueError, UnicodeError):  # numbers that JSON does not have, half characters
        return False


def write_json(path: Path, data: Mapping[str, Any], *, indent: int | None = 1) -> None:
    """Write a JSON file in one piece, with the version of the layout."""
    sealed = _sealed({"format": FORMAT, **_plain(data)})
    text = json.dumps(sealed, indent=indent, ensure_ascii=False)
    with atomic_write(path) as stream:
        stream.write(text.encode() + b"\n")


def read_json(path: Path) -> dict[str, Any]:
    """Read a file of :func:`write_json`."""
    try:
        data = json.loads(path.read_bytes())
    except OSError as error:
        raise FileError(f"{path}: cannot be read: {error}") from error
    except (ValueError, RecursionError) as error:
        raise DamagedFileError(f"{path}: is not valid JSON ({error})") from None
    if not isinstance(data, dict) or not isinstance(data.get("format"), int):
        raise DamagedFileError(f"{path}: does not say its format")
    if data["format"] > FORMAT:
        raise NewerFileError(f"{path}: was written by a newer version; update tensorcontrast")
    if not _whole(data):
        raise DamagedFileError(
            f"{path}: was changed since it was written; start the run anew in another folder"
        )
    del data["format"]
    return data


def _plain(value: Any) -> Any:
    """Values that JSON has: NaN and infinity become null, NumPy's numbers those of Python."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _end_of_lines(handle: int) -> int:
    """Position after the last line end."""
    end = os.lseek(handle, 0, os.SEEK_END)
    while end > 0:
        begin = max(0, end - 65536)
        os.lseek(handle, begin, os.SEEK_SET)
        at = os.read(handle, end - begin).rfind(b"\n")
        if at >= 0:
            return begin + at + 1
        end = begin
    return 0


@contextmanager
def _locked(handle: int) -> Iterator[None]:
    """Hold the file for this process; the system lets go when the process dies."""
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
    except OSError:  # some network file systems have no locks
        yield
        return
    try:
        yield
    finally:
        fcntl.flock(handle, fcntl.LOCK_UN)
