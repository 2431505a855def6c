import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score, f1_score
from sklearn.preprocessing import StandardScaler

from tensorcontrast.datasets import load_har, make_synthetic
from tensorcontrast.errors import InvalidInputError, TensorContrastWarning
from tensorcontrast.evaluate import atd_har_split, label_budget, linear_probe, subject_split
from tensorcontrast.recordings import Recordings

REAL = os.environ.get("TENSORCONTRAST_DATA", "")


def recordings(groups):
    return Recordings(np.zeros((len(groups), 1, 2)), groups=groups)


# ----------------------------------------------------------------------------- splits


@settings(max_examples=60, deadline=None)
@given(
    groups=st.lists(st.integers(0, 30), min_size=3, max_size=120).filter(
        lambda g: len(set(g)) >= 3
    ),
    train=st.floats(0.05, 0.4),
    test=st.floats(0.05, 0.4),
    seed=st.integers(0, 1000),
)
def test_no_group_is_in_two_parts(groups, train, test, seed):
    shares = np.array([1 - train - test, train, test])
    groups = np.array(groups)
    split = subject_split(recordings(groups), *shares, seed=seed)
    parts = [split.unlabelled, split.train, split.test]
    assert sorted(np.concatenate(parts).tolist()) == list(range(len(groups)))
    seen = [set(groups[part].tolist()) for part in parts]
    assert not (seen[0] & seen[1] or seen[0] & seen[2] or seen[1] & seen[2])
    sizes = np.array([len(s) for s in seen])
    assert sizes.min() >= 1
    n = len(set(groups.tolist()))
    # within one group of the share, but for parts that must not be empty
    assert (np.abs(sizes - np.maximum(shares * n, 1)) <= 2).all()


@pytest.mark.parametrize(
    ("n", "expected"), [(3, (1, 1, 1)), (10, (7, 2, 1)), (20, (14, 3, 3)), (30, (21, 5, 4))]
)
def test_group_counts(n, expected):
    split = subject_split(recordings(np.arange(n)))
    assert (len(split.unlabelled), len(split.train), len(split.test)) == expected


def test_seed_decides_and_text_groups_work():
    rec = recordings(np.repeat([f"s{k}" for k in range(12)], 3))
    first, again, other = (subject_split(rec, seed=s) for s in (1, 1, 2))
    np.testing.assert_array_equal(first.train, again.train)
    assert first.train.tolist() != other.train.tolist()


def test_without_groups_only_on_request():
    rec = Recordings(np.zeros((10, 1, 2)))
    with pytest.raises(InvalidInputError, match=r"no groups.*allow_ungrouped=True"):
        subject_split(rec)
    split = subject_split(rec, allow_ungrouped=True)
    assert len(split.unlabelled) == 7
    assert "samples" in repr(split)


@pytest.mark.parametrize(
    "shares", [(0.5, 0.5, 0.5), (1.0, 0.0, 0.0), (1.2, -0.1, -0.1), (float("nan"), 0.5, 0.5)]
)
def test_bad_shares(shares):
    with pytest.raises(InvalidInputError, match="add up"):
        subject_split(recordings(np.arange(9)), *shares)


def test_too_few_groups():
    with pytest.raises(InvalidInputError, match="at least 3 groups, but there are 2"):
        subject_split(recordings([0, 0, 1, 1]))


def test_atd_split_halves_the_official_test_samples():
    official = np.array([0] * 9 + [1] * 8)
    rec = Recordings(np.zeros((17, 1, 2)), columns={"split": official})
    split = atd_har_split(rec, seed=3)
    assert split.unlabelled.tolist() == list(range(9))
    assert len(split.train) == len(split.test) == 4
    assert sorted([*split.train, *split.test]) == list(range(9, 17))
    assert "ATD" in split.name
    with pytest.raises(InvalidInputError, match="official split"):
        atd_har_split(recordings([1, 2, 3]))
    with pytest.raises(InvalidInputError, match="0 test"):
        atd_har_split(Recordings(np.zeros((3, 1, 2)), columns={"split": np.zeros(3)}))


@pytest.mark.data
@pytest.mark.skipif(not REAL, reason="TENSORCONTRAST_DATA is not set")
def test_splits_of_real_har():
    file = Path(REAL) / "har.npz"
    if not file.is_file():
        pytest.skip(f"{file} is not there")
    rec = load_har(file)
    split = atd_har_split(rec)
    assert (len(split.unlabelled), len(split.train), len(split.test)) == (7352, 1473, 1474)
    split = subject_split(rec)
    assert [len(set(rec.groups[p].tolist())) for p in (split.unlabelled, split.train)] == [21, 5]


# ----------------------------------------------------------------------------- budgets


@settings(max_examples=60, deadline=None)
@given(
    y=st.lists(st.integers(-1, 4), min_size=1, max_size=200).filter(lambda y: max(y) >= 0),
    seed=st.integers(0, 100),
)
def test_budgets_are_nested_stratified_and_never_unlabelled(y, seed):
    y = np.array(y)
    classes = np.unique(y[y >= 0])
    total = int((y >= 0).sum())
    before = set()
    for budget in range(len(classes), total + 1, max(1, total // 7)):
        chosen = label_budget(y, budget, seed)
        assert len(chosen) == len(set(chosen.tolist())) == budget
        assert chosen.tolist() == sorted(chosen.tolist())
        assert (y[chosen] >= 0).all()
        assert set(y[chosen].tolist()) == set(classes.tolist())
        assert before <= set(chosen.tolist())
        before = set(chosen.tolist())
        for c in classes:
            share = (y == c).sum() / total
            slack = len(classes) + 1
            assert abs((y[chosen] == c).sum() - budget * share) <= slack


def test_budget_as_number_fraction_and_percentage():
    y = np.repeat([0, 1], 100)
    assert len(label_budget(y, 30)) == 30
    assert len(label_budget(y, 0.1)) == 20
    assert len(label_budget(y, "5%")) == 10
    assert len(label_budget(y, 1.0)) == 200
    assert len(label_budget(y, "0.6%")) == 2
    assert np.bincount(y[label_budget(y, 50)]).tolist() == [25, 25]


def test_shares_of_classes_are_kept():
    y = np.repeat([0, 1, 2], [700, 200, 100])
    counts = np.bincount(y[label_budget(y, 100, seed=4)])
    assert np.abs(counts - [70, 20, 10]).max() <= 2


def test_a_budget_below_the_number_of_classes_warns():
    with pytest.warns(TensorContrastWarning, match="budget of 2 labels.*classes, 3"):
        chosen = label_budget([0, 1, 2, 0, 1, 2], 2)
    assert len(chosen) == 2


@pytest.mark.parametrize(
    ("y", "budget", "message"),
    [
        ([0, 1], 3, "more than the 2 labelled"),
        ([0, 1], 0, "at least 1"),
        ([0, 1], -1, "at least 1"),
        ([0, 1], 1.5, "fraction"),
        ([0, 1], 0.0, "fraction"),
        ([0, 1], float("nan"), "fraction"),
        ([0, 1], True, "truth value"),
        ([0, 1], "half", "percentage"),
        ([0, 1], "5", "percentage"),
        ([0, 1], "500%", "percentage"),
        ([-1, -1], 1, "no labelled"),
        ([0.5, 1.0], 1, "integers"),
        ([[0, 1]], 1, "one label per window"),
    ],
)
def test_bad_budgets(y, budget, message):
    with pytest.raises(InvalidInputError, match=message):
        label_budget(y, budget)


# ------------------------------------------------------------------------------- probe


def test_probe_equals_scikit_learn_step_by_step():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 200)
    features = rng.standard_normal((200, 4)) * [1, 10, 100, 1000] + 2.0 * y[:, None]
    result = linear_probe(features[:120], y[:120], features[120:], y[120:], C=0.5)
    scaler = StandardScaler().fit(features[:120])
    model = LogisticRegression(C=0.5, max_iter=1000).fit(scaler.transform(features[:120]), y[:120])
    predicted = model.predict(scaler.transform(features[120:]))
    np.testing.assert_array_equal(result.predictions, predicted)
    assert result.accuracy == pytest.approx((predicted == y[120:]).mean())
    assert result.balanced_accuracy == pytest.approx(balanced_accuracy_score(y[120:], predicted))
    assert result.macro_f1 == pytest.approx(f1_score(y[120:], predicted, average="macro"))
    assert (result.n_train, result.n_test) == (120, 80)


def test_unlabelled_samples_are_left_out():
    rng = np.random.default_rng(0)
    y = np.array([0, 1] * 20)
    features = rng.standard_normal((40, 2)) + 5.0 * y[:, None]
    hidden = y.copy()
    hidden[5:9] = -1
    result = linear_probe(features, hidden, features, y)
    assert (result.n_train, result.n_test) == (36, 40)
    assert result.accuracy == 1.0


def test_features_of_planted_classes_are_found():
    rec = make_synthetic(400, noise=0.3, separation=8.0, random_state=0)
    split = subject_split(rec)
    features = np.abs(np.fft.rfft(rec.X, axis=2)).mean(axis=1)
    labelled = split.train[label_budget(rec.y[split.train], 30)]
    result = linear_probe(
        features[labelled], rec.y[labelled], features[split.test], rec.y[split.test]
    )
    assert result.accuracy > 0.8


def test_class_that_is_absent_from_training_warns():
    features = np.arange(12.0).reshape(6, 2)
    with pytest.warns(TensorContrastWarning, match=r"classes \[2\].*no training window"):
        result = linear_probe(features, [0, 0, 0, 1, 1, 1], features, [0, 0, 1, 1, 2, 2])
    assert result.balanced_accuracy <= 2 / 3 + 1e-9


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y_train": [1, 1, 1]}, "all 1.*two classes"),
        ({"y_train": [-1, -1, -1]}, "y_train has no labelled"),
        ({"y_test": [-1, -1, -1]}, "y_test has no labelled"),
        ({"y_train": [0, 1]}, "y_train has shape"),
        ({"y_test": [0.5, 1, 1]}, "y_test has shape"),
        ({"features_test": np.zeros((3, 5))}, "2 columns, but features_test has 5"),
        ({"features_train": np.zeros(3)}, "features_train has shape"),
        ({"features_train": np.array([[0, 1], [0, np.nan], [1, 1]])}, r"features_train\[1, 1\]"),
        ({"features_test": np.array([["a", "b"]] * 3)}, "features_test"),
    ],
)
def test_bad_probes(change, message):
    arguments = {
        "features_train": np.eye(3)[:, :2],
        "y_train": [0, 1, 1],
        "features_test": np.eye(3)[:, :2],
        "y_test": [0, 1, 1],
    }
    with pytest.raises(InvalidInputError, match=message):
        linear_probe(**(arguments | change))
