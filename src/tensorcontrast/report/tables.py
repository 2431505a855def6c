"""Tables of scores: mean ± sd over repeats, the best of each column, published figures next to."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorcontrast.errors import InvalidInputError
from tensorcontrast.report.console import ConsoleTable
from tensorcontrast.report.scores import METRICS, Published, Score, ScoreRow, budget_name
from tensorcontrast.report.text import html_text, markdown_text

if TYPE_CHECKING:
    from tensorcontrast.evaluate.run import Run

__all__ = ["ScoreTable", "run_tables", "score_tables"]

_CELL = ("dataset", "method", "budget", "fit_seconds", "epoch_seconds", "n_parameters")


@dataclass(frozen=True)
class ScoreTable:
    """Methods by label budgets on one dataset.

    Examples
    --------
    >>> cells = [
    ...     {"dataset": "d", "method": m, "seed": s, "budget": 30, "accuracy": a + s / 100}
    ...     for m, a in (("CPD", 0.6), ("PLC", 0.7)) for s in range(2)
    ... ]
    >>> print(score_tables(cells)[0].markdown())
    | method | 30 labels |
    | --- | ---: |
    | CPD | 0.605 ± 0.007 |
    | PLC | **0.705 ± 0.007** |
    """

    dataset: str
    budgets: tuple[str, ...]
    rows: tuple[ScoreRow, ...]
    metric: str = "accuracy"
    notes: tuple[str, ...] = field(default=())

    @property
    def caption(self) -> str:
        """What the numbers are."""
        repeats = sorted({len(s.values) for row in self.rows for s in row.scores.values()})
        count = str(repeats[0]) if len(repeats) == 1 else f"{repeats[0]} to {repeats[-1]}"
        over = "one repeat" if repeats == [1] else f"mean ± sd over {count} repeats"
        name = METRICS.get(self.metric, self.metric)
        return f"{name[0].upper()}{name[1:]} on test data, {over}"

    def best(self, budget: str) -> set[str]:
        """Return the methods whose mean, as it is printed, is the highest of a column."""
        means = {
            row.method: round(row.scores[budget].mean, 3)
            for row in self.rows
            if budget in row.scores and row.competes
        }
        top = max(means.values(), default=0.0)
        return (
            {method for method, mean in means.items() if mean == top} if len(means) > 1 else set()
        )

    def head(self) -> list[str]:
        """Titles of the columns that have anything in them."""
        titles = ["method", *(budget_name(b) for b in self.budgets)]
        return titles + [title for title, _ in self._extra()]

    def footnotes(self) -> list[str]:
        """Return the notes of the rows, each once."""
        return list(dict.fromkeys(row.note for row in self.rows if row.note))

    def _extra(self) -> list[tuple[str, list[str]]]:
        """Columns next to the scores: title, then one text per row."""
        columns = [
            ("paper", [_text(row.published) for row in self.rows]),
            ("s / epoch", [_seconds(row.epoch_seconds) for row in self.rows]),
            ("fit, s", [_seconds(row.fit_seconds) for row in self.rows]),
            ("parameters", [_count(row.n_parameters) for row in self.rows]),
            ("note", [row.note for row in self.rows]),
        ]
        return [(title, cells) for title, cells in columns if any(cells)]

    def body(self) -> list[list[str]]:
        """Texts of the cells, row by row; "–" where there is no score."""
        extra = self._extra()
        return [
            [
                row.method,
                *(str(row.scores[b]) if b in row.scores else "–" for b in self.budgets),
                *(cells[k] or "–" * (title != "note") for title, cells in extra),
            ]
            for k, row in enumerate(self.rows)
        ]

    def marked(self) -> list[list[bool]]:
        """Return which cells of :meth:`body` are the best of their column."""
        best = [self.best(b) for b in self.budgets]
        n_extra = len(self._extra())
        return [
            [False, *(row.method in names for names in best), *([False] * n_extra)]
            for row in self.rows
        ]

    # ------------------------------------------------------------------ media

    def markdown(self) -> str:
        """Return a table for Markdown, the best of each column bold."""
        head = self.head()
        rule = ["---", *("---" if title == "note" else "---:" for title in head[1:])]
        lines = [head, rule]
        for cells, marks in zip(self.body(), self.marked(), strict=True):
            texts = [markdown_text(cell) for cell in cells]
            lines.append([f"**{t}**" if m else t for t, m in zip(texts, marks, strict=True)])
        table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
        notes = "".join(f"\n\n{markdown_text(note)}" for note in self.notes)
        return table + notes

    def html(self) -> str:
        """Return a ``<table>``, the best of each column bold; notes of rows are numbers."""
        titles = self.head()
        head = "".join(
            f'<th scope="col"{_kind(title)}>{html_text(title)}</th>'
            for title in titles
            if title != "note"
        )
        rows = []
        dense = " dense" if len(titles) > 7 else ""
        footnotes = self.footnotes()
        for row, cells, marks in zip(self.rows, self.body(), self.marked(), strict=True):
            number = f"<sup>{footnotes.index(row.note) + 1}</sup>" if row.note else ""
            line = [f'<th scope="row">{html_text(cells[0])}{number}</th>']
            for title, cell, mark in zip(titles[1:], cells[1:], marks[1:], strict=True):
                if title != "note":
                    line.append(f"<td{_kind(title)}>{_html_score(cell, mark)}</td>")
            rows.append(f"<tr>{''.join(line)}</tr>")
        return (
            f'<table class="scores{dense}"><caption class="unseen">{html_text(self.dataset)}: '
            f"{html_text(self.caption)}</caption><thead><tr>{head}</tr></thead>"
            f"<tbody>{''.join(rows)}</tbody></table>"
        )

    def rich(self) -> ConsoleTable:
        """Return a table for the terminal, which fits itself to the width there is."""
        return ConsoleTable(self)

    def json(self) -> dict[str, Any]:
        """Return plain data, NaN as None."""
        return {
            "dataset": self.dataset,
            "metric": self.metric,
            "notes": list(self.notes),
            "rows": [
                {
                    "method": row.method,
                    "scores": {
                        budget: {
                            "mean": score.mean,
                            "sd": None if math.isnan(score.sd) else score.sd,
                            "values": list(score.values),
                            "best": row.method in self.best(budget),
                        }
                        for budget, score in row.scores.items()
                    },
                    "paper": None
                    if row.published is None
                    else {"mean": row.published.mean, "sd": row.published.sd},
                    "epoch_seconds": row.epoch_seconds,
                    "fit_seconds": row.fit_seconds,
                    "n_parameters": row.n_parameters,
                    "note": row.note,
                }
                for row in self.rows
            ],
        }


def score_tables(
    cells: Iterable[Any],
    *,
    metric: str = "accuracy",
    published: Mapping[tuple[str, str], Published] | None = None,
    notes: Mapping[str, Sequence[str]] | None = None,
) -> list[ScoreTable]:
    """Gather the cells of a run into one table per data set.

    Parameters
    ----------
    cells : iterable of mappings or objects
        With ``dataset``, ``method``, ``seed``, ``budget`` and the metric; where there are any,
        ``epoch_seconds``, ``fit_seconds``, ``n_parameters``, ``note`` and ``competes`` (False for
        an upper bound). Datasets, methods and budgets keep the order in which they come.
    metric : {"accuracy", "balanced_accuracy", "macro_f1"}
        Which score.
    published : mapping of (dataset, method) to Published, optional
        Figures of the paper.
    notes : mapping of dataset to sequence of str, optional
        Where data or protocol differ.

    Examples
    --------
    >>> cells = [
    ...     {"dataset": "d", "method": m, "seed": s, "budget": 30, "accuracy": a + s / 100}
    ...     for m, a in (("CPD", 0.6), ("PLC", 0.7)) for s in range(2)
    ... ]
    >>> (table,) = score_tables(cells)
    >>> table.budgets, [row.method for row in table.rows]
    (('30',), ['CPD', 'PLC'])
    """
    if metric not in METRICS:
        raise InvalidInputError(f"metric {metric!r} is not one of {', '.join(METRICS)}")
    found: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for cell in cells:
        values = _cell(cell, metric)
        found.setdefault(values["dataset"], {}).setdefault(values["method"], []).append(values)
    tables = []
    for dataset, methods in found.items():
        budgets = tuple(
            dict.fromkeys(
                c["budget"] for own in methods.values() for c in own if c["budget"] is not None
            )
        )
        rows = tuple(
            _row(method, own, budgets, (published or {}).get((dataset, method)))
            for method, own in methods.items()
        )
        own_notes = tuple(str(note) for note in (notes or {}).get(dataset, ()))
        tables.append(ScoreTable(dataset, budgets, rows, metric, own_notes))
    return tables


def run_tables(run: Run, *, metric: str = "accuracy") -> list[ScoreTable]:
    """Gather what a run has finished into one table per data set, the paper's figures next to.

    Notes on a method stand in its row; those on data and protocol are the table's notes.

    Examples
    --------
    >>> import tempfile
    >>> from tensorcontrast.evaluate import BenchConfig
    >>> from tensorcontrast.evaluate.runner import run
    >>> data = {"name": "synthetic", "options": {"n_samples": 60, "n_channels": 2, "n_times": 64}}
    >>> few = {"methods": [{"name": "cpd"}], "seeds": 1, "budgets": [6], "draws": 1, "rank": 3}
    >>> config = BenchConfig.from_data({"datasets": [data], **few})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     (table,) = run_tables(run(config, folder, n_jobs=1))
    >>> table.dataset, table.budgets, [row.method for row in table.rows]
    ('synthetic', ('6',), ['CPD'])
    """
    notes: dict[tuple[str, str], str] = {}
    published: dict[tuple[str, str], Published] = {}
    order: dict[tuple[str, str, str], int] = {}
    for k, row in enumerate(run.summary()):
        key = (row.dataset, row.method)
        order.setdefault((*key, str(row.budget)), k)
        said = [row.note] if row.note else []
        if row.n_failed:
            said.append(f"{row.n_failed} failed at {budget_name(row.budget)}")
        notes[key] = "; ".join(dict.fromkeys([*filter(None, [notes.get(key, "")]), *said]))
        if row.paper is not None and metric == "accuracy":
            published[key] = Published(row.paper.accuracy, row.paper.accuracy_sd)
    cells = [
        {
            **{name: getattr(c, name) for name in _CELL},
            metric: getattr(c, metric),
            "note": notes.get((c.dataset, c.method), ""),
            "competes": run.config.method(c.method).labels_in_graph in ("no", "drawn"),
        }
        for c in sorted(
            (c for c in run.ok if getattr(c, metric) is not None),
            key=lambda c: (
                order.get((c.dataset, c.method, str(c.budget)), len(order)),
                c.seed,
            ),
        )
    ]
    datasets = dict.fromkeys(c["dataset"] for c in cells)
    shown = {f"{row.method}: {row.note}" for row in run.summary() if row.note}
    return score_tables(
        cells,
        metric=metric,
        published=published,
        notes={d: [n for n in run.notes(d) if n not in shown] for d in datasets},
    )


def _cell(cell: Any, metric: str) -> dict[str, Any]:
    def get(key: str) -> Any:
        return cell.get(key) if isinstance(cell, Mapping) else getattr(cell, key, None)

    missing = [key for key in ("dataset", "method", "budget", metric) if get(key) is None]
    if missing:
        raise InvalidInputError(f"a cell of the table has no {', '.join(missing)}")
    score = float(get(metric))
    if not math.isfinite(score):
        raise InvalidInputError(
            f"{get('method')} on {get('dataset')}: {metric} is {score}; run that cell again"
        )
    return {
        "dataset": str(get("dataset")),
        "method": str(get("method")),
        "budget": str(get("budget")),
        "score": score,
        "note": str(get("note") or ""),
        "competes": get("competes") is not False,
        **{key: get(key) for key in ("epoch_seconds", "fit_seconds", "n_parameters")},
    }


def _row(
    method: str, cells: list[dict[str, Any]], budgets: Sequence[str], published: Published | None
) -> ScoreRow:
    scores = {}
    for budget in budgets:
        values = tuple(c["score"] for c in cells if c["budget"] == budget)
        if values:
            scores[budget] = Score(values)

    def mean(key: str) -> float | None:
        values = [float(c[key]) for c in cells if c[key] is not None]
        return float(np.mean(values)) if values else None

    parameters = mean("n_parameters")
    return ScoreRow(
        method,
        scores,
        published,
        mean("epoch_seconds"),
        mean("fit_seconds"),
        None if parameters is None else round(parameters),
        "; ".join(dict.fromkeys(c["note"] for c in cells if c["note"])),
        all(c["competes"] for c in cells),
    )


def _text(value: object) -> str:
    return "" if value is None else str(value)


def _seconds(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.3f}" if value < 1 else f"{value:.1f}"


def _count(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def _kind(title: str) -> str:
    return {"method": "", "paper": ' class="paper number"'}.get(title, ' class="number"')


def _html_score(cell: str, mark: bool) -> str:
    mean, sign, sd = html_text(cell).partition(" ± ")
    text = f'{mean}<span class="sd"> ± {sd}</span>' if sign else mean
    return f'<strong class="best" title="best of the column">{text}</strong>' if mark else text
