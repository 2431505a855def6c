"""Learned attributes are those of the last fit, all of them or none, however that fit ended."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from tensorcontrast import (
    ATD,
    CPD,
    PLC,
    Algorithm1,
    ContrastiveFeatures,
    SpectrogramTensor,
    load_model,
)
from tensorcontrast.datasets import make_cp_tensor, make_synthetic
from tensorcontrast.solvers import als

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

X = make_cp_tensor(60, (5, 6, 4), 3, noise=0.1, random_state=0)[0]
SIGNALS = make_synthetic(n_samples=40, n_classes=2, random_state=0)
SHORT = {"rank": 3, "max_iter": 8, "tol": 0, "random_state": 0}
CLOSED = {**SHORT, "n_clusters": 3, "epsilon": 0.5}
PAPER = {**SHORT, "n_clusters": 3, "warm_up": 4}


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
def test_a_stop_before_the_contrast_leaves_nothing_of_the_fit_before(how):
    model = PLC(**CLOSED).fit(X)
    assert model.n_clusters_ == 3 and model.nuisance_gains_ is not None
    fit_and_stop(model, how, 3, X)
    fresh = fit_and_stop(PLC(**CLOSED), how, 3, X)
    assert names(model) == names(fresh)
    assert (model.n_clusters_, len(model.labels_)) == (0, 0)
    assert (model.nuisance_directions_, model.nuisance_gains_) == (None, None)
    np.testing.assert_array_equal(model.transform(X), fresh.transform(X))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"missing": "mask"}, {"missing": "error"}),
        ({"center": False}, {"center": True}),
        ({"rank": 3}, {"rank": 2}),
    ],
    ids=str,
)
def test_a_refit_with_other_parameters_is_a_fresh_fit(first, second):
    data = np.abs(X)
    model = PLC(**{**CLOSED, **first}).fit(data)
    fresh = PLC(**{**CLOSED, **first, **second})
    model.set_params(**fresh.get_params(deep=False)).fit(data)
    fresh.fit(data)
    assert names(model) == names(fresh) == names(clone(model).fit(data))
    for name in ("n_clusters_", "rank_", "nuisance_strength_"):
        assert getattr(model, name, None) == getattr(fresh, name, None)
    np.testing.assert_array_equal(model.labels_, fresh.labels_)
    np.testing.assert_array_equal(model.transform(data), fresh.transform(data))


def test_every_way_of_fitting_gives_the_same_attributes(tmp_path):
    whole = names(Algorithm1(**PAPER).fit(X))
    for options in ({"beta": "auto"}, {"beta": 0.0}, {"fresh_views": True}, {"warm_up": 0}):
        assert names(Algorithm1(**{**PAPER, **options}).fit(X)) == whole, options
    for iteration in (2, 6):
        assert names(fit_and_stop(Algorithm1(**PAPER), "Ctrl-C", iteration, X)) == whole
    whole = names(PLC(**CLOSED).fit(X))
    for options in ({"epsilon": 1e-9}, {"gamma": 0.0}, {"missing": "mask"}, {"graph": "pseudo"}):
        assert names(PLC(**{**CLOSED, **options}).fit(X)) == whole, options
    assert names(fit_and_stop(PLC(**CLOSED), "Ctrl-C", 4, X)) == whole
    PLC(**CLOSED).fit(X, autosave=tmp_path / "m.tcm")
    assert names(load_model(tmp_path / "m.tcm")) == {n for n in whole if n.endswith("_")}


def test_attributes_are_documented():
    for model in (CPD(**SHORT), ATD(**SHORT), PLC(**CLOSED)):
        for name in names(model.fit(X)):
            if not name.startswith(("_", "nuisance", "n_features_in", "feature_names", "dims")):
                assert name in type(model).__doc__, name


def test_settings_of_scikit_learn_outlive_a_fit():
    pytest.importorskip("pandas")
    model = CPD(**SHORT).set_output(transform="pandas").fit(X)
    model.note = "mine"
    assert list(model.fit(X).transform(X).columns) == list(model.get_feature_names_out())
    assert model.note == "mine"


@pytest.mark.parametrize(
    "model", [CPD(**SHORT), ATD(**SHORT), PLC(**CLOSED), Algorithm1(**PAPER)], ids=str
)
def test_a_failed_fit_changes_nothing(model):
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
        model.transform(X[:, :, :3])
    assert all(vars(model)[name] is before[name] for name in before)


# --------------------------------------------------------------------- from signals


@pytest.mark.parametrize("iteration", [3, 6])
def test_interrupted_features_can_be_used(iteration, tmp_path):
    part = Algorithm1(**PAPER, callback=interrupt_at(iteration))
    model = ContrastiveFeatures(decompose=part, random_state=0)
    with pytest.raises(KeyboardInterrupt, match="can be used"):
        model.fit(SIGNALS)
    assert model.decompose_.interrupted_ and model.decompose_.n_iter_ == iteration
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

    fitted = ContrastiveFeatures(decompose=PLC(**CLOSED), random_state=0).fit(SIGNALS)
    before = fitted.transform(SIGNALS)
    fresh = clone(fitted)
    if where == "signals":
        monkeypatch.setattr(SpectrogramTensor, "fit", interrupt)
    else:
        monkeypatch.setattr(als.PlainStep, "__call__", interrupt)
    for model in (fresh, fitted):
        with pytest.raises(KeyboardInterrupt, match="nothing was learned"):
            model.fit(SIGNALS[:20] if model is fitted else SIGNALS)
    monkeypatch.undo()
    with pytest.raises(NotFittedError):
        fresh.transform(SIGNALS)
    np.testing.assert_array_equal(fitted.transform(SIGNALS), before)


def test_a_refit_of_features_forgets_what_a_model_file_said():
    model = ContrastiveFeatures(decompose=CPD(**SHORT), random_state=0).fit(SIGNALS)
    model.fitted_on_ = {"name": "other"}
    assert model.fit(SIGNALS).fitted_on_ is None
