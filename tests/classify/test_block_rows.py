"""Rows of coupled blocks against a slow version of the formulas, and their properties."""

import numpy as np
import pytest

from tensorcontrast.classify import block_rows
from tensorcontrast.classify.block_rows import RowSettings
from tensorcontrast.errors import InvalidInputError


def made(X):
    """Two blocks of signals (n, 2, 16): values, and sums of squares in another unit."""
    return [X[:, :, ::2], 100 * np.square(X).sum(axis=2)]


@pytest.fixture(scope="module")
def X():
    return np.random.default_rng(0).normal(size=(50, 2, 16)) * [[1.0], [3.0]]


def test_rows_are_projections_of_blocks_of_equal_length(X):
    settings = RowSettings(n_components=5, strength=1e9)  # nothing is shrunk
    learned = block_rows.learn(made, X, np.random.default_rng(0), settings)
    slow = np.zeros((len(X), len(X)))
    for block in made(X):
        rows = block.reshape(len(block), -1)
        U, s, _ = np.linalg.svd(rows - rows.mean(axis=0), full_matrices=False)
        rows = U[:, :5] * s[:5]
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        slow += rows @ rows.T / 2
    fast = learned.of_signals(made, X)
    np.testing.assert_allclose(fast @ fast.T, slow, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(fast, axis=1), 1, rtol=1e-6)
    assert fast.shape[1] == learned.n_columns == 5 + 2


@pytest.mark.parametrize("n", [4, 40])
def test_principal_components_are_those_of_the_svd(n):
    rows = np.random.default_rng(1).normal(size=(n, 12))
    rows -= rows.mean(axis=0)
    found = block_rows.principal_components(rows, 3)
    _, _, V = np.linalg.svd(rows, full_matrices=False)
    np.testing.assert_allclose(np.abs(V[:3] @ found), np.eye(3), atol=1e-9)
    assert block_rows.principal_components(rows, 99).shape[1] == min(n - 1, 12)


def test_windows_that_are_all_alike_have_rows():
    X = np.ones((6, 2, 16))
    learned = block_rows.learn(made, X, np.random.default_rng(0))
    rows = learned.of_signals(made, X)
    assert rows.shape == (6, 2) and np.isfinite(rows).all()


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


def test_changes_of_a_window_move_its_row_less(X):
    """A level drifts within windows, and a smaller wave tells windows apart."""
    rng = np.random.default_rng(3)
    wave = np.sin(np.arange(32) * np.pi / 2)
    sizes = rng.choice([-1.0, 1.0], size=(80, 1, 1))
    signals = sizes * wave * np.ones((1, 2, 1)) + rng.normal(size=(80, 2, 1)) * np.linspace(
        -2, 2, 32
    )

    def blocks(Z):
        return [np.stack([Z.mean(axis=2), np.abs(Z).max(axis=2), Z[:, :, :16].mean(axis=2)])[0]]

    def spread(strength):
        settings = RowSettings(strength=strength)
        learned = block_rows.learn(blocks, signals, np.random.default_rng(0), settings)
        first, second = (signals[:, :, k : k + 16].repeat(2, axis=2) for k in (0, 16))
        rows = [
            (blocks(Z)[0] - learned.means[0]) @ learned.projections[0]
            for Z in (first, second, signals)
        ]
        return np.var(rows[0] - rows[1]) / max(np.var(rows[2]), 1e-12)

    assert spread(0.03) <= spread(1e9) * (1 + 1e-6)


def test_other_blocks_are_refused(X):
    learned = block_rows.learn(made, X, np.random.default_rng(0))
    with pytest.raises(InvalidInputError, match=r"have \[5\] values, .* fitted on \[16, 2\]"):
        learned.apply([np.zeros((3, 5))])


def test_blocks_are_made_a_few_at_a_time(X):
    sizes = []

    def counted(Z):
        sizes.append(len(Z))
        return made(Z)

    many = np.tile(X, (30, 1, 1))
    learned = block_rows.learn(counted, many, np.random.default_rng(0))
    rows = learned.of_signals(counted, many)
    assert max(sizes) <= max(block_rows.BLOCK_WINDOWS, RowSettings().n_changed)
    np.testing.assert_allclose(rows[:50], rows[50:100], atol=1e-6)
