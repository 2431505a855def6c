"""The nuisance metric (E23) of a fitted estimator: applied, read, checked."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorcontrast.cp import compress, gls, kernels
from tensorcontrast.errors import InvalidInputError
from tensorcontrast.solvers import als

Array = NDArray[Any]


def mixing_of(model: Any) -> Array | None:
    """Return T of a fitted model; None where features are the oblique coordinates of E12."""
    power = model._overlap_power
    if power == 1.0:
        return None
    H = kernels.khatri_rao(kernels.in_float64(model._factors))
    metric = metric_of(model)
    G = H if metric is None else metric.times(H)
    return gls.overlap_mixing(H.T @ G, model.ridge_, power)


def nuisance_in_core(model: Any, rows: Array) -> Array:
    """Nuisance differences (m, i) in the scale of the fit, of cores where it has these."""
    flat = rows.reshape(len(rows), -1)
    if model._bases is not None:
        flat = compress.project(rows, model._bases)
    return np.asarray(flat / flat.dtype.type(model.scale_))


def apply_metric(model: Any, selected: gls.Selected | None, views: als.Views) -> None:
    """Give a finished model its metric, and its features in it; None for E12's metric."""
    model.nuisance_directions_ = model.nuisance_gains_ = None
    if selected is not None:
        whole = compress.expand_rows(selected.metric.directions, model._bases)
        model.nuisance_directions_ = whole.reshape(-1, *model.dims_)
        model.nuisance_gains_ = selected.metric.gains
        model.reconstruction_error_ *= selected.rise
    if selected is not None or model._overlap_power != 1.0:
        encode_views(model, views)


def encode_views(model: Any, views: als.Views) -> None:
    """Let the features of fitted windows be those that ``transform`` gives."""
    columns = gls.projector(model._factors, model.ridge_, metric_of(model), model._overlap_power)
    if model._bases is not None:
        rows = np.ascontiguousarray(columns.T).reshape(-1, *model.dims_)
        columns = compress.project(rows, model._bases).T
    W, V = views.encoded(columns)
    model.features_, model.view_features_ = model._unweighted(W, V)


def encoding_error(model: Any, views: als.Views) -> float:
    """Relative reconstruction error of views that were fitted without a core, in the metric."""
    W, _ = views.encoded(gls.projector(model._factors, model.ridge_, metric_of(model)))
    residual = kernels.residual_direct(views.X, W, model._factors)
    return float(np.sqrt(residual / views.norm_x))


def metric_of(model: Any) -> gls.GLSMetric | None:
    """Return the metric of a fitted model; None for the identity."""
    rows, gains = model.nuisance_directions_, model.nuisance_gains_
    return (
        None if rows is None or gains is None else gls.GLSMetric(rows.reshape(len(rows), -1), gains)
    )


def check_learned(model: Any) -> None:
    """Raise where the nuisance metric of a loaded model does not fit the model."""
    rows: Any = model.nuisance_directions_
    gains: Any = model.nuisance_gains_
    if rows is None and gains is None:
        return
    if not (
        isinstance(rows, np.ndarray)
        and isinstance(gains, np.ndarray)
        and gains.ndim == 1
        and rows.shape == (len(gains), *model.dims_)
        and rows.dtype == gains.dtype == model.center_.dtype
        and np.isfinite(rows).all()
        and bool(((gains >= 0) & (gains <= 1)).all())
    ):
        raise InvalidInputError(
            f"nuisance directions of shape {np.shape(rows)} with gains of shape {np.shape(gains)} "
            f"do not fit tensors {tuple(model.dims_)}"
        )


def check_allowed(solver: str, missing: str) -> None:
    """Raise where a fit cannot take nuisance differences."""
    if solver != "gls":
        raise InvalidInputError(
            f"nuisance= is for solver='gls'; with solver={solver!r} leave it out"
        )
    if missing == "mask":
        raise InvalidInputError(
            "nuisance= needs windows without gaps; with missing='mask' leave it out, or fill the "
            "gaps"
        )
