"""Figures: functions that take an estimator or arrays and return a matplotlib figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import ArrayLike, NDArray

from tensorcontrast.errors import InvalidInputError
from tensorcontrast.evaluate.benchmark import Cell
from tensorcontrast.features import ContrastiveFeatures
from tensorcontrast.report import style
from tensorcontrast.report.charts import time_scales
from tensorcontrast.report.components import class_means, describe_components, order_label
from tensorcontrast.report.text import figure_text, figure_texts
from tensorcontrast.utils import threads

__all__ = [
    "plot_class_profiles",
    "plot_components",
    "plot_convergence",
    "plot_embedding",
    "plot_graph",
    "plot_label_curve",
]

Array = NDArray[Any]

#: Most samples that t-SNE and an adjacency are drawn of.
EMBED_AT_MOST, GRAPH_AT_MOST = 2000, 600


@style.styled
def plot_components(
    model: ContrastiveFeatures,
    *,
    features: ArrayLike | None = None,
    y: ArrayLike | None = None,
    classes: Sequence[str] | None = None,
    n_components: int = 6,
    recordings: Any = None,
) -> Figure:
    """Draw what each feature is: its channels, its frequencies, its times.

    Shares of the variance of a feature over all blocks, see
    :func:`tensorcontrast.explain.explain_features`. The third column is over time in the window
    with ``recordings``, else over the lengths of kernels and frames.

    Parameters
    ----------
    model : ContrastiveFeatures
        Fitted, with CPD, ATD or PLC.
    features, y : array-like (n, rank) and (n,), optional
        Features and classes of some samples; a fourth column then shows the standardised mean of
        the feature in each class. Samples with label −1 are left out.
    classes : sequence of str, optional
        Names of the classes.
    n_components : int, default=6
        How many, chosen and ordered by :func:`describe_components`: the heaviest first; with
        ``y`` those with the largest share of variance between classes (η²).
    recordings : Recordings, optional
        Windows that shares are measured on.

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> from tensorcontrast import PLC, ContrastiveFeatures
    >>> from tensorcontrast.datasets import make_synthetic
    >>> rec = make_synthetic(n_samples=60, n_channels=2, n_times=64, random_state=0)
    >>> model = ContrastiveFeatures(decompose=PLC(rank=4), random_state=0)
    >>> figure = plot_components(model.fit(rec), n_components=2)
    >>> len(figure.axes)  # channels, frequencies and time scales of two features
    6
    """
    found = describe_components(
        model,
        features=features,
        y=y,
        classes=classes,
        n_components=n_components,
        recordings=recordings,
    )
    first = found[0]
    if first.explanation is None:
        raise InvalidInputError(
            f"features of {type(model.decompose_).__name__} cannot be explained by channels and "
            "frequencies; those of CPD, ATD and PLC can"
        )
    labelled = first.class_means is not None
    columns = 4 if labelled else 3
    row_height = max(1.35, 0.2 * len(first.classes) + 0.15)
    figure = style.new_figure(2.9 * columns, row_height * len(found) + 1.1)
    figure.suptitle(
        f"Features {order_label(found)}; shares of their variance (%)",
        x=0.01,
        ha="left",
        fontsize=9,
        color=style.MUTED,
    )
    axes = figure.subplots(len(found), columns, squeeze=False)
    names = figure_texts(first.explanation.channels, 14)
    crowded = len(names) > 12
    for row, component in enumerate(found):
        e = component.explanation
        assert e is not None
        last = row == len(found) - 1
        axis = axes[row, 0]
        axis.bar(range(len(names)), 100 * e.channel_share, color=style.BLUE, width=0.7)
        step = max(1, len(names) // 12) if crowded else 1
        at = range(0, len(names), step)
        axis.set_xticks(list(at), [names[k] for k in at] if last else [""] * len(at))
        axis.tick_params(
            axis="x",
            length=0,
            labelrotation=60 if max(map(len, names)) > 3 or len(names) > 9 else 0,
        )
        axis.set_ylabel(f"feature {component.index}")
        axes[row, 1].plot(e.frequencies, 100 * e.frequency_share, color=style.VERMILION)
        if e.times is not None and e.time_share is not None:
            axes[row, 2].plot(e.times, 100 * e.time_share, "o-", color=style.GREEN, ms=3)
        else:
            scales, shares = time_scales(e)
            axes[row, 2].bar(range(len(scales)), shares, color=style.GREEN, width=0.7)
            axes[row, 2].set_xticks(range(len(scales)), scales if last else [""] * len(scales))
            axes[row, 2].tick_params(axis="x", length=0, labelrotation=60)
        for axis in axes[row, :3]:
            axis.axhline(0, color=style.MUTED, lw=0.7, zorder=1)
            axis.locator_params(axis="y", nbins=4)
        if component.class_means is not None:
            axis = axes[row, 3]
            at = range(len(component.class_means))
            axis.barh(at, component.class_means, color=style.GREY, height=0.7)
            axis.set_yticks(at, figure_texts(component.classes, 16))
            axis.grid(axis="y", visible=False)
            axis.grid(axis="x", visible=True)
            axis.axvline(0, color=style.MUTED, lw=0.7, zorder=1)
            axis.invert_yaxis()
    in_time = first.explanation.times is not None
    third = "time" if in_time else "time scale"
    titles = ["channels", "frequencies", third, "mean by class"]
    for axis, title in zip(axes[0], titles, strict=False):
        axis.set_title(title)
    axes[-1, 0].set_xlabel("channel")
    axes[-1, 1].set_xlabel(f"frequency ({first.explanation.frequency_unit})")
    unit = first.explanation.time_unit
    axes[-1, 2].set_xlabel(
        f"time in the window ({unit})" if in_time else "length of kernel or frame"
    )
    if labelled:
        axes[-1, 3].set_xlabel("standard deviations")
    return figure


@style.styled
def plot_convergence(source: Any, *, narrow: bool = False) -> Figure:
    """Draw how a fit went: reconstruction error, contrast and pseudo labels over iterations.

    Parameters
    ----------
    source : fitted estimator or mapping
        Anything with ``history_``, or a history itself: lists of equal length by name, among them
        ``reconstruction_error`` or ``objective``.
    narrow : bool, default=False
        Draw panels below each other, for the screen of a phone.

    Examples
    --------
    >>> history = {"reconstruction_error": [0.9, 0.6, 0.5], "contrast": [np.nan, 0.4, 0.7]}
    >>> figure = plot_convergence(history)
    >>> [axis.get_title(loc="left") for axis in figure.axes]
    ['Reconstruction', 'Contrast']
    """
    history = history_of(source)
    panels = [
        (key, title, label)
        for key, title, label in (
            ("reconstruction_error", "Reconstruction", "relative error"),
            ("loss", "Loss", "loss"),
            ("contrast", "Contrast", "contrast a sample"),
            ("label_change", "Pseudo graph", "windows that move (%)"),
        )
        if np.isfinite(history.get(key, [np.nan])).any()
    ]
    if not panels:
        panels = [("objective", "Objective", "objective")]
    figure, axes = style.panels(len(panels), (2.9, 2.5), (0.3, 0.0), narrow=narrow)
    iteration = history.get("iteration", np.arange(1, len(history[panels[0][0]]) + 1))
    contrast = history.get("contrast", np.full(len(iteration), np.nan))
    begins = int(np.argmax(np.isfinite(contrast))) if np.isfinite(contrast).any() else 0
    for k, (axis, (key, title, label)) in enumerate(zip(axes, panels, strict=True)):
        values = history[key] * (100.0 if key == "label_change" else 1.0)
        there = np.isfinite(values)
        if key == "label_change" and there.sum() > 1:
            there[np.argmax(there)] = False  # the first graph has no graph before it
        axis.plot(iteration[there], values[there], color=style.colour(k))
        axis.set_title(title)
        axis.set_xlabel("iteration")
        axis.set_ylabel(label)
        axis.margins(x=0.02)
        if begins and there[:begins].any():
            axis.axvline(iteration[begins], color=style.MUTED, lw=0.8, ls=(0, (3, 2)))
            axis.annotate(
                "contrast begins ",
                (iteration[begins], 1.0),
                xycoords=("data", "axes fraction"),
                ha="right" if begins > len(iteration) / 2 else "left",
                va="top",
                fontsize=8,
                color=style.MUTED,
            )
    return figure


@style.styled
def plot_embedding(
    features: ArrayLike,
    y: ArrayLike | None = None,
    *,
    classes: Sequence[str] | None = None,
    method: str | None = "tsne",
    random_state: int = 0,
) -> Figure:
    """Draw features in the plane, a colour and a shape a class.

    Parameters
    ----------
    features : array-like (n, rank), or (n, 2) with ``method=None``
        Of at most 2000 samples t-SNE is computed; of more, 2000 are drawn at random.
    y : array-like (n,), optional
        Classes; −1 is drawn in grey.
    classes : sequence of str, optional
        Names.
    method : {"tsne", "pca", None}
        How features become points; None takes them as they are.
    random_state : int
        Seed of t-SNE and of the draw.

    Examples
    --------
    >>> y = np.repeat([0, 1], 10)
    >>> W = 5 * y[:, None] + np.random.default_rng(0).normal(size=(20, 4))
    >>> figure = plot_embedding(W, y, classes=["rest", "walk"], method="pca")
    >>> figure.axes[0].get_xlabel()
    'principal component 1'
    """
    values = np.asarray(features)
    if values.ndim != 2:
        raise InvalidInputError(f"features have shape {values.shape}; (n, rank) is needed")
    labels = None if y is None else np.asarray(y)
    if labels is not None and labels.shape != (len(values),):
        raise InvalidInputError(f"y has shape {labels.shape} for {len(values)} rows of features")
    at = subsample(len(values), EMBED_AT_MOST, random_state)
    xy = embed(values[at], method, random_state)
    figure = style.new_figure(5.6, 4.2)
    axis = figure.subplots()
    scatter(axis, xy, None if labels is None else labels[at], classes)
    name = {"tsne": "t-SNE", "pca": "principal component"}.get(method or "", "axis")
    axis.set_xlabel(f"{name} 1")
    axis.set_ylabel(f"{name} 2")
    if labels is not None:
        legend(figure, axis)
    return figure


@style.styled
def plot_graph(
    source: Any,
    y: ArrayLike | None = None,
    *,
    classes: Sequence[str] | None = None,
    random_state: int = 0,
    narrow: bool = False,
) -> Figure:
    """Draw the adjacency of the pseudo graph, next to the true one where classes are known.

    Parameters
    ----------
    source : fitted estimator or array-like (n,)
        Anything with ``labels_``, or pseudo classes.
    y : array-like (n,), optional
        Classes of the same samples; rows and columns are then ordered by them.
    classes : sequence of str, optional
        Names.
    random_state : int
        Seed of the draw of 600 samples where there are more.
    narrow : bool, default=False
        Draw panels below each other, for the screen of a phone.

    Examples
    --------
    >>> y = np.repeat([0, 1], 10)
    >>> pseudo = np.r_[y[:-1], 0]
    >>> figure = plot_graph(pseudo, y, classes=["rest", "walk"])
    >>> [axis.get_title(loc="left") for axis in figure.axes]
    ['pseudo graph', 'true graph']
    """
    labels = np.asarray(getattr(source, "labels_", source))
    if labels.ndim != 1:
        raise InvalidInputError(f"pseudo classes have shape {labels.shape}; (n,) is needed")
    truth = None if y is None else np.asarray(y)
    if truth is not None and truth.shape != labels.shape:
        raise InvalidInputError(
            f"y has shape {truth.shape} for {len(labels)} pseudo classes; one per window is needed"
        )
    at = subsample(len(labels), GRAPH_AT_MOST, random_state)
    if truth is not None:
        at = at[truth[at] >= 0]
    order = at[np.lexsort((labels[at], labels[at] if truth is None else truth[at]))]
    panels = [("pseudo graph", labels[order])]
    if truth is not None:
        panels.append(("true graph", truth[order]))
    figure, axes = style.panels(
        len(panels), (3.1, 3.6), (0.6, 0.0), narrow=narrow, layout="compressed"
    )
    for axis, (title, values) in zip(axes, panels, strict=True):
        adjacency(axis, values, None if truth is None else truth[order], classes)
        axis.set_title(title)
    if truth is not None and not narrow:
        axes[1].set_yticks([])
    return figure


@style.styled
def plot_class_profiles(
    features: ArrayLike,
    y: ArrayLike,
    *,
    classes: Sequence[str] | None = None,
    narrow: bool = False,
) -> Figure:
    """Draw the mean of each standardised feature in each class as a coloured cell.

    Parameters
    ----------
    features, y : array-like (n, rank) and (n,)
        Features and classes of windows; those with label −1 are left out.
    classes : sequence of str, optional
        Names of the classes.
    narrow : bool, default=False
        Put features in rows, for the screen of a phone.
    """
    means, present = class_means(np.asarray(features), np.asarray(y))
    names = figure_texts((classes[c] if classes is not None else f"class {c}" for c in present), 16)
    k, r = means.shape
    if narrow:
        figure = style.new_figure(style.NARROW, 1.4 + 0.22 * r)
    else:
        figure = style.new_figure(2.0 + 0.3 * r, 1.1 + 0.3 * k)
    axis: Any = figure.subplots()
    largest = float(np.abs(means).max()) or 1.0
    for (c, f), value in np.ndenumerate(means):
        place = (c - 0.5, f - 0.5) if narrow else (f - 0.5, c - 0.5)
        hue = style.VERMILION if value > 0 else style.BLUE
        axis.add_patch(Rectangle(place, 1, 1, color=hue, alpha=abs(value) / largest, lw=0))
        if not narrow or k <= 7:
            text = f"{round(value, 1) + 0.0:.1f}".replace("-", "−")
            x, y_ = (c, f) if narrow else (f, c)
            axis.text(x, y_, text, ha="center", va="center", fontsize=6.5)
    sizes = (k, r) if narrow else (r, k)
    axis.set_xlim(-0.5, sizes[0] - 0.5)
    axis.set_ylim(sizes[1] - 0.5, -0.5)
    numbers = [str(f) for f in range(r)]
    if narrow:
        axis.set_xticks(range(k), names, rotation=60)
        axis.set_yticks(range(r), numbers)
        axis.set_ylabel("feature")
    else:
        axis.set_xticks(range(r), numbers)
        axis.set_yticks(range(k), names)
        axis.set_xlabel("feature (cells: mean in standard deviations)")
    axis.grid(False)
    axis.tick_params(length=0)
    return figure


@style.styled
def plot_label_curve(cells: Sequence[Cell]) -> Figure:
    """Draw the accuracy over the number of labels, one line per method with ± sd over seeds.

    Parameters
    ----------
    cells : sequence of Cell
        Of one data set.

    Examples
    --------
    >>> from tensorcontrast.evaluate.benchmark import Cell
    >>> cells = [
    ...     Cell("d", method, 0, budget, accuracy=accuracy + budget / 100)
    ...     for method, accuracy in (("CPD", 0.5), ("PLC", 0.6))
    ...     for budget in (10, 30)
    ... ]
    >>> [text.get_text() for text in plot_label_curve(cells).legends[0].get_texts()]
    ['CPD', 'PLC']
    """
    budgets = list(dict.fromkeys(cell.budget for cell in cells))
    methods = list(dict.fromkeys(cell.method for cell in cells))
    figure = style.new_figure(6.1, 3.3)
    axis = figure.subplots()
    for k, method in enumerate(methods):
        at, means, spreads = [], [], []
        for i, budget in enumerate(budgets):
            own = [c for c in cells if (c.method, c.budget) == (method, budget)]
            values = [cell.accuracy for cell in own if cell.accuracy is not None]
            if values:
                at.append(i)
                means.append(float(np.mean(values)))
                spreads.append(float(np.std(values, ddof=1)) if len(values) > 1 else 0.0)
        # Side by side, so that whiskers of close methods stay apart.
        axis.errorbar(
            np.array(at) + 0.05 * (k - (len(methods) - 1) / 2),
            np.array(means),
            spreads,
            color=style.colour(k),
            marker=style.marker(k),
            ls=style.LINES[k // len(style.PALETTE) % len(style.LINES)],
            ms=4.5,
            elinewidth=0.9,
            label=figure_text(method),
        )
    axis.set_xticks(range(len(budgets)), [str(budget) for budget in budgets])
    axis.set_xlabel("labels for training (windows, or share)")
    axis.set_ylabel("accuracy")
    figure.legend(loc="outside right upper")
    return figure


# ------------------------------------------------------------ what figures share


def history_of(source: Any) -> dict[str, Array]:
    """Return the history of an estimator, or a history, as arrays of equal length."""
    source = getattr(source, "decompose_", source)
    history = getattr(source, "history_", source)
    if not isinstance(history, Mapping) or not history:
        raise InvalidInputError(
            f"{type(source).__name__} has no history_; pass a fitted estimator or its history"
        )
    arrays = {str(key): np.asarray(values, dtype=np.float64) for key, values in history.items()}
    if len({a.shape for a in arrays.values()}) != 1 or not (
        {"reconstruction_error", "objective", "loss"} & set(arrays)
    ):
        raise InvalidInputError(
            "a history holds lists of equal length, among them reconstruction_error or objective"
        )
    return arrays


def subsample(n: int, at_most: int, seed: int) -> NDArray[np.intp]:
    """Return sorted positions of at most so many of n samples, drawn at random."""
    if n <= at_most:
        return np.arange(n)
    return np.sort(np.random.default_rng(seed).choice(n, at_most, replace=False))


def embed(values: Array, method: str | None, seed: int = 0) -> Array:
    """Turn features (n, r) into points (n, 2); columns are standardised first."""
    if method is None:
        if values.shape[1] != 2:
            raise InvalidInputError(
                f"points need two columns, not {values.shape[1]}; pass method='tsne' or 'pca'"
            )
        return values
    from sklearn.decomposition import PCA
    from sklearn.manifold import TSNE
    from sklearn.preprocessing import StandardScaler

    Z = StandardScaler().fit_transform(np.asarray(values, dtype=np.float64))
    if method in ("pca", "tsne") and (len(Z) < 3 or not Z.any()):
        return np.zeros((len(Z), 2))  # nothing to spread out
    if method == "pca" or (method == "tsne" and (len(Z) < 8 or Z.shape[1] < 2)):
        Z = np.pad(Z, ((0, 0), (0, max(0, 2 - Z.shape[1]))))
        return np.asarray(PCA(2, random_state=seed).fit_transform(Z))
    if method == "tsne":
        perplexity = min(30.0, (len(Z) - 1) / 3)
        model = TSNE(
            2, perplexity=perplexity, init="pca", max_iter=500, random_state=seed, n_jobs=1
        )
        # Threads that wait for each other make it many times slower on a busy machine.
        with threads.single("openmp"):
            return np.asarray(model.fit_transform(Z))
    raise InvalidInputError(f"method={method!r} is not 'tsne', 'pca' or None")


def scatter(axis: Axes, xy: Array, y: Array | None, classes: Sequence[str] | None) -> None:
    """Draw points, a colour and a shape a class, the unlabelled in grey below."""
    size = float(np.clip(12000 / max(len(xy), 1), 5, 22))
    axis.grid(False)
    axis.set_xticks([])
    axis.set_yticks([])
    options: dict[str, Any] = {"s": size, "linewidths": 0.25, "edgecolors": style.PAPER}
    if y is None:
        axis.scatter(*xy.T, color=style.BLUE, **options)
        return
    if (y < 0).any():
        axis.scatter(*xy[y < 0].T, color=style.GREY, alpha=0.5, label="no label", **options)
    for c in np.unique(y[y >= 0]):
        name = str(classes[c]) if classes is not None and c < len(classes) else f"class {c}"
        axis.scatter(
            *xy[y == c].T,
            color=style.colour(int(c)),
            marker=style.marker(int(c)),
            label=figure_text(name),
            **options,
        )


def legend(figure: Figure, axis: Axes, *, below: bool = False) -> None:
    """Put the legend of an axis to the right of all panels, or below; markers can be seen."""
    handles, labels = axis.get_legend_handles_labels()
    where: Any = "outside lower center" if below else "outside right upper"
    found = figure.legend(handles, labels, loc=where, markerscale=1.6, ncols=2 if below else 1)
    for handle in found.legend_handles:
        if handle is not None:
            handle.set_alpha(1.0)


def adjacency(
    axis: Axes, labels: Array, truth: Array | None, classes: Sequence[str] | None
) -> None:
    """Draw which samples are joined; samples are ordered, ticks name the true classes."""
    joined = labels[:, None] == labels[None, :]
    rgba = np.zeros((*joined.shape, 4))
    rgba[joined] = (*(int(style.BLUE[k : k + 2], 16) / 255 for k in (1, 3, 5)), 1.0)
    axis.imshow(rgba, interpolation="nearest", aspect="equal")
    axis.grid(False)
    axis.spines[["top", "right"]].set_visible(True)
    axis.set_xlabel("window")
    if truth is None:
        axis.set_ylabel("window")
        axis.set_xticks([])
        axis.set_yticks([])
        return
    edges = np.flatnonzero(np.diff(truth)) + 1
    for edge in edges:
        axis.axhline(edge - 0.5, color=style.MUTED, lw=0.4)
        axis.axvline(edge - 0.5, color=style.MUTED, lw=0.4)
    starts = np.concatenate([[0], edges])
    centres = (starts + np.concatenate([edges, [len(truth)]])) / 2 - 0.5
    names = [
        str(classes[truth[s]]) if classes is not None and truth[s] < len(classes) else str(truth[s])
        for s in starts
    ]
    axis.set_yticks(centres, figure_texts(names, 14))
    axis.set_xticks([])
    axis.set_xlabel("windows, ordered by class")
