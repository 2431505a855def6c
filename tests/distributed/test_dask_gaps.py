"""Missing values and artefacts on Dask: the fit of the array, and no window leaves its worker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from tensorcontrast import ATD, CPD, PLC, ContrastiveFeatures, SpectrogramTensor
from tensorcontrast.datasets import make_cp_tensor, make_synthetic
from tensorcontrast.decompose.options import build

da = pytest.importorskip("dask.array")

N, DIMS = 1200, (4, 6, 5)
CHUNKS = (300, 37, 463, 400)
LIMITED = dict(rank=3, random_state=0, tol=0, max_iter=6)
MASKED = {
    "cpd": build(CPD, **LIMITED, missing="mask"),
    "plc": build(PLC, **LIMITED, missing="mask"),
    "tied": build(PLC, **LIMITED, solver="tied", n_epochs=2, missing="mask"),
    "plc-als": build(PLC, **LIMITED, solver="als", missing="mask"),
    "atd": build(ATD, **LIMITED, warm_up=2, missing="mask"),
    "both": build(PLC, **LIMITED, missing="mask", robust="huber"),
}
ROBUST = {
    "cpd": build(CPD, **LIMITED, robust="huber"),
    "plc": build(PLC, **LIMITED, robust="huber"),
    "plc-core": build(PLC, **LIMITED, robust="huber", compress=[3, 4, 3]),
    "plc-als": build(PLC, **LIMITED, solver="als", robust="huber"),
}


def tensor(*, gaps: bool = False, artefacts: bool = False) -> np.ndarray:
    X = make_cp_tensor(n_samples=N, dims=DIMS, rank=3, noise=0.1, random_state=0)[0]
    X = X.astype(np.float32)
    rng = np.random.default_rng(1)
    if artefacts:
        X[::97] += 40 * rng.standard_normal(X[::97].shape).astype(np.float32)
    if gaps:
        X[rng.random(X.shape) < 0.02] = np.nan
        X[::50, 1] = np.nan
    X[350:400] = np.nan_to_num(X[350:400])
    return X


def spread(X: np.ndarray, chunks: tuple[int, ...] = CHUNKS) -> Any:
    return da.from_array(X, chunks=(chunks, *X.shape[1:]))


def assert_same(here: Any, there: Any, X: np.ndarray) -> None:
    for U, V in zip(here.factors_, there.factors_, strict=True):
        np.testing.assert_allclose(U, V, atol=2e-4)
    np.testing.assert_allclose(here.center_, there.center_, atol=1e-5)
    assert there.scale_ == pytest.approx(here.scale_, rel=1e-6)
    assert there.reconstruction_error_ == pytest.approx(here.reconstruction_error_, abs=1e-4)
    np.testing.assert_allclose(
        here.history_["objective"], there.history_["objective"], rtol=1e-4, atol=1e-3
    )
    size = float(np.linalg.norm(here.features_, axis=1).mean())
    np.testing.assert_allclose(here.features_, there.features_, atol=2e-3 * size)
    found = there.transform(spread(X))
    assert found.shape == (N, 3)
    np.testing.assert_allclose(here.transform(X), np.asarray(found), atol=2e-3 * size)


@pytest.mark.parametrize("name", MASKED)
def test_gaps_as_in_memory(name: str) -> None:
    X = tensor(gaps=True, artefacts=name == "both")
    here, there = clone(MASKED[name]).fit(X), clone(MASKED[name]).fit(spread(X))
    assert_same(here, there, X)
    if name == "both":
        np.testing.assert_allclose(here.sample_weight_, there.sample_weight_, atol=1e-3)


@pytest.mark.parametrize("name", ROBUST)
def test_weights_as_in_memory(name: str) -> None:
    X = tensor(artefacts=True)
    here, there = clone(ROBUST[name]).fit(X), clone(ROBUST[name]).fit(spread(X))
    np.testing.assert_allclose(here.sample_weight_, there.sample_weight_, atol=1e-3)
    assert there.sample_weight_[::97].max() < 0.1
    assert_same(here, there, X)


def test_gaps_in_the_view_alone() -> None:
    X, view = tensor(), tensor(gaps=True)
    model = MASKED["plc-als"]
    assert_same(
        clone(model).fit(X, view=view), clone(model).fit(spread(X), view=spread(view)), tensor()
    )


def test_coupled_blocks_with_gaps_and_artefacts() -> None:
    X = tensor(gaps=True, artefacts=True)
    blocks = [X, np.nan_to_num(X[:, 0]) + 1]
    model = MASKED["both"]
    here = clone(model).fit(blocks)
    there = clone(model).fit([spread(block) for block in blocks])
    assert there.block_scales_ == pytest.approx(here.block_scales_, rel=1e-5)
    np.testing.assert_allclose(here.features_, there.features_, atol=5e-3)


def test_signals_with_gaps_and_artefacts(tmp_path: Path) -> None:
    zarr = pytest.importorskip("zarr")
    signals = make_synthetic(n_samples=600, random_state=0)
    X = signals.X.astype(np.float32)
    X[::7, 0, 20:60] = np.nan
    X[5] *= 200
    array = zarr.create_array(
        str(tmp_path / "x"), shape=X.shape, chunks=(200, *X.shape[1:]), dtype="float32"
    )
    array[:] = X
    model = ContrastiveFeatures(
        fs=signals.fs,
        tensorize=SpectrogramTensor(n_quantiles=5),
        decompose=build(PLC, rank=3, max_iter=5, tol=0, robust="huber"),
        missing="mask",
        random_state=0,
    )
    here, there = clone(model).fit(X), clone(model).fit(da.from_zarr(str(tmp_path / "x")))
    assert there.decompose_.sample_weight_[5] < 0.2
    expected, found = here.transform(X), np.asarray(there.transform(da.from_zarr(array)))
    size = float(np.linalg.norm(expected, axis=1).mean())
    np.testing.assert_allclose(expected, found, atol=5e-3 * size)


def test_a_checkpoint_with_gaps_goes_on(tmp_path: Path) -> None:
    X, place = tensor(gaps=True), tmp_path / "fit.tcc"
    model = MASKED["plc"]
    whole = clone(model).fit(spread(X))
    stopped = clone(model).set_params(callback=lambda row: row["iteration"] == 3)
    stopped.fit(spread(X), checkpoint=place, every=1)
    resumed = clone(model).fit(spread(X), resume=place)
    assert resumed.n_iter_ == whole.n_iter_ == 6
    np.testing.assert_allclose(resumed.features_, whole.features_, atol=1e-4)


def test_no_task_returns_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    from tensorcontrast.distributed import blocks as on

    X = tensor(gaps=True, artefacts=True)
    largest, brought = [0], on.computed

    def counted(tasks: Any, **more: Any) -> list[Any]:
        found = brought(tasks, **more)
        largest[0] = max([largest[0], *(_values(part) for part in found)])
        return found

    monkeypatch.setattr(on, "computed", counted)
    clone(MASKED["both"]).fit(spread(X))
    assert 0 < largest[0] <= max(CHUNKS) * 60  # of 120 entries: every third for the median


def _values(part: Any) -> int:
    if isinstance(part, list | tuple):
        return sum(_values(one) for one in part)
    return int(np.size(getattr(part, "X", part)))
