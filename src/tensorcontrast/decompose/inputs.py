"""What a caller gives an estimator, as windows: one tensor per window, or coupled blocks (E22).

The solvers see rows (n, i) with i = Σ_b ∏I_k: every block flattened, side by side, each multiplied
by its own number √λ_b. Only the factors know which values are whose
(:class:`.kernels.CoupledFactors`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import isfinite, prod, sqrt
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorcontrast.errors import InvalidInputError, InvalidTypeError
from tensorcontrast.solvers.als import BlockDims
from tensorcontrast.solvers.dask_windows import DaskWindows
from tensorcontrast.solvers.windows import (
    ArrayWindows,
    FileWindows,
    Scaling,
    Windows,
    checked_rows,
    is_dask,
)
from tensorcontrast.utils import checks
from tensorcontrast.utils.arrays import as_array

Array = NDArray[Any]


@dataclass(frozen=True)
class Joined:
    """Rows (n, i) that hold coupled blocks side by side, and their shapes.

    ``rows`` is an array, or :class:`.Windows`.
    """

    rows: Any
    dims: BlockDims


@dataclass(frozen=True)
class Layout:
    """Where the blocks of a window are in its row, and what each was multiplied with.

    One tensor per window is one block that is not ``coupled``.
    """

    dims: BlockDims
    coupled: bool
    scales: tuple[float, ...]

    @property
    def size(self) -> int:
        """Values of a row."""
        return sum(prod(dims) for dims in self.dims)

    @property
    def places(self) -> list[slice]:
        """Values of each block."""
        edges = accumulate((prod(dims) for dims in self.dims), initial=0)
        return [slice(a, b) for a, b in pairwise(edges)]

    @property
    def factor(self) -> Array:
        """What each value of a row is multiplied with (i,)."""
        return np.repeat(self.scales, [prod(d) for d in self.dims])

    def split(self, rows: Array) -> list[Array]:
        """Return the blocks (n, I_1, …, I_K) of rows, in their own units."""
        return self.split_raw(rows / self.factor.astype(rows.dtype))

    def split_raw(self, rows: Array) -> list[Array]:
        """Return the blocks of rows that are not multiplied with the scales."""
        return [
            rows[:, at].reshape(len(rows), *dims)
            for at, dims in zip(self.places, self.dims, strict=True)
        ]


@dataclass(frozen=True)
class Given:
    """Windows that a caller has passed, in their own units."""

    windows: Windows
    dims: BlockDims
    coupled: bool
    n_features_in: int = 0
    #: Names of the columns of a table; None for anything else.
    feature_names_in: Array | None = None


def coupled_blocks(X: Any, *, coupled: bool = False) -> list[Any] | Joined | None:
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


def read_windows(estimator: Any, X: Any, *, fitted: Layout | None = None) -> Given:
    """Return what was passed to ``fit``, or to a method of a fitted model, checked.

    What is stored or on Dask is checked block by block when it is read.
    """
    blocks = coupled_blocks(X, coupled=fitted is not None and fitted.coupled)
    single = blocks is None or (isinstance(blocks, Joined) and len(blocks.dims) == 1)
    if fitted is not None and fitted.coupled == single:
        kinds = {True: f"{len(fitted.dims)} coupled blocks, as a list", False: "one array"}
        raise InvalidInputError(
            f"{type(estimator).__name__}: the model was fitted on {kinds[fitted.coupled]}; X is "
            "something else"
        )
    data = (
        _one_tensor(estimator, X, fitted) if blocks is None else _coupled(estimator, blocks, fitted)
    )
    if fitted is None:
        if data.windows.n < 2:
            raise InvalidInputError(
                f"{type(estimator).__name__}: X holds {data.windows.n} windows; at least 2 are "
                "needed"
            )
        return data
    if data.dims != fitted.dims:
        raise InvalidInputError(
            f"{type(estimator).__name__}: X has windows of dims {list(data.dims)}; the model was "
            f"fitted on {list(fitted.dims)}; make both with the same channels and transformers"
        )
    return data


def _one_tensor(estimator: Any, X: Any, fitted: Layout | None) -> Given:
    if fitted is None and estimator.block_weights is not None:
        raise InvalidInputError(
            f"block_weights={estimator.block_weights!r} is for coupled blocks, and X is one "
            "tensor; pass a list of arrays, or leave block_weights out"
        )
    nan = estimator.missing == "mask"
    model_dtype = _dtype(estimator, fitted)
    stored = _stored([X], model_dtype, nan) if is_stored(X) or is_dask(X) else None
    if stored is not None:
        dims = (tuple(int(d) for d in X.shape[1:]),)
        return Given(stored, dims, False, n_features_in=int(X.shape[1]))
    _refuse_streams(X)
    if fitted is None:
        checked = checks.check_training_tensor(estimator, X, min_samples=2)
        rows, names, n_features = checked.X, checked.feature_names_in, checked.n_features_in
    else:
        rows, names = checks.check_tensor(estimator, X, reset=False), None
        n_features = int(rows.shape[1])
    windows = ArrayWindows(rows.reshape(len(rows), -1))
    return Given(windows, (rows.shape[1:],), False, n_features, names)


def _coupled(estimator: Any, blocks: list[Any] | Joined, fitted: Layout | None) -> Given:
    nan = estimator.missing == "mask"
    model_dtype = _dtype(estimator, fitted)
    if isinstance(blocks, Joined):
        windows = blocks.rows
        if isinstance(windows, np.ndarray):
            dtype = model_dtype or working_dtype(windows.dtype, "X")
            windows = ArrayWindows(checked_rows(windows, "X", dtype, nan=nan))
        coupled = len(blocks.dims) > 1
        n_features = windows.size if coupled else blocks.dims[0][0]
        return Given(windows, blocks.dims, coupled, n_features)
    arrays = [
        block if is_stored(block) or is_dask(block) else _array(block, f"X[{b}]")
        for b, block in enumerate(blocks)
    ]
    lengths = [int(block.shape[0]) for block in arrays if not _unknown(block)]
    if len(set(lengths)) > 1:
        raise InvalidInputError(
            f"the blocks of X hold {lengths} windows: coupled blocks must hold the same windows in "
            "the same order (and an array-like of windows must have windows of one shape)"
        )
    dims = tuple(tuple(int(d) for d in block.shape[1:]) for block in arrays)
    windows = _stored(arrays, model_dtype, nan)
    if windows is None:
        dtype = model_dtype or working_dtype(np.result_type(*(a.dtype for a in arrays)), "X")
        rows = [checked_rows(a, f"X[{b}]", dtype, nan=nan) for b, a in enumerate(arrays)]
        windows = ArrayWindows(np.concatenate(rows, axis=1))
    return Given(windows, dims, True, windows.size)


def _dtype(estimator: Any, fitted: Layout | None) -> np.dtype[Any] | None:
    """Type of the numbers of a model, or what the parameters say; None for that of X."""
    if fitted is not None:
        return np.dtype(estimator.center_.dtype)
    return None if estimator.dtype is None else np.dtype(estimator.dtype)


def _unknown(block: Any) -> bool:
    """Whether a Dask array does not know its length yet."""
    return is_dask(block) and bool(np.isnan(block.shape[0]))


def _array(block: Any, name: str) -> Array:
    if hasattr(block, "iloc"):
        block = block.to_numpy()
    array = as_array(block, name)
    if array.ndim < 2 or 0 in array.shape:
        raise InvalidInputError(
            f"{name} has shape {array.shape}; a block holds windows (n, I_1, …, I_K) of at least "
            "one value: pass one value per window as (n, 1)"
        )
    return array


def _stored(arrays: list[Any], dtype: np.dtype[Any] | None, nan: bool) -> Windows | None:
    """Return windows that are not in memory; None where all are."""
    if any(map(is_dask, arrays)):
        return DaskWindows.from_arrays(arrays, dtype, nan=nan)
    if not any(map(is_stored, arrays)):
        return None
    for b, array in enumerate(arrays):
        if len(array.shape) < 2 or 0 in array.shape:
            raise InvalidInputError(
                f"X[{b}] has shape {tuple(array.shape)}; windows (n, I_1, …, I_K) of at least one "
                "value are needed"
            )
    kind = np.result_type(*(array.dtype for array in arrays))
    return FileWindows(tuple(arrays), dtype or working_dtype(kind, "X"), nan)


def is_stored(X: Any) -> bool:
    """Whether X is a file of windows that is read in parts: mapped by NumPy, Zarr or HDF5."""
    if isinstance(X, np.memmap):
        return X.ndim > 1
    return hasattr(X, "chunks") and type(X).__module__.split(".")[0] in {"zarr", "h5py"}


def _refuse_streams(X: Any) -> None:
    if isinstance(X, np.ndarray | list | tuple | str) or hasattr(X, "__array__") or X is None:
        return
    if hasattr(X, "toarray") or isinstance(X, Mapping | Set):  # reported where arrays are read
        return
    if isinstance(X, Iterator) or callable(X) or hasattr(X, "__iter__"):
        raise InvalidTypeError(
            f"X is {type(X).__name__}; a fit reads its windows several times: pass an array, or a "
            "file of windows that np.load(path, mmap_mode='r') or zarr.open opens"
        )


def working_dtype(dtype: Any, name: str) -> np.dtype[Any]:
    """float64 stays, every other kind of number becomes float32."""
    kind = np.dtype(dtype)
    if kind.kind not in "fiub":
        raise InvalidTypeError(f"{name} has dtype {kind}; numbers are needed")
    return np.dtype(np.float64 if kind == np.float64 else np.float32)


# ------------------------------------------------------------------------------- block scales


def learn_layout(estimator: Any, given: Given, scaling: Scaling) -> Layout:
    """Return where each block is in a row, and what gives it its share of the variance. E22."""
    count = len(given.dims)
    layout = Layout(given.dims, given.coupled, (1.0,) * count)
    if not given.coupled:
        return layout
    shares = shares_of(estimator.block_weights, count)
    sizes = []
    for at in layout.places:
        # What is left of equal windows after centring is rounding: such a block keeps its units.
        floor = 8 * float(np.finfo(given.windows.dtype).eps)
        size = scaling.size(at)
        sizes.append(size if size > floor * float(np.linalg.norm(scaling.center[at])) else 0.0)
    varied = [b for b in range(count) if sizes[b] > 0]
    if not varied:
        return layout
    first = varied[0]
    scales = tuple(
        sqrt(share / shares[first]) * sizes[first] / size if size > 0 else 1.0
        for share, size in zip(shares, sizes, strict=True)
    )
    return Layout(given.dims, True, scales)


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
