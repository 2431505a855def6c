"""Features tied to the encoder (E19): the contrast moves the factors through E12 itself.

W = XH(HᵀH + αI)⁻¹ is a function of the factors, so the contrast reaches them through the very
encoder that ``transform`` uses. With D = ∂ℓ/∂W and K = HᵀH + αI,

    dH = Xᵀ(D K⁻¹) − H (S + Sᵀ),   S = WᵀD K⁻¹,

and by the envelope theorem the reconstruction adds HWᵀW − XᵀW without any dW. Both share one
product with Xᵀ: a step is two matrix products per view, as in ALS.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorcontrast.cp import kernels, losses
from tensorcontrast.cp.encoder import Encoder, rows_times
from tensorcontrast.cp.graph import SignedGraph
from tensorcontrast.solvers import als, missing, stream
from tensorcontrast.solvers.checkpoint import Keep
from tensorcontrast.solvers.convergence import Monitor
from tensorcontrast.solvers.paper_als import PLCContrast
from tensorcontrast.solvers.runs import Fit, Runs
from tensorcontrast.solvers.tuning import TUNING
from tensorcontrast.utils import threads

Array = NDArray[Any]
Factors = Sequence[Array]

#: ``(W, V) -> value, (dW, dV)``.
Loss = Callable[[Array, Array], tuple[float, tuple[Array, Array]]]


def standardise(W: Array) -> tuple[Array, Callable[[Array], Array]]:
    """Columns of zero mean and unit variance, and the map of gradients back through that."""
    mean = W.mean(axis=0)
    Z = W - mean
    spread = np.sqrt(np.einsum("ij,ij->j", Z, Z) / len(Z))
    floor = 1e-6 * max(float(spread.max(initial=0.0)), float(np.finfo(W.dtype).tiny))
    spread = np.maximum(spread, floor).astype(W.dtype)
    Z /= spread

    def back(grad: Array) -> Array:
        inner = np.einsum("ij,ij->j", grad, Z) / len(Z)
        return (grad - grad.mean(axis=0) - Z * inner) / spread

    return Z, back


def encoded(X: Array, factors: Factors, alpha: float) -> Array:
    """Features (n, r) of windows X (n, i). Equation E12."""
    return Encoder.from_factors(factors, alpha)(rows_times(X, kernels.khatri_rao(factors)))


def tied_objective(
    X: Array,
    X_view: Array,
    factors: Sequence[Array],
    loss: Loss,
    *,
    alpha: float,
    beta: float,
    norm_squared: float | None = None,
    both: Callable[..., tuple[Any, Any]] = threads.in_turn,
) -> tuple[float, list[Array], dict[str, float]]:
    """Mean reconstruction of both views plus β times a contrast of their encoded features.

    ``(1/2n)Σ(‖x − wHᵀ‖² + α‖w‖²)`` over X (n, i) and its view, plus β ``loss(W, W̃)``, where both
    W and W̃ are E12 of the factors and are standardised before the loss. ``norm_squared`` is
    ‖X‖² + ‖X̃‖² where it is known: it costs as much as a matrix product. ``both`` does the same for
    both views (:func:`threads.for_two`).

    Returns
    -------
    value : float
    gradients : list of (I_k, r) arrays
    terms : dict

    Notes
    -----
    Equation E19.
    """
    n = len(X)
    H = kernels.khatri_rao(factors)
    encoder = Encoder.from_factors(factors, alpha)

    def scaled(data: Array) -> tuple[Array, Array, Callable[[Array], Array]]:
        features = encoder(data @ H)
        return features, *standardise(features)

    (W, Z_w, back_w), (V, Z_v, back_v) = both(scaled, (X,), (X_view,))
    contrast, (g_w, g_v) = loss(Z_w, Z_v)
    if norm_squared is None:
        norm_squared = float(sum(kernels.row_norms_squared(a).sum() for a in (X, X_view)))

    def products(data: Array, features: Array, gradient: Array) -> tuple[Array, Array, Array]:
        D = (beta * gradient) @ encoder.K_inverse
        S = features.T @ D
        FtF = features.T @ features
        # One product with the data for both terms: Xᵀ(DK⁻¹ − W/n).
        return kernels.factor_products(data, D - features / n), FtF / n - (S + S.T), FtF

    parts = both(products, (X, W, back_w(g_w)), (X_view, V, back_v(g_v)))
    (Q, B, WtW), (Q_view, B_view, VtV) = parts
    Q, B = Q + Q_view, B + B_view
    # At the encoder ‖x − wHᵀ‖² + α‖w‖² = ‖x‖² − ⟨xH, w⟩ = ‖x‖² − wKwᵀ.
    residual = norm_squared - kernels.inner(WtW, encoder.K) - kernels.inner(VtV, encoder.K)
    gradients = [
        kernels.mttkrp(Q, factors, k) + U @ (B * kernels.gram(factors, skip=k))
        for k, U in enumerate(factors)
    ]
    reconstruction = 0.5 * residual / n
    terms = {"reconstruction": reconstruction, "contrast": contrast}
    return reconstruction + beta * contrast, gradients, terms


@dataclass
class Adam:
    """Adam for a list of arrays, with a step that falls by a cosine from ``rate`` to zero."""

    rate: float
    total: int
    first: float = 0.9
    second: float = 0.999
    step: int = 0
    _m: list[Array] = field(default_factory=list)
    _v: list[Array] = field(default_factory=list)

    def update(self, arrays: Sequence[Array], gradients: Sequence[Array]) -> Sequence[Array]:
        """Return the arrays after one step."""
        if not self._m:
            self._m = [np.zeros_like(a) for a in arrays]
            self._v = [np.zeros_like(a) for a in arrays]
        rate = 0.5 * self.rate * (1 + np.cos(np.pi * min(self.step / max(self.total, 1), 1.0)))
        self.step += 1
        correction = np.sqrt(1 - self.second**self.step) / (1 - self.first**self.step)
        out = []
        for a, g, m, v in zip(arrays, gradients, self._m, self._v, strict=True):
            m += (1 - self.first) * (g - m)
            v += (1 - self.second) * (g * g - v)
            out.append((a - rate * correction * m / (np.sqrt(v) + 1e-8)).astype(a.dtype))
        return kernels.like(arrays, out)


@dataclass(frozen=True)
class TiedContrast:
    """The pseudo graph's contrast as a loss of encoded features, and how it is descended.

    ``base`` says how the graph is made and weighted. ``form`` is "softmax" (E20) or "signed" (the
    linear form of E7, a mean over windows).
    """

    base: PLCContrast
    form: str = "softmax"
    #: τ of the softmax.
    temperature: float = 0.2
    n_epochs: int = 25
    batch_size: int = 512
    learning_rate: float = 1.5e-2

    def among(self, rows: NDArray[np.intp] | None) -> TiedContrast:
        """Return the contrast among some of the windows; None for all."""
        if rows is None or self.base.known is None:
            return self
        return replace(self, base=replace(self.base, known=self.base.known[rows]))

    def loss(
        self,
        graph: SignedGraph,
        both: Callable[..., tuple[Any, Any]] = threads.in_turn,
    ) -> Loss:
        """Return the loss of a batch with this graph."""
        base = self.base

        def softmax(W: Array, V: Array) -> tuple[float, tuple[Array, Array]]:
            return losses.graph_softmax(
                W,
                V,
                graph,
                self.temperature,
                gamma=base.gamma,
                invariance=base.invariance,
                both=both,
            )

        def signed(W: Array, V: Array) -> tuple[float, tuple[Array, Array]]:
            value, (g_w, g_v) = losses.plc(
                W, V, graph, base.gamma, invariance=base.invariance, identity=base.identity
            )
            return value / len(W), (g_w / len(W), g_v / len(W))

        def within(W: Array, V: Array) -> tuple[float, tuple[Array, Array]]:
            value, (g_1, g_2) = form(W, W)
            return value, (g_1 + g_2, np.zeros_like(V))

        form = softmax if self.form == "softmax" else signed
        return within if base.same_view else form

    def epoch(
        self,
        views: als.Views,
        factors: Factors,
        adam: Adam,
        *,
        alpha: float,
        memory: als.Memory,
        rng: np.random.Generator,
        norms: tuple[Array, Array] | None = None,
    ) -> tuple[Factors, dict[str, float]]:
        """Cluster all windows anew, then take one Adam step per mini-batch. Equations E19, E20.

        ``norms`` are ‖x‖² and ‖x̃‖² of the windows, where they are known.
        """
        assert views.V is not None
        encoder = Encoder.from_factors(factors, alpha)
        W = encoder(views.X @ kernels.khatri_rao(factors))
        graph, change = self.base.graph(W, memory)
        n, total = len(views.X), 0
        if norms is None:
            norms = squared_norms(views)
        sums = {"objective": 0.0, "reconstruction": 0.0, "contrast": 0.0}
        # Batches of equal size, so that no small rest is standardised by itself.
        batches = np.array_split(rng.permutation(n), max(1, round(n / self.batch_size)))
        work = len(batches[0]) * views.X.shape[1] * factors[0].shape[1]
        with threads.for_two(work) as both:
            for rows in batches:
                value, gradients, terms = tied_objective(
                    *both(np.take, (views.X, rows, 0), (views.V, rows, 0)),
                    factors,
                    self.loss(graph.among(rows), both),
                    alpha=alpha,
                    beta=self.base.beta,
                    norm_squared=float(norms[0][rows].sum() + norms[1][rows].sum()),
                    both=both,
                )
                factors = adam.update(factors, gradients)
                total += len(rows)
                for key, term in {"objective": value, **terms}.items():
                    sums[key] += term * len(rows)
        # What a core has lost of the data is part of what is not reconstructed.
        lost = 0.5 * (views.norm_squared - float(norms[0].sum() + norms[1].sum()))
        sums["reconstruction"] += lost
        sums["objective"] += lost
        error = np.sqrt(max(2.0 * sums["reconstruction"], 0.0) / views.norm_squared)
        return factors, {
            "objective": sums["objective"],
            "reconstruction": sums["reconstruction"],
            "reconstruction_error": float(error),
            "contrast": sums["contrast"] / total,
            "label_change": change,
        }

    def adam(self, n_samples: int) -> Adam:
        """Return the optimiser for a whole fit of so many windows."""
        return Adam(self.learning_rate, self.n_epochs * max(1, round(n_samples / self.batch_size)))


def sampled(
    n_samples: int, seed: int, max_windows: int = TUNING.max_descent_windows
) -> NDArray[np.intp] | None:
    """Return the windows that a descent goes through, in their order; None for all."""
    if n_samples <= max_windows:
        return None
    drawn = np.random.default_rng(seed).choice(n_samples, max_windows, replace=False)
    return np.sort(drawn)


def rows_in_memory(views: als.AnyViews, rows: NDArray[np.intp] | None) -> als.AnyViews:
    """Return views of these windows in the memory of this process."""
    if isinstance(views, als.FreshViews):
        draw = views.draw
        return als.FreshViews(lambda: _rows_in_memory(draw(), rows))
    return _rows_in_memory(views, rows)


def _rows_in_memory(views: als.Views, rows: NDArray[np.intp] | None) -> als.Views:
    return views.in_memory() if rows is None else views.rows(rows)


def squared_norms(views: als.Views) -> tuple[Array, Array]:
    """``‖x‖²`` and ``‖x̃‖²`` of each window (n,)."""
    assert views.V is not None
    return kernels.row_norms_squared(views.X), kernels.row_norms_squared(views.V)


def train(
    views: als.AnyViews,
    factors: Factors,
    contrast: TiedContrast,
    *,
    alpha: float,
    monitor: Monitor,
    memory: als.Memory,
    rng: np.random.Generator,
    keep: Keep | None = None,
) -> tuple[Factors, bool]:
    """Descend from the factors of a CPD; true as second value if Ctrl-C ended it.

    The schedule is part of the method: the step falls to zero over ``n_epochs``, which ends it.
    With ``keep`` it goes on from where a checkpoint has it.
    """
    first = views.draw()
    adam = contrast.adam(first.n_samples)
    norms = None if views.fresh else squared_norms(first)
    begin = 0
    if keep is not None:
        begin, factors = keep.begin(factors, adam)
        if keep.ended:
            return factors, False
    try:
        for epoch in range(begin, contrast.n_epochs):
            current = views.draw() if views.fresh else first
            factors, terms = contrast.epoch(
                current,
                factors,
                adam,
                alpha=alpha,
                memory=memory,
                rng=rng,
                norms=norms,
            )
            monitor.record(terms)
            if monitor.stopped:
                break
            if keep is not None:
                keep.step(epoch + 1, factors, adam)
    except KeyboardInterrupt:
        return factors, True
    if keep is not None:
        keep.end(factors, contrast.n_epochs)
    return factors, False


# -------------------------------------------------- a whole fit, and one batch of a stream


def descend(
    runs: Runs,
    plain: Fit,
    views: als.AnyViews,
    contrast: TiedContrast,
    rng: np.random.Generator,
) -> Fit:
    """Descend from the factors of a fit without contrast, which fill what is missing."""
    views = missing.completed(views, plain.factors, runs.alpha)
    first = views.draw()
    rows = sampled(first.n_samples, contrast.base.seed, runs.tuning.max_descent_windows)
    norms = np.ones(runs.rank)
    factors = kernels.normal_form(plain.factors, norms)[0]
    some = rows_in_memory(views, rows)
    own = contrast.among(rows)
    memory = als.Memory()
    monitor = Monitor(
        runs.name,
        max_iter=contrast.n_epochs,
        tol=0.0,
        callback=runs.callback,
        verbose=runs.verbose,
    )
    monitor.resume(plain.history)
    keep = runs.recorder.run(
        monitor=monitor,
        memory=memory,
        rng=rng,
        n_samples=first.n_samples if rows is None else len(rows),
    )
    with monitor:
        factors, interrupted = train(
            some,
            factors,
            own,
            alpha=runs.alpha,
            monitor=monitor,
            memory=memory,
            rng=rng,
            keep=keep,
        )
    if interrupted and monitor.n_iter == len(plain.history["objective"]):  # no epoch was done
        return replace(plain, interrupted=True)
    if rows is not None:
        memory.labels = None  # those of the window; all windows go to the nearest centre
    # The encoder is the model: what ``features_`` are is what ``transform`` gives. Whether the
    # fit has settled is a question to the CPD: the descent ends with its schedule.
    return Fit(
        factors,
        als.no_contrast,
        memory,
        monitor.history,
        plain.converged,
        interrupted,
        plain.monitor,
        learned={
            "beta_": contrast.base.beta,
            "n_clusters_": own.base.n_clusters,
        },
        stopped=monitor.stopped,
        keep=keep,
    )


def step(
    batch: stream.Batch, contrast: TiedContrast, stream_rate: float = TUNING.stream_rate
) -> stream.Step:
    """Descend through a batch of a stream once; the first one starts from a CPD of itself."""
    factors, alpha = batch.factors, batch.alpha
    if batch.past is None:
        factors, _, _ = stream.swept(replace(batch, contrast=als.no_contrast))
        factors = kernels.normal_form(factors, np.ones(factors[0].shape[1]))[0]
    views = missing.completed_views(batch.views, factors, alpha)
    factors, terms = contrast.epoch(
        views,
        factors,
        # A stream has no end to slow for.
        Adam(stream_rate * contrast.learning_rate, total=2**31),
        alpha=alpha,
        memory=batch.memory,
        rng=batch.rng,
    )
    features, _ = als.solve_features(views, factors, als.no_contrast, alpha, batch.memory)
    sums = als.Statistics.from_features(views, features)
    return factors, sums if batch.past is None else batch.past.add(sums, batch.forgetting), terms
