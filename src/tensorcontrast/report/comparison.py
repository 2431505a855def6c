"""Methods over many data sets: tables of standings, differences and times; diagrams of ranks."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorcontrast.evaluate import comparison
from tensorcontrast.evaluate.archive import BASELINE, HALVES
from tensorcontrast.report.data import FigureItem
from tensorcontrast.report.scores import budget_name
from tensorcontrast.report.style import NARROW
from tensorcontrast.report.text import html_text, markdown_text, plain

if TYPE_CHECKING:
    from rich.table import Table

    from tensorcontrast.evaluate.run import Cell, Run

__all__ = ["TextTable", "baseline_of", "comparison_data", "comparison_tables", "rank_diagrams"]

#: Methods that a table of differences has columns for at most.
MAX_COLUMNS = 5

#: Data sets and methods at least of a critical-difference diagram.
MIN_SETS_FOR_DIAGRAM, MIN_METHODS_FOR_DIAGRAM = 5, 3


@dataclass(frozen=True)
class TextTable:
    """A table of texts, the first column to the left and the others to the right."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()

    def rich(self) -> Table:
        """Return the table for a terminal."""
        from rich.table import Table
        from rich.text import Text

        table = Table(title=Text(plain(self.title)), title_justify="left", caption_justify="left")
        for k, name in enumerate(self.head):
            table.add_column(Text(plain(name)), justify="right" if k else "left")
        for row in self.rows:
            table.add_row(*(Text(plain(cell)) for cell in row))
        if self.notes:
            table.caption = Text(plain(" ".join(self.notes)))
        return table

    def html(self, *, stacked: bool = False) -> str:
        """Return a ``<table>``; ``stacked`` shows each row as a paragraph on narrow screens."""
        head = "".join(
            f'<th scope="col"{_number(k)}>{html_text(name)}</th>'
            for k, name in enumerate(self.head)
        )
        rows = "".join(
            f'<tr><th scope="row">{html_text(row[0])}</th>'
            + "".join(
                f'<td class="number"{_label(name) if stacked else ""}>{html_text(cell)}</td>'
                for name, cell in zip(self.head[1:], row[1:], strict=True)
            )
            + "</tr>"
            for row in self.rows
        )
        kind = "scores dense stack" if stacked else "scores dense"
        return (
            f'<table class="{kind}"><caption class="unseen">{html_text(self.title)}'
            f"</caption><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
        )

    def markdown(self) -> str:
        """Return the table in Markdown."""
        rule = ["---", *("---:" for _ in self.head[1:])]
        lines = [[markdown_text(h) for h in self.head], rule]
        lines += [[markdown_text(cell) for cell in row] for row in self.rows]
        table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
        return table + "".join(f"\n\n{markdown_text(note)}" for note in self.notes)


def _label(name: str) -> str:
    return f' data-label="{html_text(name)}"'


def _number(k: int) -> str:
    return ' class="number"' if k else ""


def baseline_of(run: Run) -> str:
    """Return the method that the others are compared with: PLC, else the first."""
    labels = [method.label for method in run.config.methods]
    return BASELINE if BASELINE in labels else labels[0]


def _scopes(run: Run) -> dict[str, list[Cell]]:
    """Cells of each half that has data sets, and of all."""
    half = {dataset.label: dataset.half for dataset in run.config.datasets}
    found: dict[str, list[Cell]] = {
        scope: [cell for cell in run.cells if scope in ("all", half.get(cell.dataset))]
        for scope in HALVES
    }
    if not found["choosing"] or not found["reporting"]:
        found = {scope: found[scope] for scope in ("choosing", "reporting") if found[scope]} or {
            "all": found["all"]
        }
    return found


_TITLES = {"choosing": "choosing half", "reporting": "reporting half", "all": "all data sets"}


def comparison_tables(run: Run) -> list[TextTable]:
    """Return standings for each half and all, differences on each data set, times."""
    baseline, scopes = baseline_of(run), _scopes(run)
    tables = [
        table
        for budget in run.config.budgets
        for scope, cells in scopes.items()
        for table in _standings(cells, scope, budget, baseline)
    ]
    for budget in run.config.budgets:
        tables += _differences(run, budget, baseline)
    rows = [[t.method, _seconds(t.fit), _seconds(t.transform)] for t in comparison.times(run.cells)]
    if rows:
        head = ["method", "fit, s", "transform of 1,000 windows, s"]
        tables.append(TextTable("Time, median over data sets and seeds", head, rows))
    return tables


def _standings(
    cells: Sequence[Cell], scope: str, budget: int | str, baseline: str
) -> list[TextTable]:
    found = comparison.accuracies(cells, budget)
    standings = comparison.standings(found, baseline)
    if not found:
        return []
    left_out = [name for name in found if name not in comparison.common_sets(found)]
    count = len(found) - len(left_out)
    notes = []
    if left_out:
        notes.append(f"Without results of every method, and left out: {', '.join(left_out)}.")
    title = f"{budget_name(budget)}, {_TITLES[scope]} ({count})"
    head = ["method", "mean accuracy", f"wins / ties / losses against {baseline}", "mean rank"]
    rows = [
        [
            s.method,
            f"{s.mean:.3f}" + ("" if math.isnan(s.sd) else f" ± {s.sd:.3f}"),
            "–" if s.method == baseline else f"{s.wins} / {s.ties} / {s.losses}",
            f"{s.rank:.2f}",
        ]
        for s in standings
    ]
    return [TextTable(title[0].upper() + title[1:], head, rows, notes)]


def _differences(run: Run, budget: int | str, baseline: str) -> list[TextTable]:
    found = comparison.accuracies(run.cells, budget)
    scopes = {
        scope: [name for name in found if name in {cell.dataset for cell in cells}]
        for scope, cells in _scopes(run).items()
    }
    present = dict.fromkeys(method for own in found.values() for method in own)
    others = [m.label for m in run.config.methods if m.label in present and m.label != baseline]
    if baseline not in present:
        return []
    base = {
        name: f"{np.mean(list(own[baseline].values())):.3f}"
        for name, own in found.items()
        if baseline in own
    }
    tables = []
    for at in range(0, len(others), MAX_COLUMNS):
        shown = others[at : at + MAX_COLUMNS]
        columns = [
            {d.dataset: d for d in comparison.differences(found, method, baseline)}
            for method in shown
        ]
        rows = []
        for scope, sets in scopes.items():
            if scope != "all" or len(scopes) == 1:
                rows += [
                    [name, base.get(name, "–"), *(points(column.get(name)) for column in columns)]
                    for name in sets
                ]
            own = [[column[name] for name in sets if name in column] for column in columns]
            means = map(comparison.mean_difference, own)
            rows.append([f"mean, {_TITLES[scope]}", "", *map(points, means)])
        title = f"{budget_name(budget)}: points above {baseline} ± standard error"
        head = ["data set", baseline, *shown]
        notes = ["Errors are over seeds, those of means over data sets."]
        tables.append(TextTable(title[0].upper() + title[1:], head, rows, notes))
    return tables


def points(difference: comparison.Difference | None) -> str:
    """Return a difference in percentage points with its standard error."""
    if difference is None:
        return "–"
    error = "" if math.isnan(difference.error) else f" ± {100 * difference.error:.1f}"
    return f"{100 * difference.mean:+.1f}{error}"


def _seconds(value: float) -> str:
    if math.isnan(value):
        return "–"
    return f"{value:.3f}" if value < 1 else f"{value:.1f}"


# ------------------------------------------------------------------------------- diagrams


def rank_diagrams(run: Run) -> list[FigureItem]:
    """Return a critical-difference diagram for each budget, drawn by aeon where it is there."""
    try:
        from aeon.visualisation import plot_critical_difference
    except ImportError:
        return []
    from matplotlib import pyplot

    out = []
    for budget in run.config.budgets:
        found = comparison.accuracies(run.cells, budget)
        sets = comparison.common_sets(found)
        methods = list(found[sets[0]]) if sets else []
        if len(sets) < MIN_SETS_FOR_DIAGRAM or len(methods) < MIN_METHODS_FOR_DIAGRAM:
            continue
        scores = np.array(
            [[round(float(np.mean(list(found[s][m].values()))), 3) for m in methods] for s in sets]
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of tests without any difference
            drawn = [
                plot_critical_difference(scores, methods, width=width, textspace=space)
                for width, space in ((9, 2.6), (NARROW, 1.5))
            ]
        for (figure, axes), size in zip(drawn, (9, 6.5), strict=True):
            pyplot.close(figure)
            for text in axes.texts:
                text.set_fontsize(size)  # names of methods are long
        out.append(
            FigureItem(
                f"ranks-{str(budget).replace('%', '-percent')}",
                f"Mean ranks with {budget_name(budget)}",
                f"Over {len(sets)} data sets; 1 is best. Bars join methods that do not differ "
                "by Wilcoxon signed-rank tests with Holm's correction (α = 0.1).",
                drawn[0][0],
                drawn[1][0],
            )
        )
    return out


# ----------------------------------------------------------------------------- plain data


def comparison_data(run: Run) -> dict[str, Any]:
    """Return all numbers of the tables as plain data, for a result file."""
    baseline = baseline_of(run)
    others = [m.label for m in run.config.methods if m.label != baseline]
    standings, differences = [], []
    for budget in run.config.budgets:
        for scope, cells in _scopes(run).items():
            found = comparison.accuracies(cells, budget)
            for s in comparison.standings(found, baseline):
                standings.append({"half": scope, "budget": budget, **vars(s)})
            for method in others:
                of_sets = comparison.differences(found, method, baseline)
                mean = comparison.mean_difference(of_sets)
                wanted = [*of_sets, mean] if scope == "all" or len(_scopes(run)) == 1 else [mean]
                differences += [
                    {"half": scope, "budget": budget, **vars(d)} for d in wanted if d is not None
                ]
    return _plain(
        {
            "baseline": baseline,
            "standings": standings,
            "differences": differences,
            "times": [vars(t) for t in comparison.times(run.cells)],
            "scores": [
                {
                    "dataset": s.dataset,
                    "method": s.method,
                    "budget": s.budget,
                    "accuracy": s.accuracy,
                    "sd": s.accuracy_sd,
                    "seeds": s.n_seeds,
                }
                for s in run.summary()
                if s.n_seeds
            ],
            "failed": sorted({f"{c.method} on {c.dataset}: {c.message}" for c in run.failed}),
        }
    )


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return None if math.isnan(value) else round(value, 5)
    return value
