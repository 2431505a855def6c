"""Parameters of a spectrogram that contradict each other, and what a model file may hold of one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tensorcontrast.errors import InvalidInputError

if TYPE_CHECKING:
    from tensorcontrast.tensorize.spectrogram import SpectrogramTensor


def check_together(transformer: SpectrogramTensor) -> None:
    """Check parameters that are right by themselves."""
    if transformer.n_jobs == 0:
        raise InvalidInputError("n_jobs is 0; use a number of threads, -1 or None")
    if transformer.mean_row is True and transformer.representation == "complex":
        raise InvalidInputError(
            "mean_row adds nothing to representation='complex', whose row of frequency 0 is "
            "signed already; leave it False"
        )
    if transformer.n_quantiles is not None and transformer.representation == "complex":
        raise InvalidInputError(
            "n_quantiles sorts frames by size, which means nothing for representation='complex' "
            "and cannot be inverted; leave it None"
        )


def check_learned(transformer: SpectrogramTensor) -> None:
    """Check what a model file holds of what was learned."""
    if transformer.n_quantiles_ is not None and not (
        type(transformer.n_quantiles_) is int and 0 < transformer.n_quantiles_ <= 2**16
    ):
        raise InvalidInputError(f"the number of quantiles is {transformer.n_quantiles_!r}")
    if not (isinstance(transformer.unit_, float) and 0 < transformer.unit_ < np.inf):
        raise InvalidInputError(f"the unit of the signals is {transformer.unit_!r}")
    sizes = (
        transformer.n_channels_in_,
        transformer.n_times_in_,
        transformer.n_fft_,
        transformer.hop_,
    )
    if not all(type(size) is int and size > 0 for size in sizes) or transformer.n_fft_ > 2**24:
        raise InvalidInputError(f"channels, times, n_fft and hop are {sizes}")
