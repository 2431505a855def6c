"""Where a fit starts: the rank that the data allows, and the first factors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from tensorcontrast.errors import InvalidInputError

Array = NDArray[Any]


def allowed_rank(rank: int, shape: tuple[int, ...]) -> tuple[int, str]:
    """``rank``, or the largest rank that a tensor of this shape can have and a word on it."""
    bound = 1
    for size in sorted(shape)[:-1]:
        bound = min(bound * size, 2**31)
    if rank <= bound:
        return int(rank), ""
    return bound, (
        f"rank={rank} is more than a tensor of shape {shape} can have; rank_={bound} is used"
    )


def factors(
    init: str | Sequence[Array],
    dims: tuple[int, ...],
    rank: int,
    dtype: DTypeLike,
    rng: np.random.Generator,
) -> list[Array]:
    """Factors to start from: drawn with columns of unit length, or those given."""
    if isinstance(init, str):
        drawn = [rng.standard_normal((d, rank)).astype(dtype) for d in dims]
        return [U / np.linalg.norm(U, axis=0) for U in drawn]
    wanted = [(d, rank) for d in dims]
    try:
        given = [np.array(U, dtype=dtype) for U in init]
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f"init holds something else than arrays of numbers of shapes {wanted}: {error}"
        ) from error
    if [U.shape for U in given] != wanted or not all(np.isfinite(U).all() for U in given):
        raise InvalidInputError(
            f"init holds arrays of shapes {[U.shape for U in given]}; "
            f"finite ones of shapes {wanted} are needed, one a mode"
        )
    return given
