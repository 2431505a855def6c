"""What goes wrong: each says so, and leaves the estimator whole."""

import copy
import os
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

torch = pytest.importorskip("torch", reason="needs the extra 'neural'")

from tensorcontrast import load_model  # noqa: E402
from tensorcontrast.datasets import make_cp_tensor  # noqa: E402
from tensorcontrast.errors import (  # noqa: E402
    DamagedFileError,
    InvalidInputError,
    NumericalError,
    TensorContrastWarning,
)
from tensorcontrast.neural import BYOL, DeepTensor, SimCLR, training  # noqa: E402

ALL = [SimCLR, BYOL, DeepTensor]


def make(cls, **params):
    size = {"rank": 3, "hidden": 16} if cls is DeepTensor else {"n_features": 8, "projection": 8}
    return cls(**(size | {"max_iter": 4, "batch_size": 20, "random_state": 0} | params))


@pytest.fixture(scope="module")
def X():
    return make_cp_tensor(40, (3, 6, 5), 3, noise=0.05, dtype=np.float32, random_state=0)[0]


# -------------------------------------------------------------------- batches


@pytest.mark.parametrize("cls", ALL)
def test_a_batch_of_one_is_refused(cls, X):
    with pytest.raises(InvalidInputError, match="batch_size"):
        make(cls, batch_size=1).fit(X)


@pytest.mark.parametrize("cls", ALL)
def test_one_sample_is_refused(cls, X):
    with pytest.raises(InvalidInputError, match="minimum of 2"):
        make(cls).fit(X[:1])


@pytest.mark.parametrize("cls", ALL)
def test_an_odd_sample_out_is_not_a_batch_of_one(cls, X):
    """41 in batches of 20, 5 in batches of 2: one window alone cannot be normalised."""
    odd = np.concatenate([X, X[:1]])
    assert make(cls, max_iter=1).fit(odd).transform(odd).shape[0] == 41
    assert make(cls, max_iter=1, batch_size=2).fit(odd[-5:]).n_iter_ == 1


@pytest.mark.parametrize("cls", ALL)
def test_fewer_samples_than_a_batch_are_one_batch_and_it_is_said(cls, X):
    with pytest.warns(TensorContrastWarning, match="batch_size=128 but there are 40"):
        model = make(cls, batch_size=128).fit(X)
    same = make(cls, batch_size=40).fit(X)
    np.testing.assert_array_equal(model.transform(X), same.transform(X))


# -------------------------------------------------------------------- losses


def poison(monkeypatch, call, how):
    """Let ``how`` happen in the n-th batch."""
    original, count = training.run_epoch, []

    def run_epoch(rows, loss_of, *args):
        def poisoned(batch):
            count.append(1)
            return how(loss_of(batch)) if len(count) == call else loss_of(batch)

        return original(rows, poisoned, *args)

    monkeypatch.setattr(training, "run_epoch", run_epoch)


@pytest.mark.parametrize("cls", ALL)
@pytest.mark.parametrize("value", ["nan", "inf"])
def test_a_loss_that_is_not_finite_leaves_the_last_good_weights(cls, value, X, monkeypatch):
    poison(monkeypatch, 6, lambda loss: loss * float(value))  # the second batch of epoch 3
    with pytest.warns(TensorContrastWarning, match=f"{value} in epoch 3.*weights of epoch 2"):
        model = make(cls).fit(X)
    assert model.n_iter_ == len(model.history_["loss"]) == 2
    assert not model.interrupted_
    monkeypatch.undo()
    calls = []
    short = make(cls, callback=lambda row: calls.append(row) or len(calls) == 2).fit(X)
    np.testing.assert_array_equal(model.transform(X), short.transform(X))


@pytest.mark.parametrize("cls", ALL)
def test_weights_that_are_not_finite_count_as_well(cls, X, monkeypatch):
    original, count = training.run_epoch, []

    def run_epoch(rows, loss_of, optimizers, *args):
        loss = original(rows, loss_of, optimizers, *args)
        count.append(1)
        if len(count) == 2:
            with torch.no_grad():
                optimizers[0].param_groups[0]["params"][0].fill_(torch.nan)
        return loss

    monkeypatch.setattr(training, "run_epoch", run_epoch)
    with pytest.warns(TensorContrastWarning, match="weights of epoch 1"):
        model = make(cls).fit(X)
    assert np.isfinite(model.transform(X)).all()


@pytest.mark.parametrize("cls", ALL)
def test_nan_at_once_is_an_error_and_keeps_the_old_model(cls, X, monkeypatch):
    model = make(cls).fit(X)
    before = model.transform(X)
    poison(monkeypatch, 1, lambda loss: loss * float("nan"))
    with pytest.raises(NumericalError, match="first epoch"):
        model.fit(10 * X + 3)
    np.testing.assert_array_equal(model.transform(X), before)


def test_a_learning_rate_that_is_far_too_large_does_not_pass_silently(X):
    with pytest.warns(TensorContrastWarning, match="smaller learning_rate"):
        try:
            make(DeepTensor, learning_rate=1e30, max_iter=50, tol=0).fit(X)
        except NumericalError as error:  # already in the first epoch: as good
            import warnings

            warnings.warn(str(error), TensorContrastWarning, stacklevel=1)


# -------------------------------------------------------------------- devices


@pytest.mark.parametrize("cls", ALL)
@pytest.mark.parametrize("device", ["gpu", "cuda:x", "", "meta"])
def test_an_unknown_device_is_named_with_the_way_out(cls, device, X):
    with pytest.raises(InvalidInputError, match=r"device=.*device='cpu'"):
        make(cls, device=device).fit(X)


def test_a_device_that_is_not_there(X):
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    with pytest.raises(InvalidInputError, match="cannot be used on this machine"):
        make(SimCLR, device="cuda").fit(X)


def test_auto_is_the_cpu_where_there_is_no_gpu():
    expected = "cuda" if torch.cuda.is_available() else "cpu"
    assert training.find_device("SimCLR", "auto").type == expected


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("cls", ALL)
def test_on_a_gpu(cls, X):
    model = make(cls, device="cuda").fit(X)
    assert np.isfinite(model.set_params(device="cpu").transform(X)).all()


# -------------------------------------------------------------------- without torch

WITHOUT = """
import sys
class Blocked:
    def find_spec(self, name, *rest):
        if name.partition(".")[0] == "torch":
            raise ImportError("blocked: " + name)
sys.meta_path.insert(0, Blocked())
import numpy as np
import tensorcontrast
from tensorcontrast.errors import MissingDependencyError
from tensorcontrast.neural import BYOL, DeepTensor, SimCLR
X = np.random.default_rng(0).normal(size=(20, 3, 4))
for cls in (SimCLR, BYOL, DeepTensor):
    model = cls(max_iter=2)
    assert model.get_params()["max_iter"] == 2
    try:
        model.fit(X)
    except MissingDependencyError as error:
        assert "pip install 'tensorcontrast[neural]'" in str(error), error
    else:
        raise SystemExit("no error")
folder = sys.argv[1]
try:
    tensorcontrast.load_model(folder + "/simclr.tcm")
except MissingDependencyError as error:
    assert "simclr.tcm" in str(error) and "[neural]" in str(error), error
else:
    raise SystemExit("no error on loading")
W = tensorcontrast.load_model(folder + "/deep.tcm").transform(np.load(folder + "/X.npy"))
assert W.shape == (40, 3)
assert "torch" not in sys.modules
print("done")
"""


def python(code, *arguments):
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *arguments],
        capture_output=True,
        text=True,
        check=False,
    )


def test_without_torch_the_extra_is_named_and_deep_tensor_files_still_work(X, tmp_path):
    make(SimCLR, max_iter=1).fit(X).save(tmp_path / "simclr.tcm")
    make(DeepTensor, max_iter=1).fit(X).save(tmp_path / "deep.tcm")
    np.save(tmp_path / "X.npy", X)
    done = python(WITHOUT, str(tmp_path))
    assert done.stdout.strip() == "done", done.stderr


def test_importing_and_loading_other_models_does_not_import_torch(tmp_path):
    done = python(
        """
        import sys
        import numpy as np
        import tensorcontrast, tensorcontrast.neural, tensorcontrast.evaluate.peers
        from tensorcontrast import CPD, load_model
        X = np.random.default_rng(0).normal(size=(20, 3, 4))
        CPD(rank=2, random_state=0).fit(X).save(sys.argv[1] + "/m.tcm")
        load_model(sys.argv[1] + "/m.tcm")
        print("torch" in sys.modules)
        """,
        str(tmp_path),
    )
    assert done.stdout.strip() == "False", done.stderr


def test_torch_on_another_number_of_threads_does_not_disturb_the_decompositions():
    """Clustering limits OpenMP, of which torch brings its own; warnings are errors here."""
    done = python(
        """
        import warnings
        import numpy as np
        import sklearn.cluster, torch, threadpoolctl
        from tensorcontrast import PLC
        warnings.simplefilter("error")
        libraries = threadpoolctl.ThreadpoolController().select(user_api="openmp").lib_controllers
        for count, library in enumerate(libraries, start=1):
            library.set_num_threads(count)
        X = np.random.default_rng(0).normal(size=(20, 3, 4))
        print(len(PLC(rank=2, n_clusters=2, random_state=0).fit(X).labels_))
        print([library.num_threads for library in libraries])
        """
    )
    lines = done.stdout.splitlines()
    assert lines[:1] == ["20"], done.stderr
    assert lines[1] == str(list(range(1, lines[1].count(",") + 2)))  # as they were


# -------------------------------------------------------------------- arrays


@pytest.mark.parametrize("cls", ALL)
def test_bad_arrays(cls, X):
    broken = X.copy()
    broken[7, 1, 2, 3] = np.nan
    with pytest.raises(InvalidInputError, match=r"X\[7, 1, 2, 3\] is nan"):
        make(cls).fit(broken)
    with pytest.raises(InvalidInputError, match="all windows are equal"):
        make(cls).fit(np.ones((20, 3, 4)))
    with pytest.raises(InvalidInputError, match="labels"):
        make(cls).fit(X, np.zeros(3))
    model = make(cls).fit(X)
    with pytest.raises(InvalidInputError, match="dims"):
        model.transform(X[:, :, :4])
    with pytest.raises(NotFittedError):
        make(cls).transform(X)
    with pytest.raises(NotFittedError):
        make(cls).save("nowhere.tcm")


@pytest.mark.parametrize("cls", [SimCLR, BYOL])
def test_bad_views(cls, X):
    with pytest.raises(InvalidInputError, match="view"):
        make(cls).fit(X, view=X[:5])
    with pytest.raises(InvalidInputError, match="view"):
        make(cls).fit(X, view=np.full_like(X, np.nan))
    with pytest.raises(InvalidInputError, match="returned None"):
        make(cls).fit(X, view=lambda rng: None)
    with pytest.raises(InvalidInputError, match="view"):
        make(cls, augment=lambda data, rng: data[:, :2]).fit(X)


@pytest.mark.parametrize(
    ("cls", "params"),
    [
        (SimCLR, {"n_features": 0}),
        (SimCLR, {"temperature": 0.0}),
        (SimCLR, {"learning_rate": 0.0}),
        (SimCLR, {"augment": 3}),
        (SimCLR, {"device": None}),
        (BYOL, {"momentum": 1.5}),
        (BYOL, {"projection": 0}),
        (DeepTensor, {"rank": 0}),
        (DeepTensor, {"alpha": -1.0}),
        (DeepTensor, {"max_iter": 0}),
    ],
)
def test_bad_parameters(cls, params, X):
    with pytest.raises(InvalidInputError, match=next(iter(params))):
        make(cls, **params).fit(X)


def test_a_rank_that_the_data_cannot_have_is_cut_and_said():
    X = np.random.default_rng(0).normal(size=(20, 2, 3))
    with pytest.warns(TensorContrastWarning, match="rank_=6"):
        model = make(DeepTensor, rank=50).fit(X)
    assert model.transform(X).shape == (20, 6)


# -------------------------------------------------------------------- files


@pytest.mark.parametrize("cls", [SimCLR, BYOL])
def test_weights_of_another_network_are_refused(cls, X, tmp_path):
    model = make(cls).fit(X)
    name = "blocks.1.body.0.weight"
    for change in (
        lambda w: w | {name: w[name][:-1]},
        lambda w: {k: v for k, v in w.items() if k != name},
        lambda w: w | {"more": w[name]},
    ):
        damaged = copy.copy(model)
        damaged.weights_ = change(model.weights_)
        damaged.save(tmp_path / "m.tcm")
        with pytest.raises(DamagedFileError, match=r"m\.tcm.*weights"):
            load_model(tmp_path / "m.tcm")
    model.weights_[name][:] = np.nan
    with pytest.raises(InvalidInputError, match="weights_ holds NaN"):
        model.save(tmp_path / "m.tcm")


# -------------------------------------------------------------------- Ctrl-C


def stop_at(iteration):
    def callback(row):
        if row["iteration"] == iteration:
            raise KeyboardInterrupt

    return callback


@pytest.mark.parametrize("cls", ALL)
def test_ctrl_c_leaves_a_marked_and_usable_estimator(cls, X, tmp_path):
    model = make(cls, callback=stop_at(2))
    with pytest.raises(KeyboardInterrupt, match=cls.__name__):
        model.fit(X)
    assert model.interrupted_
    assert not model.converged_
    assert model.n_iter_ == 2
    assert {len(column) for column in model.history_.values()} == {2}
    calls = []
    short = make(cls, callback=lambda row: calls.append(row) or len(calls) == 2).fit(X)
    np.testing.assert_array_equal(model.transform(X), short.transform(X))
    model.set_params(callback=None).save(tmp_path / "m.tcm")
    assert load_model(tmp_path / "m.tcm").interrupted_
    assert not model.fit(X).interrupted_


@pytest.mark.parametrize("cls", ALL)
def test_ctrl_c_within_an_epoch_drops_that_epoch(cls, X, monkeypatch):
    def stop(loss):
        raise KeyboardInterrupt

    poison(monkeypatch, 4, stop)  # the second batch of epoch 2
    model = make(cls)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X)
    assert model.n_iter_ == 1
    monkeypatch.undo()
    short = make(cls, callback=lambda row: True).fit(X)
    np.testing.assert_array_equal(model.transform(X), short.transform(X))


@pytest.mark.parametrize("cls", ALL)
def test_ctrl_c_in_the_first_epoch_leaves_nothing_or_the_old_model(cls, X, monkeypatch):
    def stop(loss):
        raise KeyboardInterrupt

    fitted = make(cls).fit(X)
    before = fitted.transform(X)
    for model in (make(cls), fitted):
        poison(monkeypatch, 2, stop)
        with pytest.raises(KeyboardInterrupt):
            model.fit(10 * X + 3)
        monkeypatch.undo()
    with pytest.raises(NotFittedError):
        make(cls).transform(X)
    np.testing.assert_array_equal(fitted.transform(X), before)


@pytest.mark.skipif(os.name != "posix", reason="signals are sent as on POSIX systems")
def test_a_real_signal(X):
    def send(row):
        if row["iteration"] == 2:
            os.kill(os.getpid(), signal.SIGINT)

    old = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        model = make(SimCLR, max_iter=1000, tol=0, callback=send)
        with pytest.raises(KeyboardInterrupt):
            model.fit(X)
    finally:
        signal.signal(signal.SIGINT, old)
    assert model.interrupted_
    assert 2 <= model.n_iter_ < 50
    assert np.isfinite(model.transform(X)).all()
