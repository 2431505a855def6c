"""How features are judged: splits without shared subjects, label budgets, a linear probe."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorcontrast.errors import InvalidInputError, TensorContrastWarning
from tensorcontrast.recordings import Recordings
from tensorcontrast.utils import threads
from tensorcontrast.utils.labels import read_labels

__all__ = [
    "ProbeResult",
    "Split",
    "atd_har_split",
    "fitting_budget",
    "label_budget",
    "linear_probe",
    "official_split",
    "subject_split",
    "train_test_split",
]

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Split:
    """Sorted positions of windows: without labels, with labels for training, and for testing.

    Examples
    --------
    >>> from tensorcontrast.datasets import make_synthetic
    >>> from tensorcontrast.evaluate import subject_split
    >>> rec = make_synthetic(n_samples=60, n_channels=2, n_times=32, random_state=0)
    >>> split = subject_split(rec)
    >>> set(rec.groups[split.train]) & set(rec.groups[split.test])
    set()
    """

    unlabelled: IntArray
    train: IntArray
    test: IntArray
    name: str = ""

    def __repr__(self) -> str:
        return (
            f"Split({self.name}: {len(self.unlabelled)} unlabelled, {len(self.train)} train, "
            f"{len(self.test)} test)"
        )


@dataclass(frozen=True)
class ProbeResult:
    """What a linear classifier on the features achieves on the test windows.

    Examples
    --------
    >>> from tensorcontrast.evaluate import linear_probe
    >>> features, y = np.repeat([[0.0, 1.0], [5.0, 1.5]], 10, axis=0), np.repeat([0, 1], 10)
    >>> found = linear_probe(features[::2], y[::2], features[1::2], y[1::2])
    >>> found.accuracy, found.macro_f1, found.n_train, found.n_test
    (1.0, 1.0, 10, 10)
    >>> found.predictions.tolist()
    [0, 0, 0, 0, 0, 1, 1, 1, 1, 1]
    """

    accuracy: float
    balanced_accuracy: float
    macro_f1: float
    #: Area under the ROC curve of each class against the others, averaged; None without scores.
    macro_auc: float | None
    predictions: IntArray
    n_train: int
    n_test: int


def subject_split(
    recordings: Recordings,
    unlabelled: float = 0.70,
    train: float = 0.15,
    test: float = 0.15,
    seed: int | np.random.Generator = 0,
    *,
    allow_ungrouped: bool = False,
) -> Split:
    """Split into unlabelled, train and test windows so that no group is in two parts.

    Groups are drawn at random; the number of groups in a part is the share of all groups, rounded
    so that the numbers add up and no part is empty.

    Parameters
    ----------
    recordings : Recordings
        With at least three groups.
    unlabelled, train, test : float
        Shares, which must add up to 1.
    seed : int or Generator
        Seed.
    allow_ungrouped : bool
        Split recordings without groups window by window. Windows that overlap or come from one
        subject then end up in several parts, and results look better than they are.

    Examples
    --------
    >>> rec = Recordings(np.zeros((20, 1, 4)), groups=np.repeat(np.arange(10), 2))
    >>> subject_split(rec)
    Split(subjects: 14 unlabelled, 4 train, 2 test)
    """
    shares = np.array([unlabelled, train, test], dtype=np.float64)
    if not np.isfinite(shares).all() or (shares <= 0).any() or abs(shares.sum() - 1) > 1e-9:
        raise InvalidInputError(
            f"unlabelled={unlabelled}, train={train} and test={test} must be positive and add up "
            "to 1"
        )
    if recordings.groups is not None:
        groups = recordings.groups
    elif allow_ungrouped:
        groups = np.arange(len(recordings))
    else:
        raise InvalidInputError(
            "these recordings have no groups, so windows of one subject could be in two parts; "
            "give groups=, or pass allow_ungrouped=True to split window by window"
        )
    names, code = np.unique(groups, return_inverse=True)
    if len(names) < 3:
        raise InvalidInputError(f"three parts need at least 3 groups, but there are {len(names)}")
    counts = _rounded(shares * len(names))
    order = np.random.default_rng(seed).permutation(len(names))
    part_of = np.empty(len(names), dtype=np.int64)
    part_of[order] = np.repeat([0, 1, 2], counts)
    parts = [np.flatnonzero(part_of[code] == part).astype(np.int64) for part in range(3)]
    name = "subjects" if recordings.groups is not None else "samples"
    return Split(parts[0], parts[1], parts[2], name)


def atd_har_split(recordings: Recordings, seed: int | np.random.Generator = 0) -> Split:
    """Split UCI HAR as the authors of ATD do.

    The official training subjects are unlabelled; the windows of the official test subjects are
    halved at random into train and test, stratified by nothing. Windows of one subject, which
    overlap by half, are thus in both train and test: use :func:`subject_split` for honest numbers
    and this one to compare with published ones.

    Examples
    --------
    >>> from tensorcontrast import Recordings
    >>> official = np.repeat([0, 1], [12, 8])  # windows of training and of test subjects
    >>> rec = Recordings(np.zeros((20, 1, 4)), columns={"split": official})
    >>> atd_har_split(rec)
    Split(ATD authors (HAR): 12 unlabelled, 4 train, 4 test)
    """
    if "split" not in recordings.columns:
        raise InvalidInputError(
            "the split of the ATD authors needs the official split of UCI HAR "
            "(columns['split']); use load_har()"
        )
    official = recordings.columns["split"]
    unlabelled = np.flatnonzero(official == 0)
    tested = np.flatnonzero(official == 1)
    if not len(unlabelled) or len(tested) < 2:
        raise InvalidInputError(
            f"columns['split'] has {len(unlabelled)} training (0) and {len(tested)} test (1) "
            "windows; both are needed"
        )
    order = np.random.default_rng(seed).permutation(tested)
    half = len(order) // 2
    return Split(unlabelled, np.sort(order[:half]), np.sort(order[half:]), name="ATD authors (HAR)")


def official_split(
    recordings: Recordings, train: float = 5 / 9, seed: int | np.random.Generator = 0
) -> Split:
    """Take the official training windows as unlabelled and divide the other subjects by a draw.

    For UCI HAR that is 21 subjects without labels, 5 of the 9 others to train the probe on and 4
    to test it. Other seeds draw other subjects; the unlabelled part is always the same, so that
    one fit serves all draws.

    Parameters
    ----------
    recordings : Recordings
        With ``columns["split"]``, 0 for official training windows and 1 for the others, and with
        groups, none of them in both.
    train : float
        Share of the other groups for training.
    seed : int or Generator
        Seed.

    Examples
    --------
    >>> from tensorcontrast import Recordings
    >>> groups = np.repeat(np.arange(10), 2)
    >>> official = (groups >= 6).astype(int)  # six training subjects, four others
    >>> rec = Recordings(np.zeros((20, 1, 4)), groups=groups, columns={"split": official})
    >>> official_split(rec)
    Split(official: 12 unlabelled, 4 train, 4 test)
    """
    if "split" not in recordings.columns or recordings.groups is None:
        raise InvalidInputError(
            "the official split needs columns['split'] (0 training, 1 test) and groups; use "
            "subject_split for recordings without"
        )
    official = np.asarray(recordings.columns["split"])
    unlabelled, rest = np.flatnonzero(official == 0), np.flatnonzero(official == 1)
    names = np.unique(recordings.groups[rest])
    both = np.intersect1d(names, recordings.groups[unlabelled])
    if not len(unlabelled) or len(names) < 2 or len(both):
        raise InvalidInputError(
            f"columns['split'] has {len(unlabelled)} training windows (0), {len(names)} groups of "
            f"test windows (1) and {len(both)} groups in both; some training windows, two groups "
            "or more of others and none in both are needed"
        )
    if not 0 < train < 1:
        raise InvalidInputError(f"train={train} must lie between 0 and 1")
    count = int(np.clip(round(train * len(names)), 1, len(names) - 1))
    chosen = np.random.default_rng(seed).permutation(names)[:count]
    inside = np.isin(recordings.groups[rest], chosen)
    return Split(unlabelled, rest[inside], rest[~inside], name="official")


def train_test_split(recordings: Recordings, test: float = 0.3) -> Split:
    """Divide into training and test windows; the training windows also serve without labels.

    The same for every seed: what differs between seeds is which training windows have labels,
    and the random numbers of the fit.

    Parameters
    ----------
    recordings : Recordings
        With ``columns["split"]`` (0 training, 1 test), which is used where it is there, else with
        groups, of which a fixed draw is for testing.
    test : float
        Share of the groups for testing where there is no official split.

    Examples
    --------
    >>> rec = Recordings(np.zeros((20, 1, 4)), groups=np.repeat(np.arange(10), 2))
    >>> train_test_split(rec)
    Split(train and test: 14 unlabelled, 14 train, 6 test)
    """
    if "split" in recordings.columns:
        official = np.asarray(recordings.columns["split"])
        train, rest = np.flatnonzero(official == 0), np.flatnonzero(official == 1)
        if not len(train) or not len(rest):
            raise InvalidInputError(
                f"columns['split'] has {len(train)} training (0) and {len(rest)} test (1) windows; "
                "both are needed"
            )
        return Split(train, train, rest, name="train and test")
    if recordings.groups is None:
        raise InvalidInputError(
            "these recordings have neither an official split (columns['split'], 0 training and 1 "
            "test) nor groups to divide them by; give one of them"
        )
    if not 0 < test < 1:
        raise InvalidInputError(f"test={test} must lie between 0 and 1")
    names, code = np.unique(recordings.groups, return_inverse=True)
    if len(names) < 2:
        raise InvalidInputError("training and test windows need at least 2 groups; there is 1")
    count = int(np.clip(round(test * len(names)), 1, len(names) - 1))
    tested = np.random.default_rng(0).permutation(len(names))[:count]
    inside = np.isin(code, tested)
    train, rest = np.flatnonzero(~inside), np.flatnonzero(inside)
    return Split(train, train, rest, name="train and test")


def fitting_budget(y: npt.ArrayLike, budget: int | float | str) -> int | float | str:
    """Return a number of labels that the training windows allow, with one per class at least.

    A number below that of the classes is raised to it; one above that of the labelled windows
    becomes all of them. Shares stay what they are.

    Examples
    --------
    >>> y = [0, 0, 0, 1, 1, 1, 2, -1]
    >>> fitting_budget(y, 2), fitting_budget(y, 5), fitting_budget(y, 60)
    (3, 5, '100%')
    """
    if isinstance(budget, bool) or not isinstance(budget, int | np.integer):
        return budget
    labels = np.asarray(y)
    labels = labels[labels >= 0]
    count = max(int(budget), len(np.unique(labels)))
    return "100%" if count >= len(labels) else count


def label_budget(
    y: npt.ArrayLike, budget: int | float | str, seed: int | np.random.Generator = 0
) -> IntArray:
    """Choose which training windows get to keep their label.

    Windows are put into one order, in which every class is spread evenly by its share (each class
    once first), and the first ones are taken. So the choice is stratified, has every class as soon
    as the budget allows, and a larger budget contains a smaller one of the same seed.

    Parameters
    ----------
    y : array (n,)
        Labels of the training windows; unknown ones (-1, None, NaN or empty text) are never chosen.
    budget : int, float or str
        How many: a number of windows (int), a fraction of the labelled ones (float up to 1) or a
        percentage (``"5%"``). Fractions are rounded up.
    seed : int or Generator
        Seed. Budgets are nested for equal integer seeds.

    Returns
    -------
    array of int
        Sorted positions in ``y``.

    Examples
    --------
    >>> label_budget([0, 0, 0, 1, 1, 1, 2, -1], 3, seed=1)
    array([0, 5, 6])
    """
    labels = read_labels(y).codes
    labelled = np.flatnonzero(labels >= 0)
    if not len(labelled):
        raise InvalidInputError("y has no labelled windows to choose from")
    count = _budget_count(budget, len(labelled))
    rng = np.random.default_rng(seed)
    shuffled = rng.permutation(labelled)
    classes, code, sizes = np.unique(labels[shuffled], return_inverse=True, return_counts=True)
    if count < len(classes):
        warnings.warn(
            f"a budget of {count} labels is smaller than the number of classes, {len(classes)}; "
            "some classes get none",
            TensorContrastWarning,
            stacklevel=2,
        )
    # The k-th of the m windows of a class belongs at (k + u) / m of the way, with one u a class;
    # the first of every class comes before all others.
    by_class = np.argsort(code, kind="stable")
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    rank = np.empty(len(shuffled), dtype=np.int64)
    rank[by_class] = np.arange(len(shuffled)) - np.repeat(starts, sizes)
    place = (rank + rng.uniform(0.25, 0.75, len(classes))[code]) / sizes[code]
    place[rank == 0] = -rng.uniform(0.5, 1.0, len(classes))[code[rank == 0]]
    return np.sort(shuffled[np.argsort(place, kind="stable")[:count]]).astype(np.int64)


def linear_probe(
    features_train: npt.ArrayLike,
    y_train: npt.ArrayLike,
    features_test: npt.ArrayLike,
    y_test: npt.ArrayLike,
    *,
    C: float = 1.0,
    max_iter: int = 1000,
    class_weight: str | None = None,
    classifier: Any = None,
    standardise: bool = True,
) -> ProbeResult:
    """Judge features by a logistic regression: standardised on train, scored on test.

    Parameters
    ----------
    features_train, features_test : arrays of shape (n, n_features)
        Features.
    y_train, y_test : arrays of int
        Labels; windows with -1 are left out.
    C : float
        Inverse strength of the L2 penalty.
    max_iter : int
        Most iterations of the solver.
    class_weight : {None, "balanced"}
        As in scikit-learn.
    classifier : scikit-learn classifier, optional
        In the place of the logistic regression, whose parameters then do not count.
    standardise : bool
        Whether features are standardised on train before they reach the classifier.

    Returns
    -------
    ProbeResult
        Macro F1 and balanced accuracy are over the classes of the test windows.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([0, 1, 2], 20)
    >>> features = 20 * np.eye(3)[y] + rng.normal(size=(60, 3))
    >>> linear_probe(features[::2], y[::2], features[1::2], y[1::2]).accuracy
    1.0
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import accuracy_score, f1_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    train, target = _features("train", features_train, y_train)
    test, truth = _features("test", features_test, y_test)
    if train.shape[1] != test.shape[1]:
        raise InvalidInputError(
            f"features_train has {train.shape[1]} columns, but features_test has {test.shape[1]}"
        )
    classes, there = np.unique(target), np.unique(truth)
    if len(classes) < 2:
        raise InvalidInputError(
            f"the training labels are all {classes[0]}; a classifier needs at least two classes "
            "(take a larger label budget)"
        )
    absent = np.setdiff1d(there, classes)
    if len(absent):
        warnings.warn(
            f"classes {absent.tolist()} of the test windows have no training window and cannot be "
            "predicted",
            TensorContrastWarning,
            stacklevel=2,
        )
    if classifier is None:
        classifier = LogisticRegression(C=C, max_iter=max_iter, class_weight=class_weight)
    probe = make_pipeline(StandardScaler(), classifier) if standardise else classifier
    # Small products are faster on one thread than on several that wait for each other.
    with threads.for_work(train.size * min(train.shape)):
        probe.fit(train, target)
        predictions = probe.predict(test)
        scores = _class_scores(probe, test)
    recalls = [float((predictions[truth == c] == c).mean()) for c in there]
    return ProbeResult(
        accuracy=float(accuracy_score(truth, predictions)),
        balanced_accuracy=float(np.mean(recalls)),
        macro_f1=float(
            f1_score(truth, predictions, labels=there, average="macro", zero_division=0)
        ),
        macro_auc=None if scores is None else _macro_auc(truth, scores, classes),
        predictions=np.asarray(predictions, dtype=np.int64),
        n_train=len(target),
        n_test=len(truth),
    )


def _class_scores(probe: Any, test: npt.NDArray[Any]) -> npt.NDArray[Any] | None:
    """Scores (n, k) of the classes by a fitted classifier; None where it gives none."""
    for name in ("predict_proba", "decision_function"):
        if hasattr(probe, name):
            scores = np.asarray(getattr(probe, name)(test))
            return np.stack([-scores, scores], axis=1) if scores.ndim == 1 else scores
    return None


def _macro_auc(
    truth: npt.NDArray[Any], scores: npt.NDArray[Any], classes: npt.NDArray[Any]
) -> float | None:
    """Mean area under the ROC curve over the classes that some test windows have, not all."""
    from sklearn.metrics import roc_auc_score

    areas = []
    for place, name in enumerate(classes):
        own = truth == name
        if own.any() and not own.all():
            areas.append(float(roc_auc_score(own, scores[:, place])))
    return float(np.mean(areas)) if areas else None


def _rounded(wanted: npt.NDArray[np.float64]) -> IntArray:
    """Whole numbers with the same sum, by largest remainder, none below 1."""
    counts = np.floor(wanted + 1e-9).astype(np.int64)
    short = round(float(wanted.sum())) - int(counts.sum())
    counts[np.argsort(counts - wanted, kind="stable")[:short]] += 1
    while (counts < 1).any():
        counts[int(np.argmax(counts))] -= 1
        counts[int(np.argmin(counts))] += 1
    return counts


def _budget_count(budget: int | float | str, available: int) -> int:
    if isinstance(budget, bool):
        raise InvalidInputError("budget is a truth value; give a number")
    if isinstance(budget, str):
        try:
            fraction = float(budget.strip().removesuffix("%")) / 100
        except ValueError:
            fraction = -1.0
        if not budget.strip().endswith("%") or not 0 < fraction <= 1:
            raise InvalidInputError(f"budget={budget!r} is not a percentage such as '5%'")
    elif isinstance(budget, int | np.integer):
        if budget < 1:
            raise InvalidInputError(f"budget={budget} must be at least 1")
        if budget > available:
            raise InvalidInputError(
                f"budget={budget} is more than the {available} labelled training windows"
            )
        return int(budget)
    else:
        fraction = float(budget)
        if not 0 < fraction <= 1:
            raise InvalidInputError(
                f"budget={budget} as a fraction must lie above 0 and at most 1; a number of "
                "windows is an int"
            )
    return min(available, max(1, int(np.ceil(fraction * available - 1e-9))))


def _features(part: str, features: Any, y: Any) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    values, labels = np.asarray(features), np.asarray(y)
    if values.ndim != 2 or values.dtype.kind not in "fiu":
        raise InvalidInputError(
            f"features_{part} has shape {values.shape} of {values.dtype}; numbers of shape "
            "(n, n_features) are needed"
        )
    if labels.shape != (len(values),) or labels.dtype.kind not in "iu":
        raise InvalidInputError(
            f"y_{part} has shape {labels.shape} of {labels.dtype}, but there are {len(values)} "
            "rows of features; one integer a row is needed"
        )
    if not np.isfinite(values).all():
        row, column = (int(v) for v in np.argwhere(~np.isfinite(values))[0])
        raise InvalidInputError(f"features_{part}[{row}, {column}] is {values[row, column]}")
    keep = read_labels(labels, name=f"y_{part}").codes >= 0
    if not keep.any():
        raise InvalidInputError(f"y_{part} has no labelled windows")
    return values[keep], labels[keep]
