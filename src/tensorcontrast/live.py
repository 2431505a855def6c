"""Live signals: samples as they come, features or classes of the windows that they complete.

The last samples are kept, at most a window and a hop of them, so that memory does not grow.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval

from tensorcontrast.errors import InvalidInputError
from tensorcontrast.utils import checks
from tensorcontrast.utils.arrays import as_array
from tensorcontrast.utils.names import listed

__all__ = ["LiveWindow", "Stream"]

Array = NDArray[Any]

MAX_WINDOWS = 64
"""Windows that are computed at a time."""


@dataclass(frozen=True)
class LiveWindow:
    """What a model gives for one window of a stream.

    Attributes
    ----------
    start, end : int
        First sample of the window, and the one behind its last, counted from the start of the
        stream.
    start_s, end_s : float or None
        The same in seconds; None where the model knows no sampling rate.
    features : (r,) array or None
        Of :class:`ContrastiveFeatures`, as ``transform`` gives them; NaN where the window holds a
        sample that the model cannot work with, such as 1e30.
    label : int, str, bool or None
        Of :class:`ContrastiveClassifier`, as ``predict`` gives it; unknown where the window holds
        a sample that the model cannot work with.
    probability : float or None
        Of the label; of the most likely class where the label is unknown.
    probabilities : (k,) array or None
        Of each class, in the order of ``classes_``; NaN as ``features``.
    """

    start: int
    end: int
    start_s: float | None
    end_s: float | None
    features: Array | None = None
    label: Any = None
    probability: float | None = None
    probabilities: Array | None = None


class Stream:
    """Windows of a signal that comes sample by sample. Made by ``model.stream()``.

    The first window begins with the first sample, the next one ``hop`` samples later. One stream is
    for one signal and for one thread.

    With ``smooth``, a classifier judges a window with all windows before it, by the forward
    algorithm of the hidden Markov model. Windows that come later are not known yet, so that
    ``predict`` of a whole recording may differ.

    Parameters
    ----------
    model : ContrastiveFeatures or ContrastiveClassifier
        Fitted.
    hop : int, optional
        Samples from the start of one window to that of the next. Default: the length of a window.
    hop_s : float, optional
        The same in seconds, rounded to whole samples, instead of ``hop``.
    """

    def __init__(self, model: Any, hop: int | None = None, hop_s: float | None = None) -> None:
        features = getattr(model, "extractor_", model)
        self.model = model
        self.fs: float | None = features.fs_
        self.n_channels, self.n_times = int(features.n_channels_in_), int(features.n_times_in_)
        self.channels: tuple[str, ...] | None = features.channels_
        self.hop = _hop(hop, hop_s, self.fs, self.n_times)
        self._classifies = features is not model
        self._missing = features.missing == "mask"
        self.reset()

    def reset(self) -> None:
        """Forget all samples: the next one is the first of a new signal."""
        self._rest = np.zeros((self.n_channels, 0), np.float32)  # samples of later windows
        self._first = 0  # number of the first of them
        self._next = 0  # first sample of the next window
        self._belief: Array | None = None

    @property
    def n_samples(self) -> int:
        """Samples that have come since the start, or since :meth:`reset`."""
        return self._first + self._rest.shape[1]

    def push(self, samples: Any) -> list[LiveWindow]:
        """Take more samples, and return what the windows that they complete give.

        Parameters
        ----------
        samples : array-like [channel, time]
            Any number of samples, also none, with the channels and at the rate of the fit.

        Returns
        -------
        list of LiveWindow
            One per completed window, in the order of time; mostly none or one.

        Raises
        ------
        InvalidInputError
            If the channels are others or a sample is not finite; nothing of ``samples`` is taken.
        """
        self._rest = np.concatenate([self._rest, self._checked(samples)], axis=1)
        out: list[LiveWindow] = []
        while self._next + self.n_times <= self.n_samples:
            last = self.n_samples - self.n_times
            starts = range(self._next, last + 1, self.hop)[:MAX_WINDOWS]
            at = [start - self._first for start in starts]
            rows = self._rows(np.stack([self._rest[:, a : a + self.n_times] for a in at]))
            out += map(self._answer, starts, rows)
            self._next = starts[-1] + self.hop
        old = min(self._next, self.n_samples) - self._first
        self._rest, self._first = self._rest[:, old:].copy(), self._first + old
        return out

    def _rows(self, windows: Array) -> Array:
        """Return features or probabilities of windows [n, channel, time], (n, q).

        A window with samples that the model cannot work with has NaN; those behind it do not.
        """
        try:
            if self._classifies:
                return np.asarray(self.model._probability(windows))
            return checks.plain_output(self.model, windows)
        except InvalidInputError as error:
            if len(windows) > 1:
                return np.concatenate([self._rows(window[np.newaxis]) for window in windows])
            checks.warn(f"a window of the stream cannot be answered, and has NaN: {error}")
            model = self.model
            width = len(model.classes_) if self._classifies else int(model._n_features_out)
            return np.full((1, width), np.nan)

    def _answer(self, start: int, row: Array) -> LiveWindow:
        end, fs = start + self.n_times, self.fs
        seconds: tuple[float | None, float | None] = (None, None)
        if fs is not None:
            seconds = start / fs, end / fs
        if not self._classifies:
            return LiveWindow(start, end, *seconds, row)
        if self.model.smooth is not None:
            row = self._filtered(row)
        best = int(row.argmax())
        (label,) = self.model._labels_of(np.array([best]), row[np.newaxis]).tolist()
        return LiveWindow(start, end, *seconds, None, label, float(row[best]), row)

    def _filtered(self, probability: Array) -> Array:
        """Probabilities (k,) given this window and those before it: the forward algorithm."""
        model = self.model
        # Windows that do not touch are runs of their own, as in ``predict``.
        if self._belief is None or self.hop > self.n_times:
            before = model.n_labels_ / model.n_labels_.sum()
        else:
            before = self._belief @ model.transitions()
        joint = before * np.maximum(probability, 1e-12)
        # A window without an answer leaves what was known before it.
        self._belief = before if np.isnan(joint).any() else joint / joint.sum()
        return np.asarray(joint / joint.sum())

    def _checked(self, samples: Any) -> Array:
        """Return samples [channel, time] as numbers; raise an error that names the place."""
        new = as_array(samples, "samples")
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
        if new.dtype.kind == "O":
            raise InvalidInputError(
                "samples holds objects, but real numbers are needed; convert it with "
                "samples.astype(float)"
            )
        bad = np.isinf(new) if self._missing else ~np.isfinite(new)
        if bad.any():
            at = int(bad.any(axis=0).argmax())
            channel = int(bad[:, at].argmax())
            name = "" if self.channels is None else f" ({listed([self.channels[channel]])})"
            raise InvalidInputError(
                f"samples[{channel}, {at}] is {new[channel, at]}: channel {channel}{name} at "
                f"sample {self.n_samples + at} of the stream; {int(bad.sum())} of {new.size} "
                "values are not finite. Nothing was taken: fill the gap and push again, or "
                "reset() and go on behind it"
            )
        return new


_HOPS: dict[str, list[Any]] = {
    "hop": [Interval(Integral, 1, None, closed="left"), None],
    "hop_s": [Interval(Real, 0, None, closed="neither"), None],
}


def _hop(hop: int | None, hop_s: float | None, fs: float | None, n_times: int) -> int:
    """Return samples from window to window."""
    checks.check_settings(_HOPS, {"hop": hop, "hop_s": hop_s}, "stream")
    if hop_s is None:
        return n_times if hop is None else int(hop)
    if hop is not None:
        raise InvalidInputError(f"hop={hop!r} and hop_s={hop_s!r}: give one of them")
    if fs is None:
        raise InvalidInputError(
            f"hop_s={hop_s!r} is in seconds, but the model was fitted without a sampling rate; "
            "give hop in samples, or fit with fs="
        )
    if hop_s * fs < 1:
        raise InvalidInputError(f"hop_s={hop_s!r} is less than one sample at {fs:g} Hz; give hop=1")
    return round(hop_s * fs)
