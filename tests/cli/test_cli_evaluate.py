"""evaluate and components: honest scores, and what each component is."""

import re

import numpy as np
import pytest

from tensorcontrast import Recordings, load_model
from tensorcontrast.cli.shared.stored import KEPT, hashes, share_among
from tensorcontrast.errors import InvalidInputError
from tensorcontrast.evaluate.cross_validation import cross_validate, subject_folds
from tensorcontrast.evaluate.protocol import linear_probe


def test_scores_are_those_of_folds_by_subject(cli, model, other):
    done = cli("evaluate", model, other, "--budgets", "12,50%,100%", "--folds", 4, "--json")
    assert done.code == 0, done.err
    found = done.json
    assert [row["budget"] for row in found["scores"]] == [12, "50%", "100%"]
    assert (found["split"], found["folds"], found["subjects"]) == ("subjects", 4, 4)
    assert found["fitted_on_share"] == 0
    assert found["warnings"] == []
    rec = Recordings.load(other)
    features = load_model(model).transform(rec)
    expected = [
        linear_probe(
            features[rec.groups != g],
            rec.y[rec.groups != g],
            features[rec.groups == g],
            rec.y[rec.groups == g],
        ).accuracy
        for g in np.unique(rec.groups)
    ]
    last = found["scores"][-1]
    assert last["accuracy"] == pytest.approx(np.mean(expected))
    assert last["accuracy_sd"] == pytest.approx(np.std(expected, ddof=1))
    assert found["majority"] == pytest.approx(np.bincount(rec.y).max() / len(rec))
    assert set(found["recall"]) == {"0", "1", "2"}


def test_the_table_for_people(cli, model, data):
    done = cli("evaluate", model, data, "--budgets", "30,100%")
    assert done.code == 0
    assert "90 windows, 3 classes, 6 subjects" in done.out
    assert "±" in done.out
    for name in ("rest", "move", "think", "all", "largest class"):
        assert name in done.out


def test_data_of_the_fit_are_told(cli, model, data, recordings, tmp_path):
    done = cli("evaluate", model, data, "--json")
    assert done.json["fitted_on_share"] == 1
    assert "fitted on 100% of these windows" in done.json["warnings"][0]
    assert "warning: " in done.err
    X = recordings.X.copy()
    X[45:] += 1
    half = Recordings(X, recordings.y, groups=recordings.groups, fs=100).save(tmp_path / "h.npz")
    assert cli("evaluate", model, half, "--json").json["fitted_on_share"] == 0.5


def test_a_full_sketch_still_tells_known_windows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2 * KEPT, 1, 4)).astype(np.float32)
    kept = hashes(X)[:KEPT]
    assert len(kept) == KEPT
    assert share_among(hashes(X[: KEPT // 2]), kept) == 1
    assert share_among(hashes(X + 1), kept) == 0


def test_no_subject_is_in_two_folds():
    rng = np.random.default_rng(1)
    groups = rng.integers(0, 11, size=200)
    for n_folds in (2, 5, len(np.unique(groups))):
        folds = subject_folds(groups, n_folds, seed=n_folds)
        assert len(np.unique(folds)) == n_folds
        for g in np.unique(groups):
            assert len(np.unique(folds[groups == g])) == 1
    with pytest.raises(InvalidInputError, match="folds"):
        subject_folds(groups, 12, seed=0)


def test_folds_that_cannot_be_scored_are_counted():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(40, 2))
    groups = np.repeat([0, 1], 20)
    y = np.where(groups == 0, 0, np.arange(40) % 2)  # train on subject 0: one class only
    scores, predictions = cross_validate(features, y, groups, [4, 100], n_folds=2, seed=0)
    assert len(scores[0].accuracy) == 1
    assert "fold" in scores[0].skipped[0]
    assert len(scores[1].accuracy) == 0  # more labels than there are
    assert np.isnan(scores[1].mean_sd("accuracy")[0])
    assert (predictions == -1).all()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"y": None}, "--labels"),
        ({"y": np.full(90, -1)}, "--labels"),
        ({"y": np.zeros(90, dtype=int)}, "two classes"),
        ({"groups": None}, "--groups"),
        ({"groups": np.zeros(90, dtype=int)}, "one subject"),
    ],
)
def test_data_that_cannot_be_scored(cli, model, recordings, tmp_path, changes, words):
    about = {"y": recordings.y, "groups": recordings.groups} | changes
    path = Recordings(recordings.X, fs=100, **about).save(tmp_path / "x.npz")
    done = cli("evaluate", model, path)
    assert done.code == 4
    assert words in done.err
    assert done.out == ""


def test_without_subjects_only_when_asked(cli, model, recordings, tmp_path):
    path = Recordings(recordings.X, recordings.y, fs=100).save(tmp_path / "x.npz")
    done = cli("evaluate", model, path, "--ungrouped", "--json")
    assert done.code == 0
    assert (done.json["split"], done.json["subjects"]) == ("windows", None)


def test_a_class_that_one_subject_alone_has(cli, model, recordings, tmp_path):
    y = recordings.y.copy()
    y[(y == 2) & (recordings.groups != recordings.groups[0])] = 0
    rec = Recordings(recordings.X, y, groups=recordings.groups, fs=100, classes=recordings.classes)
    done = cli("evaluate", model, rec.save(tmp_path / "x.npz"), "--json")
    assert done.code == 0
    assert any("'think'" in text and "one subject" in text for text in done.json["warnings"])
    assert done.json["recall"]["think"] == 0


def test_budgets_that_are_too_large_or_wrong(cli, model, other):
    done = cli("evaluate", model, other, "--budgets", "1000,100%", "--json")
    assert done.code == 0
    assert done.json["scores"][0]["accuracy"] is None
    assert done.json["scores"][0]["folds"] == 0
    assert any("1000" in text for text in done.json["warnings"])
    done = cli("evaluate", model, other, "--budgets", "1000")
    assert done.code == 4
    for wrong in ("0", "-3", "x", "150%", "2.5", "30,,60"):
        done = cli("evaluate", model, other, "--budgets", wrong)
        assert (done.code, "--budgets" in done.err) == (2, True)


def test_other_labels_by_name_of_column(cli, model, data):
    done = cli("evaluate", model, data, "--labels", "side", "--json")
    assert done.code == 0
    assert done.json["classes"] == ["0", "1"]


def test_fit_on_some_subjects_and_evaluate_on_others(cli, data, recordings, tmp_path, small):
    subjects = np.unique(recordings.groups).tolist()
    seen = ",".join(map(str, subjects[:3]))
    path = tmp_path / "m.tcm"
    done = cli("fit", data, "-o", path, *small, "--where", f"group={seen}", "--json")
    assert done.json["samples"] == np.isin(recordings.groups, subjects[:3]).sum()
    done = cli("evaluate", path, data, "--where", f"group!={seen}", "--json")
    assert done.code == 0, done.err
    assert (done.json["fitted_on_share"], done.json["subjects"]) == (0, 3)
    done = cli("evaluate", path, data, "--where", "label=rest,move", "--where", "side=1", "--json")
    assert done.json["classes"] == ["rest", "move"]
    assert done.json["fitted_on_share"] > 0


@pytest.mark.parametrize(
    ("condition", "code", "words"),
    [("group", 2, "NAME=A,B"), ("group=", 2, "NAME=A,B"), ("night=1", 3, "side"),
     ("side=2", 4, "'0'"), ("side!=0,1", 4, "no window")],
)  # fmt: skip
def test_conditions_that_keep_nothing(cli, model, data, condition, code, words):
    done = cli("evaluate", model, data, "--where", condition)
    assert (done.code, words in done.err) == (code, True), done.err


# ---------------------------------------------------------------- components


def test_components_say_what_they_are(cli, model, data):
    done = cli("components", model, "--data", data, "-n", 2, "--json")
    assert done.code == 0
    found = done.json["components"]
    assert sorted(c["component"] for c in found) == [0, 1, 2]
    factors = load_model(model).factors_
    for c in found:
        weights = [c["channels"][name] for name in ("Fz", "Cz", "Pz")]
        np.testing.assert_allclose(weights, factors[0][:, c["component"]], rtol=1e-5)
        assert c["class"] in ("rest", "move", "think")
        assert (c["frequency_unit"], c["time_unit"]) == ("Hz", "%")
        assert c["time_axis"] == "quantile over time (%)"
    assert found[0]["separation"] >= found[1]["separation"]
    assert "share of variance between classes (η²)" in done.json["order"]
    told = cli("components", model, "--data", data, "-n", 2).out
    assert "share of variance between classes (η²)" in " ".join(told.split())
    text = cli("components", model, "-n", 2).out
    assert "3 components of PLC; the first 2" in text
    assert "by weight" in text
    assert "Hz" in text


@pytest.mark.parametrize(
    ("option", "unit", "axis"),
    [("3", "%", "quantile over time (%)"), ("time", "s", "time in the window (s)")],
)
def test_quantiles_have_no_seconds(cli, data, tmp_path, option, unit, axis):
    path = tmp_path / "m.tcm"
    fit = ["fit", data, "--method", "cpd", "--rank", 2, "-p", "max_iter=3", "-p", "tol=0"]
    assert cli(*fit, "--n-quantiles", option, "-o", path).code == 0
    spectrogram = load_model(path).spectrogram_
    for c in cli("components", path, "--json").json["components"]:
        assert (c["time_unit"], c["time_axis"]) == (unit, axis)
        if option == "3":
            np.testing.assert_allclose(c["times"], [100 / 6, 50, 500 / 6])
            assert re.search(r"\d s\b", c["what"]) is None
        else:
            np.testing.assert_allclose(c["times"], spectrogram.times_)


@pytest.mark.parametrize(("suffix", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml")])
def test_components_are_drawn(cli, model, tmp_path, suffix, start):
    path = tmp_path / f"c.{suffix}"
    done = cli("components", model, "-o", path, "-n", 1, "--json")
    assert done.json["picture"] == str(path)
    assert path.read_bytes().startswith(start)
    assert cli("components", model, "-o", path).code == 3
    assert cli("components", model, "-o", tmp_path / "c.txt").code == 2


def test_components_without_labels_are_explained_by_windows(cli, model, recordings, tmp_path):
    path = Recordings(recordings.X, fs=100).save(tmp_path / "x.npz")
    done = cli("components", model, "--data", path, "--json")
    assert done.code == 0
    found = done.json["components"][0]
    assert "class" not in found
    assert len(found["explanation"]["windows"]) == 3


def test_one_feature_is_explained(cli, model, data, tmp_path):
    path = tmp_path / "f.png"
    done = cli("components", model, "--only", 1, "--data", data, "-o", path, "--json")
    assert done.code == 0 and path.read_bytes()[:4] == b"\x89PNG"
    (found,) = done.json["components"]
    e = found["explanation"]
    assert found["component"] == e["index"] == 1
    for name in ("channel_share", "frequency_share", "time_share"):
        assert sum(e[name]) == pytest.approx(1, abs=1e-6)
    assert set(e["blocks"]) == {"spectrogram", "random convolutions"}
    assert found["what"].startswith(e["sentence"])
    assert set(found["class_means"]) == {"rest", "move", "think"}
    text = cli("components", model, "--only", 1).out
    assert "component 1:" in text and "of its variance" in " ".join(text.split()).lower()
    wrong = cli("components", model, "--only", 3)
    assert (wrong.code, "the model has 3 features" in wrong.err) == (2, True)
