"""What changes within a window, as noise to read its features against.

Where windows are cut anywhere, any part of one is as good a window, and what tells its parts apart
tells nothing of the window. Each part is repeated to the length of a window, so that the same
tensors can be made of it.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from tensorcontrast.decompose import PLC
from tensorcontrast.errors import InvalidInputError

WINDOWS = 1024
"""Windows whose parts are compared, at most."""

MOST_VALUES = 2**26
"""Values of the tensors of all parts, at most (256 MiB in float32)."""

LEAST_WINDOWS = 32
"""Windows from which ``steady="auto"`` compares parts; fewer tell little."""

PARTS = 4
"""Parts of a window, at most."""


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


def differences(signals: Any, maker: Any, n_fft: int) -> np.ndarray:
    """Tensors of the parts of some windows less their mean over the parts, (m, I_1, …, I_K)."""
    one = maker.transform(np.asarray(signals[:1]))
    count = n_parts(int(signals.shape[-1]), n_fft)
    most = max(2, min(WINDOWS, MOST_VALUES // (count * one.size)))
    some = np.asarray(signals[:: -(-len(signals) // most)])
    edges = np.linspace(0, some.shape[-1], count + 1).astype(int)
    length = int(some.shape[-1])
    parts = []
    for start, stop in pairwise(edges):
        at = start + np.arange(length) % (stop - start)
        parts.append(np.asarray(maker.transform(some[:, :, at])))
    mean = sum(parts) / np.float32(count)
    for part in parts:
        part -= mean
    return np.concatenate(parts)
