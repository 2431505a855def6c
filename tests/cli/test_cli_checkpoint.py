"""fit with --checkpoint, --resume, --missing and --robust."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from tensorcontrast import PLC, ContrastiveFeatures, Recordings, SpectrogramTensor, load_model
from tensorcontrast.decompose.options import build
from tensorcontrast.io import container, model_files

LONG = ["--rank", "3", "-p", "max_iter=30", "-p", "tol=0", "-p", "every=3"]
TIED = [*LONG, "-p", "solver=tied", "-p", "n_epochs=6"]

#: The command line, with a pause after each iteration for whoever wants to kill it.
SLOW = (
    "import sys, time\n"
    "from tensorcontrast.solvers import convergence\n"
    "record = convergence.Monitor.record\n"
    "def slow(self, terms):\n"
    "    time.sleep(0.03)\n"
    "    return record(self, terms)\n"
    "convergence.Monitor.record = slow\n"
    "from tensorcontrast.cli import main\n"
    "main()\n"
)


def start(*args):
    return subprocess.Popen(
        [sys.executable, "-c", SLOW, *map(str, args)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )


def same_model(a, b):
    """Whether two model files agree in every bit but the seconds that iterations took."""
    (head, arrays), (other_head, others) = (container.read(p, model_files.KIND) for p in (a, b))
    seconds = "decompose_.history_.seconds"
    assert arrays[seconds].shape == others[seconds].shape
    return head == other_head and all(
        arrays[name].tobytes() == others[name].tobytes() for name in {*arrays, *others} - {seconds}
    )


def wait_for(condition, running):
    deadline = time.monotonic() + 60
    while not condition() and running.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)


@pytest.mark.skipif(sys.platform == "win32", reason="signals of Unix")
@pytest.mark.parametrize("options", [LONG, TIED], ids=["gls", "tied"])
def test_a_killed_fit_goes_on_to_the_same_model(cli, cli_process, data, tmp_path, options):
    command = ["fit", data, *options]
    assert cli(*command, "-o", tmp_path / "whole.tcm").code == 0
    kept, target = tmp_path / "fit.tcc", tmp_path / "model.tcm"
    command += ["--checkpoint", kept, "--resume", "-o", target]
    kills = 0
    for _ in range(2):
        before = kept.stat().st_mtime_ns if kept.exists() else 0
        running = start(*command)
        wait_for(lambda seen=before: kept.exists() and kept.stat().st_mtime_ns > seen, running)
        if running.poll() is None:
            os.kill(running.pid, signal.SIGKILL)
            kills += 1
        running.communicate()
        assert kept.exists()
    assert kills
    assert not target.exists()
    done = cli_process(*command, "--json")
    assert done.code == 0, done.err
    assert done.json["checkpoint"] == str(kept)
    assert 3 <= done.json["resumed_after"] < done.json["iterations"]
    assert "going on from" in done.err
    assert same_model(target, tmp_path / "whole.tcm")


@pytest.mark.skipif(sys.platform == "win32", reason="signals of Unix")
@pytest.mark.parametrize(
    ("number", "code", "word"),
    [(signal.SIGINT, 130, "interrupted: "), (signal.SIGTERM, 143, "terminated: ")],
    ids=["INT", "TERM"],
)
def test_signals_tell_the_way_on(number, code, word, cli, data, tmp_path):
    kept, target = tmp_path / "fit.tcc", tmp_path / "model.tcm"
    running = start("fit", data, *LONG, "--checkpoint", kept, "-o", target)
    wait_for(kept.exists, running)
    running.send_signal(number)
    _, err = running.communicate(timeout=60)
    assert running.returncode == code
    assert err.startswith(f"{word}the fit was stopped; {kept} holds ")
    assert "--resume" in err
    assert "Traceback" not in err
    assert not target.exists()
    done = cli("fit", data, *LONG, "--checkpoint", kept, "--resume", "-o", target, "--json")
    assert done.code == 0, done.err
    count = done.json["resumed_after"]
    assert 0 < count < done.json["iterations"] == 30
    assert f"holds {count} iterations" in err
    assert f"after {count} iterations" in done.err
    assert cli("fit", data, *LONG, "-o", tmp_path / "whole.tcm").code == 0
    assert same_model(target, tmp_path / "whole.tcm")


@pytest.mark.parametrize(
    "more", [[], ["-p", "solver=tied", "-p", "n_epochs=3"]], ids=["gls", "tied"]
)
def test_iterations_are_counted_in_one_way(cli, data, tmp_path, more):
    """Stages that settle early too: what a checkpoint holds is counted as the model does."""
    kept = tmp_path / "fit.tcc"
    command = ["fit", data, "--rank", "3", "-p", "tol=0.1", "-p", "n_init=2", *more]
    command += ["--checkpoint", kept, "--json"]
    done = cli(*command, "-o", tmp_path / "a.tcm")
    assert done.code == 0, done.err
    again = cli(*command, "--resume", "-o", tmp_path / "b.tcm")
    assert again.json["resumed_after"] == again.json["iterations"] == done.json["iterations"]


def test_a_stop_before_the_first_iteration_says_so(cli, data, tmp_path, monkeypatch):
    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    kept, target = tmp_path / "fit.tcc", tmp_path / "m.tcm"
    command = ["fit", data, *LONG, "--checkpoint", kept, "--resume", "-o", target, "--force"]
    monkeypatch.setattr(SpectrogramTensor, "fit", interrupt)
    done = cli(*command)
    assert (done.code, kept.exists()) == (130, False)
    assert "nothing was kept: no iteration was done" in done.err
    monkeypatch.undo()
    assert cli(*command).code == 0
    whole = kept.read_bytes()
    monkeypatch.setattr(SpectrogramTensor, "fit", interrupt)
    done = cli(*command)
    assert (done.code, kept.read_bytes() == whole) == (130, True)
    assert "is as it was before this command" in done.err


def test_a_file_that_is_no_checkpoint_is_never_replaced(cli, data, tmp_path):
    keep = tmp_path / "keep.txt"
    keep.write_text("mine")
    for options in ([], ["--force"], ["--resume"], ["--resume", "--force"]):
        done = cli("fit", data, "--checkpoint", keep, "-o", tmp_path / "m.tcm", *options)
        assert (done.code, keep.read_text()) == (3, "mine")
        assert "keep.txt exists and is not a checkpoint" in done.err
    assert not (tmp_path / "m.tcm").exists()


def test_the_first_call_may_ask_to_resume(cli, data, tmp_path):
    plain = cli("fit", data, *LONG, "-o", tmp_path / "a.tcm", "--json").json
    assert (plain["checkpoint"], plain["resumed_after"]) == (None, None)
    kept = tmp_path / "fit.tcc"
    done = cli("fit", data, *LONG, "--checkpoint", kept, "--resume", "-o", tmp_path / "b.tcm")
    assert done.code == 0
    assert "the fit begins" in done.err
    assert same_model(tmp_path / "a.tcm", tmp_path / "b.tcm")
    loaded = load_model(tmp_path / "b.tcm")
    for part in (loaded.decompose, loaded.decompose_):
        assert "checkpoint" not in vars(part).keys() | part.get_params().keys()
    assert str(kept).encode() not in (tmp_path / "b.tcm").read_bytes()


def test_a_checkpoint_is_not_lost_for_want_of_an_option(cli, data, tmp_path):
    kept = tmp_path / "fit.tcc"
    command = ["fit", data, *LONG, "--checkpoint", kept]
    assert cli(*command, "-o", tmp_path / "a.tcm").code == 0
    whole = kept.read_bytes()
    done = cli(*command, "-o", tmp_path / "b.tcm")
    assert done.code == 3
    assert "--resume" in done.err
    assert "--force" in done.err
    assert kept.read_bytes() == whole
    assert not (tmp_path / "b.tcm").exists()
    assert cli(*command, "-o", tmp_path / "b.tcm", "--force").code == 0


def test_checkpoints_of_other_fits_are_refused(cli, data, other, tmp_path):
    kept, target = tmp_path / "fit.tcc", tmp_path / "b.tcm"
    assert cli("fit", data, *LONG, "--checkpoint", kept, "-o", tmp_path / "a.tcm").code == 0
    again = ["--checkpoint", kept, "--resume", "-o", target]
    done = cli("fit", data, *LONG, "-p", "beta=0.5", *again)
    assert (done.code, "beta=0.5" in done.err, "--resume" in done.err) == (2, True, True)
    done = cli("fit", data, *LONG, "--seed", 4, *again)
    assert (done.code, "another --seed" in done.err) == (2, True)
    done = cli("fit", other, *LONG, *again, "--json")
    assert done.code == 4
    assert "other data" in done.json["error"]["message"]
    assert "resume=" not in done.err
    for content in (b"", b"TCCHECK\0 and no more", kept.read_bytes()[:-9]):
        bad = tmp_path / "bad.tcc"
        bad.write_bytes(content)
        done = cli("fit", data, *LONG, "--checkpoint", bad, "--resume", "-o", target)
        assert (done.code, "bad.tcc" in done.err) == (3, True)
        assert "Traceback" not in done.err
    assert not target.exists()


def test_wrong_places_of_checkpoints(cli, data, tmp_path, small):
    target = tmp_path / "m.tcm"
    done = cli("fit", data, *small, "--resume", "-o", target)
    assert (done.code, "--checkpoint" in done.err) == (2, True)
    done = cli("fit", data, *small, "--checkpoint", tmp_path, "-o", target)
    assert done.code == 2
    done = cli("fit", data, *small, "--checkpoint", tmp_path / "no" / "x.tcc", "-o", target)
    assert (done.code, "make it first" in done.err) == (3, True)
    done = cli("fit", data, *small, "--checkpoint", target, "-o", target)
    assert (done.code, "files of their own" in done.err) == (2, True)
    done = cli("fit", data, *small, "-p", f"checkpoint={tmp_path / 'x.tcc'}", "-o", target)
    assert (done.code, "--checkpoint" in done.err) == (2, True)
    for every in ("0", "1.5", "often", "true"):
        for kept in ([], ["--checkpoint", tmp_path / "x.tcc"]):
            done = cli("fit", data, *small, *kept, "-p", f"every={every}", "-o", target)
            assert (done.code, "at least 1" in done.err) == (2, True)
    assert list(tmp_path.iterdir()) == []


def test_the_settings_file_names_them_too(cli, data, recordings, tmp_path):
    kept = tmp_path / "fit.tcc"
    config = tmp_path / "fit.toml"
    config.write_text(
        f'rank = 3\ncheckpoint = "{kept}"\nrobust = "huber"\nmissing = "mask"\n'
        "[params]\nmax_iter = 8\ntol = 0.0\nevery = 2\n"
    )
    done = cli("fit", data, "-c", config, "-o", tmp_path / "m.tcm", "--json")
    assert done.code == 0, done.err
    assert done.json["checkpoint"] == str(kept)
    assert kept.exists()
    model = load_model(tmp_path / "m.tcm")
    assert (model.missing, model.decompose.robust) == ("mask", "huber")
    config.write_text('robust = "tukey"\n')
    done = cli("fit", data, "-c", config, "-o", tmp_path / "n.tcm")
    assert (done.code, "line 1" in done.err) == (3, True)


# ------------------------------------------------------------------- dirty recordings


@pytest.fixture
def holes(recordings, tmp_path):
    X = recordings.X.copy()
    X[::7, 1, 5:30] = np.nan
    return recordings._with(X=X).save(tmp_path / "holes.npz")


def test_missing_values_are_left_out(cli, holes, data, tmp_path, small):
    path = tmp_path / "m.tcm"
    done = cli("fit", holes, "-o", path, *small)
    assert (done.code, "channel 'Cz'" in done.err or "Cz" in done.err) == (3, True)
    done = cli("fit", holes, "-o", path, *small, "--missing", "mask", "--json")
    assert done.code == 0, done.err
    assert done.json["samples"] == 90
    rec = Recordings.read(holes, allow_nan=True)
    own = ContrastiveFeatures(
        decompose=build(PLC, rank=3, max_iter=8, tol=0), missing="mask", random_state=0
    ).fit(rec)
    model = load_model(path)
    for U, V in zip(model.factors_, own.factors_, strict=True):
        np.testing.assert_allclose(U, V, atol=1e-5)
    done = cli("transform", path, holes, "-o", tmp_path / "f.npz")
    assert done.code == 0, done.err
    with np.load(tmp_path / "f.npz", allow_pickle=False) as file:
        np.testing.assert_allclose(file["features"], own.transform(rec), rtol=1e-4, atol=1e-5)
        assert np.isfinite(file["features"]).all()
    assert cli("evaluate", path, holes, "--budgets", "100%").code == 0
    assert cli("transform", path, data, "-o", tmp_path / "g.npz").code == 0


def test_a_store_with_gaps_and_a_model_that_leaves_them_out(
    cli, holes, recordings, tmp_path, small
):
    zarr = pytest.importorskip("zarr", reason="needs the extra 'dask'")
    path = tmp_path / "m.tcm"
    assert cli("fit", holes, "-o", path, *small, "--missing", "mask").code == 0
    rec = Recordings.read(holes, allow_nan=True)
    zarr.save_array(str(tmp_path / "x.zarr"), rec.X)
    done = cli("transform", path, tmp_path / "x.zarr", "--fs", 100, "-o", tmp_path / "f.npz")
    assert done.code == 0, done.err
    with np.load(tmp_path / "f.npz", allow_pickle=False) as file:
        np.testing.assert_allclose(
            file["features"], load_model(path).transform(rec), rtol=1e-5, atol=1e-6
        )
    done = cli("transform", path, tmp_path / "x.zarr", "--fs", 100, "-o", tmp_path / "g.npz",
               "--workers", 2)  # fmt: skip
    assert (done.code, "one process" in done.err) == (2, True)


def test_artefacts_count_less(cli, recordings, tmp_path, small):
    X = recordings.X.copy()
    X[5] *= 1000
    path = recordings._with(X=X).save(tmp_path / "x.npz")
    done = cli("fit", path, "-o", tmp_path / "m.tcm", *small, "--robust", "huber", "--json")
    assert done.code == 0, done.err
    core = load_model(tmp_path / "m.tcm").decompose_
    assert core.robust == "huber"
    assert core.sample_weight_[5] < 0.1
    assert np.median(core.sample_weight_) > 0.9


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--missing", "fill"], "--missing"),
        (["--robust", "tukey"], "--robust"),
        (["--missing", "mask", "--drop-nan"], "--drop-nan"),
        (["-p", "missing=mask"], "--missing"),
    ],
)
def test_wrong_words(cli, data, tmp_path, options, words):
    done = cli("fit", data, "-o", tmp_path / "m.tcm", *options)
    assert done.code == 2
    assert done.err.startswith("error: ")
    assert words in done.err
    assert list(tmp_path.iterdir()) == []


def test_what_a_store_cannot_do(cli, recordings, tmp_path, small):
    zarr = pytest.importorskip("zarr", reason="needs the extra 'dask'")
    pytest.importorskip("dask.array", reason="needs the extra 'dask'")
    zarr.save_array(str(tmp_path / "x.zarr"), recordings.X)
    for options in (["--missing", "mask"], ["--robust", "huber"], ["-p", "robust=huber"]):
        done = cli("fit", tmp_path / "x.zarr", "-o", tmp_path / "m.tcm", *small, *options)
        assert (done.code, "not for stores" in done.err) == (2, True)


def test_a_store_is_fitted_with_a_checkpoint(cli, recordings, tmp_path):
    zarr = pytest.importorskip("zarr", reason="needs the extra 'dask'")
    pytest.importorskip("dask.array", reason="needs the extra 'dask'")
    zarr.save_array(str(tmp_path / "x.zarr"), recordings.X)
    command = ["fit", tmp_path / "x.zarr", "--fs", 100, *LONG, "--checkpoint", tmp_path / "c.tcc"]
    assert cli(*command, "-o", tmp_path / "a.tcm").code == 0
    done = cli(*command, "--resume", "-o", tmp_path / "b.tcm", "--json")
    assert done.code == 0, done.err
    assert done.json["resumed_after"] > 0
    assert same_model(tmp_path / "a.tcm", tmp_path / "b.tcm")
