"""Passes over windows: array, mapped file, Zarr and Dask have the same rows and sums."""

import numpy as np
import pytest

from tensorcontrast.errors import InvalidInputError, TensorContrastWarning
from tensorcontrast.solvers import windows as passes
from tensorcontrast.solvers.windows import ArrayWindows, FileWindows, learn_scaling
from tensorcontrast.utils import threads

N, DIMS, SIZE = 1300, (4, 5), 20
FLOAT32 = np.dtype("float32")


@pytest.fixture(scope="module")
def X():
    return np.random.default_rng(0).standard_normal((N, *DIMS)).astype("float32") + 3


def mapped(X, folder, **more):
    np.save(folder / "x.npy", X)
    return FileWindows((np.load(folder / "x.npy", mmap_mode="r"),), X.dtype, **more)


def stored(X, folder, **more):
    zarr = pytest.importorskip("zarr")
    array = zarr.create_array(
        store=str(folder / "x"), shape=X.shape, chunks=(100, *X.shape[1:]), dtype=X.dtype
    )
    array[:] = X
    return FileWindows((array,), X.dtype, **more)


def on_dask(X, folder, nan=False, block_values=None):
    da = pytest.importorskip("dask.array")
    from tensorcontrast.solvers.dask_windows import DaskWindows

    return DaskWindows.from_arrays([da.from_array(X, chunks=(400, 2, 5))], X.dtype, nan=nan)


KINDS = {"mapped": mapped, "Zarr": stored, "Dask": on_dask}
kinds = pytest.mark.parametrize("kind", KINDS)


def rows_of(X):
    return ArrayWindows(X.reshape(len(X), -1))


class Products:
    """Sums, a matrix product and a count of a block, and of what is beside it."""

    def __init__(self, seed=1):
        self.P = np.random.default_rng(seed).standard_normal((SIZE, 3)).astype("float32")

    def __call__(self, block, beside=None):
        W = block @ self.P
        if beside is not None:
            W = W * beside[:, None]
        return [W.T @ block, W.T @ W, float((block**2).sum()), len(block)]


def features(block, beside=None):
    W = block[:, :3] * 2
    return W if beside is None else W + beside[:, None]


# ---------------------------------------------------------------------------- the passes


@kinds
def test_windows_are_the_same_everywhere(kind, X, tmp_path):
    there, here = KINDS[kind](X, tmp_path), rows_of(X)
    assert (there.n, there.size, there.dtype) == (here.n, here.size, here.dtype) == (N, 20, FLOAT32)
    np.testing.assert_array_equal(there.map(np.asarray), here.rows)
    some = np.array([0, 3, 511, 512, 900, N - 1])
    np.testing.assert_array_equal(there.take(some), here.rows[some])
    np.testing.assert_array_equal(there.kept().map(np.asarray), here.rows)


def test_sums_are_those_of_numpy(X):
    f, rows, beside = Products(), rows_of(X), np.arange(N, dtype="float32") / N
    wide = rows.rows.astype("float64")
    for values in ((), (beside,)):
        Q, WtW, norm, n = rows.sum(f, *values)
        W = wide @ f.P.astype("float64") * (beside[:, None] if values else 1)
        assert Q.dtype == WtW.dtype == np.float64
        np.testing.assert_allclose(Q, W.T @ wide, rtol=1e-4)
        np.testing.assert_allclose(WtW, W.T @ W, rtol=1e-4)
        assert norm == pytest.approx((wide**2).sum(), rel=1e-6)
        assert n == N


@kinds
@pytest.mark.parametrize("beside", [False, True])
def test_sums_and_maps_agree(kind, beside, X, tmp_path):
    there, here = KINDS[kind](X, tmp_path), rows_of(X)
    values = (np.arange(N, dtype="float32"),) if beside else ()
    for a, b in zip(there.sum(Products(), *values), here.sum(Products(), *values), strict=True):
        if kind == "Dask":  # blocks are added in a tree
            np.testing.assert_allclose(a, b, rtol=1e-13)
        else:
            np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(there.map(features, *values), here.map(features, *values))


@pytest.mark.parametrize("block_values", [SIZE * 512, SIZE * 1100, 2**24])
def test_whole_strips_of_a_file_give_the_same_bits(block_values, X, tmp_path):
    there, here = mapped(X, tmp_path, block_values=block_values), rows_of(X)
    assert there._step() % threads.STRIP_ROWS == 0
    for a, b in zip(there.sum(Products()), here.sum(Products()), strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(there.map(features), here.map(features))


@pytest.mark.parametrize("block_values", [1, 7 * SIZE, 511 * SIZE])
def test_parts_of_a_strip_give_the_same_sums(block_values, X, tmp_path):
    there, here = mapped(X[:700], tmp_path, block_values=block_values), rows_of(X[:700])
    assert threads.STRIP_ROWS % there._step() == 0
    for a, b in zip(there.sum(Products()), here.sum(Products()), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)
    np.testing.assert_array_equal(there.map(features), here.map(features))
    np.testing.assert_array_equal(there.take(np.arange(5, 700, 9)), here.rows[5::9])


@pytest.mark.parametrize("count", [1, 2, 5])
def test_threads_change_no_bit(count, X, monkeypatch):
    here = rows_of(X).sum(Products())
    monkeypatch.setattr(threads, "allowed", lambda: count)
    monkeypatch.setattr(threads, "WORTH_THREADS", 1)
    for a, b in zip(rows_of(X).sum(Products()), here, strict=True):
        np.testing.assert_array_equal(a, b)


@kinds
def test_scaled_windows_are_the_same_bits(kind, X, tmp_path):
    center = X.reshape(N, -1).mean(axis=0, dtype="float64")
    factor = np.linspace(0.5, 2, SIZE)
    here = rows_of(X).scaled(center, factor)
    there = KINDS[kind](X, tmp_path).scaled(center, factor)
    exact = (X.reshape(N, -1) - center) * factor
    assert there.dtype == here.rows.dtype == FLOAT32
    np.testing.assert_allclose(here.rows, exact, atol=1e-5)
    np.testing.assert_array_equal(there.map(np.asarray), here.rows)
    np.testing.assert_array_equal(there.take(np.array([2, 700])), here.rows[[2, 700]])


@pytest.mark.parametrize("sizes", [(1300,), (400, 400, 400, 100), (1,) * 1300, (511, 789)])
@pytest.mark.parametrize("size", [20, 2**17])
def test_dask_blocks_begin_at_strips(sizes, size):
    pytest.importorskip("dask")
    from tensorcontrast.solvers.dask_windows import aligned

    found = aligned(sizes, size)
    step = min(threads.STRIP_ROWS, passes.BLOCK_VALUES // size)
    assert sum(found) == N
    assert all(edge % step == 0 for edge in np.cumsum(found)[:-1])
    assert max(found) * size <= passes.BLOCK_VALUES


def test_coupled_blocks_are_side_by_side(X, tmp_path):
    file = mapped(X, tmp_path).blocks[0]
    other = np.random.default_rng(1).standard_normal((N, 7))
    wanted = np.concatenate([X.reshape(N, -1), other.astype("float32")], axis=1)
    np.testing.assert_array_equal(FileWindows((file, other), FLOAT32).map(np.asarray), wanted)
    da = pytest.importorskip("dask.array")
    from tensorcontrast.solvers.dask_windows import DaskWindows

    lazy = [da.from_array(X, chunks=300), other]
    there = DaskWindows.from_arrays(lazy, FLOAT32, nan=False)
    np.testing.assert_array_equal(there.map(np.asarray), wanted)


@kinds
@pytest.mark.parametrize(
    ("bad", "nan", "said"),
    [(np.nan, False, "nan"), (np.inf, True, "inf"), (1e38, True, "unit")],
)
def test_the_place_of_a_bad_value_is_named_among_all_windows(kind, bad, nan, said, X, tmp_path):
    X = X.copy()
    X[1111, 2, 3] = bad
    there = KINDS[kind](X, tmp_path, nan=nan)
    with pytest.raises(InvalidInputError, match=said) as caught:
        there.sum(Products())
    assert "1111, 2, 3" in str(caught.value) or bad == 1e38


@kinds
def test_missing_values_stay_nan(kind, X, tmp_path):
    X = X.copy()
    X[np.random.default_rng(0).random(X.shape) < 0.1] = np.nan
    there = KINDS[kind](X, tmp_path, nan=True)
    np.testing.assert_array_equal(there.map(np.asarray), X.reshape(N, -1))


def test_values_beyond_float32_are_an_error_and_no_warning():
    """Of all kinds of windows: NumPy would warn of an overflow in the cast."""
    big = np.random.default_rng(0).standard_normal((30, 4)) * 1e300
    with pytest.raises(InvalidInputError, match="float32"):
        passes.checked_rows(big, "X", FLOAT32)
    with pytest.raises(InvalidInputError, match="float32"):
        FileWindows((big,), FLOAT32).sum(Products())


# ---------------------------------------------------------------------------- mean and scale


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("offset", [0.0, 1e3])
@pytest.mark.parametrize("center", [True, False])
def test_mean_and_variance_in_one_pass(dtype, offset, center):
    rng = np.random.default_rng(0)
    X = (rng.standard_normal((700, 35)) + offset * rng.standard_normal(35)).astype(dtype)
    X[:256] += 30  # the first windows are unlike the rest
    found = learn_scaling(ArrayWindows(X), center=center)
    wide = X.astype(np.float64)
    mean = wide.mean(axis=0) if center else np.zeros(35)
    np.testing.assert_allclose(found.center, mean, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(found.variance, ((wide - mean) ** 2).mean(axis=0), rtol=1e-9)
    assert found.size() == pytest.approx(np.sqrt(((wide - mean) ** 2).sum() / 700), rel=1e-9)
    assert found.size(slice(3, 9)) == pytest.approx(np.sqrt(found.variance[3:9].sum()))


@kinds
def test_mean_and_variance_are_those_of_observed_values(kind, X, tmp_path):
    X = X.copy()
    X[np.random.default_rng(0).random(X.shape) < 0.3] = np.nan
    here = learn_scaling(rows_of(X))
    wide = X.reshape(N, -1).astype("float64")
    np.testing.assert_allclose(here.center, np.nanmean(wide, axis=0), rtol=1e-12)
    np.testing.assert_allclose(here.variance, np.nanvar(wide, axis=0), rtol=1e-9)
    there = learn_scaling(KINDS[kind](X, tmp_path, nan=True))
    np.testing.assert_allclose(there.center, here.center, rtol=1e-13)
    np.testing.assert_allclose(there.variance, here.variance, rtol=1e-13)


@pytest.mark.parametrize(
    ("rows", "center", "said"),
    [
        (np.full((9, 2), 3.1), True, "equal"),
        (np.full((9, 2), 3.1, dtype="float32"), True, "equal"),
        (np.zeros((9, 2)), False, "zero"),
        (np.full((9, 2), np.nan), True, "NaN"),
    ],
)
def test_windows_that_hold_nothing_are_an_error(rows, center, said):
    with pytest.raises(InvalidInputError, match=said):
        learn_scaling(ArrayWindows(rows), center=center)


def test_a_value_that_no_window_has_is_told(X):
    rows = X.reshape(N, -1).copy()
    rows[:, 7] = np.nan
    with pytest.warns(TensorContrastWarning, match="value 7"):
        found = learn_scaling(ArrayWindows(rows))
    assert np.isfinite(found.center).all() and found.variance[7] == 0
