"""Whether the components of a fitted model can be trusted: ``model.diagnose(X)``."""

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

__all__ = [
    "STABLE",
    "ComponentDiagnosis",
    "Diagnosis",
    "SeedNumber",
    "WindowDiagnosis",
    "match_components",
]

Array = NDArray[Any]

STABLE = 0.85
"""Similarity of a component, or correlation of a feature, from which it counts as found again
(Lorenzo-Seva, ten Berge 2006)."""

MAX_LEVERAGE_RATIO = 3.0
"""Leverage of a window, in units of the mean, above which it is an outlier."""

MAX_RESIDUAL_RANGES = 3.0
"""Interquartile ranges above the third quartile from which a residual is an outlier (Tukey)."""

MIN_WINDOWS_PER_HALF = 4
"""Windows of each half of the subjects without which no half is fitted."""


@dataclass(frozen=True)
class ComponentDiagnosis:
    """What is known of one component."""

    component: int
    weight: float
    """Root mean square of its feature over the fitted windows."""
    share: float
    """Its sum of squares over that of the windows; components overlap."""
    share_moves: float | None
    """Standard deviation of the share under other seeds; None where none was fitted."""
    unique_share: float
    """Share of the variance that is lost without it."""
    congruence: float
    """Most negative congruence with another component; near −1 the two cancel each other."""
    opposed_to: int | None
    """That component; None where there is none."""
    seed_similarity: float | None
    """Similarity of its counterpart in fits with other seeds, mean; None: not fitted."""
    split_similarity: float | None
    """Similarity of its counterparts in fits of two halves of the subjects; None: not fitted."""
    verdict: str
    """"stable", "unstable under …", "empty" or "not tested"."""
    feature_seed: float | None = None
    """Correlation of its feature with the counterpart in fits with other seeds, mean."""
    feature_split: float | None = None
    """Correlation of the counterparts of its feature in fits of two halves of the subjects, mean
    over splits; no window was fitted by both."""
    feature_verdict: str = "not tested"
    """The same words as ``verdict``, for the feature."""


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


@dataclass(frozen=True)
class SeedNumber:
    """One number of a model, and what it is under other seeds."""

    name: str
    value: float
    other_seeds: tuple[float, ...]

    @property
    def is_meaningful(self) -> bool:
        """Whether the value says anything; a core consistency below 0 does not."""
        return _is_meaningful(self.name, self.value)

    @property
    def shown(self) -> str:
        """The value for people."""
        return f"{self.value:.3f}" if self.is_meaningful else "not meaningful"

    @property
    def moves(self) -> float | None:
        """Largest change under another seed; None where none was fitted, or means nothing."""
        if not all(_is_meaningful(self.name, v) for v in (self.value, *self.other_seeds)):
            return None
        return max((abs(v - self.value) for v in self.other_seeds), default=None)


def _is_meaningful(name: str, value: float) -> bool:
    return value >= 0 or not name.startswith("core consistency")


@dataclass(frozen=True, eq=False, repr=False)
class Diagnosis:
    """Whether the components of a model can be trusted; printed as a table.

    Attributes
    ----------
    method : str
        Class of the model.
    rank, n_windows : int
        Components, and windows that were looked at.
    numbers : tuple of SeedNumber
        Explained variance, degeneracy and core consistency of each block, each with its values
        under other seeds.
    components : tuple of ComponentDiagnosis
        In the order of the model.
    outliers : tuple of WindowDiagnosis
        Windows with a large leverage or residual, the largest first.
    leverage, residual : (n,) arrays
        Of all windows.
    seeds : int
        Fits with other seeds.
    splits : int
        Pairs of fits of two halves.
    split_by : str or None
        What was divided in halves: "subjects", or "windows" without groups.
    seed_subspace, split_subspace : float or None
        Mean squared cosine of the principal angles between the span of all components and that of
        a fit with another seed, and between those of two halves. Near 1, features hold the same
        information even where single components are not stable.
    notes : tuple of str
        What could not be measured, and why.
    """

    method: str
    rank: int
    n_windows: int
    numbers: tuple[SeedNumber, ...]
    components: tuple[ComponentDiagnosis, ...]
    outliers: tuple[WindowDiagnosis, ...]
    leverage: Array
    residual: Array
    seeds: int
    splits: int
    split_by: str | None
    seed_subspace: float | None = None
    split_subspace: float | None = None
    notes: tuple[str, ...] = ()

    @property
    def n_stable(self) -> int:
        """Components that were found again under other seeds and other subjects."""
        return sum(c.verdict == "stable" for c in self.components)

    @property
    def n_stable_features(self) -> int:
        """Features that were found again under other seeds and other subjects."""
        return sum(c.feature_verdict == "stable" for c in self.components)

    @property
    def median_feature_correlations(self) -> tuple[float | None, float | None]:
        """Median over components of ``feature_seed`` and of ``feature_split``."""
        out = []
        for name in ("feature_seed", "feature_split"):
            values = [getattr(c, name) for c in self.components if getattr(c, name) is not None]
            out.append(float(np.median(values)) if values else None)
        return out[0], out[1]

    @property
    def tested(self) -> str:
        """What the verdicts stand on, in words."""
        parts = []
        if self.seeds:
            parts.append(f"{self.seeds} other {_plural('seed', self.seeds)}")
        if self.splits:
            parts.append(f"{self.splits} {_plural('split', self.splits)} of the {self.split_by}")
        return " and ".join(parts) or "nothing"

    def number(self, name: str) -> SeedNumber:
        """Return a number by its name."""
        return next(number for number in self.numbers if number.name == name)

    def to_dict(self, *, windows: bool = False) -> dict[str, Any]:
        """Return plain data for JSON; with ``windows`` also leverage and residual of each."""
        out: dict[str, Any] = {
            "method": self.method,
            "rank": self.rank,
            "n_windows": self.n_windows,
            "n_stable": self.n_stable,
            "n_stable_features": self.n_stable_features,
            "stable_from": STABLE,
            "seeds": self.seeds,
            "splits": self.splits,
            "split_by": self.split_by,
            "seed_subspace": self.seed_subspace,
            "split_subspace": self.split_subspace,
            "numbers": {
                n.name: {"value": n.value, "other_seeds": list(n.other_seeds), "moves": n.moves}
                for n in self.numbers
            },
            "components": [asdict(c) for c in self.components],
            "outliers": [asdict(w) for w in self.outliers],
            "notes": list(self.notes),
        }
        if windows:
            out |= {"leverage": self.leverage.tolist(), "residual": self.residual.tolist()}
        return out

    def to_json(self, *, windows: bool = False) -> str:
        """Return the same as text."""
        return json.dumps(self.to_dict(windows=windows), indent=2, allow_nan=False)

    def __repr__(self) -> str:
        """Return the tables as text."""
        lines = [
            f"{self.method} of rank {self.rank} on {self.n_windows:,} windows: {self.n_stable} of "
            f"{self.rank} components and {self.n_stable_features} features are stable "
            f"({self.tested})"
        ]
        for number in self.numbers:
            moves = (
                "" if number.moves is None else f"  (another seed moves it by {number.moves:.3g})"
            )
            lines.append(f"{number.name}: {number.shown}{moves}")
        spans = [
            f"{value:.3f} {what}"
            for value, what in (
                (self.seed_subspace, "under another seed"),
                (self.split_subspace, f"between halves of the {self.split_by}"),
            )
            if value is not None
        ]
        if spans:
            lines.append(f"similarity of the span of all components: {', '.join(spans)}")
        lines.append("                             component         feature")
        lines.append(
            "component   share  unique    seed  halves    seed  halves  verdict of the feature"
        )
        for c in self.components:
            values = (c.seed_similarity, c.split_similarity, c.feature_seed, c.feature_split)
            shown = "  ".join("     –" if v is None else f"{v:6.2f}" for v in values)
            lines.append(
                f"{c.component:9d}  {c.share:6.1%}  {c.unique_share:6.1%}  {shown}  "
                f"{c.feature_verdict}"
            )
        if self.outliers:
            first = ", ".join(str(w.window) for w in self.outliers[:10])
            more = ", …" if len(self.outliers) > 10 else ""
            lines.append(f"{len(self.outliers)} windows stand out: {first}{more}")
        return "\n".join([*lines, *self.notes])


def diagnose(
    model: Any,
    X: Any,
    groups: Any = None,
    *,
    y: Any = None,
    view: Any = None,
    n_seeds: int = 2,
    n_splits: int = 2,
    random_state: int = 0,
) -> Diagnosis:
    """Diagnose a fitted CP estimator; see :meth:`.CPEstimator.diagnose`."""
    counts = {"n_seeds": n_seeds, "n_splits": n_splits, "random_state": random_state}
    for name, count in counts.items():
        if not isinstance(count, Integral) or isinstance(count, bool) or count < 0:
            raise InvalidInputError(f"{name}={count!r} must be a whole number of at least 0")
    n_seeds, n_splits, random_state = map(int, counts.values())
    X = in_memory(model, X)
    rows = rows_of(model, X)
    codes = group_codes(groups, len(rows))
    factors, W = model._factors, model._model.plain_features(rows)
    notes: list[str] = []
    if not _same_windows(model, rows):
        notes.append(
            "X does not hold the windows that the model was fitted on: fits with other seeds "
            "differ from it by their windows, too"
        )
    measured = measure(model, rows, notes)
    features = _features(model, X)
    others, seed_features, split_features = [], [], []
    extra = {name: v for name, v in (("y", y), ("view", view)) if v is not None}
    seeded = [other_seed(model, k) for k in range(n_seeds)]
    if not isinstance(model.init, str):
        notes.append("the fit starts from factors that were given, so that seeds change nothing")
    for seed in seeded:
        other = fitted_quietly(model._unfitted(seed), X, extra)
        matched = diagnostics.match(factors, other._factors)
        others.append((measure(other, rows, []), matched, other))
        again = diagnostics.match_features(features, _features(other, X))
        seed_features.append(again.similarity)
    split_by = "windows" if groups is None else "subjects"
    pairs, spans = [], []
    reason = too_few(codes)
    if n_splits and reason:
        notes.append(reason)
    for k in range(0 if reason else n_splits):
        first, second = halves(codes, random_state + k)
        pair = [
            fitted_quietly(
                model._unfitted(other_seed(model, k)), take(X, at), taken(model, extra, at)
            )
            for at in (first, second)
        ]
        first_half, second_half = (half._factors for half in pair)
        pairs.append(_split_similarity(factors, first_half, second_half))
        spans.append(diagnostics.subspace_similarity(first_half, second_half))
        split_features.append(_split_correlation(features, *(_features(m, X) for m in pair)))
    similarities = [
        np.mean(part, axis=0) if part else None
        for part in ([m.similarity for _, m, _ in others], pairs, seed_features, split_features)
    ]
    moves = None
    if others:
        shares = [np.where(m.order >= 0, n.shares[m.order], 0.0) for n, m, _ in others]
        moves = np.std([measured.shares, *shares], axis=0, ddof=1)
    congruence = diagnostics.congruence(factors, W.T.astype(np.float64) @ W)
    components = tuple(
        _component(
            model, r, measured, congruence, *(None if v is None else float(v[r]) for v in parts)
        )
        for r, parts in enumerate([(moves, *similarities)] * model.rank_)
    )
    return Diagnosis(
        type(model).__name__,
        model.rank_,
        len(rows),
        tuple(
            SeedNumber(name, value, tuple(other.values[name] for other, _, _ in others))
            for name, value in measured.values.items()
        ),
        components,
        _outliers(measured),
        measured.leverage,
        measured.residual,
        len(others),
        len(pairs),
        split_by if pairs else None,
        float(np.mean([diagnostics.subspace_similarity(factors, o._factors) for *_, o in others]))
        if others
        else None,
        float(np.mean(spans)) if spans else None,
        tuple(dict.fromkeys(notes)),
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
        factors = [kernels.blocks_of(own)[0] for own in factors]
    return diagnostics.match(*factors)


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


# ------------------------------------------------------------------------------- the parts


@dataclass(frozen=True)
class Measured:
    """What one model says about the windows."""

    values: dict[str, float]
    shares: Array
    unique: Array
    leverage: Array
    residual: Array


def measure(model: Any, rows: Array, notes: list[str]) -> Measured:
    factors, W = model._factors, model._model.plain_features(rows)
    left, norms = diagnostics.residuals(rows, W, factors)
    total = float(norms.sum())
    values = {
        "explained variance": 1.0 - float(left.sum()) / total if total > 0 else 0.0,
        "degeneracy": diagnostics.most_opposed(factors, W.T.astype(np.float64) @ W)[0],
    }
    is_determined = diagnostics.determined(W, factors)
    if any(is_determined):
        consistencies = diagnostics.core_consistency(rows, W, factors)
        for b, (value, there) in enumerate(zip(consistencies, is_determined, strict=True)):
            if there:
                name = (
                    "core consistency"
                    if len(is_determined) == 1
                    else f"core consistency of block {b}"
                )
                values[name] = value
    lacking = [str(b) for b, there in enumerate(is_determined) if not there]
    if lacking:
        which = "" if len(is_determined) == 1 else f" of block {' and '.join(lacking)}"
        notes.append(
            f"the core consistency{which} is not determined: it needs two modes at least, and no "
            f"mode shorter than the rank of {model.rank_}"
        )
    return Measured(
        values,
        diagnostics.component_shares(W, factors, total),
        diagnostics.unique_shares(W, factors, model.ridge_, total),
        diagnostics.leverage(W),
        np.sqrt(left / (total / len(rows) if total > 0 else 1.0)),
    )


def _component(
    model: Any,
    r: int,
    measured: Measured,
    congruence: Array,
    moves: float | None,
    seed: float | None,
    split: float | None,
    feature_seed: float | None,
    feature_split: float | None,
) -> ComponentDiagnosis:
    against = int(np.argmin(congruence[r]))
    value = min(float(congruence[r, against]), 0.0)
    weight = float(model.weights_[r])
    return ComponentDiagnosis(
        r,
        weight,
        float(measured.shares[r]),
        moves,
        float(measured.unique[r]),
        value,
        against if value < 0 else None,
        seed,
        split,
        _verdict(weight, seed, split),
        feature_seed,
        feature_split,
        _verdict(weight, feature_seed, feature_split),
    )


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


def _split_similarity(model: Any, first: Any, second: Any) -> Array:
    """Similarity (r,) of the two components that are matched to each component of the model."""
    a, b = diagnostics.match(model, first), diagnostics.match(model, second)
    cosines = np.abs(diagnostics.cosines(first, second))
    there = (a.order >= 0) & (b.order >= 0)
    return np.where(there, cosines[a.order, b.order], 0.0)


def _features(model: Any, X: Any) -> Array:
    """Features (n, r) as ``transform`` gives them."""
    return np.asarray(checks.plain_output(model, X))


def _split_correlation(W: Array, first: Array, second: Array) -> Array:
    """Correlation (r,) of the two features that are matched to each feature of the model."""
    a, b = diagnostics.match_features(W, first), diagnostics.match_features(W, second)
    correlation = np.abs(diagnostics.correlations(first, second))
    there = (a.order >= 0) & (b.order >= 0)
    return np.where(there, correlation[a.order, b.order], 0.0)


def _outliers(measured: Measured) -> tuple[WindowDiagnosis, ...]:
    pull = measured.leverage / max(float(measured.leverage.mean()), np.finfo(float).tiny)
    low, high = np.quantile(measured.residual, [0.25, 0.75])
    limit = high + MAX_RESIDUAL_RANGES * (high - low)
    far = measured.residual / max(float(limit), np.finfo(float).tiny)
    by_pull, by_residual = pull > MAX_LEVERAGE_RATIO, measured.residual > limit
    size = np.maximum(pull / MAX_LEVERAGE_RATIO, far)
    places = np.flatnonzero(by_pull | by_residual)
    return tuple(
        WindowDiagnosis(
            int(n),
            float(measured.leverage[n]),
            float(measured.residual[n]),
            " and ".join(
                name
                for name, there in (("leverage", by_pull[n]), ("residual", by_residual[n]))
                if there
            ),
        )
        for n in places[np.argsort(-size[places], kind="stable")]
    )


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
    windows, layout = model._fitted_windows(X)
    center, scale = model.center_.reshape(-1), model.scale_
    rows: Array = windows.scaled(center / layout.factor, layout.factor / scale).map(np.asarray)
    if np.isnan(rows).any():
        raise InvalidInputError(
            "diagnose needs windows without missing values; leave those with NaN out"
        )
    return rows


def _same_windows(model: Any, rows: Array) -> bool:
    """Whether these can be the windows of the fit: as many, and with its mean."""
    if len(rows) != model.n_samples_seen_:
        return False
    mean = rows.mean(axis=0, dtype=np.float64)
    return not model.center_.any() or float(np.linalg.norm(mean)) <= 1e-3


def group_codes(groups: Any, n: int) -> NDArray[np.intp]:
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


def too_few(codes: NDArray[np.intp]) -> str:
    count = int(codes.max()) + 1
    if count < 2:
        return "all windows are of one subject, so that there are no halves without shared subjects"
    smaller = min(map(len, halves(codes, 0)))
    if smaller < MIN_WINDOWS_PER_HALF:
        return f"{len(codes)} windows are too few to fit halves of them"
    return ""


def take(X: Any, at: NDArray[np.intp]) -> Any:
    """Return some windows of an array or of coupled blocks."""
    if isinstance(X, inputs.Joined):
        return inputs.Joined(X.rows[at], X.dims)
    return tuple(part[at] for part in X) if isinstance(X, tuple) else X[at]


def taken(model: Any, extra: dict[str, Any], at: NDArray[np.intp]) -> dict[str, Any]:
    """Return what else a fit is given, of some windows."""
    out = {}
    for name, value in extra.items():
        if name == "y":
            out[name] = np.asarray(value)[at]
        else:
            out[name] = value if callable(value) else take(in_memory(model, value), at)
    return out


# ------------------------------------------------------------------------------- other fits


def other_seed(model: Any, k: int) -> int:
    seed = model.random_state if isinstance(model.random_state, int | np.integer) else 0
    return (int(seed) + 1 + k) % 2**31


def fitted_quietly(model: Any, X: Any, extra: dict[str, Any]) -> Any:
    with quiet():
        return model.fit(X, **extra)


@contextmanager
def quiet() -> Iterator[None]:
    """Leave out warnings of fits that only serve to judge another one."""
    with warnings.catch_warnings():
        for kind in (ConvergenceWarning, TensorContrastWarning):
            warnings.simplefilter("ignore", kind)
        yield


def _plural(word: str, count: int) -> str:
    return word if count == 1 else f"{word}s"
