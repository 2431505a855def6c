"""Freeze one small model file per estimator for this release: ``python -m tests.models.freeze``.

Files go to ``tests/models/VERSION/``: ``NAME.tcm``, and ``expected.npz`` with some inputs of each
and what the version that wrote it made of them. Every later version must load them and give the
same (``tests/models/test_frozen.py``), so that a release is never frozen twice. Only a development
version, which nobody has files of, can be frozen anew with ``--replace``. Needs the extra
``neural``. SimCLR and BYOL are left out: their smallest file has 600 kB.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import tensorcontrast
from tensorcontrast import (
    ATD,
    CPD,
    PLC,
    Algorithm1,
    ContrastiveClassifier,
    ContrastiveFeatures,
    ConvolutionFeatures,
    SpectrogramTensor,
)
from tensorcontrast.augment import Compose, Jitter, TimeStretch
from tensorcontrast.datasets import make_cp_tensor, make_synthetic
from tensorcontrast.neural import DeepTensor

FOLDER = Path(__file__).parent

#: Windows of which a file of results has inputs and outputs.
N_EXPECTED = 4

#: Bytes of all files of a release, at most.
MAX_BYTES = 300_000


def tensors():
    """Windows of a planted CP model, with classes."""
    X, y, *_ = make_cp_tensor(
        n_samples=24, dims=(3, 9, 8), rank=3, n_classes=2, noise=0.1, random_state=0
    )
    return X.astype(np.float32), y


def signals():
    """Windows of two channels, with classes."""
    return make_synthetic(n_samples=24, n_channels=2, n_times=32, n_classes=2, random_state=0)


def models():
    """Yield the name, the fitted model and some inputs of each kind of model."""
    X, y = tensors()
    short = {"max_iter": 10, "tol": 0, "random_state": 0}
    gaps = X.copy()
    gaps[::3, 1, :4] = np.nan
    yield "cpd", CPD(2, **short).fit(X), X
    yield "cpd-float64", CPD(2, dtype="float64", **short).fit(X), X.astype(float)
    yield "cpd-mask", CPD(2, missing="mask", **short).fit(gaps), gaps
    yield "cpd-parts", CPD(2, nonnegative=True, **short).fit(np.abs(X)), np.abs(X)
    yield "atd", ATD(2, **short).fit(X), X
    yield "plc", PLC(2, n_clusters=2, **short).fit(X, nuisance=X[:6] / 9), X
    yield "plc-paper", Algorithm1(2, n_clusters=2, **short).fit(X), X
    yield "plc-labels", PLC(2, graph="true", **short).fit(X, y), X

    rec = signals()
    decompose = PLC(3, n_clusters=2, max_iter=10)
    spectrogram = SpectrogramTensor(n_fft=8, n_quantiles=2)
    features = ContrastiveFeatures(
        tensorize=[spectrogram, ConvolutionFeatures(4, n_biases=1)],
        decompose=decompose,
        augment=Compose([Jitter(), TimeStretch()]),
        random_state=0,
    )
    yield "features", features.fit(rec), rec.X
    part = CPD(3, max_iter=10, tol=0)
    own = ContrastiveFeatures(tensorize=spectrogram, decompose=part, random_state=0)
    names = np.array(["rest", "läuft"])
    text = ContrastiveClassifier(own, abstain=0.5, random_state=0)
    yield "classifier", text.fit(rec, names[rec.y]), rec.X
    masked = ContrastiveFeatures(tensorize=spectrogram, decompose=part, missing="mask")
    plain = ContrastiveClassifier(masked, random_state=0)
    yield "classifier-integers", plain.fit(rec.X, rec.y + 3), rec.X

    small = {"max_iter": 2, "batch_size": 12, "tol": 10.0, "patience": 1, "random_state": 0}
    yield "deep-tensor", DeepTensor(2, hidden=4, **small).fit(X), X


def expected(model, X):
    """Return what a model makes of windows, by the name of the method."""
    methods = ("transform", "predict", "predict_proba")
    found = {m: np.asarray(getattr(model, m)(X)) for m in methods if hasattr(model, m)}
    if isinstance(model, CPD | ATD | PLC):
        found["inverse_transform"] = model.inverse_transform(found["transform"])
    return found


def freeze(folder: Path) -> int:
    """Write all files, and return their bytes."""
    folder.mkdir(parents=True)
    arrays = {}
    for name, model, X in models():
        model.save(folder / f"{name}.tcm")
        some = X[:N_EXPECTED]
        arrays[f"{name}/input"] = some
        for method, values in expected(model, some).items():
            arrays[f"{name}/{method}"] = values
    np.savez_compressed(folder / "expected.npz", **arrays)
    return sum(path.stat().st_size for path in folder.iterdir())


def main(arguments: Sequence[str] | None = None, *, root: Path = FOLDER) -> int:
    """Freeze the present version; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--replace", action="store_true", help="of a development version only")
    given = parser.parse_args(arguments)
    version = tensorcontrast.__version__
    folder = root / version
    if folder.exists():
        if not (given.replace and ".dev" in version):
            print(f"{folder} is frozen already and is never written anew", file=sys.stderr)
            return 1
        shutil.rmtree(folder)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        total = freeze(folder)
    for path in sorted(folder.iterdir()):
        print(f"{path.stat().st_size:8,}  {path.name}")
    print(f"{total:8,}  bytes for {version}")
    return 0 if total <= MAX_BYTES else 1


if __name__ == "__main__":
    sys.exit(main())
