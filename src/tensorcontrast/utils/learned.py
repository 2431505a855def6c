"""Learned attributes of an estimator: assigned at the end of a fit, all of them or none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from typing import Any, TypeVar

Model = TypeVar("Model")


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


@contextmanager
def learning(model: Model, *, continued: bool = False) -> Iterator[Model]:
    """Give a copy of the model to fit; what the copy has learned becomes the model's at the end.

    The model is unchanged while the block runs, and after an error or Ctrl-C. The copy begins
    without learned attributes, so that none of an earlier fit remain, unless the fit is
    ``continued`` (``partial_fit``).
    """
    work = copy(model)
    if not continued:
        assign(work, {})
    yield work
    assign(model, learned(work))
