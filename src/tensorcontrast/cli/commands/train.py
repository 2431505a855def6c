"""``tensorcontrast train``: a model that gives answers, from recordings with a few labels."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from tensorcontrast.cli.shared import data as recordings
from tensorcontrast.cli.shared.failures import UsageFailure
from tensorcontrast.cli.shared.keeping import Checkpoint, Keeping
from tensorcontrast.cli.shared.many import ManyData, read_all, remember
from tensorcontrast.cli.shared.options import Force
from tensorcontrast.cli.shared.session import Session, facts, listing, safe
from tensorcontrast.errors import InvalidInputError

if TYPE_CHECKING:
    from tensorcontrast.classify import ContrastiveClassifier
    from tensorcontrast.recordings import Recordings

__all__ = ["train"]

MODEL = "Model"


def _option(*names: str, help: str, **more: Any) -> Any:
    return typer.Option(*names, help=help, rich_help_panel=MODEL, show_default=False, **more)


def train(
    session: Session,
    data: ManyData,
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="MODEL", help="Model file to write.", show_default=False
        ),
    ],
    classifier: Annotated[
        str,
        _option(
            "--classifier",
            metavar="NAME",
            help="What it sees: features, blocks (of which features are made) or auto: both.",
        ),
    ] = "auto",
    smooth: Annotated[
        bool,
        _option("--smooth", help="Take neighbouring windows of a recording into account."),
    ] = False,
    dwell: Annotated[
        float | None,
        _option("--dwell", metavar="N", help="Windows that a class lasts; default: learned."),
    ] = None,
    rank: Annotated[
        int | None, _option("--rank", "-r", metavar="N", help="Number of features (32).", min=1)
    ] = None,
    seed: Annotated[int, _option("--seed", "-s", metavar="N", help="Seed (0).", min=0)] = 0,
    missing: Annotated[
        str,
        _option(
            "--missing",
            metavar="HOW",
            help="Missing values: error (default), or mask to leave them out.",
        ),
    ] = "error",
    keeping: Keeping = Keeping(),  # noqa: B008
    reading: recordings.Reading = recordings.Reading(),  # noqa: B008
    force: Force = False,
) -> None:
    """Learn classes from recordings of which some windows have a label.

    All windows train the features, the labelled ones the classifier. Labels are a column, the
    annotations, or a table of their own: --labels labels.csv with the columns recording, start_s,
    end_s (optional) and label.
    """
    if missing not in ("error", "mask"):
        raise UsageFailure(f"--missing {missing!r}: use error or mask")
    if classifier not in ("auto", "features", "blocks"):
        raise UsageFailure(f"--classifier {classifier!r}: use auto, features or blocks")
    if dwell is not None and not dwell > 1:
        raise UsageFailure(f"--dwell {dwell:g} is not above 1")
    target = session.target(output, force=force)
    kept = keeping.prepared(session, None, force=force)
    if kept.path is not None and target.absolute() == kept.path.absolute():
        raise UsageFailure("the model (-o) and the checkpoint need files of their own")
    rec = read_all(session, data, reading, gaps=missing == "mask")
    if rec.y is None or not (rec.y >= 0).any():
        raise InvalidInputError(
            f"{', '.join(data)}: no window has a label; name their column or annotations, or a "
            "table with recording, start_s and label, with --labels"
        )
    if rec.fs is None:
        session.note("no sampling rate: frequencies count in cycles per sample; pass --fs")
    options = {"classifier": classifier, "smooth": "viterbi" if smooth else None, "dwell": dwell}
    model = _fitted(session, rec, rank, seed, missing, kept, options)
    remember(model.extractor_, rec)
    model.save(target)
    _tell(session, target, model, rec)


def _fitted(
    session: Session,
    rec: Recordings,
    rank: int | None,
    seed: int,
    missing: str,
    kept: Checkpoint,
    options: dict[str, Any],
) -> ContrastiveClassifier:
    from tensorcontrast.classify import ContrastiveClassifier
    from tensorcontrast.cli.shared.model import without_callback
    from tensorcontrast.decompose import PLC
    from tensorcontrast.features import ContrastiveFeatures
    from tensorcontrast.utils.estimators import changed, changed_fitted

    with session.progress("features: spectrograms") as update:

        def show(row: dict[str, float]) -> None:
            update(text=f"features: iteration {int(row['iteration'])}")

        core = PLC(callback=show) if rank is None else PLC(rank=rank, callback=show)
        features = ContrastiveFeatures(decompose=core, missing=missing, random_state=seed)
        model = ContrastiveClassifier(features, random_state=seed, **options)
        try:
            model.fit(rec, checkpoint=kept.path, resume=kept.resume or None)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(f"the training was stopped; {kept.way_on}") from None
    plain = changed_fitted(
        model,
        features=changed(features, decompose=changed(core, callback=None)),
    )
    plain.extractor_ = without_callback(model.extractor_)
    return plain


def _tell(session: Session, target: Path, model: ContrastiveClassifier, rec: Recordings) -> None:
    checked = model.validation_
    n_groups = 0 if rec.groups is None else len(np.unique(rec.groups))
    labels = dict(zip(map(str, model.classes_.tolist()), model.n_labels_.tolist(), strict=True))
    single = [name for name, count in labels.items() if count == 1]
    if single:
        session.warn(
            f"one label alone for {', '.join(single)}: no held-out window can judge "
            f"{'it' if len(single) == 1 else 'them'}; label a few more"
        )
    table = listing("class", "labels", numbers=("labels",))
    for name, count in labels.items():
        table.add_row(safe(name, 40), f"{count:,}")
    by = "other people" if checked["by"] == "group" else "other windows"
    told = "no label could be held out"
    if checked["accuracy"] is not None:
        told = (
            f"accuracy {checked['accuracy']:.3f} on {checked['n_windows']} labels, by models "
            f"trained on {by}; calibration error {checked['calibration_error']:.3f}"
        )
    session.result(
        {
            "model": str(target),
            "data": rec.name,
            "windows": len(rec),
            "groups": n_groups,
            "labels": labels,
            "n_features": int(model.extractor_.decompose_.rank_),
            "inputs": int(model.coef_.shape[1]),
            "temperature": model.temperature_,
            "stay": model.stay_,
            "held_out": checked,
            "seconds": round(session.seconds, 3),
        },
        facts(
            {
                "model": safe(target),
                "data": f"{len(rec):,} windows, {sum(labels.values()):,} of them labelled",
                "held out": told,
                "time": f"{session.seconds:.1f} s",
            }
        ),
        table,
        summary=True,
    )
