"""What users would take instead, to as many features: time, with the accuracy beside it."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.decomposition import PCA, IncrementalPCA

from benchmarks.common import Row
from benchmarks.decompose import RANK
from benchmarks.scale import accuracy, har
from tensorcontrast import CPD, PLC, ContrastiveFeatures, SpectrogramTensor, augment


def peers() -> list[Row]:
    """Measure what users would take instead, to as many features, on HAR as the default tensor."""
    from tensorcontrast.evaluate.peers import MiniRocketFeatures
    from tensorcontrast.neural import SimCLR

    rec, make_split = har()
    assert rec.y is not None
    spectrogram = SpectrogramTensor(rec.fs).fit(rec.X)
    T = spectrogram.transform(rec.X)
    split = make_split(rec, seed=0)
    X, y = T[split.unlabelled], rec.y
    signals = rec.X[split.unlabelled]
    view = spectrogram.transform(augment.gentle()(signals, np.random.default_rng(0)))

    def flat(model: Any) -> Callable[[np.ndarray], np.ndarray]:
        return lambda A: model.transform(A.reshape(len(A), -1))

    flat_X = X.reshape(len(X), -1)
    makers: dict[str, Callable[[], Callable[[np.ndarray], np.ndarray]]] = {
        "PLC": lambda: PLC(RANK, random_state=0).fit(X, nuisance=view - X).transform,
        "CPD": lambda: CPD(RANK, random_state=0).fit(X).transform,
        "PCA": lambda: flat(PCA(RANK, svd_solver="randomized", random_state=0).fit(flat_X)),
        "IncrementalPCA": lambda: flat(IncrementalPCA(RANK, batch_size=512).fit(flat_X)),
    }
    seconds, scores = {}, {}
    models = {}
    for name, kind in (("PLC", PLC), ("CPD", CPD)):
        begin = time.perf_counter()
        models[name] = ContrastiveFeatures(rec.fs, decompose=kind(RANK), random_state=0)
        models[name].fit(signals)
        seconds[f"{name}, raw"] = time.perf_counter() - begin
    for name, make in makers.items():
        begin = time.perf_counter()
        transform = make()
        seconds[name] = time.perf_counter() - begin
        scores[name] = accuracy(transform, T, y, split)
    begin = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        neural = SimCLR(max_iter=1, random_state=0).fit(X, view=view)
    seconds["SimCLR, an epoch"] = time.perf_counter() - begin
    scores["SimCLR, an epoch"] = accuracy(neural.transform, T, y, split)
    rocket = MiniRocketFeatures(random_state=0).fit(signals[:500])
    rocket.transform(signals[:50])  # its kernels are compiled at the first call
    begin = time.perf_counter()
    wide = rocket.transform(signals)
    seconds["MiniRocket, transform"] = time.perf_counter() - begin
    models["PLC"].transform(signals[:50])
    begin = time.perf_counter()
    models["PLC"].transform(signals)
    seconds["PLC, transform"] = time.perf_counter() - begin

    def told(name: str) -> str:
        few, full = scores[name]
        return f"{name} ({few:.3f} with 60 labels, {full:.3f} with all)"

    return [
        Row(
            "PLC, from raw signals to a model / CPD",
            seconds["PLC, raw"] / seconds["CPD, raw"],
            at_most=4,
        ),
        Row(f"{told('PLC')}, whole fit / {told('CPD')}", seconds["PLC"] / seconds["CPD"]),
        Row(
            f"one epoch of {told('SimCLR, an epoch')} / PLC, whole fit",
            seconds["SimCLR, an epoch"] / seconds["PLC"],
            at_least=1,
        ),
        Row(f"PLC, whole fit / {told('PCA')}", seconds["PLC"] / seconds["PCA"]),
        Row(
            f"PLC, whole fit / {told('IncrementalPCA')}",
            seconds["PLC"] / seconds["IncrementalPCA"],
        ),
        Row(
            f"MiniRocket / PLC: from signals to features ({wide.shape[1]:,} and {RANK})",
            seconds["MiniRocket, transform"] / seconds["PLC, transform"],
            at_least=2,
        ),
        Row("PLC, whole fit", seconds["PLC"], "s"),
    ]
