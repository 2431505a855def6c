"""Labels: one reading of every type, unknown ones, and what is said of labels that go unused."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline

from tensorcontrast import (
    ATD,
    CPD,
    PLC,
    Algorithm1,
    ContrastiveFeatures,
    Recordings,
)
from tensorcontrast.datasets import make_cp_tensor
from tensorcontrast.errors import InvalidInputError, TensorContrastWarning
from tensorcontrast.evaluate import label_budget
from tensorcontrast.utils.labels import read_labels

NAN = float("nan")
MISSING = [None, NAN, np.float32("nan"), pd.NA, pd.NaT, np.datetime64("NaT"), "", "  ", -1, -1.0]


# ------------------------------------------------------------------------------- reading


@pytest.mark.parametrize(
    ("y", "codes", "classes"),
    [
        ([0, 1, -1], [0, 1, -1], [0, 1]),
        (np.array([0, 1, -1], dtype=object), [0, 1, -1], [0, 1]),
        (np.array([5, 3, -1], dtype=np.int8), [1, 0, -1], [3, 5]),
        (np.array([3, 7, 2**62], dtype=np.uint64), [0, 1, 2], [3, 7, 2**62]),
        (np.array([0.0, 2.0, -1.0, NAN]), [0, 1, -1, -1], [0, 2]),
        ([1, 2.0, np.int64(2), None], [0, 1, 1, -1], [1, 2]),
        ([-2, 0, 1], [0, 1, 2], [-2, 0, 1]),
        ([True, False, None], [1, 0, -1], [False, True]),
        (np.array([True, False]), [1, 0], [False, True]),
        (["b", "a", "-1", "", None, NAN], [1, 0, -1, -1, -1, -1], ["a", "b"]),
        (np.array(["b", "a", "-1", ""]), [1, 0, -1, -1], ["a", "b"]),
        (np.array([b"b", b"a", b"-1"]), [1, 0, -1], ["a", "b"]),
        (["a", -1, "b"], [0, -1, 1], ["a", "b"]),
        (["a", "unknown"], [0, 1], ["a", "unknown"]),
        (pd.Series([1, 0, None], index=[9, 8, 7]), [1, 0, -1], [0, 1]),
        (pd.Series([1, 0, None], dtype="Int64"), [1, 0, -1], [0, 1]),
        (pd.Series([True, None], dtype="boolean"), [0, -1], [True]),
        (pd.Series(["b", None, "a"], dtype="string"), [1, -1, 0], ["a", "b"]),
        (pd.Categorical(["b", None, "a"], categories=["b", "a", "z"]), [1, -1, 0], ["a", "b"]),
        (pd.Series(pd.Categorical([4, None, 2])), [1, -1, 0], [2, 4]),
        (pd.DataFrame({"label": ["b", "a"]}), [1, 0], ["a", "b"]),
        (np.ma.array([1, 0, 1], mask=[0, 0, 1]), [1, 0, -1], [0, 1]),
        ([[2], [1], [-1]], [1, 0, -1], [1, 2]),
        ([-1, -1], [-1, -1], []),
        ([None, ""], [-1, -1], []),
    ],
)
def test_every_type_is_read(y, codes, classes):
    labels = read_labels(y, len(codes))
    assert labels.codes.dtype == np.intp
    assert labels.codes.tolist() == codes
    assert labels.classes.tolist() == classes
    assert labels.n_unknown == codes.count(-1)


@pytest.mark.parametrize("known", [[0, 3], ["a", "b"], [False, True]])
@pytest.mark.parametrize("missing", MISSING, ids=repr)
def test_every_way_to_write_unknown(missing, known):
    y = [known[1], missing, known[0]]
    assert read_labels(y).codes.tolist() == [1, -1, 0]
    assert read_labels(np.array(y, dtype=object)).codes.tolist() == [1, -1, 0]


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([-2, -1, 0, 1], "holds -1, which stands for an unknown label, and -2; number classes"),
        (["-2", "-1", "0"], "holds -1, which stands for an unknown label, and -2"),
        ([0, 1.5], r"y\[1\] is 1.5, which is not a class"),
        ([0, np.inf], r"y\[1\] is inf, which is not a class"),
        ([0, "a"], "mixes labels of different kinds, such as 'a' and 0|such as 0 and 'a'"),
        ([True, 2], "mixes labels of different kinds"),
        (np.array(["a", NAN]), r"y\[1\] is the text 'nan'.*missing value"),
        (["a", "None"], "the text 'None'"),
        ([[0, 1], [1, 0]], r"shape \(2, 2\)"),
        ([[0], [1, 2]], r"y\[0\] is \[0\], which is neither"),
        ([{1}, {2}], "neither a number nor text"),
        ([(1, 2), "a"], "neither a number nor text"),
        (np.array([b"\xff", b"a"]), "neither a number nor text"),
        (np.array(["2024-01-01", "2024-01-02"], dtype="M8[D]"), "holds datetime64"),
        (np.array([1j, 2]), "holds complex128"),
        ([1, 2**70], r"y\[1\] is about 1e21, which does not fit an integer of 64 bits"),
        ([1, 10**5000], r"y\[1\] is about 1e5000, "),
        (3, r"shape \(\)"),
        ([0, 1, 0], "y has 3 labels but X has 2 windows"),
    ],
)
def test_what_is_ambiguous_is_an_error(y, message):
    with pytest.raises(InvalidInputError, match=message):
        read_labels(y, 2 if message.startswith("y has 3") else None)


def test_names_that_are_declared_are_classes_whatever_they_look_like():
    labels = read_labels(["-1", "1", "nan"], declared=("-1", "1", "nan"))
    assert labels.codes.tolist() == [0, 1, 2]


def test_labels_of_random_types_are_read_alike():
    rng = np.random.default_rng(0)
    for _ in range(50):
        codes = rng.integers(-1, 4, 30)
        ways = [
            codes,
            codes.astype(object),
            codes.astype(float),
            np.where(codes < 0, NAN, codes),
            [None if c < 0 else int(c) for c in codes],
            [pd.NA if c < 0 else "abcd"[c] for c in codes],
            np.array(["abcd"[c] if c >= 0 else "" for c in codes]),
            pd.Series(codes).replace(-1, pd.NA).astype("Int64"),
            pd.Categorical(["abcd"[c] if c >= 0 else None for c in codes]),
        ]
        wanted = read_labels(codes).codes
        for y in ways:
            np.testing.assert_array_equal(read_labels(y).codes, wanted)


# ------------------------------------------------------------------------------- estimators


@pytest.fixture(scope="module")
def planted():
    return make_cp_tensor(n_samples=60, dims=(4, 6, 5), rank=3, n_classes=3, random_state=0)[:2]


def plc(kind=PLC, **params):
    return kind(**{"rank": 3, "n_clusters": 3, "random_state": 0, **params})


@pytest.mark.parametrize("kind", [PLC, Algorithm1])
def test_plc_reads_every_type_alike(planted, kind):
    X, y = planted
    codes = np.where(np.arange(60) % 3, -1, np.roll(y, 1))
    wanted = plc(kind).fit(X, codes).transform(X)
    assert not np.array_equal(wanted, plc(kind).fit(X).transform(X))
    names = [None if c < 0 else "abc"[c] for c in codes]
    for given in (codes.astype(object), np.where(codes < 0, NAN, codes), names):
        model = plc(kind).fit(X, given)
        np.testing.assert_array_equal(model.transform(X), wanted)


@pytest.mark.parametrize("graph", ["pseudo", "true"])
def test_minus_one_and_one_alone_are_ambiguous(planted, graph):
    X, y = planted
    with pytest.raises(InvalidInputError, match=r"-1 and 1 alone.*0 and 1, or pass None"):
        plc(graph=graph).fit(X, np.where(y == 0, 1, -1))
    plc().fit(X, np.where(y == 0, 1, None))


@pytest.mark.parametrize("y", [np.full(60, -1), [None] * 60, [""] * 60])
def test_labels_that_are_all_unknown_are_a_warning(planted, y):
    with pytest.warns(TensorContrastWarning, match="no known label"):
        plc().fit(planted[0], y)
    with pytest.raises(InvalidInputError, match="only unknown labels"):
        plc(graph="true").fit(planted[0], y)


@pytest.mark.parametrize("method", ["fit", "fit_transform"])
@pytest.mark.parametrize(
    ("model", "message"),
    [
        (CPD(3, random_state=0), "CPD learns without labels"),
        (ATD(rank=3, max_iter=3, tol=0, random_state=0), "ATD learns without labels"),
        (plc(), "PLC does not use y: every window has a label.*graph='true'"),
    ],
    ids=["CPD", "ATD", "PLC"],
)
def test_labels_that_go_unused_are_a_warning(planted, model, message, method):
    X, y = planted
    with pytest.warns(TensorContrastWarning, match=message) as caught:
        getattr(model, method)(X, y)
    assert {w.filename for w in caught} == {__file__}


def test_a_class_called_unknown_does_not_pass_without_a_word(planted):
    X, y = planted
    with pytest.warns(TensorContrastWarning, match="'a', 'b', 'unknown'"):
        plc().fit(X, np.array(["a", "b", "unknown"])[y])


@pytest.mark.parametrize("decompose", [CPD(3, random_state=0), plc()], ids=["CPD", "PLC"])
def test_contrastive_features_warns_as_well(decompose):
    X = np.random.default_rng(0).normal(size=(40, 2, 64))
    y = np.arange(40) % 2
    model = ContrastiveFeatures(fs=50, decompose=decompose, random_state=0)
    with pytest.warns(TensorContrastWarning, match="not use y") as caught:
        model.fit_transform(X, y)
    assert len(caught) == 1
    with pytest.raises(InvalidInputError, match="y has 39 labels but X has 40 windows"):
        model.fit(X, y[1:])


def test_labels_are_refused_before_any_work(monkeypatch):
    X = np.random.default_rng(0).normal(size=(40, 2, 64))
    monkeypatch.setattr("tensorcontrast.features.SpectrogramTensor.fit", None)
    with pytest.raises(InvalidInputError, match="mixes labels"):
        ContrastiveFeatures(fs=50).fit(X, [0, "a"] * 20)


@pytest.mark.parametrize("decompose", [CPD(3, random_state=0), plc()], ids=["CPD", "PLC"])
def test_a_pipeline_passes_labels_on_without_a_word(planted, decompose):
    X, y = planted
    signals = np.random.default_rng(0).normal(size=(60, 2, 64))
    names = np.array(["a", "b", "c"])[y]
    targets = [y, names, names.tolist(), 2 * y - 1.5]
    with warnings.catch_warnings():
        warnings.simplefilter("error", TensorContrastWarning)
        for target in targets:
            last = Ridge() if np.asarray(target).dtype.kind == "f" else LogisticRegression()
            assert make_pipeline(decompose, last).fit(X, target).predict(X).shape == (60,)
        features = ContrastiveFeatures(fs=50, decompose=decompose, random_state=0)
        make_pipeline(features, LogisticRegression()).fit(signals, names)
        make_pipeline(features, Ridge()).fit(signals, np.stack([y - 0.5, y], axis=1))


def test_targets_of_a_regression_are_not_labels(planted):
    X, y = planted
    with pytest.warns(TensorContrastWarning, match="numbers that are not classes"):
        model = plc().fit(X, y - 0.5)
    np.testing.assert_array_equal(model.transform(X), plc().fit(X).transform(X))
    with pytest.raises(InvalidInputError, match=r"y\[0\] is -?\d.5, which is not a class"):
        plc(graph="true").fit(X, y - 0.5)


# ------------------------------------------------------------------------------- recordings


@pytest.mark.parametrize(
    ("y", "codes", "classes"),
    [
        ([0, 2, None, NAN], [0, 2, -1, -1], None),
        (np.array([0, 1, -1, 1], dtype=object), [0, 1, -1, 1], None),
        (pd.Series([1, 0, None, 1], dtype="Int64"), [1, 0, -1, 1], None),
        (["sit", "", "run", None], [1, -1, 0, -1], ("run", "sit")),
        (["sit", "-1", "run", "sit"], [1, -1, 0, 1], ("run", "sit")),
        (pd.Categorical(["sit", None, "run", "sit"]), [1, -1, 0, 1], ("run", "sit")),
        ([True, False, None, True], [1, 0, -1, 1], None),
        ([-1, -1, -1, -1], [-1, -1, -1, -1], None),
    ],
)
def test_recordings_read_the_same_labels(y, codes, classes):
    rec = Recordings(np.ones((4, 1, 8)), y)
    assert rec.y.dtype == np.int64
    assert rec.y.tolist() == codes
    assert rec.classes == classes
    cut = Recordings.from_signals(np.ones((4, 1, 8)), window=8, labels=y)
    assert (cut.y.tolist(), cut.classes) == (codes, classes)


def test_recordings_take_names_that_look_like_unknown_where_they_are_declared():
    rec = Recordings(np.ones((3, 1, 8)), ["1", "-1", ""], classes=["-1", "1"])
    assert rec.y.tolist() == [1, 0, -1]


def test_labels_of_points_may_be_objects():
    labels = [np.array(["a"] * 8 + [None] * 8, dtype=object), np.array(["b"] * 16)]
    rec = Recordings.from_signals([np.ones((1, 16))] * 2, window=8, labels=labels)
    assert rec.y.tolist() == [0, -1, 1, 1]
    assert rec.classes == ("a", "b")
    mixed = [np.array([0, 1] * 8), np.array(["a"] * 16)]
    with pytest.raises(InvalidInputError, match="mixes labels"):
        Recordings.from_signals([np.ones((1, 16))] * 2, window=8, labels=mixed)


def test_a_table_with_labels_left_empty_or_minus_one(tmp_path):
    rows = ["sample,label,a"]
    for k, label in enumerate(["walk", "", "-1", "rest"]):
        rows += [f"{k},{label},{t}" for t in range(3)]
    path = tmp_path / "windows.csv"
    path.write_text("\n".join(rows))
    rec = Recordings.read(path)
    assert rec.y.tolist() == [1, -1, -1, 0]
    assert rec.classes == ("rest", "walk")


def test_a_budget_takes_labels_of_any_type():
    numbers = label_budget([0, 0, 1, 1, -1, 0], 3)
    names = label_budget(["a", "a", "b", "b", None, "a"], 3)
    np.testing.assert_array_equal(numbers, names)
    with pytest.raises(InvalidInputError, match="and -2"):
        label_budget([-2, -1, 0, 1], 2)
