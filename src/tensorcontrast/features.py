"""From raw signals to features in one estimator: augment → spectrogram → decomposition."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from functools import partial
from numbers import Integral, Real
from os import PathLike
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from tensorcontrast import (
    _learned,
    _steady,
    _unit_length,
    checks,
    labels,
    threads,
)
from tensorcontrast import augment as augmentations
from tensorcontrast._arrays import as_array
from tensorcontrast._component_names import ComponentNamesMixin
from tensorcontrast._progress import stage
from tensorcontrast._signals import as_signals, check_shape, some_windows, warn_if_transposed
from tensorcontrast.decompose import CPD, PLC, checkpoint
from tensorcontrast.decompose._base import CPEstimator
from tensorcontrast.decompose.blocks import Joined, Layout
from tensorcontrast.decompose.source import is_dask
from tensorcontrast.errors import InvalidInputError
from tensorcontrast.recordings import Recordings
from tensorcontrast.spectrogram import SpectrogramTensor
from tensorcontrast.spectrogram_source import SpectrogramSource
from tensorcontrast.tensorize import blocks as signal_blocks
from tensorcontrast.tensorize.convolution import MAX_LEARNING_WINDOWS

Array = NDArray[Any]

#: Values of the tensors up to which a fit keeps them in memory (512 MiB in float32).
IN_MEMORY_VALUES = 2**27


class ContrastiveFeatures(ComponentNamesMixin, TransformerMixin, BaseEstimator):
    """A few dozen features of each window of a multichannel signal, learned without labels.

    The signals and an augmented view of them become spectrogram tensors, which are decomposed
    together. Every part has a default that needs ``fs`` at most.

    Parameters
    ----------
    fs : float, optional
        Sampling rate in Hz; taken from :class:`Recordings` where these are passed.
    channels : sequence of str, optional
        Names of the channels; likewise.
    tensorize : SpectrogramTensor, optional
        Any transformer from [n, channel, time] to tensors. Default: ``SpectrogramTensor(fs)``.
    augment : callable, optional
        ``augment(X, rng)`` on raw signals. Default: :func:`tensorcontrast.augment.gentle`.
    decompose : CPD, ATD or PLC, optional
        Default: ``PLC()``.
    fresh_views : bool, default=False
        Draw the augmented view anew each iteration, at the cost of a spectrogram of all signals.
    shapes : bool or "auto", default="auto"
        Couple the spectrograms with convolution features: how often short patterns of all sizes
        occur in a window (shares of dilated convolutions above a bias, 256 principal values of
        them), which tells what magnitudes of frequencies do not. They are a second coupled block
        (E22), with 1.4 times the standard deviation of the spectrograms. "auto" does so where
        frames are in levels and nothing is missing.
    steady : bool or "auto", default="auto"
        Read features against what changes where nothing that matters has: parts of up to 4096
        windows are compared, the same windows a little faster or slower and, where channels rise
        and fall together, with channels that have taken up some of each other. What tells these
        apart weighs less, as far as the reconstruction error stays in the region that
        ``PLC(epsilon=)`` says. "auto" does so for ``PLC()`` where frames are in levels and nothing
        is missing.
    unit_length : bool or "auto", default="auto"
        Standardise the features by those of the fitted windows, and scale each window's to a root
        mean square of one: which features stand out in a window, not how loud it is. This is how
        the contrast compares windows; "auto" does it for ``PLC()`` of frames in time, where a
        linear classifier gains by it, and leaves all other features as they are.
    missing : {"error", "mask"}, default="error"
        With "mask", NaN in signals are samples that were not observed (dropped electrodes, gaps):
        frames that hold one are left out, in ``fit`` and in ``transform``.
    n_jobs : int, optional
        Threads that fitting and transforming may use; −1 is all, as in scikit-learn. Default: as
        many as BLAS has.
    random_state : int, RandomState or None
        Seeds the augmentation, and the decomposition where that has no seed of its own.
    verbose : bool, default=False
        Show the progress of every stage of ``fit`` on standard error: a bar while it runs, and a
        line with its time.

    Attributes
    ----------
    tensorize_, augment_, decompose_
        The fitted parts.
    factors_ : list of arrays
        What was learned: weights of channels, of frequencies and of time, one column a feature.
    shapes_ : dict or None
        The fitted :class:`ConvolutionFeatures`, their weight and the width of their block.
    channels_ : tuple of str
    feature_mean_, feature_deviation_ : (rank,) arrays
        Of the fitted windows' features, where ``unit_length`` asks for them.
    labels_ : (n,) int array
        Pseudo class of each fitted window.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from tensorcontrast import ContrastiveFeatures, PLC
    >>> from tensorcontrast.datasets import make_synthetic
    >>> rec = make_synthetic(n_samples=90, n_classes=3, random_state=0)
    >>> features = ContrastiveFeatures(fs=rec.fs, decompose=PLC(rank=8, max_iter=60, tol=1e-3),
    ...                                random_state=0)
    >>> model = make_pipeline(features, LogisticRegression(max_iter=1000)).fit(rec.X, rec.y)
    >>> model.predict(rec.X[:4]).shape
    (4,)
    """

    #: Learned attributes whose names do not end in an underscore.
    _learned_private: ClassVar[tuple[str, ...]] = ("_maker",)
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "fs": [Interval(Real, 0, None, closed="neither"), None],
        "channels": ["array-like", None],
        "tensorize": [HasMethods(["fit", "transform"]), None],
        "augment": [callable, None],
        "decompose": [HasMethods(["fit", "transform"]), None],
        "fresh_views": ["boolean"],
        "shapes": ["boolean", StrOptions({"auto"})],
        "steady": ["boolean", StrOptions({"auto"})],
        "unit_length": ["boolean", StrOptions({"auto"})],
        "missing": [StrOptions({"error", "mask"})],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        fs: float | None = None,
        channels: Sequence[str] | None = None,
        *,
        tensorize: Any = None,
        augment: Callable[[Array, np.random.Generator], Array] | None = None,
        decompose: Any = None,
        fresh_views: bool = False,
        shapes: bool | str = "auto",
        steady: bool | str = "auto",
        unit_length: bool | str = "auto",
        missing: str = "error",
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: bool = False,
    ) -> None:
        self.fs = fs
        self.channels = channels
        self.tensorize = tensorize
        self.augment = augment
        self.decompose = decompose
        self.fresh_views = fresh_views
        self.shapes = shapes
        self.steady = steady
        self.unit_length = unit_length
        self.missing = missing
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters.

        Parameters
        ----------
        deep : bool, default=True
            Also return the parameters of the parts, such as ``decompose__rank``; of a part that
            is None, those of its default.
        """
        params: dict[str, Any] = super().get_params(deep)
        for part in _DEFAULT_PARTS if deep else ():
            if params[part] is None:
                nested = _DEFAULT_PARTS[part]().get_params()
                params |= {f"{part}__{name}": value for name, value in nested.items()}
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters, also those of the parts, such as ``decompose__rank``.

        A part that is None becomes its default first, with these parameters.
        """
        for part, default in _DEFAULT_PARTS.items():
            nested = any(name.startswith(f"{part}__") for name in params)
            if nested and params.get(part, getattr(self, part)) is None:
                params[part] = default()
        super().set_params(**params)
        return self

    def fit(self, X: Any, y: Any = None, sequence: Any = None, *, resume: Any = None) -> Self:
        """Learn from signals X [n, channel, time] or :class:`Recordings`.

        ``y`` and ``sequence`` go to the decomposition: see :meth:`PLC.fit`. The labels of
        ``Recordings`` are never used unless they are passed as ``y``. ``resume`` goes on from a
        checkpoint of the decomposition, where that has a ``checkpoint``; it needs a
        ``random_state`` that gives the same view again.

        Ctrl-C leaves a usable estimator whose ``decompose_.interrupted_`` is true, once the
        decomposition has done an iteration; before, the estimator stays as it was. The message
        of the KeyboardInterrupt says which, and what a checkpoint holds.
        """
        checks.check_parameters(self)
        name = type(self).__name__
        try:
            with _learned.learning(self) as model:
                interrupted = model._learn(X, y, sequence, resume)
        except KeyboardInterrupt as error:
            told = str(error) or (
                "fit was interrupted while the signals were prepared; nothing was learned, the "
                "estimator is as it was before fit"
            )
            if not str(error) and getattr(self.decompose, "checkpoint", None) is not None:
                told += ", and no checkpoint was written"
            raise KeyboardInterrupt(f"{name}: {told}") from None
        if interrupted:
            raise KeyboardInterrupt(f"{name}: {interrupted}")
        return self

    def _learn(self, X: Any, y: Any, sequence: Any, resume: Any) -> str:
        """Fit this estimator, which has learned nothing yet; return how Ctrl-C ended it, or ""."""
        signals, fs, channels = self._signals(X)
        if channels is None and not _is_recordings(X):  # these have said so themselves
            warn_if_transposed(signals.shape)
        rng = checks.generator(self.random_state)
        if len(signals) < 2:
            raise InvalidInputError(
                f"n_samples={len(signals)}: a fit needs at least 2 windows, and X has shape "
                f"{tuple(signals.shape)}; cut long recordings into windows, such as by "
                "Recordings.read(path, window_s=10) or Recordings.from_signals"
            )
        tensorize = SpectrogramTensor() if self.tensorize is None else clone(self.tensorize)
        if tensorize.get_params().get("fs", 0) is None:
            tensorize.set_params(fs=fs)
        if self.n_jobs is not None and tensorize.get_params().get("n_jobs", 0) is None:
            tensorize.set_params(n_jobs=self.n_jobs)
        decompose = PLC() if self.decompose is None else clone(self.decompose)
        if self.random_state is not None and decompose.get_params().get("random_state", 0) is None:
            decompose.set_params(random_state=int(rng.integers(2**31 - 1)))
        labels.check_length(y, len(signals))
        if isinstance(decompose, CPEstimator):  # what is wrong with labels is told before any work
            y = decompose._read_labels(y, len(signals))
        place = decompose.get_params().get("checkpoint")
        if place is not None:
            checkpoint.check_place(place)  # before any work
        if self.missing == "mask":
            for part in (tensorize, decompose):
                if "missing" not in part.get_params():
                    raise InvalidInputError(
                        f"missing='mask': {type(part).__name__} cannot leave missing values out; "
                        "use SpectrogramTensor with CPD, ATD or PLC, or fill the gaps"
                    )
                part.set_params(missing="mask")
        augment = self.augment
        if augment is None:
            augment = augmentations.gentle(fs=fs, channels=channels, n_times=int(signals.shape[-1]))
        spread = is_dask(signals)
        if spread and not isinstance(decompose, CPEstimator):
            raise InvalidInputError(
                f"{type(decompose).__name__} does not take Dask arrays; CPD, ATD and PLC do"
            )
        # A mapped file is not read as a whole: every block is checked when its turn comes.
        part = spread or isinstance(signals, np.memmap)
        few = some_windows(signals)
        few = as_array(few.compute() if spread else few, missing=self.missing == "mask")
        show = bool(self.verbose)
        with stage("frames of the spectrograms", show=show):
            tensorize.fit(few if part else signals)
            if isinstance(tensorize, SpectrogramTensor):
                tensorize._divide_by_spread(few)
        maker, state = self._with_shapes(tensorize, decompose, signals)
        tensors = _tensors(signals, maker)
        # What is small stays in memory; what is not is made anew, block by block, when needed.
        keep = not isinstance(decompose, CPEstimator) or tensors.size <= IN_MEMORY_VALUES
        keep = keep and not spread
        coupled = partial(_coupled, maker=maker, decompose=decompose)

        def view(
            generator: np.random.Generator, advance: Callable[[int], None] | None = None
        ) -> Any:
            seed = int(generator.integers(2**31))
            made = _tensors(signals, maker, augment, seed)
            return coupled(made.array(advance) if keep else made)

        if sequence is not None and not isinstance(decompose, PLC):
            raise InvalidInputError(
                f"sequence= is for PLC; {type(decompose).__name__} does not know neighbours"
            )
        extra = {} if sequence is None else {"sequence": sequence}
        if resume is not None:
            extra["resume"] = resume
        with threads.jobs(self.n_jobs):
            if _steady.asked(self.steady, tensorize, decompose, *signals.shape[::2]):
                with stage("nuisance changes of windows", show=show):
                    noise = _steady.differences(
                        signals, maker, tensorize.n_fft_, _steady.changes(tensorize)
                    )
                    extra["noise"] = coupled(noise)
            with stage("spectrograms", show=show and keep, total=len(signals)) as advance:
                X = coupled(tensors.array(advance) if keep else tensors)
            if not isinstance(decompose, CPD):  # no contrast: nothing to compare a view with
                drawn = show and keep and not self.fresh_views
                with stage("augmented view", show=drawn, total=len(signals)) as advance:
                    extra["view"] = view if self.fresh_views else view(rng, advance)
            interrupted = ""
            try:
                with _bars_of(decompose, show):
                    decompose.fit(X, y, **extra)
            except KeyboardInterrupt as error:
                if not getattr(decompose, "interrupted_", False):
                    raise
                interrupted = str(error) or "interrupted; it can be used"
        self.tensorize_, self.augment_, self.decompose_ = tensorize, augment, decompose
        self.shapes_, self._maker = state, maker
        self.n_channels_in_, self.n_times_in_ = (int(d) for d in signals.shape[1:])
        self.channels_ = channels
        self.fs_ = fs
        self.feature_mean_ = self.feature_deviation_ = None
        if self._wants_unit_length(decompose, tensorize):
            W = decompose.features_ if isinstance(decompose, CPEstimator) else None
            W = checks.plain_output(decompose, X) if W is None else W
            self.feature_mean_, self.feature_deviation_ = _unit_length.moments(W)
        return interrupted

    def _with_shapes(self, tensorize: Any, decompose: Any, signals: Any) -> tuple[Any, Any]:
        """Return what makes tensors of signals, with shapes where asked for, and their state."""
        if not signal_blocks.asked(self.shapes, tensorize, decompose, len(signals)):
            return tensorize, None
        some = np.asarray(signals[:: -(-len(signals) // MAX_LEARNING_WINDOWS)])
        with stage("convolution features", show=bool(self.verbose)):
            maker = signal_blocks.learn(some, tensorize)
        return maker, maker.state()

    def _wants_unit_length(self, decompose: Any, tensorize: Any) -> bool:
        if self.unit_length == "auto":
            in_time = getattr(tensorize, "n_levels_", None) is None
            return in_time and isinstance(decompose, PLC) and decompose.solver == "tied"
        return bool(self.unit_length)

    def _scaled(self, W: Any) -> Any:
        # Models that were saved before there was unit_length have no mean.
        mean: Array | None = getattr(self, "feature_mean_", None)
        deviation: Array | None = getattr(self, "feature_deviation_", None)
        if mean is None or deviation is None:
            return W
        return _unit_length.scaled(W, mean, deviation)

    def transform(self, X: Any) -> Array:
        """Features (n, rank) of signals with the channels and length that were fitted.

        Tensors of a window are the same to the bit whatever it is transformed with. Its features
        agree to 1e-5 of the length of the row in float32, and to 1e-13 in float64: alone, in a
        batch or in a chunk of a Dask array.
        """
        check_is_fitted(self, "decompose_")
        signals, fs, channels = self._signals(X)
        if _is_recordings(X) and fs != self.fs_:
            raise InvalidInputError(
                f"the recordings have a sampling rate of {fs} but the model was fitted at "
                f"{self.fs_}; resample them"
            )
        if _is_recordings(X) and X.channels is not None and channels != self.channels_:
            raise InvalidInputError(
                f"the recordings have channels {channels} but the model was fitted on "
                f"{self.channels_}; select and order them with recordings.select(channels=…)"
            )
        if is_dask(signals):
            rows = _tensors(signals, self._maker)
            made = self.decompose_.transform(_coupled(rows, self._maker, self.decompose_))
            return cast(Array, self._scaled(made))
        tensorize, decompose = self._maker, self.decompose_
        masked = self.missing == "mask" and self.tensorize_.get_params().get("missing") == "error"
        if masked and self.shapes_ is not None:
            raise InvalidInputError(
                "missing='mask': this model was fitted with shapes, which signals with gaps do not "
                "have; fit with shapes=False or missing='mask', or fill the gaps"
            )
        if masked:
            # A model that was fitted on whole signals takes others where it is told to.
            tensorize = copy(tensorize).set_params(missing="mask")
            decompose = copy(decompose).set_params(missing="mask")
        with threads.jobs(self.n_jobs):
            parts = [
                self._scaled(checks.plain_output(decompose, _coupled(block, tensorize, decompose)))
                for block in SpectrogramSource(signals, tensorize).blocks()
            ]
        return np.concatenate(parts) if len(parts) > 1 else parts[0]

    def tensors(self, X: Any) -> Array | list[Array]:
        """Tensors of signals as they are decomposed; with convolution features a list of blocks."""
        check_is_fitted(self, "decompose_")
        made = np.asarray(self._maker.transform(np.asarray(self._signals(X)[0])))
        dims = getattr(self._maker, "block_dims", None)
        return made if dims is None else Layout(dims, (1.0,) * len(dims)).split(made)

    def _signals(self, X: Any) -> tuple[Array, float | None, tuple[str, ...] | None]:
        """Array, sampling rate and channel names, from the parameters or from Recordings."""
        channels = None if self.channels is None else tuple(str(c) for c in self.channels)
        fs = self.fs
        if _is_recordings(X):
            if fs is not None and X.fs is not None and float(fs) != float(X.fs):
                raise InvalidInputError(
                    f"fs={fs} was given but the recordings have a sampling rate of {X.fs}; leave "
                    "fs out or resample"
                )
            fs = X.fs if fs is None else fs
            channels = X.channels if channels is None else channels
            X = X.X
        if is_dask(X) and np.isnan(X.shape[0]):
            X = X.compute_chunk_sizes()
        if isinstance(X, np.memmap) or is_dask(X):
            signals = X
            check_shape(X.shape, X.dtype)
        else:
            signals = as_signals(X, missing=self.missing == "mask")
        if channels is not None and len(channels) != signals.shape[1]:
            raise InvalidInputError(
                f"{len(channels)} channel names were given for {signals.shape[1]} channels"
            )
        return signals, fs, channels

    @property
    def factors_(self) -> list[Array]:
        """Factors of the spectrogram: channels, frequencies, times."""
        check_is_fitted(self, "decompose_")
        coupled = getattr(self.decompose_, "block_dims_", None) is not None
        factors: list[Any] = self.decompose_.factors_
        return list(factors[0]) if coupled else list(factors)

    @property
    def labels_(self) -> NDArray[np.intp]:
        """Pseudo class of each fitted window."""
        check_is_fitted(self, "decompose_")
        found: NDArray[np.intp] = self.decompose_.labels_
        return found

    def save(self, path: str | PathLike[str]) -> None:
        """Write all parts to one model file, to be read by :func:`tensorcontrast.load_model`."""
        from tensorcontrast import model_io

        check_is_fitted(self, "decompose_")
        model_io.save_model(self, path)

    def _check_learned(self) -> None:
        shape = tuple(self.tensorize_.output_shape_)
        self.shapes_ = getattr(self, "shapes_", None)  # older files have none
        self._maker, wanted = self.tensorize_, None
        dims = shape
        if self.shapes_ is not None:
            sizes = self.n_channels_in_, self.n_times_in_
            self._maker = signal_blocks.restored(self.shapes_, self.tensorize_, *sizes)
            wanted = self._maker.block_dims
            dims = (sum(int(np.prod(block)) for block in wanted),)
        found = getattr(self.decompose_, "block_dims_", wanted)
        if tuple(self.decompose_.dims_) != dims or found != wanted:
            raise InvalidInputError(
                f"spectrograms of shape {shape}, in blocks {wanted}, do not fit a decomposition of "
                f"{tuple(self.decompose_.dims_)} in blocks {found}"
            )
        for name in ("feature_mean_", "feature_deviation_"):
            learned = getattr(self, name, None)
            if learned is not None and (
                np.shape(learned) != (self._n_features_out,) or not np.isfinite(learned).all()
            ):
                raise InvalidInputError(
                    f"{name} of shape {np.shape(learned)} does not fit {self._n_features_out} "
                    "features"
                )

    @property
    def _n_features_out(self) -> int:
        return int(self.decompose_.rank_)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "decompose_")

    @property
    def n_features_in_(self) -> int:
        """Number of channels, as scikit-learn counts the second axis."""
        return int(self.n_channels_in_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.three_d_array = True
        tags.input_tags.allow_nan = self.missing == "mask"
        tags.transformer_tags.preserves_dtype = []
        return tags


#: What a part that is None stands for.
_DEFAULT_PARTS: dict[str, Callable[[], Any]] = {"tensorize": SpectrogramTensor, "decompose": PLC}


@contextmanager
def _bars_of(decompose: Any, show: bool) -> Iterator[None]:
    """Let a decomposition show its own progress bars, where it has them, for this fit."""
    own = show and "verbose" in decompose.get_params()
    before = decompose.verbose if own else False
    if own:
        decompose.set_params(verbose=True)
    try:
        with stage("decomposition", show=show, live=not own):
            yield
    finally:
        if own:
            decompose.set_params(verbose=before)


def _coupled(rows: Any, maker: Any, decompose: Any) -> Any:
    """Rows of coupled blocks as the decomposition takes them; anything else as it is.

    Peers that know no blocks get one tensor, with further channels for the second block.
    """
    dims = getattr(maker, "block_dims", None)
    if dims is None:
        return rows
    if isinstance(decompose, CPEstimator):
        return Joined(rows, dims)
    return rows.reshape(len(rows), -1, *dims[0][1:])


def _is_recordings(X: Any) -> bool:
    """Whether X has a rate and channels of its own: recordings in memory or in a store."""
    return isinstance(X, Recordings) or (is_dask(getattr(X, "X", None)) and hasattr(X, "channels"))


def _tensors(signals: Any, tensorize: Any, augment: Any = None, seed: int = 0) -> Any:
    """Return tensors that are made when they are needed, here or where the signals are."""
    if not is_dask(signals):
        return SpectrogramSource(signals, tensorize, augment, seed)
    from tensorcontrast.distributed.signals import spectrograms

    return spectrograms(signals, tensorize, augment, seed)
