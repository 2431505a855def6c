"""Short-time Fourier transform of many signals at once: frames, and quantiles of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import scipy.fft
import scipy.signal

from tensorcontrast.errors import InvalidInputError

REPRESENTATIONS = ("sqrt-magnitude", "magnitude", "log-magnitude", "log-real-imag")
"""What a tensor can hold of the short-time Fourier transform."""


def automatic_frames(
    n_times: int, fs: float | None = None, n_fft: int | None = None, hop: int | None = None
) -> tuple[int, int]:
    """Choose n_fft and hop for tensors of moderate size, where these are None.

    A frame lasts about 1.28 s (128 samples where fs is not known), has a power of two of 32 to 256
    samples and at most half of the window. The hop is an eighth of a frame where that gives up to
    16 frames, else a quarter for up to 32, else a half; beyond 128 frames, frames get longer, up
    to 1024 samples. Frames always overlap by half at least.

    Parameters
    ----------
    n_times : int
        Samples of a window, at least 2.
    fs : float or None, default=None
        Sampling rate in Hz.
    n_fft, hop : int or None, default=None
        Sizes that are taken as they are; the hop of a given ``n_fft`` is the same part of it.

    Returns
    -------
    tuple of int
        n_fft and hop.

    Examples
    --------
    >>> automatic_frames(128, 50), automatic_frames(1000, 100), automatic_frames(5000, 500)
    ((64, 8), (128, 32), (256, 128))
    """
    if n_times < 2:
        raise InvalidInputError(
            f"signals of {n_times} samples have no spectrum; use windows of at least 2 samples"
        )
    size = 128 if fs is None else 2 ** round(np.log2(np.clip(1.28 * fs, 32, 256)))
    longest = 2 ** int(np.log2(n_times if n_times < 16 else n_times // 2))
    size = min(size, longest)
    while size < min(1024, longest) and n_frames(n_times, size, size // 2) > 128:
        size *= 2
    parts = next(
        (p for p, most in ((8, 16), (4, 32)) if n_frames(n_times, size, max(1, size // p)) <= most),
        2,
    )
    step = max(1, size // parts)
    if n_fft is None:
        return size, int(hop or step)
    return int(n_fft), int(hop or max(1, n_fft // (size // step)))


def n_frames(n_times: int, n_fft: int, hop: int) -> int:
    """Count the whole frames in a window: nothing is padded."""
    return (n_times - n_fft) // hop + 1


def make_window(name: str, n_fft: int) -> np.ndarray:
    """Return a window (n_fft,): "hann" (periodic) or "rectangular"."""
    kind = "boxcar" if name == "rectangular" else name
    return np.asarray(scipy.signal.get_window(kind, n_fft), dtype=np.float64)


@dataclass(frozen=True)
class Frames:
    """All that turns signals in the unit, less their offsets, into tensors."""

    n_fft: int
    hop: int
    window: np.ndarray | None  # None = rectangular
    representation: str
    floor: float
    dtype: np.dtype[Any]
    n_quantiles: int | None  # None = frames in time
    unit: float  # what signals are divided by
    limit: float  # largest magnitude of a signal, not divided yet
    offset_response: np.ndarray  # (f,) complex128: transform of the window itself

    def shape(self, n_channels: int, n_times: int) -> tuple[int, int, int]:
        """Channels, frequencies and frames, or quantiles, of a tensor."""
        parts = 2 if self.representation == "log-real-imag" else 1
        count = self.n_quantiles or n_frames(n_times, self.n_fft, self.hop)
        return parts * n_channels, self.n_fft // 2 + 1, count

    def values(
        self, X: np.ndarray, offset: np.ndarray | None, lost: np.ndarray | None = None
    ) -> np.ndarray:
        """Tensors (n, *shape) of signals (n, c, t), whose offsets are (n, c, 1).

        Frames that are ``lost`` (n, c, frames) are NaN.
        """
        out = self.in_time(X, offset)
        if lost is not None:
            parts = out.reshape(len(X), -1, X.shape[1], *out.shape[2:])
            np.copyto(parts, np.nan, where=lost[:, None, :, None, :])
        if self.n_quantiles is None:
            return out
        pooled = np.empty((len(X), *self.shape(*X.shape[1:])), self.dtype)
        pool_quantiles(out, pooled)
        return pooled

    def in_time(self, X: np.ndarray, offset: np.ndarray | None) -> np.ndarray:
        """Tensors before frames are pooled."""
        # n = windows, c = channels, f = n_fft // 2 + 1 frequencies, t = frames
        n, c, n_times = X.shape
        a, b, step = X.strides
        frames: np.ndarray = np.lib.stride_tricks.as_strided(
            X,
            (n, c, self.n_fft, n_frames(n_times, self.n_fft, self.hop)),
            (a, b, step, self.hop * step),
            writeable=False,
        )
        if self.window is not None:
            frames = frames * self.window[:, None]
        Z = scipy.fft.rfft(frames, axis=2)  # n, c, f, t
        if offset is not None:  # its transform is that of the window times the offset
            response = self.offset_response
            at = np.flatnonzero(np.abs(response) > 1e-14 * np.abs(response).max())
            Z[:, :, at] += (offset * response[at])[..., None].astype(Z.dtype)
        if self.representation == "log-real-imag":
            out = np.abs(np.concatenate([Z.real, Z.imag], axis=1))
        else:
            out = np.abs(Z)
        if self.representation == "sqrt-magnitude":
            np.sqrt(out, out=out)
        elif self.representation.startswith("log"):
            out += self.dtype.type(self.floor)
            np.log(out, out=out)
        return out


@lru_cache(maxsize=256)
def quantile_weights(n_frames: int, n_quantiles: int) -> np.ndarray:
    """Weights (n_frames, n_quantiles) of the means over equal shares of the sorted frames.

    A frame on the border of two shares counts for both, in proportion.

    Examples
    --------
    >>> quantile_weights(3, 2).round(2).tolist()
    [[0.67, 0.0], [0.33, 0.33], [0.0, 0.67]]
    """
    first = np.arange(n_frames)[:, None]
    border = n_frames * np.arange(n_quantiles + 1) / n_quantiles
    inside = np.minimum(first + 1, border[1:]) - np.maximum(first, border[:-1])
    weights = np.maximum(inside, 0) * n_quantiles / n_frames
    weights.flags.writeable = False
    return np.asarray(weights)


def pool_quantiles(tensors: np.ndarray, out: np.ndarray) -> None:
    """Sort the frames of tensors (n, c, f, t) row by row, in place; write means of shares to out.

    Frames that are NaN are left out; a row without any other is NaN.
    """
    n, c, f, t = tensors.shape
    q = out.shape[3]
    tensors.sort(axis=3)  # NaN come last
    weights = quantile_weights(t, q).astype(tensors.dtype)
    # One product per window, so that blocks of other sizes give the same numbers.
    np.matmul(tensors.reshape(n, c * f, t), weights, out=out.reshape(n, c * f, q))
    if not np.isnan(tensors[..., -1]).any():
        return
    counts = t - np.isnan(tensors).sum(axis=3)
    for count in np.unique(counts):
        if count == 0:
            out[counts == 0] = np.nan
        elif count < t:
            rows = counts == count
            # einsum adds every row by itself, whatever other rows there are
            part = quantile_weights(int(count), q).astype(tensors.dtype)
            out[rows] = np.einsum("rt,tq->rq", tensors[rows][:, :count], part)
