"""train, predict and evaluate of trained models: from files and labels to a labelled timeline."""

import csv
import json
import re
import signal
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from tensorcontrast import ContrastiveClassifier, Recordings, load_model

FS = 25
NAMES = ("rest", "walk", "run")


def day(seed, seconds=90):
    """Signals (time, 3) in which activities follow each other, and their segments."""
    rng = np.random.default_rng(seed)
    state = np.empty(seconds, dtype=int)
    at, last, segments = 0, -1, []
    while at < seconds:
        length, kind = int(rng.integers(9, 16)), int(rng.choice([k for k in range(3) if k != last]))
        end = min(at + length, seconds)
        state[at:end], last = kind, kind
        segments.append((at, end, NAMES[kind]))
        at = end
    frequency = np.array([0, 2.0, 4.0])[np.repeat(state, FS)]
    phase = np.cumsum(2 * np.pi * frequency / FS)
    wave = np.stack([np.sin(phase), np.cos(phase), np.sin(2 * phase)], axis=1)
    return wave + 0.3 * rng.normal(size=wave.shape), segments


def write_table(path, signals, fs=FS, names="xyz"):
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["time", *names])
        for i, row in enumerate(signals):
            writer.writerow([f"{i / fs:.3f}", *(f"{v:.4f}" for v in row)])


def write_labels(path, rows, header=("recording", "start_s", "end_s", "label")):
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(header)
        writer.writerows(rows)
    return path


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Three recordings with some labels, another one with all of its labels, and a model."""
    folder = tmp_path_factory.mktemp("days")
    labels = []
    for k in range(1, 4):
        signals, segments = day(k)
        write_table(folder / f"S{k}.csv", signals)
        labels += [(f"S{k}", *segment) for segment in segments[:5]]
    write_labels(folder / "labels.csv", labels)
    signals, segments = day(9)
    write_table(folder / "tomorrow.csv", signals)
    write_labels(folder / "truth.csv", [("tomorrow.csv", *segment) for segment in segments])
    return folder


@pytest.fixture(scope="module")
def trained(place, call_once):
    path = place / "model.tcm"
    done = call_once(*train_words(place), "-o", path, "--json")
    assert done.code == 0, done.err
    return path, done.json


def train_words(place, labels="labels.csv"):
    pattern = r"(?P<group>S\d)"
    return ["train", place / "S*.csv", "--window", 2, "--labels", place / labels,
            "--groups", pattern, "--rank", 6]  # fmt: skip


# --------------------------------------------------------------------------------- train


def test_train_writes_one_file_that_gives_answers(place, trained):
    path, told = trained
    model = load_model(path)
    assert isinstance(model, ContrastiveClassifier)
    assert model.classes_.tolist() == sorted(NAMES)
    assert told["windows"] == 3 * 45
    assert told["groups"] == 3
    assert sum(told["labels"].values()) == model.n_labels_.sum() > 60
    assert told["held_out"]["by"] == "group"
    assert told["held_out"]["accuracy"] > 0.9
    assert model.extractor_.fitted_on_["groups"] == ["S1", "S2", "S3"]


def test_labels_of_single_windows(cli, place, tmp_path):
    table = tmp_path / "points.tsv"
    rows = [(f"S{k}.csv", a + 2, name) for k in range(1, 4) for a, _, name in day(k)[1][:4]]
    table.write_text(
        "recording\tstart_s\tlabel\n" + "\n".join("\t".join(map(str, r)) for r in rows)
    )
    words = train_words(place)
    words[words.index(place / "labels.csv")] = table
    done = cli(*words, "-o", tmp_path / "m.tcm", "--json")
    assert done.code == 0, done.err
    assert sum(done.json["labels"].values()) == 12


def test_several_data_and_columns_of_labels(cli, recordings, tmp_path):
    half = np.arange(len(recordings)) % 2 == 0
    recordings[half].save(tmp_path / "a.npz")
    recordings[~half].save(tmp_path / "b.npz")
    done = cli("train", tmp_path / "a.npz", tmp_path / "b.npz", "-r", 3, "-o", tmp_path / "m.tcm",
               "--json")  # fmt: skip
    assert done.code == 0, done.err
    assert done.json["windows"] == len(recordings)
    assert set(done.json["labels"]) == set(recordings.classes)


@pytest.mark.parametrize(
    ("rows", "code", "message"),
    [
        ([("S1", 0, 20, "rest")], 4, "all 10 labels are of one class, 'rest'"),
        ([("S1", 0, 20, "rest"), ("S1", 10, 30, "run")], 4, "'run' at 10 s overlaps 'rest'"),
        ([("S1", 500, 520, "rest")], 4, "lie outside the recording"),
        ([("S7", 0, 20, "rest")], 3, "labels recordings 'S7', but there are 'S1.csv'"),
        ([("S1", 20, 10, "rest")], 3, "line 2: end_s is 10, which is not after start_s 20"),
        ([("S1", "soon", "", "rest")], 3, "line 2: start_s is 'soon', not a number of seconds"),
        ([], 3, "holds no label"),
    ],
)
def test_bad_labels_are_told_and_nothing_is_written(cli, place, tmp_path, rows, code, message):
    table = write_labels(tmp_path / "bad.csv", rows)
    words = train_words(place)
    words[words.index(place / "labels.csv")] = table
    done = cli(*words, "-o", tmp_path / "m.tcm")
    assert done.code == code
    assert message in done.err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["bad.csv"]


def test_labels_outside_are_left_out_with_a_warning(cli, place, tmp_path):
    rows = [("S1", *s) for s in day(1)[1]] + [("S1", 500, 520, "rest"), ("S9", 0, 5, "rest")]
    words = train_words(place)
    words[words.index(place / "labels.csv")] = write_labels(tmp_path / "some.csv", rows)
    done = cli(*words, "-o", tmp_path / "m.tcm")
    assert done.code == 0
    assert "lie outside the recording" in done.err
    assert "1 of" in done.err and "are not there, such as 'S9'" in " ".join(done.err.split())


def test_one_label_alone_is_told(cli, place, tmp_path):
    rows = [("S1", a, b, n) for a, b, n in day(1)[1] if n != "run"]
    (a, _, name) = next(s for s in day(1)[1] if s[2] == "run")
    words = train_words(place)
    words[words.index(place / "labels.csv")] = write_labels(
        tmp_path / "some.csv", [*rows, ("S1", a + 2, a + 4, name)]
    )
    done = cli(*words, "-o", tmp_path / "m.tcm")
    assert done.code == 0, done.err
    assert "one label alone for run" in done.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--missing", "guess"], "--missing 'guess': use error or mask"),
        (["--dwell", "1"], "--dwell 1 is not above 1"),
        (["--resume"], "--resume goes on from the file"),
    ],
)
def test_wrong_options_of_train(cli, place, tmp_path, words, message):
    done = cli(*train_words(place), "-o", tmp_path / "m.tcm", *words)
    assert done.code == 2
    assert message in done.err


def test_data_without_labels_or_of_another_rate(cli, place, recordings, data, tmp_path):
    done = cli("train", place / "S1.csv", "--window", 2, "-o", tmp_path / "m.tcm")
    assert done.code == 4
    assert "no window has a label" in done.err and "--labels" in done.err
    other = Recordings(
        recordings.X, recordings.y, fs=recordings.fs * 2, channels=["Fz", "Cz", "Pz"]
    )
    other.save(tmp_path / "fast.npz")
    done = cli("train", data, tmp_path / "fast.npz", "-o", tmp_path / "m.tcm")
    assert done.code == 4
    assert "Hz, but" in done.err and "--resample HZ" in done.err
    assert not (tmp_path / "m.tcm").exists()


def test_missing_values_are_masked_where_asked(cli, recordings, tmp_path):
    X = recordings.X.copy()
    X[::5, 1, :20] = np.nan
    gaps = Recordings(X, recordings.y, fs=recordings.fs, allow_nan=True)
    path = gaps.save(tmp_path / "gaps.npz")
    done = cli("train", path, "-r", 3, "-o", tmp_path / "m.tcm")
    assert done.code in (3, 4)
    assert "NaN" in done.err and not (tmp_path / "m.tcm").exists()
    done = cli("train", path, "-r", 3, "--missing", "mask", "-o", tmp_path / "m.tcm", "--json")
    assert done.code == 0, done.err
    assert done.json["inputs"] == done.json["n_features"] == 3
    done = cli("predict", tmp_path / "m.tcm", path, "-o", tmp_path / "a.csv", "--json")
    assert done.code == 0, done.err
    assert done.json["windows"] == len(recordings)


def test_ctrl_c_leaves_nothing_half_written(cli, place, tmp_path, monkeypatch):
    def stop(*args, **more):
        raise KeyboardInterrupt

    monkeypatch.setattr("tensorcontrast.features.ContrastiveFeatures.fit_and_keep", stop)
    done = cli(*train_words(place), "-o", tmp_path / "m.tcm")
    assert done.code == 128 + signal.SIGINT
    assert list(tmp_path.iterdir()) == []


def test_train_resumes_from_a_checkpoint(cli, place, tmp_path):
    words = [*train_words(place), "--checkpoint", tmp_path / "part.tcm"]
    assert cli(*words, "-o", tmp_path / "a.tcm").code == 0
    done = cli(*words, "--resume", "-o", tmp_path / "b.tcm")
    assert done.code == 0, done.err
    assert "going on from" in done.err
    a, b = (load_model(tmp_path / f"{name}.tcm") for name in "ab")
    np.testing.assert_allclose(a.coef_, b.coef_, rtol=1e-2, atol=1e-3)


# ------------------------------------------------------------------------------- predict


def rows_of(path, delimiter=","):
    with path.open(newline="") as stream:
        return list(csv.DictReader(stream, delimiter=delimiter))


def test_answers_have_times_and_probabilities(cli, place, trained, tmp_path):
    path = tmp_path / "answers.csv"
    done = cli("predict", trained[0], place / "tomorrow.csv", "-o", path, "--json")
    assert done.code == 0, done.err
    rows = rows_of(path)
    assert list(rows[0]) == ["recording", "start_s", "end_s", "label", "probability"]
    assert len(rows) == done.json["windows"] == done.json["rows"] == 45
    assert [float(r["start_s"]) for r in rows] == list(np.arange(45) * 2.0)
    assert {r["recording"] for r in rows} == {"tomorrow.csv"}
    truth = np.repeat([n for *_, n in day(9)[1]], [b - a for a, b, _ in day(9)[1]])
    right = [r["label"] in truth[int(float(r["start_s"])) :][:2] for r in rows]
    assert np.mean(right) > 0.9
    rec = Recordings.read(place / "tomorrow.csv", window_s=2)
    labels, probability = load_model(trained[0]).answers(rec)
    assert [r["label"] for r in rows] == labels.tolist()
    assert float(rows[3]["probability"]) == pytest.approx(probability[3].max(), abs=1e-6)


def test_answers_are_explained(cli, place, trained, tmp_path):
    call = ["predict", trained[0], place / "tomorrow.csv", "-o"]
    path = tmp_path / "a.csv"
    done = cli(*call, path, "--explain", "--probabilities", "--json")
    assert done.code == 0, done.err
    names = done.json["explained"]
    assert names[:2] == ["against", "log_odds"]
    assert names[-3:] == ["from_spectrogram", "from_random_convolutions", "from_intercept"]
    for row in rows_of(path):
        odds = np.log(float(row[f"p_{row['label']}"]) / float(row[f"p_{row['against']}"]))
        total = sum(float(row[name]) for name in names if name.startswith("from_"))
        assert total == pytest.approx(float(row["log_odds"]), abs=1e-4)
        assert odds == pytest.approx(float(row["log_odds"]), abs=0.02)
    assert cli(*call, tmp_path / "a.json", "--explain").code == 0
    answers = json.loads((tmp_path / "a.json").read_text())["answers"]
    assert set(names) <= set(answers[0])
    wrong = cli(*call, tmp_path / "b.csv", "--explain", "--merge")
    assert (wrong.code, "leave --merge out" in wrong.err) == (2, True)
    assert cli(*call, tmp_path / "b.edf", "--explain").code == 2


def test_the_report_shows_what_decides(cli, place, trained, tmp_path):
    data = ["--data", place / "tomorrow.csv", "-o", tmp_path / "r.html"]
    assert cli("report", trained[0], *data).code == 0
    text = (tmp_path / "r.html").read_text()
    for words in (
        "What decides", "logistic regression on", "held-out accuracy", "held-out calibration error",
        "Calibration on held-out labels", "Labels of each class: ", "What the answers rest on",
    ):  # fmt: skip
        assert words in text


def test_merged_segments_in_every_format(cli, place, trained, tmp_path):
    words = ["predict", trained[0], place / "tomorrow.csv", "--merge", "--probabilities"]
    for name in ("a.csv", "a.tsv", "a.json", "a.parquet"):
        assert cli(*words, "-o", tmp_path / name).code == 0
    rows = rows_of(tmp_path / "a.csv")
    assert rows == rows_of(tmp_path / "a.tsv", "\t")
    assert list(rows[0])[5:] == ["p_rest", "p_run", "p_walk"]
    assert float(rows[0]["start_s"]) == 0 and float(rows[-1]["end_s"]) == 90
    assert all(a["end_s"] == b["start_s"] for a, b in pairwise(rows))
    assert all(a["label"] != b["label"] for a, b in pairwise(rows))
    data = json.loads((tmp_path / "a.json").read_text())
    assert data["classes"] == ["rest", "run", "walk"]
    assert [str(r["start_s"]) for r in data["answers"]] == [r["start_s"] for r in rows]
    parquet = pytest.importorskip("pyarrow.parquet")
    table = parquet.read_table(tmp_path / "a.parquet").to_pylist()
    assert table == data["answers"]


def test_edf_annotations_are_read_by_mne_and_by_edfio(cli, place, trained, tmp_path):
    edfio = pytest.importorskip("edfio")
    mne = pytest.importorskip("mne")
    words = ["predict", trained[0], place / "tomorrow.csv"]
    assert cli(*words, "-o", tmp_path / "a.edf").code == 0
    assert cli(*words, "--merge", "-o", tmp_path / "a.csv").code == 0
    rows = rows_of(tmp_path / "a.csv")
    found = [(a.onset, a.duration, a.text) for a in edfio.read_edf(tmp_path / "a.edf").annotations]
    wanted = [(float(r["start_s"]), float(r["end_s"]), r["label"]) for r in rows]
    assert found == [(a, pytest.approx(b - a), name) for a, b, name in wanted]
    read = mne.read_annotations(tmp_path / "a.edf")
    assert read.description.tolist() == [r["label"] for r in rows]
    np.testing.assert_allclose(read.onset, [w[0] for w in wanted])
    done = cli("predict", trained[0], place / "S*.csv", "-o", tmp_path / "b.edf")
    assert done.code == 4
    assert "of one recording, but there are 'S1.csv'" in done.err
    assert "one file each with -o '{recording}.edf'" in done.err
    assert not (tmp_path / "b.edf").exists()


def test_one_file_per_recording(cli, place, trained, tmp_path):
    edfio = pytest.importorskip("edfio")
    words = ["predict", trained[0], place / "S*.csv", "--merge", "--json"]
    done = cli(*words, "-o", tmp_path / "of-{recording}.edf")
    assert done.code == 0, done.err
    files = [tmp_path / f"of-S{k}.edf" for k in (1, 2, 3)]
    assert done.json["answers"] == [str(file) for file in files]
    assert sorted(tmp_path.iterdir()) == files
    assert cli(*words, "-o", tmp_path / "a.csv").code == 0
    rows = [r for r in rows_of(tmp_path / "a.csv") if r["recording"] == "S2.csv"]
    notes = edfio.read_edf(files[1]).annotations
    assert [(a.onset, a.text) for a in notes] == [(float(r["start_s"]), r["label"]) for r in rows]
    files[0].unlink()
    done = cli(*words, "-o", tmp_path / "of-{recording}.edf")
    assert (done.code, "of-S2.edf exists" in done.err) == (3, True)
    assert not files[0].exists()


def test_answers_serve_as_labels(cli, place, trained, tmp_path):
    path = tmp_path / "answers.csv"
    assert cli("predict", trained[0], place / "S*.csv", "--merge", "-o", path).code == 0
    words = train_words(place)
    words[words.index(place / "labels.csv")] = path
    done = cli(*words, "-o", tmp_path / "m.tcm", "--json")
    assert done.code == 0, done.err
    assert sum(done.json["labels"].values()) == 135


def test_step_abstention_and_smoothing(cli, place, trained, tmp_path):
    words = ["predict", trained[0], place / "tomorrow.csv", "--json"]
    done = cli(*words, "--step", 1, "-o", tmp_path / "a.csv")
    assert done.json["windows"] == 89
    done = cli(*words, "--abstain", 1, "-o", tmp_path / "b.csv")
    assert done.json["unknown"] == 45 == sum(not r["label"] for r in rows_of(tmp_path / "b.csv"))
    done = cli(*words, "--smooth", "--merge", "-o", tmp_path / "c.csv")
    assert done.code == 0
    stiff = cli(*words, "--smooth", "--dwell", 1e9, "--merge", "-o", tmp_path / "d.csv")
    assert stiff.json["rows"] <= done.json["rows"] <= 20


def test_the_timeline_is_drawn(cli, place, trained, tmp_path):
    words = ["predict", trained[0], place / "tomorrow.csv", "--labels", place / "truth.csv"]
    for kind, start in (("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")):
        path = tmp_path / f"t.{kind}"
        done = cli(*words, "-o", tmp_path / "a.csv", "--plot", path, "--force")
        assert done.code == 0, done.err
        assert path.read_bytes().startswith(start)
    assert b"lines: labels" not in (tmp_path / "t.png").read_bytes()


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["-o", "a.xlsx"], 2, "answers are written as .csv"),
        (["-o", "a.csv", "--plot", "t.gif"], 2, "pictures are .png"),
        (["-o", "a.csv", "--dwell", "0.5"], 2, "--dwell 0.5 is not above 1"),
        (["-o", "a.csv", "--channels", "x,y"], 4, "channel"),
        (["-o", "a.csv", "--window", "1"], 4, "samples|points|length"),
    ],
)
def test_wrong_calls_of_predict(cli, place, trained, tmp_path, monkeypatch, words, code, message):
    import re

    monkeypatch.chdir(tmp_path)
    done = cli("predict", trained[0], place / "tomorrow.csv", *words)
    assert done.code == code
    assert re.search(message, done.err)
    assert list(tmp_path.iterdir()) == []


def test_recordings_that_do_not_fit_the_model(cli, place, trained, model, tmp_path):
    write_table(tmp_path / "short.csv", day(3, 9)[0][:30])
    done = cli("predict", trained[0], tmp_path / "short.csv", "-o", tmp_path / "a.csv")
    assert done.code == 3
    assert "fewer than a window" in done.err
    signals, _ = day(3, 20)
    write_table(tmp_path / "fast.csv", signals, fs=50)
    done = cli("predict", trained[0], tmp_path / "fast.csv", "-o", tmp_path / "a.csv")
    assert done.code == 4
    assert "fast.csv has a sampling rate of 50 Hz" in done.err and "--resample 25" in done.err
    write_table(tmp_path / "other.csv", signals, names="abc")
    done = cli("predict", trained[0], tmp_path / "other.csv", "-o", tmp_path / "a.csv")
    assert done.code == 3
    assert "other.csv: no channel 'x', 'y', 'z'; there are 'time', 'a'" in done.err
    done = cli("predict", model, place / "tomorrow.csv", "-o", tmp_path / "a.csv")
    assert done.code == 4
    assert "knows no classes" in done.err and "tensorcontrast train" in done.err
    assert not (tmp_path / "a.csv").exists()


def test_mixed_rates_name_the_files_and_the_way_out(cli, place, trained, tmp_path):
    signals, segments = day(1)
    write_table(tmp_path / "d1.csv", signals)
    write_table(tmp_path / "d2.csv", np.repeat(signals, 2, axis=0), fs=2 * FS)
    rows = [(name, *segment) for name in ("d1", "d2") for segment in segments]
    table = write_labels(tmp_path / "some.tsv.csv", rows)
    words = ["train", tmp_path / "d*.csv", "--window", 2, "--labels", table, "-r", 4]
    done = cli(*words, "-o", tmp_path / "m.tcm")
    assert done.code == 3
    assert "25 Hz: 'd1.csv'; 50 Hz: 'd2.csv'" in done.err and "--resample 25" in done.err
    assert not (tmp_path / "m.tcm").exists()
    done = cli(*words, "--resample", 25, "-o", tmp_path / "m.tcm", "--json")
    assert done.code == 0, done.err
    assert done.json["windows"] == 90
    assert len(set(done.json["labels"])) == 3
    words = ["predict", trained[0], tmp_path / "d2.csv", "--resample", 25]
    done = cli(*words, "-o", tmp_path / "a.csv")
    assert done.code == 0, done.err
    rows = rows_of(tmp_path / "a.csv")
    assert [float(r["start_s"]) for r in rows] == list(np.arange(45) * 2.0)
    state = np.repeat([n for *_, n in segments], [b - a for a, b, _ in segments])
    right = [r["label"] in state[int(float(r["start_s"])) :][:2] for r in rows]
    assert np.mean(right) > 0.9
    done = cli(*words[:-1], 0, "-o", tmp_path / "b.csv")
    assert (done.code, "--resample 0 is not above 0" in done.err) == (2, True)


def test_windows_at_another_rate(cli, recordings, data, tmp_path):
    done = cli("train", data, "--resample", 50, "-r", 3, "-o", tmp_path / "m.tcm", "--json")
    assert done.code == 0, done.err
    model = load_model(tmp_path / "m.tcm")
    assert (model.fs_, model.extractor_.n_times_in_) == (50.0, 32)
    bare = Recordings(recordings.X, recordings.y).save(tmp_path / "bare.npz")
    done = cli("train", bare, "--resample", 50, "-o", tmp_path / "n.tcm")
    assert (done.code, "pass it with --fs" in done.err) == (4, True)
    assert not (tmp_path / "n.tcm").exists()


def test_what_decides_is_told(cli, place, trained, tmp_path):
    path, told = trained
    decided = told["decided_by"]
    assert decided["classifier"].startswith("logistic regression")
    assert decided["n_features"] == 6 == told["inputs"] - decided["n_components"]
    assert decided["blocks"] == ["spectrogram", "random convolutions"]
    assert decided["temperature"] == told["temperature"]
    page = tmp_path / "page.html"
    words = ["evaluate", path, "--test", place / "tomorrow.csv", "--labels", place / "truth.csv"]
    done = cli(*words, "-o", page, "--json")
    assert done.code == 0, done.err
    text = page.read_text(encoding="utf-8")
    assert "logistic regression on 6 features" in text and "How sure the answers are" in text
    assert "--labels" in text.partition("How to get this again")[2]
    shown = cli(*train_words(place), "-o", tmp_path / "m.tcm")
    assert "decided by" in shown.out and "a class lasts" in shown.out


def test_windows_without_times(cli, recordings, data, tmp_path):
    assert cli("train", data, "-r", 3, "-o", tmp_path / "m.tcm").code == 0
    done = cli("predict", tmp_path / "m.tcm", data, "-o", tmp_path / "a.csv", "--json")
    assert done.code == 0
    rows = rows_of(tmp_path / "a.csv")
    assert len(rows) == len(recordings)
    assert {(r["start_s"], r["end_s"]) for r in rows} == {("", "")}
    done = cli("predict", tmp_path / "m.tcm", data, "-o", tmp_path / "b.csv", "--merge")
    assert done.code == 4
    assert "merging needs times" in done.err
    done = cli("predict", tmp_path / "m.tcm", data, "-o", tmp_path / "b.csv", "--plot",
               tmp_path / "t.png")  # fmt: skip
    assert done.code == 4
    assert not (tmp_path / "b.csv").exists() and not (tmp_path / "t.png").exists()


def test_features_of_a_trained_model(cli, place, trained, tmp_path):
    done = cli("transform", trained[0], place / "tomorrow.csv", "-o", tmp_path / "f.csv", "--json")
    assert done.code == 0, done.err
    assert (done.json["samples"], done.json["n_features"]) == (45, 6)


# ------------------------------------------------------------------------------ evaluate


def test_evaluate_scores_answers(cli, place, trained, tmp_path):
    page = tmp_path / "page.html"
    words = ["evaluate", trained[0], "--test", place / "tomorrow.csv", "--labels",
             place / "truth.csv"]  # fmt: skip
    done = cli(*words, "--train", place / "S*.csv", "-o", page, "--json")
    assert done.code == 0, done.err
    found = done.json
    confusion = np.array(found["confusion"])
    assert confusion.sum() == found["windows"] == sum(r["windows"] for r in found["by_class"])
    assert found["accuracy"] == pytest.approx(np.trace(confusion) / confusion.sum())
    assert found["accuracy"] > 0.9
    assert found["macro_auc"] > 0.95
    assert [r["group"] for r in found["by_subject"]] == ["tomorrow"]
    assert found["shared"] == {"subjects": [], "windows": 0.0}
    text = page.read_text(encoding="utf-8")
    assert f"{found['accuracy']:.3f}" in text and "Confusion matrix" in text
    shown = cli(*words)
    assert f"{found['balanced_accuracy']:.3f}" in shown.out and "macro AUC" in shown.out


def test_leakage_is_refused_unless_told(cli, place, trained, tmp_path):
    words = ["evaluate", trained[0], "--test", place / "S1.csv", "--labels", place / "labels.csv"]
    done = cli(*words)
    assert done.code == 4
    assert "subjects 'S1' are in train and in test" in done.err
    assert "100.0% of the test windows" in done.err and "--allow-leakage" in done.err
    allowed = cli(*words, "--allow-leakage", "--json")
    assert allowed.code == 0
    assert allowed.json["shared"]["subjects"] == ["S1"]
    assert any("too good" in text for text in allowed.json["warnings"])


def test_overlapping_windows_are_leakage(cli, place, trained, tmp_path):
    """Windows of another step have other contents, and overlap those of the training."""
    signals, segments = day(1)
    write_table(tmp_path / "S1.csv", signals[13:])
    rows = [("S1", max(0, a - 0.52), b - 0.52, n) for a, b, n in segments]
    table = write_labels(tmp_path / "shifted.csv", rows)
    words = ["evaluate", trained[0], "--test", tmp_path / "S1.csv", "--labels", table,
             "--groups", r"(?P<group>\.csv)"]  # fmt: skip
    alone = cli(*words, "--json")
    assert alone.code == 0, alone.err
    compared = cli(*words, "--train", place / "S1.csv")
    assert compared.code == 4
    assert "training ones" in compared.err


def test_subjects_to_test_on(cli, recordings, data, tmp_path):
    model = tmp_path / "m.tcm"
    a, b, c = np.unique(recordings.groups)[:3].tolist()
    assert cli("train", data, "--where", f"group!={a},{b}", "-r", 3, "-o", model).code == 0
    done = cli("evaluate", model, data, "--test-groups", f"{a},{b}", "--json")
    assert done.code == 0, done.err
    assert [r["group"] for r in done.json["by_subject"]] == [str(a), str(b)]
    assert done.json["windows"] == int(np.isin(recordings.groups, [a, b]).sum())
    assert cli("evaluate", model, data, "--test-groups", f"{a},{c}").code == 4
    done = cli("evaluate", model, data, "--test-groups", "99")
    assert done.code == 4
    assert "no group '99'" in done.err


def test_wrong_calls_of_evaluate(cli, data, model, trained, tmp_path):
    for words, message in [
        ([model, data, "--test", data], "both given"),
        ([model], "DATA is missing"),
        ([model, "--test", data], "holds features without a classifier"),
        ([trained[0], data, "-o", tmp_path / "page.pdf"], "the page is .html"),
    ]:
        done = cli("evaluate", *words)
        assert done.code == 2, done.err
        assert message in done.err


# ------------------------------------------------------------------------------ tutorial


def test_the_commands_of_the_tutorial_run(cli, tmp_path, monkeypatch):
    import re
    import shlex
    from pathlib import Path

    pytest.importorskip("wfdb", reason="needs the extra 'data'")
    docs = Path(__file__).parents[2] / "docs"
    page = (docs / "tutorials" / "answers.md").read_text(encoding="utf-8")
    files = re.search(r"(?ms)^```python\n(.*?)^```", page)[1]
    lines = re.search(r"(?ms)^```sh\n(.*?)^```", page)[1].splitlines()
    monkeypatch.chdir(tmp_path)
    exec(compile(files, "documentation", "exec"), {})
    assert [shlex.split(line)[1] for line in lines] == ["train", "predict", "evaluate"]
    for line in lines:
        done = cli(*shlex.split(line)[1:], "--json")
        assert done.code == 0, done.err
    assert done.json["accuracy"] > 0.6
    for name in ("trained.tcm", "timeline.csv", "timeline.svg", "page.html"):
        assert (tmp_path / name).stat().st_size > 100


# ------------------------------------------------------------------------------- suggest


def suggest_words(place, model, target, *more):
    return ["suggest", model, place / "S*.csv", "--labels", place / "labels.csv", "-o", target,
            "--groups", r"(?P<group>S\d)", "--json", *more]  # fmt: skip


def table_of(path):
    with path.open(newline="") as stream:
        return list(csv.DictReader(stream))


def truth_at(recording, start, end):
    _, segments = day(int(recording[1]))
    middle = (float(start) + float(end)) / 2
    return next(name for a, b, name in segments if a <= middle < b)


def test_suggestions_filled_in_by_hand_train_the_next_model(cli, place, trained, tmp_path):
    target = tmp_path / "to-label.csv"
    done = cli(*suggest_words(place, trained[0], target, "-n", 12))
    assert done.code == 0, done.err
    rows = table_of(target)
    assert list(rows[0]) == ["recording", "start_s", "end_s", "label", "guess", "probability",
                             "window"]  # fmt: skip
    assert len(rows) == 12 == len(done.json["rows"])
    labelled = [(f"S{k}.csv", a, b) for k in range(1, 4) for a, b, _ in day(k)[1][:5]]
    for row in rows:
        start, end = float(row["start_s"]), float(row["end_s"])
        assert row["label"] == ""
        assert row["guess"] in NAMES
        assert 1 / 3 < float(row["probability"]) <= 1
        assert all(row["recording"] != r or end <= a or start >= b for r, a, b in labelled)
    page = (Path(__file__).parents[2] / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
    (keys,) = re.findall(r"(?m)^\| `suggest` \| (.*) \|$", page)
    listed = set(re.findall(r"`(\w+)`", re.sub(r"\([^)]*\)", "", keys)))
    assert set(done.json) - {"command", "warnings"} == listed
    assert done.json["labelled"] == sum(trained[1]["labels"].values())
    assert 0.5 < done.json["accuracy"]["low"] < done.json["accuracy"]["accuracy"] <= 1
    assert 0 <= done.json["changed_by_last_labels"] < 0.5

    for row in rows[:9]:  # three are left empty
        row["label"] = truth_at(row["recording"], row["start_s"], row["end_s"])
    write_labels(target, [list(row.values()) for row in rows], list(rows[0]))
    words = train_words(place)
    words[words.index(place / "labels.csv")] = target
    again = cli(*words, "-o", tmp_path / "m.tcm", "--json")
    assert again.code == 0, again.err
    assert sum(again.json["labels"].values()) == 9

    # What was left empty is not suggested again, and labels are carried over.
    words = suggest_words(place, trained[0], tmp_path / "next.tsv", "-n", 5, "--skip", target,
                          "--with-labels")  # fmt: skip
    words[words.index(place / "labels.csv")] = target
    done = cli(*words)
    assert done.code == 0, done.err
    new = {(row["recording"], row["start_s"]) for row in done.json["rows"]}
    assert len(new) == 5
    assert not new & {(row["recording"], float(row["start_s"])) for row in rows}
    lines = (tmp_path / "next.tsv").read_text().splitlines()
    assert len(lines) == 1 + 5 + 9
    assert lines[-1].split("\t")[:4] == [*list(rows[8].values())[:3], rows[8]["label"]]


def test_features_alone_suggest_before_there_are_labels(cli, place, trained, tmp_path):
    features = tmp_path / "features.tcm"
    load_model(trained[0]).extractor_.save(features)
    words = ["suggest", features, place / "S1.csv", place / "S2.csv", "--step", 1]
    done = cli(*words, "-n", 6, "-o", tmp_path / "a.csv")
    assert done.code == 0, done.err
    assert "6 of 178 windows, 0 are labelled" in done.out
    rows = table_of(tmp_path / "a.csv")
    assert {(row["guess"], row["probability"]) for row in rows} == {("", "")}
    kinds = {truth_at(row["recording"], row["start_s"], row["end_s"]) for row in rows}
    assert kinds == set(NAMES)
    spans = sorted((row["recording"], float(row["start_s"])) for row in rows)
    assert all(a[0] != b[0] or b[1] - a[1] >= 2 for a, b in pairwise(spans))
    same = cli(*words, "-n", 6, "-o", tmp_path / "b.csv")
    assert same.code == 0
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        (["-o", "x.json"], 2, "suggestions are written as .csv or .tsv"),
        (["--with-labels"], 2, "--with-labels needs --labels FILE"),
        (["-n", "0"], 2, "greater than or equal to 1"),
        (["--labels", "all.csv"], 4, "none of the 45 windows is left to label"),
        (["--labels", "none.csv"], 3, "no such file of labels"),
        (["--skip", "none.csv"], 3, "no such file of labels"),
    ],
)
def test_bad_suggestions_write_nothing(
    cli, place, trained, tmp_path, monkeypatch, change, code, message
):
    monkeypatch.chdir(tmp_path)
    write_labels(tmp_path / "all.csv", [("S1", 0, 90, "rest")])
    done = cli("suggest", trained[0], place / "S1.csv", "-o", "to-label.csv", *change)
    assert done.code == code, done.err
    assert message in " ".join(done.err.split())
    assert [p.name for p in tmp_path.iterdir()] == ["all.csv"]


def test_suggestions_need_times_and_keep_what_is_there(cli, data, model, place, trained, tmp_path):
    done = cli("suggest", model, data, "-o", tmp_path / "x.csv")
    assert done.code == 4
    assert "the windows do not say when they are from" in done.err
    (tmp_path / "x.csv").write_text("mine")
    done = cli("suggest", trained[0], place / "S1.csv", "-o", tmp_path / "x.csv")
    assert done.code == 3
    assert (tmp_path / "x.csv").read_text() == "mine"
