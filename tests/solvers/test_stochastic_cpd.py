"""Stochastic CPD: mini-batch ALS with a step size, as the authors of ATD ran their CPD."""

import numpy as np
import pytest

from tensorcontrast import CPD
from tensorcontrast.cp.kernels import factor_match_score
from tensorcontrast.datasets import make_cp_tensor
from tensorcontrast.decompose.options import build
from tensorcontrast.solvers import als

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

#: The authors' batches with a step that suits a few epochs on a few hundred samples.
STOCHASTIC = {"batch_size": 32, "step_size": 0.1, "max_iter": 150, "tol": 0.0}


@pytest.fixture(scope="module")
def planted():
    X, _, _, factors = make_cp_tensor(320, (6, 9, 7), 3, noise=0.1, random_state=0)
    return X, factors


def test_it_comes_to_nearly_the_error_of_all_samples_at_once(planted):
    X, factors = planted
    full = CPD(rank=3, random_state=0).fit(X)
    model = build(CPD, rank=3, random_state=0, **STOCHASTIC).fit(X)
    assert model.reconstruction_error_ == pytest.approx(full.reconstruction_error_, rel=0.01)
    assert factor_match_score(model.factors_, factors) > 0.98
    np.testing.assert_allclose(model.score(X), full.score(X), atol=1e-3)


def test_the_error_falls_over_the_epochs(planted):
    """Down to the planted noise, which is 0.1 of the data."""
    history = build(CPD, rank=3, random_state=0, **STOCHASTIC).fit(planted[0]).history_
    course = history["reconstruction_error"]
    assert course[0] > course[3] > course[10] > course[-1]
    assert course[-1] == pytest.approx(0.1, rel=0.05)


def test_a_seed_repeats_it_and_another_does_not(planted):
    X, _ = planted
    options = STOCHASTIC | {"max_iter": 10}
    a, b, c = (build(CPD, rank=3, random_state=s, **options).fit(X).factors_[0] for s in (0, 0, 1))
    np.testing.assert_array_equal(a, b)
    assert not np.allclose(a, c)


def test_a_step_of_one_over_one_batch_is_a_full_sweep(planted):
    X, _ = planted
    start = [np.random.default_rng(d).normal(size=(d, 3)) for d in X.shape[1:]]
    common = {"rank": 3, "init": start, "max_iter": 5, "tol": 0.0, "random_state": 0}
    full = build(CPD, **common).fit(X)
    one = build(CPD, **common, batch_size=len(X), step_size=1.0).fit(X)
    for U, V in zip(full.factors_, one.factors_, strict=True):
        np.testing.assert_allclose(U, V, rtol=1e-6, atol=1e-9)


def test_a_step_goes_its_share_of_the_way_to_the_solution_of_the_batch():
    """U + 5e-3 (U_batch − U), every mode."""
    X = make_cp_tensor(20, (4, 5), 2, noise=0.1, random_state=0)[0].reshape(20, -1)
    views = als.Views(X, None, float(np.sum(X**2)), 0.0)
    factors = [np.random.default_rng(d).normal(size=(d, 2)) for d in (4, 5)]
    target, *_ = als.sweep(
        views, [U.copy() for U in factors], als.no_contrast, alpha=1e-3, memory=als.Memory()
    )
    moved, _ = als.epoch(
        views,
        [U.copy() for U in factors],
        als.no_contrast,
        alpha=1e-3,
        memory=als.Memory(),
        batch_size=20,
        step_size=5e-3,
        rng=np.random.default_rng(0),
    )
    for U, T, M in zip(factors, target, moved, strict=True):
        np.testing.assert_allclose(M, U + 5e-3 * (T - U), rtol=1e-9)


def test_the_authors_settings_run_and_learn(planted):
    """Batches of 128 and steps of 5e-3: slow, as theirs, but downhill."""
    model = build(CPD, rank=3, batch_size=128, step_size=5e-3, max_iter=60, tol=0.0, random_state=0)
    course = model.fit(planted[0]).history_["reconstruction_error"]
    assert course[-1] < course[0]
