"""Shapes in windows: how often dilated convolutions exceed a bias, as principal values.

The kernels are those of MiniRocket (Dempster et al. 2021): nine weights, three of them 2 and six
−1, so that a constant gives 0 but for the zeros around a window.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import combinations

import joblib
import numpy as np
import scipy.linalg

from tensorcontrast import threads
from tensorcontrast._signals import without_level
from tensorcontrast.errors import InvalidInputError

N_VALUES = 256
"""Principal values at most."""

N_BIASES = 4
"""Biases of a kernel at a dilation."""

WINDOWS, BIAS_WINDOWS = 2048, 128
"""Windows that the principal values, and the biases, are learned from."""

POSITIONS = 256
"""Windows of twice as many samples or more are convolved at every second, third … position."""

MOST_CHANNELS = 9
"""Channels that a kernel adds up at most."""

LEAST_VARIANCE = 1e-6
"""Share of the largest variance below which a direction is left out."""

_TAPS = 9
_TWOS = np.array(list(combinations(range(_TAPS), 3)))
_ROWS = 64
"""Windows of one task and rows of one product with the basis, always: values of a window do not
depend on those that it comes with."""

_BLOCK = 1 << 18
"""Numbers of one block of convolutions: it stays in the cache."""


def kernels() -> np.ndarray:
    """Return the 84 kernels (84, 9)."""
    weights = np.full((len(_TWOS), _TAPS), -1, np.float32)
    np.put_along_axis(weights, _TWOS, 2, axis=1)
    return weights


def dilations(n_times: int) -> np.ndarray:
    """Return the powers of two at which a kernel is no longer than the window, at least 1.

    Examples
    --------
    >>> dilations(5).tolist(), dilations(128).tolist()
    ([1], [1, 2, 4, 8])
    """
    longest = max(1, (n_times - 1) // (_TAPS - 1))
    return 2 ** np.arange(longest.bit_length(), dtype=np.int64)


@dataclass(frozen=True)
class Shapes:
    """Kernels with their biases, and the principal directions of the shares that they give."""

    dilations: np.ndarray  # (d,) int64
    channels: np.ndarray  # (84, d, c): weights with which a kernel adds up the channels
    biases: np.ndarray  # (84, d, N_BIASES), increasing
    mean: np.ndarray  # (84·d·N_BIASES,)
    basis: np.ndarray  # (84·d·N_BIASES, p), orthonormal columns

    def check(self, n_channels: int, n_times: int) -> None:
        """Refuse arrays that cannot belong to windows of this size, as from a damaged file."""
        expected = dilations(n_times)
        d, k = len(expected), len(_TWOS)
        n_shares = k * d * N_BIASES
        p = self.basis.shape[1] if self.basis.ndim == 2 else 0
        wanted: dict[str, tuple[int, ...]] = {
            "dilations": (d,),
            "channels": (k, d, n_channels),
            "biases": (k, d, N_BIASES),
            "mean": (n_shares,),
            "basis": (n_shares, min(max(p, 1), n_shares)),
        }
        for name, shape in wanted.items():
            values: np.ndarray = getattr(self, name)
            dtype = np.dtype(np.int64 if name == "dilations" else np.float32)
            if values.shape != shape or values.dtype != dtype:
                raise InvalidInputError(
                    f"{name} of the shapes are {values.dtype} of shape {values.shape}, not {dtype} "
                    f"of shape {shape} as for windows of {n_channels} channels and {n_times} "
                    "samples; fit again"
                )
            if not np.isfinite(values).all():
                raise InvalidInputError(f"{name} of the shapes are not all finite; fit again")
        if not np.array_equal(self.dilations, expected):
            raise InvalidInputError(
                f"dilations of the shapes are {self.dilations.tolist()}, not {expected.tolist()} "
                f"as for windows of {n_times} samples; fit again"
            )
        if (np.diff(self.biases, axis=2) < 0).any():
            raise InvalidInputError("biases of the shapes do not increase; fit again")

    def shares(self, X: np.ndarray, n_jobs: int | None = None, unit: float = 1.0) -> np.ndarray:
        """Share of the positions of windows (n, c, t) at which a kernel exceeds a bias.

        Windows are divided by ``unit`` first, as those were that the biases were learned of.
        """
        convolve = self._convolutions(X, unit)
        out = np.empty((len(X), *self.biases.shape), np.float32)

        def work(start: int) -> None:
            self._count(convolve, X[start : start + _ROWS], out[start : start + _ROWS])

        _in_threads(work, range(0, len(X), _ROWS), n_jobs)
        return out.reshape(len(X), self.biases.size)

    def transform(self, X: np.ndarray, n_jobs: int | None = None, unit: float = 1.0) -> np.ndarray:
        """Principal values (n, p) of windows (n, c, t): (shares − mean)·basis."""
        convolve = self._convolutions(X, unit)
        out = np.empty((len(X), self.basis.shape[1]), np.float32)

        def work(start: int) -> None:
            block = X[start : start + _ROWS]
            counted = np.empty((len(block), *self.biases.shape), np.float32)
            self._count(convolve, block, counted)
            rows = counted.reshape(len(block), 1, -1)
            rows -= self.mean
            # One product a window: what BLAS makes of a row of many depends on its place.
            np.matmul(rows, self.basis, out=out[start : start + _ROWS, None])

        _in_threads(work, range(0, len(X), _ROWS), n_jobs)
        return out

    def _convolutions(self, X: np.ndarray, unit: float) -> _Convolutions:
        if X.ndim != 3 or X.shape[1] != self.channels.shape[2]:
            raise InvalidInputError(
                f"X has shape {X.shape}; the shapes are those of windows (n, channels, times) of "
                f"{self.channels.shape[2]} channels"
            )
        return _Convolutions(self.dilations, self.channels, X.shape[2], unit)

    def _count(self, convolve: _Convolutions, X: np.ndarray, out: np.ndarray) -> None:
        """Write the shares of some windows to out (n, 84, d, N_BIASES)."""
        step, positions = convolve.step, convolve.positions
        # Biases of each window of a block, next to each other as the convolutions are.
        biases = np.tile(self.biases.transpose(1, 2, 0), step)  # d, N_BIASES, step·84
        above = np.empty((positions, biases.shape[2]), bool)
        # Sums of bytes are the fastest, of up to 255 positions at a time.
        parts = [above[i : i + 255].view(np.uint8) for i in range(0, positions, 255)]
        counts = np.empty((N_BIASES, step, len(_TWOS)), np.float32)
        by_kernel = counts.transpose(1, 2, 0)
        for start in range(0, len(X), step):
            some = X[start : start + step]
            for i, values in enumerate(convolve(some)):
                for bias, count in zip(biases[i], counts.reshape(N_BIASES, -1), strict=True):
                    np.greater(values, bias, out=above)
                    count[:] = np.add.reduce(parts[0], axis=0, dtype=np.uint8)
                    for part in parts[1:]:
                        count += np.add.reduce(part, axis=0, dtype=np.uint8)
                out[start : start + step, :, i] = by_kernel[: len(some)]
        out /= np.float32(positions)


class _Convolutions:
    """Outputs of all kernels for blocks of ``step`` windows, dilation by dilation.

    Positions 0, s, 2·s, … are those of a signal of its own for each remainder of the time by s, in
    which the taps of a kernel are plain shifts. A window goes without its level, which the zeros
    around it lose as well: the weights of a kernel add up to 0, so that nothing else changes, and
    float32 keeps the digits of what is on top of a large level.
    """

    def __init__(
        self, dilations: np.ndarray, channels: np.ndarray, n_times: int, unit: float = 1.0
    ) -> None:
        self.unit = unit
        self.dilations = [int(dilation) for dilation in dilations]
        k, _, c = channels.shape
        # k = kernels, c = channels: weights of tap and channel, (d, 9·c, k)
        weights = kernels()[:, :, None, None] * channels[:, None]  # k, 9, d, c
        self.weights = np.ascontiguousarray(weights.transpose(2, 1, 3, 0)).reshape(-1, _TAPS * c, k)
        self.n_channels, self.n_kernels, self.n_times = c, k, n_times
        self.stride = max(1, n_times // POSITIONS)
        self.positions = -(-n_times // self.stride)
        self.pad = 4 * max(self.dilations)
        self.step = min(_ROWS, max(1, _BLOCK // (self.positions * (k + _TAPS * c))))

    def __call__(self, X: np.ndarray) -> Iterator[np.ndarray]:
        """Yield outputs (positions, step·84) of up to ``step`` windows, always in the same array.

        One for each dilation; those of windows that are not there are 0.
        """
        c, s, size = self.n_channels, self.stride, self.positions
        length = -(-(self.n_times + 2 * self.pad) // s)
        padded = np.zeros((self.step, c, length * s), np.float32)
        values, level = without_level(X, padded.dtype, self.unit)
        if level is not None:
            padded[: len(X)] = -level
        padded[: len(X), :, self.pad : self.pad + self.n_times] = values
        phases = padded.reshape(self.step, c, length, s).transpose(0, 3, 1, 2)
        phases = np.ascontiguousarray(phases)  # step, s, c, length
        shifted = np.empty((self.step, _TAPS, c, size), np.float32)
        taps = shifted.reshape(self.step, _TAPS * c, size).transpose(0, 2, 1)
        values = np.empty((size, self.step, self.n_kernels), np.float32)
        for dilation, weights in zip(self.dilations, self.weights, strict=True):
            for tap in range(_TAPS):
                first, phase = divmod(self.pad + (tap - _TAPS // 2) * dilation, s)
                shifted[:, tap] = phases[:, phase, :, first : first + size]
            # One product a window, so that blocks of other windows give the same numbers.
            np.matmul(taps, weights, out=values.transpose(1, 0, 2))
            yield values.reshape(size, -1)


def learn(
    X: np.ndarray,
    n_values: int = N_VALUES,
    seed: int = 0,
    n_jobs: int | None = None,
    scale: bool = True,
    unit: float = 1.0,
) -> Shapes:
    """Draw kernels for windows (n, c, t), and learn their biases and the principal directions.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_channels, n_times)
        Windows, finite; up to ``WINDOWS`` of them are used.
    n_values : int, default=N_VALUES
        Principal values at most.
    seed : int, default=0
        Seed of the channels that the kernels add up.
    n_jobs : int or None, default=None
        Threads; None is one for each usable processor, −1 is all.
    scale : bool, default=True
        Whether channels count in units of their standard deviation.
    unit : float, default=1.0
        What windows are divided by first.

    Returns
    -------
    Shapes
        What was learned; it does not depend on the number of threads.
    """
    if X.ndim != 3 or 0 in X.shape:
        raise InvalidInputError(
            f"X has shape {X.shape}; shapes need windows (n, channels, times), at least one"
        )
    if n_values < 1:
        raise InvalidInputError(f"n_values is {n_values}; keep at least one value")
    X = X[:: -(-len(X) // WINDOWS)]
    steps = dilations(X.shape[2])
    rng = np.random.default_rng(seed)
    size = (len(_TWOS), len(steps))
    most = min(X.shape[1], MOST_CHANNELS)
    counts = np.clip(np.floor(2 ** rng.uniform(0, np.log2(most + 1), size)), 1, most)
    ranks = rng.random((*size, X.shape[1])).argsort(axis=2).argsort(axis=2)
    weights = _units(X, unit) if scale else np.ones(X.shape[1], np.float32)
    channels = (ranks < counts[:, :, None]) * weights
    biases = _quantiles(X[:: -(-len(X) // BIAS_WINDOWS)], steps, channels, n_jobs, unit)
    n_shares = biases.size
    bare = Shapes(steps, channels, biases, np.zeros(n_shares, np.float32), np.eye(n_shares, 1))
    mean, basis = _principal(bare.shares(X, n_jobs, unit), n_values)
    return Shapes(steps, channels, biases, mean, basis)


def _units(X: np.ndarray, unit: float) -> np.ndarray:
    """1 over the standard deviation of each channel, in units; 0 for those that are constant."""
    units = np.zeros(X.shape[1], np.float32)
    for i in range(X.shape[1]):
        values = X[:, i]
        if values.min() < values.max():
            sd = np.std(values / np.float64(unit))
            units[i] = 1 / sd if sd > np.finfo(np.float32).tiny else 0
    return units


def _quantiles(
    X: np.ndarray, dilations: np.ndarray, channels: np.ndarray, n_jobs: int | None, unit: float
) -> np.ndarray:
    """Biases (84, d, N_BIASES): quantiles of the outputs for some windows."""
    at = (np.arange(N_BIASES) + 0.5) / N_BIASES
    biases = np.empty((*channels.shape[:2], N_BIASES), np.float32)

    def work(i: int) -> None:
        convolve = _Convolutions(dilations[i : i + 1], channels[:, i : i + 1], X.shape[2], unit)
        k, size, step = convolve.n_kernels, convolve.positions, convolve.step
        outputs = np.empty((k, len(X), size), np.float32)
        for start in range(0, len(X), step):
            some = X[start : start + step]
            for values in convolve(some):
                by_window = values.reshape(size, step, k)[:, : len(some)]
                outputs[:, start : start + step] = by_window.transpose(2, 1, 0)
        for one, found in zip(outputs, biases[:, i], strict=True):
            found[:] = np.quantile(one, at, overwrite_input=True)

    _in_threads(work, range(len(dilations)), n_jobs)
    return biases


def _principal(S: np.ndarray, n_values: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean of rows and orthonormal directions (columns) of the largest variance.

    Where there is no variance the one direction is the first axis.
    """
    n, m = S.shape
    mean = S.mean(axis=0, dtype=np.float64)
    C = S - mean
    most = min(n_values, max(n - 1, 1), m)
    with threads.single("blas"):  # the same numbers whatever the number of threads
        gram = C @ C.T if n < m else C.T @ C
        last = len(gram) - 1
        variances, basis = scipy.linalg.eigh(gram, subset_by_index=[last - most + 1, last])
        # One share of one window that differs by one position is far more than 1e-9.
        real = (variances > LEAST_VARIANCE * variances[-1]) & (variances[-1] > 1e-9)
        variances, basis = variances[real][::-1], basis[:, real][:, ::-1]
        if not real.any():
            return mean.astype(np.float32), np.eye(m, 1, dtype=np.float32)
        if n < m:
            basis = C.T @ (basis / np.sqrt(variances))
    basis = np.ascontiguousarray(basis, np.float32)
    largest = np.abs(basis).argmax(axis=0)
    basis *= np.sign(np.take_along_axis(basis, largest[None], axis=0))
    return mean.astype(np.float32), basis


def _in_threads(work: Callable[[int], None], items: range, n_jobs: int | None) -> None:
    count = joblib.cpu_count() if n_jobs is None else joblib.effective_n_jobs(n_jobs)
    with threads.single("blas"):
        if min(count, len(items)) <= 1:
            for item in items:
                work(item)
            return
        with ThreadPoolExecutor(min(count, len(items))) as pool:
            for _ in pool.map(work, items):  # reading the results raises what a thread raised
                pass
