"""Recordings from labelled arrays of xarray."""

import numpy as np
import pytest

from tensorcontrast import Recordings
from tensorcontrast.errors import InvalidInputError, InvalidTypeError, TensorContrastWarning

xarray = pytest.importorskip("xarray", reason="xarray is not installed")


def epochs(**more):
    coords = {
        "channel": ["Cz", "Pz"],
        "time": -0.2 + np.arange(100) / 50,
        "label": ("epoch", ["a", "b", "a"]),
        "subject": ("epoch", [4, 4, 5]),
        "age": ("epoch", [31.5, 31.5, 44.0]),
    }
    values = np.random.default_rng(0).normal(size=(3, 2, 100))
    return xarray.DataArray(
        values, dims=("epoch", "channel", "time"), coords=coords | more, attrs={"units": "uV"}
    )


def continuous(**more):
    coords = {
        "channel": ["Cz", "Pz"],
        "time": np.arange(500) / 50,
        "stage": ("time", np.repeat(["w", "n"], [260, 240])),
    }
    values = np.random.default_rng(0).normal(size=(2, 500))
    return xarray.DataArray(
        values, dims=("channel", "time"), coords=coords | more, attrs={"units": "V"}, name="night"
    )


def test_windows_with_their_coordinates():
    data = epochs()
    rec = Recordings.from_xarray(data)
    assert (rec.fs, rec.channels, rec.units) == (50.0, ("Cz", "Pz"), "uV")
    assert rec.classes == ("a", "b") and rec.y.tolist() == [0, 1, 0]
    assert rec.groups.tolist() == [4, 4, 5]
    assert rec.columns["age"].tolist() == [31.5, 31.5, 44.0] and set(rec.columns) == {"age"}
    turned = Recordings.from_xarray(data.transpose("time", "epoch", "channel"))
    np.testing.assert_array_equal(turned.X, data.values)


def test_names_of_dimensions_and_roles():
    data = epochs().rename({"epoch": "Trial", "channel": "sensor", "label": "kind"})
    rec = Recordings.from_xarray(data, label="kind", group="subject", name="lab")
    assert rec.y.tolist() == [0, 1, 0] and rec.name == "lab"
    with pytest.raises(InvalidInputError, match=r"neither integers nor text"):
        Recordings.from_xarray(data, group="age", label="kind")
    with pytest.raises(InvalidInputError, match="no coordinate 'q' for label; there are"):
        Recordings.from_xarray(data, label="q")


def test_a_continuous_array_is_cut():
    data = continuous()
    rec = Recordings.from_xarray(data, label="stage", window_s=2, step_s=1)
    assert rec.classes == ("n", "w") and rec.y.tolist() == [1, 1, 1, 1, 1, 0, 0, 0, 0]
    assert (rec.fs, rec.channels, rec.units, rec.name) == (50.0, ("Cz", "Pz"), "V", "night")
    assert rec.columns["start"].tolist() == list(range(0, 401, 50))
    np.testing.assert_array_equal(rec.X[2], data.values[:, 100:200])


@pytest.mark.parametrize(
    ("times", "attrs"),
    [
        (np.arange(500) * 20, {"units": "ms"}),
        (np.arange(500) * 20.0, {"units": "ms"}),
        (np.datetime64("2024-03-01", "ns") + np.arange(500) * np.timedelta64(20_000_000, "ns"), {}),
        (np.arange(500) * np.timedelta64(20_000_000, "ns"), {}),
    ],
)
def test_units_of_time(times, attrs):
    rec = Recordings.from_xarray(continuous(time=("time", times, attrs)), window_s=2)
    assert rec.fs == 50 and len(rec) == 5
    rec = Recordings.from_xarray(epochs(time=("time", times[:100], attrs)))
    assert rec.fs == 50


def test_without_a_coordinate_of_time_the_rate_is_given():
    assert Recordings.from_xarray(epochs().drop_vars("time")).fs is None
    assert Recordings.from_xarray(epochs().drop_vars("time"), fs=50).fs == 50
    bare = continuous().drop_vars(["time", "stage", "channel"])
    assert Recordings.from_xarray(bare, fs=50, window_s=2).channels == ("0", "1")
    counted = continuous(time=np.arange(500))
    assert Recordings.from_xarray(counted, fs=50, window_s=2).fs == 50
    assert Recordings.from_xarray(epochs(time=np.arange(100)), fs=50).fs == 50


def test_gaps_cut_a_continuous_array():
    time = np.arange(500) / 50
    time[250:] += 10
    with pytest.warns(TensorContrastWarning, match="gap in time"):
        rec = Recordings.from_xarray(continuous(time=time), window_s=2)
    assert rec.columns["start"].tolist() == [0, 100, 750, 850]


def test_what_is_wrong_is_named_with_the_way_out():
    with pytest.raises(InvalidTypeError, match="a ndarray is no DataArray"):
        Recordings.from_xarray(np.zeros((2, 3)))
    with pytest.raises(InvalidTypeError, match=r"pass one of its arrays, as in data\['eeg'\]"):
        Recordings.from_xarray(epochs().to_dataset(name="eeg"))
    with pytest.raises(InvalidInputError, match=r"dimensions 'channel', 'bin', but"):
        Recordings.from_xarray(continuous().rename(time="bin"))
    with pytest.raises(InvalidInputError, match="holds windows already"):
        Recordings.from_xarray(epochs(), window_s=1)
    with pytest.raises(InvalidInputError, match="does not rise in equal steps"):
        Recordings.from_xarray(epochs(time=np.arange(100) ** 2 / 50))
    with pytest.raises(InvalidInputError, match="50 samples per second, but fs=60 was given"):
        Recordings.from_xarray(epochs(), fs=60)
    with pytest.raises(InvalidInputError, match="for label is not along 'epoch'"):
        Recordings.from_xarray(epochs(label=("channel", ["a", "b"])))
    with pytest.raises(InvalidInputError, match="for label is not along 'time'"):
        Recordings.from_xarray(continuous(label=("channel", ["a", "b"])), window_s=2)
    none = epochs(label=("epoch", ["", "", ""]))
    with pytest.raises(InvalidInputError, match="none of 3 windows has a label"):
        Recordings.from_xarray(none, drop_unlabelled=True)
