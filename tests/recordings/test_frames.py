"""Recordings from data frames of pandas and polars."""

import numpy as np
import pytest

from tensorcontrast import Recordings
from tensorcontrast.errors import InvalidInputError, InvalidTypeError, TensorContrastWarning

pandas = pytest.importorskip("pandas", reason="needs the extra 'data'")


def table(n=500, fs=50.0, **more):
    rng = np.random.default_rng(0)
    columns = {
        "time": np.arange(n) / fs,
        "x": rng.normal(size=n),
        "y": rng.normal(size=n),
        "label": np.repeat(["rest", "walk"], [n // 2, n - n // 2]),
    }
    return pandas.DataFrame(columns | more)


def to_polars(frame):
    polars = pytest.importorskip("polars", reason="polars is not installed")
    values = {name: frame[name].to_numpy() for name in frame.columns}
    for name, column in values.items():
        if column.dtype == object:
            values[name] = [v if isinstance(v, str) else None for v in column]
    return polars.DataFrame(values)


@pytest.fixture(params=["pandas", "polars"])
def kind(request):
    return to_polars if request.param == "polars" else lambda frame: frame


def test_a_continuous_frame_is_cut_and_labelled(kind):
    frame = table()
    before = frame.copy()
    rec = Recordings.from_dataframe(kind(frame), window_s=2, step_s=1, name="watch")
    assert (rec.fs, rec.channels, rec.name) == (50.0, ("x", "y"), "watch")
    assert rec.columns["start"].tolist() == list(range(0, 401, 50))
    # the window from 4 to 6 s is half of one and half of the other
    assert rec.classes == ("rest", "walk") and rec.y.tolist() == [0, 0, 0, 0, -1, 1, 1, 1, 1]
    np.testing.assert_allclose(rec.X[1], frame[["x", "y"]].to_numpy()[50:150].T)
    pandas.testing.assert_frame_equal(frame, before)


def test_the_share_of_a_label_is_stated(kind):
    frame = table(label=np.repeat(["a", "b", "a"], [70, 200, 230]))
    rec = Recordings.from_dataframe(kind(frame), window_s=2)
    assert rec.y.tolist() == [0, 1, 1, 0, 0]
    rec = Recordings.from_dataframe(kind(frame), window_s=2, label_share=0.8)
    assert rec.y.tolist() == [-1, 1, -1, 0, 0]
    with pytest.warns(TensorContrastWarning, match="left out 2 of 5"):
        few = Recordings.from_dataframe(
            kind(frame), window_s=2, label_share=0.8, drop_unlabelled=True
        )
    assert few.columns["start"].tolist() == [100, 300, 400]


def test_unknown_labels_of_samples(kind):
    labels = np.array(["a"] * 100 + [None] * 100 + ["b"] * 300, dtype=object)
    rec = Recordings.from_dataframe(kind(table(label=labels)), window_s=2)
    assert rec.y.tolist() == [0, -1, 1, 1, 1]


def test_gaps_cut_the_recording_and_start_times_count_on(kind):
    time = np.arange(500) / 50.0
    time[250:] += 10
    with pytest.warns(TensorContrastWarning, match="gap in time"):
        rec = Recordings.from_dataframe(kind(table(time=time)), window_s=2)
    assert rec.columns["start"].tolist() == [0, 100, 750, 850]


def test_groups_and_recordings_are_kept_apart(kind):
    one = table(n=120, subject="anna", night=1)
    two = table(n=220, subject="ben", night=7)
    both = pandas.concat([one, two], ignore_index=True)
    rec = Recordings.from_dataframe(kind(both), recording="night", window_s=2)
    assert rec.groups.tolist() == ["anna", "ben", "ben"]
    assert rec.columns["recording"].tolist() == ["1", "7", "7"]
    assert rec.columns["start"].tolist() == [0, 0, 100]
    assert rec.channels == ("x", "y")


@pytest.mark.parametrize("unit", ["ns", "us", "ms"])
def test_dates_and_time_differences(kind, unit):
    ms = np.arange(500) * 20
    dates = np.datetime64("2024-03-01") + ms.astype("m8[ms]")
    rec = Recordings.from_dataframe(kind(table(time=dates.astype(f"M8[{unit}]"))), window_s=2)
    assert rec.fs == 50 and len(rec) == 5
    since = ms.astype("m8[ms]").astype(f"m8[{unit}]")
    assert Recordings.from_dataframe(kind(table(time=since)), window_s=2).fs == 50
    slow = kind(table(time=since * 50))
    assert Recordings.from_dataframe(slow, window_s=100).fs == 1


def test_an_index_of_dates_is_the_time():
    frame = table().drop(columns="time")
    frame.index = pandas.date_range("2024-03-01", periods=500, freq="20ms")
    assert Recordings.from_dataframe(frame, window_s=2).fs == 50
    assert frame.index.name is None


def test_long_form_is_read_as_files_are(kind):
    frame = table(n=200, label=np.repeat(["a", "b"], 100), trial=np.repeat([5, 9], 100))
    rec = Recordings.from_dataframe(kind(frame), sample="trial", label="label", fs=50)
    assert rec.shape[0] == 2 and rec.n_times == 100 and rec.classes == ("a", "b")
    assert rec.columns["sample"].tolist() == [5, 9]
    with pytest.raises(InvalidInputError, match="leave window_s= and drop_unlabelled= out"):
        Recordings.from_dataframe(kind(frame), sample="trial", fs=50, window_s=1)


def test_the_same_windows_as_from_a_file(tmp_path):
    frame = table(label=np.repeat(["rest", "walk"], [230, 270]))
    frame.to_csv(tmp_path / "watch.csv", index=False)
    by_file = Recordings.read(tmp_path / "watch.csv", window_s=2)
    rec = Recordings.from_dataframe(frame, window_s=2)
    np.testing.assert_allclose(rec.X, by_file.X, rtol=1e-6)
    assert rec.y.tolist() == by_file.y.tolist() and rec.fs == by_file.fs


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        ({}, {"time": "clock"}, r"no column for time='clock'; there are 'time', 'x'"),
        ({}, {"label": "l", "group": "g"}, r"no column for label='l', group='g'"),
        ({}, {"channels": ["x", "q"]}, r"no channel 'q'; there are 'time'"),
        ({}, {"fs": 60}, r"50 samples per second, but a rate of 60 was passed"),
        ({}, {"window_s": 30}, r"fewer than a window of 1500 samples .*shorter window"),
        ({}, {"step_s": 3}, r"step_s=3 must be above 0 and at most window_s=2"),
        ({"time": np.arange(500)}, {}, r"may be samples, s or ms; pass fs="),
        ({"x": ["text", "other"] * 250}, {}, "label='x'"),
        ({"x": [np.nan] + [0.5] * 499}, {}, r"'x' is nan.* allow_nan=True"),
        ({"night": None}, {"recording": "night"}, r"'night' is empty in 500 rows"),
    ],
)
def test_what_is_wrong_is_named_with_the_way_out(change, options, message):
    with pytest.raises(InvalidInputError, match=message):
        Recordings.from_dataframe(table(**change), **({"window_s": 2} | options))


def test_recordings_of_several_rates_are_refused():
    one, two = table(night="a"), table(fs=100.0, night="b")
    both = pandas.concat([one, two], ignore_index=True)
    with pytest.raises(InvalidInputError, match=r"50 Hz: 'a'; 100 Hz: 'b'.*resample=50"):
        Recordings.from_dataframe(both, recording="night", window_s=2)
    rec = Recordings.from_dataframe(both, recording="night", window_s=2, resample=50)
    assert rec.fs == 50 and set(rec.columns["recording"]) == {"a", "b"}


def test_what_is_no_frame_is_refused():
    with pytest.raises(InvalidTypeError, match="a dict is no data frame"):
        Recordings.from_dataframe({"x": [1]})
    polars = pytest.importorskip("polars", reason="polars is not installed")
    with pytest.raises(InvalidTypeError, match=r"call its collect\(\) first"):
        Recordings.from_dataframe(polars.LazyFrame({"x": [1.0]}))
    twice = pandas.DataFrame(np.zeros((3, 2)), columns=["x", "x"])
    with pytest.raises(InvalidInputError, match="the column 'x' twice"):
        Recordings.from_dataframe(twice, fs=10)
