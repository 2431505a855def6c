"""The rank curve: planted ranks come back, the rule is the one that is written down."""

import json
import math

import numpy as np
import pytest
from sklearn.decomposition import PCA

from tensorcontrast import CPD, PLC, ContrastiveFeatures
from tensorcontrast.datasets import make_cp_tensor, make_synthetic
from tensorcontrast.errors import InvalidInputError
from tensorcontrast.evaluate import RankCurve, rank_curve
from tensorcontrast.evaluate.rank import RULE, RankPoint, information_criteria, recommend
from tensorcontrast.report import plot_rank_curve


@pytest.mark.parametrize(
    ("rank", "noise", "seed"),
    [(1, 0.4, 0), (2, 1.0, 1), (3, 0.05, 2), (4, 0.4, 3), (6, 0.05, 4), (6, 1.0, 5)],
)
def test_planted_ranks_come_back(rank, noise, seed):
    X, *_ = make_cp_tensor(100, (8, 9, 8), rank, noise=noise, n_classes=1, random_state=seed)
    found = rank_curve(CPD(random_state=seed), X, range(max(1, rank - 2), rank + 3), n_splits=1)
    assert found.recommended == rank, str(found)
    assert found.accuracy_rank is None and found.split_by == "windows"


def test_the_planted_rank_of_coupled_blocks_comes_back():
    X, _, W, _ = make_cp_tensor(100, (7, 8), 3, noise=0.2, n_classes=1, random_state=0)
    rng = np.random.default_rng(1)
    other = W @ rng.normal(size=(3, 12)) + 0.1 * rng.normal(size=(100, 12))
    found = rank_curve(PLC(random_state=0), [X, other], range(2, 5), groups=np.arange(100) // 5)
    assert found.recommended == 3 and found.split_by == "subjects"
    point = found.points[1]
    model = CPD(3, random_state=0).fit([X, other])
    assert point.bic == pytest.approx(information_criteria(model, [X, other]).bic, rel=1e-3)
    assert point.core_consistency > 80 and point.split_similarity > 0.9


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
def test_the_planted_rank_has_the_smallest_criterion(rank, criterion):
    X, *_ = make_cp_tensor(
        n_samples=150, dims=(8, 9, 7), rank=rank, noise=0.2, n_classes=1, random_state=rank
    )
    found = {
        r: getattr(information_criteria(CPD(r, random_state=0).fit(X), X), criterion)
        for r in range(1, 7)
    }
    assert min(found, key=found.get) == rank


def point(rank, bic, split, accuracy=None, sem=None):
    return RankPoint(rank, bic, 0.5, None, split, accuracy, sem)


def test_the_rule():
    stable = [point(1, 9, 0.9), point(2, 5, 0.86), point(3, 4, 0.7), point(4, 6, 0.99)]
    assert recommend(stable)[0] == 2  # 4 has a larger BIC than 3, 3 is not stable
    none = [point(1, 9, 0.6), point(2, 5, 0.58), point(4, 1, 0.5)]
    rank, reason = recommend(none)
    assert rank == 2 and "no rank up to it passes" in reason and "largest rank of all" in reason
    untested = [point(1, 9, None), point(2, 5, None)]
    assert recommend(untested)[0] == 2
    assert "BIC" in RULE and "0.85" in RULE


def test_of_recordings_with_labels():
    rec = make_synthetic(150, 3, 64, n_subjects=6, noise=0.3, random_state=0)
    model = ContrastiveFeatures(decompose=CPD(), random_state=0)
    found = rank_curve(model, rec, [4, 1, 4], n_init=1, n_splits=1)
    assert [p.rank for p in found.points] == [1, 4] and found.n_windows == 150
    low, high = found.points
    assert high.accuracy > low.accuracy and found.accuracy_rank == 4
    assert high.explained > low.explained and 0 < high.accuracy_sem < 0.2
    data = json.loads(found.to_json())
    assert data["rule"] == RULE and data["points"][1]["rank"] == 4
    assert "recommended rank" in str(found) and "best accuracy: 4" in str(found)
    figure = plot_rank_curve(found)
    names = [(axis.get_xlabel(), axis.get_ylabel()) for axis in figure.axes]
    assert names == [
        ("rank", "BIC (millions)"),
        ("rank", "factor match score"),
        ("rank", "percent (negative as 0)"),
        ("rank", "accuracy of a probe"),
    ]
    assert [t.get_text() for t in figure.axes[0].get_xticklabels()] == ["1", "4"]
    assert any(f"recommended: {found.recommended}" in t.get_text() for t in figure.axes[0].texts)
    bare = RankCurve((point(2, 5, None), point(3, 4, None)), 3, "", None, 9, "windows")
    assert len(plot_rank_curve(bare).axes) == 1


@pytest.mark.parametrize("ranks", [[], [0, 2], [1.5], "many", None])
def test_ranks_that_are_none(ranks):
    with pytest.raises(InvalidInputError, match="ranks="):
        rank_curve(CPD(), np.ones((9, 3)), ranks)


def test_only_models_with_a_rank():
    with pytest.raises(InvalidInputError, match="no rank to choose"):
        rank_curve(PCA(), np.ones((9, 3)), [1])
    same = make_cp_tensor(30, (4, 5), 2, noise=0.1, random_state=0)[0]
    one = rank_curve(CPD(random_state=0), same, [2], y=np.zeros(30), groups=np.zeros(30))
    assert one.points[0].accuracy is None and one.points[0].split_similarity is None
