"""Parts of the engine against one another, on HAR: ``python -m benchmarks engine``."""

from __future__ import annotations

import sys
import threading
import warnings
from types import FrameType
from typing import Any

import numpy as np

from benchmarks.common import Row, best_times
from benchmarks.scale import har
from tensorcontrast import CPD, ContrastiveClassifier, ContrastiveFeatures
from tensorcontrast.evaluate.peers import MiniRocketFeatures

MAX_WINDOWS = 7352
"""Windows of the official training part."""


def rows() -> list[Row]:
    """Measure fits, transforms and predictions side by side."""
    warnings.simplefilter("ignore")
    rec, _ = har()
    rec = rec[:MAX_WINDOWS]
    assert rec.y is not None
    few = np.full(len(rec), -1)
    few[::120] = rec.y[::120]
    features = ContrastiveFeatures(rec.fs, random_state=0)
    classifier = ContrastiveClassifier(features, random_state=0).fit(rec.X, few)
    fitted = classifier.extractor_
    rocket = MiniRocketFeatures(random_state=0).fit(rec.X[:500])
    rocket.transform(rec.X[:50])  # its kernels are compiled at the first call
    plain = ContrastiveFeatures(rec.fs, decompose=CPD(), random_state=0)
    seconds = best_times(
        {
            "transform": lambda: fitted.transform(rec.X),
            "predict": lambda: classifier.predict(rec.X),
            "MiniRocket": lambda: rocket.transform(rec.X),
        }
    )
    seconds |= best_times(
        {
            "features": lambda: features.fit(rec.X),
            "classifier": lambda: classifier.fit(rec.X, few),
            "CPD": lambda: plain.fit(rec.X),
        },
        repeats=2,
    )
    files, functions = traced(rec.X[:400], rec.fs)
    return [
        Row("predict / transform", seconds["predict"] / seconds["transform"], at_most=1.1),
        Row(
            "fit of the classifier / fit of the features",
            seconds["classifier"] / seconds["features"],
            at_most=1.15,
        ),
        Row(
            "default fit / CPD on the same blocks",
            seconds["features"] / seconds["CPD"],
            at_most=1.4,
        ),
        Row("transform / MiniRocket", seconds["transform"] / seconds["MiniRocket"], at_most=0.35),
        Row("default fit", seconds["features"], "s"),
        Row("files that a default fit runs through", files, "", at_most=20),
        Row("functions that a default fit runs through", functions, "", at_most=130),
    ]


def traced(X: np.ndarray, fs: float | None) -> tuple[int, int]:
    """Files and functions of the library that one default fit runs through."""
    seen: set[tuple[str, str]] = set()

    def note(frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        name = code.co_name
        if event == "call" and "tensorcontrast/" in code.co_filename and not name.startswith("<"):
            seen.add((code.co_filename, code.co_qualname))

    features = ContrastiveFeatures(fs, random_state=0)
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        features.fit(X)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return len({file for file, _ in seen}), len(seen)
