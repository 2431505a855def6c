"""From signals [n, channel, time] to tensors [n, channel, frequency, time frame]."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import scipy.fft
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from tensorcontrast.errors import InvalidInputError
from tensorcontrast.recordings.signals import (
    as_signals,
    check_finite,
    float32_unit,
    some_windows,
    typical_spread,
    without_offset,
)
from tensorcontrast.tensorize.base import HINT, WindowTransformer
from tensorcontrast.tensorize.stft import (
    REPRESENTATIONS,
    Frames,
    automatic_frames,
    make_window,
    n_frames,
)
from tensorcontrast.utils import checks
from tensorcontrast.utils.arrays import float_type
from tensorcontrast.utils.estimators import assign_learned, with_learned

__all__ = ["SpectrogramTensor"]

BLOCK_VALUES = 1 << 18
"""Complex values that a thread works on at a time: they stay in the cache."""

_HOMOGENEOUS = ("sqrt-magnitude", "magnitude")
"""Representations in which a factor of the signals is a factor of the tensors."""

_PAPER = {"har": (50.0, 64, 2), "sleep-edf": (100.0, 256, 32), "ptb-xl": (500.0, 256, 64)}
"""Sampling rate (Hz), n_fft and hop of the paper's data."""


class SpectrogramTensor(WindowTransformer):
    """Short-time Fourier transform of every channel, as a tensor for decomposition.

    Signals [n, channel, time] become tensors [n, channel', frequency, frame]. Frame t holds the
    samples t·hop … t·hop + n_fft − 1; nothing is padded, so samples behind the last whole frame
    are left out. With Z the real FFT of the frames under the window:

    ================== ======================================================= ==========
    representation     values                                                  channels
    ================== ======================================================= ==========
    "sqrt-magnitude"   √|Z|                                                    C
    "magnitude"        |Z|                                                     C
    "log-magnitude"    log(|Z| + floor)                                        C
    "log-real-imag"    log(|Re Z| + floor), then log(|Im Z| + floor)           2 C
    ================== ======================================================= ==========

    Parameters
    ----------
    fs : float or None, default=None
        Sampling rate in Hz. None counts frequencies in cycles per sample and times in samples.
    n_fft, hop : int or None, default=None
        Samples of a frame and from one frame to the next. None chooses from length and ``fs``,
        see `automatic_frames`; a given ``n_fft`` alone has a hop of an eighth to a half of it.
        A hop above ``n_fft`` leaves samples between the frames out.
    window : {"hann", "rectangular"}, default="hann"
        What a frame is multiplied with; "hann" in its periodic form.
    representation : str, default="sqrt-magnitude"
        See the table.
    n_quantiles : int or None, default=None
        Quantile pooling over time: sort the frames of every row, and keep the means of so many
        equal shares of them, from the smallest to the largest. They tell how strong a frequency is
        in its weakest and in its strongest moments, wherever these are in the window. None keeps
        the frames in time. Windows of fewer frames have as many quantiles as frames.
    floor : float, default=1e-3
        What is added before a logarithm, in units of Z.
    dtype : {"float32", "float64"}, default="float32"
        Precision of the computation and the result, whatever that of the signals.
    missing : {"error", "mask"}, default="error"
        What NaN in signals are: mistakes, or samples that were not observed (dropped electrodes,
        gaps). With "mask" a frame that holds one is NaN in that channel, for a decomposition with
        ``missing="mask"``.
    n_jobs : int or None, default=None
        Threads. None is one for each processor that this process may use; −1 is all.

    Attributes
    ----------
    n_fft_, hop_ : int
        Samples of a frame and from one frame to the next.
    unit_ : float
        What signals are divided by, so that tensors are in units of it (of its root for
        "sqrt-magnitude"): 1 unless the standard deviation of the fitted signals is below 1e-12 or
        above 1e12, or `ContrastiveFeatures` fitted this to float64 signals. Always 1 with a
        logarithm, and with ``dtype="float64"`` in a fit of its own.
    n_channels_in_, n_times_in_ : int
        Channels and samples that the signals must have.
    n_quantiles_ : int or None
        Quantiles over time; None where frames are in time.
    frequencies_ : ndarray of shape (n_frequencies,)
        Frequency of each row in Hz.
    times_ : ndarray of shape (n_frames,)
        Centre of each frame in seconds from the start of the window.
    output_shape_ : tuple of int
        Shape of one tensor: channels, frequencies, frames or quantiles.

    Examples
    --------
    >>> import numpy as np
    >>> from tensorcontrast.tensorize.spectrogram import SpectrogramTensor
    >>> X = np.random.default_rng(0).normal(size=(5, 3, 128))
    >>> SpectrogramTensor(fs=50).fit_transform(X).shape
    (5, 3, 33, 9)
    >>> SpectrogramTensor(fs=50, n_quantiles=4).fit_transform(X).shape
    (5, 3, 33, 4)
    >>> SpectrogramTensor.paper("har").fit(np.zeros((1, 9, 128))).output_shape_
    (18, 33, 33)
    """

    _learned_private: ClassVar[tuple[str, ...]] = ("_engine",)
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "fs": [Interval(Real, 0, None, closed="neither"), None],
        "n_fft": [Interval(Integral, 2, None, closed="left"), None],
        "hop": [Interval(Integral, 1, None, closed="left"), None],
        "window": [StrOptions({"hann", "rectangular"})],
        "representation": [StrOptions(set(REPRESENTATIONS))],
        "n_quantiles": [Interval(Integral, 1, None, closed="left"), None],
        "floor": [Interval(Real, 0, None, closed="neither")],
        "dtype": [StrOptions({"float32", "float64"})],
        "missing": [StrOptions({"error", "mask"})],
        "n_jobs": [
            Interval(Integral, 1, None, closed="left"),
            Interval(Integral, None, -1, closed="right"),
            None,
        ],
    }

    def __init__(
        self,
        fs: float | None = None,
        n_fft: int | None = None,
        hop: int | None = None,
        window: str = "hann",
        representation: str = "sqrt-magnitude",
        floor: float = 1e-3,
        dtype: str = "float32",
        missing: str = "error",
        n_jobs: int | None = None,
        n_quantiles: int | None = None,
    ) -> None:
        self.fs = fs
        self.n_fft = n_fft
        self.hop = hop
        self.window = window
        self.representation = representation
        self.floor = floor
        self.dtype = dtype
        self.missing = missing
        self.n_jobs = n_jobs
        self.n_quantiles = n_quantiles

    @classmethod
    def paper(cls, dataset: str, **params: Any) -> SpectrogramTensor:
        """Return the transformer of the paper: "log-real-imag" under a rectangular window.

        Tensors are 18×33×33 for "har" (9 channels of 128 samples), 14×129×86 for "sleep-edf" (7 of
        3000) and 24×129×75 for "ptb-xl" (12 of 5000). The public code of ATD also divides the
        transform of HAR, and of no other data, by √n_fft.

        Parameters
        ----------
        dataset : {"har", "sleep-edf", "ptb-xl"}
            Which data.
        **params
            Parameters to set otherwise.
        """
        if not isinstance(dataset, str) or dataset not in _PAPER:
            raise InvalidInputError(
                f"no paper preset {dataset!r}; there are {', '.join(sorted(_PAPER))}"
            )
        fs, n_fft, hop = _PAPER[dataset]
        given = {"fs": fs, "n_fft": n_fft, "hop": hop, "window": "rectangular"}
        return cls(**{**given, "representation": "log-real-imag", **params})

    def fit(self, X: Any, y: Any = None) -> SpectrogramTensor:
        """Fix frames and shapes; of the values only the order of magnitude matters.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_channels, n_times)
            Signals.
        y : ignored

        Returns
        -------
        SpectrogramTensor
            Itself.
        """
        checks.check_parameters(self)
        rate = getattr(X, "fs", None)
        if rate is not None and (self.fs is None or float(self.fs) != float(rate)):
            raise InvalidInputError(
                f"the recordings have fs={rate:g} but SpectrogramTensor has fs={self.fs}; pass "
                f"fs={rate:g}, or the array X of the recordings"
            )
        assign_learned(self, self._learn(X))
        return self

    def _learn(self, X: Any) -> dict[str, Any]:
        """Return the learned attributes."""
        X = as_signals(X)
        if len(X) == 0:
            raise InvalidInputError("X holds no sample; fit needs at least one")
        check_finite(X, nan=self.missing == "mask", hint=HINT)
        n_times = X.shape[2]
        n_fft, hop = automatic_frames(n_times, self.fs, self.n_fft, self.hop)
        if n_fft > n_times:
            raise InvalidInputError(
                f"signals of {n_times} samples are too short for n_fft={n_fft}; use an n_fft of at "
                f"most {n_times}, or longer windows"
            )
        unit = self._unit(some_windows(X))
        n_quantiles = None
        if self.n_quantiles is not None:
            n_quantiles = min(int(self.n_quantiles), n_frames(n_times, n_fft, hop))
        frames = self._make_frames(n_fft, hop, n_quantiles, unit)
        rate = 1.0 if self.fs is None else float(self.fs)
        starts = hop * np.arange(n_frames(n_times, n_fft, hop))
        return {
            "n_fft_": n_fft,
            "hop_": hop,
            "n_channels_in_": X.shape[1],
            "n_times_in_": n_times,
            "unit_": unit,
            "n_quantiles_": n_quantiles,
            "_engine": frames,
            "output_shape_": frames.shape(X.shape[1], n_times),
            "frequencies_": np.fft.rfftfreq(n_fft, 1 / rate),
            "times_": (starts + (n_fft - 1) / 2) / rate,
        }

    def _unit(self, some: np.ndarray, exact: bool = False) -> float:
        """Return what signals are divided by: 1 unless float32 could not hold their spectra.

        ``exact`` takes their typical spread where they are float64: so signals in another unit
        become the same numbers. A power of four changes no digit, and is enough for float32.
        """
        if self.representation not in _HOMOGENEOUS:
            return 1.0  # the floor of a logarithm is in units of the signals
        spread = typical_spread(some)
        if exact and float_type(some.dtype) == np.float64:
            return spread
        return 1.0 if self.dtype == "float64" else float32_unit(spread)

    def _in_units_of(self, X: np.ndarray) -> SpectrogramTensor:
        """Return this fitted transformer, with signals divided by the typical spread of these."""
        unit = self._unit(some_windows(X), exact=True)
        frames = self._make_frames(self.n_fft_, self.hop_, self.n_quantiles_, unit)
        return with_learned(self, unit_=unit, _engine=frames)

    @property
    def time_axis_(self) -> np.ndarray:
        """What the last axis of a tensor counts: times of frames, or middles of quantiles, 0–1."""
        check_is_fitted(self)
        count = self.n_quantiles_
        return self.times_ if count is None else (np.arange(count) + 0.5) / count

    def transform(self, X: Any) -> np.ndarray:
        """Turn signals into tensors.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_channels, n_times)
            Signals with the channels and length of `fit`.

        Returns
        -------
        ndarray of shape (n_samples, *output_shape_)
            Tensors.
        """
        signals = self._check_signals(X)
        out = np.empty((len(signals), *self.output_shape_), self._engine.dtype)
        rows, f, _ = self.output_shape_
        step = max(1, BLOCK_VALUES // (rows * f * len(self.times_)))
        return self._in_blocks(self._tensors, signals, out, step)

    def _tensors(self, X: np.ndarray) -> np.ndarray:
        """Tensors of some signals, where NaN are missing values."""
        frames, lost = self._engine, None
        if self.missing == "mask" and X.dtype.kind == "f":
            gaps = np.isnan(X)
            if gaps.any():
                covered = np.lib.stride_tricks.sliding_window_view(gaps, frames.n_fft, axis=2)
                lost = np.asarray(covered[:, :, :: frames.hop].any(axis=3))  # n, c, frames
                X = np.where(gaps, 0, X)
        return frames.values(*without_offset(X, frames.dtype, frames.unit), lost)

    def _rebuild(self) -> None:
        self._engine = self._make_frames(self.n_fft_, self.hop_, self.n_quantiles_, self.unit_)

    def _make_frames(self, n_fft: int, hop: int, n_quantiles: int | None, unit: float) -> Frames:
        window, dtype = make_window(self.window, n_fft), np.dtype(self.dtype)
        return Frames(
            n_fft=n_fft,
            hop=hop,
            window=None if (window == 1).all() else window.astype(dtype),
            representation=self.representation,
            floor=float(self.floor),
            dtype=dtype,
            n_quantiles=n_quantiles,
            unit=float(unit),
            # A product of float64, so that infinity is no limit in units above 1.
            limit=float(np.finfo(dtype).max) / (2 * n_fft) * float(unit),
            offset_response=scipy.fft.rfft(window),
        )
