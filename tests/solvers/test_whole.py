"""Sweeps over whole windows that end a fit on cores: what they regain, wherever windows are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from tensorcontrast import CPD, PLC
from tensorcontrast.datasets import make_cp_tensor
from tensorcontrast.decompose.options import build
from tensorcontrast.solvers.tuning import Tuning

CORE = [3, 4, 3]
MODELS = {
    name: build(kind, rank=4, random_state=0, tol=0, max_iter=12, compress=CORE, **more)
    for name, kind, more in (
        ("cpd", CPD, {}),
        ("plc", PLC, {}),
        ("robust", PLC, {"robust": "huber"}),
    )
}


@pytest.fixture(scope="module")
def X() -> np.ndarray:
    made = make_cp_tensor(n_samples=1100, dims=(5, 8, 7), rank=6, noise=0.1, random_state=0)[0]
    return made.astype(np.float32)


def on_cores(model: Any) -> Any:
    """Clone a model without the last sweeps."""
    out = clone(model)
    sketch = type(Tuning().sketch)(final_sweeps=0)
    out._tuning = Tuning(sketch=sketch)
    return out


@pytest.mark.parametrize("name", MODELS)
def test_they_lower_the_error_of_cores(name: str, X: np.ndarray) -> None:
    cores, whole = on_cores(MODELS[name]).fit(X), clone(MODELS[name]).fit(X)
    assert whole.core_dims_ == cores.core_dims_ == tuple(CORE)
    assert whole.n_iter_ == cores.n_iter_ == 12
    assert whole.reconstruction_error_ < 0.99 * cores.reconstruction_error_
    drops = -np.diff(whole.history_["objective"])
    assert drops[-2] > 5 * drops[-3] > 0
    np.testing.assert_allclose(whole.transform(X), whole.features_, atol=1e-3)


@pytest.mark.parametrize("name", MODELS)
def test_files_streams_and_workers_agree(name: str, X: np.ndarray, tmp_path: Path) -> None:
    here = clone(MODELS[name]).fit(X)
    np.save(tmp_path / "x.npy", X)
    others = {
        "mapped": np.load(tmp_path / "x.npy", mmap_mode="r"),
        "stream": lambda: iter(np.array_split(X, 3)),
    }
    array = pytest.importorskip("dask.array")
    others["dask"] = array.from_array(X, chunks=((512, 512, 76), -1, -1, -1))
    for kind, data in others.items():
        there = clone(MODELS[name]).fit(data)
        np.testing.assert_allclose(
            np.asarray(there.features_), here.features_, atol=1e-3, err_msg=kind
        )
        assert there.reconstruction_error_ == pytest.approx(here.reconstruction_error_, rel=5e-3)
        np.testing.assert_allclose(
            there.history_["objective"], here.history_["objective"], rtol=1e-4
        )


def test_both_views_take_part(X: np.ndarray) -> None:
    array = pytest.importorskip("dask.array")
    view = X + np.float32(0.1)
    here = clone(MODELS["cpd"]).fit(X, view=view)
    there = clone(MODELS["cpd"]).fit(array.from_array(X, chunks=(512, -1, -1, -1)), view=view)
    assert here.history_["objective"][-1] < here.history_["objective"][-3]
    np.testing.assert_allclose(there.features_, here.features_, atol=1e-3)


def test_ctrl_c_and_checkpoints(X: np.ndarray, tmp_path: Path) -> None:
    model, place = MODELS["plc"], tmp_path / "fit.tcc"
    whole = clone(model).fit(X)
    for at in (10, 11):

        def interrupt(row: dict[str, float], at: int = at) -> None:
            if row["iteration"] == at:
                raise KeyboardInterrupt

        stopped = clone(model).set_params(callback=interrupt)
        with pytest.raises(KeyboardInterrupt, match="can be used"):
            stopped.fit(X, checkpoint=place, every=1)
        assert stopped.interrupted_ and np.isfinite(stopped.transform(X)).all()
        resumed = clone(model).fit(X, resume=place)
        assert resumed.n_iter_ == 12
        np.testing.assert_array_equal(resumed.features_, whole.features_)
        place.unlink()


def test_an_exact_model_has_no_error_left() -> None:
    X = make_cp_tensor(n_samples=600, dims=(5, 8, 7), rank=2, noise=0.0, random_state=0)[0]
    model = build(CPD, rank=2, random_state=0, alpha=1e-9, tol=0, max_iter=60, compress=[2, 2, 2])
    assert model.fit(X).reconstruction_error_ < 1e-3
