"""Multilinear compression: one orthonormal basis per mode, found in passes over blocks of windows.

With ``V_k`` (I_k, j_k) orthonormal, the core of a window is ``g = x ×_1 V_1ᵀ … ×_K V_Kᵀ``. Factors
``U_k = V_k U'_k`` then have the Gram matrix of ``U'_k`` and ``XH = GH'``: every update of E8–E12 on
the core is that on the data with factors held to the span of the bases, and only ‖X‖² is larger,
by what the core has lost. The first pass sums each mode's Gram matrix; a second one does so after
the other modes have been compressed (a step of higher-order orthogonal iteration: noise in the
other modes is gone, so the bases turn to what a few components can catch); a third one projects.

Coupled blocks (E22) are fitted as they are, without a core.

All sums are over windows: blocks come from memory, from a file, from a stream or from a cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorcontrast.errors import InvalidInputError, NumericalError
from tensorcontrast.utils import threads

Array = NDArray[Any]

#: Values that are rotated at a time, so that they stay in the processor's cache.
TILE_VALUES = 2**18


@dataclass(frozen=True)
class CompressTuning:
    """Tuning numbers of ``compress="auto"``."""

    #: Numbers per window that are kept for each component.
    core_per_rank: float = 32
    #: Tensors that would not become smaller by this factor are left alone.
    min_reduction: float = 2.5
    #: Data on workers that have fewer values (1 GiB in float32) are left alone: a core costs
    #: detail, and small fits are fast enough.
    min_values_to_compress: int = 2**28


TUNING = CompressTuning()


def _tiles(
    block: Array, work: Callable[[Array, slice], list[Array]], tile_values: int
) -> list[Array]:
    """Sum of what ``work`` makes of tiles of a block that fit into the processor's cache.

    Tiles are shared among threads, one a processor, each with a BLAS of one thread; the sum is
    taken in the order of the tiles, so that it is the same to the bit.
    """
    # A power of two, a strip at most: tiles lie at the same windows whatever the blocks are.
    most = max(1, tile_values // max(1, block[0].size)) if len(block) else 1
    step = min(1 << (most.bit_length() - 1), threads.STRIP_ROWS)
    places = [slice(a, min(a + step, len(block))) for a in range(0, len(block), step)]
    total: list[Array] = []
    with threads.single("blas"):
        for parts in threads.mapped(lambda at: work(block[at], at), places):
            if not total:
                total = [np.zeros(part.shape) for part in parts]
            for out, part in zip(total, parts, strict=True):
                out += part
    return total


def mode_grams(block: Array, *, tile_values: int = TILE_VALUES) -> list[Array]:
    """Gram matrix of each mode's unfolding, (I_k, I_k) each, of a block (m, I_1, …, I_K)."""

    def work(T: Array, at: slice) -> list[Array]:
        out = []
        for _ in range(T.ndim - 1):
            rows = T.reshape(-1, T.shape[-1])
            out.append(rows.T @ rows)
            T = _rotate(T)
        return out[::-1]

    return _tiles(block, work, tile_values)


def core_size(bases: Sequence[Array]) -> int:
    """Entries of a core."""
    return int(np.prod([V.shape[1] for V in bases]))


def project(block: Array, bases: Sequence[Array], *, tile_values: int = TILE_VALUES) -> Array:
    """Cores (m, j) of a block (m, I_1, …, I_K), flattened in C order."""
    size = core_size(bases)
    out = np.empty((len(block), size), dtype=block.dtype)

    def work(T: Array, at: slice) -> list[Array]:
        for V in reversed(bases):
            T = _rotate(_contract(T, V))
        out[at] = T.reshape(len(T), size)
        return []

    _tiles(block, work, tile_values)
    return out


def _contract(T: Array, V: Array) -> Array:
    """Product of the last mode with V (I, j)."""
    return (T.reshape(-1, T.shape[-1]) @ V).reshape(*T.shape[:-1], V.shape[1])


def _rotate(T: Array) -> Array:
    """Last mode first: (m, a, …, z) to (m, z, a, …)."""
    return np.ascontiguousarray(np.moveaxis(T, -1, 1))


def rough_size(block: Array) -> float:
    """Power of two near the largest value of a block; 1 where all is zero."""
    largest = float(np.abs(block).max(initial=0.0))
    return float(2.0 ** np.floor(np.log2(largest))) if largest > 0 else 1.0


@dataclass
class ModeGrams:
    """Sums over windows of the first pass: number, sum, and Gram matrices about a shift.

    The shift, a rough mean, keeps the differences of large sums exact enough; the unit, a rough
    size, keeps squares of very small and very large values in range.
    """

    shift: Array
    n: int = 0
    unit: float = 1.0
    total: Array = field(init=False)
    grams: list[Array] = field(init=False)

    def __post_init__(self) -> None:
        """Begin with nothing."""
        self.total = np.zeros(self.shift.shape)
        self.grams = [np.zeros((d, d)) for d in self.shift.shape]

    def add(self, block: Array) -> None:
        """Take the windows of a block (m, I_1, …, I_K)."""
        centred = block - self.shift
        if self.unit != 1.0:
            centred *= centred.dtype.type(1.0 / self.unit)
        self.n += len(block)
        self.total += centred.sum(axis=0, dtype=np.float64)
        for G, part in zip(self.grams, mode_grams(centred), strict=True):
            G += part

    def merge(self, other: ModeGrams) -> ModeGrams:
        """Take the sums of other windows about the same shift."""
        self.n += other.n
        self.total += other.total
        for G, part in zip(self.grams, other.grams, strict=True):
            G += part
        return self

    def mean(self, center: bool) -> Array:
        """Mean tensor in float64; zeros without ``center``."""
        if not center:
            return np.zeros(self.shift.shape)
        return self.shift + self.unit * (self.total / self.n)

    def centred(self, center: bool) -> tuple[list[Array], float]:
        """Gram matrices about the mean (about zero without ``center``), and Σ‖x‖² about it."""
        # Σ(x−m)(x−m)ᵀ = Σ(x−s)(x−s)ᵀ + Σ(x−s)(s−m)ᵀ + … with Σ(x−s) = t: all needs t alone.
        move = (self.shift - self.mean(center)) / self.unit
        out = []
        for k, G in enumerate(self.grams):
            t, d = _unfold(self.total, k), _unfold(move, k)
            cross = t @ d.T
            out.append(self.unit**2 * (G + cross + cross.T + self.n * (d @ d.T)))
        return out, float(np.trace(out[0]))


def _unfold(tensor: Array, mode: int) -> Array:
    return np.moveaxis(tensor, mode, 0).reshape(tensor.shape[mode], -1)


def refined_grams(
    block: Array, bases: Sequence[Array], *, tile_values: int = TILE_VALUES
) -> list[Array]:
    """Gram matrix of each mode of a centred block after the other modes have been compressed.

    One step of higher-order orthogonal iteration.
    """
    order = range(len(bases) - 1, -1, -1)

    def work(tile: Array, at: slice) -> list[Array]:
        out = []
        for mode in range(len(bases)):
            T = tile
            for k in order:
                T = _rotate(T if k == mode else _contract(T, bases[k]))
            rows = np.moveaxis(T, mode + 1, -1).reshape(-1, T.shape[mode + 1])
            out.append(rows.T @ rows)
        return out

    return _tiles(block, work, tile_values)


def spectrum(G: Array) -> tuple[Array, Array]:
    """Eigenvalues, largest first and never negative, and their eigenvectors, of fixed sign."""
    if not np.isfinite(G).all():
        raise NumericalError(
            "the squares of X leave the range of its dtype; change the unit, or pass compress=None "
            "or dtype='float64'"
        )
    values, vectors = np.linalg.eigh((G + G.T) / 2)
    values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
    peak = vectors[np.abs(vectors).argmax(axis=0), np.arange(len(vectors))]
    return values, vectors * np.where(peak < 0, -1.0, 1.0)


def ranks_by_size(spectra: Sequence[Array], size: float) -> tuple[int, ...]:
    """Ranks whose product is at most ``size``, chosen by what each direction holds.

    From all directions of all modes, the one that holds the least is dropped again and again. What
    it holds counts against what it would hold of white noise, ``1/I_k`` of the energy: so long
    modes do not lose directions merely because there are many to share the energy.
    """
    ranks = [max(1, int((s > s[0] * 1e-12).sum())) for s in spectra]
    while int(np.prod(ranks)) > size and max(ranks) > 1:
        least = [
            s[r - 1] * len(s) if r > 1 else np.inf for s, r in zip(spectra, ranks, strict=True)
        ]
        ranks[int(np.argmin(least))] -= 1
    return tuple(ranks)


def ranks_by_energy(spectra: Sequence[Array], energy: float) -> tuple[int, ...]:
    """Fewest directions in each mode that hold the share ``energy`` of its energy."""
    ranks = []
    for s in spectra:
        share = np.cumsum(s) / max(float(s.sum()), np.finfo(float).tiny)
        ranks.append(min(len(s), int(np.searchsorted(share, energy * (1 - 1e-12))) + 1))
    return tuple(ranks)


def wanted_ranks(
    compress: Any, spectra: Sequence[Array], rank: int, tuning: CompressTuning = TUNING
) -> tuple[int, ...] | None:
    """Ranks that ``compress`` asks for; None where it does not pay or is not wanted."""
    dims = tuple(len(s) for s in spectra)
    if compress is None:
        return None
    if isinstance(compress, str):
        ranks = ranks_by_size(spectra, tuning.core_per_rank * rank)
        return ranks if int(np.prod(dims)) >= tuning.min_reduction * int(np.prod(ranks)) else None
    if isinstance(compress, Sequence):
        if len(compress) != len(dims) or not all(
            isinstance(j, int | np.integer) and 1 <= j <= d
            for j, d in zip(compress, dims, strict=False)
        ):
            raise InvalidInputError(
                f"compress={tuple(compress)} must give one rank a mode, from 1 to {dims}; "
                "or pass 'auto', or the share of the energy to keep"
            )
        return tuple(int(j) for j in compress)
    return ranks_by_energy(spectra, float(compress))


def may_compress(
    compress: Any, shape: tuple[int, ...], rank: int, tuning: CompressTuning = TUNING
) -> bool:
    """Whether it is worth while to look at the spectra of data of this shape (n, I_1, …)."""
    if compress is None:
        return False
    if not isinstance(compress, str):
        return True
    size = int(np.prod(shape[1:]))
    return may_shrink(size, rank, tuning) and size * shape[0] >= tuning.min_values_to_compress


def may_shrink(size: int, rank: int, tuning: CompressTuning = TUNING) -> bool:
    """Whether tensors of so many entries may become much smaller."""
    return size >= tuning.min_reduction * tuning.core_per_rank * rank


def compress_factors(factors: Sequence[Array], bases: Sequence[Array] | None) -> Sequence[Array]:
    """Factors (I_k, r) as seen in the core, ``V_kᵀU_k``."""
    if bases is None:
        return factors
    return [V.T @ U for U, V in zip(factors, bases, strict=True)]


def expand_factors(factors: Sequence[Array], bases: Sequence[Array] | None) -> Sequence[Array]:
    """Factors of the core as those of the data, ``V_kU'_k``: exact, since V_k is orthonormal."""
    if bases is None:
        return factors
    return [V @ U for U, V in zip(factors, bases, strict=True)]


def expand_rows(rows: Array, bases: Sequence[Array] | None) -> Array:
    """Cores (m, j) as the tensors (m, i) that they stand for, flattened."""
    if bases is None:
        return rows
    T = rows.reshape(len(rows), *(V.shape[1] for V in bases))
    for V in bases:  # the first mode goes last, so that all are in order at the end
        T = np.tensordot(T, V, axes=(1, 1))
    return np.asarray(T.reshape(len(rows), -1))
