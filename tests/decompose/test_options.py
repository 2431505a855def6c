"""Settings of the solvers: objects of their own, reached by nested and by short names."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from tensorcontrast import ALS, ATD, CPD, PLC, ContrastiveFeatures, Gradient, PaperALS
from tensorcontrast.datasets import make_cp_tensor
from tensorcontrast.decompose.options import build, option_names, with_options

ALL = [CPD, ATD, PLC]
every = pytest.mark.parametrize("cls", ALL)


@pytest.fixture(scope="module")
def X():
    return make_cp_tensor(40, (4, 6, 5), 3, noise=0.05, random_state=0)[0]


# ---------------------------------------------------------------------------- nested names


@every
def test_settings_that_are_not_given_are_the_defaults(cls, X):
    model = cls(rank=3, random_state=0)
    assert model.als is None
    nested = {k: v for k, v in model.get_params().items() if k.startswith("als__")}
    assert nested == {f"als__{k}": v for k, v in ALS().get_params().items()}
    assert not any("__" in name for name in model.get_params(deep=False))
    given = cls(rank=3, random_state=0, als=ALS()).fit(X)
    model.fit(X)
    assert model.als is None  # a fit does not change parameters
    for U, V in zip(model.factors_, given.factors_, strict=True):
        np.testing.assert_array_equal(U, V)


@every
def test_setting_a_number_changes_no_other_estimator(cls):
    one, other = cls(), cls()
    assert one.set_params(als__tol=0.5) is one
    assert (one.als.tol, one.get_params()["als__tol"]) == (0.5, 0.5)
    assert other.als is None
    assert cls().get_params()["als__tol"] == ALS().tol != 0.5
    one.set_params(als__max_iter=7)  # what was set before stays
    assert (one.als.tol, one.als.max_iter) == (0.5, 7)


@every
def test_settings_of_a_clone_are_its_own(cls):
    model = cls(als=ALS(tol=0.5))
    copied = clone(model)
    assert copied.als is not model.als
    copied.set_params(als__tol=0.25, als__patience=9)
    assert (model.als.tol, model.als.patience) == (0.5, ALS().patience)
    assert (copied.als.tol, copied.als.patience) == (0.25, 9)
    empty = clone(cls())
    assert empty.als is None
    assert pickle.loads(pickle.dumps(copied)).als.tol == 0.25


def test_settings_and_their_numbers_in_one_call():
    model = PLC().set_params(als=PaperALS(tol=0.5), als__units="paper", gradient__n_epochs=3)
    assert type(model.als) is PaperALS
    assert (model.als.tol, model.als.units, model.gradient.n_epochs) == (0.5, "paper", 3)
    assert PLC().gradient is None


@pytest.mark.parametrize("name", ["als__tolerance", "als__units", "tol", "gradient__tol"])
def test_a_name_that_is_none_is_an_error(name):
    model = PLC(als=ALS())
    with pytest.raises(ValueError, match=f"Invalid parameter '{name.split('__')[-1]}'"):
        model.set_params(**{name: 3})


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_grid_search_reaches_the_settings(X):
    grid = {"als__max_iter": [1, 60]}
    search = GridSearchCV(CPD(rank=3, als=ALS(tol=1e-3), random_state=0), grid, cv=3)
    search.fit(X)
    assert search.best_params_ == {"als__max_iter": 60}
    found = search.best_estimator_
    assert (found.als.max_iter, found.als.tol) == (60, 1e-3)
    assert search.estimator.als.max_iter == ALS().max_iter
    tried = search.cv_results_["mean_test_score"]
    assert tried[0] < tried[1]


def test_a_grid_search_without_settings_to_begin_with(X):
    search = GridSearchCV(CPD(rank=3, random_state=0), {"als__tol": [1e-1, 1e-3]}, cv=2).fit(X)
    assert search.best_estimator_.als.tol == search.best_params_["als__tol"]
    assert search.estimator.als is None


def test_names_go_through_pipelines_and_signals():
    pipe = make_pipeline(CPD(), Ridge()).set_params(cpd__als__tol=0.5)
    assert pipe[0].als.tol == 0.5
    signals = ContrastiveFeatures(decompose=PLC()).set_params(decompose__gradient__n_epochs=2)
    assert signals.decompose.gradient.n_epochs == 2


def test_what_an_estimator_looks_like():
    model = CPD(rank=3, als=ALS(max_iter=50))
    assert repr(model) == "CPD(als=ALS(max_iter=50), rank=3)"
    assert repr(CPD(rank=3)) == "CPD(rank=3)"


# ---------------------------------------------------------------------------- short names


@every
def test_build_takes_every_name_and_puts_it_where_it_belongs(cls):
    names = option_names(cls)
    assert len(names) == len(set(names))
    assert set(cls().get_params(deep=False)) <= set(names)
    assert set(PaperALS().get_params()) <= set(names)
    assert (set(Gradient().get_params()) <= set(names)) == (cls is PLC)
    values = {name: object() for name in names if name not in ("als", "gradient", "clusterer")}
    model = build(cls, **values)
    for name, value in values.items():
        part = model
        if name in PaperALS().get_params():
            part = model.als
        elif name in Gradient().get_params():
            part = model.gradient
        assert getattr(part, name) is value


def test_settings_of_the_paper_are_made_where_they_are_asked_for():
    assert type(build(CPD, max_iter=3).als) is ALS
    assert build(CPD, rank=3).als is None
    model = build(CPD, max_iter=3, center=False)
    assert type(model.als) is PaperALS
    assert (model.als.max_iter, model.als.center, model.als.scale) == (3, False, True)
    kept = with_options(CPD(als=ALS(tol=0.5)), scale=False)
    assert (kept.als.tol, kept.als.scale) == (0.5, False)


def test_a_batch_size_is_that_of_the_solver():
    tied = build(PLC, batch_size=64, solver="tied")
    assert (tied.gradient.batch_size, tied.als) == (64, None)
    for solver in ("gls", "als"):
        other = build(PLC, batch_size=64, solver=solver)
        assert (other.als.batch_size, other.gradient) == (64, None)
    assert build(CPD, batch_size=64).als.batch_size == 64


def test_options_are_those_of_a_copy(X):
    model = CPD(rank=3, als=ALS(tol=0.5), random_state=0).fit(X)
    other = with_options(model, tol=0.25, rank=2, als__patience=3)
    assert not hasattr(other, "factors_")
    assert (other.rank, other.als.tol, other.als.patience) == (2, 0.25, 3)
    assert (model.rank, model.als.tol, model.als.patience) == (3, 0.5, ALS().patience)
    assert hasattr(model, "factors_")
    assert with_options(Ridge(), alpha=2.0).alpha == 2.0


@every
@pytest.mark.parametrize("name", ["maxiter", "checkpoint", "every", "als__maxiter"])
def test_an_unknown_short_name_is_an_error(cls, name):
    for make in (build, with_options):
        with pytest.raises(ValueError, match=f"Invalid parameter '{name.split('__')[-1]}'"):
            make(cls if make is build else cls(), rank=3, **{name: 3})
    with pytest.raises(ValueError, match="Invalid parameter 'n_epochs'"):
        build(CPD, n_epochs=3)


@pytest.mark.parametrize("cls", [ATD, PLC])
def test_the_paper_takes_short_names(cls):
    model = cls.paper(rank=3, max_iter=7, alpha=0.5)
    assert (model.rank, model.alpha, model.als.max_iter) == (3, 0.5, 7)
    assert type(model.als) is PaperALS
    with pytest.raises(TypeError, match="maxiter"):
        cls.paper(maxiter=7)
