"""Continuous recordings: wide tables in one file or many, cut into labelled windows."""

import numpy as np
import pandas as pd
import pytest

from tensorcontrast.errors import DataNotFoundError, FileError, TensorContrastWarning
from tensorcontrast.recordings import Recordings

pytest.importorskip("pyarrow", reason="needs tensorcontrast[data]")


def wide(n=200, fs=20.0, seed=0, **columns):
    """Ten seconds by default: time in s, three channels, activity."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(size=(n, 3)).astype(np.float32), columns=["x", "y", "z"])
    frame.insert(0, "time", np.arange(n) / fs)
    frame["activity"] = np.where(np.arange(n) < n // 2, "sit", "run")
    return frame.assign(**columns)


def write(path, frame):
    path.parent.mkdir(exist_ok=True)
    if path.suffix == ".parquet":
        frame.to_parquet(path)
    else:
        frame.to_csv(path, index=False, sep="\t" if ".tsv" in path.name else ",")
    return path


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".csv.gz", ".parquet"])
def test_a_wide_table_is_cut_into_labelled_windows(tmp_path, suffix):
    frame = wide()
    path = write(tmp_path / f"S1{suffix}", frame)
    rec = Recordings.read(path, window_s=2, label="activity")
    assert rec.X.shape == (5, 3, 40)
    assert (rec.fs, rec.channels, rec.classes) == (20.0, ("x", "y", "z"), ("run", "sit"))
    np.testing.assert_allclose(rec.X[1], frame[["x", "y", "z"]].to_numpy()[40:80].T, rtol=1e-5)
    assert rec.y.tolist() == [1, 1, -1, 0, 0]  # the third is half run, half sit
    assert rec.columns["start"].tolist() == [0, 40, 80, 120, 160]
    assert set(rec.columns["recording"]) == {f"S1{suffix}"}
    assert set(rec.groups) == {"S1"}


def test_the_share_of_a_label_can_be_asked_for(tmp_path):
    path = write(tmp_path / "a.csv", wide())
    assert Recordings.read(path, window_s=4, label="activity", overlap=0.5).y.tolist() == [
        1,
        1,
        0,
        0,
    ]
    rec = Recordings.read(path, window_s=4, label="activity", overlap=0.5, label_share=0.8)
    assert rec.y.tolist() == [1, -1, -1, 0]
    with pytest.warns(TensorContrastWarning, match="left out 2 of 4 windows"):
        rec = Recordings.read(
            path, window_s=4, label="activity", overlap=0.5, label_share=0.8, drop_unlabelled=True
        )
    assert rec.y.tolist() == [1, 0]
    assert rec.columns["start"].tolist() == [0, 120]
    with pytest.raises(FileError, match="only labelled windows were asked for"):
        Recordings.read(path, window_s=4, ignore=["activity"], drop_unlabelled=True)


def test_y_is_a_channel_of_x_y_z_unless_it_is_named(tmp_path):
    path = write(tmp_path / "a.csv", wide().drop(columns="activity"))
    rec = Recordings.read(path, window_s=2)
    assert rec.channels == ("x", "y", "z") and rec.y is None


@pytest.mark.parametrize("place", ["data", "data/*.csv", "data/**/*.csv"])
def test_many_files_are_one_data_set(tmp_path, place):
    for k in range(3):
        write(tmp_path / "data" / f"S{k % 2}-day{k}.csv", wide(seed=k)[["z", "time", "y", "x"]])
    rec = Recordings.read(
        tmp_path / place, window_s=5, groups=r"(?P<group>S\d+)-(?P<session>day\d)"
    )
    assert len(rec) == 6
    assert rec.channels == ("z", "y", "x")
    assert rec.groups.tolist() == ["S0", "S0", "S0", "S0", "S1", "S1"]
    assert rec.columns["session"].tolist() == ["day0", "day0", "day2", "day2", "day1", "day1"]
    assert rec.columns["recording"][0] == "S0-day0.csv"
    with pytest.raises(FileError, match=r"S0-day0\.csv: the name does not match"):
        Recordings.read(tmp_path / place, window_s=5, groups="(?P<group>P.)")


def test_channels_in_another_order_are_put_in_the_first_order(tmp_path):
    write(tmp_path / "d" / "a.csv", wide())
    write(tmp_path / "d" / "b.csv", wide()[["time", "z", "x", "y"]])
    rec = Recordings.read(tmp_path / "d", window_s=5, channels=["x", "y", "z"])
    np.testing.assert_array_equal(rec.X[:2], rec.X[2:])


def test_no_window_spans_a_gap(tmp_path):
    frame = wide()
    frame = frame.drop(index=range(50, 61)).reset_index(drop=True)
    path = write(tmp_path / "a.csv", frame)
    with pytest.warns(TensorContrastWarning, match="gaps: 1, windows lost: 1"):
        rec = Recordings.read(path, window_s=2, label="activity")
    # 50 samples before the gap hold one window, 139 after it hold three.
    assert rec.columns["start"].tolist() == [0, 61, 101, 141]
    np.testing.assert_allclose(rec.X[1, 0], wide()["x"][61:101], rtol=1e-5)
    assert rec.y.tolist() == [1, 1, 0, 0]


def test_each_group_of_a_table_is_a_recording(tmp_path):
    parts = [wide(seed=k, subject=f"p{k}") for k in range(2)]
    path = write(tmp_path / "all.csv", pd.concat(parts))
    rec = Recordings.read(path, window_s=5, label="activity")
    assert rec.groups.tolist() == ["p0", "p0", "p1", "p1"]
    assert rec.columns["recording"].tolist() == ["all.csv:p0"] * 2 + ["all.csv:p1"] * 2
    assert rec.columns["start"].tolist() == [0, 100, 0, 100]


START = pd.Timestamp("2024-03-01 12:00")


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize(
    ("name", "times", "options"),
    [
        ("time", lambda t: t / 60, {}),
        ("time_ms", lambda t: (1000 * t / 60).round(), {}),  # steps of 16 and 17
        ("time [us]", lambda t: 1e6 * t / 60, {"time": "time [us]"}),
        ("time", lambda t: (1e9 * t / 60).round() + 1.7e18, {"fs": 60}),
        ("time", lambda t: START + pd.to_timedelta(t / 60, unit="s"), {}),
        ("index", lambda t: t, {"fs": 60}),
        ("time", lambda t: t / 60.03 + 1e-3 * np.sin(9.0 * t), {}),
    ],
)
def test_the_rate_is_that_of_the_time_column(tmp_path, kind, name, times, options):
    frame = wide(600).drop(columns="time")
    frame[name] = times(np.arange(600))
    rec = Recordings.read(
        write(tmp_path / f"a.{kind}", frame), window_s=5, label="activity", **options
    )
    assert rec.fs == 60
    assert rec.X.shape == (2, 3, 300)


def test_without_a_time_column_the_rate_is_given(tmp_path):
    path = write(tmp_path / "a.csv", wide()[["x", "z"]])
    assert Recordings.read(path, window_s=2, fs=20).X.shape == (5, 2, 40)
    with pytest.raises(FileError, match="fs="):
        Recordings.read(path, window_s=2)


def test_a_long_table_without_a_window_is_cut_by_the_default(tmp_path):
    path = write(tmp_path / "a.csv", wide(600))
    with pytest.warns(TensorContrastWarning, match="windows of 10 s"):
        assert len(Recordings.read(path, label="activity")) == 3
    short = write(tmp_path / "b.csv", wide(199))
    assert len(Recordings.read(short, label="activity")) == 1


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        (lambda f: f, {"label": "what"}, "no column 'what' for label; there are 'time'"),
        (lambda f: f, {"fs": 50}, r"has 20 samples per second, but a rate of 50 "),
        (
            lambda f: f,
            {"window_s": 11},
            r"a\.csv: it has 200 samples .* fewer than a window of 220",
        ),
        (lambda f: f.assign(time=range(200)), {}, r"steps of 1, which may be samples, s or ms"),
        (lambda f: f.assign(time="noon"), {}, r"'noon', which is no time"),
        (lambda f: f.assign(time=0.0), {}, r"line 3: 'time' stays the same"),
        (lambda f: f.iloc[::-1], {}, r"line 3: 'time' goes back"),
        (lambda f: f.assign(time=f.time**3), {"units": {"time": "s"}}, r"line \d+: the rate"),
        (lambda f: f.assign(time=np.repeat(f.time[:20], 10).to_numpy() ** 3), {}, "'time'"),
        (lambda f: f.assign(x=f.x.where(f.index != 2)), {}, r"line 4: 'x' is nan"),
        (lambda f: f.assign(id=f.index // 40), {}, "ignore="),
        (lambda f: f[["time"]], {"label": None}, "no channel"),
        (lambda f: f.iloc[:0], {}, "no rows"),
        (lambda f: f.assign(label=f.x), {"label": None, "channels": ["z"]}, "'label'"),
        (lambda f: f.assign(place=f.activity), {}, "label='place'"),
    ],
)
def test_bad_tables(tmp_path, change, options, message):
    path = write(tmp_path / "a.csv", change(wide()))
    with pytest.raises(FileError, match=message):
        Recordings.read(path, **{"window_s": 2, "label": "activity", **options})


def test_files_that_do_not_fit_together(tmp_path):
    write(tmp_path / "d" / "a.csv", wide())
    other = tmp_path / "d" / "b.csv"
    options = {"window_s": 2, "label": "activity"}
    write(other, wide(fs=50))
    with pytest.raises(FileError, match=r"20 Hz: 'a\.csv'; 50 Hz: 'b\.csv'.* resample=20"):
        Recordings.read(tmp_path / "d", **options)
    write(other, wide().rename(columns={"z": "w"}))
    with pytest.raises(FileError, match=r"b\.csv has .* pass channels= .*without 'w', 'z'"):
        Recordings.read(tmp_path / "d", **options)
    write(other, wide().drop(columns="activity"))
    with pytest.raises(FileError, match=r"b\.csv: no column 'activity' for label"):
        Recordings.read(tmp_path / "d", **options)
    write(other, wide(30))
    with pytest.raises(FileError, match=r"b\.csv: it has 30 samples \(1.5 s\)"):
        Recordings.read(tmp_path / "d", **options)
    write(other, wide(sample=1))
    with pytest.raises(FileError, match=r"b\.csv.*ignore="):
        Recordings.read(tmp_path / "d", **options)
    write(tmp_path / "d" / "b.parquet", wide())
    with pytest.raises(FileError, match=r"several formats .*pass format="):
        Recordings.read(tmp_path / "d", **options)
    assert len(Recordings.read(tmp_path / "d", format="parquet", **options)) == 5
    with pytest.raises(DataNotFoundError, match="no file matches"):
        Recordings.read(tmp_path / "d" / "*.tsv", **options)


def test_mixed_rates_are_brought_to_one(tmp_path):
    """The same slow wave at two rates gives the same windows, labels and times."""

    def wave(fs):
        t = np.arange(int(20 * fs)) / fs
        frame = pd.DataFrame({"time": t, "x": np.sin(2 * np.pi * t), "y": np.cos(np.pi * t)})
        return frame.assign(activity=np.where(t < 8, "sit", "run"))

    write(tmp_path / "d" / "a.csv", wave(20))
    write(tmp_path / "d" / "b.csv", wave(50))
    rec = Recordings.read(
        tmp_path / "d", window_s=2, label="activity", channels=["x", "y"], resample=20
    )
    assert (rec.fs, len(rec)) == (20.0, 20)
    slow, fast = (rec[rec.columns["recording"] == f"{name}.csv"] for name in "ab")
    np.testing.assert_array_equal(slow.columns["start"], fast.columns["start"])
    np.testing.assert_array_equal(slow.y, fast.y)
    np.testing.assert_allclose(slow.X[1:-1], fast.X[1:-1], atol=0.02)
    one = Recordings.read(tmp_path / "d" / "b.csv", window_s=2, channels=["x", "y"], resample=20)
    np.testing.assert_array_equal(one.X, fast.X)


def test_labels_beside_recordings_are_no_recording(tmp_path):
    write(tmp_path / "d" / "a.csv", wide())
    write(tmp_path / "d" / "b.csv", wide(seed=1))
    labels = pd.DataFrame({"recording": ["a"], "start_s": [0.0], "label": ["sit"]})
    write(tmp_path / "d" / "labels.csv", labels)
    for path in (tmp_path / "d", tmp_path / "d" / "*.csv"):
        rec = Recordings.read(path, window_s=2, label="activity")
        assert set(rec.columns["recording"]) == {"a.csv", "b.csv"}
    write(tmp_path / "e" / "a.parquet", wide())
    write(tmp_path / "e" / "labels.csv", labels)
    assert len(Recordings.read(tmp_path / "e", window_s=2, label="activity")) == 5
    with pytest.raises(FileError, match=r"labels\.csv"):
        Recordings.read(tmp_path / "d" / "labels.csv", window_s=2)


def test_gaps_stay_where_they_are_at_another_rate(tmp_path):
    frame = wide(400, fs=40)
    path = write(tmp_path / "a.csv", frame.drop(index=range(120, 200)))
    with pytest.warns(TensorContrastWarning, match="gaps: 1"):
        rec = Recordings.read(path, window_s=1, label="activity", resample=20)
    assert rec.columns["start"].tolist() == [0, 20, 40, 100, 120, 140, 160, 180]
    assert [rec.classes[k] for k in rec.y] == ["sit"] * 3 + ["run"] * 5
    with pytest.raises(FileError, match=r"a\.csv: .*missing values cannot be resampled"):
        holes = frame.drop(columns="activity").assign(x=frame["x"].mask(frame.index == 7))
        Recordings.read(write(path, holes), window_s=1, resample=20, allow_nan=True)
