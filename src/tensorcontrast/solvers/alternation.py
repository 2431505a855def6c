"""E9 for both views in turn, with samples in one part or many: parts need sums of each other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from numpy.typing import NDArray

from tensorcontrast.cp import kernels
from tensorcontrast.cp.encoder import Encoder
from tensorcontrast.cp.losses import unit_rows
from tensorcontrast.cp.partition import Held, Parts
from tensorcontrast.cp.updates import contrast_features

Array = NDArray[Any]


class Pull(Protocol):
    """Rows h of one view from the unit rows of the other, with sums over all samples.

    ``of`` is what else is known of a part's samples. The contrasts here are symmetric, so that
    one function serves both views.
    """

    def sums(self, V_hat: Array, *of: Any) -> list[Any]:
        """Take the sums over the samples of a part that :meth:`rows` needs of all."""
        ...

    def rows(self, V_hat: Array, sums: list[Any], *of: Any) -> Array:
        """Rows h for the samples of a part."""
        ...


@dataclass(frozen=True)
class Solved:
    """Features of both views, wherever they are, and a call for value and terms."""

    W: Held
    V: Held
    finish: Callable[[], tuple[float, dict[str, float]]]


def alternate_views(
    parts: Parts,
    P: Held,
    P_view: Held,
    encoder: Encoder,
    pull: Pull,
    beta: float,
    previous: tuple[Held, Held] = (None, None),
    of: tuple[Held, ...] = (),
) -> Solved:
    """E9 for W given W̃, then for W̃ given W; all that parts need of each other are sums.

    ``P`` and ``P_view`` (n, r), ``previous`` features and ``of``, which the pull is told, are held
    by the parts. Equation E9.
    """
    W_old, V_old = previous
    V = parts.made(encoder, P_view) if V_old is None else V_old
    sums = parts.summed(_PullSums(pull), V, *of)()
    W, found = parts.step(_GivenOther(encoder, pull, sums, beta), P, W_old, V, *of)
    *sums, damped_w, first = found()
    V, last = parts.step(_GivenFirst(encoder, pull, sums, beta), P_view, V_old, W, *of)

    def finish() -> tuple[float, dict[str, float]]:
        contrast, cosines, damped_v, second = last()
        return float(contrast), {
            "contrast": float(contrast),
            "trans_inv": float(cosines) / parts.n_samples,
            "contraction": max(first.contraction, second.contraction),
            "damped": float(max(damped_w, damped_v)) / parts.n_samples,
            "inner_iterations": float(first.n_iter + second.n_iter),
        }

    return Solved(W, V, finish)


@dataclass(frozen=True)
class _Worst:
    """Largest contraction and most iterations."""

    contraction: float
    n_iter: int

    def merge(self, other: _Worst) -> _Worst:
        return _Worst(max(self.contraction, other.contraction), max(self.n_iter, other.n_iter))


@dataclass(frozen=True)
class _PullSums:
    pull: Pull

    def __call__(self, V: Array, *of: Any) -> list[Any]:
        return self.pull.sums(unit_rows(V)[0], *of)


@dataclass(frozen=True)
class _GivenOther:
    """Features of a part's samples under the pull of the other view, and the sums of theirs."""

    encoder: Encoder
    pull: Pull
    sums: list[Any]
    beta: float

    def __call__(
        self, P: Array, previous: Array | None, other: Array, *of: Any
    ) -> tuple[Array, list[Any]]:
        h = self.pull.rows(unit_rows(other)[0], self.sums, *of)
        w = contrast_features(P, self.encoder, h, self.beta, previous=previous)
        sums = self.pull.sums(unit_rows(w.W)[0], *of)
        return w.W, [*sums, w.n_damped, _Worst(w.contraction, w.n_iter)]


@dataclass(frozen=True)
class _GivenFirst(_GivenOther):
    """The same for the second view, with the value of the contrast and the sum of cosines."""

    def __call__(
        self, P: Array, previous: Array | None, other: Array, *of: Any
    ) -> tuple[Array, list[Any]]:
        W_hat = unit_rows(other)[0]
        h = self.pull.rows(W_hat, self.sums, *of)
        v = contrast_features(P, self.encoder, h, self.beta, previous=previous)
        V_hat = unit_rows(v.W)[0]
        values = [kernels.inner(h, V_hat), kernels.inner(W_hat, V_hat)]
        return v.W, [*values, v.n_damped, _Worst(v.contraction, v.n_iter)]
