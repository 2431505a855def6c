"""Recordings from labelled arrays of xarray."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tensorcontrast.errors import InvalidInputError, InvalidTypeError
from tensorcontrast.recordings.checks import as_sampling_rate
from tensorcontrast.recordings.conversion import drop_without_label, imported
from tensorcontrast.recordings.frames import from_dataframe
from tensorcontrast.utils.names import listed

if TYPE_CHECKING:
    from tensorcontrast.recordings import Recordings

AnyArray = npt.NDArray[Any]

#: Names of dimensions that are understood.
DIMENSIONS = {
    "window": ("window", "windows", "epoch", "epochs", "trial", "trials"),
    "channel": ("channel", "channels", "sensor", "sensors", "electrode", "electrodes"),
    "time": ("time", "times", "t"),
}


def from_xarray(
    data: Any,
    *,
    label: str | None = None,
    group: str | None = None,
    fs: float | None = None,
    window_s: float | None = None,
    step_s: float | None = None,
    label_share: float = 0.5,
    drop_unlabelled: bool = False,
    name: str = "",
    allow_nan: bool = False,
) -> Recordings:
    """Make recordings of an ``xarray.DataArray``.

    Coordinates give the names of channels and the sampling rate, and the attribute ``units`` the
    unit. Other coordinates along the windows become ``columns``.

    Parameters
    ----------
    data : xarray.DataArray
        With the dimensions window (or epoch, trial), channel and time, in any order; or channel and
        time, which is continuous and cut into windows.
    label, group : str, optional
        Coordinates with the class and the subject, along the windows, or along the time of
        continuous data. By default those of the usual names (``label``, ``subject``, …).
    fs : float, optional
        Samples per second. By default that of the coordinate of time, which holds seconds, dates
        or time differences, or has the attribute ``units``.
    window_s, step_s, label_share, drop_unlabelled
        For continuous data, as in :meth:`Recordings.from_dataframe`.
    name : str
        Name of the recordings; by default that of the array.
    allow_nan : bool
        Accept missing values.

    Returns
    -------
    Recordings
    """
    several = hasattr(data, "data_vars")
    if several or not all(hasattr(data, key) for key in ("dims", "coords", "values", "attrs")):
        way = "pass one of its arrays, as in data['eeg']" if several else "make one of it first"
        raise InvalidTypeError(f"a {type(data).__name__} is no DataArray of xarray; {way}")
    dims = [str(dim) for dim in data.dims]
    found = {
        role: next((dim for dim in dims if dim.lower() in names), None)
        for role, names in DIMENSIONS.items()
    }
    used = [dim for dim in found.values() if dim is not None]
    if found["channel"] is None or found["time"] is None or len(used) != len(dims):
        raise InvalidInputError(
            f"the array has the dimensions {listed(dims)}, but (window, channel, time) or "
            "(channel, time) is needed; rename them with data.rename, or add one with "
            "data.expand_dims"
        )
    array = data.transpose(*used)
    title = name or str(data.name or "")
    if found["window"] is not None:
        if window_s is not None or step_s is not None:
            raise InvalidInputError(
                "the array holds windows already; leave window_s and step_s out"
            )
        rec = _windows(array, found, label, group, fs, title, allow_nan)
        return drop_without_label(title or "array", rec) if drop_unlabelled else rec
    return _continuous(
        array,
        found,
        {"label": _role(array, "label", label), "group": _role(array, "group", group)},
        fs=fs,
        window_s=window_s,
        step_s=step_s,
        label_share=label_share,
        drop_unlabelled=drop_unlabelled,
        name=title,
        allow_nan=allow_nan,
    )


def _role(array: Any, role: str, name: str | None) -> str | None:
    """Name of the coordinate with labels or groups; None where there is none."""
    from tensorcontrast.readers.columns import ROLES

    names = [str(key) for key in array.coords]
    if name is not None and name not in names:
        raise InvalidInputError(f"no coordinate {name!r} for {role}; there are {listed(names)}")
    usual = (key for key in ROLES[role] if key in names and key not in array.dims)
    return name if name is not None else next(usual, None)


def _names(array: Any, dim: str) -> list[str] | None:
    return [str(v) for v in array.coords[dim].values] if dim in array.coords else None


def _windows(
    array: Any,
    found: dict[str, str | None],
    label: str | None,
    group: str | None,
    fs: float | None,
    name: str,
    allow_nan: bool,
) -> Recordings:
    from tensorcontrast.recordings import Recordings

    window, channel, time = (str(found[role]) for role in ("window", "channel", "time"))
    n = array.sizes[window]
    along = {
        str(key): np.asarray(value.values)
        for key, value in array.coords.items()
        if tuple(value.dims) in ((window,), ()) and value.values.dtype.kind in "biufUSO"
    }
    taken = {
        role: _role(array, role, given) for role, given in (("label", label), ("group", group))
    }
    for role, key in taken.items():
        if key is not None and key not in along:
            raise InvalidInputError(
                f"the coordinate {key!r} for {role} is not along {window!r}; give one per window"
            )
    values = {role: None if key is None else along.pop(key) for role, key in taken.items()}
    y, groups = (None if v is None else np.broadcast_to(v, (n,)) for v in values.values())
    columns = {key: value for key, value in along.items() if value.shape == (n,)}
    return Recordings(
        array.values,
        y,
        groups=groups,
        fs=_rate(array, time, fs),
        channels=_names(array, channel),
        units=array.attrs.get("units"),
        columns=columns,
        name=name,
        allow_nan=allow_nan,
    )


def _rate(array: Any, time: str, fs: float | None) -> float | None:
    """Return the rate of the coordinate of time, compared with the one that was given."""
    from tensorcontrast.readers.continuous import RATE_TOLERANCE, rounded_rate

    given = None if fs is None else as_sampling_rate(fs)
    if time not in array.coords or array.sizes[time] < 2:
        return given
    times = _seconds(array, time)
    steps = np.diff(times)
    usual = float(np.median(steps))
    if not usual > 0 or (np.abs(steps - usual) > 0.5 * usual).any():
        raise InvalidInputError(
            f"the coordinate {time!r} does not rise in equal steps; interpolate the array to one "
            "rate first, with data.interp, or drop the coordinate and pass fs="
        )
    counts = array.coords[time].values.dtype.kind in "iu" and usual == 1
    if counts:
        return given
    rate = (len(times) - 1) / float(times[-1] - times[0])
    if given is not None and abs(rate - given) > RATE_TOLERANCE * given:
        raise InvalidInputError(
            f"the coordinate {time!r} has {rate:.6g} samples per second, but fs={given:g} was "
            "given; leave fs out, or say its unit in the attribute units of the coordinate"
        )
    return rounded_rate(rate) if given is None else given


def _seconds(array: Any, time: str) -> AnyArray:
    """Return times in seconds."""
    values = np.asarray(array.coords[time].values)
    if values.dtype.kind in "mM":
        return np.asarray((values - values[0]) / np.timedelta64(1, "ns") / 1e9)
    units = {"ms": 1e3, "us": 1e6, "µs": 1e6, "ns": 1e9}
    return values / units.get(str(array.coords[time].attrs.get("units", "s")), 1.0)


def _continuous(
    array: Any, found: dict[str, str | None], roles: dict[str, str | None], **how: Any
) -> Recordings:
    """Windows of an array (channel, time), by way of a data frame."""
    pandas = imported("pandas", "data")
    channel, time = str(found["channel"]), str(found["time"])
    names = _names(array, channel) or [str(k) for k in range(array.sizes[channel])]
    # Names that no channel has, for the columns next to them.
    columns = {f"channel {name}": row for name, row in zip(names, array.values, strict=True)}
    given: dict[str, Any] = {}
    if time in array.coords:
        counts = array.coords[time].values.dtype.kind in "iu" and "units" not in (
            array.coords[time].attrs
        )
        given["time"] = f"{time}" if counts else f"{time} (s)"
        columns[given["time"]] = array.coords[time].values if counts else _seconds(array, time)
    for role, key in roles.items():
        if key is not None:
            value = array.coords[key]
            if tuple(value.dims) not in ((time,), ()):
                raise InvalidInputError(
                    f"the coordinate {key!r} for {role} is not along {time!r}; give one value, or "
                    "one per sample in time"
                )
            given[role] = f"{role} of samples"
            columns[given[role]] = np.broadcast_to(value.values, (array.sizes[time],))
    rec = from_dataframe(
        pandas.DataFrame(columns), channels=[f"channel {name}" for name in names], **given, **how
    )
    units = array.attrs.get("units")
    return rec._with(channels=tuple(names), units=None if units is None else str(units))
