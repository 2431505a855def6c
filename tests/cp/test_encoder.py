"""The encoder (E12): its inverse, also where components are alike, and what cannot be encoded."""

import numpy as np
import pytest

from tensorcontrast.cp import kernels
from tensorcontrast.cp.encoder import Encoder
from tensorcontrast.errors import NumericalError


def factors(dtype="float64", rank=3):
    rng = np.random.default_rng(0)
    return [rng.standard_normal((size, rank)).astype(dtype) for size in (5, 6)]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("alpha", [0.1, np.array([0.1, 0.2, 0.3])])
def test_features_are_those_of_ridge_regression(dtype, alpha):
    made = factors(dtype)
    H = kernels.khatri_rao(made).astype("float64")
    X = np.random.default_rng(1).standard_normal((7, 30))
    encoder = Encoder.from_factors(made, alpha)
    W = encoder((X @ H).astype(dtype))
    assert W.dtype == dtype
    wanted = np.linalg.solve(H.T @ H + np.diag(np.broadcast_to(alpha, 3)), H.T @ X.T).T
    np.testing.assert_allclose(W, wanted, rtol=2e-4 if dtype == "float32" else 1e-10)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("length", [1.0, 1e4])
def test_two_equal_components_share_what_one_would_have(dtype, length):
    """Without a ridge HᵀH is singular; a long column must not hold the others down."""
    U, V = factors("float64")
    U[:, 1], V[:, 1] = U[:, 0], V[:, 0]
    U[:, 2] *= length
    made = [U.astype(dtype), V.astype(dtype)]
    H = kernels.khatri_rao(made).astype("float64")
    x = H @ [1.0, 1.0, 1.0]
    encoder = Encoder.from_factors(made, 0.0)
    w = encoder((x[None] @ H).astype(dtype))[0]
    assert np.abs(H @ w - x).max() < 0.03 * np.abs(x).max()
    assert w[2] == pytest.approx(1.0, rel=1e-5)
    lengths = np.linalg.norm(H, axis=0)
    near = 10 * np.finfo(dtype).eps * np.outer(lengths, lengths)
    assert (np.abs(encoder.K - H.T @ H) < near).all()
    assert (encoder.eigenvalues > 0).all()


def test_a_component_of_zeros_gets_no_feature():
    made = factors()
    made[0][:, 1] = 0.0
    w = Encoder.from_factors(made, 0.0)(np.array([[1.0, 0.0, 1.0]]))
    assert np.isfinite(w).all()
    assert w[0, 1] == 0.0


def test_factors_without_an_encoder_are_an_error():
    made = factors()
    with pytest.raises(NumericalError, match="all components have become zero"):
        Encoder.from_factors([0 * U for U in made], 0.0)
    made[0][2, 1] = np.nan
    with pytest.raises(NumericalError, match="factors are not finite: pass a larger alpha"):
        Encoder.from_factors(made, 0.1)
