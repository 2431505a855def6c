"""Parameters by short names, as files and the command line have them: ``max_iter``, ``tol``."""

from __future__ import annotations

from typing import Any, TypeVar

from sklearn.base import clone

from tensorcontrast.solvers.settings import ALS, Gradient, PaperALS

__all__ = ["build", "option_names", "with_options"]

Estimator = TypeVar("Estimator")

_ALS = frozenset(ALS._get_param_names())
_PAPER = frozenset(PaperALS._get_param_names())
_GRADIENT = frozenset(Gradient._get_param_names())


def option_names(cls: Any) -> list[str]:
    """Names that :func:`build` takes: the parameters of a class, and those of its settings.

    Examples
    --------
    >>> from tensorcontrast import CPD
    >>> [name for name in option_names(CPD) if name in ("rank", "tol", "n_epochs")]
    ['rank', 'tol']
    """
    own = list(cls._get_param_names())
    settings = getattr(cls, "_settings", {})
    nested = sorted(_PAPER if "als" in settings else ()) + sorted(
        _GRADIENT - _PAPER if "gradient" in settings else ()
    )
    return own + [name for name in nested if name not in own]


def build(cls: Any, **options: Any) -> Any:
    """Make an estimator from parameters and from those of its settings, by short names.

    Examples
    --------
    >>> from tensorcontrast import CPD
    >>> build(CPD, rank=3, max_iter=50)
    CPD(als=ALS(max_iter=50), rank=3)
    """
    return with_options(cls(), **options)


def with_options(estimator: Estimator, **options: Any) -> Estimator:
    """Return an unfitted copy of an estimator with other parameters, by short names."""
    model: Any = clone(estimator)
    settings = getattr(model, "_settings", {})
    own = set(model._get_param_names())
    plain = {name: value for name, value in options.items() if name in own or "__" in name}
    model.set_params(**plain)
    nested = {name: value for name, value in options.items() if name not in plain}
    to_gradient = "gradient" in settings and model.solver == "tied"
    for name, value in nested.items():
        if "gradient" in settings and name in _GRADIENT and (name not in _ALS or to_gradient):
            model.set_params(**{f"gradient__{name}": value})
        elif "als" in settings and name in _PAPER:
            if name not in _ALS and not isinstance(model.als, PaperALS):
                model.als = PaperALS(**({} if model.als is None else model.als.get_params()))
            model.set_params(**{f"als__{name}": value})
        else:
            model.set_params(**{name: value})  # its error lists the names
    return model
