"""``tensorcontrast predict``: what happens when in recordings, as a file and a picture."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from tensorcontrast.cli.shared import data as recordings
from tensorcontrast.cli.shared.answering import KeptAnswers, answered, explained
from tensorcontrast.cli.shared.models import load_classifier
from tensorcontrast.cli.shared.options import Force, complete_files
from tensorcontrast.cli.shared.session import Session, UsageFailure, facts, listing, safe
from tensorcontrast.cli.shared.stored import ManyData, read_all
from tensorcontrast.errors import FileError, InvalidInputError
from tensorcontrast.io.atomic import atomic_write
from tensorcontrast.utils.names import listed

if TYPE_CHECKING:
    from tensorcontrast.classify import Timeline

__all__ = ["predict"]

ANSWERS = "Answers"
PICTURES = (".png", ".svg", ".pdf")
#: What stands for the name of a recording in the name of the output.
PLACE = "{recording}"


def _option(*names: str, help: str, **more: Any) -> Any:
    return typer.Option(*names, help=help, rich_help_panel=ANSWERS, show_default=False, **more)


def predict(
    session: Session,
    model: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL",
            help="Model file written by train.",
            autocompletion=complete_files,
            show_default=False,
        ),
    ],
    data: ManyData,
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="What to write: .csv, .tsv, .json, .parquet, or annotations of one recording: "
            ".edf (EDF+). '{recording}.edf' writes one file each.",
            show_default=False,
        ),
    ],
    merge: Annotated[
        bool, _option("--merge", help="One row per segment: neighbours with the same answer.")
    ] = False,
    probabilities: Annotated[
        bool, _option("--probabilities", help="Also write the probability of each class.")
    ] = False,
    explain: Annotated[
        bool,
        _option(
            "--explain",
            help="Also write what makes each answer: contributions of features and blocks that "
            "add up to the log odds against the second class.",
        ),
    ] = False,
    abstain: Annotated[
        float | None,
        _option("--abstain", metavar="P", help="No answer below this probability.", min=0, max=1),
    ] = None,
    smooth: Annotated[
        bool | None,
        _option(
            "--smooth/--no-smooth",
            help="Take neighbouring windows into account, or not; default: as trained.",
        ),
    ] = None,
    dwell: Annotated[
        float | None,
        _option("--dwell", metavar="N", help="Windows that a class lasts, for --smooth."),
    ] = None,
    plot: Annotated[
        Path | None,
        _option("--plot", metavar="FILE", help="Draw the timeline: .png, .svg or .pdf."),
    ] = None,
    reading: recordings.Reading = recordings.Reading(),  # noqa: B008
    force: Force = False,
) -> None:
    """Say what happens when: one row per window or merged segment, with its probability.

    Rows have recording, start_s, end_s, label and probability. Channels are picked by name and
    longer signals cut as the model needs. Labels of DATA are only drawn next to the answers. A
    command that was stopped goes on where it stopped when it is called again.
    """
    from tensorcontrast.classify.timeline import ANNOTATIONS, check_format

    try:
        check_format(output)
    except FileError as error:
        raise UsageFailure(f"-o {error}") from error
    if plot is not None and plot.suffix.lower() not in PICTURES:
        raise UsageFailure(f"--plot {plot.name}: pictures are {', '.join(PICTURES)}")
    if dwell is not None and not dwell > 1:
        raise UsageFailure(f"--dwell {dwell:g} is not above 1")
    if explain and (merge or output.suffix.lower() == ANNOTATIONS):
        raise UsageFailure(
            "--explain is of single windows: leave --merge out, and write a table (.csv, .tsv, "
            ".json or .parquet)"
        )
    each = PLACE in output.name
    target = output.expanduser() if each else session.target(output, force=force)
    picture = None if plot is None else session.target(plot, force=force)
    fitted = load_classifier(model)
    if abstain is not None:
        fitted.set_params(abstain=abstain)
    if smooth is not None:
        fitted.set_params(smooth="viterbi" if smooth else None)
    if dwell is not None:
        fitted.set_params(dwell=dwell)
    rec = read_all(session, data, reading, model=fitted.extractor_)
    targets = _targets(session, target, rec, force=force) if each else {"": target}
    segments = target.suffix.lower() == ANNOTATIONS
    _check(rec, target, segments and not each, merge=merge or segments, plot=plot is not None)
    kept = KeptAnswers.next_to(target.with_name(target.name.replace(PLACE, "answers")), model)
    timeline = answered(session, fitted, rec, kept)
    if explain:
        timeline = replace(timeline, extra=explained(session, fitted, rec))
    shown = timeline.merged() if merge or segments else timeline
    image = None if picture is None else _drawn(session, timeline, rec, picture)
    for name, lines in shown.by_recording().items() if each else [("", shown)]:
        lines.write(targets[name], probabilities=probabilities)
    if picture is not None and image is not None:
        with atomic_write(picture) as stream:
            stream.write(image)
    kept.clear()
    files = list(targets.values())
    _tell(session, files, picture, model, timeline, len(shown), rec, kept.n_found)


def _check(rec: Any, target: Path, single: bool, *, merge: bool, plot: bool) -> None:
    """Raise before any work where the output needs times, or a ``single`` recording."""
    from tensorcontrast.classify.timeline import no_times

    if rec.fs is None or "start" not in rec.columns:
        if plot or merge:
            raise no_times("--plot" if plot else "merging")
    names = np.unique(rec.columns.get("recording", [])).tolist()
    if single and len(names) > 1:
        raise InvalidInputError(
            f"{target.name}: a file of annotations is of one recording, but there are "
            f"{listed(names, 4)}; write one file each with -o '{PLACE}{target.suffix}', or all as "
            ".csv"
        )


def _targets(session: Session, pattern: Path, rec: Any, *, force: bool) -> dict[str, Path]:
    """File of each recording: the pattern with its name, without the suffix where that is clear."""
    source = rec.columns.get("recording")
    names = list(dict.fromkeys(map(str, [rec.name or "recording"] if source is None else source)))
    flat = [name.replace("/", "-").replace("\\", "-") for name in names]
    stems = [Path(name).stem for name in flat]
    shown = stems if len(set(stems)) == len(names) else flat
    if len(set(shown)) < len(names):
        raise InvalidInputError(
            f"-o {pattern.name}: the names of recordings are alike as names of files "
            f"({listed(names, 4)}); write one table for all"
        )
    return {
        name: session.target(pattern.with_name(pattern.name.replace(PLACE, part)), force=force)
        for name, part in zip(names, shown, strict=True)
    }


def _drawn(
    session: Session,
    timeline: Timeline,
    rec: Any,
    picture: Path,
) -> bytes:
    """Picture of the timeline, with the labels of DATA where it has any."""
    import io

    from tensorcontrast.classify import Timeline
    from tensorcontrast.report.timeline_figure import MAX_PANELS, plot_timeline

    with session.progress(f"drawing {picture.name}"):
        truth = None
        if rec.y is not None and (rec.y >= 0).any():
            names = np.array([*(rec.classes or map(str, range(int(rec.y.max()) + 1))), ""])
            sure = np.ones((len(rec), 1))
            truth = Timeline.from_answers(rec, names[rec.y], sure, ("",))
        n_recordings = len(np.unique(timeline.recording))
        if n_recordings > MAX_PANELS:
            session.note(
                f"{picture.name} shows the first {MAX_PANELS} of {n_recordings} recordings"
            )
        buffer = io.BytesIO()
        kind = picture.suffix.lower().removeprefix(".")
        plot_timeline(timeline, truth).savefig(buffer, format=kind, dpi=150)
        return buffer.getvalue()


def _tell(
    session: Session,
    files: list[Path],
    picture: Path | None,
    model: Path,
    timeline: Timeline,
    n_rows: int,
    rec: Any,
    n_found: int,
) -> None:
    counts = {name: int((timeline.label == name).sum()) for name in timeline.classes}
    unknown = int((timeline.label == "").sum())
    table = listing("answer", "windows", "share", numbers=("windows", "share"))
    for name, count in [*counts.items(), *([("unknown", unknown)] if unknown else [])]:
        table.add_row(safe(name, 40), f"{count:,}", f"{count / len(timeline):.1%}")
    shown: dict[str, object] = {
        "answers": safe(files[0] if len(files) == 1 else f"{len(files)} files, as {files[0]}"),
        "size": f"{n_rows:,} rows for {len(timeline):,} windows",
    }
    if picture is not None:
        shown["timeline"] = safe(picture)
    shown["time"] = f"{session.seconds:.1f} s"
    session.result(
        {
            "answers": str(files[0]) if len(files) == 1 else [str(file) for file in files],
            "model": str(model),
            "data": rec.name,
            "windows": len(timeline),
            "rows": n_rows,
            "recordings": len(np.unique(timeline.recording)),
            "counts": counts,
            "unknown": unknown,
            "explained": list(timeline.extra),
            "resumed_after": n_found,
            "plot": None if picture is None else str(picture),
            "seconds": round(session.seconds, 3),
        },
        facts(shown),
        table,
        summary=True,
    )
