"""Learned attributes of an estimator: assigned at the end of a fit, all of them or none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def learned(model: Any) -> dict[str, Any]:
    """Return what ``fit`` has learned: names that end in "_", and those of ``_learned_private``."""
    private = getattr(type(model), "_learned_private", ())
    return {
        name: value
        for name, value in vars(model).items()
        if name in private or (name.endswith("_") and not name.startswith("_"))
    }


def assign(model: Any, attributes: Mapping[str, Any]) -> None:
    """Put ``attributes`` in the place of everything that was learned before, in one step."""
    before = learned(model)
    other = {name: value for name, value in vars(model).items() if name not in before}
    model.__dict__ = {**other, **attributes}
