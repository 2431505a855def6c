"""Learning in pieces: partial_fit on a stream, and mini-batches with small steps."""

import numpy as np
import pytest

from tensorcontrast import ATD, CPD, PLC, load_model
from tensorcontrast.cp.kernels import factor_match_score
from tensorcontrast.datasets import make_cp_tensor
from tensorcontrast.decompose.options import build
from tensorcontrast.sources.tensor_noise import TensorNoise

ALL = [CPD, ATD, PLC]


@pytest.fixture(scope="module")
def planted():
    """X (90, 6, 8, 7) of rank 3 with 5 % noise, its classes and factors."""
    X, y, _, factors = make_cp_tensor(90, (6, 8, 7), 3, noise=0.05, random_state=0)
    return X, y, factors


@pytest.mark.parametrize("cls", ALL)
def test_a_stream_of_batches_reaches_the_planted_factors(cls, planted):
    X, _, factors = planted
    model = cls(rank=3, n_clusters=3, random_state=0)
    for start in range(0, 90, 15):
        assert model.partial_fit(X[start : start + 15]) is model
    assert factor_match_score(model.factors_, factors) > 0.99
    assert model.n_samples_seen_ == 90
    assert model.n_batches_seen_ == 6
    assert model.features_.shape == (15, 3)
    assert model.score(X) > 0.98
    np.testing.assert_allclose(model.center_, X.mean(axis=0), atol=1e-12)
    np.testing.assert_array_less(np.abs(model.factors_[0]), 1 + 1e-9)
    assert {len(column) for column in model.history_.values()} == {6}


@pytest.mark.parametrize("cls", ALL)
def test_partial_fit_goes_on_after_fit_and_after_loading(cls, planted, tmp_path):
    X, _, factors = planted
    model = cls(rank=3, n_clusters=3, random_state=0).fit(X[:45])
    model.save(tmp_path / "m.tcm")
    loaded = load_model(tmp_path / "m.tcm")
    for m in (model, loaded):
        m.partial_fit(X[45:])
        assert m.n_samples_seen_ == 90
        np.testing.assert_allclose(m.center_, X.mean(axis=0), atol=1e-12)
        assert factor_match_score(m.factors_, factors) > 0.99
    np.testing.assert_allclose(model.transform(X), loaded.transform(X), rtol=1e-9, atol=1e-12)


def test_forgetting_follows_a_stream_that_changes():
    old, *_ = make_cp_tensor(60, (5, 6), 2, noise=0.02, random_state=0)
    new, _, _, factors = make_cp_tensor(300, (5, 6), 2, noise=0.02, random_state=9)
    scores = []
    for forgetting in (0.3, 1.0):
        model = build(CPD, rank=2, forgetting=forgetting, center=False, random_state=0).fit(old)
        for start in range(0, 300, 30):
            model.partial_fit(new[start : start + 30])
        scores.append(factor_match_score(model.factors_, factors))
    assert scores[0] > 0.99
    assert scores[0] > scores[1]


def test_partial_fit_works_after_one_that_was_refused(planted):
    X, *_ = planted
    model = CPD(rank=3, random_state=0)
    with pytest.raises(ValueError, match="shape"):
        model.partial_fit(X, view=X[:5])
    model.partial_fit(X)
    assert model.n_samples_seen_ == 90


@pytest.mark.parametrize("cls", ALL)
def test_a_refused_batch_leaves_the_model_as_it_was(cls, planted):
    X, *_ = planted
    model = cls(rank=3, n_clusters=3, random_state=0).fit(X)
    before = model.transform(X)
    with pytest.raises(ValueError, match="shape"):
        model.partial_fit(X + 5, view=X[:5])
    np.testing.assert_array_equal(model.transform(X), before)
    assert model.n_samples_seen_ == 90


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # 30 epochs only
@pytest.mark.parametrize(
    "model",
    [
        build(CPD, rank=3, batch_size=20, step_size=0.1, max_iter=30, random_state=0),
        build(ATD, rank=3, batch_size=20, step_size=0.1, max_iter=30, random_state=0),
        build(
            PLC,
            solver="als",
            rank=3,
            batch_size=15,
            step_size=0.1,
            max_iter=30,
            n_clusters=3,
            random_state=0,
        ),
        ATD.paper(rank=3, batch_size=10, max_iter=30, random_state=0),
    ],
    ids=["CPD", "ATD", "PLC", "ATD.paper"],
)
def test_mini_batches_lower_the_error_over_epochs(model, planted):
    X, *_ = planted
    errors = model.fit(X).history_["reconstruction_error"]
    assert errors[-1] < 0.5 * errors[0]
    assert len(errors) == model.n_iter_
    assert len(model.labels_) == len(model.features_) == 90


def test_atd_paper_are_its_authors_settings():
    model = ATD.paper(rank=7)
    assert (model.rank, model.beta, model.delta, model.alpha) == (7, 2.0, 0.01, 1e-3)
    assert (model.als.batch_size, model.als.step_size) == (128, 5e-3)
    assert not model.als.center
    assert not model.als.scale
    assert ATD.paper(batch_size=64).als.batch_size == 64


def test_atd_beta_zero_is_cpd_of_both_views(planted):
    X, *_ = planted
    view = TensorNoise()(X, np.random.default_rng(0))
    start = [np.random.default_rng(1).normal(size=(d, 3)) for d in X.shape[1:]]
    model = build(ATD, rank=3, beta=0, init=start, max_iter=9, tol=0).fit(X, view=view)
    cpd = build(CPD, rank=3, init=start, max_iter=9, tol=0).fit(X, view=view)
    for U, V in zip(model.factors_, cpd.factors_, strict=True):
        np.testing.assert_allclose(U, V, rtol=1e-9, atol=1e-12)


def test_atd_pulls_a_sample_to_its_view(planted):
    X, *_ = planted
    view = TensorNoise(noise=1.0)(X, np.random.default_rng(0))
    cosine = [
        ATD(rank=3, beta=beta, delta=1.0, random_state=0).fit(X, view=view).history_["trans_inv"]
        for beta in (1e-6, 0.1)
    ]
    assert cosine[1][-1] > cosine[0][-1]
