"""Parameters of a spectrogram that contradict each other, and what a model file may hold of one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tensorcontrast.errors import InvalidInputError

if TYPE_CHECKING:
    from tensorcontrast.tensorize.spectrogram import SpectrogramTensor


def check_together(made: SpectrogramTensor) -> None:
    """Check parameters that are right by themselves."""
    if made.n_jobs == 0:
        raise InvalidInputError("n_jobs is 0; use a number of threads, -1 or None")
    if made.mean_row is True and made.representation == "complex":
        raise InvalidInputError(
            "mean_row adds nothing to representation='complex', whose row of frequency 0 is "
            "signed already; leave it False"
        )
    if made.n_quantiles is not None and made.representation == "complex":
        raise InvalidInputError(
            "n_quantiles sorts frames by size, which means nothing for representation='complex' "
            "and cannot be inverted; leave it None"
        )


def check_learned(made: SpectrogramTensor) -> None:
    """Check what a model file holds of what was learned."""
    if made.n_quantiles_ is not None and not (
        type(made.n_quantiles_) is int and 0 < made.n_quantiles_ <= 2**16
    ):
        raise InvalidInputError(f"the number of quantiles is {made.n_quantiles_!r}")
    if not (isinstance(made.unit_, float) and 0 < made.unit_ < np.inf):
        raise InvalidInputError(f"the unit of the signals is {made.unit_!r}")
    sizes = (made.n_channels_in_, made.n_times_in_, made.n_fft_, made.hop_)
    if not all(type(size) is int and size > 0 for size in sizes) or made.n_fft_ > 2**24:
        raise InvalidInputError(f"channels, times, n_fft and hop are {sizes}")
