"""Standardised features of unit length: as the contrast of PLC compares samples (E20)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorcontrast.decompose.source import is_dask

Array = NDArray[Any]


def moments(W: Any) -> tuple[Array, Array]:
    """Mean and standard deviation (r,) of the fitted features W (n, r), 1 where these are equal."""
    if is_dask(W):
        from tensorcontrast.distributed._extra import package

        mean, deviation = package("dask").compute(W.mean(axis=0), W.std(axis=0))
    else:
        mean, deviation = W.mean(axis=0, dtype=np.float64), W.std(axis=0, dtype=np.float64)
    dtype = W.dtype
    deviation = np.where(deviation > 0, deviation, 1.0)
    return np.asarray(mean, dtype=dtype), np.asarray(deviation, dtype=dtype)


def scaled(W: Any, mean: Array, deviation: Array) -> Any:
    """Features W (n, r), standardised, each sample scaled to a root mean square of one.

    A sample at the mean itself has no direction and stays there.
    """
    if is_dask(W):
        return W.map_blocks(scaled, mean, deviation, dtype=W.dtype, meta=np.empty((0, 0), W.dtype))
    Z = (W - mean) / deviation
    size = np.sqrt(np.einsum("ij,ij->i", Z, Z) / Z.shape[1])
    size[size == 0] = 1
    return Z / size[:, None]
