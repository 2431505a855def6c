"""Model files: parameters and learned attributes as a NumPy archive.

A file is an uncompressed ``.npz``: ``model.json`` describes the model, all other members are its
arrays. The checksums of the archive tell damage. Loading executes no code from the file: nothing is
unpickled, and classes are looked up in a fixed table.

Which parameters a file may set:

- Numbers, truth values, arrays, options and texts that describe the model: all, checked as ``fit``
  checks them.
- Augmentations and estimators of the library: all, from a fixed table, with the same rule inside.
- Code (``callback``, a function as ``augment``): none. It is not written, and a warning names it.
- What acts on the machine, :data:`MACHINE_PARAMETERS`: none. It is neither written nor read. A
  file cannot choose where the next ``fit`` writes, how many threads it starts or what it prints.
"""

from __future__ import annotations

import json
import math
import os
import warnings
import zipfile
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from tensorcontrast.augment.base import Augmentation
from tensorcontrast.errors import (
    DamagedFileError,
    DataNotFoundError,
    FileError,
    ForeignFileError,
    InvalidInputError,
    MissingDependencyError,
    NewerFileError,
    TensorContrastError,
    TensorContrastWarning,
    TruncatedFileError,
)
from tensorcontrast.io.atomic import atomic_write
from tensorcontrast.utils import checks
from tensorcontrast.utils.names import listed
from tensorcontrast.version import __version__

Array = NDArray[Any]

HEADER, FORMAT = "model.json", 1
"""Member of a file that describes the model, and the version of its format."""

_ZIP = b"PK\x03\x04"

#: Parameters that act on the machine, not on the model; a loaded model has their defaults.
MACHINE_PARAMETERS = frozenset({"callback", "n_jobs", "verbose"})
#: Learned attributes in which NaN says that a sweep had no such term.
_MAY_BE_NAN = {"history_"}
#: Module of every class that a file may name; it is imported when it is needed, torch never here.
_MODULES = {
    **dict.fromkeys(("ATD", "CPD", "PLC", "Algorithm1"), "decompose"),
    **dict.fromkeys(("ConvolutionFeatures", "SpectrogramTensor"), "tensorize"),
    **dict.fromkeys(("BYOL", "DeepTensor", "SimCLR"), "neural"),
    "ContrastiveFeatures": "features",
    "ContrastiveClassifier": "classify",
}


# -------------------------------------------------------------------- objects to plain data


class _Packer:
    """Turns parameters and learned attributes into JSON data and a table of arrays."""

    def __init__(self) -> None:
        self.arrays: dict[str, Array] = {}
        self.dropped: list[str] = []

    def pack(self, value: Any, where: str) -> Any:
        if value is None or isinstance(value, bool | str):
            return value
        if isinstance(value, int | np.integer):
            return int(value)
        if isinstance(value, float | np.floating):
            return float(value) if math.isfinite(value) else {"float": repr(float(value))}
        if isinstance(value, np.ndarray) and value.dtype.kind in "OU":
            return {"strings": [str(item) for item in value.tolist()]}
        if isinstance(value, np.ndarray):
            return {"array": self._store(value, where)}
        if isinstance(value, list | tuple):
            if len(value) > 8 and all(isinstance(item, float) for item in value):
                return {"floats": self._store(np.array(value), where)}
            kind = "tuple" if isinstance(value, tuple) else "list"
            return {kind: [self.pack(item, f"{where}.{i}") for i, item in enumerate(value)]}
        if isinstance(value, dict):
            return {"dict": {str(k): self.pack(v, f"{where}.{k}") for k, v in value.items()}}
        if isinstance(value, Augmentation):
            return {"augment": value.to_config()}
        if type(value).__name__ in _MODULES:
            return {"estimator": self.estimator(value, where)}
        self.dropped.append(where)
        return None

    def estimator(self, model: Any, where: str = "") -> dict[str, Any]:
        prefix = f"{where}." if where else ""
        learned = {
            name: value
            for name, value in vars(model).items()
            if name.endswith("_") and not name.startswith("_")
        }
        for name, value in learned.items():
            _check_finite(name, value)
        params = model.get_params(deep=False)
        if params.get("callback") is not None:
            self.dropped.append(f"{prefix}callback")
        return {
            "class": type(model).__name__,
            "params": {
                k: self.pack(v, prefix + k)
                for k, v in params.items()
                if k not in MACHINE_PARAMETERS
            },
            "learned": {k: self.pack(v, prefix + k) for k, v in learned.items()},
        }

    def _store(self, array: Array, where: str) -> str:
        self.arrays[where] = np.ascontiguousarray(array)
        return where


def _unpack(data: Any, arrays: dict[str, Array]) -> Any:
    """Return the object that :meth:`_Packer.pack` made ``data`` of."""
    if not isinstance(data, dict):
        return data
    ((kind, value),) = data.items()
    simple: dict[str, Callable[[Any], Any]] = {
        "float": float,
        "strings": lambda v: np.array(v, dtype=object),
        "array": lambda v: arrays[v],
        "floats": lambda v: arrays[v].tolist(),
        "list": lambda v: [_unpack(item, arrays) for item in v],
        "tuple": lambda v: tuple(_unpack(item, arrays) for item in v),
        "dict": lambda v: {k: _unpack(item, arrays) for k, item in v.items()},
        "augment": Augmentation.from_config,
        "estimator": lambda v: _unpack_estimator(v, arrays),
    }
    return simple[kind](value)


def _unpack_estimator(state: dict[str, Any], arrays: dict[str, Array]) -> Any:
    module = _MODULES.get(state["class"])
    if module is None:
        raise NewerFileError(
            f"the file holds a {listed([state['class']])}, which this version does not know; "
            "update tensorcontrast"
        )
    cls: Any = getattr(import_module(f"tensorcontrast.{module}"), state["class"])
    unknown = set(state["params"]) - set(cls._get_param_names())
    if unknown:
        raise NewerFileError(
            f"the file's {state['class']} has parameters {listed(sorted(unknown))}, which this "
            "version does not know; update tensorcontrast"
        )
    params = {
        k: _unpack(v, arrays) for k, v in state["params"].items() if k not in MACHINE_PARAMETERS
    }
    model = cls(**params)
    constraints = getattr(cls, "_parameter_constraints", {})
    # Those that a file cannot hold are None and go unchecked.
    given = {k: v for k, v in params.items() if v is not None and k in constraints}
    checks.check_settings(constraints, given, state["class"])
    for name, value in state["learned"].items():
        if not name.endswith("_") or name.startswith("_"):
            raise DamagedFileError(f"{listed([name])} is not the name of a learned attribute")
        learned = _unpack(value, arrays)
        _check_finite(name, learned)
        setattr(model, name, learned)
    center = vars(model).get("center_")
    if center is not None and np.asarray(center).dtype.kind != "f":
        raise DamagedFileError("the mean is not of floating-point numbers")
    if state["learned"] and hasattr(model, "_rebuild"):  # parameters are not fitted
        model._rebuild()
    return model


def _check_finite(name: str, value: Any) -> None:
    """Raise where a learned array, on its own or in a list, tuple or dict, is not finite."""
    if name in _MAY_BE_NAN:
        return
    if isinstance(value, np.ndarray) and value.dtype.kind == "f":
        bad = int(value.size - np.isfinite(value).sum())
        if bad:
            raise InvalidInputError(
                f"the learned {name} holds NaN or infinity in {bad} of {value.size} places, so "
                "that features would be NaN; fit again"
            )
    elif isinstance(value, list | tuple | dict):
        for item in value.values() if isinstance(value, dict) else value:
            _check_finite(name, item)


# -------------------------------------------------------------------- files


def save_model(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted model to ``path``, in one piece or not at all.

    Parameters that are code (``callback``, a function that augments) cannot be
    written; a warning names them, and the loaded model has None in their place. ``n_jobs`` and
    ``verbose`` concern this machine and are left out; the loaded model has their defaults.
    """
    packer = _Packer()
    state = packer.estimator(model)
    if packer.dropped:
        warnings.warn(
            f"{Path(path).name}: {listed(packer.dropped)} cannot be written to a model file "
            "and will be None in the loaded model; transform does not need them",
            TensorContrastWarning,
            stacklevel=3,
        )
    channels = getattr(model, "channels_", None)
    header = {
        "format": FORMAT,
        "written_by": f"tensorcontrast {__version__}",
        "model": state,
        "channels": None if channels is None else [str(name) for name in channels],
    }
    text = np.frombuffer(json.dumps(header, allow_nan=False).encode(), np.uint8)
    with atomic_write(Path(path)) as file:
        np.savez(file, **{HEADER: text}, **packer.arrays)  # type: ignore[arg-type]


def load_model(path: str | os.PathLike[str]) -> Any:
    """Read a model written by ``save``.

    Raises
    ------
    DataNotFoundError
        No such file.
    ForeignFileError, TruncatedFileError, DamagedFileError, NewerFileError
        The file is something else, ends too early, has other contents than were written, or
        comes from a newer version.

    Examples
    --------
    >>> import os, tempfile
    >>> from tensorcontrast import CPD, load_model
    >>> from tensorcontrast.datasets import make_cp_tensor
    >>> X, *_ = make_cp_tensor(n_samples=30, dims=(4, 5), rank=2, random_state=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "model.tcm")
    ...     CPD(rank=2, random_state=0).fit(X).save(path)
    ...     load_model(path)
    CPD(random_state=0, rank=2)
    """
    path = Path(path)
    header, arrays = read_archive(path)
    try:
        if not header["model"]["learned"]:
            raise DamagedFileError("the model was never fitted")
        return _unpack_estimator(header["model"], arrays)
    except FileError as error:
        raise type(error)(f"{path}: {error}") from error
    except MissingDependencyError as error:
        raise MissingDependencyError(f"{path}: {error}") from error
    except TensorContrastError as error:
        raise DamagedFileError(f"{path}: {error}") from error
    except Exception as error:
        raise DamagedFileError(f"{path} does not describe a model: {error!r}") from error


def read_archive(path: Path) -> tuple[dict[str, Any], dict[str, Array]]:
    """Read the description and the arrays of a model file."""
    try:
        if path.exists() and not path.is_file():  # a pipe waits for ever
            raise FileError(f"{path} cannot be read: it is no file")
        with path.open("rb") as file:
            start = file.read(len(_ZIP))
    except FileNotFoundError:
        raise DataNotFoundError(f"no model file at {path}") from None
    except OSError as error:
        raise FileError(f"{path} cannot be read: {error.strerror or error}") from error
    if start != _ZIP[: len(start)]:
        raise ForeignFileError(
            f"{path} is not a tensorcontrast model: it begins with {start!r}; model files are "
            "written by .save(path)"
        )
    if not zipfile.is_zipfile(path):
        raise TruncatedFileError(f"{path} ends before its last part; copy or save it again")
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except MemoryError as error:
        raise FileError(f"{path}: too large for the memory of this machine") from error
    except Exception as error:
        raise DamagedFileError(f"{path} is damaged ({error}); copy or save it again") from error
    if HEADER not in arrays:
        raise ForeignFileError(f"{path} is not a tensorcontrast model but another NumPy archive")
    try:
        header: dict[str, Any] = json.loads(arrays.pop(HEADER).tobytes())
        is_newer = header["format"] > FORMAT
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DamagedFileError(f"{path} does not describe a model: {error!r}") from error
    if is_newer:
        raise NewerFileError(
            f"{path} has format {header['format']}; this version reads up to {FORMAT}: update "
            "tensorcontrast"
        )
    return header, arrays


class SavedMixin:
    """Add ``save`` to an estimator."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to one file, to be read by :func:`tensorcontrast.load_model`.

        The file is written in one piece or not at all, and holds no code.
        """
        check_is_fitted(self)
        save_model(self, path)
