"""Windows to label: clusters, margins, exclusions, groups; and when to stop."""

import numpy as np
import pytest

from tensorcontrast import suggest_windows
from tensorcontrast.classify import estimated_accuracy
from tensorcontrast.classify.suggest import (
    DESIGN_EFFECT,
    MAX_WINDOWS,
    class_probabilities,
    estimate_from_answers,
    feature_rows,
    reduced_rows,
    represented_windows,
    wilson_interval,
)
from tensorcontrast.errors import InvalidInputError


def blobs(sizes, seed=0, spread=0.1):
    """Features (n, k) of k groups of windows that are far apart, and the group of each."""
    kind = np.repeat(np.arange(len(sizes)), sizes)
    rng = np.random.default_rng(seed)
    return np.eye(len(sizes))[kind] + spread * rng.normal(size=(len(kind), len(sizes))), kind


def test_one_window_per_cluster_the_largest_first():
    W, kind = blobs([50, 20, 90, 35])
    found = suggest_windows(W, n=4, random_state=0)
    assert kind[found].tolist() == [2, 0, 3, 1]


def test_the_typical_window_is_nearest_to_the_mean_of_its_cluster():
    W, kind = blobs([40, 30, 20])
    rows = feature_rows(W).astype(np.float64)
    expected = []
    for k in range(3):
        own = np.flatnonzero(kind == k)
        expected.append(own[np.linalg.norm(rows[own] - rows[own].mean(0), axis=1).argmin()])
    assert suggest_windows(W, n=3, random_state=0).tolist() == expected


def test_clusters_with_a_label_are_covered():
    W, kind = blobs([50, 20, 90, 35])
    y = np.full(len(W), None, dtype=object)
    y[[10, 150]] = ["rest", "walk"]  # kinds 0 and 2
    found = suggest_windows(W, y, n=2, random_state=0)
    assert kind[found].tolist() == [3, 1]
    coded = np.where([v is None for v in y], -1, 0)
    coded[150] = 1
    np.testing.assert_array_equal(found, suggest_windows(W, coded, n=2, random_state=0))


def test_with_twelve_labels_the_unsure_cluster_comes_first():
    W, kind = blobs([12] * 12 + [40, 25], spread=0.05)
    y = np.full(len(W), -1)
    first = np.unique(kind, return_index=True)[1][:12]
    y[first] = np.arange(12) % 2
    p = np.full((len(W), 2), [0.99, 0.01])
    p[kind == 13] = 0.5
    equal = np.full((len(W), 2), 0.5)
    assert kind[suggest_windows(W, y, n=2, probability=p, random_state=0)].tolist() == [13, 12]
    assert kind[suggest_windows(W, y, n=2, probability=equal, random_state=0)].tolist() == [12, 13]
    twelve = suggest_windows(W, y, n=2, random_state=0)  # by a logistic regression of its own
    own = class_probabilities(feature_rows(W), y, 2)
    by_hand = suggest_windows(W, y, n=2, probability=own, random_state=0)
    np.testing.assert_array_equal(twelve, by_hand)
    y[first[0]] = -1  # eleven labels: the size decides
    few = suggest_windows(W, y, n=2, random_state=0)
    same = suggest_windows(W, y, n=2, probability=equal, random_state=0)
    np.testing.assert_array_equal(few, same)


def test_distances_stay_on_principal_components():
    rng = np.random.default_rng(0)
    rows = (rng.normal(size=(60, 5)) @ rng.normal(size=(5, 200))).astype(np.float32)
    near = reduced_rows(rows)
    assert near.shape[1] == 5
    before, after = (np.linalg.norm(r[:, None] - r[None], axis=2) for r in (rows, near))
    np.testing.assert_allclose(after, before, rtol=1e-3, atol=1e-3)
    assert reduced_rows(near) is near


@pytest.mark.parametrize("as_mask", [True, False])
def test_excluded_windows_are_never_suggested(as_mask):
    W, kind = blobs([30, 30])
    first = suggest_windows(W, n=2, random_state=0)
    exclude = np.isin(np.arange(len(W)), first) if as_mask else first
    second = suggest_windows(W, n=2, exclude=exclude, random_state=0)
    assert not set(first) & set(second)
    assert set(kind[second]) == {0, 1}
    everything = suggest_windows(W, n=100, exclude=exclude, random_state=0)
    assert sorted([*everything, *first]) == list(range(60))


def test_labelled_windows_and_near_duplicates_are_never_suggested():
    W, _ = blobs([10, 10, 10])
    W = np.repeat(W, 4, axis=0)  # every window four times
    y = np.full(len(W), -1)
    y[0] = 1
    found = suggest_windows(W, y, n=1000, random_state=0)
    assert len(set(found // 4)) == len(found) == 29
    assert 0 not in found // 4
    skipped = suggest_windows(W, n=1000, exclude=[0], random_state=0)
    assert 0 not in skipped // 4


def test_groups_with_few_labels_come_first():
    W, _ = blobs([60, 60, 60], spread=0.05)
    groups = np.array(["a", "b", "c"])[np.arange(180) % 3]
    y = np.full(180, -1)
    found = suggest_windows(W, y, 3, groups, random_state=0)
    assert sorted(groups[found]) == ["a", "b", "c"]


def test_a_seed_gives_the_same_order_and_large_pools_are_drawn_from():
    W = np.random.default_rng(0).normal(size=(MAX_WINDOWS + 500, 4)).astype(np.float32)
    first, again = (suggest_windows(W, n=5, random_state=3) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert len(set(first)) == 5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"W": np.zeros(5)}, r"W has shape \(5,\); pass the features of windows"),
        ({"W": np.full((9, 2), np.nan)}, "W"),
        ({"n": 0}, "n is 0; pass the number of windows wanted"),
        ({"n": 2.5}, "n is 2.5"),
        ({"y": [1, -1]}, "y has 2 labels but X has 9 windows"),
        ({"groups": [1, 2]}, "groups has 2 labels"),
        ({"exclude": [9]}, "exclude"),
        ({"exclude": [True, False]}, "exclude"),
        ({"exclude": [0.5]}, "exclude holds float64"),
        ({"probability": np.ones((4, 2))}, r"probability has shape \(4, 2\)"),
        ({"probability": np.ones((9, 1))}, "of two classes or more"),
    ],
)
def test_bad_input_is_named(change, message):
    given = {"W": np.random.default_rng(0).normal(size=(9, 2)), "random_state": 0} | change
    with pytest.raises(InvalidInputError, match=message):
        suggest_windows(**given)


def test_nothing_is_left():
    W, _ = blobs([5, 5])
    assert suggest_windows(W, [0, 1] * 5, n=3).tolist() == []
    same = np.ones((6, 3))
    assert len(suggest_windows(same, n=3, random_state=0)) == 1


# ------------------------------------------------------------------------------------ stopping


def test_the_estimate_is_the_share_of_held_out_windows():
    W, kind = blobs([40, 40, 40])
    y = np.where(np.arange(len(W)) % 4 == 0, kind, -1)
    found = estimated_accuracy(W, y, random_state=0)
    assert (found.accuracy, found.n) == (1.0, 30)
    weight = represented_windows(feature_rows(W), np.flatnonzero(y >= 0))
    effective = weight.sum() ** 2 / (weight**2).sum()
    alike = effective / DESIGN_EFFECT
    assert (found.low, found.high) == pytest.approx(wilson_interval(alike, alike))
    chance = estimated_accuracy(W, np.random.default_rng(0).permutation(kind), random_state=0)
    assert chance.low < 1 / 3 < chance.high
    by_group = estimated_accuracy(W, y, np.arange(len(W)) % 8, random_state=0)
    assert by_group.accuracy == 1.0


def test_no_estimate_without_two_classes():
    W, _ = blobs([5, 5])
    for y in ([-1] * 10, [0] * 10, [0] + [-1] * 8 + [1]):
        found = estimated_accuracy(W, y)
        assert (found.accuracy, found.low, found.high, found.n) == (None, 0.0, 1.0, 0)
    with pytest.raises(InvalidInputError, match="groups has 3"):
        estimated_accuracy(W, [0, 1] * 5, [1, 2, 3])


def test_the_interval_is_that_of_scipy():
    from scipy.stats import binomtest

    for right, n in ((0, 5), (7, 9), (30, 30), (41, 60)):
        there = binomtest(right, n).proportion_ci(0.95, method="wilson")
        assert wilson_interval(right, n) == pytest.approx((there.low, there.high), abs=1e-12)
    assert {wilson_interval(n / 7, n / 7)[1] for n in range(1, 99)} == {1.0}  # no rounding
    assert {wilson_interval(0, n / 7)[0] for n in range(1, 99)} == {0.0}


def test_held_out_windows_count_by_the_windows_they_represent():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(500, 4)).astype(np.float32)
    known = np.array([3, 77, 200, 410])
    nearest = [int(np.square(rows[known] - row).sum(axis=1).argmin()) for row in rows]
    counts = represented_windows(rows, known)
    np.testing.assert_array_equal(counts, [nearest.count(k) for k in range(4)])
    many = np.tile(rows, (10, 1))  # more than are counted
    scaled = represented_windows(many, known)
    assert scaled.sum() == pytest.approx(5000) and scaled / 10 == pytest.approx(counts, abs=15)
    found = estimate_from_answers(np.array([True, False, True, True]), counts)
    assert found.accuracy == pytest.approx(1 - counts[1] / 500) and found.n == 4
    equal = estimate_from_answers(np.array([True] * 9 + [False]), np.full(10, 7.0))
    wide = wilson_interval(9 / DESIGN_EFFECT, 10 / DESIGN_EFFECT)
    assert (equal.low, equal.high) == pytest.approx(wide)
