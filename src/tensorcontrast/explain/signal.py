"""Where in a window the value of a feature comes from: contributions over channels and time.

Contributions sum to the features of ``transform``. Each value of a block is compared with its mean
over the fitted windows, so that a window like the mean contributes nothing.

- A spectrogram value is a mean of frames: those of one quantile, or one frame. Each frame has its
  share of it, and is spread over its samples by the squared window of the frame.
- A PPV is a mean over positions of a kernel. Each position has its share of it, and is spread over
  the samples under the kernel, most at its middle. Of the channels that a kernel sums, each has a
  part in proportion to the size of its own output at that position.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorcontrast.explain.readout import BlockReadOut, ReadOut
from tensorcontrast.recordings.signals import without_offset
from tensorcontrast.tensorize.convolution import ConvolutionFeatures
from tensorcontrast.tensorize.spectrogram import SpectrogramTensor
from tensorcontrast.tensorize.stft import make_window, quantile_weights

__all__ = ["contributions"]

Array = NDArray[Any]

#: Values of kernel outputs, by channel or by feature, that are in memory at a time.
MAX_VALUES = 2**21


def contributions(out: ReadOut, X: Array, spread: Array | None = None) -> Array:
    """Contributions (n, c, s, r) of channels and times to features; they sum to these.

    Parameters
    ----------
    out : ReadOut
        Of r features.
    X : (n, c, t) array
        Windows without missing values.
    spread : (t, s) array, optional
        Sums samples to s parts of the window, such as tenths. Default: every sample for itself.
    """
    n, c, t = X.shape
    spread = np.eye(t) if spread is None else np.asarray(spread, dtype=np.float64)
    made = np.zeros((n, c, spread.shape[1], out.n_features))
    for block in out.blocks:
        part: Callable[[BlockReadOut, Array, list[Array]], Array]
        made_by, dims = block.transformer, block.centre.shape
        if isinstance(made_by, SpectrogramTensor):
            window = make_window(made_by.window, made_by.n_fft_)
            frames = frame_places(window, made_by.hop_, len(made_by.times_), t)
            part, places = _of_spectrogram, [frames @ spread]
            per_window = dims[0] * dims[1] * len(made_by.times_)
        else:
            part, places = _of_convolution, _kernel_spreads(made_by, spread)
            per_window = made_by._engine.positions * dims[0] * max(c, out.n_features)
        step = max(1, MAX_VALUES // per_window)
        for start in range(0, n, step):
            made[start : start + step] += part(block, X[start : start + step], places)
    return made


# --------------------------------------------------------------------------- spectrogram


def _of_spectrogram(block: BlockReadOut, X: Array, places: list[Array]) -> Array:
    """Contributions (n, c, s, r) of a spectrogram."""
    spectrogram: SpectrogramTensor = block.transformer
    frames = spectrogram._engine
    values = frames.in_time(*without_offset(X, frames.dtype, frames.unit)).astype(np.float64)
    if spectrogram.n_quantiles_ is None:
        made = np.einsum("ncft,cftr->nctr", values - block.centre, block.weights, optimize=True)
    else:
        made = quantile_contributions(values, block.weights, block.centre)
    n, rows, t, r = made.shape
    made = made.reshape(n, rows // X.shape[1], X.shape[1], t, r).sum(axis=1)  # real, imaginary
    return np.asarray(np.einsum("nctr,ts->ncsr", made, places[0], optimize=True))


def quantile_contributions(values: Array, weights: Array, centre: Array) -> Array:
    """Contributions (n, c, t, r) of frames to weights (c, f, q, r) of quantiles over time.

    A quantile is a weighted mean of the sorted frames; each frame is compared with the mean of the
    quantiles that it is part of.
    """
    n, c, _, t = values.shape
    ranks = values.argsort(axis=3).argsort(axis=3)
    made = np.zeros((n, c, t, weights.shape[3]))
    for q, share in enumerate(quantile_weights(t, centre.shape[2]).T):
        part = share[ranks]  # n, c, f, t
        part *= values - centre[:, :, q, None]
        made += np.einsum("ncft,cfr->nctr", part, weights[:, :, q], optimize=True)
    return made


def frame_places(window: Array, hop: int, n_frames: int, n_times: int) -> Array:
    """Matrix (frames, samples) whose rows spread a frame over its samples, and sum to 1."""
    out = np.zeros((n_frames, n_times))
    weight = window**2 / (window**2).sum()
    for frame in range(n_frames):
        out[frame, frame * hop : frame * hop + len(window)] = weight
    return out


# --------------------------------------------------------------------------- random convolutions


def _kernel_spreads(convolution: ConvolutionFeatures, spread: Array) -> list[Array]:
    """Shares (i, s) of positions in parts of the window, for each dilation."""
    stride, count = convolution.stride_, convolution._engine.positions
    return [
        kernel_places(int(d), stride, count, len(spread)) @ spread / count
        for d in convolution.dilations_
    ]


def _of_convolution(block: BlockReadOut, X: Array, places: list[Array]) -> Array:
    """Contributions (n, c, s, r) of random convolutions."""
    convolution: ConvolutionFeatures = block.transformer
    (n, c, _), r = X.shape, block.weights.shape[-1]
    made = np.zeros((n, c, places[0].shape[1], r))
    for d, (values, by_channel) in enumerate(convolution.outputs(X)):
        steps = step_values(block.weights[:, d], block.centre[:, d])  # k, b + 1, r
        passed = np.zeros(values.shape, np.uint8)
        for bias in convolution.biases_[:, d].T:
            passed += values > bias
        first = np.arange(values.shape[2]) * steps.shape[1]
        gained = steps.reshape(-1, r).take(passed + first, axis=0)  # n, i, k, r
        parts = channel_parts(by_channel, convolution.channel_weights_[:, d].T)  # c, n, i, k
        own = parts.transpose(1, 2, 0, 3) @ gained  # n, i, c, r
        made += np.einsum("nicr,is->ncsr", own, places[d], optimize=True)
    return made


def step_values(weights: Array, centre: Array) -> Array:
    """Sum of u_b (1[j > b] − v̄_b) over biases, (k, b + 1, r), for outputs above j biases.

    ``weights`` are (k, b, r) and ``centre`` is (k, b); biases increase.
    """
    steps = np.zeros((weights.shape[0], weights.shape[1] + 1, weights.shape[2]))
    np.cumsum(weights, axis=1, out=steps[:, 1:])
    return np.asarray(steps - np.einsum("kbr,kb->kr", weights, centre)[:, None])


def channel_parts(by_channel: Array, mixing: Array) -> Array:
    """Part (c, n, i, k) of each channel in outputs, by the size of its own output; sums to 1.

    Where all are 0, the channels of a kernel (``mixing`` (c, k) above 0) have equal parts.
    """
    parts = np.abs(by_channel)
    total = parts.sum(axis=0)
    zero = total == 0
    if zero.any():
        used = (mixing > 0).astype(parts.dtype)
        used[:, ~used.any(axis=0)] = 1.0
        np.copyto(parts, used[:, None, None], where=zero)
        total = parts.sum(axis=0)
    parts /= total
    return np.asarray(parts)


def kernel_places(dilation: int, stride: int, n_positions: int, n_times: int) -> Array:
    """Matrix (positions, samples) that spreads a position over the samples under the kernel.

    Rows are raised cosines as long as the kernel, cut at the ends of the window, and sum to 1.
    """
    reach = 4 * dilation + max(1, stride // 2)
    away = np.arange(n_times)[None, :] - stride * np.arange(n_positions)[:, None]
    out = np.where(np.abs(away) <= reach, 1 + np.cos(np.pi * away / (reach + 1)), 0.0)
    return np.asarray(out / out.sum(axis=1, keepdims=True))
