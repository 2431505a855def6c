"""Diagnostics of CP models against tensorly-viz, and against loops written like the formulas."""

from itertools import permutations

import numpy as np
import pytest

from tensorcontrast.cp import diagnostics, kernels
from tensorcontrast.errors import InvalidInputError, TensorContrastWarning

N, R = 30, 3
DIMS = (5, 4, 6)


def planted(dims=DIMS, rank=R, noise=0.3, seed=0, n=N):
    rng = np.random.default_rng(seed)
    W = rng.normal(size=(n, rank))
    factors = [rng.normal(size=(d, rank)) for d in dims]
    X = kernels.cp_to_flat(W, factors)
    return X + noise * rng.normal(size=X.shape), W, factors


def coupled(noise=0.3, seed=0):
    rng = np.random.default_rng(seed)
    W = rng.normal(size=(N, R))
    factors = kernels.CoupledFactors(
        [[rng.normal(size=(5, R)), rng.normal(size=(4, R))], [rng.normal(size=(7, R))]]
    )
    X = kernels.cp_to_flat(W, factors)
    return X + noise * rng.normal(size=X.shape), W, factors


@pytest.fixture(scope="module")
def tlviz():
    return pytest.importorskip("tlviz", reason="needs the extra 'dev'")


def test_core_consistency_is_that_of_tensorly_viz(tlviz):
    for dims in (DIMS, (5, 4)):
        for noise in (0.0, 0.5, 3.0):
            X, W, factors = planted(dims, noise=noise, seed=1)
            H = kernels.khatri_rao(factors)
            W = X @ np.linalg.pinv(H).T
            (found,) = diagnostics.core_consistency(X, W, factors)
            wanted = tlviz.model_evaluation.core_consistency(
                (None, [W, *factors]), X.reshape(N, *dims)
            )
            assert found == pytest.approx(wanted, rel=1e-9, abs=1e-9)
            assert (noise > 0) == (found < 100 - 1e-6)
    X, W, factors = planted((5, 2), seed=2)  # a mode shorter than the rank
    assert diagnostics.core_consistency(X, W, factors) == [None]


def test_core_consistency_by_the_kronecker_product(monkeypatch):
    monkeypatch.setattr(diagnostics, "STRIP_VALUES", 100)
    X, W, factors = coupled()
    value, of_a_matrix = diagnostics.core_consistency(X.astype(np.float32), W, factors)
    block = factors.blocks[0]
    whole = np.ones((1, 1))
    for U in [W, *block]:
        whole = np.kron(whole, U)
    size = int(np.prod([len(U) for U in block]))
    core = np.linalg.lstsq(whole, X[:, :size].ravel(), rcond=None)[0]
    ideal = np.zeros([R] * (len(block) + 1))
    for r in range(R):
        ideal[(r,) * ideal.ndim] = 1.0
    assert value == pytest.approx(100 * (1 - ((core - ideal.ravel()) ** 2).sum() / R), rel=1e-5)
    assert of_a_matrix is None
    assert diagnostics.core_consistency(X[:2], W[:2], factors) == [None, None]


def test_a_rank_too_large_has_a_low_core_consistency():
    X, _, factors = planted(noise=0.5)
    rng = np.random.default_rng(3)
    # A split component: the same pattern twice, the windows divided between both.
    split = [np.column_stack([U, U[:, 0] + 1e-2 * rng.normal(size=len(U))]) for U in factors]
    W = X @ np.linalg.pinv(kernels.khatri_rao(split)).T
    assert diagnostics.core_consistency(X, W, split)[0] < 50


def test_factor_match_score_is_that_of_tensorly_viz(tlviz):
    factors = planted(seed=4)[2]
    rng = np.random.default_rng(5)
    order = rng.permutation(R)
    others = [U[:, order] + 0.4 * rng.normal(size=U.shape) for U in factors]
    score = tlviz.factor_tools.factor_match_score
    alone = diagnostics.match(factors, others)
    wanted, permutation = score(
        (None, factors), (None, others), consider_weights=False, return_permutation=True
    )
    assert alone.score == pytest.approx(wanted)
    assert alone.order.tolist() == list(permutation) == np.argsort(order).tolist()


def test_matching_of_coupled_blocks_by_all_permutations():
    _, _, a = coupled(seed=6)
    rng = np.random.default_rng(7)
    b = a.like([U[:, ::-1] + 0.5 * rng.normal(size=U.shape) for U in a])
    H, G = kernels.khatri_rao(a), kernels.khatri_rao(b)
    cosine = np.array([[h @ g / np.linalg.norm(h) / np.linalg.norm(g) for g in G.T] for h in H.T])
    best = max(
        permutations(range(R)),
        key=lambda order: sum(abs(cosine[r, s]) for r, s in enumerate(order)),
    )
    found = diagnostics.match(a, b)
    assert tuple(found.order) == best
    similarity = [abs(cosine[r, s]) for r, s in enumerate(best)]
    np.testing.assert_allclose(found.similarity, similarity, rtol=1e-10)
    assert found.score == pytest.approx(np.mean(similarity))


def test_matched_features_have_the_order_and_signs_of_the_first_model():
    X, _, factors = planted(noise=0.0, seed=8)
    flipped = [factors[0][:, ::-1] * [1, -1, -2], *(U[:, ::-1] for U in factors[1:])]
    W, V = (X @ np.linalg.pinv(kernels.khatri_rao(f)).T for f in (factors, flipped))
    found = diagnostics.match(factors, flipped)
    np.testing.assert_allclose(found.similarity, 1.0)
    np.testing.assert_allclose(found.apply(V), W * [0.5, 1, 1], rtol=1e-8)
    fewer = diagnostics.match(factors, [U[:, :2] for U in factors])
    assert fewer.order.tolist() == [0, 1, -1] and fewer.similarity[2] == 0
    assert fewer.score == pytest.approx(1.0)
    assert not fewer.apply(W[:, :2])[:, 2].any()
    with pytest.raises(InvalidInputError, match="same tensor shape"):
        diagnostics.match(factors, factors[:2])


def test_shares_of_components(tlviz):
    X, W, factors = planted(seed=9)
    total = float((X**2).sum())
    wanted = tlviz.factor_tools.percentage_variation(
        (None, [W, *factors]), X.reshape(N, *DIMS), method="data"
    )
    found = diagnostics.component_shares(W, factors, total)
    np.testing.assert_allclose(100 * found, wanted)
    for case in (planted(seed=9), coupled(seed=9)):
        X, _, factors = case
        H, ridge = kernels.khatri_rao(factors), np.array([0.1, 2.0, 5.0])

        def least(columns, X=X, H=H, ridge=ridge):
            """Minimum over the features of some components."""
            own, rho = H[:, columns], np.diag(ridge[columns])
            W = X @ own @ np.linalg.inv(own.T @ own + rho)
            return ((X - W @ own.T) ** 2).sum() + (W**2 @ ridge[columns]).sum(), W

        whole, W = least([0, 1, 2])
        total = float((X**2).sum())
        lost = [least([s for s in range(R) if s != r])[0] - whole for r in range(R)]
        found = diagnostics.unique_shares(W, factors, ridge, total)
        np.testing.assert_allclose(found, np.array(lost) / total, rtol=1e-8)
    assert not diagnostics.component_shares(W, factors, 0.0).any()
    assert not diagnostics.unique_shares(W, factors, 0.1, 0.0).any()


def test_leverage_and_residuals(tlviz):
    X, W, factors = planted(seed=10)
    W[3] *= 20
    X[7] += 5
    found = diagnostics.leverage(W)
    np.testing.assert_allclose(found, tlviz.outliers.compute_leverage(W))
    assert found.sum() == pytest.approx(R) and found.argmax() == 3
    left, norms = diagnostics.residuals(X, W, factors)
    made = kernels.cp_to_flat(W, factors)
    np.testing.assert_allclose(left, [((x - m) ** 2).sum() for x, m in zip(X, made, strict=True)])
    np.testing.assert_allclose(norms, [(x**2).sum() for x in X])
    wanted = tlviz.outliers.compute_slabwise_sse(
        made.reshape(N, *DIMS), X.reshape(N, *DIMS), normalise=False
    )
    np.testing.assert_allclose(left, wanted)
    np.testing.assert_allclose(diagnostics.leverage(np.c_[W, W[:, 0]]), found, atol=1e-12)


def test_congruence_is_the_degeneracy_score_of_tensorly_viz(tlviz):
    for seed in range(4):
        _, W, factors = planted(seed=seed)
        unit = [U / np.linalg.norm(U, axis=0) for U in factors]
        W[:, 1] = -W[:, 0] + 0.1 * W[:, 1]
        found = diagnostics.congruence(unit, W.T @ W)
        value, a, b = diagnostics.most_opposed(unit, W.T @ W)
        assert value == found[a, b] == found.min() < 0
        assert value == pytest.approx(tlviz.factor_tools.degeneracy_score((None, [W, *factors])))


def test_space_similarity_is_that_of_canonical_correlations():
    from scipy.linalg import subspace_angles

    rng = np.random.default_rng(11)
    W = rng.normal(size=(60, 4)) + 3.0
    V = W[:, :3] @ rng.normal(size=(3, 3)) + 0.5 * rng.normal(size=(60, 3))
    angles = subspace_angles(W - W.mean(axis=0), V - V.mean(axis=0))
    assert diagnostics.space_similarity(W, V) == pytest.approx((np.cos(angles) ** 2).mean())
    mixed = W @ rng.normal(size=(4, 4)) + 1.0  # other features that hold the same
    assert diagnostics.space_similarity(W, mixed) == pytest.approx(1.0)
    assert diagnostics.space_similarity(W, W * [1, 1, 0, 1]) == pytest.approx(1.0)


def test_the_most_opposed_components_are_those_of_a_loop():
    rng = np.random.default_rng(0)
    factors = [rng.standard_normal((size, 4)) for size in (5, 6)]
    factors = [U / np.linalg.norm(U, axis=0) for U in factors]
    W = rng.standard_normal((30, 4))
    W[:, 3] = -W[:, 1] + 0.1 * W[:, 3]
    for U in factors:
        U[:, 3] = U[:, 1]
    H = kernels.khatri_rao(factors)
    pairs = {}
    for a in range(4):
        for b in range(a + 1, 4):
            tensors = [np.outer(W[:, k], H[:, k]) for k in (a, b)]
            norms = [np.linalg.norm(T) for T in tensors]
            pairs[a, b] = (tensors[0] * tensors[1]).sum() / norms[0] / norms[1]
    value, a, b = diagnostics.most_opposed(factors, W.T @ W)
    assert (a, b) == min(pairs, key=pairs.get) == (1, 3)
    assert value == pytest.approx(pairs[1, 3], rel=1e-10)
    with pytest.warns(TensorContrastWarning, match=r"CPD: components 1 and 3 cancel each other"):
        diagnostics.warn_if_degenerate("CPD", value, a, b)
    diagnostics.warn_if_degenerate("CPD", -0.5, a, b)  # which is no warning


def test_features_are_matched_by_their_correlations():
    rng = np.random.default_rng(0)
    W = rng.normal(size=(80, 4)) + 5.0
    order, signs = np.array([2, 0, 3, 1]), np.array([1.0, -1.0, 1.0, -1.0])
    other = np.empty_like(W)
    other[:, order] = 3.0 * W * signs + 1.0  # scale, sign and mean do not matter
    found = diagnostics.match_features(W, other)
    np.testing.assert_array_equal(found.order, order)
    np.testing.assert_array_equal(found.signs, signs)
    np.testing.assert_allclose(found.similarity, 1.0)
    slow = [[np.corrcoef(a, b)[0, 1] for b in other.T] for a in W.T]
    np.testing.assert_allclose(diagnostics.correlations(W, other), slow, atol=1e-12)
    fewer = diagnostics.match_features(W, np.column_stack([other[:, 2], np.zeros(80)]))
    assert fewer.order[0] == 0 and sorted(fewer.order)[:2] == [-1, -1]
    with pytest.raises(InvalidInputError, match="80 and of 79"):
        diagnostics.match_features(W, other[1:])
