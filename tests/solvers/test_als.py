"""ALS: a sweep against slow loops, falling objectives, gaps by EM, wherever the windows are."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.matching import factor_match_score

from tensorcontrast.cp import kernels
from tensorcontrast.cp.encoder import Encoder
from tensorcontrast.datasets import make_cp_tensor
from tensorcontrast.errors import NumericalError
from tensorcontrast.solvers import als
from tensorcontrast.solvers.convergence import Monitor
from tensorcontrast.solvers.windows import ArrayWindows, FileWindows

ALPHA = 0.1
DIMS = {"vector": ((9,),), "tensor": ((4, 3, 5),), "coupled": ((4, 5), (7,))}


def problem(kind="tensor", n=40, rank=3, seed=0, dtype="float64", noise=0.5):
    """Rows (n, i) of mean squared norm 1, and factors to start from."""
    rng = np.random.default_rng([seed, len(kind)])
    dims = DIMS[kind]
    H = kernels.khatri_rao(als.random_factors(dims, rank, rng))
    X = rng.standard_normal((n, rank)) @ H.T
    X += noise * X.std() * rng.standard_normal(X.shape)
    X -= X.mean(axis=0)
    X /= np.sqrt((X**2).sum() / n)
    return X.astype(dtype), als.random_factors(dims, rank, rng)


def fit(windows, factors, sweeps, *, alpha=ALPHA, gaps=False, **more):
    monitor = Monitor("test", max_iter=sweeps, tol=0, falls=True)
    return als.fit_cp(windows, factors, alpha=alpha, monitor=monitor, gaps=gaps, **more)


def slow_features(X, H, alpha):
    K = H.T @ H + alpha * np.eye(H.shape[1])
    return np.array([np.linalg.solve(K, H.T @ x) for x in X])


def slow_update(X, W, factors, alpha):
    """Each mode at its minimum: unfold, take the products of the others, solve."""
    out, at = [], 0
    for block in kernels.blocks_of(factors):
        modes = [np.array(U, dtype=float) for U in block]
        dims = [len(U) for U in modes]
        tensor = X[:, at : at + int(np.prod(dims))].reshape(len(X), *dims)
        at += int(np.prod(dims))
        for k in range(len(dims)):
            design = np.zeros((len(X), *(d for j, d in enumerate(dims) if j != k), W.shape[1]))
            for n in range(len(X)):
                for r in range(W.shape[1]):
                    product = np.array(W[n, r])
                    for j, U in enumerate(modes):
                        if j != k:
                            product = np.multiply.outer(product, U[:, r])
                    design[n, ..., r] = product
            A = design.reshape(-1, W.shape[1])
            unfolded = np.moveaxis(tensor, k + 1, -1).reshape(-1, dims[k])
            modes[k] = np.linalg.solve(A.T @ A + alpha * np.eye(A.shape[1]), A.T @ unfolded).T
        out += modes
    return kernels.like(factors, out)


def objective(X, W, factors, alpha):
    left = X - W @ kernels.khatri_rao(factors).T
    squares = sum(float((a**2).sum()) for a in (W, *factors))
    return 0.5 * float((left**2).sum()) + 0.5 * alpha * squares


# ---------------------------------------------------------------------------- one sweep


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", DIMS)
def test_E10_the_sums_of_a_sweep_are_those_of_a_loop(kind, dtype):
    X, factors = problem(kind, dtype=dtype)
    sums = als.PlainStep(ArrayWindows(X), ALPHA)(factors)
    wide = X.astype("float64")
    W = slow_features(wide, kernels.khatri_rao(factors), ALPHA)
    near = 1e-5 if dtype == "float32" else 1e-11
    outer = sum(np.outer(w, x) for w, x in zip(W, wide, strict=True))
    np.testing.assert_allclose(sums.Q, outer, atol=near)
    np.testing.assert_allclose(sums.WtW, sum(np.outer(w, w) for w in W), atol=near)
    assert sums.norm_squared == pytest.approx(float((wide**2).sum()), rel=1e-6)
    assert sums.Q.dtype == sums.WtW.dtype == np.float64


@pytest.mark.parametrize("kind", DIMS)
def test_sweeps_are_textbook_als(kind):
    X, factors = problem(kind)
    monitor = Monitor("test", max_iter=3, tol=0)
    found = als.run(
        als.PlainStep(ArrayWindows(X), ALPHA), factors, alpha=ALPHA, monitor=monitor, balance=False
    )
    for k in range(3):
        W = slow_features(X, kernels.khatri_rao(factors), ALPHA)
        factors = slow_update(X, W, factors, ALPHA)
        value = objective(X, W, factors, ALPHA)
        assert found.history["objective"][k] == pytest.approx(value, rel=1e-10)
        left = X - W @ kernels.khatri_rao(factors).T
        error = np.linalg.norm(left) / np.linalg.norm(X)
        assert found.history["reconstruction_error"][k] == pytest.approx(error, rel=1e-9)
    for U, slow in zip(found.factors, factors, strict=True):
        np.testing.assert_allclose(U, slow, atol=1e-9 * np.abs(slow).max())
    np.testing.assert_allclose(found.gram, W.T @ W, atol=1e-10)


def test_the_residual_is_that_of_the_differences():
    X, factors = problem()
    new = als.random_factors(DIMS["tensor"], 3, np.random.default_rng(5))
    W = slow_features(X, kernels.khatri_rao(factors), ALPHA)
    found = als.PlainStep(ArrayWindows(X), ALPHA).residual(factors, new)
    assert found == pytest.approx(((X - W @ kernels.khatri_rao(new).T) ** 2).sum())


# ---------------------------------------------------------------------------- whole fits


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("alpha", [1e-6, 1e-3, 0.3])
@pytest.mark.parametrize("kind", DIMS)
def test_a_fit_lowers_the_objective(kind, alpha, dtype):
    X, factors = problem(kind, dtype=dtype)
    values = np.array(fit(ArrayWindows(X), factors, 40, alpha=alpha).history["objective"])
    slack = 1e-6 if dtype == "float32" else 1e-12
    assert (np.diff(values) <= slack * values[0]).all()
    assert values[-1] < 0.99 * values[0]


def test_planted_factors_are_found():
    X, *_, planted = make_cp_tensor(100, (5, 6, 4), 3, noise=0.02, random_state=0)
    rows = X.reshape(100, -1) - X.reshape(100, -1).mean(axis=0)
    rows /= np.sqrt((rows**2).sum() / 100)
    start = als.random_factors(((5, 6, 4),), 3, np.random.default_rng(1))
    found = fit(ArrayWindows(rows), start, 60, alpha=1e-6)
    assert factor_match_score(list(found.factors), planted) > 0.99


def test_in_memory_in_a_file_and_on_dask(tmp_path):
    X, factors = problem(n=1400, dtype="float32")
    here = fit(ArrayWindows(X), factors, 8)
    np.save(tmp_path / "x.npy", X)
    file = np.load(tmp_path / "x.npy", mmap_mode="r")
    for values in (512 * 60, 2**24):
        there = fit(FileWindows((file,), X.dtype, block_values=values), factors, 8)
        assert there.history["objective"] == here.history["objective"]
        for U, V in zip(there.factors, here.factors, strict=True):
            np.testing.assert_array_equal(U, V)
    da = pytest.importorskip("dask.array")
    from tensorcontrast.solvers.dask_windows import DaskWindows

    lazy = DaskWindows.from_arrays([da.from_array(X, chunks=(300, -1))], X.dtype, nan=False)
    there = fit(lazy.kept(), factors, 8)
    np.testing.assert_allclose(there.history["objective"], here.history["objective"], rtol=1e-9)
    for U, V in zip(there.factors, here.factors, strict=True):
        np.testing.assert_allclose(U, V, atol=1e-7)


def test_ctrl_c_drops_the_running_sweep():
    X, factors = problem()
    done = []

    def interrupt(fit):
        done.append(fit.factors)
        if len(done) == 3:
            raise KeyboardInterrupt

    found = fit(ArrayWindows(X), factors, 10, after_sweep=interrupt)
    assert found.interrupted and not found.converged
    assert len(found.history["objective"]) == 3 and found.factors is done[-1]

    class Interrupted(ArrayWindows):
        def sum(self, f, *beside):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(Interrupted(X), factors, 10)


# ---------------------------------------------------------------------------- gaps


def with_gaps(share=0.3, seed=0, **more):
    X, factors = problem(seed=seed, **more)
    gaps = np.random.default_rng(seed).random(X.shape) < share
    gaps[:, 0] = False
    return np.where(gaps, np.nan, X), gaps, factors


def observed_loss(X, gaps, factors, alpha):
    """E8 over what was observed, every window at its own minimum."""
    H, total = kernels.khatri_rao(factors), 0.0
    for x, gap in zip(X, gaps, strict=True):
        A = H[~gap]
        w = np.linalg.solve(A.T @ A + alpha * np.eye(H.shape[1]), A.T @ x[~gap])
        total += 0.5 * float(((x[~gap] - A @ w) ** 2).sum() + alpha * (w**2).sum())
    return total + 0.5 * alpha * sum(float((U**2).sum()) for U in factors)


@settings(max_examples=20, deadline=None)
@given(
    seed=st.integers(0, 2**16),
    share=st.floats(0.05, 0.7),
    kind=st.sampled_from(sorted(DIMS)),
    alpha=st.sampled_from([1e-3, 0.1]),
)
def test_the_observed_data_loss_never_rises(seed, share, kind, alpha):
    X, gaps, factors = with_gaps(share, seed, kind=kind, n=20)
    losses = [observed_loss(X, gaps, factors, alpha)]
    found = fit(
        ArrayWindows(X),
        factors,
        10,
        alpha=alpha,
        gaps=True,
        after_sweep=lambda fit: losses.append(observed_loss(X, gaps, fit.factors, alpha)),
    )
    assert len(losses) == 11
    assert (np.diff(losses) <= 1e-10 * losses[0]).all()
    # The loss of the filled data bounds that of the observed data from above.
    assert all(b <= a + 1e-9 for a, b in zip(found.history["objective"], losses[1:], strict=True))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", DIMS)
def test_without_gaps_the_fit_is_that_of_whole_data(kind, dtype):
    X, factors = problem(kind, dtype=dtype)
    whole, filled = (fit(ArrayWindows(X), factors, 6, gaps=gaps) for gaps in (False, True))
    assert filled.history["objective"] == whole.history["objective"]
    for U, V in zip(filled.factors, whole.factors, strict=True):
        np.testing.assert_array_equal(U, V)


def test_a_sweep_with_gaps_is_one_over_data_that_the_model_has_filled():
    X, gaps, factors = with_gaps()
    H = kernels.khatri_rao(factors)
    W = np.array(
        [
            np.linalg.solve(H[~g].T @ H[~g] + ALPHA * np.eye(3), H[~g].T @ x[~g])
            for x, g in zip(X, gaps, strict=True)
        ]
    )
    filled = np.where(gaps, W @ H.T, X)
    sums = als.PlainStep(ArrayWindows(X), ALPHA, gaps=True)(factors)
    np.testing.assert_allclose(sums.Q, W.T @ filled, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(sums.WtW, W.T @ W, rtol=1e-8)
    assert sums.norm_squared == pytest.approx(float((filled**2).sum()))


def test_gaps_in_a_file_and_on_dask(tmp_path):
    X, _, factors = with_gaps(n=1100, dtype="float32")
    here = fit(ArrayWindows(X), factors, 5, gaps=True)
    np.save(tmp_path / "x.npy", X)
    file = FileWindows((np.load(tmp_path / "x.npy", mmap_mode="r"),), X.dtype, nan=True)
    assert fit(file, factors, 5, gaps=True).history["objective"] == here.history["objective"]
    da = pytest.importorskip("dask.array")
    from tensorcontrast.solvers.dask_windows import DaskWindows

    lazy = DaskWindows.from_arrays([da.from_array(X, chunks=(300, -1))], X.dtype, nan=True)
    there = fit(lazy, factors, 5, gaps=True)
    np.testing.assert_allclose(there.history["objective"], here.history["objective"], rtol=1e-9)


# ---------------------------------------------------------------------------- start and end


def test_the_start_is_left_alone_where_it_meets_the_data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 20)) / np.sqrt(20)
    factors = als.random_factors(((4, 5),), 2, rng)
    windows = ArrayWindows(X)
    assert als.warm_start(als.PlainStep(windows, 1e-3), factors) is factors
    moved = als.warm_start(als.PlainStep(windows, 10.0), factors)
    assert all(np.allclose(np.linalg.norm(U, axis=0), 1) for U in moved)
    gains = [np.linalg.norm(X @ kernels.khatri_rao(U)) for U in (factors, moved)]
    assert gains[1] > gains[0]


def test_random_factors_have_unit_columns_and_follow_the_seed():
    one, two, other = (
        als.random_factors(DIMS["coupled"], 3, np.random.default_rng(seed)) for seed in (0, 0, 1)
    )
    assert [[U.shape for U in block] for block in one.blocks] == [[(4, 3), (5, 3)], [(7, 3)]]
    for U, V, Z in zip(one, two, other, strict=True):
        np.testing.assert_allclose(np.linalg.norm(U, axis=0), 1)
        np.testing.assert_array_equal(U, V)
        assert not np.allclose(U, Z)


@pytest.mark.parametrize(
    ("n", "dims", "allowed"),
    [
        (30, ((2, 3),), 6),  # two modes and the windows: the product of the smaller two
        (4, ((2, 3),), 6),
        (2, ((9, 9),), 18),
        (30, ((5,),), 5),
        (30, ((2,), (3, 3)), 9),  # the largest of the blocks
        (10**6, ((300, 300, 300),), 32),
    ],
)
def test_ranks_that_windows_can_have(n, dims, allowed):
    assert als.allowed_rank(32, n, dims) == allowed
    assert als.allowed_rank(1, n, dims) == 1


def test_the_normal_form_of_a_fit_gives_the_same_reconstruction():
    X, factors = problem("coupled")
    W = Encoder.from_factors(factors, ALPHA)(X @ kernels.khatri_rao(factors))
    form = als.normal_form(factors, W.T @ W, len(X), ALPHA, np.dtype("float64"))
    assert (np.diff(form.weights) <= 0).all()
    # Features of the normal form with its ridge reconstruct the same.
    V = Encoder.from_factors(form.factors, form.ridge)(X @ kernels.khatri_rao(form.factors))
    np.testing.assert_allclose(
        V @ kernels.khatri_rao(form.factors).T, W @ kernels.khatri_rao(factors).T, atol=1e-10
    )
    np.testing.assert_allclose(form.gram, V.T @ V, atol=1e-10)
    np.testing.assert_allclose(form.weights, np.sqrt(np.diag(V.T @ V) / len(X)))


def test_components_that_died_away_are_zero():
    X, factors = problem()
    factors = kernels.like(factors, [U * [1, 1e-20, 1] for U in factors])
    W = Encoder.from_factors(factors, ALPHA)(X @ kernels.khatri_rao(factors))
    form = als.normal_form(factors, W.T @ W, len(X), ALPHA, np.dtype("float32"))
    assert form.weights[-1] == 0 and form.ridge[-1] == 1.0
    assert all(not U[:, -1].any() and U.dtype == np.float32 for U in form.factors)
    with pytest.raises(NumericalError, match="alpha"):
        als.normal_form(factors, 0 * W.T @ W, len(X), ALPHA, np.dtype("float32"))
