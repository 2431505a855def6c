"""Fits on a real cluster of processes: the same model, whoever dies."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from tensorcontrast import (
    ATD,
    CPD,
    PLC,
    ContrastiveFeatures,
    ConvolutionFeatures,
    SpectrogramTensor,
)
from tensorcontrast.datasets import make_cp_tensor, make_synthetic
from tensorcontrast.decompose.options import build
from tensorcontrast.distributed.source import DaskSource
from tensorcontrast.errors import InvalidInputError, TensorContrastError

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")

N, DIMS = 2100, (6, 10, 8)
MODEL = build(PLC, rank=4, random_state=0, n_epochs=3, tol=1e-4, compress=[3, 5, 4])


def tensor() -> np.ndarray:
    return make_cp_tensor(n_samples=N, dims=DIMS, rank=4, random_state=0)[0].astype(np.float32)


def spread(*blocks: int) -> Any:
    return da.from_array(tensor(), chunks=(blocks, *DIMS))


@contextmanager
def two_workers() -> Iterator[Any]:
    with (
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            dashboard_address=":0",
            memory_limit="1GiB",
            silence_logs=logging.CRITICAL,
        ) as made,
        distributed.Client(made, timeout=60),
    ):
        yield made


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with two_workers() as made:
        yield made


@pytest.fixture
def mortal_cluster() -> Iterator[Any]:
    """Of one test alone: whoever kills a worker must not wait for the last one's successor."""
    with two_workers() as made:
        yield made


OTHERS = {
    "paper": PLC.paper(rank=4, random_state=0, max_iter=5, tol=0.0, compress=[3, 5, 4]),
    "atd": build(ATD, rank=4, random_state=0, max_iter=5, tol=0.0, compress=[3, 5, 4]),
}


@pytest.fixture(scope="module")
def serial() -> Any:
    return clone(MODEL).fit(tensor())


def assert_same(a: Any, b: Any, atol: float = 1e-4) -> None:
    for U, V in zip(a.factors_, b.factors_, strict=True):
        np.testing.assert_allclose(U, V, atol=atol)
    np.testing.assert_array_equal(a.labels_, b.labels_)
    np.testing.assert_allclose(a.features_, b.features_, atol=10 * atol)
    assert a.n_iter_ == b.n_iter_


@pytest.mark.parametrize(
    "blocks",
    [(N,), (300,) * 7, (500, 0, 37, 963, 100, 500)],
    ids=lambda b: str(len(b)),
)
def test_the_cluster_gives_the_serial_model(
    cluster: Any, serial: Any, blocks: tuple[int, ...]
) -> None:
    there = clone(MODEL).fit(spread(*blocks))
    assert_same(serial, there)
    features = there.transform(spread(*blocks))
    np.testing.assert_allclose(features.compute(), serial.transform(tensor()), atol=1e-4)


@pytest.mark.parametrize("name", OTHERS)
def test_contrasts_of_all_samples(cluster: Any, name: str) -> None:
    here = clone(OTHERS[name]).fit(tensor())
    for blocks in ((300,) * 7, (500, 0, 37, 963, 100, 500)):
        assert_same(here, clone(OTHERS[name]).fit(spread(*blocks)))


def test_signals_on_the_cluster(cluster: Any) -> None:
    rec = make_synthetic(n_samples=1200, n_times=64, n_classes=3, random_state=0)
    blocks = [SpectrogramTensor(n_quantiles=4), ConvolutionFeatures(8, n_biases=2)]
    model = ContrastiveFeatures(
        fs=rec.fs, tensorize=blocks, decompose=build(PLC, rank=4, tol=1e-3), random_state=0
    )
    here = clone(model).fit(rec.X)
    there = clone(model).fit(da.from_array(rec.X, chunks=((500, 700), *rec.X.shape[1:])))
    for U, V in zip(here.factors_, there.factors_, strict=True):
        np.testing.assert_allclose(U, V, atol=1e-4)
    np.testing.assert_array_equal(here.labels_, there.labels_)


def test_errors_of_a_block_reach_the_caller(cluster: Any) -> None:
    X = tensor()
    X[333, 2, 3, 4] = np.nan
    with pytest.raises(InvalidInputError, match=r"X\[333, 2, 3, 4\] is nan"):
        CPD(rank=2).fit(da.from_array(X, chunks=(300, *DIMS)))


@pytest.mark.parametrize("model", [MODEL, OTHERS["paper"]], ids=["tied", "paper"])
def test_a_killed_worker_does_not_change_the_result(mortal_cluster: Any, model: Any) -> None:
    killed: list[int] = []

    def kill(row: dict[str, float]) -> None:
        if row["iteration"] == 3 and not killed:
            pids = distributed.get_client().run(os.getpid)
            killed.append(next(iter(pids.values())))
            os.kill(killed[0], signal.SIGKILL)

    whole = clone(model).fit(spread(*(300,) * 7))
    assert DaskSource(spread(*(300,) * 7)).X.numblocks[0] == 5
    hurt = clone(model).set_params(callback=kill).fit(spread(*(300,) * 7))
    assert killed
    assert_same(whole, hurt, atol=0.0)


def test_a_lost_scheduler_leaves_a_checkpoint(tmp_path: Path) -> None:
    place, path = tmp_path / "scheduler.json", tmp_path / "fit.ckpt"
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
    model = build(CPD, rank=4, random_state=0, max_iter=8, tol=0)
    X = spread(600, 900, 600)
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
            pytest.raises(TensorContrastError, match="scheduler was lost"),
        ):
            clone(model).set_params(callback=lose).fit(X, checkpoint=str(path), every=1)
    finally:
        log.setLevel(level)
        for process in (scheduler, worker):
            process.kill()
            process.wait()
    assert path.exists()
    iterations: list[float] = []
    with dask.config.set(scheduler="threads"):
        resumed = clone(model).set_params(callback=lambda row: iterations.append(row["iteration"]))
        resumed.fit(X, checkpoint=str(path), resume=str(path))
        assert iterations[0] > 1
        assert_same(clone(model).fit(X), resumed, atol=0.0)
