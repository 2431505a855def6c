"""Coupled blocks (E22): equations, estimators, sources, files and errors."""

from itertools import product

import numpy as np
import pytest
from sklearn.base import clone
from tests.matching import factor_match_score

from tensorcontrast import ATD, CPD, PLC, Algorithm1, load_model
from tensorcontrast.cp import kernels
from tensorcontrast.decompose.inputs import Layout, coupled_blocks
from tensorcontrast.errors import InvalidInputError

DIMS, RANK = ((4, 5, 3), (6,), (3, 2)), 3
FINE = {"alpha": 1e-6, "tol": 1e-6, "max_iter": 1000, "random_state": 0}
FAST = {"rank": RANK, "max_iter": 20, "tol": 0, "random_state": 0}


def coupled(n=50, noise=0.0, seed=0, dims=DIMS, dtype="float64"):
    """Blocks of the same windows, their features, and the factors of each block."""
    rng = np.random.default_rng(seed)
    factors = [[rng.normal(size=(d, RANK)) for d in block] for block in dims]
    W = rng.normal(size=(n, RANK))
    X = []
    for b, (block, own) in enumerate(zip(factors, dims, strict=True)):
        made = W @ kernels.khatri_rao(block).T
        made += noise * made.std() * rng.normal(size=made.shape)
        X.append((10.0**b * made).reshape(n, *own).astype(dtype))
    return X, W, kernels.CoupledFactors(factors)


def loop_H(factors):
    """H of all blocks below each other, entry by entry."""
    rows = []
    for block in factors.blocks:
        for place in product(*(range(len(U)) for U in block)):
            rows.append([np.prod([U[i, r] for U, i in zip(block, place, strict=True)])
                         for r in range(RANK)])  # fmt: skip
    return np.array(rows)


def flat(X):
    return np.concatenate([block.reshape(len(block), -1) for block in X], axis=1)


MODELS = {
    "CPD": CPD(**FAST),
    "ATD": ATD(**FAST),
    "PLC": PLC(**FAST, n_clusters=4),
    "Algorithm 1": Algorithm1(**FAST, n_clusters=4),
}


@pytest.fixture(params=MODELS)
def model(request):
    return clone(MODELS[request.param])


# ---------------------------------------------------------------------------- equations


def test_kernels_are_those_of_the_stacked_matrices():
    X, W, factors = coupled(noise=0.3)
    X, H = flat(X), loop_H(factors)
    np.testing.assert_allclose(kernels.khatri_rao(factors), H, rtol=1e-12)
    np.testing.assert_allclose(kernels.gram(factors), H.T @ H, rtol=1e-10)
    np.testing.assert_allclose(kernels.cp_to_flat(W, factors), W @ H.T, rtol=1e-10)
    assert kernels.entries(factors) == len(H) == 72
    Q = W.T @ X
    assert kernels.fitted_product(Q, factors) == pytest.approx(float((X * (W @ H.T)).sum()))
    assert kernels.residual_direct(X, W, factors) == pytest.approx(((X - W @ H.T) ** 2).sum())


def test_weights_of_blocks_are_weights_of_their_sums():
    X, _, factors = coupled(noise=0.3)
    layout = Layout(DIMS, True, (1.0, 2.0, 0.5))
    weighed = kernels.CoupledFactors(
        [[s * block[0], *block[1:]] for s, block in zip(layout.scales, factors.blocks, strict=True)]
    )
    squares = [s**2 for s in layout.scales]
    grams = [kernels.gram(block) for block in factors.blocks]
    HtH = sum(s * G for s, G in zip(squares, grams, strict=True))
    np.testing.assert_allclose(kernels.gram(weighed), HtH)
    parts = zip(squares, X, factors.blocks, strict=True)
    XH = sum(s * A.reshape(len(A), -1) @ kernels.khatri_rao(block) for s, A, block in parts)
    np.testing.assert_allclose((flat(X) * layout.factor) @ kernels.khatri_rao(weighed), XH)
    for a, b in zip(layout.split(flat(X) * layout.factor), X, strict=True):
        np.testing.assert_allclose(a, b)


def test_each_block_is_updated_by_itself():
    X, W, factors = coupled(noise=0.3)
    new, misfit = kernels.update_factors(W.T @ flat(X), W.T @ W, factors, 0.1)
    for A, block, found in zip(X, factors.blocks, new.blocks, strict=True):
        alone, _ = kernels.update_factors(W.T @ A.reshape(len(A), -1), W.T @ W, list(block), 0.1)
        for a, b in zip(found, alone, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12)  # to rounding
    residual = ((flat(X) - W @ loop_H(new).T) ** 2).sum()
    assert float((flat(X) ** 2).sum()) + misfit == pytest.approx(residual, rel=1e-9)


def test_the_normal_form_leaves_the_reconstruction_as_it_is():
    _, W, factors = coupled()
    form, gain, order = kernels.normal_form(factors, np.linalg.norm(W, axis=0))
    np.testing.assert_allclose((W[:, order] * gain) @ loop_H(form).T, W @ loop_H(factors).T)
    carries = [form.blocks[1][0], form.blocks[2][0]]
    for U in form:
        if not any(U is other for other in carries):
            np.testing.assert_allclose(np.linalg.norm(U, axis=0), 1)


def test_one_block_is_the_plain_model_to_the_bit(model):
    (X,), *_ = coupled(noise=0.3, dims=DIMS[:1])
    plain = model.fit(X)
    W, factors, history = plain.transform(X), plain.factors_, plain.history_["objective"]
    model.fit((X,))
    assert model.block_dims_ == (DIMS[0],)
    assert model.block_scales_ == (1.0,)
    assert model.history_["objective"] == history
    for a, b in zip(model.factors_[0], factors, strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(model.transform((X,)), W)
    np.testing.assert_array_equal(model.inverse_transform(W)[0], plain.inverse_transform(W)[0])
    assert model.fit(X).block_dims_ is None
    assert isinstance(model.inverse_transform(W), np.ndarray)


# ---------------------------------------------------------------------------- estimators


@pytest.mark.parametrize("method", [CPD, ATD, PLC])
def test_estimators_find_what_made_the_blocks(method):
    X, _, factors = coupled(n=200, noise=0.01, seed=4)
    model = method(rank=RANK, **FINE).fit(X)
    assert [[U.shape for U in block] for block in model.factors_] == [
        [(d, RANK) for d in block] for block in DIMS
    ]
    assert model.reconstruction_error_ < 0.05
    W = model.transform(X)
    for made, block in zip(model.inverse_transform(W), X, strict=True):
        assert made.shape == block.shape
        assert np.linalg.norm(made - block) < 0.1 * np.linalg.norm(block - block.mean(axis=0))
    assert model.score(X) > 0.99
    # The blocks of the model are scaled to the same variance, those of the planted factors are not.
    for own, planted in zip(model.factors_, kernels.blocks_of(factors), strict=True):
        assert factor_match_score(own, planted) > 0.98


def test_a_block_of_few_values_counts_as_much_as_one_of_many():
    """Two blocks with nothing in common: with one component, the heavier one is described."""
    rng = np.random.default_rng(0)
    many = np.einsum("n,a,b->nab", *(rng.normal(size=d) for d in (80, 10, 20)))
    few = 1e-3 * np.outer(rng.normal(size=80), [1.0, 2.0])
    for weights, heavier in (((2, 1), 0), ((1, 2), 1)):
        model = CPD(rank=1, block_weights=weights, **FINE).fit([many, few])
        made = model.inverse_transform(model.transform([many, few]))
        errors = [
            np.linalg.norm(a - b) / np.linalg.norm(b - b.mean(axis=0))
            for a, b in zip(made, (many, few), strict=True)
        ]
        assert errors[heavier] < 0.2 < 0.8 < errors[1 - heavier]


def test_scales_give_blocks_their_shares_of_the_variance():
    X, *_ = coupled(noise=0.3)
    for weights, shares in ((None, (1, 1, 1)), ((1, 4, 2), (1, 4, 2))):
        model = CPD(**FAST, block_weights=weights).fit(X)
        variances = [
            s**2 * block.reshape(len(block), -1).var(axis=0).sum()
            for s, block in zip(model.block_scales_, X, strict=True)
        ]
        np.testing.assert_allclose(variances, np.array(shares) * variances[0], rtol=1e-6)
        assert model.block_scales_[0] == 1.0
        assert model.scale_ == pytest.approx(np.sqrt(sum(variances)))


def test_a_block_of_equal_windows_changes_nothing():
    X, *_ = coupled(noise=0.3)
    model, plain = CPD(**FAST).fit([X[0], np.full((50, 2), 7.0)]), CPD(**FAST).fit((X[0],))
    assert model.block_scales_ == (1.0, 1.0)
    assert model.score([X[0], np.full((50, 2), 7.0)]) == pytest.approx(
        plain.score((X[0],)), abs=0.02
    )
    with pytest.raises(InvalidInputError, match="equal"):
        CPD(**FAST).fit([np.ones((50, 3)), np.ones((50, 2))])


def test_the_unit_of_a_block_does_not_matter():
    X, *_ = coupled(noise=0.3)
    here, there = (CPD(**FAST).fit([X[0], unit * X[1]]) for unit in (1.0, 1e6))
    np.testing.assert_allclose(
        here.transform(X[:2]), there.transform([X[0], 1e6 * X[1]]), rtol=1e-6, atol=1e-9
    )


def test_as_good_as_tensorlys_coupled_factorisation():
    tensorly = pytest.importorskip("tensorly")
    from tensorly.decomposition import coupled_matrix_tensor_3d_factorization as cmtf

    (X, Y), *_ = coupled(n=40, noise=0.5, dims=((6, 5), (4,)), seed=2)
    Y /= 10
    tensor, matrix, _ = cmtf(X, Y, RANK, init="svd", n_iter_max=500, tol=1e-9)
    theirs = np.linalg.norm(X - tensorly.cp_to_tensor(tensor)) ** 2
    theirs += np.linalg.norm(Y - tensorly.cp_to_tensor(matrix)) ** 2
    variances = [(block.reshape(40, -1) ** 2).sum() for block in (X, Y)]
    model = CPD(rank=RANK, center=False, block_weights=variances, **FINE).fit([X, Y])
    np.testing.assert_allclose(model.block_scales_, 1.0)
    made = model.inverse_transform(model.transform([X, Y]))
    ours = sum(np.linalg.norm(a - b) ** 2 for a, b in zip(made, (X, Y), strict=True))
    assert ours == pytest.approx(theirs, rel=1e-3)


def test_a_view_is_a_list_too():
    X, *_ = coupled(noise=0.3)
    view = [block + 0.1 * block.std() for block in X]
    model = ATD(**FAST)
    given = model.fit(X, view=view).transform(X)
    drawn = model.fit(X, view=lambda rng: tuple(view)).transform(X)
    assert np.corrcoef(given.ravel(), drawn.ravel())[0, 1] > 0.9
    np.testing.assert_array_equal(model.fit_transform(X, view=view), given)


@pytest.mark.parametrize("fresh", [False, True])
def test_augment_sees_the_blocks(fresh):
    X, *_ = coupled(noise=0.3)
    seen = []

    def augment(parts, rng):
        seen.append([part.shape[1:] for part in parts])
        np.testing.assert_allclose(parts[1], X[1][: len(parts[1])], rtol=1e-9)
        return [part * 1.1 for part in parts]

    def algorithm1(augment):
        return Algorithm1(**FAST, n_clusters=4, augment=augment, fresh_views=fresh)

    algorithm1(augment).fit(X)
    assert seen[0] == list(DIMS)
    for wrong in (lambda parts, rng: parts[:2], lambda parts, rng: parts[0]):
        with pytest.raises(InvalidInputError, match="view"):
            algorithm1(wrong).fit(X)


def test_gaps_in_one_block_are_left_out():
    X, *_ = coupled(n=200, noise=0.01)
    holes = [X[0], X[1].copy(), X[2].copy()]
    rng = np.random.default_rng(1)
    holes[1][rng.random(X[1].shape) < 0.1] = np.nan
    holes[2][:20] = np.nan
    model = CPD(rank=RANK, missing="mask", **FINE).fit(holes)
    full = model.inverse_transform(model.transform(holes))
    for made, block in zip(full, X, strict=True):
        assert np.linalg.norm(made - block) < 0.1 * np.linalg.norm(block - block.mean(axis=0))
    assert model.score(holes) > 0.98
    with pytest.raises(InvalidInputError, match=r"X\[1\].* NaN"):
        CPD(**FAST).fit(holes)


# ---------------------------------------------------------------------------- sources


def test_mapped_files_and_stores_give_the_same_bits(model, tmp_path):
    X, *_ = coupled(n=600, noise=0.3, dtype="float32")
    here = model.fit(X).transform(X)
    score, scales = model.score(X), model.block_scales_
    mapped = []
    for b, block in enumerate(X):
        np.save(tmp_path / f"{b}.npy", block)
        mapped.append(np.load(tmp_path / f"{b}.npy", mmap_mode="r"))
    mixed = [mapped[0], X[1], mapped[2]]
    np.testing.assert_array_equal(model.fit(mixed).transform(mixed), here)
    assert model.block_scales_ == scales
    assert model.score(mapped) == score


def test_gaps_in_mapped_files_are_left_out(tmp_path):
    X, *_ = coupled(noise=0.1)
    X[0][3:9] = np.nan
    X[1][:5] = np.nan
    np.save(tmp_path / "x.npy", X[0])
    mapped = [np.load(tmp_path / "x.npy", mmap_mode="r"), *X[1:]]
    here, there = (CPD(**FAST, missing="mask").fit(data) for data in (X, mapped))
    np.testing.assert_allclose(there.transform(mapped), here.transform(X), rtol=1e-9, atol=1e-12)
    with pytest.raises(InvalidInputError, match=r"X\[0\]"):
        CPD(**FAST).fit(mapped)


def test_a_zarr_store_is_a_block(tmp_path):
    zarr = pytest.importorskip("zarr")
    X, *_ = coupled(noise=0.3, dtype="float32")
    stored = zarr.open(str(tmp_path / "x"), mode="w", shape=X[0].shape, chunks=(7, 4, 5, 3),
                       dtype="f4")  # fmt: skip
    stored[:] = X[0]
    model = CPD(**FAST).fit(X[:2])
    there = CPD(**FAST).fit([stored, X[1]])
    np.testing.assert_array_equal(there.transform([stored, X[1]]), model.transform(X[:2]))


@pytest.mark.parametrize("missing", ["error", "mask"])
@pytest.mark.parametrize("cls", [CPD, PLC])
def test_on_dask_as_in_memory(cls, missing):
    array = pytest.importorskip("dask.array")
    X, *_ = coupled(n=600, noise=0.3, dtype="float32")
    y = np.arange(600) % 4 if cls is PLC else None  # clusters would depend on rounding
    more = {"graph": "true"} if cls is PLC else {}
    here = cls(**FAST, missing=missing, **more).fit(X, y)
    lazy = [
        array.from_array(block, chunks=(size, *(-1 for _ in block.shape[1:])))
        for block, size in zip(X, (200, 150, 300), strict=True)
    ]
    there = cls(**FAST, missing=missing, **more).fit([lazy[0], lazy[1], X[2]], y)
    np.testing.assert_allclose(there.block_scales_, here.block_scales_, rtol=1e-6)
    W = here.transform(X)
    np.testing.assert_allclose(np.asarray(there.transform(lazy)), W, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(there.transform(X), W, rtol=1e-3, atol=1e-3)


def test_a_table_is_a_block():
    pandas = pytest.importorskip("pandas")
    X, *_ = coupled(noise=0.3)
    table = pandas.DataFrame(X[1], columns=list("abcdef"))
    model = CPD(**FAST).fit([X[0], table])
    np.testing.assert_array_equal(
        model.transform([X[0], table]), CPD(**FAST).fit(X[:2]).transform(X[:2])
    )


def test_counts_and_single_precision_join_as_floats():
    X, *_ = coupled(noise=0.3)
    counts = np.round(X[1]).astype("int16")
    assert CPD(**FAST).fit([X[0].astype("float32"), counts]).center_.dtype == np.float32
    assert CPD(**FAST).fit([X[0], counts]).center_.dtype == np.float64
    assert CPD(**FAST, dtype="float32").fit(X).transform(X).dtype == np.float32


# ---------------------------------------------------------------------------- files


def test_a_model_file_has_the_blocks(model, tmp_path):
    X, *_ = coupled(noise=0.1)
    model.fit(X).save(tmp_path / "m.tcm")
    again = load_model(tmp_path / "m.tcm")
    assert again.block_dims_ == DIMS
    assert again.block_scales_ == model.block_scales_
    np.testing.assert_array_equal(again.transform(X), model.transform(X))
    assert again.fit(X).score(X) > 0.8


# ---------------------------------------------------------------------------- what X is


def test_which_lists_are_blocks():
    X, *_ = coupled(n=5)
    assert len(coupled_blocks(X)) == 3
    assert len(coupled_blocks((X[0], X[0]))) == 2
    assert coupled_blocks([X[0], X[0]]) is None  # an array-like of windows
    assert len(coupled_blocks([X[0], X[0]], coupled=True)) == 2
    assert coupled_blocks([[1.0, 2.0], [3.0, 4.0]]) is None
    assert coupled_blocks(([1.0, 2.0], [3.0, 4.0])) is None
    assert coupled_blocks([np.ones(3), np.ones(3)]) is None
    assert coupled_blocks(X[0]) is None
    assert coupled_blocks([]) is None
    windows = CPD(**FAST).fit(list(X[0]))
    assert windows.block_dims_ is None
    same = CPD(**FAST).fit((X[0], 2 * X[0]))
    assert same.block_dims_ == (DIMS[0], DIMS[0])
    np.testing.assert_array_equal(
        same.transform([X[0], 2 * X[0]]), same.transform((X[0], 2 * X[0]))
    )


def test_what_does_not_fit_says_so():
    X, *_ = coupled()
    model, plain = CPD(**FAST).fit(X), CPD(**FAST).fit(X[0])
    offset = X[1] / X[1].std() + 1e7
    cases = [
        (lambda: model.fit([X[0], X[1][:-1]]), r"\[50, 49\]"),
        (lambda: model.fit((X[0], X[1][:, 0])), r"X\[1\]"),
        (lambda: model.fit([X[0], X[1][:, 0]]), r"X\[1\]"),
        (lambda: model.fit([X[0][:1], X[1][:1]]), "1 windows"),
        (lambda: model.fit([X[0], X[1] + np.inf]), r"X\[1\]\[0, 0\]"),
        (lambda: model.fit([X[0], np.full((50, 2), "a")]), r"X\[1\]"),
        (lambda: CPD(**FAST, dtype="float32").fit([X[0], offset]), r"X\[1\].*float32"),
        (lambda: CPD(**FAST, dtype="float32").fit([X[0], 1e300 * X[1]]), r"X\[1\].*float32"),
        (lambda: model.transform(X[:2]), "dims"),
        (lambda: model.transform(X[::-1]), "dims"),
        (lambda: model.transform(X[0]), "coupled"),
        (lambda: model.score(X[0]), "coupled"),
        (lambda: plain.transform(X), "one array"),
        (lambda: ATD(**FAST).fit(X, view=X[:2]), "view"),
        (lambda: ATD(**FAST).fit(X, view=X[0]), "view"),
        (lambda: CPD(**FAST, block_weights=(1, 2)).fit(X), "block_weights"),
        (lambda: CPD(**FAST, block_weights=(1, 2, -1)).fit(X), "block_weights"),
        (lambda: CPD(**FAST, block_weights=(1, 2, "a")).fit(X), "block_weights"),
        (lambda: CPD(**FAST, block_weights=(1, 2)).fit(X[0]), "block_weights"),
    ]
    for call, match in cases:
        with pytest.raises(InvalidInputError, match=match):
            call()


def test_a_refused_fit_leaves_the_model_as_it_was():
    X, *_ = coupled()
    model = CPD(**FAST).fit(X)
    with pytest.raises(InvalidInputError):
        model.fit([X[0], X[1][:-1]])
    assert model.block_dims_ == DIMS
    assert model.transform(X).shape == (50, RANK)
