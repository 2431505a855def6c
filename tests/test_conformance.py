"""Every estimator over every kind of input: the same windows give the same features."""

import numpy as np
import pytest
from sklearn.base import clone

from tensorcontrast import (
    ATD,
    CPD,
    PLC,
    Algorithm1,
    ContrastiveFeatures,
    Recordings,
    SpectrogramTensor,
)
from tensorcontrast.datasets import make_cp_tensor, make_synthetic
from tensorcontrast.errors import InvalidInputError
from tensorcontrast.utils import threads

SHORT = {"rank": 3, "max_iter": 8, "tol": 0, "random_state": 0}

ESTIMATORS = {
    "cpd": CPD(**SHORT),
    "atd": ATD(**SHORT),
    "plc": PLC(**SHORT, n_clusters=4),
    "algorithm 1": Algorithm1(**SHORT, n_clusters=4, warm_up=2),
}
X = make_cp_tensor(120, (4, 6, 5), 3, n_classes=4, noise=0.2, random_state=0)[0].astype("float32")


def mapped(X, folder):
    np.save(folder / "X.npy", X)
    return np.load(folder / "X.npy", mmap_mode="r")


def stored(X, folder):
    zarr = pytest.importorskip("zarr", reason="needs the extra 'dask'")
    array = zarr.create_array(
        store=str(folder / "X.zarr"), shape=X.shape, chunks=(50, *X.shape[1:]), dtype=X.dtype
    )
    array[:] = X
    return array


def on_dask(X, folder):
    dask = pytest.importorskip("dask.array", reason="needs the extra 'dask'")
    return dask.from_array(X, chunks=(50, *X.shape[1:]))


#: From windows and a folder to the same windows in another form.
INPUTS = {
    "array": lambda X, folder: X,
    "Fortran order": lambda X, folder: np.asfortranarray(X),
    "strided": lambda X, folder: np.repeat(X, 2, axis=0)[::2],
    "reversed": lambda X, folder: X[::-1].copy()[::-1],
    "read-only": lambda X, folder: np.lib.stride_tricks.as_strided(X, writeable=False),
    "big-endian": lambda X, folder: X.astype(X.dtype.newbyteorder(">")),
    "float64": lambda X, folder: X.astype("float64"),
    "float16 rounds first": lambda X, folder: X.astype("float16"),
    "nested lists": lambda X, folder: X.tolist(),
    "mapped file": mapped,
    "Zarr": stored,
    "Dask": on_dask,
}
#: The same numbers in other memory: the same bits.
LAYOUTS = {"Fortran order", "strided", "reversed", "read-only", "big-endian"}
#: Where numbers differ from float32 before the fit begins.
ROUNDED = {"float64", "float16 rounds first"}


def fitted(estimator, X):
    return clone(estimator).fit(X)


@pytest.fixture(scope="module")
def wanted():
    return {
        name: np.asarray(fitted(estimator, X).transform(X))
        for name, estimator in ESTIMATORS.items()
    }


@pytest.mark.parametrize("kind", INPUTS)
@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_input_gives_the_same_features(name, kind, wanted, tmp_path):
    if kind == "Dask" and name in ("atd", "algorithm 1"):
        with pytest.raises(InvalidInputError, match="compute"):
            fitted(ESTIMATORS[name], INPUTS[kind](X, tmp_path))
        return
    model = fitted(ESTIMATORS[name], INPUTS[kind](X, tmp_path))
    found = np.asarray(model.transform(X))
    scale = np.abs(wanted[name]).max()
    if kind in ROUNDED:  # another precision: the same space, not the same digits
        assert found.shape == wanted[name].shape and np.isfinite(found).all()
        assert model.center_.dtype == ("float64" if kind == "float64" else "float32")
        assert model.reconstruction_error_ < 0.8
    else:
        near = 0.0 if kind in LAYOUTS else 1e-4
        np.testing.assert_allclose(found, wanted[name], rtol=0, atol=near * scale)


@pytest.mark.parametrize("kind", [k for k in INPUTS if k not in ROUNDED])
def test_every_input_is_transformed_alike(kind, wanted, tmp_path):
    model = fitted(ESTIMATORS["plc"], X)
    found = np.asarray(model.transform(INPUTS[kind](X, tmp_path)))
    np.testing.assert_allclose(found, wanted["plc"], atol=1e-5 * np.abs(found).max())


@pytest.mark.parametrize("name", ESTIMATORS)
def test_threads_change_nothing(name, wanted):
    with threads.jobs(2):
        found = np.asarray(fitted(ESTIMATORS[name], X).transform(X))
    np.testing.assert_allclose(found, wanted[name], atol=1e-4 * np.abs(found).max())


# ---------------------------------------------------------------------------- signals

REC = make_synthetic(n_samples=90, n_classes=3, random_state=0)
SIGNALS = {
    "array": lambda rec, folder: rec.X,
    "Recordings": lambda rec, folder: rec,
    **{kind: lambda rec, folder, kind=kind: INPUTS[kind](rec.X, folder) for kind in LAYOUTS},
    "mapped file": lambda rec, folder: mapped(rec.X, folder),
    "Dask": lambda rec, folder: on_dask(rec.X, folder),
    "float64": lambda rec, folder: rec.X.astype("float64"),
    "nested lists": lambda rec, folder: rec.X.tolist(),
}


def features_of(data):
    core = PLC(**SHORT, gamma=0.0)  # rounding moves single windows between clusters
    model = ContrastiveFeatures(
        REC.fs, tensorize=SpectrogramTensor(n_quantiles=4), decompose=core, random_state=0
    )
    return np.asarray(model.fit(data).transform(REC.X))


@pytest.fixture(scope="module")
def wanted_of_signals():
    assert isinstance(REC, Recordings)
    return features_of(REC.X)


@pytest.mark.parametrize("kind", sorted(SIGNALS))
def test_every_kind_of_signals_gives_the_same_features(kind, wanted_of_signals, tmp_path):
    found = features_of(SIGNALS[kind](REC, tmp_path))
    near = 0.1 if kind in ("float64", "nested lists") else 1e-3  # another precision stops elsewhere
    near = 0.0 if kind in LAYOUTS else near
    scale = np.abs(wanted_of_signals).max()
    np.testing.assert_allclose(found, wanted_of_signals, rtol=0, atol=near * scale)
