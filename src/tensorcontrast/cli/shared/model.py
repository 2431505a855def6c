"""Model files as arguments of commands."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tensorcontrast.cli.shared.options import complete_files
from tensorcontrast.errors import InvalidInputError

if TYPE_CHECKING:
    from tensorcontrast.features import ContrastiveFeatures

__all__ = ["Model", "load"]

Model = Annotated[
    Path,
    typer.Argument(
        metavar="MODEL",
        help="Model file written by fit or train.",
        autocompletion=complete_files,
        show_default=False,
    ),
]


def load(path: Path) -> ContrastiveFeatures:
    """Read a model that takes recordings; of a classifier its features."""
    from tensorcontrast.classify import ContrastiveClassifier
    from tensorcontrast.features import ContrastiveFeatures
    from tensorcontrast.io.model_files import load_model

    model = load_model(path.expanduser())
    if isinstance(model, ContrastiveClassifier):
        model = model.extractor_
    if not isinstance(model, ContrastiveFeatures):
        raise InvalidInputError(
            f"{path} holds a {type(model).__name__} of tensors, not a model of recordings; write "
            "one with: tensorcontrast fit DATA -o model.tcm"
        )
    return model


def without_callback(model: ContrastiveFeatures) -> ContrastiveFeatures:
    """Return the fitted model without the function that showed its progress."""
    from tensorcontrast.utils.estimators import changed, changed_fitted

    plain = changed_fitted(model, decompose=changed(model.decompose, callback=None))
    plain.decompose_ = changed_fitted(model.decompose_, callback=None)
    return plain
