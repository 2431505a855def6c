"""Networks that generate the factors and the features of DeepTensor."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional


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
