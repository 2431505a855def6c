"""``tensorcontrast convert``: a folder of recordings as one chunked Zarr store."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from tensorcontrast.cli.shared.options import complete_files
from tensorcontrast.cli.shared.session import Session, UsageFailure, facts, safe


def convert(
    session: Session,
    source: Annotated[
        str,
        typer.Argument(
            metavar="FOLDER",
            help="Folder, with all below it, of EDF, BDF, WFDB and npz files; or one file.",
            autocompletion=complete_files,
            show_default=False,
        ),
    ],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="STORE", help="Store to write, such as data.zarr."),
    ],
    window: Annotated[
        float | None,
        typer.Option("--window", metavar="S", help="Cut into windows of S seconds."),
    ] = None,
    step: Annotated[
        float | None,
        typer.Option("--step", metavar="S", help="From window to window; by default one window."),
    ] = None,
    channels: Annotated[
        str | None,
        typer.Option("--channels", metavar="A,B", help="Only these channels, in this order."),
    ] = None,
    groups: Annotated[
        str | None,
        typer.Option(
            "--groups",
            metavar="PATTERN",
            help=r"Subjects by file name, as '(?P<group>S\d+)'; default: patient code, else file.",
        ),
    ] = None,
    labels: Annotated[
        str | None,
        typer.Option(
            "--labels",
            metavar="PATTERN",
            help="EDF, WFDB: annotations that are labels, as 'Sleep stage (?P<label>.*)'.",
        ),
    ] = None,
    annotations: Annotated[
        str | None,
        typer.Option(
            "--annotations",
            metavar="FILES",
            help="EDF: files with the annotations, as '*-Hypnogram.edf'. WFDB: their suffix.",
        ),
    ] = None,
    drop_nan: Annotated[
        bool, typer.Option("--drop-nan", help="Leave out windows with missing values.")
    ] = False,
    chunk: Annotated[
        int, typer.Option("--chunk", metavar="MB", help="Size of a chunk.", min=1)
    ] = 16,
) -> None:
    """Write a folder of recordings to one chunked Zarr store, for fits larger than memory.

    A conversion that was stopped goes on when it is called again, and ends with the same store.
    """
    from tensorcontrast.distributed import convert as run
    from tensorcontrast.distributed import open_store

    if window is not None and not window > 0:
        raise UsageFailure(f"--window {window:g} is not above 0")
    overlap = 0.0
    if step is not None:
        if window is None:
            raise UsageFailure("--step goes with --window")
        if not 0 < step <= window:
            raise UsageFailure(f"--step {step:g} is not above 0 and at most --window {window:g}")
        overlap = 1.0 - step / window
    names = None if channels is None else [name.strip() for name in channels.split(",")]
    with session.progress("reading") as update:
        try:
            target = run(
                source,
                output,
                window_s=window,
                overlap=overlap,
                channels=names,
                drop_nan=drop_nan,
                groups=groups,
                labels=labels,
                annotations=annotations,
                chunk_bytes=chunk * 2**20,
                progress=lambda done, total: update(done=done, total=total),
            )
        except KeyboardInterrupt:
            raise KeyboardInterrupt(
                "the conversion was stopped; the same command goes on with it"
            ) from None
    rec = open_store(target)
    data = {
        "store": str(target),
        "samples": len(rec),
        "n_channels": rec.n_channels,
        "n_times": rec.n_times,
        "fs": rec.fs,
        "channels": rec.channels,
        "classes": rec.classes,
        "groups": 0 if rec.groups is None else len(np.unique(rec.groups)),
        "chunks": int(rec.X.numblocks[0]),
        "seconds": round(session.seconds, 3),
    }
    length = f"{rec.n_times} points" if rec.fs is None else f"{rec.n_times / rec.fs:.4g} s"
    shown = facts(
        {
            "store": safe(target),
            "data": f"{len(rec):,} windows, {rec.n_channels} channels, {length}, "
            f"{data['groups']:,} subjects",
            "chunks": f"{data['chunks']:,} of up to {rec.X.chunksize[0]:,} windows",
            "time": f"{session.seconds:.1f} s",
        }
    )
    session.result(data, shown, summary=True)
