"""What may change where nothing that matters has: noise to read features against.

Where windows are cut anywhere, any part of one is as good a window, and what tells its parts apart
tells nothing of the window. Each part is repeated to the length of a window, so that the same
tensors can be made of it. Nor does it tell much whether a window runs a little faster, as another
heart or another walker does, or, where channels see one source from different places, where
exactly these are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tensorcontrast._arrays import as_float
from tensorcontrast.augment import ChannelMix, Crop, TimeStretch
from tensorcontrast.decompose import PLC, kernels
from tensorcontrast.errors import InvalidInputError

WINDOWS = 4096
"""Windows whose parts are compared, at most."""

MOST_VALUES = 2**27
"""Values of the tensors of all parts, at most (512 MiB in float32)."""

LEAST_WINDOWS = 32
"""Windows from which ``steady="auto"`` compares parts; fewer tell little."""

PARTS = 4
"""Parts of a window, at most."""

STRETCH_VARIANCE, MIX_VARIANCE = 0.5, 1.0
"""Variance of the changes by time stretch and channel mixing, relative to that within windows."""

Change = Callable[[np.ndarray, np.random.Generator], np.ndarray]


def n_parts(n_times: int, n_fft: int) -> int:
    """Parts that a window has: up to four, each with a frame of its own; 0 if not even two."""
    count = min(PARTS, n_times // max(n_fft, 1))
    return count if count > 1 else 0


def asked(wanted: bool | str, tensorize: Any, decompose: Any, n_samples: int, n_times: int) -> bool:
    """Whether features are to be read against what changes within a window.

    "auto" does so for ``PLC()`` where frames are in levels, windows have room for parts and nothing
    is missing.
    """
    reason = _hindrance(tensorize, decompose, n_times)
    if wanted == "auto":
        return reason is None and n_samples >= LEAST_WINDOWS
    if wanted and reason is not None:
        raise InvalidInputError(f"steady=True: {reason}; use steady='auto'")
    return bool(wanted)


def _hindrance(tensorize: Any, decompose: Any, n_times: int) -> str | None:
    """Why there is nothing to compare, or nobody to read against it; None where there is."""
    if not isinstance(decompose, PLC) or decompose.solver != "tied":
        return "only PLC(solver='tied') reads features against noise"
    if decompose.missing == "mask":
        return "missing='mask' leaves no whole windows"
    if getattr(tensorize, "n_levels_", None) is None:
        return "parts of windows that are aligned to something differ by more than noise"
    if not n_parts(n_times, tensorize.n_fft_):
        return f"a window of {n_times} samples holds less than two frames"
    return None


def changes(tensorize: Any) -> list[tuple[Change, float]]:
    """List changes of signals that tell nothing, with their variance against that within windows.

    Time stretch, and channel mixing where channels rise and fall together.
    """
    out: list[tuple[Change, float]] = [(TimeStretch(), STRETCH_VARIANCE)]
    if getattr(tensorize, "polarity_", False):
        out.append((ChannelMix(), MIX_VARIANCE))
    return out


def differences(
    signals: Any, maker: Any, n_fft: int, changes: Sequence[tuple[Change, float]] = ()
) -> np.ndarray:
    """Differences between tensors that should have the same features, (m, I_1, …, I_K).

    Those between the parts of a window, and between two draws of each of the ``changes``.
    """
    one = maker.transform(np.asarray(signals[:1]))
    count = n_parts(int(signals.shape[-1]), n_fft)
    most = max(2, min(WINDOWS, MOST_VALUES // ((count + len(changes)) * one.size)))
    at = np.linspace(0, len(signals) - 1, min(most, len(signals))).astype(np.intp)
    some = as_float(np.asarray(signals[at]))
    rng = np.random.default_rng(0)
    n, end = len(some), count * len(some)
    out = np.empty((end + len(changes) * n, *one.shape[1:]), one.dtype)
    within(some, maker, count, out[:end])
    power = _power(out[:end])
    for change, share in changes:
        apart, change = out[end : end + n], _over_all(change, some)
        apart[...] = maker.transform(change(some, rng))
        apart -= maker.transform(change(some, rng))
        own = _power(apart)
        if own > 0:
            apart *= apart.dtype.type(np.sqrt(share * power / own))
            end += n
    return out[:end]


def _power(rows: np.ndarray) -> float:
    """Sum of all squares, in float64."""
    return float(kernels.row_norms_squared(rows.reshape(len(rows), -1)).sum())


def within(signals: np.ndarray, maker: Any, count: int, out: np.ndarray) -> None:
    """Write tensors of the parts of windows (n, c, t), less the mean of a window, to ``out``."""
    parts = out.reshape(count, len(signals), *out.shape[1:])
    for i, part in enumerate(parts):
        part[...] = maker.transform(Crop(count, part=i)(signals, 0))
    parts -= parts.mean(axis=0)


def _over_all(change: Change, signals: np.ndarray) -> Change:
    """Return the change with standard deviations of channels over all windows, if it has any."""
    if isinstance(change, ChannelMix) and change.channel_sds is None:
        return ChannelMix.from_signals(signals, change.strength)
    return change
