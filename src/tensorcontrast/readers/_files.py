"""What all readers share: opening files, checking ``.npy`` headers, optional packages."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from tensorcontrast.errors import (
    DamagedFileError,
    DataNotFoundError,
    FileError,
    InvalidInputError,
    MissingDependencyError,
    TensorContrastError,
    TruncatedFileError,
)


def existing(path: str | Path) -> Path:
    """Path that is there, with ``~`` expanded."""
    found = Path(path).expanduser()
    if not found.exists():
        raise DataNotFoundError(f"{found}: no such file or folder")
    return found


def optional(module: str) -> Any:
    """Import an optional package, or say how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingDependencyError(
            f"reading this needs the package {module.split('.')[0]!r}; install it with "
            f"pip install 'tensorcontrast[data]' ({error})"
        ) from error


@contextmanager
def file_errors(path: Path, what: str) -> Iterator[None]:
    """Turn whatever a library raises for a bad file into an error that names the file."""
    try:
        yield
    except FileError:
        raise
    except TensorContrastError as error:
        if isinstance(error, InvalidInputError):
            raise FileError(f"{path}: {error}") from error
        raise
    except MemoryError as error:
        raise FileError(f"{path}: too large for the memory of this machine") from error
    except OSError as error:
        raise FileError(f"{path}: cannot be read: {error}") from error
    except Exception as error:
        raise DamagedFileError(
            f"{path}: cannot be read as {what}: {type(error).__name__}: {error}"
        ) from error


def read_npy(stream: IO[bytes], size: int, where: str) -> npt.NDArray[Any]:
    """Read one ``.npy`` of ``size`` bytes; its header is checked before memory is taken."""
    npy: Any = np.lib.format
    try:
        version = npy.read_magic(stream)
        if version == (1, 0):
            shape, fortran, dtype = npy.read_array_header_1_0(stream)
        elif version in ((2, 0), (3, 0)):
            # Versions 2 and 3 differ in the encoding of field names, which are refused below.
            shape, fortran, dtype = npy.read_array_header_2_0(stream)
        else:
            raise DamagedFileError(f"{where}: .npy version {version} is not known")
    except ValueError as error:
        if isinstance(error, FileError):
            raise
        raise DamagedFileError(f"{where}: not a .npy array: {error}") from error
    if dtype.hasobject or dtype.names is not None or dtype.kind not in "biufUS":
        raise DamagedFileError(
            f"{where}: holds {dtype}; only plain numbers and text are read, never pickled objects"
        )
    if any(side < 0 for side in shape):
        raise DamagedFileError(f"{where}: the header says shape {shape}")
    data = size - stream.tell()
    expected = prod(shape) * dtype.itemsize
    if expected != data:
        raise TruncatedFileError(
            f"{where}: the header says shape {shape} of {dtype} = {expected} bytes, but there are "
            f"{data}"
        )
    array = np.empty(prod(shape), dtype=dtype)
    if expected:
        _fill(stream, array.view(np.uint8), where)
    return array.reshape(shape, order="F" if fortran else "C")


def _fill(stream: IO[bytes], target: npt.NDArray[np.uint8], where: str) -> None:
    done = 0
    while done < len(target):
        chunk = stream.read(min(1 << 24, len(target) - done))
        if not chunk:
            raise TruncatedFileError(f"{where}: ends {len(target) - done} bytes too early")
        target[done : done + len(chunk)] = np.frombuffer(chunk, dtype=np.uint8)
        done += len(chunk)
