"""Downloads by pooch, which are accepted only with the right checksum."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from tensorcontrast.errors import DamagedFileError, DataNotFoundError, FileError, TruncatedFileError
from tensorcontrast.io.atomic import atomic_write, one_at_a_time
from tensorcontrast.readers.files import check_expansion, check_inside, file_errors
from tensorcontrast.utils.optional import optional

__all__ = ["extract_verified", "fetch", "read_sums", "sha256_of"]

#: How often a download is tried again, and the seconds of silence that end a connection.
RETRIES, TIMEOUT_S = 4, 60


def sha256_of(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def fetch(url: str, target: Path, sha256: str | None) -> Path:
    """Make sure that ``target`` is there with the right checksum, downloading it if need be.

    Parameters
    ----------
    url : str
        Official address.
    target : path
        Where the file belongs.
    sha256 : str or None
        Checksum; None only where the contents are verified afterwards by other means.
    """
    if _is_there(target, sha256):  # also in a cache that cannot be written to
        return target
    if not url.startswith(("http://", "https://")):
        raise FileError(f"{url}: only http and https are downloaded")
    pooch, requests, _ = (optional(name, "data") for name in ("pooch", "requests", "tqdm"))
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(
            f"{target}: cannot be downloaded, as its folder cannot be made ({error}); name another "
            "one by data_home= or the environment variable TENSORCONTRAST_HOME"
        ) from error
    with one_at_a_time(target):
        if _is_there(target, sha256):  # another has brought it in the meantime
            return target
        download = pooch.HTTPDownloader(progressbar=True, timeout=TIMEOUT_S)
        files = pooch.create(
            target.parent,
            base_url="",
            registry={target.name: None if sha256 is None else f"sha256:{sha256}"},
            urls={target.name: url},
            retry_if_failed=RETRIES,
        )
        try:
            files.fetch(target.name, downloader=download)
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
            check_expansion(f"{archive} member {name}", member.file_size, member.compress_size)
            with file_errors(archive, "a zip"):
                content = opened.read(member)
            if hashlib.sha256(content).hexdigest() != sums[name]:
                raise DamagedFileError(f"{archive} member {name}: does not have its checksum")
            target.parent.mkdir(parents=True, exist_ok=True)
            with atomic_write(target, sync=False) as stream:
                stream.write(content)
