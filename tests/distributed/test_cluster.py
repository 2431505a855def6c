"""Fits on a real cluster of processes: the same model, whoever dies, and few bytes that travel."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from tensorcontrast import CPD, PLC, ContrastiveFeatures, SpectrogramTensor, load_model
from tensorcontrast.datasets import make_cp_tensor, make_synthetic
from tensorcontrast.errors import InvalidInputError, TensorContrastError

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")

N, DIMS = 2100, (6, 10, 8)
MODEL = PLC(rank=4, max_iter=8, random_state=0)


def tensor(repeats: int = 1) -> np.ndarray:
    X = make_cp_tensor(n_samples=N, dims=DIMS, rank=4, noise=0.3, random_state=0)[0]
    return np.concatenate([X.astype(np.float32)] * repeats)


def spread(X: np.ndarray, *blocks: int) -> Any:
    return da.from_array(X, chunks=(blocks or (300,) * (len(X) // 300), *DIMS))


@contextmanager
def two_workers(**settings: Any) -> Iterator[Any]:
    with (
        dask.config.set(settings),
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            dashboard_address=":0",
            memory_limit="1GiB",
            silence_logs=logging.CRITICAL,
        ) as made,
        distributed.Client(made, timeout=60) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Of two workers, where the scheduler takes no task from the one that it was given to."""
    with two_workers(**{"distributed.scheduler.work-stealing": False}) as client:
        yield client


@pytest.fixture
def mortal_cluster() -> Iterator[Any]:
    """Of one test alone: whoever kills a worker must not wait for the last one's successor."""
    with two_workers() as client:
        yield client


@pytest.fixture(scope="module")
def serial() -> Any:
    return clone(MODEL).fit(tensor())


def assert_same(a: Any, b: Any) -> None:
    for U, V in zip(a.factors_, b.factors_, strict=True):
        np.testing.assert_allclose(U, V, atol=1e-6)
    np.testing.assert_allclose(a.transform(tensor()), b.transform(tensor()), atol=1e-3)
    assert a.n_iter_ == b.n_iter_


@pytest.mark.parametrize("blocks", [(N,), (), (500, 0, 37, 963, 100, 500)], ids=str)
def test_the_cluster_gives_the_serial_model(
    cluster: Any, serial: Any, blocks: tuple[int, ...]
) -> None:
    there = clone(MODEL).fit(spread(tensor(), *blocks))
    assert_same(serial, there)
    lazy = there.transform(spread(tensor(), *blocks))
    np.testing.assert_allclose(lazy.compute(), serial.transform(tensor()), atol=1e-3)


def test_signals_on_the_cluster(cluster: Any) -> None:
    rec = make_synthetic(n_samples=1200, n_times=64, n_classes=3, random_state=0)
    model = ContrastiveFeatures(
        fs=rec.fs, tensorize=SpectrogramTensor(), decompose=PLC(4, gamma=0), random_state=0
    )
    here = clone(model).fit(rec.X)
    signals = da.from_array(rec.X, chunks=((500, 700), *rec.X.shape[1:]))
    there = clone(model).fit(signals)
    W = here.transform(rec.X)
    np.testing.assert_allclose(np.asarray(there.transform(signals)), W, atol=1e-3)


def test_errors_of_a_block_reach_the_caller(cluster: Any) -> None:
    X = tensor()
    X[333, 2, 3, 4] = np.nan
    with pytest.raises(InvalidInputError, match=r"X\[333, 2, 3, 4\]"):
        CPD(rank=2).fit(spread(X))


# ---------------------------------------------------------------------------- what travels


def sent(dask_worker: Any) -> int:
    return int(dask_worker.transfer_outgoing_bytes_total)


def test_workers_have_equal_shares_of_what_is_read(cluster: Any) -> None:
    from tensorcontrast.solvers.dask_windows import DaskWindows

    X = tensor(2)[: 8 * 512]
    blocks = da.from_array(X, chunks=(512, *DIMS))
    windows = DaskWindows.from_arrays([blocks], X.dtype, nan=False).kept()
    assert sorted(Counter(windows.slots).values()) == [4, 4]
    assert len({home for home, _ in windows.slots}) == 2
    np.testing.assert_array_equal(windows.map(np.asarray), X.reshape(len(X), -1))


def test_windows_stay_with_their_workers(cluster: Any) -> None:
    """Four times the windows, hardly more bytes a sweep between workers."""
    moved = []
    for repeats in (1, 4):
        marks: dict[int, int] = {}

        def mark(row: dict[str, float], marks: dict[int, int] = marks) -> None:
            marks[int(row["iteration"])] = sum(cluster.run(sent).values())

        clone(MODEL).set_params(callback=mark).fit(da.concatenate([spread(tensor())] * repeats))
        moved.append(marks[7] - marks[2])
    assert 0 <= moved[1] < 1.5 * moved[0] + 2**16


# ---------------------------------------------------------------------------- what is lost


def test_a_killed_worker_does_not_change_the_result(mortal_cluster: Any, serial: Any) -> None:
    killed: list[int] = []

    def kill(row: dict[str, float]) -> None:
        if row["iteration"] == 3 and not killed:
            pids = distributed.get_client().run(os.getpid)
            killed.append(next(iter(pids.values())))
            os.kill(killed[0], signal.SIGKILL)

    hurt = clone(MODEL).set_params(callback=kill).fit(spread(tensor()))
    assert killed
    assert_same(serial, hurt)


def test_a_lost_scheduler_leaves_a_model_to_go_on_from(tmp_path: Path) -> None:
    place, path = tmp_path / "scheduler.json", tmp_path / "m.tcm"
    env = {**os.environ, "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "2s"}

    def started(module: str, *more: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", f"distributed.cli.{module}", "--scheduler-file", place]
        return subprocess.Popen(
            [*map(str, command), *more, "--no-dashboard"],
            env=env,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    scheduler = started("dask_scheduler", "--port", "0")
    worker = started("dask_worker", "--nthreads", "1", "--no-nanny")
    model = CPD(rank=4, random_state=0, max_iter=8, tol=0)
    X = spread(tensor(), 600, 900, 600)
    log = logging.getLogger("distributed")
    level = log.level
    log.setLevel(logging.CRITICAL + 1)
    try:
        deadline = time.monotonic() + 60
        while not place.exists() and time.monotonic() < deadline:
            time.sleep(0.1)

        def lose(row: dict[str, float]) -> None:
            if row["iteration"] == 5:
                scheduler.kill()

        with (
            dask.config.set({"distributed.comm.timeouts.connect": "2s"}),
            distributed.Client(scheduler_file=str(place), timeout=60),
            pytest.raises(TensorContrastError, match="scheduler"),
        ):
            clone(model).set_params(callback=lose).fit(X, autosave=path)
    finally:
        log.setLevel(level)
        for process in (scheduler, worker):
            process.kill()
            process.wait()
    saved = load_model(path)
    assert 1 < saved.n_iter_ <= 5
    with dask.config.set(scheduler="threads"):
        resumed = clone(model).fit(X, init=saved)
    assert resumed.n_iter_ == 8
    whole = clone(model).fit(tensor())
    assert resumed.reconstruction_error_ == pytest.approx(whole.reconstruction_error_, rel=1e-3)
