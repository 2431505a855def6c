"""Windows of frames, and the way back from frames to signals: overlap-add in least squares."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.fft
import scipy.signal

from tensorcontrast.errors import InvalidInputError
from tensorcontrast.tensorize.stft import Frames
from tensorcontrast.utils.arrays import as_array


def make_window(given: str | tuple[Any, ...] | list[Any], n_fft: int) -> np.ndarray:
    """Return a window (n_fft,) by its name in SciPy, or "rectangular"."""
    name = tuple(given) if isinstance(given, list) else given
    if name == "rectangular":
        name = "boxcar"
    try:
        window = np.asarray(scipy.signal.get_window(name, n_fft), dtype=np.float64)
        if not window.sum() > 0:
            raise ValueError("its sum is not above 0")
        return window
    except (ValueError, TypeError, IndexError, AttributeError) as error:
        raise InvalidInputError(
            f"window {given!r} cannot be made ({error}); use 'hann', 'rectangular' or "
            "another name known to scipy.signal.get_window"
        ) from None


def weights_of_samples(
    window: np.ndarray, hop: int, n_frames: int, n_times: int
) -> tuple[np.ndarray, np.ndarray]:
    """Sum of the squared windows over each sample (n_times,), and where it is not about 0."""
    weight, squared = np.zeros(n_times), window**2
    for start in hop * np.arange(n_frames):
        weight[start : start + len(window)] += squared
    return weight, weight > 1e-6 * weight.max()


def check_tensors(tensors: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Return tensors [n, *shape] as an array of finite real numbers, or say why they are not."""
    tensors = as_array(tensors, "tensors", way="")
    if tensors.shape[1:] != shape:
        raise InvalidInputError(
            f"tensors have shape {tensors.shape} where [n, *{shape}] is expected; "
            "pass what transform returns"
        )
    if tensors.dtype.kind not in "fiu":
        raise InvalidInputError(f"tensors hold {tensors.dtype} where real numbers are expected")
    bad = np.count_nonzero(~np.isfinite(tensors), axis=(1, 2, 3))
    if bad.any():
        first = int(np.flatnonzero(bad)[0])
        raise InvalidInputError(
            f"tensors[{first}] holds {bad[first]} values that are not finite; drop the sample"
        )
    return tensors


def overlap_add(
    tensors: np.ndarray, frames: Frames, weight: np.ndarray, covered: np.ndarray
) -> np.ndarray:
    """Signals (n, c, n_times) whose frames are nearest to tensors (n, 2c, f, t) of "complex".

    ``weight`` and ``covered`` (n_times,) are those of :func:`weights_of_samples`.
    """
    c = tensors.shape[1] // 2
    Z = tensors[:, :c] + 1j * tensors[:, c:]
    pieces = scipy.fft.irfft(Z, frames.n_fft, axis=2, norm=frames.norm)  # n, c, n_fft, t
    if frames.window is not None:
        pieces *= frames.window[:, None]
    out = np.zeros((len(tensors), c, len(weight)), frames.dtype)
    for t in range(tensors.shape[3]):
        out[:, :, t * frames.hop : t * frames.hop + frames.n_fft] += pieces[..., t]
    out[..., ~covered] = 0
    out[..., covered] /= weight[covered]
    return out
