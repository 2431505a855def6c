"""Figures: functions that take an estimator and return a matplotlib figure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray

from tensorcontrast.errors import InvalidInputError
from tensorcontrast.features import ContrastiveFeatures

__all__ = ["plot_components"]

#: Colour-blind safe (Okabe and Ito).
BLUE, ORANGE, GREEN = "#0072B2", "#D55E00", "#009E73"


def plot_components(
    model: ContrastiveFeatures,
    *,
    features: ArrayLike | None = None,
    y: ArrayLike | None = None,
    classes: Sequence[str] | None = None,
    n_components: int = 6,
) -> Figure:
    """Draw what each component is: its channels, its frequencies, its course in time.

    Parameters
    ----------
    model : ContrastiveFeatures
        Fitted, with a ``SpectrogramTensor``.
    features, y : array-like (n, rank) and (n,), optional
        Features and classes of some samples; a fourth column then shows the standardised mean of
        the feature in each class. Samples with label −1 are left out.
    classes : sequence of str, optional
        Names of the classes.
    n_components : int, default=6
        How many, the heaviest first; with ``y`` those that tell the classes apart best.

    Returns
    -------
    matplotlib.figure.Figure
    """
    spectrogram = model.tensorize_
    if len(model.factors_) != 3 or not hasattr(spectrogram, "frequencies_"):
        raise InvalidInputError(
            "plot_components draws channel × frequency × time models made by SpectrogramTensor; "
            f"this one has {len(model.factors_)} modes"
        )
    if (features is None) != (y is None):
        raise InvalidInputError("pass features and y together, or neither")
    channels, frequencies, times = model.factors_
    means = None if features is None else _class_means(np.asarray(features), np.asarray(y))
    order = np.arange(channels.shape[1])
    if means is not None:
        order = np.argsort(-means.var(axis=0), kind="stable")
    order = order[: max(1, n_components)]
    columns = 3 if means is None else 4
    figure = Figure(figsize=(3.2 * columns, 1.35 * len(order) + 0.9), layout="constrained")
    axes = figure.subplots(len(order), columns, squeeze=False)
    names = _channel_names(model, len(channels))
    frequency_unit = "Hz" if spectrogram.fs is not None else "cycles/sample"
    time_unit = "s" if spectrogram.fs is not None else "samples"
    for row, r in enumerate(order):
        axis = axes[row, 0]
        axis.bar(range(len(channels)), channels[:, r], color=BLUE)
        axis.set_xticks(range(len(channels)), names if row == len(order) - 1 else [])
        axis.tick_params(axis="x", labelrotation=60 if max(map(len, names)) > 3 else 0)
        axis.set_ylabel(f"component {r}\nweight")
        axes[row, 1].plot(spectrogram.frequencies_, frequencies[:, r], ".-", color=ORANGE, ms=3)
        style = "o-" if len(times) < 30 else "-"
        axes[row, 2].plot(spectrogram.times_, times[:, r], style, color=GREEN, ms=3)
        if means is not None:
            labels = [str(c) for c in (classes or range(len(means)))]
            axes[row, 3].barh(range(len(means)), means[:, r], color="0.4")
            axes[row, 3].set_yticks(range(len(means)), labels, fontsize=7)
            axes[row, 3].invert_yaxis()
        for axis in axes[row]:
            axis.axhline(0, color="0.8", lw=0.6, zorder=0) if axis is not axes[row, -1] or (
                means is None
            ) else axis.axvline(0, color="0.8", lw=0.6, zorder=0)
            axis.spines[["top", "right"]].set_visible(False)
            axis.tick_params(labelsize=7)
    titles = ["channels", "frequencies", "time", "mean of the feature by class"]
    for axis, title in zip(axes[0], titles, strict=False):
        axis.set_title(title, fontsize=10)
    axes[-1, 1].set_xlabel(f"frequency ({frequency_unit})")
    axes[-1, 2].set_xlabel(f"time in the window ({time_unit})")
    if means is not None:
        axes[-1, 3].set_xlabel("standard deviations")
    return figure


def _class_means(W: NDArray[Any], y: NDArray[Any]) -> NDArray[Any]:
    """Mean of each standardised feature in each class (k, r)."""
    if W.ndim != 2 or y.shape != (len(W),):
        raise InvalidInputError(
            f"features of shape {W.shape} and y of shape {y.shape} do not fit; "
            "one label a row of features is needed"
        )
    spread = W.std(axis=0)
    Z = (W - W.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    return np.stack([Z[y == c].mean(axis=0) for c in np.unique(y[y >= 0])])


def _channel_names(model: ContrastiveFeatures, n_rows: int) -> list[str]:
    """Names of the rows of the first factor; real and imaginary parts have a suffix."""
    names = [str(c) for c in (model.channels_ or range(model.n_channels_in_))]
    if n_rows == 2 * len(names):
        return [f"{n} re" for n in names] + [f"{n} im" for n in names]
    return names
