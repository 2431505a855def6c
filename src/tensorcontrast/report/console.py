"""Tables of scores in a terminal of any width: no number is ever cut."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tensorcontrast.report.text import plain

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions
    from rich.table import Table

    from tensorcontrast.report.tables import ScoreTable

__all__ = ["ConsoleTable"]

#: Columns that are left out where the terminal is narrow, the first of them first.
SPARE = ("parameters", "fit, s", "s / epoch")
_RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


class ConsoleTable:
    """What rich prints of a :class:`ScoreTable`: one table, or several below each other."""

    def __init__(self, table: ScoreTable) -> None:
        self.table = table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Any]:
        from rich.text import Text

        yield Text(f"{plain(self.table.dataset)}: {plain(self.table.caption)}", style="italic")
        for columns in self._parts(options.max_width):
            yield self._drawn(columns)
        for k, note in enumerate(self.table.footnotes(), 1):
            yield Text(f"{str(k).translate(_RAISED)} {plain(note)}", style="dim")

    def _texts(self) -> list[list[str]]:
        """Return head and body, without the notes, which become numbers at the methods."""
        head, body = self.table.head(), self.table.body()
        notes = self.table.footnotes()
        lines = [head]
        for row, cells in zip(self.table.rows, body, strict=True):
            mark = f" {str(notes.index(row.note) + 1).translate(_RAISED)}" if row.note else ""
            lines.append([cells[0] + mark, *cells[1:]])
        keep = [k for k, title in enumerate(head) if title != "note"]
        return [[plain(line[k]) for k in keep] for line in lines]

    def _parts(self, width: int) -> list[list[int]]:
        """Return the columns of each table: all in one where they fit, else scores in turns."""
        from rich.cells import cell_len

        texts = self._texts()
        need = [max(cell_len(line[k]) for line in texts) + 3 for k in range(len(texts[0]))]
        columns = list(range(len(need)))
        for title in SPARE:
            if sum(need[k] for k in columns) + 1 <= width:
                break
            columns = [k for k in columns if texts[0][k] != title]
        parts: list[list[int]] = [[0]]
        for k in columns[1:]:
            if len(parts[-1]) > 1 and sum(need[j] for j in [*parts[-1], k]) + 1 > width:
                parts.append([0])
            parts[-1].append(k)
        return parts

    def _drawn(self, columns: list[int]) -> Table:
        from rich import box
        from rich.table import Table
        from rich.text import Text

        texts, marks = self._texts(), self.table.marked()
        drawn = Table(box=box.SIMPLE_HEAD)
        for k in columns:
            drawn.add_column(
                Text(texts[0][k]),
                justify="right" if k else "left",
                no_wrap=bool(k),
                overflow="fold",
                min_width=max(len(line[k]) for line in texts) if k else None,
            )
        for line, own in zip(texts[1:], marks, strict=True):
            drawn.add_row(*(Text(line[k], style="bold green" if own[k] else "") for k in columns))
        return drawn
