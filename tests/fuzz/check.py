"""What must hold of everything that a reader accepts."""

import numpy as np
from forge_models import MODEL_X
from forge_signals import SECRET

from tensorcontrast import Recordings
from tensorcontrast.errors import TensorContrastError


class Broken(Exception):
    """Something was accepted that is not valid."""


def need(condition, what):
    if not condition:
        raise Broken(what)


def recordings_hold(rec) -> None:
    """Shapes agree, values are finite, names are text."""
    need(isinstance(rec, Recordings), f"not Recordings but {type(rec).__name__}")
    n, channels, times = rec.X.shape
    need(n and channels and times, f"shape {rec.X.shape}")
    need(rec.X.dtype in (np.float32, np.float64), f"dtype {rec.X.dtype}")
    need(bool(np.isfinite(rec.X).all()), "signals that are not finite")
    need(not (rec.X == SECRET).any(), "a file outside the folder was read")
    need(rec.fs is None or (np.isfinite(rec.fs) and rec.fs > 0), f"fs {rec.fs}")
    if rec.y is not None:
        need(rec.y.shape == (n,) and rec.y.dtype == np.int64, f"y {rec.y.shape} {rec.y.dtype}")
        need(rec.y.min() >= -1, f"label {rec.y.min()}")
        need(rec.classes is None or rec.y.max() < len(rec.classes), f"label {rec.y.max()}")
    need(rec.groups is None or rec.groups.shape == (n,), "groups")
    need(rec.groups is None or rec.groups.dtype.kind in "iuU", "groups")
    for what, count in (("channels", channels), ("classes", None)):
        names = getattr(rec, what)
        if names is not None:
            need(all(type(name) is str for name in names), f"{what} that are no text")
            need(count is None or len(names) == count, f"{len(names)} {what}")
            need(len(set(names)) == len(names), f"{what} twice")
            "".join(names).encode()
    need(all(len(column) == n for column in rec.columns.values()), "columns of another length")
    need(isinstance(rec.units, str | None) or len(rec.units) == channels, f"units {rec.units}")
    need(len(repr(rec)) > 0 and len(rec.quality().constant) == n, "cannot be shown")
    Recordings(
        rec.X, rec.y, groups=rec.groups, fs=rec.fs, channels=rec.channels, classes=rec.classes,
        units=rec.units, columns=rec.columns,
    )  # fmt: skip


def recordings_come_back(rec, path) -> None:
    """What was accepted can be saved, or is refused, and then loads as the same."""
    try:
        rec.save(path)
    except TensorContrastError:
        return
    back = Recordings.load(path)
    need(
        np.array_equal(back.X, rec.X) and back.X.dtype == rec.X.dtype, "saved, but comes back other"
    )
    for key in ("fs", "channels", "classes", "units"):
        need(getattr(back, key) == getattr(rec, key), f"{key} comes back other")
    for key, column in rec.columns.items():
        need(np.array_equal(back.columns[key], column, equal_nan=column.dtype.kind == "f"), key)


def same_recordings(rec, other) -> bool:
    """Whether two files of recordings hold the same."""
    if rec.X.tobytes() != other.X.tobytes() or set(rec.columns) != set(other.columns):
        return False
    pairs = [(rec.columns[k], other.columns[k]) for k in rec.columns]
    pairs += [
        (getattr(rec, k), getattr(other, k)) for k in ("y", "groups", "fs", "channels", "classes")
    ]
    return all(np.array_equal(np.asarray(a), np.asarray(b)) for a, b in pairs)


def model_holds(model) -> None:
    """A loaded model transforms, or says by an error of the project why it cannot."""
    repr(model)
    try:
        with np.errstate(all="ignore"):
            out = model.transform(MODEL_X)
    except TensorContrastError:
        return
    need(len(out) == len(MODEL_X), "features of other samples")


def same_model(model, other) -> bool:
    return np.array_equal(model.transform(MODEL_X), other.transform(MODEL_X))
