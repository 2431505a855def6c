"""``tensorcontrast transform``: features of recordings as a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from tensorcontrast.cli.shared import data as recordings
from tensorcontrast.cli.shared import models, stored
from tensorcontrast.cli.shared.feature_files import check, may_replace, writing
from tensorcontrast.cli.shared.options import Force
from tensorcontrast.cli.shared.session import Session, facts, safe
from tensorcontrast.cli.shared.stored import Cluster


def transform(
    session: Session,
    model: models.Model,
    data: recordings.Data,
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="What to write: .npz, .csv, .parquet or .zarr.",
            show_default=False,
        ),
    ],
    reading: recordings.Reading = recordings.Reading(),  # noqa: B008
    cluster: Cluster = Cluster(),  # noqa: B008
    force: Force = False,
) -> None:
    """Turn recordings into features by a fitted model.

    One row per window, with its label, subject and place where DATA has them. Channels are picked
    by name and longer signals cut as the model needs. Stores written by convert are read, and
    rows written, block by block.
    """
    folder = check(output) == ".zarr"
    target = session.target(output, force=force, folder=folder)
    if folder:
        may_replace(target)
    fitted = models.load(model)
    rec = stored.opened(session, data, reading, cluster, model=fitted)
    width = int(fitted.decompose_.rank_)
    with cluster.running(session), session.progress("features", total=len(rec)) as update:
        with writing(target, rec, width) as write:
            done = 0
            for block in stored.feature_blocks(fitted, rec, spread=cluster.wanted):
                write(block)
                done += len(block)
                update(done=done)
            update(text=f"writing {target.name}")
    session.result(
        {
            "features": str(target),
            "model": str(model),
            "data": rec.name,
            "samples": len(rec),
            "n_features": width,
            "labelled": 0 if rec.y is None else int((rec.y >= 0).sum()),
            "groups": 0 if rec.groups is None else len(np.unique(rec.groups)),
            "seconds": round(session.seconds, 3),
        },
        facts(
            {
                "features": safe(target),
                "size": f"{len(rec):,} windows × {width} features",
                "time": f"{session.seconds:.1f} s",
            }
        ),
        summary=True,
    )
