"""Entries beside the modes: kernels against H written out, estimators against a known model."""

import numpy as np
import pytest

from tensorcontrast import ATD, CPD, PLC, load_model
from tensorcontrast.decompose import compress, kernels, prepare, robust, start, tied
from tensorcontrast.decompose.source import ArraySource
from tensorcontrast.errors import InvalidInputError

DIMS, EXTRA, RANK = (4, 5, 3), 2, 3


def coupled(n=80, seed=0, noise=0.0, dtype="float64", dims=DIMS, extra=EXTRA, rank=RANK):
    """Tensors whose last slices are no product of modes, with the features and factors of all."""
    rng = np.random.default_rng(seed)
    factors = [rng.normal(size=(d, rank)) for d in dims]
    factors.append(rng.normal(size=(1, extra * dims[1] * dims[2], rank)))
    W = rng.normal(size=(n, rank))
    X = W @ written_out(factors).T + noise * rng.normal(size=(n, len(written_out(factors))))
    return X.reshape(n, dims[0] + extra, *dims[1:]).astype(dtype), W, factors


def written_out(factors):
    """H row by row, in the order of a flattened tensor, what stands beside at its end."""
    *modes, beside = factors
    rows = [
        np.prod([U[i] for U, i in zip(modes, at, strict=True)], axis=0)
        for at in np.ndindex(*(len(U) for U in modes))
    ]
    return np.array([*rows, *beside[0]])


def test_kernels_are_those_of_the_matrix_written_out():
    X, W, factors = coupled(noise=0.3)
    X, H = X.reshape(len(X), -1), written_out(factors)
    np.testing.assert_allclose(kernels.khatri_rao(factors), H, rtol=1e-12)
    np.testing.assert_allclose(kernels.gram(factors), H.T @ H, rtol=1e-10)
    np.testing.assert_allclose(kernels.cp_to_flat(W, factors), W @ H.T, rtol=1e-10)
    Q = W.T @ X
    assert kernels.fitted_product(Q, factors) == pytest.approx(float((X * (W @ H.T)).sum()))
    assert kernels.residual_direct(X, W, factors) == pytest.approx(((X - W @ H.T) ** 2).sum())


@pytest.mark.parametrize("mode", range(4))
def test_a_factor_is_updated_to_its_own_least_squares(mode):
    X, W, factors = coupled(noise=0.3)
    X = X.reshape(len(X), -1)
    new, misfit = kernels.update_factors(W.T @ X, W.T @ W, factors, 0.0)
    H = written_out(new)
    assert float((X**2).sum()) + misfit == pytest.approx(((X - W @ H.T) ** 2).sum(), rel=1e-9)
    # At a minimum the slope in every direction of the last factor of its part is 0.
    if mode < 2:  # these were followed by the update of another mode of the same part
        return
    step = np.random.default_rng(mode).normal(size=new[mode].shape)
    values = []
    for size in (-1e-4, 1e-4):
        moved = [U + size * step if k == mode else U for k, U in enumerate(new)]
        values.append(((X - W @ written_out(moved).T) ** 2).sum())
    assert abs(values[1] - values[0]) < 1e-6 * values[0]


def test_gradients_of_the_tied_objective_are_those_of_differences():
    X, _, factors = coupled(n=30, noise=0.5)
    X = X.reshape(len(X), -1) / 10
    V = X + 0.1 * np.random.default_rng(1).normal(size=X.shape)
    weight = np.random.default_rng(2).normal(size=(2, 30, RANK))

    def loss(W, U):
        return float((weight[0] * W**2 + weight[1] * W * U).sum()) / 30, (
            (2 * weight[0] * W + weight[1] * U) / 30,
            weight[1] * W / 30,
        )

    def value(at):
        return tied.tied_objective(X, V, at, loss, alpha=0.1, beta=0.7)[0]

    gradients = tied.tied_objective(X, V, factors, loss, alpha=0.1, beta=0.7)[1]
    rng = np.random.default_rng(3)
    for k, gradient in enumerate(gradients):
        assert gradient.shape == factors[k].shape
        step = rng.normal(size=factors[k].shape)
        ends = [
            value([U + s * step if j == k else U for j, U in enumerate(factors)])
            for s in (1e-5, -1e-5)
        ]
        assert float((gradient * step).sum()) == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-4)


def test_the_normal_form_leaves_the_reconstruction_as_it_is():
    _, W, factors = coupled()
    form, gain, order = kernels.normal_form(factors, np.linalg.norm(W, axis=0))
    np.testing.assert_allclose(
        (W[:, order] * gain) @ written_out(form).T, W @ written_out(factors).T, rtol=1e-9
    )
    for U in form[:-1]:
        np.testing.assert_allclose(np.linalg.norm(U, axis=0), 1)


@pytest.mark.parametrize("method", [CPD, ATD, PLC])
@pytest.mark.parametrize("options", [{}, {"compress": (3, 3, 3)}, {"robust": "huber"}])
def test_estimators_find_what_made_the_data(method, options):
    X, _, _ = coupled(n=200, noise=0.01, seed=4)
    plain = {"alpha": 1e-6, "tol": 1e-6, "max_iter": 1000, "n_init": 2, "random_state": 0}
    model = method(RANK, beside=EXTRA, **plain, **options).fit(X)
    assert [U.shape for U in model.factors_] == [(4, 3), (5, 3), (3, 3), (1, 30, 3)]
    assert model.reconstruction_error_ < 0.05
    W = model.transform(X)
    back = model.inverse_transform(W)
    assert np.linalg.norm(back - X) < 0.1 * np.linalg.norm(X - X.mean(axis=0))
    assert model.score(X) > 0.99


def test_a_plain_cpd_cannot_have_them():
    X, _, _ = coupled(n=200, noise=0.01)
    plain = CPD(RANK, alpha=0.1, random_state=0).fit(X)
    assert plain.reconstruction_error_ > 0.2


def test_gaps_are_left_out_beside_the_modes_too():
    X, _, _ = coupled(n=200, noise=0.01)
    holes = X.copy()
    holes[np.random.default_rng(1).random(X.shape) < 0.1] = np.nan
    model = CPD(RANK, beside=EXTRA, missing="mask", alpha=1e-6, random_state=0).fit(holes)
    full = model.inverse_transform(model.transform(holes))
    assert np.linalg.norm(full - X) < 0.1 * np.linalg.norm(X - X.mean(axis=0))


def test_batches_of_a_stream():
    X, _, _ = coupled(n=300, noise=0.01)
    model = CPD(RANK, beside=EXTRA, alpha=1e-6, random_state=0)
    for part in np.split(X, 3):
        model.partial_fit(part)
    assert model.score(X) > 0.98


def test_a_model_file_has_them(tmp_path):
    X, _, _ = coupled(noise=0.1)
    model = PLC(RANK, beside=EXTRA, n_clusters=4, random_state=0).fit(X)
    model.save(tmp_path / "m.tcm")
    again = load_model(tmp_path / "m.tcm")
    np.testing.assert_array_equal(again.transform(X), model.transform(X))


def test_a_checkpoint_goes_on_with_them(tmp_path):
    X, _, _ = coupled(noise=0.3)
    options = {"beside": EXTRA, "n_clusters": 4, "n_epochs": 6, "random_state": 0}
    whole = PLC(RANK, **options).fit(X)
    calls = []

    def stop(terms):
        calls.append(terms)
        if len(calls) == len(whole.history_["objective"]) - 2:
            raise KeyboardInterrupt

    kept = {"checkpoint": tmp_path / "c", "every": 1}
    with pytest.raises(KeyboardInterrupt):
        PLC(RANK, **options, **kept, callback=stop).fit(X)
    again = PLC(RANK, **options, **kept).fit(X, resume=True)
    for a, b in zip(again.factors_, whole.factors_, strict=True):
        np.testing.assert_array_equal(a, b)


def test_moments_and_cores_with_slices_beside():
    X, _, _ = coupled(n=50, noise=0.3)
    ready = prepare.prepare(ArraySource(X), (2, 2, 2), 3, center=True, scale=True, beside=EXTRA)
    assert [V.shape for V in ready.bases] == [(4, 2), (5, 2), (3, 2), (1, 30, 0)]
    assert ready.size == 8 + 30
    centred = X - X.mean(axis=0)
    assert ready.scale == pytest.approx(np.sqrt((centred**2).sum() / len(X)))
    rows, _ = ready.rows(ArraySource(X))
    np.testing.assert_allclose(rows[:, 8:], centred[:, 4:].reshape(50, -1) / ready.scale)
    core = np.einsum("nabc,ax,by,cz->nxyz", centred[:, :4], *ready.bases[:3]) / ready.scale
    np.testing.assert_allclose(rows[:, :8], core.reshape(50, -1), atol=1e-12)
    held = robust.prepare(ArraySource(X), (2, 2, 2), 3, center=True, scale=True, beside=EXTRA)
    assert [V.shape for V in held.bases] == [V.shape for V in ready.bases]


def test_factors_go_into_a_core_and_back():
    _, _, factors = coupled()
    bases = [np.linalg.qr(np.random.default_rng(0).normal(size=(d, d)))[0] for d in DIMS]
    bases.append(np.empty((1, 30, 0)))
    there = compress.compress_factors(factors, bases)
    for a, b in zip(compress.expand_factors(there, bases), factors, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-12)
    assert [U.shape for U in there] == start.core_shapes(bases, RANK)


def test_as_many_slices_as_there_are_is_refused():
    X, _, _ = coupled()
    with pytest.raises(InvalidInputError, match="beside=6 leaves nothing of a first mode of 6"):
        CPD(RANK, beside=6).fit(X)


def test_init_of_other_shapes_is_refused():
    X, _, factors = coupled()
    with pytest.raises(InvalidInputError, match=r"\(1, 30, 3\)"):
        CPD(RANK, beside=EXTRA, init=factors[:3]).fit(X)
    assert CPD(RANK, beside=EXTRA, init=factors).fit(X).reconstruction_error_ < 0.01
