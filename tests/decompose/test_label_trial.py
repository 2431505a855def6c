"""Labels that have to pay before they go into the graph (decompose/label_trial.py)."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from tensorcontrast import PLC, load_model
from tensorcontrast.datasets import make_cp_tensor
from tensorcontrast.decompose import als, kernels, label_trial

N = 240


@pytest.fixture
def asked(monkeypatch):
    """As few labels as there are in a test are enough to be asked."""
    monkeypatch.setattr(label_trial, "ENOUGH", 100)


@pytest.fixture(scope="module")
def labelled():
    """Tensors, their classes, and labels of two thirds of them."""
    X, y, *_ = make_cp_tensor(
        n_samples=N, dims=(4, 6, 5), rank=4, n_classes=3, noise=0.5, random_state=0
    )
    return X, y, np.where(np.arange(N) % 3 > 0, y, -1)


def answers(monkeypatch, *gains):
    """Let the labels left out say this, in turns for features with labels and without."""
    said = iter([value for gain in gains for value in (0.5 + gain, 0.5)])
    monkeypatch.setattr(label_trial, "accuracy", lambda *args: next(said))
    return said


def make(**options):
    return PLC(
        **{"rank": 4, "n_epochs": 6, "max_iter": 30, "tol": 1e-3, "random_state": 0} | options
    )


def same(a, b):
    return all(np.array_equal(U, V) for U, V in zip(a.factors_, b.factors_, strict=True))


def test_few_labels_are_not_asked():
    known = np.arange(label_trial.ENOUGH + 9) % 3
    known[:10] = -1
    assert label_trial.halves(known) is None
    known[0] = 1
    assert label_trial.halves(known) is not None


@pytest.mark.usefixtures("asked")
def test_halves_divide_each_class_in_the_order_of_the_samples():
    known = np.random.default_rng(0).integers(-1, 4, 500)
    first, second = label_trial.halves(known)
    assert ((first >= 0) ^ (second >= 0))[known >= 0].all()
    np.testing.assert_array_equal(np.maximum(first, second), known)
    for label in range(4):
        here, there = np.flatnonzero(first == label), np.flatnonzero(second == label)
        assert here.max() < there.min()
        assert 0 <= len(here) - len(there) <= 1


@pytest.mark.usefixtures("asked")
def test_recordings_stay_whole():
    rng = np.random.default_rng(1)
    sequence = np.repeat(["d", "a", "c", "b", "e"], [30, 70, 50, 40, 110])
    known = rng.integers(-1, 3, len(sequence))
    first, second = label_trial.halves(known, sequence)
    of = set(sequence[first >= 0]), set(sequence[second >= 0])
    assert of == ({"d", "a", "c"}, {"b", "e"})
    np.testing.assert_array_equal(np.maximum(first, second), known)


@pytest.mark.usefixtures("asked")
def test_a_half_of_one_class_cannot_be_asked():
    known = np.repeat([0, 1], 100)
    assert label_trial.halves(known, np.repeat([5, 6], 100)) is None
    assert label_trial.halves(np.zeros(200, dtype=int)) is None
    assert label_trial.halves(known) is not None


@pytest.mark.parametrize("most", [10_000, 50])
def test_accuracy_is_that_of_a_loop_over_samples(monkeypatch, most):
    monkeypatch.setattr(label_trial, "ROWS", most)
    rng = np.random.default_rng(0)
    X, y, *_ = make_cp_tensor(n_samples=90, dims=(3, 4, 5), rank=3, n_classes=3, random_state=1)
    factors = [rng.normal(size=(d, 3)) for d in (3, 4, 5)]
    parts = np.arange(90) % 4
    learn, ask = np.where(parts == 0, y, -1), np.where(parts > 1, y, -1)
    flat = X.reshape(90, -1)
    H = kernels.khatri_rao(factors)
    at = np.flatnonzero(parts != 1)
    if most < len(at):
        at = at[[int(k * (len(at) - 1) / (most - 1)) for k in range(most)]]
    W = np.array([np.linalg.solve(H.T @ H + 0.1 * np.eye(3), H.T @ x) for x in flat])
    train, test = at[parts[at] == 0], at[parts[at] > 1]
    mean, sd = W[train].mean(axis=0), W[train].std(axis=0)
    probe = LogisticRegression(max_iter=1000).fit((W[train] - mean) / sd, y[train])
    right = [probe.predict(((W[i] - mean) / sd)[None])[0] == y[i] for i in test]
    found = label_trial.accuracy(als.Views.of(flat, None), factors, 0.1, learn, ask)
    assert found == pytest.approx(np.mean(right))
    assert 0 < found < 1


@pytest.mark.usefixtures("asked")
def test_labels_that_pay_are_used(labelled):
    X, _, known = labelled
    model = make().fit(X, known)
    assert model.label_gain_ >= 0
    assert not same(model, make().fit(X))


@pytest.mark.usefixtures("asked")
@pytest.mark.parametrize("gains", [(-0.1,), (0.2, -0.01)])
def test_without_labels_that_do_not_pay_it_is_the_fit_without(monkeypatch, labelled, gains):
    X, _, known = labelled
    said = answers(monkeypatch, *gains)
    model = make().fit(X, known)
    assert next(said, None) is None  # both halves were asked, but for one that says no at once
    assert model.label_gain_ == pytest.approx(gains[-1])
    plain = make().fit(X)
    assert same(model, plain)
    assert model.beta_ == plain.beta_
    assert plain.label_gain_ is None


@pytest.mark.usefixtures("asked")
def test_the_gain_is_kept_in_files(monkeypatch, labelled, tmp_path):
    X, _, known = labelled
    answers(monkeypatch, 0.2, 0.1)
    model = make().fit(X, known)
    model.save(tmp_path / "a.tcm")
    again = load_model(tmp_path / "a.tcm")
    assert again.label_gain_ == model.label_gain_ == pytest.approx(0.1)


@pytest.mark.usefixtures("asked")
def test_who_gives_a_weight_or_the_graph_is_not_asked(monkeypatch, labelled):
    X, _, known = labelled
    answers(monkeypatch)  # any question is an error
    for options in ({"beta": 0.05}, {"graph": "true"}):
        model = make(**options).fit(X, known)
        assert model.label_gain_ is None
        assert not same(model, make(**{k: v for k, v in options.items() if k == "beta"}).fit(X))


@pytest.mark.usefixtures("asked")
def test_with_gaps_and_fresh_views(labelled):
    X, _, known = labelled
    gaps = X.copy()
    gaps[::7, 0, 0, 0] = np.nan
    noisy = {"augment": lambda X, rng: X + 0.1 * rng.normal(size=X.shape), "fresh_views": True}
    for data, options in ((gaps, {"missing": "mask"}), (X, noisy)):
        model = make(**options).fit(data, known)
        assert isinstance(model.label_gain_, float)


@pytest.mark.usefixtures("asked")
@pytest.mark.parametrize("how", ["Ctrl-C", "callback"])
def test_an_end_while_labels_are_asked_gives_the_fit_without(labelled, how):
    X, _, known = labelled
    plain = make().fit(X)
    seen = []

    def end(row):
        seen.append(row)
        if len(seen) < plain.n_iter_ + 3:
            return False
        if how == "Ctrl-C":
            raise KeyboardInterrupt
        return True

    model = make(callback=end)
    if how == "Ctrl-C":
        with pytest.raises(KeyboardInterrupt, match="can be used"):
            model.fit(X, known)
    else:
        model.fit(X, known)
    assert len(seen) == plain.n_iter_ + 3
    assert model.interrupted_ == (how == "Ctrl-C")
    assert same(model, plain)


@pytest.mark.usefixtures("asked")
@pytest.mark.parametrize("gains", [None, (0.1, -0.1)])
def test_a_fit_goes_on_from_its_checkpoint(monkeypatch, labelled, tmp_path, gains):
    X, _, known = labelled

    class Crash(Exception):
        pass

    def say():
        if gains is not None:
            answers(monkeypatch, *gains)

    say()
    whole = make().fit(X, known)
    crashes = 0
    while True:
        left = [8]

        def crash(row, left=left):
            left[0] -= 1
            if left[0] < 0:
                raise Crash

        say()
        model = make(checkpoint=tmp_path / "a.tcc", every=2, callback=crash)
        try:
            model.fit(X, known, resume=True)
            break
        except Crash:
            crashes += 1
    assert crashes > 1
    assert same(model, whole)
    assert model.label_gain_ == whole.label_gain_
