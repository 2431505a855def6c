"""Compression (cp/compress.py): sums against slow loops, exactness, choice of ranks."""

import numpy as np
import pytest

from tensorcontrast import ATD, CPD, PLC
from tensorcontrast.cp import compress, kernels
from tensorcontrast.datasets import make_cp_tensor
from tensorcontrast.decompose.options import build
from tensorcontrast.errors import InvalidInputError, NumericalError
from tensorcontrast.solvers import prepare
from tensorcontrast.solvers.tuning import Tuning
from tensorcontrast.sources import source

DIMS = [(7,), (5, 6), (4, 6, 5), (3, 4, 2, 5)]


def samples(dims, n=9, dtype=np.float64, seed=0):
    return np.random.default_rng(seed).normal(size=(n, *dims)).astype(dtype)


def bases_of(dims, ranks, seed=1):
    rng = np.random.default_rng(seed)
    return [np.linalg.qr(rng.normal(size=(d, j)))[0] for d, j in zip(dims, ranks, strict=True)]


def slow_gram(X, mode):
    dims = X.shape[1:]
    out = np.zeros((dims[mode], dims[mode]))
    for x in X:
        for a in range(dims[mode]):
            for b in range(dims[mode]):
                out[a, b] += np.sum(np.take(x, a, axis=mode) * np.take(x, b, axis=mode))
    return out


def slow_core(x, bases):
    for k, V in enumerate(bases):
        x = np.moveaxis(np.tensordot(V.T, x, axes=(1, k)), 0, k)
    return x


@pytest.mark.parametrize("dims", DIMS)
@pytest.mark.parametrize("tile", [1, 2**18])
def test_mode_grams_are_those_of_a_loop(dims, tile):
    X = samples(dims)
    for k, G in enumerate(compress.mode_grams(X, tile_values=tile)):
        np.testing.assert_allclose(G, slow_gram(X, k), rtol=1e-10)


@pytest.mark.parametrize("dims", DIMS)
def test_cores_and_refined_grams_are_those_of_a_loop(dims):
    X, ranks = samples(dims), [max(1, d - 1) for d in dims]
    bases = bases_of(dims, ranks)
    cores = np.stack([slow_core(x, bases) for x in X])
    found = compress.project(X, bases, tile_values=200)
    np.testing.assert_allclose(found, cores.reshape(len(X), -1), rtol=1e-9)
    for k, G in enumerate(compress.refined_grams(X, bases, tile_values=200)):
        others = [
            np.eye(d) if j == k else V for j, (d, V) in enumerate(zip(dims, bases, strict=True))
        ]
        part = np.stack([slow_core(x, others) for x in X])
        np.testing.assert_allclose(G, slow_gram(part, k), rtol=1e-9)


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("offset", [0.0, 100.0])
def test_moments_are_the_mean_and_grams_about_it(center, offset):
    X = samples((4, 3, 5), n=50, dtype=np.float32) + np.float32(offset)
    parts = [compress.ModeGrams(X[:7].mean(axis=0)) for _ in range(3)]
    for moments, block in zip(parts, (X[:11], X[11:12], X[12:]), strict=True):
        moments.add(block)
    moments = parts[0].merge(parts[1]).merge(parts[2])
    exact = X.astype(np.float64)
    mean = exact.mean(axis=0) if center else np.zeros(X.shape[1:])
    np.testing.assert_allclose(moments.mean(center), mean, rtol=1e-6, atol=1e-6)
    grams, energy = moments.centred(center)
    for k, G in enumerate(grams):
        wanted = slow_gram(exact - mean, k)
        np.testing.assert_allclose(G, wanted, atol=3e-4 * np.abs(wanted).max())
    assert energy == pytest.approx(np.sum((exact - mean) ** 2), rel=1e-4)


def test_an_update_on_the_core_is_that_on_the_data():
    # E10, E12 on the core, mapped back, are those on data that lies in the span of the bases.
    dims, ranks, r = (6, 7, 5), (3, 4, 2), 3
    bases = bases_of(dims, ranks)
    core = samples(ranks, n=12)
    X = np.stack([slow_core(g, [V.T for V in bases]) for g in core]).reshape(12, -1)
    rng = np.random.default_rng(3)
    small = [rng.normal(size=(j, r)) for j in ranks]
    large = compress.expand_factors(small, bases)
    W = rng.normal(size=(12, r))
    np.testing.assert_allclose(
        X @ kernels.khatri_rao(large), core.reshape(12, -1) @ kernels.khatri_rao(small), rtol=1e-9
    )
    np.testing.assert_allclose(kernels.gram(large), kernels.gram(small), rtol=1e-9)
    on_core, misfit = kernels.update_factors(W.T @ core.reshape(12, -1), W.T @ W, small, 0.1)
    on_data, other = kernels.update_factors(W.T @ X, W.T @ W, large, 0.1)
    assert misfit == pytest.approx(other)
    for U, V in zip(compress.expand_factors(on_core, bases), on_data, strict=True):
        np.testing.assert_allclose(U, V, rtol=1e-7, atol=1e-9)
    for U, V in zip(compress.compress_factors(on_data, bases), on_core, strict=True):
        np.testing.assert_allclose(U, V, rtol=1e-7, atol=1e-9)


def test_ranks_by_size_drop_what_holds_least():
    spectra = [np.array([8.0, 4.0, 1e-20]), np.array([9.0, 2.0, 1.0]), np.array([12.0])]
    assert compress.ranks_by_size(spectra, 6) == (2, 3, 1)  # 1e-20 is rounding
    assert compress.ranks_by_size(spectra, 5) == (2, 2, 1)
    assert compress.ranks_by_size(spectra, 3) == (2, 1, 1)
    assert compress.ranks_by_size(spectra, 0) == (1, 1, 1)


def test_white_noise_loses_directions_of_every_mode():
    rng = np.random.default_rng(0)
    dims = (24, 129, 75)
    spectra = [np.sort(1 / d + 1e-4 / d * rng.normal(size=d))[::-1] for d in dims]
    ranks = compress.ranks_by_size(spectra, 24 * 129 * 75 // 64)
    assert all(r > d // 8 for r, d in zip(ranks, dims, strict=True))


def test_ranks_by_energy_hold_the_share():
    spectra = [np.array([6.0, 3.0, 1.0]), np.array([5.0, 5.0])]
    assert compress.ranks_by_energy(spectra, 0.6) == (1, 2)
    assert compress.ranks_by_energy(spectra, 0.9) == (2, 2)
    assert compress.ranks_by_energy(spectra, 1.0) == (3, 2)


@pytest.fixture(scope="module")
def planted():
    X, y, *_ = make_cp_tensor(
        n_samples=120, dims=(9, 14, 11), rank=3, n_classes=3, noise=0.1, random_state=0
    )
    return X, y


@pytest.mark.parametrize("cls", [CPD, ATD, PLC])
@pytest.mark.parametrize("compressed", [(5, 5, 5), 0.99, [9, 6, 6]])
def test_a_compressed_fit_is_the_fit_of_the_data(cls, compressed, planted):
    X, _ = planted
    options = {"rank": 3, "random_state": 0, "tol": 1e-5, "n_init": 3}
    whole = build(cls, compress=None, **options).fit(X)
    small = build(cls, compress=compressed, **options).fit(X)
    assert np.prod(small.core_dims_) < np.prod(whole.core_dims_) == np.prod(X.shape[1:])
    near = 0.03 if cls is PLC else 0.01  # the descent ends near, not at, a minimum
    assert small.reconstruction_error_ == pytest.approx(whole.reconstruction_error_, rel=near)
    assert kernels.factor_match_score(whole.factors_, small.factors_) > 0.97
    # What the fit reports of itself is true of the samples, not of the cores.
    residual = X - small.inverse_transform(small.transform(X))
    error = np.linalg.norm(residual) / np.linalg.norm(X - X.mean(axis=0))
    if cls is not ATD:  # the features of ATD's fit are under the pull of its contrast
        assert small.reconstruction_error_ == pytest.approx(error, rel=2e-3)
        np.testing.assert_allclose(small.transform(X), small.features_, atol=2e-3)
    last = [model.history_["reconstruction_error"][-1] for model in (small, whole)]
    assert last[0] == pytest.approx(last[1], rel=0.03)


def test_full_ranks_are_the_fit_of_the_data_itself(planted):
    X, _ = planted
    whole = build(CPD, rank=3, compress=None, random_state=0).fit(X)
    full = build(CPD, rank=3, compress=X.shape[1:], random_state=0).fit(X)
    assert full.core_dims_ == X.shape[1:]
    np.testing.assert_allclose(full.reconstruction_error_, whole.reconstruction_error_, rtol=1e-4)


def test_auto_leaves_data_in_memory_alone_and_compresses_blocks(planted):
    X, _ = planted
    model = CPD(3, random_state=0)
    model._tuning = Tuning(
        compress=compress.CompressTuning(core_per_rank=24, min_values_to_compress=1)
    )
    assert model.fit(X).core_dims_ == X.shape[1:]
    model.fit(list(np.array_split(X, 3)).__iter__)
    assert np.prod(model.core_dims_) <= 72
    assert model.center_.shape == X.shape[1:]
    assert [U.shape for U in model.factors_] == [(9, 3), (14, 3), (11, 3)]


def test_given_factors_start_the_compressed_fit(planted):
    X, _ = planted
    first = build(CPD, rank=3, random_state=0, tol=1e-6).fit(X)
    again = build(CPD, rank=3, init=first.factors_, compress=(5, 6, 6), max_iter=2, tol=0).fit(X)
    assert again.reconstruction_error_ == pytest.approx(first.reconstruction_error_, rel=0.01)


def test_a_compressed_model_goes_on_with_partial_fit(planted):
    X, _ = planted
    model = build(CPD, rank=3, random_state=0, compress=(5, 6, 6)).fit(X)
    before = model.score(X)
    model.partial_fit(X[:60]).partial_fit(X[60:])
    assert model.score(X) > before - 0.01
    assert model.n_samples_seen_ == 2 * len(X)


@pytest.mark.parametrize("wrong", [(3, 3), (0, 3, 3), (10, 3, 3), (2.5, 3, 3), ("a", 1, 1)])
def test_ranks_that_do_not_fit_the_modes(wrong, planted):
    X, _ = planted
    with pytest.raises(InvalidInputError, match="one rank a mode"):
        build(CPD, rank=3, compress=wrong).fit(X)


def test_the_lost_energy_is_part_of_the_norm(planted):
    X, _ = planted
    data = source.ArraySource(X)
    ready = prepare.prepare(data, (2, 2, 2), 3, center=True, scale=True)
    rows, norm = ready.rows(data)
    assert norm == pytest.approx(len(X), rel=1e-4)  # scaled to a mean squared norm of one
    assert np.sum(rows**2) < norm
    for V in ready.bases:
        np.testing.assert_allclose(V.T @ V, np.eye(2), atol=1e-5)


def test_when_compression_is_tried_and_what_it_asks_for():
    spectra = [np.array([4.0, 1.0, 0.0]), np.array([3.0, 2.0])]
    assert compress.wanted_ranks(None, spectra, 2) is None
    assert not compress.may_compress(None, (10**9, 100, 100), 2)
    assert compress.may_compress((2, 2), (10, 3, 2), 2)
    assert compress.may_compress(0.9, (10, 3, 2), 2)
    assert not compress.may_compress("auto", (10, 3, 2), 2)
    with pytest.raises(NumericalError, match=r"squares of X leave the range.*compress=None"):
        compress.spectrum(np.array([[np.inf, 0.0], [0.0, 1.0]]))
