"""The coupled blocks of a signal: its spectrogram tensor and its convolution features (E22)."""

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
"""Standard deviation of all convolution features together against that of the spectrogram."""

LEAST_WINDOWS = 32
"""Windows from which ``shapes="auto"`` asks for convolution features; fewer tell little."""


@dataclass(frozen=True)
class SignalBlocks:
    """A fitted spectrogram transformer and fitted convolution features, as two coupled blocks.

    ``gain`` is what the convolution features are multiplied with, ``width`` the size of their
    block. Where there are fewer features than that, the last entries of the block are zero.
    """

    tensorize: Any
    convolution: ConvolutionFeatures
    gain: float
    width: int

    @property
    def missing(self) -> str:
        """What NaN are: mistakes always."""
        return "error"

    @property
    def block_dims(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of both blocks."""
        return tuple(int(d) for d in self.tensorize.output_shape_), (self.width,)

    def transform(self, X: np.ndarray) -> np.ndarray:
        """Rows (n, i) of signals: the spectrogram tensor, then the convolution features."""
        tensors = np.asarray(self.tensorize.transform(X))
        size = tensors[0].size
        out = np.zeros((len(tensors), size + self.width), tensors.dtype)
        out[:, :size] = tensors.reshape(len(tensors), -1)
        values = checks.plain_output(self.convolution, X) * np.float32(self.gain)
        out[:, size : size + values.shape[1]] = values
        return out

    def state(self) -> dict[str, Any]:
        """Return what was learned."""
        return {"convolution": self.convolution, "gain": self.gain, "width": self.width}


def learn(signals: np.ndarray, tensorize: Any, weight: float = WEIGHT) -> SignalBlocks:
    """Learn convolution features of some signals for the tensors of a fitted transformer."""
    tensors = np.asarray(tensorize.transform(signals))
    width = _width(tensors.shape[2:])
    jobs, unit = getattr(tensorize, "n_jobs", None), getattr(tensorize, "unit_", 1.0)
    convolution = ConvolutionFeatures(min(N_COMPONENTS, width), n_jobs=jobs)
    convolution._learn(signals, unit)
    values = checks.plain_output(convolution, signals)
    spreads = [
        math.sqrt(float(A.reshape(len(A), -1).var(axis=0, dtype=np.float64).sum()))
        for A in (tensors, values)
    ]
    gain = weight * spreads[0] / spreads[1] if spreads[1] > 0 else 0.0
    return SignalBlocks(tensorize, convolution, gain, width)


def _width(rest: tuple[int, ...]) -> int:
    """Size of the convolution block: about ``N_COMPONENTS``, in whole channels of a spectrogram."""
    one = math.prod(rest)
    return max(1, round(N_COMPONENTS / one)) * one


def restored(state: Any, tensorize: Any, n_channels: int, n_times: int) -> SignalBlocks:
    """Make again what ``state`` came of, and check it, as it may come from a damaged file."""
    if not isinstance(state, dict) or set(state) != {"convolution", "gain", "width"}:
        raise InvalidInputError("the shapes of the model are no convolution features; fit again")
    convolution = state["convolution"]
    if not isinstance(convolution, ConvolutionFeatures):
        raise InvalidInputError("the shapes of the model hold no arrays; fit again")
    sizes = convolution.n_channels_in_, convolution.n_times_in_
    if sizes != (n_channels, n_times):
        raise InvalidInputError(
            f"shapes of windows of {sizes[0]} channels and {sizes[1]} samples do not fit windows "
            f"of {n_channels} and {n_times}; fit again"
        )
    gain, width = state["gain"], state["width"]
    if (
        not isinstance(gain, float)
        or not math.isfinite(gain)
        or type(width) is not int
        or width != _width(tuple(tensorize.output_shape_)[1:])
        or len(convolution.components_) > width
    ):
        raise InvalidInputError(
            f"shapes of gain {gain} in a block of {width} do not fit spectrograms of shape "
            f"{tensorize.output_shape_}; fit again"
        )
    return SignalBlocks(tensorize, convolution, gain, width)


def asked(wanted: bool | str, tensorize: Any, decompose: Any, n_samples: int) -> bool:
    """Whether convolution features are to be coupled with tensors of this fitted transformer.

    "auto" wants them where frames are in levels (windows are aligned to nothing, so that only how
    often a shape comes counts) and where the decomposition takes coupled blocks.
    """
    able = getattr(type(decompose), "takes_blocks", False)
    masked = getattr(tensorize, "missing", "error") == "mask"
    if wanted == "auto":
        in_levels = getattr(tensorize, "n_levels_", None) is not None
        return able and in_levels and not masked and n_samples >= LEAST_WINDOWS
    if wanted and not able:
        raise InvalidInputError(
            f"shapes=True: {type(decompose).__name__} takes no coupled blocks; use CPD, ATD or "
            "PLC, or shapes='auto'"
        )
    if wanted and masked:
        raise InvalidInputError(
            "shapes=True: shapes of signals with gaps are not known; use shapes=False with "
            "missing='mask', or fill the gaps"
        )
    return bool(wanted)
