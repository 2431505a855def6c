"""Ctrl-C in a fit: it comes out, and leaves a usable estimator that says so."""

import os
import signal
import threading

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from tensorcontrast import ATD, CPD, PLC, load_model
from tensorcontrast.datasets import make_cp_tensor
from tensorcontrast.decompose.options import build
from tensorcontrast.solvers import als

ALL = [CPD, ATD, PLC]


def swept(cls, **params):
    """Return an estimator whose iterations are sweeps: the tied solver of PLC adds epochs."""
    return build(cls, **({"solver": "als"} if cls is PLC else {}), **params)


@pytest.fixture(scope="module")
def X():
    return make_cp_tensor(60, (5, 6, 4), 3, noise=0.05, random_state=0)[0]


def stop_at(iteration):
    def callback(row):
        if row["iteration"] == iteration:
            raise KeyboardInterrupt

    return callback


def assert_usable(model, X):
    assert model.interrupted_
    assert not model.converged_
    assert model.transform(X).shape == (60, 3)
    assert np.isfinite(model.features_).all()
    assert len(model.labels_) == 60
    assert 0 < model.score(X) <= 1
    for U in model.factors_:
        np.testing.assert_allclose(np.linalg.norm(U, axis=0), 1.0)
    assert {len(column) for column in model.history_.values()} == {model.n_iter_}


@pytest.mark.parametrize("options", [{}, {"batch_size": 20, "step_size": 0.5}])
@pytest.mark.parametrize("cls", ALL)
def test_ctrl_c_leaves_a_marked_and_usable_estimator(cls, options, X):
    model = build(cls, rank=3, n_clusters=3, callback=stop_at(3), random_state=0, **options)
    with pytest.raises(KeyboardInterrupt, match=cls.__name__):
        model.fit(X)
    assert model.n_iter_ == 3
    assert_usable(model, X)


@pytest.mark.parametrize("cls", ALL)
def test_it_holds_what_a_shorter_fit_gives(cls, X):
    model = swept(cls, rank=3, n_clusters=3, callback=stop_at(3), random_state=0)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X)
    short = swept(cls, rank=3, n_clusters=3, max_iter=3, tol=0, random_state=0).fit(X)
    np.testing.assert_array_equal(model.factors_[0], short.factors_[0])


@pytest.mark.parametrize("cls", ALL)
def test_ctrl_c_within_a_sweep_drops_that_sweep(cls, X, monkeypatch):
    original, count = als.sweep, []

    def sweep(*args, **kwargs):
        count.append(1)
        if len(count) == 3:
            raise KeyboardInterrupt
        return original(*args, **kwargs)

    monkeypatch.setattr(als, "sweep", sweep)
    model = cls(rank=3, n_clusters=3, random_state=0)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X)
    assert model.n_iter_ == 2
    assert_usable(model, X)


@pytest.mark.parametrize("cls", ALL)
def test_ctrl_c_in_the_first_iteration_leaves_nothing(cls, X, monkeypatch):
    def sweep(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(als, "sweep", sweep)
    model = cls(rank=3, n_clusters=3, random_state=0)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X)
    with pytest.raises(NotFittedError):
        model.transform(X)
    monkeypatch.undo()
    assert model.fit(X).transform(X).shape == (60, 3)
    assert not model.interrupted_


@pytest.mark.parametrize("cls", ALL)
def test_ctrl_c_in_the_first_iteration_of_a_second_fit_leaves_no_mixture(cls, X, monkeypatch):
    """Either the first model, whole, or none: never its factors with the new mean and scale."""
    model = cls(rank=3, n_clusters=3, random_state=0).fit(X)
    before = model.transform(X)

    def sweep(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(als, "sweep", sweep)
    with pytest.raises(KeyboardInterrupt):
        model.fit(10 * X + 3)
    try:
        after = model.transform(X)
    except NotFittedError:
        assert not hasattr(model, "factors_")
    else:
        np.testing.assert_array_equal(after, before)


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
        model = build(
            PLC,
            solver="als",
            rank=3,
            n_clusters=3,
            max_iter=100_000,
            tol=0,
            callback=send,
            random_state=0,
        )
        with pytest.raises(KeyboardInterrupt):
            model.fit(X)
    finally:
        signal.signal(signal.SIGINT, old)
    assert 2 <= model.n_iter_ < 1000
    assert_usable(model, X)


def test_n_init_keeps_the_best_finished_or_running_fit(X):
    seen = []

    def callback(row):
        seen.append(row["iteration"])
        if seen.count(1) == 2 and row["iteration"] == 2:
            raise KeyboardInterrupt

    model = build(CPD, rank=3, n_init=3, callback=callback, random_state=0)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X)
    assert_usable(model, X)
    assert model.score(X) > 0.99  # the first run was finished: its result is not lost


def test_ctrl_c_while_beta_is_sought_comes_out(X):
    """Whichever trial it hits, the caller gets the interrupt and a usable model."""
    for trial in (1, 2, 3, 5):
        starts = []

        def callback(row, starts=starts, trial=trial):
            if row["iteration"] == 1:
                starts.append(1)
            if len(starts) == trial and row["iteration"] == 2:
                raise KeyboardInterrupt

        model = PLC(
            solver="als", rank=3, n_clusters=3, beta="auto", callback=callback, random_state=0
        )
        with pytest.raises(KeyboardInterrupt):
            model.fit(X)
        assert_usable(model, X)
        assert model.beta_ >= 0


def test_an_interrupted_model_can_be_saved_and_fitted_on(X, tmp_path):
    model = CPD(rank=3, callback=stop_at(2), random_state=0)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X)
    model.set_params(callback=None).save(tmp_path / "m.tcm")
    loaded = load_model(tmp_path / "m.tcm")
    assert loaded.interrupted_
    np.testing.assert_array_equal(loaded.transform(X), model.transform(X))
    assert not model.fit(X).interrupted_


def test_the_progress_bar_is_closed(X):
    model = CPD(rank=3, callback=stop_at(2), verbose=True, random_state=0)
    for _ in range(2):  # a bar left running would refuse a second one
        with pytest.raises(KeyboardInterrupt):
            model.fit(X)
    assert model.n_iter_ == 2
