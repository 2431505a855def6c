"""The paper's evidence as figures: what runs of ``bench figures`` kept, drawn.

A mapping called ``stages`` or ``seeds`` is what ``Run.evidence`` returns: plain arrays by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from tensorcontrast.errors import InvalidInputError
from tensorcontrast.report import style
from tensorcontrast.report.panels import adjacency, legend, scatter
from tensorcontrast.report.scores import budget_name
from tensorcontrast.report.tables import ScoreTable
from tensorcontrast.report.text import figure_text
from tensorcontrast.utils.names import listed

__all__ = [
    "plot_ablation",
    "plot_adjacency",
    "plot_iterations",
    "plot_seeds",
    "plot_true_graph",
    "plot_tsne_stages",
]

Array = NDArray[Any]
Evidence = Mapping[str, Array]


@style.styled
def plot_iterations(stages: Mapping[str, Evidence], *, narrow: bool = False) -> Figure:
    """Draw reconstruction error and probe accuracy over iterations, one line per method.

    Parameters
    ----------
    stages : mapping of method to evidence
        With ``curve_iteration``, ``curve_error``, ``iteration`` and ``accuracy``.
    narrow : bool, default=False
        Draw panels below each other, for the screen of a phone.

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
        raise InvalidInputError("there are no stages to draw; run `bench figures` first")
    figure, (left, right) = style.panels(2, (3.8, 3.2), narrow=narrow)
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
    figure.legend(loc="outside lower center", ncols=min(2 if narrow else 4, len(stages)))
    return figure


def _contrast_begins(own: Evidence) -> float | None:
    phase = [str(p) for p in own.get("phase", np.array([]))]
    at = [i for i, name in enumerate(phase) if name == "contrast"]
    if not at or at[0] == 0:
        return None
    return float(own["iteration"][at[0] - 1])


@style.styled
def plot_true_graph(
    table: ScoreTable, methods: Sequence[str] | None = None, *, narrow: bool = False
) -> Figure:
    """Draw what the pseudo graph loses against a graph of true labels, at each label budget.

    Parameters
    ----------
    table : ScoreTable
        With the methods.
    methods : sequence of str, optional
        Which rows; default: "CPD", "PLC" and "PLC (true graph)".
    narrow : bool, default=False
        Draw for the screen of a phone.

    Examples
    --------
    >>> from tensorcontrast.report import score_tables
    >>> cells = [
    ...     {"dataset": "d", "method": m, "seed": s, "budget": 30, "accuracy": a + s / 100}
    ...     for m, a in (("PLC", 0.6), ("PLC (true graph)", 0.7)) for s in range(2)
    ... ]
    >>> figure = plot_true_graph(score_tables(cells)[0])
    >>> [text.get_text() for text in figure.legends[0].get_texts()]
    ['PLC', 'PLC (true graph)']
    """
    wanted = ("CPD", "PLC", "PLC (true graph)") if methods is None else methods
    rows = [row for row in table.rows if row.method in wanted]
    if not rows:
        raise InvalidInputError(f"no row of {table.dataset} is among {list(wanted)}")
    width = style.NARROW if narrow else max(4.8, 0.95 * len(table.budgets) + 1)
    figure = style.new_figure(width, 3.4 if narrow else 3.0)
    axis = figure.subplots()
    width = 0.8 / len(rows)
    for k, row in enumerate(rows):
        at = [i for i, b in enumerate(table.budgets) if b in row.scores]
        scores = [row.scores[table.budgets[i]] for i in at]
        x = np.array(at) + (k - (len(rows) - 1) / 2) * width
        axis.bar(x, [s.mean for s in scores], 0.86 * width, color=style.colour(k),
                 label=figure_text(row.method))  # fmt: skip
        axis.errorbar(x, [s.mean for s in scores], np.nan_to_num([s.sd for s in scores]),
                      fmt="none", ecolor=style.INK, elinewidth=0.9)  # fmt: skip
    axis.set_xticks(range(len(table.budgets)), [str(b) for b in table.budgets])
    axis.tick_params(axis="x", length=0)
    axis.set_xlabel("labels for training (windows, or share)")
    axis.set_ylabel(table.metric.replace("_", " "))
    axis.set_title(figure_text(table.dataset))
    figure.legend(loc="outside lower center", ncols=min(2 if narrow else 3, len(rows)))
    return figure


@style.styled
def plot_ablation(
    table: ScoreTable,
    methods: Sequence[str] | None = None,
    budget: str | None = None,
    *,
    narrow: bool = False,
) -> Figure:
    """Draw what each part of the contrast is worth: mean ± sd, and every repeat as a dot.

    Parameters
    ----------
    table : ScoreTable
        With the variants.
    methods : sequence of str, optional
        Which rows; default: "PLC" and those named "w/o …". The first is drawn in colour.
    budget : str, optional
        Which label budget; default: the fewest, the middle and all, one panel each.
    narrow : bool, default=False
        Draw panels below each other, for the screen of a phone.

    Examples
    --------
    >>> from tensorcontrast.report import score_tables
    >>> cells = [
    ...     {"dataset": "d", "method": m, "seed": s, "budget": 30, "accuracy": a + s / 100}
    ...     for m, a in (("w/o PLC", 0.6), ("PLC", 0.7)) for s in range(2)
    ... ]
    >>> figure = plot_ablation(score_tables(cells)[0])
    >>> [label.get_text() for label in figure.axes[0].get_yticklabels()]
    ['PLC', 'w/o PLC']
    """
    wanted = list(methods or ["PLC", *(r.method for r in table.rows if r.method[:3] == "w/o")])
    rows = sorted(
        (row for row in table.rows if row.method in wanted), key=lambda r: wanted.index(r.method)
    )
    if not rows:
        raise InvalidInputError(f"no row of {table.dataset} is among {list(wanted)}")
    count = len(table.budgets)
    some = [table.budgets[k] for k in sorted({0, count // 2, count - 1})]
    budgets = some if budget is None else [budget]
    size = (2.3, 0.42 * len(rows) + 1.2)
    figure, axes = style.panels(len(budgets), size, (1.5, 0.0), narrow=narrow, sharey=True)
    for axis, name in zip(axes, budgets, strict=True):
        for k, row in enumerate(rows):
            if name not in row.scores:
                continue
            score = row.scores[name]
            hue = style.BLUE if k == 0 else style.GREY
            axis.plot(score.values, np.full(len(score.values), k + 0.22), "o", color=hue,
                      ms=3.5, alpha=0.6, mew=0)  # fmt: skip
            axis.errorbar(score.mean, k, xerr=np.nan_to_num(score.sd), fmt="D", color=hue, ms=6,
                          elinewidth=1.4)  # fmt: skip
        axis.set_title(budget_name(name))
        axis.set_xlabel(table.metric.replace("_", " "))
        axis.grid(axis="y", visible=False)
        axis.grid(axis="x", visible=True)
        axis.locator_params(axis="x", nbins=4)
    axes[0].set_yticks(range(len(rows)), [figure_text(row.method) for row in rows])
    axes[0].set_ylim(len(rows) - 0.5, -0.5)
    return figure


@style.styled
def plot_tsne_stages(
    stages: Evidence, classes: Sequence[str] | None = None, *, narrow: bool = False
) -> Figure:
    """Draw t-SNE of the features at the start and at convergence.

    Parameters
    ----------
    stages : mapping
        With ``tsne_start``, ``tsne_end`` and ``tsne_y``.
    classes : sequence of str, optional
        Names; default: ``stages["classes"]``.
    narrow : bool, default=False
        Draw panels below each other, for the screen of a phone.

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
    count = len(np.unique(stages["tsne_y"]))
    below = (0.0, 0.12 * count) if narrow else (0.0, 0.0)
    figure, axes = style.panels(2, (4.2, 3.5), below, narrow=narrow)
    for axis, key, title in zip(
        axes, ("tsne_start", "tsne_end"), ("At the start", "At convergence"), strict=True
    ):
        scatter(axis, stages[key], stages["tsne_y"], names)
        axis.set_title(title)
        axis.set_xlabel("t-SNE 1")
        axis.set_ylabel("t-SNE 2")
    legend(figure, axes[0], below=narrow)
    return figure


@style.styled
def plot_adjacency(
    stages: Evidence,
    classes: Sequence[str] | None = None,
    n_stages: int = 3,
    *,
    narrow: bool = False,
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
    narrow : bool, default=False
        Draw panels below each other, for the screen of a phone.

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
    figure, axes = style.panels(
        len(at) + 1, (2.35, 2.9), (0.7, 0.0), narrow=narrow, layout="compressed"
    )
    for axis, s in zip(axes, at, strict=False):
        adjacency(axis, stages["pseudo"][s][order], y[order], names)
        axis.set_title(f"iteration {int(stages['iteration'][s])}")
        if "ari" in stages:
            axis.set_xlabel(f"ARI with the classes {float(stages['ari'][s]):.2f}")
    adjacency(axes[-1], y[order], y[order], names)
    axes[-1].set_title("true graph")
    axes[-1].set_xlabel("windows, ordered by class")
    for axis in axes[1:]:
        if not narrow:
            axis.set_yticks([])
    return figure


@style.styled
def plot_seeds(
    seeds: Evidence, classes: Sequence[str] | None = None, *, narrow: bool = False
) -> Figure:
    """Draw the pseudo graphs of several seeds and how far each two agree (ARI).

    Parameters
    ----------
    seeds : mapping
        With ``seeds`` (s,), ``pseudo`` (s, m), ``y`` (m,) and ``ari`` (s, s).
    classes : sequence of str, optional
        Names; default: ``seeds["classes"]``.
    narrow : bool, default=False
        Draw panels below each other, for the screen of a phone.

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
    figure, axes = style.panels(
        count + 1, (2.15, 2.8), (0.8, 0.0), narrow=narrow, layout="compressed"
    )
    for k, axis in enumerate(axes[:-1]):
        adjacency(axis, seeds["pseudo"][k][order], y[order], names)
        axis.set_title(f"seed {int(seeds['seeds'][k])}")
        if "ari_true" in seeds:
            axis.set_xlabel(f"ARI with the classes {float(seeds['ari_true'][k]):.2f}")
        if k and not narrow:
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
