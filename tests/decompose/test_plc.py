"""PLC: graphs, ablations, the paper's units, history, ε-region, and that its objective falls."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.cluster import DBSCAN, AgglomerativeClustering
from sklearn.metrics import adjusted_rand_score

from tensorcontrast import CPD, PLC, PaperALS
from tensorcontrast.cp.kernels import factor_match_score
from tensorcontrast.datasets import make_cp_tensor
from tensorcontrast.decompose.options import build
from tensorcontrast.errors import InvalidInputError, TensorContrastWarning
from tensorcontrast.solvers.tuning import Tuning
from tensorcontrast.sources.tensor_noise import TensorNoise


@pytest.fixture(scope="module")
def planted():
    """X (90, 6, 8, 7) of rank 3 with 5 % noise, a view, its classes and factors."""
    X, y, _, factors = make_cp_tensor(90, (6, 8, 7), 3, noise=0.05, random_state=0)
    return X, TensorNoise()(X, np.random.default_rng(0)), y, factors


def fitted(X, y=None, view=None, **params):
    settings = {"rank": 3, "n_clusters": 3, "random_state": 0, **params}
    return build(PLC, solver="als", **settings).fit(X, y, view=view)


def unit(W):
    return W / np.linalg.norm(W, axis=1, keepdims=True)


# ---------------------------------------------------------------------------- graphs


def test_true_graph_has_the_labels_given(planted):
    X, view, y, _ = planted
    model = fitted(X, y, view, graph="true")
    np.testing.assert_array_equal(model.labels_, y)
    assert model.centers_ is None
    names = np.array(["sit", "stand", "walk"])[y]
    by_name = fitted(X, names, view, graph="true")
    np.testing.assert_array_equal(by_name.factors_[0], model.factors_[0])
    column = fitted(X, y[:, None], view, graph="true")
    np.testing.assert_array_equal(column.factors_[0], model.factors_[0])
    np.testing.assert_array_equal(fitted(X, y * 7 + 3, view, graph="true").labels_, y)


def test_true_graph_parts_classes_better_than_none(planted):
    X, view, y, _ = planted

    def margin(model):
        S = unit(model.features_) @ unit(model.features_).T
        same = y[:, None] == y[None, :]
        return S[same].mean() - S[~same].mean()

    fits = [fitted(X, y, view, graph="true", beta=b, tol=1e-4) for b in (0.0, 0.03, 0.3)]
    margins = [margin(model) for model in fits]
    assert margins[0] < margins[1] < margins[2]


def test_pseudo_graph_ignores_y(planted):
    X, view, y, _ = planted
    with pytest.warns(TensorContrastWarning, match="PLC does not use y"):
        a = fitted(X, y, view)
    b = fitted(X, None, view)
    np.testing.assert_array_equal(a.factors_[0], b.factors_[0])
    np.testing.assert_array_equal(a.labels_, b.labels_)


def test_unknown_labels_join_by_cluster(planted):
    X, view, y, factors = planted
    some = np.where(np.arange(90) % 3 == 0, y, -1)
    model = fitted(X, some, view, graph="true", n_clusters=None)
    assert model.labels_.max() == 2  # as many clusters as classes are known
    assert factor_match_score(model.factors_, factors) > 0.99
    pseudo = fitted(X, None, view)
    assert not np.array_equal(model.features_, pseudo.features_)
    full = fitted(X, y, view, graph="true")
    assert not np.array_equal(model.features_, full.features_)


def test_pseudo_classes_are_the_planted_ones_where_these_are_clear():
    X, y, *_ = make_cp_tensor(90, (6, 8, 7), 3, noise=0.05, separation=8, random_state=1)
    assert adjusted_rand_score(y, fitted(X).labels_) > 0.95


def test_same_view_graph(planted):
    X, view, _, factors = planted
    model = fitted(X, None, view, graph="same-view")
    assert factor_match_score(model.factors_, factors) > 0.99
    other = fitted(X, None, view)
    assert not np.array_equal(model.features_, other.features_)
    assert model.history_["cross_view"][-1] != other.history_["cross_view"][-1]


def test_number_of_clusters_by_default(planted):
    X, *_ = planted
    assert fitted(X, n_clusters=None).labels_.max() == 7
    assert fitted(X[:6], n_clusters=None, rank=2).labels_.max() <= 2
    assert set(fitted(X, n_clusters=1).labels_) == {0}


def test_a_clusterer_is_plugged_in_and_not_changed(planted):
    X, view, *_ = planted
    clusterer = AgglomerativeClustering(n_clusters=4)
    model = fitted(X, None, view, clusterer=clusterer)
    assert set(model.labels_) == {0, 1, 2, 3}
    assert not hasattr(clusterer, "labels_")
    noise = fitted(X, None, view, clusterer=DBSCAN(eps=0.3, min_samples=4))
    assert (noise.labels_ >= 0).all()
    assert np.isfinite(noise.features_).all()


class _Constant(ClusterMixin, BaseEstimator):
    def __init__(self, shape=None):
        self.shape = shape

    def fit_predict(self, X, y=None):
        return np.zeros(self.shape or len(X), dtype=int)


def test_a_clusterer_that_gives_labels_of_another_length_is_named(planted):
    X, view, *_ = planted
    assert set(fitted(X, None, view, clusterer=_Constant()).labels_) == {0}
    with pytest.raises(InvalidInputError, match=r"_Constant.*one label per window"):
        fitted(X, None, view, clusterer=_Constant(5))


# ---------------------------------------------------------------------------- ablations


@pytest.mark.parametrize("graph", ["pseudo", "true", "same-view"])
def test_without_contrast_it_is_cpd_of_both_views(planted, graph):
    X, view, y, _ = planted
    start = [np.random.default_rng(1).normal(size=(d, 3)) for d in X.shape[1:]]
    options = {"init": start, "max_iter": 9, "tol": 0, "random_state": 0}
    y = y if graph == "true" else None
    model = fitted(X, y, view, beta=0, warm_up=0, graph=graph, **options)
    cpd = build(CPD, rank=3, **options).fit(X, view=view)
    for U, V in zip(model.factors_, cpd.factors_, strict=True):
        np.testing.assert_allclose(U, V, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(model.features_, cpd.features_, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(model.view_features_, cpd.view_features_, rtol=1e-9, atol=1e-12)


def test_without_cross_view_only_the_invariance_is_left(planted):
    X, view, *_ = planted
    model = fitted(X, None, view, gamma=0.0)
    history = model.history_
    np.testing.assert_allclose(history["contrast"][-1], -90 * history["trans_inv"][-1])
    assert "cross_view" not in history
    with_graph = fitted(X, None, view, gamma=1.0)
    assert not np.array_equal(model.features_, with_graph.features_)
    plain = fitted(X, None, view, beta=0.0)
    assert history["trans_inv"][-1] > plain.history_["trans_inv"][-1]


def test_without_trans_inv_only_the_graph_is_left(planted):
    X, view, *_ = planted
    history = fitted(X, None, view, trans_inv=False, gamma=0.7).history_
    np.testing.assert_allclose(history["contrast"][-1], 0.7 * history["cross_view"][-1])


def test_literal_laplacian_keeps_the_identity(planted):
    X, view, y, _ = planted
    fits = [fitted(X, y, view, graph="true", laplacian=kind) for kind in ("signed", "literal")]
    assert not np.array_equal(fits[0].features_, fits[1].features_)
    # E5 with L = I − S/(N−1) against the same with −S/(N−1): the difference is Σ cosines.
    for model, identity in zip(fits, (0.0, 1.0), strict=True):
        same = np.where(y[:, None] == y[None, :], 1.0, -1.0) - np.eye(90)
        L = identity * np.eye(90) - same / 89
        W, V = unit(model.features_), unit(model.view_features_)
        cross = np.trace(W.T @ L @ V)
        assert model.history_["cross_view"][-1] == pytest.approx(cross, rel=0.02)


# ---------------------------------------------------------------------------- units


def test_the_units_of_the_paper(planted):
    X, view, *_ = planted
    paper = PLC.paper(beta=4.5, gamma=0.02, rank=3, n_clusters=3, random_state=0, tol=1e-3)
    assert paper.als.units == "paper"
    assert paper.als.warm_up == 0
    paper.fit(X, view=view)
    assert paper.beta_ == pytest.approx(4.5 / 90)
    assert paper.gamma_ == pytest.approx(0.02 * 90)
    ours = fitted(X, None, view, beta=4.5 / 90, gamma=0.02 * 90, warm_up=0, tol=1e-3)
    np.testing.assert_allclose(paper.factors_[0], ours.factors_[0], rtol=1e-9, atol=1e-12)
    assert (ours.beta_, ours.gamma_) == (4.5 / 90, 0.02 * 90)


def test_paper_without_values_uses_those_of_the_class(planted):
    X, *_ = planted
    model = PLC.paper(rank=3, n_clusters=3, random_state=0)
    assert model.als.units == "sample"
    assert (model.beta, model.gamma) == (PLC().beta, PLC().gamma)
    model.fit(X)
    assert (model.beta_, model.gamma_) == (0.03, model.gamma)
    assert PLC.paper(warm_up=3).als.warm_up == 3


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


@pytest.mark.parametrize("laplacian", ["signed", "literal"])
@pytest.mark.parametrize("beta", [1e-3, 0.03, 0.3, 2.0, 20.0])
def test_the_objective_never_rises(planted, beta, laplacian):
    """E8 over sweeps with a fixed graph, where each block of variables is moved in turn."""
    X, view, y, _ = planted
    model = fitted(
        X, y, view, graph="true", beta=beta, laplacian=laplacian, warm_up=0, max_iter=40, tol=0
    )
    objective = np.array(model.history_["objective"])
    assert (np.diff(objective) <= 1e-9 * np.abs(objective[:-1])).all()
    assert objective[-1] < objective[0]


@pytest.mark.parametrize("params", [{"gamma": 0.0}, {"trans_inv": False}, {"gamma": 10.0}])
def test_the_objective_never_rises_in_the_ablations(planted, params):
    X, view, y, _ = planted
    model = fitted(X, y, view, graph="true", beta=0.5, warm_up=0, max_iter=30, tol=0, **params)
    objective = np.array(model.history_["objective"])
    assert (np.diff(objective) <= 1e-9 * np.abs(objective[:-1])).all()


def test_n_init_keeps_the_lowest_objective(planted):
    X, view, *_ = planted
    last = []

    def collect(terms):
        if terms["iteration"] == 1:
            last.append(0.0)
        last[-1] = terms["objective"]

    model = fitted(X, None, view, n_init=4, callback=collect)
    assert len(last) == 4
    assert model.history_["objective"][-1] == min(last)


# ---------------------------------------------------------------------------- ε-region


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


def test_a_wider_region_allows_a_larger_beta(planted):
    X, view, *_ = planted
    fits = [fitted(X, None, view, beta="auto", epsilon=e, tol=2e-4) for e in (0.02, 0.3)]
    betas = [model.beta_ for model in fits]
    assert 0 < betas[0] < betas[1]


def test_auto_beta_says_when_there_is_none(planted):
    X, view, *_ = planted
    settings = {"rank": 3, "n_clusters": 3, "random_state": 0, "beta": "auto", "epsilon": 1e-6}
    model = build(PLC, solver="als", **settings)
    model._tuning = Tuning(min_beta=0.1)
    with pytest.warns(TensorContrastWarning, match="no β"):
        model.fit(X, view=view)
    assert model.beta_ == 0.0
    plain = fitted(X, None, view, beta=0.0)
    np.testing.assert_array_equal(model.factors_[0], plain.factors_[0])


def test_a_stream_goes_on_with_the_beta_that_was_found(planted):
    X, view, *_ = planted
    model = fitted(X, None, view, beta="auto")
    found = model.beta_
    model.partial_fit(X, view=view)
    assert model.beta_ == found > 0


# ---------------------------------------------------------------------------- mini-batches


def test_mini_batches_of_labelled_samples(planted):
    X, view, y, _ = planted
    options = {"graph": "true", "batch_size": 30, "step_size": 0.2, "max_iter": 30, "tol": 0}
    model = fitted(X, y, view, **options)
    np.testing.assert_array_equal(model.labels_, y)
    errors = model.history_["reconstruction_error"]
    assert errors[-1] < errors[0]
    some = np.where(np.arange(90) % 2, y, -1)
    assert np.isfinite(fitted(X, some, view, **options).features_).all()


def test_a_small_last_batch_does_not_end_the_fit(planted):
    X, *_ = planted
    options = {"batch_size": 44, "step_size": 0.2, "max_iter": 5, "tol": 0, "warm_up": 1}
    model = fitted(X, n_clusters=3, **options)  # batches of 44, 44 and 2 samples
    assert model.n_iter_ == 5


def test_ablations_of_the_paper_need_no_units():
    def numbers(model):
        assert type(model.als) is PaperALS
        return {k: v for k, v in model.get_params().items() if k != "als"}  # these are als__tol, …

    for given in ({"beta": 0.0}, {"gamma": 0.0}):
        assert numbers(PLC.paper(**given)) == numbers(PLC.paper().set_params(**given))
    assert PLC.paper(beta=0.0, gamma=2.0).als.units == "paper"
