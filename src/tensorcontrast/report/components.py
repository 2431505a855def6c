"""What each learned component is, in numbers and in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorcontrast.cp import kernels
from tensorcontrast.errors import InvalidInputError
from tensorcontrast.features import ContrastiveFeatures
from tensorcontrast.report.text import plain

__all__ = ["Component", "describe_components"]

Array = NDArray[Any]

#: Share of the convolution block from which a component is named after it first.
MOSTLY = 0.75


@dataclass(frozen=True)
class Component:
    """One component of a channel × frequency × time model, ready to be shown."""

    index: int
    channels: tuple[str, ...]
    channel_weights: Array
    frequencies: Array
    frequency_profile: Array
    times: Array
    time_profile: Array
    frequency_unit: str
    time_unit: str
    classes: tuple[str, ...] = ()
    class_means: Array | None = None
    #: Share of the variance of the feature that lies between classes (η²), 0 to 1.
    separation: float | None = None
    mean_weight: float | None = None
    #: Whether ``times`` are not times but quantiles over time, in percent.
    by_strength: bool = False
    #: Share of the component in the block of convolution features, 0 to 1.
    convolution_share: float | None = None
    sentence: str = ""

    @property
    def speaks_for(self) -> int | None:
        """Position of the class whose mean is farthest from zero."""
        if self.class_means is None or not len(self.class_means):
            return None
        return int(np.argmax(np.abs(self.class_means)))


def describe_components(
    model: ContrastiveFeatures,
    *,
    features: ArrayLike | None = None,
    y: ArrayLike | None = None,
    classes: Sequence[str] | None = None,
    n_components: int | None = None,
) -> list[Component]:
    """Say what the components of a fitted model are.

    Parameters
    ----------
    model : ContrastiveFeatures
        Fitted, with a ``SpectrogramTensor``.
    features, y : array-like (n, rank) and (n,), optional
        Features and classes of some samples, for the class that each component speaks for.
    classes : sequence of str, optional
        Names of the classes.
    n_components : int, optional
        How many: with ``y`` those with the largest share of variance between classes (η²),
        else the heaviest. Tables, figures and reports all take their choice from here.
    """
    spectrogram = model.spectrogram_
    if spectrogram is None or len(model.factors_) != 3:
        raise InvalidInputError(
            "components of channel × frequency × time models made by SpectrogramTensor can be "
            f"described; this one has {len(model.factors_)} modes"
        )
    if (features is None) != (y is None):
        raise InvalidInputError("pass features and y together, or neither")
    A, B, C = (np.asarray(factor, dtype=np.float64) for factor in model.factors_)
    frequency_unit, time_unit = units(model)
    times, by_strength = time_axis(spectrogram)
    names = tuple(channel_rows(model))
    means, eta = None, np.zeros(A.shape[1])
    labels: tuple[str, ...] = ()
    order = np.arange(A.shape[1])
    if features is not None:
        W, target = np.asarray(features), np.asarray(y)
        means, present = class_means(W, target)
        labels = tuple(str(classes[c]) if classes is not None else f"class {c}" for c in present)
        eta = _separation(W[target >= 0], target[target >= 0])
        order = np.argsort(-eta, kind="stable")
    magnitude, mean = (spectrogram.row_kinds_ == kind for kind in ("magnitude", "mean"))
    shares = convolution_shares(model)
    found = []
    for r in order[:n_components]:
        parts = Component(
            index=int(r),
            channels=names,
            channel_weights=A[:, r],
            frequencies=np.asarray(spectrogram.frequencies_)[magnitude],
            frequency_profile=B[magnitude, r],
            times=times,
            time_profile=C[:, r],
            frequency_unit=frequency_unit,
            time_unit="%" if by_strength else time_unit,
            by_strength=by_strength,
            convolution_share=None if shares is None else float(shares[r]),
            classes=labels,
            class_means=None if means is None else means[:, r],
            separation=None if means is None else float(eta[r]),
            mean_weight=float(B[mean, r][0]) if mean.any() else None,
        )
        found.append(Component(**{**vars(parts), "sentence": _sentence(parts)}))
    return found


def convolution_shares(model: ContrastiveFeatures) -> Array | None:
    """Share of each component in the convolution block, by squares; None without that block."""
    if model.convolution_ is None or len(getattr(model.decompose_, "block_dims_", None) or ()) != 2:
        return None
    size, own = (
        kernels.gram([U.astype(np.float64) for U in block]).diagonal()
        for block in model.decompose_.factors_
    )
    return np.asarray(own / np.maximum(own + size, np.finfo(float).tiny))


def class_means(W: Array, y: Array) -> tuple[Array, list[int]]:
    """Mean of each standardised feature in each class (k, r), and which classes these are."""
    if W.ndim != 2 or y.shape != (len(W),):
        raise InvalidInputError(
            f"features of shape {W.shape} and y of shape {y.shape} do not fit; "
            "one label per row of features is needed"
        )
    present = [int(c) for c in np.unique(y[y >= 0])]
    if not present:
        raise InvalidInputError("y holds no label (all are −1); leave features and y out")
    spread = W.std(axis=0)
    Z = (W - W.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    return np.stack([Z[y == c].mean(axis=0) for c in present]), present


def channel_rows(model: ContrastiveFeatures) -> list[str]:
    """Names of the rows of the first factor; real and imaginary parts have a suffix."""
    n_rows = len(model.factors_[0])
    names = [str(c) for c in (model.channels_ or range(model.n_channels_in_))]
    if n_rows == 2 * len(names):
        return [f"{n} re" for n in names] + [f"{n} im" for n in names]
    return names


def time_axis(spectrogram: Any) -> tuple[Array, bool]:
    """Values of the last axis, and whether these are quantiles over time, in percent."""
    if spectrogram.n_quantiles_ is None:
        return np.asarray(spectrogram.times_), False
    return 100 * np.asarray(spectrogram.time_axis_), True


def time_axis_label(by_strength: bool, time_unit: str) -> str:
    """Name of the last axis."""
    return "quantile over time (%)" if by_strength else f"time in the window ({time_unit})"


def order_label(components: Sequence[Component]) -> str:
    """Name the statistic that components are ordered by."""
    if components and components[0].separation is not None:
        return "by the share of variance between classes (η²), largest first"
    return "by weight (root mean square of the feature), largest first"


def units(model: ContrastiveFeatures) -> tuple[str, str]:
    """Units of frequency and of time."""
    known = model.spectrogram_ is not None and model.spectrogram_.fs is not None
    return ("Hz", "s") if known else ("cycles/sample", "samples")


def _separation(W: Array, y: Array) -> Array:
    """Share of the variance of each feature that lies between the classes (η²)."""
    total = W.var(axis=0)
    between = np.zeros(W.shape[1])
    for c in np.unique(y):
        own = W[y == c]
        between += len(own) / len(W) * (own.mean(axis=0) - W.mean(axis=0)) ** 2
    return np.asarray(between / np.where(total > 0, total, 1.0))


# ------------------------------------------------------------------------------ words


def _sentence(c: Component) -> str:
    parts = [f"{_channels(c)}, {_frequencies(c)}, {_times(c)}"]
    if c.convolution_share is not None and c.convolution_share > MOSTLY:
        parts[0] = f"mostly waveforms ({100 * c.convolution_share:.0f} % of it), with {parts[0]}"
    elif c.convolution_share is not None:
        parts[0] += f", with waveforms ({100 * c.convolution_share:.0f} % of it)"
    at = c.speaks_for
    if at is not None and c.class_means is not None and c.separation is not None:
        mean = float(c.class_means[at])
        name = plain(c.classes[at], 40)
        if c.separation < 0.05:
            parts.append("says little about the classes")
        else:
            side = "high" if mean > 0 else "low"
            parts.append(
                f"is {side} in {name} ({'−' if mean < 0 else '+'}{abs(mean):.1f} sd); "
                f"{100 * c.separation:.0f} % of its variance lies between classes"
            )
    return ": ".join(parts) + "."


def _channels(c: Component) -> str:
    """Name the channels that hold 80 % of the squared weights, three at most, with their signs."""
    weights = c.channel_weights
    order = np.argsort(-np.abs(weights), kind="stable")
    power = np.cumsum(weights[order] ** 2) / max(float(weights @ weights), 1e-300)
    count = int(np.searchsorted(power, 0.8) + 1)
    if len(weights) == 1:
        return plain(c.channels[0], 24)
    if count > 3:
        return f"spread over {count} channels, {plain(c.channels[order[0]], 24)} first"
    signs = "−" if weights[order[0]] < 0 else ""
    names = [signs + plain(c.channels[order[0]], 24)]
    for k in order[1:count]:
        names.append(("−" if weights[k] < 0 else "") + plain(c.channels[k], 24))
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _frequencies(c: Component) -> str:
    """Name the peak and the band that holds 80 % of the squared profile."""
    profile = c.frequency_profile**2
    total = float(profile.sum())
    if total <= 0:
        return "at no frequency"
    peak = float(c.frequencies[int(np.argmax(profile))])
    share = np.cumsum(profile) / total
    low = float(c.frequencies[int(np.searchsorted(share, 0.1))])
    high = float(c.frequencies[min(int(np.searchsorted(share, 0.9)), len(share) - 1)])
    unit = c.frequency_unit
    step = float(c.frequencies[min(1, len(share) - 1)])
    if share[0] > 0.5 and high <= 2 * step:
        return f"the constant level (below {step:.2g} {unit})"
    if peak == 0 and share[0] > 0.3:
        return f"slow, below {max(high, step):.2g} {unit}"
    if high - low <= step:
        return f"around {peak:.2g} {unit}"
    return f"{low:.2g} to {high:.2g} {unit}, most at {peak:.2g} {unit}"


def _times(c: Component) -> str:
    """Say whether the course is even, or where it peaks."""
    profile = c.time_profile
    largest = float(np.abs(profile).max(initial=0.0))
    if len(profile) < 2 or largest <= 0:
        return "throughout the window"
    if float(profile.std()) < 0.25 * abs(float(profile.mean())):
        return "evenly through the window"
    at = int(np.argmax(np.abs(profile)))
    if c.by_strength:
        if (profile > 0.25 * largest).any() and (profile < -0.25 * largest).any():
            return "by how much it varies within the window"
        if 0 < at < len(profile) - 1:
            return "in its moments of middle strength"
        return f"in its {'strongest' if at else 'weakest'} moments"
    peak = float(c.times[at])
    if (profile > 0.25 * largest).any() and (profile < -0.25 * largest).any():
        return f"changing sign in the window, strongest at {peak:.2g} {c.time_unit}"
    return f"strongest at {peak:.2g} {c.time_unit}"
