"""Whether the features of a fitted model can be trusted: ``model.diagnose(X)``."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from tensorcontrast.cp import diagnostics, kernels
from tensorcontrast.decompose import inputs
from tensorcontrast.errors import InvalidInputError, TensorContrastWarning
from tensorcontrast.solvers.windows import is_dask
from tensorcontrast.utils import checks

__all__ = ["STABLE", "Diagnosis", "FeatureDiagnosis", "WindowDiagnosis", "match_components"]

Array = NDArray[Any]

STABLE = 0.85
"""Correlation of a feature, or similarity of a component, from which it counts as found again
(Lorenzo-Seva, ten Berge 2006)."""

MAX_LEVERAGE_RATIO = 3.0
"""Leverage of a window, in units of the mean, above which it is an outlier."""

MAX_RESIDUAL_RANGES = 3.0
"""Interquartile ranges above the third quartile from which a residual is an outlier (Tukey)."""

MIN_WINDOWS_PER_HALF = 4
"""Windows of each half of the subjects without which no half is fitted."""


@dataclass(frozen=True)
class FeatureDiagnosis:
    """What is known of one feature and the component behind it."""

    feature: int
    weight: float
    """Root mean square of the component over the fitted windows."""
    share: float
    """Sum of squares of the component over that of the windows; components overlap."""
    unique_share: float
    """Share of the variance that is lost without it."""
    congruence: float
    """Most negative congruence with another component; near −1 the two cancel each other."""
    opposed_to: int | None
    """That component; None where there is none."""
    seed_correlation: float | None
    """Correlation with the counterpart in fits with other seeds, mean; None: not fitted."""
    split_correlation: float | None
    """Correlation of the counterparts in fits of two halves of the subjects, mean over splits; no
    window was fitted by both. None: not fitted."""
    verdict: str
    """"stable", "unstable under …", "empty" or "not tested"."""


@dataclass(frozen=True)
class WindowDiagnosis:
    """A window that stands out."""

    window: int
    leverage: float
    """Its pull on the model, 0 to 1; the mean over windows is rank/n."""
    residual: float
    """Norm of what the model does not explain, over the root mean square of all windows."""
    reason: str
    """"leverage", "residual" or "leverage and residual"."""


@dataclass(frozen=True, eq=False, repr=False)
class Diagnosis:
    """Whether the features of a model can be trusted; printed as a table.

    Attributes
    ----------
    method : str
        Class of the model.
    rank, n_windows : int
        Features, and windows that were looked at.
    explained : float
        Share of the variance about the mean that the components explain.
    core_consistency : tuple of float or None
        Of each block, in percent; None where the rank does not determine it. Below 0 it means
        nothing.
    features : tuple of FeatureDiagnosis
        In the order of the model.
    outliers : tuple of WindowDiagnosis
        Windows with a large leverage or residual, the largest first.
    leverage, residual : (n,) arrays
        Of all windows.
    seeds, splits : int
        Fits with other seeds, and pairs of fits of two halves.
    split_by : str
        What was divided in halves: "subjects", or "windows" without groups.
    seed_space, split_space : float or None
        Mean squared canonical correlation between the features of two fits: with another seed, and
        of two halves. Near 1, all features together hold the same information, even where single
        features are not stable.
    notes : tuple of str
        What could not be measured, and why.
    """

    method: str
    rank: int
    n_windows: int
    explained: float
    core_consistency: tuple[float | None, ...]
    features: tuple[FeatureDiagnosis, ...]
    outliers: tuple[WindowDiagnosis, ...]
    leverage: Array
    residual: Array
    seeds: int
    splits: int
    split_by: str
    seed_space: float | None
    split_space: float | None
    notes: tuple[str, ...]

    @property
    def n_stable(self) -> int:
        """Features that were found again under other seeds and other subjects."""
        return sum(f.verdict == "stable" for f in self.features)

    @property
    def median_correlations(self) -> tuple[float | None, float | None]:
        """Median over features of ``seed_correlation`` and of ``split_correlation``."""
        pairs = np.array(
            [(f.seed_correlation, f.split_correlation) for f in self.features], dtype=float
        )
        medians = np.median(pairs, axis=0)  # NaN where nothing was fitted
        return tuple(None if np.isnan(m) else float(m) for m in medians)  # type: ignore[return-value]

    @property
    def tested(self) -> str:
        """What the verdicts stand on, in words."""
        parts = []
        if self.seeds:
            parts.append(f"{self.seeds} other seed{'s' * (self.seeds > 1)}")
        if self.splits:
            parts.append(f"{self.splits} split{'s' * (self.splits > 1)} of the {self.split_by}")
        return " and ".join(parts) or "nothing"

    def to_dict(self, *, windows: bool = False) -> dict[str, Any]:
        """Return plain data for JSON; with ``windows`` also leverage and residual of each."""
        out = {**asdict(self), "n_stable": self.n_stable, "stable_from": STABLE}
        for name in ("leverage", "residual"):
            values = out.pop(name)
            if windows:
                out[name] = values.tolist()
        return out

    def to_json(self, *, windows: bool = False) -> str:
        """Return the same as text."""
        return json.dumps(self.to_dict(windows=windows), indent=2, allow_nan=False)

    def __repr__(self) -> str:
        """Return the table as text."""
        lines = [
            f"{self.method} of rank {self.rank} on {self.n_windows:,} windows: {self.n_stable} of "
            f"{self.rank} features are stable ({self.tested}); explained variance "
            f"{self.explained:.1%}",
            "feature   share  unique    seed  halves  verdict",
        ]
        for f in self.features:
            shown = "  ".join(
                "     –" if v is None else f"{v:6.2f}"
                for v in (f.seed_correlation, f.split_correlation)
            )
            lines.append(
                f"{f.feature:7d}  {f.share:6.1%}  {f.unique_share:6.1%}  {shown}  {f.verdict}"
            )
        if self.outliers:
            first = ", ".join(str(w.window) for w in self.outliers[:10])
            more = ", …" if len(self.outliers) > 10 else ""
            lines.append(f"{len(self.outliers)} windows stand out: {first}{more}")
        return "\n".join([*lines, *self.notes])


def diagnose(
    model: Any,
    X: Any,
    groups: Any,
    fit_params: dict[str, Any],
    *,
    n_seeds: int,
    n_splits: int,
    random_state: int,
) -> Diagnosis:
    """Diagnose a fitted CP estimator; see :meth:`.CPEstimator.diagnose`."""
    counts = {"n_seeds": n_seeds, "n_splits": n_splits, "random_state": random_state}
    for name, count in counts.items():
        if not isinstance(count, Integral) or isinstance(count, bool) or count < 0:
            raise InvalidInputError(f"{name}={count!r} must be a whole number of at least 0")
    X = in_memory(model, X)
    rows = rows_of(model, X)
    codes = group_codes(groups, len(rows))
    W = checks.plain_output(model, X)
    notes = []
    if len(rows) != model.n_samples_seen_ or _is_off_centre(model, rows):
        notes.append(
            "X does not hold the windows that the model was fitted on: fits with other seeds "
            "differ from it by their windows, too"
        )
    others = [
        checks.plain_output(refitted(model, X, fit_params, seed=k), X) for k in range(int(n_seeds))
    ]
    reason = too_few(codes)
    if n_splits and reason:
        notes.append(reason)
    pairs = []
    for k in range(0 if reason else int(n_splits)):
        halved = [
            refitted(model, X, fit_params, seed=k, at=at) for at in halves(codes, random_state + k)
        ]
        pairs.append([checks.plain_output(half, X) for half in halved])
    by_seed = [diagnostics.match_features(W, other).similarity for other in others]
    by_split = [_split_correlation(W, *pair) for pair in pairs]
    measured = measure(model, rows)
    if None in measured.core_consistency:
        notes.append(
            "the core consistency of a block is not determined where it has one mode only, or a "
            f"mode shorter than the rank of {model.rank_}"
        )
    return Diagnosis(
        method=type(model).__name__,
        rank=model.rank_,
        n_windows=len(rows),
        explained=measured.explained,
        core_consistency=measured.core_consistency,
        features=_features(model, measured, by_seed, by_split),
        outliers=_outliers(measured),
        leverage=measured.leverage,
        residual=measured.residual,
        seeds=len(others),
        splits=len(pairs),
        split_by="windows" if groups is None else "subjects",
        seed_space=_mean([diagnostics.space_similarity(W, other) for other in others]),
        split_space=_mean([diagnostics.space_similarity(*pair) for pair in pairs]),
        notes=tuple(notes),
    )


def match_components(first: Any, second: Any) -> diagnostics.Match:
    """Match the components of two fitted models of the same kind of windows.

    Fits of other seeds, or of other subjects, have their components in another order and with
    other signs. ``match.apply(second.transform(X))`` brings the features of the second model into
    the order and signs of the first.

    Parameters
    ----------
    first, second : CPD, ATD, PLC or ContrastiveFeatures
        Fitted on tensors of one shape. Of :class:`ContrastiveFeatures` whose convolution features
        were learned from other windows, the first block alone is compared: the values of the other
        block mean something else in each.

    Returns
    -------
    Match
        ``order`` (r,), ``signs`` (r,) and ``similarity`` (r,): the component of the second model
        for each of the first, ±1, and the cosine between both; ``score`` is the mean, the factor
        match score.

    Examples
    --------
    >>> from tensorcontrast import CPD
    >>> from tensorcontrast.datasets import make_cp_tensor
    >>> X, *_ = make_cp_tensor(60, (4, 6, 5), 2, noise=0.1, random_state=0)
    >>> one, two = (CPD(rank=2, random_state=seed).fit(X) for seed in (0, 1))
    >>> found = match_components(one, two)
    >>> round(found.score, 2)
    1.0
    >>> W = found.apply(two.transform(X))
    >>> bool(np.allclose(W, one.transform(X), atol=0.02 * abs(W).max()))
    True
    """
    factors = []
    for model in (first, second):
        core = getattr(model, "decompose_", model)
        if not hasattr(core, "_factors") or not hasattr(core, "factors_"):
            raise InvalidInputError(
                f"{type(model).__name__} is not fitted or has no components; pass fitted CPD, ATD, "
                "PLC or ContrastiveFeatures"
            )
        factors.append(core._factors)
    learned: list[Any] = [
        getattr(getattr(model, "convolution_", None), "components_", None)
        for model in (first, second)
    ]
    if learned[0] is not None and not np.array_equal(learned[0], learned[1]):
        factors = [kernels.blocks_of(blocks)[0] for blocks in factors]
    return diagnostics.match(*factors)


# --------------------------------------------------------------------------------- one model


@dataclass(frozen=True)
class Measured:
    """What one model says about the windows."""

    explained: float
    core_consistency: tuple[float | None, ...]
    shares: Array
    unique: Array
    congruence: Array
    leverage: Array
    residual: Array


def measure(model: Any, rows: Array) -> Measured:
    """Measure a model on centred, scaled windows (n, i)."""
    factors, W = model._factors, model._model.plain_features(rows)
    left, norms = diagnostics.residuals(rows, W, factors)
    total = float(norms.sum())
    return Measured(
        1.0 - float(left.sum()) / total if total > 0 else 0.0,
        tuple(diagnostics.core_consistency(rows, W, factors)),
        diagnostics.component_shares(W, factors, total),
        diagnostics.unique_shares(W, factors, model.ridge_, total),
        diagnostics.congruence(factors, W.T.astype(np.float64) @ W),
        diagnostics.leverage(W),
        np.sqrt(left / (total / len(rows) if total > 0 else 1.0)),
    )


def _features(
    model: Any, measured: Measured, by_seed: list[Array], by_split: list[Array]
) -> tuple[FeatureDiagnosis, ...]:
    out = []
    for r in range(model.rank_):
        against = int(np.argmin(measured.congruence[r]))
        congruence = min(float(measured.congruence[r, against]), 0.0)
        seed, split = _mean([v[r] for v in by_seed]), _mean([v[r] for v in by_split])
        weight = float(model.weights_[r])
        out.append(
            FeatureDiagnosis(
                r,
                weight,
                float(measured.shares[r]),
                float(measured.unique[r]),
                congruence,
                against if congruence < 0 else None,
                seed,
                split,
                _verdict(weight, seed, split),
            )
        )
    return tuple(out)


def _verdict(weight: float, seed: float | None, split: float | None) -> str:
    if weight == 0:
        return "empty"
    if seed is None and split is None:
        return "not tested"
    reasons = [
        name
        for name, value in (("another seed", seed), ("other subjects", split))
        if value is not None and value < STABLE
    ]
    return f"unstable under {' and '.join(reasons)}" if reasons else "stable"


def _outliers(measured: Measured) -> tuple[WindowDiagnosis, ...]:
    leverage, residual = measured.leverage, measured.residual
    low, high = np.quantile(residual, [0.25, 0.75])
    tiny = np.finfo(float).tiny
    pull = leverage / max(MAX_LEVERAGE_RATIO * float(leverage.mean()), tiny)
    far = residual / max(float(high + MAX_RESIDUAL_RANGES * (high - low)), tiny)
    size = np.maximum(pull, far)
    order = np.argsort(-size, kind="stable")
    reasons = {(True, False): "leverage", (False, True): "residual"}
    return tuple(
        WindowDiagnosis(
            int(n),
            float(leverage[n]),
            float(residual[n]),
            reasons.get((bool(pull[n] > 1), bool(far[n] > 1)), "leverage and residual"),
        )
        for n in order[size[order] > 1]
    )


def _mean(values: list[Any]) -> float | None:
    return float(np.mean(values)) if values else None


# ------------------------------------------------------------------------------- other fits


def refitted(
    model: Any,
    X: Any,
    fit_params: dict[str, Any],
    *,
    seed: int,
    at: NDArray[np.intp] | None = None,
) -> Any:
    """Fit such a model with the ``seed``-th other seed, to some of the windows, quietly."""
    own = model.random_state if isinstance(model.random_state, int | np.integer) else 0
    other = model._unfitted((int(own) + 1 + seed) % 2**31)
    with quiet():
        if at is None:
            return other.fit(X, **fit_params)
        some = {name: _some(model, name, value, at) for name, value in fit_params.items()}
        return other.fit(take(X, at), **some)


def _some(model: Any, name: str, value: Any, at: NDArray[np.intp]) -> Any:
    """Return what else a fit is given, of some windows."""
    if value is None or callable(value) or name == "nuisance":
        return value
    return np.asarray(value)[at] if name == "y" else take(in_memory(model, value), at)


def _split_correlation(W: Array, first: Array, second: Array) -> Array:
    """Correlation (r,) of the two features that are matched to each feature of the model."""
    a, b = diagnostics.match_features(W, first), diagnostics.match_features(W, second)
    correlation = np.abs(diagnostics.correlations(first, second))
    there = (a.order >= 0) & (b.order >= 0)
    return np.where(there, correlation[a.order, b.order], 0.0)


@contextmanager
def quiet() -> Iterator[None]:
    """Leave out warnings of fits that only serve to judge another one."""
    with warnings.catch_warnings():
        for kind in (ConvergenceWarning, TensorContrastWarning):
            warnings.simplefilter("ignore", kind)
        yield


# ------------------------------------------------------------------------------- the windows


def in_memory(model: Any, X: Any) -> Any:
    """Return windows in memory: an array, or coupled blocks."""
    parts = inputs.coupled_blocks(X, coupled=model.block_dims_ is not None)
    arrays = parts if isinstance(parts, list) else [X.rows if isinstance(X, inputs.Joined) else X]
    if any(map(is_dask, arrays)):
        raise InvalidInputError(
            "diagnose fits the model several times, in this process; pass some of the "
            "windows of the Dask array, in memory"
        )
    if isinstance(parts, inputs.Joined):
        return parts
    return np.asarray(X) if parts is None else tuple(np.asarray(part) for part in parts)


def rows_of(model: Any, X: Any) -> Array:
    """Windows (n, i), centred and scaled as the model has them."""
    windows = model._fitted_windows(X)
    center = model.center_.reshape(-1)
    rows: Array = windows.scaled(center, np.full(center.size, 1 / model.scale_)).map(np.asarray)
    if np.isnan(rows).any():
        raise InvalidInputError(
            "diagnose needs windows without missing values; leave those with NaN out"
        )
    return rows


def _is_off_centre(model: Any, rows: Array) -> bool:
    """Whether windows do not have the mean of those of the fit."""
    mean = rows.mean(axis=0, dtype=np.float64)
    return bool(model.center_.any()) and float(np.linalg.norm(mean)) > 1e-3


def halves(codes: NDArray[np.intp], seed: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Two halves of the windows that share no group, about equal in size.

    Examples
    --------
    >>> one, two = halves(np.array([0, 0, 1, 2, 2, 2]), seed=0)
    >>> one.tolist(), two.tolist()
    ([3, 4, 5], [0, 1, 2])
    """
    counts = np.bincount(codes)
    sizes, side = [0, 0], np.zeros(len(counts), dtype=np.intp)
    for group in np.random.default_rng(seed).permutation(len(counts)):
        side[group] = int(sizes[1] < sizes[0])
        sizes[side[group]] += int(counts[group])
    return np.flatnonzero(side[codes] == 0), np.flatnonzero(side[codes] == 1)


def too_few(codes: NDArray[np.intp]) -> str:
    """Say why the groups have no two halves; "" where they have."""
    if not codes.max():
        return "all windows are of one subject: there are no halves without shared subjects"
    smaller = min(map(len, halves(codes, 0)))
    return (
        f"{len(codes)} windows are too few to fit halves" if smaller < MIN_WINDOWS_PER_HALF else ""
    )


def group_codes(groups: Any, n: int) -> NDArray[np.intp]:
    """Return the number of the group of each of n windows; each is its own without groups."""
    if groups is None:
        return np.arange(n)
    try:
        names = np.asarray(groups)
        codes = np.unique(names, return_inverse=True)[1]
    except (TypeError, ValueError) as error:  # lists of lists, names that have no order
        raise InvalidInputError(
            f"groups must hold one number or one text for each window: {error}"
        ) from None
    if names.shape != (n,):
        raise InvalidInputError(
            f"groups has shape {names.shape}; one entry is needed for each of the {n} windows"
        )
    return codes.astype(np.intp)


def take(X: Any, at: NDArray[np.intp]) -> Any:
    """Return some windows of an array or of coupled blocks."""
    if isinstance(X, inputs.Joined):
        return inputs.Joined(X.rows[at], X.dims)
    return tuple(part[at] for part in X) if isinstance(X, tuple) else X[at]
