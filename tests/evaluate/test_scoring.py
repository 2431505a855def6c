"""Nothing of test labels reaches a fit or a choice; labels go where the configuration says."""

import numpy as np
import pytest

from tensorcontrast.datasets import make_synthetic
from tensorcontrast.errors import InvalidInputError
from tensorcontrast.evaluate import scoring
from tensorcontrast.evaluate.config import BenchConfig
from tensorcontrast.evaluate.data import splits
from tensorcontrast.evaluate.protocol import linear_probe, official_split
from tensorcontrast.evaluate.scoring import Task, compute, draws_of

REC = make_synthetic(n_samples=180, n_channels=3, n_times=64, n_subjects=12, random_state=0)


def task(method, budgets=(12, "100%"), **changes):
    given = {"datasets": ["synthetic"], "methods": [method], "rank": 4, "draws": 2}
    config = BenchConfig.from_data({**given, "fractions": [0.5, 0.25, 0.25], **changes})
    return Task(config, config.datasets[0], config.methods[0], 0, tuple(budgets))


QUICK = {"max_iter": 8}
METHODS = {
    "plain": {"name": "plc", "params": QUICK},
    "bic": {"name": "plc", "params": QUICK, "tune": {"grid": {"rank": [2, 3, 5]}}},
    "cv": {
        "name": "plc",
        "params": QUICK,
        "tune": {"grid": {"rank": [1, 2, 5]}, "criterion": "cv"},
    },
    "drawn": {"name": "plc", "params": QUICK, "labels_in_graph": "drawn"},
    "hidden": {"name": "plc", "params": QUICK, "labels_in_graph": "hidden"},
    "all": {"name": "plc", "params": QUICK, "labels_in_graph": "all"},
}


@pytest.mark.parametrize("kind", METHODS)
def test_permuted_test_labels_change_accuracies_only(kind):
    job = task(METHODS[kind])
    split = splits(REC, job.dataset, job.config, 0)[0]
    y = REC.y.copy()
    y[split.test] = np.random.default_rng(1).permutation(y[split.test])
    cells, model = compute(REC, job)
    others, other = compute(REC._with(y=y), job)
    assert [c.status for c in cells] == [c.status for c in others] == ["ok", "ok"]
    assert [c.chosen for c in cells] == [c.chosen for c in others]
    assert np.array_equal(model.transform(REC.X), other.transform(REC.X))
    assert [c.accuracy for c in cells] != [c.accuracy for c in others]
    assert (cells[0].chosen != {}) == (kind in ("bic", "cv"))


@pytest.mark.parametrize("kind", ["plain", "bic"])
def test_labels_of_unlabelled_and_train_do_not_reach_the_fit(kind):
    job = task(METHODS[kind])
    y = np.random.default_rng(2).permutation(REC.y)
    (_, model), (_, other) = compute(REC, job), compute(REC._with(y=y), job)
    assert np.array_equal(model.transform(REC.X), other.transform(REC.X))
    assert model.params == other.params


def test_labels_in_the_graph(monkeypatch):
    seen = []
    real = scoring.fit

    def fit(estimator, X, y=None, params=None):
        seen.append((X, y))
        return real(estimator, X, y, params)

    monkeypatch.setattr(scoring, "fit", fit)
    job = task(METHODS["drawn"])
    split = splits(REC, job.dataset, job.config, 0)[0]
    cells, model = compute(REC, job)
    assert len(seen) == 3  # two draws of 12 labels, one of all
    n = len(split.unlabelled)
    for (X, y), count in zip(seen, (12, 12, len(split.train)), strict=True):
        assert np.array_equal(X[:n], REC.X[split.unlabelled]) and (y[:n] == -1).all()
        assert len(X) == len(y) == n + count and (y[n:] >= 0).all()
    assert len(cells[0].draws) == 2 and len(cells[1].draws) == 1 and model is not None
    drawn, seen[:] = list(seen), []
    hidden, _ = compute(REC, task(METHODS["hidden"]))
    for (X, y), (other, _) in zip(seen, drawn, strict=True):  # the same windows, no labels
        assert y is None and np.array_equal(X, other)
    assert [c.n_train for c in hidden] == [c.n_train for c in cells]
    seen.clear()
    _, model = compute(REC, task(METHODS["all"]))
    assert len(seen) == 1 and np.array_equal(seen[0][1], REC.y[split.unlabelled])
    assert model.estimator.decompose.graph == "true"


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_cross_validation_chooses_by_subjects_of_train():
    job = task(METHODS["cv"], budgets=("100%",))
    split = splits(REC, job.dataset, job.config, 0)[0]
    fits = scoring._candidates(REC, job, split)
    assert [f.params["rank"] for f in fits] == [1, 2, 5]
    y, groups = REC.y[split.train], REC.groups[split.train]
    means = []
    for model in fits:
        W, found = model.transform(REC.X[split.train]), []
        for group in np.unique(groups):
            out = groups == group
            found.append(linear_probe(W[~out], y[~out], W[out], y[out]).accuracy)
        means.append(np.mean(found))
    assert len(np.unique(groups)) == 3 == job.method.tune.folds
    (cell,), model = compute(REC, job)
    assert cell.chosen == fits[int(np.argmax(means))].params == model.params
    assert cell.n_features == cell.chosen["rank"]
    with pytest.raises(InvalidInputError, match="no groups"):
        rows = split.train
        scoring._by_cross_validation(REC._with(groups=None), rows, [], job.method.tune)


def test_bic_is_the_choice_of_selection():
    from tensorcontrast.evaluate.selection import select

    job = task({"name": "cpd", "tune": {"grid": {"rank": [1, 2, 4]}}}, budgets=("100%",))
    (cell,), model = compute(REC, job)
    split = splits(REC, job.dataset, job.config, 0)[0]
    X = model.estimator.tensors(REC.X[split.unlabelled])
    best = select(model.estimator.decompose, {"rank": [1, 2, 4]}, X)
    assert cell.chosen == best.best_params


def test_draws_are_the_same_for_every_method_and_nested():
    one, two = task("cpd"), task(METHODS["plain"])
    split = splits(REC, one.dataset, one.config, 0)
    few = [d.labelled for d in draws_of(REC, one, split, 12)]
    other = [d.labelled for d in draws_of(REC, two, split, 12)]
    assert all(np.array_equal(a, b) for a, b in zip(few, other, strict=True))
    more = [d.labelled for d in draws_of(REC, one, split, 24)]
    assert all(set(a) < set(b) for a, b in zip(few, more, strict=True)) and len(few) == 2
    assert not np.array_equal(few[0], few[1])
    assert len(list(draws_of(REC, one, split, "100%"))) == 1


OFFICIAL = REC._with(columns={"split": (REC.groups > 7).astype(np.int8)})


def test_the_official_split_draws_subjects():
    seen = set()
    for seed in range(5):
        split = official_split(OFFICIAL, train=3 / 5, seed=seed)
        assert np.array_equal(split.unlabelled, np.flatnonzero(REC.groups <= 7))
        train, test = set(REC.groups[split.train]), set(REC.groups[split.test])
        assert len(train) == 3 and len(test) == 2 and not train & test
        assert train | test == set(range(8, 13))
        seen.add(tuple(sorted(train)))
    assert len(seen) > 1
    for bad in (REC, OFFICIAL._with(groups=None), OFFICIAL._with(groups=REC.groups % 3)):
        with pytest.raises(InvalidInputError):
            official_split(bad)
    with pytest.raises(InvalidInputError, match="between 0 and 1"):
        official_split(OFFICIAL, train=1.0)


def test_the_official_split_needs_one_fit_for_all_draws(monkeypatch):
    fits = []
    real = scoring.fit
    monkeypatch.setattr(scoring, "fit", lambda *a, **k: fits.append(1) or real(*a, **k))
    job = task("cpd", split="official", draws=4)
    cells, _ = compute(OFFICIAL, job)
    assert len(fits) == 1 and [len(c.draws) for c in cells] == [4, 4]


@pytest.mark.parametrize("change", [{"beta": 0.0}, {"gamma": 0.0}, {"trans_inv": False}])
def test_ablations_of_the_paper_s_solver(change):
    job = task({"name": "plc-paper", "params": {"max_iter": 8, **change}}, budgets=("100%",))
    (cell,), model = compute(REC, job)
    assert cell.status == "ok", cell.message
    used = model.model
    assert used.solver == "als" and used.als.warm_up == 0 and used.n_clusters == REC.n_classes
    found = used.get_params()
    assert {key: found.get(key, found.get(f"als__{key}")) for key in change} == change


def test_without_views_or_with_given_tensors():
    plain = task({"name": "plc", "params": QUICK, "augment": "none"}, budgets=("100%",))
    (cell,), model = compute(REC, plain)
    assert cell.status == "ok"
    assert np.array_equal(model.estimator.augment_(REC.X, np.random.default_rng(0)), REC.X)
    given = task({"name": "cpd", "tensorize": {"n_fft": 16, "hop": 8}}, budgets=("100%",))
    (cell,), model = compute(REC, given)
    assert model.estimator.tensorize_.n_fft_ == 16 and cell.status == "ok"
