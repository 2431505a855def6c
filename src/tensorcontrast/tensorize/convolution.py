"""Random-convolution features: MiniRocket kernels, proportion of positive values (PPV), PCA.

Shapes used throughout: n windows, c channels, t samples, k = 84 kernels, d dilations, b biases per
kernel and dilation, m = k·d·b values of PPV per window, p principal components.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import scipy.linalg
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from tensorcontrast.errors import InvalidInputError
from tensorcontrast.recordings.signals import (
    as_signals,
    check_finite,
    float32_unit,
    some_windows,
    typical_spread,
    warn_if_transposed,
    without_offset,
)
from tensorcontrast.tensorize.base import WindowTransformer
from tensorcontrast.utils import checks, threads
from tensorcontrast.utils.estimators import ComponentNamesMixin, assign_learned

MAX_LEARNING_WINDOWS = 2048
"""Windows that the principal components are learned from, at most."""

MAX_BIAS_WINDOWS = 128
"""Windows that the biases are learned from, at most."""

MIN_POSITIONS = 256
"""Windows of s times as many samples are convolved at every s-th position."""

MAX_CHANNELS_PER_KERNEL = 9
"""Channels that a kernel sums, at most."""

MIN_VARIANCE_RATIO = 1e-6
"""Components with less than this fraction of the largest variance are left out."""

MIN_SD_RATIO = 1e-3
"""Floor of the standard deviations in ``column_scaling``, as a fraction of the largest."""

BIAS_MARGIN = 2.0**-16
"""Added to each bias, for channels of unit variance. Outputs that equal a quantile but for their
rounding are below the bias on every machine; signals of few digits have many of them."""

_TAPS = 9
_TWOS = np.array(list(combinations(range(_TAPS), 3)))
_ROWS = 64
"""Windows per task, always: the values of a window do not depend on the others of its batch."""

_BLOCK = 1 << 18
"""Values of one block of convolutions: it stays in the cache."""

_POSITIONS_IN_A_ROW = 8
"""Positions of one window, at most, whose outputs are compared with biases in one go."""

_MAX_COMPARED = 1 << 18
"""Outputs that are compared with biases in one go, so that the answers stay in the cache."""

_FLOAT32 = np.dtype(np.float32)

FLOAT32_LIMIT = float(np.finfo(np.float32).max) / 1e3
"""Largest sample, in units, whose convolutions float32 can hold."""


class ConvolutionFeatures(ComponentNamesMixin, WindowTransformer):
    """Principal components of random-convolution features, with the kernels of MiniRocket.

    Each window is convolved with 84 fixed kernels (nine weights, three of them 2 and six −1) at
    several dilations, over the sum of a few randomly chosen channels. The proportion of positive
    values (PPV) of output z above bias b is ::

        PPV(z, b) = #{i : z_i > b} / #{i}

    The dilations are powers of √2 rounded to whole samples (1, 2, 3, 4, 6, 8, 11, 16, …), up to
    (n_times − 1) // 8, at which a kernel is as long as the window. The biases are quantiles of the
    outputs for the fitted windows, plus 2⁻¹⁶ so that rounding does not decide about outputs that
    equal a quantile. With s the vector of all PPV of a window, μ and σ their means and standard
    deviations over the fitted windows, the features are the principal components V of the centred
    and scaled PPV ::

        w = Vᵀ ((s − μ) / σᵖ),    p = column_scaling

    The kernels sum to 0, so that a constant adds nothing except at the ends of a window, where
    zeros follow. Channels are divided by their standard deviation over the fitted windows; constant
    channels are left out. Windows of 512 samples or more are convolved at every second, third, …
    position. The features of a window do not depend on the other windows of a batch, nor on the
    number of threads, to the bit.

    Parameters
    ----------
    n_components : int, default=256
        Largest number of principal components. There are fewer where the windows or the PPV are
        fewer, and components without variance are left out.
    n_biases : int, default=8
        Biases per kernel and dilation: the quantiles (i + 1/2) / ``n_biases`` of the outputs.
    column_scaling : float, default=0.75
        Exponent p in [0, 1]. PPV are divided by the p-th power of their standard deviation before
        the PCA: 0 leaves them as they are, 1 standardises them. Standard deviations below 1/1000
        of the largest count as 1/1000 of it.
    random_state : int, RandomState instance or None, default=0
        Determines which channels each kernel sums.
    n_jobs : int or None, default=None
        Threads; None is one for each usable processor, −1 is all, −2 all but one.

    Attributes
    ----------
    dilations_ : ndarray of int of shape (n_dilations,)
        Dilations in samples.
    channel_weights_ : ndarray of shape (84, n_dilations, n_channels)
        Weights with which each kernel sums the channels: 0, or 1 over the standard deviation.
    biases_ : ndarray of shape (84, n_dilations, n_biases)
        Biases, increasing along the last axis.
    mean_ : ndarray of shape (n_ppv,)
        Mean PPV of the fitted windows; n_ppv = 84·n_dilations·n_biases.
    scale_ : ndarray of shape (n_ppv,)
        What the centred PPV are divided by; 1 where ``column_scaling`` is 0.
    components_ : ndarray of shape (n_components_, n_ppv)
        Principal axes, orthonormal, by decreasing variance.
    explained_variance_ : ndarray of shape (n_components_,)
        Variance of each feature over the fitted windows.
    unit_ : float
        What signals are divided by first: 1 unless float32 could not hold their outputs.
    n_channels_in_, n_times_in_ : int
        Channels and samples of a window.

    References
    ----------
    A. Dempster, D. F. Schmidt, G. I. Webb (2021), "MiniRocket: a very fast (almost) deterministic
    transform for time series classification", KDD.

    C. W. Tan, A. Dempster, C. Bergmeir, G. I. Webb (2022), "MultiRocket: multiple pooling operators
    and transformations for fast and effective time series classification", Data Mining and
    Knowledge Discovery 36: other ways of pooling the outputs.

    Examples
    --------
    >>> import numpy as np
    >>> from tensorcontrast import ConvolutionFeatures
    >>> X = np.random.default_rng(0).normal(size=(40, 3, 128))
    >>> features = ConvolutionFeatures(n_components=8).fit(X)
    >>> features.dilations_
    array([ 1,  2,  3,  4,  6,  8, 11])
    >>> features.transform(X).shape, features.ppv(X).shape
    ((40, 8), (40, 4704))
    """

    _learned_private: ClassVar[tuple[str, ...]] = ("_projection", "_engine")
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "n_biases": [Interval(Integral, 1, None, closed="left")],
        "column_scaling": [Interval(Real, 0, 1, closed="both")],
        "random_state": ["random_state"],
        "n_jobs": [
            Interval(Integral, 1, None, closed="left"),
            Interval(Integral, None, -1, closed="right"),
            None,
        ],
    }

    def __init__(
        self,
        n_components: int = 256,
        n_biases: int = 8,
        column_scaling: float = 0.75,
        random_state: Any = 0,
        n_jobs: int | None = None,
    ) -> None:
        self.n_components = n_components
        self.n_biases = n_biases
        self.column_scaling = column_scaling
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any = None) -> ConvolutionFeatures:
        """Draw the channels of the kernels, and learn biases and principal components.

        Parameters
        ----------
        X : array-like of shape (n_windows, n_channels, n_times)
            Signals without missing values. Up to 2048 windows are used, evenly spaced.
        y : ignored

        Returns
        -------
        ConvolutionFeatures
            Itself.
        """
        checks.check_parameters(self)
        signals = as_signals(X)
        if len(signals) == 0:
            raise InvalidInputError("X holds no window; fit needs at least one")
        if getattr(X, "channels", None) is None:
            warn_if_transposed(signals.shape, way="pass Recordings with named channels")
        check_finite(signals)
        unit = float32_unit(typical_spread(some_windows(signals)))
        check_finite(signals, limit=FLOAT32_LIMIT * unit)
        assign_learned(self, self._learn(signals, unit))
        return self

    def _fit_in_unit(self, X: np.ndarray, unit: float) -> ConvolutionFeatures:
        """Fit to finite windows (n, c, t), which are divided by ``unit`` first."""
        checks.check_parameters(self)
        assign_learned(self, self._learn(X, unit))
        return self

    def _learn(self, X: np.ndarray, unit: float) -> dict[str, Any]:
        """Return the learned attributes of finite windows, divided by ``unit`` first."""
        _, n_channels, n_times = X.shape
        X = X[:: -(-len(X) // MAX_LEARNING_WINDOWS)]
        steps = dilation_steps(n_times)
        seed, whole = self.random_state, isinstance(self.random_state, Integral)
        rng = np.random.default_rng(int(seed)) if whole else checks.generator(seed)
        weights = _draw_channels(rng, len(steps), n_channels)
        weights = weights * _inverse_sds(X, unit)
        some = X[:: -(-len(X) // MAX_BIAS_WINDOWS)]
        with threads.jobs(self.n_jobs):
            biases = _quantile_biases(some, steps, weights, int(self.n_biases), unit)
        kernels = Kernels(steps, weights, n_times, float(unit), biases)
        values = np.empty((len(X), biases.size), np.float32)
        self._in_blocks(kernels.ppv, X, values, _ROWS)
        pca = _principal_components(values, int(self.n_components), float(self.column_scaling))
        mean, scale, components, explained_variance = pca
        return {
            "dilations_": steps,
            "channel_weights_": weights,
            "biases_": biases,
            "mean_": mean,
            "scale_": scale,
            "components_": components,
            "explained_variance_": explained_variance,
            "unit_": float(unit),
            "n_channels_in_": n_channels,
            "n_times_in_": n_times,
            "_projection": _projection(components, scale),
            "_engine": kernels,
        }

    def transform(self, X: Any) -> np.ndarray:
        """Return the features of windows.

        Parameters
        ----------
        X : array-like of shape (n_windows, n_channels, n_times)
            Signals with the channels and length of `fit`, without missing values.

        Returns
        -------
        ndarray of float32 of shape (n_windows, n_components_)
            Principal components of the PPV.
        """
        signals = self._check_signals(X)

        def project(some: np.ndarray) -> np.ndarray:
            rows = self._engine.ppv(some) - self.mean_
            # One product per window: what BLAS makes of a row of many depends on its place.
            return np.matmul(rows[:, None], self._projection)[:, 0]

        out = np.empty((len(signals), len(self.components_)), np.float32)
        return self._in_blocks(project, signals, out, _ROWS)

    def ppv(self, X: Any) -> np.ndarray:
        """Return the proportions of positive values, before centring, scaling and PCA.

        Parameters
        ----------
        X : array-like of shape (n_windows, n_channels, n_times)
            Signals with the channels and length of `fit`, without missing values.

        Returns
        -------
        ndarray of float32 of shape (n_windows, n_ppv)
            Values in [0, 1]; columns go over kernels, dilations and biases, the last fastest.
        """
        signals = self._check_signals(X)
        out = np.empty((len(signals), len(self.mean_)), np.float32)
        return self._in_blocks(self._engine.ppv, signals, out, _ROWS)

    def outputs(self, X: Any) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield the outputs of all kernels at each dilation, and the part of each channel in them.

        Parameters
        ----------
        X : array-like of shape (n_windows, n_channels, n_times)
            Some windows, whose outputs are in memory for one dilation at a time.

        Yields
        ------
        outputs : ndarray of shape (n_windows, n_positions, 84)
            What is compared with the biases to give the PPV, at every position of `stride_`.
        by_channel : ndarray of shape (n_channels, n_windows, n_positions, 84)
            Sums to the outputs, to rounding.
        """
        signals = self._check_signals(X)

        def outputs(some: np.ndarray, weights: np.ndarray) -> Iterator[np.ndarray]:
            one = Kernels(self.dilations_, weights, self.n_times_in_, self.unit_)
            made = one.outputs(*without_offset(some, _FLOAT32, self.unit_))
            return (values.swapaxes(0, 1) for values in made)

        whole = outputs(signals, self.channel_weights_)
        own = [
            outputs(signals[:, [i]], self.channel_weights_[:, :, [i]])
            for i in range(self.n_channels_in_)
        ]
        with threads.single("blas"):
            for values, *parts in zip(whole, *own, strict=True):
                yield values, np.stack(parts)

    @property
    def stride_(self) -> int:
        """Samples from one position of the kernels to the next."""
        check_is_fitted(self)
        return max(1, self.n_times_in_ // MIN_POSITIONS)

    def _rebuild(self) -> None:
        """Make what follows from the learned attributes."""
        self._projection = _projection(self.components_, self.scale_)
        self._engine = Kernels(
            self.dilations_, self.channel_weights_, self.n_times_in_, self.unit_, self.biases_
        )

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    @property
    def output_shape_(self) -> tuple[int]:
        """Shape of the features of one window."""
        check_is_fitted(self)
        return (self._n_features_out,)


# ---------------------------------------------------------------- kernels, dilations, channels


def kernels() -> np.ndarray:
    """Return the weights (84, 9) of the kernels of MiniRocket."""
    weights = np.full((len(_TWOS), _TAPS), -1, np.float32)
    np.put_along_axis(weights, _TWOS, 2, axis=1)
    return weights


def dilation_steps(n_times: int) -> np.ndarray:
    """Return dilations half an octave apart at which a kernel fits into the window, at least 1.

    Examples
    --------
    >>> dilation_steps(5).tolist(), dilation_steps(128).tolist()
    ([1], [1, 2, 3, 4, 6, 8, 11])
    """
    longest = max(1, (n_times - 1) // (_TAPS - 1))
    powers = np.arange(2 * longest.bit_length() + 1) / 2
    steps = np.unique(np.rint(2.0**powers).astype(np.int64))
    return steps[steps <= longest]


def _draw_channels(rng: np.random.Generator, n_dilations: int, n_channels: int) -> np.ndarray:
    """Draw the channels that each kernel sums: truth values (84, d, c).

    Their number is log-uniform, as in MiniRocket.
    """
    size = (len(_TWOS), n_dilations)
    most = min(n_channels, MAX_CHANNELS_PER_KERNEL)
    counts = np.clip(np.floor(2 ** rng.uniform(0, np.log2(most + 1), size)), 1, most)
    ranks = rng.random((*size, n_channels)).argsort(axis=2).argsort(axis=2)
    return np.asarray(ranks < counts[:, :, None])


def _inverse_sds(X: np.ndarray, unit: float) -> np.ndarray:
    """1 over the standard deviation of each channel (c,), in units; 0 for constant channels."""
    weights = np.zeros(X.shape[1], np.float32)
    for i in range(X.shape[1]):
        values = X[:, i]
        if values.min() < values.max():
            sd = np.std(values / np.float64(unit))
            weights[i] = 1 / sd if sd > np.finfo(np.float32).tiny else 0
    return weights


# ---------------------------------------------------------------- convolution and pooling


class Kernels:
    """Kernels with their dilations, channels and biases, prepared for windows of one length.

    Position p of a kernel with dilation d reads the samples p·s + (−4, …, 4)·d, with zeros around
    the window. The large level of a window is subtracted in float64, and from the zeros around it
    as well: the weights of a kernel sum to 0, so that nothing else changes, and float32 keeps the
    digits of what is on top of the level.

    Parameters
    ----------
    dilations : (d,) int array
    channel_weights : (k, d, c) array
    n_times : int
        Samples of a window.
    unit : float
        Windows are divided by it first.
    biases : (k, d, b) array, optional
        Increasing along the last axis; needed to count.
    """

    def __init__(
        self,
        dilations: np.ndarray,
        channel_weights: np.ndarray,
        n_times: int,
        unit: float,
        biases: np.ndarray | None = None,
    ) -> None:
        self.unit, self.dtype, self.limit = unit, _FLOAT32, FLOAT32_LIMIT * unit
        self.dilations = [int(dilation) for dilation in dilations]
        k, _, c = channel_weights.shape
        # Weights of tap and channel, (d, 9·c, k)
        weights = kernels()[:, :, None, None] * channel_weights[:, None]  # k, 9, d, c
        self.weights = np.ascontiguousarray(weights.transpose(2, 1, 3, 0)).reshape(-1, _TAPS * c, k)
        self.n_channels, self.n_kernels, self.n_times = c, k, n_times
        self.stride = max(1, n_times // MIN_POSITIONS)
        self.positions = -(-n_times // self.stride)
        self.pad = 4 * max(self.dilations)
        self.step = min(_ROWS, max(1, _BLOCK // (self.positions * (k + _TAPS * c))))
        self.biases = None if biases is None else np.ascontiguousarray(biases.transpose(1, 2, 0))
        self._tiled: dict[int, np.ndarray] = {}

    def outputs(
        self, X: np.ndarray, offset: np.ndarray | None, n_rows: int | None = None
    ) -> Iterator[np.ndarray]:
        """Yield outputs (positions, n, k) of windows less their offsets, for each dilation.

        It is always the same array. With ``n_rows`` it has so many positions, and those behind the
        last one are −∞.
        """
        n, c, s, size = len(X), self.n_channels, self.stride, self.positions
        out = np.empty((n_rows or size, n, self.n_kernels), np.float32)
        out[size:] = -np.inf
        length = self.n_times + 2 * self.pad + s
        padded = np.zeros((n, c, length), np.float32)
        if offset is not None:
            padded[:] = -offset
        padded[:, :, self.pad : self.pad + self.n_times] = X
        shifted = np.empty((n, _TAPS, c, size), np.float32)
        taps = shifted.reshape(n, _TAPS * c, size).transpose(0, 2, 1)
        by_window = out[:size].transpose(1, 0, 2)
        item = padded.itemsize
        for dilation, weights in zip(self.dilations, self.weights, strict=True):
            shifted[...] = np.ndarray(
                shifted.shape,
                np.float32,
                buffer=padded,
                offset=(self.pad - _TAPS // 2 * dilation) * item,
                strides=(c * length * item, dilation * item, length * item, s * item),
            )
            # One product per window, so that blocks of other windows give the same numbers.
            np.matmul(taps, weights, out=by_window)
            yield out

    def ppv(self, X: np.ndarray) -> np.ndarray:
        """PPV (n, k·d·b) of some windows (n, c, t)."""
        counts = self.values(*without_offset(X, _FLOAT32, self.unit))
        by_kernel = counts.transpose(0, 3, 1, 2).reshape(len(X), -1)
        return by_kernel / np.float32(self.positions)

    def values(self, X: np.ndarray, offset: np.ndarray | None) -> np.ndarray:
        """Positions (n, d, b, k) above each bias, of windows less their offsets."""
        step = self.step
        parts = [
            self._counts(X[a : a + step], None if offset is None else offset[a : a + step])
            for a in range(0, len(X), step)
        ]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _counts(self, X: np.ndarray, offset: np.ndarray | None) -> np.ndarray:
        assert self.biases is not None
        d, n_biases, k = self.biases.shape
        n = len(X)
        # Long rows of positions are compared and summed faster than short ones.
        group = max(1, _POSITIONS_IN_A_ROW // n)
        rows = -(-self.positions // group)
        if n not in self._tiled:
            self._tiled[n] = np.tile(self.biases, group * n)  # d, b, group·n·k
        biases = self._tiled[n]
        width = group * n * k
        at_once = min(n_biases, max(1, _MAX_COMPARED // (rows * width)))
        above = np.empty((at_once, rows, width), bool)
        # Sums of bytes are the fastest, of up to 255 rows at a time.
        parts = [above[:, i : i + 255].view(np.uint8) for i in range(0, rows, 255)]
        out = np.zeros((n, d, n_biases, k), np.float32)
        for i, outputs in enumerate(self.outputs(X, offset, rows * group)):
            values = outputs.reshape(rows, width)
            for b in range(0, n_biases, at_once):
                some = biases[i, b : b + at_once, None]
                np.greater(values, some, out=above[: len(some)])
                for part in parts:
                    sums = np.add.reduce(part[: len(some)], axis=1, dtype=np.uint8)
                    by_window = sums.reshape(len(some), group, n, k)
                    found = np.add.reduce(by_window, axis=1, dtype=np.uint16).swapaxes(0, 1)
                    out[:, i, b : b + at_once] += found
        return out


def _quantile_biases(
    X: np.ndarray, dilations: np.ndarray, channel_weights: np.ndarray, n_biases: int, unit: float
) -> np.ndarray:
    """Biases (k, d, b): quantiles of the outputs for windows (n, c, t), and a margin."""
    at = (np.arange(n_biases) + 0.5) / n_biases
    biases = np.empty((*channel_weights.shape[:2], n_biases), np.float32)

    def work(i: int) -> None:
        one = Kernels(dilations[i : i + 1], channel_weights[:, i : i + 1], X.shape[2], unit)
        outputs = np.empty((one.n_kernels, len(X), one.positions), np.float32)
        for start in range(0, len(X), one.step):
            some = X[start : start + one.step]
            for values in one.outputs(*without_offset(some, _FLOAT32, unit)):
                outputs[:, start : start + one.step] = values.transpose(2, 1, 0)
        for kernel, found in zip(outputs, biases[:, i], strict=True):
            found[:] = np.quantile(kernel, at, overwrite_input=True) + BIAS_MARGIN

    with threads.single("blas"):
        for _ in threads.mapped(work, range(len(dilations))):
            pass
    return biases


# ---------------------------------------------------------------- principal components


def _principal_components(
    S: np.ndarray, n_components: int, column_scaling: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Mean (m,) and scale (m,) of PPV (n, m), principal axes (p, m) and variances (p,).

    Where nothing varies the one component is the first axis.
    """
    n, m = S.shape
    mean = S.mean(axis=0, dtype=np.float64)
    C = S - mean
    scale = _column_scale(C, column_scaling)
    C /= scale
    most = min(n_components, max(n - 1, 1), m)
    with threads.single("blas"):  # the same numbers whatever the number of threads
        gram = C @ C.T if n < m else C.T @ C
        last = len(gram) - 1
        sums, axes = scipy.linalg.eigh(gram, subset_by_index=[last - most + 1, last])
        # One PPV of one window that differs by one position is far more than 1e-9.
        real = (sums > MIN_VARIANCE_RATIO * sums[-1]) & (sums[-1] > 1e-9)
        sums, axes = sums[real][::-1], axes[:, real][:, ::-1]
        if not real.any():
            sums, axes = np.zeros(1), np.eye(m, 1)
        elif n < m:
            axes = C.T @ (axes / np.sqrt(sums))
    components = np.ascontiguousarray(axes.T, np.float32)
    components *= np.where(components.sum(axis=1) < 0, -1, 1).astype(np.float32)[:, None]
    found = mean, scale, components, sums / max(n - 1, 1)
    as_float32 = tuple(values.astype(np.float32) for values in found)
    return as_float32[0], as_float32[1], as_float32[2], as_float32[3]


def _projection(components: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Matrix (m, p) that centred PPV are multiplied with: scaling and PCA in one."""
    return np.ascontiguousarray(components.T / scale[:, None])


def _column_scale(C: np.ndarray, exponent: float) -> np.ndarray:
    """Powers (m,) of the standard deviations of the columns of C (n, m), whose means are 0."""
    sds = np.sqrt(np.mean(np.square(C), axis=0))
    if exponent == 0 or not sds.any():
        return np.ones(len(sds))
    return np.asarray(np.maximum(sds, MIN_SD_RATIO * sds.max()) ** exponent)
