"""Recordings as ``.npz`` files, the project's own format.

The members are ``X`` (n, channel, time), ``y``, ``groups``, ``fs``, ``channels``, ``classes``,
``scale`` (factor of an integer ``X``), ``unit`` and, where known, ``name``, ``citation`` and
``licence``. Every further array with n entries is a column. Nothing is unpickled, and every array
is compared with its checksum.
"""

from __future__ import annotations

import os
import warnings
import zipfile
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tensorcontrast.errors import (
    DamagedFileError,
    ForeignFileError,
    InvalidInputError,
    TensorContrastWarning,
    TruncatedFileError,
)
from tensorcontrast.io.atomic import atomic_write
from tensorcontrast.readers.files import (
    check_expansion,
    existing,
    expands_too_much,
    file_errors,
)
from tensorcontrast.recordings.checks import check_unicode, repeated
from tensorcontrast.utils.names import listed

if TYPE_CHECKING:
    from tensorcontrast.recordings import Recordings

RESERVED = frozenset(
    "X y groups fs channels classes scale unit units name citation licence".split()
)
_NPY: Any = np.lib.format  # which has no types


def write_npz(recordings: Recordings, path: str | Path, *, compress: bool = True) -> Path:
    """Write recordings; the file appears whole or, if anything fails, not at all."""
    target = Path(path).expanduser()
    if target.suffix != ".npz":
        raise InvalidInputError(f"{target}: recordings are saved as .npz; give such a name")
    arrays: dict[str, npt.NDArray[Any]] = {"X": recordings.X}
    for key in ("y", "groups", "fs", "channels", "classes"):
        value = getattr(recordings, key)
        if value is not None:
            arrays[key] = np.asarray(value)
    if recordings.units is not None:
        arrays["unit"] = np.asarray(recordings.units)
    for key in ("name", "citation", "licence"):
        if getattr(recordings, key):
            arrays[key] = np.asarray(getattr(recordings, key))
    clash = sorted(RESERVED & set(recordings.columns))
    if clash:
        raise InvalidInputError(f"columns cannot be saved under the names {clash}; rename them")
    for key, column in recordings.columns.items():
        if column.dtype.kind not in "biufUS":
            raise InvalidInputError(
                f"the column {key!r} holds {column.dtype}, which .npz files of recordings lack; "
                "make it numbers or text"
            )
    check_unicode("columns", tuple(recordings.columns))
    arrays.update(recordings.columns)
    with atomic_write(target) as stream:
        _write_zip(stream, arrays, compress)
        if expands_too_much(sum(a.nbytes for a in arrays.values()), stream.tell()):
            stream.seek(0)  # nearly constant signals: compressed, they would look like a forgery
            stream.truncate()
            _write_zip(stream, arrays, False)
    return target


def _write_zip(stream: IO[bytes], arrays: Mapping[str, npt.NDArray[Any]], compress: bool) -> None:
    method = zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED
    with zipfile.ZipFile(stream, "w", method) as archive:
        for key, array in arrays.items():
            # The date of a ZipInfo is fixed, so the same recordings give the same bytes.
            info = zipfile.ZipInfo(f"{key}.npy")
            info.compress_type = method
            with archive.open(info, "w", force_zip64=True) as member:
                _NPY.write_array(member, array, allow_pickle=False)


def read_npz(path: str | Path, *, allow_nan: bool = False) -> Recordings:
    """Read recordings; see the module for the layout.

    Parameters
    ----------
    path : path
        The file.
    allow_nan : bool
        Accept NaN in the signals.
    """
    from tensorcontrast.recordings import Recordings

    source = existing(path)
    with file_errors(source, "an .npz file"):
        arrays = read_arrays(source)
        if "X" not in arrays:
            raise ForeignFileError(
                f"{source}: has no array 'X' (n, channel, time); it holds {listed(sorted(arrays))}"
            )
        return from_arrays(Recordings, arrays, str(source), allow_nan=allow_nan)


def from_arrays(
    cls: type[Recordings], arrays: dict[str, npt.NDArray[Any]], where: str, *, allow_nan: bool
) -> Recordings:
    """Build recordings from named arrays; arrays that fit nowhere are left out with a warning."""
    X = arrays["X"]
    n = X.shape[0] if X.ndim else -1
    extra = {key: value for key, value in arrays.items() if key not in RESERVED}
    columns = {k: v for k, v in extra.items() if v.ndim and len(v) == n}
    left = [k for k in extra if k not in columns]
    if left:
        warnings.warn(
            f"{where}: left out {listed(left)}, which do not have one entry for each of the "
            f"{n} samples",
            TensorContrastWarning,
            stacklevel=4,
        )

    for key in ("channels", "classes"):
        if key in arrays and arrays[key].ndim != 1:
            raise DamagedFileError(f"{where}: {key!r} has shape {arrays[key].shape}, not a list")

    def scalar(key: str) -> Any:
        return arrays[key].item() if key in arrays and arrays[key].size == 1 else None

    unit = arrays.get("unit", arrays.get("units"))
    for key in ("fs", "scale"):
        if key in arrays and (arrays[key].size != 1 or arrays[key].dtype.kind not in "iuf"):
            raise DamagedFileError(f"{where}: {key!r} is not one number")
    return cls(
        X,
        arrays.get("y"),
        groups=arrays.get("groups"),
        fs=scalar("fs"),
        channels=arrays["channels"].tolist() if "channels" in arrays else None,
        classes=arrays["classes"].tolist() if "classes" in arrays else None,
        units=None if unit is None else unit.tolist(),
        columns=columns,
        name=scalar("name") or "",
        citation=scalar("citation") or "",
        licence=scalar("licence") or "",
        scale=scalar("scale"),
        allow_nan=allow_nan,
    )


def read_arrays(path: Path) -> dict[str, npt.NDArray[Any]]:
    """Read all arrays of an ``.npz``, sizes checked first and nothing unpickled."""
    arrays: dict[str, npt.NDArray[Any]] = {}
    # One handle from first to last: another process may put a new file in the place of this one.
    with path.open("rb") as file:
        if not zipfile.is_zipfile(file):
            file.seek(0)
            if file.read(2) == b"PK":
                raise TruncatedFileError(f"{path}: the end of the file is missing; copy it again")
            raise ForeignFileError(f"{path}: not an .npz file")
        size = os.fstat(file.fileno()).st_size
        with zipfile.ZipFile(file) as archive, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of headers that Python 2 wrote
            members = archive.infolist()
            # zipfile does not compare the number of members with what the end of the file says.
            file.seek(size - min(size, 22 + 65535))
            end = file.read()
            said = int.from_bytes(end[end.rfind(b"PK\5\6") :][10:12], "little")
            if said not in (len(members), 0xFFFF):  # the latter where the number does not fit
                raise DamagedFileError(f"{path}: lists {len(members)} of its {said} members")
            twice = repeated([m.filename for m in members])
            if twice:
                raise DamagedFileError(f"{path}: member {listed(twice)} is there twice")
            check_expansion(path, sum(m.file_size for m in members), size)
            for member in members:
                where = f"{path} member {member.filename!r}"
                if not member.filename.endswith(".npy"):
                    raise ForeignFileError(f"{where}: not a .npy array, so this is no .npz file")
                with file_errors(Path(where), "an array"), archive.open(member) as stream:
                    arrays[member.filename.removesuffix(".npy")] = _array(
                        stream, member.file_size, where
                    )
    return arrays


def _array(stream: IO[bytes], size: int, where: str) -> npt.NDArray[Any]:
    """Read one ``.npy`` of ``size`` bytes; its header is checked before memory is taken."""
    readers = {(1, 0): _NPY.read_array_header_1_0, (2, 0): _NPY.read_array_header_2_0}
    shape, _, dtype = readers[_NPY.read_magic(stream)](stream)
    if not dtype.itemsize or dtype.kind not in "biufUS":
        raise DamagedFileError(
            f"{where}: holds {dtype}, not plain numbers or text; pickles are never opened"
        )
    if min(shape, default=0) < 0 or prod(shape) * dtype.itemsize != size - stream.tell():
        raise TruncatedFileError(
            f"{where}: has {size} bytes, which is not an array of shape {shape} of {dtype}"
        )
    stream.seek(0)
    array: npt.NDArray[Any] = _NPY.read_array(stream, allow_pickle=False)
    stream.read(1)  # reaching the end makes zipfile compare the checksum
    # NumPy would take any bytes as truth values and as text.
    if array.dtype.kind == "b" and array.size and array.view(np.uint8).max() > 1:
        raise DamagedFileError(f"{where}: holds bytes that are neither true nor false")
    array = array.astype(array.dtype.newbyteorder("="), copy=False)
    if array.dtype.kind == "U" and array.size:
        points = np.ascontiguousarray(array).view(np.uint32)
        if points.max() > 0x10FFFF or ((points >= 0xD800) & (points < 0xE000)).any():
            raise DamagedFileError(f"{where}: holds text that is not Unicode")
    return array
