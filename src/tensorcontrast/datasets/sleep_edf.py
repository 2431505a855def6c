"""Sleep-EDF Expanded: polysomnograms with sleep stages."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from tensorcontrast.datasets.download import fetch, read_sums
from tensorcontrast.datasets.registry import DATASETS, find_or_fetch
from tensorcontrast.errors import (
    DamagedFileError,
    DataNotFoundError,
    FileError,
    ForeignFileError,
    InvalidInputError,
    TensorContrastWarning,
)
from tensorcontrast.readers.edf import (
    open_edf,
    pick_signals,
    read_annotations,
    start_shift,
)
from tensorcontrast.readers.files import existing, file_errors
from tensorcontrast.readers.npz import read_npz
from tensorcontrast.recordings import Recordings

__all__ = ["SLEEP_CHANNELS", "load_sleep_edf"]

SLEEP_CHANNELS = (
    "EEG Fpz-Cz",
    "EEG Pz-Oz",
    "EOG horizontal",
    "Resp oro-nasal",
    "EMG submental",
    "Temp rectal",
    "Event marker",
)
STAGES = ("W", "N1", "N2", "N3", "REM")
_CODES = {
    "Sleep stage W": 0,
    "Sleep stage 1": 1,
    "Sleep stage 2": 2,
    "Sleep stage 3": 3,
    "Sleep stage 4": 3,
    "Sleep stage R": 4,
    "Sleep stage ?": -1,
    "Movement time": -1,
}
_EPOCH_S = 30
_FS = 100.0
#: Study, subject and night.
_NAME = re.compile(r"(SC4|ST7)\d\d\d[A-Z]\w-PSG\.edf")
_STUDIES = {"cassette": ("SC4",), "telemetry": ("ST7",), "both": ("SC4", "ST7")}


def load_sleep_edf(
    path: str | Path | None = None,
    *,
    data_home: str | Path | None = None,
    download: bool = True,
    channels: Sequence[str] | None = None,
    subjects: Sequence[int] | None = None,
    study: Literal["cassette", "telemetry", "both"] = "cassette",
    wake_margin_minutes: float | None = None,
) -> Recordings:
    """Load 30-s epochs of Sleep-EDF Expanded with their stages W, N1, N2, N3 and REM.

    Stage 4 counts as N3; movement time and epochs without a stage are left out.

    Parameters
    ----------
    path : path, optional
        Folder with pairs ``SC4001E0-PSG.edf`` and ``SC4001EC-Hypnogram.edf`` (subfolders are
        searched), one PSG file, or ``sleepedf_fpzcz_5s.npz``, which holds one channel and the
        first 5 s of each epoch only. By default they are looked for as described in
        :mod:`tensorcontrast.datasets.registry`.
    data_home : path, optional
        Cache folder.
    download : bool
        Fetch what is missing (50 MB a night) of the ``subjects`` if no files are there.
    channels : sequence of str, optional
        Signals to read, by default the seven of the cassette study, ``SLEEP_CHANNELS``, at
        100 Hz. Values of those stored at 1 Hz are repeated. The telemetry study does not have all
        of them. All of a night takes about 220 MB of memory with seven channels.
    subjects : sequence of int, optional
        Subject numbers as in the names of files (``ss`` of ``SC4ssN``); by default all there are.
    study : {"cassette", "telemetry", "both"}
        Files ``SC...``, ``ST...`` or all.
    wake_margin_minutes : float, optional
        Keep only this many minutes of wake before the first and after the last epoch of sleep; by
        default all (cassette recordings go on through the day).

    Returns
    -------
    Recordings
        Group = subject, as ``"SC400"``; columns ``night``, ``epoch`` (position in the night) and
        ``recording`` (such as ``"SC4001"``). From the npz: integer groups, no ``recording``.

    Examples
    --------
    >>> rec = load_sleep_edf(subjects=[0, 1])  # doctest: +SKIP
    >>> rec.classes  # doctest: +SKIP
    ('W', 'N1', 'N2', 'N3', 'REM')
    """
    if study not in _STUDIES:
        raise InvalidInputError(f"study={study!r} is none of {', '.join(_STUDIES)}")
    if wake_margin_minutes is not None and not wake_margin_minutes >= 0:
        raise InvalidInputError(f"wake_margin_minutes={wake_margin_minutes} must be at least 0")
    numbers = None if subjects is None else {int(s) for s in subjects}
    if path is not None:
        source = existing(path)
    else:
        npz_will_do = channels is None or tuple(channels) == ("EEG Fpz-Cz",)
        source = find_or_fetch(
            "sleep-edf",
            data_home,
            download,
            lambda folder: _download(folder, numbers, study),
            only=[p for p in DATASETS["sleep-edf"].place if npz_will_do or not p.endswith(".npz")],
            holds="**/*-PSG.edf",
        )
    if source.suffix == ".npz":
        return _from_npz(source, channels, numbers, wake_margin_minutes)
    nights = _nights(source, numbers, study)
    picked = tuple(channels) if channels is not None else SLEEP_CHANNELS

    # First the stages of all nights, to know how much memory the epochs take.
    stages = [_stages(psg, hypnogram, wake_margin_minutes) for psg, hypnogram in nights]
    counts = [len(epochs) for epochs, _ in stages]
    if not sum(counts):
        raise FileError(f"{source}: no epoch has a sleep stage")
    X = np.empty((sum(counts), len(picked), round(_EPOCH_S * _FS)), dtype=np.float32)
    blocks = np.split(X, np.cumsum(counts)[:-1])
    for (psg, _), (epochs, _), block in zip(nights, stages, blocks, strict=True):
        _fill(block, psg, epochs, picked)
    first = pick_signals(open_edf(nights[0][0]), picked, nights[0][0])
    names = [psg.name for psg, _ in nights]
    return Recordings(
        X,
        np.concatenate([codes for _, codes in stages]),
        groups=np.repeat([name[:5] for name in names], counts),
        fs=_FS,
        channels=picked,
        classes=STAGES,
        units=[str(signal.physical_dimension) for signal in first.values()],
        columns={
            "night": np.repeat([int(name[5]) for name in names], counts),
            "epoch": np.concatenate([epochs for epochs, _ in stages]),
            "recording": np.repeat([name[:6] for name in names], counts),
        },
        **DATASETS["sleep-edf"].credit,
    )


def _download(folder: Path, subjects: set[int] | None, study: str) -> Path:
    sums_file, records = DATASETS["sleep-edf"].files
    sums = read_sums(fetch(sums_file.url, folder / sums_file.name, sums_file.sha256))
    names = [n for n in sums if n.endswith(".edf") and Path(n).name[:3] in _STUDIES[study]]
    names = [n for n in names if subjects is None or int(Path(n).name[3:5]) in subjects]
    if not names:
        raise InvalidInputError(f"the {study} study has no subjects {sorted(subjects or [])}")
    for name in names:
        fetch(records.url + name, folder / name, sums[name])
    return folder


def _from_npz(
    source: Path,
    channels: Sequence[str] | None,
    subjects: set[int] | None,
    wake_margin_minutes: float | None,
) -> Recordings:
    rec = read_npz(source)
    if rec.classes != STAGES or "epoch" not in rec.columns or rec.groups is None:
        raise ForeignFileError(f"{source}: does not hold Sleep-EDF epochs")
    if rec.channels != (tuple(channels) if channels is not None else rec.channels):
        raise FileError(
            f"{source}: holds {rec.channels} only; other channels need the official EDF files"
        )
    if wake_margin_minutes is not None:
        raise FileError(f"{source}: is not whole nights; wake_margin_minutes needs the EDF files")
    name = f"{DATASETS['sleep-edf'].name} (Fpz-Cz, first 5 s of each epoch)"
    rec = rec._with(**{**DATASETS["sleep-edf"].credit, "name": name})
    return rec if subjects is None else rec.select(groups=sorted(subjects))


def _nights(source: Path, subjects: set[int] | None, study: str) -> list[tuple[Path, Path]]:
    """Return the recordings with their hypnograms."""
    files = sorted(source.rglob("*-PSG.edf")) if source.is_dir() else [source]
    nights = []
    for file in files:
        if not _NAME.fullmatch(file.name):
            raise ForeignFileError(
                f"{file}: the name is not like SC4001E0-PSG.edf, so subject and night are unknown"
            )
        if source.is_dir() and file.name[:3] not in _STUDIES[study]:
            continue
        if subjects is not None and int(file.name[3:5]) not in subjects:
            continue
        partners = sorted(file.parent.glob(f"{file.name[:6]}*-Hypnogram.edf"))
        if len(partners) != 1:
            raise DataNotFoundError(
                f"{file}: needs one file {file.name[:6]}..-Hypnogram.edf next to it, but there are "
                f"{len(partners)}"
            )
        nights.append((file, partners[0]))
    if not nights:
        asked = "" if subjects is None else f" and subjects {sorted(subjects)}"
        raise DataNotFoundError(f"{source}: holds no *-PSG.edf files of the {study} study{asked}")
    return nights


def _stages(
    recording: Path, where: Path, wake_margin_minutes: float | None
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Positions of the epochs to keep, and their stages."""
    psg, hypnogram = open_edf(recording), open_edf(where)
    n_epochs = int(float(psg.duration) // _EPOCH_S)
    shift = start_shift(psg, recording, hypnogram, where)
    codes = np.full(n_epochs, -1, dtype=np.int64)
    taken = np.zeros(n_epochs, dtype=bool)
    beyond = 0
    for onset, duration, text in read_annotations(hypnogram, where):
        if text not in _CODES:
            raise DamagedFileError(
                f"{where}: unknown stage {text!r} at {onset:g} s; known are {', '.join(_CODES)}"
            )
        first, count = (onset + shift) / _EPOCH_S, duration / _EPOCH_S
        if abs(first - round(first)) > 1e-6 or first < -1e-6:
            raise DamagedFileError(
                f"{where}: {text!r} starts at {onset + shift:g} s of the recording, which is not a "
                f"multiple of {_EPOCH_S} s"
            )
        start, stop = round(first), round(first) + int(count + 1e-6)
        if _CODES[text] >= 0:
            beyond += max(0, stop - max(start, n_epochs))
        if taken[start:stop].any():
            raise DamagedFileError(f"{where}: {text!r} at {onset:g} s overlaps another stage")
        taken[start:stop] = True
        codes[start:stop] = _CODES[text]
    if beyond:
        warnings.warn(
            f"{where}: {beyond} epochs with a stage lie behind the end of {recording.name} and "
            "were left out",
            TensorContrastWarning,
            stacklevel=3,
        )
    keep = codes >= 0
    asleep = np.flatnonzero(codes > 0)
    if wake_margin_minutes is not None and len(asleep):
        margin = int(wake_margin_minutes * 60 / _EPOCH_S)
        keep[: max(0, asleep[0] - margin)] = False
        keep[asleep[-1] + margin + 1 :] = False
    return np.flatnonzero(keep), codes[keep]


def _fill(
    out: npt.NDArray[np.float32],
    file: Path,
    epochs: npt.NDArray[np.int64],
    channels: tuple[str, ...],
) -> None:
    """Write the epochs of one night into ``out`` (epoch, channel, time)."""
    for k, signal in enumerate(pick_signals(open_edf(file), channels, file).values()):
        with file_errors(file, f"EDF signal {channels[k]!r}"):
            rate = float(signal.sampling_frequency)
            ratio = round(_FS / rate)
            if abs(ratio * rate - _FS) > 1e-6 * _FS:
                raise FileError(f"{file}: {channels[k]!r} at {rate:g} Hz is not read at {_FS:g} Hz")
            values = np.repeat(np.asarray(signal.data, dtype=np.float32), ratio)
            whole = len(values) // out.shape[2] * out.shape[2]
            out[:, k] = values[:whole].reshape(-1, out.shape[2])[epochs]
