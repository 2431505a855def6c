"""What all readers share: opening files, limits of sizes, errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath, PureWindowsPath

from tensorcontrast.errors import (
    DamagedFileError,
    DataNotFoundError,
    FileError,
    InvalidInputError,
    TensorContrastError,
)

#: More than any recorder has; beyond it a file is not what it says, and libraries take minutes.
MOST_CHANNELS = 16_384
#: What a small file may claim to hold, and what a larger one may claim for each of its bytes.
#: Signals shrink to a tenth at best, so a file that claims more was made to exhaust memory.
_ALWAYS = 64 << 20
_EACH_BYTE = 200


def existing(path: str | Path) -> Path:
    """Path of a file or folder that is there, with ``~`` expanded."""
    found = Path(path)
    try:
        found = found.expanduser()
        there, usable = found.exists(), found.is_file() or found.is_dir()
    except (OSError, RuntimeError) as error:  # no permission, a name too long, no home folder
        raise FileError(f"{found}: cannot be read: {error}") from error
    if not there:
        raise DataNotFoundError(f"{found}: no such file or folder")
    if not usable:  # opening a pipe would wait for ever
        raise FileError(f"{found}: neither a file nor a folder; copy its contents to a file first")
    return found


def is_glob(path: str | Path) -> bool:
    """Whether a path is a pattern for names of files, such as ``data/*.csv``."""
    return any(mark in str(path) for mark in "*?[") and not _there(Path(path))


def _there(path: Path) -> bool:
    try:
        return path.expanduser().exists()
    except (OSError, RuntimeError):
        return False


def matching_files(pattern: str | Path) -> tuple[Path, list[Path]]:
    """Folder before the first wildcard of a pattern, and the files that match, sorted."""
    parts = Path(pattern).expanduser().parts
    first = next(k for k, part in enumerate(parts) if any(mark in part for mark in "*?["))
    folder = Path(*parts[:first])
    try:
        found = sorted(p for p in folder.glob(str(Path(*parts[first:]))) if p.is_file())
    except (OSError, ValueError) as error:
        raise FileError(f"{pattern}: cannot be searched: {error}") from error
    if not found:
        raise DataNotFoundError(f"{pattern}: no file matches this pattern")
    return folder, found


def data_files(path: str | Path, suffixes: tuple[str, ...]) -> list[tuple[str, Path]]:
    """Files of a data set, each with its name below the folder.

    Parameters
    ----------
    path : path
        One file; a pattern such as ``data/*.csv``; or a folder, which is searched with its
        subfolders for the suffixes. Files and folders whose names begin with a dot are left out.
    """
    if is_glob(path):
        folder, files = matching_files(path)
    else:
        folder = existing(path)
        if folder.is_file():
            return [(folder.name, folder)]
        files = files_below(folder, suffixes)
        if not files:
            raise DataNotFoundError(
                f"{folder}: holds no file that ends in {', '.join(suffixes)}; name another folder"
            )
    return [(file.relative_to(folder).as_posix(), file) for file in files]


def data_name(path: str | Path) -> str:
    """Name of a data set: of its file without suffix, or of its folder."""
    source = Path(path).expanduser()
    if is_glob(source):
        return matching_files(source)[0].resolve().name
    return source.resolve().name if source.is_dir() else source.stem


def files_below(folder: Path, suffixes: tuple[str, ...]) -> list[Path]:
    """Files in a folder and below it that end in one of the suffixes, sorted."""
    return sorted(
        file
        for file in folder.rglob("*")
        if file.name.lower().endswith(suffixes)
        and not any(part.startswith(".") for part in file.relative_to(folder).parts)
        and file.is_file()
    )


def expands_too_much(claimed: int, stored: int) -> bool:
    """Whether ``claimed`` bytes out of ``stored`` ones are more than signals ever give."""
    return claimed > max(_ALWAYS, _EACH_BYTE * stored)


def check_expansion(where: object, claimed: int, stored: int) -> None:
    """Raise where a file claims far more than it holds, before memory is taken for it."""
    if expands_too_much(claimed, stored):
        raise DamagedFileError(
            f"{where}: claims {claimed} bytes out of {stored} in the file, which signals never "
            "give; if they are meant to be so, store them uncompressed"
        )


def check_inside(name: str, where: object) -> None:
    """Raise where a name within an archive or listing points out of its folder."""
    parts = set(PurePosixPath(name).parts) | set(PureWindowsPath(name).parts)
    away = PurePosixPath(name).is_absolute() or PureWindowsPath(name).anchor
    if not name or away or ".." in parts or "\0" in name:
        raise DamagedFileError(f"{where}: names {name!r}, which lies outside its folder; not read")


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
