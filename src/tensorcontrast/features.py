"""From raw signals to features in one estimator: augment → coupled blocks → decomposition."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from numbers import Integral, Real
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from tensorcontrast import augment as augmentations
from tensorcontrast.decompose import PLC
from tensorcontrast.decompose.base import CPEstimator
from tensorcontrast.decompose.blocks import Joined, Layout
from tensorcontrast.decompose.diagnosis import Diagnosis
from tensorcontrast.errors import InvalidInputError
from tensorcontrast.reader import MAX_WINDOWS, Reader, read
from tensorcontrast.recordings import Recordings
from tensorcontrast.recordings.signals import (
    as_signals,
    check_shape,
    some_windows,
    warn_if_transposed,
)
from tensorcontrast.solvers.checkpoint import check_every, check_place
from tensorcontrast.sources.source import BLOCK_SIZE, BlockSize, is_dask
from tensorcontrast.tensorize.blocks import SignalBlocks, check_scales, learn_blocks
from tensorcontrast.tensorize.convolution import ConvolutionFeatures
from tensorcontrast.tensorize.source import SpectrogramSource
from tensorcontrast.tensorize.spectrogram import SpectrogramTensor
from tensorcontrast.utils import checks, labels, learned, threads
from tensorcontrast.utils.arrays import as_array, as_float
from tensorcontrast.utils.component_names import ComponentNamesMixin
from tensorcontrast.utils.estimators import NotebookMixin, changed, changed_fitted
from tensorcontrast.utils.progress import StageTimes, measured, stage

if TYPE_CHECKING:
    from tensorcontrast.live import FeatureStream

Array = NDArray[Any]

#: Quantiles over time of the default spectrogram block.
N_QUANTILES = 4


@dataclass(frozen=True)
class FeaturesTuning:
    """Tuning numbers of the way from signals to tensors."""

    #: Values of the tensors up to which a fit keeps them in memory (512 MiB in float32).
    max_values_in_memory: int = 2**27
    #: Windows whose augmentations give the nuisance covariance.
    max_nuisance_windows: int = 256
    #: Values of the tensors of all these augmentations.
    max_nuisance_values: int = 2**26
    #: Blocks in which signals are transformed.
    blocks: BlockSize = BLOCK_SIZE


TUNING = FeaturesTuning()


class ContrastiveFeatures(NotebookMixin, ComponentNamesMixin, TransformerMixin, BaseEstimator):
    """A few dozen features of each window of a multichannel signal, learned without labels.

    The signals and an augmented view of them become coupled blocks of tensors, by default a
    spectrogram and random-convolution features, which are decomposed together with shared features.
    What the augmentation changes weighs less in the features (E23). Every part has a default that
    needs ``fs`` at most, and none is chosen by looking at the data.

    Parameters
    ----------
    fs : float, optional
        Sampling rate in Hz; taken from :class:`Recordings` where these are passed.
    channels : sequence of str, optional
        Names of the channels; likewise.
    tensorize : transformer or list of transformers, optional
        From [n, channel, time] to tensors; several make coupled blocks (E22), each scaled to the
        same variance. Default: ``[SpectrogramTensor(n_quantiles=4), ConvolutionFeatures()]``; the
        spectrogram alone with ``missing="mask"``, for a ``decompose`` without coupled blocks, and
        for one with ``nonnegative=True``.
    augment : callable, optional
        ``augment(X, rng)`` on raw signals, which keeps the class of a window. It makes the second
        view of the contrast, and the differences between two draws of each of its steps make the
        nuisance covariance. Default: :func:`tensorcontrast.augment.standard`.
    decompose : CPD, ATD or PLC, optional
        Default: ``PLC()``.
    fresh_views : bool, default=False
        Draw the augmented view anew each iteration, at the cost of tensors of all signals.
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
    tensorize_ : transformer or list of transformers
        Fitted.
    augment_, decompose_
        The other fitted parts.
    block_scales_ : tuple of float or None
        Number that each coupled block is multiplied with; None for one transformer.
    factors_ : list of arrays
        Factors of the first block: by default weights of channels, of frequencies and of
        quantiles over time, one column per component.
    channels_ : tuple of str
    labels_ : (n,) int array
        Pseudo class of each fitted window.
    decisions_ : list of dict
        What the fit has decided from the data: name, statistic, threshold, outcome, and the
        parameter that overrides it.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from tensorcontrast import ALS, PLC, ContrastiveFeatures
    >>> from tensorcontrast.datasets import make_synthetic
    >>> rec = make_synthetic(n_samples=90, n_classes=3, random_state=0)
    >>> decompose = PLC(rank=8, als=ALS(tol=1e-3))
    >>> features = ContrastiveFeatures(fs=rec.fs, decompose=decompose, random_state=0)
    >>> model = make_pipeline(features, LogisticRegression(max_iter=1000)).fit(rec.X, rec.y)
    >>> model.predict(rec.X[:4]).shape
    (4,)
    """

    #: Learned attributes whose names do not end in an underscore.
    _learned_private: ClassVar[tuple[str, ...]] = ("_maker", "_reader")
    #: Learned attributes that model files may lack, and what they are then.
    _learned_defaults: ClassVar[dict[str, Any]] = {"fitted_on_": None}
    #: The short way to the features of a few windows; None where the parts have none.
    _reader: Reader | None
    #: What the command line says about the windows of the fit; None where nothing is said.
    fitted_on_: dict[str, Any] | None
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "fs": [Interval(Real, 0, None, closed="neither"), None],
        "channels": ["array-like", None],
        "tensorize": [HasMethods(["fit", "transform"]), list, tuple, None],
        "augment": [callable, None],
        "decompose": [HasMethods(["fit", "transform"]), None],
        "fresh_views": ["boolean"],
        "missing": [StrOptions({"error", "mask"})],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }
    #: Limits of memory and work; tests set others.
    _tuning: FeaturesTuning = TUNING

    def __init__(
        self,
        fs: float | None = None,
        channels: Sequence[str] | None = None,
        *,
        tensorize: Any = None,
        augment: Callable[[Array, np.random.Generator], Array] | None = None,
        decompose: Any = None,
        fresh_views: bool = False,
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
        self.missing = missing
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters.

        Parameters
        ----------
        deep : bool, default=True
            Also return the parameters of the parts, such as ``decompose__rank``, and those of
            coupled blocks by their place, such as ``tensorize__0__n_fft``; of a part that is None,
            those of its default.
        """
        params: dict[str, Any] = super().get_params(deep=False)
        if not deep:
            return params
        for part in _NESTED:
            value = _default(part) if params[part] is None else params[part]
            for prefix, one in _members(part, value):
                if hasattr(one, "get_params"):
                    nested = one.get_params()
                    params |= {f"{prefix}__{name}": v for name, v in nested.items()}
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters, also those of the parts, such as ``decompose__rank``.

        A part that is None becomes its default first, with these parameters.
        """
        own = {name: value for name, value in params.items() if "__" not in name}
        super().set_params(**own)
        for part in _NESTED:
            nested = {n: v for n, v in params.items() if n.startswith(f"{part}__")}
            if not nested:
                continue
            if getattr(self, part) is None:
                setattr(self, part, _default(part))
            for prefix, one in _members(part, getattr(self, part)):
                given = {
                    name.removeprefix(f"{prefix}__"): nested.pop(name)
                    for name in list(nested)
                    if name.startswith(f"{prefix}__")
                }
                if given:
                    one.set_params(**given)
            if nested:
                raise ValueError(
                    f"Invalid parameter {next(iter(nested))!r} for estimator "
                    f"{type(self).__name__}; get_params() lists the names"
                )
        unknown = [n for n in params if "__" in n and n.split("__")[0] not in _NESTED]
        if unknown:
            raise ValueError(
                f"Invalid parameter {unknown[0]!r} for estimator {type(self).__name__}; "
                "get_params() lists the names"
            )
        return self

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        checkpoint: str | PathLike[str] | None = None,
        every: int = 10,
        resume: Any = None,
        times: StageTimes | None = None,
    ) -> Self:
        """Learn from signals X [n, channel, time] or :class:`Recordings`.

        Parameters
        ----------
        X : array-like [n, channel, time] or Recordings
            Signals. The labels of ``Recordings`` are never used unless they are passed as ``y``.
        y : array-like (n,), optional
            Labels for the decomposition: see :meth:`PLC.fit`.
        checkpoint : path, optional
            Write the state of the decomposition to this file; see :meth:`CPD.fit`.
        every : int, default=10
            Iterations from one write of the checkpoint to the next.
        resume : path or True, optional
            Go on from a checkpoint; it needs a ``random_state`` that gives the same view again.
        times : tensorcontrast.utils.progress.StageTimes, optional
            Counts the seconds of each stage.

        Returns
        -------
        self

        Notes
        -----
        Ctrl-C leaves a usable estimator whose ``decompose_.interrupted_`` is true, once the
        decomposition has done an iteration; before, the estimator stays as it was. The message
        of the KeyboardInterrupt says which, and what a checkpoint holds.
        """
        checks.check_parameters(self)
        check_every(every)
        name = type(self).__name__
        try:
            outcome = self._learn(X, y, checkpoint, every, resume, times)
            learned.assign(self, outcome.attributes)
        except KeyboardInterrupt as error:
            message = str(error) or (
                "fit was interrupted while the signals were prepared; nothing was learned, the "
                "estimator is as it was before fit"
            )
            if not str(error) and checkpoint is not None:
                message += ", and no checkpoint was written"
            raise KeyboardInterrupt(f"{name}: {message}") from None
        if outcome.interrupted:
            raise KeyboardInterrupt(f"{name}: {outcome.interrupted}")
        return self

    def _learn(
        self, X: Any, y: Any, place: Any, every: int, resume: Any, times: StageTimes | None
    ) -> _Outcome:
        """Learn from signals; what was learned before plays no part."""
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
        show = bool(self.verbose)
        decompose = self._decomposition(rng)
        transformers = self._transformers(decompose, fs)
        labels.check_length(y, len(signals))
        if isinstance(decompose, CPEstimator):  # wrong labels are reported before any work
            y = decompose._read_labels(y, len(signals))
        kept = {} if place is None else {"checkpoint": place, "every": every}
        if resume is not None:
            kept["resume"] = resume
        if kept and not isinstance(decompose, CPEstimator):
            raise InvalidInputError(
                f"{type(decompose).__name__} keeps no checkpoint; CPD, ATD and PLC do"
            )
        if place is not None:
            check_place(place)  # before any work
        spread = is_dask(signals)
        if spread and not isinstance(decompose, CPEstimator):
            raise InvalidInputError(
                f"{type(decompose).__name__} does not take Dask arrays; CPD, ATD and PLC do"
            )
        # A mapped file is not read as a whole: every block is checked when its turn comes.
        part = spread or isinstance(signals, np.memmap)
        few = some_windows(signals)
        few = as_array(few.compute() if spread else few, missing=self.missing == "mask")
        unit: float | None = None
        for i, transformer in enumerate(transformers):
            name = _STAGES.get(type(transformer), "tensors")
            with measured(times, "blocks"), stage(name, show=show):
                if isinstance(transformer, ConvolutionFeatures) and unit is not None:
                    most = transformer._tuning.max_learning_windows
                    transformer._fit_in_unit(_every(signals, most), unit)
                    continue
                transformer.fit(few if part else signals)
                if isinstance(transformer, SpectrogramTensor):
                    transformers[i] = transformer._in_units_of(few)
                    unit = transformers[i].unit_  # all blocks see the same numbers
        with measured(times, "blocks"):
            maker: Any = transformers[0]
            if len(transformers) > 1:
                maker = learn_blocks(transformers, few)
        augment = self.augment
        if augment is None:
            with measured(times, "augmentation"):
                augment = augmentations.standard(as_float(np.nan_to_num(few)))
        tensors = _tensors(signals, maker, size=self._tuning.blocks)
        # What is small stays in memory; what is not is made anew, block by block, when needed.
        small = tensors.size <= self._tuning.max_values_in_memory
        keep = not spread and (small or not isinstance(decompose, CPEstimator))
        coupled = partial(_coupled, maker=maker, decompose=decompose)

        def view(
            generator: np.random.Generator, advance: Callable[[int], None] | None = None
        ) -> Any:
            seed = int(generator.integers(2**31))
            augmented = _tensors(signals, maker, augment, seed, self._tuning.blocks)
            return coupled(augmented.array(advance) if keep else augmented)

        extra: dict[str, Any] = dict(kept)
        with threads.jobs(self.n_jobs):
            if _takes_nuisance(decompose):
                with measured(times, "augmentation"), stage("nuisance covariance", show=show):
                    differences = _nuisance_differences(few, maker, augment, self._tuning)
                    if differences is not None:
                        extra["nuisance"] = coupled(differences)
            shown = stage("tensors", show=show and keep, total=len(signals))
            with measured(times, "blocks"), shown as advance:
                X = coupled(tensors.array(advance) if keep else tensors)
            if getattr(decompose, "_needs_view", True):  # else nothing is compared with a view
                drawn = show and keep and not self.fresh_views
                shown = stage("augmented view", show=drawn, total=len(signals))
                with measured(times, "augmentation"), shown as advance:
                    extra["view"] = view if self.fresh_views else view(rng, advance)
            interrupted = ""
            try:
                # Decompositions that have progress bars of their own show these.
                shown = stage("decomposition", show=show, live=not hasattr(decompose, "verbose"))
                with measured(times, "finishing"), shown:
                    if times is None or not isinstance(decompose, CPEstimator):
                        decompose.fit(X, y, **extra)
                    else:
                        keeping = (place, every, resume)
                        view_, nuisance = extra.get("view"), extra.get("nuisance")
                        decompose._fit(X, y, view_, keeping, nuisance, times)
            except KeyboardInterrupt as error:
                if not getattr(decompose, "interrupted_", False):
                    raise
                interrupted = str(error) or "interrupted; it can be used"
        if show and hasattr(decompose, "verbose"):  # this fit was to be shown, not later ones
            before = getattr(self.decompose, "verbose", False)
            decompose = changed_fitted(decompose, verbose=before)
        n_channels, n_times = (int(d) for d in signals.shape[1:])
        attributes = {
            "tensorize_": list(transformers) if len(transformers) > 1 else transformers[0],
            "augment_": augment,
            "decompose_": decompose,
            "_maker": maker,
            "_reader": read(maker, decompose),
            "block_scales_": maker.scales if isinstance(maker, SignalBlocks) else None,
            "n_channels_in_": n_channels,
            "n_times_in_": n_times,
            "channels_": channels,
            "fs_": fs,
            "fitted_on_": None,
        }
        return _Outcome(attributes, interrupted)

    def _decomposition(self, rng: np.random.Generator) -> Any:
        """Return the unfitted decomposition, with seed, gaps and progress as they are here."""
        given = PLC() if self.decompose is None else self.decompose
        params: dict[str, Any] = {"missing": "mask"} if self._masks(given) else {}
        if self.random_state is not None and given.get_params().get("random_state", 0) is None:
            params["random_state"] = int(rng.integers(2**31 - 1))
        if self.verbose:
            params["verbose"] = True
        return changed(given, **params)

    def _masks(self, part: Any) -> bool:
        """Whether a part has to leave missing values out; an error where it cannot."""
        if self.missing == "mask" and "missing" not in part.get_params():
            raise InvalidInputError(
                f"missing='mask': {type(part).__name__} cannot leave missing values out; "
                "use SpectrogramTensor with CPD, ATD or PLC, or fill the gaps"
            )
        return self.missing == "mask"

    def _transformers(self, decompose: Any, fs: float | None) -> list[Any]:
        """Return unfitted transformers of the blocks, with rate and threads where they take any."""
        able = getattr(type(decompose), "takes_blocks", False)
        given = self.tensorize
        if given is None:
            given = _default("tensorize")
            # Principal components of convolution features have both signs.
            if not able or self.missing == "mask" or getattr(decompose, "nonnegative", False):
                given = given[:1]
        blocks = list(given) if isinstance(given, list | tuple) else [given]
        if not blocks or not all(hasattr(t, "transform") for t in blocks):
            raise InvalidInputError(
                f"tensorize={given!r}: pass a transformer, or a list of at least one"
            )
        if len(blocks) > 1 and not able:
            raise InvalidInputError(
                f"{type(decompose).__name__} takes no coupled blocks; pass one transformer as "
                "tensorize, or use CPD, ATD or PLC"
            )
        return [self._transformer(given, fs) for given in blocks]

    def _transformer(self, given: Any, fs: float | None) -> Any:
        """Return an unfitted transformer, with rate, threads and gaps as they are here."""
        params: dict[str, Any] = {"missing": "mask"} if self._masks(given) else {}
        theirs = given.get_params()
        if theirs.get("fs", 0) is None:
            params["fs"] = fs
        if self.n_jobs is not None and theirs.get("n_jobs", 0) is None:
            params["n_jobs"] = self.n_jobs
        return changed(given, **params)

    def transform(self, X: Any) -> Array:
        """Features (n, rank) of signals with the channels and length that were fitted.

        Tensors of a window are the same to the bit whatever it is transformed with. Its features
        agree to 1e-5 of the length of the row in float32, and to 1e-13 in float64: alone, in a
        batch or in a chunk of a Dask array.
        """
        if "decompose_" not in vars(self):
            check_is_fitted(self, "decompose_")
        signals = self._checked_signals(X)
        few = self._few(signals)
        found = None if few is None else few.features(signals)
        if found is not None:
            return found
        tensorize, decompose = self._maker, self.decompose_
        masked = self.missing == "mask" and tensorize.missing == "error"
        if masked and self.block_scales_ is not None:
            raise InvalidInputError(
                "missing='mask': this model was fitted on coupled blocks, which signals with gaps "
                "do not have; fit with missing='mask', or fill the gaps"
            )
        if masked:
            # A model that was fitted on whole signals takes others on request.
            tensorize = changed_fitted(tensorize, missing="mask")
            decompose = changed_fitted(decompose, missing="mask")
        if is_dask(signals):
            rows = _tensors(signals, tensorize, size=self._tuning.blocks)
            return cast(Array, decompose.transform(_coupled(rows, tensorize, decompose)))
        with threads.jobs(self.n_jobs):
            blocks = [
                checks.plain_output(decompose, _coupled(block, tensorize, decompose))
                for block in _tensors(signals, tensorize, size=self._tuning.blocks).blocks()
            ]
        return np.concatenate(blocks) if len(blocks) > 1 else blocks[0]

    def stream(self, hop: int | None = None, *, hop_s: float | None = None) -> FeatureStream:
        """Return an object that takes samples as they come, and gives features of their windows.

        Parameters
        ----------
        hop : int, optional
            Samples from the start of one window to that of the next. Default: the length of a
            window, so that windows do not overlap.
        hop_s : float, optional
            The same in seconds, rounded to whole samples, instead of ``hop``.

        Examples
        --------
        >>> from tensorcontrast import ALS, PLC, ContrastiveFeatures
        >>> from tensorcontrast.datasets import make_synthetic
        >>> rec = make_synthetic(n_samples=60, random_state=0)
        >>> model = ContrastiveFeatures(decompose=PLC(rank=4, als=ALS(tol=1e-2)), random_state=0)
        >>> stream = model.fit(rec).stream(hop=64)
        >>> [(found.start, found.features.shape) for found in stream.push(rec.X[0])]
        [(0, (4,))]
        """
        from tensorcontrast.live import FeatureStream

        check_is_fitted(self, "decompose_")
        return FeatureStream(self, self, hop, hop_s)

    def _checked_signals(self, X: Any) -> Array:
        """Signals of X, whose rate and channels are those of the fit where X has any."""
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
        return signals

    def _few(self, signals: Any) -> Reader | None:
        """Return the short way to the features of a few windows in memory; None for others."""
        reader = self._reader
        if (
            reader is None
            or self.missing != "error"
            or not isinstance(signals, np.ndarray)
            or len(signals) > MAX_WINDOWS
            or not reader.is_of(self._maker, self.decompose_)
        ):
            return None
        return reader

    def tensors(self, X: Any) -> Array | list[Array]:
        """Tensors of signals as they are decomposed; a list for coupled blocks."""
        check_is_fitted(self, "decompose_")
        rows = np.asarray(self._maker.transform(np.asarray(self._signals(X)[0])))
        if not isinstance(self._maker, SignalBlocks):
            return rows
        dims = self._maker.block_dims
        return Layout(dims, (1.0,) * len(dims)).split(rows)

    def diagnose(
        self,
        X: Any,
        groups: Any = None,
        *,
        y: Any = None,
        n_seeds: int = 2,
        n_splits: int = 2,
        random_state: int = 0,
    ) -> Diagnosis:
        """Say whether the components can be trusted: are they found again, what do they explain.

        The decomposition is fitted again with other seeds and to halves of the subjects, on
        tensors of the fitted transformers; see :meth:`CPD.diagnose`. The model stays as it is.

        Parameters
        ----------
        X : array-like [n, channel, time] or Recordings
            The signals that the model was fitted on. Of more windows than fit into memory as
            tensors, an even sample is used.
        groups : array-like (n,), optional
            Subject of each window; taken from :class:`Recordings` where these have groups.
        y : array-like (n,), optional
            Labels, where ``fit`` was given any.
        n_seeds, n_splits, random_state : int
            As in :meth:`CPD.diagnose`.
        """
        check_is_fitted(self, "decompose_")
        decompose = self.decompose_
        if not isinstance(decompose, CPEstimator):
            raise InvalidInputError(
                f"{type(decompose).__name__} has no components to diagnose; CPD, ATD and PLC do"
            )
        if groups is None and _is_recordings(X):
            groups = X.groups
        tensors, some, extra = self._decomposed(X, random_state)
        for name, value in (("groups", groups), ("y", y)):
            labels.check_length(value, len(X), name)
            extra[name] = None if value is None else np.asarray(value)[some]
        counts = {"n_seeds": n_seeds, "n_splits": n_splits, "random_state": random_state}
        with threads.jobs(self.n_jobs):
            return decompose.diagnose(tensors, **extra, **counts)

    def _decomposed(
        self, X: Any, seed: int = 0, *, nuisance: bool = False
    ) -> tuple[Any, slice, dict[str, Any]]:
        """Return what the decomposition is fitted to: tensors in memory, of which windows, extras.

        Of more windows than fit into memory as tensors, an even sample is used.
        """
        decompose, maker = self.decompose_, self._maker
        signals = self._signals(X)[0]
        if is_dask(signals):
            raise InvalidInputError(
                "the model is fitted several times, in this process; pass some of the "
                "windows of the Dask array, in memory"
            )
        size = int(np.prod(decompose.dims_))
        some = slice(None, None, -(-len(signals) * size // self._tuning.max_values_in_memory))
        signals, extra = signals[some], {}
        with threads.jobs(self.n_jobs):
            tensors = _coupled(_tensors(signals, maker).array(), maker, decompose)
            if decompose._needs_view and self.augment_ is not None:
                made = _tensors(signals, maker, self.augment_, seed).array()
                extra["view"] = _coupled(made, maker, decompose)
            if nuisance and _takes_nuisance(decompose) and self.augment_ is not None:
                differences = _nuisance_differences(
                    some_windows(signals), maker, self.augment_, self._tuning
                )
                if differences is not None:
                    extra["nuisance"] = _coupled(differences, maker, decompose)
        return tensors, some, extra

    @property
    def spectrogram_(self) -> SpectrogramTensor | None:
        """The fitted spectrogram transformer among the blocks; None where there is none."""
        return next((t for t in self._blocks() if isinstance(t, SpectrogramTensor)), None)

    @property
    def convolution_(self) -> ConvolutionFeatures | None:
        """The fitted convolution features among the blocks; None where there are none."""
        return next((t for t in self._blocks() if isinstance(t, ConvolutionFeatures)), None)

    def _blocks(self) -> list[Any]:
        check_is_fitted(self, "decompose_")
        return self.tensorize_ if isinstance(self.tensorize_, list) else [self.tensorize_]

    @property
    def decisions_(self) -> list[dict[str, Any]]:
        """What the fit has decided from the data, and the parameter that overrides it."""
        check_is_fitted(self, "decompose_")
        model, out = self.decompose_, []
        spectrogram = self.spectrogram_
        if spectrogram is not None and None in (spectrogram.n_fft, spectrogram.hop):
            out.append(
                {
                    "name": "frames of the spectrogram",
                    "statistic": f"{self.n_times_in_} samples per window at {self.fs_ or 1:g} Hz",
                    "threshold": "1.28 s per frame, at most half of the window",
                    "outcome": f"n_fft={spectrogram.n_fft_}, hop={spectrogram.hop_}",
                    "parameter": "SpectrogramTensor(n_fft=, hop=)",
                }
            )
        if not isinstance(model, CPEstimator):
            return out
        if model.rank_ < model.rank:
            out.append(
                {
                    "name": "rank",
                    "statistic": f"{model.n_samples_seen_} windows",
                    "threshold": "no more components than the windows can tell apart",
                    "outcome": f"{model.rank_} of {model.rank}",
                    "parameter": f"{type(model).__name__}(rank=)",
                }
            )
        if isinstance(model, PLC) and model.solver == "gls":
            if model.n_clusters is None:
                out.append(
                    {
                        "name": "clusters of the pseudo graph",
                        "statistic": f"{model.n_samples_seen_} windows",
                        "threshold": "4 windows per cluster, at most 100 clusters",
                        "outcome": str(model.n_clusters_),
                        "parameter": "PLC(n_clusters=)",
                    }
                )
            strength = model.nuisance_strength_
            out.append(
                {
                    "name": "strength of the nuisance metric",
                    "statistic": "reconstruction error over that of the CPD it starts from",
                    "threshold": f"{1 + model.epsilon:g}",
                    "outcome": "none" if strength is None else f"s={strength:.3g}",
                    "parameter": "PLC(epsilon=)",
                }
            )
        return out

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
        """Factors of the first block: by default channels, frequencies, quantiles over time."""
        check_is_fitted(self, "decompose_")
        model = self.decompose_
        coupled = isinstance(model, CPEstimator) and model.block_dims_ is not None
        factors: list[Any] = model.factors_
        return list(factors[0]) if coupled else list(factors)

    @property
    def labels_(self) -> NDArray[np.intp]:
        """Pseudo class of each fitted window."""
        check_is_fitted(self, "decompose_")
        found: NDArray[np.intp] = self.decompose_.labels_
        return found

    def save(self, path: str | PathLike[str]) -> None:
        """Write all parts to one model file, to be read by :func:`tensorcontrast.load_model`."""
        from tensorcontrast.io import model_files

        check_is_fitted(self, "decompose_")
        model_files.save_model(self, path)

    def _check_learned(self) -> None:
        blocks, wanted = self._blocks(), None
        self._maker, dims = blocks[0], tuple(blocks[0].output_shape_)
        if len(blocks) > 1:
            self._maker = SignalBlocks(tuple(blocks), check_scales(self.block_scales_, len(blocks)))
            wanted = self._maker.block_dims
            dims = (sum(int(np.prod(block)) for block in wanted),)
        for transformer in blocks:
            sizes = transformer.n_channels_in_, transformer.n_times_in_
            if sizes != (self.n_channels_in_, self.n_times_in_):
                raise InvalidInputError(
                    f"{type(transformer).__name__} of windows of {sizes[0]} channels and "
                    f"{sizes[1]} samples does not fit windows of {self.n_channels_in_} and "
                    f"{self.n_times_in_}; fit again"
                )
        model = self.decompose_
        found = model.block_dims_ if isinstance(model, CPEstimator) else wanted
        if tuple(self.decompose_.dims_) != dims or found != wanted:
            raise InvalidInputError(
                f"tensors of shape {dims}, in blocks {wanted}, do not fit a decomposition of "
                f"{tuple(self.decompose_.dims_)} in blocks {found}"
            )
        self._reader = read(self._maker, self.decompose_)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for pickling, without what can be rebuilt."""
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_reader"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the state, and rebuild what it leaves out."""
        super().__setstate__(state)
        if "decompose_" in vars(self):
            self._reader = read(self._maker, self.decompose_)

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


@dataclass(frozen=True)
class _Outcome:
    """What a fit has found: all learned attributes by name, and how Ctrl-C ended it, or ""."""

    attributes: dict[str, Any]
    interrupted: str


#: Parts whose parameters can be reached by name.
_NESTED = ("tensorize", "decompose")

#: What a verbose fit says while a transformer is fitted.
_STAGES = {SpectrogramTensor: "spectrogram", ConvolutionFeatures: "convolution features"}


def _default(part: str) -> Any:
    """Return what a part that is None stands for."""
    if part == "decompose":
        return PLC()
    return [SpectrogramTensor(n_quantiles=N_QUANTILES), ConvolutionFeatures()]


def _every(signals: Any, most: int) -> Array:
    """Return at most so many windows, evenly spaced, in memory."""
    some = signals[:: -(-len(signals) // most)]
    return np.asarray(some.compute() if is_dask(some) else some)


def _members(part: str, value: Any) -> list[tuple[str, Any]]:
    """Return a part, or its coupled blocks by their place, with the prefix of their parameters."""
    if isinstance(value, list | tuple):
        return [(f"{part}__{place}", one) for place, one in enumerate(value)]
    return [(part, value)]


def _takes_nuisance(decompose: Any) -> bool:
    """Whether the decomposition has a nuisance metric (E23), which needs windows without gaps."""
    able = isinstance(decompose, PLC) and decompose.solver == "gls"
    return able and decompose.missing == "error"


def _nuisance_differences(
    few: Array, maker: Any, augment: Any, tuning: FeaturesTuning = TUNING
) -> Array | None:
    """Differences between tensors of two draws of each step of an augmentation. Equation E23.

    None where no step changes anything.
    """
    steps = augment.steps if isinstance(augment, augmentations.Compose) else (augment,)
    if not steps:
        return None
    one = maker.transform(as_float(few[:1]))
    allowed = max(2, tuning.max_nuisance_values // (len(steps) * one.size))
    most = min(tuning.max_nuisance_windows, allowed)
    some = as_float(few[:: -(-len(few) // most)])
    rng = np.random.default_rng(0)
    out = np.empty((len(steps), len(some), *one.shape[1:]), one.dtype)
    for step, rows in zip(steps, out, strict=True):
        rows[...] = maker.transform(step(some, rng))
        rows -= maker.transform(step(some, rng))
    return out.reshape(-1, *one.shape[1:]) if out.any() else None


def _coupled(rows: Any, maker: Any, decompose: Any) -> Any:
    """Rows of coupled blocks as the decomposition takes them; anything else as it is."""
    if isinstance(maker, SignalBlocks) and isinstance(decompose, CPEstimator):
        return Joined(rows, maker.block_dims)
    return rows


def _is_recordings(X: Any) -> bool:
    """Whether X has a rate and channels of its own: recordings in memory or in a store."""
    return isinstance(X, Recordings) or (is_dask(getattr(X, "X", None)) and hasattr(X, "channels"))


def _tensors(
    signals: Any,
    tensorize: Any,
    augment: Any = None,
    seed: int = 0,
    size: BlockSize = BLOCK_SIZE,
) -> Any:
    """Return tensors that are made when they are needed, here or where the signals are."""
    if not is_dask(signals):
        return SpectrogramSource(signals, tensorize, augment, seed, size)
    from tensorcontrast.distributed.signals import spectrograms

    return spectrograms(signals, tensorize, augment, seed, size)
