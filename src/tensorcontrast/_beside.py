"""Spectrogram tensors with shapes beside them.

Shapes are further slices of the first mode, with loadings of their own in the decomposition
(``beside`` of CPD, ATD and PLC).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorcontrast import checks
from tensorcontrast.errors import InvalidInputError
from tensorcontrast.tensorize.convolution import ConvolutionFeatures

N_COMPONENTS = 256
"""Random-convolution features, at most."""

WEIGHT = 1.4
"""Standard deviation of all shapes together against that of the whole spectrogram."""

LEAST_WINDOWS = 32
"""Windows from which ``shapes="auto"`` asks for shapes; fewer tell little."""


@dataclass(frozen=True)
class WithShapes:
    """A fitted spectrogram transformer, and shapes that are put beside its tensors."""

    tensorize: Any
    convolution: ConvolutionFeatures
    gain: float
    n_slices: int

    @property
    def missing(self) -> str:
        """What NaN are: mistakes always."""
        return "error"

    def transform(self, X: np.ndarray) -> np.ndarray:
        """Tensors (n, channels + slices, rows, frames) of signals."""
        tensors = np.asarray(self.tensorize.transform(X))
        n, c, *rest = tensors.shape
        out = np.zeros((n, c + self.n_slices, *rest), tensors.dtype)
        out[:, :c] = tensors
        values = checks.plain_output(self.convolution, X) * np.float32(self.gain)
        # The slices are next to each other in memory; what the values do not fill stays 0.
        out.reshape(n, -1)[:, tensors[0].size :][:, : values.shape[1]] = values
        return out

    def state(self) -> dict[str, Any]:
        """Return what was learned as plain numbers and arrays."""
        return {"convolution": self.convolution, "gain": self.gain, "n_slices": self.n_slices}


def learn(signals: np.ndarray, tensorize: Any, weight: float = WEIGHT) -> WithShapes:
    """Learn shapes of some signals for the tensors of a fitted transformer."""
    tensors = np.asarray(tensorize.transform(signals))
    n_slices, size = _slices(tensors.shape[2:])
    jobs, unit = getattr(tensorize, "n_jobs", None), getattr(tensorize, "unit_", 1.0)
    convolution = ConvolutionFeatures(min(N_COMPONENTS, size), n_jobs=jobs)
    convolution._learn(signals, unit)
    values = checks.plain_output(convolution, signals)
    spreads = [
        math.sqrt(float(A.reshape(len(A), -1).var(axis=0, dtype=np.float64).sum()))
        for A in (tensors, values)
    ]
    gain = weight * spreads[0] / spreads[1] if spreads[1] > 0 else 0.0
    return WithShapes(tensorize, convolution, gain, n_slices)


def _slices(rest: tuple[int, ...]) -> tuple[int, int]:
    """Slices of shape ``rest`` that hold about as many values as there are, and their size."""
    one = math.prod(rest)
    count = max(1, round(N_COMPONENTS / one))
    return count, count * one


def restored(state: Any, tensorize: Any, n_channels: int, n_times: int) -> WithShapes:
    """Make again what ``state`` came of, and check it, as it may come from a damaged file."""
    if not isinstance(state, dict) or set(state) != {"convolution", "gain", "n_slices"}:
        raise InvalidInputError("what stands beside the spectrogram is no set of shapes; fit again")
    convolution = state["convolution"]
    if not isinstance(convolution, ConvolutionFeatures):
        raise InvalidInputError("the shapes beside the spectrogram hold no arrays; fit again")
    sizes = convolution.n_channels_in_, convolution.n_times_in_
    if sizes != (n_channels, n_times):
        raise InvalidInputError(
            f"shapes of windows of {sizes[0]} channels and {sizes[1]} samples do not fit windows "
            f"of {n_channels} and {n_times}; fit again"
        )
    gain, count = state["gain"], state["n_slices"]
    wanted, size = _slices(tuple(tensorize.output_shape_)[1:])
    if (
        not isinstance(gain, float)
        or not math.isfinite(gain)
        or type(count) is not int
        or count != wanted
        or len(convolution.components_) > size
    ):
        raise InvalidInputError(
            f"shapes of gain {gain} in {count} slices do not fit beside spectrograms of shape "
            f"{tensorize.output_shape_}; fit again"
        )
    return WithShapes(tensorize, convolution, gain, count)


def asked(wanted: bool | str, tensorize: Any, decompose: Any, n_samples: int) -> bool:
    """Whether shapes are to stand beside the tensors of this fitted transformer.

    "auto" wants them where frames are in levels (windows are aligned to nothing, so that only how
    often a shape comes counts) and where the decomposition gives them loadings of their own.
    """
    able = getattr(type(decompose), "takes_beside", False)
    masked = getattr(tensorize, "missing", "error") == "mask"
    if wanted == "auto":
        in_levels = getattr(tensorize, "n_levels_", None) is not None
        return able and in_levels and not masked and n_samples >= LEAST_WINDOWS
    if wanted and not able:
        raise InvalidInputError(
            f"shapes=True: {type(decompose).__name__} has no loadings for what stands beside the "
            "spectrogram; use CPD, ATD or PLC, or shapes='auto'"
        )
    if wanted and masked:
        raise InvalidInputError(
            "shapes=True: shapes of signals with gaps are not known; use shapes=False with "
            "missing='mask', or fill the gaps"
        )
    return bool(wanted)
