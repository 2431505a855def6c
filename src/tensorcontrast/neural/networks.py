"""Networks and losses: the encoder of SimCLR and BYOL, and what generates DeepTensor's factors."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

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


# ---------------------------------------------------------------------- losses


def nt_xent(a: Tensor, b: Tensor, temperature: float) -> Tensor:
    """Normalised temperature-scaled cross entropy of SimCLR.

    Of the 2n rows of both views each has one positive, the other view of the same window; the
    other 2n − 2 rows are its negatives. The mean over all rows of
    ``−log(exp(⟨ẑ_i, ẑ_p⟩/τ) / Σ_{k≠i} exp(⟨ẑ_i, ẑ_k⟩/τ))``.

    Parameters
    ----------
    a, b : (n, d) tensors
        Projections of both views; row i of both is window i.
    temperature : float
        τ.

    References
    ----------
    Chen, Kornblith, Norouzi, Hinton: A simple framework for contrastive learning of visual
    representations. ICML 2020, equation 1.
    """
    # n = windows, d = projection
    n = len(a)
    rows = functional.normalize(torch.cat([a, b]), dim=1)  # (2n, d)
    logits = rows @ rows.T / temperature  # (2n, 2n)
    logits = logits.masked_fill(torch.eye(2 * n, dtype=torch.bool, device=a.device), -torch.inf)
    positive = (torch.arange(2 * n, device=a.device) + n) % (2 * n)
    return functional.cross_entropy(logits, positive)


def byol(prediction: Tensor, target: Tensor) -> Tensor:
    """Mean over the windows of ``‖p̂ − ẑ‖² = 2 − 2⟨p̂, ẑ⟩``; no gradient reaches ``target``.

    References
    ----------
    Grill et al.: Bootstrap your own latent. NeurIPS 2020, equation 2.
    """
    p = functional.normalize(prediction, dim=1)
    z = functional.normalize(target.detach(), dim=1)
    return (2.0 - 2.0 * (p * z).sum(dim=1)).mean()


# ----------------------------------------------------------------- DeepTensor


class Prior(nn.Module):
    """A small residual network from a random input (length, inputs) to (length, rank).

    With ``width`` 3 neighbouring rows are generated from common inputs, which is what makes an
    untrained network prefer smooth factors; with width 1 every row is generated on its own.

    Parameters
    ----------
    rank : int
        Columns of the input and of the output.
    hidden : int
    width : {1, 3}
    """

    def __init__(self, rank: int, hidden: int, width: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv1d(rank, hidden, width, padding=width // 2),
            nn.LeakyReLU(0.2),
            nn.Conv1d(hidden, hidden, width, padding=width // 2),
            nn.LeakyReLU(0.2),
            nn.Conv1d(hidden, rank, 1),
        )
        # The skip begins as the identity, so that every input can move its row on its own.
        self.skip = nn.Conv1d(rank, rank, 1, bias=False)
        nn.init.dirac_(self.skip.weight)

    def forward(self, z: Tensor) -> Tensor:
        """Return rows (length, rank) for inputs z (length, rank)."""
        x = z.T[None]  # (1, rank, length)
        out: Tensor = (self.body(x) + self.skip(x))[0].T
        return out


class Priors(nn.Module):
    """The networks and inputs of all modes: factors with unit columns, and features of any rows.

    Parameters
    ----------
    n_samples : int
    dims : sequence of int
    rank, hidden : int
    learn_inputs : bool
        Whether training changes the random inputs too.
    """

    def __init__(
        self, n_samples: int, dims: Sequence[int], rank: int, hidden: int, learn_inputs: bool
    ) -> None:
        super().__init__()
        self.modes = nn.ModuleList(Prior(rank, hidden, 3 if d > 2 else 1) for d in dims)
        self.inputs = nn.ParameterList(
            nn.Parameter(torch.randn(d, rank), requires_grad=learn_inputs) for d in dims
        )
        self.samples = Prior(rank, hidden, 1)  # the order of windows means nothing
        self.codes = nn.Embedding(n_samples, rank, sparse=True)
        if learn_inputs:
            # Features begin near zero: large wrong ones would first be shrunk, which stalls.
            nn.init.normal_(self.codes.weight, std=0.1)
        self.codes.weight.requires_grad_(learn_inputs)

    def factors(self) -> list[Tensor]:
        """Return K factors (I_k, rank) whose columns have unit length: scale is in the features."""
        return [
            functional.normalize(net(z), dim=0)
            for net, z in zip(self.modes, self.inputs, strict=True)
        ]

    def features(self, rows: Tensor) -> Tensor:
        """Features (m, rank) of the windows with these numbers.

        Scaled so that they begin with a norm of the order of 1, that of the windows.
        """
        out: Tensor = self.samples(self.codes(rows))
        return out / math.sqrt(out.shape[1])


def khatri_rao(factors: Sequence[Tensor]) -> Tensor:
    """H (∏I_k, rank), the last mode running fastest. Equation E1."""
    H = factors[0]
    for U in factors[1:]:
        H = (H[:, None, :] * U[None, :, :]).reshape(-1, H.shape[1])
    return H


def residual(X: Tensor, W: Tensor, H: Tensor) -> Tensor:
    """Mean over the windows of ``‖x − wHᵀ‖²`` for X (m, i), W (m, r), H (i, r). Equation E1.

    Through r×r products, so that no second array of the size of X is made; where the model
    explains nearly all of X, rounding may leave this a little below zero.
    """
    cross = ((X @ H) * W).sum()
    model = ((W.T @ W) * (H.T @ H)).sum()
    return ((X * X).sum() - 2.0 * cross + model) / len(X)
