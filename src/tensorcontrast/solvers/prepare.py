"""From windows to what a fit works on: centred, scaled rows, or cores of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from tensorcontrast.cp import compress, kernels, scaling
from tensorcontrast.errors import InvalidInputError
from tensorcontrast.solvers import als, missing
from tensorcontrast.solvers.tuning import TUNING, Tuning
from tensorcontrast.sources.source import (
    ArraySource,
    FreshSource,
    MappedSource,
    Source,
    SpreadSource,
    allows_nan,
    is_spread,
    summed,
    with_nan,
)
from tensorcontrast.sources.tensor_noise import TensorNoise, by_strips
from tensorcontrast.utils import checks

Array = NDArray[Any]


@dataclass(frozen=True)
class Preparation:
    """Mean tensor, scale and bases of a fit; the way of every view into it."""

    n_samples: int
    center: Array
    scale: float
    #: Root mean square of the values about the mean.
    spread: float
    #: Orthonormal bases (I_k, j_k) of the core; None: the data itself is fitted.
    bases: list[Array] | None = None
    #: What each window is multiplied with where artefacts count less (n,).
    root_weights: Array | None = None
    #: Shapes of coupled blocks, side by side in a row, and their shares of the variance (E22);
    #: none for one tensor.
    block_dims: tuple[tuple[int, ...], ...] = ()
    block_shares: tuple[float, ...] = ()
    tuning: Tuning = TUNING

    @property
    def dims(self) -> tuple[int, ...]:
        """Dims of what is fitted: those of the core, or of the windows."""
        if self.bases is None:
            return tuple(self.center.shape)
        return tuple(V.shape[1] for V in self.bases)

    @property
    def size(self) -> int:
        """Entries of a window as it is fitted."""
        return self.center.size if self.bases is None else compress.core_size(self.bases)

    def rows(self, source: Source) -> tuple[Array, float]:
        """Rows (n, i) of a view as they are fitted, and the squared norm of what they stand for."""
        if (
            isinstance(source, ArraySource)
            and self.bases is None
            and self.root_weights is None
            and len(source.X) == self.n_samples
        ):
            return scaling.normalised_rows(source.X, self.center, self.scale)
        out = np.empty((self.n_samples, self.size), dtype=self.center.dtype)
        at, norm = 0, 0.0
        for block in self.centred(source):
            if at + len(block) <= len(out):
                flat = block.reshape(len(block), -1)
                norm += float(kernels.row_norms_squared(flat).sum())
                out[at : at + len(block)] = (
                    flat if self.bases is None else compress.project(block, self.bases)
                )
            at += len(block)
        if at != len(out):
            raise InvalidInputError(
                f"{source.name} gave {at} windows where {len(out)} are needed: it must hold the "
                "same windows each time it is read, and the view those of X"
            )
        if self.bases is not None and np.isnan(norm):
            raise InvalidInputError(
                f"{source.name} holds NaN where X has none; pass compress=None, so that these "
                "entries can be left out"
            )
        return out, norm

    def centred(self, source: Source) -> Iterator[Array]:
        """Blocks of a source, centred and scaled, in memory of their own."""
        at = 0
        for raw in source.blocks():
            stop = at + len(raw)
            yield self.centred_block(
                raw, None if self.root_weights is None else self.root_weights[at:stop]
            )
            at = stop

    def centred_block(self, raw: Array, roots: Array | None = None) -> Array:
        """Return one block, centred, scaled and weighted, in memory of its own."""
        factor = self.center.dtype.type(1.0) / self.center.dtype.type(self.scale)
        block = raw - self.center
        if factor != 1.0:
            block *= factor
        if roots is not None:
            block[: len(roots)] *= roots.astype(block.dtype).reshape(-1, *([1] * self.center.ndim))
        return block

    @property
    def weights(self) -> tuple[Array, ...]:
        """What a pass over blocks takes next to them: nothing, or the weights of windows."""
        return () if self.root_weights is None else (self.root_weights,)

    @property
    def of_blocks(self) -> Preparation:
        """The same for single blocks, which come with their weights, and without a core."""
        return replace(self, bases=None, root_weights=None)

    def views(self, source: Source, view: Source | FreshSource | None) -> als.AnyViews:
        """Both views as they are fitted; fresh ones where the second is drawn anew each time."""
        if is_spread(source):
            return cast("als.AnyViews", source.views(self, view))
        X, norm = self.rows(source)
        gaps = missing.open_gaps(X, norm)

        def pair(other: Source) -> als.Views:
            return missing.pair(X, gaps, norm, *self.rows(other))

        if view is None:
            return missing.pair(X, gaps, norm)
        if isinstance(view, FreshSource):
            draw = view.draw
            return als.FreshViews(lambda: pair(draw()))
        return pair(view)

    def _noisy(self, block: Array, first: int, seed: int) -> Array:
        """View of noise and masks of a block of windows that begins with window ``first``."""
        if not self.block_dims:
            return TensorNoise().block(block, first, seed, self.center, self.spread)
        out, at = np.empty_like(block), 0
        for b, (dims, share) in enumerate(zip(self.block_dims, self.block_shares, strict=True)):
            own = slice(at, at + int(np.prod(dims)))
            tensors = block[:, own].reshape(len(block), *dims)
            mean, at = self.center[own].reshape(dims), own.stop
            # A block has its share of the variance, whatever the number of its entries.
            spread = self.spread * float(np.sqrt(share * self.center.size / mean.size))
            noisy = TensorNoise().block(tensors, first, seed + b, mean, spread)
            out[:, own] = noisy.reshape(len(block), -1)
        return out

    def compressed(
        self, source: Source, grams: Sequence[Array], wanted: Any, rank: int
    ) -> Preparation:
        """Return the same with bases, where they save work, from the Gram matrix of each mode."""
        found = [compress.spectrum(G) for G in grams]
        ranks = compress.wanted_ranks(
            wanted, [values for values, _ in found], rank, self.tuning.compress
        )
        if ranks is None or ranks == tuple(len(G) for G in grams):
            return self
        bases = [
            vectors[:, :j].astype(source.dtype)
            for (_, vectors), j in zip(found, ranks, strict=True)
        ]
        if len(bases) > 1:  # one mode alone is at its best already
            refined = summed(source, partial(_refined, self.of_blocks, bases), *self.weights)
            bases = [
                compress.spectrum(G)[1][:, :j].astype(source.dtype)
                for G, j in zip(refined, ranks, strict=True)
            ]
        return replace(self, bases=bases)

    def augmented(
        self,
        source: Source,
        augment: Callable[[Array, np.random.Generator], Any] | None,
        rng: np.random.Generator,
    ) -> Source:
        """Return a view of a source: of noise and masks, or by the caller's function.

        The caller's function gets an array in memory as a whole, anything else block by block.
        """
        if augment is not None and isinstance(source, ArraySource):
            augmented = augment(checks.read_only(source.X), rng)
            nan = allows_nan(source)
            checked = checks.check_view(augmented, source.X.shape, source.dtype, nan=nan)
            return with_nan(ArraySource(checked, "view"), nan)
        seed = int(rng.integers(2**31))
        if augment is not None:
            change = partial(by_strips, augment=augment, seed=seed, n_samples=self.n_samples)
        else:
            change = partial(self._noisy, seed=seed)
        return source.mapped(change) if is_spread(source) else MappedSource(source, change)


def prepare(
    source: Source,
    wanted: Any,
    rank: int,
    *,
    center: bool,
    scale: bool,
    tuning: Tuning = TUNING,
) -> Preparation:
    """Learn mean, scale and bases in one to two passes over the windows.

    ``wanted`` is the setting ``compress``. "auto" leaves data in memory as they are.
    """
    if allows_nan(source) and missing.any_missing(source):
        missing.warn_if_compressed(wanted)
        n, mean, size = missing.learn(source, center=center)
        spread = size / float(np.sqrt(mean.size))
        return Preparation(n, mean, size if scale else 1.0, spread, tuning=tuning)
    if isinstance(source, ArraySource) and (wanted is None or isinstance(wanted, str)):
        mean, size = scaling.learn(source.X, center=center, head_windows=tuning.head_windows)
        spread = size / float(np.sqrt(mean.size))
        return Preparation(len(source.X), mean, size if scale else 1.0, spread, tuning=tuning)
    if is_spread(source) and not compress.may_compress(
        wanted, (source.n_samples, *source.dims), rank, tuning.compress
    ):
        return _measure(source, center=center, scale=scale, tuning=tuning)
    if wanted is None and not is_spread(source):
        return _measure_blocks(source, center=center, scale=scale, tuning=tuning)
    mode_grams = gather(source, tuning.head_windows)
    mean = mode_grams.mean(center)
    grams, energy = mode_grams.centred(center)
    size = float(np.sqrt(max(energy, 0.0) / mode_grams.n))
    scaling.check_spread(size, mean, (mode_grams.n, *source.dims), source.dtype, center=center)
    spread, size = size / float(np.sqrt(mean.size)), size if scale else 1.0
    plain = Preparation(mode_grams.n, mean.astype(source.dtype), size, spread, tuning=tuning)
    return plain.compressed(source, grams, wanted, rank)


def gather(source: Source, head_windows: int = TUNING.head_windows) -> compress.ModeGrams:
    """Sum up the first pass."""
    if is_spread(source):
        return _gather(source, head_windows)
    mode_grams: compress.ModeGrams | None = None
    for block in source.blocks():
        if mode_grams is None:
            mode_grams = _begun(block[:head_windows])
        mode_grams.add(block)
    if mode_grams is None or mode_grams.n < 2:
        count = 0 if mode_grams is None else mode_grams.n
        raise InvalidInputError(f"{source.name} has {count} windows; at least 2 are needed")
    return mode_grams


def _begun(head: Array) -> compress.ModeGrams:
    """Return sums to begin with, about what the first windows say."""
    shift = head.mean(axis=0, dtype=np.float64).astype(head.dtype)
    return compress.ModeGrams(shift, unit=compress.rough_size(head - shift))


def _check_count(source: SpreadSource) -> int:
    if source.n_samples < 2:
        raise InvalidInputError(
            f"{source.name} has {source.n_samples} windows; at least 2 are needed"
        )
    return source.n_samples


def _gather(source: SpreadSource, head_windows: int) -> compress.ModeGrams:
    """Sum up the first pass where the blocks are."""
    n = _check_count(source)
    out = _begun(source.head(head_windows))
    sums = source.summed(partial(_sums_of_grams, out.shift, out.unit))
    out.total, *out.grams = sums
    out.n = n
    return out


def _sums_of_grams(shift: Array, unit: float, block: Array) -> list[Any]:
    mode_grams = compress.ModeGrams(shift, unit=unit)
    mode_grams.add(block)
    return [mode_grams.total, *mode_grams.grams]


def _measure(source: SpreadSource, *, center: bool, scale: bool, tuning: Tuning) -> Preparation:
    """Learn mean and scale alone where the blocks are, as :func:`scaling.learn` does."""
    n = _check_count(source)
    source.keep()
    shift = np.zeros(source.dims, dtype=source.dtype)
    if center:
        shift = scaling.rough_mean(source.head(tuning.head_windows), center=True)
    total, squares = source.summed(partial(_sums, shift, center))
    ready = _from_sums(source, total, float(squares), n, shift, center=center, scale=scale)
    return replace(ready, tuning=tuning)


def _measure_blocks(source: Source, *, center: bool, scale: bool, tuning: Tuning) -> Preparation:
    """Learn mean and scale alone, block by block, as :func:`scaling.learn` does."""
    n, squares = 0, 0.0
    total, shift = np.zeros(source.dims), np.zeros(source.dims, dtype=source.dtype)
    for block in source.blocks():
        if n == 0:
            shift = scaling.rough_mean(block[: tuning.head_windows], center=center)
        sums, more = scaling.sums_about(block, shift, center=center)
        n, total, squares = n + len(block), total + sums, squares + more
    if n < 2:
        raise InvalidInputError(f"{source.name} has {n} windows; at least 2 are needed")
    ready = _from_sums(source, total, squares, n, shift, center=center, scale=scale)
    return replace(ready, tuning=tuning)


def _from_sums(
    source: Source,
    total: Array,
    squares: float,
    n: int,
    shift: Array,
    *,
    center: bool,
    scale: bool,
) -> Preparation:
    exact, size = scaling.from_sums(total, squares, n, shift)
    mean = exact.astype(source.dtype)
    scaling.check_spread(size, exact, (n, *source.dims), source.dtype, center=center)
    spread = size / float(np.sqrt(mean.size))
    return Preparation(n, mean, size if scale else 1.0, spread)


def _sums(shift: Array, center: bool, block: Array) -> list[Any]:
    return list(scaling.sums_about(block, shift, center=center))


def _refined(
    ready: Preparation, bases: list[Array], block: Array, roots: Array | None = None
) -> list[Array]:
    return compress.refined_grams(ready.centred_block(block, roots), bases)
