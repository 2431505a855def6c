"""What a sceptical user would pick instead, behind the interface of the decompositions.

Each says by ``takes`` whether it wants raw signals or tensors. Where its authors advise a
classifier, ``make_classifier`` gives it; the others are judged by :func:`linear_probe`. Nothing
here looks at labels or views while it is fitted.
"""

from __future__ import annotations

import importlib
import warnings
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from tensorcontrast.cp import kernels
from tensorcontrast.cp.encoder import Encoder
from tensorcontrast.errors import InvalidInputError, MissingDependencyError, TensorContrastWarning
from tensorcontrast.evaluate import protocol
from tensorcontrast.recordings import Recordings
from tensorcontrast.utils import checks, labels

__all__ = [
    "Catch22Features",
    "FlatPCA",
    "FlatTensor",
    "MiniRocketFeatures",
    "MiniRocketPCA",
    "MultiRocketHydraFeatures",
    "QuantFeatures",
    "RandomEncoder",
    "SparseScaler",
    "ridge_classifier",
    "ridge_probe",
]

Array = NDArray[Any]

#: Kernels of MiniRocket have this length, and so must signals at least.
MINIROCKET_LENGTH = 9
#: Kernels of MiniRocket come in multiples of this.
MINIROCKET_KERNELS = 84


class _Peer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Base of the peers: ``fit`` checks, ``_learn`` and ``_apply`` of the subclass do the work."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {}
    takes: ClassVar[str] = "tensors"
    #: Coupled blocks are laid side by side: all entries count by themselves.
    takes_blocks: ClassVar[bool] = True
    #: No augmented views are looked at.
    _needs_view: ClassVar[bool] = False
    #: For the checks of tensors: float32 and float64 stay what they are.
    dtype: ClassVar[str | None] = None
    center_: Array

    def fit(self, X: Any, y: ArrayLike | None = None, view: Any = None) -> Self:
        """Learn from X; ``y`` and ``view`` take no part.

        Parameters
        ----------
        X : array-like (n, I_1, …, I_K)
            Tensors, or signals [n, channel, time], as ``takes`` says.
        y, view : not used
        """
        checks.check_parameters(self)
        before = dict(vars(self))
        try:
            self.block_dims_ = _block_dims(X)
            X = checks.check_tensor(self, _joined(X), reset=True, min_samples=2)
            labels.none_used(type(self).__name__, y, len(X))
            self.dims_ = X.shape[1:]
            self._learn(X)
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise
        return self

    def fit_transform(self, X: Any, y: ArrayLike | None = None, view: Any = None) -> Array:
        """Fit, then :meth:`transform` the same X."""
        return self.fit(X, y).transform(X)

    def transform(self, X: Any) -> Array:
        """Features (n, n_features) of windows of the shape that was fitted."""
        check_is_fitted(self)
        return self._apply(checks.check_tensor(self, _joined(X), reset=False))

    def _learn(self, X: Array) -> None:
        raise NotImplementedError

    def _apply(self, X: Array) -> Array:
        raise NotImplementedError

    @property
    def _n_features_out(self) -> int:
        return int(self.rank_)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "rank_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _block_dims(X: Any) -> tuple[tuple[int, ...], ...] | None:
    """Shapes of a window in coupled blocks; None for one tensor."""
    arrays = isinstance(X, list) and all(isinstance(block, np.ndarray) for block in X)
    shapes = [block.shape[1:] for block in X] if arrays else []
    return tuple(shapes) if len(set(shapes)) > 1 else None


def _joined(X: Any) -> Any:
    """Signals of recordings, coupled blocks side by side, anything else as it is."""
    if _block_dims(X) is not None:
        return np.concatenate([block.reshape(len(block), -1) for block in X], axis=1)
    return X.X if isinstance(X, Recordings) else X


def from_aeon(who: str, module: str, name: str) -> Any:
    """Import a transform of collections of series, or say what ``who`` needs."""
    try:
        found = importlib.import_module(f"aeon.transformations.collection.{module}")
    except ImportError as error:
        raise MissingDependencyError(
            f"{who} needs aeon; install it with pip install 'tensorcontrast[bench]' ({error})"
        ) from error
    return getattr(found, name)


class FlatPCA(_Peer):
    """PCA of flattened tensors: scikit-learn's, by its randomised solver.

    Parameters
    ----------
    n_features : int, default=32
        Where the data allows fewer, fewer are used.
    random_state : int, RandomState or None
        Of the solver.

    Attributes
    ----------
    components_ : (rank_, ∏I_k) array
        Directions of largest variance.
    center_ : array (I_1, …, I_K)
    reconstruction_error_ : float
        ‖X − X̂‖/‖X‖ of the centred data.
    n_parameters_ : int
        Numbers in the model, without the mean.
    rank_ : int
        Number of features.

    Examples
    --------
    >>> from tensorcontrast.datasets import make_cp_tensor
    >>> from tensorcontrast.evaluate.peers import FlatPCA
    >>> X, *_ = make_cp_tensor(n_samples=50, dims=(4, 6, 5), rank=3, random_state=0)
    >>> FlatPCA(n_features=3, random_state=0).fit_transform(X).shape
    (50, 3)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_features": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        n_features: int = 32,
        *,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_features = n_features
        self.random_state = random_state

    def _learn(self, X: Array) -> None:
        from sklearn.decomposition import PCA

        flat = X.reshape(len(X), -1)
        # Centred windows have one direction less than windows; the last would be rounding alone.
        self.rank_ = max(1, min(self.n_features, len(flat) - 1, flat.shape[1]))
        if self.rank_ < self.n_features:
            warnings.warn(
                f"FlatPCA: {self.n_features} features cannot be had of {len(X)} windows with "
                f"{flat.shape[1]} values; {self.rank_} are used",
                TensorContrastWarning,
                stacklevel=3,
            )
        seed = int(checks.generator(self.random_state).integers(2**31 - 1))
        model = PCA(self.rank_, svd_solver="randomized", random_state=seed)
        features = model.fit_transform(flat)
        self.components_ = np.asarray(model.components_, dtype=X.dtype)
        self.center_ = np.asarray(model.mean_, dtype=X.dtype).reshape(self.dims_)
        total = float(np.var(flat, axis=0, dtype=np.float64).sum()) * len(X)
        kept = float(np.square(features, dtype=np.float64).sum())
        self.reconstruction_error_ = float(np.sqrt(max(1.0 - kept / total, 0.0))) if total else 0.0
        self.n_parameters_ = int(self.components_.size)

    def _apply(self, X: Array) -> Array:
        return (X - self.center_).reshape(len(X), -1) @ self.components_.T


class FlatTensor(_Peer):
    """The tensors themselves, flattened, every entry standardised: no features are learned.

    Attributes
    ----------
    center_, scale_ : arrays (I_1, …, I_K)
        Mean and standard deviation of each entry; 1 where an entry is constant.
    rank_ : int
        Number of entries.

    Examples
    --------
    >>> import numpy as np
    >>> from tensorcontrast.evaluate.peers import FlatTensor
    >>> FlatTensor().fit_transform(np.random.default_rng(0).normal(size=(9, 2, 3))).shape
    (9, 6)
    """

    def _learn(self, X: Array) -> None:
        exact = X.mean(axis=0, dtype=np.float64)
        spread = X.std(axis=0, dtype=np.float64)
        # What is left of a constant entry is rounding, not signal.
        spread[spread <= 8 * np.finfo(X.dtype).eps * np.abs(exact)] = 1.0
        self.center_, self.scale_ = exact.astype(X.dtype), spread.astype(X.dtype)
        self.rank_ = int(exact.size)
        self.n_parameters_ = 0

    def _apply(self, X: Array) -> Array:
        flat: Array = ((X - self.center_) / self.scale_).reshape(len(X), -1)
        return flat


class RandomEncoder(_Peer):
    """Features of tensors by random factors: the floor of what learning has to beat.

    Factors are normal numbers; features are those of a CP model with these factors, of data less
    their mean. Equation E12.

    Parameters
    ----------
    rank : int, default=32
        Number of features.
    alpha : float, default=1e-2
        Ridge of E12, relative to the mean of the diagonal of HᵀH.
    random_state : int, RandomState or None
        Of the factors.

    Attributes
    ----------
    factors_ : list of lists of (I_k, rank) arrays
        One list per coupled block.
    center_ : array (I_1, …, I_K)
    rank_ : int
        Number of features.

    Examples
    --------
    >>> from tensorcontrast.datasets import make_cp_tensor
    >>> from tensorcontrast.evaluate.peers import RandomEncoder
    >>> X, *_ = make_cp_tensor(n_samples=50, dims=(4, 6, 5), rank=3, random_state=0)
    >>> RandomEncoder(rank=3, random_state=0).fit_transform(X).shape
    (50, 3)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "rank": [Interval(Integral, 1, None, closed="left")],
        "alpha": [Interval(Real, 0, None, closed="left")],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        rank: int = 32,
        *,
        alpha: float = 1e-2,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.rank = rank
        self.alpha = alpha
        self.random_state = random_state

    def _learn(self, X: Array) -> None:
        rng = checks.generator(self.random_state)
        self.factors_ = [
            [rng.standard_normal((size, self.rank)).astype(X.dtype) for size in dims]
            for dims in self.block_dims_ or (self.dims_,)
        ]
        self.center_ = X.mean(axis=0, dtype=np.float64).astype(X.dtype)
        self.rank_ = self.rank
        self.n_parameters_ = sum(U.size for block in self.factors_ for U in block)

    def _apply(self, X: Array) -> Array:
        factors = kernels.CoupledFactors(self.factors_)
        H, gram = kernels.khatri_rao(factors), kernels.gram(factors)
        encoder = Encoder.from_gram(gram, self.alpha * float(np.mean(np.diag(gram))), X.dtype)
        return encoder((X - self.center_).reshape(len(X), -1) @ H)


class MiniRocketFeatures(_Peer):
    """MiniRocket of raw signals: about ten thousand convolutional features (aeon's).

    Their classifier is a ridge with the penalty chosen on the training windows, see
    :func:`ridge_probe`. Kernels are fixed and biases are quantiles of some of the fitted signals,
    so that fitting takes no labels. Needs the extra ``bench``.

    Parameters
    ----------
    n_kernels : int, default=10000
        Number of features, rounded down to a multiple of 84.
    n_jobs : int, default=1
        Threads of ``transform``.
    random_state : int, RandomState or None
        Which signals the biases are taken from, and which channels a kernel sees.

    Attributes
    ----------
    model_ : aeon's MiniRocket
    rank_ : int
        Number of features.

    References
    ----------
    Dempster, Schmidt, Webb: MiniRocket: a very fast (almost) deterministic transform for time
    series classification. KDD 2021.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_kernels": [Interval(Integral, MINIROCKET_KERNELS, None, closed="left")],
        "n_jobs": [Integral],
        "random_state": ["random_state"],
    }
    takes: ClassVar[str] = "signals"
    dtype: ClassVar[str | None] = "float32"

    def __init__(
        self,
        n_kernels: int = 10000,
        *,
        n_jobs: int = 1,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_kernels = n_kernels
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _learn(self, X: Array) -> None:
        if X.ndim != 3:
            raise InvalidInputError(
                f"MiniRocketFeatures: X has shape {X.shape}; raw signals [n, channel, time] are "
                "needed, not tensors"
            )
        if X.shape[2] < MINIROCKET_LENGTH:
            raise InvalidInputError(
                f"MiniRocketFeatures: signals have {X.shape[2]} time points; at least "
                f"{MINIROCKET_LENGTH} are needed"
            )
        seed = int(checks.generator(self.random_state).integers(2**31 - 1))
        self.model_ = from_aeon("MiniRocketFeatures", "convolution_based", "MiniRocket")(
            n_kernels=self.n_kernels, n_jobs=self.n_jobs, random_state=seed
        ).fit(X)
        self.center_ = np.zeros(self.dims_, dtype=X.dtype)
        self.rank_ = int(np.asarray(self.model_.transform(X[:2])).shape[1])
        self.n_parameters_ = self.rank_  # one bias a feature

    def _apply(self, X: Array) -> Array:
        return np.asarray(self.model_.transform(X), dtype=np.float32)

    def make_classifier(self) -> Any:
        """Return an unfitted ridge classifier; see :func:`ridge_classifier`."""
        return ridge_classifier()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.transformer_tags.preserves_dtype = ["float32"]
        return tags


def ridge_classifier() -> Any:
    """Return the unfitted classifier of MiniRocket's authors.

    Features are scaled on train; the penalty is chosen by leave-one-out on train among ten values
    from 1e-3 to 1e3. Ridge centres by itself.
    """
    from sklearn.linear_model import RidgeClassifierCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    ridge = RidgeClassifierCV(alphas=np.logspace(-3, 3, 10))
    return make_pipeline(StandardScaler(with_mean=False), ridge)


def ridge_probe(
    features_train: ArrayLike,
    y_train: ArrayLike,
    features_test: ArrayLike,
    y_test: ArrayLike,
) -> protocol.ProbeResult:
    """Judge features by ridge regression on the classes, as MiniRocket's authors do.

    Arguments and result are those of :func:`linear_probe`.
    """
    return protocol.linear_probe(
        features_train,
        y_train,
        features_test,
        y_test,
        classifier=ridge_classifier(),
        standardise=False,
    )


# ---------------------------------------- strong classifiers of archives, from aeon

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
