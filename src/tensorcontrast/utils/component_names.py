"""Names of feature columns: ``component_0``, ``component_1``, …, in Python and in files alike."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


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
        from sklearn.utils.validation import check_is_fitted  # slow, and no help text needs it

        check_is_fitted(self)
        return np.array(component_names(int(self._n_features_out)), dtype=object)
