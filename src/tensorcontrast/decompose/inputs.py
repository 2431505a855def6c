"""What a caller gives an estimator, as sources: windows and their second view, checked.

Parameters are read from the estimator, which stays as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorcontrast.decompose import blocks
from tensorcontrast.errors import InvalidInputError
from tensorcontrast.solvers.prepare import Preparation
from tensorcontrast.sources import source
from tensorcontrast.utils import checks

Array = NDArray[Any]


@dataclass(frozen=True)
class Windows:
    """Windows to fit, and what an estimator remembers of their shape."""

    data: source.Source
    n_features_in: int
    #: Names of the columns of a table; None for anything else.
    feature_names_in: Array | None = None
    #: Of coupled blocks; None for one tensor.
    layout: blocks.Layout | None = None

    @property
    def block_dims(self) -> blocks.Dims | None:
        """Shape of a window in each coupled block; None for one tensor."""
        return None if self.layout is None else self.layout.dims

    @property
    def block_scales(self) -> tuple[float, ...] | None:
        """What each coupled block was multiplied with; None for one tensor."""
        return None if self.layout is None else self.layout.scales

    def learned(self) -> dict[str, Any]:
        """Return the learned attributes that describe the windows."""
        names = self.feature_names_in
        return {
            "n_features_in_": self.n_features_in,
            **({} if names is None else {"feature_names_in_": names}),
            "dims_": tuple(self.data.dims),
            "block_dims_": self.block_dims,
            "block_scales_": self.block_scales,
        }


def to_fit(estimator: Any, X: Any) -> Windows:
    """Return windows to fit: checked, from memory or read block by block."""
    nan = estimator.missing == "mask"
    coupled = blocks.given(X)
    if coupled is not None:
        data, layout = blocks.learn_layout(estimator, coupled, min_samples=2)
        return Windows(data, layout.size, layout=layout)
    _check_one_tensor(estimator)
    wanted = None if estimator.dtype is None else np.dtype(estimator.dtype)
    found = source.lazy(X, wanted, block_size=estimator._tuning.blocks)
    if found is not None:
        source.with_nan(found, nan)
        here = not source.is_spread(found)
        if here and estimator._als.compress is None and found.n_samples:
            # Without compression all windows are in memory anyway.
            X, found = np.concatenate(list(found.blocks())), None
    if found is None:
        return _in_memory(estimator, X)
    return Windows(found, found.dims[0])


def first_batch(estimator: Any, X: Any) -> Windows:
    """Return the first batch of a stream, checked, in memory."""
    coupled = blocks.given(X)
    if coupled is None:
        _check_one_tensor(estimator)
        return _in_memory(estimator, X)
    data, layout = blocks.learn_layout(estimator, coupled, min_samples=2)
    return Windows(_gathered(estimator, data), layout.size, layout=layout)


def next_batch(estimator: Any, X: Any, layout: blocks.Layout | None) -> Windows:
    """Return one more batch for a fitted estimator, checked, in memory."""
    data: source.Source | None = _fitted_blocks(estimator, X, layout)
    if data is None:
        array = checks.check_tensor(estimator, X, reset=False, min_samples=2)
        data = source.ArraySource(array, block_size=estimator._tuning.blocks)
    return Windows(_gathered(estimator, data), estimator.n_features_in_, layout=layout)


def to_transform(estimator: Any, X: Any, layout: blocks.Layout | None) -> source.Source:
    """Return windows for a fitted estimator: checked, from memory or read block by block."""
    data = _fitted_blocks(estimator, X, layout)
    if data is not None:
        return data
    nan = estimator.missing == "mask"
    size = estimator._tuning.blocks
    found = source.lazy(X, estimator.center_.dtype, block_size=size)
    if found is None:
        checked = checks.check_tensor(estimator, X, reset=False)
        return source.with_nan(source.ArraySource(checked, block_size=size), nan)
    source.with_nan(found, nan)
    if tuple(found.dims) != tuple(estimator.dims_):
        checks.check_dims(estimator, (0, *found.dims))
    return found


def _fitted_blocks(estimator: Any, X: Any, layout: blocks.Layout | None) -> source.Source | None:
    """Return the rows of coupled blocks for a fitted estimator; None for one tensor."""
    if layout is None and blocks.given(X) is None:
        return None
    rows = blocks.fitted_rows(estimator, X, "X", layout, estimator.center_)
    return blocks.as_source(rows, nan=estimator.missing == "mask")


def _in_memory(estimator: Any, X: Any) -> Windows:
    """Return windows to fit that are one array in memory, checked."""
    checked = checks.check_training_tensor(estimator, X, min_samples=2)
    found = source.ArraySource(checked.X, block_size=estimator._tuning.blocks)
    data = source.with_nan(found, estimator.missing == "mask")
    return Windows(data, checked.n_features_in, checked.feature_names_in)


def _gathered(estimator: Any, data: source.Source) -> source.ArraySource:
    """Return a source as one array in memory."""
    array = data.X if isinstance(data, source.ArraySource) else np.concatenate(list(data.blocks()))
    whole = source.ArraySource(array, block_size=estimator._tuning.blocks)
    found: source.ArraySource = source.with_nan(whole, estimator.missing == "mask")
    return found


def _check_one_tensor(estimator: Any) -> None:
    """Raise where a parameter is for coupled blocks, and X is one tensor."""
    if estimator.block_weights is not None:
        raise InvalidInputError(
            f"block_weights={estimator.block_weights!r} is for coupled blocks, and X is one "
            "tensor; pass a list of arrays, or leave block_weights out"
        )


def second_view(
    estimator: Any, windows: Windows, ready: Preparation, view: Any, rng: np.random.Generator
) -> source.Source | source.FreshSource | None:
    """Return where the augmented view comes from."""
    data, layout = windows.data, windows.layout

    def given(other: Any) -> source.Source:
        if layout is not None or isinstance(other, blocks.Joined):
            other = blocks.fitted_rows(estimator, other, "view", layout, ready.center)
        if source.is_spread(data):
            return data.matched(other)
        nan = estimator.missing == "mask"
        size = estimator._tuning.blocks
        stored = None if callable(other) else source.lazy(other, data.dtype, "view", size)
        if stored is not None and tuple(stored.dims) == tuple(data.dims):
            return source.with_nan(stored, nan)
        shape = (data.n_samples, *data.dims)
        checked = checks.check_view(other, shape, data.dtype, nan=nan)
        return source.with_nan(source.ArraySource(checked, "view"), nan)

    if callable(view):
        return source.FreshSource(lambda: given(checks.drawn_view(view, rng)))
    if view is not None:
        return given(view)
    if not estimator._needs_view:
        return None
    augment = blocks.on_blocks(estimator.augment, layout)
    if estimator._als.fresh_views:
        return source.FreshSource(lambda: ready.augmented(data, augment, rng))
    return ready.augmented(data, augment, rng)
