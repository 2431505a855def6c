"""A fitted CP model as arrays: features of windows, reconstruction, nuisance metric, streams."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorcontrast.cp import compress, gls, kernels, nonnegative, scaling
from tensorcontrast.cp.encoder import Encoder, rows_times
from tensorcontrast.errors import InvalidInputError
from tensorcontrast.solvers import als, missing, robust
from tensorcontrast.solvers.prepare import Preparation
from tensorcontrast.solvers.settings import ALS
from tensorcontrast.solvers.whole import WholeViews
from tensorcontrast.sources import source
from tensorcontrast.utils import threads

Array = NDArray[Any]
Factors = Sequence[Array]


@dataclass(frozen=True)
class CPModel:
    """What gives windows their features, and features their windows. Equations E12, E22, E23."""

    factors: Factors
    #: α of each component.
    ridge: Array
    #: Mean tensor (I_1, …, I_K); for coupled blocks one row with all of them.
    center: Array
    scale: float
    #: Nuisance metric; None for the identity.
    metric: gls.GLSMetric | None = None
    #: Exponent that divides the overlap between components; 1 for the coordinates of E12.
    overlap_power: float = 1.0
    #: Whether features solve non-negative least squares.
    nonnegative: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether features are the coordinates of E12, in the identity metric."""
        return self.metric is None and self.overlap_power == 1.0

    def preparation(self, n_samples: int) -> Preparation:
        """Return mean and scale as learned, for windows as they are."""
        spread = self.scale / float(np.sqrt(self.center.size))
        return Preparation(n_samples, self.center, self.scale, spread)

    def projector(self) -> Array:
        """Matrix (i, r) that centred, scaled windows are multiplied with. Equations E12, E23."""
        return gls.projector(self.factors, self.ridge, self.metric, self.overlap_power)

    def features(self, data: source.Source, *, masked: bool) -> Array:
        """Features (n, r) of windows; ``masked`` solves over what was observed."""
        if self.nonnegative:
            if source.is_spread(data):
                raise InvalidInputError(
                    "nonnegative=True needs the windows in this process; transform them block by "
                    "block, or X.compute()"
                )
            blocks = self.preparation(0).centred(data)
            return np.concatenate([self.plain_features(x.reshape(len(x), -1)) for x in blocks])
        encode = _Encode.from_model(self, masked=masked)
        if source.is_spread(data):
            found: Array = data.transformed(encode, len(self.ridge), encode.projector.dtype)
            return found
        with threads.for_work((data.n_samples or 2**31) * encode.projector.size):
            out = [encode(raw) for raw in data.blocks()]
        return np.concatenate(out) if len(out) > 1 else out[0]

    def plain_features(self, rows: Array) -> Array:
        """Features (n, r) of centred, scaled rows (n, i) as E12 has them, in no other metric."""
        if not self.nonnegative:
            return rows_times(rows, gls.projector(self.factors, self.ridge, None))
        P = rows_times(rows, kernels.khatri_rao(self.factors))
        return nonnegative.least_squares(P, Encoder.from_factors(self.factors, self.ridge).K)

    def features_of_array(self, X: Array, *, masked: bool) -> Array:
        """Features (n, r) of checked windows in memory."""
        return np.asarray(
            self.features(source.with_nan(source.ArraySource(X), masked), masked=masked)
        )

    def mixing(self) -> Array | None:
        """Return T; None where features are the oblique coordinates of E12."""
        if self.overlap_power == 1.0:
            return None
        H = kernels.khatri_rao(kernels.in_float64(self.factors))
        G = H if self.metric is None else self.metric.times(H)
        return gls.overlap_mixing(H.T @ G, self.ridge, self.overlap_power)

    def coordinates(self, W: Any) -> Any:
        """Oblique coordinates (n, r) of E12 for features of ``transform``."""
        mixing = self.mixing()
        if mixing is None:
            return W
        return W @ np.linalg.inv(mixing).astype(self.center.dtype)

    def reconstructed(self, W: Array) -> Array:
        """Tensors, or rows of coupled blocks, that features (n, r) stand for. Equation E1."""
        flat = kernels.cp_to_flat(self.coordinates(W), self.factors)
        flat *= self.scale
        flat += self.center.reshape(-1)
        return flat.reshape(len(W), *self.center.shape)

    def explained(self, data: source.Source, W: Array) -> float:
        """Share of the variance of windows about the mean that their coordinates W explain."""
        H = kernels.khatri_rao(self.factors)
        HtH = kernels.gram(self.factors)
        residual = total = 0.0
        at = 0
        for block in self.preparation(0).centred(data):
            rows, flat = W[at : at + len(block)], block.reshape(len(block), -1)
            norm = float(kernels.row_norms_squared(flat).sum())
            if np.isnan(norm):
                left, norm = missing.residual(flat, rows, self.factors)
            else:
                left = kernels.residual_squared(norm, flat @ H, rows, HtH)
                if kernels.cancelled(left, norm, flat.dtype):
                    left = kernels.residual_direct(flat, rows, self.factors)
            residual += left
            total += norm
            at += len(block)
        return 1.0 - residual / total if total > 0 else 0.0

    def encoded(self, views: als.Views, bases: list[Array] | None) -> tuple[Array, Array | None]:
        """Features of fitted windows as ``transform`` gives them; ``bases`` are those of a core."""
        columns = self.projector()
        if bases is not None:
            rows = np.ascontiguousarray(columns.T).reshape(-1, *self.center.shape)
            columns = compress.project(rows, bases).T
        return views.encoded(columns)

    def encoding_error(self, views: als.Views | WholeViews) -> float:
        """Relative reconstruction error of whole windows in the metric."""
        columns = gls.projector(self.factors, self.ridge, self.metric)
        residual = views.residual_encoded(columns, self.factors)
        return float(np.sqrt(residual / views.norm_x))


@dataclass(frozen=True)
class _Encode:
    """Features of a block of raw windows, wherever it is. Equations E12, E23.

    With gaps each window has equations of its own (E12). Where features are those of another
    metric, gaps are first filled with what these solutions reconstruct.
    """

    ready: Preparation
    projector: Array
    #: Projector, factors and ridge of E12 where windows may have gaps.
    observed: tuple[Array, Factors, Array] | None
    plain: bool

    @classmethod
    def from_model(cls, model: CPModel, *, masked: bool) -> _Encode:
        """Take what the features of a model need."""
        projector, observed = model.projector(), None
        if masked:
            oblique = projector
            if not model.is_plain:
                oblique = gls.projector(model.factors, model.ridge, None)
            observed = (oblique, model.factors, model.ridge)
        return cls(model.preparation(0), projector, observed, model.is_plain)

    def __call__(self, raw: Array) -> Array:
        """Features (n, r)."""
        flat = self.ready.centred_block(raw).reshape(len(raw), -1)
        if self.observed is None:
            return np.asarray(flat @ self.projector)
        oblique, factors, ridge = self.observed
        coordinates = missing.encode(flat, oblique, factors, ridge)
        if self.plain:
            return coordinates
        return np.asarray(_filled(flat, coordinates, factors) @ self.projector)


def _filled(flat: Array, coordinates: Array, factors: Factors) -> Array:
    """Return windows (n, i) with their gaps filled by the model."""
    gaps = np.isnan(flat)
    if not gaps.any():
        return flat
    return np.where(gaps, kernels.cp_to_flat(coordinates, factors), flat)


def unweighted(
    W: Array, V: Array | None, sample_weight: Array | None
) -> tuple[Array, Array | None]:
    """Features of windows as they are, from those of windows with weights (n,)."""
    if sample_weight is None:
        return W, V
    own = np.sqrt(sample_weight).astype(W.dtype)[:, None]
    return W / own, None if V is None else V / own


# ---------------------------------------------------------------------------- nuisance metric


def nuisance_in_core(rows: Array, ready: Preparation) -> Array:
    """Nuisance differences (m, i) in the scale of the fit, of cores where it has these."""
    flat = rows.reshape(len(rows), -1)
    if ready.bases is not None:
        flat = compress.project(rows, ready.bases)
    return np.asarray(flat / flat.dtype.type(ready.scale))


def selected_metric(selected: gls.Selected | None, ready: Preparation) -> gls.GLSMetric | None:
    """Return the metric that a fit has selected, for whole windows; None for the identity."""
    if selected is None:
        return None
    rows = compress.expand_rows(selected.metric.directions, ready.bases)
    return gls.GLSMetric(rows.reshape(-1, ready.center.size), selected.metric.gains)


def check_metric(rows: Any, gains: Any, dims: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """Raise where the nuisance metric of a loaded model does not fit its tensors."""
    if rows is None and gains is None:
        return
    if not (
        isinstance(rows, np.ndarray)
        and isinstance(gains, np.ndarray)
        and gains.ndim == 1
        and rows.shape == (len(gains), *dims)
        and rows.dtype == gains.dtype == dtype
        and np.isfinite(rows).all()
        and bool(((gains >= 0) & (gains <= 1)).all())
    ):
        raise InvalidInputError(
            f"nuisance directions of shape {np.shape(rows)} with gains of shape {np.shape(gains)} "
            f"do not fit tensors {tuple(dims)}"
        )


# ---------------------------------------------------------------------------- streams


@dataclass(frozen=True)
class Scaling:
    """Mean and scale after one more batch, and h of its windows where artefacts count less."""

    center: Array
    scale: float
    root_weights: Array | None = None


def followed(
    model: CPModel, X: Array, n_seen: int, settings: ALS, *, masked: bool, huber: bool
) -> Scaling:
    """Return mean and scale of a model of ``n_seen`` windows after a batch X."""
    typical = _imputed(model, X, masked=masked)
    roots: Array | None = None
    if huber:
        typical, roots = _weighted(model, typical, masked=masked)
    center, scale = scaling.update(
        typical, model.center, model.scale, n_seen, center=settings.center, scale=settings.scale
    )
    return Scaling(center, scale, roots)


def _imputed(model: CPModel, X: Array, *, masked: bool) -> Array:
    """X (n, I_1, …, I_K) with its NaN replaced by what the model makes of the window."""
    gaps = np.isnan(X)
    if not gaps.any():
        return X
    return np.where(gaps, model.reconstructed(model.features_of_array(X, masked=masked)), X)


def _weighted(model: CPModel, X: Array, *, masked: bool) -> tuple[Array, Array]:
    """Return a batch with its artefacts drawn in, and h of its windows (n,)."""
    rest = X - model.reconstructed(model.features_of_array(X, masked=masked))
    sizes = np.sqrt(robust.square_rows(rest.reshape(len(X), -1)))
    roots = robust.huber_weights(sizes)
    drawn = model.center + robust.column(roots, X) * (X - model.center)
    return drawn.astype(X.dtype, copy=False), roots


def past_sums(model: CPModel, gram: Array) -> als.Statistics:
    """Return the sums over what a model from ``fit`` or a file has seen: WᵀX = (WᵀW)Hᵀ."""
    return als.Statistics(gram @ kernels.khatri_rao(model.factors).T, gram)
