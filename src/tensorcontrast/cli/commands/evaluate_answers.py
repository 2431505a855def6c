"""``tensorcontrast evaluate`` of a trained model: its answers on recordings it has not seen."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tensorcontrast.cli.shared import data as recordings
from tensorcontrast.cli.shared.answering import answered
from tensorcontrast.cli.shared.failures import UsageFailure
from tensorcontrast.cli.shared.many import read_all
from tensorcontrast.cli.shared.session import Session, listing, safe
from tensorcontrast.cli.shared.stored import hashes_of, known_share, selected, taken
from tensorcontrast.errors import InvalidInputError
from tensorcontrast.io.atomic import atomic_write
from tensorcontrast.utils.names import listed

if TYPE_CHECKING:
    from tensorcontrast.classify import ContrastiveClassifier
    from tensorcontrast.classify.evaluation import AnswerScores

__all__ = ["evaluate_answers"]

Array = NDArray[Any]

#: Windows on which the parts of a classifier are compared, at most.
MAX_WINDOWS_FOR_PARTS = 1000


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
    from tensorcontrast.classify.deciding import agreement_of_parts, what_decides
    from tensorcontrast.classify.evaluation import score_answers

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
    some = np.linspace(0, len(rec) - 1, min(len(rec), MAX_WINDOWS_FOR_PARTS)).astype(np.intp)
    alone = agreement_of_parts(model, taken(rec, some))
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
            alone=alone,
        )
        with atomic_write(page) as stream:
            stream.write(render_html(data).encode("utf-8", errors="replace"))
    _tell(session, scores, path, rec, shared, page, {**decision.to_dict(), "same_alone": alone})


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


def _tell(
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
