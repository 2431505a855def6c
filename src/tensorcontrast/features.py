"""From raw signals to features in one estimator: augment → coupled blocks → decomposition."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from numbers import Integral, Real
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from tensorcontrast import augment as augmentations
from tensorcontrast.decompose import PLC
from tensorcontrast.decompose.base import CPEstimator
from tensorcontrast.decompose.diagnosis import Diagnosis
from tensorcontrast.decompose.inputs import Joined
from tensorcontrast.errors import InvalidInputError
from tensorcontrast.io.model_files import SavedMixin
from tensorcontrast.live import Stream
from tensorcontrast.readout import Readout
from tensorcontrast.recordings import Recordings
from tensorcontrast.recordings.signals import (
    as_signals,
    check_shape,
    some_windows,
    warn_if_transposed,
    without_gaps,
)
from tensorcontrast.solvers.dask_windows import DaskWindows, map_signals
from tensorcontrast.solvers.windows import FileWindows, forget_pages, is_dask
from tensorcontrast.tensorize.blocks import SignalBlocks
from tensorcontrast.tensorize.convolution import MAX_LEARNING_WINDOWS, ConvolutionFeatures
from tensorcontrast.tensorize.spectrogram import SpectrogramTensor
from tensorcontrast.utils import checks, labels, threads
from tensorcontrast.utils.arrays import as_array, as_float
from tensorcontrast.utils.estimators import (
    ComponentNamesMixin,
    NotebookMixin,
    RebuiltMixin,
    assign_learned,
    changed,
    changed_fitted,
)
from tensorcontrast.utils.progress import stage

Array = NDArray[Any]

N_QUANTILES = 4
"""Quantiles over time of the default spectrogram block."""

MAX_VALUES_IN_MEMORY = 2**27
"""Values of the rows up to which a fit keeps them in memory (512 MiB in float32)."""

MAX_NUISANCE_WINDOWS, MAX_NUISANCE_VALUES = 256, 2**24
"""Windows whose augmentations give the nuisance covariance, and values of all their rows."""

SIGNAL_VALUES = 2**24
"""Values of the signals that are read from a file at a time, and of the rows that are computed
between two writes."""


@dataclass(frozen=True)
class KeptRows:
    """Rows of a fit that further estimators learn from.

    Attributes
    ----------
    signals : SignalBlocks
    index : (m,) int array
        Which windows of the fit, increasing.
    rows : (m, i) array
        Their entries, all blocks side by side.
    differences : (k, i) array or None
        Differences between two draws of the augmentation of a window; None where it does nothing.
    """

    signals: SignalBlocks
    index: NDArray[np.intp]
    rows: Array
    differences: Array | None

    def of(self, windows: NDArray[np.intp]) -> Array:
        """Rows of some of the kept windows."""
        return np.asarray(self.rows[np.searchsorted(self.index, windows)])


class ContrastiveFeatures(
    RebuiltMixin, SavedMixin, NotebookMixin, ComponentNamesMixin, TransformerMixin, BaseEstimator
):
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
    factors_ : list of arrays
        Factors of the first block: by default weights of channels, of frequencies and of
        quantiles over time, one column per component.
    channels_ : tuple of str
    labels_ : (n,) int array
        Pseudo class of each fitted window.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from tensorcontrast import PLC, ContrastiveFeatures
    >>> from tensorcontrast.datasets import make_synthetic
    >>> rec = make_synthetic(n_samples=90, n_classes=3, random_state=0)
    >>> features = ContrastiveFeatures(fs=rec.fs, decompose=PLC(rank=8), random_state=0)
    >>> model = make_pipeline(features, LogisticRegression(max_iter=1000)).fit(rec.X, rec.y)
    >>> model.predict(rec.X[:4]).shape
    (4,)
    """

    #: Learned attributes whose names do not end in an underscore.
    _learned_private: ClassVar[tuple[str, ...]] = ("_signal_blocks", "_readout")
    _signal_blocks: SignalBlocks
    #: The affine map from signals to features; None where features are no such map.
    _readout: Readout | None
    #: What the command line says about the windows of the fit; None where nothing is said.
    fitted_on_: dict[str, Any] | None
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "fs": [Interval(Real, 0, None, closed="neither"), None],
        "channels": ["array-like", None],
        "tensorize": [HasMethods(["fit", "transform"]), list, tuple, None],
        "augment": [callable, None],
        "decompose": [HasMethods(["fit", "transform"]), None],
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
        self.missing = missing
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        init: Any = None,
        autosave: str | PathLike[str] | None = None,
    ) -> Self:
        """Learn from signals X [n, channel, time] or :class:`Recordings`.

        Parameters
        ----------
        X : array-like [n, channel, time] or Recordings
            Signals. The labels of ``Recordings`` are never used unless they are passed as ``y``.
        y : array-like (n,), optional
            Labels for the decomposition: see :meth:`PLC.fit`.
        init : fitted ContrastiveFeatures, optional
            Go on from this model, such as one of ``autosave``, with its transformers.
        autosave : path, optional
            Write a whole model to this file every five iterations, in one piece or not at all.
            After a crash, ``fit(X, init=load_model(path))`` goes on from there.

        Returns
        -------
        self

        Notes
        -----
        Ctrl-C leaves a usable estimator whose ``decompose_.interrupted_`` is true, once the
        decomposition has done an iteration; before, the estimator stays as it was.
        """
        self.fit_and_keep(X, y, init=init, autosave=autosave)
        return self

    def fit_and_keep(
        self,
        X: Any,
        y: Any = None,
        windows: NDArray[np.intp] | None = None,
        *,
        init: Any = None,
        autosave: str | PathLike[str] | None = None,
    ) -> KeptRows | None:
        """Fit, and return what further estimators learn from, so that it is computed once.

        Parameters
        ----------
        X, y, init, autosave
            As in :meth:`fit`.
        windows : (m,) int array, optional
            Windows whose rows are wanted, increasing. Default: none.
        """
        checks.check_parameters(self)
        name = type(self).__name__
        try:
            attributes, kept, interrupted = self._learn(X, y, windows, init, autosave)
            assign_learned(self, attributes)
        except KeyboardInterrupt as error:
            message = str(error) or (
                "fit was interrupted while the signals were prepared; nothing was learned, the "
                "estimator is as it was before fit"
            )
            raise KeyboardInterrupt(f"{name}: {message}") from None
        if interrupted:
            raise KeyboardInterrupt(f"{name}: {interrupted}")
        return kept

    def keep(self, X: Any, windows: NDArray[np.intp]) -> KeptRows:
        """Return of some windows of X what :meth:`fit_and_keep` returns, without a fit."""
        signals, blocks = np.asarray(self.checked_signals(X)), self.signal_blocks
        differences = None
        if self.missing == "error" and self.augment_ is not None:
            differences = nuisance_differences(some_windows(signals), blocks, self.augment_)
        return KeptRows(blocks, windows, self.rows(signals[windows]), differences)

    def _learn(
        self, X: Any, y: Any, windows: Any, init: Any, autosave: Any
    ) -> tuple[dict[str, Any], KeptRows | None, str]:
        """Return the learned attributes, rows of windows, and how Ctrl-C has ended the fit."""
        signals, fs, channels = self._signals(X)
        n = len(signals)
        if channels is None and not _is_recordings(X):  # these have said so themselves
            warn_if_transposed(signals.shape)
        if n < 2:
            raise InvalidInputError(
                f"n_samples={n}: a fit needs at least 2 windows, and X has shape "
                f"{tuple(signals.shape)}; cut long recordings into windows, such as by "
                "Recordings.read(path, window_s=10) or Recordings.from_signals"
            )
        rng = checks.generator(self.random_state)
        decompose = self._decomposition(rng)
        transformers = self._transformers(decompose, fs)
        labels.check_length(y, n)
        extra: dict[str, Any] = {}
        ours = isinstance(decompose, CPEstimator)
        if ours:  # wrong labels are reported before any work
            y = decompose._read_labels(y, n)
            extra = {"init": None if init is None else getattr(init, "decompose_", init)}
        elif is_dask(signals) or init is not None or autosave is not None:
            raise InvalidInputError(
                f"{type(decompose).__name__} takes neither Dask arrays nor init= and autosave=; "
                "CPD and PLC do"
            )
        few = some_windows(signals)
        few = as_array(few.compute() if is_dask(few) else few)
        show = bool(self.verbose)
        kept = None
        with (
            threads.jobs(self.n_jobs),
            tempfile.TemporaryDirectory(prefix="tensorcontrast-") as folder,
        ):
            if init is None:
                blocks = self._fit_transformers(transformers, signals, few)
                augment = self.augment
                if augment is None:
                    augment = augmentations.standard(as_float(np.nan_to_num(few)))
            else:
                blocks, augment = self._parts_of(init, signals), init.augment_
            transformers = list(blocks.transformers)
            attributes = {
                "tensorize_": transformers if len(transformers) > 1 else transformers[0],
                "augment_": augment,
                "_signal_blocks": blocks,
                "n_channels_in_": int(signals.shape[1]),
                "n_times_in_": int(signals.shape[2]),
                "channels_": channels,
                "fs_": fs,
                "fitted_on_": None,
            }

            def with_core(core: Any) -> dict[str, Any]:
                readout = Readout.from_parts(blocks, core)
                return {**attributes, "decompose_": core, "_readout": readout}

            def save(core: Any) -> None:
                model = copy(self)
                assign_learned(model, with_core(core))
                model.save(autosave)

            if autosave is not None:
                extra["autosave"] = save
            takes_nuisance = isinstance(decompose, PLC) and decompose.missing == "error"
            differences = None
            if takes_nuisance or (windows is not None and self.missing == "error"):
                with stage("nuisance covariance", show=show):
                    differences = nuisance_differences(few, blocks, augment)
            if takes_nuisance and differences is not None:
                extra["nuisance"] = Joined(differences, blocks.dims)
            if _needs_view(decompose):
                extra["view"] = _view(signals, augment, rng, blocks, decompose)
            with stage("tensors", show=show, total=n) as advance:
                dtype = np.dtype(getattr(decompose, "dtype", None) or blocks.dtype)
                rows = _tensors(signals, blocks, dtype, Path(folder), advance)
            if windows is not None:
                some = rows[windows] if isinstance(rows, np.ndarray) else rows.take(windows)
                kept = KeptRows(blocks, windows, some, differences)
            interrupted = ""
            try:
                # Decompositions that have progress bars of their own show these.
                with stage("decomposition", show=show, live=not hasattr(decompose, "verbose")):
                    decompose.fit(_as_taken(rows, blocks, decompose), y, **extra)
            except KeyboardInterrupt as error:
                if not getattr(decompose, "interrupted_", False):
                    raise
                interrupted = str(error) or "interrupted; it can be used"
        if show and hasattr(decompose, "verbose"):  # this fit was to be shown, not others
            before = getattr(self.decompose, "verbose", False)
            decompose = changed_fitted(decompose, verbose=before)
        return with_core(decompose), kept, interrupted

    def _fit_transformers(self, transformers: list[Any], signals: Any, few: Array) -> SignalBlocks:
        """Let each transformer learn from some windows."""
        unit: float | None = None
        # A mapped file is not read as a whole: every block is checked when its turn comes.
        part = is_dask(signals) or isinstance(signals, np.memmap)
        for i, transformer in enumerate(transformers):
            name = _STAGES.get(type(transformer), "tensors")
            with stage(name, show=bool(self.verbose)):
                if isinstance(transformer, ConvolutionFeatures) and unit is not None:
                    transformer._fit_in_unit(_every(signals, MAX_LEARNING_WINDOWS), unit)
                    continue
                transformer.fit(few if part else signals)
                if isinstance(transformer, SpectrogramTensor):
                    transformers[i] = transformer._in_units_of(few)
                    unit = transformers[i].unit_  # all blocks see the same numbers
        return SignalBlocks(tuple(transformers))

    def _parts_of(self, init: Any, signals: Any) -> SignalBlocks:
        """Return the fitted blocks of another model, for signals of the same kind."""
        if not isinstance(init, ContrastiveFeatures) or not hasattr(init, "decompose_"):
            raise InvalidInputError(
                f"init is {type(init).__name__}; a fitted ContrastiveFeatures is needed"
            )
        if tuple(signals.shape[1:]) != (init.n_channels_in_, init.n_times_in_):
            raise InvalidInputError(
                f"init was fitted on windows of {init.n_channels_in_} channels and "
                f"{init.n_times_in_} samples, and X has {tuple(signals.shape[1:])}; fit without it"
            )
        return init._signal_blocks

    def _decomposition(self, rng: np.random.Generator) -> Any:
        """Return the unfitted decomposition, with seed, gaps and progress as they are here."""
        given = self.decompose or PLC()
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
                "use SpectrogramTensor with CPD or PLC, or fill the gaps"
            )
        return self.missing == "mask"

    def _transformers(self, decompose: Any, fs: float | None) -> list[Any]:
        """Return unfitted transformers of the blocks, with rate and threads where they take any."""
        able = _takes_blocks(decompose)
        given = self.tensorize
        if given is None:
            given = [SpectrogramTensor(n_quantiles=N_QUANTILES), ConvolutionFeatures()]
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

        Features of a window agree to 1e-5 of the length of the row in float32, and to 1e-13 in
        float64, whatever it is transformed with: alone, in a batch or in a chunk of a Dask array.
        The features of a Dask array are a Dask array.
        """
        if "decompose_" not in vars(self):
            check_is_fitted(self, "decompose_")
        signals = self.checked_signals(X)
        if is_dask(signals):
            dtype = getattr(getattr(self.decompose_, "center_", None), "dtype", np.float32)
            return map_signals(signals, self._features_of, self._n_features_out, dtype)
        with threads.jobs(self.n_jobs):
            parts = [self._features_of(part) for part in _parts(signals)]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    @property
    def signal_blocks(self) -> SignalBlocks:
        """The fitted transformers, as what turns signals into values and rows."""
        check_is_fitted(self, "decompose_")
        return self._signal_blocks

    @property
    def readout(self) -> Readout | None:
        """The affine map from windows to features; None where ``transform`` is no such map."""
        check_is_fitted(self, "decompose_")
        readout = self._readout
        exact = readout is not None and readout.is_exact and self.missing == "error"
        return readout if exact else None

    def rows(self, signals: Array) -> Array:
        """Entries (n, i) of signals in memory, all blocks side by side."""
        with threads.jobs(self.n_jobs):
            return self.signal_blocks.rows(signals)

    def features_of_rows(self, rows: Array) -> Array:
        """Features (n, r) of windows whose :meth:`rows` are known."""
        return _features_of_rows(rows, self.signal_blocks, self.decompose_)

    def _features_of(self, signals: Array) -> Array:
        """Features (n, r) of signals in memory."""
        readout = self.readout
        if readout is not None:
            return readout.transform(signals)
        blocks, decompose = self._signal_blocks, self.decompose_
        return _features_of_rows(blocks.rows(signals), blocks, decompose)

    def stream(self, hop: int | None = None, *, hop_s: float | None = None) -> Stream:
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
        >>> from tensorcontrast import PLC, ContrastiveFeatures
        >>> from tensorcontrast.datasets import make_synthetic
        >>> rec = make_synthetic(n_samples=60, random_state=0)
        >>> model = ContrastiveFeatures(decompose=PLC(rank=4), random_state=0)
        >>> stream = model.fit(rec).stream(hop=64)
        >>> [(found.start, found.features.shape) for found in stream.push(rec.X[0])]
        [(0, (4,))]
        """
        check_is_fitted(self, "decompose_")
        return Stream(self, hop, hop_s)

    def checked_signals(self, X: Any) -> Array:
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

    def tensors(self, X: Any) -> Array | list[Array]:
        """Tensors of signals, in the units of their transformers; a list for coupled blocks."""
        check_is_fitted(self, "decompose_")
        blocks = self._signal_blocks
        found = blocks.split(blocks.rows(np.asarray(self._signals(X)[0])))
        return found if len(found) > 1 else found[0]

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
        """Say whether the features can be trusted: do they come back, what do they explain.

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
        if not isinstance(self.decompose_, CPEstimator):
            raise InvalidInputError(
                f"{type(self.decompose_).__name__} has no components to diagnose; CPD, ATD and PLC "
                "do"
            )
        if groups is None and _is_recordings(X):
            groups = X.groups
        tensors, some, extra = self.decomposed(X, random_state)
        for name, value in (("groups", groups), ("y", y)):
            labels.check_length(value, len(X), name)
            extra[name] = None if value is None else np.asarray(value)[some]
        counts = {"n_seeds": n_seeds, "n_splits": n_splits, "random_state": random_state}
        with threads.jobs(self.n_jobs):
            return self.decompose_.diagnose(tensors, **extra, **counts)

    def decomposed(self, X: Any, seed: int = 0) -> tuple[Any, slice, dict[str, Any]]:
        """Return what the decomposition is fitted to: tensors in memory, of which windows, extras.

        Of more windows than fit into memory as tensors, an even sample is used.
        """
        decompose, blocks = self.decompose_, self._signal_blocks
        signals = self._signals(X)[0]
        if is_dask(signals):
            raise InvalidInputError(
                "the model is fitted several times, in this process; pass some of the "
                "windows of the Dask array, in memory"
            )
        some = slice(None, None, -(-len(signals) * blocks.size // MAX_VALUES_IN_MEMORY))
        signals, extra = signals[some], {}
        with threads.jobs(self.n_jobs):
            tensors = _as_taken(blocks.rows(signals), blocks, decompose)
            if _needs_view(decompose):
                rng = np.random.default_rng(seed)
                extra["view"] = _view(signals, self.augment_, rng, blocks, decompose)
            if isinstance(decompose, PLC) and decompose.missing == "error":
                few = some_windows(signals)
                differences = nuisance_differences(few, blocks, self.augment_)
                if differences is not None:
                    extra["nuisance"] = Joined(differences, blocks.dims)
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
            signals = as_signals(X)
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

    def _rebuild(self) -> None:
        """Make what follows from the fitted parts."""
        self._signal_blocks = SignalBlocks(tuple(self._blocks()))
        self._readout = Readout.from_parts(self._signal_blocks, self.decompose_)

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


#: What a verbose fit says while a transformer is fitted.
_STAGES = {SpectrogramTensor: "spectrogram", ConvolutionFeatures: "convolution features"}


def _every(signals: Any, most: int) -> Array:
    """Return at most so many windows, evenly spaced, in memory."""
    some = signals[:: -(-len(signals) // most)]
    return np.asarray(some.compute() if is_dask(some) else some)


def _takes_blocks(decompose: Any) -> bool:
    """Whether a decomposition is fitted to coupled blocks; others may say so of themselves."""
    return isinstance(decompose, CPEstimator) or getattr(decompose, "takes_blocks", False)


def _needs_view(decompose: Any) -> bool:
    """Whether a decomposition is fitted to an augmented view as well."""
    return bool(getattr(decompose, "_needs_view", not isinstance(decompose, CPEstimator)))


def nuisance_differences(few: Array, blocks: SignalBlocks, augment: Any) -> Array | None:
    """Differences (m, i) between rows of two draws of each step of an augmentation. Equation E23.

    None where no step changes anything.
    """
    steps = augment.steps if isinstance(augment, augmentations.Compose) else (augment,)
    if not steps:
        return None
    allowed = max(2, MAX_NUISANCE_VALUES // (len(steps) * blocks.size))
    most = min(MAX_NUISANCE_WINDOWS, allowed)
    some = as_float(few[:: -(-len(few) // most)])
    rng = np.random.default_rng(0)
    parts = []
    for step in steps:
        first, second = step(some, rng), step(some, rng)
        parts.append(blocks.rows(first) - blocks.rows(second))
    out = np.concatenate(parts)
    return out if out.any() else None


def _view(signals: Any, augment: Any, rng: np.random.Generator, blocks: Any, decompose: Any) -> Any:
    """Rows of an augmented view, with the gaps of the signals; drawn anew where that is wanted."""

    def draw(generator: np.random.Generator) -> Any:
        X = as_float(np.asarray(signals))
        if blocks.missing == "error":
            changed_signals = np.asarray(augment(checks.read_only(X), generator))
        else:
            gaps = np.isnan(X)
            changed_signals = np.where(gaps, np.nan, augment(without_gaps(X), generator))
        return _as_taken(blocks.rows(changed_signals.astype(X.dtype)), blocks, decompose)

    return draw if getattr(decompose, "fresh_views", False) else draw(rng)


def _as_taken(rows: Any, blocks: SignalBlocks, decompose: Any) -> Any:
    """Rows as the decomposition takes them: ours with their shapes, others as tensors."""
    if isinstance(decompose, CPEstimator):
        return Joined(rows, blocks.dims)
    parts = blocks.split(rows)
    return parts if len(parts) > 1 else parts[0]


def _features_of_rows(rows: Array, blocks: SignalBlocks, decompose: Any) -> Array:
    return checks.plain_output(decompose, _as_taken(rows, blocks, decompose))


def _parts(signals: Any) -> Any:
    """Signals in memory: all of an array, of a mapped file some at a time."""
    if not isinstance(signals, np.memmap):
        return [signals]
    step = max(1, SIGNAL_VALUES // max(1, int(np.prod(signals.shape[1:]))))

    def read(start: int) -> Array:
        part = np.array(signals[start : start + step])
        forget_pages(signals)
        return part

    return (read(start) for start in range(0, len(signals), step))


def _tensors(
    signals: Any,
    blocks: SignalBlocks,
    dtype: np.dtype[Any],
    folder: Path,
    advance: Callable[[int], None] | None,
) -> Any:
    """Rows of all windows: in memory, or in a scratch file where they are many, or on Dask."""
    if is_dask(signals):
        return DaskWindows.from_signals(signals, blocks, dtype)
    n = len(signals)
    shape = (n, blocks.size)
    if n * blocks.size <= MAX_VALUES_IN_MEMORY:
        out = np.empty(shape, dtype)
    else:
        out = np.memmap(folder / "rows", dtype, "w+", shape=shape)
    at, step = 0, max(1, SIGNAL_VALUES // blocks.size)
    for part in _parts(signals):
        for start in range(0, len(part), step):
            some = part[start : start + step]
            out[at : at + len(some)] = blocks.rows(some, advance)
            at += len(some)
        if isinstance(out, np.memmap):
            out.flush()
            forget_pages(out)
    if not isinstance(out, np.memmap):
        return out
    return FileWindows((out,), dtype, nan=blocks.missing == "mask")


def _is_recordings(X: Any) -> bool:
    """Whether X has a rate and channels of its own: recordings in memory or in a store."""
    return isinstance(X, Recordings) or (is_dask(getattr(X, "X", None)) and hasattr(X, "channels"))
