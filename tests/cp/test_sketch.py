"""Rows that stand for the samples: against explicit projections, and fits on them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tensorcontrast import CPD, PLC
from tensorcontrast.cp import kernels, sketch
from tensorcontrast.cp.compress import CompressTuning
from tensorcontrast.datasets import make_cp_tensor
from tensorcontrast.decompose.options import build
from tensorcontrast.solvers import als, runs
from tensorcontrast.solvers.tuning import Tuning
from tensorcontrast.utils import threads

#: Sketches of data of any size, if there are windows enough.
EAGER = Tuning(sketch=sketch.SketchTuning(min_values_to_sketch=0))


def eager(model: Any, tuning: Tuning = EAGER) -> Any:
    """Give a model other tuning numbers."""
    model._tuning = tuning
    return model


def data(n: int = 400, noise: float = 0.3) -> np.ndarray:
    X, *_ = make_cp_tensor(n_samples=n, dims=(5, 8, 7), rank=4, noise=noise, random_state=0)
    return X.astype(np.float32)


def test_rows_are_the_projection_on_the_span_of_random_combinations() -> None:
    X = data().reshape(400, -1).astype(np.float64)
    omega = sketch.directions(X.shape[1], 12, X.dtype, seed=3)
    B = sketch.rows(*sketch.sums_over(X, omega), X.dtype)
    E, _ = np.linalg.qr(X @ omega)
    assert B.shape == (12, X.shape[1])
    np.testing.assert_allclose(B.T @ B, X.T @ E @ E.T @ X, rtol=0, atol=1e-8 * np.sum(X**2))


def test_sums_equal_a_loop() -> None:
    X = np.random.default_rng(0).standard_normal((1300, 30)).astype(np.float32)
    omega = sketch.directions(30, 6, X.dtype, seed=1)
    slow = np.zeros((6, 30))
    for x in X.astype(np.float64):
        slow += np.outer(x @ omega, x)
    YtX, _ = sketch.sums_over(X, omega)
    np.testing.assert_allclose(YtX, slow, rtol=0, atol=1e-4 * np.abs(slow).max())


def test_sums_do_not_depend_on_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.random.default_rng(0).standard_normal((1800, 512)).astype(np.float32)
    omega = sketch.directions(512, 300, X.dtype, seed=1)
    assert X.size * 300 >= threads.WORTH_THREADS
    found = []
    for count in (1, 2):
        monkeypatch.setattr(threads, "allowed", lambda count=count: count)
        found.append(sketch.sums_over(X, omega))
    assert all(np.array_equal(a, b) for a, b in zip(*found, strict=True))


def test_samples_of_low_rank_lose_nothing() -> None:
    rng = np.random.default_rng(0)
    X = (rng.standard_normal((500, 5)) @ rng.standard_normal((5, 60))).astype(np.float32)
    omega = sketch.directions(60, 9, X.dtype, seed=0)
    B = sketch.rows(*sketch.sums_over(X, omega), X.dtype)
    assert B.shape == (5, 60)
    np.testing.assert_allclose(B.T @ B, X.T @ X, rtol=0, atol=1e-4 * np.abs(X.T @ X).max())


def test_a_sweep_over_the_rows_is_one_over_samples_in_their_span() -> None:
    X = data(noise=0.0).reshape(400, -1)
    X -= X.mean(axis=0)
    whole = als.Views.from_arrays(X, None)
    brief = runs._sketched(whole, 12, X.shape[1], seed=0)
    assert brief is not None and brief.n_samples < 17 and brief.norm_x == whole.norm_x
    rng = np.random.default_rng(1)
    start = [rng.standard_normal((d, 4)).astype(np.float32) for d in (5, 8, 7)]
    found = []
    for views in (whole, brief):
        factors, *_, terms = als.sweep(
            views, start, als.no_contrast, alpha=1e-3, memory=als.Memory()
        )
        found.append((kernels.khatri_rao(factors), terms["objective"]))
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=0, atol=2e-3 * found[0][0].max())
    assert found[0][1] == pytest.approx(found[1][1], rel=1e-3)


def test_fits_on_sketches_are_as_good_and_say_every_iteration() -> None:
    X = data()
    options = {"rank": 4, "max_iter": 40, "tol": 0.0, "random_state": 0}
    brief = eager(build(CPD, **options)).fit(X)
    whole = build(CPD, **options, compress=None).fit(X)
    assert brief.reconstruction_error_ <= 1.005 * whole.reconstruction_error_
    assert brief.n_iter_ == 40 and len(brief.history_["objective"]) == 40
    assert brief.features_.shape == (400, 4)
    # The last sweeps are over the samples: the objective falls when they begin, and never rises.
    steps = np.diff(brief.history_["objective"])
    assert (steps <= 1e-5 * brief.history_["objective"][0]).all()
    assert kernels.factor_match_score(brief.factors_, whole.factors_) > 0.95


def test_whether_a_fit_has_settled_is_asked_of_all_iterations() -> None:
    from sklearn.exceptions import ConvergenceWarning

    model = eager(build(CPD, rank=4, random_state=0, tol=1e-4)).fit(data())
    assert model.converged_ and model.n_iter_ < 200
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        eager(build(CPD, rank=4, random_state=0, max_iter=8, tol=1e-12)).fit(data())


def test_a_callback_ends_a_fit_on_a_sketch_and_the_model_is_usable() -> None:
    rows: list[float] = []

    def stop(row: dict[str, float]) -> bool:
        rows.append(row["iteration"])
        return len(rows) == 3

    model = eager(CPD(rank=4, random_state=0, callback=stop)).fit(data())
    assert rows == [1.0, 2.0, 3.0] and model.n_iter_ == 3
    assert np.isfinite(model.transform(data())).all()
    assert model.features_.shape == (400, 4) and len(model.labels_) == 400


@pytest.mark.parametrize("stop", [7, 18, 19])
def test_a_fit_goes_on_from_a_checkpoint_in_both_parts(tmp_path, stop: int) -> None:
    X = data()
    options = {"rank": 4, "max_iter": 20, "tol": 0.0, "random_state": 0}
    whole = eager(build(CPD, **options)).fit(X)

    def killed(row: dict[str, float]) -> None:
        if row["iteration"] == stop:
            raise RuntimeError("killed")

    path = tmp_path / "fit.tcc"
    with pytest.raises(RuntimeError, match="killed"):
        eager(build(CPD, **options, callback=killed)).fit(X, checkpoint=path, every=1)
    resumed = eager(build(CPD, **options)).fit(X, resume=True, checkpoint=path)
    for a, b in zip(whole.factors_, resumed.factors_, strict=True):
        assert np.array_equal(a, b)
    assert whole.history_["objective"] == resumed.history_["objective"]


def test_the_descent_of_plc_starts_from_a_fit_on_a_sketch(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    plain = runs._sketched

    def counted(*args: object) -> object:
        asked.append(args)
        return plain(*args)

    monkeypatch.setattr(runs, "_sketched", counted)
    X = data()
    model = eager(build(PLC, rank=4, n_epochs=2, random_state=0)).fit(X)
    assert len(asked) == 1 and model.features_.shape == (400, 4)
    gappy = X.copy()
    gappy[0, 0, 0, 0] = np.nan
    masked = build(CPD, rank=4, missing="mask", random_state=0, tol=1e-3)
    eager(masked).fit(gappy)  # filled anew: no sketch
    eager(build(CPD, rank=4, compress=None, random_state=0, tol=1e-3)).fit(X)
    assert len(asked) == 2  # asked of the data with gaps, which has none


def test_what_pays() -> None:
    assert sketch.worthwhile(7352, 2754, 32)
    assert not sketch.worthwhile(500, 2754, 32)  # samples are few enough as they are
    assert not sketch.worthwhile(7352, 100, 32)  # no more numbers a sample than rows
    assert not sketch.worthwhile(7352, 200, 32)  # all iterations take a moment


def test_cores_that_hold_too_little_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    X = data(600)
    whole = build(CPD, rank=4, max_iter=40, tol=0, random_state=0, compress=None).fit(X)
    two_numbers = replace(EAGER, compress=CompressTuning(core_per_rank=0.5))  # per window
    asked = []
    told = sketch.cores_failed
    monkeypatch.setattr(sketch, "cores_failed", lambda *a: asked.append(told(*a)) or asked[-1])
    fitted = eager(build(CPD, rank=4, max_iter=40, tol=0, random_state=0), two_numbers).fit(X)
    assert asked == [True]
    assert len(fitted.history_["objective"]) == 40
    assert fitted.reconstruction_error_ < 1.002 * whole.reconstruction_error_
