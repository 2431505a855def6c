"""What all augmentations share: the call, its checks and the configuration as plain data."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, TypeVar

import numpy as np

from tensorcontrast.errors import InvalidInputError
from tensorcontrast.recordings.signals import as_signals, check_finite
from tensorcontrast.utils.names import listed

_DEPTH = 50
"""Levels of lists and augmentations that a configuration may have."""

REGISTRY: dict[str, type[Augmentation]] = {}
"""Class name → class, of those that a configuration may name."""

_A = TypeVar("_A", bound="type[Augmentation]")


def register(cls: _A) -> _A:
    """Let configurations name this class."""
    REGISTRY[cls.__name__] = cls
    return cls


def as_generator(rng: np.random.Generator | int) -> np.random.Generator:
    """Return a generator: the one given, or one seeded by an integer."""
    if isinstance(rng, np.random.Generator):
        return rng
    if isinstance(rng, (int, np.integer)) and not isinstance(rng, bool) and rng >= 0:
        return np.random.default_rng(int(rng))
    raise InvalidInputError(
        f"rng is {rng!r} where a numpy.random.Generator or a seed of 0 or more is expected; "
        "pass numpy.random.default_rng(seed)"
    )


class Augmentation:
    """Base of the augmentations: a seeded, pure function of signals [n, channel, time].

    Subclasses are frozen dataclasses whose fields are numbers, strings, tuples and other
    augmentations; they fill in ``_check`` and ``_apply``.

    Examples
    --------
    >>> import numpy as np
    >>> from tensorcontrast.augment import Jitter
    >>> X = np.ones((2, 3, 50))
    >>> changed = Jitter(0.1)
    >>> changed(X, 0).shape, bool((changed(X, 0) == changed(X, 0)).all())
    ((2, 3, 50), True)
    """

    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]]

    def __post_init__(self) -> None:
        """Turn lists and NumPy scalars into plain values, then check the fields."""
        for field in dataclasses.fields(self):
            object.__setattr__(self, field.name, _plain(getattr(self, field.name)))
        self._check_fields()

    def __call__(
        self, X: Any, rng: np.random.Generator | int, *, block_values: int = 1 << 18
    ) -> np.ndarray:
        """Return an augmented copy.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_channels, n_times)
            Signals in floating point; they are not changed.
        rng : numpy.random.Generator or int
            Source of the random draws, or a seed for one. The same state gives the same result.
        block_values : int, default=262144
            Values worked on at once: temporaries stay in the cache and memory stays bounded.

        Returns
        -------
        ndarray
            New array of the same shape and dtype.
        """
        X = as_signals(X, way="")
        if X.dtype.kind != "f":
            raise InvalidInputError(
                f"X holds {X.dtype}, which cannot keep the augmented values; "
                "convert it first, for example X.astype(np.float32) * scale"
            )
        rng = as_generator(rng)
        self._check(X.shape[1], X.shape[2])
        work = np.float32 if X.dtype.itemsize <= 4 else np.float64
        # Variances square the values, so that these may reach the root of the largest number.
        check_finite(X, limit=float(np.finfo(work).max) ** 0.5 / X.shape[2])
        out = np.empty(X.shape, X.dtype)
        step = max(1, block_values // (X.shape[1] * X.shape[2]))
        for start in range(0, len(X), step):
            block = np.array(X[start : start + step], dtype=work, order="C")
            out[start : start + step] = self._apply(block, rng)
        return out

    def to_config(self) -> dict[str, Any]:
        """Return the class name and fields as plain data that JSON can hold."""
        fields = {f.name: _to_data(getattr(self, f.name)) for f in dataclasses.fields(self)}
        return {"type": type(self).__name__, **fields}

    @staticmethod
    def from_config(config: dict[str, Any]) -> Augmentation:
        """Build the augmentation that `to_config` described."""
        return from_config(config)

    def _check_fields(self) -> None:
        """Raise for fields that can never work."""

    def _check(self, n_channels: int, n_times: int) -> None:
        """Raise where signals of this size do not fit the fields."""

    def _apply(self, X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return the augmented block; ``X`` may be overwritten and returned."""
        raise NotImplementedError


def from_config(config: dict[str, Any]) -> Augmentation:
    """Build an augmentation from plain data, as written by ``to_config``.

    Only the classes of this package can be named; nothing is imported.

    Parameters
    ----------
    config : dict
        ``{"type": class name, field: value, …}``; nested augmentations are such dicts.

    Returns
    -------
    Augmentation
        Equal to the one whose ``to_config`` gave the data.

    Examples
    --------
    >>> from tensorcontrast import augment  # which registers the classes
    >>> from_config({"type": "Scale", "spread": 0.2})
    Scale(spread=0.2, per='sample')
    """
    return _build(config, 0)


def _build(config: Any, depth: int) -> Augmentation:
    if not isinstance(config, dict) or not isinstance(config.get("type"), str):
        raise InvalidInputError(
            f"an augmentation is described by a dict with the key 'type', not {listed([config])}"
        )
    name = config["type"]
    if name not in REGISTRY:
        raise InvalidInputError(
            f"unknown augmentation {listed([name])}; this version knows "
            f"{', '.join(sorted(REGISTRY))}"
        )
    cls = REGISTRY[name]
    known = {field.name for field in dataclasses.fields(cls)}
    given = {key: value for key, value in config.items() if key != "type"}
    if unknown := sorted(map(str, set(given) - known)):
        raise InvalidInputError(
            f"{name} has no field {listed(unknown)}; it has {', '.join(sorted(known))}"
        )
    try:
        return cls(**{key: _from_data(value, depth) for key, value in given.items()})
    except TypeError as error:
        raise InvalidInputError(f"the description of {name} does not fit: {error}") from None


def require(condition: bool, message: str) -> None:
    """Raise InvalidInputError with this message unless the condition holds."""
    if not condition:
        raise InvalidInputError(message)


def is_number(value: object, low: float = -np.inf, high: float = np.inf) -> bool:
    """Tell whether the value is a finite real number within [low, high]."""
    return (
        isinstance(value, (int, float))
        and not isinstance(value, bool)
        and bool(np.isfinite(value))
        and low <= value <= high
    )


def is_integer(value: object, low: int) -> bool:
    """Tell whether the value is an integer of at least ``low``."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= low


def _plain(value: Any) -> Any:
    """Turn lists and arrays into tuples, NumPy scalars into Python ones."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (list, tuple)):
        return tuple(_plain(item) for item in value)
    return value


def _to_data(value: Any) -> Any:
    if isinstance(value, Augmentation):
        return value.to_config()
    if isinstance(value, tuple):
        return [_to_data(item) for item in value]
    return value


def _from_data(value: Any, depth: int) -> Any:
    if depth > _DEPTH:
        raise InvalidInputError(f"a configuration has more than {_DEPTH} levels")
    if isinstance(value, dict):
        return _build(value, depth + 1)
    if isinstance(value, (list, tuple)):
        return tuple(_from_data(item, depth + 1) for item in value)
    return value
