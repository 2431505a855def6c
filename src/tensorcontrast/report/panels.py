"""What several figures share: points in the plane, adjacencies, legends, histories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from tensorcontrast.errors import InvalidInputError
from tensorcontrast.report import style
from tensorcontrast.report.text import figure_text, figure_texts
from tensorcontrast.utils import threads

Array = NDArray[Any]


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
