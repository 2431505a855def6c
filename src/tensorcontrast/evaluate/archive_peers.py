"""Classifiers of time series that are strong on archives, from aeon, behind one interface.

Each turns raw signals into features without labels, and ``make_classifier`` gives the classifier
that its authors train on them. PyTorch is needed for MultiRocket-Hydra and QUANT.
"""

from __future__ import annotations

from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils._param_validation import Interval

from tensorcontrast.errors import InvalidInputError
from tensorcontrast.evaluate.peers import MiniRocketFeatures, _Peer, from_aeon
from tensorcontrast.utils import checks

__all__ = [
    "Catch22Features",
    "MiniRocketPCA",
    "MultiRocketHydraFeatures",
    "QuantFeatures",
    "SparseScaler",
]

Array = NDArray[Any]

#: Windows at most that the principal directions of MiniRocket features are found on.
MAX_PCA_WINDOWS = 8000

#: Trees of the forests that QUANT and Catch22 feed, as in aeon.
N_TREES = 200

#: Windows at least of a window that MultiRocket takes: its kernels, on first differences too.
MULTIROCKET_LENGTH = 10

#: Windows that are transformed at a time.
BATCH = 1024


class _SignalPeer(_Peer):
    """Base of peers that take raw signals [n, channel, time] in float32."""

    takes: ClassVar[str] = "signals"
    dtype: ClassVar[str | None] = "float32"
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {"random_state": ["random_state"]}
    #: Windows at least of a window.
    min_length: ClassVar[int] = 1

    def __init__(self, *, random_state: int | np.random.RandomState | None = None) -> None:
        self.random_state = random_state

    def _learn(self, X: Array) -> None:
        who = type(self).__name__
        if X.ndim != 3:
            raise InvalidInputError(
                f"{who}: X has shape {X.shape}; raw signals [n, channel, time] are needed"
            )
        if X.shape[2] < self.min_length:
            raise InvalidInputError(
                f"{who}: windows have {X.shape[2]} windows; at least {self.min_length} are needed"
            )
        self.seed_ = int(checks.generator(self.random_state).integers(2**31 - 1))
        self._prepare(X)
        self.center_ = np.zeros(self.dims_, dtype=X.dtype)
        self.rank_ = int(self._features(X[:2]).shape[1])
        self.n_parameters_ = 0

    def _apply(self, X: Array) -> Array:
        parts = [self._features(X[at : at + BATCH]) for at in range(0, len(X), BATCH)]
        return np.concatenate(parts).astype(np.float32, copy=False)

    def _prepare(self, X: Array) -> None:
        raise NotImplementedError

    def _features(self, X: Array) -> Array:
        raise NotImplementedError

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.transformer_tags.preserves_dtype = ["float32"]
        return tags


class MiniRocketPCA(_Peer):
    """Principal components of standardised MiniRocket features: few features, no labels.

    Parameters
    ----------
    n_features : int, default=32
        Where the data allow fewer, fewer are used.
    n_kernels : int, default=10000
        Number of MiniRocket features before.
    random_state : int, RandomState or None
        Of MiniRocket and of the solver.

    Attributes
    ----------
    rank_ : int
        Number of features.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_features": [Interval(Integral, 1, None, closed="left")],
        "n_kernels": MiniRocketFeatures._parameter_constraints["n_kernels"],
        "random_state": ["random_state"],
    }
    takes: ClassVar[str] = "signals"
    dtype: ClassVar[str | None] = "float32"

    def __init__(
        self,
        n_features: int = 32,
        *,
        n_kernels: int = 10000,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_features = n_features
        self.n_kernels = n_kernels
        self.random_state = random_state

    def _learn(self, X: Array) -> None:
        from sklearn.decomposition import PCA
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        rng = checks.generator(self.random_state)
        seed = int(rng.integers(2**31 - 1))
        self.rocket_ = MiniRocketFeatures(self.n_kernels, random_state=seed).fit(X)
        chosen = np.sort(rng.permutation(len(X))[:MAX_PCA_WINDOWS])
        features = self.rocket_.transform(X[chosen])
        self.rank_ = min(self.n_features, *features.shape)
        pca = PCA(self.rank_, svd_solver="randomized", random_state=seed)
        self.pca_ = make_pipeline(StandardScaler(), pca).fit(features)
        self.center_ = np.zeros(self.dims_, dtype=X.dtype)
        self.n_parameters_ = int(pca.components_.size)

    def _apply(self, X: Array) -> Array:
        parts = [
            self.pca_.transform(self.rocket_.transform(X[at : at + BATCH]))
            for at in range(0, len(X), BATCH)
        ]
        return np.concatenate(parts)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.transformer_tags.preserves_dtype = ["float32"]
        return tags


class MultiRocketHydraFeatures(_SignalPeer):
    """Hydra's and MultiRocket's features side by side, for a ridge classifier.

    Parameters
    ----------
    random_state : int, RandomState or None
        Of both transforms.

    Attributes
    ----------
    n_hydra_ : int
        How many of the features, the first ones, are Hydra's.
    rank_ : int
        Number of features.

    References
    ----------
    Dempster, Schmidt, Webb: Hydra: competing convolutional kernels for fast and accurate time
    series classification. Data Mining and Knowledge Discovery, 2023.
    Tan, Dempster, Bergmeir, Webb: MultiRocket: multiple pooling operators and transformations for
    fast and effective time series classification. Data Mining and Knowledge Discovery, 2022.
    """

    min_length: ClassVar[int] = MULTIROCKET_LENGTH

    def _prepare(self, X: Array) -> None:
        who = type(self).__name__
        make = [from_aeon(who, "convolution_based", n) for n in ("HydraTransformer", "MultiRocket")]
        self.models_ = [model(random_state=self.seed_).fit(X) for model in make]
        self.n_hydra_ = int(np.asarray(self.models_[0].transform(X[:2])).shape[1])

    def _features(self, X: Array) -> Array:
        found = [np.asarray(model.transform(X), dtype=np.float32) for model in self.models_]
        return np.concatenate(found, axis=1)

    def make_classifier(self) -> Any:
        """Return an unfitted ridge classifier of features scaled as the authors scale them."""
        from sklearn.compose import ColumnTransformer
        from sklearn.linear_model import RidgeClassifierCV
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        scale = ColumnTransformer(
            [
                ("hydra", SparseScaler(), slice(0, self.n_hydra_)),
                ("multirocket", StandardScaler(), slice(self.n_hydra_, None)),
            ]
        )
        return make_pipeline(scale, RidgeClassifierCV(alphas=np.logspace(-3, 3, 10)))


class SparseScaler(TransformerMixin, BaseEstimator):
    """Standardised square roots of counts, where zeros stay zero and rare counts stay small.

    The scale of a column is its standard deviation plus the fourth power of its share of zeros,
    as for Hydra's features.
    """

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Learn mean and scale of each column."""
        roots = _roots(X)
        self.mean_ = roots.mean(axis=0)
        spread = roots.std(axis=0, ddof=1) if len(roots) > 1 else np.zeros(roots.shape[1])
        self.scale_ = spread + (roots == 0).mean(axis=0) ** 4 + 1e-8
        return self

    def transform(self, X: ArrayLike) -> Array:
        """Return the scaled columns."""
        roots = _roots(X)
        return np.where(roots != 0, (roots - self.mean_) / self.scale_, 0.0)


def _roots(X: ArrayLike) -> NDArray[np.float64]:
    return np.sqrt(np.maximum(np.asarray(X, dtype=np.float64), 0.0))


class QuantFeatures(_SignalPeer):
    """Quantiles over intervals of windows, for extremely randomised trees.

    Parameters
    ----------
    random_state : int, RandomState or None
        Of the trees.

    Attributes
    ----------
    rank_ : int
        Number of features.

    References
    ----------
    Dempster, Schmidt, Webb: QUANT: a minimalist interval method for time series classification.
    Data Mining and Knowledge Discovery, 2024.
    """

    def _prepare(self, X: Array) -> None:
        make = from_aeon(type(self).__name__, "interval_based", "QUANTTransformer")
        self.model_ = make().fit(X)

    def _features(self, X: Array) -> Array:
        return np.asarray(self.model_.transform(X), dtype=np.float32)

    def make_classifier(self) -> Any:
        """Return unfitted extremely randomised trees."""
        from sklearn.ensemble import ExtraTreesClassifier

        return ExtraTreesClassifier(
            N_TREES, max_features=0.1, criterion="entropy", random_state=self.seed_
        )


class Catch22Features(_SignalPeer):
    """The 22 canonical characteristics of each channel with mean and spread, for a random forest.

    Parameters
    ----------
    random_state : int, RandomState or None
        Of the forest.

    Attributes
    ----------
    rank_ : int
        Number of features.

    References
    ----------
    Lubba et al.: catch22: CAnonical Time-series CHaracteristics. Data Mining and Knowledge
    Discovery, 2019.
    """

    def _prepare(self, X: Array) -> None:
        make = from_aeon(type(self).__name__, "feature_based", "Catch22")
        self.model_ = make(catch24=True, outlier_norm=True, replace_nans=True)
        self.model_.fit(X.astype(np.float64))

    def _features(self, X: Array) -> Array:
        # Compiled for double precision alone.
        found = np.asarray(self.model_.transform(X.astype(np.float64)), dtype=np.float64)
        limit = float(np.finfo(np.float32).max) / 4  # forests work in single precision
        return np.clip(np.nan_to_num(found, nan=0.0, posinf=limit, neginf=-limit), -limit, limit)

    def make_classifier(self) -> Any:
        """Return an unfitted random forest."""
        from sklearn.ensemble import RandomForestClassifier

        return RandomForestClassifier(N_TREES, random_state=self.seed_)
