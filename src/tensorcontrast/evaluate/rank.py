"""Choosing the rank: information criterion, core consistency, split halves, accuracy by rank."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from tensorcontrast.cp import diagnostics
from tensorcontrast.decompose import PLC, diagnosis
from tensorcontrast.decompose.base import CPEstimator
from tensorcontrast.decompose.diagnosis import STABLE
from tensorcontrast.errors import InvalidInputError
from tensorcontrast.evaluate.cross_validation import cross_validate
from tensorcontrast.features import ContrastiveFeatures

__all__ = ["Criteria", "RankCurve", "RankPoint", "information_criteria", "rank_curve"]

Array = NDArray[Any]

DEFAULT_RANKS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
"""Ranks that are compared where none are named."""

NEARLY = 0.05
"""How far below the most similar halves a rank may be where none passes."""

N_FOLDS = 5
"""Folds by subject of the accuracy, at most."""

RULE = (
    "the largest rank, up to the one with the smallest BIC, whose components are found again in "
    f"two halves of the subjects (mean similarity of {STABLE:g} or more)"
)


@dataclass(frozen=True)
class Criteria:
    """AIC and BIC of a fitted CP model on the data it was fitted on; smaller is better."""

    aic: float
    bic: float
    log_likelihood: float
    n_parameters: int


@dataclass(frozen=True)
class RankPoint:
    """What is known of one rank.

    Examples
    --------
    >>> from tensorcontrast import CPD
    >>> from tensorcontrast.datasets import make_cp_tensor
    >>> from tensorcontrast.evaluate import rank_curve
    >>> X, *_ = make_cp_tensor(n_samples=80, dims=(5, 6, 7), rank=2, noise=0.1, random_state=0)
    >>> point = rank_curve(CPD(random_state=0), X, [1, 2]).points[1]
    >>> point.rank, point.explained > 0.9, point.accuracy  # no labels, no accuracy
    (2, True, None)
    """

    rank: int
    bic: float
    explained: float
    """Share of the variance about the mean that the components explain."""
    core_consistency: float | None
    """In percent, the smallest over the blocks; None where no block determines it."""
    split_similarity: float | None
    """Factor match score of fits of two halves, mean over the splits; None: too few windows."""
    accuracy: float | None = None
    """Of a logistic probe with all labels, cross-validated by subject; None without labels."""
    accuracy_sem: float | None = None
    """Its standard error over the folds."""


@dataclass(frozen=True)
class RankCurve:
    """Outcome of :func:`rank_curve`; printed as a table.

    Examples
    --------
    >>> from tensorcontrast import CPD
    >>> from tensorcontrast.datasets import make_cp_tensor
    >>> from tensorcontrast.evaluate import rank_curve
    >>> X, *_ = make_cp_tensor(n_samples=80, dims=(5, 6, 7), rank=2, noise=0.1, random_state=0)
    >>> curve = rank_curve(CPD(random_state=0), X, [1, 2, 3])
    >>> [point.rank for point in curve.points], curve.recommended, curve.split_by
    ([1, 2, 3], 2, 'windows')
    """

    points: tuple[RankPoint, ...]
    recommended: int
    """The rank that :data:`RULE` gives."""
    reason: str
    """Why this one."""
    accuracy_rank: int | None
    """Smallest rank within one standard error of the best accuracy; None without labels."""
    n_windows: int
    split_by: str
    """What was divided in halves: "subjects" or "windows"."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {**asdict(self), "points": [asdict(p) for p in self.points], "rule": RULE}

    def to_json(self) -> str:
        """Return the same as text."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False)

    def __str__(self) -> str:
        lines = [" rank           BIC  explained    core  halves  accuracy"]
        for p in self.points:
            core, half, accuracy = (
                "–" if value is None else form.format(value)
                for value, form in (
                    (p.core_consistency, "{:.0f}"),
                    (p.split_similarity, "{:.2f}"),
                    (p.accuracy, "{:.3f}"),
                )
            )
            lines.append(
                f"{p.rank:5d}  {p.bic:12.5g}  {p.explained:9.1%}  {core:>6s}  {half:>6s}  "
                f"{accuracy:>8s}"
            )
        lines.append(f"recommended rank: {self.recommended} ({self.reason})")
        if self.accuracy_rank is not None:
            lines.append(
                f"smallest rank within one standard error of the best accuracy: "
                f"{self.accuracy_rank}"
            )
        return "\n".join(lines)


def rank_curve(
    estimator: Any,
    X: Any,
    ranks: Sequence[int] = DEFAULT_RANKS,
    *,
    y: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    n_init: int = 3,
    n_splits: int = 2,
    random_state: int = 0,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> RankCurve:
    """Compare ranks by BIC, core consistency, split halves and, with labels, accuracy.

    The recommended rank is the largest one, up to that with the smallest BIC (E18), whose
    components are found again in two halves of the subjects: a factor match score of 0.85 or more.
    It needs no labels. Where no rank passes, the largest one within 0.05 of the most similar
    halves is recommended, and ``reason`` says so. The core consistency is no part of the rule: it
    is not determined for ranks above the length of the shortest mode, and close to it amplifies
    noise.

    It is a rank for components that are to be interpreted. Features for a classifier gain from more
    components than can be identified one by one: with labels, look at the accuracy.

    Parameters
    ----------
    estimator : CPD, ATD, PLC or ContrastiveFeatures
        Cloned for every rank.
    X : array-like (n, I_1, …, I_K), list of coupled blocks; signals or Recordings
        As the estimator takes it. Of Recordings, labels and groups are used where ``y`` and
        ``groups`` are not given.
    ranks : sequence of int
        Ranks to compare.
    y : array-like (n,), optional
        Classes, −1 for unknown. They are used for the accuracy alone.
    groups : array-like (n,), optional
        Subject of each window.
    n_init : int, default=3
        Random starts of each fit; the one with the lowest objective counts.
    n_splits : int, default=2
        Times that the subjects are divided in halves.
    random_state : int, default=0
        Seeds halves and folds.
    progress : callable, optional
        Called with the number of ranks that are done, and of all.

    Returns
    -------
    RankCurve

    Examples
    --------
    >>> from tensorcontrast import CPD
    >>> from tensorcontrast.datasets import make_cp_tensor
    >>> from tensorcontrast.evaluate import rank_curve
    >>> X, *_ = make_cp_tensor(n_samples=80, dims=(5, 6, 7), rank=3, noise=0.1, random_state=0)
    >>> rank_curve(CPD(random_state=0), X, [1, 2, 3, 4, 5]).recommended
    3
    """
    wanted = _checked_ranks(ranks)
    if hasattr(X, "groups") and hasattr(X, "channels"):
        y, groups = (X.y if y is None else y), (X.groups if groups is None else groups)
    some, extra = slice(None), {}
    if isinstance(estimator, ContrastiveFeatures):
        core = clone(estimator.decompose or PLC()).set_params(rank=wanted[0])
        base = clone(estimator).set_params(decompose=core)
        with diagnosis.quiet():
            base.fit(X)
        tensors, some, extra = base.decomposed(X, random_state)
        estimator = clone(base.decompose_)
        if y is None:  # components are compared, in which the metric plays no part
            extra.pop("nuisance", None)
    elif isinstance(estimator, CPEstimator):
        tensors = X
    else:
        raise InvalidInputError(
            f"{type(estimator).__name__} has no rank to choose; pass CPD, ATD, PLC or "
            "ContrastiveFeatures"
        )
    labels = None if y is None else np.asarray(y)[some]
    points: list[RankPoint] = []
    codes: NDArray[np.intp] | None = None
    for done, rank in enumerate(wanted):
        progress(done, len(wanted))
        unfitted = clone(estimator).set_params(rank=rank)
        model = _best_fit(unfitted, tensors, extra, n_init)
        in_memory = diagnosis.in_memory(model, tensors)
        rows = diagnosis.rows_of(model, in_memory)
        if codes is None:
            own = None if groups is None else np.asarray(groups)[some]
            codes = diagnosis.group_codes(own, len(rows))
        point = _point(model, rows, codes, rank)
        point = _halved(point, model, in_memory, codes, n_splits, n_init, random_state, extra)
        if labels is not None:
            point = _scored(point, model.transform(tensors), labels, codes, random_state)
        points.append(point)
    progress(len(wanted), len(wanted))
    assert codes is not None
    recommended, reason = recommend(points)
    split_by = "windows" if groups is None else "subjects"
    return RankCurve(tuple(points), recommended, reason, _accurate(points), len(codes), split_by)


def recommend(points: Sequence[RankPoint]) -> tuple[int, str]:
    """Return the rank that the rule gives, and why."""
    ranks = [p.rank for p in points]
    largest = min(points, key=lambda p: p.bic).rank
    edge = largest == max(ranks) and len(ranks) > 1
    bic = f"the BIC is smallest at {largest}" + (", the largest rank of all" if edge else "")
    passed = [
        p.rank
        for p in points
        if p.rank <= largest and (p.split_similarity is None or p.split_similarity >= STABLE)
    ]
    if passed:
        found = max(passed)
        if found == largest:
            return found, f"{bic}, and its components are stable"
        return found, f"{bic}, and this is the largest rank up to it with stable components"
    if any(p.split_similarity is not None for p in points):
        scores = {p.rank: p.split_similarity or 0.0 for p in points if p.rank <= largest}
        best = max(r for r, score in scores.items() if score >= max(scores.values()) - NEARLY)
        return best, (
            f"{bic}, but no rank up to it passes; the halves are about as similar as they get at "
            f"this one ({scores[best]:.2f})"
        )
    return largest, bic


def _checked_ranks(ranks: Sequence[int]) -> list[int]:
    try:
        found = sorted({int(rank) for rank in ranks})
        whole = all(int(rank) == rank for rank in ranks)
    except (TypeError, ValueError):
        found, whole = [], False
    if not whole or not found or found[0] < 1:
        raise InvalidInputError(f"ranks={ranks!r} must be whole numbers of at least 1")
    return found


def _best_fit(
    unfitted: Any,
    X: Any,
    extra: dict[str, Any],
    n_init: int,
    at: NDArray[np.intp] | None = None,
) -> Any:
    """Return the fit with the lowest objective, of so many seeds, to some of the windows."""
    fits = (
        diagnosis.refitted(unfitted, X, extra, seed=seed, at=at) for seed in range(-1, n_init - 1)
    )
    return min(fits, key=lambda model: model.history_["objective"][-1])


def _point(model: Any, rows: Array, codes: NDArray[np.intp], rank: int) -> RankPoint:
    measured = diagnosis.measure(model, rows)
    dims = model.block_dims_ or (model.dims_,)
    criteria = gaussian_criteria(measured.explained, len(rows), dims, model.rank_, rows.dtype)
    cores = [value for value in measured.core_consistency if value is not None]
    return RankPoint(rank, criteria.bic, measured.explained, min(cores, default=None), None)


def _halved(
    point: RankPoint,
    model: Any,
    tensors: Any,
    codes: NDArray[np.intp],
    n_splits: int,
    n_init: int,
    seed: int,
    extra: dict[str, Any],
) -> RankPoint:
    """Add the similarity of fits of two halves, where there are halves."""
    extra = {name: value for name, value in extra.items() if name != "nuisance"}
    scores = []
    for k in range(0 if diagnosis.too_few(codes) else n_splits):
        one, two = (
            _best_fit(model, tensors, extra, n_init, at)._factors
            for at in diagnosis.halves(codes, seed + k)
        )
        scores.append(diagnostics.match(one, two).score)
    return replace(point, split_similarity=float(np.mean(scores)) if scores else None)


def _scored(
    point: RankPoint, features: Array, y: Array, codes: NDArray[np.intp], seed: int
) -> RankPoint:
    """Add the accuracy of a probe, where it can be measured."""
    known = y >= 0
    subjects = len(np.unique(codes[known]))
    if subjects < 2 or len(np.unique(y[known])) < 2:
        return point
    folds = min(N_FOLDS, subjects)
    (score,), _ = cross_validate(
        np.asarray(features)[known], y[known], codes[known], ["100%"], n_folds=folds, seed=seed
    )
    if not score.accuracy:
        return point
    mean, sd = score.mean_sd("accuracy")
    sem = sd / float(np.sqrt(len(score.accuracy))) if sd == sd else None
    return replace(point, accuracy=mean, accuracy_sem=sem)


def _accurate(points: Sequence[RankPoint]) -> int | None:
    scored = [p for p in points if p.accuracy is not None]
    if not scored:
        return None
    best = max(scored, key=lambda p: p.accuracy or 0.0)
    limit = (best.accuracy or 0.0) - (best.accuracy_sem or 0.0)
    return min(p.rank for p in scored if (p.accuracy or 0.0) >= limit)


def information_criteria(model: Any, X: Any) -> Criteria:
    """Gaussian AIC and BIC of the model E1 with free features.

    With S the squared residual over all M = N·∏I_k entries, ``−2 log L = M(log(2πS/M) + 1)``, and
    the free numbers are ``R(N + ΣI_k) − R·K``: features and factors less their scaling freedom.
    The mean tensor and the variance are the same for all models and are not counted.
    Equation E18.

    Parameters
    ----------
    model : CPD, ATD or PLC
        Fitted.
    X : array-like (n, I_1, …, I_K), or list of coupled blocks
        The data it was fitted on.
    """
    check_is_fitted(model, "factors_")
    coupled = model.block_dims_ if isinstance(model, CPEstimator) else None
    blocks = (np.shape(X)[1:],) if coupled is None else coupled
    n_windows = len(X) if coupled is None else len(X[0])
    return gaussian_criteria(model.score(X), n_windows, blocks, model.rank_, model.center_.dtype)


def gaussian_criteria(
    explained: float,
    n_windows: int,
    block_dims: Sequence[Sequence[int]],
    rank: int,
    dtype: Any = np.float64,
) -> Criteria:
    """AIC and BIC of a CP model that explains this share of the variance. Equation E18.

    ``block_dims`` has the shape of a window in each block, one for a single tensor.
    """
    size = sum(map(math.prod, block_dims))
    entries = n_windows * size
    # In units of the data's own variance; a perfect fit is limited by the precision of the data.
    floor = float(np.finfo(dtype).eps) ** 2
    variance = max(1.0 - explained, floor) / size
    # A column of each mode but one can be rescaled in every block, and W once for all.
    free = sum(sum(dims) - (len(dims) - 1) for dims in block_dims) - 1
    n_parameters = rank * (n_windows + free)
    log_likelihood = -0.5 * entries * (math.log(2 * math.pi * variance) + 1.0)
    return Criteria(
        aic=2.0 * n_parameters - 2.0 * log_likelihood,
        bic=math.log(entries) * n_parameters - 2.0 * log_likelihood,
        log_likelihood=log_likelihood,
        n_parameters=n_parameters,
    )
