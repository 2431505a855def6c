"""Progress of a fit: a bar in terminals and notebooks, plain lines elsewhere.

Terminals and files get it on standard error, notebooks in the output of the cell.
"""

from __future__ import annotations

import html
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from tensorcontrast.utils.names import visible

__all__ = ["LineBar", "NotebookBar", "bar", "in_notebook", "stage"]

#: Seconds between two lines in a file, and between two updates in a notebook, at least.
LINE_INTERVAL, UPDATE_INTERVAL = 10.0, 0.2


def in_notebook() -> bool:
    """Whether a Jupyter kernel runs this code; IPython is not imported for it."""
    ipython: Any = sys.modules.get("IPython")
    shell = ipython.get_ipython() if hasattr(ipython, "get_ipython") else None
    return getattr(shell, "kernel", None) is not None


def bar() -> Progress | LineBar:
    """Return a progress bar for where the output goes; tasks have a ``detail``."""
    if in_notebook():
        return NotebookBar()
    console = Console(stderr=True)
    if not console.is_terminal:
        return LineBar()
    columns: tuple[Any, ...] = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[detail]}"),
        TimeRemainingColumn(),
    )
    return Progress(*columns, console=console, transient=True)


@dataclass
class _Task:
    name: str
    total: float | None
    detail: str
    completed: float = 0

    @property
    def text(self) -> str:
        parts = [self.name]
        if self.completed and self.total is not None:
            parts.append(f"{self.completed:g} of {self.total:g}")
        return ": ".join(parts) + (f", {self.detail}" if self.detail else "")


class LineBar:
    """Progress as lines on standard error, where it is a file or a pipe.

    A line every ten seconds, and a last one where the task has a detail. Has the methods of
    :class:`rich.progress.Progress` that fits use, for one task.
    """

    interval = LINE_INTERVAL

    def __init__(self) -> None:
        self._task: _Task | None = None
        self._shown = time.monotonic()

    def start(self) -> None:
        """Begin."""
        self._shown = time.monotonic()

    def add_task(self, name: str, *, total: float | None = None, detail: str = "") -> int:
        """Set what is done; the number of the task is 0."""
        self._task = _Task(name, total, detail)
        return 0

    def advance(self, task: int, done: float = 1) -> None:
        """So much more is done."""
        self.update(task, advance=done)

    def update(
        self,
        task: int,
        *,
        advance: float = 0,
        completed: float | None = None,
        detail: str | None = None,
    ) -> None:
        """Say how far the task is."""
        assert self._task is not None
        self._task.completed = self._task.completed + advance if completed is None else completed
        self._task.detail = self._task.detail if detail is None else detail
        now = time.monotonic()
        if now - self._shown >= self.interval:
            self._shown = now
            self._show(self._task)

    def stop(self) -> None:
        """End, with a line where the task has a detail."""
        if self._task is not None and self._task.detail:
            self.print(self._task.text)

    def _show(self, task: _Task) -> None:
        self.print(task.text)

    def print(self, line: str) -> None:
        """Write a line."""
        print(visible(line), file=sys.stderr, flush=True)


class NotebookBar(LineBar):
    """Progress as one HTML bar in the output of a cell, which ends as a line.

    IPython alone shows it: no widget, no script.
    """

    interval = UPDATE_INTERVAL

    def __init__(self) -> None:
        super().__init__()
        self._handle: Any = None

    def start(self) -> None:
        """Show an empty bar."""
        super().start()
        self._display("", "")

    def _show(self, task: _Task) -> None:
        size = "" if task.total is None else f' value="{task.completed:g}" max="{task.total:g}"'
        text = html.escape(visible(task.text))
        self._display(f"<progress{size}></progress> {text}", task.text)

    def print(self, line: str) -> None:
        """Replace the bar by a line."""
        self._display(html.escape(visible(line)), line)

    def _display(self, markup: str, plain: str) -> None:
        from IPython.display import display

        shown = {
            "text/html": f'<div style="font:13px/1.5 system-ui,sans-serif">{markup}</div>',
            "text/plain": visible(plain),
        }
        if self._handle is None:
            self._handle = display(shown, raw=True, display_id=True)
        else:
            self._handle.update(shown, raw=True)


@contextmanager
def stage(
    name: str, *, show: bool, total: int | None = None, live: bool = True
) -> Iterator[Callable[[int], None]]:
    """Show one stage of a fit: a bar while it runs, a line when it is done.

    Parameters
    ----------
    name : str
        What is done.
    show : bool
        Whether to show anything.
    total : int, optional
        Windows of the stage; give the function that the block receives the number of those done.
    live : bool, default=True
        Show a bar while the stage runs; False for a stage that has a bar of its own.
    """
    if not show:
        yield lambda done: None
        return
    begin = time.perf_counter()
    progress = bar()
    if live:
        progress.start()
    try:
        task: Any = progress.add_task(name, total=total, detail="")
        yield lambda done: progress.advance(task, done)
    finally:
        if live:
            progress.stop()
    line = f"{name}: {time.perf_counter() - begin:.1f} s"
    if isinstance(progress, LineBar):
        progress.print(line)
    else:
        progress.console.print(line, highlight=False)
