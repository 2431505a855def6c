"""Small recordings, a small model, and a way to call the command line."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

from tensorcontrast import Recordings
from tensorcontrast.cli import app
from tensorcontrast.datasets import make_synthetic

#: Parameters with which a fit takes a fraction of a second.
SMALL = ["--rank", "3", "-p", "max_iter=8", "-p", "tol=0"]


class Result:
    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    @property
    def json(self):
        return json.loads(self.out)


def call(*args, env=None):
    """Run the command line in this process."""
    done = CliRunner(env={"COLUMNS": "100", **(env or {})}).invoke(app, [str(a) for a in args])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return Result(done.exit_code, done.stdout, done.stderr)


def process(*args, env=None):
    """Run the command line as a process of its own."""
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "COLUMNS": "100", **(env or {})}
    done = subprocess.run(
        [sys.executable, "-m", "tensorcontrast", *map(str, args)],
        capture_output=True,
        text=True,
        env=environment,
        timeout=120,
    )
    return Result(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def cli():
    return call


@pytest.fixture(scope="session")
def call_once():
    """The command line for fixtures that outlast a test."""
    return call


@pytest.fixture
def cli_process():
    return process


@pytest.fixture(scope="session")
def small():
    return list(SMALL)


@pytest.fixture(scope="session")
def recordings():
    rec = make_synthetic(
        n_samples=90, n_channels=3, n_times=64, n_classes=3, n_subjects=6, random_state=0
    )
    return Recordings(
        rec.X,
        rec.y,
        groups=rec.groups,
        fs=rec.fs,
        channels=["Fz", "Cz", "Pz"],
        classes=["rest", "move", "think"],
        columns={"side": np.arange(len(rec)) % 2},
        name="trial",
    )


@pytest.fixture(scope="session")
def data(recordings, tmp_path_factory):
    return recordings.save(tmp_path_factory.mktemp("data") / "trial.npz")


@pytest.fixture(scope="session")
def other(tmp_path_factory):
    """Recordings of the same kind that the model has not seen."""
    rec = make_synthetic(
        n_samples=60, n_channels=3, n_times=64, n_classes=3, n_subjects=4, random_state=5
    )
    new = Recordings(rec.X, rec.y, groups=rec.groups, fs=rec.fs, channels=["Fz", "Cz", "Pz"])
    return new.save(tmp_path_factory.mktemp("other") / "other.npz")


@pytest.fixture(scope="session")
def model(data, tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "model.tcm"
    assert call("fit", data, "-o", path, *SMALL).code == 0
    return path


@pytest.fixture(scope="session")
def table(recordings, tmp_path_factory):
    """The recordings as a CSV table in long form."""
    path = tmp_path_factory.mktemp("table") / "trial.csv"
    lines = ["window,t,person,activity,Fz,Cz,Pz"]
    for n in range(30):
        label = recordings.classes[recordings.y[n]]
        for t in range(recordings.n_times):
            values = ",".join(f"{v:.6g}" for v in recordings.X[n, :, t])
            lines.append(f"{n},{t},p{recordings.groups[n]},{label},{values}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path
