"""One window at a time: milliseconds, and the ratio to bare Fourier transforms and convolutions.

Run ``python -m benchmarks latency``. All times are of one thread. Models are trained on planted
classes in noise; the time of a window does not depend on what was learned, but for the number of
components.
"""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.fft

from benchmarks.common import Row
from tensorcontrast import ContrastiveClassifier, ContrastiveFeatures
from tensorcontrast.utils import threads

#: Channels, samples and sampling rate of windows: HAR, an ECG of 12 leads, one channel.
SIZES = ((9, 128, 50.0), (12, 1000, 100.0), (1, 500, 100.0))
N_WINDOWS = 450
REPEATS = 400
STREAM_SAMPLES = 10**7


def trained(c: int, t: int, fs: float) -> tuple[ContrastiveClassifier, np.ndarray]:
    """Return a classifier of three planted classes, and its windows."""
    rng = np.random.default_rng(0)
    y = np.arange(N_WINDOWS) % 3
    waves = np.sin(2 * np.pi * (2 + 2 * np.arange(3))[:, None] * np.arange(t) / fs)
    X = (waves[y][:, None] + rng.normal(size=(N_WINDOWS, c, t))).astype(np.float32)
    return ContrastiveClassifier(ContrastiveFeatures(fs), random_state=0).fit(X, y), X


def bare(model: ContrastiveClassifier) -> tuple[Callable[[Any], None], Callable[[Any], None]]:
    """Return the Fourier transforms and convolutions of a window, and the same with PPV.

    Nothing else: samples are shifted and multiplied with the kernels into arrays made once.
    """
    spectrogram, convolution = model.extractor_.spectrogram_, model.extractor_.convolution_
    n_fft, hop = spectrogram.n_fft_, spectrogram.hop_
    whole = convolution._engine
    c, t, s, size = whole.n_channels, whole.n_times, whole.stride, whole.positions
    padded = np.zeros((c, t + 2 * whole.pad + s), np.float32)
    taps = np.empty((9, c, size), np.float32)
    columns, out = taps.reshape(9 * c, size).T, np.empty((size, whole.n_kernels), np.float32)
    shifted = [
        [padded[:, whole.pad + tap * d :][:, : s * size : s] for tap in range(-4, 5)]
        for d in whole.dilations
    ]
    above = np.empty(out.shape, bool)

    def convolve(window: np.ndarray, count: bool) -> None:
        frames = np.lib.stride_tricks.sliding_window_view(window, n_fft, axis=1)[:, ::hop]
        scipy.fft.rfft(frames)
        padded[:, whole.pad : whole.pad + t] = window
        for views, weights, biases in zip(shifted, whole.weights, whole.biases, strict=True):
            for tap, view in enumerate(views):
                taps[tap] = view
            np.matmul(columns, weights, out=out)
            if count:
                for bias in biases:
                    np.greater(out, bias, out=above)
                    above.sum(axis=0)

    return lambda window: convolve(window, False), lambda window: convolve(window, True)


def timed(tasks: dict[str, Callable[[Any], Any]], windows: np.ndarray) -> dict[str, Any]:
    """Seconds of each task for each window; the tasks take turns, so that load hits all."""
    found: dict[str, list[float]] = {name: [] for name in tasks}
    with threads.single("blas"):
        for i in range(REPEATS):
            window = windows[i % len(windows)]
            for name, task in tasks.items():
                task(window)
                begin = time.perf_counter()
                task(window)
                found[name].append(time.perf_counter() - begin)
    return {name: np.array(seconds) for name, seconds in found.items()}


def one_window(c: int, t: int, fs: float) -> tuple[list[Row], ContrastiveClassifier]:
    """Measure ``transform`` and ``predict`` of one window, next to the bare operations."""
    model, X = trained(c, t, fs)
    convolve, count = bare(model)
    tasks = {
        "FFT and convolutions": convolve,
        "FFT, convolutions and PPV": count,
        "transform": lambda window: model.extractor_.transform(window[None]),
        "predict": lambda window: model.predict(window[None]),
    }
    seconds = timed(tasks, X)
    least = {name: float(values.min()) for name, values in seconds.items()}
    goal = (c, t) == (9, 128)
    name = f"{c}×{t}"
    out = []
    for use in ("transform", "predict"):
        out.append(Row(f"{name}: {use}", 1e3 * least[use], "ms", at_most=1.0 if goal else None))
        middle = 1e3 * float(np.median(seconds[use]))
        out.append(Row(f"{name}: {use}, median", middle, "ms"))
        out += [
            Row(f"{name}: {use} / {other}", least[use] / least[other], at_most=most)
            for other, most in (
                ("FFT and convolutions", 3.0 if goal else None),
                ("FFT, convolutions and PPV", None),
            )
        ]
    if goal:
        out += per_second(model, X)
    return out, model


def per_second(model: ContrastiveClassifier, X: np.ndarray) -> list[Row]:
    """Windows per second, one by one on one thread: the best of five runs over all windows.

    Processor time is what one core needs, wall time what is left where other programs run.
    """
    wall, core = 0.0, 0.0
    with threads.single("blas"):
        for _ in range(5):
            begin, used = time.perf_counter(), time.thread_time()
            for window in X:
                model.predict(window[None])
            wall = max(wall, len(X) / (time.perf_counter() - begin))
            core = max(core, len(X) / (time.thread_time() - used))
    name = "9×128: predict, windows one by one"
    return [
        Row(f"{name} per second of processor time", core, "", at_least=1000),
        Row(f"{name} per second", wall, ""),
    ]


def stream_rows(model: ContrastiveClassifier, n_samples: int = STREAM_SAMPLES) -> list[Row]:
    """Push many samples through a stream: how many per second, and how much memory grows."""
    c, t = model.extractor_.n_channels_in_, model.extractor_.n_times_in_
    chunk = np.random.default_rng(1).standard_normal((c, 10 * t), dtype=np.float32)
    hop = 40 * t  # long gaps: so many samples, not so many windows, are what is tested
    stream = model.stream(hop=hop)
    answers = len(stream.push(chunk))
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    tracemalloc.reset_peak()
    begin = time.thread_time()
    while stream.n_samples < n_samples:
        answers += len(stream.push(chunk))
    seconds = time.thread_time() - begin
    after, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert answers == (stream.n_samples - t) // hop + 1
    live = model.stream(hop=t // 2)
    begin, count = time.thread_time(), 0
    with threads.single("blas"):
        while (spent := time.thread_time() - begin) < 2:
            count += len(live.push(chunk[:, : t // 2]))
    return [
        Row(f"stream of {n_samples:.0e} samples: memory that stays", (after - before) / 1e6, "MB",
            at_most=1.0),
        Row(f"stream of {n_samples:.0e} samples: largest memory", (peak - before) / 1e6, "MB"),
        Row("stream: million samples per second of processor time", n_samples / seconds / 1e6, ""),
        Row(f"stream: windows per second of processor time, hop {t // 2}", count / spent, "",
            at_least=1000),
    ]  # fmt: skip


def rows() -> list[Row]:
    """Measure everything."""
    out: list[Row] = []
    for size in SIZES:
        found, model = one_window(*size)
        out += found
        if size == SIZES[0]:
            out += stream_rows(model)
    return out
