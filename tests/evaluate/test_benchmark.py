"""Benchmarks: the numbers as by hand, no test label in a fit or a choice, runs that go on."""

import json
import subprocess
import sys
import warnings
from dataclasses import replace

import numpy as np
import pytest

from tensorcontrast import CPD, Algorithm1, ContrastiveFeatures
from tensorcontrast.datasets import make_synthetic
from tensorcontrast.errors import DamagedFileError, InvalidInputError
from tensorcontrast.evaluate import benchmark as benchmarks
from tensorcontrast.evaluate.benchmark import (
    Benchmark,
    Dataset,
    Method,
    append_cells,
    compute,
    draws_of,
    read_cells,
    run,
)
from tensorcontrast.evaluate.methods import METHODS, make_estimator
from tensorcontrast.evaluate.protocol import (
    label_budget,
    linear_probe,
    official_split,
    subject_split,
)

OPTIONS = {"n_samples": 180, "n_channels": 3, "n_times": 64, "n_subjects": 12}
REC = make_synthetic(**OPTIONS, random_state=0)
DATASET = Dataset("planted", "synthetic", options=OPTIONS, fractions=(0.5, 0.25, 0.25))
QUICK = {"max_iter": 8}
REAL_FIT = benchmarks.fit


def planned(*methods, dataset=DATASET, **changes):
    given = {"seeds": [0], "budgets": [12, "100%"], "draws": 2, "rank": 4, **changes}
    return Benchmark([dataset], methods, **given)


def computed(wanted, rec=None, monkeypatch=None):
    """Cells and fits of the first method and seed; ``rec`` stands in for the recordings."""
    fits = []

    def fit(*args):
        fits.append(REAL_FIT(*args))
        return fits[-1]

    if monkeypatch is not None:
        monkeypatch.setattr(benchmarks, "fit", fit)
    benchmarks._LAST[:] = [] if rec is None else [(wanted.datasets[0], rec)]
    cells = compute(wanted, wanted.datasets[0], wanted.methods[0], 0, wanted.budgets)
    benchmarks._LAST[:] = []
    assert not any(cell.error for cell in cells), cells
    return cells, fits


KINDS = {
    "plain": Method("PLC", "plc", QUICK),
    "grid": Method("PLC", "plc", QUICK, grid={"rank": [1, 2, 5]}),
    "drawn": Method("PLC", "plc", QUICK, labels_in_graph="drawn"),
    "hidden": Method("PLC", "plc", QUICK, labels_in_graph="hidden"),
    "all": Method("PLC", "plc", QUICK, labels_in_graph="all"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_permuted_test_labels_change_accuracies_only(kind, monkeypatch):
    wanted = planned(KINDS[kind])
    split = DATASET.splits(REC, 0, 2)[0]
    y = REC.y.copy()
    y[split.test] = np.random.default_rng(1).permutation(y[split.test])
    cells, fits = computed(wanted, REC, monkeypatch)
    others, other_fits = computed(wanted, REC._with(y=y), monkeypatch)
    assert [c.chosen for c in cells] == [c.chosen for c in others]
    assert [c.accuracy for c in cells] != [c.accuracy for c in others]
    for one, other in zip(fits, other_fits, strict=True):
        assert np.array_equal(one.estimator.transform(REC.X), other.estimator.transform(REC.X))
    assert (cells[1].chosen != {}) == (kind == "grid")


def test_labels_of_unlabelled_and_train_do_not_reach_the_fit(monkeypatch):
    wanted = planned(KINDS["plain"])
    y = np.random.default_rng(2).permutation(REC.y)
    (one,), (other,) = (computed(wanted, rec, monkeypatch)[1] for rec in (REC, REC._with(y=y)))
    assert np.array_equal(one.estimator.transform(REC.X), other.estimator.transform(REC.X))


def test_labels_in_the_graph(monkeypatch):
    seen = []

    def fit(estimator, X, y=None, params=None):
        seen.append((X, y))
        return REAL_FIT(estimator, X, y, params)

    monkeypatch.setattr(benchmarks, "fit", fit)
    split = DATASET.splits(REC, 0, 2)[0]
    cells, _ = computed(planned(KINDS["drawn"]), REC)
    assert len(seen) == 3  # two draws of 12 labels, one of all
    n = len(split.unlabelled)
    for (X, y), count in zip(seen, (12, 12, len(split.train)), strict=True):
        assert np.array_equal(X[:n], REC.X[split.unlabelled]) and (y[:n] == -1).all()
        assert len(X) == len(y) == n + count and (y[n:] >= 0).all()
    drawn, seen[:] = list(seen), []
    hidden, _ = computed(planned(KINDS["hidden"]), REC)
    for (X, y), (other, _) in zip(seen, drawn, strict=True):  # the same windows, no labels
        assert y is None and np.array_equal(X, other)
    assert [c.n_train for c in hidden] == [c.n_train for c in cells]
    seen.clear()
    computed(planned(KINDS["all"]), REC)
    assert len(seen) == 1 and np.array_equal(seen[0][1], REC.y[split.unlabelled])


def test_a_grid_is_chosen_by_subjects_of_train(monkeypatch):
    wanted = planned(KINDS["grid"], budgets=["100%"])
    split = DATASET.splits(REC, 0, 2)[0]
    (cell,), fits = computed(wanted, REC, monkeypatch)
    assert [one.params["rank"] for one in fits] == [1, 2, 5]
    y, groups = REC.y[split.train], REC.groups[split.train]
    assert len(np.unique(groups)) == 3  # folds of one subject
    means = []
    for one in fits:
        W, found = one.estimator.transform(REC.X[split.train]), []
        for group in np.unique(groups):
            out = groups == group
            found.append(linear_probe(W[~out], y[~out], W[out], y[out]).accuracy)
        means.append(np.mean(found))
    assert cell.chosen == fits[int(np.argmax(means))].params
    assert cell.n_features == cell.chosen["rank"]


def test_cells_are_what_the_parts_give_by_hand():
    wanted = planned(Method("CPD", "cpd", {"max_iter": 15}), budgets=[6, "50%", "100%"])
    cells = {cell.budget: cell for cell in computed(wanted, REC)[0]}
    split = subject_split(REC, 0.5, 0.25, 0.25, seed=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = ContrastiveFeatures(
            REC.fs, REC.channels, decompose=CPD(4, max_iter=15), random_state=0
        ).fit(REC.X[split.unlabelled])
    train, test = model.transform(REC.X[split.train]), model.transform(REC.X[split.test])
    y_train, y_test = REC.y[split.train], REC.y[split.test]
    expected = linear_probe(train, y_train, test, y_test)
    assert cells["100%"].accuracy == pytest.approx(expected.accuracy)
    assert cells["100%"].macro_f1 == pytest.approx(expected.macro_f1)
    assert cells["100%"].n_epochs == 15 and cells["100%"].n_features == 4
    for budget in (6, "50%"):
        draws = []
        for number in range(2):
            at = label_budget(y_train, budget, seed=number)
            draws.append(linear_probe(train[at], y_train[at], test, y_test).accuracy)
        assert cells[budget].accuracy == pytest.approx(np.mean(draws))


def test_draws_are_nested_and_one_where_all_labels_are_used():
    wanted = planned(KINDS["plain"])
    parts = DATASET.splits(REC, 0, 2)
    few = [d.labelled for d in draws_of(REC, parts, 12, 0, wanted)]
    more = [d.labelled for d in draws_of(REC, parts, 24, 0, wanted)]
    assert all(set(a) < set(b) for a, b in zip(few, more, strict=True)) and len(few) == 2
    assert not np.array_equal(few[0], few[1])
    assert len(list(draws_of(REC, parts, "100%", 0, wanted))) == 1


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


def test_the_official_split_needs_one_fit_for_all_draws(monkeypatch):
    dataset = replace(DATASET, split="official")
    wanted = planned(Method("CPD", "cpd"), dataset=dataset, draws=4)
    cells, fits = computed(wanted, OFFICIAL, monkeypatch)
    assert len(fits) == 1 and len(cells) == 2
    assert len(dataset.splits(OFFICIAL, 0, 4)) == 4


@pytest.mark.parametrize("name", METHODS)
def test_every_method_makes_an_estimator(name):
    rank = None if METHODS[name][1] is None else 3
    model = make_estimator(REC, Method(name, name), rank=3, seed=0)
    params = getattr(model, "decompose", model).get_params()
    assert rank in (None, params.get(METHODS[name][1] or ""))


@pytest.mark.parametrize("change", [{"beta": 0.0}, {"gamma": 0.0}, {"trans_inv": False}])
def test_ablations_of_the_paper_s_algorithm(change):
    method = Method("PLC", "plc-paper", {"max_iter": 4, **change})
    used = make_estimator(REC, method, rank=4, seed=0).decompose
    found = used.get_params()
    assert isinstance(used, Algorithm1) and used.n_clusters == REC.n_classes
    assert {key: found[key] for key in change} == change


def test_the_paper_s_tensors():
    rec = make_synthetic(n_samples=12, n_channels=9, n_times=128, fs=50.0, random_state=0)
    names = [f"{kind}_{axis}" for kind in ("acc", "gyro", "body") for axis in "xyz"]
    rec = rec._with(channels=names)
    method = Method("CPD", "cpd", paper=True)
    model = make_estimator(rec, method, rank=2, seed=0, paper_set="har")
    assert model.tensorize.fit(rec.X).output_shape_ == (18, 33, 33)


def test_unknown_names_are_refused():
    with pytest.raises(InvalidInputError, match="pcaa"):
        Method("PCA", "pcaa")
    with pytest.raises(InvalidInputError, match="halves"):
        replace(DATASET, split="halves").splits(REC, 0, 1)


# ------------------------------------------------------------------------------------- files


PCA = Method("PCA", "pca")
SMALL = planned(PCA, Method("CPD", "cpd", QUICK), seeds=[0, 1], budgets=[6, "100%"])


def numbers(cells):
    return {cell.key: (cell.accuracy, cell.macro_f1, cell.n_epochs) for cell in cells}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "whole.jsonl"
    return path, run(SMALL, path)


def test_a_run_goes_on_from_what_is_there(whole, tmp_path):
    path, cells = whole
    assert len(cells) == 2 * 2 * 2 and not any(cell.error for cell in cells)
    states = []
    before = path.read_bytes()
    assert run(SMALL, path, progress=lambda *state: states.append(state)) == cells
    assert states == [(0, 0, "")] and path.read_bytes() == before
    part = tmp_path / "part.jsonl"
    lines = before.decode().splitlines(keepends=True)
    part.write_text("".join(lines[:3]) + lines[3][:40])  # a process was killed while it wrote
    assert len(read_cells(part)) == 3
    again = run(SMALL, part, progress=lambda *state: states.append(state))
    assert numbers(again) == numbers(cells) and len(read_cells(part)) == 8


def test_processes_give_the_same(whole, tmp_path):
    found = run(SMALL, tmp_path / "two.jsonl", n_jobs=2)
    for cell in found:
        same = next(other for other in whole[1] if other.key == cell.key)
        assert cell.accuracy == pytest.approx(same.accuracy, abs=0.05)


def test_results_of_other_settings_are_computed_anew(whole, tmp_path):
    path = tmp_path / "more.jsonl"
    path.write_bytes(whole[0].read_bytes())
    run(replace(SMALL, methods=[replace(PCA, note="told in tables alone")]), path)
    assert len(read_cells(path)) == 8
    run(replace(SMALL, methods=[PCA], rank=3), path)
    assert len(read_cells(path)) == 8 + 4


def test_what_fails_is_told_and_tried_again(tmp_path):
    path = tmp_path / "r.jsonl"

    def broken(rec, seed):
        raise InvalidInputError("no estimator today")

    wanted = planned(Method("mine", make=broken), budgets=["100%"])
    for count in (1, 2):
        (cell,) = run(wanted, path)
        assert "no estimator today" in cell.error and cell.accuracy is None
        assert len(read_cells(path)) == count
    good = planned(
        Method("mine", make=lambda rec, seed: ContrastiveFeatures(decompose=CPD(2, max_iter=4))),
        budgets=["100%"],
    )
    (cell,) = run(good, path)
    assert not cell.error
    absent = planned(PCA, dataset=Dataset("absent", "", str(tmp_path / "absent.npz")))
    assert all("absent.npz" in cell.error for cell in run(absent, path))


def test_a_file_of_something_else_is_refused(tmp_path):
    path = tmp_path / "r.jsonl"
    for text in ("hello\n", "[1]\n", '{"dataset": "d"}\n'):
        path.write_text(text)
        with pytest.raises(DamagedFileError, match=r"r\.jsonl"):
            run(SMALL, path)
    assert path.read_text() == '{"dataset": "d"}\n'


def test_lines_are_plain_json(whole, tmp_path):
    record = json.loads(whole[0].read_text().splitlines()[0])
    assert {"dataset", "method", "seed", "budget", "accuracy"} <= set(record)
    append_cells(tmp_path / "copy.jsonl", whole[1])
    assert read_cells(tmp_path / "copy.jsonl") == whole[1]


def test_a_killed_run_goes_on(whole, tmp_path):
    path = tmp_path / "killed.jsonl"
    code = f"""
import os
from tensorcontrast.evaluate.benchmark import Benchmark, Dataset, Method, run
def stop(done, total, text):
    if done == 2:
        os.kill(os.getpid(), 9)
run({SMALL!r}, {str(path)!r}, progress=stop)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode == -9, done.stderr
    assert len(read_cells(path)) == 4
    assert numbers(run(SMALL, path)).keys() == numbers(whole[1]).keys()
    assert len(read_cells(path)) == 8
