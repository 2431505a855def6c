"""``tensorcontrast evaluate``: how well a model's features tell the classes apart."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from tensorcontrast.cli.shared import data as recordings
from tensorcontrast.cli.shared import model as models
from tensorcontrast.cli.shared import stored
from tensorcontrast.cli.shared.cluster import Cluster
from tensorcontrast.cli.shared.failures import UsageFailure
from tensorcontrast.cli.shared.options import Force, complete_data
from tensorcontrast.cli.shared.session import Session, listing, safe
from tensorcontrast.errors import InvalidInputError
from tensorcontrast.utils.names import listed

if TYPE_CHECKING:
    from tensorcontrast.classify import ContrastiveClassifier
    from tensorcontrast.evaluate.cross_validation import Score
    from tensorcontrast.features import ContrastiveFeatures
    from tensorcontrast.recordings import Recordings

Array = NDArray[Any]
PROBE = "Probe, for a model of fit"
ANSWERS = "Answers, for a model of train"


def _answers(*names: str, help: str, **more: Any) -> Any:
    return typer.Option(*names, help=help, rich_help_panel=ANSWERS, show_default=False, **more)


def evaluate(
    session: Session,
    model: models.Model,
    data: Annotated[
        str | None,
        typer.Argument(
            metavar="DATA",
            help="Recordings with labels: a file, folder, pattern, store or built-in dataset.",
            autocompletion=complete_data,
            show_default=False,
        ),
    ] = None,
    test: Annotated[
        str | None, _answers("--test", metavar="DATA", help="Recordings to test on.")
    ] = None,
    train: Annotated[
        str | None,
        _answers("--train", metavar="DATA", help="What the model was trained on, to be compared."),
    ] = None,
    test_groups: Annotated[
        str | None,
        _answers("--test-groups", metavar="A,B", help="Test on these subjects alone."),
    ] = None,
    allow_leakage: Annotated[
        bool,
        _answers("--allow-leakage", help="Go on where train and test share subjects or windows."),
    ] = False,
    output: Annotated[
        Path | None, _answers("--output", "-o", metavar="FILE", help="Write a page (.html).")
    ] = None,
    budgets: Annotated[
        str,
        typer.Option(
            "--budgets",
            "-b",
            metavar="N,P%",
            help="Labels for training: numbers or shares.",
            rich_help_panel=PROBE,
        ),
    ] = "30,60,100%",
    folds: Annotated[
        int,
        typer.Option(
            "--folds", metavar="N", min=2, help="Parts, by subject.", rich_help_panel=PROBE
        ),
    ] = 5,
    seed: Annotated[
        int,
        typer.Option("--seed", "-s", metavar="N", min=0, help="Seed.", rich_help_panel=PROBE),
    ] = 0,
    ungrouped: Annotated[
        bool,
        typer.Option(
            "--ungrouped",
            help="Split window by window: too good where windows share a subject.",
            rich_help_panel=PROBE,
        ),
    ] = False,
    reading: recordings.Reading = recordings.Reading(),  # noqa: B008
    cluster: Cluster = Cluster(),  # noqa: B008
    force: Force = False,
) -> None:
    """Score a model: the answers of train, or the features of fit.

    A model of train is tested as it is: evaluate MODEL --test DATA. Subjects or windows that are
    both in train and in test are an error. For a model of fit, a logistic classifier is
    cross-validated on its features: each subject is tested once, by a classifier that saw labels
    of other subjects only. DATA needs labels and subjects (--labels, --groups).
    """
    from tensorcontrast.evaluate.cross_validation import cross_validate

    trained = _trained(model)
    asked = test is not None or train is not None or test_groups is not None or output is not None
    if data is not None and test is not None:
        raise UsageFailure("DATA and --test are both given; name the recordings to test on once")
    if data is None and test is None:
        raise UsageFailure("DATA is missing: name the recordings to test on")
    if trained is not None:
        from tensorcontrast.cli.commands.evaluate_answers import evaluate_answers

        return evaluate_answers(
            session,
            model,
            trained,
            str(test or data),
            train,
            test_groups,
            reading,
            allow_leakage=allow_leakage,
            output=output,
            force=force,
        )
    if asked or data is None:
        raise UsageFailure(
            f"{model} holds features without a classifier, and --test, --train, --test-groups and "
            "-o are for models of train; write one with: tensorcontrast train DATA -o model.tcm"
        )
    amounts = parse_budgets(budgets)
    fitted = models.load(model)
    rec = stored.opened(session, data, reading, cluster, model=fitted)
    y, groups = _labels(rec, data), _groups(rec, data, ungrouped)
    n_folds = _folds(session, folds, groups[y >= 0])
    _rare(session, rec, y, groups)
    labelled = y >= 0
    with cluster.running(session):
        known = _known(session, fitted, rec)
        features = stored.features_of(session, fitted, rec, cluster=cluster, only=labelled)
    with session.progress("probing") as update:
        scores, predictions = cross_validate(
            features,
            y[labelled],
            groups[labelled],
            amounts,
            n_folds=n_folds,
            seed=seed,
            progress=lambda done, total: update(done=done, total=total),
        )
    for score in scores:
        for reason in score.skipped[:1]:
            session.warn(f"budget {score.budget}: {len(score.skipped)} folds left out; {reason}")
    if not any(score.accuracy for score in scores):
        raise InvalidInputError(
            f"no fold of {data} could be scored: {scores[0].skipped[0]}; label more subjects"
        )
    counts = np.bincount(y[labelled])
    recall = {
        _class(rec, c): float((predictions[y[labelled] == c] == c).mean())
        for c in np.flatnonzero(counts)
    }
    unit = "windows" if ungrouped else "subjects"
    _tell(session, scores, counts, recall, known, n_folds, unit, str(model), rec, groups[labelled])


def _trained(path: Path) -> ContrastiveClassifier | None:
    """Return the model where it gives answers."""
    from tensorcontrast.classify import ContrastiveClassifier
    from tensorcontrast.io.model_files import load_model

    found = load_model(path.expanduser())
    return found if isinstance(found, ContrastiveClassifier) else None


def parse_budgets(text: str) -> list[int | str]:
    """Label budgets such as ``30,60,100%``."""
    out: list[int | str] = []
    for part in (p.strip() for p in text.split(",")):
        try:
            share = float(part.removesuffix("%"))
        except ValueError:
            share = -1.0
        good = 0 < share <= 100 if part.endswith("%") else share >= 1 and share == int(share)
        if not good:
            raise UsageFailure(
                f"--budgets {text!r}: {part!r} is neither a number of labels nor a share; write "
                "30,60,100%"
            )
        out.append(part if part.endswith("%") else int(share))
    return out


def _labels(rec: Recordings, data: str) -> NDArray[np.int64]:
    if rec.y is None or not (rec.y >= 0).any():
        has = listed(rec.columns)
        raise InvalidInputError(
            f"{data} has no labels, without which nothing can be scored; name their column with "
            f"--labels (columns: {has})"
        )
    there = np.unique(rec.y[rec.y >= 0])
    if len(there) < 2:
        raise InvalidInputError(
            f"every label of {data} is {_class(rec, int(there[0]))!r}; two classes are needed"
        )
    return rec.y


def _groups(rec: Recordings, data: str, ungrouped: bool) -> Array:
    if ungrouped:
        return np.arange(len(rec))
    if rec.groups is None:
        has = listed(rec.columns)
        raise InvalidInputError(
            f"{data} does not say whose the windows are, so that one subject could be in train "
            f"and test; name the column with --groups (columns: {has}), or pass --ungrouped"
        )
    return rec.groups


def _folds(session: Session, wanted: int, groups: Array) -> int:
    subjects = len(np.unique(groups))
    if subjects < 2:
        raise InvalidInputError(
            "all labels are of one subject, so that none is left to test on; add recordings of "
            "others, or pass --ungrouped for a split window by window"
        )
    if subjects < wanted:
        session.note(f"{subjects} subjects: {subjects} folds of one subject each")
    return min(wanted, subjects)


def _known(session: Session, model: ContrastiveFeatures, rec: Recordings) -> float | None:
    """Share of the windows that the model was fitted on; None where it does not tell."""
    kept = (model.fitted_on_ or {}).get("sketch")
    if kept is None:
        session.detail("the model does not say what it was fitted on")
        return None
    share = stored.known_share(rec, kept)
    if share > 0:
        session.warn(
            f"the model was fitted on {share:.0%} of these windows (without their labels); for "
            "honest numbers evaluate on subjects that it has not seen"
        )
    return share


def _rare(session: Session, rec: Recordings, y: Array, groups: Array) -> None:
    """Warn of classes that one subject alone has: no other can teach them."""
    alone = [
        _class(rec, int(c)) for c in np.unique(y[y >= 0]) if len(np.unique(groups[y == c])) == 1
    ]
    if alone:
        session.warn(
            f"only one subject has {listed(alone)}: where it is tested, "
            "train lacks the class, and it cannot be predicted"
        )


def _class(rec: Recordings, c: int) -> str:
    return str(c) if rec.classes is None else rec.classes[c]


def _tell(
    session: Session,
    scores: list[Score],
    counts: Array,
    recall: dict[str, float],
    known: float | None,
    n_folds: int,
    unit: str,
    model: str,
    rec: Recordings,
    groups: Array,
) -> None:
    measures = ("accuracy", "balanced_accuracy", "macro_f1")
    majority = float(counts.max() / counts.sum())
    rows = []
    table = listing(
        "labels", "accuracy", "balanced", "macro F1", numbers=("accuracy", "balanced", "macro F1")
    )
    for score in scores:
        row: dict[str, Any] = {"budget": score.budget, "folds": len(score.accuracy)}
        cells = []
        for measure in measures:
            mean, sd = score.mean_sd(measure)
            row |= {measure: mean, f"{measure}_sd": sd}
            cells.append("—" if mean != mean else f"{mean:.3f}" + f" ± {sd:.3f}" * (sd == sd))
        row["n_labels"] = score.n_labels
        rows.append(row)
        table.add_row("all" if score.budget == "100%" else str(score.budget), *cells)
    block = "▇" if session.out.encoding.lower().startswith("utf") else "="
    recalls = listing("class", "windows", "recall", "", numbers=("windows", "recall"))
    for (name, value), count in zip(recall.items(), counts[counts > 0], strict=True):
        recalls.add_row(safe(name, 40), f"{count:,}", f"{value:.3f}", block * round(20 * value))
    n_subjects = len(np.unique(groups))
    session.result(
        {
            "model": model,
            "data": rec.name,
            "samples": int(counts.sum()),
            "subjects": n_subjects if unit == "subjects" else None,
            "classes": list(recall),
            "split": unit,
            "folds": n_folds,
            "majority": majority,
            "scores": rows,
            "recall": recall,
            "fitted_on_share": known,
            "seconds": round(session.seconds, 3),
        },
        f"{counts.sum():,} windows, {len(recall)} classes, {n_subjects:,} {unit}; mean ± sd over "
        f"{n_folds} folds by {unit.removesuffix('s')}",
        table,
        f"always the largest class: {majority:.3f}\n",
        f"by class, labels {'all' if scores[-1].budget == '100%' else scores[-1].budget}:",
        recalls,
    )
