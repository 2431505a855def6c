"""What ``python -m benchmarks.study`` compares: changes of tensors, of the fit and of features."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks.graphs import Consensus, MovingAverage, MutualNeighbours, Past
from benchmarks.teaching import ByVariance, Following, OwnGraph, Still, Taught, Unmoved, Untold
from tensorcontrast import PLC, SpectrogramTensor

RANK = 32
PLAIN = {"mean_row": False, "polarity": False, "n_levels": "time"}


@dataclass
class Variant:
    """What a variant changes."""

    tensor: dict[str, Any] = field(default_factory=lambda: dict(PLAIN))
    plc: dict[str, Any] = field(default_factory=dict)
    cpd: bool = False
    fresh: bool = False
    prepare: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None
    tensors: Callable[[np.ndarray, float], np.ndarray] | None = None
    sequence: bool = False
    #: Whether the labels of the probe are in the graph too; a fit for each of two draws then.
    labels: bool = False
    after: Callable[[Any, np.ndarray], np.ndarray] | None = None
    y: bool = False
    #: Weight of shapes beside the spectrogram; None for none. ``python -m benchmarks.draws`` only.
    shapes: float | None = None
    #: What features are read against: a kind of ``benchmarks.draws.changes_of``, "" for nothing.
    steady: str = ""
    #: What makes the tensors, of the rate and their parameters. ``benchmarks.draws`` only.
    maker: Callable[..., Any] = SpectrogramTensor
    #: What is fitted, with the parameters of PLC; "now" reads its features as PLC does today.
    #: ``benchmarks.draws`` only.
    estimator: Callable[..., Any] = Still

    @property
    def settings(self) -> dict[str, Any]:
        """Parameters of PLC."""
        early = {"n_clusters": 100, "beta": 0.2, "learning_rate": 5e-3, "temperature": 0.2}
        return early | self.plc

    @property
    def spectrogram(self) -> dict[str, Any]:
        """Parameters of the spectrogram; frames are in time where it does not say otherwise."""
        return {"n_levels": "time"} | self.tensor


def equal_channels(fit: np.ndarray, X: np.ndarray) -> np.ndarray:
    """Each channel divided by its root mean square over the unlabelled windows."""
    centred = fit - fit.mean(axis=2, keepdims=True)
    return X / np.sqrt((centred**2).mean(axis=(0, 2), keepdims=True))


def stacked(X: np.ndarray, fs: float) -> np.ndarray:
    """Several resolutions, each averaged over the same few pieces of time, stacked as rows."""
    base = SpectrogramTensor(fs, **PLAIN).fit(X[:1])
    parts = []
    for share in (2, 1, 0.5):
        n_fft = min(int(base.n_fft_ * share), X.shape[2])
        options = {"n_fft": n_fft, "hop": max(1, n_fft // 8), "mean_row": share == 1}
        made = SpectrogramTensor(fs, polarity=False, n_levels="time", **options)
        T = made.fit_transform(X)
        cuts = np.array_split(np.arange(T.shape[3]), min(4, T.shape[3]))
        cuts = cuts if len(cuts) == 4 else [np.arange(T.shape[3])] * 4
        parts.append(np.stack([T[..., c].mean(axis=3) for c in cuts], axis=3) / n_fft**0.25)
    return np.concatenate(parts, axis=2)


def signed_dc(X: np.ndarray, fs: float) -> np.ndarray:
    """√|Z| with the sign of Z in the row of frequency zero, where it is real."""
    T = SpectrogramTensor(fs, **MEAN).fit_transform(X)
    T[:, :, 0] *= np.sign(T[:, :, -1])
    return np.ascontiguousarray(T[:, :, :-1])


def heavy_mean(X: np.ndarray, fs: float) -> np.ndarray:
    """Give the row of the signed mean twice the size it has."""
    T = SpectrogramTensor(fs, **MEAN).fit_transform(X)
    T[:, :, -1] *= 2
    return T


def cross_spectrum(X: np.ndarray, fs: float) -> np.ndarray:
    """Signed fourth root of the squared real cross-spectra: channel × channel × frequency."""
    n_fft = SpectrogramTensor(fs, **PLAIN).fit(X[:1]).n_fft_
    window = np.hanning(n_fft).astype(np.float32)
    out = []
    for start in range(0, len(X), 256):
        frames = np.lib.stride_tricks.sliding_window_view(X[start : start + 256], n_fft, axis=2)
        Z = np.fft.rfft(frames[:, :, :: n_fft // 4] * window, axis=3).astype(np.complex64)
        Z = np.moveaxis(Z, 3, 1)  # (m, frequency, channel, frame)
        S = (Z @ np.conj(np.swapaxes(Z, 2, 3))).real / Z.shape[3]
        S = np.moveaxis(S, 1, 3)
        out.append((np.sign(S) * np.abs(S) ** 0.25).astype(np.float32))
    return np.concatenate(out)


def prototypes(model: Any, W: np.ndarray) -> np.ndarray:
    """Softmax of the cosines to 32 centres of the fitted features."""
    from sklearn.cluster import KMeans

    mean, sd = model.features_.mean(axis=0), model.features_.std(axis=0)
    Z, fitted = (W - mean) / sd, (model.features_ - mean) / sd
    centres = KMeans(RANK, n_init=3, random_state=0).fit(fitted).cluster_centers_
    unit = [A / np.linalg.norm(A, axis=1, keepdims=True) for A in (Z, centres)]
    return unit[0] @ unit[1].T


def signed_root(model: Any, W: np.ndarray) -> np.ndarray:
    """sign(w)√|w| of standardised features."""
    Z = (W - model.features_.mean(axis=0)) / model.features_.std(axis=0)
    return np.sign(Z) * np.sqrt(np.abs(Z))


def unit_length(model: Any, W: np.ndarray) -> np.ndarray:
    """Standardised features of unit length: what the contrast compares."""
    Z = (W - model.features_.mean(axis=0)) / model.features_.std(axis=0)
    return Z / np.linalg.norm(Z, axis=1, keepdims=True)


def root_of_length(model: Any, W: np.ndarray) -> np.ndarray:
    """Standardised features over the root of their length: half of the way to unit length."""
    Z = (W - model.features_.mean(axis=0)) / model.features_.std(axis=0)
    return Z / np.sqrt(np.linalg.norm(Z, axis=1, keepdims=True))


def towards_clusters(model: Any, W: np.ndarray) -> np.ndarray:
    """Standardised features, half of the way to what clusters are near: E9's pull at transform."""
    from sklearn.cluster import KMeans

    mean, sd = model.features_.mean(axis=0), model.features_.std(axis=0)
    Z, fitted = (W - mean) / sd, (model.features_ - mean) / sd
    centres = KMeans(100, n_init=1, random_state=0).fit(fitted).cluster_centers_
    unit = [A / np.linalg.norm(A, axis=1, keepdims=True) for A in (Z, centres)]
    near = np.exp((unit[0] @ unit[1].T) / 0.2)
    return 0.5 * Z + 0.5 * (near / near.sum(axis=1, keepdims=True)) @ centres


class Resolutions:
    """Spectrograms of two lengths of frames, in levels, their rows one above the other."""

    def __init__(self, fs: float, **options: Any) -> None:
        self.parts = [SpectrogramTensor(fs, **options)]
        self.options = {"fs": fs, **options, "mean_row": False, "polarity": False}

    def fit(self, X: np.ndarray) -> Resolutions:
        """Learn what the spectrograms learn; the second has frames of half the length."""
        first = self.parts[0].fit(X)
        self.n_fft_ = first.n_fft_
        shorter = self.options | {"n_fft": first.n_fft_ // 2, "n_levels": first.n_levels_ or 4}
        self.parts = [first, SpectrogramTensor(**shorter).fit(X)]
        return self

    def transform(self, X: np.ndarray) -> np.ndarray:
        """Return both, the second as strong a bin as the first."""
        long, short = (part.transform(X) for part in self.parts)
        return np.concatenate([long, short * np.float32(2**0.25)], axis=2)


def half_whitened(model: Any, W: np.ndarray) -> np.ndarray:
    """Standardised features, times the fourth root of the inverse of their correlations."""
    mean, sd = model.features_.mean(axis=0), model.features_.std(axis=0)
    values, vectors = np.linalg.eigh(np.cov(((model.features_ - mean) / sd).T))
    return ((W - mean) / sd) @ (vectors * np.maximum(values, 1e-9) ** -0.25) @ vectors.T


MEAN = {"mean_row": True, "polarity": False, "n_levels": "time"}
POLARITY = {"mean_row": "auto", "polarity": True, "n_levels": "time"}
LEVELS = {"n_levels": "auto"}
NOW = {"n_clusters": None, "beta": 0.07}
FASTER = NOW | {"learning_rate": 0.015}
ONE = FASTER | {"n_clusters": 100}
SHARP = FASTER | {"temperature": (0.5, 0.1)}


TODAY = SHARP | {"beta": None}


def now(plc: dict[str, Any] = TODAY, **changes: Any) -> Variant:
    """Return PLC as it is today, but for the changes."""
    own = {"steady": "all", "estimator": PLC} | changes
    return Variant(tensor=LEVELS, plc=plc, shapes=1.4, **own)


VARIANTS: dict[str, Variant] = {
    "cpd": Variant(cpd=True),
    "base": Variant(plc={"beta": 0.3}),
    "base, β 0.15": Variant(plc={"beta": 0.15}),
    "base, β 0.2": Variant(plc={"beta": 0.2}),
    "base, β 0.6": Variant(plc={"beta": 0.6}),
    "mean row, cpd": Variant(tensor=MEAN, cpd=True),
    "mean row": Variant(tensor=MEAN, plc={"beta": 0.3}),
    "mean row, β 0.15": Variant(tensor=MEAN, plc={"beta": 0.15}),
    "mean row, β 0.2": Variant(tensor=MEAN, plc={"beta": 0.2}),
    "mean row, β 0.6": Variant(tensor=MEAN, plc={"beta": 0.6}),
    "mean row, 30 clusters": Variant(tensor=MEAN, plc={"n_clusters": 30}),
    "mean row, 200 clusters": Variant(tensor=MEAN, plc={"n_clusters": 200}),
    "mean row, τ 0.1": Variant(tensor=MEAN, plc={"temperature": 0.1}),
    "mean row, τ 0.5": Variant(tensor=MEAN, plc={"temperature": 0.5}),
    "mean row, 50 epochs": Variant(tensor=MEAN, plc={"n_epochs": 50}),
    "mean row, views drawn anew": Variant(tensor=MEAN, fresh=True),
    "mean row, equal channels, cpd": Variant(tensor=MEAN, prepare=equal_channels, cpd=True),
    "mean row, equal channels": Variant(tensor=MEAN, prepare=equal_channels),
    "mean row, three starts": Variant(tensor=MEAN, plc={"n_init": 3}),
    "mean row, log": Variant(tensor=MEAN | {"representation": "log-magnitude"}),
    "mean row, cosine to prototypes": Variant(tensor=MEAN, after=prototypes),
    "mean row, signed root": Variant(tensor=MEAN, after=signed_root),
    "mean row, unit length": Variant(tensor=MEAN, after=unit_length),
    "signed zero row, cpd": Variant(tensors=signed_dc, cpd=True),
    "signed zero row": Variant(tensors=signed_dc),
    "signed zero row, τ 0.1": Variant(tensors=signed_dc, plc={"temperature": 0.1}),
    "mean row twice, cpd": Variant(tensors=heavy_mean, cpd=True),
    "mean row twice": Variant(tensors=heavy_mean),
    "mean row, equal channels, τ 0.1": Variant(
        tensor=MEAN, prepare=equal_channels, plc={"temperature": 0.1}
    ),
    "mean row, τ 0.1, β 0.15": Variant(tensor=MEAN, plc={"temperature": 0.1, "beta": 0.15}),
    "base, τ 0.1": Variant(plc={"temperature": 0.1}),
    "cross-spectrum, cpd": Variant(tensors=cross_spectrum, cpd=True),
    "cross-spectrum": Variant(tensors=cross_spectrum),
    "three resolutions, cpd": Variant(tensors=stacked, cpd=True),
    "three resolutions": Variant(tensors=stacked),
    "mean row, neighbours as views": Variant(
        tensor=MEAN, plc={"neighbour_weight": 0.5}, sequence=True
    ),
    "mean row, neighbours as views, always": Variant(
        tensor=MEAN, plc={"neighbour_weight": 1.0}, sequence=True
    ),
    "mean row, 60 labels in the graph": Variant(tensor=MEAN, labels=True),
    "mean row, β 1, 60 labels in the graph": Variant(tensor=MEAN, plc={"beta": 1.0}, labels=True),
    "polarity, cpd": Variant(tensor=POLARITY, cpd=True),
    "polarity": Variant(tensor=POLARITY),
    "default": Variant(tensor={}),
    "default, unit length": Variant(tensor={}, after=unit_length),
    "default, cpd": Variant(tensor={}, cpd=True),
    "default, cpd, unit length": Variant(tensor={}, cpd=True, after=unit_length),
    "default, unit length, mean row twice": Variant(tensors=heavy_mean, after=unit_length),
    "default, graphs in turns": Variant(tensor={}, plc={"n_clusters": None}),
    "default, unit length, graphs in turns": Variant(
        tensor={}, after=unit_length, plc={"n_clusters": None}
    ),
    "default, unit length, graphs in turns, τ 0.1": Variant(
        tensor={}, after=unit_length, plc={"n_clusters": None, "temperature": 0.1}
    ),
    "default, unit length, graphs in turns, τ 0.5": Variant(
        tensor={}, after=unit_length, plc={"n_clusters": None, "temperature": 0.5}
    ),
    "default, unit length, 25 clusters": Variant(
        tensor={}, after=unit_length, plc={"n_clusters": 25}
    ),
    "default, half whitened": Variant(tensor={}, after=half_whitened),
    "levels": Variant(tensor=LEVELS, after=unit_length, plc=NOW),
    "levels, cpd": Variant(tensor=LEVELS, cpd=True),
    "levels, lengths kept": Variant(tensor=LEVELS, plc=NOW),
    "levels, root of length": Variant(tensor=LEVELS, after=root_of_length, plc=NOW),
    "levels, β 0.2, root of length": Variant(
        tensor=LEVELS, after=root_of_length, plc=NOW | {"beta": 0.2}
    ),
    "levels, 2": Variant(tensor={"n_levels": 2}, after=unit_length, plc=NOW),
    "levels, 6": Variant(tensor={"n_levels": 6}, after=unit_length, plc=NOW),
    "levels, β 0.1": Variant(tensor=LEVELS, after=unit_length, plc=NOW | {"beta": 0.1}),
    "levels, β 0.2": Variant(tensor=LEVELS, after=unit_length, plc=NOW | {"beta": 0.2}),
    "levels, step 0.02": Variant(
        tensor=LEVELS, after=unit_length, plc=NOW | {"learning_rate": 0.02}
    ),
    "levels, one graph": Variant(tensor=LEVELS, after=unit_length, plc={"beta": 0.07}),
    "levels, lengths kept, step 0.015": Variant(tensor=LEVELS, plc=FASTER),
    "shapes": Variant(tensor=LEVELS, plc=FASTER, shapes=1.4),
    "shapes, cpd": Variant(tensor=LEVELS, cpd=True, shapes=1.4),
    "shapes, paper": Variant(
        tensor=LEVELS, plc={"solver": "als", "warm_up": 0, "beta": None}, shapes=1.4
    ),
    "shapes, step 0.005": Variant(tensor=LEVELS, plc=NOW, shapes=1.4),
    "shapes, unit length": Variant(tensor=LEVELS, plc=FASTER, after=unit_length, shapes=1.4),
    "shapes, weight 1": Variant(tensor=LEVELS, plc=FASTER, shapes=1.0),
    "shapes, weight 2": Variant(tensor=LEVELS, plc=FASTER, shapes=2.0),
    "steady": Variant(tensor=LEVELS, plc=FASTER, shapes=1.4, steady="within"),
    "steady, neighbours as views": Variant(
        tensor=LEVELS, plc=FASTER, shapes=1.4, steady="within", sequence=True
    ),
    "steady, one graph": Variant(tensor=LEVELS, plc=ONE, shapes=1.4, steady="within"),
    "steady, one graph, mutual neighbours": Variant(
        tensor=LEVELS, plc=ONE | {"clusterer": MutualNeighbours()}, shapes=1.4, steady="within"
    ),
    "steady, one graph, consensus": Variant(
        tensor=LEVELS, plc=ONE | {"clusterer": Consensus()}, shapes=1.4, steady="within"
    ),
    "steady, one graph, moving average": Variant(
        tensor=LEVELS, plc=ONE | {"clusterer": MovingAverage(Past())}, shapes=1.4, steady="within"
    ),
    "steady, towards clusters": Variant(
        tensor=LEVELS, plc=FASTER, shapes=1.4, steady="within", after=towards_clusters
    ),
    "steady, sharpened": Variant(
        tensor=LEVELS, plc=FASTER | {"temperature": (0.5, 0.1)}, shapes=1.4, steady="within"
    ),
    "steady, sharpened, 1 to 0.1": Variant(
        tensor=LEVELS, plc=FASTER | {"temperature": (1.0, 0.1)}, shapes=1.4, steady="within"
    ),
    "steady, sharpened, 0.5 to 0.05": Variant(
        tensor=LEVELS, plc=FASTER | {"temperature": (0.5, 0.05)}, shapes=1.4, steady="within"
    ),
    "steady, τ 0.1": Variant(
        tensor=LEVELS, plc=FASTER | {"temperature": 0.1}, shapes=1.4, steady="within"
    ),
    "steady, τ 0.5": Variant(
        tensor=LEVELS, plc=FASTER | {"temperature": 0.5}, shapes=1.4, steady="within"
    ),
    "steady, taught": Variant(
        tensor=LEVELS, plc=FASTER, shapes=1.4, steady="within", estimator=Taught
    ),
    "steady, two resolutions": Variant(
        tensor=LEVELS, plc=FASTER, shapes=1.4, steady="within", maker=Resolutions
    ),
    "two resolutions, cpd": Variant(tensor=LEVELS, cpd=True, shapes=1.4, maker=Resolutions),
    "steady, ε 0.15": Variant(
        tensor=LEVELS, plc=FASTER | {"epsilon": 0.15}, shapes=1.4, steady="within"
    ),
    "shapes, labels": Variant(tensor=LEVELS, plc=FASTER | {"beta": None}, shapes=1.4, labels=True),
    "shapes, labels, β 0.07": Variant(tensor=LEVELS, plc=FASTER, shapes=1.4, labels=True),
    "steady, labels": Variant(
        tensor=LEVELS, plc=FASTER | {"beta": None}, shapes=1.4, steady="within", labels=True
    ),
    "steady, labels, sharpened": Variant(
        tensor=LEVELS,
        plc=FASTER | {"beta": None, "temperature": (0.5, 0.1)},
        shapes=1.4,
        steady="within",
        labels=True,
    ),
    "steady, labels, β 0.07": Variant(
        tensor=LEVELS, plc=FASTER, shapes=1.4, steady="within", labels=True
    ),
    "now": now(),
    "now, own graph": now(estimator=OwnGraph),
    "now, τ 0.2": now(TODAY | {"temperature": 0.2}),
    "now, by variance": now(estimator=ByVariance),
    "now, no sweep": now(estimator=Unmoved),
    "now, no tempo": now(steady="placement"),
    "now, no placement": now(steady="tempo"),
    "now, placement always": now(steady="placement always"),
    "now, labels": now(labels=True),
    "now, labels untold": now(labels=True, estimator=Untold),
    "now, labels, β 0.07": now(SHARP, labels=True),
    "now, labels, a sweep": now(labels=True, estimator=Following),
    "now, labels, no sweep": now(labels=True, estimator=Unmoved),
    "mean row, true labels": Variant(tensor=MEAN, plc={"graph": "true"}, y=True),
}
