"""From a configured method to fitted features: estimators made, fitted and described."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorcontrast import augment
from tensorcontrast.decompose.options import with_options
from tensorcontrast.evaluate import kinds
from tensorcontrast.evaluate.config import BenchConfig, DatasetConfig, MethodConfig
from tensorcontrast.features import ContrastiveFeatures
from tensorcontrast.recordings import Recordings
from tensorcontrast.tensorize.spectrogram import SpectrogramTensor

__all__ = ["Fitted", "build", "fit"]

Array = NDArray[Any]


@dataclass(eq=False)
class Fitted:
    """A fitted method with what is known of its fit; numbers that it does not have are None."""

    estimator: Any
    params: dict[str, Any] = field(default_factory=dict)
    fit_seconds: float = 0.0

    @property
    def model(self) -> Any:
        """The decomposition or network itself, without what makes tensors."""
        return getattr(self.estimator, "decompose_", self.estimator)

    @property
    def classifier(self) -> Any:
        """Unfitted classifier that the authors of the features advise; None: logistic probe."""
        make = getattr(self.model, "make_classifier", None)
        return None if make is None else make()

    def transform(self, X: Array) -> Array:
        """Features of signals."""
        return np.asarray(self.estimator.transform(X))

    @property
    def history(self) -> dict[str, list[float]]:
        """Terms of each iteration."""
        return dict(getattr(self.model, "history_", {}))

    def facts(self) -> dict[str, Any]:
        """Return times, iterations and sizes for a cell."""
        model, seconds = self.model, self.history.get("seconds", [])
        n_parameters = getattr(model, "n_parameters_", None)
        if n_parameters is None and hasattr(model, "factors_"):
            blocks = [U if isinstance(U, list) else [U] for U in model.factors_]
            n_parameters = sum(U.size for block in blocks for U in block)
        error = getattr(model, "reconstruction_error_", None)
        return {
            "fit_seconds": self.fit_seconds,
            "epoch_seconds": float(np.mean(seconds)) if seconds else None,
            "n_epochs": len(seconds) or None,
            "n_parameters": None if n_parameters is None else int(n_parameters),
            "reconstruction_error": None if error is None else float(error),
        }


def build(
    rec: Recordings,
    config: BenchConfig,
    dataset: DatasetConfig,
    method: MethodConfig,
    seed: int,
    params: Mapping[str, Any] | None = None,
) -> Any:
    """Make the estimator of a method; ``params`` stand in for those of the configuration.

    Of the recordings only sampling rate, channels, length and number of classes are used.
    """
    kind = kinds.METHODS[method.name]
    settings: dict[str, Any] = {} if kind.rank is None else {kind.rank: config.rank}
    if method.epochs is not None and kind.epochs is not None:
        settings[kind.epochs] = method.epochs
    settings |= {**method.params, **(params or {})}
    if method.labels_in_graph == "all":
        settings.setdefault("graph", "true")
    found: Any = kinds.find(method.name)
    if kind.takes == "signals":
        return found(**settings, random_state=seed)
    if method.name == "plc-paper":
        settings.setdefault("n_clusters", rec.n_classes)
    # Parameters that are given are those of the class, beta and gamma as sums over windows.
    paper = method.name.endswith("-paper")
    decompose = with_options(found.paper() if paper else found(), **settings)
    return ContrastiveFeatures(
        fs=rec.fs,
        channels=rec.channels,
        tensorize=_tensorize(rec, dataset, config.tensorize_of(dataset, method)),
        augment=_augment(rec, dataset, config.augment_of(dataset, method)),
        decompose=decompose,
        fresh_views=method.name in ("simclr", "byol"),  # as their authors draw them
        random_state=seed,
    )


def _tensorize(rec: Recordings, dataset: DatasetConfig, chosen: str | dict[str, Any]) -> Any:
    if isinstance(chosen, dict):
        return SpectrogramTensor(**{"fs": rec.fs, **chosen})
    return SpectrogramTensor.paper(dataset.name, fs=rec.fs) if chosen == "paper" else None


def _augment(rec: Recordings, dataset: DatasetConfig, chosen: str) -> Any:
    if chosen == "none":
        return augment.Compose(())
    if chosen == "paper":
        channels = rec.channels if dataset.name == "har" else None
        return augment.paper(dataset.name, fs=rec.fs, channels=channels)
    return None


def fit(estimator: Any, X: Array, y: Any = None, params: Mapping[str, Any] | None = None) -> Fitted:
    """Fit on signals, and on labels where they go into the graph; Ctrl-C is passed on.

    Estimators end early and keep what they have when they are interrupted. A benchmark must not
    take such a fit for a whole one.
    """
    begin = time.perf_counter()
    estimator.fit(X) if y is None else estimator.fit(X, y)
    fitted = Fitted(estimator, dict(params or {}), time.perf_counter() - begin)
    if getattr(fitted.model, "interrupted_", False):
        raise KeyboardInterrupt
    return fitted
