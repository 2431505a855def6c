"""Recordings as ``.npz`` files, the project's own format.

The members are ``X`` (n, channel, time), ``y``, ``groups``, ``fs``, ``channels``, ``classes``,
``scale`` (factor of an integer ``X``), ``unit`` and, where known, ``name``, ``citation`` and
``licence``. Every further array with n entries is a column.
"""

from __future__ import annotations

import warnings
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tensorcontrast.errors import (
    DamagedFileError,
    ForeignFileError,
    InvalidInputError,
    TensorContrastWarning,
    TruncatedFileError,
)
from tensorcontrast.files import atomic_write
from tensorcontrast.readers._files import existing, file_errors, read_npy

if TYPE_CHECKING:
    from tensorcontrast.recordings import Recordings

RESERVED = frozenset(
    "X y groups fs channels classes scale unit units name citation licence".split()
)
# deflate cannot shrink below this, so a member that claims more is not what it says
_MOST_DEFLATE = 1040


def write_npz(recordings: Recordings, path: str | Path, *, compress: bool = True) -> Path:
    """Write recordings; the file appears whole or, if anything fails, not at all."""
    target = Path(path).expanduser()
    if target.suffix != ".npz":
        raise InvalidInputError(f"{target}: recordings are saved as .npz; give such a name")
    arrays: dict[str, npt.ArrayLike] = {"X": recordings.X}
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
    arrays.update(recordings.columns)
    save: Any = np.savez_compressed if compress else np.savez
    with atomic_write(target) as stream:
        save(stream, allow_pickle=False, **arrays)
    return target


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
                f"{source}: has no array 'X' (n, channel, time); it holds "
                f"{', '.join(sorted(arrays)) or 'nothing'}"
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
            f"{where}: left out {', '.join(left)}, which do not have one entry for each of the "
            f"{n} samples",
            TensorContrastWarning,
            stacklevel=4,
        )

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
    if not zipfile.is_zipfile(path):
        with path.open("rb") as stream:
            start = stream.read(4)
        if start[:2] == b"PK":
            raise TruncatedFileError(f"{path}: the end of the .npz file is missing; copy it again")
        raise ForeignFileError(f"{path}: not an .npz file")
    arrays: dict[str, npt.NDArray[Any]] = {}
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            key = member.filename.removesuffix(".npy")
            where = f"{path} member {member.filename!r}"
            if key == member.filename:
                raise ForeignFileError(f"{where}: not a .npy array, so this is no .npz file")
            if key in arrays:
                raise DamagedFileError(f"{where}: is there twice")
            if member.file_size > _MOST_DEFLATE * (member.compress_size + 64):
                raise DamagedFileError(
                    f"{where}: claims {member.file_size} bytes out of {member.compress_size}"
                )
            try:
                with archive.open(member) as stream:
                    arrays[key] = read_npy(stream, member.file_size, where)
                    stream.read(1)  # reaching the end makes zipfile compare the checksum
            except (zipfile.BadZipFile, EOFError) as error:
                raise DamagedFileError(f"{where}: {error}; copy the file again") from error
    return arrays
