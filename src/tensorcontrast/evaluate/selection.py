"""Choosing rank and weights without labels: information criteria over a grid (E18)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import ArrayLike
from sklearn.model_selection import ParameterGrid
from sklearn.utils.validation import check_is_fitted

from tensorcontrast.decompose.base import CPEstimator
from tensorcontrast.decompose.options import with_options
from tensorcontrast.errors import InvalidInputError

__all__ = ["Criteria", "Selection", "information_criteria", "select"]


@dataclass(frozen=True)
class Criteria:
    """AIC and BIC of a fitted CP model on the data it was fitted on; smaller is better."""

    aic: float
    bic: float
    log_likelihood: float
    n_parameters: int


@dataclass(frozen=True)
class Selection:
    """Outcome of :func:`select`: the best parameters, the model fitted with them, every trial."""

    best_params: dict[str, Any]
    best_estimator: Any
    table: list[dict[str, Any]]
    criterion: str


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


def select(
    estimator: Any,
    grid: Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Sequence[Any]]],
    X: ArrayLike,
    *,
    view: Any = None,
    criterion: str = "bic",
    n_jobs: int | None = None,
) -> Selection:
    """Fit an estimator over a grid of parameters and keep the one with the best criterion.

    No labels are used. The criterion sees the reconstruction only, so that among weights β it
    favours small ones: choose β by the ε-region (``PLC(beta="auto")``) and rank and α by this.

    Parameters
    ----------
    estimator : CPD, ATD or PLC
        Cloned for every trial.
    grid : mapping of names to values, or several such
        For example ``{"rank": [8, 16, 32], "alpha": [1e-3, 1e-2]}``.
    X : array-like (n, I_1, …, I_K)
    view : array-like or callable, optional
        Passed to ``fit``.
    criterion : {"bic", "aic"}
    n_jobs : int, optional
        Trials at a time.

    Examples
    --------
    >>> from tensorcontrast import CPD
    >>> from tensorcontrast.datasets import make_cp_tensor
    >>> from tensorcontrast.evaluate.selection import select
    >>> X, *_ = make_cp_tensor(n_samples=80, dims=(5, 6, 7), rank=3, noise=0.1, random_state=0)
    >>> select(CPD(random_state=0), {"rank": [1, 2, 3, 4]}, X).best_params
    {'rank': 3}
    """
    if criterion not in ("aic", "bic"):
        raise InvalidInputError(f"criterion is {criterion!r}; use 'aic' or 'bic'")
    try:
        trials = list(ParameterGrid(grid))
        for params in trials:
            with_options(estimator, **params)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"grid cannot be used: {error}") from error

    def fit(params: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        model = with_options(estimator, **params).fit(X, view=view)
        found = information_criteria(model, X)
        row = {
            **params,
            "aic": found.aic,
            "bic": found.bic,
            "n_parameters": found.n_parameters,
            "reconstruction_error": model.reconstruction_error_,
            "n_iter": model.n_iter_,
        }
        return model, row

    fitted = Parallel(n_jobs=n_jobs)(delayed(fit)(params) for params in trials)
    best = min(range(len(trials)), key=lambda i: fitted[i][1][criterion])
    return Selection(trials[best], fitted[best][0], [row for _, row in fitted], criterion)
