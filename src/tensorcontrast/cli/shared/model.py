"""Model files as arguments of commands."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tensorcontrast.cli.shared.options import complete_files
from tensorcontrast.errors import InvalidInputError

if TYPE_CHECKING:
    from tensorcontrast.classify import ContrastiveClassifier
    from tensorcontrast.features import ContrastiveFeatures

__all__ = ["Model", "features_of", "load", "load_whole"]

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
    return features_of(load_whole(path))


def features_of(model: ContrastiveFeatures | ContrastiveClassifier) -> ContrastiveFeatures:
    """Return features as they are, and those of a classifier."""
    from tensorcontrast.features import ContrastiveFeatures

    found = model if isinstance(model, ContrastiveFeatures) else model.extractor_
    assert isinstance(found, ContrastiveFeatures)
    return found


def load_whole(path: Path) -> ContrastiveFeatures | ContrastiveClassifier:
    """Read a model that takes recordings: features or a classifier."""
    from tensorcontrast.classify import ContrastiveClassifier
    from tensorcontrast.features import ContrastiveFeatures
    from tensorcontrast.io.model_files import load_model

    model = load_model(path.expanduser())
    if not isinstance(getattr(model, "extractor_", model), ContrastiveFeatures) or not isinstance(
        model, ContrastiveFeatures | ContrastiveClassifier
    ):
        raise InvalidInputError(
            f"{path} holds a {type(model).__name__} of tensors, not a model of recordings; write "
            "one with: tensorcontrast fit DATA -o model.tcm"
        )
    return model


def without_callback(model: ContrastiveFeatures) -> ContrastiveFeatures:
    """Return the fitted model without the function that showed its progress."""
    from tensorcontrast.utils.estimators import changed, changed_fitted, with_learned

    plain = changed_fitted(model, decompose=changed(model.decompose, callback=None))
    return with_learned(plain, decompose_=changed_fitted(model.decompose_, callback=None))
