"""Tables of texts for the terminal, HTML and Markdown, and the scores of a benchmark as one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from rich.table import Table
from rich.text import Text

from tensorcontrast.evaluate.benchmark import Cell
from tensorcontrast.report.text import html_text, markdown_text, plain

__all__ = ["TextTable", "budget_name", "score_table"]


@dataclass(frozen=True)
class TextTable:
    """A table of texts, the first column to the left and the others to the right."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()

    def rich(self) -> Table:
        """Return the table for a terminal."""
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


def score_table(cells: Sequence[Cell], title: str) -> TextTable:
    """Return methods × label budgets: accuracy as mean ± standard deviation over seeds.

    Examples
    --------
    >>> cells = [
    ...     Cell("d", method, seed, 30, accuracy=accuracy + seed / 100)
    ...     for method, accuracy in (("CPD", 0.6), ("PLC", 0.7))
    ...     for seed in range(2)
    ... ]
    >>> print(score_table(cells, "Accuracy").markdown())
    | method | 30 labels |
    | --- | ---: |
    | CPD | 0.605 ± 0.007 |
    | PLC | 0.705 ± 0.007 |
    """
    budgets = list(dict.fromkeys(cell.budget for cell in cells))
    rows = []
    for method in dict.fromkeys(cell.method for cell in cells):
        row = [method]
        for budget in budgets:
            own = [c for c in cells if (c.method, c.budget) == (method, budget)]
            values = [cell.accuracy for cell in own if cell.accuracy is not None]
            spread = f" ± {np.std(values, ddof=1):.3f}" if len(values) > 1 else ""
            row.append(f"{np.mean(values):.3f}{spread}" if values else "–")
        rows.append(row)
    return TextTable(title, ["method", *map(budget_name, budgets)], rows)


def budget_name(budget: object) -> str:
    """Name a label budget: "30 labels", "5 % of labels", "all labels"."""
    text = str(budget).strip()
    if text in ("100%", "all", "1.0"):
        return "all labels"
    if text.endswith("%"):
        return f"{text[:-1].strip()} % of labels"
    return f"{text} label" if text == "1" else f"{text} labels"
