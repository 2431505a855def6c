"""Algorithm 1 of the paper: clusters, then features of both views in turn (E9, E11)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tensorcontrast.cp import kernels, losses
from tensorcontrast.cp.encoder import Encoder
from tensorcontrast.cp.graph import GraphPart, SignedGraph, label_change
from tensorcontrast.cp.kmeans import TUNING, KMeansTuning, cluster, find_cells
from tensorcontrast.cp.losses import unit_rows
from tensorcontrast.cp.partition import InMemory, PartitionedArray, Partitions
from tensorcontrast.cp.updates import contrast_features, row_objective
from tensorcontrast.solvers import als
from tensorcontrast.solvers.semi_supervised import likely_classes

# ------------------------------------------------------------ both views in turn

Array = NDArray[Any]


class Pull(Protocol):
    """Rows h of one view from the unit rows of the other, with sums over all windows.

    ``of`` is what else is known of a part's windows. The contrasts here are symmetric, so that
    one function serves both views.
    """

    def sums(self, V_hat: Array, *of: Any) -> list[Any]:
        """Take the sums over the windows of a part that :meth:`rows` needs of all."""
        ...

    def rows(self, V_hat: Array, sums: list[Any], *of: Any) -> Array:
        """Rows h for the windows of a part."""
        ...


@dataclass(frozen=True)
class Solved:
    """Features of both views, wherever they are, and a call for value and terms."""

    W: PartitionedArray
    V: PartitionedArray
    finish: Callable[[], tuple[float, dict[str, float]]]


def alternate_views(
    partitions: Partitions,
    P: PartitionedArray,
    P_view: PartitionedArray,
    encoder: Encoder,
    pull: Pull,
    beta: float,
    previous: tuple[PartitionedArray, PartitionedArray] = (None, None),
    of: tuple[PartitionedArray, ...] = (),
) -> Solved:
    """E9 for W given W̃, then for W̃ given W; all that partitions need of each other are sums.

    ``P`` and ``P_view`` (n, r), ``previous`` features and the arguments ``of`` of the pull are
    arrays of each partition. Equation E9.
    """
    W_old, V_old = previous
    V = partitions.mapped(encoder, P_view) if V_old is None else V_old
    sums = partitions.summed(_PullSums(pull), V, *of)()
    W, found = partitions.step(_GivenOther(encoder, pull, sums, beta), P, W_old, V, *of)
    *sums, damped_w, first = found()
    V, last = partitions.step(_GivenFirst(encoder, pull, sums, beta), P_view, V_old, W, *of)

    def finish() -> tuple[float, dict[str, float]]:
        contrast, cosines, damped_v, second = last()
        return float(contrast), {
            "contrast": float(contrast),
            "trans_inv": float(cosines) / partitions.n_samples,
            "contraction": max(first.contraction, second.contraction),
            "damped": float(max(damped_w, damped_v)) / partitions.n_samples,
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
    """Features of a part's windows under the pull of the other view, and the sums of theirs."""

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


# ------------------------------------------------------------ the contrast over the pseudo graph


@dataclass(frozen=True)
class PLCPull:
    """Rows h of E9 over the graph, for which a part needs sums over classes. Equations E2, E9."""

    gamma: float
    invariance: float
    identity: bool
    n_samples: int
    n_classes: int
    n_known: int

    def sums(self, V_hat: Array, labels: Array, known: Any, weights: Any) -> list[Any]:
        """Take the sums over the classes of a part."""
        graph = SignedGraph(labels, known, weights)
        return list(graph.sums(V_hat, self.n_classes, self.n_known))

    def rows(self, V_hat: Array, sums: list[Any], labels: Array, known: Any, weights: Any) -> Array:
        """Rows h of a part."""
        part = GraphPart(labels, known, weights, tuple(sums), self.n_samples)
        return losses.plc_pull(
            V_hat, part, self.gamma, invariance=self.invariance, identity=self.identity
        )


def _count(labels: NDArray[np.intp] | None) -> int:
    return 0 if labels is None else max(int(labels.max(initial=-1)) + 1, 1)


def _changed(old: Array, new: Array) -> list[Any]:
    """Count the windows with another label."""
    return [np.count_nonzero(old != new)]


@dataclass(frozen=True)
class PLCContrast:
    """Features of both views under βℓ_PLC, over a graph clustered anew from W. Equation E11."""

    beta: float
    gamma: float
    n_clusters: int
    invariance: float = 1.0
    identity: bool = False
    same_view: bool = False
    clusterer: Any = None
    known: NDArray[np.intp] | None = None
    #: Whether known labels also say what other windows are likely to be.
    spread_labels: bool = False
    seed: int = 0
    tuning: KMeansTuning = TUNING

    def __call__(
        self, P: Array, P_view: Array | None, encoder: Encoder, memory: als.Memory
    ) -> als.Features:
        """Cluster the features of β = 0, then E9 for W and W̃ over that graph."""
        assert P_view is not None
        graph, change = self.graph(encoder(P), memory)
        if self.same_view:
            W, V, value, measured = self._within_view(P, P_view, encoder, graph, memory)
        else:
            of = (graph.labels, graph.known, graph.weights)
            pull = self._pull(len(P), _count(graph.labels), _count(graph.known))
            solved = alternate_views(
                InMemory(len(P)), P, P_view, encoder, pull, self.beta, (memory.W, memory.V), of
            )
            W, V, (value, measured) = solved.W, solved.V, solved.finish()
        return als.Features(W, V, value, self.beta, self._terms(value, measured, len(P), change))

    @property
    def by_sums(self) -> bool:
        """Whether sums are all that windows need of each other."""
        if self.clusterer is not None or self.same_view:
            return False
        return self.known is None or not self.spread_labels or bool((self.known >= 0).all())

    def over(
        self,
        partitions: Partitions,
        P: PartitionedArray,
        P_view: PartitionedArray,
        encoder: Encoder,
        memory: als.Memory,
        known: PartitionedArray = None,
    ) -> Solved:
        """Do so for windows in partitions; the memory and ``known`` are arrays of these."""
        dtype, classes = encoder.K.dtype, _count(self.known)
        if self.known is not None and (self.known >= 0).all():
            labels, known, count = known, None, classes
        else:
            W = partitions.mapped(encoder, P)
            count = min(self.n_clusters, partitions.n_samples)
            cells = find_cells(
                partitions,
                W,
                count,
                dtype,
                centers=memory.centers,
                seed=self.seed,
                tuning=self.tuning,
            )
            memory.centers = cells.centers
            labels = partitions.mapped(cells.labels, W)
        changed = None
        if memory.labels is not None:
            changed = partitions.summed(_changed, memory.labels, labels)
        memory.labels = labels
        pull = self._pull(partitions.n_samples, count, classes)
        of = (labels, known, None)
        solved = alternate_views(
            partitions, P, P_view, encoder, pull, self.beta, (memory.W, memory.V), of
        )

        def finish() -> tuple[float, dict[str, float]]:
            value, measured = solved.finish()
            change = 1.0 if changed is None else float(changed()[0]) / partitions.n_samples
            return value, self._terms(value, measured, partitions.n_samples, change)

        return Solved(solved.W, solved.V, finish)

    def _pull(self, n_samples: int, n_classes: int, n_known: int) -> PLCPull:
        return PLCPull(self.gamma, self.invariance, self.identity, n_samples, n_classes, n_known)

    def _terms(
        self, value: float, measured: dict[str, float], n_samples: int, change: float
    ) -> dict[str, float]:
        measured["label_change"] = change
        if self.gamma > 0:
            cosines = measured["trans_inv"] * n_samples
            measured["cross_view"] = (value + self.invariance * cosines) / self.gamma
        return measured

    def graph(
        self, W: Array, memory: als.Memory, labels: NDArray[np.intp] | None = None
    ) -> tuple[SignedGraph, float]:
        """Pseudo graph of the features, known labels put in; the share of changed labels.

        With ``labels`` these are the clusters.
        """
        known = self.known
        if known is not None and memory.rows is not None:
            known = known[memory.rows]
        if known is not None and (known >= 0).all():
            change, memory.labels = label_change(memory.labels, known), known
            return SignedGraph(known), change
        if labels is None:
            labels, memory.centers = cluster(
                W,
                min(self.n_clusters, len(W)),  # a last mini-batch may be small
                clusterer=self.clusterer,
                centers=memory.centers,
                seed=self.seed,
                tuning=self.tuning,
            )
        change, memory.labels = label_change(memory.labels, labels), labels
        if known is not None and self.spread_labels and (known >= 0).any():
            return SignedGraph(labels, *likely_classes(W, known)), change
        return SignedGraph(labels, known), change

    def _within_view(
        self, P: Array, P_view: Array, encoder: Encoder, graph: SignedGraph, memory: als.Memory
    ) -> tuple[Array, Array, float, dict[str, float]]:
        """E4 in the place of E5 (ablation): the rows of W pull each other.

        The pull is that of the current W, so a step may overshoot: it is halved until E8 falls.
        """

        def total(W: Array, V: Array) -> float:
            zero = np.zeros_like(W)
            fit = row_objective(W, P, encoder, zero, 0.0).sum(dtype=np.float64)
            return float(fit) + self.beta * self._same_view_value(W, V, graph)

        V = encoder(P_view) if memory.V is None else memory.V
        W = encoder(P)
        if memory.W is not None and total(memory.W, V) < total(W, V):
            W = memory.W
        W_hat, V_hat = losses.unit_rows(W)[0], losses.unit_rows(V)[0]
        h = (-2.0 * self.gamma / graph.degree) * graph.product(W_hat) - self.invariance * V_hat
        w = contrast_features(P, encoder, h, self.beta, previous=W)
        before, step = total(W, V), w.W - W
        for _ in range(20):
            if total(W + step, V) <= before:
                W = W + step
                break
            step *= 0.5
        W_hat = losses.unit_rows(W)[0]
        v = contrast_features(
            P_view, encoder, -self.invariance * W_hat, self.beta, previous=memory.V
        )
        measured = {
            "contrast": self._same_view_value(W, v.W, graph),
            "trans_inv": losses.trans_inv(W, v.W)[0],
            "contraction": max(w.contraction, v.contraction),
            "damped": max(w.damped, v.damped),
            "inner_iterations": float(w.n_iter + v.n_iter),
        }
        return W, v.W, measured["contrast"], measured

    def _same_view_value(self, W: Array, V: Array, graph: SignedGraph) -> float:
        return losses.plc_same_view(W, V, graph, self.gamma, invariance=self.invariance)[0]
