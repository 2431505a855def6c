"""Labels of windows: the one place that says which values are classes and which mean unknown.

========================================= =================================================
value                                     read as
========================================= =================================================
−1, None, NaN, NA, NaT, blank text, "-1"  unknown
integer, float without fraction           class, a number
True, False                               class
text, bytes in UTF-8                      class, a name
anything else                             error
========================================= =================================================

Classes of one ``y`` are all numbers, all text or all truth values. Text that Python writes for
missing values ("nan", "None", "<NA>", "NaT") is an error, and so are −1 next to other negative
numbers and fractions.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Collection
from dataclasses import dataclass
from itertools import islice
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
from numpy.typing import NDArray

from tensorcontrast.errors import InvalidInputError
from tensorcontrast.utils import checks

__all__ = [
    "Labels",
    "check_length",
    "is_target",
    "label_array",
    "none_used",
    "read_labels",
    "warn_unused",
]

Array = NDArray[Any]

UNKNOWN = "-1, None, NaN or ''"
"""What a message names as ways to write an unknown label."""

_WRITTEN_MISSING = ("nan", "None", "<NA>", "NaT")
_MISSING_TYPES = ("NAType", "NaTType")


@dataclass(frozen=True)
class Labels:
    """Labels as numbers from 0.

    Attributes
    ----------
    codes : (n,) int array
        Position in ``classes``; −1 for unknown.
    classes : array
        The values that were given, sorted: integers, truth values or text.
    minus_one : bool
        Whether unknown labels were written as −1.
    """

    codes: NDArray[np.intp]
    classes: NDArray[Any]
    minus_one: bool = False

    @property
    def n_unknown(self) -> int:
        """Number of windows without a label."""
        return int((self.codes < 0).sum())

    def check_signs(self, name: str = "y") -> None:
        """Raise where −1 and 1 are the only values, which may be two classes."""
        if self.minus_one and self.classes.tolist() in ([1], ["1"]):
            raise InvalidInputError(
                f"{name} holds -1 and 1 alone, and -1 stands for an unknown label; name the two "
                "classes 0 and 1, or pass None for unknown labels"
            )


def read_labels(
    y: Any, n_windows: int | None = None, *, name: str = "y", declared: Collection[str] = ()
) -> Labels:
    """Read labels of any type; the table of this module says how.

    Parameters
    ----------
    y : array-like (n,) or (n, 1)
        Lists, NumPy arrays, pandas series and categoricals.
    n_windows : int, optional
        How many labels there must be.
    name : str
        What messages call them.
    declared : collection of str
        Names that are classes whatever they look like, such as "-1".

    Returns
    -------
    Labels

    Examples
    --------
    >>> read_labels(["rest", None, "walk", "", "rest"])
    Labels(codes=array([ 0, -1,  1, -1,  0]), classes=array(['rest', 'walk'], dtype='<U4'), \
minus_one=False)
    >>> read_labels([3, 7, -1]).codes.tolist()
    [0, 1, -1]
    """
    values = _column(y, name)
    check_length(values, n_windows, name)
    distinct, inverse = _distinct(values, name)
    read = [_read(v, int(np.argmax(inverse == k)), name, declared) for k, v in enumerate(distinct)]
    known = [v for v in read if v is not None]
    _check_alike(known, name)
    pairs = zip(read, distinct, strict=True)
    minus_one = any(r is None and v in (-1, "-1", b"-1") for r, v in pairs)
    if minus_one:
        _check_negative(known, name)
    classes = sorted(set(known))
    place = {v: k for k, v in enumerate(classes)}
    table = np.array([-1 if v is None else place[v] for v in read], dtype=np.intp)
    out = np.array(classes) if classes else np.empty(0, dtype=np.int64)
    codes = table[inverse] if len(table) else np.empty(0, dtype=np.intp)
    return Labels(codes, out, minus_one)


def check_length(y: Any, n_windows: int | None, name: str = "y") -> None:
    """Raise where labels are given and are not one per window."""
    if y is None or n_windows is None:
        return
    shape = y.shape if hasattr(y, "shape") else label_array(y).shape
    if not shape or shape[0] != n_windows:
        raise InvalidInputError(
            f"{name} has {shape[0] if shape else 'no'} labels but X has {n_windows} windows; "
            "pass one label per window"
        )


def check_groups(values: Any, n_windows: int, name: str = "groups") -> Array:
    """Return the group of each window as text; raise where there is not one for each."""
    check_length(values, n_windows, name)
    array = label_array(values)
    if array.ndim != 1:
        raise InvalidInputError(
            f"{name} has shape {array.shape}; pass one name or number per window"
        )
    missing = [k for k, value in enumerate(array.tolist()) if value is None or value != value]
    if missing:
        raise InvalidInputError(
            f"{name}[{missing[0]}] is {array[missing[0]]}; every window needs a name or number"
        )
    return np.asarray(array.astype(np.str_))


def is_target(y: Any) -> bool:
    """Whether y cannot be labels: several columns, or numbers with fractions.

    Such a y is meant for a regression at the end of a pipeline.
    """
    values = label_array(y)
    if values.ndim == 2 and values.shape[1] > 1:
        return True
    if values.dtype == object and all(isinstance(v, Real) for v in values.flat):
        values = values.astype(np.float64)
    if values.dtype.kind != "f":
        return False
    return bool((np.isfinite(values) & (values != values.round())).any())


def warn_unused(message: str) -> None:
    """Warn that labels are not used, unless scikit-learn passes them on.

    A pipeline gives y to every step for the sake of the last one.
    """
    if not _passed_on():
        checks.warn(message)


def none_used(estimator: str, y: Any, n_windows: int) -> None:
    """Check the length of labels that an estimator takes and never uses, and warn of them."""
    check_length(y, n_windows)
    if y is not None:
        warn_unused(f"{estimator} learns without labels and does not use y; call fit(X)")


# ------------------------------------------------------------------------------- values


def label_array(y: Any) -> NDArray[Any]:
    """Labels as an array; text and numbers of a list stay what they are."""
    if isinstance(y, np.ma.MaskedArray):
        values = y.data.astype(object)
        values[y.mask] = None
        return np.asarray(values)
    if hasattr(y, "dtype") or hasattr(y, "__array__"):
        array = np.asarray(y)
        return array.astype(object) if array.dtype.kind == "T" else array
    return np.array(y, dtype=object) if hasattr(y, "__len__") else np.asarray(y)


def _column(y: Any, name: str) -> NDArray[Any]:
    try:
        values = label_array(y)
    except ValueError as error:
        raise InvalidInputError(f"{name} is not one label per window ({error})") from None
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1:
        raise InvalidInputError(f"{name} has shape {values.shape}; pass one label per window")
    if values.dtype.kind not in "biufUSO":
        raise InvalidInputError(
            f"{name} holds {values.dtype}; labels are integers or text, and {UNKNOWN} for unknown"
        )
    return values


def _distinct(values: NDArray[Any], name: str) -> tuple[list[Any], NDArray[np.intp]]:
    """Values that differ, and which of them each label is."""
    if values.dtype != object:
        found, inverse = np.unique(values, return_inverse=True)
        return found.tolist(), inverse.astype(np.intp)
    place: dict[Any, int] = {}
    inverse = np.empty(len(values), dtype=np.intp)
    for i, value in enumerate(values):
        try:
            key = None if _is_missing(value) else (type(value), value)
            inverse[i] = place.setdefault(key, len(place))
        except TypeError:
            raise _no_class(value, i, name) from None
    return [None if key is None else key[1] for key in place], inverse


def _is_missing(value: Any) -> bool:
    if value is None or type(value).__name__ in _MISSING_TYPES:
        return True
    if isinstance(value, np.datetime64 | np.timedelta64):
        return bool(np.isnat(value))
    return isinstance(value, Real) and value != value


def _read(value: Any, at: int, name: str, declared: Collection[str]) -> bool | int | str | None:
    """Return the class that a value stands for; None for unknown."""
    if _is_missing(value):
        return None
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, Real):
        if not (isinstance(value, Integral) or float(value).is_integer()):
            raise InvalidInputError(
                f"{name}[{at}] is {value}, which is not a class; labels are integers or text, and "
                f"{UNKNOWN} for unknown"
            )
        number = int(value)  # type: ignore[call-overload]
        if not -(2**63) <= number < 2**63:
            shown = number if abs(number) < 10**20 else f"about 1e{math.log10(abs(number)):.0f}"
            raise InvalidInputError(
                f"{name}[{at}] is {shown}, which does not fit an integer of 64 bits; number "
                "classes from 0, or give ids as text"
            )
        return None if number == -1 else number
    if isinstance(value, bytes):
        try:
            value = value.decode()
        except UnicodeDecodeError:
            raise _no_class(value, at, name) from None
    if not isinstance(value, str):
        raise _no_class(value, at, name)
    if value in declared:
        return str(value)
    if value in _WRITTEN_MISSING:
        raise InvalidInputError(
            f"{name}[{at}] is the text {value!r}, which Python writes for a missing value; pass "
            f"{UNKNOWN} for unknown labels, or another name for the class"
        )
    return None if not value.strip() or value == "-1" else str(value)


def _no_class(value: Any, at: int, name: str) -> InvalidInputError:
    return InvalidInputError(
        f"{name}[{at}] is {repr(value)[:60]}, which is neither a number nor text; labels are "
        f"integers or text, and {UNKNOWN} for unknown"
    )


def _check_alike(known: list[Any], name: str) -> None:
    """Raise where some classes are numbers and others text."""
    first = {type(v): v for v in reversed(known)}
    if len(first) > 1:
        one, other = islice(first.values(), 2)
        raise InvalidInputError(
            f"{name} mixes labels of different kinds, such as {other!r} and {one!r}; use numbers "
            f"or text throughout, and {UNKNOWN} for unknown"
        )


def _check_negative(known: list[Any], name: str) -> None:
    """Raise where −1 may be a class among others that are negative."""
    negative = [v for v in known if str(v).removeprefix("-").isdecimal() and int(v) < 0]
    if negative:
        raise InvalidInputError(
            f"{name} holds -1, which stands for an unknown label, and {negative[0]}; number "
            "classes from 0, or name them by text"
        )


# ------------------------------------------------------------------------------- callers

_OURS = str(Path(__file__).parents[1])
_SKLEARN = Path(sklearn.__file__).parent
#: Wrappers of scikit-learn around an estimator's own methods.
_WRAPPERS = (str(_SKLEARN / "base.py"), str(_SKLEARN / "utils" / "_set_output.py"))


def _passed_on() -> bool:
    """Whether scikit-learn makes the running call, as Pipeline and cross-validation do."""
    frame = inspect.currentframe()
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith(_OURS) and file not in _WRAPPERS:
            return file.startswith(str(_SKLEARN))
        frame = frame.f_back
    return False
