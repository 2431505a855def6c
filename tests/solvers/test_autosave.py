"""Models that long fits write while they run, and fits that go on from them."""

import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from sklearn.base import clone

from tensorcontrast import ATD, CPD, PLC, Algorithm1, load_model
from tensorcontrast.datasets import make_cp_tensor
from tensorcontrast.decompose import base
from tensorcontrast.errors import FileError, InvalidInputError

SHORT = {"rank": 3, "tol": 0, "random_state": 0}
MODELS = {
    "CPD": CPD(**SHORT, max_iter=12),
    "CPD, parts": CPD(**SHORT, max_iter=12, nonnegative=True),
    "CPD, gaps": CPD(**SHORT, max_iter=12, missing="mask"),
    "ATD": ATD(**SHORT, max_iter=12),
    "PLC": PLC(**SHORT, max_iter=12, n_clusters=3),
    "Algorithm 1": Algorithm1(**SHORT, max_iter=12, n_clusters=3, warm_up=3),
}
models = pytest.mark.parametrize("name", MODELS)


@pytest.fixture(scope="module")
def X():
    return np.abs(make_cp_tensor(60, (5, 6, 4), 3, noise=0.3, random_state=0)[0])


class Crash(Exception):
    """Something that a fit does not expect."""


def make(name, **params):
    return clone(MODELS[name]).set_params(**params)


def crash_at(iteration):
    def callback(row):
        if row["iteration"] == iteration:
            raise Crash

    return callback


@models
@pytest.mark.parametrize("coupled", [False, True])
def test_a_crash_leaves_a_model_from_which_a_fit_goes_on(name, coupled, X, tmp_path, monkeypatch):
    path = tmp_path / "m.tcm"
    data = (X, X[:, 0, :, 0]) if coupled else X
    model = make(name, callback=crash_at(8))
    monkeypatch.setattr(base, "AUTOSAVE_EVERY", 3)
    with pytest.raises(Crash):
        model.fit(data, autosave=path)
    assert not hasattr(model, "factors_")
    saved = load_model(path)
    assert saved.n_iter_ == 6 and saved.interrupted_ and not saved.converged_
    assert saved.transform(data).shape == (60, 3)
    assert saved.get_params()["random_state"] == 0 and saved.callback is None
    rows = []
    again = make(name, callback=rows.append).fit(data, init=saved)
    assert again.n_iter_ == 12 and not again.interrupted_
    assert [row["iteration"] for row in rows] == list(range(7, 13))
    assert {len(column) for column in again.history_.values()} == {12}
    assert again.history_["objective"][:6] == saved.history_["objective"]
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", ["CPD", "PLC", "CPD, gaps"])
def test_going_on_leads_where_the_fit_would_have_gone(name, X, tmp_path):
    whole = make(name, max_iter=60).fit(X)
    make(name, max_iter=20).fit(X, autosave=tmp_path / "m.tcm")
    again = make(name, max_iter=60).fit(X, init=load_model(tmp_path / "m.tcm"))
    objective = again.history_["objective"]
    np.testing.assert_allclose(objective, whole.history_["objective"], rtol=1e-4)
    for U, V in zip(again.factors_, whole.factors_, strict=True):
        np.testing.assert_allclose(U, V, atol=1e-3)


@models
def test_saving_changes_nothing(name, X, tmp_path):
    plain = make(name).fit(X)
    saved = make(name).fit(X, autosave=tmp_path / "m.tcm")
    np.testing.assert_array_equal(saved.transform(X), plain.transform(X))
    assert load_model(tmp_path / "m.tcm").n_iter_ == 10
    assert saved.history_["objective"] == plain.history_["objective"]


def test_a_saved_model_is_a_shorter_fit(X, tmp_path):
    make("CPD").fit(X, autosave=tmp_path / "m.tcm")
    saved, short = load_model(tmp_path / "m.tcm"), make("CPD", max_iter=10).fit(X)
    for U, V in zip(saved.factors_, short.factors_, strict=True):
        np.testing.assert_allclose(U, V, atol=1e-9)
    np.testing.assert_allclose(saved.transform(X), short.transform(X), atol=1e-9)


def test_a_function_takes_the_models(X):
    models = []
    make("CPD").fit(X, autosave=models.append)
    assert [model.n_iter_ for model in models] == [5, 10]
    assert len({id(model) for model in models}) == 2


KILLED = """
import sys
import numpy as np
from tensorcontrast import CPD
X = np.load(sys.argv[1], mmap_mode="r")
CPD(rank=3, max_iter=10**6, tol=0, random_state=0).fit(X, autosave=sys.argv[2])
"""


def test_kill_9_at_any_moment_leaves_a_model_that_loads(X, tmp_path):
    rng = np.random.default_rng()
    np.save(tmp_path / "x.npy", X)
    path = tmp_path / "m.tcm"
    for _ in range(4):
        path.unlink(missing_ok=True)
        fit = subprocess.Popen([sys.executable, "-c", KILLED, tmp_path / "x.npy", path])
        try:
            deadline = time.monotonic() + 60
            while not path.exists():
                assert fit.poll() is None and time.monotonic() < deadline
                time.sleep(0.01)
            time.sleep(float(rng.uniform(0, 0.3)))
        finally:
            fit.kill()
            fit.wait()
        assert fit.returncode == -signal.SIGKILL
        saved = load_model(path)
        assert np.isfinite(saved.transform(X)).all() and saved.interrupted_
        count = saved.n_iter_
        again = CPD(rank=3, max_iter=count + 4, tol=0).fit(X, init=saved)
        assert again.n_iter_ == count + 4
        assert again.history_["objective"][-1] <= saved.history_["objective"][-1] * (1 + 1e-6)


def test_a_fit_that_is_done_already_stays_as_it_is(X):
    done = make("CPD").fit(X)
    again = make("CPD").fit(X, init=done)
    assert again.n_iter_ == 12
    np.testing.assert_allclose(again.transform(X), done.transform(X), atol=1e-5)


def test_models_that_are_no_start(X):
    fitted = make("CPD").fit(X)
    wrong = [3, "m.tcm", CPD(), make("PLC").fit(X), CPD]
    for init in wrong:
        with pytest.raises(InvalidInputError, match="init"):
            make("CPD").fit(X, init=init)
    with pytest.raises(InvalidInputError, match="dims"):
        make("CPD").fit(X[:, :3], init=fitted)
    with pytest.raises(InvalidInputError, match="rank_=3"):
        make("CPD", rank=4).fit(X, init=fitted)


def test_places_that_do_not_fit(X, tmp_path):
    for autosave in (3, True):
        with pytest.raises(InvalidInputError, match="autosave"):
            make("CPD").fit(X, autosave=autosave)
    with pytest.raises(FileError, match="folder"):
        make("CPD").fit(X, autosave=tmp_path / "none" / "m.tcm")
    for model in (
        ATD(rank=3, batch_size=20),
        Algorithm1(rank=3, n_clusters=3, batch_size=20),
    ):
        with pytest.raises(InvalidInputError, match="batch_size"):
            model.fit(X, autosave=tmp_path / "m.tcm")
    assert not list(tmp_path.iterdir())
