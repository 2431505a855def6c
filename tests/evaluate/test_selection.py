"""E18: information criteria find planted ranks and count what is free."""

import math

import numpy as np
import pytest

from tensorcontrast import CPD, PLC, TensorContrastError
from tensorcontrast.datasets import make_cp_tensor
from tensorcontrast.decompose.options import build
from tensorcontrast.evaluate.selection import information_criteria, select


def test_E18_is_the_gaussian_likelihood_with_the_free_numbers():
    X, *_ = make_cp_tensor(n_samples=40, dims=(4, 5), rank=2, noise=0.3, random_state=0)
    model = CPD(rank=2, random_state=0).fit(X)
    found = information_criteria(model, X)
    Z = (X - model.center_) / model.scale_
    residual = Z - (model.inverse_transform(model.transform(X)) - model.center_) / model.scale_
    variance = np.mean(residual**2)
    log_likelihood = sum(
        -0.5 * (math.log(2 * math.pi * variance) + r**2 / variance) for r in residual.ravel()
    )
    assert found.log_likelihood == pytest.approx(log_likelihood, rel=1e-6)
    assert found.n_parameters == 2 * (40 + 4 + 5) - 2 * 2
    assert found.aic == pytest.approx(2 * found.n_parameters - 2 * log_likelihood, rel=1e-6)
    assert found.bic == pytest.approx(
        math.log(40 * 20) * found.n_parameters - 2 * log_likelihood, rel=1e-6
    )


@pytest.mark.parametrize("rank", [1, 2, 3, 5])
@pytest.mark.parametrize("criterion", ["aic", "bic"])
def test_planted_rank_is_found(rank, criterion):
    X, *_ = make_cp_tensor(
        n_samples=150, dims=(8, 9, 7), rank=rank, noise=0.2, n_classes=1, random_state=rank
    )
    chosen = select(
        build(CPD, random_state=0, n_init=3), {"rank": [1, 2, 3, 4, 5, 6]}, X, criterion=criterion
    )
    assert chosen.best_params == {"rank": rank}
    assert chosen.best_estimator.rank_ == rank
    assert len(chosen.table) == 6
    assert min(row[criterion] for row in chosen.table) == next(
        row[criterion] for row in chosen.table if row["rank"] == rank
    )


def test_grid_over_rank_and_weights_with_a_view():
    X, *_ = make_cp_tensor(n_samples=60, dims=(5, 6), rank=2, noise=0.2, random_state=3)
    view = X + 0.05 * np.random.default_rng(0).normal(size=X.shape)
    grid = {"rank": [1, 2], "alpha": [1e-3, 1.0], "beta": [0.0, 0.05], "gamma": [1.0]}
    chosen = select(PLC(solver="als", random_state=0, n_clusters=3), grid, X, view=view)
    assert chosen.best_params["rank"] == 2
    assert chosen.best_params["alpha"] == 1e-3
    assert len(chosen.table) == 8


@pytest.mark.parametrize(
    "kwargs", [{"criterion": "cv"}, {"grid": {"no_such": [1]}}, {"grid": {"rank": 3}}]
)
def test_bad_input(kwargs):
    X = np.random.default_rng(0).normal(size=(10, 3))
    arguments = {"grid": {"rank": [1]}, **kwargs}
    with pytest.raises(TensorContrastError):
        select(CPD(), arguments.pop("grid"), X, **arguments)
