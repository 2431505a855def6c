"""Live signals: samples as they come, features or classes of the windows that they complete.

The last samples are kept in a buffer of fixed size, so that memory does not grow with the stream.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from tensorcontrast.errors import InvalidInputError
from tensorcontrast.utils import checks
from tensorcontrast.utils.arrays import as_array, float_type
from tensorcontrast.utils.names import listed

__all__ = ["ClassStream", "FeatureStream", "LiveClass", "LiveFeatures", "Stream"]

Array = NDArray[Any]

MAX_WINDOWS = 64
"""Windows that are computed at a time."""


@dataclass(frozen=True)
class LiveFeatures:
    """Features of one window of a stream.

    Attributes
    ----------
    start, end : int
        First sample of the window, and the one behind its last, counted from the start of the
        stream.
    start_s, end_s : float or None
        The same in seconds; None where the model knows no sampling rate.
    features : (r,) array
        As ``transform`` gives them; NaN where the window holds a sample that the model cannot work
        with, such as 1e30.
    """

    start: int
    end: int
    start_s: float | None
    end_s: float | None
    features: Array


@dataclass(frozen=True)
class LiveClass:
    """Class of one window of a stream.

    Attributes
    ----------
    start, end : int
        First sample of the window, and the one behind its last, counted from the start of the
        stream.
    start_s, end_s : float or None
        The same in seconds; None where the model knows no sampling rate.
    label : int, str, bool or None
        As ``predict`` gives it; unknown where the window holds a sample that the model cannot work
        with.
    probability : float
        Of the label; of the most likely class where the label is unknown.
    probabilities : (k,) array
        Of each class, in the order of ``classes_``; NaN as ``features`` of :class:`LiveFeatures`.
    """

    start: int
    end: int
    start_s: float | None
    end_s: float | None
    label: Any
    probability: float
    probabilities: Array


Answer = TypeVar("Answer", LiveFeatures, LiveClass)


class Stream(ABC, Generic[Answer]):
    """Windows of a signal that comes sample by sample. Made by ``model.stream()``.

    The first window begins with the first sample, the next one ``hop`` samples later. One stream is
    for one signal and for one thread.

    Parameters
    ----------
    model : ContrastiveFeatures or ContrastiveClassifier
        Fitted.
    features : ContrastiveFeatures
        The model, or that of the classifier.
    hop : int, optional
        Samples from the start of one window to that of the next. Default: the length of a window.
    hop_s : float, optional
        The same in seconds, rounded to whole samples, instead of ``hop``.
    """

    def __init__(
        self, model: Any, features: Any, hop: int | None = None, hop_s: float | None = None
    ) -> None:
        self.model = model
        self.fs: float | None = features.fs_
        self.n_channels, self.n_times = int(features.n_channels_in_), int(features.n_times_in_)
        self.channels: tuple[str, ...] | None = features.channels_
        self.hop = _hop(hop, hop_s, self.fs, self.n_times)
        self._missing = features.missing == "mask"
        room = self.n_times + MAX_WINDOWS * min(self.hop, self.n_times)
        self._buffer = np.zeros((self.n_channels, self.n_times + room), np.float32)
        self.reset()

    def reset(self) -> None:
        """Forget all samples: the next one is the first of a new signal."""
        self._first = 0  # number of the first sample in the buffer
        self._filled = 0  # samples in the buffer
        self._next = 0  # first sample of the next window

    @property
    def n_samples(self) -> int:
        """Samples that have come since the start, or since :meth:`reset`."""
        return self._first + self._filled

    def push(self, samples: Any) -> list[Answer]:
        """Take more samples, and return what the windows that they complete give.

        Parameters
        ----------
        samples : array-like [channel, time]
            Any number of samples, also none, with the channels and at the rate of the fit.

        Returns
        -------
        list
            One answer per completed window, in the order of time; mostly none or one.

        Raises
        ------
        InvalidInputError
            If the channels are others or a sample is not finite; nothing of ``samples`` is taken.
        """
        new = self._checked(samples)
        kind = float_type(new.dtype)
        if kind.itemsize > self._buffer.itemsize:
            self._buffer = self._buffer.astype(kind)
        out: list[Answer] = []
        taken = 0
        while taken < new.shape[1]:
            self._make_room()
            count = min(new.shape[1] - taken, self._buffer.shape[1] - self._filled)
            place = slice(self._filled, self._filled + count)
            self._buffer[:, place] = new[:, taken : taken + count]
            self._filled += count
            taken += count
            out += self._completed()
        return out

    def _make_room(self) -> None:
        """Drop samples that no later window holds, where the buffer is full."""
        if self._filled < self._buffer.shape[1]:
            return
        old = min(self._next - self._first, self._filled)
        left = self._filled - old
        self._buffer[:, :left] = self._buffer[:, old : self._filled].copy()
        self._first, self._filled = self._first + old, left

    def _completed(self) -> list[Answer]:
        """Return the answers of all windows that the buffer holds."""
        out: list[Answer] = []
        last = self.n_samples - self.n_times
        while self._next <= last:
            count = min(MAX_WINDOWS, (last - self._next) // self.hop + 1)
            starts = self._next + self.hop * np.arange(count)
            windows = np.stack(
                [self._buffer[:, a : a + self.n_times] for a in (starts - self._first).tolist()]
            )
            out += self._answers(self._rows(windows), starts.tolist())
            self._next += self.hop * count
        return out

    def _rows(self, windows: Array) -> Array:
        """Return what the model makes of windows [n, channel, time], (n, q).

        A window with samples that the model cannot work with has NaN; those behind it do not.
        """
        try:
            return self._of_model(windows)
        except InvalidInputError as error:
            if len(windows) > 1:
                return np.concatenate([self._rows(window[np.newaxis]) for window in windows])
            checks.warn(f"a window of the stream cannot be answered, and has NaN: {error}")
            return np.full((1, self.n_columns), np.nan)

    @property
    @abstractmethod
    def n_columns(self) -> int:
        """Numbers that the model makes of a window."""

    @abstractmethod
    def _of_model(self, windows: Array) -> Array:
        """Return what the model makes of windows [n, channel, time], (n, q)."""

    @abstractmethod
    def _answers(self, rows: Array, starts: list[int]) -> list[Answer]:
        """Return the answers of windows that begin at these samples."""

    def _times(self, start: int) -> tuple[int, int, float | None, float | None]:
        end = start + self.n_times
        if self.fs is None:
            return start, end, None, None
        return start, end, start / self.fs, end / self.fs

    def _checked(self, samples: Any) -> Array:
        """Return samples [channel, time] as numbers; raise an error that names the place."""
        new = as_array(samples, "samples", missing=self._missing)
        if new.ndim != 2 or new.shape[0] != self.n_channels:
            names = "" if self.channels is None else f" ({listed(self.channels)})"
            way = f"pass samples [{self.n_channels}, any number]"
            if new.ndim == 2 and new.shape[1] == self.n_channels:
                way += ": here that is samples.T"
            elif new.ndim == 1:
                way += ": for one sample of each channel use samples[:, np.newaxis]"
            raise InvalidInputError(
                f"samples has shape {new.shape}, but the model was fitted on {self.n_channels} "
                f"channels{names}; {way}"
            )
        if new.dtype.kind not in "fiub":
            raise InvalidInputError(
                f"samples holds {new.dtype}, but real numbers are needed; convert it with "
                "samples.astype(float)"
            )
        if new.dtype.kind == "f" and not np.isfinite(new).all():
            self._check_finite(new)
        return new

    def _check_finite(self, new: Array) -> None:
        bad = np.isinf(new) if self._missing else ~np.isfinite(new)
        if not bad.any():
            return
        at = int(bad.any(axis=0).argmax())
        channel = int(bad[:, at].argmax())
        name = "" if self.channels is None else f" ({listed([self.channels[channel]])})"
        place = self.n_samples + at
        when = "" if self.fs is None else f", {place / self.fs:.3f} s"
        raise InvalidInputError(
            f"samples[{channel}, {at}] is {new[channel, at]}: channel {channel}{name} at sample "
            f"{place} of the stream{when}; {int(bad.sum())} of {new.size} values are not finite. "
            "Nothing was taken: fill the gap and push again, or reset() and go on behind it"
        )


class FeatureStream(Stream[LiveFeatures]):
    """Features of the windows of a live signal. Made by :meth:`ContrastiveFeatures.stream`."""

    @property
    def n_columns(self) -> int:
        """Number of features."""
        return int(self.model._n_features_out)

    def _of_model(self, windows: Array) -> Array:
        return checks.plain_output(self.model, windows)

    def _answers(self, rows: Array, starts: list[int]) -> list[LiveFeatures]:
        return [
            LiveFeatures(*self._times(start), row) for start, row in zip(starts, rows, strict=True)
        ]


class ClassStream(Stream[LiveClass]):
    """Classes of the windows of a live signal. Made by :meth:`ContrastiveClassifier.stream`.

    With ``smooth``, a window is judged with all windows before it, by the forward algorithm of the
    hidden Markov model. Windows that come later are not known yet, so that :meth:`predict` of a
    whole recording may differ.
    """

    def reset(self) -> None:
        """Forget all samples: the next one is the first of a new signal."""
        super().reset()
        self._belief: Array | None = None

    @property
    def n_columns(self) -> int:
        """Number of classes."""
        return len(self.model.classes_)

    def _of_model(self, windows: Array) -> Array:
        return np.asarray(self.model._probability(windows))

    def _answers(self, rows: Array, starts: list[int]) -> list[LiveClass]:
        model, probability = self.model, rows
        if model.smooth is not None:
            probability = self._filtered(probability)
        path = probability.argmax(axis=1)
        labels = model._labels_of(path, probability).tolist()
        return [
            LiveClass(*self._times(start), label, float(row[best]), row)
            for start, label, best, row in zip(starts, labels, path, probability, strict=True)
        ]

    def _filtered(self, probability: Array) -> Array:
        """Probabilities (n, k) given this window and those before it: the forward algorithm."""
        model = self.model
        prior = model.n_labels_ / model.n_labels_.sum()
        transitions = model.transitions()
        out = np.empty_like(probability)
        for i, own in enumerate(np.maximum(probability, 1e-12)):
            # Windows that do not touch are runs of their own, as in ``predict``.
            alone = self._belief is None or self.hop > self.n_times
            before = prior if alone else self._belief @ transitions
            out[i] = before * own / (before * own).sum()
            # A window without an answer leaves what was known before it.
            self._belief = before if np.isnan(own).any() else out[i]
        return out


def _hop(hop: int | None, hop_s: float | None, fs: float | None, n_times: int) -> int:
    """Return samples from window to window."""
    if hop is not None and hop_s is not None:
        raise InvalidInputError(f"hop={hop!r} and hop_s={hop_s!r}: give one of them")
    if hop_s is not None:
        if fs is None:
            raise InvalidInputError(
                f"hop_s={hop_s!r} is in seconds, but the model was fitted without a sampling rate; "
                "give hop in samples, or fit with fs="
            )
        if isinstance(hop_s, bool) or not isinstance(hop_s, Real) or not 0 < hop_s < np.inf:
            raise InvalidInputError(f"hop_s={hop_s!r}: a number of seconds above 0 is needed")
        hop = round(float(hop_s) * fs)
        if hop < 1:
            raise InvalidInputError(
                f"hop_s={hop_s!r} is less than one sample at {fs:g} Hz; give hop=1"
            )
        return hop
    if hop is None:
        return n_times
    if isinstance(hop, bool) or not isinstance(hop, Integral) or hop < 1:
        raise InvalidInputError(
            f"hop={hop!r}: a whole number of samples, 1 or more, is needed; hop_s is in seconds"
        )
    return int(hop)
