"""What readers of several signals per file share: names of channels, and signals at one rate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorcontrast.errors import FileError
from tensorcontrast.recordings.checks import positions
from tensorcontrast.recordings.sampling import resampled
from tensorcontrast.utils.names import listed

__all__ = ["different_names", "one_rate", "picked"]


def different_names(names: Sequence[str]) -> list[str]:
    """Names that differ: those that repeat get a number.

    Examples
    --------
    >>> different_names(["EEG", "ECG", "EEG"])
    ['EEG', 'ECG', 'EEG 2']
    """
    out: dict[str, None] = {}
    seen: Counter[str] = Counter()
    for name in names:
        new = name
        while new in out or not seen[name]:
            seen[name] += 1
            new = name if seen[name] == 1 else f"{name} {seen[name]}"
        out[new] = None
    return list(out)


def picked(names: Sequence[str], channels: Sequence[str] | None, where: Path) -> list[int]:
    """Positions of the channels that are asked for, all by default."""
    if channels is None:
        return list(range(len(names)))
    try:
        rows = positions("channel", channels, names)
    except ValueError as error:
        raise FileError(f"{where}: {error}") from error
    if len(set(rows)) < len(rows):
        raise FileError(f"{where}: channels= names {listed(channels)}, some more than once")
    return rows


def one_rate(
    signals: Sequence[npt.NDArray[Any]],
    rates: Sequence[float],
    names: Sequence[str],
    resample: float | None,
    where: Path,
) -> tuple[npt.NDArray[np.float32], float]:
    """Bring signals of a file to one rate (channel, time); several need ``resample``."""
    if len(set(rates)) == 1:
        return np.stack([x.astype(np.float32, copy=False) for x in signals]), rates[0]
    if resample is None:
        slow, fast = int(np.argmin(rates)), int(np.argmax(rates))
        raise FileError(
            f"{where}: the signals have several sampling rates ({names[fast]!r} {rates[fast]:g} "
            f"Hz, {names[slow]!r} {rates[slow]:g} Hz); pass channels= with those of one rate, or "
            f"resample={rates[fast]:g} (--resample) to bring all to one"
        )
    alike = [
        x if rate == resample else resampled(x, rate, resample)
        for x, rate in zip(signals, rates, strict=True)
    ]
    length = min(len(x) for x in alike)
    return np.stack([x[:length].astype(np.float32, copy=False) for x in alike]), resample
