"""How fast signals become views and tensors, against the bare operations in the same run.

Run ``python -m benchmarks signals``. The data are UCI HAR's (``har.npz`` in the folder named by
TENSORCONTRAST_DATA), or random numbers of the same size where they are absent.
"""

from __future__ import annotations

import joblib
import numpy as np
import scipy.fft

from benchmarks.common import Row, best_times, har_signals
from tensorcontrast import augment
from tensorcontrast.tensorize.spectrogram import SpectrogramTensor

RATIO = 2.5


def bare(X: np.ndarray, workers: int, chunk: int = 26) -> None:
    """Real FFT of all frames and two logarithms, into arrays made once; nothing else.

    The chunks are as large as the blocks of `SpectrogramTensor` for these data.
    """
    n_fft, hop = 64, 2
    frames = np.lib.stride_tricks.sliding_window_view(X, n_fft, axis=2)[:, :, ::hop]
    real = np.empty((chunk, *frames.shape[1:3], n_fft // 2 + 1), np.float32)
    imag = np.empty_like(real)
    for start in range(0, len(X), chunk):
        Z = scipy.fft.rfft(np.ascontiguousarray(frames[start : start + chunk]), workers=workers)
        np.log(np.abs(Z.real) + 1e-3, out=real[: len(Z)])
        np.log(np.abs(Z.imag) + 1e-3, out=imag[: len(Z)])


def rows() -> list[Row]:
    """Measure everything."""
    X = har_signals()
    threads = joblib.cpu_count()
    views = {"gentle": augment.gentle(), "paper": augment.paper("har")}
    one = SpectrogramTensor.paper("har", n_jobs=1).fit(X)
    many = SpectrogramTensor.paper("har").fit(X)
    seconds = best_times(
        {
            "bare 1": lambda: bare(X, 1),
            "tensors 1": lambda: one.transform(X),
            "bare": lambda: bare(X, threads),
            "tensors": lambda: many.transform(X),
            "gentle": lambda: views["gentle"](X, 0),
            "paper": lambda: views["paper"](X, 0),
        }
    )
    found = [
        (
            "HAR to 18×33×33 tensors / bare rfft and two logs, 1 thread",
            seconds["tensors 1"] / seconds["bare 1"],
            RATIO,
        ),
        (
            f"HAR to 18×33×33 tensors / bare rfft and two logs, {threads} threads",
            seconds["tensors"] / seconds["bare"],
            RATIO,
        ),
        ("gentle views of HAR / its tensors", seconds["gentle"] / seconds["tensors"], 1.0),
        ("paper's views of HAR / its tensors", seconds["paper"] / seconds["tensors"], 1.0),
    ]
    table = [Row(name, value, at_most=goal) for name, value, goal in found]
    table.extend(Row(f"time of {name}", value, "s") for name, value in seconds.items())
    return table
