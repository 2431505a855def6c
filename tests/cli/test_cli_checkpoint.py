"""fit with --checkpoint, --resume and --missing."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from tensorcontrast import PLC, ContrastiveFeatures, Recordings, SpectrogramTensor, load_model

LONG = ["--rank", "3", "-p", "max_iter=30"]

#: The command line, with a pause after each iteration for whoever wants to kill it.
SLOW = (
    "import sys, time\n"
    "from tensorcontrast.solvers import convergence\n"
    "record = convergence.Monitor.record\n"
    "def slow(self, terms):\n"
    "    time.sleep(0.05)\n"
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


def wait_for(condition, running):
    deadline = time.monotonic() + 60
    while not condition() and running.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)


def same_features(a, b, recordings, tolerance=1e-3):
    """Whether two models make the same of recordings, but for rounding."""
    first, second = (load_model(path).transform(recordings.X) for path in (a, b))
    return np.abs(first - second).max() < tolerance * np.abs(first).max()


@pytest.mark.skipif(sys.platform == "win32", reason="signals of Unix")
def test_a_killed_fit_goes_on_to_the_same_model(cli, cli_process, data, recordings, tmp_path):
    command = ["fit", data, *LONG]
    assert cli(*command, "-o", tmp_path / "whole.tcm").code == 0
    kept, target = tmp_path / "part.tcm", tmp_path / "model.tcm"
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
        assert load_model(kept).decompose_.interrupted_  # a whole model at any moment
    assert kills
    assert not target.exists()
    done = cli_process(*command, "--json")
    assert done.code == 0, done.err
    assert done.json["checkpoint"] == str(kept)
    assert 3 <= done.json["resumed_after"] < done.json["iterations"] == 30
    assert not load_model(target).decompose_.interrupted_
    assert same_features(target, tmp_path / "whole.tcm", recordings)


@pytest.mark.skipif(sys.platform == "win32", reason="signals of Unix")
@pytest.mark.parametrize(
    ("number", "code", "word"),
    [(signal.SIGINT, 130, "interrupted: "), (signal.SIGTERM, 143, "terminated: ")],
    ids=["INT", "TERM"],
)
def test_signals_keep_what_is_there(number, code, word, cli, data, recordings, tmp_path):
    kept, target = tmp_path / "part.tcm", tmp_path / "model.tcm"
    running = start("fit", data, *LONG, "--checkpoint", kept, "-o", target)
    wait_for(kept.exists, running)
    running.send_signal(number)
    _, err = running.communicate(timeout=60)
    assert running.returncode == code
    assert err.startswith(word) and str(kept) in err
    assert "--resume" in err
    assert "Traceback" not in err
    assert not target.exists()
    count = load_model(kept).decompose_.n_iter_
    done = cli("fit", data, *LONG, "--checkpoint", kept, "--resume", "-o", target, "--json")
    assert done.code == 0, done.err
    assert 0 < done.json["resumed_after"] == count <= done.json["iterations"] == 30
    assert cli("fit", data, *LONG, "-o", tmp_path / "whole.tcm").code == 0
    # The sweep in which the signal comes may count or not.
    assert same_features(target, tmp_path / "whole.tcm", recordings, 0.1)


def test_a_stop_before_the_first_iteration_leaves_what_was_there(cli, data, tmp_path, monkeypatch):
    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    kept, target = tmp_path / "part.tcm", tmp_path / "m.tcm"
    command = ["fit", data, *LONG, "--checkpoint", kept, "--resume", "-o", target, "--force"]
    monkeypatch.setattr(SpectrogramTensor, "fit", interrupt)
    done = cli(*command)
    assert (done.code, kept.exists()) == (130, False)
    assert "no iteration" in done.err
    monkeypatch.undo()
    assert cli(*command).code == 0
    whole = kept.read_bytes()
    monkeypatch.setattr(SpectrogramTensor, "fit", interrupt)
    command.remove("--resume")
    done = cli(*command)
    assert (done.code, kept.read_bytes() == whole) == (130, True)


def test_a_file_of_something_else_is_not_replaced(cli, data, tmp_path):
    keep = tmp_path / "keep.txt"
    keep.write_text("mine")
    for options in ([], ["--resume"], ["--resume", "--force"]):
        done = cli("fit", data, "--checkpoint", keep, "-o", tmp_path / "m.tcm", *options)
        assert (done.code, keep.read_text()) == (3, "mine")
        assert "keep.txt" in done.err
    assert not (tmp_path / "m.tcm").exists()


def test_the_first_call_may_ask_to_resume(cli, data, recordings, tmp_path):
    plain = cli("fit", data, *LONG, "-o", tmp_path / "a.tcm", "--json").json
    assert (plain["checkpoint"], plain["resumed_after"]) == (None, None)
    kept = tmp_path / "part.tcm"
    done = cli("fit", data, *LONG, "--checkpoint", kept, "--resume", "-o", tmp_path / "b.tcm")
    assert done.code == 0
    assert str(kept) in done.err
    assert same_features(tmp_path / "a.tcm", tmp_path / "b.tcm", recordings)
    assert str(kept).encode() not in (tmp_path / "b.tcm").read_bytes()


def test_a_checkpoint_is_not_lost_for_want_of_an_option(cli, data, tmp_path):
    kept = tmp_path / "part.tcm"
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


def test_checkpoints_of_other_fits_are_refused(cli, data, tmp_path):
    kept, target = tmp_path / "part.tcm", tmp_path / "b.tcm"
    assert cli("fit", data, *LONG, "--checkpoint", kept, "-o", tmp_path / "a.tcm").code == 0
    again = ["--checkpoint", kept, "--resume", "-o", target]
    for options in (["-p", "epsilon=0.5"], ["--seed", 4], ["--n-fft", 32], ["-m", "cpd"]):
        done = cli("fit", data, *LONG, *options, *again)
        assert (done.code, "part.tcm" in done.err) == (2, True)
    for content in (b"", b"TCMODEL\0 and no more", kept.read_bytes()[:-9]):
        bad = tmp_path / "bad.tcm"
        bad.write_bytes(content)
        done = cli("fit", data, *LONG, "--checkpoint", bad, "--resume", "-o", target)
        assert (done.code, "bad.tcm" in done.err) == (3, True)
        assert "Traceback" not in done.err
    assert not target.exists()
    done = cli("fit", data, "--rank", 3, "-p", "max_iter=35", *again, "--json")  # longer
    assert done.code == 0 and done.json["iterations"] == 35


def test_wrong_places_of_checkpoints(cli, data, tmp_path, small):
    target = tmp_path / "m.tcm"
    done = cli("fit", data, *small, "--resume", "-o", target)
    assert (done.code, "--checkpoint" in done.err) == (2, True)
    done = cli("fit", data, *small, "--checkpoint", tmp_path, "-o", target)
    assert done.code == 2
    done = cli("fit", data, *small, "--checkpoint", tmp_path / "no" / "x.tcm", "-o", target)
    assert done.code == 3
    done = cli("fit", data, *small, "--checkpoint", target, "-o", target)
    assert done.code == 2
    assert list(tmp_path.iterdir()) == []


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
        decompose=PLC(rank=3, max_iter=8, tol=0), missing="mask", random_state=0
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


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--missing", "fill"], "--missing"),
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
    done = cli("fit", tmp_path / "x.zarr", "-o", tmp_path / "m.tcm", *small, "--missing", "mask")
    assert (done.code, "--missing" in done.err) == (2, True)


def test_a_store_is_fitted_with_a_checkpoint(cli, recordings, tmp_path):
    zarr = pytest.importorskip("zarr", reason="needs the extra 'dask'")
    pytest.importorskip("dask.array", reason="needs the extra 'dask'")
    zarr.save_array(str(tmp_path / "x.zarr"), recordings.X)
    command = ["fit", tmp_path / "x.zarr", "--fs", 100, *LONG, "--checkpoint", tmp_path / "c.tcm"]
    assert cli(*command, "-o", tmp_path / "a.tcm").code == 0
    done = cli(*command, "--resume", "-o", tmp_path / "b.tcm", "--json")
    assert done.code == 0, done.err
    assert done.json["resumed_after"] > 0
    assert same_features(tmp_path / "a.tcm", tmp_path / "b.tcm", recordings)
