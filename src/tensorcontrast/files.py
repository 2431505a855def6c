"""Writing files in one piece: whole and on disk, or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from tensorcontrast.errors import FileError

_BINARY = getattr(os, "O_BINARY", 0)  # on Windows


@contextmanager
def atomic_write(path: Path, *, sync: bool = True) -> Iterator[IO[bytes]]:
    """Write to a temporary file beside ``path`` and put it in place when all went well.

    Several threads and processes may write to one path at once; the last to finish stays, whole.
    ``sync=False`` leaves it to the system when the bytes reach the disk.
    """
    if not path.parent.is_dir():
        raise FileError(
            f"{path}: cannot be written: the folder {path.parent} does not exist; make it first"
        )
    temporary = path.parent / f".tensorcontrast-{secrets.token_hex(8)}.part"
    try:
        # With the permissions of any new file, and without touching the umask of other threads.
        handle = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | _BINARY, 0o666)
    except OSError as error:
        raise FileError(f"{path}: cannot be written: {error}") from error
    try:
        with os.fdopen(handle, "w+b") as stream:
            yield stream
            stream.flush()
            if sync:
                os.fsync(stream.fileno())
        os.replace(temporary, path)
    except OSError as error:
        raise FileError(f"{path}: cannot be written: {error}") from error
    finally:
        temporary.unlink(missing_ok=True)
    if sync:
        _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Make a rename last through a power cut, where the system allows it."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:  # folders cannot be opened on Windows
        return
    try:
        os.fsync(handle)
    except OSError:  # nor synchronised on some network file systems
        pass
    finally:
        os.close(handle)
