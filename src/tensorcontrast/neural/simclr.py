"""SimCLR: two views of a window found among those of all others."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval

from tensorcontrast.neural.base import Augment, ContrastiveEncoder


class SimCLR(ContrastiveEncoder):
    """Contrastive features of a residual convolutional encoder, by the NT-Xent loss.

    Every window has to find its own other view among both views of the batch. Features are the
    encoder's output; the projector after it is used in training only.

    Parameters
    ----------
    n_features : int, default=128
        Length of the encoder's output. The paper's comparison has 128; pass 32 to compare with
        decompositions at an equal number of features.
    temperature : float, default=0.5
        Of the softmax.
    projection : int, default=128
        Length of the vectors that the loss compares.
    augment : callable, optional
        ``augment(X, rng)`` on tensors makes both views anew each epoch where ``fit`` is given
        none. Default: noise and masking at the tensor level.
    max_iter : int, default=100
        Epochs.
    batch_size : int, default=128
        Windows a step. All batches have nearly this size, and at least two windows.
    learning_rate : float, default=1e-3
        Of Adam.
    tol, patience : float, int, default=1e-3, 10
        The fit ends once ``patience`` epochs in a row have not lowered the loss by ``tol`` of its
        size. ``tol=0`` runs all epochs.
    device : str, default="cpu"
        As torch names it ("cuda", "cuda:1", "mps"); "auto" is a GPU where there is one.
    random_state : int, RandomState or None
        Makes a fit on the CPU repeatable; torch's own random state is left alone.
    callback : callable, optional
        Called each epoch with a dict of its terms; a true return value ends the fit.
    verbose : bool, default=False
        Show a progress bar.

    Attributes
    ----------
    weights_ : dict of arrays
        Weights of the encoder.
    n_parameters_ : int
        Numbers that training changed, projector included.
    history_ : dict of lists
        ``loss``, ``seconds`` and ``n_parameters`` of each epoch.
    rank_, n_iter_ : int
        Number of features; epochs.
    center_ : array (I_1, …, I_K)
    scale_ : float
    converged_, interrupted_ : bool
        Whether the loss had settled; whether Ctrl-C ended the fit.

    References
    ----------
    Chen, Kornblith, Norouzi, Hinton: A simple framework for contrastive learning of visual
    representations. ICML 2020.

    Cheng, Goh, Dogrusoz, Tuzel, Azemi: Subject-aware contrastive learning for biosignals. 2020.

    Examples
    --------
    >>> from tensorcontrast.datasets import make_cp_tensor
    >>> from tensorcontrast.neural import SimCLR
    >>> X, *_ = make_cp_tensor(n_samples=40, dims=(3, 9, 8), rank=3, random_state=0)
    >>> model = SimCLR(n_features=16, max_iter=2, batch_size=20, random_state=0).fit(X)
    >>> model.transform(X).shape, len(model.history_["loss"])
    ((40, 16), 2)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ContrastiveEncoder._parameter_constraints,
        "temperature": [Interval(Real, 0, None, closed="neither")],
    }

    def __init__(
        self,
        n_features: int = 128,
        *,
        temperature: float = 0.5,
        projection: int = 128,
        augment: Augment | None = None,
        max_iter: int = 100,
        batch_size: int = 128,
        learning_rate: float = 1e-3,
        tol: float = 1e-3,
        patience: int = 10,
        device: str = "cpu",
        random_state: int | np.random.RandomState | None = None,
        callback: Callable[[dict[str, float]], object] | None = None,
        verbose: bool = False,
    ) -> None:
        self.n_features = n_features
        self.temperature = temperature
        self.projection = projection
        self.augment = augment
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.tol = tol
        self.patience = patience
        self.device = device
        self.random_state = random_state
        self.callback = callback
        self.verbose = verbose

    def _networks(self, encoder: Any) -> Any:
        from torch import nn

        from tensorcontrast.neural.networks import head

        rank = int(self.n_features)
        projector = head(rank, rank, self.projection)
        return nn.ModuleDict({"encoder": encoder, "projector": projector})

    def _loss(self, networks: Any, a: Any, b: Any) -> Any:
        import torch

        from tensorcontrast.neural.networks import nt_xent

        z = networks["projector"](networks["encoder"](torch.cat([a, b])))
        return nt_xent(z[: len(a)], z[len(a) :], self.temperature)
