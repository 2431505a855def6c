"""The demonstration behind ``make demo``: features of real recordings with few labels.

Smartwatch recordings of seven exercises by ten people (synthetic recordings where those are not
installed) are split by subject; features are learned without labels from five people, a logistic
classifier is trained on labelled windows of two others, and tested on three never seen.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tensorcontrast.cli.bench import execute, show_run
from tensorcontrast.cli.session import Session

if TYPE_CHECKING:
    from tensorcontrast.evaluate.config import BenchConfig

__all__ = ["configuration", "demo"]

SPLITS = (
    "32 features learned without labels from half of the people, a logistic classifier on labelled "
    "windows of 20 %, tested on people never seen."
)


def configuration(**changes: Any) -> BenchConfig:
    """Return the benchmark of the demonstration, on what is installed."""
    from tensorcontrast.datasets import load_watch
    from tensorcontrast.errors import DataNotFoundError
    from tensorcontrast.evaluate.presets import preset

    try:
        load_watch(download=False)
    except DataNotFoundError:
        title = "Features of synthetic recordings with few labels"
        made = {"n_samples": 1200, "n_classes": 5, "n_subjects": 10}
        changes = {"datasets": [{"name": "synthetic", "options": made}], "title": title} | changes
    return preset("demo", **changes)


def demo(
    session: Session,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FOLDER", help="Where to write.")
    ] = Path("demo-report"),
    jobs: Annotated[
        int | None,
        typer.Option("--jobs", "-j", metavar="N", help="Fits at a time; -1: all processors."),
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Compute anew what an earlier demonstration left.")
    ] = False,
) -> None:
    """Compare five methods on embedded recordings; ends in under two minutes.

    CPD, ATD, PLC of the paper, PLC and PCA on smartwatch recordings of ten people, at three label
    budgets, with a table here and a report to look at.
    """
    config = configuration()
    if config.datasets[0].name == "synthetic":
        session.warn(
            "the smartwatch recordings are not installed (pip install 'tensorcontrast[data]'); "
            "synthetic ones take their place"
        )
    session.note(SPLITS)
    run = execute(session, config, output / "run", jobs=jobs, fresh=fresh)
    show_run(session, run, report=output)
