"""Estimators with other parameters, as copies, and what notebooks show of them."""

from __future__ import annotations

from copy import copy
from importlib import import_module
from typing import Any, TypeVar

from sklearn.base import BaseEstimator, clone

Estimator = TypeVar("Estimator", bound=BaseEstimator)


def changed(estimator: Estimator, **params: object) -> Estimator:
    """Return an unfitted copy of an estimator with other parameters; those it lacks are left out.

    Examples
    --------
    >>> from sklearn.linear_model import Ridge
    >>> changed(Ridge(), alpha=2.0, no_such_parameter=3)
    Ridge(alpha=2.0)
    """
    copied: Estimator = clone(estimator)
    names = set(copied.get_params(deep=False))
    copied.set_params(**{k: v for k, v in params.items() if k in names})
    return copied


def changed_fitted(estimator: Estimator, **params: object) -> Estimator:
    """Return a fitted copy of an estimator with other parameters and the same learned arrays."""
    return copy(estimator).set_params(**params)


def with_learned(estimator: Estimator, **attributes: object) -> Estimator:
    """Return a fitted copy of an estimator with other values of some learned attributes."""
    copied = copy(estimator)
    vars(copied).update(attributes)
    return copied


class NotebookMixin:
    """Add what was learned to the diagram that scikit-learn shows of an estimator.

    Comes before ``BaseEstimator`` among the bases.
    """

    def _repr_html_inner(self) -> str:
        # By its name: what notebooks show is drawn by a later layer.
        notebook = import_module("tensorcontrast.report.notebook")
        diagram: str = super()._repr_html_inner()  # type: ignore[misc]
        return diagram + str(notebook.learned_html(self))

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        shown: dict[str, str] = super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]
        if "text/html" in shown:
            shown["text/html"] = self._repr_html_inner()
        return shown
