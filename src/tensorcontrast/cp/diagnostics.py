"""CP degeneracy: components that grow without bound while they cancel each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorcontrast.cp import kernels
from tensorcontrast.utils import checks

Array = NDArray[Any]
Factors = Sequence[Array]

#: Congruence below which two components count as cancelling each other.
CANCELS = -0.9


def most_opposed(factors: Factors, feature_gram: Array) -> tuple[float, int, int]:
    """Most negative congruence of two components, and which they are; 0 where there is none.

    The congruence is the product over all modes, windows included, of the cosines between the
    components' columns: −1 where one component takes back what the other one adds. ``factors`` have
    columns of unit length or zero; ``feature_gram`` is WᵀW.

    References
    ----------
    Mitchell, Burdick: Slowly converging PARAFAC sequences. J. Chemometrics 8, 1994.
    """
    gram = np.asarray(feature_gram, dtype=np.float64)
    size = np.sqrt(np.maximum(np.diagonal(gram), 0.0))
    cosines = gram / np.where(size > 0, size, 1)[:, None] / np.where(size > 0, size, 1)
    HtH = kernels.gram(kernels.in_float64(factors))
    length = np.sqrt(np.maximum(np.diagonal(HtH), np.finfo(float).tiny))
    congruence = cosines * (HtH / length[:, None] / length)
    np.fill_diagonal(congruence, 0.0)
    a, b = np.unravel_index(int(np.argmin(congruence)), congruence.shape)
    return min(float(congruence[a, b]), 0.0), int(min(a, b)), int(max(a, b))


def warn_if_degenerate(name: str, value: float, a: int, b: int) -> None:
    """Warn where two components cancel each other, with the way out."""
    if value < CANCELS:
        checks.warn(
            f"{name}: components {a} and {b} cancel each other (congruence {value:.3f}): the fit "
            "is degenerate, and these two mean nothing by themselves; pass a larger alpha or a "
            "smaller rank",
        )
