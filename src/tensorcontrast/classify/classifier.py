"""ContrastiveClassifier: from windows of signals to classes, with few labels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from numbers import Real
from os import PathLike
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.exceptions import DataConversionWarning
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from tensorcontrast.classify import smoothing, suggest
from tensorcontrast.classify.block_rows import MAX_WINDOWS, ClassifierRows, learn_components
from tensorcontrast.classify.calibration import (
    expected_calibration_error,
    fit_temperature,
    reliability_curve,
)
from tensorcontrast.classify.linear import (
    fit_logistic,
    folds,
    held_out_scores,
    select_length,
)
from tensorcontrast.classify.timeline import Timeline
from tensorcontrast.errors import InvalidInputError
from tensorcontrast.features import ContrastiveFeatures, KeptRows
from tensorcontrast.io.model_files import SavedMixin
from tensorcontrast.live import Stream
from tensorcontrast.recordings import Recordings
from tensorcontrast.recordings.signals import as_signals
from tensorcontrast.utils import checks
from tensorcontrast.utils.arrays import evenly
from tensorcontrast.utils.estimators import (
    NotebookMixin,
    RebuiltMixin,
    assign_learned,
    changed,
    learned_attributes,
)
from tensorcontrast.utils.labels import (
    UNKNOWN,
    Labels,
    check_groups,
    is_target,
    label_array,
    read_labels,
)

__all__ = ["ContrastiveClassifier"]

Array = NDArray[Any]


class ContrastiveClassifier(
    SavedMixin, NotebookMixin, RebuiltMixin, ClassifierMixin, BaseEstimator
):
    """Classes of windows of a multichannel signal, learned from few labels.

    All windows train the features, without labels. The labelled ones train a logistic regression.
    It sees the features, standardised and of unit length, and up to 400 principal components of
    each of the coupled blocks that the features are made of; directions that vary with the
    augmentation of a window count less. With missing values it sees the features alone.
    Probabilities are calibrated by temperature scaling on labelled windows that were held out.

    Parameters
    ----------
    features : ContrastiveFeatures, optional
        The features. Default: ``ContrastiveFeatures()``.
    abstain : float, optional
        Probability below which :meth:`predict` gives no class but the unknown label: −1 where
        classes are numbers, "" where they are text, None where they are truth values.
    smooth : {"viterbi"}, optional
        Take neighbouring windows of a recording into account, by a hidden Markov model whose
        transitions are learned from the labels. Needs recordings that say where their windows are
        from (columns ``recording`` and ``start``). Default: each window for itself.
    dwell : float, optional
        Mean number of windows for which a class lasts, above 1, instead of learned transitions.
    random_state : int, RandomState or None
        Seeds the features, where they have no seed of their own, and the parts held out.

    Attributes
    ----------
    classes_ : (k,) array
        Classes as they were given: integers, text or truth values.
    extractor_ : ContrastiveFeatures
        The fitted features; ``extractor_.transform(X)`` gives them.
    coef_, intercept_ : (k, q) and (k,) arrays
        Of the logistic regression.
    temperature_ : float
        Softmax temperature.
    validation_ : dict
        ``accuracy``, ``log_loss`` and ``calibration_error`` on labelled windows that were held out
        (None where none could be), their number ``n_windows``, ``by``: "group" or "window", and
        their ``reliability`` curve (absent where none could be).
    n_labels_ : (k,) int array
        Labels of each class.
    row_length_ : float
        Length of the rows of the logistic regression, selected on held-out windows; a smaller one
        regularises more.
    stay_ : float or None
        Probability that the next window keeps the class, as the labels say; None where no recording
        has two labels.
    transitions_ : (k, k) array or None
        Probability of each class (column) in the window after one of each class (row); likewise.

    Examples
    --------
    >>> from tensorcontrast import PLC, ContrastiveClassifier, ContrastiveFeatures
    >>> from tensorcontrast.datasets import make_synthetic
    >>> rec = make_synthetic(n_samples=90, n_classes=3, random_state=0)
    >>> y = [int(c) if i % 3 == 0 else None for i, c in enumerate(rec.y)]  # 30 labels
    >>> features = ContrastiveFeatures(decompose=PLC(rank=8))
    >>> model = ContrastiveClassifier(features, random_state=0).fit(rec, y)
    >>> model.predict(rec[:4]).shape, model.predict_proba(rec[:4]).shape
    ((4,), (4, 3))
    """

    #: Learned attributes whose names do not end in an underscore.
    _learned_private: ClassVar[tuple[str, ...]] = ("_classifier_rows",)
    #: Makes the rows of the logistic regression; all that follows from the model is in it.
    _classifier_rows: ClassifierRows
    extractor_: Any
    classes_: Array
    coef_: Array
    n_labels_: Array
    stay_: float | None
    transitions_: Array | None
    feature_mean_: Array
    feature_deviation_: Array
    #: What :func:`.learn_components` returns; None with missing values.
    components_: dict[str, Any] | None
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "features": [ContrastiveFeatures, None],
        "abstain": [Interval(Real, 0, 1, closed="both"), None],
        "smooth": [StrOptions({"viterbi"}), None],
        "dwell": [Interval(Real, 1, None, closed="neither"), None],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        features: Any = None,
        *,
        abstain: float | None = None,
        smooth: str | None = None,
        dwell: float | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.features = features
        self.abstain = abstain
        self.smooth = smooth
        self.dwell = dwell
        self.random_state = random_state

    # ------------------------------------------------------------------------------- learning

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        groups: Any = None,
        init: ContrastiveFeatures | None = None,
        autosave: str | PathLike[str] | None = None,
    ) -> Self:
        """Learn from windows X [n, channel, time] or :class:`Recordings`, some of them labelled.

        Parameters
        ----------
        X : array or Recordings
            All windows, with and without a label.
        y : (n,) array-like, optional
            Class of each window; −1, None, NaN or "" for unknown. Default: the labels of the
            recordings, by the names of their classes.
        groups : (n,) array-like, optional
            Subject of each window. Windows are held out by group, so that probabilities are those
            of people who were not seen. Default: the groups of the recordings.
        init : fitted ContrastiveFeatures, optional
            Features to go on from; see :meth:`ContrastiveFeatures.fit`.
        autosave : path, optional
            Write the features to this file every five iterations; ``fit(X, y,
            init=load_model(path))`` goes on from there.

        Notes
        -----
        Ctrl-C leaves the estimator as it was.
        """
        checks.check_parameters(self)
        try:
            attributes = self._learn(X, y, groups, {"init": init, "autosave": autosave})
            assign_learned(self, attributes)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(
                f"{type(self).__name__}: fit was interrupted; nothing was learned, the estimator "
                "is as it was before fit"
            ) from None
        return self

    def _learn(self, X: Any, y: Any, groups: Any, options: dict[str, Any]) -> dict[str, Any]:
        """Return the learned attributes of a fit; what was learned before plays no part."""
        features = ContrastiveFeatures() if self.features is None else self.features
        rng = checks.generator(self.random_state)
        params: dict[str, Any] = {}
        if features.random_state is None and self.random_state is not None:
            params["random_state"] = int(rng.integers(2**31 - 1))
        extractor = changed(features, **params)
        given = _Given.read(X, y, groups, self.smooth is not None)
        signals = X if isinstance(X, Recordings) else given.signals
        kept = extractor.fit_and_keep(signals, windows=given.windows, **options)
        assert kept is not None  # these windows were asked for
        return self._learn_on(extractor, kept, given, rng)

    def _learn_on(
        self,
        extractor: ContrastiveFeatures,
        kept: KeptRows,
        given: _Given,
        rng: np.random.Generator,
    ) -> dict[str, Any]:
        """Return the learned attributes on fitted features."""
        some = evenly(len(given.signals), MAX_WINDOWS)
        components = learn_components(kept, some) if extractor.missing == "error" else None
        W = np.asarray(extractor.features_of_rows(kept.of(some)), dtype=np.float64)
        mean, deviation = W.mean(axis=0), W.std(axis=0)
        deviation = np.where(deviation > 0, deviation, 1.0)
        maker = ClassifierRows.from_learned(extractor, mean, deviation, components)
        rows = maker.of_rows(kept.of(given.labelled))
        return {
            "extractor_": extractor,
            "components_": components,
            "feature_mean_": mean,
            "feature_deviation_": deviation,
            "_classifier_rows": maker,
            **self._learn_classes(given, rows, rng),
            "n_features_in_": int(given.signals.shape[1]),
        }

    @classmethod
    def on_features(
        cls,
        features: ContrastiveFeatures,
        X: Any,
        y: Any = None,
        *,
        groups: Any = None,
        **params: Any,
    ) -> Self:
        """Return a classifier on fitted features, which stay as they are.

        Parameters
        ----------
        features : ContrastiveFeatures
            Fitted.
        X, y, groups
            As in :meth:`fit`.
        **params : Any
            Parameters of this class.
        """
        model = cls(clone(features), **params)
        checks.check_parameters(model)
        given = _Given.read(X, y, groups, model.smooth is not None)
        kept = features.keep(X, given.windows)
        rng = checks.generator(model.random_state)
        assign_learned(model, model._learn_on(features, kept, given, rng))
        return model

    def refit(self, X: Any, y: Any = None, *, groups: Any = None, rows: Any = None) -> Self:
        """Learn other labels with the features as they are, in a fraction of the time.

        For a few more labels after a look at the answers. Parameters as in :meth:`fit`; only the
        labelled windows of X are used.

        Parameters
        ----------
        X, y, groups
            As in :meth:`fit`.
        rows : (n, q) array, optional
            Rows of all windows, as :meth:`rows` returns them, where they were computed before.
        """
        check_is_fitted(self, "coef_")
        checks.check_parameters(self)
        given = _Given.read(X, y, groups, self.smooth is not None)
        self.extractor_.transform(X[:1])  # tells of another rate, other channels or lengths
        if rows is not None:
            rows = self._checked_rows(rows, len(given.signals))
        rng = checks.generator(self.random_state)
        if rows is None:
            labelled_rows = self._classifier_rows(given.signals[given.labelled])
        else:
            labelled_rows = np.asarray(rows[given.labelled], dtype=np.float64)
        found = self._learn_classes(given, labelled_rows, rng)
        assign_learned(self, {**learned_attributes(self), **found})
        return self

    def _learn_classes(
        self, given: _Given, rows: Array, rng: np.random.Generator
    ) -> dict[str, Any]:
        """Train the logistic regression, its temperature and the smoothing on labelled rows."""
        labels, groups, labelled = given.labels, given.groups, given.labelled
        codes = labels.codes[labelled]
        n_classes = len(labels.classes)
        own_groups = None if groups is None else groups[labelled]
        length, scores, judged = select_length(rows, codes, n_classes, own_groups, rng)
        coef, intercept = fit_logistic(rows, codes, n_classes, length)
        temperature = fit_temperature(scores[judged], codes[judged])
        by_group = own_groups is not None and len(np.unique(own_groups)) > 1
        by = "group" if by_group else "window"
        n_labels = np.bincount(codes, minlength=n_classes)
        prior = n_labels / n_labels.sum()
        stay, transitions = smoothing.learn_transitions(given.runs, labels.codes, prior)
        if self.smooth is not None and self.dwell is None and transitions is None:
            raise _no_transitions()
        return {
            "row_length_": length,
            "coef_": coef,
            "intercept_": intercept,
            "temperature_": temperature,
            "validation_": _validation(scores[judged] / temperature, codes[judged], by),
            "n_labels_": n_labels,
            "classes_": labels.classes,
            "stay_": stay,
            "transitions_": transitions,
        }

    def learn_transitions(self, runs: list[NDArray[np.intp]], codes: Array) -> Self:
        """Learn how classes follow each other, from labels of windows that do.

        ``fit`` does so from its windows. Where it was given some windows of longer recordings, this
        takes the labels of all of them.

        Parameters
        ----------
        runs : list of int arrays
            Windows that follow each other, in the order of time.
        codes : (n,) int array
            Place of the class of each window in ``classes_``; −1 for unknown.
        """
        prior = self.n_labels_ / self.n_labels_.sum()
        self.stay_, self.transitions_ = smoothing.learn_transitions(runs, codes, prior)
        return self

    def transitions(self) -> Array:
        """Return the probability of each class after each class, (k, k), that smoothing uses."""
        if self.dwell is not None:
            prior = self.n_labels_ / self.n_labels_.sum()
            return smoothing.dwell_matrix(float(self.dwell), prior)
        if self.transitions_ is None:
            raise _no_transitions()
        return self.transitions_

    # --------------------------------------------------------------------------------- answers

    def predict_proba(self, X: Any) -> Array:
        """Probability of each class (n, k), in the order of ``classes_``; calibrated.

        With ``smooth``, given all windows of the same run.
        """
        return self.answers(X)[1]

    def predict(self, X: Any) -> Array:
        """Class of each window, of the type of the labels; unknown where ``abstain`` says so.

        With ``smooth``, the most likely sequence of classes of each run of windows.
        """
        return self.answers(X)[0]

    def answers(self, X: Any) -> tuple[Array, Array]:
        """Class of each window as :meth:`predict` gives it, and the probability of all classes.

        Returns
        -------
        labels : (n,) array
        probability : (n, k) array
        """
        if "coef_" not in vars(self):
            check_is_fitted(self, "coef_")
        probability = self._probability(X)
        path = probability.argmax(axis=1)
        if self.smooth is not None:
            probability, path = self.smooth_runs(probability, _runs(X))
        return self._labels_of(path, probability), probability

    def _probability(self, X: Any) -> Array:
        """Probability (n, k) of each class, each window for itself."""
        return self._classifier_rows(self._checked_signals(X), self._probability_of_rows)

    def _probability_of_rows(self, rows: Array) -> Array:
        return softmax((rows @ self.coef_.T + self.intercept_) / self.temperature_)

    def _labels_of(self, path: NDArray[np.intp], probability: Array) -> Array:
        """Classes (n,) at these places, unknown where ``abstain`` says so."""
        found = self.classes_[path]
        sure = probability[np.arange(len(path)), path]
        unsure = np.isnan(sure) | (sure < (self.abstain or 0))  # NaN: of a stream
        if not unsure.any():
            return found
        kind = self.classes_.dtype.kind
        if kind == "b":
            found = found.astype(object)
        found[unsure] = None if kind == "b" else "" if kind == "U" else -1
        return found

    def stream(self, hop: int | None = None, *, hop_s: float | None = None) -> Stream:
        """Return an object that takes samples as they come, and gives classes of their windows.

        With ``smooth``, a window is judged with those before it; see :class:`.Stream`.

        Parameters
        ----------
        hop : int, optional
            Samples from the start of one window to that of the next. Default: the length of a
            window, so that windows do not overlap.
        hop_s : float, optional
            The same in seconds, rounded to whole samples, instead of ``hop``.

        Examples
        --------
        >>> from tensorcontrast import PLC, ContrastiveClassifier, ContrastiveFeatures
        >>> from tensorcontrast.datasets import make_synthetic
        >>> rec = make_synthetic(n_samples=60, n_classes=2, random_state=0)
        >>> features = ContrastiveFeatures(decompose=PLC(rank=4))
        >>> stream = ContrastiveClassifier(features, random_state=0).fit(rec).stream(hop=64)
        >>> [(found.start, found.probabilities.shape) for found in stream.push(rec.X[0])]
        [(0, (2,))]
        """
        check_is_fitted(self, "coef_")
        if self.smooth is not None:
            self.transitions()  # raises where there are none
        return Stream(self, hop, hop_s)

    def timeline(self, rec: Recordings) -> Timeline:
        """Answers for the windows of recordings, with their times.

        Examples
        --------
        ``model.timeline(rec).merged().write("answers.csv")`` writes what happens when.
        """
        labels, probability = self.answers(rec)
        return Timeline.from_answers(rec, labels, probability, self.classes_.tolist())

    def suggest(
        self,
        X: Any,
        n: int = 10,
        y: Any = None,
        *,
        groups: Any = None,
        exclude: Any = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> NDArray[np.intp]:
        """Windows to label next, the most useful first. Equation E24.

        As :func:`tensorcontrast.suggest_windows`, with the rows that the logistic regression sees
        and, where it was trained with 12 labels or more, its probabilities.

        Parameters
        ----------
        X : array or Recordings
            Windows to choose from.
        n : int, default=10
            Number of windows wanted. Fewer are returned where no more are left.
        y : (n_windows,) array-like, optional
            Labels so far, which are not suggested again; −1, None, NaN or "" for unknown. Default:
            the labels of the recordings.
        groups : (n_windows,) array-like, optional
            Recording or subject of each window; suggestions are spread over them. Default: none.
        exclude : int or bool array, optional
            Windows that must not be suggested, by their numbers or as a mask.
        random_state : int, RandomState or None
            Seed of the clustering.

        Returns
        -------
        (m,) int array
            Numbers of windows, m ≤ n.
        """
        check_is_fitted(self, "coef_")
        if y is None and isinstance(X, Recordings):
            y = X.y
        rows = self.rows(X).astype(np.float32)
        return suggest.order_rows(
            suggest.reduced_rows(rows),
            y,
            n,
            groups,
            exclude=exclude,
            # Too few labels have trained a model that is to say what it is unsure of.
            probability=self._probability_of_rows(rows)
            if self.n_labels_.sum() >= suggest.MIN_LABELS_FOR_MARGIN
            else None,
            random_state=random_state,
        )

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Share of labelled windows whose class is predicted; unknown answers count as wrong.

        ``y`` is as in :meth:`fit`; windows without a label are left out.
        """
        check_is_fitted(self, "coef_")
        labels = _labels(X, y, len(X))
        known = labels.codes >= 0
        if not known.any():
            raise InvalidInputError("y holds no label, so that nothing can be scored")
        theirs, ours = labels.classes, self.classes_
        if (theirs.dtype.kind == "U") != (ours.dtype.kind == "U"):
            raise InvalidInputError(
                f"the labels to score against are such as {theirs.tolist()[0]!r}, but the classes "
                f"of the model are such as {ours.tolist()[0]!r}; pass y= as it was in fit"
            )
        right = self.predict(X)[known] == theirs[labels.codes[known]]
        weight = None if sample_weight is None else np.asarray(sample_weight)[known]
        return float(np.average(right.astype(np.float64), weights=weight))

    def _checked_signals(self, X: Any) -> Array:
        """Signals of X, of the kind of those of the fit."""
        signals = _signals(X)
        if signals.shape[1] != self.n_features_in_:
            raise InvalidInputError(
                f"X has {signals.shape[1]} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input; they are the channels of windows "
                "[n, channel, time]"
            )
        return self.extractor_.checked_signals(X if isinstance(X, Recordings) else signals)

    def smooth_runs(
        self, probability: Array, runs: Iterable[NDArray[np.intp]]
    ) -> tuple[Array, NDArray[np.intp]]:
        """Return probabilities and classes of windows given the others of their run.

        Parameters
        ----------
        probability : (n, k) array
            Of each window alone, as ``predict_proba`` gives them without ``smooth``.
        runs : iterable of int arrays
            Windows that follow each other, in the order of time; every window is in one run.

        Returns
        -------
        probability : (n, k) array
            Posterior of each window, by the forward–backward algorithm.
        classes : (n,) int array
            Place in ``classes_`` of the most likely sequence, by Viterbi.
        """
        prior = self.n_labels_ / self.n_labels_.sum()
        # Not divided by the class shares: a temperature draws probabilities towards equal ones, not
        # towards the shares, and a rare class would win wherever windows say little.
        likelihood = np.log(np.maximum(probability, 1e-12))
        out, path = np.empty_like(probability), np.empty(len(probability), dtype=np.intp)
        transitions = self.transitions()
        for run in runs:
            out[run] = smoothing.posterior(likelihood[run], transitions, prior)
            path[run] = smoothing.viterbi(likelihood[run], transitions, prior)
        return out, path

    # ------------------------------------------------------------------------------------ rows

    def rows(self, X: Any) -> Array:
        """Rows (n, q) that the logistic regression sees; they do not depend on labels.

        Keep them to :meth:`refit` and :meth:`proba_of_rows` many times on the same windows.
        """
        if "coef_" not in vars(self):
            check_is_fitted(self, "coef_")
        return self._classifier_rows(self._checked_signals(X))

    def held_out(self, rows: Array, y: Any, groups: Any = None) -> tuple[Array, Array]:
        """Answers for labelled windows by models that have not seen them, as in ``validation_``.

        Parameters
        ----------
        rows : (n, q) array
            Rows of the labelled windows, as :meth:`rows` returns them.
        y : (n,) array-like
            Their classes, none of them unknown.
        groups : (n,) array-like, optional
            As in :meth:`fit`.

        Returns
        -------
        probability : (n, k) array
            In the order of ``classes_``.
        judged : (n,) bool array
            Whether the window could be held out.
        """
        check_is_fitted(self, "coef_")
        codes = np.searchsorted(self.classes_, np.asarray(y))
        rows, k = np.asarray(rows, dtype=np.float64), len(self.classes_)
        groups = None if groups is None else np.asarray(groups)
        fold_of = folds(codes, groups, checks.generator(self.random_state))
        scores, judged = held_out_scores(rows, codes, k, fold_of, self.row_length_)
        scores[~judged] = 0
        return np.asarray(softmax(scores / self.temperature_)), judged

    def features_and_rows(self, X: Any) -> tuple[Array, Array]:
        """Features (n, r) and :meth:`rows` (n, q) of windows, which are tensorized once."""
        check_is_fitted(self, "coef_")
        signals, extractor = self._checked_signals(X), self.extractor_
        if self._classifier_rows.components is None:
            return extractor.transform(signals), self._classifier_rows(signals)
        entries = extractor.rows(signals)
        return extractor.features_of_rows(entries), self._classifier_rows.of_rows(entries)

    def _checked_rows(self, rows: Any, n: int | None = None) -> Array:
        """Rows that a caller has kept; raise where they are not those of this classifier."""
        shape = (np.shape(rows)[0] if n is None and np.ndim(rows) else n, self.coef_.shape[1])
        found = rows if hasattr(rows, "dtype") else np.asarray(rows)
        if np.shape(found) != shape or found.dtype.kind != "f":
            raise InvalidInputError(
                f"rows holds {found.dtype} of shape {np.shape(found)}, not numbers of shape "
                f"{shape}; pass what rows(X) of this classifier returns"
            )
        return np.asarray(found)

    def proba_of_rows(self, rows: Array) -> Array:
        """Probability of each class (n, k) of windows whose :meth:`rows` are known.

        Each window for itself, whatever ``smooth`` is.
        """
        check_is_fitted(self, "coef_")
        return self._probability_of_rows(self._checked_rows(rows))

    # ----------------------------------------------------------------------------------- files

    def _rebuild(self) -> None:
        """Make what follows from the learned attributes."""
        if self.classes_.dtype == object:  # text, in a model file
            self.classes_ = self.classes_.astype(np.str_)
        self._classifier_rows = ClassifierRows.from_learned(
            self.extractor_, self.feature_mean_, self.feature_deviation_, self.components_
        )

    @property
    def fs_(self) -> float | None:
        """Sampling rate in Hz."""
        check_is_fitted(self, "coef_")
        rate: float | None = self.extractor_.fs_
        return rate

    @property
    def channels_(self) -> tuple[str, ...] | None:
        """Names of the channels."""
        check_is_fitted(self, "coef_")
        names: tuple[str, ...] | None = self.extractor_.channels_
        return names

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "coef_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.three_d_array = True
        tags.input_tags.allow_nan = getattr(self.features, "missing", "error") == "mask"
        tags.classifier_tags.multi_class = True
        return tags


def softmax(scores: Array) -> Array:
    """Probabilities (n, k) of scores."""
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def _no_transitions() -> InvalidInputError:
    return InvalidInputError(
        "smooth='viterbi': no recording has two labelled windows, so that nothing tells how long "
        "a class lasts; pass dwell= the mean number of windows, or label more"
    )


# ------------------------------------------------------------------------------------- inputs


@dataclass(frozen=True)
class _Given:
    """What ``fit`` was given, checked."""

    signals: Array
    labels: Labels
    groups: Array | None
    runs: list[NDArray[np.intp]]

    @property
    def labelled(self) -> NDArray[np.intp]:
        """Windows that have a label."""
        return np.flatnonzero(self.labels.codes >= 0)

    @property
    def windows(self) -> NDArray[np.intp]:
        """Windows that are learned from."""
        return np.union1d(evenly(len(self.signals), MAX_WINDOWS), self.labelled)

    @classmethod
    def read(cls, X: Any, y: Any, groups: Any, ordered: bool) -> _Given:
        """Read signals, labels and groups; ``ordered`` where neighbours must be known."""
        signals = _signals(X)
        labels = _labels(X, y, len(signals))
        _check_classes(labels)
        if groups is None and isinstance(X, Recordings):
            groups = X.groups
        if groups is not None:
            groups = check_groups(groups, len(signals))
        runs = list(_runs(X)) if ordered or "recording" in getattr(X, "columns", {}) else []
        return cls(signals, labels, groups, runs)


def _signals(X: Any) -> Array:
    """Signals [n, channel, time]; arrays of objects that are all numbers become numbers."""
    if isinstance(X, Recordings):
        return X.X
    if isinstance(X, np.ndarray) and X.dtype == object and X.ndim == 3:
        X = X.astype(np.float64)
    if getattr(X, "ndim", None) == 1:
        raise InvalidInputError(
            f"X has one dimension {np.shape(X)}, but [n, channel, time] is needed. Reshape your "
            "data: for one window of one channel use X[np.newaxis, np.newaxis]"
        )
    return as_signals(X)


def _labels(X: Any, y: Any, n_windows: int) -> Labels:
    """Labels that were passed, or those of the recordings by the names of their classes."""
    if y is None and isinstance(X, Recordings) and X.y is not None:
        if X.classes is None:
            return read_labels(X.y, n_windows)
        return read_labels(np.array([*X.classes, ""])[X.y], n_windows, declared=X.classes)
    if y is None:
        raise InvalidInputError(
            "ContrastiveClassifier requires y to be passed, but the target y is None; pass one "
            f"label per window, and {UNKNOWN} for unknown"
        )
    if is_target(y):
        raise InvalidInputError(
            "Unknown label type: y holds numbers with fractions or several columns (a continuous "
            "or multi-output target); pass one class per window, as an integer or text"
        )
    if label_array(y).ndim == 2:
        checks.warn(
            "A column-vector y was passed when a 1d array was expected; its labels are used, and "
            "y.ravel() passes them as such",
            DataConversionWarning,
        )
    labels = read_labels(y, n_windows)
    labels.check_signs()
    return labels


def _check_classes(labels: Labels) -> None:
    """Raise where there are not two classes to tell apart."""
    if not len(labels.classes):
        raise InvalidInputError(
            f"none of the {len(labels.codes)} windows has a label; label some windows of at least "
            f"two classes ({UNKNOWN} stands for unknown)"
        )
    if len(labels.classes) == 1:
        raise InvalidInputError(
            f"all {int((labels.codes >= 0).sum())} labels are of one class, "
            f"{labels.classes.tolist()[0]!r}; a classifier needs labels of at least two classes"
        )


def _runs(X: Any) -> Iterator[NDArray[np.intp]]:
    """Windows that follow each other."""
    columns = X.columns if isinstance(X, Recordings) else {}
    if "recording" not in columns:
        raise InvalidInputError(
            "smooth='viterbi' needs to know which windows follow each other: pass Recordings with "
            "the column 'recording' and, where windows are not in order, 'start'"
        )
    return smoothing.runs_of(columns["recording"], columns.get("start"), X.n_times)


def _validation(scores: Array, codes: Array, by: str) -> dict[str, Any]:
    """How well held-out windows were answered; None where there were none."""
    out: dict[str, Any] = {"n_windows": len(codes), "by": by}
    if not len(codes):
        return out | {"accuracy": None, "log_loss": None, "calibration_error": None}
    logs = log_softmax(scores, axis=1)
    right = logs.argmax(axis=1) == codes
    curve = reliability_curve(np.exp(logs.max(axis=1)), right)
    return out | {
        "reliability": {name: values.tolist() for name, values in curve.items()},
        "accuracy": float(right.mean()),
        "log_loss": float(-logs[np.arange(len(codes)), codes].mean()),
        "calibration_error": expected_calibration_error(np.exp(logs.max(axis=1)), right),
    }
