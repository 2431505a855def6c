"""One window as the page draws it: its signals between its neighbours, and its spectrogram."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorcontrast.recordings import Recordings

__all__ = ["WindowViews"]

Array = NDArray[Any]

#: Channels that are drawn, at most.
MAX_CHANNELS = 32
#: Bins over time, of each of which the smallest and the largest value are drawn.
MAX_BINS = 700
#: Frames and frequencies of a spectrogram, at most.
MAX_FRAMES, MAX_FREQUENCIES = 180, 64
#: Decibels below the largest power that are drawn.
RANGE_DB = 50.0
#: Length of what is drawn, in windows: the window in the middle, and its neighbours.
SPAN = 2.0


class WindowViews:
    """Pictures of windows, made when they are asked for.

    Parameters
    ----------
    rec : Recordings
        Where they have the columns ``recording`` and ``start``, neighbours are drawn too.
    """

    def __init__(self, rec: Recordings) -> None:
        self.rec = rec
        self.n_times = rec.n_times
        columns = rec.columns
        self.timed = "start" in columns and "recording" in columns
        n = len(rec)
        self.start = (
            np.asarray(columns["start"], dtype=np.int64) if self.timed else np.zeros(n, int)
        )
        if "recording" in columns:
            self.recording = np.asarray(columns["recording"]).astype(np.str_)
        else:
            self.recording = np.full(n, rec.name or "recording")

    @cached_property
    def _order(self) -> tuple[Array, Array, Array]:
        """Windows sorted by recording and time, the place of each, and where recordings begin."""
        names, code = np.unique(self.recording, return_inverse=True)
        order = np.lexsort((self.start, code))
        place = np.empty(len(order), dtype=np.intp)
        place[order] = np.arange(len(order))
        bounds = np.searchsorted(code[order], np.arange(len(names) + 1))
        return order, place, bounds

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the channels."""
        return self.rec.channels or tuple(str(c) for c in range(self.rec.n_channels))

    @property
    def units(self) -> tuple[str, ...]:
        """Units of the channels; empty where they are not known."""
        units = self.rec.units
        if isinstance(units, tuple):
            return units
        return (units or "",) * self.rec.n_channels

    def neighbours(self, window: int) -> tuple[int | None, int | None]:
        """Windows before and after, of the same recording."""
        if not self.timed:
            return None, None
        order, place, bounds = self._order
        at = int(place[window])
        part = int(np.searchsorted(bounds, at, side="right")) - 1
        before = int(order[at - 1]) if at > bounds[part] else None
        after = int(order[at + 1]) if at + 1 < bounds[part + 1] else None
        return before, after

    def context(self, window: int) -> tuple[Array, int]:
        """Signals (channel, t) around a window, NaN where unknown, and where the window begins."""
        length = self.n_times
        margin = round((SPAN - 1) / 2 * length) if self.timed else 0
        out = np.full((self.rec.n_channels, length + 2 * margin), np.nan, dtype=np.float64)
        if self.timed:
            first = int(self.start[window]) - margin
            order, place, bounds = self._order
            at = int(place[window])
            part = int(np.searchsorted(bounds, at, side="right")) - 1
            low, high = int(bounds[part]), int(bounds[part + 1])
            own = self.start[order[low:high]]
            begin = low + int(np.searchsorted(own, first - length, side="right"))
            end = low + int(np.searchsorted(own, first + out.shape[1], side="left"))
            for other in order[begin:end]:
                shift = int(self.start[other]) - first
                a, b = max(shift, 0), min(shift + length, out.shape[1])
                out[:, a:b] = self.rec.X[other][:, a - shift : b - shift]
        out[:, margin : margin + length] = self.rec.X[window]
        return out, margin

    def about(self, window: int) -> dict[str, Any]:
        """Name and time of a window."""
        fs = self.rec.fs
        out: dict[str, Any] = {
            "window": int(window),
            "recording": str(self.recording[window]),
            "start_s": None,
            "end_s": None,
        }
        if self.timed and fs:
            begin = float(self.start[window]) / fs
            out |= {"start_s": round(begin, 6), "end_s": round(begin + self.n_times / fs, 6)}
        if self.rec.groups is not None:
            out["group"] = str(self.rec.groups[window])
        return out

    def signals(self, window: int, *, bins: int = MAX_BINS, context: bool = True) -> dict[str, Any]:
        """Signals of a window and its neighbours, thinned to what a screen can show.

        Times are seconds from the start of the window, or samples where the rate is unknown. Of
        more samples than two per bin, the smallest and the largest value of each bin are kept.
        """
        if context:
            X, margin = self.context(window)
        else:
            X, margin = np.asarray(self.rec.X[window], dtype=np.float64), 0
        rate = self.rec.fs or 1.0
        step = 1.0
        if X.shape[1] > 2 * bins:
            per_bin = -(-X.shape[1] // bins)
            full = np.full((len(X), per_bin * (-(-X.shape[1] // per_bin))), np.nan)
            full[:, : X.shape[1]] = X
            parts = full.reshape(len(X), -1, per_bin)
            low = np.where(np.isnan(parts), np.inf, parts).min(axis=2)
            high = np.where(np.isnan(parts), -np.inf, parts).max(axis=2)
            X = np.stack([low, high], axis=2).reshape(len(X), -1)
            X[~np.isfinite(X)] = np.nan
            step = per_bin / 2
        shown = range(min(len(X), MAX_CHANNELS))
        return {
            "time_unit": "s" if self.rec.fs else "samples",
            "begin": -margin / rate,
            "step": step / rate,
            "length": self.n_times / rate,
            "hidden_channels": max(0, len(X) - MAX_CHANNELS),
            "channels": [
                {"name": self.names[c], "unit": self.units[c], "values": _rounded(X[c])}
                for c in shown
            ],
        }

    def spectrogram(self, window: int, channel: int | None = None) -> dict[str, Any]:
        """Power in decibels below the largest of the picture, from 0 to 255; −1 where unknown.

        Parameters
        ----------
        window : int
        channel : int, optional
            Default: the mean over channels, each scaled to unit variance.
        """
        X, margin = self.context(window)
        rate = self.rec.fs or 1.0
        total = X.shape[1]
        length = int(np.clip(2 ** round(np.log2(max(self.n_times / 5, 1))), 8, 512))
        length = min(length, self.n_times)
        hop = max(1, -(-(total - length + 1) // MAX_FRAMES))
        rows = X if channel is None else X[channel : channel + 1]
        rows = _standardised(rows)
        frames = np.lib.stride_tricks.sliding_window_view(rows, length, axis=1)[:, ::hop]
        known = np.isfinite(frames).all(axis=(0, 2))
        spectrum = np.fft.rfft(np.nan_to_num(frames) * np.hanning(length + 2)[1:-1], axis=2)
        power = np.square(np.abs(spectrum)).mean(axis=0)  # (frame, frequency)
        per_bin = -(-power.shape[1] // MAX_FREQUENCIES)
        edges = np.arange(0, power.shape[1], per_bin)
        power = np.add.reduceat(power, edges, axis=1)
        largest = float(power[known].max()) if known.any() else 0.0
        shade = np.zeros(power.shape)
        if largest > 0:
            decibel = 10 * np.log10(np.maximum(power / largest, 1e-12))
            shade = np.clip((decibel + RANGE_DB) / RANGE_DB, 0, 1)
        codes = np.round(255 * shade).astype(np.int16)
        codes[~known] = -1
        return {
            "frames": int(codes.shape[0]),
            "frequencies": int(codes.shape[1]),
            "begin": (length / 2 - hop / 2 - margin) / rate,
            "step": hop / rate,
            "low": 0.0,
            "high": float(rate * per_bin * codes.shape[1] / length),
            "nyquist": rate / 2,
            "frequency_unit": "Hz" if self.rec.fs else "cycles/sample",
            "range_db": RANGE_DB,
            "values": codes.ravel().tolist(),
        }


def _standardised(rows: Array) -> Array:
    """Rows with mean 0 and deviation 1, of the values that are known."""
    there = np.isfinite(rows)
    known = np.where(there, rows, 0.0)
    peak = np.abs(known).max(axis=1, keepdims=True)
    known = known / np.where(peak > 0, peak, 1)  # squares of very large values would overflow
    count = np.maximum(there.sum(axis=1, keepdims=True), 1)
    known = np.where(there, known - known.sum(axis=1, keepdims=True) / count, 0.0)
    deviation = np.sqrt(np.square(known).sum(axis=1, keepdims=True) / count)
    return np.where(there, known / np.where(deviation > 0, deviation, 1), np.nan)


def _rounded(values: Array) -> list[float | None]:
    """Numbers with about five digits; None for NaN."""
    finite = np.isfinite(values)
    if not finite.any():
        return [None] * len(values)
    peak = float(np.ptp(values[finite])) or float(np.abs(values[finite]).max()) or 1.0
    digits = int(np.clip(4 - np.floor(np.log10(peak)), -300, 300))
    with np.errstate(all="ignore"):
        out = np.round(values, digits) if abs(digits) < 20 else values
    return [float(v) if ok else None for v, ok in zip(out.tolist(), finite.tolist(), strict=True)]
