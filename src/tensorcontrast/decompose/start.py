"""Where a fit starts: the rank that the data allows, and the first factors."""

from __future__ import annotations

import math
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


def shapes(dims: tuple[int, ...], rank: int, beside: int = 0) -> list[tuple[int, ...]]:
    """Shapes of the factors of tensors whose last ``beside`` slices stand beside the modes."""
    out: list[tuple[int, ...]] = [(d, rank) for d in (dims[0] - beside, *dims[1:])]
    return [*out, (1, beside * math.prod(dims[1:]), rank)] if beside else out


def core_shapes(bases: Sequence[Array], rank: int) -> list[tuple[int, ...]]:
    """Shapes of the factors of cores of these bases (:mod:`.compress`)."""
    return [(*V.shape[:-2], V.shape[-1] or V.shape[-2], rank) for V in bases]


def factors(
    init: str | Sequence[Array],
    wanted: list[tuple[int, ...]],
    dtype: DTypeLike,
    rng: np.random.Generator,
) -> list[Array]:
    """Factors of the ``wanted`` shapes to start from: of unit columns at random, or those given."""
    if isinstance(init, str):
        drawn = [rng.standard_normal(shape).astype(dtype) for shape in wanted]
        return [U / np.linalg.norm(U, axis=-2, keepdims=True) for U in drawn]
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
