"""What a window's features are does not depend on its batch, but for rounding: serial and Dask."""

import warnings

import numpy as np
import pytest

from tensorcontrast import ATD, CPD, PLC, ContrastiveFeatures, SpectrogramTensor
from tensorcontrast.errors import TensorContrastWarning

#: What the docstrings of ``transform`` promise: largest difference against the length of the row.
PROMISED = {"float32": 1e-5, "float64": 1e-13}


def assert_close(one, many):
    assert one.dtype == many.dtype
    assert one.shape == many.shape
    size = np.linalg.norm(many, axis=1, keepdims=True)
    assert (np.abs(one - many) <= PROMISED[str(many.dtype)] * size).all()


def fitted(seed, *, missing="error"):
    """Return a small model and its windows, all of whose sizes differ by the seed."""
    rng = np.random.default_rng(seed)
    dims = tuple(int(d) for d in rng.integers(1, (9, 20, 40)[seed % 3], rng.integers(1, 4)))
    X = rng.normal(size=(int(rng.integers(3, 70)), *dims)).astype(("float32", "float64")[seed % 2])
    cls = (CPD, ATD, PLC)[seed // 2 % 3] if missing == "error" else (CPD, PLC)[seed % 2]
    model = cls(int(rng.integers(1, 41)), max_iter=3, tol=0, random_state=0)
    if cls is not ATD:
        model.set_params(missing=missing)
    if cls is PLC:
        model.set_params(n_clusters=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TensorContrastWarning)  # ranks that are cut
        return model.fit(X), X


def singles(model, X):
    return np.concatenate([model.transform(X[i : i + 1]) for i in range(len(X))])


@pytest.mark.parametrize("first", range(0, 60, 12))
def test_one_window_and_many_have_the_same_features(first):
    for seed in range(first, first + 12):
        model, X = fitted(seed)
        many = model.transform(X)
        assert_close(singles(model, X), many)
        half = len(X) // 2
        assert_close(model.transform(X[half:]), many[half:])
        assert_close(model.transform(X[::-1])[::-1], many)


@pytest.mark.parametrize("seed", range(6))
def test_windows_with_gaps_have_the_same_features(seed):
    model, X = fitted(seed, missing="mask")
    Z = X.copy()
    gaps = np.random.default_rng(seed).random(Z.shape) < 0.1
    gaps.reshape(len(Z), -1)[:, 0] = False  # a window without any value is told by a warning
    Z[gaps] = np.nan
    assert_close(singles(model, Z), model.transform(Z))


@pytest.mark.parametrize("seed", range(6))
def test_chunks_of_dask_have_the_same_features(seed):
    array = pytest.importorskip("dask.array")
    model, X = fitted(seed)
    many = model.transform(X)
    for rows in (1, 7, len(X)):
        lazy = array.from_array(X, chunks=(rows, *X.shape[1:]))
        assert_close(np.asarray(model.transform(lazy)), many)


def as_blocks(tensors):
    return tensors if isinstance(tensors, list) else [tensors]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("tensorize", [None, SpectrogramTensor()], ids=["blocks", "spectrogram"])
def test_windows_of_signals_have_the_same_features(dtype, tensorize):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(36, 2, 96)).cumsum(axis=2).astype(dtype)
    part = PLC(rank=6, max_iter=4)
    model = ContrastiveFeatures(50.0, tensorize=tensorize, decompose=part, random_state=0).fit(X)
    many = model.transform(X)
    assert_close(singles(model, X), many)
    alone = [as_blocks(model.tensors(X[i : i + 1])) for i in range(len(X))]
    for parts, whole in zip(zip(*alone, strict=True), as_blocks(model.tensors(X)), strict=True):
        near = 1e-5 * np.abs(whole).max()
        np.testing.assert_allclose(np.concatenate(parts), whole, atol=near)
    array = pytest.importorskip("dask.array")
    lazy = model.transform(array.from_array(X, chunks=(5, -1, -1)))
    assert_close(np.asarray(lazy), many)
