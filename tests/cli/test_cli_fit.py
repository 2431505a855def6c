"""fit and transform: model files and feature files from recordings of several formats."""

import csv

import numpy as np
import pytest

from tensorcontrast import CPD, ContrastiveFeatures, Recordings, augment, load_model
from tensorcontrast.datasets import make_cp_tensor


def test_fit_writes_a_model_that_gives_the_same_features_as_the_library(
    cli, data, recordings, tmp_path
):
    path = tmp_path / "model.tcm"
    done = cli("fit", data, "-o", path, "-m", "cpd", "-r", 4, "-s", 3, "-p", "max_iter=5",
               "-p", "tol=0", "--json")  # fmt: skip
    assert done.code == 0
    assert done.err == ""
    found = done.json
    assert found["command"] == "fit"
    assert (found["method"], found["rank"], found["seed"]) == ("cpd", 4, 3)
    assert found["channels"] == ["Fz", "Cz", "Pz"]
    assert (found["samples"], found["n_times"], found["fs"]) == (90, 64, 100.0)
    model = load_model(path)
    assert model.decompose.callback is None
    own = ContrastiveFeatures(decompose=CPD(rank=4, max_iter=5, tol=0), random_state=3).fit(
        recordings
    )
    np.testing.assert_allclose(
        model.transform(recordings), own.transform(recordings), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize(
    ("method", "extra"),
    [
        ("plc", ["-p", "gamma=0.5"]),
        ("cpd", ["-p", "alpha=1e-2"]),
        ("atd", ["-p", "batch_size=30"]),
        ("plc-paper", ["-p", "batch_size=30", "-p", "trans_inv=false", "-p", "n_clusters=3"]),
    ],
)
def test_every_method_with_parameters_of_its_own(cli, data, tmp_path, method, extra):
    path = tmp_path / "m.tcm"
    done = cli("fit", data, "-o", path, "-m", method, "-r", 3, "-p", "max_iter=4", "-p", "tol=0",
               *extra, "--json")  # fmt: skip
    assert done.code == 0, done.err
    core = load_model(path).decompose_
    kinds = {"cpd": "CPD", "atd": "ATD", "plc": "PLC", "plc-paper": "Algorithm1"}
    assert type(core).__name__ == kinds[method]
    params = core.get_params()
    for text in extra[1::2]:
        name, _, value = text.partition("=")
        assert str(params[name]).lower() in (
            value,
            str(float(value)) if value[0].isdigit() else value,
        )
    assert done.json["iterations"] == 4
    assert done.json["nuisance_metric"] == (core.nuisance_gains_ is not None) == (method == "plc")


def test_the_summary_for_people_and_quiet(cli, data, tmp_path, small):
    done = cli("fit", data, "-o", tmp_path / "a.tcm", *small)
    assert done.code == 0
    assert "90 windows, 3 channels, 0.64 s at 100 Hz" in done.out
    assert done.err == ""
    done = cli("fit", data, "-o", tmp_path / "b.tcm", *small, "--quiet")
    assert (done.code, done.out, done.err) == (0, "", "")
    assert (tmp_path / "b.tcm").read_bytes()[:4] == b"PK\x03\x04"


def test_seeds_make_the_same_file(cli, data, tmp_path, small):
    for name in "ab":
        assert cli("fit", data, "-o", tmp_path / f"{name}.tcm", *small).code == 0
    a, b = (load_model(tmp_path / f"{name}.tcm").factors_ for name in "ab")
    assert all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))


def test_a_model_file_is_not_overwritten_unless_asked(cli, data, tmp_path, small):
    path = tmp_path / "model.tcm"
    path.write_text("precious")
    done = cli("fit", data, "-o", path, *small)
    assert done.code == 3
    assert "--force" in done.err
    assert path.read_text() == "precious"
    assert cli("fit", data, "-o", path, *small, "--force").code == 0
    assert load_model(path).decompose_.rank_ == 3


def test_the_tensors_that_options_describe(cli, data, tmp_path):
    fit = ["fit", data, "-m", "cpd", "-r", 2, "-p", "max_iter=3", "-p", "tol=0", "--json"]
    given = ["--channels", "Pz,Fz", "--window", "32pt", "--n-fft", 16]
    given += ["--representation", "log-magnitude"]
    done = cli(*fit, *given, "-o", tmp_path / "m.tcm")
    assert done.code == 0, done.err
    model = load_model(tmp_path / "m.tcm")
    assert model.channels_ == ("Pz", "Fz")
    assert model.n_times_in_ == 32 and done.json["samples"] == 180
    spectrogram = model.spectrogram_
    assert (spectrogram.n_fft_, spectrogram.representation) == (16, "log-magnitude")


@pytest.mark.parametrize(("option", "quantiles"), [("3", 3), ("time", None)])
def test_quantiles_over_time_or_frames(cli, data, tmp_path, option, quantiles):
    fit = ["fit", data, "-m", "cpd", "-r", 2, "-p", "max_iter=2", "-p", "tol=0", "--n-fft", 16]
    done = cli(*fit, "-o", tmp_path / "m.tcm", "--json")
    assert done.json["tensor_shape"][2] == 4, done.err
    done = cli(*fit, "--n-quantiles", option, "-o", tmp_path / "n.tcm", "--json")
    spectrogram = load_model(tmp_path / "n.tcm").spectrogram_
    assert spectrogram.n_quantiles == quantiles
    assert done.json["tensor_shape"][2] == (quantiles or len(spectrogram.times_))


@pytest.mark.parametrize("option", ["many", "0", "-1", "2.5", "²", ""])
def test_quantiles_that_are_none(cli, data, tmp_path, option):
    done = cli("fit", data, "--n-quantiles", option, "-o", tmp_path / "m.tcm")
    assert (done.code, "--n-quantiles" in done.err) == (2, True), done.err
    assert not (tmp_path / "m.tcm").exists()


def test_convolution_features_are_coupled_unless_left_out(cli, data, tmp_path, small):
    fit = ["fit", data, *small, "--json"]
    for name, options, coupled in (
        ("default", [], True),
        ("without", ["--no-convolution"], False),
        ("with", ["--convolution"], True),
    ):
        done = cli(*fit, *options, "-o", tmp_path / f"{name}.tcm")
        assert done.code == 0, done.err
        model = load_model(tmp_path / f"{name}.tcm")
        assert (model.convolution_ is not None) == coupled
        count = len(model.convolution_.components_) if coupled else 0
        assert done.json["convolution_features"] == count
    done = cli(*fit, "--convolution", "--missing", "mask", "-o", tmp_path / "m.tcm")
    assert (done.code, "--convolution" in done.err) == (2, True), done.err


def test_views_by_name(cli, data, tmp_path, small):
    made = {}
    for name in ("gentle", "standard"):
        done = cli("fit", data, *small, "--augment", name, "-o", tmp_path / f"{name}.tcm")
        assert done.code == 0, done.err
        made[name] = load_model(tmp_path / f"{name}.tcm").augment_.to_config()
    assert made["gentle"] == augment.gentle().to_config()
    assert made["standard"] != made["gentle"]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["-p", "betta=1"], "betta"),
        (["-p", "gamma"], "KEY=VALUE"),
        (["-p", "gamma=-1"], "gamma"),
        (["-m", "plc-paper", "-p", "batch_size=1"], "batch_size"),
        (["-p", "rank=3"], "rank"),
        (["-m", "svm"], "--method"),
        (["--representation", "wavelet"], "--representation"),
        (["--augment", "wild"], "--augment"),
        (["--window", "long"], "--window"),
        (["--window", "0.2", "--step", "0.4"], "--step"),
        (["--channels", "Fz,,Cz"], "--channels"),
        (["--fs", "-3"], "--fs"),
        (["--data-format", "mp3"], "--data-format"),
        (["--sample", "id"], "--sample"),
    ],
)
def test_wrong_options_are_wrong_use(cli, data, tmp_path, args, words):
    done = cli("fit", data, "-o", tmp_path / "m.tcm", *args)
    assert done.code == 2, done.err
    assert done.err.startswith("error: ")
    assert words in done.err
    assert list(tmp_path.iterdir()) == []


def test_missing_data_and_output_are_wrong_use(cli, data):
    assert cli("fit", "-o", "m.tcm").code == 2
    done = cli("fit", data)
    assert done.code == 2


def test_no_rate_is_noted(cli, recordings, tmp_path, small):
    bare = Recordings(recordings.X).save(tmp_path / "bare.npz")
    done = cli("fit", bare, "-o", tmp_path / "m.tcm", *small)
    assert done.code == 0
    assert "--fs" in done.err
    done = cli("fit", bare, "-o", tmp_path / "n.tcm", *small, "--fs", 100)
    assert done.err == ""
    assert load_model(tmp_path / "n.tcm").fs_ == 100
    done = cli("fit", bare, "-o", tmp_path / "o.tcm", *small, "--window", 0.3)
    assert (done.code, "32" in done.err or "128pt" in done.err) == (2, True)


def test_a_rate_that_the_file_denies(cli, data, tmp_path, small):
    done = cli("fit", data, "-o", tmp_path / "m.tcm", *small, "--fs", 50)
    assert done.code == 4
    assert "100" in done.err


def test_missing_values(cli, recordings, tmp_path, small):
    X = recordings.X.copy()
    X[3, 1, 7] = np.nan
    holes = Recordings(X, fs=100, allow_nan=True).save(tmp_path / "holes.npz")
    done = cli("fit", holes, "-o", tmp_path / "m.tcm", *small)
    assert done.code == 3
    assert "--drop-nan" in done.err
    done = cli("fit", holes, "-o", tmp_path / "m.tcm", *small, "--drop-nan", "--json")
    assert done.code == 0
    assert done.json["samples"] == 89
    assert done.json["warnings"] == ["left out 1 of 90 windows with missing values"]


def test_a_file_named_like_a_dataset(cli, tmp_path, monkeypatch, small):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "synthetic").mkdir()
    done = cli("fit", "synthetic", "-o", "m.tcm", *small, "--json")
    assert done.json["samples"] == 300
    assert "./synthetic" in done.json["warnings"][0]


# ------------------------------------------------------------------ transform


def test_features_as_npz(cli, model, data, recordings, tmp_path):
    path = tmp_path / "f.npz"
    done = cli("transform", model, data, "-o", path, "--json")
    assert (done.code, done.json["samples"], done.json["n_features"]) == (0, 90, 3)
    with np.load(path, allow_pickle=False) as file:
        np.testing.assert_allclose(
            file["features"], load_model(model).transform(recordings), rtol=1e-6
        )
        assert np.array_equal(file["y"], recordings.y)
        assert np.array_equal(file["groups"], recordings.groups)
        assert file["classes"].tolist() == ["rest", "move", "think"]
        assert np.array_equal(file["side"], recordings.columns["side"])


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_features_as_tables(cli, model, data, recordings, tmp_path, suffix):
    path = tmp_path / f"f.{suffix}"
    assert cli("transform", model, data, "-o", path).code == 0
    features = load_model(model).transform(recordings)
    if suffix == "csv":
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        columns = {name: [row[name] for row in rows] for name in rows[0]}
    else:
        parquet = pytest.importorskip("pyarrow.parquet", reason="needs the extra 'data'")
        columns = parquet.read_table(path).to_pydict()
    assert list(columns) == ["label", "group", "side", *(f"component_{r}" for r in range(3))]
    assert columns["label"] == [recordings.classes[c] for c in recordings.y]
    found = np.array([columns[f"component_{r}"] for r in range(3)], dtype=np.float32).T
    np.testing.assert_allclose(found, features, rtol=1e-6)


def test_windows_without_a_label_stay_empty(cli, model, recordings, tmp_path):
    y = recordings.y.copy()
    y[0] = -1
    part = Recordings(recordings.X, y, fs=100, classes=recordings.classes)
    path = part.save(tmp_path / "part.npz")
    assert cli("transform", model, path, "-o", tmp_path / "f.csv").code == 0
    lines = (tmp_path / "f.csv").read_text(encoding="utf-8").splitlines()
    assert lines[1].startswith(",")
    assert lines[2].split(",")[0] in recordings.classes


def test_a_table_is_read_by_its_columns(cli, table, tmp_path, small):
    pytest.importorskip("pandas", reason="needs the extra 'data'")
    path = tmp_path / "m.tcm"
    roles = ["--fs", 100, "--labels", "activity", "--groups", "person", "--sample", "window"]
    done = cli("fit", table, "-o", path, *small, *roles, "--json")
    assert done.code == 0, done.err
    assert done.json["channels"] == ["Fz", "Cz", "Pz"]
    assert done.json["samples"] == 30
    done = cli("transform", path, table, "-o", tmp_path / "f.csv", *roles, "--json")
    assert (done.json["labelled"], done.json["groups"]) == (30, 6)
    done = cli("transform", path, table, "-o", tmp_path / "g.csv", "--groups", "person")
    assert done.code == 4
    assert "--fs 100" in done.err


@pytest.mark.parametrize("option", ["--labels", "--groups", "--sample", "--time", "--channels"])
def test_wrong_columns_are_named_with_those_there_are(cli, table, tmp_path, option):
    pytest.importorskip("pandas", reason="needs the extra 'data'")
    done = cli("fit", table, "-o", tmp_path / "m.tcm", "--fs", 100, option, "nothing")
    assert done.code == 3
    assert "nothing" in done.err
    assert "activity" in done.err
    assert list(tmp_path.iterdir()) == []


def test_wrong_columns_of_npz(cli, data, tmp_path):
    done = cli("fit", data, "-o", tmp_path / "m.tcm", "--labels", "age")
    assert (done.code, "side" in done.err) == (3, True)


def test_channels_are_picked_by_name_and_long_signals_cut(cli, model, recordings, tmp_path):
    """What the model needs is taken from longer signals with other channels."""
    long = np.concatenate(list(recordings.X[:4]), axis=1)  # 3 channels, 256 points
    noise = np.random.default_rng(0).normal(size=(1, 256)).astype(long.dtype)
    rec = Recordings(
        np.concatenate([noise, long[::-1]])[None], fs=100, channels=["EOG", "Pz", "Cz", "Fz"]
    )
    path = rec.save(tmp_path / "long.npz")
    done = cli("transform", model, path, "-o", tmp_path / "f.npz")
    assert done.code == 0
    assert "3 channels of the model of 4" in done.err
    assert "4 windows of 64 points (0.64 s)" in done.err
    with np.load(tmp_path / "f.npz", allow_pickle=False) as file:
        expected = load_model(model).transform(recordings[:4])
        np.testing.assert_allclose(file["features"], expected, rtol=1e-5)
        assert file["start"].tolist() == [0, 64, 128, 192]
    done = cli("transform", model, path, "-o", tmp_path / "g.npz", "--step", "0.32", "--json")
    assert done.json["samples"] == 7


def test_windows_of_windows_count_from_the_start_of_the_signal(cli, recordings, tmp_path, small):
    rec = Recordings(
        recordings.X[:4],
        fs=100,
        columns={"recording": [7, 7, 8, 8], "start": [0, 64, 0, 64]},
    )
    path = rec.save(tmp_path / "w.npz")
    window = ["--window", "32pt"]
    assert cli("fit", path, "-o", tmp_path / "m.tcm", *small, *window).code == 0
    assert cli("transform", tmp_path / "m.tcm", path, "-o", tmp_path / "f.npz").code == 0
    with np.load(tmp_path / "f.npz", allow_pickle=False) as file:
        assert file["start"].tolist() == [0, 32, 64, 96] * 2
        assert file["recording"].tolist() == [7] * 4 + [8] * 4


def test_data_that_do_not_fit_the_model(cli, model, recordings, tmp_path):
    short = Recordings(recordings.X[..., :40], fs=100).save(tmp_path / "short.npz")
    done = cli("transform", model, short, "-o", tmp_path / "f.npz")
    assert (done.code, "40" in done.err) == (4, True)
    named = Recordings(recordings.X, fs=100, channels=["A", "B", "Cz"]).save(tmp_path / "n.npz")
    done = cli("transform", model, named, "-o", tmp_path / "f.npz")
    assert done.code == 4
    assert "'Fz'" in done.err
    slow = Recordings(recordings.X, fs=50).save(tmp_path / "slow.npz")
    assert cli("transform", model, slow, "-o", tmp_path / "f.npz").code == 4
    assert not (tmp_path / "f.npz").exists()


def test_outputs_of_unknown_kinds(cli, model, data, tmp_path):
    done = cli("transform", model, data, "-o", tmp_path / "f.xlsx")
    assert (done.code, ".parquet" in done.err) == (2, True)
    done = cli("transform", model, data, "-o", tmp_path)
    assert done.code == 2


def test_models_of_tensors_are_refused(cli, data, tmp_path):
    X, *_ = make_cp_tensor(n_samples=30, dims=(4, 5), rank=2, random_state=0)
    CPD(rank=2, random_state=0).fit(X).save(tmp_path / "cpd.tcm")
    done = cli("transform", tmp_path / "cpd.tcm", data, "-o", tmp_path / "f.npz")
    assert (done.code, "CPD" in done.err) == (4, True)


def test_recordings_in_edf(cli, recordings, tmp_path, small):
    edfio = pytest.importorskip("edfio", reason="needs the extra 'data'")
    signals = np.concatenate(list(recordings.X[:10, :2]), axis=1).astype(float)[:, :600]
    signals = np.clip(signals, -20, 20)
    edf = edfio.Edf(
        [
            edfio.EdfSignal(row, sampling_frequency=100, label=label, physical_range=(-20, 20))
            for row, label in zip(signals, ("EEG Fz", "EEG Cz"), strict=True)
        ]
    )
    path = tmp_path / "night.edf"
    edf.write(path)
    model = tmp_path / "m.tcm"
    done = cli("fit", path, "-o", model, *small, "--window", 0.5, "--channels", "EEG Cz", "--json")
    assert done.code == 0, done.err
    assert (done.json["samples"], done.json["n_times"]) == (12, 50)
    done = cli("transform", model, path, "-o", tmp_path / "f.csv", "--json")
    assert (done.code, done.json["samples"]) == (0, 12)
    done = cli("transform", model, path, "-o", tmp_path / "g.csv", "--step", "25pt", "--json")
    assert (done.code, done.json["samples"]) == (0, 23)
    pattern = ["--groups", r"(?P<group>n\w)"]
    assert cli("transform", model, path, "-o", tmp_path / "h.npz", *pattern).code == 0
    with np.load(tmp_path / "h.npz") as found:
        assert set(found["groups"].tolist()) == {"ni"}
    done = cli("fit", path, "-o", tmp_path / "n.tcm", "--groups", r"(?P<group>S\d)")
    assert done.code == 3
    assert "night.edf" in done.err and "groups" in done.err
    assert cli("fit", "synthetic", "-o", tmp_path / "n.tcm", *pattern).code == 2


def test_one_long_recording_is_cut_by_the_default(cli, tmp_path, small):
    edfio = pytest.importorskip("edfio", reason="needs the extra 'data'")
    values = np.random.default_rng(0).normal(size=65 * 20)
    path = tmp_path / "night.edf"
    edfio.Edf([edfio.EdfSignal(values, sampling_frequency=20, label="EEG")]).write(path)
    model = tmp_path / "m.tcm"
    done = cli("fit", path, "-o", model, *small, "--json")
    assert (done.json["samples"], done.json["n_times"]) == (6, 200)
    assert "10 s, the default" in done.json["warnings"][0]
    assert "--window" in done.json["warnings"][0]
    # 15 s of step in points and length in seconds: cut once the rate is known, not before
    mixed = ["--window", 30, "--step", "300pt", "-f", "--json"]
    done = cli("fit", path, "-o", model, *small, *mixed)
    assert (done.json["samples"], done.json["n_times"]) == (3, 600)


def test_groups_of_records_by_their_names(cli, tmp_path, small):
    wfdb = pytest.importorskip("wfdb", reason="needs the extra 'data'")
    rng = np.random.default_rng(0)
    for name in ("p1_a", "p1_b", "p2_a"):
        wfdb.wrsamp(name, fs=20, units=["mV"], sig_name=["I"], p_signal=rng.normal(size=(200, 1)),
                    fmt=["16"], write_dir=str(tmp_path))  # fmt: skip
    options = ["--window", 2, "--groups", r"(?P<group>p\d)"]
    model, out = tmp_path / "m.tcm", tmp_path / "f.npz"
    assert cli("fit", tmp_path, "-o", model, *small, *options).code == 0
    assert cli("transform", model, tmp_path, "-o", out, *options).code == 0
    with np.load(out) as found:
        assert found["groups"].tolist() == ["p1"] * 10 + ["p2"] * 5


def test_one_window_is_told_how_to_cut(cli, recordings, tmp_path):
    path = recordings[:1].save(tmp_path / "one.npz")
    done = cli("fit", path, "-o", tmp_path / "m.tcm")
    assert done.code == 4
    assert "at least 2 windows" in done.err


def test_continuous_tables_are_read_by_a_pattern(cli, tmp_path, small):
    rng = np.random.default_rng(0)
    for person in ("S1", "S2"):
        rows = ["time,a,b,what"]
        for k in range(640):
            a, b = rng.normal(size=2)
            rows.append(f"{k / 32},{a:.4f},{b:.4f},{'rest' if k < 300 else 'move'}")
        (tmp_path / f"{person}.csv").write_text("\n".join(rows), encoding="utf-8")
    reading = ["--labels", "what", "--groups", r"(?P<group>S\d)"]
    model, data = tmp_path / "m.tcm", tmp_path / "*.csv"
    done = cli("fit", data, "-o", model, "--window", 2, *reading, *small, "--json")
    assert done.code == 0, done.err
    features = tmp_path / "f.npz"
    done = cli("transform", model, data, "-o", features, *reading, "--json")
    assert (done.json["samples"], done.json["labelled"], done.json["groups"]) == (20, 20, 2)
    with np.load(features) as content:
        assert content["start"].tolist() == [64 * k for k in range(10)] * 2
        assert content["recording"].tolist() == ["S1.csv"] * 10 + ["S2.csv"] * 10
    share = ["--label-share", 0.9, "--drop-unlabelled"]
    done = cli("transform", model, data, "-o", features, *reading, *share, "--force", "--json")
    assert done.json["samples"] == 18
    assert "left out 2 of 20 windows" in done.json["warnings"][0]
    done = cli("fit", data, "-o", tmp_path / "n.tcm", "--window", 2, "--label-share", 2)
    assert done.code == 2 and "--label-share 2 is not above 0" in done.err
    done = cli("fit", data, "-o", tmp_path / "n.tcm", "--window", 2, "--labels", "who")
    assert done.code != 0 and "no column 'who' for label" in done.err
    assert not (tmp_path / "n.tcm").exists()


def test_annotations_of_edf_files_are_labels(cli, tmp_path, small):
    edfio = pytest.importorskip("edfio", reason="needs tensorcontrast[data]")
    rng = np.random.default_rng(0)
    stages = [edfio.EdfAnnotation(20 * k, 20, f"Sleep stage {'W2'[k % 2]}") for k in range(3)]
    for name in ("S1", "S2"):
        signal = edfio.EdfSignal(rng.normal(size=1920), 32, label="EEG")
        edfio.Edf([signal]).write(tmp_path / f"{name}-PSG.edf")
        edfio.Edf([], annotations=stages).write(tmp_path / f"{name}-Hypnogram.edf")
    model = tmp_path / "m.tcm"
    done = cli("fit", tmp_path, "-o", model, "--window", 2, *small)
    assert done.code == 0, done.err
    reading = ["--labels", "Sleep stage (?P<label>.*)", "--annotations", "*-Hypnogram.edf"]
    reading += ["--groups", r"(?P<group>S\d)", "--inside-annotations"]
    features = tmp_path / "f.npz"
    done = cli("transform", model, tmp_path, "-o", features, *reading, "--json")
    assert (done.json["samples"], done.json["labelled"], done.json["groups"]) == (60, 60, 2)
    with np.load(features) as content:
        assert content["classes"].tolist() == ["2", "W"]
    one = tmp_path / "S1-PSG.edf"
    done = cli("transform", model, one, "-o", tmp_path / "g.npz", "--labels", "annotations")
    assert done.code != 0 and "has no annotations" in done.err and "--annotations" in done.err
    done = cli("transform", model, one, "-o", tmp_path / "g.npz", "--annotations", "x.edf")
    assert done.code != 0 and "--labels annotations" in done.err
    assert not (tmp_path / "g.npz").exists()
