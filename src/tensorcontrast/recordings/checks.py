"""Checks of what makes up recordings; every message says where and what to do."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorcontrast.errors import InvalidInputError
from tensorcontrast.utils.arrays import as_array
from tensorcontrast.utils.labels import read_labels
from tensorcontrast.utils.names import listed

AnyArray = npt.NDArray[Any]
IntArray = npt.NDArray[np.int64]

#: Labels count classes from 0; larger numbers are ids, and tables by class would not fit memory.
MAX_CLASSES = 1_000_000
#: NumPy keeps every text of an array at the length of the longest; so many bytes are always taken.
_MOST_TEXT = 64 << 20


def as_signals(X: npt.ArrayLike, scale: float | None) -> AnyArray:
    """Check signals of shape (n, channel, time) and make them float."""
    array = as_array(X)
    if array.dtype == object:
        raise InvalidInputError(
            "X is not one array of numbers, as with samples of unequal lengths; cut long signals "
            "into windows with Recordings.from_signals"
        )
    if array.dtype.kind not in "fiu":
        raise InvalidInputError(f"X holds {array.dtype}, not real numbers")
    if array.ndim != 3:
        hint = "; use X[:, None, :] for signals of one channel" if array.ndim == 2 else ""
        raise InvalidInputError(
            f"X has shape {array.shape}, but (n, channel, time) is needed{hint}"
        )
    if 0 in array.shape:
        what = ("samples", "channels", "points in time")[array.shape.index(0)]
        raise InvalidInputError(f"X has shape {array.shape}: there are no {what}")
    if array.dtype.kind in "iu":
        # float32 holds integers up to 2**24 exactly.
        wide = array.dtype.itemsize > 2 and max(abs(int(array.min())), abs(int(array.max())))
        array = array.astype(np.float64 if wide and wide > 2**24 else np.float32)
    elif array.dtype not in (np.dtype(np.float32), np.dtype(np.float64)):
        with np.errstate(over="ignore"):  # what becomes infinite is found by check_finite
            array = array.astype(np.float32 if array.dtype.itemsize < 4 else np.float64)
    return array if scale is None else _scaled(array, scale)


def _scaled(array: AnyArray, scale: float) -> AnyArray:
    try:
        factor = float(scale)
    except (TypeError, ValueError):
        raise InvalidInputError(f"scale={scale!r} is not a number") from None
    try:
        with np.errstate(over="raise"):
            typed = array.dtype.type(factor)
            if not (np.isfinite(typed) and typed != 0):
                raise InvalidInputError(f"scale={scale} must be a finite number other than 0")
            return array * typed
    except FloatingPointError:
        raise InvalidInputError(
            f"scale={scale} takes X out of the range of {array.dtype}; change the unit"
        ) from None


def as_sampling_rate(fs: float) -> float:
    """Check a sampling rate."""
    try:
        value = float(fs)
    except (TypeError, ValueError):
        raise InvalidInputError(f"fs={fs!r} is not a number of samples per second") from None
    if not (np.isfinite(value) and value > 0):
        raise InvalidInputError(f"fs={fs} must be a positive number of samples per second")
    return value


def as_names(what: str, names: Sequence[str] | None, count: int | None) -> tuple[str, ...] | None:
    """Check names: a sequence of unique texts, ``count`` of them where given."""
    if names is None:
        return None
    if isinstance(names, str):
        raise InvalidInputError(f"{what}={names!r} is one text; give a list of names")
    out = tuple(str(name) for name in names)
    if count is not None and len(out) != count:
        raise InvalidInputError(f"{what} has {len(out)} names, but X has {count} {what}")
    twice = repeated(out)
    if twice:
        raise InvalidInputError(f"{what} has {listed(twice)} more than once; make names unique")
    check_unicode(what, out)
    return out


def repeated(names: Sequence[str]) -> list[str]:
    """Names that are there more than once, sorted."""
    return sorted(name for name, count in Counter(names).items() if count > 1)


def check_unicode(what: str, texts: Sequence[str]) -> None:
    """Raise where a text holds half a character or a zero, which files and NumPy do not keep."""
    for text in texts:
        try:
            bad = b"\0" in text.encode()
        except UnicodeEncodeError:
            bad = True
        if bad:
            raise InvalidInputError(f"{what}: {listed([text])} is not valid text; rename it")


def as_text(what: str, texts: Sequence[str]) -> AnyArray:
    """Array of text; one long text among many short ones must not take all memory."""
    longest = max((len(text) for text in texts), default=0)
    total = sum(len(text) for text in texts)
    if 4 * longest * len(texts) > max(_MOST_TEXT, 200 * total):
        raise InvalidInputError(
            f"{what} holds {len(texts)} texts, the longest of {longest} characters; shorten it"
        )
    check_unicode(what, texts)
    return np.asarray(texts, dtype=np.str_)


def as_per_sample(what: str, values: npt.ArrayLike, n: int, ndim: int | None = 1) -> AnyArray:
    """Check an array with one entry per sample."""
    array = np.asarray(values)
    if array.ndim == 0 or (ndim is not None and array.ndim != ndim) or len(array) != n:
        raise InvalidInputError(f"{what} has shape {array.shape}, but X has {n} samples")
    if array.dtype == object:
        texts = array.tolist()
        if not all(isinstance(v, str) for v in texts):
            raise InvalidInputError(
                f"{what} holds Python objects; give an array of numbers or of text"
            )
        array = as_text(what, texts)
    return array


def as_labels(
    y: Any, n: int | None, classes: tuple[str, ...] | None
) -> tuple[IntArray, tuple[str, ...] | None]:
    """Turn labels, ``n`` where given, into integers from 0 with -1 for unlabelled."""
    labels = read_labels(y, n, declared=classes or ())
    found = labels.classes
    if found.dtype.kind == "U":
        check_unicode("y", found.tolist())
        names = classes if classes is not None else tuple(found.tolist())
        unknown = sorted(set(found.tolist()) - set(names))
        if unknown:
            raise InvalidInputError(
                f"y holds {listed(unknown)}, which is none of the classes {listed(names)}"
            )
        numbers = np.array([names.index(name) for name in found.tolist()], dtype=np.int64)
        return _numbered(labels.codes, numbers), names
    if len(found):
        low, high = int(found[0]), int(found[-1])
        if low < 0:
            raise InvalidInputError(
                f"y[{int(np.argmax(labels.codes == 0))}] is {low}; labels start at 0, and -1 "
                "stands for unlabelled"
            )
        where = f"y[{int(labels.codes.argmax())}] is {high}"
        if high >= MAX_CLASSES:
            raise InvalidInputError(
                f"{where}; labels count classes from 0. Give ids as text, which is turned into "
                "such labels"
            )
        if classes is not None and high >= len(classes):
            raise InvalidInputError(
                f"{where}, but there are {len(classes)} classes (0 to {len(classes) - 1}): "
                f"{listed(classes)}"
            )
    return _numbered(labels.codes, found.astype(np.int64)), classes


def _numbered(codes: npt.NDArray[np.intp], numbers: IntArray) -> IntArray:
    """Return the number of each label's class, -1 for codes of -1."""
    return np.append(numbers, -1)[codes]


def as_groups(groups: AnyArray) -> AnyArray:
    """Check group ids: integers or text."""
    if groups.dtype.kind == "S":
        return groups.astype(np.str_)
    if groups.dtype.kind in "Uiu":
        return groups
    if groups.dtype.kind == "f" and np.isfinite(groups).all() and (groups == groups.round()).all():
        if np.abs(groups).max() < 2**53:  # beyond it floating-point numbers skip integers
            return groups.astype(np.int64)
    raise InvalidInputError(
        f"groups holds {groups.dtype} values that are neither integers nor text"
    )


def check_finite(X: AnyArray, channels: tuple[str, ...] | None) -> None:
    """Raise an error that says where the first NaN or infinity is."""
    with np.errstate(all="ignore"):
        if np.isfinite(X.sum(dtype=np.float64)):  # one NaN or infinity makes the sum non-finite
            return
    finite = np.isfinite(X)
    if finite.all():
        return
    bad = X.shape[2] - finite.sum(axis=2)
    sample, channel = (int(v) for v in np.argwhere(bad)[0])
    kind = "NaN" if np.isnan(X[sample, channel]).any() else "infinite values"
    where = f"channel {channel}" + (f" ({channels[channel]})" if channels else "")
    n_samples = int((bad > 0).any(axis=1).sum())
    raise InvalidInputError(
        f"X[{sample}] {where} holds {int(bad[sample, channel])} {kind} of {X.shape[2]} samples; "
        f"{n_samples} of {len(X)} samples are affected. Fill them, drop the windows "
        "(--drop-nan), or pass allow_nan=True to keep them"
    )


def positions(what: str, wanted: Sequence[str | int], names: Sequence[str]) -> list[int]:
    """Positions of names, indices or patterns; a missing one is an error that lists all names.

    A text with ``*`` or ``?`` that is no name itself stands for all names that match it, in the
    order of ``names``.
    """
    items = [wanted] if isinstance(wanted, str | int) else list(wanted)
    rows: list[int] = []
    missing: list[str | int] = []
    for item in items:
        if isinstance(item, int | np.integer) and 0 <= item < len(names):
            rows.append(int(item))
        elif isinstance(item, str) and item in names:
            rows.append(list(names).index(item))
        elif isinstance(item, str) and any(sign in item for sign in "*?"):
            found = [k for k, name in enumerate(names) if matches(item, name)]
            rows += found
            missing += [] if found else [item]
        else:
            missing.append(item)
    if missing or not rows:
        raise InvalidInputError(f"no {what} {listed(missing)}; there are {listed(names)}")
    return rows


def matches(pattern: str, name: str) -> bool:
    """Whether a name matches a pattern in which ``*`` is any text and ``?`` any character."""
    parts = (re.escape(c) if c not in "*?" else "." + "*" * (c == "*") for c in pattern)
    return re.fullmatch("".join(parts), name, flags=re.DOTALL) is not None
