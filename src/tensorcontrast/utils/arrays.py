"""Arrays that callers pass, as plain NumPy arrays of real numbers, or an error with the way out.

Every estimator, :class:`Recordings` and every augmentation reads its arrays here: masked values are
refused everywhere, and no error of another library reaches the caller.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from typing import Any

import numpy as np

from tensorcontrast.errors import InvalidInputError, InvalidTypeError


def as_array(X: Any, name: str = "X") -> np.ndarray:
    """Return ``X`` as a plain array, without a copy where possible.

    Parameters
    ----------
    X : array-like
        What the caller passed.
    name : str, default="X"
        What errors call it.

    Returns
    -------
    ndarray
        Booleans, integers, floating-point numbers or Python objects, which the caller may convert.

    Raises
    ------
    InvalidTypeError
        If it is no dense array: a sparse matrix, an iterator, a dict, a tensor with gradients.
    InvalidInputError
        If the parts of a list differ in shape, values are masked, or values are no real numbers.
    """
    kind = type(X).__name__
    if hasattr(X, "toarray"):
        raise InvalidTypeError(
            f"{name} is a sparse matrix ({kind}), but a dense array is needed; pass "
            f"{name}.toarray(), reshaped to windows"
        )
    if isinstance(X, Iterator):
        raise InvalidTypeError(
            f"{name} is an iterator ({kind}), which can be read only once; pass one array: "
            f"np.stack(list({name}))"
        )
    if isinstance(X, Mapping | Set) or (callable(X) and not hasattr(X, "__array__")):
        raise InvalidTypeError(f"{name} is a {kind}, not an array; pass a NumPy array of numbers")
    _check_masks(X, name)
    try:
        array = np.asarray(X)
    except Exception as error:
        raise _unreadable(X, name, error) from None
    _check_kind(array, name)
    return array


def float_type(dtype: Any) -> np.dtype[Any]:
    """Smallest of float32 and float64 that holds every value of a type exactly.

    float64 for integers of more than 16 bits and for extended precision, which it may round.

    Examples
    --------
    >>> [float_type(d).name for d in ("int16", "float16", ">f4", "int32", "float64")]
    ['float32', 'float32', 'float32', 'float64', 'float64']
    """
    kind = np.dtype(dtype)
    small = kind.itemsize <= (4 if kind.kind == "f" else 2)
    return np.dtype(np.float32 if small else np.float64)


def as_float(X: np.ndarray) -> np.ndarray:
    """Return numbers as native float32 or float64, whichever holds them; no copy where they are."""
    return np.asarray(X, dtype=float_type(X.dtype))


def evenly(n: int, most: int) -> np.ndarray:
    """Return places of at most so many of n things, evenly spaced from the first to the last.

    Examples
    --------
    >>> evenly(9, 3).tolist(), evenly(2, 3).tolist()
    ([0, 4, 8], [0, 1])
    """
    return np.linspace(0, n - 1, min(n, most)).astype(np.intp)


def _check_masks(X: Any, name: str) -> None:
    """Raise where values are masked; NumPy drops the masks of a list without a word."""
    if isinstance(X, list | tuple):
        for i, part in enumerate(X):
            if isinstance(part, list | tuple | np.ma.MaskedArray):
                _check_masks(part, f"{name}[{i}]")
    elif isinstance(X, np.ma.MaskedArray) and np.ma.is_masked(X):
        raise InvalidInputError(
            f"{name} is a masked array; pass {name}.filled(value), with np.nan as the value where "
            "NaN may be missing values"
        )


def _check_kind(array: np.ndarray, name: str) -> None:
    """Raise for text, complex numbers, dates and records."""
    kind = array.dtype.kind
    if kind in "biufO":
        return
    ways = {
        "c": f"pass np.abs({name}), or real and imaginary parts as channels of their own",
        "M": "pass the signals without their time stamps, and the sampling rate as fs",
        "m": "pass the signals without their time stamps, and the sampling rate as fs",
        "V": "stack the fields that are signals as channels",
    }
    raise InvalidInputError(
        f"{'Complex data not supported: ' if kind == 'c' else ''}{name} holds {array.dtype}, but "
        "real numbers are needed; "
        + ways.get(kind, f"convert text with {name}.astype(float) if it holds numbers")
    )


def _unreadable(X: Any, name: str, error: Exception) -> Exception:
    """Return the error for what NumPy cannot read."""
    if isinstance(X, list | tuple):
        return InvalidInputError(
            f"{name} is not one array of numbers, as with windows of unequal lengths "
            f"({_short(error)}); give every window the same channels and length, or cut long "
            "signals into windows with Recordings.from_signals"
        )
    kind = f"{type(X).__module__.split('.')[0]}.{type(X).__name__}"
    way = f"{name}.detach().cpu().numpy()" if hasattr(X, "detach") else "a NumPy array of numbers"
    return InvalidTypeError(
        f"{name} is a {kind} that NumPy cannot read ({_short(error)}); pass {way}"
    )


def _short(error: Exception) -> str:
    """First line of another library's message."""
    lines = str(error).splitlines() or [type(error).__name__]
    return lines[0][:160].rstrip(" .;")
