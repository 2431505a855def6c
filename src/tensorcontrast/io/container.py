r"""The container of model files: a JSON header and arrays, checksummed, no pickle.

Layout, little-endian::

    8  magic "TCMODEL\0"
    4  format version          4  zero
    8  size of the whole file  8  length of the header
    …  header, JSON in UTF-8, with a table of the arrays
    …  arrays, raw and C-ordered, each at a multiple of 64 bytes
    32 SHA-256 of all before

Reading executes no code from the file: arrays have a fixed set of dtypes, and every size is checked
against the file before memory is taken for it. The size of the header and the number of objects in
it are limited before it is parsed, and nothing beyond these limits is written.
"""

from __future__ import annotations

import hashlib
import json
import math
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorcontrast.errors import (
    DamagedFileError,
    DataNotFoundError,
    FileError,
    ForeignFileError,
    InvalidInputError,
    NewerFileError,
    TruncatedFileError,
)
from tensorcontrast.io.atomic import atomic_write
from tensorcontrast.utils.names import listed

Array = NDArray[Any]

MAGIC, VERSION = b"TCMODEL\0", 1
_PREFIX = struct.Struct("<8sIIQQ")
_DIGEST = hashlib.sha256().digest_size
_ALIGN = 64
#: Most bytes of a header and most JSON objects in it; the models of the library have some hundred.
MAX_HEADER_BYTES, MAX_OBJECTS = 16 << 20, 100_000
#: Most axes of an array, as in NumPy 1.
MAX_AXES = 32
_DTYPES = {"<f4", "<f8", "<i8", "<i4", "|b1", "|i1", "|u1"}


def plain_array(array: Array, where: str) -> Array:
    """Return the array in a dtype that files have, little-endian."""
    plain = np.ascontiguousarray(array)
    if plain.dtype.kind == "i" and plain.dtype.itemsize == np.dtype(np.intp).itemsize:
        plain = plain.astype("<i8")
    if plain.dtype.newbyteorder("<").str not in _DTYPES:
        raise InvalidInputError(f"{where} has dtype {array.dtype}, which model files lack")
    return plain.astype(plain.dtype.newbyteorder("<"), copy=False)


def write(path: Path, header: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
    """Write a model file in one piece or not at all; arrays as :func:`plain_array` gives them."""
    table: list[dict[str, Any]] = []
    at = 0
    for name, array in arrays.items():
        table.append({"name": name, "dtype": array.dtype.str, "shape": array.shape, "offset": at})
        at += -(-array.nbytes // _ALIGN) * _ALIGN
    text = json.dumps({**header, "arrays": table}, allow_nan=False).encode()
    over = _over_limit(text)
    if over:
        raise InvalidInputError(f"{path}: the model is not written: {over}")
    start = -(-(_PREFIX.size + len(text)) // _ALIGN) * _ALIGN
    total = start + at + _DIGEST
    body = bytearray(start + at)
    _PREFIX.pack_into(body, 0, MAGIC, VERSION, 0, total, len(text))
    body[_PREFIX.size : _PREFIX.size + len(text)] = text
    for entry, array in zip(table, arrays.values(), strict=True):
        offset = start + entry["offset"]
        body[offset : offset + array.nbytes] = array.tobytes()
    with atomic_write(path) as file:
        file.write(body)
        file.write(hashlib.sha256(body).digest())


def read(path: Path) -> tuple[dict[str, Any], dict[str, Array]]:
    """Header and arrays of a model file.

    Raises
    ------
    DataNotFoundError
        No such file.
    ForeignFileError, TruncatedFileError, DamagedFileError, NewerFileError
        The file is something else, ends too early, has other contents than were written, or
        comes from a newer version.
    """
    raw = _content(path)
    header, start = _header(path, raw)
    try:
        return header, _arrays(header["arrays"], raw, start)
    except FileError as error:
        raise type(error)(f"{path}: {error}") from error
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise not_described(path, error) from error


def not_described(path: Path, error: Exception) -> DamagedFileError:
    """Return the error of a whole file whose header makes no sense."""
    return DamagedFileError(
        f"{path} has a right checksum but its header does not describe a model: {listed([error])}"
    )


def _content(path: Path) -> bytes:
    """Bytes of a file; of a file of another kind the first ones only."""
    try:
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise FileError(f"{path} cannot be read: it is no file")  # a pipe waits for ever
        with path.open("rb") as file:
            start = file.read(_PREFIX.size)
            return start + (file.read() if start[: len(MAGIC)] == MAGIC else b"")
    except FileNotFoundError:
        raise DataNotFoundError(f"no model file at {path}") from None
    except MemoryError as error:
        raise FileError(f"{path}: too large for the memory of this machine") from error
    except OSError as error:
        raise FileError(f"{path} cannot be read: {error.strerror or error}") from error


def _header(path: Path, raw: bytes) -> tuple[dict[str, Any], int]:
    """Header and start of the arrays, after all checks that need no trust in the contents."""
    if not raw:
        raise TruncatedFileError(f"{path} is empty; save the model again")
    if raw[: len(MAGIC)] != MAGIC[: len(raw)]:
        raise ForeignFileError(
            f"{path} is not a tensorcontrast model: it begins with {raw[:8]!r}; model files are "
            "written by .save(path)"
        )
    if len(raw) < _PREFIX.size + _DIGEST:
        raise TruncatedFileError(f"{path} ends after {len(raw)} bytes, before its header")
    _, version, _, total, length = _PREFIX.unpack_from(raw)
    if version > VERSION:
        raise NewerFileError(
            f"{path} has format {version}; this version reads up to {VERSION}: "
            "update tensorcontrast"
        )
    if len(raw) < total:
        raise TruncatedFileError(
            f"{path} has {len(raw)} of its {total} bytes; copy or save it again"
        )
    if len(raw) > total:
        raise DamagedFileError(f"{path} has {len(raw)} bytes but says {total}; save it again")
    if hashlib.sha256(raw[:-_DIGEST]).digest() != raw[-_DIGEST:]:
        raise DamagedFileError(f"{path} does not agree with its checksum; copy or save it again")
    start = -(-(_PREFIX.size + length) // _ALIGN) * _ALIGN
    if start > total - _DIGEST:
        raise DamagedFileError(f"{path} says its header has {length} bytes, more than the file")
    text = raw[_PREFIX.size : _PREFIX.size + length]
    over = _over_limit(text)
    if over:
        raise DamagedFileError(f"{path} is not read: {over}")
    try:
        header = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DamagedFileError(f"{path} has a header that is not JSON: {error}") from error
    if not isinstance(header, dict) or not {"model", "arrays"} <= set(header):
        raise DamagedFileError(f"{path} has a header without model or arrays")
    return header, start


def _over_limit(header: bytes) -> str | None:
    """Say which limit a header exceeds, before it is parsed."""
    if len(header) > MAX_HEADER_BYTES:
        return f"its header has {len(header)} bytes; at most {MAX_HEADER_BYTES} are read"
    count = header.count(b"{")
    if count > MAX_OBJECTS:
        return f"its header has {count} entries; at most {MAX_OBJECTS} are read"
    return None


def _arrays(table: list[dict[str, Any]], raw: bytes, start: int) -> dict[str, Array]:
    """Arrays of the table, each in memory of its own, sizes checked before they are taken."""
    end = len(raw) - _DIGEST
    out: dict[str, Array] = {}
    taken = 0
    for entry in table:
        shape, offset = tuple(entry["shape"]), start + entry["offset"]
        name = listed([entry["name"]])
        if (
            entry["dtype"] not in _DTYPES
            or len(shape) > MAX_AXES
            or any(type(d) is not int or not 0 <= d < 2**63 for d in shape)
        ):
            raise DamagedFileError(f"array {name} has dtype or shape out of range")
        dtype = np.dtype(entry["dtype"])
        count = math.prod(shape)
        if type(entry["offset"]) is not int or not start <= offset <= end - count * dtype.itemsize:
            raise DamagedFileError(f"array {name} lies outside the file")
        taken += count * dtype.itemsize
        if taken > len(raw):  # the same bytes a thousand times would take a thousand times as much
            raise DamagedFileError("the arrays together are larger than the file")
        flat = np.frombuffer(raw, dtype, count, offset)
        out[entry["name"]] = flat.reshape(shape).astype(dtype.newbyteorder("="))
    return out
