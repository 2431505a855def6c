"""A fit of a Dask array is the fit of the array: any blocks, any scheduler, gaps, signals."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from tensorcontrast import CPD, PLC, ContrastiveFeatures, ConvolutionFeatures, SpectrogramTensor
from tensorcontrast.datasets import make_cp_tensor, make_synthetic
from tensorcontrast.errors import (
    InvalidInputError,
    InvalidTypeError,
    MissingDependencyError,
    TensorContrastError,
)

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")

N, DIMS = 1600, (4, 6, 5)
BLOCKS = {
    "1": (1600,),
    "4": (400,) * 4,
    "uneven": (500, 1, 37, 463, 20, 579),
    "empty": (600, 0, 500, 500, 0),
}
SHORT = {"rank": 4, "max_iter": 10, "random_state": 0}
FITS = {
    "cpd": CPD(**SHORT, tol=0),
    "cpd-raw": CPD(**SHORT, tol=0, center=False, scale=False),
    "cpd-gaps": CPD(**SHORT, tol=0, missing="mask"),
    "plc": PLC(**SHORT),
    "plc-gaps": PLC(**SHORT, missing="mask"),
}


def tensor(name: str = "", dtype: str = "float32") -> np.ndarray:
    X = make_cp_tensor(n_samples=N, dims=DIMS, rank=4, noise=0.5, random_state=0)[0].astype(dtype)
    if "gaps" in name:
        X[np.random.default_rng(1).random(X.shape) < 0.02] = np.nan
        X[::50, 1] = np.nan
    return X


def spread(X: np.ndarray, blocks: str | tuple[int, ...]) -> Any:
    sizes = BLOCKS[blocks] if isinstance(blocks, str) else blocks
    return da.from_array(X, chunks=(sizes, *X.shape[1:]))


def assert_same(here: Any, there: Any, X: np.ndarray, atol: float = 1e-5) -> None:
    np.testing.assert_allclose(
        there.history_["objective"], here.history_["objective"], rtol=1e-9 if atol < 1 else 1e-3
    )
    for U, V in zip(here.factors_, there.factors_, strict=True):
        np.testing.assert_allclose(U, V, atol=atol)
    for name in ("center_", "weights_", "feature_gram_", "ridge_"):
        np.testing.assert_allclose(getattr(there, name), getattr(here, name), rtol=1e-4, atol=atol)
    for name in ("scale_", "reconstruction_error_"):
        assert getattr(there, name) == pytest.approx(getattr(here, name), rel=1e-6)
    W = here.transform(X)
    size = np.linalg.norm(W, axis=1).mean()
    np.testing.assert_allclose(there.transform(X), W, atol=10 * atol * size)
    lazy = there.transform(spread(X, "uneven"))
    assert isinstance(lazy, da.Array) and lazy.dtype == W.dtype and lazy.shape == W.shape
    np.testing.assert_allclose(np.asarray(lazy), W, atol=10 * atol * size)
    assert there.score(spread(X, "4")) == pytest.approx(here.score(X), abs=1e-6)


@pytest.fixture(scope="module")
def serial() -> dict[str, Any]:
    return {name: clone(model).fit(tensor(name)) for name, model in FITS.items()}


@pytest.mark.parametrize("blocks", BLOCKS)
@pytest.mark.parametrize("name", FITS)
def test_equals_the_serial_fit(serial: dict[str, Any], name: str, blocks: str) -> None:
    X = tensor(name)
    there = clone(FITS[name]).fit(spread(X, blocks))
    assert_same(serial[name], there, X)
    if name == "plc":
        assert (there.labels_ == serial[name].labels_).mean() > 0.99
        assert there.nuisance_strength_ == pytest.approx(serial[name].nuisance_strength_, rel=1e-3)


def test_the_same_to_the_bit(serial: dict[str, Any]) -> None:
    """Sums are of the same strips, so that nothing is left for chance to amplify."""
    there = clone(FITS["cpd"]).fit(spread(tensor(), "uneven"))
    for U, V in zip(serial["cpd"].factors_, there.factors_, strict=True):
        np.testing.assert_array_equal(U, V)
    np.testing.assert_allclose(
        there.history_["objective"], serial["cpd"].history_["objective"], 1e-12
    )


def test_float64_agrees_to_its_own_precision() -> None:
    X = tensor(dtype="float64")
    here = clone(FITS["cpd"]).fit(X)
    assert_same(here, clone(FITS["cpd"]).fit(spread(X, "uneven")), X, atol=1e-10)


@pytest.mark.parametrize("scheduler", ["synchronous", "threads", "processes"])
def test_any_scheduler(serial: dict[str, Any], scheduler: str) -> None:
    pool = None
    if scheduler == "processes":  # one pool for all computations
        pool = ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))
    try:
        with dask.config.set(scheduler=scheduler, **({} if pool is None else {"pool": pool})):
            there = clone(FITS["cpd"]).fit(spread(tensor(), "4"))
    finally:
        if pool is not None:
            pool.shutdown()
    assert_same(serial["cpd"], there, tensor())


@pytest.mark.parametrize(("graph", "share"), [("true", 1.0), ("true", 0.3), ("pseudo", 0.3)])
def test_labels_and_nuisance_take_part(graph: str, share: float) -> None:
    X, y, *_ = make_cp_tensor(n_samples=N, dims=DIMS, rank=4, noise=0.5, random_state=0)
    some = np.where(np.random.default_rng(0).random(N) < share, y, -1)
    nuisance = np.random.default_rng(1).normal(size=(60, *DIMS))
    here, there = (PLC(**SHORT, graph=graph, epsilon=0.2) for _ in range(2))
    here.fit(X, some, nuisance=nuisance)
    there.fit(spread(X, "uneven"), some, nuisance=nuisance)
    assert there.nuisance_strength_ == pytest.approx(here.nuisance_strength_, rel=1e-3)
    np.testing.assert_allclose(there.transform(X), here.transform(X), atol=1e-3)


def test_signals() -> None:
    rec = make_synthetic(n_samples=900, n_classes=3, random_state=0)
    parts = [SpectrogramTensor(n_quantiles=4), ConvolutionFeatures(16, n_biases=2)]
    model = ContrastiveFeatures(
        fs=rec.fs, tensorize=parts, decompose=PLC(4, gamma=0), random_state=0
    )
    here = clone(model).fit(rec.X)
    W = here.transform(rec.X)
    for blocks in ((900,), (300, 0, 257, 343)):
        signals = da.from_array(rec.X, chunks=(blocks, 2, 50))
        there = clone(model).fit(signals)
        np.testing.assert_allclose(np.asarray(there.transform(signals)), W, atol=1e-3)


def test_stored_signals_with_gaps(tmp_path: Path) -> None:
    zarr = pytest.importorskip("zarr")
    signals = make_synthetic(n_samples=600, random_state=0)
    X = signals.X.astype(np.float32)
    X[::7, 0, 20:60] = np.nan
    array = zarr.create_array(
        str(tmp_path / "x"), shape=X.shape, chunks=(200, *X.shape[1:]), dtype="float32"
    )
    array[:] = X
    model = ContrastiveFeatures(
        fs=signals.fs,
        tensorize=SpectrogramTensor(n_quantiles=5),
        decompose=PLC(3, max_iter=5),
        missing="mask",
        random_state=0,
    )
    here, there = clone(model).fit(X), clone(model).fit(da.from_zarr(str(tmp_path / "x")))
    W = here.transform(X)
    found = np.asarray(there.transform(da.from_zarr(array)))
    np.testing.assert_allclose(found, W, atol=5e-3 * np.linalg.norm(W, axis=1).mean())


def test_sizes_that_are_not_known(serial: dict[str, Any]) -> None:
    X = tensor()
    unknown = da.concatenate(
        [
            da.from_delayed(dask.delayed(X[a:b]), (np.nan, *DIMS), X.dtype)
            for a, b in ((0, 50), (50, N))
        ]
    )
    assert np.isnan(unknown.shape[0])
    assert_same(serial["cpd"], clone(FITS["cpd"]).fit(unknown), X)
    assert len(np.asarray(serial["cpd"].transform(unknown))) == N


def test_autosave_and_going_on(tmp_path: Path) -> None:
    from tensorcontrast import load_model

    X, path = spread(tensor(), "4"), tmp_path / "m.tcm"
    model = clone(FITS["plc"]).set_params(callback=lambda row: row["iteration"] == 6)
    model.fit(X, autosave=path)
    assert load_model(path).n_iter_ == 5
    again = clone(FITS["plc"]).fit(X, init=load_model(path))
    assert again.n_iter_ == 10


# ---------------------------------------------------------------------------- what travels


def values_of(part: Any) -> int:
    if isinstance(part, list | tuple):
        return sum(map(values_of, part))
    return int(np.size(part))


@pytest.mark.parametrize("name", ["cpd", "plc-gaps"])
def test_only_sums_reach_the_caller(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Four times the windows, no more values a sweep."""
    from tensorcontrast.solvers import dask_windows as graph

    seen: list[int] = []
    brought = graph.computed

    def counted(tasks: Any) -> list[Any]:
        found = brought(tasks)
        seen.append(values_of(found))
        return found

    monkeypatch.setattr(graph, "computed", counted)
    moved = []
    for repeats in (1, 4):
        marks: dict[float, int] = {}

        def mark(row: dict[str, float], marks: dict[float, int] = marks) -> None:
            marks[row["iteration"]] = len(seen)

        X = tensor(name)[:1100]
        blocks = (512, 588) * repeats
        clone(FITS[name]).set_params(callback=mark).fit(
            spread(np.concatenate([X] * repeats), blocks)
        )
        moved.append(max(sum(seen[marks[k] : marks[k + 1]]) for k in range(1, 9)))
        a_sum = 4 * 120 + 4 * 4 + 1
        assert moved[-1] <= 8 * a_sum  # at the top of a tree
    assert moved[1] <= 4 * moved[0]
    assert max(seen) <= max(8 * a_sum + 8 * 3 * 120, 512 * 120)  # the sample of mean and metric


# ---------------------------------------------------------------------------- what is refused


def test_bad_values_are_named_by_their_place() -> None:
    X = tensor()
    X[1333, 2, 3, 4] = np.nan
    with pytest.raises(InvalidInputError, match=r"X\[1333, 2, 3, 4\]"):
        CPD(rank=2).fit(spread(X, "4"))
    for wrong, word in (
        (da.ones((40, 4, 5), chunks=(10, 4, 5)), "equal"),
        (da.ones((1, 4, 5)), "at least 2"),
        (da.ones((0, 4, 5)), "shape"),
        (da.ones((9, 0, 5)), "shape"),
        (da.ones(5), "shape"),
        (da.ones(()), "shape"),
    ):
        with pytest.raises(InvalidInputError, match=word):
            CPD(rank=2).fit(wrong)
    for wrong in (da.from_array(np.full((4, 3), "a"), chunks=2), da.ones((9, 3), dtype=complex)):
        with pytest.raises((InvalidTypeError, InvalidInputError), match="numbers"):
            CPD(rank=2).fit(wrong)
    model = CPD(rank=2, max_iter=2, tol=0).fit(tensor())
    with pytest.raises(InvalidInputError, match="dims"):
        model.transform(da.ones((5, 4, 6, 4)))


def test_an_estimator_is_left_as_it_was_where_a_fit_fails() -> None:
    model = clone(FITS["cpd"]).fit(tensor())
    before = model.factors_
    X = tensor()
    X[1400] = np.inf
    with pytest.raises(InvalidInputError, match="infinity"):
        model.fit(spread(X, "4"))
    assert model.factors_ is before


def test_dask_is_not_imported_and_not_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    code = (
        "import sys, tensorcontrast; tensorcontrast.PLC, tensorcontrast.ContrastiveFeatures\n"
        "import numpy as np\n"
        "tensorcontrast.CPD(rank=2, max_iter=2, tol=0).fit(np.random.rand(9, 3, 4))\n"
        "assert not {'dask', 'distributed', 'zarr'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    from tensorcontrast.utils import optional

    monkeypatch.setattr(
        optional, "import_module", lambda name: (_ for _ in ()).throw(ImportError())
    )
    with pytest.raises(MissingDependencyError, match=r"tensorcontrast\[dask\]"):
        optional.optional("dask", "dask")


def test_workers_without_memory_end_the_fit_with_the_way_out() -> None:
    from tensorcontrast.solvers.dask_windows import cluster_errors

    def full(block: Any) -> Any:
        raise MemoryError

    X = da.zeros((60, 4, 5), chunks=(20, 4, 5)).map_blocks(full, meta=np.zeros((0, 4, 5)))
    with pytest.raises(TensorContrastError, match="memory"):
        CPD(rank=2).fit(X)
    killed = type("KilledWorker", (Exception,), {})
    with pytest.raises(TensorContrastError, match="memory"), cluster_errors():
        raise killed("task")
