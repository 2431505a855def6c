"""What each feature is, in numbers: channels, frequencies, times, kernels, windows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, is_dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorcontrast.decompose.diagnosis import group_codes, halves
from tensorcontrast.errors import InvalidInputError
from tensorcontrast.explain import readout, signal
from tensorcontrast.explain.readout import ReadOut, read_out
from tensorcontrast.explain.strength import Strength, find_strengths
from tensorcontrast.explain.words import MOSTLY, sentence
from tensorcontrast.features import ContrastiveFeatures
from tensorcontrast.recordings.signals import as_signals
from tensorcontrast.tensorize.convolution import ConvolutionFeatures, kernels
from tensorcontrast.tensorize.spectrogram import SpectrogramTensor
from tensorcontrast.tensorize.stft import quantile_weights
from tensorcontrast.utils.arrays import evenly

__all__ = [
    "FeatureExplanation",
    "Kernel",
    "WindowContributions",
    "explain_features",
    "signal_contributions",
]

Array = NDArray[Any]

#: Windows from which variances and covariances are measured, at most.
MAX_WINDOWS = 256
#: Windows whose contributions are spread over channels and time, at most, and how many values of
#: kernels and features that may take.
MAX_SPREAD_WINDOWS, MAX_SPREAD_VALUES = 64, 2**28
#: Parts of the window that the share over time is given for, and parts of a band under a signal.
TIME_PARTS, BAND_PARTS = 24, 96
#: Kernels that are shown.
N_KERNELS = 3


@dataclass(frozen=True)
class Kernel:
    """One of the kernels that matter most to a feature.

    Attributes
    ----------
    times, weights : (9,) arrays
        Taps of the kernel, from the middle, in the unit of time of the explanation.
    channels : tuple of str
        Channels that it sums.
    share : float
        Share of the feature's variance.
    raises : bool
        Whether the feature rises with the size of the kernel's output.

    Examples
    --------
    >>> from tensorcontrast import PLC, ContrastiveFeatures
    >>> from tensorcontrast.datasets import make_synthetic
    >>> from tensorcontrast.explain import explain_features
    >>> rec = make_synthetic(n_samples=60, n_channels=2, n_times=64, random_state=0)
    >>> model = ContrastiveFeatures(decompose=PLC(3), random_state=0).fit(rec)
    >>> kernel = explain_features(model, rec)[0].kernels[0]
    >>> kernel.times.shape, kernel.weights.shape
    ((9,), (9,))
    """

    times: Array
    weights: Array
    channels: tuple[str, ...]
    share: float
    raises: bool


@dataclass(frozen=True)
class WindowContributions:
    """A window, and where in it the value of a feature comes from.

    Attributes
    ----------
    role : str
        "highest", "typical" or "lowest".
    index : int
        Place of the window in the recordings.
    value : float
        Feature of the window.
    signal : (c, t) array
    contributions : (c, s) array
        By channel and by part of the window; they sum to ``value``.

    Examples
    --------
    >>> from tensorcontrast import PLC, ContrastiveFeatures
    >>> from tensorcontrast.datasets import make_synthetic
    >>> from tensorcontrast.explain import explain_features
    >>> rec = make_synthetic(n_samples=60, n_channels=2, n_times=64, random_state=0)
    >>> model = ContrastiveFeatures(decompose=PLC(3), random_state=0).fit(rec)
    >>> windows = explain_features(model, rec)[0].windows
    >>> [(window.role, window.signal.shape) for window in windows]
    [('highest', (2, 64)), ('typical', (2, 64)), ('lowest', (2, 64))]
    >>> bool(abs(windows[0].contributions.sum() - windows[0].value) < 1e-4)
    True
    """

    role: str
    index: int
    value: float
    signal: Array
    contributions: Array


@dataclass(frozen=True)
class FeatureExplanation:
    """What a feature measures. All shares are of its variance, and sum to 1.

    A share is the covariance of a part with the feature, over the variance of the feature. Where
    parts cancel, shares are negative, and others larger than 1.

    Attributes
    ----------
    index : int
    n_windows : int
        Windows that shares were measured on; 0 where they are those of the model itself.
    sd : float
        Standard deviation of the feature.
    blocks : dict of str to float
        Share of each block.
    channels : tuple of str
    channel_share : (c,) array
    frequencies, frequency_share, convolution_share : (f,) arrays
        Share of each frequency, and the part of it that is of random convolutions.
    frequency_gain : (f,) array
        Change of the feature, in its standard deviations, when the amplitude at a frequency doubles
        in all channels, to first order.
    scales, scale_share : (d,) arrays
        Lengths of kernels, and their shares.
    frame_length, frame_share : float or None
        Length of a frame of the spectrogram, and the share of this block.
    panel, panel_share : (q,) arrays
        Quantiles over time (0 to 1), or times of frames, of the spectrogram, and their shares.
    by_quantile : bool
        Which of the two ``panel`` is.
    form_share : float
        Share of weights that are blind to the strength of a wave and follow its form.
    kernels : list of Kernel
        The three of the largest share.
    times, time_share : (s,) arrays or None
        Middles of equal parts of the window, and their shares; None without recordings.
    windows : list of WindowContributions
        The highest, the most typical and the lowest of the recordings.
    strength : Strength or None
        The amplitude that the feature follows best, or the ratio of two: band, channels, part of
        the window, and the correlation over windows that had no part in the choice; None without
        recordings, or with fewer than 16 windows.
    frequency_unit, time_unit : str
    units : tuple of str
        Of the channels, where the recordings know them.
    sentence : str

    Examples
    --------
    >>> from tensorcontrast import PLC, ContrastiveFeatures
    >>> from tensorcontrast.datasets import make_synthetic
    >>> from tensorcontrast.explain import explain_features
    >>> rec = make_synthetic(n_samples=60, n_channels=2, n_times=64, random_state=0)
    >>> model = ContrastiveFeatures(decompose=PLC(3), random_state=0).fit(rec)
    >>> found = explain_features(model, rec)[0]
    >>> found.index, found.n_windows, found.channels, list(found.blocks)
    (0, 60, ('ch0', 'ch1'), ['spectrogram', 'random convolutions'])
    """

    index: int
    n_windows: int
    sd: float
    blocks: dict[str, float]
    channels: tuple[str, ...]
    channel_share: Array
    frequencies: Array
    frequency_share: Array
    convolution_share: Array
    frequency_gain: Array
    scales: Array
    scale_share: Array
    frame_length: float | None
    frame_share: float | None
    panel: Array
    panel_share: Array
    by_quantile: bool
    form_share: float
    kernels: list[Kernel]
    times: Array | None = None
    time_share: Array | None = None
    windows: list[WindowContributions] = field(default_factory=list)
    strength: Strength | None = None
    frequency_unit: str = "Hz"
    time_unit: str = "s"
    units: tuple[str, ...] = ()
    sentence: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return all numbers as plain data, without the signals of windows."""
        plain: dict[str, Any] = _plain(self)
        return plain


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    if is_dataclass(value):
        value = {name: item for name, item in vars(value).items() if name != "signal"}
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def explain_features(
    model: Any,
    rec: Any = None,
    *,
    features: Array | None = None,
    only: Iterable[int] | None = None,
) -> list[FeatureExplanation]:
    """Say what the features of a fitted model measure, wholly: all blocks, in one unit.

    Parameters
    ----------
    model : ContrastiveFeatures or ContrastiveClassifier
        Fitted, with CPD, ATD or PLC.
    rec : Recordings or array [n, channel, time], optional
        Windows that shares are measured on, such as those of the fit. Windows with missing values
        are left out. Default: shares as the decomposition models them, and nothing over time.
    features : (n, r) array, optional
        Features of ``rec``, where they are known.
    only : iterable of int, optional
        Which features. Default: all.

    Returns
    -------
    list of FeatureExplanation

    Examples
    --------
    >>> from tensorcontrast import PLC, ContrastiveFeatures
    >>> from tensorcontrast.datasets import make_synthetic
    >>> from tensorcontrast.explain import explain_features
    >>> rec = make_synthetic(n_samples=60, n_channels=2, n_times=64, random_state=0)
    >>> model = ContrastiveFeatures(decompose=PLC(3), random_state=0).fit(rec)
    >>> found = explain_features(model, rec)[0]
    >>> round(float(found.channel_share.sum()), 6), round(sum(found.blocks.values()), 6)
    (1.0, 1.0)
    """
    extractor = _features_of(model)
    out = read_out(extractor)
    chosen = check_features(only, out.n_features)
    X, index, W = None, np.empty(0, dtype=np.intp), None
    if rec is not None:
        W = np.asarray(extractor.transform(rec) if features is None else features)
        X, index = _whole_windows(rec)
        W = W[index]
    if X is None or len(X) < 2:
        X = W = None
    units = getattr(rec, "units", None) or ()
    if isinstance(units, str):
        units = (units,) * extractor.n_channels_in_
    groups = getattr(rec, "groups", None)
    codes = group_codes(None if groups is None else np.asarray(groups)[index], len(index))
    return [*_explained(extractor, out, chosen, X, W, index, codes, tuple(map(str, units)))]


def signal_contributions(model: Any, X: Any, feature: int) -> Array:
    """Where the value of a feature comes from: contributions of every channel and sample.

    Parameters
    ----------
    model : ContrastiveFeatures or ContrastiveClassifier
        Fitted, with CPD, ATD or PLC.
    X : Recordings or array [n, channel, time]
        Windows without missing values.
    feature : int
        Which feature.

    Returns
    -------
    (n, c, t) array
        Each value of a block less its mean over the fitted windows, times its weight, at the
        samples that it is computed from. They sum to ``transform(X)[:, feature]``.

    Examples
    --------
    >>> from tensorcontrast import PLC, ContrastiveFeatures
    >>> from tensorcontrast.datasets import make_synthetic
    >>> from tensorcontrast.explain import signal_contributions
    >>> rec = make_synthetic(n_samples=60, n_channels=2, n_times=64, random_state=0)
    >>> model = ContrastiveFeatures(decompose=PLC(3), random_state=0).fit(rec)
    >>> made = signal_contributions(model, rec[:5], feature=0)
    >>> made.shape
    (5, 2, 64)
    >>> np.allclose(made.sum(axis=(1, 2)), model.transform(rec[:5])[:, 0], atol=1e-4)
    True
    """
    extractor = _features_of(model)
    out = read_out(extractor)
    (at,) = check_features([feature], out.n_features)
    signals = as_signals(getattr(X, "X", X))
    wanted = (extractor.n_channels_in_, extractor.n_times_in_)
    if signals.shape[1:] != wanted:
        raise InvalidInputError(
            f"X has {signals.shape[1]} channels of {signals.shape[2]} samples, the model was "
            f"fitted on {wanted[0]} of {wanted[1]}; pass windows of the same kind"
        )
    return signal.contributions(out.of([at]), signals)[..., 0]


def check_features(only: Iterable[int] | None, count: int) -> list[int]:
    """Return which features were asked for; raise for one that is not there."""
    chosen = list(range(count)) if only is None else [int(k) for k in only]
    for k in chosen:
        if not 0 <= k < count:
            raise InvalidInputError(
                f"there is no feature {k}: the model has {count}, from 0 to {count - 1}"
            )
    return chosen


def _features_of(model: Any) -> ContrastiveFeatures:
    found = getattr(model, "extractor_", model)
    if not isinstance(found, ContrastiveFeatures):
        raise InvalidInputError(
            f"features of a {type(found).__name__} cannot be explained; pass a fitted "
            "ContrastiveFeatures or ContrastiveClassifier"
        )
    return found


def _whole_windows(rec: Any) -> tuple[Array, NDArray[np.intp]]:
    """Return windows without missing values, and their places."""
    signals = np.asarray(getattr(rec, "X", rec))
    if signals.dtype.kind != "f":
        return signals, np.arange(len(signals))
    index = np.flatnonzero(np.isfinite(signals).all(axis=(1, 2)))
    return signals if len(index) == len(signals) else signals[index], index


# --------------------------------------------------------------------------- all features at once


def _explained(
    model: ContrastiveFeatures,
    whole: ReadOut,
    chosen: Sequence[int],
    X: Array | None,
    W: Array | None,
    index: NDArray[np.intp],
    codes: NDArray[np.intp],
    signal_units: tuple[str, ...],
) -> Iterable[FeatureExplanation]:
    out = whole.of(chosen)
    covariance, variance, means = out.modelled, out.variance, [b.centre for b in out.blocks]
    some = None if X is None else X[evenly(len(X), MAX_WINDOWS)]
    if some is not None:
        covariance, variance, means = readout.measured_covariance(out, some)
    shares = [
        readout.covariance_shares(b.weights, c, variance)
        for b, c in zip(out.blocks, covariance, strict=True)
    ]
    sds = np.sqrt(np.maximum(variance, 0.0))
    spectra, fine = _spectra(model, out, means, some)
    rate = model.fs_ or 1.0
    axis = _axis(model, rate)
    place = readout.on_axis(fine * rate, axis)
    names = tuple(str(c) for c in (model.channels_ or range(model.n_channels_in_)))
    r, c = out.n_features, len(names)
    by_channel = np.zeros((c, r))
    by_frequency, by_convolution, gain = (np.zeros((len(axis), r)) for _ in range(3))
    form, frame_length = np.zeros(r), None
    scales, by_scale, by_kernel = np.empty(0), np.zeros((0, r)), None
    panel, by_panel, frame_share = np.empty(0), np.zeros((0, r)), None
    by_quantile, raises = False, None
    per_sd = np.divide(1.0, sds, out=np.zeros(r), where=sds > 0)
    for block, share, mean in zip(out.blocks, shares, means, strict=True):
        made = block.transformer
        if isinstance(made, SpectrogramTensor):
            by_frequency += share.sum(axis=(0, 2))
            by_channel += share.sum(axis=(1, 2)).reshape(-1, c, r).sum(axis=0)
            change = readout.doubling_of_magnitudes(mean, made.representation)
            gain += np.einsum("cfqr,cfq->fr", block.weights, change) * per_sd
            panel, by_panel = made.time_axis_, share.sum(axis=(0, 1))
            by_quantile = made.n_quantiles_ is not None
            frame_length, frame_share = made.n_fft_ / rate, share.sum(axis=(0, 1, 2))
        else:
            by_kernel = share.sum(axis=2)  # k, d, r
            responses = readout.power_responses(kernels(), made.dilations_, fine)
            spectrum = readout.output_spectra(responses, made.channel_weights_, spectra)
            change = readout.doubling_of_ppv(made.biases_)
            raised = np.einsum("kdbr,kdb->kdr", block.weights, change) * per_sd
            raises = raised > 0
            np.add.at(by_convolution, place, np.einsum("kdr,kdf->fr", by_kernel, spectrum))
            np.add.at(gain, place, np.einsum("kdr,kdf->fr", raised, spectrum))
            equal = (made.channel_weights_ > 0).astype(np.float64)
            equal /= np.maximum(equal.sum(axis=2, keepdims=True), 1)
            by_channel += np.einsum("kdr,kdc->cr", by_kernel, equal)
            even = readout.even_part(block.weights) / np.where(
                block.weights == 0, 1.0, block.weights
            )
            form += np.einsum("kdbr,kdbr->r", share, even)
            scales = ((kernels().shape[1] - 1) * made.dilations_ + 1) / rate
            by_scale = by_kernel.sum(axis=0)
    by_frequency += by_convolution
    times, by_time = None, None
    if X is not None:
        by_channel, by_time = _over_time(out, X, variance)
        times = (np.arange(len(by_time)) + 0.5) / len(by_time) * model.n_times_in_ / rate
    strengths = None
    if X is not None and W is not None:
        strengths = _strengths(model, X, W[:, chosen], codes, by_time)
    units = ("Hz", "s") if model.fs_ is not None else ("cycles/sample", "samples")
    for k, feature in enumerate(chosen):
        blocks: dict[str, float] = {}
        for block, share in zip(out.blocks, shares, strict=True):
            blocks[block.name] = blocks.get(block.name, 0.0) + float(share[..., k].sum())
        found = FeatureExplanation(
            index=feature,
            n_windows=0 if some is None else len(some),
            sd=float(sds[k]),
            blocks=blocks,
            channels=names,
            channel_share=by_channel[:, k],
            frequencies=axis,
            frequency_share=by_frequency[:, k],
            convolution_share=by_convolution[:, k],
            frequency_gain=gain[:, k],
            scales=scales,
            scale_share=by_scale[:, k],
            frame_length=frame_length,
            frame_share=None if frame_share is None else float(frame_share[k]),
            panel=panel,
            panel_share=by_panel[:, k],
            by_quantile=by_quantile,
            form_share=float(form[k]),
            kernels=[]
            if by_kernel is None or raises is None
            else _kernels(model.convolution_, by_kernel[..., k], raises[..., k], names, rate),
            times=times,
            time_share=None if by_time is None else by_time[:, k],
            windows=[]
            if X is None or W is None
            else _windows(out.of([k]), X, W[:, feature], index),
            frequency_unit=units[0],
            time_unit=units[1],
            units=signal_units,
            strength=None if strengths is None else strengths[k],
        )
        yield replace(found, sentence=sentence(found))


def _axis(model: ContrastiveFeatures, rate: float) -> Array:
    """Frequencies that shares are given for: those of the spectrogram."""
    spectrogram = model.spectrogram_
    if spectrogram is None:
        return np.fft.rfftfreq(min(model.n_times_in_, 128), 1 / rate)
    return np.asarray(spectrogram.frequencies_)


def _strengths(
    model: ContrastiveFeatures,
    X: Array,
    W: Array,
    codes: NDArray[np.intp],
    by_time: Array | None,
) -> list[Strength] | None:
    """Find what features (n, r) follow: chosen on half of the subjects, judged on the others."""
    if codes.max() == 0:
        codes = np.arange(len(X))
    some = [half[evenly(len(half), MAX_WINDOWS)] for half in halves(codes, 0)]
    spectrogram = model.spectrogram_
    if spectrogram is None:
        n_fft, hop = min(model.n_times_in_, 128), 1
    else:
        n_fft, hop = spectrogram.n_fft_, spectrogram.hop_
    names = [str(c) for c in (model.channels_ or range(model.n_channels_in_))]
    chosen_on, judged_on = ((X[at], W[at]) for at in some)
    held = None
    if by_time is not None and len(by_time) > 1:
        middle = len(by_time) // 2
        total = by_time.sum(axis=0)
        held = np.stack([by_time[:middle].sum(axis=0), by_time[-middle:].sum(axis=0)])
        held = held >= MOSTLY * np.where(total > 0, total, np.inf)
    axis = _axis(model, model.fs_ or 1.0)
    return find_strengths(chosen_on, judged_on, axis, names, n_fft, hop, held)


def _spectra(
    model: ContrastiveFeatures, out: ReadOut, means: list[Array], X: Array | None
) -> tuple[Array, Array]:
    """Power (c, f) of the channels, and the frequencies (f,) in cycles per sample.

    From windows; else from the mean spectrogram of the fit; else the same for all frequencies.
    """
    fine = np.fft.rfftfreq(model.n_times_in_)
    c = model.n_channels_in_
    if X is not None:
        power = np.zeros((c, len(fine)))
        for part in np.array_split(X, max(1, len(X) // 64)):
            centred = part - part.mean(axis=2, keepdims=True, dtype=np.float64)
            power += np.square(np.abs(np.fft.rfft(centred, axis=2))).sum(axis=0)
        return power / len(X), fine
    for block, mean in zip(out.blocks, means, strict=True):
        made = block.transformer
        if isinstance(made, SpectrogramTensor):
            rows = np.maximum(mean.mean(axis=2), 0.0)
            if made.representation.startswith("log"):
                rows = np.exp(mean.mean(axis=2))
            rows = rows ** (4 if made.representation == "sqrt-magnitude" else 2)
            rows = rows.reshape(-1, c, rows.shape[1]).sum(axis=0)
            coarse = np.fft.rfftfreq(made.n_fft_)
            return np.stack([np.interp(fine, coarse, row) for row in rows]), fine
    return np.ones((c, len(fine))), fine


def _over_time(out: ReadOut, X: Array, variance: Array) -> tuple[Array, Array]:
    """Covariance shares of channels (c, r) and parts of the window (s, r), from contributions."""
    per_window = 1
    for block in out.blocks:
        if isinstance(block.transformer, ConvolutionFeatures):
            positions = -(-X.shape[2] // block.transformer.stride_)
            k, d, _ = block.centre.shape
            per_window = positions * k * d * max(out.n_features, X.shape[1])
    most = max(8, min(MAX_SPREAD_WINDOWS, MAX_SPREAD_VALUES // per_window))
    some = X[evenly(len(X), most)]
    spread = part_sums(X.shape[2], TIME_PARTS)
    made = signal.contributions(out, some, spread)
    W = made.sum(axis=(1, 2))
    centred = W - W.mean(axis=0)
    own = np.mean(np.square(centred), axis=0)
    floor = 1e-9 * np.maximum(variance, np.finfo(float).tiny)
    weight = np.divide(centred, own * len(W), out=np.zeros_like(centred), where=own > floor)
    by_channel = np.einsum("ncr,nr->cr", made.sum(axis=2), weight)
    by_time = np.einsum("nsr,nr->sr", made.sum(axis=1), weight)
    return by_channel, by_time


def part_sums(n_times: int, parts: int) -> Array:
    """Matrix (n_times, s) that sums samples to at most so many parts of a window of equal length.

    A sample on the border of two parts counts for both, in proportion; rows sum to 1.

    Examples
    --------
    >>> part_sums(3, 2).tolist()
    [[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]]
    """
    count = min(parts, n_times)
    return quantile_weights(n_times, count) * (n_times / count)


def _kernels(
    convolution: Any, share: Array, raises: Array, names: Sequence[str], rate: float
) -> list[Kernel]:
    found = []
    for at in np.argsort(-share, axis=None, kind="stable")[:N_KERNELS]:
        k, d = np.unravel_index(int(at), share.shape)
        taps = kernels()[k]
        used = np.flatnonzero(convolution.channel_weights_[k, d] > 0)
        found.append(
            Kernel(
                times=(np.arange(len(taps)) - len(taps) // 2) * convolution.dilations_[d] / rate,
                weights=taps.astype(np.float64),
                channels=tuple(names[i] for i in used),
                share=float(share[k, d]),
                raises=bool(raises[k, d]),
            )
        )
    return found


def _windows(
    out: ReadOut, X: Array, w: Array, index: NDArray[np.intp]
) -> list[WindowContributions]:
    """Return the windows of the highest, the median and the lowest value."""
    middle = int(np.argmin(np.abs(w - np.median(w))))
    places = {"highest": int(np.argmax(w)), "typical": middle, "lowest": int(np.argmin(w))}
    some = X[list(places.values())]
    made = signal.contributions(out, some, part_sums(X.shape[2], BAND_PARTS))
    return [
        WindowContributions(role, int(index[at]), float(w[at]), X[at], made[j, ..., 0])
        for j, (role, at) in enumerate(places.items())
    ]
