"""Progress of a fit on standard error: a bar while a stage runs, a line when it is done."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

__all__ = ["bar", "stage"]


def bar() -> Progress:
    """Return a progress bar that vanishes when it is done; tasks have a ``detail``."""
    columns: tuple[Any, ...] = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[detail]}"),
        TimeRemainingColumn(),
    )
    return Progress(*columns, console=Console(stderr=True), transient=True)


@contextmanager
def stage(
    name: str, *, show: bool, total: int | None = None, live: bool = True
) -> Iterator[Callable[[int], None]]:
    """Show one stage of a fit.

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
        task = progress.add_task(name, total=total, detail="")
        yield lambda done: progress.advance(task, done)
    finally:
        if live:
            progress.stop()
    progress.console.print(f"{name}: {time.perf_counter() - begin:.1f} s", highlight=False)
