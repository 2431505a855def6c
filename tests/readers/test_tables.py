"""Tables: times that are not even, sensors in files of their own, windows in rows."""

import numpy as np
import pandas as pd
import pytest

from tensorcontrast.errors import FileError, InvalidInputError, TensorContrastWarning
from tensorcontrast.recordings import Recordings

pytest.importorskip("pyarrow", reason="needs tensorcontrast[data]")
RNG = np.random.default_rng(0)


def wave(t):
    return np.sin(2 * np.pi * 0.5 * t)


def test_uneven_times_are_brought_to_an_even_grid(tmp_path):
    t = np.arange(1000) / 50 + RNG.uniform(-0.008, 0.008, 1000)
    labels = np.where(t < 10, "rest", "walk")
    pd.DataFrame({"time": t, "x": wave(t), "activity": labels}).to_csv(tmp_path / "a.csv")
    rec = Recordings.read(tmp_path / "a.csv", window_s=2)
    assert rec.fs == pytest.approx(50, rel=1e-3)
    at = t[0] + (rec.columns["start"][:, None] + np.arange(rec.n_times)) / rec.fs
    np.testing.assert_allclose(rec.X[:, 0], wave(at), atol=0.01)
    assert [rec.classes[k] for k in rec.y[:4]] == ["rest"] * 4
    assert "interpolation" in rec.understood and "Unnamed" in rec.understood


def test_a_gap_in_uneven_times_stays_a_gap(tmp_path):
    t = np.arange(1000) / 50 + RNG.uniform(-0.008, 0.008, 1000)
    t[500:] += 3
    pd.DataFrame({"time": t, "x": wave(t)}).to_csv(tmp_path / "a.csv", index=False)
    with pytest.warns(TensorContrastWarning, match="gaps: 1"):
        rec = Recordings.read(tmp_path / "a.csv", window_s=2)
    at = t[0] + (rec.columns["start"][:, None] + np.arange(rec.n_times)) / rec.fs
    np.testing.assert_allclose(rec.X[:, 0], wave(at), atol=0.04)


def test_a_rate_that_is_a_little_another_is_accepted(tmp_path):
    t = np.arange(5000) / 49.95
    pd.DataFrame({"time": t, "x": wave(t)}).to_csv(tmp_path / "a.csv", index=False)
    rec = Recordings.read(tmp_path / "a.csv", window_s=2, fs=50)
    assert rec.fs == 50
    at = (rec.columns["start"][:, None] + np.arange(100)) / 50
    np.testing.assert_allclose(rec.X[:, 0], wave(at), atol=0.01)
    with pytest.raises(FileError, match="49"):
        Recordings.read(tmp_path / "a.csv", window_s=2, fs=49)


def test_a_few_whole_numbers_are_no_channel(tmp_path):
    frame = pd.DataFrame({"time": np.arange(200) / 50, "x": RNG.normal(size=200)})
    frame["is_anomaly"] = np.arange(200) // 100
    frame.to_csv(tmp_path / "a.csv", index=False)
    with pytest.warns(TensorContrastWarning, match="is_anomaly"):
        rec = Recordings.read(tmp_path / "a.csv", window_s=1)
    assert rec.channels == ("x",) and rec.y is None
    rec = Recordings.read(tmp_path / "a.csv", window_s=1, label="is_anomaly")
    assert rec.y.tolist() == [0, 0, 1, 1]
    both = Recordings.read(tmp_path / "a.csv", window_s=1, channels=["x", "is_anomaly"])
    assert both.n_channels == 2


@pytest.mark.parametrize("unknown", ["-1", "nan", "NA", "None", "<NA>", "NaT", "null", ""])
def test_unknown_labels(tmp_path, unknown):
    lines = [f"{k / 10},{k % 7},{'walk' if k < 10 else unknown}" for k in range(20)]
    (tmp_path / "a.csv").write_text("time,x,label\n" + "\n".join(lines))
    rec = Recordings.read(tmp_path / "a.csv", window_s=1)
    assert (rec.y.tolist(), rec.classes) == ([0, -1], ("walk",))


def sensor(folder, name, fs, start, axes="zyx", n=400):
    folder.mkdir(exist_ok=True)
    t = np.arange(n) / fs
    frame = pd.DataFrame({"time": ((start + t) * 1e9).astype(np.int64), "seconds_elapsed": t})
    for axis in axes:
        frame[axis] = wave(start % 100 + t)
    frame.to_csv(folder / f"{name}.csv", index=False)


def test_sensors_of_one_session_are_joined_on_time(tmp_path):
    folder = tmp_path / "walk"
    start = 1_700_000_000
    sensor(folder, "Accelerometer", 100, start)
    sensor(folder, "Gyroscope", 50, start + 0.5, n=150)
    sensor(folder, "Barometer", 1, start, axes=["pressure"], n=20)
    (folder / "Metadata.csv").write_text("version,device\n1,phone\n")
    with pytest.warns(TensorContrastWarning, match="Barometer"):
        rec = Recordings.read(folder, window_s=1)
    assert rec.channels[:2] == ("Accelerometer z", "Accelerometer y") and rec.n_channels == 6
    assert rec.fs == 100 and set(rec.groups) == {"walk"}
    np.testing.assert_allclose(rec.X[:, 0], rec.X[:, 3], atol=0.01)


def test_files_that_describe_a_session_are_no_recordings(tmp_path):
    (tmp_path / "meta").mkdir()
    (tmp_path / "meta" / "device.csv").write_text("property,value\nversion,1\n")
    (tmp_path / "meta" / "time.csv").write_text("event,experiment time\nSTART,0\n")
    t = np.arange(200) / 50
    frame = pd.DataFrame({"Time (s)": t, "x (m/s^2)": wave(t)})
    frame.to_csv(tmp_path / "Raw Data.csv", index=False)
    assert len(Recordings.read(tmp_path, window_s=1)) == 4


def test_classes_are_names_of_folders(tmp_path):
    for label in ("rest", "walk"):
        (tmp_path / label).mkdir()
        frame = pd.DataFrame({"time": np.arange(100) / 50, "x": RNG.normal(size=100)})
        frame.to_csv(tmp_path / label / "a.csv", index=False)
    rec = Recordings.read(tmp_path, window_s=1, groups=r"(?P<label>\w+)/")
    assert rec.classes == ("rest", "walk") and rec.y.tolist() == [0, 0, 1, 1]


def test_a_list_of_paths_is_one_data_set(tmp_path):
    paths = []
    for name in "ab":
        frame = pd.DataFrame({"time": np.arange(100) / 50, "x": RNG.normal(size=100)})
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
        paths.append(tmp_path / f"{name}.csv")
    rec = Recordings.read(paths, window_s=1)
    assert rec.columns["recording"].tolist() == ["a.csv"] * 2 + ["b.csv"] * 2
    with pytest.raises(InvalidInputError, match="paths"):
        Recordings.read([])
    with pytest.raises(InvalidInputError, match="formats"):
        Recordings.read([*paths, tmp_path / "c.edf"], window_s=1)


def test_units_of_files_are_brought_to_one_or_refused(tmp_path):
    t, x = np.arange(100) / 50, RNG.normal(size=100)
    pd.DataFrame({"time": t, "EEG": x}).to_csv(tmp_path / "a.csv", index=False)
    pd.DataFrame({"time": t, "EEG": 1000 * x}).to_csv(tmp_path / "b.csv", index=False)
    for name, unit in (("a", "mV"), ("b", "µV")):
        text = (tmp_path / f"{name}.csv").read_text()
        (tmp_path / f"{name}.csv").write_text(text.replace("\n", f"\ns,{unit}\n", 1))
    rec = Recordings.read(tmp_path, window_s=1)
    np.testing.assert_allclose(rec.X[:2], rec.X[2:], rtol=1e-5)
    assert rec.units == "mV"
    text = (tmp_path / "b.csv").read_text()
    (tmp_path / "b.csv").write_text(text.replace("µV", "°C"))
    with pytest.raises(FileError, match="°C"):
        Recordings.read(tmp_path, window_s=1)


def test_lists_in_the_cells_of_parquet_are_windows(tmp_path):
    X = RNG.normal(size=(3, 2, 50))
    frame = pd.DataFrame({"x": list(X[:, 0]), "y": list(X[:, 1]), "label": ["a", "b", None]})
    frame.assign(subject=[7, 7, 8]).to_parquet(tmp_path / "w.parquet")
    rec = Recordings.read(tmp_path / "w.parquet", fs=25)
    np.testing.assert_array_equal(rec.X, X)
    assert (rec.y.tolist(), rec.groups.tolist(), rec.fs) == ([0, 1, -1], [7, 7, 8], 25)
    frame["x"] = [X[0, 0], X[1, 0][:40], X[2, 0]]
    frame.to_parquet(tmp_path / "w.parquet")
    with pytest.raises(FileError, match="40 to 50"):
        Recordings.read(tmp_path / "w.parquet")


def test_rows_of_the_ucr_archive_are_windows(tmp_path):
    X = RNG.normal(size=(6, 40))
    rows = np.column_stack([[1, -1, 1, 2, 2, -1], X])
    np.savetxt(tmp_path / "Toy_TRAIN.tsv", rows, delimiter="\t", fmt="%.6f")
    rec = Recordings.read(tmp_path / "Toy_TRAIN.tsv")
    np.testing.assert_allclose(rec.X[:, 0], X, atol=1e-5)
    assert rec.classes == ("-1", "1", "2") and rec.y.tolist() == [1, 0, 1, 2, 2, 0]
    rows[2, -3:] = np.nan
    np.savetxt(tmp_path / "Toy_TRAIN.tsv", rows, delimiter="\t", fmt="%.6f")
    with pytest.raises(FileError, match="line 3"):
        Recordings.read(tmp_path / "Toy_TRAIN.tsv")


def test_the_start_of_a_recording_is_kept(tmp_path):
    t = pd.date_range("2024-03-01 23:59:58", periods=200, freq="20ms")
    pd.DataFrame({"time": t, "x": RNG.normal(size=200)}).to_csv(tmp_path / "a.csv", index=False)
    rec = Recordings.read(tmp_path / "a.csv", window_s=1)
    assert set(rec.columns["recording_start"]) == {"2024-03-01T23:59:58"}
