import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorcontrast.errors import FileError, InvalidInputError
from tensorcontrast.readers import npz
from tensorcontrast.recordings import Recordings


def small(n=6, channels=2, times=10, **more):
    rng = np.random.default_rng(0)
    defaults = {
        "groups": np.arange(n) // 2,
        "fs": 10.0,
        "channels": [f"c{k}" for k in range(channels)],
        "classes": ["a", "b"],
        "columns": {"age": np.arange(n) * 1.5, "site": np.array(["x", "y"] * (n // 2))},
    }
    X = rng.standard_normal((n, channels, times)).astype(np.float32)
    return Recordings(X, np.arange(n) % 2, **(defaults | more))


# --------------------------------------------------------------------- dtype and labels


@pytest.mark.parametrize(
    ("given_dtype", "kept"),
    [("f4", "f4"), ("f8", "f8"), ("f2", "f4"), ("i2", "f4"), ("u1", "f4"), ("i4", "f4")],
)
def test_dtype(given_dtype, kept):
    assert Recordings(np.ones((2, 1, 3), dtype=given_dtype)).X.dtype == kept


def test_large_integers_are_not_rounded():
    X = np.array([[[2**24 + 1, 0, -5]]], dtype=np.int64)
    np.testing.assert_array_equal(Recordings(X).X.astype(np.int64), X)


def test_scale_multiplies_integers_as_float32():
    X = np.arange(6, dtype=np.int16).reshape(1, 2, 3)
    rec = Recordings(X, scale=0.5)
    assert rec.X.dtype == np.float32
    np.testing.assert_array_equal(rec.X, X * 0.5)


def test_text_labels_become_integers_by_classes_or_sorted():
    X = np.zeros((3, 1, 4))
    assert Recordings(X, ["b", "a", "b"]).y.tolist() == [1, 0, 1]
    rec = Recordings(X, ["b", "a", "b"], classes=["b", "a"])
    assert rec.y.tolist() == [0, 1, 0]
    with pytest.raises(InvalidInputError, match=r"'z'.*none of the classes"):
        Recordings(X, ["b", "z", "b"], classes=["b", "a"])


def test_unlabelled_samples_are_minus_one():
    rec = Recordings(np.zeros((3, 1, 4)), [0, -1, 1])
    assert rec.n_classes == 2
    assert "1 unlabelled" in repr(rec)


def test_float_labels_and_groups_that_are_whole_are_taken():
    rec = Recordings(np.zeros((2, 1, 4)), np.array([0.0, 1.0]), groups=np.array([3.0, 4.0]))
    assert rec.y.dtype == np.int64
    assert rec.groups.dtype == np.int64


# --------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.zeros((3, 4)), r"shape \(3, 4\).*X\[:, None, :\]"),
        (np.zeros(5), "is needed"),
        (np.zeros((0, 2, 4)), "no samples"),
        (np.zeros((2, 0, 4)), "no channels"),
        (np.zeros((2, 2, 0)), "no points in time"),
        (np.zeros((2, 2, 4), dtype=complex), "complex"),
        (np.array([[["a"]]]), "real numbers are needed"),
        ([[[1.0, 2.0]], [[1.0, 2.0, 3.0]]], "unequal lengths.*from_signals"),
        (np.array([None, 2], dtype=object), "not one array"),
    ],
)
def test_bad_signals(X, message):
    with pytest.raises(InvalidInputError, match=message):
        Recordings(X)


def test_nan_is_counted_and_placed():
    X = np.zeros((20, 5, 128), dtype=np.float32)
    X[17, 3, 5:17] = np.nan
    X[19, 0, 0] = np.nan
    with pytest.raises(InvalidInputError, match=r"X\[17\] channel 3 holds 12 NaN of 128 samples"):
        Recordings(X)
    with pytest.raises(InvalidInputError, match=r"channel 3 \(z\).*2 of 20 samples.*allow_nan"):
        Recordings(X, channels=list("abczy"))
    assert Recordings(X, allow_nan=True).quality().non_finite[17, 3] == 12


@pytest.mark.parametrize("bad", [np.inf, -np.inf])
def test_infinity_is_found_also_when_signs_cancel(bad):
    X = np.zeros((3, 1, 4))
    X[1, 0, 2], X[2, 0, 1] = bad, -bad
    with pytest.raises(InvalidInputError, match=r"X\[1\] channel 0 holds 1 infinite"):
        Recordings(X)


def test_huge_finite_values_are_no_infinity():
    X = np.full((2, 1, 4), 1e308)
    assert len(Recordings(X)) == 2


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"y": [0, 1]}, "y has 2 labels but X has 4 windows"),
        ({"y": [[0, 1, 0, 1]]}, "y has shape"),
        ({"y": [0, 1, 2, -2]}, r"y\[3\] is -2"),
        ({"y": [0, 1, 2, 0], "classes": ["a", "b"]}, r"y\[2\] is 2, but there are 2 classes"),
        ({"y": [0, 0.5, 1, 1]}, r"y\[1\] is 0.5"),
        ({"y": [0, np.inf, 1, 1]}, r"y\[1\] is inf, which is not a class"),
        ({"groups": [1, 2, 3]}, "groups has shape"),
        ({"groups": [1.5, 2, 3, 4]}, "neither integers nor text"),
        ({"groups": [{}, {}, {}, {}]}, "Python objects"),
        ({"columns": {"age": [1, 2, 3]}}, r"columns\['age'\] has shape"),
        ({"channels": ["a"]}, "channels has 1 names, but X has 2"),
        ({"channels": ["a", "a"]}, "'a' more than once"),
        ({"channels": "ab"}, "one text"),
        ({"classes": ["a", "a"]}, "more than once"),
        ({"units": ["mV"]}, "units has 1 entries for 2 channels"),
        ({"fs": 0}, "fs=0 must be a positive"),
        ({"fs": -5}, "must be a positive"),
        ({"fs": float("nan")}, "must be a positive"),
        ({"fs": "fast"}, "not a number"),
        ({"scale": 0}, "scale=0"),
    ],
)
def test_bad_annotations(more, message):
    with pytest.raises(InvalidInputError, match=message):
        Recordings(np.zeros((4, 2, 3)), **more)


# --------------------------------------------------------------------------- selecting


@pytest.mark.parametrize(
    "index",
    [
        slice(1, 4),
        [4, 0, 0],
        np.array([True, False] * 3),
        np.array([5, 2]),
        -1,
        slice(None, None, -2),
    ],
)
def test_selection_takes_everything_along(index):
    rec = small()
    rows = np.atleast_1d(np.arange(6)[index])
    part = rec[index]
    np.testing.assert_array_equal(part.X, rec.X[rows])
    np.testing.assert_array_equal(part.y, rec.y[rows])
    np.testing.assert_array_equal(part.groups, rec.groups[rows])
    np.testing.assert_array_equal(part.columns["age"], rec.columns["age"][rows])
    np.testing.assert_array_equal(part.columns["site"], rec.columns["site"][rows])
    assert (part.fs, part.channels, part.classes) == (rec.fs, rec.channels, rec.classes)


@pytest.mark.parametrize("index", [slice(0, 0), [], np.zeros(6, dtype=bool)])
def test_empty_selection_is_an_error(index):
    with pytest.raises(InvalidInputError, match="no samples"):
        small()[index]


@pytest.mark.parametrize("index", [6, [0, 17], np.ones(5, dtype=bool), "a"])
def test_impossible_selection(index):
    with pytest.raises(InvalidInputError, match="cannot select"):
        small()[index]


def test_two_axes_at_once_are_refused():
    with pytest.raises(InvalidInputError):
        small()[:, 0]


def test_iteration_ends():
    assert [len(sample) for sample in small()] == [1] * 6


def test_select_by_group_class_and_channel():
    rec = small()
    assert rec.select(groups=[0, 2]).groups.tolist() == [0, 0, 2, 2]
    assert rec.select(classes=["b"]).y.tolist() == [1, 1, 1]
    flipped = rec.select(channels=["c1", "c0"])
    np.testing.assert_array_equal(flipped.X, rec.X[:, ::-1])
    assert flipped.channels == ("c1", "c0")


def test_select_of_what_is_not_there_lists_what_is():
    with pytest.raises(InvalidInputError, match="no group 9; there are 0, 1, 2"):
        small().select(groups=[9])
    with pytest.raises(InvalidInputError, match="no channel 'EEG'; there are 'c0', 'c1'"):
        small().select(channels=["EEG"])
    with pytest.raises(InvalidInputError, match="no class 'q'"):
        small().select(classes=["q"])
    with pytest.raises(InvalidInputError, match="more than once"):
        small().select(channels=["c0", "c0"])
    with pytest.raises(InvalidInputError, match="no groups"):
        Recordings(np.zeros((2, 1, 3))).select(groups=[1])


def test_constant_channels_are_flagged_not_refused():
    X = np.random.default_rng(0).standard_normal((5, 3, 20))
    X[:, 1] = 4.0
    X[2, 0] = 0.0
    rec = Recordings(X, channels=["a", "flat", "c"])
    quality = rec.quality()
    expected = [[False, True, False]] * 5
    expected[2] = [True, True, False]
    assert quality.constant.tolist() == expected
    assert quality.dead_channels == ("flat",)
    assert not quality.ok.any()
    assert "channels constant everywhere: 'flat'" in str(quality)
    assert rec.select(channels=["a", "c"]).quality().ok.tolist() == [1, 1, 0, 1, 1]


# -------------------------------------------------------------------------- npz files


def test_npz_round_trip(tmp_path):
    rec = small(units=["g", "rad/s"], name="n", citation="c", licence="l")
    for compress in (True, False):
        back = Recordings.load(rec.save(tmp_path / "r.npz", compress=compress))
        np.testing.assert_array_equal(back.X, rec.X)
        assert back.X.dtype == rec.X.dtype
        np.testing.assert_array_equal(back.y, rec.y)
        np.testing.assert_array_equal(back.groups, rec.groups)
        assert set(back.columns) == {"age", "site"}
        np.testing.assert_array_equal(back.columns["site"], rec.columns["site"])
        for key in ("fs", "channels", "classes", "units", "name", "citation", "licence"):
            assert getattr(back, key) == getattr(rec, key)
    assert [p.name for p in tmp_path.iterdir()] == ["r.npz"]


def test_bare_recordings_round_trip(tmp_path):
    rec = Recordings(np.ones((1, 1, 2)))
    back = Recordings.load(rec.save(tmp_path / "r.npz"))
    assert (back.y, back.groups, back.fs, back.channels, back.columns) == (None,) * 4 + ({},)


def test_a_failed_save_leaves_the_old_file(tmp_path, monkeypatch):
    rec = small()
    path = rec.save(tmp_path / "r.npz")
    before = path.read_bytes()

    def fail(stream, *rest):
        stream.write(b"half a file")
        raise OSError("disk full")

    monkeypatch.setattr(npz, "_write_zip", fail)
    with pytest.raises(FileError, match=r"r\.npz.*disk full"):
        rec.save(path)
    assert path.read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 1


def test_save_refuses_other_names_missing_folders_and_reserved_columns(tmp_path):
    with pytest.raises(InvalidInputError, match=r"\.npz"):
        small().save(tmp_path / "r.npy")
    with pytest.raises(FileError, match="does not exist"):
        small().save(tmp_path / "no" / "r.npz")
    with pytest.raises(InvalidInputError, match="rename"):
        small(columns={"fs": np.zeros(6)}).save(tmp_path / "r.npz")


# ---------------------------------------------------------------------------- windows


def slow_windows(signals, window, step, labels, rule):
    """Window by window, point by point."""
    X, y, source, start = [], [], [], []
    for k, signal in enumerate(signals):
        begin = 0
        while begin + window <= signal.shape[1]:
            part = labels[k][begin : begin + window]
            names, counts = np.unique(part, return_counts=True)
            if rule == "majority" or len(names) == 1:
                X.append(signal[:, begin : begin + window])
                y.append(names[counts == counts.max()][0])
                source.append(k)
                start.append(begin)
            begin += step
    return np.array(X), y, source, start


@settings(max_examples=40, deadline=None)
@given(
    lengths=st.lists(st.integers(8, 60), min_size=1, max_size=4),
    window=st.integers(1, 8),
    overlap=st.sampled_from([0.0, 0.25, 0.5, 0.9]),
    seed=st.integers(0, 100),
)
@pytest.mark.parametrize("rule", ["majority", "drop"])
def test_windows_match_a_slow_loop(rule, lengths, window, overlap, seed):
    rng = np.random.default_rng(seed)
    signals = [rng.standard_normal((2, length)) for length in lengths]
    labels = [np.sort(rng.integers(-1, 3, length)) for length in lengths]
    step = max(1, round(window * (1 - overlap)))
    X, y, source, start = slow_windows(signals, window, step, labels, rule)
    options = {"window": window, "overlap": overlap, "label_rule": rule}
    if not y:
        with pytest.raises(InvalidInputError, match="no window"):
            Recordings.from_signals(signals, labels=labels, **options)
        return
    rec = Recordings.from_signals(signals, labels=labels, groups=lengths, **options)
    np.testing.assert_array_equal(rec.X, X)
    assert rec.y.tolist() == y
    assert rec.columns["recording"].tolist() == source
    assert rec.columns["start"].tolist() == start
    assert rec.groups.tolist() == [lengths[k] for k in source]


def test_windows_in_seconds_text_labels_and_time_first():
    signals = [np.arange(60.0).reshape(30, 2), np.arange(50.0).reshape(25, 2)]
    rec = Recordings.from_signals(
        signals, fs=10, window_s=1, labels=["run", "sit"], time_axis=0, columns={"age": [30, 40]}
    )
    assert rec.X.shape == (5, 2, 10)
    assert rec.X[1, 1].tolist() == list(np.arange(21.0, 41.0, 2))
    assert rec.classes == ("run", "sit")
    assert rec.columns["age"].tolist() == [30, 30, 30, 40, 40]


def test_windows_keep_float32_and_take_one_channel_and_integers():
    assert Recordings.from_signals([np.ones(9, dtype="f4")], window=3).X.dtype == np.float32
    assert Recordings.from_signals([np.ones(9, dtype="i2")], window=3).X.shape == (3, 1, 3)


def test_short_signals():
    signals = [np.ones((1, 20)), np.ones((1, 4))]
    with pytest.raises(InvalidInputError, match=r"signals\[1\] has 4 points.*fewer than a window"):
        Recordings.from_signals(signals, window=10)
    rec = Recordings.from_signals(signals, window=10, short="drop", labels=[0, 1])
    assert rec.y.tolist() == [0, 0]
    with pytest.raises(InvalidInputError, match="no window of 30 points is left"):
        Recordings.from_signals(signals, window=30, short="drop")


@pytest.mark.parametrize(
    ("signals", "more", "message"),
    [
        ([], {"window": 2}, "no signals"),
        ([np.ones((2, 9))], {}, "give the length of windows once"),
        ([np.ones((2, 9))], {"window": 2, "window_s": 1}, "give the length of windows once"),
        ([np.ones((2, 9))], {"window_s": 1}, "needs fs"),
        ([np.ones((2, 9))], {"window_s": 0.01, "fs": 10}, "too short"),
        ([np.ones((2, 9))], {"window": 2.5}, "whole number"),
        ([np.ones((2, 9))], {"window": 2, "overlap": 1.0}, "overlap=1.0"),
        ([np.ones((2, 9))], {"window": 2, "label_rule": "first"}, "label_rule"),
        ([np.ones((2, 9))], {"window": 2, "short": "pad"}, "short"),
        ([np.ones((2, 9)), np.ones((3, 9))], {"window": 2}, r"signals\[1\] has 3 channels"),
        ([np.ones((2, 0))], {"window": 2}, "is empty"),
        ([np.ones((2, 2, 9))], {"window": 2}, "shape"),
        ([np.array(["a", "b"])], {"window": 2}, "real numbers are needed"),
        ([np.ones((2, 9))], {"window": 2, "labels": [0, 1]}, "labels has 2 entries for 1"),
        ([np.ones((2, 9))], {"window": 2, "labels": [np.zeros(8, int)]}, "has 9 points in time"),
        ([np.ones((2, 9))], {"window": 2, "groups": [0, 1]}, "groups has 2 entries for 1"),
        ([np.full((2, 9), np.nan)], {"window": 2}, "NaN"),
    ],
)
def test_bad_windows(signals, more, message):
    with pytest.raises(InvalidInputError, match=message):
        Recordings.from_signals(signals, **more)
