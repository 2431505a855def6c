"""Several recordings as one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tensorcontrast.errors import InvalidInputError, InvalidTypeError
from tensorcontrast.utils.names import listed

if TYPE_CHECKING:
    from tensorcontrast.recordings import Recordings

AnyArray = npt.NDArray[Any]


def concat(recordings: Sequence[Recordings], *, distinct_groups: bool = False) -> Recordings:
    """Join recordings of the same channels, rate and window length.

    Classes are merged by name, in the order in which they appear; windows of recordings without
    labels are unlabelled. Columns are kept where all recordings have them. A column ``recording``
    of positions is counted on, so that it keeps the recordings apart. Names in it get the name or
    position of their recording in front where windows of two have the same name and start.

    Parameters
    ----------
    recordings : sequence of Recordings
        At least one. Channels with the same names in another order are reordered.
    distinct_groups : bool
        Keep groups of different recordings apart, although they have the same name, by putting
        the name or position of the recording before it. By default equal groups are one group.

    Returns
    -------
    Recordings

    Examples
    --------
    >>> from tensorcontrast import Recordings
    >>> a = Recordings(np.zeros((2, 1, 50)), ["rest", "walk"], groups=["anna"] * 2, fs=50)
    >>> b = Recordings(np.zeros((1, 1, 50)), ["run"], groups=["ben"], fs=50)
    >>> both = concat([a, b])
    >>> both.classes, both.y.tolist(), both.groups.tolist()
    (('rest', 'walk', 'run'), [0, 1, 2], ['anna', 'anna', 'ben'])
    """
    recs = _checked(recordings)
    first = recs[0]
    y, classes = _labels(recs)
    names = list(dict.fromkeys(rec.name for rec in recs if rec.name))
    return first._with(
        X=np.concatenate([rec.X for rec in recs]),
        y=y,
        classes=classes,
        groups=_groups(recs, distinct_groups),
        columns=_columns(recs),
        units=None if any(rec.units is None for rec in recs) else first.units,
        name=names[0] if len(names) == 1 else "",
        citation="; ".join(dict.fromkeys(rec.citation for rec in recs if rec.citation)),
        licence="; ".join(dict.fromkeys(rec.licence for rec in recs if rec.licence)),
    )


def _checked(recordings: Sequence[Recordings]) -> list[Recordings]:
    """Return recordings that can be joined, with their channels in the order of the first."""
    from tensorcontrast.recordings import Recordings

    if isinstance(recordings, Recordings):
        raise InvalidTypeError("concat takes a list of Recordings; pass [rec1, rec2]")
    given = list(recordings)
    if not given:
        raise InvalidInputError("there are no recordings to join; pass at least one")
    for k, rec in enumerate(given):
        if not isinstance(rec, Recordings):
            raise InvalidTypeError(
                f"recordings[{k}] is a {type(rec).__name__}; make Recordings of it first, as with "
                "Recordings(X), Recordings.from_mne or Recordings.read"
            )
    first = given[0]
    out = []
    for k, rec in enumerate(given):
        here = f"recordings[{k}]"
        if rec.fs != first.fs:
            way = f"use recordings[{k}].resample({first.fs:g})" if rec.fs and first.fs else "set fs"
            raise InvalidInputError(
                f"{here} has fs={rec.fs}, but recordings[0] has fs={first.fs}; {way}"
            )
        out.append(_same_channels(rec, first, here))
        if rec.n_times != first.n_times:
            raise InvalidInputError(
                f"{here} has windows of {rec.n_times} samples, but recordings[0] of "
                f"{first.n_times}; cut both with the same window_s"
            )
    return out


def _same_channels(rec: Recordings, first: Recordings, here: str) -> Recordings:
    """Return ``rec`` with its channels in the order of ``first``."""
    if rec.channels is None or first.channels is None:
        if rec.channels != first.channels or rec.n_channels != first.n_channels:
            raise InvalidInputError(
                f"{here} has {_channels(rec)}, but recordings[0] has {_channels(first)}; name the "
                "channels of both, with rename_channels or when the recordings are made"
            )
        same = rec
    else:
        missing = [name for name in first.channels if name not in rec.channels]
        more = [name for name in rec.channels if name not in first.channels]
        if missing or more:
            lacks = [f"lacks {listed(missing)}"] * bool(missing)
            has = [f"has {listed(more)}"] * bool(more)
            raise InvalidInputError(
                f"{here} {' and '.join(lacks + has)}, unlike recordings[0]; take the channels that "
                "all have with select(channels=...), or rename_channels"
            )
        same = rec if rec.channels == first.channels else rec.select(channels=first.channels)
    if None not in (same.units, first.units) and _units(same) != _units(first):
        one, other = next(
            pair for pair in zip(_units(same), _units(first), strict=True) if pair[0] != pair[1]
        )
        raise InvalidInputError(
            f"{here} has units {one!r} where recordings[0] has {other!r}; bring both to one unit "
            "first, as with Recordings(rec.X, scale=...)"
        )
    return same


def _channels(rec: Recordings) -> str:
    named = "no names" if rec.channels is None else f"names {listed(rec.channels, 4)}"
    return f"{rec.n_channels} channels with {named}"


def _units(rec: Recordings) -> tuple[str, ...]:
    if isinstance(rec.units, tuple):
        return rec.units
    return (rec.units or "",) * rec.n_channels


def _labels(recs: list[Recordings]) -> tuple[AnyArray | None, tuple[str, ...] | None]:
    """Labels of all windows and the classes of all, merged by name."""
    labelled = [k for k, rec in enumerate(recs) if rec.y is not None]
    named = [k for k, rec in enumerate(recs) if rec.classes is not None]
    for k in labelled:
        y = recs[k].y
        if named and recs[k].classes is None and y is not None and (y >= 0).any():
            raise InvalidInputError(
                f"recordings[{k}] has labels without names of classes, but recordings[{named[0]}] "
                f"has the classes {listed(recs[named[0]].classes)}; give both classes="
            )
    classes = tuple(dict.fromkeys(name for k in named for name in recs[k].classes or ()))
    if not labelled:
        return None, classes if named else None
    parts = []
    for rec in recs:
        y = np.full(len(rec), -1, dtype=np.int64) if rec.y is None else rec.y
        if rec.classes is not None:
            place = np.array([classes.index(name) for name in rec.classes] + [-1], dtype=np.int64)
            y = place[y]
        parts.append(y)
    return np.concatenate(parts), classes if named else None


def _groups(recs: list[Recordings], distinct: bool) -> AnyArray | None:
    if all(rec.groups is None for rec in recs) and not distinct:
        return None
    names = _distinct_names(recs)
    parts: list[AnyArray] = []
    for k, rec in enumerate(recs):
        if rec.groups is None and not distinct:
            raise InvalidInputError(
                f"recordings[{k}] has no groups, but others have; give it groups=, or pass "
                "distinct_groups=True, by which it becomes a group of its own"
            )
        if not distinct:
            parts.append(np.asarray(rec.groups))
        elif rec.groups is None:
            parts.append(np.full(len(rec), names[k]))
        else:
            parts.append(np.array([f"{names[k]}: {group}" for group in rec.groups.tolist()]))
    if len({part.dtype.kind == "U" for part in parts}) > 1:
        parts = [part.astype(np.str_) for part in parts]
    return np.concatenate(parts)


def _columns(recs: list[Recordings]) -> dict[str, AnyArray]:
    out = {}
    for key in recs[0].columns:
        if not all(key in rec.columns for rec in recs):
            continue
        parts = [rec.columns[key] for rec in recs]
        if key == "recording" and all(part.dtype.kind in "iu" for part in parts):
            offset = 0  # positions go on where those before end
            for k, part in enumerate(parts):
                parts[k] = part.astype(np.int64) + offset
                offset = int(parts[k].max()) + 1
        elif key == "recording" and _same_place(recs):
            names = _distinct_names(recs)
            parts = [
                np.array([f"{names[k]}: {value}" for value in part.tolist()])
                for k, part in enumerate(parts)
            ]
        if len({part.shape[1:] for part in parts}) > 1:
            raise InvalidInputError(
                f"columns[{key!r}] has entries of shape "
                f"{' and '.join(sorted({str(part.shape[1:]) for part in parts}))}; drop it from "
                "one of the recordings with del rec.columns[...]"
            )
        if len({part.dtype.kind in "US" for part in parts}) > 1:
            parts = [part.astype(np.str_) for part in parts]
        out[key] = np.concatenate(parts)
    return out


def _distinct_names(recs: list[Recordings]) -> list[str]:
    """Names of the recordings, or their positions where names repeat or are missing."""
    names = [rec.name for rec in recs]
    if len(set(names)) < len(names) or "" in names:
        return [str(k) for k in range(len(recs))]
    return names


def _same_place(recs: list[Recordings]) -> bool:
    """Whether windows of two recordings have the same name of recording and the same start."""
    seen: set[tuple[Any, Any]] = set()
    for rec in recs:
        start = rec.columns.get("start", np.zeros(len(rec)))
        places = set(zip(rec.columns["recording"].tolist(), start.tolist(), strict=True))
        if seen & places:
            return True
        seen |= places
    return False
