"""BYOL: one view of a window predicted from the other, without negatives."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval

from tensorcontrast.neural.base import Augment, ContrastiveEncoder


class BYOL(ContrastiveEncoder):
    """Features of a residual convolutional encoder that predicts its own moving average.

    From one view the online network (encoder, projector, predictor) predicts what the target
    network makes of the other view, and the other way round. The target is a moving average of
    the online encoder and projector and gets no gradient. Features are the online encoder's output.

    Parameters
    ----------
    n_features : int, default=128
        Length of the encoder's output. The paper's comparison has 128; pass 32 to compare with
        decompositions at an equal number of features.
    momentum : float, default=0.99
        Share of itself that the target keeps in the first step; it rises to 1 along a cosine.
    projection : int, default=128
        Length of the vectors that the loss compares.
    hidden : int, default=256
        Width of projector and predictor.
    augment, max_iter, batch_size, learning_rate
        As in :class:`SimCLR`.
    tol, patience : float, int, default=1e-3, 20
        As in :class:`SimCLR`. The target moves, so the loss may rise for a while.
    device, random_state, callback, verbose
        As in :class:`SimCLR`.

    Attributes
    ----------
    weights_, n_parameters_, history_, rank_, n_iter_
        As in :class:`SimCLR`; the target network is not counted, since it is not trained.
    center_, scale_, converged_, interrupted_
        As in :class:`SimCLR`.

    References
    ----------
    Grill et al.: Bootstrap your own latent: a new approach to self-supervised learning. NeurIPS
    2020.

    Examples
    --------
    >>> from tensorcontrast.datasets import make_cp_tensor
    >>> from tensorcontrast.neural import BYOL
    >>> X, *_ = make_cp_tensor(n_samples=40, dims=(3, 9, 8), rank=3, random_state=0)
    >>> model = BYOL(n_features=16, max_iter=2, batch_size=20, random_state=0).fit(X)
    >>> model.transform(X).shape, len(model.history_["loss"])
    ((40, 16), 2)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ContrastiveEncoder._parameter_constraints,
        "momentum": [Interval(Real, 0, 1, closed="both")],
        "hidden": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        n_features: int = 128,
        *,
        momentum: float = 0.99,
        projection: int = 128,
        hidden: int = 256,
        augment: Augment | None = None,
        max_iter: int = 100,
        batch_size: int = 128,
        learning_rate: float = 1e-3,
        tol: float = 1e-3,
        patience: int = 20,
        device: str = "cpu",
        random_state: int | np.random.RandomState | None = None,
        callback: Callable[[dict[str, float]], object] | None = None,
        verbose: bool = False,
    ) -> None:
        self.n_features = n_features
        self.momentum = momentum
        self.projection = projection
        self.hidden = hidden
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

        projector = head(int(self.n_features), self.hidden, self.projection)
        online = nn.ModuleDict({"encoder": encoder, "projector": projector})
        target = copy.deepcopy(online)
        target.requires_grad_(False)
        predictor = head(self.projection, self.hidden, self.projection)
        return nn.ModuleDict({"online": online, "target": target, "predictor": predictor})

    def _trained_encoder(self, networks: Any) -> Any:
        return networks["online"]["encoder"]

    def _loss(self, networks: Any, a: Any, b: Any) -> Any:
        import torch

        from tensorcontrast.neural.networks import byol

        online, target, predictor = (networks[k] for k in ("online", "target", "predictor"))

        def one_way(view: Any, other: Any) -> Any:
            with torch.no_grad():
                goal = target["projector"](target["encoder"](other))
            return byol(predictor(online["projector"](online["encoder"](view))), goal)

        return one_way(a, b) + one_way(b, a)

    def _after_step(self, networks: Any, progress: float) -> None:
        move_target(networks["online"], networks["target"], momentum_at(self.momentum, progress))


def momentum_at(momentum: float, progress: float) -> float:
    """Momentum of the target after this share of the steps: from ``momentum`` to 1 by a cosine."""
    return 1.0 - (1.0 - momentum) * (math.cos(math.pi * progress) + 1.0) / 2.0


def move_target(online: Any, target: Any, momentum: float) -> None:
    """``target ← m · target + (1 − m) · online`` for every weight."""
    import torch

    with torch.no_grad():
        for t, o in zip(target.parameters(), online.parameters(), strict=True):
            t.lerp_(o, 1.0 - momentum)
