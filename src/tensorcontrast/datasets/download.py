"""Downloads by pooch, which are accepted only with the right checksum."""

from __future__ import annotations

import hashlib
import threading
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from tensorcontrast.errors import DamagedFileError, DataNotFoundError, FileError, TruncatedFileError
from tensorcontrast.io.atomic import atomic_write, one_at_a_time
from tensorcontrast.readers.files import check_inside, expands_too_much
from tensorcontrast.utils.optional import optional

__all__ = ["extract_verified", "fetch", "read_sums", "sha256_of"]

#: How often a download is tried again, and the seconds of silence that end a connection.
RETRIES, TIMEOUT_S = 4, 60


def sha256_of(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def fetch(url: str, target: Path, sha256: str | None, *, progress: bool = True) -> Path:
    """Make sure that ``target`` is there with the right checksum, downloading it if need be.

    Parameters
    ----------
    url : str
        Official address.
    target : path
        Where the file belongs.
    sha256 : str or None
        Checksum; None only where the contents are verified afterwards by other means.
    progress : bool
        Show a progress bar.
    """
    if _is_there(target, sha256):  # also in a cache that cannot be written to
        return target
    if not url.startswith(("http://", "https://")):
        raise FileError(f"{url}: only http and https are downloaded")
    pooch, requests = optional("pooch", "data"), optional("requests", "data")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(
            f"{target}: cannot be downloaded, as its folder cannot be made ({error}); name another "
            "one by data_home= or the environment variable TENSORCONTRAST_HOME"
        ) from error
    with one_at_a_time(target), _quiet(pooch.get_logger()), _bar(target.name, progress) as bar:
        if _is_there(target, sha256):  # another has brought it in the meantime
            return target
        files = pooch.create(
            target.parent,
            base_url="",
            registry={target.name: None if sha256 is None else f"sha256:{sha256}"},
            urls={target.name: url},
            retry_if_failed=RETRIES,
        )
        try:
            files.fetch(target.name, downloader=pooch.HTTPDownloader(bar, timeout=TIMEOUT_S))
        except requests.HTTPError as error:
            raise DataNotFoundError(f"{url}: the server says {error}") from error
        except requests.exceptions.ChunkedEncodingError as error:
            raise TruncatedFileError(f"{url}: the connection was cut; try again") from error
        except requests.ConnectionError as error:
            raise DataNotFoundError(f"{url}: no connection: {error}") from error
        except ValueError as error:
            raise DamagedFileError(
                f"{target}: what {url} sent does not have the known checksum {sha256}; it was "
                "thrown away. Try again, or get the file by another way"
            ) from error
        except OSError as error:
            raise FileError(f"{target}: cannot be downloaded from {url}: {error}") from error
    return target


def _is_there(target: Path, sha256: str | None) -> bool:
    try:
        return target.is_file() and (sha256 is None or sha256_of(target) == sha256)
    except OSError:
        return False


_QUIET = threading.Lock()
_quiet_count = 0
_loud_level = 0


@contextmanager
def _quiet(logger: Any) -> Iterator[None]:
    """Keep pooch's log to warnings, as the progress bar says enough; threads may nest."""
    global _quiet_count, _loud_level
    with _QUIET:
        if not _quiet_count:
            _loud_level = logger.level
            logger.setLevel("WARNING")
        _quiet_count += 1
    try:
        yield
    finally:
        with _QUIET:
            _quiet_count -= 1
            if not _quiet_count:
                logger.setLevel(_loud_level)


def read_sums(path: Path) -> dict[str, str]:
    """Read a ``SHA256SUMS.txt``: checksum by name."""
    sums = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        digest, _, name = line.partition(" ")
        if not name or len(digest) != 64:
            raise DamagedFileError(
                f"{path} line {number}: not a checksum and a name: {line[:60]!r}"
            )
        sums[name.strip().lstrip("*")] = digest.lower()
    return sums


def extract_verified(
    archive: Path, folder: Path, sums: Mapping[str, str], names: Iterable[str]
) -> None:
    """Unpack the named files of a zip, each only if its checksum is right.

    Files that are already there with the right checksum are left as they are. The zip may have
    one folder above the names.
    """
    try:
        opened = zipfile.ZipFile(archive)
    except zipfile.BadZipFile as error:
        raise TruncatedFileError(f"{archive}: not a whole zip file: {error}") from error
    with opened:
        members = {m.filename: m for m in opened.infolist() if not m.is_dir()}
        tops = {name.split("/", 1)[0] for name in members}
        top = f"{next(iter(tops))}/" if len(tops) == 1 and len(members) > 1 else ""
        for name in names:
            if name not in sums:
                raise DamagedFileError(f"{archive}: there is no known checksum of {name}")
            check_inside(name, archive)
            target = folder / name
            if target.is_file() and sha256_of(target) == sums[name]:
                continue
            member = members.get(top + name) or members.get(name)
            if member is None:
                raise DamagedFileError(f"{archive}: has no {name}")
            if expands_too_much(member.file_size, member.compress_size):
                raise DamagedFileError(
                    f"{archive} member {name}: claims {member.file_size} bytes out of "
                    f"{member.compress_size}"
                )
            target.parent.mkdir(parents=True, exist_ok=True)
            with atomic_write(target, sync=False) as stream:
                if _copy(opened, member, stream, f"{archive} member {name}") != sums[name]:
                    raise DamagedFileError(f"{archive} member {name}: does not have its checksum")


def _copy(opened: zipfile.ZipFile, member: zipfile.ZipInfo, to: IO[bytes], where: str) -> str:
    """Unpack a member piece by piece; return its SHA-256."""
    digest = hashlib.sha256()
    try:
        with opened.open(member) as source:
            while chunk := source.read(1 << 20):
                digest.update(chunk)
                to.write(chunk)
    except (zipfile.BadZipFile, EOFError, RuntimeError, OSError) as error:
        raise DamagedFileError(f"{where}: {error}") from error
    return digest.hexdigest()


@contextmanager
def _bar(label: str, show: bool) -> Iterator[Any]:
    """Progress bar on standard error, as pooch calls it; False where none is shown."""
    if not show:
        yield False
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn

    columns = ("{task.description}", BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        yield _Bar(shown, label)


class _Bar:
    """The methods of a progress bar that pooch calls."""

    def __init__(self, shown: Any, label: str) -> None:
        self.shown, self.total = shown, 0
        self.task = shown.add_task(label, total=None)

    def update(self, size: int) -> None:
        """Count bytes that have arrived."""
        self.shown.update(self.task, advance=size, total=self.total or None)

    def reset(self) -> None:
        """Begin anew."""
        self.shown.reset(self.task)

    def close(self) -> None:
        """End; the bar closes itself."""
