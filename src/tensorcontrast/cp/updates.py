"""The feature update under a contrast (E9): a damped fixed-point iteration on all rows at once.

For given rows h each window minimises, independently of the others,

    f(w) = ½ w K wᵀ − ⟨p, w⟩ + β⟨h, ŵ⟩,   K = HᵀH + αI,  p = xH,

and E9 is ``g(w) = w − ∇f(w) K⁻¹``. It contracts where β is small against ‖w‖² and the smallest
eigenvalue of K (E13). The ratio is measured for every window; where it is 0.4 or more, or f would
rise, the step becomes ``−∇f(w) (K + c(I − ŵŵᵀ) + dI)⁻¹``: c is the curvature of the contrast
across ŵ, and d is raised from zero until f falls. So the iteration never diverges, whatever β is,
and ends at a fixed point of E9; or, where f has no minimum because the pull outweighs the data,
near w = 0 in the direction of the pull.

In the eigenbasis of K all of this is elementwise: lengths and inner products do not change, and
K is a diagonal. The only matrix products are the rotations there and back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorcontrast.cp.encoder import Encoder, rows_times
from tensorcontrast.cp.losses import unit_rows

Array = NDArray[Any]

#: Measured contraction from which a row is damped: at 1 E9 diverges, close to 1 it crawls.
SLOW_CONTRACTION = 0.4
#: Doublings of the damping after which a row counts as being at its minimum.
MAX_DOUBLINGS = 40


@dataclass(frozen=True)
class FeatureUpdate:
    """Result of E9: features, iterations, and the contraction that was measured."""

    W: Array
    #: Most iterations that a window took.
    n_iter: int
    #: Largest ‖g(w₁) − g(w₀)‖/‖w₁ − w₀‖ over the windows, g being the undamped E9 (E13).
    contraction: float
    #: Windows whose steps were damped.
    n_damped: int

    @property
    def damped(self) -> float:
        """Share of the windows whose steps were damped."""
        return self.n_damped / max(len(self.W), 1)


def row_objective(W: Array, P: Array, encoder: Encoder, h: Array, beta: float) -> Array:
    """``½wKwᵀ − ⟨p,w⟩ + β⟨h,ŵ⟩`` of each row (n,). Equation E9."""
    W_hat = unit_rows(W)[0]
    quadratic = np.einsum("ij,ij->i", 0.5 * (W @ encoder.K) - P, W)
    return quadratic + beta * np.einsum("ij,ij->i", h, W_hat)


def fixed_point(W: Array, P: Array, encoder: Encoder, h: Array, beta: float) -> Array:
    """One undamped E9: ``(p − β(h − ⟨h,ŵ⟩ŵ)/‖w‖) K⁻¹``. Equation E9."""
    W_hat, norm = unit_rows(W)
    along = np.einsum("ij,ij->i", h, W_hat)[:, None]
    pull = (h - along * W_hat) * (beta / np.where(norm > 0, norm, np.inf))
    return (P - pull) @ encoder.K_inverse


def contrast_features(
    P: Array,
    encoder: Encoder,
    h: Array,
    beta: float,
    *,
    previous: Array | None = None,
    tol: float = 1e-3,
    max_iter: int = 20,
    block_rows: int = 4096,
) -> FeatureUpdate:
    """Features of all windows under the pull h (n, r), from the solution of β = 0.

    Iterates E9 for each window until the relative change of its w falls below ``tol``, so that
    what a window gets does not depend on which others are solved with it. Equation E9.

    Parameters
    ----------
    P : (n, r) array
        XH.
    encoder : Encoder
    h : (n, r) array
        From :func:`~tensorcontrast.cp.losses.plc_pull` or ``atd_pull``.
    beta : float
    previous : (n, r) array, optional
        Features of the last sweep. A row starts from these instead of the solution of β = 0 where
        they are already better, so that the objective of E8 cannot rise from sweep to sweep.
    tol : float
    max_iter : int
    block_rows : int
        Rows worked on at a time, so that their arrays stay in the processor's cache.
    """
    if beta == 0.0:
        return FeatureUpdate(encoder(P), 0, 0.0, 0)
    E = encoder.eigenvectors
    P, h = rows_times(P, E), rows_times(h, E)
    previous = None if previous is None else rows_times(previous, E)
    out = np.empty_like(P)
    contraction, n_iter, n_damped = 0.0, 0, 0
    for start in range(0, len(P), block_rows):
        at = slice(start, start + block_rows)
        block = _Block(P[at], h[at], encoder.eigenvalues, beta, out[at])
        steps = block.solve(None if previous is None else previous[at], tol, max_iter)
        n_iter = max(n_iter, steps)
        contraction = max(contraction, block.contraction)
        n_damped += block.n_damped
    return FeatureUpdate(rows_times(out, E.T), n_iter, contraction, n_damped)


class _Block:
    """E9 for a block of rows in the eigenbasis of K: p, h (m, r), eigenvalues (r,).

    Rows that have settled are written to ``out`` (m, r) and left out from then on.
    """

    def __init__(self, p: Array, h: Array, eigenvalues: Array, beta: float, out: Array) -> None:
        self.p, self.h, self.eigenvalues, self.out = p, h, eigenvalues, out
        self.beta = p.dtype.type(beta)
        self.h_norm = np.sqrt(np.einsum("ij,ij->i", h, h))
        self.damped = np.zeros(len(p), dtype=bool)
        #: Places in ``out`` of the rows that are left.
        self.left = np.arange(len(p))
        self.contraction, self.n_damped = 0.0, 0

    def _settle(self, w: Array, moving: NDArray[np.bool_]) -> NDArray[np.intp]:
        """Write the rows that do not move any more; gives the places of those that do."""
        settled = np.flatnonzero(~moving)
        self.out[self.left[settled]] = w[settled]
        self.n_damped += int(self.damped[settled].sum())
        rest = np.flatnonzero(moving)
        self.left, self.damped = self.left[rest], self.damped[rest]
        self.p, self.h, self.h_norm = self.p[rest], self.h[rest], self.h_norm[rest]
        return rest

    def _parts(self, w: Array, rows: Any = slice(None)) -> tuple[Array, Array, Array]:
        """‖w‖, 1/‖w‖ (0 for rows of zeros) and ⟨h, ŵ⟩ of each row."""
        norm = np.sqrt(np.einsum("ij,ij->i", w, w))
        # Shorter rows have no direction left: the square of 1/‖w‖ would leave the float range.
        shortest = np.finfo(w.dtype).tiny ** (1 / 3)
        inverse = np.divide(1.0, norm, out=np.zeros_like(norm), where=norm > shortest)
        return norm, inverse, np.einsum("ij,ij->i", self.h[rows], w) * inverse

    def value(self, w: Array, along: Array, rows: Any = slice(None)) -> Array:
        """``f`` of each row, given ⟨h, ŵ⟩."""
        slope = w * (0.5 * self.eigenvalues)
        slope -= self.p[rows]
        return np.einsum("ij,ij->i", slope, w) + self.beta * along

    def gradient(self, w: Array, inverse: Array, along: Array) -> Array:
        """``λw − p + β(h − ⟨h,ŵ⟩ŵ)/‖w‖``."""
        pull = (self.beta * inverse)[:, None]
        out = w * self.eigenvalues
        out -= self.p
        out += pull * self.h
        out -= (self.beta * along * inverse * inverse)[:, None] * w
        return out

    def step(
        self, w: Array, gradient: Array, turning: Array, damping: Array, inverse: Array
    ) -> Array:
        """``−∇f (K + c(I − ŵŵᵀ) + dI)⁻¹`` for c = ``turning`` and d = ``damping`` of each row.

        With c = d = 0 this is E9. By the Sherman–Morrison formula it stays elementwise.
        """
        diagonal = self.eigenvalues + (turning + damping)[:, None]
        step = gradient / diagonal
        w_hat = w * inverse[:, None]
        solved = w_hat / diagonal
        # 1 − c ŵᵀD⁻¹ŵ, written without the cancellation that c ≫ λ would bring.
        rest = np.einsum("ij,ij->i", w_hat * (self.eigenvalues + damping[:, None]), solved)
        along = turning * np.einsum("ij,ij->i", w_hat, step)
        share = np.divide(along, rest, out=np.zeros_like(along), where=rest > 0)
        step += share[:, None] * solved
        return np.negative(step, out=step)

    def solve(self, previous: Array | None, tol: float, max_iter: int) -> int:
        """Iterate to the fixed point; gives the number of iterations."""
        w = self.p / self.eigenvalues
        _, inverse, along = self._parts(w)
        value = self.value(w, along)
        if previous is not None:
            other = self.value(previous, self._parts(previous)[2])
            better = other < value
            if better.any():
                w[better], value = previous[better], np.where(better, other, value)
                _, inverse, along = self._parts(w)
        eps = np.finfo(w.dtype).eps
        shortest = eps * np.sqrt(np.einsum("ij,ij->i", self.p, self.p)) / self.eigenvalues[-1]
        damping = np.zeros_like(value)
        first: tuple[Array, Array] | None = None
        for iteration in range(1, max_iter + 1):
            gradient = self.gradient(w, inverse, along)
            if first is None:
                first = (w, gradient)
            elif iteration == 2:
                self._measure(w, gradient, *first)
            # Curvature of the contrast where it draws w to its side, across ŵ; none along ŵ.
            turning = np.where(self.damped, -self.beta * np.minimum(along, 0.0) * inverse**2, 0.0)
            trial = w + self.step(w, gradient, turning, damping, inverse)
            trial_norm, trial_inverse, trial_along = self._parts(trial)
            trial_value = self.value(trial, trial_along)
            slack = 4 * eps * (np.abs(value) + np.abs(trial_value))
            damping *= 0.25
            rising = np.flatnonzero(~(trial_value <= value + slack))
            if len(rising):
                self.damped[rising] = True
                self._damp(rising, along, inverse, damping, w, gradient, value, trial, trial_value)
                trial_norm, trial_inverse, trial_along = self._parts(trial)
            # Where f falls all the way to w = 0 a row stops short of it, and keeps its direction.
            too_short = trial_norm < shortest
            if too_short.any():
                trial[too_short], trial_value[too_short] = w[too_short], value[too_short]
                trial_norm, trial_inverse, trial_along = self._parts(trial)
            w, moved = trial, trial - w
            value, inverse, along = trial_value, trial_inverse, trial_along
            moving = np.einsum("ij,ij->i", moved, moved) > tol**2 * np.square(trial_norm)
            if iteration == max_iter or not moving.any():
                self._settle(w, np.zeros(len(w), dtype=bool))
                return iteration
            if not moving.all():
                rest = self._settle(w, moving)
                w, value, inverse, along = w[rest], value[rest], inverse[rest], along[rest]
                damping, shortest = damping[rest], shortest[rest]
                first = (first[0][rest], first[1][rest])
        return max_iter

    def _measure(self, w: Array, gradient: Array, w_0: Array, gradient_0: Array) -> None:
        """Contraction of the undamped E9 between the first two points; damp where it is slow."""
        moved = np.subtract(w, w_0, dtype=np.float64)
        mapped = moved - np.subtract(gradient, gradient_0, dtype=np.float64) / self.eigenvalues
        size = np.einsum("ij,ij->i", moved, moved)
        ratio = np.sqrt(
            np.divide(
                np.einsum("ij,ij->i", mapped, mapped), size, out=np.zeros_like(size), where=size > 0
            )
        )
        self.contraction = float(ratio.max(initial=0.0))
        self.damped |= ratio >= SLOW_CONTRACTION

    def _damp(
        self,
        rows: NDArray[np.intp],
        along: Array,
        inverse: Array,
        damping: Array,
        w: Array,
        gradient: Array,
        value: Array,
        trial: Array,
        trial_value: Array,
    ) -> None:
        """Raise the damping of these rows until f falls; those that never do stay."""
        along, inverse = along[rows], inverse[rows]
        across = np.sqrt(np.maximum(self.h_norm[rows] ** 2 - along**2, 0.0))
        turning = -self.beta * np.minimum(along, 0.0) * inverse**2
        floor = np.finfo(w.dtype).eps * self.eigenvalues[-1]
        # The rest of the contrast's curvature is at most this.
        d = np.maximum(self.beta * (across + np.maximum(along, 0.0)) * inverse**2, floor)
        d = np.maximum(d, 2.0 * damping[rows])
        for _ in range(MAX_DOUBLINGS):
            candidate = w[rows] + self.step(w[rows], gradient[rows], turning, d, inverse)
            candidate_value = self.value(candidate, self._parts(candidate, rows)[2], rows)
            good = candidate_value <= value[rows]
            done = rows[good]
            trial[done], trial_value[done] = candidate[good], candidate_value[good]
            damping[done] = d[good]
            rows, d, turning, inverse = rows[~good], 2.0 * d[~good], turning[~good], inverse[~good]
            if not len(rows):
                return
        trial[rows], trial_value[rows] = w[rows], value[rows]
