"""``convert`` and ``fit --workers`` as users call them."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from tensorcontrast import Recordings, load_model
from tensorcontrast.cli import app
from tensorcontrast.datasets import make_synthetic

pytest.importorskip("distributed")
pytest.importorskip("zarr")

SMALL = ["--rank", "3", "-p", "max_iter=6"]


def call(*args: Any) -> Any:
    done = CliRunner(env={"COLUMNS": "100"}).invoke(app, [str(a) for a in args])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("recordings")
    for i in range(3):
        make_synthetic(n_samples=50, n_classes=3, random_state=i).save(path / f"{i}.npz")
    return path


@pytest.fixture(scope="module")
def store(folder: Path) -> Path:
    target = folder.parent / "data.zarr"
    done = call("convert", folder, "-o", target, "--json")
    assert done.exit_code == 0
    facts = json.loads(done.stdout)
    assert facts["samples"] == 150
    assert facts["classes"]
    return target


def test_a_store_gives_the_model_of_the_files(store: Path, folder: Path, tmp_path: Path) -> None:
    assert call("fit", store, "-o", tmp_path / "a.tcm", *SMALL).exit_code == 0
    parts = [Recordings.load(folder / f"{i}.npz") for i in range(3)]
    parts[0]._with(X=np.concatenate([p.X for p in parts]), y=None, groups=None, columns={}).save(
        tmp_path / "all.npz"
    )
    assert call("fit", tmp_path / "all.npz", "-o", tmp_path / "b.tcm", *SMALL).exit_code == 0
    a, b = load_model(tmp_path / "a.tcm"), load_model(tmp_path / "b.tcm")
    for U, V in zip(a.factors_, b.factors_, strict=True):
        np.testing.assert_allclose(U, V, atol=1e-4)
    assert (a.fs_, a.channels_) == (b.fs_, b.channels_)
    np.testing.assert_array_equal(a.fitted_on_["sketch"], b.fitted_on_["sketch"])
    known = call("evaluate", tmp_path / "a.tcm", folder / "0.npz", "--json", "--budgets", "10")
    assert json.loads(known.stdout)["fitted_on_share"] == 1.0


def test_a_local_cluster_and_its_dashboard(store: Path, tmp_path: Path) -> None:
    command = ["fit", store, "-o", tmp_path / "a.tcm", *SMALL, "--json"]
    command += ["--scheduler", "local", "--workers", 2, "--memory-limit", "500MiB"]
    process = subprocess.Popen(
        [sys.executable, "-m", "tensorcontrast", *map(str, command)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "COLUMNS": "200"},
    )
    assert process.stderr is not None
    with process:
        line = process.stderr.readline()
        while line and "cluster of 2 workers" not in line:
            line = process.stderr.readline()
        found = re.search(r"dashboard: (http://\S+/status)", line)
        assert found, line
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with direct.open(found.group(1), timeout=60) as page:
            assert page.status == 200
            assert b"Dask" in page.read()
        out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert "Traceback" not in err
    assert json.loads(out)["samples"] == 150
    assert call("fit", store, "-o", tmp_path / "b.tcm", *SMALL).exit_code == 0
    a, b = load_model(tmp_path / "a.tcm"), load_model(tmp_path / "b.tcm")
    for U, V in zip(a.factors_, b.factors_, strict=True):
        np.testing.assert_allclose(U, V, atol=1e-4)


def test_channels_of_a_store(store: Path, tmp_path: Path) -> None:
    done = call("fit", store, "-o", tmp_path / "a.tcm", *SMALL, "--channels", "ch3,ch1")
    assert done.exit_code == 0
    assert load_model(tmp_path / "a.tcm").channels_ == ("ch3", "ch1")
    done = call("fit", store, "-o", tmp_path / "b.tcm", *SMALL, "--channels", "nose")
    assert done.exit_code != 0
    assert "no channel 'nose'" in done.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--scheduler", "nowhere"], "is no address"),
        (["--scheduler", "tcp://h:1", "--workers", "2"], "are for --scheduler local"),
        (["--memory-limit", "much"], "is no size"),
        (["--window", "2"], "--window is not for stores"),
        (["--drop-nan"], "--drop-nan is not for stores"),
        (["--fs", "3"], "has 100 samples per second"),
    ],
)
def test_wrong_options(store: Path, tmp_path: Path, options: list[str], message: str) -> None:
    done = call("fit", store, "-o", tmp_path / "a.tcm", *options)
    assert done.exit_code != 0
    assert message in done.stderr
    assert not (tmp_path / "a.tcm").exists()


def test_clusters_are_for_stores(folder: Path, tmp_path: Path) -> None:
    done = call("fit", folder / "0.npz", "-o", tmp_path / "a.tcm", "--workers", "2")
    assert done.exit_code == 2
    assert "tensorcontrast convert" in done.stderr


def test_wrong_conversions(folder: Path, store: Path, tmp_path: Path) -> None:
    for options, message in (
        (["--step", "1"], "--step goes with --window"),
        (["--window", "1", "--step", "2"], "at most --window"),
        (["--window", "0"], "not above 0"),
        (["--window", "1"], "hold windows already"),
        (["--channels", "nose"], "nose"),
    ):
        done = call("convert", folder, "-o", tmp_path / "s.zarr", *options)
        assert done.exit_code != 0
        assert message in done.stderr
    done = call("convert", folder, "-o", store)
    assert done.exit_code != 0
    assert "not overwritten" in done.stderr


def test_wfdb_records(tmp_path: Path) -> None:
    wfdb = pytest.importorskip("wfdb")
    source = tmp_path / "records"
    source.mkdir()
    rng = np.random.default_rng(0)
    signals = [rng.standard_normal((1000, 2)) for _ in range(3)]
    for i, values in enumerate(signals):
        wfdb.wrsamp(
            f"r{i}",
            fs=250,
            units=["mV", "mV"],
            sig_name=["I", "II"],
            p_signal=values,
            fmt=["16", "16"],
            write_dir=str(source),
        )
    done = call(
        "convert", source, "--window", "1", "--step", "0.5", "-o", tmp_path / "s.zarr", "--json"
    )
    assert done.exit_code == 0, done.stderr
    from tensorcontrast.distributed import open_store

    rec = open_store(tmp_path / "s.zarr")
    assert (len(rec), rec.n_times, rec.fs, rec.channels) == (21, 250, 250.0, ("I", "II"))
    np.testing.assert_allclose(rec.X[8].compute(), signals[1][125:375].T, atol=1e-3)
    assert rec.columns["recording"][8] == "r1.hea"
    assert rec.columns["start"][8] == 125


def test_edf_files_killed_and_converted_again(tmp_path: Path) -> None:
    edfio = pytest.importorskip("edfio")
    source = tmp_path / "nights"
    source.mkdir()
    rng = np.random.default_rng(0)
    for i in range(6):
        signals = [
            edfio.EdfSignal(rng.standard_normal(100 * 60), 100, label=name, physical_dimension="uV")
            for name in ("C3", "C4")
        ]
        edfio.Edf(signals).write(source / f"night{i}.edf")
    command = [sys.executable, "-m", "tensorcontrast", "convert", str(source), "--window", "2"]
    whole, killed = tmp_path / "whole.zarr", tmp_path / "killed.zarr"
    done = call("convert", source, "--window", "2", "-o", whole, "--json")
    assert done.exit_code == 0, done.stderr
    facts = json.loads(done.stdout)
    assert (facts["samples"], facts["n_times"], facts["fs"]) == (180, 200, 100.0)
    assert facts["channels"] == ["C3", "C4"]
    process = subprocess.Popen([*command, "-o", str(killed)], stderr=subprocess.DEVNULL)
    while not killed.exists() and process.poll() is None:
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    done = call("convert", source, "--window", "2", "-o", killed)
    assert done.exit_code == 0 or "not overwritten" in done.stderr  # it was faster than the kill
    files = {p.relative_to(whole): p.read_bytes() for p in sorted(whole.rglob("*")) if p.is_file()}
    again = {
        p.relative_to(killed): p.read_bytes() for p in sorted(killed.rglob("*")) if p.is_file()
    }
    assert files == again
