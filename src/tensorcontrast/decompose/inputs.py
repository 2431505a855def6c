"""What a caller gives an estimator, as sources: windows and their second view, checked."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensorcontrast.decompose import blocks
from tensorcontrast.errors import InvalidInputError
from tensorcontrast.solvers.prepare import Preparation
from tensorcontrast.sources import source
from tensorcontrast.utils import checks


def samples(model: Any, X: Any, *, reset: bool, min_samples: int = 1) -> source.Source:
    """Return windows to fit or transform: checked, from memory or read block by block.

    As scikit-learn's ``validate_data`` does, ``reset`` tells the model what its windows are.
    """
    coupled = blocks.given(X, coupled=not reset and model.block_dims_ is not None)
    if coupled is not None:
        data = blocks.samples(model, coupled, reset=reset, min_samples=min_samples)
        _check_gaps(model, data)
        return data
    if reset:
        one_tensor(model)
    elif model.block_dims_ is not None:
        blocks.fitted_rows(model, X, "X")  # says what is missing
    wanted = None if model.dtype is None else np.dtype(model.dtype)
    found = source.lazy(X, wanted if reset else model.center_.dtype)
    nan = model.missing == "mask"
    if found is not None:
        source.with_nan(found, nan)
    here = found is None or not source.is_spread(found)
    whole = reset and model._als.compress is None and found is not None and found.n_samples
    if found is None or (here and whole):
        # Without compression all windows are in memory anyway.
        array = X if found is None else np.concatenate(list(found.blocks()))
        checked = checks.check_tensor(model, array, reset=reset, min_samples=min_samples)
        return source.with_nan(source.ArraySource(checked), nan)
    _check_gaps(model, found)
    if reset:
        model.n_features_in_ = found.dims[0]
        model.__dict__.pop("feature_names_in_", None)
    elif tuple(found.dims) != tuple(model.dims_):
        checks.check_dims(model, (0, *found.dims))
    return found


def _check_gaps(model: Any, data: source.Source) -> None:
    """Raise where windows elsewhere may have gaps."""
    if model.missing == "mask" and source.is_spread(data):
        raise InvalidInputError(
            "missing='mask' needs the windows in this process; a Dask array must be complete: "
            "pass missing='error' and fill the gaps, or X.compute()"
        )


def batch(model: Any, X: Any, *, reset: bool) -> source.ArraySource:
    """Return one more batch of a stream, checked, in memory."""
    coupled = blocks.given(X, coupled=not reset and model.block_dims_ is not None)
    nan = model.missing == "mask"
    if coupled is None:
        if reset:
            one_tensor(model)
        elif model.block_dims_ is not None:
            blocks.fitted_rows(model, X, "X")  # says what is missing
        array = checks.check_tensor(model, X, reset=reset, min_samples=2)
    else:
        data = blocks.samples(model, coupled, reset=reset, min_samples=2)
        array = np.concatenate(list(data.blocks()))
    found: source.ArraySource = source.with_nan(source.ArraySource(array), nan)
    return found


def one_tensor(model: Any) -> None:
    """Tell a model that its windows are tensors, not coupled blocks."""
    if model.block_weights is not None:
        raise InvalidInputError(
            f"block_weights={model.block_weights!r} is for coupled blocks, and X is one tensor; "
            "pass a list of arrays, or leave block_weights out"
        )
    model.block_dims_ = model.block_scales_ = None


def second_view(
    model: Any, data: source.Source, ready: Preparation, view: Any, rng: np.random.Generator
) -> source.Source | source.FreshSource | None:
    """Return where the augmented view comes from."""
    layout = blocks.layout_of(model)

    def given(other: Any) -> source.Source:
        if layout is not None or isinstance(other, blocks.Joined):
            other = blocks.fitted_rows(model, other, "view")
        if source.is_spread(data):
            return data.matched(other)
        nan = model.missing == "mask"
        stored = source.lazy(other, data.dtype, "view") if not callable(other) else None
        if stored is not None and tuple(stored.dims) == tuple(data.dims):
            return source.with_nan(stored, nan)
        shape = (data.n_samples, *data.dims)
        checked = checks.check_view(other, shape, data.dtype, nan=nan)
        return source.with_nan(source.ArraySource(checked, "view"), nan)

    if callable(view):
        return source.FreshSource(lambda: given(checks.drawn_view(view, rng)))
    if view is not None:
        return given(view)
    if not model._needs_view:
        return None
    augment = blocks.on_blocks(model.augment, layout)
    if model._als.fresh_views:
        return source.FreshSource(lambda: ready.augmented(data, augment, rng))
    return ready.augmented(data, augment, rng)
