"""Where the windows of a fit come from: memory, a mapped file, a chunked store, or a stream.

A source gives its windows block by block, as often as it is asked, each block checked. What is
not in memory never is as a whole: a fit reads the blocks a few times and keeps their cores.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from typing import Any, Protocol, TypeGuard

import numpy as np
from numpy.typing import NDArray

from tensorcontrast.cp.partition import add
from tensorcontrast.cp.scaling import CHUNK_VALUES
from tensorcontrast.errors import InvalidInputError, InvalidTypeError
from tensorcontrast.utils import checks, threads
from tensorcontrast.utils.arrays import as_array

Array = NDArray[Any]


@dataclass(frozen=True)
class BlockSize:
    """Tuning numbers of the blocks that a source reads: they bound memory, not results."""

    #: Values of a block, at most (64 MiB in float32).
    max_values: int = CHUNK_VALUES
    #: Windows of a strip. Large blocks are whole strips, so that all fits take the same sums.
    strip_rows: int = threads.STRIP_ROWS


BLOCK_SIZE = BlockSize()


class Source(Protocol):
    """Windows (n, I_1, …, I_K), read block by block and as often as needed."""

    @property
    def name(self) -> str:
        """What errors call the data: "X" or "view"."""
        ...

    @property
    def dims(self) -> tuple[int, ...]:
        """Shape of a window."""
        ...

    @property
    def dtype(self) -> np.dtype[Any]:
        """float32 or float64."""
        ...

    @property
    def n_samples(self) -> int | None:
        """Number of windows; None until all blocks were read once."""
        ...

    def blocks(self) -> Iterator[Array]:
        """Blocks (m, I_1, …, I_K) of the source's dtype, finite, in the order of the windows."""
        ...


class ArraySource:
    """A checked array in memory, read in blocks of bounded size."""

    def __init__(self, X: Array, name: str = "X", block_size: BlockSize = BLOCK_SIZE) -> None:
        self.X, self.name, self.block_size = X, name, block_size
        self.dims, self.dtype, self.n_samples = X.shape[1:], X.dtype, len(X)

    def blocks(self) -> Iterator[Array]:
        """Give views of the array, a few windows at a time."""
        step = samples_a_block(self.dims, self.block_size)
        for start in range(0, len(self.X), step):
            yield self.X[start : start + step]


class StoredSource:
    """Anything with ``shape``, ``dtype`` and slices of windows: ``np.memmap``, Zarr, HDF5."""

    def __init__(
        self,
        X: Any,
        dtype: np.dtype[Any] | None = None,
        name: str = "X",
        block_size: BlockSize = BLOCK_SIZE,
    ) -> None:
        shape = tuple(int(d) for d in X.shape)
        if len(shape) < 2 or 0 in shape:
            raise InvalidInputError(
                f"{name} has shape {shape}; windows (n, I_1, …, I_K) of at least one value are "
                "needed"
            )
        self.X, self.name, self.n_samples, self.dims = X, name, shape[0], shape[1:]
        self.dtype, self.block_size = dtype or working_dtype(X.dtype, name), block_size

    def blocks(self) -> Iterator[Array]:
        """Read and check some windows at a time."""
        step = samples_a_block(self.dims, self.block_size)
        chunk = getattr(self.X, "chunks", None)
        if chunk and isinstance(chunk[0], int) and chunk[0] < step:
            step -= step % chunk[0]  # whole chunks of the store, so that none is read twice
        for start in range(0, self.n_samples, step):
            block = np.array(self.X[start : start + step])
            forget_pages(self.X)
            yield checked_block(block, self, start)


class ChunkSource:
    """A re-iterable of blocks, or a function that returns an iterator of them."""

    def __init__(
        self,
        chunks: Iterable[Any] | Callable[[], Iterable[Any]],
        dtype: np.dtype[Any] | None = None,
        name: str = "X",
    ) -> None:
        self.chunks, self.name = chunks, name
        self.n_samples: int | None = None
        first = next(iter(self._open()), None)
        if first is None:
            raise InvalidInputError(f"{name}: the stream of chunks is empty")
        block = as_array(first, name, missing=True)
        if block.ndim < 2 or 0 in block.shape[1:]:
            raise InvalidInputError(
                f"{name}: the first chunk has shape {block.shape}; chunks (m, I_1, …, I_K) of "
                "windows are needed"
            )
        self.dims = block.shape[1:]
        self.dtype = dtype or working_dtype(block.dtype, name)

    def _open(self) -> Iterable[Any]:
        return self.chunks() if callable(self.chunks) else self.chunks

    def blocks(self) -> Iterator[Array]:
        """Go through the stream anew; every pass must give the same number of windows."""
        at = 0
        for chunk in self._open():
            block = as_array(chunk, self.name, missing=allows_nan(self), first=at)
            if block.shape[1:] != self.dims:
                raise InvalidInputError(
                    f"{self.name}: the chunk that begins with window {at} has shape "
                    f"{block.shape}; windows of dims {self.dims} came before"
                )
            if len(block):
                yield checked_block(block, self, at)
            at += len(block)
        if self.n_samples not in (None, at):
            raise InvalidInputError(
                f"{self.name}: the stream gave {self.n_samples} windows, then {at}: it must give "
                "the same windows each time it is read"
            )
        self.n_samples = at


class MappedSource:
    """Another source, each block changed by a function of the block and its first window."""

    def __init__(self, source: Source, function: Callable[[Array, int], Any]) -> None:
        self.source, self.function, self.name = source, function, "view"
        self.missing = allows_nan(source)
        self.dims, self.dtype = source.dims, source.dtype

    @property
    def n_samples(self) -> int | None:
        """As many as the other source has."""
        return self.source.n_samples

    def blocks(self) -> Iterator[Array]:
        """Change and check block by block."""
        at = 0
        for block in self.source.blocks():
            augmented = self.function(checks.read_only(block), at)
            augmented = as_array(augmented, self.name, missing=self.missing, first=at)
            if augmented.shape != block.shape:
                raise InvalidInputError(
                    f"augment made windows of shape {augmented.shape} from {block.shape}; "
                    "it must keep the shape"
                )
            yield checked_block(augmented, self, at)
            at += len(block)


@dataclass(frozen=True)
class FreshSource:
    """A view that is drawn anew in each iteration."""

    draw: Callable[[], Source]


def samples_a_block(dims: tuple[int, ...], size: BlockSize = BLOCK_SIZE) -> int:
    """How many windows of these dims are read at a time: whole strips, or a part of one."""
    most = max(1, size.max_values // max(1, int(np.prod(dims))))
    if most >= size.strip_rows:
        return most - most % size.strip_rows
    return 1 << (most.bit_length() - 1)


class SpreadSource(Source, Protocol):
    """A source whose blocks may be elsewhere: sums and views are made where the blocks are."""

    @property
    def n_samples(self) -> int:
        """Number of windows."""
        ...

    def head(self, most: int) -> Array:
        """Return the first windows, at most so many."""
        ...

    def keep(self) -> None:
        """Read the blocks once for all that comes before :meth:`views`."""
        ...

    def summed(self, function: Callable[..., list[Any]], *rows: Array) -> list[Array]:
        """Sum over blocks, in float64, of the numbers and arrays that a function makes of each.

        The function gets a block and what ``rows`` (n, …) hold for its windows.
        """
        ...

    def collected(self, function: Callable[[Array], Array]) -> Array:
        """Bring here the few numbers that a function gives for each window of a block."""
        ...

    def strided(self, step: int) -> Array:
        """Bring every ``step``-th window here, the first one included."""
        ...

    def mapped(self, change: Callable[[Array, int], Any]) -> Source:
        """Return the view that a function of a block and its first window makes."""
        ...

    def matched(self, other: Any) -> Source:
        """Return a view of the caller's in the blocks of this source."""
        ...

    def views(self, ready: Any, view: Any) -> Any:
        """Both views as they are fitted, with the methods of ``als.Views``."""
        ...

    def transformed(
        self, features: Callable[[Array], Array], rank: int, dtype: np.dtype[Any]
    ) -> Any:
        """Features (n, rank) that a function gives for each block, still to be computed."""
        ...


def is_spread(source: Source) -> TypeGuard[SpreadSource]:
    """Whether sums over the windows of a source are taken where these are."""
    return hasattr(source, "summed")


def summed(source: Source, function: Callable[..., list[Any]], *rows: Array) -> list[Array]:
    """Sum over the blocks of a source, in float64, of what a function makes of each.

    The function gets a block and what ``rows`` (n, …) hold for its windows. Nothing is returned for
    a source without windows.
    """
    if is_spread(source):
        return source.summed(function, *rows)
    out: list[Array] = []
    at = 0
    for block in source.blocks():
        part = function(block, *(values[at : at + len(block)] for values in rows))
        out = add(out, part) if out else add(part)
        at += len(block)
    return out


def collected(source: Source, function: Callable[[Array], Array]) -> Array:
    """Return the few numbers (n, …) that a function gives for each window of a block."""
    if is_spread(source):
        return source.collected(function)
    return np.concatenate([function(block) for block in source.blocks()])


def strided(source: Source, step: int) -> Array:
    """Return every ``step``-th window of a source, the first one included."""
    if is_spread(source):
        return source.strided(step)
    taken, at = [], 0
    for block in source.blocks():
        taken.append(block[-at % step :: step])
        at += len(block)
    return np.concatenate(taken)


def is_dask(X: Any) -> bool:
    """Whether X is a ``dask.array``; Dask is not imported for that."""
    return (
        type(X).__module__.startswith("dask.") and hasattr(X, "to_delayed") and hasattr(X, "chunks")
    )


def lazy(
    X: Any,
    dtype: np.dtype[Any] | None = None,
    name: str = "X",
    block_size: BlockSize = BLOCK_SIZE,
) -> Source | None:
    """Return the source of data that is not in memory; None for arrays and array-likes."""
    if is_dask(X):
        from tensorcontrast.distributed.source import DaskSource

        return DaskSource(X, dtype, name, block_size)
    if isinstance(X, ArraySource | StoredSource | ChunkSource):
        return X
    if isinstance(X, np.memmap):
        return StoredSource(X, dtype, name, block_size) if X.ndim > 1 else None
    if isinstance(X, np.ndarray | list | tuple) or X is None or np.isscalar(X):
        return None
    if hasattr(X, "toarray") or isinstance(X, Mapping | Set):  # these are no chunks
        return None
    if hasattr(X, "blocks") and hasattr(X, "dims") and hasattr(X, "n_samples"):
        source: Source = X
        return source
    if hasattr(X, "shape") and hasattr(X, "dtype") and hasattr(X, "__getitem__"):
        stored = not (hasattr(X, "__array_interface__") or hasattr(X, "iloc"))
        return StoredSource(X, dtype, name, block_size) if stored and _is_store(X) else None
    if isinstance(X, Iterator):
        raise InvalidTypeError(
            f"{name} is {type(X).__name__}, which can be read once; a fit reads its data a few "
            "times: pass a function that returns a new iterator, or a list as one array"
        )
    if callable(X) or (hasattr(X, "__iter__") and not hasattr(X, "__array__")):
        return ChunkSource(X, dtype, name)
    return None


def _is_store(X: Any) -> bool:
    """Zarr and HDF5 arrays have chunks, and slices that are NumPy arrays."""
    return hasattr(X, "chunks") and type(X).__module__.split(".")[0] in {"zarr", "h5py"}


def working_dtype(dtype: Any, name: str) -> np.dtype[Any]:
    """float64 stays, every other kind of number becomes float32."""
    kind = np.dtype(dtype)
    if kind.kind not in "fiub":
        raise InvalidTypeError(f"{name} has dtype {kind}; numbers are needed")
    return np.dtype(np.float64 if kind == np.float64 else np.float32)


def allows_nan(source: Any) -> bool:
    """Whether NaN in a source are missing values rather than mistakes."""
    return bool(getattr(source, "missing", False))


def with_nan(source: Any, allowed: bool) -> Any:
    """Let a source give NaN as missing values, where that is allowed; returns the source."""
    if allowed:
        source.missing = True
    return source


def checked_block(block: Array, source: Source, start: int) -> Array:
    """Return the block in the source's dtype; raise where it holds what cannot be fitted."""
    if checks.becomes_float32(block.dtype, source.dtype):
        checks.check_rounding(block, source.name, "dtype='float64' or ")
    block = np.ascontiguousarray(block, dtype=source.dtype)
    checks.check_values(block, source.name, first=start, nan=allows_nan(source))
    return block


def forget_pages(X: Any) -> None:
    """Let go of the pages of a mapped file that were read: they would count as memory."""
    mapped = getattr(X, "_mmap", None)
    if mapped is not None and getattr(X, "mode", "") in {"r", "r+"} and hasattr(mapped, "madvise"):
        mapped.madvise(mmap.MADV_DONTNEED)
