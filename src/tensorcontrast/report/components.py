"""What each learned component is, in numbers and in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorcontrast.decompose.base import CPEstimator
from tensorcontrast.errors import InvalidInputError
from tensorcontrast.explain import FeatureExplanation, explain_features
from tensorcontrast.explain.feature import check_features
from tensorcontrast.features import ContrastiveFeatures
from tensorcontrast.report.text import plain

__all__ = ["Component", "describe_components"]

Array = NDArray[Any]


@dataclass(frozen=True)
class Component:
    """One feature, ready to be shown: its explanation, its component, and its means by class.

    ``channel_weights``, ``frequency_profile`` and ``time_profile`` are the component: the pattern
    of the spectrogram block (empty without one). ``explanation`` is of the feature, all blocks
    together; None where the features are no weighted sum of blocks.

    Examples
    --------
    >>> from tensorcontrast import PLC, ContrastiveFeatures
    >>> from tensorcontrast.datasets import make_synthetic
    >>> rec = make_synthetic(n_samples=60, n_channels=2, n_times=64, random_state=0)
    >>> model = ContrastiveFeatures(decompose=PLC(rank=4), random_state=0)
    >>> component = describe_components(model.fit(rec), n_components=1)[0]
    >>> component.channels, component.channel_weights.shape
    (('ch0', 'ch1'), (2,))
    >>> component.frequencies.shape == component.frequency_profile.shape
    True
    """

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
    #: Whether ``times`` are not times but quantiles over time, in percent.
    by_strength: bool = False
    explanation: FeatureExplanation | None = None
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
    recordings: Any = None,
    recording_features: ArrayLike | None = None,
    only: Sequence[int] | None = None,
) -> list[Component]:
    """Say what the features of a fitted model are.

    Parameters
    ----------
    model : ContrastiveFeatures
        Fitted, with a ``SpectrogramTensor`` or with CPD, ATD or PLC.
    features, y : array-like (n, rank) and (n,), optional
        Features and classes of some samples, for the class that each component speaks for.
    classes : sequence of str, optional
        Names of the classes.
    n_components : int, optional
        How many: with ``y`` those with the largest share of variance between classes (η²),
        else the heaviest. Tables, figures and reports all take their choice from here.
    recordings : Recordings, optional
        Windows that shares are measured on, in which contributions are shown.
    recording_features : array-like (n, rank), optional
        Their features, where these are known.
    only : sequence of int, optional
        These features, in this order.

    Examples
    --------
    >>> from tensorcontrast import PLC, ContrastiveFeatures
    >>> from tensorcontrast.datasets import make_synthetic
    >>> rec = make_synthetic(n_samples=60, n_channels=2, n_times=64, random_state=0)
    >>> model = ContrastiveFeatures(decompose=PLC(rank=4), random_state=0)
    >>> W = model.fit_transform(rec)
    >>> found = describe_components(model, features=W, y=rec.y, classes=rec.classes)
    >>> len(found), found[0].classes
    (4, ('class0', 'class1', 'class2'))
    """
    if not isinstance(model, ContrastiveFeatures):
        raise InvalidInputError(
            f"a {type(model).__name__} of tensors has no channels and frequencies that are known; "
            "pass a fitted ContrastiveFeatures, of which it can be the decompose="
        )
    whole = isinstance(n_components, Integral) and not isinstance(n_components, bool)
    if n_components is not None and not (whole and n_components > 0):
        raise InvalidInputError(f"n_components is {n_components!r}; pass a whole number above 0")
    spectrogram = model.spectrogram_
    linear = isinstance(model.decompose_, CPEstimator)
    pattern = spectrogram is not None and len(model.factors_) == 3
    if not pattern and not linear:
        raise InvalidInputError(
            "components of channel × frequency × time models made by SpectrogramTensor can be "
            f"described; this one has {len(model.factors_)} modes"
        )
    if (features is None) != (y is None):
        raise InvalidInputError("pass features and y together, or neither")
    if pattern:
        assert spectrogram is not None
        A, B, C = (np.asarray(factor, dtype=np.float64) for factor in model.factors_)
        times, by_strength = time_axis(spectrogram)
        names, frequencies = tuple(channel_rows(model)), np.asarray(spectrogram.frequencies_)
    else:
        A, B, C = (np.empty((0, model._n_features_out)) for _ in range(3))
        times, by_strength = np.empty(0), False
        names, frequencies = (), np.empty(0)
    frequency_unit, time_unit = units(model)
    means, eta = None, np.zeros(A.shape[1])
    labels: tuple[str, ...] = ()
    order = np.arange(A.shape[1])
    if features is not None:
        W, target = np.asarray(features), np.asarray(y)
        means, present = class_means(W, target)
        labels = tuple(str(classes[c]) if classes is not None else f"class {c}" for c in present)
        eta = _separation(W[target >= 0], target[target >= 0])
        order = np.argsort(-eta, kind="stable")
    chosen = [int(r) for r in order[:n_components]]
    if only is not None:
        chosen = check_features(only, A.shape[1])
    explained: list[FeatureExplanation | None] = [None] * len(chosen)
    if linear:
        known = None if recording_features is None else np.asarray(recording_features)
        explained = [*explain_features(model, recordings, features=known, only=chosen)]
    found = []
    for r, explanation in zip(chosen, explained, strict=True):
        parts = Component(
            index=r,
            channels=names,
            channel_weights=A[:, r],
            frequencies=frequencies,
            frequency_profile=B[:, r],
            times=times,
            time_profile=C[:, r],
            frequency_unit=frequency_unit,
            time_unit="%" if by_strength else time_unit,
            by_strength=by_strength,
            explanation=explanation,
            classes=labels,
            class_means=None if means is None else means[:, r],
            separation=None if means is None else float(eta[r]),
        )
        found.append(Component(**{**vars(parts), "sentence": _sentence(parts)}))
    return found


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


def features_lead(components: Sequence[Component]) -> str:
    """Say what the charts of features show, and how much of each feature they cover."""
    explained = [c.explanation for c in components if c.explanation is not None]
    if not explained:
        return (
            "Each feature stands for one component: weights of channels × a profile over "
            "frequencies × a profile over time. What the network measures is not explained."
        )
    first = explained[0]
    where = f"measured on {first.n_windows} windows" if first.n_windows else "as the model has them"
    text = (
        f"A feature is a weighted sum of {' and '.join(first.blocks)}; every chart covers all of "
        f"it. Shares are of its variance, {where}: they sum to 100 %, and a negative one cancels "
        "what others add. The time scale is the length of a kernel or frame. Of the kernels, the "
        "three with the largest share are drawn."
    )
    if first.windows:
        text += (
            " Below are the windows in which it is highest, most typical and lowest. The band "
            "under a signal is where the value comes from: orange above the line raises it, blue "
            "below lowers it, and all of it sums to the value."
        )
    return text


def units(model: ContrastiveFeatures) -> tuple[str, str]:
    """Units of frequency and of time."""
    known = model.fs_ is not None
    if model.spectrogram_ is not None:
        known = model.spectrogram_.fs is not None
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
    parts = [_pattern(c) if c.explanation is None else c.explanation.sentence]
    at = c.speaks_for
    if at is not None and c.class_means is not None and c.separation is not None:
        mean = float(c.class_means[at])
        name = plain(c.classes[at], 40)
        if c.separation < 0.05:
            parts.append("Says little about the classes.")
        else:
            side = "High" if mean > 0 else "Low"
            parts.append(
                f"{side} in {name} ({'−' if mean < 0 else '+'}{abs(mean):.1f} sd); "
                f"{100 * c.separation:.0f} % of its variance lies between classes."
            )
    return " ".join(parts)


def _pattern(c: Component) -> str:
    """Name the peak of a component whose feature is not explained."""
    channel = plain(c.channels[int(np.argmax(np.abs(c.channel_weights)))], 24)
    peak = float(c.frequencies[int(np.argmax(np.abs(c.frequency_profile)))])
    return (
        f"stands for a pattern whose peak is at {peak:.2g} {c.frequency_unit} in {channel}; what "
        "the network measures is not explained."
    )
