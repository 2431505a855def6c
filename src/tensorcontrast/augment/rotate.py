"""Rotation of x-y-z triples, as when a device is worn another way."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from scipy.spatial.transform import Rotation
from sklearn.utils._param_validation import Interval

from tensorcontrast.augment.base import Augmentation, require
from tensorcontrast.errors import InvalidInputError

_PATTERNS = (
    re.compile(r"(?<![a-z0-9])([xyz])(?![a-z])", re.IGNORECASE),  # acc_x, x-acc, X1, acc (y)
    re.compile(r"(?<=[a-z0-9])([XYZ])(?![a-zA-Z])"),  # accX, GyroY1
    re.compile(r"(?<=[a-z])([xyz])$"),  # ax, accx
)


def find_triples(channels: Iterable[str]) -> tuple[tuple[int, int, int], ...]:
    """Find the x-y-z triples among channel names.

    Names belong together where they differ in the axis letter only: ``acc_x acc_y acc_z``,
    ``body_gyro_x …``, ``accX …``, ``x1 y1 z1``. Names without partners are left out.

    Parameters
    ----------
    channels : iterable of str
        Channel names in the order of the channels.

    Returns
    -------
    tuple of (int, int, int)
        Channel numbers of x, y and z, in the order of their first channel.

    Examples
    --------
    >>> from tensorcontrast.augment.rotate import find_triples
    >>> find_triples(["acc_x", "acc_y", "acc_z", "heart rate"])
    ((0, 1, 2),)
    """
    names = tuple(channels)
    groups: dict[str, dict[str, int]] = {}
    for number, name in enumerate(names):
        require(isinstance(name, str), f"channel {number} is named {name!r}; names are strings")
        found = next((match for p in _PATTERNS if (match := p.search(name))), None)
        if found is None:
            continue
        key = f"{name[: found.start()]}*{name[found.end() :]}".lower()
        axes = groups.setdefault(key, {})
        axis = found.group(1).lower()
        if axis in axes:
            raise InvalidInputError(
                f"channels {axes[axis]} and {number} are both named {name!r} or alike; "
                "give each channel its own name, or the triples by number"
            )
        axes[axis] = number
    complete = [(axes["x"], axes["y"], axes["z"]) for axes in groups.values() if len(axes) == 3]
    return tuple(sorted(complete, key=min))


@dataclass(frozen=True)
class Rotate3D(Augmentation):
    """Rotate x-y-z triples by a random angle about a random axis.

    The axis is uniform on the sphere, the angle uniform from −max_angle to max_angle. All triples
    of a sample turn together, as sensors of one device do. Channels outside the triples stay as
    they are.

    Parameters
    ----------
    triples : tuple of (int, int, int)
        Channel numbers of x, y and z; `find_triples` gives them from the names of channels.
    max_angle : float, default=45.0
        Largest angle in degrees, up to 180.

    Examples
    --------
    >>> import numpy as np
    >>> from tensorcontrast.augment import Rotate3D
    >>> turned = Rotate3D(((0, 1, 2),))(np.ones((1, 3, 2)), 0)
    >>> np.linalg.norm(turned, axis=1).round(6)
    array([[1.732051, 1.732051]])
    """

    triples: tuple[tuple[int, int, int], ...]
    max_angle: float = 45.0

    _constraints: ClassVar[dict[str, list[Any]]] = {
        "triples": [tuple],
        "max_angle": [Interval(Real, 0, 180, closed="both")],
    }

    def _check_fields(self) -> None:
        triples = self.triples
        require(
            len(triples) > 0,
            "Rotate3D has no triple of channels; name channels like acc_x, acc_y, acc_z for "
            "find_triples, or give their numbers",
        )
        require(
            all(isinstance(three, tuple) and len(three) == 3 for three in triples)
            and all(isinstance(i, int) and i >= 0 for three in triples for i in three),
            f"Rotate3D triples is {triples!r}; use channel numbers such as ((0, 1, 2), (3, 4, 5))",
        )
        flat = [i for three in triples for i in three]
        require(
            len(set(flat)) == len(flat),
            f"Rotate3D triples {triples!r} use a channel twice; each belongs to one triple",
        )

    def _check(self, n_channels: int, n_times: int) -> None:
        largest = max(max(three) for three in self.triples)
        require(
            largest < n_channels,
            f"Rotate3D turns channel {largest}, X has {n_channels} channels (0 to "
            f"{n_channels - 1}); give the triples of these channels",
        )

    def _apply(self, X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        n, _, t = X.shape
        triples = np.array(self.triples)
        axis = rng.standard_normal((n, 3))
        limit = np.deg2rad(self.max_angle)
        axis *= rng.uniform(-limit, limit, (n, 1)) / np.linalg.norm(axis, axis=1, keepdims=True)
        rotation = Rotation.from_rotvec(axis).as_matrix()[:, None].astype(X.dtype)
        turned = np.matmul(rotation, X[:, triples.ravel()].reshape(n, len(triples), 3, t))
        X[:, triples.ravel()] = turned.reshape(n, -1, t)
        return X
