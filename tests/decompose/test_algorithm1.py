"""Algorithm 1 and ATD as estimators: graphs, ablations, units, history, the ε-region."""

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score
from tests.matching import factor_match_score

from tensorcontrast import ATD, PLC, Algorithm1
from tensorcontrast.datasets import make_cp_tensor
from tensorcontrast.errors import InvalidInputError, TensorContrastWarning
from tensorcontrast.solvers import paper


@pytest.fixture(scope="module")
def planted():
    """X (90, 6, 8, 7) of rank 3 with 5 % noise, a view, its classes and factors."""
    X, y, _, factors = make_cp_tensor(90, (6, 8, 7), 3, noise=0.05, random_state=0)
    return X, noisy(X), y, factors


def noisy(X, size=0.1):
    return X + size * X.std() * np.random.default_rng(0).normal(size=X.shape)


def algorithm1(**params):
    defaults = {"rank": 3, "n_clusters": 3, "max_iter": 200, "tol": 2e-5, "random_state": 0}
    return Algorithm1(**{**defaults, **params})


def fitted(X, y=None, view=None, **params):
    return algorithm1(**params).fit(X, y, view=view)


def features(model, X, view):
    """Features of both views with their contrast, as the sweeps of a fit see them."""
    return [unit(model.transform(data)) for data in (X, view)]


def unit(W):
    return W / np.linalg.norm(W, axis=1, keepdims=True)


# ---------------------------------------------------------------------------- graphs


def test_true_graph_has_the_labels_given(planted):
    X, view, y, _ = planted
    model = fitted(X, y, view, graph="true")
    np.testing.assert_array_equal(model.labels_, y)
    names = np.array(["sit", "stand", "walk"])[y]
    by_name = fitted(X, names, view, graph="true")
    np.testing.assert_array_equal(by_name.factors_[0], model.factors_[0])
    column = fitted(X, y[:, None], view, graph="true")
    np.testing.assert_array_equal(column.factors_[0], model.factors_[0])
    np.testing.assert_array_equal(fitted(X, y * 7 + 3, view, graph="true").labels_, y)


def test_unknown_labels_join_by_cluster(planted):
    X, view, y, factors = planted
    some = np.where(np.arange(90) % 3 == 0, y, -1)
    model = fitted(X, some, view, graph="true", n_clusters=None)
    assert model.labels_.max() == 2  # as many clusters as classes are known
    assert factor_match_score(model.factors_, factors) > 0.99
    pseudo = fitted(X, None, view)
    assert not np.array_equal(model.factors_[0], pseudo.factors_[0])
    full = fitted(X, y, view, graph="true")
    assert not np.array_equal(model.factors_[0], full.factors_[0])


def test_pseudo_classes_are_the_planted_ones_where_these_are_clear():
    X, y, *_ = make_cp_tensor(90, (6, 8, 7), 3, noise=0.05, separation=8, random_state=1)
    assert adjusted_rand_score(y, fitted(X).labels_) > 0.95


def test_number_of_clusters_by_default(planted):
    X, *_ = planted
    assert fitted(X, n_clusters=None).labels_.max() == 7
    assert fitted(X[:6], n_clusters=None, rank=2).labels_.max() <= 2
    assert set(fitted(X, n_clusters=1).labels_) == {0}


# ---------------------------------------------------------------------------- ablations


def test_without_cross_view_only_the_invariance_is_left(planted):
    X, view, *_ = planted
    model = fitted(X, None, view, gamma=0.0)
    history = model.history_
    np.testing.assert_allclose(history["contrast"][-1], -90 * history["trans_inv"][-1])
    assert "cross_view" not in history
    with_graph = fitted(X, None, view, gamma=1.0)
    assert not np.array_equal(model.factors_[0], with_graph.factors_[0])
    plain = fitted(X, None, view, beta=0.0)
    assert history["trans_inv"][-1] > plain.history_["trans_inv"][-1]


def test_without_trans_inv_only_the_graph_is_left(planted):
    X, view, *_ = planted
    history = fitted(X, None, view, trans_inv=False, gamma=0.7).history_
    np.testing.assert_allclose(history["contrast"][-1], 0.7 * history["cross_view"][-1])


def test_literal_laplacian_keeps_the_identity(planted):
    X, view, y, _ = planted
    fits = [fitted(X, y, view, graph="true", laplacian=kind) for kind in ("signed", "literal")]
    assert not np.array_equal(fits[0].factors_[0], fits[1].factors_[0])


# ---------------------------------------------------------------------------- units


def test_the_units_of_the_paper(planted):
    X, view, *_ = planted
    model = PLC.paper(beta=4.5, gamma=0.02, rank=3, n_clusters=3, random_state=0, tol=1e-3)
    assert (model.units, model.warm_up) == ("paper", 0)
    model.fit(X, view=view)
    assert model.beta_ == pytest.approx(4.5 / 90)
    assert model.gamma_ == pytest.approx(0.02 * 90)
    ours = fitted(X, None, view, beta=4.5 / 90, gamma=0.02 * 90, warm_up=0, tol=1e-3)
    np.testing.assert_allclose(model.factors_[0], ours.factors_[0], rtol=1e-9, atol=1e-12)
    assert (ours.beta_, ours.gamma_) == (4.5 / 90, 0.02 * 90)


def test_paper_without_values_uses_those_of_the_class(planted):
    X, *_ = planted
    model = PLC.paper(rank=3, n_clusters=3, random_state=0)
    assert (model.units, model.beta) == ("sample", 0.03)
    model.fit(X)
    assert (model.beta_, model.gamma_) == (0.03, model.gamma)
    assert PLC.paper(warm_up=3).warm_up == 3


@pytest.mark.parametrize("given", [{"beta": 1.0}, {"gamma": 1.0}])
def test_paper_with_one_of_the_two_is_an_error(given):
    with pytest.raises(InvalidInputError, match="pass both"):
        PLC.paper(**given)


# ---------------------------------------------------------------------------- course of the fit


def test_history_has_every_term_and_nan_in_the_warm_up(planted):
    X, view, *_ = planted
    model = fitted(X, None, view, warm_up=4, max_iter=12, tol=0)
    history = model.history_
    always = {"iteration", "objective", "reconstruction", "reconstruction_error", "seconds"}
    later = {"contrast", "trans_inv", "cross_view", "contraction", "damped", "label_change"}
    assert always | later | {"regularisation"} <= set(history)
    assert {len(column) for column in history.values()} == {12}
    assert history["iteration"] == list(range(1, 13))
    for key, column in history.items():
        assert np.isnan(column[:4]).all() == (key not in always | {"regularisation"}), key
        assert np.isfinite(column[4:]).all(), key
    parts = np.array(history["reconstruction"]) + np.array(history["regularisation"])
    parts[4:] += model.beta_ * np.array(history["contrast"][4:])
    np.testing.assert_allclose(parts, history["objective"], rtol=1e-9)


def test_label_change_is_recorded(planted):
    X, view, y, _ = planted
    change = fitted(X, None, view, warm_up=0, max_iter=10, tol=0).history_["label_change"]
    assert change[0] == 1.0  # no labels before
    assert change[-1] == 0.0
    assert all(0 <= c <= 1 for c in change)
    known = fitted(X, y, view, graph="true", warm_up=0, max_iter=5, tol=0).history_["label_change"]
    assert known == [1.0, 0.0, 0.0, 0.0, 0.0]


# ---------------------------------------------------------------------------- ε-region


@pytest.mark.filterwarnings("ignore")  # a large β may be degenerate
@pytest.mark.parametrize("units", ["sample", "paper"])
def test_auto_beta_is_the_largest_within_epsilon(planted, units):
    X, view, *_ = planted
    common = {"units": units, "gamma": 1.0 if units == "sample" else 1 / 90}
    epsilon = 0.1
    model = fitted(X, None, view, beta="auto", epsilon=epsilon, **common)
    plain = fitted(X, None, view, beta=0.0, **common)
    limit = (1 + epsilon) * plain.reconstruction_error_
    assert 0 < model.beta_ < 1
    assert model.reconstruction_error_ <= limit * (1 + 1e-6)
    factor = 1 if units == "sample" else 90
    larger = fitted(X, None, view, beta=2 * model.beta_ * factor, **common)
    assert larger.reconstruction_error_ > limit
    assert larger.beta_ == pytest.approx(2 * model.beta_)


def test_auto_beta_says_when_there_is_none(planted, monkeypatch):
    X, view, *_ = planted
    monkeypatch.setattr(paper, "MIN_BETA", 0.1)
    with pytest.warns(TensorContrastWarning, match="no β"):
        model = fitted(X, None, view, beta="auto", epsilon=1e-6)
    assert model.beta_ == 0.0
    plain = fitted(X, None, view, beta=0.0)
    np.testing.assert_array_equal(model.factors_[0], plain.factors_[0])


# ---------------------------------------------------------------------------- mini-batches


def test_a_small_last_batch_does_not_end_the_fit(planted):
    X, *_ = planted
    options = {"batch_size": 44, "step_size": 0.2, "max_iter": 5, "tol": 0, "warm_up": 1}
    model = fitted(X, n_clusters=3, **options)  # batches of 44, 44 and 2 samples
    assert model.n_iter_ == 5


def test_ablations_of_the_paper_need_no_units():
    for given in ({"beta": 0.0}, {"gamma": 0.0}):
        model = PLC.paper(**given)
        assert model.units == "sample"
        assert 0.0 in (model.beta, model.gamma)
    assert PLC.paper(beta=0.0, gamma=2.0).units == "paper"


def test_the_paper_takes_every_parameter():
    model = PLC.paper(rank=7, batch_size=50, step_size=0.5, alpha=0.1)
    assert (model.rank, model.alpha, model.max_iter, model.tol) == (7, 0.1, 200, 2e-5)
    assert (model.batch_size, model.step_size) == (50, 0.5)
    with pytest.raises(TypeError, match="no_such"):
        PLC.paper(no_such=3)


# ---------------------------------------------------------------------------- views


@pytest.mark.parametrize("method", ["Algorithm 1", "ATD"])
@pytest.mark.parametrize("fresh", [False, True])
def test_augment_makes_the_view(method, fresh, planted):
    X, seen = planted[0], []

    def augment(data, rng):
        seen.append(data)
        return data + 0.1 * rng.normal(size=data.shape)

    options = {"augment": augment, "fresh_views": fresh, "max_iter": 4, "tol": 0}
    model = algorithm1(**options) if method != "ATD" else ATD(3, random_state=0, **options)
    model.fit(X)
    np.testing.assert_allclose(seen[0], X, rtol=1e-9)
    assert len(seen) >= 4 if fresh else len(seen) == 1
    for wrong in (lambda data, rng: data[:-1], lambda data, rng: data * np.nan, lambda *a: None):
        options["augment"] = wrong
        model = algorithm1(**options) if method != "ATD" else ATD(3, **options)
        with pytest.raises(InvalidInputError, match="view"):
            model.fit(X)


@pytest.mark.parametrize("method", ["Algorithm 1", "ATD"])
def test_a_function_draws_the_view_anew(method, planted):
    X, drawn = planted[0], []

    def view(rng):
        drawn.append(rng.normal(size=X.shape))
        return X + 0.1 * drawn[-1]

    model = algorithm1(max_iter=4, tol=0) if method != "ATD" else ATD(3, max_iter=4, tol=0)
    model.fit(X, view=view)
    assert len(drawn) >= 4
    assert not np.array_equal(drawn[0], drawn[1])


def test_atd_pulls_a_window_to_its_view(planted):
    X = planted[0]
    view = noisy(X, size=1.0)
    cosine = [
        ATD(3, beta=beta, delta=1.0, random_state=0).fit(X, view=view).history_["trans_inv"][-1]
        for beta in (1e-6, 0.1)
    ]
    assert cosine[1] > cosine[0]


def test_atd_paper_are_its_authors_settings():
    model = ATD.paper(rank=7)
    assert (model.rank, model.beta, model.delta, model.alpha) == (7, 2.0, 0.01, 1e-3)
    assert (model.batch_size, model.step_size, model.center, model.scale) == (
        128,
        5e-3,
        False,
        False,
    )
    assert ATD.paper(batch_size=64).batch_size == 64


def test_windows_must_be_in_memory(planted):
    da = pytest.importorskip("dask.array")
    lazy = da.from_array(planted[0], chunks=(30, -1, -1, -1))
    for model in (algorithm1(), ATD(3)):
        with pytest.raises(InvalidInputError, match="compute"):
            model.fit(lazy)
