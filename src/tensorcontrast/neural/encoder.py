"""The convolutional encoder that SimCLR and BYOL share, and their heads."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

#: Channels after the first layer and after each residual block.
WIDTHS = (16, 32, 64, 64)
#: Rows that are left of each axis before the last layer, so that a place on it still counts.
GRID = 4

_CONV = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}
_NORM = {1: nn.BatchNorm1d, 2: nn.BatchNorm2d, 3: nn.BatchNorm3d}
_POOL = {1: nn.AdaptiveAvgPool1d, 2: nn.AdaptiveAvgPool2d, 3: nn.AdaptiveAvgPool3d}


class ResidualBlock(nn.Module):
    """Two convolutions of width 3 around a skip, halving every axis."""

    def __init__(self, axes: int, before: int, after: int) -> None:
        super().__init__()
        conv, norm = _CONV[axes], _NORM[axes]
        # A bias before a normalisation would be taken away by it.
        self.body = nn.Sequential(
            conv(before, after, 3, stride=2, padding=1, bias=False),
            norm(after),
            nn.ELU(),
            conv(after, after, 3, padding=1, bias=False),
            norm(after),
        )
        self.skip = nn.Sequential(conv(before, after, 1, stride=2, bias=False), norm(after))
        self.last = nn.ELU()

    def forward(self, x: Tensor) -> Tensor:
        """Return (n, after, ⌈axis/2⌉ …)."""
        out: Tensor = self.last(self.body(x) + self.skip(x))
        return out


class ResidualEncoder(nn.Module):
    """From tensors (n, I_1, …, I_K) to features (n, n_features).

    The first mode is that of channels, and convolutions go over the others, up to three of them;
    of more modes the first ones together are the channels, and a single mode is an axis.

    Parameters
    ----------
    dims : sequence of int
        I_1, …, I_K.
    n_features : int
    """

    def __init__(self, dims: Sequence[int], n_features: int) -> None:
        super().__init__()
        axes = min(3, max(1, len(dims) - 1))
        self.shape = (math.prod(dims[:-axes]), *dims[-axes:])
        conv, norm = _CONV[axes], _NORM[axes]
        self.stem = nn.Sequential(
            conv(self.shape[0], WIDTHS[0], 3, padding=1, bias=False), norm(WIDTHS[0]), nn.ELU()
        )
        self.blocks = nn.Sequential(
            *(ResidualBlock(axes, a, b) for a, b in itertools.pairwise(WIDTHS))
        )
        left = [min(GRID, math.ceil(d / 2 ** (len(WIDTHS) - 1))) for d in self.shape[1:]]
        self.pool = _POOL[axes](tuple(left))
        self.last = nn.Linear(WIDTHS[-1] * math.prod(left), n_features)

    def forward(self, x: Tensor) -> Tensor:
        """Features of x (n, I_1 · … · I_K) or (n, I_1, …, I_K)."""
        x = x.reshape(len(x), *self.shape)
        if x.ndim == 4:
            x = x.contiguous(memory_format=torch.channels_last)  # a third faster on processors
        x = self.blocks(self.stem(x))
        out: Tensor = self.last(self.pool(x).flatten(1))
        return out


def head(before: int, hidden: int, after: int) -> nn.Sequential:
    """Projector of SimCLR and BYOL, and predictor of BYOL: two layers."""
    return nn.Sequential(
        nn.Linear(before, hidden, bias=False),
        nn.BatchNorm1d(hidden),
        nn.ReLU(),
        nn.Linear(hidden, after),
    )
