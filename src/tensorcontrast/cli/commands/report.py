"""``tensorcontrast report``: what a model learned, as a page to look at."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from tensorcontrast.cli.shared import data as recordings
from tensorcontrast.cli.shared import models, stored
from tensorcontrast.cli.shared.options import Force, complete_data
from tensorcontrast.cli.shared.session import Session, UsageFailure, facts, safe
from tensorcontrast.cli.shared.stored import Cluster
from tensorcontrast.errors import FileError

__all__ = ["report", "report_place"]


def report(
    session: Session,
    source: models.Model,
    data: Annotated[
        str,
        typer.Option(
            "--data",
            "-d",
            metavar="DATA",
            help="Recordings that the model is shown on.",
            autocompletion=complete_data,
            show_default=False,
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="PLACE", help="Folder, or name of a .html file."),
    ] = None,
    diagnose: Annotated[
        bool,
        typer.Option(
            "--diagnose/--no-diagnose",
            help="Fit the model again, to tell which components are stable.",
        ),
    ] = True,
    reading: recordings.Reading = recordings.Reading(),  # noqa: B008
    force: Force = False,
) -> None:
    """Write a report of a model: figures, what each feature is, windows to hover over.

    One HTML file that needs no network, next to the model unless -o names another place. Of a
    model written by train it also shows what decides and how far answers can be trusted.
    """
    from tensorcontrast import report as reports

    place = report_place(source, output, force=force)
    model = models.load_whole(source)
    features = models.features_of(model)
    rec = stored.opened(session, data, reading, Cluster(), model=features)
    rec = stored.sampled(session, rec, features)
    with session.progress(f"report of {source}"):
        command = _again(source, data, reading, place, diagnose)
        path = reports.model_report(model, rec, place, command=command, diagnose=diagnose)
    found = {"model": str(source), "data": rec.name, "samples": len(rec)}
    session.result(
        {**found, "report": str(path), "seconds": round(session.seconds, 3)},
        facts({"report": safe(path), "time": f"{session.seconds:.1f} s"}),
        summary=True,
    )


def _again(
    source: Path,
    data: str,
    reading: recordings.Reading,
    place: Path,
    diagnose: bool,
) -> str:
    """Return the whole command that writes the same report again, quoted for a shell."""
    words = ["tensorcontrast", "report", str(source), "--data", data, *reading.arguments()]
    words += [] if diagnose else ["--no-diagnose"]
    return shlex.join([*words, "-o", str(place), "--force"])


def report_place(source: Path, output: Path | None, *, force: bool) -> Path:
    """Where a report goes; an older one named by ``-o`` is kept."""
    if output is None:
        output = source.with_name(f"{source.stem}-report")
    place = output.expanduser()
    if place.suffix.lower() not in ("", ".html"):
        raise UsageFailure(f"-o {output}: reports are .html; give such a name or a folder")
    there = place if place.suffix else place / "report.html"
    if there.exists() and not force:
        raise FileError(f"{there} exists and is not overwritten; pass --force or another place")
    if place.is_file() and there != place:
        raise FileError(f"{place} is a file; name a folder, or a file ending in .html")
    return place
