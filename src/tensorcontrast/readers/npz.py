"""Recordings as ``.npz`` files, the project's own format.

The members are ``X`` (n, channel, time), ``y``, ``groups``, ``fs``, ``channels``, ``classes``,
``scale`` (factor of an integer ``X``), ``unit`` and, where known, ``name``, ``citation`` and
``licence``. Every further array with n entries is a column. ``tensorcontrast`` is text in JSON:
the version of the format and the SHA-256 of every other member. Files without it, as NumPy or
older versions write them, are read too; these have the checksums of the zip format only.
"""

from __future__ import annotations

import hashlib
import json
import os
import warnings
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, BinaryIO

import numpy as np
import numpy.typing as npt

from tensorcontrast.errors import (
    DamagedFileError,
    ForeignFileError,
    InvalidInputError,
    NewerFileError,
    TensorContrastWarning,
    TruncatedFileError,
)
from tensorcontrast.io.atomic import atomic_write
from tensorcontrast.readers.files import (
    check_expansion,
    check_inside,
    existing,
    expands_too_much,
    file_errors,
    read_npy,
)
from tensorcontrast.utils.names import listed

if TYPE_CHECKING:
    from tensorcontrast.recordings import Recordings

FORMAT = 1
_MANIFEST = "tensorcontrast"
RESERVED = frozenset(
    f"X y groups fs channels classes scale unit units name citation licence {_MANIFEST}".split()
)


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
        try:
            check_inside(key, "the name of a column")
        except DamagedFileError as error:
            raise InvalidInputError(f"{error}; rename it") from None
    arrays.update(recordings.columns)
    manifest = {"format": FORMAT, "sha256": {key: _digest(a) for key, a in arrays.items()}}
    # First, so that a list of members that was cut off still has it.
    arrays = {_MANIFEST: np.asarray(json.dumps(manifest)), **arrays}
    with atomic_write(target) as stream:
        _write_zip(stream, arrays, compress)
        if expands_too_much(sum(a.nbytes for a in arrays.values()), stream.tell()):
            stream.seek(0)  # nearly constant signals: compressed, they would look like a forgery
            stream.truncate()
            _write_zip(stream, arrays, False)
    return target


def _write_zip(stream: IO[bytes], arrays: Mapping[str, npt.NDArray[Any]], compress: bool) -> None:
    npy: Any = np.lib.format
    method = zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED
    with zipfile.ZipFile(stream, "w", method) as archive:
        for key, array in arrays.items():
            # The date of a ZipInfo is fixed, so the same recordings give the same bytes.
            info = zipfile.ZipInfo(f"{key}.npy")
            info.compress_type = method
            with archive.open(info, "w", force_zip64=True) as member:
                npy.write_array(member, array, allow_pickle=False)


def _digest(array: npt.NDArray[Any]) -> str:
    """SHA-256 of type, shape and values of an array."""
    little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    digest = hashlib.sha256(f"{little.dtype.str} {array.shape} ".encode())
    digest.update(little.data.cast("B") if array.size else b"")
    return digest.hexdigest()


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
    scale = scalar("scale")
    if "scale" in arrays and scale is None:
        raise DamagedFileError(f"{where}: 'scale' has shape {arrays['scale'].shape}, not one value")
    if "fs" in arrays and arrays["fs"].size != 1:
        raise DamagedFileError(f"{where}: 'fs' has shape {arrays['fs'].shape}, not one value")
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
        scale=scale,
        allow_nan=allow_nan,
    )


def read_arrays(path: Path) -> dict[str, npt.NDArray[Any]]:
    """Read all arrays of an ``.npz``, sizes checked first and nothing unpickled."""
    # One handle from first to last: another process may put a new file in the place of this one.
    with path.open("rb") as file:
        return _read_open(path, file)


def _read_open(path: Path, file: BinaryIO) -> dict[str, npt.NDArray[Any]]:
    if not zipfile.is_zipfile(file):
        file.seek(0)
        if file.read(2) == b"PK":
            raise TruncatedFileError(f"{path}: the end of the .npz file is missing; copy it again")
        raise ForeignFileError(f"{path}: not an .npz file")
    arrays: dict[str, npt.NDArray[Any]] = {}
    size = os.fstat(file.fileno()).st_size
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        _check_count(path, file, size, len(members))
        check_expansion(path, sum(m.file_size for m in members), size)
        for member in members:
            key = member.filename.removesuffix(".npy")
            where = f"{path} member {member.filename!r}"
            if key == member.filename:
                raise ForeignFileError(f"{where}: not a .npy array, so this is no .npz file")
            check_inside(key, where)
            if key in arrays:
                raise DamagedFileError(f"{where}: is there twice")
            if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise DamagedFileError(f"{where}: is compressed in a way that .npz files never are")
            try:
                with archive.open(member) as stream:
                    arrays[key] = read_npy(stream, member.file_size, where)
                    stream.read(1)  # reaching the end makes zipfile compare the checksum
            except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:
                raise DamagedFileError(f"{where}: {error}; copy the file again") from error
    if _MANIFEST in arrays:
        _verify(arrays, path)
    return arrays


def _check_count(path: Path, file: BinaryIO, size: int, found: int) -> None:
    """Compare the number of members with what the end of the zip says, which zipfile does not."""
    file.seek(size - min(size, 22 + 65535))
    end = file.read()
    said = int.from_bytes(end[end.rfind(b"PK\5\6") :][10:12], "little")
    if said not in (found, 0xFFFF):  # the latter where the number does not fit
        raise DamagedFileError(f"{path}: lists {found} of its {said} members; copy it again")


def _verify(arrays: dict[str, npt.NDArray[Any]], path: Path) -> None:
    """Compare arrays with the checksums written with them, which are then taken out."""
    try:
        manifest = json.loads(str(arrays.pop(_MANIFEST)[()]))
        version, sums = manifest["format"], manifest["sha256"]
        if type(version) is not int or not isinstance(sums, dict):
            raise TypeError(f"format {version!r}")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DamagedFileError(f"{path}: its list of checksums cannot be read: {error}") from error
    if version > FORMAT:
        raise NewerFileError(
            f"{path} has format {version}; this version reads up to {FORMAT}: update tensorcontrast"
        )
    odd = sorted(set(sums) ^ set(arrays))
    if odd:
        raise DamagedFileError(f"{path}: the members {odd} are not those that were written")
    for key, array in arrays.items():
        if _digest(array) != sums[key]:
            raise DamagedFileError(
                f"{path} member '{key}.npy': does not agree with its checksum; copy it again"
            )
