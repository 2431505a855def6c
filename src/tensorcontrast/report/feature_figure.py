"""One feature on one page: channels, frequencies, times, kernels, and three windows."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from tensorcontrast.explain import FeatureExplanation, explain_features
from tensorcontrast.explain.feature import WindowContributions
from tensorcontrast.explain.words import main_channels
from tensorcontrast.report import style
from tensorcontrast.report.charts import MOST_LANES, kernel_unit, number, signal_range, time_scales
from tensorcontrast.report.components import class_means
from tensorcontrast.report.text import figure_text, figure_texts

__all__ = ["plot_feature"]

Array = NDArray[Any]

#: Channels and classes that have a bar; the rest is left out.
MOST_BARS = 14


def plot_feature(model: Any, feature: int, rec: Any = None) -> Figure:
    """Draw all of a feature: what its variance is made of, and where in a window it comes from.

    Shares of channels, frequencies, times and time scales each sum to 100 % of the variance of the
    feature, over all blocks together. Below are the windows of the highest, the most typical and
    the lowest value, with contributions under the signal that sum to the value.

    Parameters
    ----------
    model : ContrastiveFeatures or ContrastiveClassifier
        Fitted, with CPD, ATD or PLC.
    feature : int
        Which feature.
    rec : Recordings, optional
        Windows that shares are measured on and that are shown; with labels also the mean in each
        class. Default: shares as the model has them, without windows.

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> from tensorcontrast import PLC, ContrastiveFeatures
    >>> from tensorcontrast.datasets import make_synthetic
    >>> rec = make_synthetic(n_samples=60, n_channels=2, n_times=64, random_state=0)
    >>> model = ContrastiveFeatures(decompose=PLC(rank=4), random_state=0)
    >>> figure = plot_feature(model.fit(rec), 0)
    >>> [axis.get_title(loc="left") for axis in figure.axes][:2]
    ['channels', 'frequencies']
    """
    extractor = getattr(model, "extractor_", model)
    W = None if rec is None else np.asarray(extractor.transform(rec))
    (found,) = explain_features(model, rec, features=W, only=[feature])
    y = getattr(rec, "y", None)
    classes: tuple[list[str], Array] | None = None
    if W is not None and y is not None and (y >= 0).any():
        means, present = class_means(W[:, [feature]], y)
        names = [str(rec.classes[c]) if rec.classes else f"class {c}" for c in present]
        classes = names, means[:, 0]
    return drawn(found, classes)


@style.styled
def drawn(e: FeatureExplanation, classes: tuple[list[str], Array] | None) -> Figure:
    """Draw an explanation, with means of the feature by class where these are known."""
    rows = 3 if e.windows else 2
    figure = style.new_figure(11.6, 2.5 * 2 + 3.6 * (rows - 2) + 0.5)
    words = [figure_text(e.sentence[:1].upper() + e.sentence[1:], None)]
    figure.suptitle(
        "\n".join([f"Feature {e.index}", *_wrapped(words[0], 150)]),
        x=0.01, ha="left", fontsize=9.5,
    )  # fmt: skip
    grid = figure.add_gridspec(rows, 12, height_ratios=[1, 1, 1.55][:rows])
    first = [figure.add_subplot(grid[0, 3 * k : 3 * k + 3]) for k in range(4)]
    second = [figure.add_subplot(grid[1, 3 * k : 3 * k + 3]) for k in range(3)]
    _bars(first[0], e.channels, 100 * e.channel_share, style.BLUE)
    first[0].set_title("channels")
    first[0].set_xlabel("share of variance (%)")
    frequency = f"frequency ({e.frequency_unit})"
    first[1].plot(e.frequencies, 100 * e.frequency_share, color=style.VERMILION, label="all")
    if len(e.blocks) > 1:
        first[1].plot(
            e.frequencies, 100 * e.convolution_share, "--", color=style.PINK, lw=1.2,
            label="kernels alone",
        )  # fmt: skip
        first[1].legend()
    first[1].set_title("frequencies")
    first[1].set_xlabel(frequency)
    first[1].set_ylabel("share of variance (%)")
    _over_time(first[2], e)
    names, shares = time_scales(e)
    _bars(first[3], names, shares, style.GREEN)
    first[3].set_title("time scale (kernel, frame)")
    first[3].set_xlabel("share of variance (%)")
    second[0].plot(e.frequencies, e.frequency_gain, color=style.VERMILION)
    second[0].set_title("what raises it")
    second[0].set_xlabel(frequency)
    second[0].set_ylabel("change (sd) when\nthe amplitude doubles")
    for axis in (first[1], first[2], second[0]):
        axis.axhline(0, color=style.MUTED, lw=0.7, zorder=1)
    _kernels(second[1], e)
    if classes is None:
        second[2].remove()
    else:
        _bars(second[2], classes[0], classes[1], style.GREY)
        second[2].set_title("mean by class")
        second[2].set_xlabel("standard deviations")
    if e.windows:
        lanes = [int(i) for i in main_channels(e.channel_share, 1.0)[:MOST_LANES]]
        size = max(float(np.abs(w.contributions[lanes]).max()) for w in e.windows) or 1.0
        for k, window in enumerate(e.windows):
            _window(figure.add_subplot(grid[2, 4 * k : 4 * k + 4]), e, window, lanes, size)
    return figure


def _wrapped(text: str, width: int) -> list[str]:
    import textwrap

    return textwrap.wrap(text, width)


def _bars(axis: Axes, names: Any, values: Array, colour: str) -> None:
    keep = list(range(len(values)))
    if len(values) > MOST_BARS:
        keep = sorted(int(k) for k in np.argsort(-np.abs(values), kind="stable")[:MOST_BARS])
        axis.annotate(
            f"{len(values) - len(keep)} smaller left out", (1, 0.02), xycoords="axes fraction",
            ha="right", fontsize=8, color=style.MUTED,
        )  # fmt: skip
    axis.barh(range(len(keep)), values[keep], color=colour, height=0.7)
    axis.set_yticks(range(len(keep)), figure_texts((names[k] for k in keep), 16))
    axis.tick_params(axis="y", labelsize=8 if len(keep) > 8 else 8.5)
    axis.grid(axis="y", visible=False)
    axis.grid(axis="x", visible=True)
    axis.axvline(0, color=style.MUTED, lw=0.7, zorder=1)
    axis.invert_yaxis()


def _over_time(axis: Axes, e: FeatureExplanation) -> None:
    axis.set_ylabel("share of variance (%)")
    if e.times is not None and e.time_share is not None:
        axis.plot(e.times, 100 * e.time_share, "o-", color=style.GREEN, ms=3)
        axis.set_title("time")
        axis.set_xlabel(f"time in the window ({e.time_unit})")
        axis.set_ylim(bottom=min(0.0, 100 * float(e.time_share.min())))
        return
    if not len(e.panel):
        axis.remove()
        return
    at = 100 * e.panel if e.by_quantile else e.panel
    axis.plot(at, 100 * e.panel_share, "o-", color=style.GREEN, ms=3)
    axis.set_title("spectrogram alone")
    unit = "quantile over time (%)" if e.by_quantile else f"time in the window ({e.time_unit})"
    axis.set_xlabel(unit)


def _kernels(axis: Axes, e: FeatureExplanation) -> None:
    if not e.kernels:
        axis.remove()
        return
    scale, unit = kernel_unit(max(float(k.times[-1]) for k in e.kernels), e.time_unit)
    axis.set_title("kernels that matter most")
    axis.set_xlabel(f"time from the middle ({unit})")
    axis.set_yticks([])
    axis.grid(False)
    for row, kernel in enumerate(e.kernels):
        level = -6.0 * row
        colour = style.VERMILION if kernel.raises else style.BLUE
        axis.axhline(level, color=style.GRID, lw=0.7, zorder=1)
        axis.plot(scale * kernel.times, kernel.weights + level, "o-", color=colour, ms=2.5, lw=1.2)
        channels = ", ".join(figure_text(c, 12) for c in kernel.channels[:3])
        if len(kernel.channels) > 3:
            channels += f" + {len(kernel.channels) - 3}"
        text = f"{channels}: {'raises' if kernel.raises else 'lowers'}, {100 * kernel.share:.2g} %"
        axis.annotate(
            text, (0.0, level + 2.6), xycoords=("axes fraction", "data"), fontsize=8,
            color=style.MUTED,
        )  # fmt: skip
    axis.set_ylim(-6.0 * (len(e.kernels) - 1) - 1.6, 4.4)


def _window(
    axis: Axes, e: FeatureExplanation, w: WindowContributions, lanes: list[int], size: float
) -> None:
    """Draw a window: the signal of each channel, and its contributions under it."""
    assert e.times is not None
    length = float(e.times[-1] + e.times[0])
    n_times, parts = w.signal.shape[1], w.contributions.shape[1]
    at = np.arange(n_times) / n_times * length
    middles = (np.arange(parts) + 0.5) / parts * length
    for row, c in enumerate(lanes):
        base = -2.6 * row
        values = np.asarray(w.signal[c], dtype=np.float64)
        low, high = float(values.min()), float(values.max())
        axis.plot(at, base + (values - low) / ((high - low) or 1.0), color=style.INK, lw=0.9)
        own = 0.55 * w.contributions[c] / size
        zero = base - 0.6
        axis.axhline(zero, color=style.GRID, lw=0.7, zorder=1)
        for part, colour in (
            (np.maximum(own, 0), style.VERMILION),
            (np.minimum(own, 0), style.BLUE),
        ):
            axis.fill_between(middles, zero, zero + part, color=colour, lw=0)
        axis.annotate(
            f"{figure_text(e.channels[c], 14)}: {signal_range(low, high, e.units, c)}; adds "
            f"{number(float(w.contributions[c].sum()))}".replace("$", r"\$"),
            (0.0, base + 1.08), xycoords=("axes fraction", "data"), fontsize=8, color=style.MUTED,
        )  # fmt: skip
    more = len(e.channels) - len(lanes)
    rest = w.value - float(w.contributions[lanes].sum())
    others = f"; {more} more channels add {number(rest)}" if more else ""
    axis.set_xlabel(f"time ({e.time_unit}){others}")
    axis.set_title(f"{w.role}: window {w.index}, value {number(w.value)}")
    axis.set_yticks([])
    axis.grid(False)
    axis.set_xlim(0, length)
