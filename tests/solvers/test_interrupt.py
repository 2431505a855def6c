"""Ctrl-C in a fit: it comes out, and leaves a usable estimator that says so."""

import os
import signal
import threading

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from tensorcontrast import ATD, CPD, PLC, Algorithm1, load_model
from tensorcontrast.datasets import make_cp_tensor
from tensorcontrast.decompose import base, plc
from tensorcontrast.solvers import als, nonnegative, paper

MODELS = {
    "CPD": CPD(rank=3, random_state=0),
    "CPD, parts": CPD(rank=3, nonnegative=True, random_state=0),
    "ATD": ATD(rank=3, random_state=0),
    "ATD, batches": ATD(rank=3, batch_size=20, step_size=0.5, max_iter=9, tol=0, random_state=0),
    "PLC": PLC(rank=3, n_clusters=3, random_state=0),
    "Algorithm 1": Algorithm1(rank=3, n_clusters=3, warm_up=2, random_state=0),
}
models = pytest.mark.parametrize("name", MODELS)


@pytest.fixture(scope="module")
def X():
    return np.abs(make_cp_tensor(60, (5, 6, 4), 3, noise=0.05, random_state=0)[0])


def make(name, **params):
    return base.clone(MODELS[name]).set_params(**params)


def stop_at(iteration):
    def callback(row):
        if row["iteration"] == iteration:
            raise KeyboardInterrupt

    return callback


def assert_usable(model, X):
    assert model.interrupted_ and not model.converged_
    assert model.transform(X).shape == (60, 3)
    assert np.isfinite(model.transform(X)).all()
    assert model.score(X) <= 1
    for U in model.factors_:
        np.testing.assert_allclose(np.linalg.norm(U, axis=0), 1.0)
    assert {len(column) for column in model.history_.values()} == {model.n_iter_}


@models
def test_ctrl_c_leaves_what_a_shorter_fit_gives(name, X):
    model = make(name, callback=stop_at(3))
    with pytest.raises(KeyboardInterrupt, match="can be used"):
        model.fit(X)
    assert model.n_iter_ == 3
    assert_usable(model, X)
    short = make(name, max_iter=3, tol=0).fit(X)
    for U, V in zip(model.factors_, short.factors_, strict=True):
        np.testing.assert_array_equal(U, V)


@pytest.fixture
def interrupt_sweep(monkeypatch):
    """Make the k-th sweep of a fit, whichever kind it is, raise KeyboardInterrupt."""

    def interrupt(k):
        count = []
        for owner, method in (
            (als.PlainStep, "__call__"),
            (nonnegative.NonnegativeStep, "__call__"),
            (paper.TwoViewStep, "_sums"),
        ):
            original = getattr(owner, method)

            def sweep(*args, original=original, **kwargs):
                count.append(1)
                if len(count) == k:
                    raise KeyboardInterrupt
                return original(*args, **kwargs)

            monkeypatch.setattr(owner, method, sweep)

    return interrupt


@models
def test_ctrl_c_within_a_sweep_drops_that_sweep(name, X, interrupt_sweep):
    interrupt_sweep(7 if "batches" in name else 3)
    model = make(name)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X)
    assert model.n_iter_ == 2
    assert_usable(model, X)


@models
def test_ctrl_c_in_the_first_sweep_leaves_the_estimator_as_it_was(
    name, X, interrupt_sweep, monkeypatch
):
    fresh, fitted = make(name), make(name).fit(X)
    before = fitted.transform(X)
    for model, data in ((fresh, X), (fitted, 10 * X + 3)):
        interrupt_sweep(1)
        with pytest.raises(KeyboardInterrupt, match="nothing was learned"):
            model.fit(data)
        monkeypatch.undo()
    with pytest.raises(NotFittedError):
        fresh.transform(X)
    np.testing.assert_array_equal(fitted.transform(X), before)
    assert not fresh.fit(X).interrupted_


@pytest.mark.parametrize("function", ["contrast_metric", "normal_form"])
def test_ctrl_c_after_the_sweeps_keeps_them(function, X, monkeypatch):
    def interrupt(*args, **kwargs):
        monkeypatch.undo()
        raise KeyboardInterrupt

    owner = {"contrast_metric": plc, "normal_form": base}[function]
    monkeypatch.setattr(owner, function, interrupt)
    model = make("PLC", max_iter=4)
    with pytest.raises(KeyboardInterrupt, match="after 4 iterations"):
        model.fit(X)
    if function == "contrast_metric":
        assert model.nuisance_gains_ is None and model.n_clusters_ == 0
    assert_usable(model, X)


@pytest.mark.skipif(os.name != "posix", reason="signals are sent as on POSIX systems")
@pytest.mark.parametrize("where", ["same thread", "other thread"])
def test_a_real_signal(where, X):
    def send(row):
        if row["iteration"] != 3:
            return
        if where == "same thread":
            os.kill(os.getpid(), signal.SIGINT)
        else:
            sender = threading.Thread(target=os.kill, args=(os.getpid(), signal.SIGINT))
            sender.start()
            sender.join()

    old = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        model = make("PLC", max_iter=100_000, tol=0, callback=send)
        with pytest.raises(KeyboardInterrupt):
            model.fit(X)
    finally:
        signal.signal(signal.SIGINT, old)
    assert 2 <= model.n_iter_ < 1000
    assert_usable(model, X)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("trial", [1, 2, 3])
def test_ctrl_c_while_beta_is_sought_comes_out(trial, X):
    starts = []

    def callback(row):
        if row["iteration"] == 1:
            starts.append(1)
        if len(starts) == trial and row["iteration"] == 2:
            raise KeyboardInterrupt

    model = make("Algorithm 1", beta="auto", callback=callback)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X)
    assert_usable(model, X)
    assert model.beta_ >= 0


def test_an_interrupted_model_can_be_saved_and_fitted_again(X, tmp_path):
    model = make("CPD", callback=stop_at(2))
    with pytest.raises(KeyboardInterrupt):
        model.fit(X)
    model.set_params(callback=None).save(tmp_path / "m.tcm")
    loaded = load_model(tmp_path / "m.tcm")
    assert loaded.interrupted_
    np.testing.assert_array_equal(loaded.transform(X), model.transform(X))
    assert not model.fit(X).interrupted_


def test_the_progress_bar_is_closed(X):
    model = make("CPD", callback=stop_at(2), verbose=True)
    for _ in range(2):  # a bar left running would refuse a second one
        with pytest.raises(KeyboardInterrupt):
            model.fit(X)
    assert model.n_iter_ == 2
