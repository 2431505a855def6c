"""Downloads that continue where they stopped and are accepted only with the right checksum."""

from __future__ import annotations

import hashlib
import http.client
import os
import threading
import time
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import IO, Any

from tensorcontrast.errors import DamagedFileError, DataNotFoundError, FileError, TruncatedFileError
from tensorcontrast.io.atomic import atomic_write, one_at_a_time
from tensorcontrast.readers.files import check_inside, expands_too_much
from tensorcontrast.utils.optional import optional

__all__ = ["ResumableDownloader", "extract_verified", "fetch", "read_sums", "sha256_of"]

_CHUNK = 1 << 16


def sha256_of(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


class ResumableDownloader:
    """Downloader for pooch that keeps what has arrived and asks only for the rest.

    What has arrived is in ``<file>.part`` next to the target. A broken connection is taken up
    again ``retries`` times, and by the next call after that.

    Parameters
    ----------
    part : path
        Where to keep what has arrived.
    progress : bool
        Show a progress bar on standard error.
    retries : int
        How often to connect again without a single new byte in between.
    pause : float
        Seconds before the first new connection; doubled each time.
    timeout : float
        Seconds of silence after which a connection counts as broken.
    """

    def __init__(
        self,
        part: Path,
        *,
        progress: bool = True,
        retries: int = 4,
        pause: float = 1.0,
        timeout: float = 60.0,
    ) -> None:
        self.part = part
        self.progress = progress
        self.retries = retries
        self.pause = pause
        self.timeout = timeout

    def __call__(self, url: str, output_file: str | IO[bytes], pooch: Any) -> None:
        """Download ``url`` into ``output_file``, as pooch asks."""
        if not url.startswith(("http://", "https://")):
            raise FileError(f"{url}: only http and https are downloaded")
        self.part.parent.mkdir(parents=True, exist_ok=True)
        with _progress(self.part.name.removesuffix(".part"), self.progress) as report:
            failures, complete = 0, False
            while not complete:
                before = self._arrived()
                try:
                    complete, reason = self._connect(url, report), "the connection was cut"
                except (TimeoutError, ConnectionError, http.client.HTTPException) as error:
                    complete, reason = False, f"{type(error).__name__}: {error}"
                if complete:
                    break
                failures = 0 if self._arrived() > before else failures + 1
                if failures > self.retries:
                    raise TruncatedFileError(
                        f"{url}: stopped after {self._arrived()} bytes ({reason}); they are kept "
                        f"in {self.part}, run again to continue"
                    )
                if failures:
                    time.sleep(self.pause * 2 ** (failures - 1))
        self._hand_over(output_file)

    def _arrived(self) -> int:
        return self.part.stat().st_size if self.part.exists() else 0

    def _connect(self, url: str, report: Any) -> bool:
        """Fetch what is missing over one connection; True when all of the file is there."""
        have = self._arrived()
        request = urllib.request.Request(url, headers={"User-Agent": "tensorcontrast"})
        if have:
            request.add_header("Range", f"bytes={have}-")
        try:
            response = urllib.request.urlopen(request, timeout=self.timeout)
        except urllib.error.HTTPError as error:
            error.close()
            if error.code == 416 and have:  # nothing left to send, or the file has changed
                total = _total(error.headers.get("Content-Range"))
                if total == have:
                    return True
                self.part.unlink()
                return False
            if error.code in (429, 500, 502, 503, 504):
                return False
            raise DataNotFoundError(
                f"{url}: the server says {error.code} {error.reason}"
            ) from error
        except urllib.error.URLError as error:
            if isinstance(error.reason, TimeoutError | ConnectionResetError):
                return False
            raise DataNotFoundError(f"{url}: no connection: {error.reason}") from error
        with response:
            resumed = response.status == 206
            if resumed and not str(response.headers.get("Content-Range", "")).startswith(
                f"bytes {have}-"
            ):
                self.part.unlink()
                return False
            have = have if resumed else 0
            length = response.headers.get("Content-Length")
            total = have + int(length) if length is not None else None
            with self.part.open("ab" if resumed else "wb") as stream:
                report(have, total)
                while chunk := response.read(_CHUNK):
                    stream.write(chunk)
                    have += len(chunk)
                    report(have, total)
                stream.flush()
                os.fsync(stream.fileno())
        return total is None or have == total

    def _hand_over(self, output_file: str | IO[bytes]) -> None:
        if isinstance(output_file, str | os.PathLike):
            os.replace(self.part, output_file)
            return
        with self.part.open("rb") as stream:
            while chunk := stream.read(_CHUNK):
                output_file.write(chunk)
        self.part.unlink()


def fetch(
    url: str,
    target: Path,
    sha256: str | None,
    *,
    progress: bool = True,
    downloader: ResumableDownloader | None = None,
) -> Path:
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
    downloader : ResumableDownloader, optional
        Other than the usual one.
    """
    if _is_there(target, sha256):  # also in a cache that cannot be written to
        return target
    pooch = optional("pooch", "data")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(
            f"{target}: cannot be downloaded, as its folder cannot be made ({error}); name another "
            "one by data_home= or the environment variable TENSORCONTRAST_HOME"
        ) from error
    with one_at_a_time(target) as alone, _quiet(pooch.get_logger()):
        part = target.with_name(target.name + (".part" if alone else f".{os.getpid()}.part"))
        if not _is_there(target, sha256):  # another may have brought it in the meantime
            _retrieve(
                pooch,
                url,
                target,
                sha256,
                downloader or ResumableDownloader(part, progress=progress),
            )
    return target


def _retrieve(
    pooch: Any, url: str, target: Path, sha256: str | None, downloader: ResumableDownloader
) -> None:
    try:
        pooch.retrieve(
            url,
            known_hash=None if sha256 is None else f"sha256:{sha256}",
            fname=target.name,
            path=target.parent,
            downloader=downloader,
        )
    except (FileError, DataNotFoundError):
        raise
    except ValueError as error:
        raise DamagedFileError(
            f"{target}: what {url} sent does not have the known checksum {sha256}; it was "
            "thrown away. Try again, or get the file by another way"
        ) from error
    except OSError as error:
        raise FileError(f"{target}: cannot be downloaded from {url}: {error}") from error


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


def _total(content_range: str | None) -> int | None:
    tail = (content_range or "").rpartition("/")[2]
    return int(tail) if tail.isdigit() else None


def _progress(label: str, show: bool) -> AbstractContextManager[Any]:
    if not show:
        return nullcontext(lambda done, total: None)
    return _Bar(label)


class _Bar(AbstractContextManager[Any]):
    """Progress bar on standard error; gone when the download is done."""

    def __init__(self, label: str) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn

        self.bar = Progress(
            "{task.description}",
            BarColumn(),
            DownloadColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self.task = self.bar.add_task(label, total=None)

    def __enter__(self) -> Any:
        self.bar.start()
        return lambda done, total: self.bar.update(self.task, completed=done, total=total)

    def __exit__(self, *error: object) -> None:
        self.bar.stop()
