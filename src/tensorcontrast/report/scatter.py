"""Windows for the interactive scatter: thinned, quantised and packed into text."""

from __future__ import annotations

import base64
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorcontrast.report.data import Windows
from tensorcontrast.report.figures import embed, subsample
from tensorcontrast.report.text import plain

__all__ = ["pack", "thin"]

Array = NDArray[Any]

#: Most windows, channels and points in time that are packed, and values of all signals together.
MOST_WINDOWS, MOST_CHANNELS, MOST_TIMES, MOST_VALUES = 1200, 12, 240, 1_400_000
#: Windows that stay however long they are.
FEWEST_WINDOWS = 300


def pack(windows: Windows, *, values: int = MOST_VALUES, seed: int = 0) -> dict[str, Any]:
    """Return plain data for JSON: coordinates (int16), signals (int8), labels.

    Parameters
    ----------
    windows : Windows
    values : int
        Most values of signals; windows are left out first, then points in time.
    seed : int
        Of the draw and of t-SNE.
    """
    channels = min(len(windows.channels), MOST_CHANNELS)
    times = min(len(windows.times), MOST_TIMES)
    count = max(FEWEST_WINDOWS, min(MOST_WINDOWS, values // (channels * times)))
    times = min(times, max(32, values // (channels * count)))
    at = subsample(len(windows.features), count, seed)
    features = np.asarray(windows.features, dtype=np.float64)[at]
    signals, moments = thin(np.asarray(windows.signals)[at][:, :channels], windows.times, times)
    index = at if windows.index is None else np.asarray(windows.index)[at]
    units = [plain(u, 12) for u in windows.units][:channels]
    return {
        "n": len(at),
        "total": windows.total or len(windows.features),
        "axes": _axes(features, seed),
        "colours": [
            {
                "name": name,
                "codes": [int(c) for c in codes[at]],
                "labels": [plain(label, 40) for label in labels],
            }
            for name, (codes, labels) in windows.labels.items()
        ],
        "index": [int(i) for i in index],
        "wave": {
            **_signals(signals),
            "channels": [plain(c, 24) for c in windows.channels][:channels],
            "left_out": len(windows.channels) - channels,
            "units": units or [""] * channels,
            "times": [round(float(t), 5) for t in moments],
            "time_unit": windows.time_unit,
        },
    }


def thin(signals: Array, times: Array, at_most: int) -> tuple[Array, Array]:
    """Keep the lowest and the highest point of each stretch, in their order, so peaks stay.

    Parameters
    ----------
    signals : (n, channel, t) array
    times : (t,) array
    at_most : int
        Points that may stay.

    Examples
    --------
    >>> peaks = np.zeros((1, 1, 100)); peaks[0, 0, 37] = 5
    >>> out, times = thin(peaks, np.arange(100.0), 20)
    >>> out.shape, float(out.max())
    ((1, 1, 20), 5.0)
    """
    n, c, t = signals.shape
    if t <= at_most:
        return signals, np.asarray(times)
    stretches = max(at_most // 2, 1)
    edges = np.linspace(0, t, stretches + 1).astype(int)
    out = np.empty((n, c, 2 * stretches), dtype=signals.dtype)
    for k, (a, b) in enumerate(pairwise(edges)):
        part = signals[:, :, a:b]
        low, high = part.argmin(axis=2), part.argmax(axis=2)
        first, last = np.minimum(low, high), np.maximum(low, high)
        out[:, :, 2 * k] = np.take_along_axis(part, first[:, :, None], 2)[:, :, 0]
        out[:, :, 2 * k + 1] = np.take_along_axis(part, last[:, :, None], 2)[:, :, 0]
    quarter = np.stack([edges[:-1] * 0.75 + edges[1:] * 0.25, edges[:-1] * 0.25 + edges[1:] * 0.75])
    return out, np.interp(quarter.T.ravel(), np.arange(t), times)


def _axes(features: Array, seed: int) -> list[dict[str, Any]]:
    columns = []
    if len(features) > 2:
        tsne, pca = embed(features, "tsne", seed), embed(features, "pca", seed)
        columns += [("t-SNE 1", tsne[:, 0]), ("t-SNE 2", tsne[:, 1])]
        columns += [("principal component 1", pca[:, 0]), ("principal component 2", pca[:, 1])]
    columns += [(f"feature {r}", features[:, r]) for r in range(features.shape[1])]
    return [{"name": name, **_quantised(column)} for name, column in columns]


def _signals(signals: Array) -> dict[str, Any]:
    """Quantise each channel of each window over its own range; gaps (NaN) become −128."""
    values = np.asarray(signals, dtype=np.float64)
    known = np.isfinite(values)
    low = np.where(known, values, np.inf).min(axis=2)
    high = np.where(known, values, -np.inf).max(axis=2)
    low, high = np.where(np.isfinite(low), low, 0.0), np.where(np.isfinite(high), high, 0.0)
    span = np.where(high > low, high - low, 1.0)
    with np.errstate(invalid="ignore"):
        scaled = np.rint((values - low[:, :, None]) / span[:, :, None] * 254 - 127)
    codes = np.where(known, scaled, -128).astype(np.int8)
    ranges = []
    for c in range(values.shape[1]):
        own = values[:, c][known[:, c]]
        flat = own if len(own) else np.zeros(1)
        ranges.append([float(q) for q in np.percentile(flat, [0.5, 99.5])])
    return {
        "codes": _text(codes),
        "low": _text(low.astype("<f4")),
        "high": _text(high.astype("<f4")),
        "ranges": ranges,
    }


def _quantised(values: Array) -> dict[str, Any]:
    low, high = float(values.min()), float(values.max())
    span = high - low or 1.0
    codes = np.rint((values - low) / span * 65534 - 32767).astype("<i2")
    return {"codes": _text(codes), "low": low, "high": high}


def _text(array: Array) -> str:
    return base64.b64encode(np.ascontiguousarray(array).tobytes()).decode("ascii")
