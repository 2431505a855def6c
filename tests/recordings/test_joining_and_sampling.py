"""Recordings joined, resampled, and their channels renamed and selected."""

import numpy as np
import pytest

from tensorcontrast import Recordings
from tensorcontrast.errors import InvalidInputError, InvalidTypeError
from tensorcontrast.recordings.joining import concat


def small(n=3, y=("a", "b", "a"), *, channels=("x", "z"), times=20, value=0.0, **more):
    X = np.full((n, len(channels), times), value) + np.arange(len(channels))[None, :, None]
    defaults = {"groups": ["anna"] * n, "fs": 10.0, "units": "V"}
    return Recordings(X, y, channels=channels, **(defaults | more))


# ------------------------------------------------------------------------------ concat


def test_classes_are_merged_by_name():
    one, two = small(), small(y=["c", None, "a"], classes=["c", "a"])
    both = Recordings.concat([one, two])
    assert both.classes == ("a", "b", "c")
    assert both.y.tolist() == [0, 1, 0, 2, -1, 0]
    assert (both.fs, both.units, both.channels) == (10.0, "V", ("x", "z"))
    assert Recordings.concat is concat


def test_labels_of_one_recording_and_none_of_the_other():
    assert concat([small(), small(y=None)]).y.tolist() == [0, 1, 0, -1, -1, -1]
    none = concat([small(y=None), small(y=None)])
    assert none.y is None and none.classes is None
    numbers = concat([small(y=[0, 1, 2]), small(y=[5, -1, 0])])
    assert numbers.y.tolist() == [0, 1, 2, 5, -1, 0] and numbers.classes is None
    with pytest.raises(InvalidInputError, match=r"recordings\[1\] has labels without names"):
        concat([small(), small(y=[0, 1, 0])])


def test_groups_are_distinct_only_if_asked():
    recs = [small(groups=[1, 1, 2]), small(groups=[2, 2, 2])]
    assert concat(recs).groups.tolist() == [1, 1, 2, 2, 2, 2]
    apart = concat(recs, distinct_groups=True)
    assert apart.groups.tolist() == ["0: 1", "0: 1", "0: 2", "1: 2", "1: 2", "1: 2"]
    named = concat([small(name="lab"), small(name="home", groups=None)], distinct_groups=True)
    assert named.groups.tolist() == ["lab: anna"] * 3 + ["home"] * 3
    with pytest.raises(InvalidInputError, match=r"recordings\[1\] has no groups.*distinct_groups"):
        concat([small(), small(groups=None)])
    assert concat([small(), small(groups=[7, 7, 8])]).groups.tolist()[2:4] == ["anna", "7"]


def test_columns_that_all_have_are_kept():
    one = small(columns={"recording": [0, 0, 1], "age": [1, 2, 3], "site": ["x", "x", "y"]})
    two = small(columns={"recording": [0, 1, 1], "age": [4.5, 5, 6]})
    both = concat([one, two, two])
    assert set(both.columns) == {"recording", "age"}
    assert both.columns["recording"].tolist() == [0, 0, 1, 2, 3, 3, 4, 5, 5]
    assert both.columns["age"].tolist() == [1, 2, 3, 4.5, 5, 6, 4.5, 5, 6]
    with pytest.raises(InvalidInputError, match=r"columns\['age'\]"):
        concat([one, small(columns={"age": np.zeros((3, 2))})])


def test_recordings_of_the_same_name_stay_apart():
    one = small(columns={"recording": ["raw"] * 3, "start": [0, 20, 40]})
    later = small(columns={"recording": ["raw"] * 3, "start": [60, 80, 100]})
    assert set(concat([one, later]).columns["recording"]) == {"raw"}
    assert concat([one, one]).columns["recording"].tolist() == ["0: raw"] * 3 + ["1: raw"] * 3


def test_channels_in_another_order_are_reordered():
    both = concat([small(), small(channels=("z", "x"))])
    np.testing.assert_array_equal(both.X[0, :, 0], [0, 1])
    np.testing.assert_array_equal(both.X[3, :, 0], [1, 0])


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"fs": 20.0}, r"recordings\[1\] has fs=20.0, but .* fs=10.0; use .*resample\(10\)"),
        ({"fs": None}, r"has fs=None, but .*; set fs"),
        ({"channels": ("x", "q")}, r"lacks 'z' and has 'q', unlike .*rename_channels"),
        ({"times": 30}, r"windows of 30 samples, but recordings\[0\] of 20; .*window_s"),
        ({"units": "uV"}, r"units 'uV' where recordings\[0\] has 'V'; bring both"),
    ],
)
def test_what_differs_is_named(other, message):
    with pytest.raises(InvalidInputError, match=message):
        concat([small(), small(**other)])


def test_channels_without_names():
    bare = Recordings(np.zeros((1, 2, 20)), fs=10, groups=["ben"])
    assert concat([bare, bare]).shape == (2, 2, 20)
    with pytest.raises(InvalidInputError, match="2 channels with no names"):
        concat([small(), bare])


def test_only_recordings_can_be_joined():
    with pytest.raises(InvalidTypeError, match=r"pass \[rec1, rec2\]"):
        concat(small())
    with pytest.raises(InvalidTypeError, match=r"recordings\[1\] is a ndarray"):
        concat([small(), np.zeros((1, 2, 20))])
    with pytest.raises(InvalidInputError, match="at least one"):
        concat([])


def test_joined_recordings_can_be_saved(tmp_path):
    both = concat([small(citation="A"), small(citation="B")])
    back = Recordings.load(both.save(tmp_path / "both.npz"))
    np.testing.assert_array_equal(back.X, both.X)
    assert back.classes == both.classes and back.citation == "A; B"


# ---------------------------------------------------------------------------- resample


@pytest.mark.parametrize("fs", [100, 128, 500, 333.3, 99.97])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_a_sine_stays_a_sine_at_its_times(fs, dtype):
    def sine(rate, n):
        return np.sin(2 * np.pi * 7 * np.arange(n) / rate) + 5

    rec = Recordings(sine(250, 1000)[None, None].astype(dtype), fs=250, columns={"start": [125]})
    new = rec.resample(fs)
    assert new.fs == fs and new.X.dtype == dtype
    assert new.n_times == int(np.ceil(1000 * fs / 250))
    middle = slice(40, -40)
    np.testing.assert_allclose(new.X[0, 0][middle], sine(fs, new.n_times)[middle], atol=2e-3)
    assert abs(new.columns["start"][0] / fs - 0.5) <= 0.5 / fs
    assert rec.columns["start"][0] == 125


def test_what_the_new_rate_cannot_hold_is_filtered_out():
    t = np.arange(2000) / 250
    rec = Recordings(np.sin(2 * np.pi * 90 * t)[None, None], fs=250).resample(100)
    assert np.abs(rec.X[0, 0, 20:-20]).max() < 0.01


def test_what_cannot_be_resampled_is_refused():
    with pytest.raises(InvalidInputError, match="no sampling rate"):
        Recordings(np.zeros((1, 1, 20))).resample(5)
    X = np.zeros((1, 1, 20))
    X[0, 0, 3] = np.nan
    with pytest.raises(InvalidInputError, match="fill them, or leave"):
        Recordings(X, fs=10, allow_nan=True).resample(5)
    with pytest.raises(InvalidInputError, match="positive"):
        small().resample(0)
    with pytest.raises(InvalidInputError, match="no simple ratio of 10 Hz; take a rate such as"):
        small().resample(1e-4)
    rec = small()
    assert rec.resample(10) is rec


# ---------------------------------------------------------------------------- channels


def test_channels_are_renamed():
    rec = small()
    assert rec.rename_channels({"x": "z", "z": "x"}).channels == ("z", "x")
    assert rec.rename_channels({1: "up"}).channels == ("x", "up")
    assert rec.channels == ("x", "z")
    with pytest.raises(InvalidInputError, match="no channel 'q'; there are 'x', 'z'"):
        rec.rename_channels({"q": "a"})
    with pytest.raises(InvalidInputError, match="'z' more than once"):
        rec.rename_channels({"x": "z"})


def test_channels_are_selected_by_pattern():
    rec = small(channels=("EEG Cz", "EOG", "EEG Pz", "a*"))
    assert rec.select(channels="EEG *").channels == ("EEG Cz", "EEG Pz")
    assert rec.select(channels=["E?G", "EEG ?z"]).channels == ("EOG", "EEG Cz", "EEG Pz")
    assert rec.select(channels="a*").channels == ("a*",)
    with pytest.raises(InvalidInputError, match=r"no channel 'ECG\*'; there are 'EEG Cz'"):
        rec.select(channels="ECG*")
