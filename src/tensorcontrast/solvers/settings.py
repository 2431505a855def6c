"""Settings of the solvers: objects with named parameters, which a grid search can reach.

``CPD(als=ALS(tol=1e-4))`` gives an estimator its settings; ``als__tol`` is the name of the same
number in ``set_params`` and in a grid search.
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any, ClassVar

from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import Interval, StrOptions

__all__ = ["ALS", "Gradient", "PaperALS"]

_POSITIVE = Interval(Integral, 1, None, closed="left")


class ALS(BaseEstimator):
    """Settings of alternating least squares (E10).

    Parameters
    ----------
    max_iter : int, default=200
        Most sweeps over the data.
    tol : float, default=2e-5
        The fit ends once a sweep changes the objective by less than this share of the squared
        norm of the data, ``patience`` times in a row.
    patience : int, default=2
        Such sweeps in a row.
    init : "random" or sequence of (I_k, rank) arrays, default="random"
        Factors to start from.
    n_init : int, default=1
        Random starts. The one with the lowest objective is kept.
    warm_up : int, optional
        Sweeps without contrast at the start. Default: 5 for ``PLC(solver="als")``, else 0.
    batch_size : int, optional
        Windows per mini-batch (stochastic CPD). Default: all windows in one matrix product.
    step_size : float, default=1.0
        Step towards the solution of each mini-batch; with ``batch_size`` use about 5e-3.
    fresh_views : bool, default=False
        Draw the augmented view anew in each sweep, where the estimator makes it by ``augment``.
    compress : "auto", float, sequence of int or None, default="auto"
        Fit cores that one orthonormal basis per mode makes of the windows; the factors are mapped
        back exactly. "auto" does so for data that are read block by block, where windows have at
        least 2.5 times the 32 numbers per component that it keeps. Without contrast, fits on cores
        end with two sweeps over whole windows. Where there are many windows,
        "auto" also runs sweeps without contrast on a sketch, 3 combinations of windows per
        component, and ends with two sweeps over all windows. A number is the share of the energy of
        each mode to keep; integers are the ranks of the modes; None fits the windows themselves.
    forgetting : float, default=0.98
        Weight that old batches keep in ``partial_fit`` when a new one arrives.

    Examples
    --------
    >>> from tensorcontrast import ALS, CPD
    >>> model = CPD(rank=3, als=ALS(max_iter=50))
    >>> model.set_params(als__tol=1e-4).als
    ALS(max_iter=50, tol=0.0001)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "max_iter": [_POSITIVE],
        "tol": [Interval(Real, 0, None, closed="left")],
        "patience": [_POSITIVE],
        "init": [StrOptions({"random"}), list, tuple],
        "n_init": [_POSITIVE],
        "warm_up": [Interval(Integral, 0, None, closed="left"), None],
        "batch_size": [Interval(Integral, 2, None, closed="left"), None],
        "step_size": [Interval(Real, 0, 1, closed="right")],
        "fresh_views": ["boolean"],
        "compress": [
            StrOptions({"auto"}),
            Interval(Real, 0, 1, closed="right"),
            list,
            tuple,
            None,
        ],
        "forgetting": [Interval(Real, 0, 1, closed="both")],
    }

    #: Literal options of the papers; see :class:`PaperALS`.
    laplacian: str = "signed"
    units: str = "sample"
    trans_inv: bool = True
    center: bool = True
    scale: bool = True

    def __init__(
        self,
        *,
        max_iter: int = 200,
        tol: float = 2e-5,
        patience: int = 2,
        init: str | Sequence[NDArray[Any]] = "random",
        n_init: int = 1,
        warm_up: int | None = None,
        batch_size: int | None = None,
        step_size: float = 1.0,
        fresh_views: bool = False,
        compress: str | float | Sequence[int] | None = "auto",
        forgetting: float = 0.98,
    ) -> None:
        self.max_iter = max_iter
        self.tol = tol
        self.patience = patience
        self.init = init
        self.n_init = n_init
        self.warm_up = warm_up
        self.batch_size = batch_size
        self.step_size = step_size
        self.fresh_views = fresh_views
        self.compress = compress
        self.forgetting = forgetting


class PaperALS(ALS):
    """Settings of alternating least squares with the literal options of the paper.

    Parameters
    ----------
    laplacian : {"signed", "literal"}, default="signed"
        "literal" keeps the identity inside L, which pulls against the invariance (E5).
    units : {"sample", "paper"}, default="sample"
        With "paper", β and γ are the symbols of the paper: E6 is a mean over the N windows, so that
        ``β = β_paper / N`` and ``γ = N γ_paper`` are used.
    trans_inv : bool, default=True
        False is the ablation without transformation invariance.
    center, scale : bool, default=True
        Subtract the mean tensor, and scale to a mean squared norm of 1 per window. The authors of
        ATD do neither.
    max_iter, tol, patience, init, n_init, warm_up : see :class:`ALS`
        When a fit starts and ends.
    batch_size, step_size, fresh_views, compress, forgetting : see :class:`ALS`
        What a sweep goes over.

    Examples
    --------
    >>> from tensorcontrast import PLC, PaperALS
    >>> PLC.paper(rank=8).als.units
    'sample'
    >>> PLC(rank=8, solver="als", als=PaperALS(laplacian="literal", units="paper"))
    PLC(als=PaperALS(laplacian='literal', units='paper'), rank=8, solver='als')
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ALS._parameter_constraints,
        "laplacian": [StrOptions({"signed", "literal"})],
        "units": [StrOptions({"sample", "paper"})],
        "trans_inv": ["boolean"],
        "center": ["boolean"],
        "scale": ["boolean"],
    }

    def __init__(
        self,
        *,
        laplacian: str = "signed",
        units: str = "sample",
        trans_inv: bool = True,
        center: bool = True,
        scale: bool = True,
        max_iter: int = 200,
        tol: float = 2e-5,
        patience: int = 2,
        init: str | Sequence[NDArray[Any]] = "random",
        n_init: int = 1,
        warm_up: int | None = None,
        batch_size: int | None = None,
        step_size: float = 1.0,
        fresh_views: bool = False,
        compress: str | float | Sequence[int] | None = "auto",
        forgetting: float = 0.98,
    ) -> None:
        super().__init__(
            max_iter=max_iter,
            tol=tol,
            patience=patience,
            init=init,
            n_init=n_init,
            warm_up=warm_up,
            batch_size=batch_size,
            step_size=step_size,
            fresh_views=fresh_views,
            compress=compress,
            forgetting=forgetting,
        )
        self.laplacian = laplacian
        self.units = units
        self.trans_inv = trans_inv
        self.center = center
        self.scale = scale


class Gradient(BaseEstimator):
    """Settings of the encoder-tied gradient solver (E19, E20).

    Parameters
    ----------
    n_epochs : int, default=25
        Passes over the data. The step falls to zero over them.
    learning_rate : float, default=1.5e-2
        First step of Adam.
    temperature : float, default=0.2
        Softmax temperature τ (E20).
    batch_size : int, default=512
        Windows per step.
    contrast : {"softmax", "signed"}, default="softmax"
        Softmax over the pseudo graph (E20), or the linear form of the paper (E7).

    Examples
    --------
    >>> from tensorcontrast import PLC, Gradient
    >>> PLC(rank=8, solver="tied", gradient=Gradient(n_epochs=5))
    PLC(gradient=Gradient(n_epochs=5), rank=8, solver='tied')
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_epochs": [_POSITIVE],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "temperature": [Interval(Real, 0, None, closed="neither")],
        "batch_size": [Interval(Integral, 2, None, closed="left")],
        "contrast": [StrOptions({"softmax", "signed"})],
    }

    def __init__(
        self,
        *,
        n_epochs: int = 25,
        learning_rate: float = 1.5e-2,
        temperature: float = 0.2,
        batch_size: int = 512,
        contrast: str = "softmax",
    ) -> None:
        self.n_epochs = n_epochs
        self.learning_rate = learning_rate
        self.temperature = temperature
        self.batch_size = batch_size
        self.contrast = contrast
