"""Learned attributes are those of the last fit, all of them or none, however that fit ended."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from tensorcontrast import ATD, CPD, PLC, ContrastiveFeatures, SpectrogramTensor, load_model
from tensorcontrast.cp import gls
from tensorcontrast.datasets import make_cp_tensor, make_synthetic
from tensorcontrast.decompose.options import build
from tensorcontrast.solvers import als, gradient

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

X = make_cp_tensor(60, (5, 6, 4), 3, noise=0.1, random_state=0)[0]
SIGNALS = make_synthetic(n_samples=40, n_classes=2, random_state=0)
SHORT = {"rank": 3, "max_iter": 8, "tol": 0, "random_state": 0}
GLS = {**SHORT, "n_clusters": 3, "epsilon": 0.5}
TIED = {**SHORT, "solver": "tied", "n_epochs": 4, "n_clusters": 3}


def interrupt_at(iteration):
    def callback(row):
        if row["iteration"] == iteration:
            raise KeyboardInterrupt

    return callback


def stop_at(iteration):
    return lambda row: row["iteration"] == iteration


def names(model):
    """Names of all that was learned, private ones as well."""
    return set(vars(model)) - set(model.get_params(deep=False))


def fit_and_stop(model, how, iteration, *args, **options):
    if how == "Ctrl-C":
        model.set_params(callback=interrupt_at(iteration))
        with pytest.raises(KeyboardInterrupt, match="can be used"):
            model.fit(*args, **options)
    else:
        model.set_params(callback=stop_at(iteration)).fit(*args, **options)
    return model.set_params(callback=None)


# --------------------------------------------------------------------- refits


@pytest.mark.parametrize("how", ["Ctrl-C", "callback"])
@pytest.mark.parametrize(("options", "beta"), [(GLS, 0.0), (TIED, 0.07)], ids=["gls", "tied"])
def test_a_stop_before_the_contrast_leaves_nothing_of_the_fit_before(options, beta, how):
    model = build(PLC, **options).fit(X)
    assert (model.beta_, model.n_clusters_) == (beta, 3)
    assert (model.nuisance_gains_ is not None) == (options is GLS)
    fit_and_stop(model, how, 3, X)
    fresh = fit_and_stop(build(PLC, **options), how, 3, X)
    assert names(model) == names(fresh)
    assert (model.beta_, model.n_clusters_) == (0.0, 0)
    assert (model.nuisance_directions_, model.nuisance_gains_) == (None, None)
    np.testing.assert_array_equal(model.transform(X), fresh.transform(X))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({}, {"solver": "als"}),
        ({"solver": "als"}, {"solver": "tied"}),
        ({"solver": "gls"}, {"solver": "tied"}),
        ({}, {"solver": "gls"}),
        ({"robust": "huber"}, {"robust": None}),
        ({"beta": "auto"}, {"beta": 0.1}),
        ({"compress": (3, 4, 3)}, {"compress": None}),
        ({"rank": 3}, {"rank": 2}),
    ],
)
def test_a_refit_with_other_parameters_is_a_fresh_fit(first, second):
    options = {**TIED, **first, **second}
    model = build(PLC, **{**TIED, **first}).fit(X)
    fresh = build(PLC, **options)
    model.set_params(**fresh.get_params(deep=False)).fit(X)
    fresh.fit(X)
    assert names(model) == names(fresh) == names(clone(model).fit(X))
    for name in ("beta_", "gamma_", "n_clusters_", "rank_", "core_dims_"):
        assert getattr(model, name) == getattr(fresh, name)
    np.testing.assert_array_equal(model.labels_, fresh.labels_)


def test_every_way_of_fitting_gives_the_same_attributes(tmp_path):
    whole = names(build(PLC, **TIED).fit(X))
    ways = ({"solver": "als"}, {"beta": "auto"}, {"beta": 0.0}, {"fresh_views": True})
    for options in ways:
        assert names(build(PLC, **{**TIED, **options}).fit(X)) == whole
    assert names(build(PLC, **TIED).partial_fit(X)) == whole
    assert names(fit_and_stop(build(PLC, **TIED), "Ctrl-C", 10, X)) == whole
    closed = names(build(PLC, **GLS).fit(X))
    assert closed >= whole | {"nuisance_strength_"}
    for options in ({"beta": 0.0}, {"epsilon": 1e-9}, {"robust": "huber"}):
        assert names(build(PLC, **{**GLS, **options}).fit(X)) == closed
    assert names(fit_and_stop(build(PLC, **GLS), "Ctrl-C", 4, X)) == closed
    searched = build(PLC, **{**TIED, "beta": "auto"}).fit(X)
    assert searched.n_clusters_ == 3
    searched.save(tmp_path / "m.tcm")
    assert load_model(tmp_path / "m.tcm").n_clusters_ == 3


def test_a_batch_after_a_fit_is_of_its_own_contrast():
    model = build(PLC, **TIED).fit(X).set_params(beta=0.5, n_clusters=2)
    model.partial_fit(X[:30])
    assert (model.beta_, model.n_clusters_, model.interrupted_) == (0.5, 2, False)
    assert len(model.labels_) == 30
    squeezed = build(PLC, **TIED, compress=(3, 4, 3)).fit(X)
    assert squeezed.core_dims_ == (3, 4, 3)
    assert squeezed.partial_fit(X[:30]).core_dims_ == (5, 6, 4)


def test_settings_of_scikit_learn_outlive_a_fit():
    pytest.importorskip("pandas")
    model = build(CPD, **SHORT).set_output(transform="pandas").fit(X)
    model.note = "mine"
    assert list(model.fit(X).transform(X).columns) == list(model.get_feature_names_out())
    assert model.note == "mine"


@pytest.mark.parametrize(
    "model",
    [build(CPD, **SHORT), build(ATD, **SHORT), build(PLC, **GLS), build(PLC, **TIED)],
    ids=str,
)
def test_a_failed_fit_or_batch_changes_nothing(model):
    class Failure(Exception):
        pass

    def fail(row):
        raise Failure

    model = clone(model).fit(X)
    before = dict(vars(model))
    model.set_params(callback=fail)
    with pytest.raises(Failure):
        model.fit(2 * X + 1)
    model.set_params(callback=None)
    with pytest.raises(ValueError, match="dims"):
        model.partial_fit(X[:, :, :3])
    assert all(vars(model)[name] is before[name] for name in before)


# --------------------------------------------------------------------- Ctrl-C between iterations


PLACES = [
    (TIED, gradient, "train"),
    (TIED, gradient.TiedContrast, "epoch"),
    (GLS, gls, "contrast_metric"),
    (GLS, gls, "select_strength"),
]


@pytest.mark.parametrize(("options", "module", "function"), PLACES, ids=[p[2] for p in PLACES])
def test_what_was_done_before_ctrl_c_is_kept(options, module, function, monkeypatch):
    """Between the stages too: the last whole stage is the result."""

    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    model = build(PLC, **options)
    monkeypatch.setattr(module, function, interrupt)
    with pytest.raises(KeyboardInterrupt, match=r"after .* iterations; .* can be used"):
        model.fit(X)
    assert model.interrupted_
    assert (model.beta_, model.n_clusters_) == (0.0, 0)
    assert model.transform(X).shape == (60, 3)
    np.testing.assert_allclose(model.features_, model.transform(X), atol=1e-10)


# --------------------------------------------------------------------- from signals


@pytest.mark.parametrize(("iteration", "beta"), [(3, 0.0), (10, 0.07)])
def test_interrupted_features_can_be_used(iteration, beta, tmp_path):
    part = build(PLC, **TIED, callback=interrupt_at(iteration))
    model = ContrastiveFeatures(decompose=part, random_state=0)
    with pytest.raises(KeyboardInterrupt, match=r"ContrastiveFeatures: PLC.fit .* can be used"):
        model.fit(SIGNALS)
    assert model.decompose_.interrupted_
    assert (model.decompose_.beta_, model.decompose_.n_iter_) == (beta, iteration)
    W = model.transform(SIGNALS)
    assert W.shape == (40, 3)
    assert W.std(axis=0).min() > 0
    model.decompose.set_params(callback=None)
    model.decompose_.set_params(callback=None)
    model.save(tmp_path / "m.tcm")
    np.testing.assert_array_equal(load_model(tmp_path / "m.tcm").transform(SIGNALS), W)


@pytest.mark.parametrize("where", ["signals", "first sweep"])
def test_interrupted_before_there_is_anything_says_so(where, monkeypatch):
    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    fitted = ContrastiveFeatures(decompose=build(PLC, **TIED), random_state=0).fit(SIGNALS)
    before = fitted.transform(SIGNALS)
    fresh = clone(fitted)
    if where == "signals":
        monkeypatch.setattr(SpectrogramTensor, "fit", interrupt)
    else:
        monkeypatch.setattr(als, "sweep", interrupt)
    for model in (fresh, fitted):
        with pytest.raises(KeyboardInterrupt, match=r"ContrastiveFeatures: .* nothing was learned"):
            model.fit(SIGNALS[:20] if model is fitted else SIGNALS)
    monkeypatch.undo()
    with pytest.raises(NotFittedError):
        fresh.transform(SIGNALS)
    np.testing.assert_array_equal(fitted.transform(SIGNALS), before)


def test_a_refit_of_features_forgets_what_a_model_file_said():
    model = ContrastiveFeatures(decompose=build(CPD, **SHORT), random_state=0).fit(SIGNALS)
    model.fitted_on_ = {"name": "other"}
    assert model.fit(SIGNALS).fitted_on_ is None
