"""Augmentations made of others: all in sequence, or one of them at random."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tensorcontrast.augment.base import Augmentation, is_number, register, require


@register
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
    {'type': 'Scale', 'spread': 0.2, 'per': 'sample'}
    """

    steps: tuple[Augmentation, ...] = ()

    def _check_fields(self) -> None:
        _check_members("Compose steps", self.steps)

    def _check(self, n_channels: int, n_times: int) -> None:
        for step in self.steps:
            step._check(n_channels, n_times)

    def _apply(self, X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        for step in self.steps:
            X = step._apply(X, rng)
        return X


@register
@dataclass(frozen=True)
class OneOf(Augmentation):
    """Apply one augmentation to each sample, picked at random, as the code of ATD does.

    Parameters
    ----------
    choices : tuple of augmentations
        Those to pick from.
    probabilities : tuple of float or None, default=None
        How likely each is; None makes them equally likely.

    Examples
    --------
    >>> import numpy as np
    >>> from tensorcontrast.augment import Compose, OneOf, Scale
    >>> either = OneOf((Scale(0.5), Compose()))
    >>> (either(np.ones((6, 1, 1)), 0) == 1).ravel()
    array([ True,  True,  True, False, False, False])
    """

    choices: tuple[Augmentation, ...]
    probabilities: tuple[float, ...] | None = None

    def _check_fields(self) -> None:
        _check_members("OneOf choices", self.choices)
        require(len(self.choices) > 0, "OneOf has no choices; give at least one augmentation")
        if self.probabilities is not None:
            require(
                isinstance(self.probabilities, tuple)
                and len(self.probabilities) == len(self.choices)
                and all(is_number(p, 0, 1) for p in self.probabilities)
                and abs(sum(self.probabilities) - 1) < 1e-6,
                f"OneOf probabilities is {self.probabilities!r}; use {len(self.choices)} numbers "
                "from 0 to 1, one for each choice, that add up to 1",
            )

    def _check(self, n_channels: int, n_times: int) -> None:
        for choice in self.choices:
            choice._check(n_channels, n_times)

    def _apply(self, X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        weights = None
        if self.probabilities is not None:
            weights = np.array(self.probabilities) / sum(self.probabilities)
        pick = rng.choice(len(self.choices), size=len(X), p=weights)
        for number, choice in enumerate(self.choices):
            chosen = np.flatnonzero(pick == number)
            if len(chosen):
                X[chosen] = choice._apply(X[chosen], rng)
        return X


def _check_members(what: str, members: object) -> None:
    require(
        isinstance(members, tuple) and all(isinstance(m, Augmentation) for m in members),
        f"{what} is {members!r}; use a list of augmentations, such as (Jitter(), Scale())",
    )
