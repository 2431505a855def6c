"""The paper's evidence as figures.

A mapping called ``stages`` or ``seeds`` is what :func:`tensorcontrast.evaluate.evidence.collect`
returns: plain arrays by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from tensorcontrast.errors import InvalidInputError
from tensorcontrast.report import style
from tensorcontrast.report.figures import adjacency, legend, scatter
from tensorcontrast.report.text import figure_text
from tensorcontrast.utils.names import listed

__all__ = [
    "plot_adjacency",
    "plot_iterations",
    "plot_seeds",
    "plot_tsne_stages",
]

Array = NDArray[Any]
Evidence = Mapping[str, Array]


@style.styled
def plot_iterations(stages: Mapping[str, Evidence]) -> Figure:
    """Draw reconstruction error and probe accuracy over iterations, one line per method.

    Parameters
    ----------
    stages : mapping of method to evidence
        With ``curve_iteration``, ``curve_error``, ``iteration`` and ``accuracy``.

    Examples
    --------
    >>> stages = {
    ...     "curve_iteration": np.arange(1, 4), "curve_error": np.array([0.9, 0.6, 0.5]),
    ...     "iteration": np.array([1, 3]), "accuracy": np.array([0.5, 0.7]),
    ... }
    >>> figure = plot_iterations({"PLC": stages})
    >>> [axis.get_ylabel() for axis in figure.axes]
    ['relative error', 'accuracy']
    """
    if not stages:
        raise InvalidInputError("there are no stages to draw")
    figure, (left, right) = style.panels(2, (3.8, 3.2))
    drawn = False
    for k, (method, own) in enumerate(stages.items()):
        need(own, "curve_iteration", "curve_error", "iteration", "accuracy")
        line: dict[str, Any] = {"color": style.colour(k), "ls": style.LINES[k % 4]}
        left.plot(own["curve_iteration"], own["curve_error"], label=figure_text(method), **line)
        right.plot(own["iteration"], own["accuracy"], marker=style.marker(k), ms=4, **line)
        begins = _contrast_begins(own)
        if begins is not None:
            drawn = True
            for axis in (left, right):
                axis.axvline(begins, color=style.colour(k), lw=0.9, ls=(0, (1, 2)), zorder=1)
    left.set_title("Reconstruction")
    left.set_ylabel("relative error")
    right.set_title("Linear probe, all labels")
    right.set_ylabel("accuracy")
    for axis in (left, right):
        axis.set_xlabel("iteration (vertical: the contrast begins)" if drawn else "iteration")
    figure.legend(loc="outside lower center", ncols=min(4, len(stages)))
    return figure


def _contrast_begins(own: Evidence) -> float | None:
    phase = [str(p) for p in own.get("phase", np.array([]))]
    at = [i for i, name in enumerate(phase) if name == "contrast"]
    if not at or at[0] == 0:
        return None
    return float(own["iteration"][at[0] - 1])


@style.styled
def plot_tsne_stages(stages: Evidence, classes: Sequence[str] | None = None) -> Figure:
    """Draw t-SNE of the features at the start and at convergence.

    Parameters
    ----------
    stages : mapping
        With ``tsne_start``, ``tsne_end`` and ``tsne_y``.
    classes : sequence of str, optional
        Names; default: ``stages["classes"]``.

    Examples
    --------
    >>> y = np.repeat([0, 1], 10)
    >>> start, end = np.random.default_rng(0).normal(size=(2, 20, 2))
    >>> stages = {"tsne_start": start, "tsne_end": end + 5 * y[:, None], "tsne_y": y}
    >>> figure = plot_tsne_stages(stages, ["rest", "walk"])
    >>> [axis.get_title(loc="left") for axis in figure.axes]
    ['At the start', 'At convergence']
    """
    need(stages, "tsne_start", "tsne_end", "tsne_y")
    names = _classes(stages, classes)
    figure, axes = style.panels(2, (4.2, 3.5))
    for axis, key, title in zip(
        axes, ("tsne_start", "tsne_end"), ("At the start", "At convergence"), strict=True
    ):
        scatter(axis, stages[key], stages["tsne_y"], names)
        axis.set_title(title)
        axis.set_xlabel("t-SNE 1")
        axis.set_ylabel("t-SNE 2")
    legend(figure, axes[0])
    return figure


@style.styled
def plot_adjacency(
    stages: Evidence,
    classes: Sequence[str] | None = None,
    n_stages: int = 3,
) -> Figure:
    """Draw the pseudo graph at stages of the fit, and the true graph, ordered by class.

    Parameters
    ----------
    stages : mapping
        With ``iteration``, ``pseudo`` (s, m), ``y`` (m,) and ``ari`` (s,).
    classes : sequence of str, optional
        Names; default: ``stages["classes"]``.
    n_stages : int
        How many, the first and the last among them.

    Examples
    --------
    >>> y = np.repeat([0, 1], 10)
    >>> stages = {"iteration": np.array([1, 9]), "pseudo": np.stack([np.arange(20) % 2, y]), "y": y}
    >>> figure = plot_adjacency(stages, ["rest", "walk"])
    >>> [axis.get_title(loc="left") for axis in figure.axes]
    ['iteration 1', 'iteration 9', 'true graph']
    """
    need(stages, "iteration", "pseudo", "y")
    names = _classes(stages, classes)
    y = stages["y"]
    order = np.argsort(y, kind="stable")
    count = len(stages["pseudo"])
    at = np.unique(np.linspace(0, count - 1, min(n_stages, count)).round().astype(int))
    figure, axes = style.panels(len(at) + 1, (2.35, 2.9), (0.7, 0.0), layout="compressed")
    for axis, s in zip(axes, at, strict=False):
        adjacency(axis, stages["pseudo"][s][order], y[order], names)
        axis.set_title(f"iteration {int(stages['iteration'][s])}")
        if "ari" in stages:
            axis.set_xlabel(f"ARI with the classes {float(stages['ari'][s]):.2f}")
    adjacency(axes[-1], y[order], y[order], names)
    axes[-1].set_title("true graph")
    axes[-1].set_xlabel("windows, ordered by class")
    for axis in axes[1:]:
        axis.set_yticks([])
    return figure


@style.styled
def plot_seeds(seeds: Evidence, classes: Sequence[str] | None = None) -> Figure:
    """Draw the pseudo graphs of several seeds and how far each two agree (ARI).

    Parameters
    ----------
    seeds : mapping
        With ``seeds`` (s,), ``pseudo`` (s, m), ``y`` (m,) and ``ari`` (s, s).
    classes : sequence of str, optional
        Names; default: ``seeds["classes"]``.

    Examples
    --------
    >>> y = np.repeat([0, 1], 10)
    >>> pseudo, ari = np.stack([y, 1 - y]), np.ones((2, 2))
    >>> seeds = {"seeds": np.arange(2), "pseudo": pseudo, "y": y, "ari": ari}
    >>> figure = plot_seeds(seeds, ["rest", "walk"])
    >>> [axis.get_title(loc="left") for axis in figure.axes]
    ['seed 0', 'seed 1', 'agreement']
    """
    need(seeds, "seeds", "pseudo", "y", "ari")
    names = _classes(seeds, classes)
    y, ari = seeds["y"], np.asarray(seeds["ari"], dtype=np.float64)
    order = np.argsort(y, kind="stable")
    count = len(seeds["pseudo"])
    figure, axes = style.panels(count + 1, (2.15, 2.8), (0.8, 0.0), layout="compressed")
    for k, axis in enumerate(axes[:-1]):
        adjacency(axis, seeds["pseudo"][k][order], y[order], names)
        axis.set_title(f"seed {int(seeds['seeds'][k])}")
        if "ari_true" in seeds:
            axis.set_xlabel(f"ARI with the classes {float(seeds['ari_true'][k]):.2f}")
        if k:
            axis.set_yticks([])
    matrix = axes[-1]
    shade = np.clip(ari, 0, 1)
    rgba = np.zeros((*ari.shape, 4))
    rgba[..., :3] = [int(style.BLUE[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    rgba[..., 3] = 0.5 * shade  # light enough for text of the page's ink in both themes
    matrix.imshow(rgba, interpolation="nearest", aspect="equal")
    for i in range(count):
        for j in range(count):
            matrix.text(j, i, f"{ari[i, j]:.2f}", ha="center", va="center", fontsize=8.5)
    ticks = [f"{int(s)}" for s in seeds["seeds"]]
    matrix.set_xticks(range(count), ticks)
    matrix.set_yticks(range(count), ticks)
    matrix.grid(False)
    off = ari[~np.eye(count, dtype=bool)]
    matrix.set_xlabel("seed" + (f" (mean ARI {off.mean():.2f})" if count > 1 else ""))
    matrix.set_title("agreement")
    return figure


def need(evidence: Evidence, *keys: str) -> None:
    """Check that an artefact holds what a figure is drawn of."""
    missing = [key for key in keys if key not in evidence]
    if missing:
        raise InvalidInputError(
            f"the evidence has no {listed(missing)}; it holds {listed(evidence)}"
        )


def _classes(evidence: Evidence, classes: Sequence[str] | None) -> list[str] | None:
    found = classes if classes is not None else evidence.get("classes")
    return None if found is None else [str(name) for name in found]
