"""Profiles of classes: the mean of every feature in every class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import ArrayLike

from tensorcontrast.report import style
from tensorcontrast.report.components import class_means
from tensorcontrast.report.text import figure_texts

__all__ = ["plot_class_profiles"]


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
