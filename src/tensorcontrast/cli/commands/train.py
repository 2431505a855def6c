"""``tensorcontrast train``: a model that gives answers, from recordings with a few labels."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from tensorcontrast.cli.shared import data as recordings
from tensorcontrast.cli.shared.models import Keeping
from tensorcontrast.cli.shared.options import Force
from tensorcontrast.cli.shared.session import Session, UsageFailure, facts, listing, safe
from tensorcontrast.cli.shared.stored import ManyData, fitted_on, read_all, taken
from tensorcontrast.errors import InvalidInputError

if TYPE_CHECKING:
    from tensorcontrast.classify import ContrastiveClassifier
    from tensorcontrast.features import ContrastiveFeatures

__all__ = ["train"]

Array = NDArray[Any]
MODEL = "Model"
#: Bytes of windows of a store that train the classifier, at most; all train the features.
MAX_BYTES_FOR_CLASSIFIER = 512 * 2**20
#: Of these, windows without a label, at most, and labels of each class that are always used.
MAX_UNLABELLED, MIN_LABELS_PER_CLASS = 2000, 100


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
    end_s (optional) and label. Of a store only some windows are in memory at a time.
    """
    if missing not in ("error", "mask"):
        raise UsageFailure(f"--missing {missing!r}: use error or mask")
    if dwell is not None and not dwell > 1:
        raise UsageFailure(f"--dwell {dwell:g} is not above 1")
    target = session.target(output, force=force)
    begun = keeping.begun(session, target, force=force)
    rec = read_all(session, data, reading, gaps=missing == "mask")
    if missing == "mask" and not isinstance(rec.X, np.ndarray):
        raise UsageFailure(
            "--missing mask needs all windows in memory and is not for stores; name the recordings "
            "that the store was made of"
        )
    if rec.y is None or not (rec.y >= 0).any():
        raise InvalidInputError(
            f"{', '.join(data)}: no window has a label; name their column or annotations, or a "
            "table with recording, start_s and label, with --labels"
        )
    if rec.fs is None:
        session.note("no sampling rate: frequencies count in cycles per sample; pass --fs")
    options = {"smooth": "viterbi" if smooth else None, "dwell": dwell}
    from tensorcontrast.utils.estimators import with_learned

    model = _fitted(session, rec, rank, seed, missing, keeping, begun, options)
    fitted = with_learned(model.extractor_, fitted_on_=fitted_on(rec, groups=True))
    model = with_learned(model, extractor_=fitted)
    model.save(target)
    _tell(session, target, model, rec)


def _fitted(
    session: Session,
    rec: Any,
    rank: int | None,
    seed: int,
    missing: str,
    keeping: Keeping,
    begun: ContrastiveFeatures | None,
    options: dict[str, Any],
) -> ContrastiveClassifier:
    from tensorcontrast.classify import ContrastiveClassifier
    from tensorcontrast.decompose import PLC
    from tensorcontrast.features import ContrastiveFeatures

    core = PLC() if rank is None else PLC(rank=rank)
    features = ContrastiveFeatures(
        decompose=core, missing=missing, random_state=seed, verbose=session.shows_progress
    )
    keeping.check_same(begun, features)
    model = ContrastiveClassifier(features, random_state=seed, **options)
    try:
        if isinstance(rec.X, np.ndarray):
            return model.fit(rec, **keeping.arguments(begun))
        features.fit(rec, **keeping.arguments(begun))
        with session.progress("classifier"):
            return learn_classes(session, model, features, rec)
    except KeyboardInterrupt:
        learned = features if hasattr(features, "decompose_") else None
        raise keeping.stopped("the training", getattr(model, "extractor_", learned)) from None


def learn_classes(
    session: Session,
    model: ContrastiveClassifier,
    fitted: Any,
    rec: Any,
    max_bytes: int = MAX_BYTES_FOR_CLASSIFIER,
) -> ContrastiveClassifier:
    """Return a model, trained with some windows of a store, whose features are fitted."""
    from tensorcontrast.classify import ContrastiveClassifier, smoothing

    chosen = chosen_windows(rec, max_bytes)
    n_labels, n_used = int((rec.y >= 0).sum()), int((rec.y[chosen] >= 0).sum())
    if n_used < n_labels:
        session.note(f"{n_used:,} of {n_labels:,} labels train the classifier, taken from all")
    smooth = model.smooth
    options = {**model.get_params(deep=False), "smooth": None}
    del options["features"]
    model = ContrastiveClassifier.on_features(fitted, taken(rec, chosen), **options).set_params(
        smooth=smooth
    )
    if "recording" in rec.columns:  # neighbours are known from all windows alone
        names = rec.y if rec.classes is None else np.array([*rec.classes, ""])[rec.y]
        place = {name: k for k, name in enumerate(model.classes_.tolist())}
        codes = np.array([place.get(name, -1) for name in names.tolist()])
        runs = list(
            smoothing.runs_of(rec.columns["recording"], rec.columns.get("start"), rec.n_times)
        )
        model.learn_transitions(runs, codes)
    if smooth is not None:
        model.transitions()  # an error where nothing was learned
    return model


def chosen_windows(rec: Any, max_bytes: int = MAX_BYTES_FOR_CLASSIFIER) -> NDArray[np.int64]:
    """Numbers of the windows of a store that train the classifier: all, where they fit.

    Else the labelled ones, or as many of each class as its share allows, and some of the others,
    evenly from all of the store.
    """
    row = max(1, rec.n_channels * rec.n_times * rec.X.dtype.itemsize)
    most = max(1, max_bytes // row)
    if len(rec) <= most:
        return np.arange(len(rec))
    labelled = np.flatnonzero(rec.y >= 0)
    share = min(1.0, most / 2 / max(1, len(labelled)))
    parts = []
    for code in np.unique(rec.y[labelled]):
        own = np.flatnonzero(rec.y == code)
        count = min(len(own), max(round(share * len(own)), MIN_LABELS_PER_CLASS))
        parts.append(own[np.linspace(0, len(own) - 1, count).astype(np.intp)])
    rest = np.flatnonzero(rec.y < 0)
    count = min(len(rest), MAX_UNLABELLED, max(1, most // 2))
    parts.append(rest[np.linspace(0, len(rest) - 1, count).astype(np.intp)])
    return np.sort(np.concatenate(parts))


def _tell(session: Session, target: Path, model: ContrastiveClassifier, rec: Any) -> None:
    from tensorcontrast.classify.evaluation import what_decides

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
    judged = "no label could be held out"
    if checked["accuracy"] is not None:
        judged = (
            f"accuracy {checked['accuracy']:.3f} on {checked['n_windows']} labels, by models "
            f"trained on {by}; calibration error {checked['calibration_error']:.3f}, softmax "
            f"temperature {model.temperature_:.3g}"
        )
    decision = what_decides(model)
    shown: dict[str, object] = {
        "model": safe(target),
        "data": f"{len(rec):,} windows, {sum(labels.values()):,} of them labelled",
        "decided by": decision["classifier"],
        "held out": judged,
    }
    if model.stay_ is not None:
        used = "used" if decision["smooth"] else "not used without --smooth"
        kept = np.diagonal(model.transitions()) @ model.n_labels_ / model.n_labels_.sum()
        lasts = 1 / (1 - kept) if model.dwell is None else float(model.dwell)
        shown["neighbours"] = f"a class lasts {lasts:,.1f} windows on average ({used})"
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
            "decided_by": decision,
            "held_out": checked,
            "seconds": round(session.seconds, 3),
        },
        facts({**shown, "time": f"{session.seconds:.1f} s"}),
        table,
        summary=True,
    )
