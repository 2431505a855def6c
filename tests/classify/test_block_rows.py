"""What the classifier sees of a window, against a slow version of the formulas."""

import numpy as np
import pytest

from tensorcontrast import CPD, PLC, ContrastiveClassifier, ContrastiveFeatures
from tensorcontrast.classify import block_rows
from tensorcontrast.datasets import make_synthetic
from tensorcontrast.tensorize.blocks import SignalBlocks


@pytest.fixture(scope="module")
def rec():
    return make_synthetic(n_samples=70, n_channels=2, n_times=64, n_classes=2, random_state=0)


@pytest.fixture(scope="module")
def kept(rec):
    features = ContrastiveFeatures(decompose=CPD(rank=3, max_iter=5, tol=0), random_state=0)
    return features.fit_and_keep(rec, windows=np.arange(0, 70, 2))


def test_kept_rows_are_those_of_the_windows_that_were_asked_for(rec, kept):
    some = np.array([0, 4, 68])
    np.testing.assert_allclose(kept.of(some), kept.signals.rows(rec.X[some]), rtol=1e-4, atol=1e-5)


def test_components_are_principal_components_of_blocks_of_equal_length(rec, kept):
    found = block_rows.learn_components(kept, kept.index)
    slow = np.zeros((35, 35))
    changes = kept.signals.split(kept.differences.astype(np.float64))
    for block, change in zip(kept.signals.split(kept.rows), changes, strict=True):
        rows = block.reshape(35, -1).astype(np.float64)
        U, s, V = np.linalg.svd(rows - rows.mean(axis=0), full_matrices=False)
        real = s > s[0] * 10**-3.5
        change = change.reshape(len(change), -1) @ V[real].T / np.sqrt(2)
        rows = (U * s)[:, real] @ block_rows.shrinkage(change, block_rows.STRENGTH)
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        slow += rows @ rows.T / 2
    maker = block_rows.ClassifierRows.from_learned(
        ContrastiveFeatures(decompose=CPD(rank=3, max_iter=5, tol=0), random_state=0).fit(rec),
        np.zeros(3),
        np.ones(3),
        found,
    )
    fast = maker(rec.X[kept.index])[:, 3:]
    np.testing.assert_allclose(fast @ fast.T, slow, atol=1e-4)
    np.testing.assert_allclose(np.linalg.norm(fast, axis=1), 1, rtol=1e-6)
    assert fast.shape[1] == sum(p.shape[1] for p in found["projections"])


def test_rows_from_signals_are_those_from_entries(rec):
    features = ContrastiveFeatures(decompose=PLC(rank=4), random_state=0)
    model = ContrastiveClassifier(features, random_state=0).fit(rec)
    entries = model.extractor_.rows(rec.X[:9])
    expected = model._classifier_rows.of_rows(entries)
    np.testing.assert_allclose(model.rows(rec.X[:9]), expected, atol=1e-5)


def test_windows_are_tensorized_once(rec, monkeypatch):
    """In ``fit`` once, and the draws of the augmentation; in ``transform``, ``predict`` once."""
    counted = []
    values = SignalBlocks.values

    def count(self, X):
        counted.append(len(X))
        return values(self, X)

    monkeypatch.setattr(SignalBlocks, "values", count)
    features = ContrastiveFeatures(decompose=PLC(rank=4), random_state=0)
    model = ContrastiveClassifier(features, random_state=0).fit(rec)
    steps = len(model.extractor_.augment_.steps)
    assert sum(counted) == len(rec) + 2 * steps * len(rec)
    for method in (model.predict, model.predict_proba, model.extractor_.transform):
        counted.clear()
        method(rec.X)
        assert sum(counted) == len(rec)
    counted.clear()
    features.fit(rec)
    assert sum(counted) == len(rec) + 2 * steps * len(rec)


@pytest.mark.parametrize("n", [4, 40])
def test_principal_components_are_those_of_the_svd(n):
    rows = np.random.default_rng(1).normal(size=(n, 12))
    rows -= rows.mean(axis=0)
    found = block_rows.principal_components(rows, 3)
    _, _, V = np.linalg.svd(rows, full_matrices=False)
    np.testing.assert_allclose(np.abs(V[:3] @ found), np.eye(3), atol=1e-9)
    assert block_rows.principal_components(rows, 99).shape[1] == min(n - 1, 12)
    assert block_rows.principal_components(np.zeros((n, 12)), 3).shape == (12, 1)


def test_shrinkage_follows_its_formula():
    rng = np.random.default_rng(2)
    differences = rng.normal(size=(400, 6)) * [5.0, 1, 1, 0.1, 0.1, 0]
    found = block_rows.shrinkage(differences, 0.1)
    variances, V = np.linalg.eigh(np.cov(differences.T, bias=True))
    sds = np.sqrt(np.maximum(variances, 0))
    offset = 0.1 * np.sqrt(variances.sum())
    slow = (V * np.sqrt(offset / (sds + offset))) @ V.T
    np.testing.assert_allclose(found, slow, atol=1e-6)
    np.testing.assert_array_equal(block_rows.shrinkage(np.zeros((3, 2)), 0.1), np.eye(2))
