"""What DeepTensor, SimCLR and BYOL share: parameters, checks, scaling, how a fit ends, files."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from tensorcontrast.errors import InvalidInputError, TensorContrastWarning
from tensorcontrast.io.model_files import SavedMixin
from tensorcontrast.neural import training
from tensorcontrast.solvers.convergence import History, Monitor
from tensorcontrast.utils import checks, labels
from tensorcontrast.utils.estimators import assign_learned
from tensorcontrast.utils.optional import optional

Array = NDArray[Any]
ViewLike = ArrayLike | Callable[[np.random.Generator], ArrayLike] | None
Augment = Callable[[Array, np.random.Generator], Array]

#: Windows that go through the network at a time in ``transform``.
CHUNK_SAMPLES = 512


@dataclass(frozen=True)
class Training:
    """What a subclass trains: the module, one epoch of it, and how many numbers change."""

    module: Any
    epoch: Callable[[], float]
    n_parameters: int
    #: Learned attributes that are known before the training.
    learned: dict[str, Any]
    #: Gives the learned attributes of the trained module.
    finish: Callable[[], dict[str, Any]]
    #: A loss above this is that of a training that has not yet begun to learn.
    begun_below: float = float("inf")


class NeuralEstimator(SavedMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Base of the neural estimators. Subclasses store parameters and say what is trained."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "batch_size": [Interval(Integral, 2, None, closed="left")],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "patience": [Interval(Integral, 1, None, closed="left")],
        "device": [str],
        "random_state": ["random_state"],
        "callback": [callable, None],
        "verbose": ["verbose"],
    }
    #: What ``fit`` and ``transform`` want.
    takes: ClassVar[str] = "tensors"
    #: Networks compute in single precision.
    dtype: ClassVar[str] = "float32"

    center_: Array
    scale_: float
    dims_: tuple[int, ...]
    rank_: int
    history_: History
    n_parameters_: int

    # ---------------------------------------------------------------- what subclasses define

    def _prepare(
        self, torch: Any, device: Any, X: Array, view: ViewLike, rng: np.random.Generator
    ) -> Training:
        """Learn the scaling, make the networks and say what an epoch is."""
        raise NotImplementedError

    # ---------------------------------------------------------------- fitting

    def fit(self, X: ArrayLike, y: ArrayLike | None = None, view: ViewLike = None) -> Self:
        """Train on X (n, I_1, …, I_K).

        Parameters
        ----------
        X : array-like (n, I_1, …, I_K)
            One tensor per window.
        y : not used; a warning says so, unless scikit-learn passes it on
            Labels take no part; their number is checked.
        view : array-like of the shape of X, or callable, optional
            The augmented view. A callable is given a ``numpy.random.Generator`` and returns a
            view, drawn anew each epoch. ``DeepTensor`` compares no views and does not use it.

        Returns
        -------
        self

        Notes
        -----
        Ctrl-C drops the running epoch: the estimator is usable, ``interrupted_`` is true, and the
        KeyboardInterrupt goes on to the caller. In the first epoch nothing is learned: the
        estimator stays as it was. A loss that is no longer a number ends the fit
        with the weights of the epoch before and a warning.
        """
        checks.check_parameters(self)
        name = type(self).__name__
        torch = optional("torch", "neural")
        device = training.find_device(name, self.device)
        try:
            outcome, count, attributes = self._learn(torch, device, X, y, view)
            assign_learned(self, attributes)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(
                f"{name}.fit was interrupted before its first epoch was done; nothing was learned, "
                "the estimator is as it was before fit"
            ) from None
        if count < self.batch_size:
            warnings.warn(
                f"{name}: batch_size={self.batch_size} but there are {count} windows; all of them "
                f"are one batch (pass batch_size={count} or less to say so)",
                TensorContrastWarning,
                stacklevel=2,
            )
        if outcome.failed:
            warnings.warn(
                f"{name}: the loss became {outcome.failed} in epoch {self.n_iter_ + 1}; the fit "
                f"stopped with the weights of epoch {self.n_iter_}, the last good ones; pass a "
                "smaller learning_rate to train on",
                TensorContrastWarning,
                stacklevel=2,
            )
        if outcome.interrupted:
            raise KeyboardInterrupt(
                f"{name}.fit was interrupted after {self.n_iter_} epochs; the estimator has their "
                "result and can be used"
            )
        return self

    def _learn(
        self, torch: Any, device: Any, X: ArrayLike, y: ArrayLike | None, view: ViewLike
    ) -> tuple[training.Outcome, int, dict[str, Any]]:
        """Train; return how it went, the number of windows and the learned attributes."""
        checked = checks.check_training_tensor(self, X, min_samples=2)
        X, names = checked.X, checked.feature_names_in
        labels.none_used(type(self).__name__, y, len(X))
        rng = checks.generator(self.random_state)
        with training.seeded(torch, int(rng.integers(2**62))):
            work = self._prepare(torch, device, X, view, rng)
            monitor = Monitor(
                type(self).__name__,
                max_iter=self.max_iter,
                tol=0.0,
                callback=self.callback,
                verbose=bool(self.verbose),
            )
            with monitor:
                outcome = training.train(
                    work.epoch,
                    work.module,
                    monitor,
                    tol=self.tol,
                    patience=self.patience,
                    terms={"n_parameters": float(work.n_parameters)},
                    begun_below=work.begun_below,
                )
            trained = work.finish()
        attributes = {
            "n_features_in_": checked.n_features_in,
            **({} if names is None else {"feature_names_in_": names}),
            "dims_": X.shape[1:],
            **work.learned,
            **trained,
            "n_parameters_": work.n_parameters,
            "history_": outcome.history,
            "n_iter_": monitor.n_iter,
            "converged_": outcome.converged,
            "interrupted_": outcome.interrupted,
        }
        return outcome, len(X), attributes

    def fit_transform(
        self, X: ArrayLike, y: ArrayLike | None = None, view: ViewLike = None
    ) -> Array:
        """Fit, then :meth:`transform` the same X."""
        return self.fit(X, y, view=view).transform(X)

    def transform(self, X: ArrayLike) -> Array:
        """Features (n, rank_) of new windows."""
        raise NotImplementedError

    # ---------------------------------------------------------------- files and scikit-learn

    @property
    def _n_features_out(self) -> int:
        return int(self.rank_)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "history_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.transformer_tags.preserves_dtype = ["float32"]
        return tags


class ContrastiveEncoder(NeuralEstimator):
    """Base of SimCLR and BYOL: an encoder trained on two views of each window."""

    #: Views are drawn anew in each epoch, as their authors draw them.
    fresh_views: ClassVar[bool] = True

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **NeuralEstimator._parameter_constraints,
        "n_features": [Interval(Integral, 1, None, closed="left")],
        "projection": [Interval(Integral, 1, None, closed="left")],
        "augment": [callable, None],
    }
    weights_: dict[str, Array]

    def _networks(self, encoder: Any) -> Any:
        """Return a module with the encoder and all that is trained around it."""
        raise NotImplementedError

    def _trained_encoder(self, networks: Any) -> Any:
        """Return the encoder in what ``_networks`` made."""
        return networks["encoder"]

    def _loss(self, networks: Any, a: Any, b: Any) -> Any:
        """Loss of a batch of both views."""
        raise NotImplementedError

    def _after_step(self, networks: Any, progress: float) -> None:
        """Do what follows a step of the optimiser; ``progress`` goes from 0 to 1."""

    def _prepare(
        self, torch: Any, device: Any, X: Array, view: ViewLike, rng: np.random.Generator
    ) -> Training:
        from tensorcontrast.neural.networks import ResidualEncoder

        center, size = learn_scaling(X)
        # Entries, not windows, get a mean square of 1: the range that networks are made for.
        scale, rank = size / float(np.sqrt(center.size)), int(self.n_features)
        networks = self._networks(ResidualEncoder(X.shape[1:], rank)).to(device).train()
        trained = [p for p in networks.parameters() if p.requires_grad]
        optimizer = torch.optim.Adam(trained, lr=self.learning_rate)
        ready = partial(_on_device, torch, device, center, scale)
        draw = self._pairs(ready, X, view, rng)
        total = self.max_iter * sum(1 for _ in training.batches(len(X), self.batch_size, rng))
        steps = iter(range(1, total + 1))

        def epoch() -> float:
            first, second = draw()
            return training.run_epoch(
                training.batches(len(X), self.batch_size, rng),
                lambda rows: self._loss(networks, first[rows], second[rows]),
                [optimizer],
                lambda: self._after_step(networks, next(steps) / total),
            )

        return Training(
            networks,
            epoch,
            training.count_parameters(networks),
            learned={"center_": center, "scale_": scale, "rank_": rank},
            finish=lambda: {"weights_": training.to_arrays(self._trained_encoder(networks))},
        )

    def _pairs(
        self, ready: Callable[[Array], Any], X: Array, view: ViewLike, rng: np.random.Generator
    ) -> Callable[[], tuple[Any, Any]]:
        """Return a function that gives both views for an epoch, as ``ready`` makes them.

        The data and the caller's view where there is one; without, two views by ``augment``.
        """

        def checked(V: Any) -> Any:
            return ready(checks.check_view(V, X.shape, X.dtype))

        if view is None:
            augment = self.augment or tensor_noise
            given = checks.read_only(X)
            return lambda: (checked(augment(given, rng)), checked(augment(given, rng)))
        data = ready(X)
        if callable(view):
            return lambda: (data, checked(checks.drawn_view(view, rng)))
        fixed = checked(view)
        return lambda: (data, fixed)

    def transform(self, X: ArrayLike) -> Array:
        """Features (n, n_features) of new windows: the output of the encoder.

        Normalisations use what they learned, so that a window's features do not depend on the
        windows next to it.
        """
        check_is_fitted(self)
        name = type(self).__name__
        X = checks.check_tensor(self, X, reset=False)
        torch = optional("torch", "neural")
        device = training.find_device(name, self.device)
        encoder = self._encoder(torch).to(device)
        out = np.empty((len(X), self.rank_), dtype=np.float32)
        with torch.inference_mode():
            for start in range(0, len(X), CHUNK_SAMPLES):
                part = slice(start, start + CHUNK_SAMPLES)
                flat = normalised(X[part], self.center_, self.scale_)
                out[part] = encoder(torch.from_numpy(flat).to(device)).cpu().numpy()
        return out

    def _encoder(self, torch: Any) -> Any:
        from tensorcontrast.neural.networks import ResidualEncoder

        return training.from_arrays(
            torch, lambda: ResidualEncoder(self.dims_, self.rank_), self.weights_
        )

    def _rebuild(self) -> None:
        """Load the weights of a model that was read from a file."""
        self._encoder(optional("torch", "neural"))


def _on_device(torch: Any, device: Any, center: Array, scale: float, X: Array) -> Any:
    """Windows, centred and scaled, as a tensor on the device."""
    return torch.from_numpy(normalised(X, center, scale)).to(device)


# ------------------------------------------------------------------ scaling


#: Values that are converted at a time (64 MiB in float32).
CHUNK_VALUES = 2**24


def learn_scaling(X: Array) -> tuple[Array, float]:
    """Mean tensor of X (n, I_1, …, I_K), and the root mean square of a window's norm about it."""
    exact = X.mean(axis=0, dtype=np.float64)
    mean = exact.astype(X.dtype)
    total = sum(float(np.square(c, dtype=np.float64).sum()) for c in chunks(X, mean, 1.0))
    size = float(np.sqrt(total / len(X)))
    # What is left of equal windows after centring is rounding, not signal.
    if not size > 8 * np.finfo(X.dtype).eps * float(np.linalg.norm(exact)):
        raise InvalidInputError(
            f"X of shape {X.shape} has nothing to learn from: all windows are equal"
        )
    return mean, size


def chunks(X: Array, center: Array, scale: float) -> Iterator[Array]:
    """Centred and scaled copies (m, ∏I_k) of the windows of X, a few at a time."""
    flat, mean = X.reshape(len(X), -1), center.reshape(-1)
    step = max(1, CHUNK_VALUES // mean.size)
    for start in range(0, len(flat), step):
        chunk = flat[start : start + step] - mean
        chunk *= chunk.dtype.type(1.0 / scale)
        yield chunk


def normalised(X: Array, center: Array, scale: float) -> Array:
    """X as centred, scaled rows (n, ∏I_k) in memory of their own."""
    out = np.empty((len(X), center.size), dtype=center.dtype)
    at = 0
    for chunk in chunks(X, center, scale):
        out[at : at + len(chunk)] = chunk
        at += len(chunk)
    return out


#: Noise, in standard deviations of all entries, and the largest share of a mode that is masked.
NOISE, MASK = 0.1, 0.15
#: Shorter modes (such as three channels) are not masked.
MIN_MASKED_LENGTH = 8


def tensor_noise(X: Array, rng: np.random.Generator) -> Array:
    """View of tensors with noise, and one stretch of each long mode set to the mean window."""
    mean = X.mean(axis=0, dtype=np.float64).astype(X.dtype)
    noise = rng.standard_normal(X.shape, dtype=np.float32)
    out = X + X.dtype.type(NOISE * X.std(dtype=np.float64)) * noise.astype(X.dtype, copy=False)
    for mode, length in enumerate(X.shape[1:], start=1):
        if length < MIN_MASKED_LENGTH:
            continue
        width = rng.integers(0, int(MASK * length) + 1, size=(len(X), 1))
        start = rng.integers(0, length - width + 1)
        place = np.arange(length)
        hidden = (place >= start) & (place < start + width)
        shape = [len(X), *(length if k == mode else 1 for k in range(1, X.ndim))]
        out = np.where(hidden.reshape(shape), mean, out)
    return out
