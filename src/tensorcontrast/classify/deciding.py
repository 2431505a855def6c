"""What decides: the inputs of a classifier, and how far its answers rest on each kind of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tensorcontrast.tensorize.blocks import block_names

if TYPE_CHECKING:
    from tensorcontrast.classify.classifier import ContrastiveClassifier
    from tensorcontrast.recordings import Recordings

__all__ = ["agreement_of_parts", "what_decides"]


def what_decides(model: ContrastiveClassifier) -> dict[str, Any]:
    """Say what a fitted classifier decides by.

    Returns
    -------
    dict
        ``n_features`` and ``n_components``: inputs of the logistic regression that are features,
        and principal components of the coupled ``blocks``; ``temperature``; ``smooth``: whether
        neighbouring windows count; ``abstain``; and ``classifier``, all of it in words.
    """
    n_features = 0 if model.feature_mean_ is None else len(model.feature_mean_)
    n_components = int(model.coef_.shape[1]) - n_features
    blocks = block_names(model.extractor_.signal_blocks.transformers) if n_components else []
    parts = [f"{n_features} features"] if n_features else []
    if n_components:
        parts.append(f"{n_components} principal components of {' and '.join(blocks)}")
    return {
        "classifier": f"logistic regression on {' and '.join(parts)}",
        "n_features": n_features,
        "n_components": n_components,
        "blocks": blocks,
        "temperature": float(model.temperature_),
        "smooth": model.smooth is not None,
        "abstain": model.abstain,
    }


def agreement_of_parts(model: ContrastiveClassifier, rec: Recordings) -> dict[str, float]:
    """Share of windows for which one kind of input alone gives the answer of all together.

    Each window counts for itself, without smoothing or abstention.

    Returns
    -------
    dict
        ``features`` and ``blocks``; empty where the classifier sees one kind only.
    """
    n = 0 if model.feature_mean_ is None else len(model.feature_mean_)
    if n in (0, model.coef_.shape[1]):
        return {}
    rows = model.rows(rec.X)
    whole, features, blocks = (
        (rows[:, part] @ model.coef_[:, part].T + model.intercept_).argmax(axis=1)
        for part in (slice(None), slice(None, n), slice(n, None))
    )
    return {
        "features": float(np.mean(features == whole)),
        "blocks": float(np.mean(blocks == whole)),
    }
