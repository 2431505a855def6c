"""``tensorcontrast evaluate``: how well a model's features tell the classes apart."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from tensorcontrast.cli.shared import data as recordings
from tensorcontrast.cli.shared import models, stored
from tensorcontrast.cli.shared.answering import answered
from tensorcontrast.cli.shared.options import Force, complete_data
from tensorcontrast.cli.shared.session import Session, UsageFailure, listing, safe
from tensorcontrast.cli.shared.stored import (
    Cluster,
    hashes_of,
    known_share,
    read_all,
    selected,
)
from tensorcontrast.errors import InvalidInputError
from tensorcontrast.io.atomic import atomic_write
from tensorcontrast.utils.names import listed

if TYPE_CHECKING:
    from tensorcontrast.classify import ContrastiveClassifier
    from tensorcontrast.classify.evaluation import AnswerScores
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


# ------------------------------------------------------------ a model of train


def evaluate_answers(
    session: Session,
    path: Path,
    model: ContrastiveClassifier,
    test: str,
    train: str | None,
    test_groups: str | None,
    reading: recordings.Reading,
    *,
    allow_leakage: bool,
    output: Path | None,
    force: bool,
) -> None:
    """Score the answers of a model on the labelled windows of ``test``."""
    from tensorcontrast.classify.evaluation import score_answers, what_decides

    if output is not None and output.suffix.lower() not in (".html", ".htm"):
        raise UsageFailure(f"-o {output.name}: the page is .html")
    page = None if output is None else session.target(output, force=force)
    rec = read_all(session, [test], reading, model=model.extractor_)
    if test_groups is not None:
        rec = _of_groups(rec, test_groups, test)
    if rec.y is None or not (rec.y >= 0).any():
        raise InvalidInputError(
            f"{test} has no labels, without which nothing can be scored; name them with --labels "
            f"(columns: {listed(rec.columns)})"
        )
    if model.smooth is None:  # else neighbours without a label count too
        rec = selected(rec, np.flatnonzero(rec.y >= 0))
    seen = None
    if train is not None:
        plain = replace(reading, labels=None, drop_unlabelled=False, inside_annotations=False)
        seen = read_all(session, [train], plain, model=model.extractor_)
    shared = _shared(model, seen, rec)
    leakage = _leakage(shared)
    if leakage and not allow_leakage:
        raise InvalidInputError(
            f"{test}: {leakage}; the scores would be too good. Test on other subjects, or pass "
            "--allow-leakage"
        )
    if leakage:
        session.warn(f"{leakage}; the scores are too good")
    if rec.groups is None:
        session.warn(
            f"{test} does not say whose the windows are, so that nothing tells whether a subject "
            "was in train; name the column with --groups"
        )
    timeline = answered(session, model, rec)
    judged = np.flatnonzero(rec.y >= 0)
    names = np.array([*(rec.classes or map(str, range(int(rec.y.max()) + 1)))])
    true = names[rec.y[judged]]
    scores = score_answers(
        true,
        timeline.label[judged],
        timeline.probabilities[judged],
        timeline.classes,
        None if rec.groups is None else rec.groups[judged],
    )
    unknown = sorted(set(true.tolist()) - set(timeline.classes))
    if unknown:
        session.warn(
            f"the model knows no {listed(unknown)}, so that these windows count as wrong; it knows "
            f"{listed(timeline.classes)}"
        )
    decision = what_decides(model)
    if page is not None:
        from tensorcontrast.report.html import render_html
        from tensorcontrast.report.of_answers import report_of_answers

        words = [*([] if train is None else ["--train", train])]
        words += [] if test_groups is None else ["--test-groups", test_groups]
        words += ["--allow-leakage"] if allow_leakage else []
        words += [*reading.arguments(), "-o", str(page), "--force"]
        command = shlex.join(["tensorcontrast", "evaluate", str(path), "--test", test, *words])
        data = report_of_answers(
            scores,
            title=f"Answers of {path.name} on {rec.name or 'recordings'}",
            leakage=leakage,
            command=command,
            decision=decision,
        )
        with atomic_write(page) as stream:
            stream.write(render_html(data).encode("utf-8", errors="replace"))
    _tell_answers(session, scores, path, rec, shared, page, decision)


def _of_groups(rec: Any, wanted: str, data: str) -> Any:
    if rec.groups is None:
        raise InvalidInputError(
            f"{data} does not say whose the windows are; name the column with --groups, or leave "
            "--test-groups out"
        )
    names = [name.strip() for name in wanted.split(",")]
    texts = rec.groups.astype(np.str_)
    missing = sorted(set(names) - set(texts.tolist()))
    if missing:
        raise InvalidInputError(
            f"{data}: no group {listed(missing)} for --test-groups; there are "
            f"{listed(sorted(set(texts.tolist())))}"
        )
    return selected(rec, np.flatnonzero(np.isin(texts, names)))


def _shared(model: ContrastiveClassifier, seen: Any, test: Any) -> dict[str, Any]:
    """Subjects and share of windows that train and test have in common."""
    kept = model.extractor_.fitted_on_ or {}
    known = set(kept.get("groups") or [])
    share = 0.0
    if kept.get("sketch") is not None:
        share = known_share(test, kept["sketch"])
    if seen is not None:
        if seen.groups is not None:
            known |= set(seen.groups.astype(np.str_).tolist())
        same = np.isin(hashes_of(test), hashes_of(seen)).mean()
        share = max(share, float(same), _overlapping(seen, test))
    own = set() if test.groups is None else set(test.groups.astype(np.str_).tolist())
    return {"subjects": sorted(known & own), "windows": share}


def _overlapping(seen: Any, test: Any) -> float:
    """Share of the test windows that overlap a training window in a recording of that name."""
    places = [(rec.columns.get("recording"), rec.columns.get("start")) for rec in (seen, test)]
    (names, starts), (own_names, own_starts) = places
    if names is None or starts is None or own_names is None or own_starts is None:
        return 0.0
    if names.dtype.kind != "U" or own_names.dtype.kind != "U":
        return 0.0  # numbers of recordings say nothing across files
    overlapping = np.zeros(len(test), dtype=bool)
    for name in np.intersect1d(names, own_names):
        other = np.sort(starts[names == name])
        at = np.flatnonzero(own_names == name)
        right = np.searchsorted(other, own_starts[at])
        for place in (right - 1, right):
            near = other[np.clip(place, 0, len(other) - 1)]
            overlapping[at] |= np.abs(near - own_starts[at]) < test.n_times
    return float(overlapping.mean())


def _leakage(shared: dict[str, Any]) -> str:
    parts = []
    if shared["subjects"]:
        parts.append(f"subjects {listed(shared['subjects'], 6)} are in train and in test")
    if shared["windows"] > 0:
        parts.append(f"{shared['windows']:.1%} of the test windows are, or overlap, training ones")
    return " and ".join(parts)


def _tell_answers(
    session: Session,
    scores: AnswerScores,
    model: Path,
    rec: Any,
    shared: dict[str, Any],
    page: Path | None,
    decided_by: dict[str, Any],
) -> None:
    def number(value: float | None) -> str:
        return "—" if value is None else f"{value:.3f}"

    summary = listing("score", "", numbers=("",))
    for name, value in (
        ("accuracy", scores.accuracy),
        ("balanced accuracy", scores.balanced_accuracy),
        ("macro F1", scores.macro_f1),
        ("macro AUC", scores.macro_auc),
        ("always the largest class", scores.majority),
        ("calibration error", scores.calibration_error),
    ):
        summary.add_row(name, number(value))
    numbers = ("windows", "recall", "precision", "F1", "AUC")
    classes = listing("class", *numbers, numbers=numbers)
    for row in scores.by_class:
        cells = [number(row[key]) for key in ("recall", "precision", "f1", "auc")]
        classes.add_row(safe(row["class"], 40), f"{row['windows']:,}", *cells)
    short = [str(safe(name, 12)) for name in scores.classes]
    matrix = listing("label \\ answer", *short, numbers=tuple(short))
    for name, counts in zip(scores.classes, scores.confusion.tolist(), strict=False):
        matrix.add_row(safe(name, 24), *(str(count) for count in counts))
    shown: list[Any] = [
        f"{scores.n_windows:,} windows with a label"
        + f", {scores.n_unknown:,} without an answer" * bool(scores.n_unknown),
        summary,
        classes,
        matrix,
    ]
    if scores.by_group:
        columns = ("windows", "accuracy", "balanced")
        people = listing("subject", *columns, numbers=columns)
        for row in scores.by_group:
            people.add_row(
                safe(row["group"], 24),
                f"{row['windows']:,}",
                number(row["accuracy"]),
                number(row["balanced_accuracy"]),
            )
        shown.append(people)
    if page is not None:
        shown.append(safe(f"page: {page}"))
    session.result(
        {
            "model": str(model),
            "data": rec.name,
            "windows": scores.n_windows,
            "unknown": scores.n_unknown,
            "accuracy": scores.accuracy,
            "balanced_accuracy": scores.balanced_accuracy,
            "macro_f1": scores.macro_f1,
            "macro_auc": scores.macro_auc,
            "majority": scores.majority,
            "calibration_error": scores.calibration_error,
            "reliability": scores.reliability,
            "classes": scores.classes,
            "confusion": scores.confusion,
            "by_class": scores.by_class,
            "by_subject": scores.by_group,
            "shared": shared,
            "decided_by": decided_by,
            "page": None if page is None else str(page),
            "seconds": round(session.seconds, 3),
        },
        *shown,
    )
