"""The kernels against slow loops and against TensorLy, for tensors of order 1 to 4 a sample."""

import itertools

import numpy as np
import pytest
import tensorly as tl
from hypothesis import given, settings
from hypothesis import strategies as st
from tensorly.cp_tensor import cp_norm, cp_to_tensor
from tensorly.tenalg import unfolding_dot_khatri_rao
from tests.matching import factor_match_score

from tensorcontrast.cp import kernels
from tensorcontrast.errors import InvalidInputError, NumericalError, TensorContrastError

DIMS = {1: (7,), 2: (5, 4), 3: (4, 3, 5), 4: (3, 2, 4, 3)}
N, R = 9, 3
RTOL = {"float32": 2e-5, "float64": 1e-12}

orders = pytest.mark.parametrize("order", [1, 2, 3, 4])
dtypes = pytest.mark.parametrize("dtype", ["float32", "float64"])


def model(order, dtype, rank=R, seed=0):
    """A random tensor X (n, I_1, …), features and factors of no relation to it."""
    rng = np.random.default_rng([seed, order])
    dims = DIMS[order]
    X = rng.standard_normal((N, *dims)).astype(dtype)
    W = rng.standard_normal((N, rank)).astype(dtype)
    factors = [rng.standard_normal((d, rank)).astype(dtype) for d in dims]
    return X, W, factors


def close(actual, desired, dtype, scale=None):
    desired = np.asarray(desired, dtype=np.float64)
    size = float(np.abs(desired).max()) if scale is None else scale
    assert np.shape(actual) == desired.shape
    np.testing.assert_allclose(actual, desired, rtol=0, atol=RTOL[dtype] * max(size, 1e-300))


def slow_khatri_rao(factors):
    dims = [len(U) for U in factors]
    H = np.empty((int(np.prod(dims)), factors[0].shape[1]))
    for row, index in enumerate(itertools.product(*map(range, dims))):
        for r in range(H.shape[1]):
            entry = 1.0
            for U, i in zip(factors, index, strict=True):
                entry *= float(U[i, r])
            H[row, r] = entry
    return H


def slow_mttkrp(X, W, factors, mode):
    """``Σ_n Σ_index X[n, index] w_nr ∏_{k≠mode} U_k[index_k, r]`` entry by entry."""
    M = np.zeros((X.shape[mode + 1], W.shape[1]))
    for n, *index in itertools.product(*map(range, X.shape)):
        for r in range(W.shape[1]):
            entry = float(X[(n, *index)]) * float(W[n, r])
            for k, i in enumerate(index):
                if k != mode:
                    entry *= float(factors[k][i, r])
            M[index[mode], r] += entry
    return M


def slow_reconstruction(W, factors):
    out = np.zeros((len(W), *(len(U) for U in factors)))
    for n, *index in itertools.product(*map(range, out.shape)):
        for r in range(W.shape[1]):
            entry = float(W[n, r])
            for U, i in zip(factors, index, strict=True):
                entry *= float(U[i, r])
            out[(n, *index)] += entry
    return out


# -------------------------------------------------------------------- products


def inverse_of(G, alpha=0.0):
    return kernels.ridge_solve(np.eye(len(G), dtype=G.dtype), G, alpha)


@orders
@dtypes
def test_khatri_rao(order, dtype):
    _, _, factors = model(order, dtype)
    H = kernels.khatri_rao(factors)
    assert H.dtype == dtype
    close(H, slow_khatri_rao(factors), dtype)


@orders
@dtypes
def test_gram_needs_no_khatri_rao_product(order, dtype):
    _, _, factors = model(order, dtype)
    H = slow_khatri_rao(factors)
    full = kernels.gram(factors)
    assert full.dtype == dtype
    close(full, H.T @ H, dtype)
    for skip in range(order):
        others = [U for k, U in enumerate(factors) if k != skip]
        part = slow_khatri_rao(others) if others else np.ones((1, R))
        close(kernels.gram(factors, skip=skip), part.T @ part, dtype)


@orders
@dtypes
def test_mttkrp_of_every_mode_from_one_pass(order, dtype):
    X, W, factors = model(order, dtype)
    Q = kernels.factor_products(X.reshape(N, -1), W)
    assert Q.shape == (R, np.prod(DIMS[order])) and Q.dtype == dtype
    cp = (None, [W.astype(np.float64), *(U.astype(np.float64) for U in factors)])
    for mode in range(order):
        M = kernels.mttkrp(Q, factors, mode)
        assert M.dtype == dtype and M.flags.c_contiguous
        close(M, slow_mttkrp(X, W, factors, mode), dtype)
        # In TensorLy the samples are mode 0 of one tensor.
        close(M, unfolding_dot_khatri_rao(tl.tensor(X, dtype=tl.float64), cp, mode + 1), dtype)


@orders
@dtypes
def test_reconstruction_and_its_norm(order, dtype):
    _, W, factors = model(order, dtype)
    flat = kernels.cp_to_flat(W, factors)
    assert flat.dtype == dtype
    slow = slow_reconstruction(W, factors).reshape(N, -1)
    close(flat, slow, dtype)
    cp = (np.ones(R), [W.astype(np.float64), *(U.astype(np.float64) for U in factors)])
    close(flat, cp_to_tensor(cp).reshape(N, -1), dtype)
    squared = kernels.cp_norm_squared(W, factors)
    assert squared == pytest.approx((slow**2).sum(), rel=10 * RTOL[dtype])
    assert squared == pytest.approx(float(cp_norm(cp)) ** 2, rel=10 * RTOL[dtype])


@orders
@dtypes
def test_residual_without_the_reconstruction(order, dtype):
    X, W, factors = model(order, dtype)
    flat = X.reshape(N, -1)
    P = flat @ kernels.khatri_rao(factors)
    norm = float(kernels.row_norms_squared(flat).sum())
    value = kernels.residual_squared(norm, P, W, kernels.gram(factors))
    slow = ((X.astype(np.float64) - slow_reconstruction(W, factors)) ** 2).sum()
    assert value == pytest.approx(slow, rel=10 * RTOL[dtype])


@dtypes
def test_residual_of_an_exact_fit_is_never_negative(dtype):
    for seed in range(20):
        _, W, factors = model(3, dtype, seed=seed)
        flat = kernels.cp_to_flat(W, factors)
        norm = float(kernels.row_norms_squared(flat).sum())
        P = flat @ kernels.khatri_rao(factors)
        value = kernels.residual_squared(norm, P, W, kernels.gram(factors))
        assert 0.0 <= value <= 20 * RTOL[dtype] * norm


@dtypes
@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (7, 1), (40, 13), (3, 0)])
def test_inner_and_row_norms(dtype, shape):
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, *shape)).astype(dtype)
    slow, rows = 0.0, np.zeros(shape[0])
    for i, j in itertools.product(*map(range, shape)):
        slow += float(a[i, j]) * float(b[i, j])
        rows[i] += float(a[i, j]) ** 2
    assert kernels.inner(a, b) == pytest.approx(slow, abs=RTOL[dtype] * max(a.size, 1))
    assert kernels.inner(a.ravel(), b.ravel()) == pytest.approx(slow, abs=RTOL[dtype] * 50)
    norms = kernels.row_norms_squared(a)
    assert norms.dtype == np.float64
    np.testing.assert_allclose(norms, rows, rtol=1e-12)  # float64 whatever the dtype of a


def test_inner_of_many_float32_rows_keeps_its_digits():
    # A running float32 sum of these stops growing near 2**24.
    a = np.full((3_000_000, 8), 3.3, dtype=np.float32)
    assert kernels.inner(a, a) == pytest.approx(a.size * float(np.float32(3.3)) ** 2, rel=1e-6)


# -------------------------------------------------------------------- solves


@dtypes
@pytest.mark.parametrize("alpha", [0.0, 1e-3, 2.5])
def test_ridge_solve_is_the_solution(dtype, alpha):
    rng = np.random.default_rng(0)
    A = rng.standard_normal((30, 6))
    G, M = (A.T @ A).astype(dtype), rng.standard_normal((11, 6)).astype(dtype)
    system = G.astype(np.float64) + alpha * np.eye(6)
    expected = np.linalg.solve(system, M.T.astype(np.float64)).T
    Y = kernels.ridge_solve(M, G, alpha)
    assert Y.dtype == dtype and Y.flags.c_contiguous
    close(Y, expected, dtype)
    inverse = inverse_of(G, alpha)
    assert inverse.dtype == dtype
    close(inverse, np.linalg.solve(system, np.eye(6)), dtype)
    np.testing.assert_array_equal(inverse, inverse.T)


@dtypes
def test_ridge_for_each_component(dtype):
    rng = np.random.default_rng(1)
    A = rng.standard_normal((20, 4))
    G, M = (A.T @ A).astype(dtype), rng.standard_normal((5, 4)).astype(dtype)
    alpha = np.array([0.1, 1.0, 0.0, 7.0])
    before = G.copy()
    expected = np.linalg.solve(G.astype(np.float64) + np.diag(alpha), M.T.astype(np.float64)).T
    close(kernels.ridge_solve(M, G, alpha), expected, dtype)
    inverse = np.linalg.inv(G.astype(np.float64) + np.diag(alpha))
    close(inverse_of(G, alpha), inverse, dtype)
    np.testing.assert_array_equal(G, before)  # the caller's Gram is not touched


def singular_gram(kind, dtype):
    rng = np.random.default_rng(2)
    A = rng.standard_normal((25, 5))
    A[:, 3] = A[:, 1] if kind == "equal columns" else 0.0
    return A, (A.T @ A).astype(dtype)


@dtypes
@pytest.mark.parametrize("kind", ["equal columns", "zero column"])
def test_singular_gram_is_still_solved(dtype, kind):
    A, G = singular_gram(kind, dtype)
    x = np.random.default_rng(3).standard_normal((4, 25))
    M = (x @ A).astype(dtype)
    Y = kernels.ridge_solve(M, G)
    assert np.isfinite(Y).all()
    # The normal equations hold, so the fit x ≈ YAᵀ is a least-squares one.
    residual = Y.astype(np.float64) @ (A.T @ A) - x @ A
    assert np.abs(residual).max() < (1e-3 if dtype == "float32" else 1e-10)
    if kind == "zero column":
        np.testing.assert_allclose(Y[:, 3], 0.0, atol=1e-3)
    assert np.isfinite(inverse_of(G)).all()


@dtypes
@pytest.mark.parametrize("solve", ["solve", "inverse"])
def test_gram_of_zeros_is_an_error_with_a_way_out(dtype, solve):
    G = np.zeros((3, 3), dtype=dtype)
    with pytest.raises(NumericalError, match=r"3×3 Gram matrix.*singular.*alpha > 0") as caught:
        kernels.ridge_solve(G, G) if solve == "solve" else inverse_of(G)
    assert isinstance(caught.value, TensorContrastError)
    assert np.isfinite(kernels.ridge_solve(G, G, 1.0)).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("solve", ["solve", "inverse"])
def test_gram_that_is_not_finite_is_an_error(bad, solve):
    G = np.eye(3)
    G[1, 1] = bad
    with pytest.raises(NumericalError, match=r"not finite.*float64"):
        kernels.ridge_solve(np.ones((2, 3)), G) if solve == "solve" else inverse_of(G)


def test_indefinite_gram_is_an_error():
    with pytest.raises(NumericalError, match="singular"):
        inverse_of(np.diag([1.0, -1.0, 2.0]))


# -------------------------------------------------------------------- factor updates


def slow_sweep(X, W, factors, alpha):
    """ALS as textbooks write it: unfold, Khatri–Rao product of the others, solve. No Grams."""
    X, factors = X.astype(np.float64), [W.astype(np.float64), *(U.copy() for U in factors)]
    factors = [U.astype(np.float64) for U in factors]
    for mode in range(1, X.ndim):
        others = [U for k, U in enumerate(factors) if k != mode]
        design = slow_khatri_rao(others)
        unfolded = np.moveaxis(X, mode, 0).reshape(X.shape[mode], -1)
        system = design.T @ design + alpha * np.eye(design.shape[1])
        factors[mode] = np.linalg.solve(system, (unfolded @ design).T).T
    return factors[1:]


@orders
@dtypes
@pytest.mark.parametrize("alpha", [0.0, 0.3])
def test_update_factors_is_a_sweep_of_als(order, dtype, alpha):
    X, W, factors = model(order, dtype)
    flat = X.reshape(N, -1)
    start = [U.copy() for U in factors]
    new, misfit = kernels.update_factors(kernels.factor_products(flat, W), W.T @ W, factors, alpha)
    for k, slow in enumerate(slow_sweep(X, W, start, alpha)):
        assert new[k].dtype == dtype
        np.testing.assert_allclose(
            new[k], slow, rtol=0, atol=100 * RTOL[dtype] * np.abs(slow).max()
        )
        np.testing.assert_array_equal(factors[k], start[k])  # the start is not overwritten
    residual = ((X - slow_reconstruction(W, new)) ** 2).sum()
    norm = float(kernels.row_norms_squared(flat).sum())
    assert norm + misfit == pytest.approx(residual, rel=50 * RTOL[dtype])


@orders
def test_each_mode_is_at_its_minimum(order):
    X, W, factors = model(order, "float64")
    flat, alpha = X.reshape(N, -1), 0.2
    new, _ = kernels.update_factors(kernels.factor_products(flat, W), W.T @ W, factors, alpha)

    def ridge_objective(candidate):
        residual = flat - kernels.cp_to_flat(W, candidate)
        return 0.5 * (residual**2).sum() + 0.5 * alpha * (candidate[-1] ** 2).sum()

    best = ridge_objective(new)
    rng = np.random.default_rng(0)
    for _ in range(10):
        moved = [*new[:-1], new[-1] + 1e-3 * rng.standard_normal(new[-1].shape)]
        assert ridge_objective(moved) > best


# -------------------------------------------------------------------- normal form and matching


@orders
@dtypes
def test_normal_form(order, dtype):
    _, W, factors = model(order, dtype)
    before = [U.copy() for U in factors]
    unit, gain, index = kernels.normal_form(factors, np.linalg.norm(W, axis=0))
    for U, old, original in zip(unit, factors, before, strict=True):
        assert U.dtype == dtype and U.flags.c_contiguous
        np.testing.assert_allclose(np.linalg.norm(U, axis=0), 1.0, rtol=RTOL[dtype])
        assert (U[np.abs(U).argmax(axis=0), np.arange(R)] > 0).all()
        np.testing.assert_array_equal(old, original)
    assert sorted(index.tolist()) == list(range(R))
    normal_W = W[:, index] * gain
    sizes = np.linalg.norm(normal_W, axis=0)
    assert (np.diff(sizes) <= 1e-5 * sizes[0]).all()
    close(kernels.cp_to_flat(normal_W, unit), slow_reconstruction(W, factors).reshape(N, -1), dtype)


def test_normal_form_is_idempotent_and_forgets_the_gauge():
    _, W, factors = model(3, "float64")
    weights = np.linalg.norm(W, axis=0)
    unit, gain, index = kernels.normal_form(factors, weights)
    again, gain_2, order_2 = kernels.normal_form(unit, np.abs(gain) * weights[index])
    np.testing.assert_allclose(gain_2, 1.0)
    np.testing.assert_array_equal(order_2, np.arange(R))
    # The same model in another gauge: permuted, two signs flipped, scale moved between modes.
    p, s = np.array([2, 0, 1]), np.array([-1.0, 1.0, 3.0])
    other = [factors[0][:, p] * s, factors[1][:, p] / s, factors[2][:, p] * -1.0]
    third = kernels.normal_form(other, weights[p])[0]
    for U, V, T in zip(unit, again, third, strict=True):
        np.testing.assert_allclose(V, U, atol=1e-14)
        np.testing.assert_allclose(T, U, atol=1e-12)


@dtypes
def test_normal_form_with_a_zero_column(dtype):
    _, W, factors = model(3, dtype)
    factors[1][:, 0] = 0.0
    unit, gain, index = kernels.normal_form(factors, np.linalg.norm(W, axis=0))
    assert index[-1] == 0 and gain[-1] == 0.0
    assert all(np.isfinite(U).all() for U in unit)
    np.testing.assert_array_equal(unit[1][:, -1], 0.0)
    rebuilt = kernels.cp_to_flat(W[:, index] * gain, unit)
    close(rebuilt, slow_reconstruction(W, factors).reshape(N, -1), dtype)


@orders
@dtypes
def test_factor_match_score_ignores_order_sign_and_scale(order, dtype):
    rng = np.random.default_rng(5)
    _, _, factors = model(order, dtype)
    p = rng.permutation(R)
    other = [
        U[:, p] * (rng.choice([-1, 1], R) * rng.uniform(0.1, 9, R)).astype(dtype) for U in factors
    ]
    assert factor_match_score(factors, other) == pytest.approx(1.0, abs=RTOL[dtype])
    different = model(order, dtype, seed=8)[2]
    assert 0.0 <= factor_match_score(factors, different) < 0.95


def test_factor_match_score_of_different_ranks():
    _, _, factors = model(3, "float64", rank=5)
    part = [U[:, [3, 1]] for U in factors]
    assert factor_match_score(factors, part) == pytest.approx(1.0)
    assert factor_match_score(part, factors) == pytest.approx(1.0)


@pytest.mark.parametrize("other", [DIMS[2], (4, 3), (4, 3, 6)])
def test_factor_match_score_of_other_shapes(other):
    _, _, factors = model(3, "float64")
    with pytest.raises(InvalidInputError, match=r"modes \[4, 3, 5\] and .*same tensor shape"):
        factor_match_score(factors, [np.ones((d, R)) for d in other])


# -------------------------------------------------------------------- any shape


@settings(max_examples=40, deadline=None)
@given(
    dims=st.lists(st.integers(1, 4), min_size=1, max_size=5),
    n=st.integers(1, 5),
    rank=st.integers(1, 4),
    seed=st.integers(0, 2**16),
)
def test_kernels_agree_for_any_shape(dims, n, rank, seed):
    rng = np.random.default_rng(seed)
    X, W = rng.standard_normal((n, *dims)), rng.standard_normal((n, rank))
    factors = [rng.standard_normal((d, rank)) for d in dims]
    H = slow_khatri_rao(factors)
    flat = X.reshape(n, -1)
    np.testing.assert_allclose(kernels.khatri_rao(factors), H, atol=1e-12)
    np.testing.assert_allclose(kernels.gram(factors), H.T @ H, atol=1e-10)
    Q = kernels.factor_products(flat, W)
    for mode in range(len(dims)):
        M = kernels.mttkrp(Q, factors, mode)
        np.testing.assert_allclose(M, slow_mttkrp(X, W, factors, mode), atol=1e-10)
    slow = ((flat - W @ H.T) ** 2).sum()
    value = kernels.residual_squared((flat**2).sum(), flat @ H, W, H.T @ H)
    assert value == pytest.approx(slow, rel=1e-9, abs=1e-9)
    unit, gain, index = kernels.normal_form(factors, np.linalg.norm(W, axis=0))
    np.testing.assert_allclose(kernels.cp_to_flat(W[:, index] * gain, unit), W @ H.T, atol=1e-10)


def test_arrays_in_the_blocks_of_coupled_factors():
    made = kernels.CoupledFactors([[np.ones((3, 2))], [np.ones((4, 2))] * 2])
    doubled = kernels.like(made, [2 * U for U in made])
    assert [len(block) for block in doubled.blocks] == [1, 2]
    assert all((U == 2).all() for U in doubled)
    with pytest.raises(InvalidInputError, match="more than 3 arrays for the factors"):
        made.like([np.ones((3, 2))] * 4)
