"""Checkpoints: whatever ends a fit, going on gives the bits of a fit that nothing ended."""

import errno
import json
import os
import signal
import subprocess
import sys
import textwrap
import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from tensorcontrast import (
    ATD,
    CPD,
    PLC,
    ContrastiveFeatures,
    SpectrogramTensor,
    augment,
    load_model,
)
from tensorcontrast.datasets import make_cp_tensor, make_synthetic
from tensorcontrast.decompose.options import build
from tensorcontrast.errors import (
    DamagedFileError,
    DataNotFoundError,
    FileError,
    ForeignFileError,
    InvalidInputError,
    NewerFileError,
    TensorContrastError,
    TensorContrastWarning,
    TruncatedFileError,
)
from tensorcontrast.io import container, model_files
from tensorcontrast.solvers import als, checkpoint

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(scope="module")
def X():
    return make_cp_tensor(60, (5, 6, 4), 3, noise=0.3, random_state=0)[0]


def assert_same(a, b):
    """Every learned attribute to the bit, except for times."""
    names = [n for n in vars(b) if n.endswith("_") and not n.startswith("_")]
    assert "factors_" in names
    for name in [*names, "labels_"]:
        one, other = getattr(a, name), getattr(b, name)
        if name == "history_":
            assert list(one) == list(other)
            one = {k: v for k, v in one.items() if k != "seconds"}
            other = {k: v for k, v in other.items() if k != "seconds"}
            for key in one:
                np.testing.assert_array_equal(one[key], other[key])
        elif isinstance(other, list):
            for u, v in zip(one, other, strict=True):
                np.testing.assert_array_equal(u, v)
        elif isinstance(other, np.ndarray):
            np.testing.assert_array_equal(one, other)
        else:
            assert one == other, name


class Crash(Exception):
    """Something that the fit does not expect."""


def crash_after(count):
    left = [count]

    def callback(row):
        left[0] -= 1
        if left[0] < 0:
            raise Crash

    return callback


def fit_through_crashes(make, X, path, seed=0, **options):
    """Fit again and again, each time from the last checkpoint; gives the model and the crashes."""
    rng, crashes = np.random.default_rng(seed), 0
    while True:
        model = make(callback=crash_after(int(rng.integers(1, 15))))
        try:
            return model.fit(X, checkpoint=path, every=3, resume=True, **options), crashes
        except Crash:
            crashes += 1


CASES = {
    "cpd": (CPD, {"n_init": 3}),
    "cpd, batches": (CPD, {"batch_size": 20, "step_size": 0.5}),
    "cpd, compressed": (CPD, {"compress": (3, 4, 3)}),
    "cpd, float32": (CPD, {"dtype": "float32"}),
    "atd": (ATD, {}),
    "atd, fresh views": (ATD, {"fresh_views": True}),
    "plc": (PLC, {"solver": "tied", "n_epochs": 15}),
    "plc, fresh views": (PLC, {"solver": "tied", "n_epochs": 15, "fresh_views": True}),
    "plc, beta sought": (PLC, {"solver": "tied", "n_epochs": 4, "beta": "auto", "n_init": 2}),
    "plc, closed form": (PLC, {}),
    "plc, als": (PLC, {"solver": "als"}),
    "plc, als, beta sought": (PLC, {"solver": "als", "beta": "auto", "max_iter": 7}),
    "plc, augmented": (
        PLC,
        {"solver": "tied", "augment": lambda X, rng: X + 0.1 * rng.normal(size=X.shape)},
    ),
    "plc, robust": (PLC, {"solver": "tied", "robust": "huber", "n_epochs": 10}),
}


@pytest.mark.parametrize("case", CASES)
def test_a_fit_through_crashes_is_the_fit(case, X, tmp_path):
    cls, options = CASES[case]

    def make(**more):
        settings = {"rank": 3, "max_iter": 25, "tol": 1e-9, "random_state": 0}
        return build(cls, **settings | options | more)

    whole = make().fit(X)
    model, crashes = fit_through_crashes(make, X, tmp_path / "fit.tcc")
    assert crashes > 0
    assert_same(model, whole)


@pytest.mark.parametrize("cls", [CPD, ATD, PLC])
@pytest.mark.parametrize("fresh", [False, True])
def test_with_missing_values(cls, fresh, X, tmp_path):
    gaps = np.random.default_rng(0).random(X.shape) < 0.2
    Z = np.where(gaps, np.nan, X)
    options = {"fresh_views": fresh} if cls is not CPD else {}

    def make(**more):
        settings = {"rank": 3, "max_iter": 25, "tol": 1e-9, "random_state": 0, "missing": "mask"}
        return build(cls, **settings | options | more)

    model, crashes = fit_through_crashes(make, Z, tmp_path / "fit.tcc")
    assert crashes > 0
    assert_same(model, make().fit(Z))


def test_with_labels_and_a_given_view(X, tmp_path):
    rng = np.random.default_rng(0)
    y = np.where(rng.random(60) < 0.3, rng.integers(3, size=60), -1)
    options = {
        "y": y,
        "view": lambda rng: X + 0.1 * rng.normal(size=X.shape),
    }

    def make(**more):
        return build(
            PLC,
            **{"rank": 3, "solver": "tied", "n_epochs": 20, "random_state": 0, "tol": 1e-3} | more,
        )

    model, crashes = fit_through_crashes(make, X, tmp_path / "fit.tcc", **options)
    assert crashes > 1
    assert_same(model, make().fit(X, **options))
    with pytest.raises(InvalidInputError, match="other data"):
        make().fit(X, **options | {"y": y[::-1]}, resume=tmp_path / "fit.tcc")


def test_with_nuisance(X, tmp_path):
    rows = np.random.default_rng(1).normal(size=(50, *X.shape[1:]))

    def make(**more):
        settings = {"rank": 3, "random_state": 0, "max_iter": 25, "tol": 1e-9, "epsilon": 0.5}
        return build(PLC, **settings | more)

    model, crashes = fit_through_crashes(make, X, tmp_path / "fit.tcc", nuisance=rows)
    whole = make().fit(X, nuisance=rows)
    assert crashes > 0
    assert_same(model, whole)
    assert whole.nuisance_gains_ is not None
    np.testing.assert_array_equal(model.nuisance_gains_, whole.nuisance_gains_)
    with pytest.raises(InvalidInputError, match="other data"):
        make().fit(X, nuisance=2 * rows, resume=tmp_path / "fit.tcc")


def test_without_a_seed_the_checkpoint_has_the_random_numbers(X, tmp_path):
    """No seed to repeat the fit by: what is left of it is in the file."""
    path = tmp_path / "fit.tcc"
    states = []
    for attempt in range(2):
        model = build(PLC, rank=3, solver="tied", n_epochs=12, max_iter=20)
        model.set_params(callback=crash_after(8 - 4 * attempt))
        with pytest.raises(Crash):
            model.fit(X, checkpoint=path, every=1, resume=True)
        states.append(checkpoint.load(path)["fit"]["rng"])
    assert states[0] == states[1]
    first = build(PLC, rank=3, solver="tied", n_epochs=12, max_iter=20).fit(X, resume=path)
    assert_same(
        build(PLC, rank=3, solver="tied", n_epochs=12, max_iter=20).fit(X, resume=path), first
    )


def test_signals_to_features(tmp_path):
    rec = make_synthetic(n_samples=60, n_classes=3, random_state=0)

    def make(**more):
        decompose = build(
            PLC, **{"rank": 4, "max_iter": 20, "solver": "tied", "n_epochs": 10} | more
        )
        return ContrastiveFeatures(fs=rec.fs, decompose=decompose, random_state=0)

    path = tmp_path / "fit.tcc"
    with pytest.raises(Crash):
        make(callback=crash_after(17)).fit(rec.X, checkpoint=path, every=2)
    again = make().fit(rec.X, resume=path, checkpoint=path)
    np.testing.assert_array_equal(again.transform(rec.X), make().fit(rec.X).transform(rec.X))


# ---------------------------------------------------------------------------- kill -9

KILLED = textwrap.dedent(
    """
    import os, signal, sys, time, warnings
    import numpy as np
    from tensorcontrast import ALS, PLC, Gradient
    from tensorcontrast.io import model_files
    from tensorcontrast.datasets import make_cp_tensor
    from tensorcontrast.solvers import checkpoint

    warnings.simplefilter("ignore")
    folder, kills = sys.argv[1], int(sys.argv[2])
    path = os.path.join(folder, "fit.tcc")
    X = make_cp_tensor(80, (5, 6, 4), 3, noise=0.3, random_state=0)[0]

    def fit(name=None):
        model = PLC(rank=3, solver="tied", beta="auto", als=ALS(n_init=2, max_iter=60, tol=1e-9),
                    gradient=Gradient(n_epochs=6), random_state=0)
        kept = {} if name else {"checkpoint": path, "every": 2, "resume": True}
        model.fit(X, **kept)
        arrays = [*model.factors_, model.features_, model.labels_, model.history_["objective"]]
        target = os.path.join(folder, name or "killed")
        np.savez(target, *arrays)

    def child(work, delay=None):
        pid = os.fork()
        if pid == 0:
            work()
            os._exit(0)
        if delay is not None:
            time.sleep(delay)
            os.kill(pid, signal.SIGKILL)
        return os.WIFSIGNALED(os.waitpid(pid, 0)[1])

    fit("whole")  # with all imports that the children then find done
    begin = time.perf_counter()
    fit("whole")
    length = time.perf_counter() - begin
    rng = np.random.default_rng(int(sys.argv[3]))
    done = readable = fresh = 0
    while done < kills:
        if child(fit, rng.uniform(0, 0.3 * length)):
            done += 1
            if os.path.exists(path):
                checkpoint.load(path)
                readable += 1
        else:  # it was faster than the kill: from the beginning
            os.unlink(path)
            fresh += 1
    child(fit)
    print(done, readable, fresh)
    """
)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="kill -9 and fork are those of POSIX systems")
def test_kill_at_thirty_random_moments(tmp_path):
    """SIGKILL at any moment: every file can be read, and the end is that of an unbroken fit."""
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path), "30", "0"],
        capture_output=True,
        text=True,
        timeout=300,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    kills, readable, _ = map(int, done.stdout.split())
    assert kills == 30
    assert readable > 10
    with np.load(tmp_path / "whole.npz") as whole, np.load(tmp_path / "killed.npz") as killed:
        assert len(whole.files) == 6
        for name in whole.files:
            np.testing.assert_array_equal(killed[name], whole[name])


# ---------------------------------------------------------------------------- Ctrl-C, full disks


@pytest.mark.parametrize("cls", [CPD, ATD, PLC])
@pytest.mark.parametrize("at", [1, 4, 9, 30])
def test_ctrl_c_writes_a_last_checkpoint(cls, at, X, tmp_path):
    def make(**more):
        options = (
            {"solver": "tied", "n_epochs": 40, "max_iter": 5} if cls is PLC else {"max_iter": 40}
        )
        return build(cls, **{"rank": 3, "tol": 0, "random_state": 0} | options | more)

    def interrupt(row):
        if row["iteration"] > at:
            raise KeyboardInterrupt

    path = tmp_path / "fit.tcc"
    model = make(callback=interrupt)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, checkpoint=path, every=1000)
    assert model.interrupted_
    last = checkpoint.load(path)["runs"][-1]
    assert len(last["monitor"]["history"]["objective"]) == at
    assert_same(make().fit(X, resume=path), make().fit(X))


def test_a_signal_in_the_middle_of_a_sweep(X, tmp_path):
    path = tmp_path / "fit.tcc"

    def send(row):
        if row["iteration"] == 7:
            os.kill(os.getpid(), signal.SIGINT)

    old = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        model = build(ATD, rank=3, max_iter=60, tol=0, random_state=0, callback=send)
        with pytest.raises(KeyboardInterrupt):
            model.fit(X, checkpoint=path)
    finally:
        signal.signal(signal.SIGINT, old)
    whole = build(ATD, rank=3, max_iter=60, tol=0, random_state=0).fit(X)
    assert_same(build(ATD, rank=3, max_iter=60, tol=0, random_state=0).fit(X, resume=path), whole)


def test_a_full_disk_does_not_end_the_fit(X, tmp_path, monkeypatch):
    path = tmp_path / "fit.tcc"
    model = build(CPD, rank=3, max_iter=20, tol=0, random_state=0)
    model.set_params(callback=crash_after(5))
    with pytest.raises(Crash):
        model.fit(X, checkpoint=path, every=2)
    before = path.read_bytes()

    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.warns(TensorContrastWarning, match="no checkpoint: .*No space left") as told:
        model.set_params(callback=None).fit(X, checkpoint=path, every=2)
    assert len(told) == 1
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["fit.tcc"]
    assert_same(model, build(CPD, rank=3, max_iter=20, tol=0, random_state=0).fit(X))


# ---------------------------------------------------------------------------- what is refused


@pytest.fixture
def stopped(X, tmp_path):
    path = tmp_path / "fit.tcc"
    model = CPD(rank=3, random_state=0, callback=crash_after(3))
    with pytest.raises(Crash):
        model.fit(X, checkpoint=path, every=1)
    return path


def test_other_parameters_are_named(stopped, X):
    with pytest.raises(InvalidInputError, match=r"alpha=0.5 \(there 0.001\), rank=2 \(there 3\)"):
        CPD(rank=2, alpha=0.5, random_state=0).fit(X, resume=stopped)
    with pytest.raises(InvalidInputError, match="random_state=1"):
        CPD(rank=3, random_state=1).fit(X, resume=stopped)
    with pytest.raises(InvalidInputError, match="checkpoint of CPD, not of ATD"):
        ATD(rank=3, random_state=0).fit(X, resume=stopped)
    starts = [np.ones((d, 3)) for d in X.shape[1:]]
    with pytest.raises(InvalidInputError, match="als__init="):
        build(CPD, rank=3, init=starts, random_state=0).fit(X, resume=stopped)


def test_what_does_not_change_the_result_may_change(stopped, X, monkeypatch):
    monkeypatch.setattr("rich._console", None)  # the bar's console stays in this test
    model = CPD(rank=3, random_state=0, verbose=True, callback=lambda row: None)
    assert_same(model.fit(X, every=7, resume=stopped), CPD(rank=3, random_state=0).fit(X))


def test_other_data_are_refused(stopped, X):
    changed = X.copy()
    changed[17, 2, 3, 1] *= 1 + 1e-9
    for other in (changed, X[::-1], X[:-1], X.astype("float32")):
        with pytest.raises(InvalidInputError, match="other data"):
            CPD(rank=3, random_state=0).fit(other, resume=stopped)


def test_a_refused_resume_leaves_the_estimator_as_it_was(stopped, X):
    model = CPD(rank=3, random_state=0).fit(X)
    before = model.transform(X)
    with pytest.raises(InvalidInputError):
        model.fit(X + 1e-3 * X**2, resume=stopped)
    np.testing.assert_array_equal(model.transform(X), before)


def test_files_that_are_no_checkpoint(stopped, X, tmp_path):
    def fails(error, match):
        with pytest.raises(error, match=match):
            CPD(rank=3, random_state=0).fit(X, resume=stopped)

    raw = stopped.read_bytes()
    stopped.write_bytes(raw[: len(raw) // 2])
    fails(TruncatedFileError, "of its")
    stopped.write_bytes(raw[:-40] + bytes([raw[-40] ^ 1]) + raw[-39:])
    fails(DamagedFileError, "checksum")
    stopped.write_bytes(raw[:8] + b"\x09" + raw[9:])
    fails(NewerFileError, "format 9")
    CPD(rank=3, random_state=0).fit(X).save(stopped)
    fails(ForeignFileError, "checkpoint files are written by fit with checkpoint=path")
    container.write(stopped, checkpoint.KIND, {"fit": {"dict": {}}, "runs": {"list": []}}, {})
    fails(DamagedFileError, "what fit it belongs to")
    container.write(stopped, checkpoint.KIND, {"fit": 3, "runs": {"list": []}}, {})
    fails(DamagedFileError, "does not describe a checkpoint")
    stopped.unlink()
    fails(DataNotFoundError, "no checkpoint file")
    with pytest.raises(InvalidInputError, match="resume=True goes on from"):
        CPD(rank=3).fit(X, resume=True)
    with pytest.raises(InvalidInputError, match="neither a path nor True"):
        CPD(rank=3).fit(X, resume=3)


def leaves(data, path=()):
    """Places of all values in nested lists and dicts."""
    items = data.items() if isinstance(data, dict) else enumerate(data)
    for key, value in items:
        yield (*path, key)
        if isinstance(value, dict | list):
            yield from leaves(value, (*path, key))


def test_forged_states_are_refused_or_harmless(stopped, X):
    """The checksum is right, something in the header is not: our errors, or a fit that ends."""
    header, arrays = container.read(stopped, checkpoint.KIND)
    del header["arrays"]
    text = json.dumps(header)
    places = list(leaves(header))
    rng = np.random.default_rng(0)
    refused = 0
    for count in range(150):
        forged = json.loads(text)
        *above, last = places[rng.integers(len(places))]
        inside = forged
        for key in above:
            inside = inside[key]
        wrong = [None, -1, 3, 2**70, 0.5, "text", [], {}, {"list": []}, {"array": "nowhere"}, True]
        inside[last] = wrong[count % len(wrong)]
        container.write(stopped, checkpoint.KIND, forged, arrays)
        try:
            CPD(rank=3, random_state=0).fit(X, resume=stopped)
        except TensorContrastError:
            refused += 1
    assert refused > 75


def forged(path, change):
    """Write a checkpoint anew, with right checksums, after ``change`` of its fit and runs."""
    saved = checkpoint.load(path)
    change(saved)
    data, arrays = model_files.pack(saved)
    container.write(path, checkpoint.KIND, data["dict"], arrays)


def _set(*keys, value):
    def change(saved):
        inside = saved["runs"][-1]
        for key in keys[:-1]:
            inside = inside[key]
        inside[keys[-1]] = value(inside[keys[-1]]) if callable(value) else value

    return change


def _nan(array):
    return np.where(np.arange(array.size).reshape(array.shape) == 1, np.nan, array)


HUGE = 2**62
FORGED = {
    "more iterations than there are": _set("done", value=HUGE),
    "fewer iterations than in the history": _set("done", value=1),
    "over, after more than there are": lambda saved: saved["runs"][0].update(
        monitor=saved["runs"][0]["monitor"]
        | {"history": {k: v * 50 for k, v in saved["runs"][0]["monitor"]["history"].items()}}
    ),
    "nan in factors": _set("factors", 0, value=_nan),
    "factors of another rank": _set("factors", value=lambda given: [U[:, :2] for U in given]),
    "factors of another dtype": _set("factors", 1, value=lambda U: U.astype("float32")),
    "a factor too few": _set("factors", value=lambda given: given[:-1]),
    "no factors": _set("factors", value=[]),
    "an infinite objective": _set("monitor", "history", "objective", 0, value=np.inf),
    "another objective before": _set("monitor", "history", "objective", 0, value=1e9),
    "another last objective": _set("monitor", "last", value=0.0),
    "a patience from nowhere": _set("monitor", "calm", value=HUGE),
    "steps without end": _set("adam", "step", value=HUGE),
    "no optimiser": _set("adam", value=None),
    "nan in moments": _set("adam", "m", 0, value=_nan),
    "negative squares": _set("adam", "v", 0, value=lambda v: -1 - v),
    "labels of other samples": _set("memory", "labels", value=lambda labels: labels[:-3]),
    "a label that is none": _set("memory", "labels", value=lambda labels: labels + HUGE // 4),
    "nan in centres": _set("memory", "centers", value=_nan),
    "centres elsewhere": _set("memory", "centers", value=np.ones((3, 7))),
    "features of other samples": _set("memory", "W", value=np.ones((7, 3))),
    "rows of a batch": _set("memory", "rows", value=np.arange(60)),
    "other random numbers": lambda saved: saved["fit"].update(
        rng=np.random.default_rng(5).bit_generator.state
    ),
    "an earlier run without factors": lambda saved: saved["runs"][0].update(factors=[]),
    "another class": lambda saved: saved["fit"].update({"class": "ATD"}),
    "other data": lambda saved: saved["fit"].update(data="0" * 32),
}


@pytest.fixture(scope="module")
def in_descent(X, tmp_path_factory):
    path = tmp_path_factory.mktemp("forged") / "fit.tcc"
    with pytest.raises(Crash):
        descending(callback=crash_after(12)).fit(X, checkpoint=path, every=1)
    assert checkpoint.load(path)["runs"][-1]["adam"]["step"] == 4
    return path


def descending(**more):
    settings = {"rank": 3, "max_iter": 8, "tol": 0, "n_epochs": 10, "n_clusters": 3}
    return build(PLC, **{"solver": "tied", **settings, "random_state": 0, **more})


@pytest.mark.parametrize("case", FORGED)
def test_states_that_a_fit_cannot_have_are_refused(case, in_descent, X, tmp_path):
    """Right checksums, wrong contents: never a result, never a loop without end."""
    path = tmp_path / "fit.tcc"
    path.write_bytes(in_descent.read_bytes())
    forged(path, FORGED[case])
    model = descending()
    with pytest.raises((DamagedFileError, InvalidInputError), match="checkpoint"):
        model.fit(X, resume=path)
    assert not hasattr(model, "factors_")


def test_an_unchanged_forgery_goes_on(in_descent, X, tmp_path):
    path = tmp_path / "fit.tcc"
    path.write_bytes(in_descent.read_bytes())
    forged(path, lambda saved: None)
    assert_same(descending().fit(X, resume=path), descending().fit(X))


# ---------------------------------------------------------------------------- files of others


@pytest.mark.parametrize("content", [b"", b"my notes", b"TCMODEL\0 and more", "fifo", "link"])
def test_a_file_that_is_no_checkpoint_is_never_replaced(content, X, tmp_path):
    path, seen = tmp_path / "keep.txt", []
    if content == "fifo":
        if not hasattr(os, "mkfifo"):
            pytest.skip("no pipes")
        os.mkfifo(path)
    elif content == "link":
        path.symlink_to(tmp_path / "nowhere")
    else:
        path.write_bytes(content)
    before = path.lstat()
    signals = make_synthetic(n_samples=30, n_classes=2, random_state=0)
    for cls in (CPD, ATD, PLC):
        part = cls(rank=2, callback=seen.append)
        for model, data in ((part, X), (ContrastiveFeatures(decompose=part), signals)):
            with pytest.raises(ForeignFileError, match=r"keep.txt .* not a checkpoint"):
                model.fit(data, checkpoint=path, every=1)
    assert not seen
    assert path.lstat() == before


def test_a_file_that_appears_during_the_fit_is_not_replaced(X, tmp_path):
    path = tmp_path / "keep.txt"

    def write(row):
        if row["iteration"] == 3:
            path.write_text("mine")

    model = build(CPD, rank=3, max_iter=9, tol=0, callback=write)
    with pytest.warns(TensorContrastWarning, match=r"not a checkpoint.*goes on") as told:
        model.fit(X, checkpoint=path, every=1)
    assert len(told) == 1
    assert path.read_text() == "mine"
    assert model.n_iter_ == 9


def test_a_folder_that_takes_no_files_is_told_before_any_work(X, tmp_path, monkeypatch):
    seen = []
    (tmp_path / "file").write_text("x")
    with pytest.raises(FileError, match="folder that exists"):
        CPD(rank=3, callback=seen.append).fit(X, checkpoint=tmp_path / "file" / "fit.tcc")

    def read_only(*args, **kwargs):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(os, "open", read_only)
    with pytest.raises(FileError, match=r"fit.tcc: .*Read-only file system"):
        CPD(rank=3, callback=seen.append).fit(X, checkpoint=tmp_path / "fit.tcc")
    assert not seen


# ---------------------------------------------------------------------------- stages, SIGTERM


def test_every_finished_stage_is_in_the_file(X, tmp_path):
    """Whatever ``every`` is: the CPD when the descent begins, the descent when it is over."""
    path, seen = tmp_path / "fit.tcc", []

    def look(row):
        if "contrast" in row and path.exists():
            seen.append([run["ended"] for run in checkpoint.load(path)["runs"]])

    model = descending(callback=look).fit(X, checkpoint=path, every=10**6)
    assert seen == [[True]] * 10
    assert [run["ended"] for run in checkpoint.load(path)["runs"]] == [True, True]
    assert checkpoint.iterations(checkpoint.load(path)["runs"]) == model.n_iter_ == 18
    assert_same(descending(callback=crash_after(0)).fit(X, resume=path), model)


@pytest.mark.parametrize("every", [1, 10**6])
def test_ctrl_c_says_what_the_file_holds(every, X, tmp_path):
    def interrupt(row):
        if row["iteration"] == 12:
            raise KeyboardInterrupt

    path = tmp_path / "fit.tcc"
    with pytest.raises(KeyboardInterrupt, match=r"can be used; .*fit.tcc holds 11 iterations"):
        descending(callback=interrupt).fit(X, checkpoint=path, every=every)
    assert checkpoint.iterations(checkpoint.load(path)["runs"]) == 11


def test_ctrl_c_before_the_first_iteration_says_that_nothing_is_kept(X, tmp_path, monkeypatch):
    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    path = tmp_path / "fit.tcc"
    monkeypatch.setattr(als, "sweep", interrupt)
    with pytest.raises(KeyboardInterrupt, match=r"nothing was learned.*nothing was written to"):
        CPD(rank=3).fit(X, checkpoint=path)
    assert not path.exists()
    rec = make_synthetic(n_samples=30, n_classes=2, random_state=0)
    monkeypatch.setattr(SpectrogramTensor, "transform", interrupt)
    with pytest.raises(KeyboardInterrupt, match=r"were prepared; .*no checkpoint was written"):
        ContrastiveFeatures(decompose=CPD(rank=3)).fit(rec, checkpoint=path)


TERMINATED = textwrap.dedent(
    """
    import os, signal, sys
    from tensorcontrast import ALS, PLC, Gradient
    from tensorcontrast.datasets import make_cp_tensor

    def end(row):
        if row["iteration"] == 11:
            os.kill(os.getpid(), signal.SIGTERM)

    X = make_cp_tensor(60, (5, 6, 4), 3, noise=0.3, random_state=0)[0]
    model = PLC(rank=3, solver="tied", als=ALS(max_iter=8, tol=0), gradient=Gradient(n_epochs=10),
                n_clusters=3, random_state=0, callback=end)
    model.fit(X, checkpoint=sys.argv[1], every=1)
    """
)


@pytest.mark.skipif(os.name != "posix", reason="signals as on POSIX systems")
def test_sigterm_leaves_the_last_checkpoint(X, tmp_path):
    """SIGTERM ends Python at once, at 60 % of the fit: the iteration before is in the file."""
    path = tmp_path / "fit.tcc"
    command = [sys.executable, "-W", "ignore", "-c", TERMINATED, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == -signal.SIGTERM, done.stderr
    assert checkpoint.iterations(checkpoint.load(path)["runs"]) == 10
    assert_same(descending().fit(X, resume=path), descending().fit(X))


@pytest.mark.parametrize("name", ["no-folder/fit.tcc", "."])
def test_a_place_that_cannot_be_written_is_told_before_any_work(name, X, tmp_path):
    seen = []
    with pytest.raises(FileError, match="checkpoint="):
        CPD(rank=3, callback=seen.append).fit(X, checkpoint=tmp_path / name)
    assert not seen


def test_a_model_file_does_not_name_the_checkpoint(X, tmp_path):
    model = CPD(rank=3, random_state=0).fit(X, checkpoint=tmp_path / "fit.tcc", every=1)
    model.save(tmp_path / "model.tcm")
    header, _ = container.read(tmp_path / "model.tcm", model_files.KIND)
    assert str(tmp_path) not in json.dumps(header)
    assert "fit.tcc" not in json.dumps(header)
    loaded = load_model(tmp_path / "model.tcm")
    assert loaded.get_params() == model.get_params()
    assert not hasattr(loaded, "checkpoint")
    assert not hasattr(model, "checkpoint")


def test_losing_runs_take_no_space(X, tmp_path):
    """Of beaten starts the file keeps numbers, not arrays as long as the data."""
    path = tmp_path / "fit.tcc"
    many = np.concatenate([X] * 20)
    build(CPD, rank=3, n_init=8, max_iter=6, tol=0, random_state=0).fit(
        many, checkpoint=path, every=1
    )
    one = many.shape[0] * 3 * many.itemsize
    assert path.stat().st_size < 4 * one
    runs = checkpoint.load(path)["runs"]
    assert len(runs) == 8
    assert sum(run["memory"]["W"] is not None for run in runs) <= 2


def test_parameters_are_described_by_what_they_are():
    assert checkpoint.described(np.float32(0.5)) == checkpoint.described(0.5)
    a, b = augment.gentle(n_times=64), augment.gentle(n_times=128)
    assert checkpoint.described(a) == checkpoint.described(augment.gentle(n_times=64))
    assert checkpoint.described(a) != checkpoint.described(b)
    ones, twos = [np.ones((3, 2))], [np.full((3, 2), 2.0)]
    assert checkpoint.described(ones) != checkpoint.described(twos)
    assert checkpoint.fingerprint(np.arange(6)) != checkpoint.fingerprint(np.arange(6.0))
    assert checkpoint.fingerprint(np.ones((2, 3))) != checkpoint.fingerprint(np.ones((3, 2)))
    assert checkpoint.fingerprint([1, 2], 3) != checkpoint.fingerprint([1], 2, 3)


def test_fits_in_threads_keep_to_their_own_files(X, tmp_path):
    from concurrent.futures import ThreadPoolExecutor

    def work(seed):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            path = tmp_path / f"{seed}.tcc"
            build(CPD, rank=3, max_iter=30, tol=0, random_state=seed).fit(
                X, checkpoint=path, every=1
            )
            return build(CPD, rank=3, max_iter=30, tol=0, random_state=seed).fit(X, resume=path)

    with ThreadPoolExecutor(4) as pool:
        models = list(pool.map(work, range(4)))
    for seed, model in enumerate(models):
        assert_same(model, build(CPD, rank=3, max_iter=30, tol=0, random_state=seed).fit(X))
