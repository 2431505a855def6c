"""A timeline of answers, drawn as sleep stages are: classes over time, one panel per recording."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure

from tensorcontrast.report.style import INK, MUTED, colour, new_figure, styled
from tensorcontrast.report.text import plain

if TYPE_CHECKING:
    from tensorcontrast.classify.timeline import Timeline

__all__ = ["MAX_PANELS", "plot_timeline"]

#: Recordings that are drawn, at most.
MAX_PANELS = 12
#: Longest class name on an axis.
MAX_NAME = 24


@styled
def plot_timeline(answers: Timeline, truth: Timeline | None = None) -> Figure:
    """Draw answers over time.

    A bar is a segment; it is paler where the probability is lower. A dark line shows the true
    class where ``truth`` gives it. Unknown answers are left blank.

    Parameters
    ----------
    answers : Timeline
        Of windows or merged segments, with times.
    truth : Timeline, optional
        True classes of the same recordings.

    Returns
    -------
    Figure
        With one panel per recording, and at most 12 of them.
    """
    answers.check_times("a timeline")
    segments = answers.merged()
    names = list(dict.fromkeys(segments.recording.tolist()))[:MAX_PANELS]
    classes = answers.classes
    height = 0.75 + len(names) * (0.35 + 0.2 * max(len(classes), 3))
    figure = new_figure(10, height)
    axes: Any = figure.subplots(len(names), 1, squeeze=False)[:, 0]
    longest = max(float(segments.end_s[segments.recording == n].max()) for n in names)
    unit, seconds = _unit(longest)
    for axis, name in zip(axes, names, strict=True):
        at = np.flatnonzero(segments.recording == name)
        for k, label in enumerate(classes):
            for i in at[segments.label[at] == label]:
                width = segments.end_s[i] - segments.start_s[i]
                axis.broken_barh(
                    [(segments.start_s[i] / seconds, width / seconds)],
                    (k - 0.4, 0.8),
                    color=colour(k),
                    alpha=0.25 + 0.75 * float(segments.probability[i]),
                    linewidth=0,
                )
        if truth is not None:
            _draw_truth(axis, truth, name, classes, seconds)
        axis.set_yticks(range(len(classes)), [plain(c, MAX_NAME) for c in classes])
        axis.set_ylim(len(classes) - 0.5, -0.5)
        axis.set_xlim(0, longest / seconds)
        axis.set_title(plain(name, 60), fontsize=9)
    axes[-1].set_xlabel(f"time ({unit})")
    return figure


def _draw_truth(axis: Any, truth: Timeline, name: str, classes: Any, seconds: float) -> None:
    segments = truth.merged()
    for i in np.flatnonzero((segments.recording == name) & (segments.label != "")):
        label = str(segments.label[i])
        if label in classes:
            k = classes.index(label)
            span = [segments.start_s[i] / seconds, segments.end_s[i] / seconds]
            axis.plot(span, [k + 0.45, k + 0.45], color=INK, linewidth=1.6, solid_capstyle="butt")
    if not axis.get_subplotspec().rowspan.start:
        axis.annotate(
            "bars: answers · lines: labels",
            (1, 1),
            xycoords="axes fraction",
            ha="right",
            va="bottom",
            fontsize=8,
            color=MUTED,
        )


def _unit(seconds: float) -> tuple[str, float]:
    """Return the unit of an axis of so many seconds, and how many seconds it has."""
    if seconds > 2 * 3600:
        return "h", 3600.0
    return ("min", 60.0) if seconds > 300 else ("s", 1.0)
