"""The kernels run unchanged on PyTorch tensors and agree with NumPy."""

from collections.abc import Sequence

import numpy as np
import pytest

from tensorcontrast.cp import kernels
from tensorcontrast.errors import NumericalError

torch = pytest.importorskip("torch")

DIMS = [(7,), (5, 6), (4, 6, 5), (3, 4, 2, 5)]


def case(dims, dtype, n=20, r=3, seed=0):
    rng = np.random.default_rng(seed)
    factors = [rng.normal(size=(d, r)).astype(dtype) for d in dims]
    W = rng.normal(size=(n, r)).astype(dtype)
    X = rng.normal(size=(n, int(np.prod(dims)))).astype(dtype)
    return X, W, factors


def as_torch(value):
    if isinstance(value, Sequence):
        return kernels.like(value, [as_torch(v) for v in value])
    return torch.from_numpy(np.ascontiguousarray(value))


def agree(there, here):
    if isinstance(here, Sequence):
        assert len(there) == len(here)
        for a, b in zip(there, here, strict=True):
            agree(a, b)
    elif isinstance(here, float | int):
        assert there == pytest.approx(here, rel=1e-4)
    else:
        assert isinstance(there, torch.Tensor)
        assert str(there.dtype).endswith(str(here.dtype))
        np.testing.assert_allclose(there.numpy(), here, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("extra", [0, 4])
@pytest.mark.parametrize("dims", DIMS)
def test_every_kernel_on_torch(dims, dtype, extra):
    X, W, factors = case(dims, dtype)
    if extra:
        rng = np.random.default_rng(1)
        X = np.concatenate([X, rng.normal(size=(len(X), extra)).astype(dtype)], axis=1)
        own = rng.normal(size=(extra, W.shape[1])).astype(dtype)
        factors = kernels.CoupledFactors([factors, [own]])
    Q, WtW, HtH = W.T @ X, W.T @ W, kernels.gram(factors)
    calls = [
        (kernels.inner, (X, X)),
        (kernels.row_norms_squared, (X,)),
        (kernels.entries, (factors,)),
        (kernels.khatri_rao, (factors,)),
        (kernels.gram, (factors,)),
        (kernels.factor_products, (X, W)),
        *((kernels.mttkrp, (Q, factors, k)) for k in range(len(factors))),
        (kernels.fitted_product, (Q, factors)),
        (kernels.ridge_solve, (W, HtH, 0.1)),
        (kernels.ridge_solve, (W, HtH, np.array([0.1, 0.2, 0.3]))),
        (kernels.update_factors, (Q, WtW, factors, 0.1)),
        (kernels.cp_norm_squared, (W, factors)),
        (kernels.residual_squared, (float((X**2).sum()), X @ kernels.khatri_rao(factors), W, HtH)),
        (kernels.residual_direct, (X, W, factors)),
        (kernels.cp_to_flat, (W, factors)),
        (kernels.normal_form, (factors, np.linalg.norm(W, axis=0))),
    ]
    names = {function.__name__ for function, _ in calls}
    # A Hungarian matching, in SciPy; lengths of columns, in NumPy; and what no array library
    # takes part in.
    plain = {"factor_match_score", "cross_gram", "CoupledFactors", "balanced", "blocks_of", "like"}
    assert names == set(kernels.__all__) - plain
    for function, arguments in calls:
        there = [as_torch(a) if isinstance(a, np.ndarray | Sequence) else a for a in arguments]
        agree(function(*there), function(*arguments))


def test_whole_als_on_torch_is_that_on_numpy():
    X, _, factors = case((4, 6, 5), "float64", n=60)
    tensors, there = as_torch(X), as_torch(factors)
    for _ in range(10):
        H, K = kernels.khatri_rao(factors), kernels.gram(factors)
        W = kernels.ridge_solve(X @ H, K, 1e-3)
        factors, misfit = kernels.update_factors(W.T @ X, W.T @ W, factors, 1e-3)
        H, K = kernels.khatri_rao(there), kernels.gram(there)
        V = kernels.ridge_solve(tensors @ H, K, 1e-3)
        there, other = kernels.update_factors(V.T @ tensors, V.T @ V, there, 1e-3)
    assert other == pytest.approx(misfit, rel=1e-6)
    agree(there, factors)


def test_singular_and_infinite_matrices_on_torch():
    zero = torch.zeros((3, 3))
    with pytest.raises(NumericalError, match="singular"):
        kernels.ridge_solve(torch.ones((2, 3)), zero)
    with pytest.raises(NumericalError, match="not finite"):
        kernels.ridge_solve(torch.ones((2, 3)), zero + torch.inf)
