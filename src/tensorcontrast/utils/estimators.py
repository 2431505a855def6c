"""Estimators with other parameters, as copies, and what notebooks show of them."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from importlib import import_module
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

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


def learned_attributes(model: Any) -> dict[str, Any]:
    """Return what ``fit`` has learned: names that end in "_", and those of ``_learned_private``."""
    private = getattr(type(model), "_learned_private", ())
    return {
        name: value
        for name, value in vars(model).items()
        if name in private or (name.endswith("_") and not name.startswith("_"))
    }


def assign_learned(model: Any, attributes: Mapping[str, Any]) -> None:
    """Put ``attributes`` in the place of everything that was learned before, in one step."""
    before = learned_attributes(model)
    other = {name: value for name, value in vars(model).items() if name not in before}
    model.__dict__ = {**other, **attributes}


class RebuiltMixin:
    """Pickles without what follows from the learned attributes, and is rebuilt from them.

    Comes before ``BaseEstimator`` among the bases.
    """

    #: Learned attributes whose names do not end in an underscore; ``_rebuild`` makes them.
    _learned_private: ClassVar[tuple[str, ...]] = ()

    def _rebuild(self) -> None:
        raise NotImplementedError

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()  # type: ignore[assignment]
        return {name: value for name, value in state.items() if name not in self._learned_private}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[misc]
        if learned_attributes(self):
            self._rebuild()


def component_names(count: int) -> list[str]:
    """Names of so many feature columns.

    Examples
    --------
    >>> component_names(2)
    ['component_0', 'component_1']
    """
    return [f"component_{r}" for r in range(count)]


class ComponentNamesMixin:
    """``get_feature_names_out`` of estimators whose features are components."""

    _n_features_out: Any

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Names of the columns of ``transform``: component_0, component_1 and so on.

        Parameters
        ----------
        input_features : ignored
            Names of features are those of the components, whatever the input is called.
        """
        check_is_fitted(self)
        return np.array(component_names(int(self._n_features_out)), dtype=object)
