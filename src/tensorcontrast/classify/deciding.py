"""What decides: the inputs of a classifier, and how far its answers rest on each kind of them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from tensorcontrast.classify.classifier import ContrastiveClassifier
    from tensorcontrast.recordings import Recordings

__all__ = ["Decision", "agreement_of_parts", "what_decides"]


@dataclass(frozen=True)
class Decision:
    """What a trained classifier decides by.

    Attributes
    ----------
    n_features : int
        Features that the logistic regression sees; 0 where it sees blocks alone.
    n_components : int
        Principal components of the coupled blocks that it sees; 0 where it sees features alone.
    blocks : tuple of str
        The coupled blocks.
    temperature : float
        By which scores are divided, so that probabilities can be taken at their word.
    smooth : bool
        Whether neighbouring windows count.
    abstain : float or None
        Probability below which there is no answer.
    """

    n_features: int
    n_components: int
    blocks: tuple[str, ...]
    temperature: float
    smooth: bool
    abstain: float | None

    def __str__(self) -> str:
        parts = []
        if self.n_features:
            parts.append(f"{self.n_features} features")
        if self.n_components:
            parts.append(f"{self.n_components} principal components of {' and '.join(self.blocks)}")
        return f"logistic regression on {' and '.join(parts)}"

    def to_dict(self) -> dict[str, Any]:
        """Return what decides as plain data."""
        return {"classifier": "logistic regression", **asdict(self)}


def what_decides(model: ContrastiveClassifier) -> Decision:
    """Say what a fitted classifier decides by."""
    n_features = 0 if model.feature_mean_ is None else len(model.feature_mean_)
    n_inputs = int(model.coef_.shape[1])
    return Decision(
        n_features,
        n_inputs - n_features,
        _blocks(model.extractor_) if n_inputs > n_features else (),
        float(model.temperature_),
        model.smooth is not None,
        model.abstain,
    )


def _blocks(features: Any) -> tuple[str, ...]:
    from tensorcontrast.tensorize import ConvolutionFeatures, SpectrogramTensor

    transformers = features.tensorize_
    out = []
    for part in transformers if isinstance(transformers, list | tuple) else [transformers]:
        if isinstance(part, SpectrogramTensor):
            out.append("the spectrogram tensor")
        elif isinstance(part, ConvolutionFeatures):
            out.append("random-convolution features")
        else:
            out.append(type(part).__name__)
    return tuple(out)


def agreement_of_parts(model: ContrastiveClassifier, rec: Recordings) -> dict[str, float]:
    """Share of windows for which one kind of input alone gives the answer of all together.

    Each window counts for itself, without smoothing or abstention.

    Returns
    -------
    dict
        ``features`` and ``blocks``; empty where the classifier sees one kind only.
    """
    decision = what_decides(model)
    if not (decision.n_features and decision.n_components):
        return {}
    rows = model.rows(rec.X)
    n = decision.n_features
    scores: list[NDArray[Any]] = [
        rows[:, part] @ model.coef_[:, part].T + model.intercept_
        for part in (slice(None), slice(None, n), slice(n, None))
    ]
    whole, features, blocks = (s.argmax(axis=1) for s in scores)
    return {
        "features": float(np.mean(features == whole)),
        "blocks": float(np.mean(blocks == whole)),
    }
