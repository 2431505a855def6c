"""Coupled blocks (E22): several tensors of the same windows, side by side in one row per window.

The solvers see rows (n, i) with i = Σ_b ∏I_k: every block flattened and multiplied by its own
number √λ_b. Only the factors know which entries are whose (:class:`.kernels.CoupledFactors`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import isfinite, prod, sqrt
from numbers import Real
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorcontrast.errors import InvalidInputError
from tensorcontrast.solvers import robust
from tensorcontrast.solvers.prepare import prepare
from tensorcontrast.sources.source import (
    ArraySource,
    Source,
    StoredSource,
    checked_block,
    forget_pages,
    is_dask,
    lazy,
    samples_a_block,
    with_nan,
    working_dtype,
)
from tensorcontrast.utils import checks
from tensorcontrast.utils.arrays import as_array

Array = NDArray[Any]
Dims = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Joined:
    """Rows (n, i) that hold coupled blocks side by side, weighted already, and their shapes.

    ``rows`` is an array, a Dask array or a source of blocks of windows.
    """

    rows: Any
    dims: Dims


@dataclass(frozen=True)
class Layout:
    """Where blocks of these shapes are in a row, and what each was multiplied with."""

    dims: Dims
    scales: tuple[float, ...]

    @property
    def size(self) -> int:
        """Entries of a row."""
        return sum(prod(dims) for dims in self.dims)

    @property
    def places(self) -> list[slice]:
        """Entries of each block."""
        edges = accumulate((prod(dims) for dims in self.dims), initial=0)
        return [slice(a, b) for a, b in pairwise(edges)]

    def weigh(self, rows: Any) -> Any:
        """Multiply each block of rows (n, i), an array or a Dask array, with its number."""
        if all(scale == 1.0 for scale in self.scales):
            return rows
        return rows * np.repeat(self.scales, [prod(d) for d in self.dims]).astype(rows.dtype)

    def split(self, rows: Array) -> list[Array]:
        """Return the blocks (n, I_1, …, I_K) of rows, in their own units."""
        return [
            (rows[:, at] / rows.dtype.type(scale)).reshape(len(rows), *dims)
            for at, dims, scale in zip(self.places, self.dims, self.scales, strict=True)
        ]


def given(X: Any, *, coupled: bool = False) -> list[Any] | Joined | None:
    """Return the coupled blocks that X holds; None where it is one tensor.

    A tuple of arrays is always one of blocks. A list of arrays is where their shapes differ;
    otherwise it is an array-like of windows, unless the model was fitted on ``coupled`` blocks.
    """
    if isinstance(X, Joined):
        return X
    if not isinstance(X, list | tuple):
        return None
    orders = [getattr(block, "ndim", 0) for block in X]
    if not any(order > 1 for order in orders):
        return None
    if isinstance(X, tuple) or coupled:
        return list(X)
    alike = 0 in orders or len({tuple(block.shape) for block in X}) == 1
    return None if alike else list(X)


def learn_layout(
    estimator: Any, X: list[Any] | Joined, *, min_samples: int = 1
) -> tuple[Source, Layout]:
    """Return the rows of coupled blocks to fit, checked, and where each block is in them.

    What is mapped or stored is read some windows at a time. Equation E22.
    """
    nan = estimator.missing == "mask"
    dtype = None if estimator.dtype is None else np.dtype(estimator.dtype)
    rows, dims = _side_by_side(X, dtype, "X", nan=nan)
    count = rows.n_samples if _is_source(rows) else len(rows)
    if count is not None and count < min_samples:
        raise InvalidInputError(
            f"{type(estimator).__name__}: X holds {count} windows; at least {min_samples} are "
            "needed"
        )
    scales = (1.0,) * len(dims)
    if estimator.block_weights is not None or not isinstance(X, Joined):
        scales = _learned_scales(estimator, rows, dims)
    layout = Layout(dims, scales)
    return as_source(_weighed(rows, layout), nan=nan), layout


def fitted_rows(estimator: Any, X: Any, name: str, layout: Layout | None, center: Array) -> Any:
    """Return coupled blocks as rows that the layout of a fit describes.

    They are an array, or read on demand; ``center`` is the mean of the fit.
    """
    coupled = given(X, coupled=True)
    who = type(estimator).__name__
    if layout is None:
        raise InvalidInputError(
            f"{who}: {name} holds coupled blocks but the model was fitted on one tensor of dims "
            f"{tuple(center.shape)} per window; pass one array"
        )
    if coupled is None:
        raise InvalidInputError(
            f"{who}: the model was fitted on {len(layout.dims)} coupled blocks; pass {name} as a "
            "list of as many arrays"
        )
    rows, dims = _side_by_side(coupled, center.dtype, name, nan=estimator.missing == "mask")
    if dims != layout.dims:
        raise InvalidInputError(
            f"{who}: {name} holds blocks of dims {list(dims)} but the model was fitted on "
            f"{list(layout.dims)}"
        )
    if isinstance(coupled, Joined) and estimator.block_weights is None:
        return rows  # weighted by the caller
    return _weighed(rows, layout)


def as_source(rows: Any, *, nan: bool) -> Source:
    """Return rows of coupled blocks as a source; ``nan`` allows missing values."""
    found = lazy(rows, getattr(rows, "dtype", None))
    return with_nan(ArraySource(rows) if found is None else found, nan)


def _weighed(rows: Any, layout: Layout) -> Any:
    """Multiply each block of rows, an array or read on demand, with its number."""
    return _Changed(rows, layout.weigh) if _is_source(rows) else layout.weigh(rows)


def on_blocks(
    augment: Callable[..., Any] | None, layout: Layout | None
) -> Callable[[Array, np.random.Generator], Array] | None:
    """Let a caller's ``augment(blocks, rng)`` change rows: it sees a list of the blocks."""
    if augment is None or layout is None:
        return augment

    def change(rows: Array, rng: np.random.Generator) -> Array:
        augmented = augment(layout.split(rows), rng)
        tensors = given(augmented, coupled=True)
        if tensors is None:
            raise InvalidInputError(
                f"augment must return a list of {len(layout.dims)} blocks, as it is given"
            )
        found, dims = _side_by_side(tensors, rows.dtype, "the augmented view", nan=True)
        if dims != layout.dims:
            raise InvalidInputError(
                f"augment made blocks of dims {list(dims)} from {list(layout.dims)}; it must keep "
                "the shapes"
            )
        return np.asarray(layout.weigh(found))

    return change


def _learned_scales(estimator: Any, rows: Any, dims: Dims) -> tuple[float, ...]:
    """Return what gives each block its share of the variance; 1 for the first. Equation E22."""
    shares = shares_of(estimator.block_weights, len(dims))
    measure = robust.prepare if estimator.robust == "huber" else prepare
    sizes = []
    for b, at in enumerate(Layout(dims, ()).places):
        if _is_source(rows):
            source: Source = _Changed(rows, itemgetter((slice(None), at)))
        else:
            source = lazy(rows[:, at]) or ArraySource(rows[:, at])
        with_nan(source, estimator.missing == "mask")
        try:
            found = measure(source, None, estimator.rank, center=estimator._als.center, scale=True)
        except InvalidInputError as error:
            raise InvalidInputError(f"X[{b}]: {error}; or leave this block out") from error
        sizes.append(found.scale)
    return tuple(
        1.0 if b == 0 else sqrt(share / shares[0]) * sizes[0] / size
        for b, (share, size) in enumerate(zip(shares, sizes, strict=True))
    )


def shares_of(block_weights: Any, count: int) -> tuple[float, ...]:
    """Return the shares of the variance that ``block_weights`` asks for; they sum to 1."""
    weights = (1.0,) * count if block_weights is None else tuple(block_weights)
    if len(weights) != count or not all(
        isinstance(w, Real) and isfinite(float(w)) and float(w) > 0 for w in weights
    ):
        raise InvalidInputError(
            f"block_weights={block_weights!r}: one positive number is needed for each of "
            f"the {count} blocks"
        )
    total = sum(float(w) for w in weights)
    return tuple(float(w) / total for w in weights)


def _is_source(rows: Any) -> bool:
    return hasattr(rows, "blocks") and hasattr(rows, "dims")


def _side_by_side(
    X: list[Any] | Joined, dtype: np.dtype[Any] | None, name: str, *, nan: bool
) -> tuple[Any, Dims]:
    """Return blocks as rows (n, i) in their own units, and their shapes.

    The rows are an array, a Dask array where one of the blocks is, or a source where one of them is
    mapped or stored.
    """
    if isinstance(X, Joined):
        if _is_source(X.rows) or is_dask(X.rows):
            return X.rows, X.dims
        return _checked(X.rows, dtype, name, nan=nan), X.dims
    tensors: list[Any] = []
    for b, block in enumerate(X):
        own = f"{name}[{b}]"
        stored = lazy(block, dtype, own)
        if is_dask(block):
            tensors.append(block.compute_chunk_sizes() if np.isnan(block.shape[0]) else block)
        elif isinstance(stored, StoredSource):
            tensors.append(with_nan(stored, nan))
        else:
            tensors.append(_checked(block, dtype, own, nan=nan))
    lengths = [p.n_samples if isinstance(p, StoredSource) else len(p) for p in tensors]
    if len(set(lengths)) > 1:
        raise InvalidInputError(
            f"the blocks of {name} hold {lengths} windows: coupled blocks must hold the same "
            "windows in the same order (and an array-like of windows must have windows of one "
            "shape)"
        )
    dims = tuple(
        tuple(int(d) for d in (p.dims if isinstance(p, StoredSource) else p.shape[1:]))
        for p in tensors
    )
    if any(is_dask(p) for p in tensors):
        return _on_dask(tensors, dtype), dims
    if any(isinstance(p, StoredSource) for p in tensors):
        return _Stored(tensors, name, nan=nan), dims
    return np.concatenate([p.reshape(len(p), -1) for p in tensors], axis=1), dims


def _checked(block: Any, dtype: np.dtype[Any] | None, name: str, *, nan: bool) -> Array:
    """Return a block in memory as an array of floats, of windows (n, I_1, …, I_K)."""
    if hasattr(block, "iloc"):
        block = block.to_numpy()
    array = as_array(block, name, missing=nan)
    if array.ndim < 2 or 0 in array.shape:
        raise InvalidInputError(
            f"{name} has shape {array.shape}; a block holds windows (n, I_1, …, I_K) of at least "
            "one value: pass one value per window as (n, 1)"
        )
    source = with_nan(ArraySource(array, name), nan)
    source.dtype = dtype or working_dtype(array.dtype, name)
    return checked_block(array, source, 0)


def _on_dask(tensors: list[Any], dtype: np.dtype[Any] | None) -> Any:
    """Rows of blocks one of which is a Dask array, in the chunks of windows that it has."""
    from tensorcontrast.distributed.extra import package

    da = package("dask.array")
    chunks = next(p.chunks[0] for p in tensors if is_dask(p))
    flat = []
    for tensor in tensors:
        if isinstance(tensor, StoredSource):
            tensor = tensor.X
        if not is_dask(tensor):
            tensor = da.from_array(tensor, chunks=(chunks, *(-1 for _ in tensor.shape[1:])))
        tensor = tensor.rechunk({0: chunks, **dict.fromkeys(range(1, tensor.ndim), -1)})
        flat.append(tensor.reshape(tensor.shape[0], -1))
    wanted = dtype or working_dtype(np.result_type(*(tensor.dtype for tensor in flat)), "X")
    cast = [
        tensor.map_blocks(_cast, wanted, f"X[{b}]", dtype=wanted, meta=np.empty((0, 0), wanted))
        for b, tensor in enumerate(flat)
    ]
    return da.concatenate(cast, axis=1)


def _cast(rows: Array, dtype: np.dtype[Any], name: str) -> Array:
    """Rows of one block in another type; an error where float32 would lose digits."""
    if checks.becomes_float32(rows.dtype, dtype):
        checks.check_rounding(rows, name, "dtype='float64' or ")
    return rows.astype(dtype, copy=False)


class _Stored:
    """Rows of blocks some of which are mapped or stored, read some windows at a time."""

    def __init__(self, tensors: list[Any], name: str, *, nan: bool) -> None:
        self.tensors = [
            with_nan(p if isinstance(p, StoredSource) else ArraySource(p, f"{name}[{b}]"), nan)
            for b, p in enumerate(tensors)
        ]
        self.name, self.n_samples = name, self.tensors[0].n_samples
        self.dims = (sum(prod(p.dims) for p in self.tensors),)
        self.dtype = np.result_type(*(p.dtype for p in self.tensors))

    def blocks(self) -> Iterator[Array]:
        """Read and check some windows of all blocks at a time."""
        step = samples_a_block(self.dims)
        for start in range(0, self.n_samples, step):
            rows = []
            for tensor in self.tensors:
                read = np.array(tensor.X[start : start + step])
                forget_pages(tensor.X)
                rows.append(checked_block(read, tensor, start).reshape(len(read), -1))
            yield np.concatenate(rows, axis=1)


class _Changed:
    """Rows of another source after a function: other columns, other units."""

    def __init__(self, source: Source, change: Callable[[Array], Array]) -> None:
        self.source, self.change, self.name = source, change, source.name
        self.dtype = source.dtype
        self.dims = change(np.empty((1, *source.dims), source.dtype)).shape[1:]

    @property
    def n_samples(self) -> int | None:
        """As many as the other source has."""
        return self.source.n_samples

    def blocks(self) -> Iterator[Array]:
        """Read and change some windows at a time."""
        for block in self.source.blocks():
            yield np.ascontiguousarray(self.change(block))


def check_layout(dims: Any, scales: Any, factors: list[Any], rows: tuple[int, ...]) -> None:
    """Raise where dims and scales of the blocks of a loaded model do not fit its rows."""
    if dims is None and scales is None:
        return
    whole = (
        isinstance(dims, tuple)
        and isinstance(scales, tuple)
        and len(dims) == len(scales) == len(factors) > 0
        and all(isinstance(block, tuple) and block for block in dims)
        and all(type(d) is int and d > 0 for block in dims for d in block)
        and all(isinstance(s, float) and isfinite(s) and s > 0 for s in scales)
        and all(
            isinstance(block, list) and len(block) == len(own)
            for block, own in zip(factors, dims, strict=True)
        )
        and rows == (sum(prod(block) for block in dims),)
    )
    if not whole:
        raise InvalidInputError(
            f"blocks of dims {dims}, multiplied by {scales}, do not fit a model of rows {rows}; "
            "fit again"
        )
