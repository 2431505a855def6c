"""Where a fit starts: the rank that the data allows, and the first factors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from tensorcontrast.cp import kernels
from tensorcontrast.errors import InvalidInputError

Array = NDArray[Any]
BlockDims = Sequence[Sequence[int]]


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


def allowed_coupled_rank(rank: int, n: int, block_dims: BlockDims) -> tuple[int, str]:
    """``rank``, or the largest that one of the coupled blocks can have and a word on it."""
    return max((allowed_rank(rank, (n, *dims)) for dims in block_dims), key=lambda pair: pair[0])


def shapes(dims: Sequence[int], rank: int, block_dims: BlockDims = ()) -> list[tuple[int, int]]:
    """Shapes of the factors of tensors, or of coupled blocks, one after the other."""
    return [(int(d), rank) for block in block_dims or (dims,) for d in block]


def in_blocks(factors: Sequence[Array], block_dims: BlockDims) -> kernels.Factors:
    """Return the factors in these blocks; as a list where there are none."""
    left = iter(factors)
    if not block_dims:
        return list(factors)
    return kernels.CoupledFactors([[next(left) for _ in block] for block in block_dims])


def drawn(
    wanted: Sequence[tuple[int, int]], dtype: DTypeLike, rng: np.random.Generator
) -> list[Array]:
    """Factors of the ``wanted`` shapes with unit columns at random."""
    found = [rng.standard_normal(shape).astype(dtype) for shape in wanted]
    return [U / np.linalg.norm(U, axis=0, keepdims=True) for U in found]


def given(
    init: Sequence[Any], dims: Sequence[int], rank: int, dtype: DTypeLike, block_dims: BlockDims
) -> kernels.Factors:
    """Factors that a caller wants a fit to start from: one array per mode, a list per block."""
    wanted: Any = shapes(dims, rank)
    try:
        if block_dims:
            wanted = [shapes(block, rank) for block in block_dims]
            nested = [[np.array(U, dtype=dtype) for U in block] for block in init]
            found: Any = [[U.shape for U in block] for block in nested]
            factors: kernels.Factors = kernels.CoupledFactors(nested)
        else:
            factors = [np.array(U, dtype=dtype) for U in init]
            found = [U.shape for U in factors]
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f"init holds something else than arrays of numbers of shapes {wanted}: {error}"
        ) from error
    if found != wanted or not all(np.isfinite(U).all() for U in factors):
        raise InvalidInputError(
            f"init holds arrays of shapes {found}; "
            f"finite ones of shapes {wanted} are needed, one per mode"
        )
    return factors
