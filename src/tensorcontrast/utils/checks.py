"""Input checks: scikit-learn's, with errors that name the place and the way out."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import (
    Interval,
    InvalidParameterError,
    validate_parameter_constraints,
)
from sklearn.utils.validation import check_array, validate_data

from tensorcontrast.errors import InvalidInputError, InvalidTypeError, TensorContrastWarning
from tensorcontrast.utils.arrays import as_array, float_type

Array = NDArray[Any]

_INSIDE = (str(Path(__file__).parents[1]), str(Path(sklearn.__file__).parent))

#: Samples by which it is decided whether float32 holds what varies in the data.
ROUNDING_SAMPLES = 256


def warn(message: str, category: type[Warning] = TensorContrastWarning) -> None:
    """Warn, and point at the caller's line: the first one outside of this and scikit-learn."""
    level, frame = 1, inspect.currentframe()
    while frame is not None and frame.f_code.co_filename.startswith(_INSIDE):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def check_parameters(estimator: Any) -> None:
    """Check an estimator's parameters against its ``_parameter_constraints``."""
    params = estimator.get_params(deep=False)
    check_settings(estimator._parameter_constraints, params, type(estimator).__name__)


def check_settings(constraints: dict[str, list[Any]], params: Mapping[str, Any], name: str) -> None:
    """Check values against constraints of scikit-learn; truth values are no numbers."""
    try:
        validate_parameter_constraints(constraints, dict(params), name)
    except InvalidParameterError as error:
        raise InvalidInputError(str(error)) from None
    for key, value in params.items():  # to Python True is the number 1
        allowed = constraints.get(key, [])
        if isinstance(value, bool | np.bool_) and "boolean" not in allowed:
            if any(isinstance(kind, Interval) for kind in allowed):
                raise InvalidInputError(
                    f"The {key!r} parameter of {name} must be a number. Got {value!r} instead."
                )


def check_tensor(estimator: Any, X: ArrayLike, *, reset: bool, min_samples: int = 1) -> Array:
    """X (n, I_1, …, I_K) as a float array, C-ordered, finite, of the dims that were fitted."""
    name = type(estimator).__name__
    wanted = estimator.dtype
    if reset:
        dtype: Any = [np.float32, np.float64] if wanted is None else np.dtype(wanted)
    else:
        dtype = estimator.center_.dtype
    nan = getattr(estimator, "missing", "error") == "mask"
    if reset and wanted is None and isinstance(X, list | tuple):
        dtype = np.dtype(np.float32)  # Python numbers say nothing of a precision
    if X is not None and not hasattr(X, "iloc"):  # scikit-learn reads the names of a table
        X = as_array(X)
    if isinstance(X, np.ndarray) and not X.dtype.isnative:
        X = X.astype(X.dtype.newbyteorder("="))
    if isinstance(X, np.ndarray):
        target = np.dtype(dtype[X.dtype == np.float64] if isinstance(dtype, list) else dtype)
        if reset:
            own = "dtype" in estimator.get_params()
            way = "float64 numbers and leave dtype None, or " if own else ""
            check_rounding(X, target, f"{name}: X", way)
        check_range(X, target, f"{name}: X")
    if not reset and isinstance(X, np.ndarray) and X.ndim > 2:
        check_dims(estimator, X.shape)
    try:
        X = validate_data(
            estimator,
            X,
            dtype=dtype,
            order="C",
            allow_nd=True,
            ensure_all_finite=False,
            ensure_min_samples=min_samples,
            reset=reset,
        )
    except TypeError as error:
        raise InvalidTypeError(f"{name}: {error}") from error
    except (ValueError, OverflowError) as error:
        way = "; every entry must be one number" if np.asarray(X).dtype == object else ""
        raise InvalidInputError(f"{name}: {error}{way}") from error
    X = np.asarray(X)
    if 0 in X.shape:
        raise InvalidInputError(f"{name}: X has shape {X.shape}: a mode of length 0 holds nothing")
    if not reset:
        check_dims(estimator, X.shape)
    check_values(X, "X", nan=nan)
    return X


@dataclass(frozen=True)
class TrainingTensor:
    """X of a fit, checked, and what scikit-learn's estimators remember of it."""

    X: Array
    n_features_in: int
    #: Names of the columns of a table; None for anything else.
    feature_names_in: Array | None = None


def check_training_tensor(estimator: Any, X: ArrayLike, *, min_samples: int = 1) -> TrainingTensor:
    """Check X of a fit as :func:`check_tensor` does; the estimator stays as it is."""
    noted = copy(estimator)  # scikit-learn writes what it learns of X to an estimator
    checked = check_tensor(noted, X, reset=True, min_samples=min_samples)
    return TrainingTensor(checked, noted.n_features_in_, vars(noted).get("feature_names_in_"))


def check_rounding(X: Array, dtype: np.dtype[Any], name: str, way: str = "") -> None:
    """Raise where rounding X (n, …) to float32 loses a thousandth of what varies on its mean."""
    rounded = X.dtype.kind in "iuf" and float_type(X.dtype) != np.float32 and dtype == np.float32
    if not rounded or X.ndim < 2 or len(X) < 2 or 0 in X.shape:
        return
    some = X[:: -(-len(X) // ROUNDING_SAMPLES)].astype(np.float64)
    largest = float(np.abs(some).max())
    if not 0 < largest < np.inf:  # checked later, or nothing to lose
        return
    some /= largest  # squares must stay in range
    spread, level = float(np.sqrt(some.var(axis=0).mean())), float(np.sqrt(np.square(some).mean()))
    if spread > 0 and level * np.finfo(np.float32).eps / 2 > 1e-3 * spread:
        raise InvalidInputError(
            f"{name} ({X.dtype}) would lose digits as float32: its mean is {level / spread:.2g} "
            f"times as large as what varies on top of it; pass {way}X minus its mean over windows"
        )


def check_range(X: Array, dtype: np.dtype[Any], name: str) -> None:
    """Raise where numbers are beyond the range of a smaller type that they are to become."""
    if X.dtype.kind != "f" or X.dtype.itemsize <= dtype.itemsize:
        return
    largest = float(np.abs(X).max(where=np.isfinite(X), initial=0))
    if largest > (1e36 if dtype == np.float32 else 1e140):
        raise InvalidInputError(
            f"{name} has values of size {largest:.3g}, beyond the range of {dtype}; change the "
            "unit (V to µV, say)"
        )


def check_dims(estimator: Any, shape: tuple[int, ...]) -> None:
    """Raise where samples of this shape (n, I_1, …) are not those that were fitted."""
    if tuple(shape[1:]) != tuple(estimator.dims_):
        raise InvalidInputError(
            f"{type(estimator).__name__}: samples have dims {tuple(shape[1:])} but the model was "
            f"fitted on {tuple(estimator.dims_)}; make both with the same channels and spectrogram"
        )


def check_values(X: Array, name: str, first: int = 0, *, nan: bool = False) -> None:
    """Raise where X (n, …) holds NaN, infinity, or what leaves the range of numbers when squared.

    ``first`` is the number of X's first sample where X is a block of more; ``nan`` allows NaN.
    """
    least, most = float(X.min()), float(X.max())  # NaN where there is one
    if not np.isfinite(most - least):
        _check_finite(X, name, first, nan=nan)
        if np.isnan(most):  # missing values, which are allowed here
            least, most = (float(f.reduce(X, axis=None)) for f in (np.fmin, np.fmax))
    largest = max(most, -least)
    low, high = (1e-36, 1e36) if X.dtype == np.float32 else (1e-140, 1e140)
    if largest and not np.isnan(largest) and not low < largest < high:
        raise InvalidInputError(
            f"{name} has values of size {largest:.3g}, outside {low:g} … {high:g} for {X.dtype}; "
            "change the unit (V to µV, say)"
        )


def _check_finite(X: Array, name: str, first: int, *, nan: bool) -> None:
    """Raise where X (n, …) holds NaN or infinity, naming the first place and the counts."""
    bad = np.isinf(X) if nan else ~np.isfinite(X)
    if not bad.any():
        return
    place = tuple(int(i) for i in np.argwhere(bad)[0])
    nans = 0 if nan else int(np.isnan(X).sum())
    way = "pass missing='mask' to leave NaN out, " if nans == int(bad.sum()) else ""
    samples = np.flatnonzero(bad.reshape(len(X), -1).any(axis=1)) + first
    raise InvalidInputError(
        f"{name}{[place[0] + first, *place[1:]]} is {X[place]}: {name} holds {nans} NaN and "
        f"{int(bad.sum()) - nans} infinity in {len(samples)} of {len(X)} samples "
        f"(first: {samples[:5].tolist()}); {way}drop these samples or fill them in before fitting"
    )


def check_view(
    view: Any, shape: tuple[int | None, ...], dtype: np.dtype[Any], *, nan: bool = False
) -> Array:
    """Check the augmented view of X, which has this shape: the same, finite or with NaN."""
    try:
        view = as_array(view, "view")
        check_range(view, np.dtype(dtype), "view")
        V = check_array(
            view, dtype=dtype, order="C", allow_nd=True, ensure_all_finite=False, input_name="view"
        )
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"view: {error}") from error
    if V.shape[1:] != tuple(shape[1:]) or shape[0] not in (None, len(V)):
        raise InvalidInputError(
            f"view has shape {V.shape} but X has {tuple(shape)}: the view must hold the same "
            "samples, augmented, in the same order"
        )
    check_values(V, "view", nan=nan)
    return np.asarray(V)


def drawn_view(view: Any, rng: np.random.Generator) -> Any:
    """Return what the caller's function gives, which must be an array."""
    drawn = view(rng)
    if drawn is None:
        raise InvalidInputError("the callable given as view returned None instead of an array")
    return drawn


def check_features(W: ArrayLike, rank: int, dtype: np.dtype[Any]) -> Array:
    """Check features (n, rank)."""
    try:
        if not hasattr(W, "iloc"):
            W = as_array(W, "W")
            check_range(W, np.dtype(dtype), "W")
        features = np.asarray(check_array(W, dtype=dtype, input_name="W"))
    except (TypeError, ValueError) as error:
        raise InvalidInputError(str(error)) from error
    if features.shape[1] != rank:
        raise InvalidInputError(f"W has {features.shape[1]} columns but the model has rank_={rank}")
    return features


def generator(random_state: Any, *extra: int) -> np.random.Generator:
    """Make a Generator from scikit-learn's ``random_state``; further numbers give other streams."""
    if random_state is None:
        return np.random.default_rng()
    drawn = check_random_state(random_state).randint(2**31 - 1, size=4)
    return np.random.default_rng([*drawn.tolist(), *extra])


def plain_output(estimator: Any, X: ArrayLike) -> Array:
    """``transform`` as an array whatever ``set_output`` says."""
    out = type(estimator).transform
    return np.asarray(getattr(out, "__wrapped__", out)(estimator, X))


def read_only(X: Array) -> Array:
    """View of X that cannot be written to, for functions of the caller's."""
    view = X.view()
    view.flags.writeable = False
    return view
