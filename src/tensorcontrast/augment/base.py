"""What all augmentations share: the call, its checks, plain data, and putting them in sequence."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from tensorcontrast.errors import InvalidInputError
from tensorcontrast.recordings.signals import as_signals, check_finite
from tensorcontrast.utils import checks
from tensorcontrast.utils.names import listed


class Augmentation:
    """Base of the augmentations: a seeded, pure function of signals [n, channel, time].

    Subclasses are frozen dataclasses whose fields are numbers, strings, tuples and other
    augmentations; they fill in ``_constraints``, ``_check`` and ``_apply``.

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
    #: What each field may be, as estimators of scikit-learn say it of their parameters.
    _constraints: ClassVar[dict[str, list[Any]]] = {}

    def __post_init__(self) -> None:
        """Turn lists and NumPy scalars into plain values, then check the fields."""
        for name, value in vars(self).items():
            object.__setattr__(self, name, _plain(value))
        checks.check_settings(self._constraints, vars(self), type(self).__name__)
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
        X = as_signals(X)
        if X.dtype.kind != "f":
            raise InvalidInputError(
                f"X holds {X.dtype}, which cannot keep the augmented values; "
                "convert it first, for example X.astype(np.float32) * scale"
            )
        rng = np.random.default_rng(rng)
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
        """Build the augmentation that `to_config` described.

        Only the classes of this package can be named; nothing is imported.

        Examples
        --------
        >>> from tensorcontrast.augment import Augmentation
        >>> Augmentation.from_config({"type": "Scale", "spread": 0.2})
        Scale(spread=0.2)
        """
        if not isinstance(config, dict) or not isinstance(config.get("type"), str):
            raise InvalidInputError(
                "an augmentation is described by a dict with the key 'type', not "
                f"{listed([config])}"
            )
        package = __name__.removesuffix("base")
        kinds = Augmentation.__subclasses__()
        ours = {kind.__name__: kind for kind in kinds if kind.__module__.startswith(package)}
        name = config["type"]
        if name not in ours:
            raise InvalidInputError(
                f"unknown augmentation {listed([name])}; this version knows "
                f"{', '.join(sorted(ours))}"
            )
        try:
            return ours[name](**{k: _from_data(v) for k, v in config.items() if k != "type"})
        except TypeError as error:
            raise InvalidInputError(f"the description of {name} does not fit: {error}") from None

    def _check_fields(self) -> None:
        """Raise for fields that can never work."""

    def _check(self, n_channels: int, n_times: int) -> None:
        """Raise where signals of this size do not fit the fields."""

    def _apply(self, X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return the augmented block; ``X`` may be overwritten and returned."""
        raise NotImplementedError


def require(condition: bool, message: str) -> None:
    """Raise InvalidInputError with this message unless the condition holds."""
    if not condition:
        raise InvalidInputError(message)


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


def _from_data(value: Any) -> Any:
    if isinstance(value, dict):
        return Augmentation.from_config(value)
    if isinstance(value, (list, tuple)):
        return tuple(_from_data(item) for item in value)
    return value


@dataclass(frozen=True)
class Compose(Augmentation):
    """Apply augmentations in sequence, as the PLC paper does.

    Parameters
    ----------
    steps : tuple of augmentations
        The first is applied first; none at all leaves the signals as they are.

    Examples
    --------
    >>> from tensorcontrast.augment import Compose, Jitter, Scale
    >>> Compose((Jitter(0.02), Scale(0.2))).to_config()["steps"][1]
    {'type': 'Scale', 'spread': 0.2}
    """

    steps: tuple[Augmentation, ...] = ()

    def _check_fields(self) -> None:
        require(
            isinstance(self.steps, tuple) and all(isinstance(s, Augmentation) for s in self.steps),
            f"Compose steps is {self.steps!r}; use a list of augmentations, such as (Jitter(), "
            "Scale())",
        )

    def _check(self, n_channels: int, n_times: int) -> None:
        for step in self.steps:
            step._check(n_channels, n_times)

    def _apply(self, X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        for step in self.steps:
            X = step._apply(X, rng)
        return X
