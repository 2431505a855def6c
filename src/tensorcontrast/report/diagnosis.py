"""How far the features of a model can be trusted: a section of a report, and the rank curve."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from tensorcontrast.decompose.diagnosis import STABLE, Diagnosis
from tensorcontrast.evaluate.rank import RankCurve
from tensorcontrast.report import style
from tensorcontrast.report.tables import TextTable
from tensorcontrast.report.text import html_text

__all__ = ["plot_rank_curve"]

TITLE = "Can the features be trusted?"

#: Windows that stand out and are named.
SHOWN_WINDOWS = 10

#: Features whose verdict is shown at once; the others are one click away.
SHOWN_FEATURES = 12


def sentences(found: Diagnosis) -> list[str]:
    """Say how far the features can be trusted, in words."""
    out = [
        f"{found.n_stable} of {found.rank} features are stable: they correlate by {STABLE:g} or "
        f"more with their counterparts in other fits. Tested with {found.tested}."
    ]
    places = ("under another seed", f"between halves of the {found.split_by}")
    medians = [
        f"{value:.2f} {place}"
        for value, place in zip(found.median_correlations, places, strict=True)
        if value is not None
    ]
    if medians:
        out.append(f"The median correlation is {' and '.join(medians)}.")
    spaces = [
        f"{value:.2f} {place}"
        for value, place in zip((found.seed_space, found.split_space), places, strict=True)
        if value is not None
    ]
    if spaces and found.n_stable < found.rank:
        out.append(
            "A classifier depends on the space that all features span together. Its mean squared "
            f"canonical correlation is {' and '.join(spaces)}. Near 1, all features together hold "
            "the same information, however they divide it."
        )
    cores = [c for c in found.core_consistency if c is not None]
    if cores:
        shown = ", ".join(f"{c:.0f} %" if c >= 0 else "not meaningful (below 0)" for c in cores)
        out.append(f"The core consistency is {shown}.")
    if found.outliers:
        first = ", ".join(f"{w.window} ({w.reason})" for w in found.outliers[:SHOWN_WINDOWS])
        more = len(found.outliers) - SHOWN_WINDOWS
        rest = f" and {more} more" if more > 0 else ""
        out.append(
            f"{len(found.outliers)} windows stand out by their pull on the model (leverage) or by "
            f"what it does not explain (residual): {first}{rest}."
        )
    return [*out, *(f"{note[0].upper()}{note[1:]}." for note in found.notes)]


def feature_table(found: Diagnosis) -> TextTable:
    """Verdict of each feature, and what it stands on."""
    return TextTable(
        "Verdict of each feature",
        ["feature", "verdict", "another seed", "halves", "share", "lost without it", "cancels"],
        [
            [
                str(f.feature),
                f.verdict,
                _correlation(f.seed_correlation),
                _correlation(f.split_correlation),
                f"{f.share:.1%}",
                f"{f.unique_share:.1%}",
                "–" if f.opposed_to is None else f"{f.congruence:.2f} with {f.opposed_to}",
            ]
            for f in found.features
        ],
        [
            "another seed, halves: correlation of the feature with its counterpart in fits with "
            f"other seeds, and between fits of two halves of the {found.split_by} (no window was "
            "fitted by both).",
            "share: sum of squares of the component over that of all windows (components overlap); "
            "lost without it: variance that the others cannot explain; cancels: most negative "
            "congruence, near −1 where two components cancel each other.",
        ],
    )


def section_html(found: Diagnosis) -> str:
    """Return the section of a page."""
    lines = "".join(f"<li>{html_text(line)}</li>" for line in sentences(found))
    table = feature_table(found)
    parts = [f'<ul class="findings">{lines}</ul>', _table(table, table.rows[:SHOWN_FEATURES])]
    rest = table.rows[SHOWN_FEATURES:]
    if rest:
        parts.append(
            f"<details><summary>{len(rest)} more features</summary>"
            f"{_table(table, rest, titled=False)}</details>"
        )
    notes = "".join(f"<li>{html_text(note)}</li>" for note in table.notes)
    parts.append(f'<ul class="notes">{notes}</ul>')
    return "".join(parts)


def _table(table: TextTable, rows: Any, *, titled: bool = True) -> str:
    name = html_text(table.title)
    made = TextTable(table.title, table.head, rows).html(stacked=True)
    title = f"<h3>{name}</h3>" if titled else ""
    return f'{title}<div class="wide" tabindex="0" role="region" aria-label="{name}">{made}</div>'


def _correlation(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


@style.styled
def plot_rank_curve(curve: RankCurve) -> Figure:
    """Draw what was measured at each rank; the recommended one is marked.

    Parameters
    ----------
    curve : RankCurve
        Of :func:`tensorcontrast.evaluate.rank_curve`.

    Examples
    --------
    >>> from tensorcontrast.evaluate import RankCurve
    >>> from tensorcontrast.evaluate.rank import RankPoint
    >>> points = (RankPoint(2, 2e6, 0.5, 99.0, 0.9), RankPoint(4, 1e6, 0.7, 80.0, 0.95))
    >>> curve = RankCurve(points, 4, "the smallest BIC", None, 60, "subjects")
    >>> [axis.get_title(loc="left") for axis in plot_rank_curve(curve).axes]
    ['Information criterion', 'Halves of the subjects', 'Core consistency']
    """
    panels: list[tuple[str, str, list[float | None]]] = [
        ("Information criterion", "BIC (millions)", [p.bic / 1e6 for p in curve.points]),
        (
            f"Halves of the {curve.split_by}",
            "factor match score",
            [p.split_similarity for p in curve.points],
        ),
        (
            "Core consistency",
            "percent (negative as 0)",
            [
                None if p.core_consistency is None else max(p.core_consistency, 0.0)
                for p in curve.points
            ],
        ),
        ("Accuracy", "accuracy of a probe", [p.accuracy for p in curve.points]),
    ]
    panels = [panel for panel in panels if any(v is not None for v in panel[2])]
    figure = style.new_figure(3.1 * len(panels) + 0.3, 2.9)
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    ranks = [p.rank for p in curve.points]
    at = np.arange(len(ranks))
    chosen = ranks.index(curve.recommended)
    for k, (axis, (title, label, values)) in enumerate(zip(axes, panels, strict=True)):
        there = [i for i in at if values[i] is not None]
        axis.axvline(chosen, color=style.MUTED, lw=0.8, ls=(0, (3, 2)), zorder=1)
        if title == "Accuracy":
            bars = [curve.points[i].accuracy_sem or 0.0 for i in there]
            axis.errorbar(
                there, [values[i] for i in there], bars, color=style.colour(k), marker="o", ms=4
            )
        else:
            axis.plot(there, [values[i] for i in there], color=style.colour(k), marker="o", ms=4)
        if label == "factor match score":
            axis.axhline(STABLE, color=style.MUTED, lw=0.8)
            axis.set_ylim(0, 1.03)
        if title == "Core consistency":
            axis.set_ylim(-3, 105)
        axis.set_title(title)
        axis.set_ylabel(label)
        axis.set_xlabel("rank")
        axis.set_xticks(at, [str(rank) for rank in ranks])
        axis.set_xlim(-0.4, len(ranks) - 0.6)
    axes[0].annotate(
        f"recommended: {curve.recommended} ",
        (chosen, 1.0),
        xycoords=("data", "axes fraction"),
        ha="left" if chosen < len(ranks) / 2 else "right",
        va="top",
        fontsize=8,
        color=style.MUTED,
        xytext=(4 if chosen < len(ranks) / 2 else -4, 0),
        textcoords="offset points",
    )
    return figure
