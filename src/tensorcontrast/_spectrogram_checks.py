"""Parameters of a spectrogram that contradict each other, and what a model file may hold of one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tensorcontrast import _polarity
from tensorcontrast.errors import InvalidInputError

if TYPE_CHECKING:
    from tensorcontrast.spectrogram import SpectrogramTensor


def check_together(made: SpectrogramTensor) -> None:
    """Check parameters that are right by themselves."""
    if made.n_jobs == 0:
        raise InvalidInputError("n_jobs is 0; use a number of threads, -1 or None")
    if made.mean_row is True and made.representation == "complex":
        raise InvalidInputError(
            "mean_row adds nothing to representation='complex', whose row of frequency 0 is "
            "signed already; leave it False"
        )
    if made.n_levels not in ("time", "auto") and made.representation == "complex":
        raise InvalidInputError(
            "n_levels puts frames in the order of their size, which says nothing of "
            "representation='complex' and has no way back; leave it 'time'"
        )
    if made.polarity is True and made.representation not in _polarity.REPRESENTATIONS:
        raise InvalidInputError(
            f"polarity adds nothing to representation={made.representation!r}, which has two "
            "parts of each channel already; leave it False"
        )


def check_learned(made: SpectrogramTensor) -> None:
    """Check what a model file holds of what was learned, and put in what older files do not."""
    if not isinstance(getattr(made, "mean_row_", None), bool):
        made.mean_row_ = made.mean_row is True  # files from before there was a choice
    made.reference_ = getattr(made, "reference_", None)
    made.polarity_ = made.reference_ is not None
    weights = made.reference_
    if weights is not None and not (
        isinstance(weights, np.ndarray)
        and made.representation in _polarity.REPRESENTATIONS
        and weights.shape == (made.n_channels_in_,)
        and weights.dtype.kind == "f"
        and np.isfinite(weights).all()
    ):
        raise InvalidInputError(f"the reference of {made.n_channels_in_} channels is {weights}")
    made.n_levels_ = getattr(made, "n_levels_", None)
    if made.n_levels_ is not None and not (
        type(made.n_levels_) is int and 0 < made.n_levels_ <= 2**16
    ):
        raise InvalidInputError(f"the number of levels is {made.n_levels_!r}")
    made.unit_ = getattr(made, "unit_", 1.0)  # older files have none
    if not (isinstance(made.unit_, float) and 0 < made.unit_ < np.inf):
        raise InvalidInputError(f"the unit of the signals is {made.unit_!r}")
    sizes = (made.n_channels_in_, made.n_times_in_, made.n_fft_, made.hop_)
    if not all(type(size) is int and size > 0 for size in sizes) or made.n_fft_ > 2**24:
        raise InvalidInputError(f"channels, times, n_fft and hop are {sizes}")
