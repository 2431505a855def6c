"""Weights against artefacts: planted factors are found whatever a few windows hold."""

import numpy as np
import pytest

from tensorcontrast import ATD, CPD, PLC, load_model
from tensorcontrast.cp.kernels import cp_to_flat, factor_match_score
from tensorcontrast.datasets import make_cp_tensor
from tensorcontrast.decompose.options import build
from tensorcontrast.errors import InvalidInputError
from tensorcontrast.solvers import robust
from tensorcontrast.sources.source import ArraySource

N = 300


@pytest.fixture(scope="module")
def planted():
    X, _, _, factors, *_ = make_cp_tensor(N, (5, 6, 8), 3, noise=0.1, random_state=0)
    return X, factors


def spoil(X, amplitude=30.0, kind="noise", seed=0):
    """1 % of the windows become artefacts; gives the data and which they are."""
    rng = np.random.default_rng(seed)
    bad = rng.choice(len(X), len(X) // 100, replace=False)
    out = X.copy()
    shape = out[bad].shape
    if kind == "noise":
        out[bad] = amplitude * X.std() * rng.normal(size=shape)
    elif kind == "louder":
        out[bad] *= amplitude
    else:  # the same burst in all of them, which a component could fit
        out[bad] += amplitude * X.std() * rng.normal(size=shape[1:])
    return out, bad


# ---------------------------------------------------------------------------- weights


def test_weights_are_those_of_huber():
    rng = np.random.default_rng(0)
    sizes = np.abs(rng.normal(5, 1, size=1000))
    sizes[:10] = [20, 30, 50, 100, 1e3, 1e4, 1e6, 1e9, 1e12, 8]
    weights = robust.huber_weights(sizes)
    middle = np.median(sizes)
    spread = 1.4826 * np.median(np.abs(sizes - middle))
    limit = middle + max(2.5 * spread, 0.5 * middle)
    for size, weight in zip(sizes, weights, strict=True):
        assert weight == pytest.approx(1.0 if size <= limit else limit / size)
    assert (weights * sizes <= limit * (1 + 1e-12)).all()  # the pull of a sample is bounded


@pytest.mark.parametrize("sizes", [np.zeros(5), np.ones(5), np.array([0.0, 0, 0, 0, 3])])
def test_sizes_without_spread(sizes):
    weights = robust.huber_weights(sizes)
    assert np.isfinite(weights).all()
    assert (weights[sizes <= 1] == 1).all()


def test_weights_do_not_depend_on_the_unit():
    sizes = np.random.default_rng(0).lognormal(size=500)
    for unit in (1e-12, 1e12):
        np.testing.assert_allclose(
            robust.huber_weights(unit * sizes), robust.huber_weights(sizes), rtol=1e-9
        )


# ---------------------------------------------------------------------------- fits


@pytest.mark.parametrize("kind", ["noise", "louder", "burst"])
@pytest.mark.parametrize(
    ("cls", "options"),
    [
        (CPD, {}),
        (CPD, {"compress": (4, 4, 4)}),
        (CPD, {"batch_size": 100, "step_size": 0.5}),
        (ATD, {}),
        (PLC, {"n_clusters": 3}),
        (PLC, {"n_clusters": 3, "solver": "als"}),
    ],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings(
    "ignore:.*cancel each other:tensorcontrast.errors.TensorContrastWarning"
)
def test_planted_factors_are_found_among_artefacts(cls, options, kind, planted):
    X, factors = planted
    Z, bad = spoil(X, kind=kind)

    def found(**more):
        return build(cls, rank=3, random_state=0, **options, **more).fit(Z)

    held = found(robust="huber")
    assert factor_match_score(held.factors_, factors) > 0.97
    assert held.sample_weight_.shape == (N,)
    assert held.sample_weight_[bad].max() < 0.1
    assert np.delete(held.sample_weight_, bad).mean() > 0.97
    plain = found()
    assert plain.sample_weight_ is None
    if kind == "noise" and "batch_size" not in options:  # what the weights are for
        assert factor_match_score(plain.factors_, factors) < 0.5


def test_mean_and_scale_are_those_of_clean_data(planted):
    X, _ = planted
    clean = CPD(rank=3, random_state=0).fit(X)
    for kind in ("noise", "louder", "burst"):
        Z, _ = spoil(X, kind=kind)
        held = CPD(rank=3, random_state=0, robust="huber").fit(Z)
        plain = CPD(rank=3, random_state=0).fit(Z)

        def distance(model):
            return np.linalg.norm(model.center_ - clean.center_)

        assert held.scale_ == pytest.approx(clean.scale_, rel=0.1)
        assert plain.scale_ > 1.5 * clean.scale_
        assert distance(held) < 0.25 * distance(plain)


@pytest.mark.parametrize("amplitude", [1e2, 1e4, 1e8])
def test_the_size_of_an_artefact_does_not_matter(amplitude, planted):
    X, factors = planted
    Z, _ = spoil(X, amplitude)
    model = CPD(rank=3, random_state=0, robust="huber").fit(Z)
    assert factor_match_score(model.factors_, factors) > 0.97
    assert model.score(X) > 0.97


def test_the_robust_loss_is_lower_than_that_of_the_plain_fit(planted):
    """Huber's loss of all windows, computed by hand, about each model's own mean."""
    X, _ = planted
    Z, _ = spoil(X)

    def loss(model):
        rest = Z - model.inverse_transform(model.transform(Z))
        sizes = np.sqrt((rest.reshape(N, -1) ** 2).sum(axis=1))
        limit = 1.5 * np.median(np.sqrt(((X - X.mean(axis=0)) ** 2).reshape(N, -1).sum(axis=1)))
        return np.where(sizes < limit, 0.5 * sizes**2, limit * (sizes - 0.5 * limit)).sum()

    held = CPD(rank=3, random_state=0, robust="huber").fit(Z)
    assert loss(held) < 0.8 * loss(CPD(rank=3, random_state=0).fit(Z))


def test_clean_data_are_hardly_touched(planted):
    X, _ = planted
    held = CPD(rank=3, random_state=0, robust="huber").fit(X)
    plain = CPD(rank=3, random_state=0).fit(X)
    assert held.sample_weight_.mean() > 0.98
    assert factor_match_score(held.factors_, plain.factors_) > 0.999
    assert held.score(X) > plain.score(X) - 1e-3


@pytest.mark.parametrize("cls", [CPD, PLC])
def test_features_are_those_of_transform(cls, planted):
    """Weights act on the fit; features are of windows as they are, artefacts too."""
    Z, bad = spoil(planted[0])
    model = cls(rank=3, random_state=0, robust="huber").fit(Z)
    W = model.transform(Z)
    np.testing.assert_allclose(model.features_, W, rtol=1e-3, atol=1e-4 * np.abs(W).max())
    assert np.linalg.norm(W[bad[0]]) > 3 * np.median(np.linalg.norm(W, axis=1))
    assert model.weights_.max() < 2 * CPD(rank=3, random_state=0).fit(planted[0]).weights_.max()


def test_the_reconstruction_error_is_weighted(planted):
    Z, _ = spoil(planted[0])
    model = CPD(rank=3, random_state=0, robust="huber").fit(Z)
    flat = ((Z - model.center_) / model.scale_).reshape(N, -1)
    rest = flat - cp_to_flat(model.features_, model.factors_)
    weights = model.sample_weight_[:, None]
    error = np.sqrt((weights * rest**2).sum() / (weights * flat**2).sum())
    assert model.reconstruction_error_ == pytest.approx(error, rel=1e-6)


def test_with_missing_values(planted):
    X, factors = planted
    Z, bad = spoil(X)
    Z[np.random.default_rng(3).random(Z.shape) < 0.2] = np.nan
    model = CPD(rank=3, random_state=0, robust="huber", missing="mask").fit(Z)
    assert factor_match_score(model.factors_, factors) > 0.97
    assert model.sample_weight_[bad].max() < 0.1
    assert np.isfinite(model.features_).all()


def test_a_mapped_file_gives_what_the_array_gives(planted, tmp_path):
    Z, _ = spoil(planted[0])
    np.save(tmp_path / "z.npy", Z)
    mapped = np.load(tmp_path / "z.npy", mmap_mode="r")
    one = build(CPD, rank=3, random_state=0, robust="huber", compress=(4, 4, 4)).fit(mapped)
    other = build(CPD, rank=3, random_state=0, robust="huber", compress=(4, 4, 4)).fit(Z)
    np.testing.assert_allclose(one.features_, other.features_, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(one.sample_weight_, other.sample_weight_)


@pytest.mark.parametrize("cls", [CPD, ATD, PLC])
def test_streams(cls, planted):
    X, factors = planted
    Z, bad = spoil(X)
    order = np.random.default_rng(0).permutation(N)
    model = cls(rank=3, n_clusters=3, random_state=0, robust="huber")
    for rows in np.array_split(order, 3):
        model.partial_fit(Z[rows])
        here = np.isin(rows, bad)
        assert (model.sample_weight_[here] < 0.2).all()
        assert model.sample_weight_[~here].mean() > 0.9
    assert factor_match_score(model.factors_, factors) > 0.9
    clean = CPD(rank=3, random_state=0).fit(X)
    assert model.scale_ == pytest.approx(clean.scale_, rel=0.2)


def test_a_model_file_has_the_weights(planted, tmp_path):
    Z, _ = spoil(planted[0])
    model = CPD(rank=3, random_state=0, robust="huber").fit(Z)
    model.save(tmp_path / "m.tcm")
    loaded = load_model(tmp_path / "m.tcm")
    assert loaded.robust == "huber"
    np.testing.assert_array_equal(loaded.sample_weight_, model.sample_weight_)


def test_too_few_or_equal_samples_are_told():
    with pytest.raises(InvalidInputError, match="1 windows"):
        robust.prepare(ArraySource(np.ones((1, 3, 4))), None, 2, center=True, scale=True)
    with pytest.raises(InvalidInputError, match="all windows are equal"):
        CPD(rank=2, robust="huber").fit(np.ones((9, 3, 4)))
