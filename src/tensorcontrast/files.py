"""Writing files in one piece: whole and on disk, or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from tensorcontrast.errors import FileError


@contextmanager
def atomic_write(path: Path) -> Iterator[IO[bytes]]:
    """Write to a temporary file beside ``path`` and put it in place when all went well."""
    if not path.parent.is_dir():
        raise FileError(
            f"{path}: cannot be written: the folder {path.parent} does not exist; make it first"
        )
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    except OSError as error:
        raise FileError(f"{path}: cannot be written: {error}") from error
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)  # mkstemp makes files private
        os.replace(temporary, path)
    except OSError as error:
        raise FileError(f"{path}: cannot be written: {error}") from error
    finally:
        temporary.unlink(missing_ok=True)
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
