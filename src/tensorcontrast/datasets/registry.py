"""What the datasets are, where their files are looked for, and how they are fetched.

Files are looked for in this order: the path given, the folder named by the environment variable
``TENSORCONTRAST_DATA``, the cache (``data_home``, else ``TENSORCONTRAST_HOME``, else the cache
folder of the platform), and then the official source, if downloading is allowed.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tensorcontrast.errors import DataNotFoundError, InvalidInputError

__all__ = ["DATASETS", "DatasetInfo", "RemoteFile", "data_home", "find_data", "info"]


@dataclass(frozen=True)
class RemoteFile:
    """A file of an official source.

    ``sha256`` is ``None`` where no checksum is published; ``verified_by`` then says how the
    contents are checked instead.
    """

    name: str
    url: str
    sha256: str | None
    verified_by: str = "sha256"


@dataclass(frozen=True)
class DatasetInfo:
    """What is known of a dataset before it is loaded.

    Examples
    --------
    >>> from tensorcontrast.datasets import info
    >>> {known.name: known.loader for known in info()}["har"]
    'load_har'
    """

    name: str
    title: str
    loader: str
    citation: str
    licence: str
    url: str
    size: str
    samples: str
    place: tuple[str, ...]
    """Names, of which any one is enough, that are looked for in the data folders."""
    files: tuple[RemoteFile, ...] = field(default=())

    @property
    def credit(self) -> dict[str, Any]:
        """Name, citation and licence, as recordings carry them."""
        return {"name": self.name, "citation": self.citation, "licence": self.licence}


_PHYSIONET = "https://physionet.org/files"

DATASETS: dict[str, DatasetInfo] = {
    "watch": DatasetInfo(
        name="watch",
        title="Smartwatch recordings of shoulder exercises, 10 subjects, 7 exercises, 50 Hz",
        loader="load_watch",
        citation=(
            "D. M. Burns, N. Leung, M. Hardisty, C. M. Whyne, P. Henry, S. McLachlin: Shoulder "
            "physiotherapy exercise recognition: machine learning the inertial signals from a "
            "smartwatch. Physiological Measurement 39(7), 2018. Data as shipped with D. M. Burns, "
            "C. M. Whyne: Seglearn: a Python package for learning sequences and time series. "
            "JMLR 19(83), 2018."
        ),
        licence="BSD-3-Clause (as part of seglearn)",
        url="https://pypi.org/project/seglearn/",
        size="18 MB, in the package seglearn",
        samples="140 recordings of 19 to 52 s; 6 axes (acceleration, rotation)",
        place=("watch_dataset.npy",),
    ),
    "har": DatasetInfo(
        name="har",
        title="UCI HAR: human activity recognition with smartphones, 30 subjects, 6 activities",
        loader="load_har",
        citation=(
            "D. Anguita, A. Ghio, L. Oneto, X. Parra, J. L. Reyes-Ortiz: A public domain dataset "
            "for human activity recognition using smartphones. ESANN 2013."
        ),
        licence="CC BY 4.0",
        url="https://archive.ics.uci.edu/dataset/240",
        size="61 MB",
        samples="10299 windows of 2.56 s at 50 Hz; 9 channels",
        place=(
            "UCI HAR Dataset",
            "UCI HAR Dataset.zip",
            "human+activity+recognition+using+smartphones.zip",
            "har.npz",
        ),
        files=(
            RemoteFile(
                name="human+activity+recognition+using+smartphones.zip",
                url="https://archive.ics.uci.edu/static/public/240/"
                "human+activity+recognition+using+smartphones.zip",
                sha256="c00b803081a5c797cd5e4b83700a9810b38d53d9d84e01917e090e1fdbc81031",
            ),
        ),
    ),
    "sleep-edf": DatasetInfo(
        name="sleep-edf",
        title="Sleep-EDF Expanded 1.0.0: polysomnograms with sleep stages",
        loader="load_sleep_edf",
        citation=(
            "B. Kemp, A. H. Zwinderman, B. Tuk, H. A. C. Kamphuisen, J. J. L. Oberyé: Analysis of "
            "a sleep-dependent neuronal feedback loop: the slow-wave microcontinuity of the EEG. "
            "IEEE Transactions on Biomedical Engineering 47(9), 2000; A. Goldberger et al.: "
            "PhysioBank, PhysioToolkit, and PhysioNet. Circulation 101(23), 2000."
        ),
        licence="ODC-By 1.0",
        url="https://physionet.org/content/sleep-edfx/1.0.0/",
        size="8.1 GB; 50 MB a night",
        samples="197 nights; 30-s epochs at 100 Hz; up to 7 channels",
        place=(
            "sleep-edfx",
            "sleep-edf",
            "sleep-edf-database-expanded-1.0.0",
            "sleep-cassette",
            "sleep-telemetry",
            "sleepedf_fpzcz_5s.npz",
        ),
        files=(
            RemoteFile(
                name="SHA256SUMS.txt",
                url=f"{_PHYSIONET}/sleep-edfx/1.0.0/SHA256SUMS.txt",
                sha256="1bc88e19e2e921f7851d7cf61e31ceb8f6d670211ca546a323e9db5a77525edf",
            ),
            RemoteFile(
                name="sleep-cassette/*.edf and sleep-telemetry/*.edf",
                url=f"{_PHYSIONET}/sleep-edfx/1.0.0/",
                sha256=None,
                verified_by="SHA256SUMS.txt",
            ),
        ),
    ),
    "ptb-xl": DatasetInfo(
        name="ptb-xl",
        title="PTB-XL 1.0.3: 12-lead electrocardiograms of 10 s",
        loader="load_ptbxl",
        citation=(
            "P. Wagner, N. Strodthoff, R.-D. Bousseljot, D. Kreiseler, F. I. Lunze, W. Samek, "
            "T. Schaeffter: PTB-XL, a large publicly available electrocardiography dataset. "
            "Scientific Data 7:154, 2020."
        ),
        licence="CC BY 4.0",
        url="https://physionet.org/content/ptb-xl/1.0.3/",
        size="1.8 GB (zip), 3 GB unpacked",
        samples="21799 records of 10 s at 100 or 500 Hz; 12 leads",
        place=(
            "ptb-xl",
            "ptbxl",
            "ptb-xl-a-large-publicly-available-electrocardiography-dataset-1.0.3",
            "ptb-xl-a-large-publicly-available-electrocardiography-dataset-1.0.1",
            "ptbxl_100hz.npz",
        ),
        files=(
            RemoteFile(
                name="SHA256SUMS.txt",
                url=f"{_PHYSIONET}/ptb-xl/1.0.3/SHA256SUMS.txt",
                sha256="b7224b92b341511ec3ceb13dc6652079b2c36a06504bcb49506f157f51dc695d",
            ),
            RemoteFile(
                name="ptb-xl-1.0.3.zip",
                url="https://physionet.org/content/ptb-xl/get-zip/1.0.3/",
                sha256=None,
                verified_by="every file of it by SHA256SUMS.txt",
            ),
        ),
    ),
}


def info(name: str | None = None) -> tuple[DatasetInfo, ...]:
    """Tell what is known of all datasets, or of one.

    Examples
    --------
    >>> [entry.name for entry in info()]
    ['watch', 'har', 'sleep-edf', 'ptb-xl']
    >>> info("har")[0].licence
    'CC BY 4.0'
    """
    if name is None:
        return tuple(DATASETS.values())
    if name not in DATASETS:
        raise InvalidInputError(f"no dataset {name!r}; there are {', '.join(DATASETS)}")
    return (DATASETS[name],)


def data_home(folder: str | Path | None = None) -> Path:
    """Folder of downloaded data; it need not exist yet.

    Examples
    --------
    >>> data_home("cache").name
    'cache'
    """
    try:
        if folder is not None:
            return Path(folder).expanduser()
        if os.environ.get("TENSORCONTRAST_HOME"):
            return Path(os.environ["TENSORCONTRAST_HOME"]).expanduser()
        if sys.platform == "win32":
            base = Path(os.environ.get("LOCALAPPDATA", "~/AppData/Local")).expanduser()
        elif sys.platform == "darwin":
            base = Path("~/Library/Caches").expanduser()
        else:
            base = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    except RuntimeError as error:  # a user without a home folder, as in some containers
        raise DataNotFoundError(
            f"there is no folder for data ({error}); name one by data_home= or the environment "
            "variable TENSORCONTRAST_HOME"
        ) from error
    return base / "tensorcontrast"


def folders(name: str, home: str | Path | None = None) -> list[Path]:
    """Folders in which the files of a dataset are looked for, in order."""
    shared = os.environ.get("TENSORCONTRAST_DATA")
    bases = [] if home is not None or not shared else [Path(shared).expanduser()]
    try:
        bases.append(data_home(home))
    except DataNotFoundError:
        if not bases:
            raise
    out = [folder for base in bases for folder in (base, base / name)]
    if name == "watch" and (spec := importlib.util.find_spec("seglearn")):  # does not run it
        out += [Path(folder) / "data" for folder in spec.submodule_search_locations or ()]
    return out


def find_data(
    name: str, home: str | Path | None = None, *, only: Sequence[str] | None = None
) -> Path | None:
    """First of the known names of a dataset that is there, or None.

    Where ``data_home`` is given, it alone is searched.
    """
    for folder in folders(name, home):
        for place in only if only is not None else DATASETS[name].place:
            try:
                if (folder / place).exists():
                    return folder / place
            except OSError:  # a folder that may not be looked into
                continue
    return None


def find_or_fetch(
    name: str,
    home: str | Path | None,
    download: bool,
    fetch: Callable[[Path], Path],
    *,
    only: Sequence[str] | None = None,
    holds: str = "*",
) -> Path:
    """Place of a dataset; where it is not on this machine, ``fetch`` brings it into a folder.

    A folder counts only if it has a file of the pattern ``holds``.
    """
    place = find_data(name, home, only=only)
    if place is not None and (place.is_file() or any(place.glob(holds))):
        return place
    if not download:
        raise not_found(name, home)
    try:
        return fetch(data_home(home) / name)
    except DataNotFoundError as error:
        raise not_found(name, home, str(error)) from error


def not_found(name: str, home: str | Path | None = None, reason: str = "") -> DataNotFoundError:
    """Error that says which files to put where."""
    entry = DATASETS[name]
    where = "\n".join(f"  {folder}" for folder in folders(name, home))
    return DataNotFoundError(
        f"{entry.title}: the files are not on this machine{f' ({reason})' if reason else ''}.\n"
        f"Get them ({entry.size}; {entry.licence}) from {entry.url} and put any one of\n"
        + "\n".join(f"  {place}" for place in entry.place)
        + f"\ninto one of\n{where}\n"
        f"or name the place: {entry.loader}('path/to/it'), or set TENSORCONTRAST_DATA to its "
        f"folder; with a connection, {entry.loader}(download=True) fetches them."
    )
