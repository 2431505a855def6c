"""Progress of a fit on standard error: a bar in terminals, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from tensorcontrast.utils.names import visible

__all__ = ["LineBar", "bar", "stage"]

#: Seconds between two lines, at least.
LINE_INTERVAL = 10.0


def bar() -> Progress | LineBar:
    """Return a progress bar for where the output goes; tasks have a ``detail``."""
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


class LineBar:
    """Progress as lines on standard error, where it is a file, a pipe or a notebook.

    A line every ten seconds, and a last one where the task has a detail. Has the methods of
    :class:`rich.progress.Progress` that fits use, for one task.
    """

    def __init__(self) -> None:
        self._name, self._detail = "", ""
        self._completed, self._total = 0.0, 0.0
        self._shown = time.monotonic()

    def start(self) -> None:
        """Begin."""
        self._shown = time.monotonic()

    def add_task(self, name: str, *, total: float | None = None, detail: str = "") -> int:
        """Set what is done; the number of the task is 0."""
        self._name, self._total, self._detail = name, total or 0.0, detail
        return 0

    def advance(self, task: int, done: float = 1) -> None:
        """So much more is done."""
        self.update(task, advance=done)

    def update(self, task: int, *, advance: float = 0, detail: str | None = None) -> None:
        """Say how far the task is."""
        self._completed += advance
        self._detail = self._detail if detail is None else detail
        now = time.monotonic()
        if now - self._shown >= LINE_INTERVAL:
            self._shown = now
            self._print()

    def stop(self) -> None:
        """End, with a line where the task has a detail."""
        if self._detail:
            self._print()

    def _print(self) -> None:
        far = f": {self._completed:g} of {self._total:g}" if self._total else ""
        self.print(f"{self._name}{far}" + (f", {self._detail}" if self._detail else ""))

    def print(self, line: str) -> None:
        """Write a line."""
        print(visible(line), file=sys.stderr, flush=True)


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
