"""Losses of the contrastive networks, one function each."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional


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
