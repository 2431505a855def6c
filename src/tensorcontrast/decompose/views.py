"""The augmented view of Algorithm 1 and ATD: given, made by an augmentation, or with noise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorcontrast.decompose.base import Prepared
from tensorcontrast.decompose.inputs import Joined, coupled_blocks
from tensorcontrast.errors import InvalidInputError
from tensorcontrast.utils import checks

Array = NDArray[Any]
Augment = Callable[[Any, np.random.Generator], Any]


@dataclass(frozen=True)
class SecondView:
    """Rows (n, i) of the augmented view; ``fresh`` ones are others each time."""

    draw: Callable[[], Array]
    fresh: bool


def read_view(
    view: Any,
    prepared: Prepared,
    rng: np.random.Generator,
    name: str,
    *,
    augment: Augment | None = None,
    fresh: bool = False,
) -> SecondView:
    """Return the view of a fit, centred and scaled as the windows are."""

    def read(other: Any) -> Array:
        return prepared.scaled(_rows(other, prepared, name))

    if callable(view):
        return SecondView(lambda: read(checks.drawn_view(view, rng)), True)
    if view is not None:
        rows = read(view)
        return SecondView(lambda: rows, False)

    def make() -> Array:
        if augment is None:
            return _noisy(prepared, rng)
        raw = prepared.raw_rows()
        blocks = prepared.layout.split_raw(raw)
        return read(augment(blocks if prepared.layout.coupled else blocks[0], rng))

    if fresh:
        return SecondView(make, True)
    made = make()
    return SecondView(lambda: made, False)


def _rows(view: Any, prepared: Prepared, name: str) -> Array:
    """Rows (n, i) of a view in the units of the caller, checked."""
    layout, n, dtype = prepared.layout, prepared.windows.n, prepared.windows.dtype
    if isinstance(view, Joined):
        return checks.check_view(view.rows, (n, layout.size), dtype)
    if not layout.coupled:
        return checks.check_view(view, (n, *layout.dims[0]), dtype).reshape(n, -1)
    blocks = coupled_blocks(view, coupled=True)
    if not isinstance(blocks, list) or len(blocks) != len(layout.dims):
        raise InvalidInputError(
            f"{name}: the view must be a list of {len(layout.dims)} blocks, as X is"
        )
    flat = [
        checks.check_view(block, (n, *dims), dtype).reshape(n, -1)
        for block, dims in zip(blocks, layout.dims, strict=True)
    ]
    return np.concatenate(flat, axis=1)


#: Noise, in standard deviations of all values, and the largest share of a mode that is masked.
NOISE, MASK = 0.1, 0.15
#: Shorter modes (such as three channels) are not masked.
MIN_MASKED_LENGTH = 8


def _noisy(prepared: Prepared, rng: np.random.Generator) -> Array:
    """View with noise, and with one stretch of each long mode set to the mean (scaled: zero)."""
    X = prepared.scaled_rows()
    out = np.empty_like(X)
    total = float(np.sqrt(np.mean(np.square(X, dtype=np.float64)) * X.shape[1]))
    for at, dims in zip(prepared.layout.places, prepared.layout.dims, strict=True):
        # A block has its share of the variance, whatever the number of its values.
        spread = total / np.sqrt(len(prepared.layout.dims) * (at.stop - at.start))
        noise = rng.standard_normal((len(X), at.stop - at.start), dtype=np.float32)
        block = (X[:, at] + NOISE * spread * noise).reshape(len(X), *dims)
        for mode, length in enumerate(dims):
            if length < MIN_MASKED_LENGTH:
                continue
            width = rng.integers(0, int(MASK * length) + 1, size=len(X))
            start = rng.integers(0, length - width + 1)
            place = np.arange(length)
            hidden = (place >= start[:, None]) & (place < (start + width)[:, None])
            shape = [len(X), *(length if k == mode else 1 for k in range(len(dims)))]
            block = np.where(hidden.reshape(shape), 0, block)
        out[:, at] = block.reshape(len(X), -1)
    return out
