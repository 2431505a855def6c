"""When a fit stops: tolerance, patience, callback, warnings, the progress bar; the Monitor."""

import math

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from tensorcontrast import ATD, CPD, PLC
from tensorcontrast.datasets import make_cp_tensor
from tensorcontrast.errors import NumericalError, TensorContrastError, TensorContrastWarning
from tensorcontrast.solvers.convergence import RISE, Monitor

SHORT = {"rank": 3, "random_state": 0}
MODELS = {
    "CPD": CPD(**SHORT),
    "ATD": ATD(**SHORT),
    "PLC": PLC(**SHORT, n_clusters=3, max_iter=200, tol=2e-5),
    "Algorithm 1": PLC.paper(**SHORT, n_clusters=3),
}
models = pytest.mark.parametrize("name", MODELS)


def make(name, **params):
    return clone(MODELS[name]).set_params(**params)


@pytest.fixture(scope="module")
def X():
    return make_cp_tensor(60, (5, 6, 4), 3, noise=0.05, random_state=0)[0]


# ---------------------------------------------------------------------------- estimators


@models
def test_a_fit_that_settles_does_not_warn(name, X):
    model = make(name).fit(X)  # warnings are errors
    assert model.converged_
    assert not model.interrupted_
    assert model.n_iter_ < model.max_iter
    assert len(model.history_["objective"]) == model.n_iter_


@pytest.mark.parametrize("max_iter", [1, 2, 3])
@models
def test_a_fit_that_runs_out_warns(name, max_iter, X):
    model = make(name, max_iter=max_iter, tol=1e-12)
    with pytest.warns(ConvergenceWarning, match=f"max_iter={max_iter}"):
        model.fit(X)
    assert not model.converged_
    assert model.n_iter_ == max_iter
    assert model.transform(X).shape == (60, 3)


@models
def test_warnings_point_at_the_line_that_fits(name, X):
    with pytest.warns(ConvergenceWarning, match="max_iter=1") as settled:
        make(name, max_iter=1).fit(X)
    with pytest.warns(TensorContrastWarning, match="rank=9999") as cut:
        make(name, rank=9999, max_iter=1, tol=0).fit(X)
    assert settled[0].filename == cut[0].filename == __file__


def test_tol_zero_runs_all_iterations_silently(X):
    model = make("CPD", max_iter=50, tol=0).fit(X)
    assert model.n_iter_ == 50
    assert not model.converged_


def test_a_smaller_tol_takes_longer(X):
    counts = [make("CPD", tol=tol).fit(X).n_iter_ for tol in (1e-1, 1e-3, 2e-5)]
    assert counts[0] < counts[1] < counts[2]


def test_the_closed_form_runs_a_fixed_number_of_sweeps(X):
    assert PLC(rank=3, random_state=0).fit(X).n_iter_ == PLC().max_iter == 20


@pytest.mark.parametrize("factor", [1e-6, 1.0, 1e6])
def test_the_tolerance_does_not_depend_on_the_unit_of_the_data(factor, X):
    assert CPD(rank=3, random_state=0).fit(X * factor).n_iter_ == pytest.approx(
        CPD(rank=3, random_state=0).fit(X).n_iter_, abs=1
    )


def test_a_warm_up_does_not_count_as_settled(X):
    """The warm-up alone settles in a few sweeps; all of them are done, and then the contrast."""
    model = make("Algorithm 1", warm_up=40).fit(X)
    assert model.n_iter_ > 41
    assert np.isfinite(model.history_["contrast"][-1])


@models
def test_the_callback_gets_the_terms_of_each_iteration(name, X):
    rows = []
    model = make(name, max_iter=8, tol=0, callback=rows.append)
    model.fit(X)
    assert [row["iteration"] for row in rows] == list(range(1, 9))
    assert [row["objective"] for row in rows] == model.history_["objective"]
    assert all(row["seconds"] >= 0 for row in rows)


@models
def test_a_true_return_of_the_callback_ends_the_fit(name, X):
    model = make(name, callback=lambda row: row["iteration"] == 3)
    model.fit(X)  # no ConvergenceWarning: warnings are errors
    assert model.n_iter_ == 3
    assert not model.converged_
    assert not model.interrupted_


def test_an_error_in_the_callback_comes_out(X):
    def broken(row):
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        CPD(rank=3, callback=broken).fit(X)


@models
def test_the_progress_bar_shows_and_changes_nothing(name, X, capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")  # as in a terminal
    quiet = make(name).fit(X)
    assert capsys.readouterr() == ("", "")
    shown = make(name, verbose=True).fit(X)
    out, err = capsys.readouterr()
    assert out == ""
    assert type(quiet).__name__ in err
    assert "objective" in err
    np.testing.assert_array_equal(quiet.factors_[0], shown.factors_[0])


# ---------------------------------------------------------------------------- Monitor


def feed(monitor, values):
    with monitor:
        return [monitor.record({"objective": v}) for v in values]


def test_monitor_needs_patience_in_a_row():
    monitor = Monitor("m", max_iter=10, tol=0.1, patience=2)
    assert feed(monitor, [5, 4.99, 3, 2.99, 2.98]) == [False, False, False, False, True]
    assert monitor.converged
    assert monitor.n_iter == 5


def test_monitor_measures_against_the_size():
    values = [100.0, 99.0]
    assert feed(Monitor("m", max_iter=9, tol=0.1, patience=1, size=1.0), values)[-1] is False
    assert feed(Monitor("m", max_iter=9, tol=0.1, patience=1, size=100.0), values)[-1] is True


def test_monitor_forgets_at_a_new_phase():
    monitor = Monitor("m", max_iter=9, tol=0.1, patience=1)
    assert monitor.record({"objective": 1.0}) is False
    monitor.new_phase()
    assert monitor.record({"objective": 1.0}) is False
    assert monitor.record({"objective": 1.0}) is True


def test_monitor_fills_terms_that_are_not_always_there():
    monitor = Monitor("m", max_iter=9, tol=0.0)
    monitor.record({"objective": 1.0})
    monitor.record({"objective": 2.0, "contrast": 3.0})
    monitor.record({"objective": 2.0})
    column = monitor.history["contrast"]
    assert math.isnan(column[0])
    assert column[1] == 3.0
    assert math.isnan(column[2])
    assert {len(c) for c in monitor.history.values()} == {3}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_monitor_refuses_an_objective_that_is_not_finite(value):
    monitor = Monitor("PLC", max_iter=9, tol=0.1)
    monitor.record({"objective": 1.0})
    with pytest.raises(NumericalError, match=r"PLC.*iteration 2.*alpha") as caught:
        monitor.record({"objective": value})
    assert isinstance(caught.value, TensorContrastError)
    assert monitor.history["objective"] == [1.0]


def test_monitor_warns_only_when_iterations_ran_out():
    done = Monitor("m", max_iter=2, tol=1.0, patience=1)
    feed(done, [1.0, 1.0])
    done.warn_if_unfinished()
    stopped = Monitor("m", max_iter=2, tol=1e-9, callback=lambda row: True)
    assert feed(stopped, [1.0]) == [True]
    stopped.warn_if_unfinished()
    Monitor("m", max_iter=2, tol=0.0).warn_if_unfinished()
    open_end = Monitor("m", max_iter=2, tol=1e-9)
    feed(open_end, [2.0, 1.0])
    with pytest.warns(ConvergenceWarning, match="max_iter=2"):
        open_end.warn_if_unfinished()
    assert done.converged
    assert stopped.stopped


def test_monitor_callback_gets_a_copy():
    monitor = Monitor("m", max_iter=3, tol=0.0, callback=lambda row: row.clear())
    feed(monitor, [1.0, 0.5])
    assert monitor.history["objective"] == [1.0, 0.5]


def watched(values, **params):
    monitor = Monitor("CPD", max_iter=20, tol=1e-4, patience=2, **params)
    return feed(monitor, values), monitor


def test_a_plateau_after_a_jump_is_no_convergence():
    ended, monitor = watched([0.6, 0.38, 0.3, 20.0, 20.0, 20.0, 20.0])
    assert not any(ended)
    assert not monitor.converged


def test_a_plateau_after_a_small_rise_that_clusters_make_is_convergence():
    ended, monitor = watched([0.6, 0.3, 0.3005, 0.3005, 0.3005])
    assert ended[-1]
    assert monitor.converged


def test_a_fit_that_comes_back_after_a_jump_converges():
    ended, _ = watched([0.6, 0.38, 0.7, 0.3, 0.3, 0.3])
    assert ended == [False] * 5 + [True]


def test_sweeps_that_rise_raise():
    with pytest.raises(NumericalError, match="rose"):
        watched([0.6, 0.38, 0.3, 20.0], falls=True)


def test_rises_of_rounding_are_neither_an_error_nor_convergence():
    low = 0.3 - 0.5 * RISE
    ended, _ = watched([0.6, low, 0.3, 0.3, 0.3], falls=True)
    assert not any(ended)
    assert watched([0.6, 0.3, 0.3 + 1e-7, 0.3], falls=True)[0][-1]


def test_iterations_of_another_monitor_are_gone_on_with():
    _, before = watched([0.6, 0.3], falls=True)
    after = Monitor("CPD", max_iter=9, tol=1e-4, falls=True)
    after.resume(before.history)
    assert after.record({"objective": 0.4}) is False  # which another form of the model may need
    assert after.n_iter == 3 and len(before.history["objective"]) == 2
    assert after.history["objective"] == [0.6, 0.3, 0.4]
