"""Draw the ratios of the last benchmarks: ``python -m benchmarks.plot``.

Reads ``benchmarks/results/*.json`` and writes docs/images/benchmarks.svg and .png: every ratio that
has a goal, on a logarithmic axis, with its goal beside it.
"""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

from benchmarks.common import RESULTS

SUITES = {
    "decompose": "one iteration",
    "signals": "signals to tensors",
    "tensorly": "whole fits",
    "peers": "whole fits and peers",
    "scale": "growth and clustering",
    "distributed-time": "Dask",
}
IMAGES = Path(__file__).parent.parent / "docs" / "images"
BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#595959"


def ratios() -> list[tuple[str, dict[str, object]]]:
    """Rows with a goal and without a unit of their own, suite by suite."""
    found = []
    for suite, title in SUITES.items():
        path = RESULTS / f"{suite}.json"
        if path.is_file():
            rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
            goals = [r for r in rows if r["unit"] == "×" and (r["at_most"] or r["at_least"])]
            found += [(title, row) for row in goals]
    return found


def draw() -> list[Path]:
    """Write the picture in both formats."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows = ratios()
    figure = Figure(figsize=(10, 0.62 * len(rows) + 1.4), layout="constrained")
    FigureCanvasAgg(figure)
    axis = figure.add_subplot()
    names = []
    for at, (title, row) in enumerate(rows):
        value, low, high = (row[key] for key in ("value", "at_least", "at_most"))
        names.append(textwrap.fill(f"{title}: {row['name']}", 62))
        axis.plot([1, value], [at, at], color=GREY, lw=1, zorder=1)
        color = BLUE if row["passed"] else ORANGE
        axis.plot(value, at, "o" if row["passed"] else "X", color=color, ms=8, zorder=3)
        axis.annotate(f"{value:.3g} ×", (value, at), (7, 5), textcoords="offset points")
        for goal, mark in ((low, ">"), (high, "<")):
            if goal is not None:
                axis.plot(goal, at, mark, color=GREY, ms=7, mfc="none", zorder=2)
    axis.set_yticks(range(len(rows)), names, fontsize=8)
    axis.invert_yaxis()
    axis.set_xscale("log")
    axis.axvline(1, color=GREY, lw=0.8)
    axis.set_xlabel("ratio, measured side by side in one run (logarithmic)")
    axis.plot([], [], "o", color=BLUE, label="measured, goal met")
    axis.plot([], [], "X", color=ORANGE, label="measured, goal missed")
    axis.plot([], [], ">", color=GREY, mfc="none", label="goal: at least")
    axis.plot([], [], "<", color=GREY, mfc="none", label="goal: at most")
    figure.legend(loc="outside upper center", ncols=4, fontsize=9, frameon=False)
    axis.grid(axis="x", alpha=0.3)
    axis.spines[["top", "right"]].set_visible(False)
    IMAGES.mkdir(exist_ok=True)
    paths = [IMAGES / f"benchmarks.{kind}" for kind in ("svg", "png")]
    for path in paths:
        figure.savefig(path, dpi=110, metadata={"Date": None} if path.suffix == ".svg" else None)
    return paths


if __name__ == "__main__":
    for written in draw():
        print(written)
