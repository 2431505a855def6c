"""Coupled blocks (E22): equations, estimators, sources, files and errors."""

from itertools import product

import numpy as np
import pytest
from sklearn.base import clone

from tensorcontrast import ATD, CPD, PLC, load_model
from tensorcontrast.cp import kernels
from tensorcontrast.decompose import blocks
from tensorcontrast.decompose.options import build
from tensorcontrast.errors import DamagedFileError, InvalidInputError, TensorContrastWarning
from tensorcontrast.evaluate.selection import information_criteria
from tensorcontrast.solvers import gradient

DIMS, RANK = ((4, 5, 3), (6,), (3, 2)), 3
FINE = {"alpha": 1e-6, "tol": 1e-6, "max_iter": 1000, "random_state": 0}
FAST = {"rank": RANK, "max_iter": 20, "tol": 0, "random_state": 0}
SHORT = {"n_epochs": 4, "n_clusters": 4}


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


def models(**more):
    return [
        build(CPD, **FAST, **more),
        build(ATD, **FAST, **more),
        build(PLC, **FAST, **SHORT, **more),
        build(PLC, **FAST, solver="als", n_clusters=4, **more),
    ]


def ids(model):
    return f"{type(model).__name__}-{getattr(model, 'solver', '')}"


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
    layout = blocks.Layout(DIMS, (1.0, 2.0, 0.5))
    weighed = kernels.CoupledFactors(
        [[s * block[0], *block[1:]] for s, block in zip(layout.scales, factors.blocks, strict=True)]
    )
    squares = [s**2 for s in layout.scales]
    grams = [kernels.gram(block) for block in factors.blocks]
    HtH = sum(s * G for s, G in zip(squares, grams, strict=True))
    np.testing.assert_allclose(kernels.gram(weighed), HtH)
    parts = zip(squares, X, factors.blocks, strict=True)
    XH = sum(s * A.reshape(len(A), -1) @ kernels.khatri_rao(block) for s, A, block in parts)
    np.testing.assert_allclose(layout.weigh(flat(X)) @ kernels.khatri_rao(weighed), XH)
    for a, b in zip(layout.split(layout.weigh(flat(X))), X, strict=True):
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


def test_gradients_of_the_tied_objective_are_those_of_differences():
    X, _, factors = coupled(n=30, noise=0.5)
    X = blocks.Layout(DIMS, (0.1, 0.01, 0.001)).weigh(flat(X))
    V = X + 0.1 * np.random.default_rng(1).normal(size=X.shape)
    weight = np.random.default_rng(2).normal(size=(2, 30, RANK))

    def loss(W, U):
        return float((weight[0] * W**2 + weight[1] * W * U).sum()) / 30, (
            (2 * weight[0] * W + weight[1] * U) / 30,
            weight[1] * W / 30,
        )

    def value(at):
        return gradient.tied_objective(X, V, at, loss, alpha=0.1, beta=0.7)[0]

    gradients = gradient.tied_objective(X, V, factors, loss, alpha=0.1, beta=0.7)[1]
    rng = np.random.default_rng(3)
    for k, slope in enumerate(gradients):
        assert slope.shape == factors[k].shape
        step = rng.normal(size=factors[k].shape)
        ends = [
            value(factors.like([U + s * step if j == k else U for j, U in enumerate(factors)]))
            for s in (1e-5, -1e-5)
        ]
        assert float((slope * step).sum()) == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-4)


def test_the_normal_form_leaves_the_reconstruction_as_it_is():
    _, W, factors = coupled()
    form, gain, order = kernels.normal_form(factors, np.linalg.norm(W, axis=0))
    np.testing.assert_allclose((W[:, order] * gain) @ loop_H(form).T, W @ loop_H(factors).T)
    carries = [form.blocks[1][0], form.blocks[2][0]]
    for U in form:
        if not any(U is other for other in carries):
            np.testing.assert_allclose(np.linalg.norm(U, axis=0), 1)


@pytest.mark.parametrize("model", models(), ids=ids)
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
@pytest.mark.parametrize("options", [{}, {"robust": "huber"}], ids=str)
def test_estimators_find_what_made_the_blocks(method, options):
    X, _, factors = coupled(n=200, noise=0.01, seed=4)
    model = build(method, rank=RANK, n_init=2, **FINE, **options).fit(X)
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
        assert kernels.factor_match_score(own, planted) > 0.98


@pytest.mark.parametrize("model", models(batch_size=50), ids=ids)
def test_mini_batches_of_blocks(model):
    X, *_ = coupled(n=200, noise=0.01)
    assert model.fit(X).score(X) > 0.9


def test_a_block_of_few_values_counts_as_much_as_one_of_many():
    """Two blocks with nothing in common: with one component, the heavier one is described."""
    rng = np.random.default_rng(0)
    many = np.einsum("n,a,b->nab", *(rng.normal(size=d) for d in (80, 10, 20)))
    few = 1e-3 * np.outer(rng.normal(size=80), [1.0, 2.0])
    for weights, heavier in (((2, 1), 0), ((1, 2), 1)):
        model = build(CPD, rank=1, block_weights=weights, **FINE).fit([many, few])
        made = model.inverse_transform(model.transform([many, few]))
        errors = [
            np.linalg.norm(a - b) / np.linalg.norm(b - b.mean(axis=0))
            for a, b in zip(made, (many, few), strict=True)
        ]
        assert errors[heavier] < 0.2 < 0.8 < errors[1 - heavier]


def test_scales_give_blocks_their_shares_of_the_variance():
    X, *_ = coupled(noise=0.3)
    for weights, shares in ((None, (1, 1, 1)), ((1, 4, 2), (1, 4, 2))):
        model = build(CPD, **FAST, block_weights=weights).fit(X)
        variances = [
            s**2 * block.reshape(len(block), -1).var(axis=0).sum()
            for s, block in zip(model.block_scales_, X, strict=True)
        ]
        np.testing.assert_allclose(variances, np.array(shares) * variances[0], rtol=1e-6)
        assert model.block_scales_[0] == 1.0
        assert model.scale_ == pytest.approx(np.sqrt(sum(variances)))


def test_the_unit_of_a_block_does_not_matter():
    X, *_ = coupled(noise=0.3)
    here, there = (build(CPD, **FAST).fit([X[0], unit * X[1]]) for unit in (1.0, 1e6))
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
    model = build(CPD, rank=RANK, center=False, n_init=3, block_weights=variances, **FINE).fit(
        [X, Y]
    )
    np.testing.assert_allclose(model.block_scales_, 1.0)
    made = model.inverse_transform(model.transform([X, Y]))
    ours = sum(np.linalg.norm(a - b) ** 2 for a, b in zip(made, (X, Y), strict=True))
    assert ours == pytest.approx(theirs, rel=1e-3)


@pytest.mark.parametrize("model", models(), ids=ids)
def test_a_view_is_a_list_too(model):
    X, *_ = coupled(noise=0.3)
    view = [block + 0.1 * block.std() for block in X]
    given = model.fit(X, view=view).transform(X)
    drawn = model.fit(X, view=lambda rng: tuple(view)).transform(X)
    np.testing.assert_allclose(given, drawn, rtol=0.2, atol=0.2)
    assert model.view_features_ is not None
    np.testing.assert_array_equal(model.fit_transform(X, view=view), given)


@pytest.mark.parametrize("fresh", [False, True])
def test_augment_sees_the_blocks(fresh):
    X, *_ = coupled(noise=0.3)
    seen = []

    def augment(parts, rng):
        seen.append([part.shape[1:] for part in parts])
        np.testing.assert_allclose(parts[1], X[1][: len(parts[1])])
        return [part * 1.1 for part in parts]

    build(PLC, **FAST, **SHORT, augment=augment, fresh_views=fresh).fit(X)
    assert seen[0] == list(DIMS)

    def wrong(parts, rng):
        return parts[:2]

    with pytest.raises(InvalidInputError, match="it must keep the shapes"):
        build(PLC, **FAST, **SHORT, augment=wrong).fit(X)
    with pytest.raises(InvalidInputError, match="must return a list of 3 blocks"):
        build(PLC, **FAST, **SHORT, augment=lambda parts, rng: parts[0]).fit(X)


def test_nuisance_is_a_list_too():
    X, *_ = coupled(n=120, noise=0.5)
    rng = np.random.default_rng(0)
    noise = [block.std() * rng.normal(size=(60, *block.shape[1:])) for block in X]
    model = build(PLC, **FAST, **SHORT, epsilon=0.3).fit(X, nuisance=noise)
    assert model.nuisance_gains_ is not None
    np.testing.assert_allclose(model.features_, model.transform(X), atol=1e-6)
    assert model.score(X) == pytest.approx(1 - model.reconstruction_error_**2, abs=1e-4)


def test_gaps_in_one_block_are_left_out():
    X, *_ = coupled(n=200, noise=0.01)
    holes = [X[0], X[1].copy(), X[2].copy()]
    rng = np.random.default_rng(1)
    holes[1][rng.random(X[1].shape) < 0.1] = np.nan
    holes[2][:20] = np.nan
    model = build(CPD, rank=RANK, missing="mask", **FINE).fit(holes)
    full = model.inverse_transform(model.transform(holes))
    for made, block in zip(full, X, strict=True):
        assert np.linalg.norm(made - block) < 0.1 * np.linalg.norm(block - block.mean(axis=0))
    model.partial_fit(holes)
    assert model.score(holes) > 0.98
    with pytest.raises(InvalidInputError, match=r"X\[1\].* NaN"):
        build(CPD, **FAST).fit(holes)


@pytest.mark.parametrize("options", [{}, {"robust": "huber"}], ids=str)
def test_batches_of_a_stream(options):
    X, *_ = coupled(n=300, noise=0.01)
    for model in (
        build(CPD, rank=RANK, **FINE, **options),
        build(PLC, rank=RANK, n_clusters=4, **FINE, **options),
    ):
        scales = None
        for at in np.split(np.arange(300), 3):
            model.partial_fit([block[at] for block in X])
            scales = scales or model.block_scales_
            assert model.block_scales_ == scales
        assert model.score(X) > 0.95
        assert model.fit(X).partial_fit([block[:50] for block in X]).score(X) > 0.95


def test_given_factors_are_where_a_fit_starts():
    X, _, factors = coupled(noise=0.0)
    init = [list(block) for block in factors.blocks]
    model = build(CPD, rank=RANK, init=init, max_iter=3, tol=0).fit(X)
    assert model.reconstruction_error_ < 0.01
    with pytest.raises(
        InvalidInputError, match=r"\[\(6, 3\)\], \[\(3, 3\), \(2, 3\)\]\] are needed"
    ):
        build(CPD, rank=RANK, init=init[:2]).fit(X)
    with pytest.raises(InvalidInputError, match="init holds"):
        build(CPD, rank=RANK, init=init[0]).fit(X)


def test_criteria_count_the_numbers_of_all_blocks():
    X, *_ = coupled(noise=0.3)
    model = build(CPD, **FAST).fit(X)
    found = information_criteria(model, X)
    assert found.n_parameters == RANK * (50 + 12 + 6 + 5) - RANK * (3 + 0 + 1)
    one = build(CPD, **FAST).fit((X[0],))
    plain = build(CPD, **FAST).fit(X[0])
    assert information_criteria(one, (X[0],)) == information_criteria(plain, X[0])


# ---------------------------------------------------------------------------- sources


@pytest.mark.parametrize("model", models(), ids=ids)
def test_mapped_files_and_stores_give_the_same_bits(model, tmp_path):
    X, *_ = coupled(n=600, noise=0.3, dtype="float32")
    here = model.fit(X).transform(X)
    score, scales = model.score(X), model.block_scales_
    mapped = []
    for b, block in enumerate(X):
        np.save(tmp_path / f"{b}.npy", block)
        mapped.append(np.load(tmp_path / f"{b}.npy", mmap_mode="r"))
    mixed = [mapped[0], X[1], mapped[2]]
    np.testing.assert_array_equal(model.fit(mixed, view=None).transform(mixed), here)
    assert model.block_scales_ == scales
    assert model.score(mapped) == score


def test_gaps_in_mapped_files_are_left_out(tmp_path):
    X, *_ = coupled(noise=0.1)
    X[0][3:9] = np.nan
    X[1][:5] = np.nan
    np.save(tmp_path / "x.npy", X[0])
    mapped = [np.load(tmp_path / "x.npy", mmap_mode="r"), *X[1:]]
    here, there = (build(CPD, **FAST, missing="mask").fit(data) for data in (X, mapped))
    np.testing.assert_allclose(there.transform(mapped), here.transform(X), rtol=1e-9, atol=1e-12)
    with pytest.raises(InvalidInputError, match=r"X\[1\].* NaN"):
        build(CPD, **FAST).fit(mapped)


def test_a_zarr_store_is_a_block(tmp_path):
    zarr = pytest.importorskip("zarr")
    X, *_ = coupled(noise=0.3, dtype="float32")
    stored = zarr.open(str(tmp_path / "x"), mode="w", shape=X[0].shape, chunks=(7, 4, 5, 3),
                       dtype="f4")  # fmt: skip
    stored[:] = X[0]
    model = build(CPD, **FAST).fit(X[:2])
    there = build(CPD, **FAST).fit([stored, X[1]])
    np.testing.assert_array_equal(there.transform([stored, X[1]]), model.transform(X[:2]))


@pytest.mark.parametrize("model", models(), ids=ids)
def test_on_dask_as_in_memory(model):
    array = pytest.importorskip("dask.array")
    X, *_ = coupled(n=600, noise=0.3, dtype="float32")
    view = [block + np.float32(0.1) * block.std() for block in X]
    here = model.fit(X, view=view).transform(X)
    scales = model.block_scales_
    sizes = (200, 150, 300)
    lazy = [
        array.from_array(block, chunks=(size, *(-1 for _ in block.shape[1:])))
        for block, size in zip(X, sizes, strict=True)
    ]
    model.fit([lazy[0], lazy[1], X[2]], view=view)
    np.testing.assert_allclose(model.block_scales_, scales, rtol=1e-6)
    np.testing.assert_allclose(np.asarray(model.transform(lazy)), here, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(model.transform(X), here, rtol=1e-3, atol=1e-3)
    masked = build(CPD, **FAST, missing="mask")
    np.testing.assert_allclose(
        clone(masked).fit(lazy).features_, clone(masked).fit(X).features_, rtol=1e-3, atol=1e-3
    )


def test_a_table_is_a_block():
    pandas = pytest.importorskip("pandas")
    X, *_ = coupled(noise=0.3)
    table = pandas.DataFrame(X[1], columns=list("abcdef"))
    model = build(CPD, **FAST).fit([X[0], table])
    np.testing.assert_array_equal(
        model.transform([X[0], table]), build(CPD, **FAST).fit(X[:2]).transform(X[:2])
    )


def test_counts_and_single_precision_join_as_floats():
    X, *_ = coupled(noise=0.3)
    counts = np.round(X[1]).astype("int16")
    assert build(CPD, **FAST).fit([X[0].astype("float32"), counts]).center_.dtype == np.float32
    assert build(CPD, **FAST).fit([X[0], counts]).center_.dtype == np.float64
    assert build(CPD, **FAST, dtype="float32").fit(X).features_.dtype == np.float32


# ---------------------------------------------------------------------------- files


@pytest.mark.parametrize("model", models(), ids=ids)
def test_a_model_file_has_the_blocks(model, tmp_path):
    X, *_ = coupled(noise=0.1)
    model.fit(X).save(tmp_path / "m.tcm")
    again = load_model(tmp_path / "m.tcm")
    assert again.block_dims_ == DIMS
    assert again.block_scales_ == model.block_scales_
    np.testing.assert_array_equal(again.transform(X), model.transform(X))
    assert again.partial_fit(X).score(X) > 0.9


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("block_dims_", None),
        ("block_dims_", ((4, 5, 3), (6,), (6,))),
        ("block_dims_", ((4, 5, 3), (12,))),
        ("block_dims_", ((4, 5, 3), (6,), (3, 2), ())),
        ("block_dims_", ((4, 5, 3), (6,), (3, -2))),
        ("block_dims_", 5),
        ("block_scales_", None),
        ("block_scales_", (1.0, 0.0, 1.0)),
        ("block_scales_", (1.0, 1.0)),
        ("block_scales_", (1.0, 1.0, "a")),
        ("factors_", [np.ones((4, RANK))] * 3),
        ("block_weights", (1.0, 2.0)),
    ],
    ids=str,
)
def test_a_file_with_other_blocks_is_refused(tmp_path, name, value):
    X, *_ = coupled(noise=0.1)
    model = build(CPD, **FAST).fit(X)
    setattr(model, name, value)
    model.save(tmp_path / "m.tcm")
    with pytest.raises(DamagedFileError):
        load_model(tmp_path / "m.tcm")


@pytest.mark.parametrize("model", models(), ids=ids)
def test_a_checkpoint_goes_on_to_the_same_bits(model, tmp_path):
    X, *_ = coupled(noise=0.3)
    whole = [U.copy() for U in model.fit(X)._factors]
    calls, count = [], len(model.history_["objective"])

    def stop(terms):
        calls.append(terms)
        if len(calls) == count - 2:
            raise KeyboardInterrupt

    kept = {"checkpoint": tmp_path / "c", "every": 1}
    model.set_params(callback=stop)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, **kept)
    model.set_params(callback=None)
    with pytest.raises(InvalidInputError, match="other data"):
        model.fit([X[0], X[1][:, ::-1].copy(), X[2]], **kept, resume=True)
    again = model.fit(X, **kept, resume=True)
    for a, b in zip(again._factors, whole, strict=True):
        np.testing.assert_array_equal(a, b)


# ---------------------------------------------------------------------------- what X is


def test_which_lists_are_blocks():
    X, *_ = coupled(n=5)
    assert len(blocks.given(X)) == 3
    assert len(blocks.given((X[0], X[0]))) == 2
    assert blocks.given([X[0], X[0]]) is None  # an array-like of windows
    assert len(blocks.given([X[0], X[0]], coupled=True)) == 2
    assert blocks.given([[1.0, 2.0], [3.0, 4.0]]) is None
    assert blocks.given(([1.0, 2.0], [3.0, 4.0])) is None
    assert blocks.given([np.ones(3), np.ones(3)]) is None
    assert blocks.given(X[0]) is None
    assert blocks.given([]) is None
    windows = build(CPD, **FAST).fit(list(X[0]))
    assert windows.block_dims_ is None
    same = build(CPD, **FAST).fit((X[0], 2 * X[0]))
    assert same.block_dims_ == (DIMS[0], DIMS[0])
    np.testing.assert_array_equal(
        same.transform([X[0], 2 * X[0]]), same.transform((X[0], 2 * X[0]))
    )


def test_what_does_not_fit_says_so():
    X, *_ = coupled()
    model, plain = build(CPD, **FAST).fit(X), build(CPD, **FAST).fit(X[0])
    cases = [
        (lambda: model.fit([X[0], X[1][:-1]]), r"hold \[50, 49\] windows"),
        (lambda: model.fit((X[0], X[1][:, 0])), r"X\[1\] has shape \(50,\).*as \(n, 1\)"),
        (lambda: model.fit([X[0], X[1][:, 0]]), r"X\[1\] has shape \(50,\).*as \(n, 1\)"),
        (lambda: model.fit([X[0], np.ones((50, 2))]), r"X\[1\]: .*leave this block out"),
        (lambda: model.fit([X[0][:1], X[1][:1]]), "X holds 1 windows; at least 2"),
        (lambda: model.fit([X[0], X[1] + np.inf]), r"X\[1\]\[0, 0\] is inf"),
        (
            lambda: build(CPD, **FAST, dtype="float32").fit([X[0], X[1] / X[1].std() + 1e7]),
            r"X\[1\] .*would lose digits as float32",
        ),
        (lambda: model.transform(X[:2]), r"blocks of dims \[\(4, 5, 3\), \(6,\)\] but the model"),
        (lambda: model.transform(X[::-1]), "but the model was fitted on"),
        (lambda: model.transform(X[0]), "fitted on 3 coupled blocks; pass X as a list"),
        (lambda: model.partial_fit(X[0]), "fitted on 3 coupled blocks; pass X as a list"),
        (lambda: model.score(X[0]), "fitted on 3 coupled blocks"),
        (lambda: plain.transform(X), "fitted on one tensor of dims"),
        (lambda: plain.partial_fit(X), "fitted on one tensor of dims"),
        (lambda: model.fit(X, view=X[:2]), "view holds blocks of dims"),
        (lambda: model.fit(X, view=X[0]), "pass view as a list"),
        (lambda: build(PLC, **FAST, **SHORT).fit(X, nuisance=X[0]), "pass nuisance as a list"),
        (lambda: build(CPD, **FAST, block_weights=(1, 2)).fit(X), "each of the 3 blocks"),
        (lambda: build(CPD, **FAST, block_weights=(1, 2, -1)).fit(X), "one positive number"),
        (lambda: build(CPD, **FAST, block_weights=(1, 2)).fit(X[0]), "X is one tensor"),
        (lambda: build(CPD, **FAST, block_weights=(1, 2)).partial_fit(X[0]), "X is one tensor"),
    ]
    for call, match in cases:
        with pytest.raises(InvalidInputError, match=match):
            call()


def test_a_compression_that_is_not_used_is_told():
    X, *_ = coupled(noise=0.1)
    with pytest.warns(TensorContrastWarning, match="coupled blocks are fitted as they are"):
        model = build(CPD, **FAST, compress=(2, 2, 2)).fit(X)
    assert model.core_dims_ == (72,)


def test_a_refused_fit_leaves_the_model_as_it_was():
    X, *_ = coupled()
    model = build(CPD, **FAST).fit(X)
    with pytest.raises(InvalidInputError):
        model.fit([X[0], X[1][:-1]])
    assert model.block_dims_ == DIMS
    assert model.transform(X).shape == (50, RANK)
