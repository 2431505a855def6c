"""Recordings at another sampling rate."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tensorcontrast.errors import InvalidInputError
from tensorcontrast.recordings.checks import as_sampling_rate

if TYPE_CHECKING:
    from tensorcontrast.recordings import Recordings

#: How far the last sample of a window, and of a whole recording, may be off its time, in samples,
#: by a simpler ratio of rates.
MAX_DRIFT, MAX_DRIFT_OF_RECORDING = 0.01, 0.5
#: Largest denominator of the ratio of two rates; the filter has 20 taps per unit.
MAX_DENOMINATOR = 10_000


def resample(rec: Recordings, fs: float) -> Recordings:
    """Bring every window to another sampling rate, with an anti-aliasing filter.

    The filter is the one of :func:`scipy.signal.resample_poly`, a polyphase filter without delay.
    Windows keep their first sample and their duration: they hold every sample time k / ``fs``
    before their end. Beyond the edges a window is continued by the line from its first to its last
    sample; cut windows after resampling where the first and last ten samples matter. The column
    ``start`` is counted in samples of the new rate, rounded.

    Parameters
    ----------
    rec : Recordings
        With a sampling rate and without missing values.
    fs : float
        New number of samples per second.

    Returns
    -------
    Recordings

    Examples
    --------
    >>> from tensorcontrast import Recordings
    >>> Recordings(np.zeros((1, 2, 500)), fs=250).resample(100)
    Recordings(1 samples, 2 channels, 200 times (2 s at 100 Hz))
    """
    new = as_sampling_rate(fs)
    if rec.fs is None:
        raise InvalidInputError(
            "these recordings have no sampling rate to resample from; make them with fs="
        )
    if new == rec.fs:
        return rec
    X = resampled(rec.X, rec.fs, new, MAX_DRIFT)
    columns = dict(rec.columns)
    if "start" in columns:
        columns["start"] = np.rint(columns["start"] * (new / rec.fs)).astype(np.int64)
    return rec._with(X=X, fs=new, columns=columns)


def resampled(
    X: npt.NDArray[Any], old: float, new: float, drift: float = MAX_DRIFT_OF_RECORDING
) -> npt.NDArray[Any]:
    """Signals at another rate, along their last axis; see :func:`resample`.

    Parameters
    ----------
    X : array [..., time]
        Without missing values.
    old, new : float
        Samples per second.
    drift : float
        How far the last sample may be off its time, in samples.
    """
    from scipy.signal import resample_poly

    ratio = _ratio(new, old, X.shape[-1], drift)
    with np.errstate(all="ignore"):
        if not np.isfinite(X.sum(dtype=np.float64)) and not np.isfinite(X).all():
            raise InvalidInputError(
                "recordings with missing values cannot be resampled, as the filter would spread "
                "them; fill them, or leave these recordings out"
            )
    mean = X.mean(axis=-1, keepdims=True)  # the ripple of the filter would show in an offset
    up, down = ratio.numerator, ratio.denominator
    found = resample_poly(X - mean, up, down, axis=-1, padtype="line") + mean
    return np.asarray(found.astype(X.dtype, copy=False))


def _ratio(new: float, old: float, n_times: int, drift: float) -> Fraction:
    """Ratio of rates with small numbers that keeps the samples of a signal at their times."""
    wanted = new / old
    limit = 10
    while limit <= MAX_DENOMINATOR:
        ratio = Fraction(wanted).limit_denominator(limit)
        if ratio and abs(float(ratio) / wanted - 1) * n_times * max(1.0, wanted) < drift:
            return ratio
        limit *= 10
    raise InvalidInputError(
        f"{new:g} Hz is no simple ratio of {old:g} Hz; take a rate such as {_near(new, old):g}"
    )


def _near(new: float, old: float) -> float:
    ratio = Fraction(new / old).limit_denominator(100) or Fraction(1, 100)
    return old * float(ratio)
