"""Writing files in one piece: whole and on disk, or not at all; and by one at a time."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from tensorcontrast.errors import FileError

_BINARY = getattr(os, "O_BINARY", 0)  # on Windows


@contextmanager
def atomic_write(path: Path, *, sync: bool = True) -> Iterator[IO[bytes]]:
    """Write to a temporary file next to ``path`` and put it in place when all went well.

    Several threads and processes may write to one path at once; the last to finish stays, whole.
    ``sync=False`` leaves it to the system when the bytes reach the disk.
    """
    if not path.parent.is_dir():
        raise FileError(
            f"{path}: cannot be written: the folder {path.parent} does not exist; make it first"
        )
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise FileError(
            f"{path}: cannot be written: it is a link, a folder or a device; name a file"
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


def check_writable(path: Path) -> None:
    """Raise where no file can be made at ``path``, before work is done for it.

    A file is made next to it and removed again: permissions, read-only file systems and quotas are
    seen by nothing less.
    """
    folder = path.parent
    if not folder.is_dir():
        raise FileError(f"{path}: the folder {folder} does not exist; make it first")
    trial = folder / f".tensorcontrast-{secrets.token_hex(8)}.part"
    try:
        os.close(os.open(trial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        trial.unlink()
    except OSError as error:
        raise FileError(
            f"{path}: no permission to write into {folder.resolve()} ({error.strerror or error}); "
            "choose another place"
        ) from error


@contextmanager
def one_at_a_time(path: Path, *, poll: float = 0.1) -> Iterator[bool]:
    """Let one thread of one process at a time work on ``path``; others wait for it.

    A file ``<name>.lock`` next to it is held while the work lasts. The system lets go of it when a
    process dies, so nothing waits for ever. Where the file system has no locks the work goes on
    without, and False is given.
    """
    file = path.with_name(path.name + ".lock")
    handle = None
    while handle is None:
        try:
            opened = os.open(file, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise FileError(f"{path}: cannot be written: {error}") from error
        try:
            held = _try_lock(opened)
            # The one before removes the file: a lock on a file that is gone holds nobody off.
            if held and not _is_still(file, opened):
                held = False
        except BaseException:
            os.close(opened)
            raise
        if held or held is None:
            handle = opened
        else:
            os.close(opened)
            time.sleep(poll)
    try:
        yield held is True
    finally:
        if os.name == "posix":  # pragma: no branch
            file.unlink(missing_ok=True)  # before the lock is let go
        os.close(handle)
        if os.name != "posix":  # pragma: no cover
            try:
                file.unlink(missing_ok=True)
            except OSError:  # another has it open
                pass


def _try_lock(handle: int) -> bool | None:
    """Lock an open file: True if held, False if another holds it, None if there are no locks."""
    try:
        if os.name == "posix":
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        else:  # pragma: no cover
            import msvcrt

            windows: Any = msvcrt
            windows.locking(handle, windows.LK_NBLCK, 1)
    except (BlockingIOError, PermissionError):
        return False
    except OSError:
        return None
    return True


def _is_still(file: Path, handle: int) -> bool:
    try:
        return os.path.samestat(os.stat(file), os.fstat(handle))
    except OSError:
        return False


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
