"""Recordings from and to MNE: rate, names, units, labels, groups and times survive."""

import subprocess
import sys

import numpy as np
import pytest

from tensorcontrast import Recordings
from tensorcontrast.errors import (
    InvalidInputError,
    InvalidTypeError,
    MissingDependencyError,
    TensorContrastWarning,
)


@pytest.fixture(scope="module")
def mne():
    return pytest.importorskip("mne", reason="needs the extra 'mne'")


def raw_of(mne, marks=(), *, seconds=20, fs=50, names=("Cz", "Pz", "STI"), first=0):
    types = ["stim" if name == "STI" else "eeg" for name in names]
    info = mne.create_info(list(names), fs, types)
    info["subject_info"] = {"his_id": "S07"}
    data = np.random.default_rng(0).normal(size=(len(names), seconds * fs)) * 1e-5
    raw = mne.io.RawArray(data, info, first_samp=first, verbose=False)
    if marks:
        raw.set_annotations(mne.Annotations(*(list(part) for part in zip(*marks, strict=True))))
    return raw


MARKS = ((0, 8, "Stage W"), (8, 12, "Stage 2"))


def test_a_raw_is_cut_and_labelled_by_its_annotations(mne):
    raw = raw_of(mne, MARKS)
    rec = Recordings.from_mne(raw, window_s=5, step_s=2.5)
    assert rec.classes == ("Stage 2", "Stage W")
    # 7.5 to 12.5 s holds half a second of W; 5 to 10 s three seconds
    assert [rec.classes[k] for k in rec.y] == ["Stage W"] * 3 + ["Stage 2"] * 4
    assert rec.columns["start"].tolist() == [0, 125, 250, 375, 500, 625, 750]
    assert (rec.fs, rec.channels, rec.units) == (50.0, ("Cz", "Pz"), "V")
    assert rec.groups.tolist() == ["S07"] * 7
    np.testing.assert_array_equal(rec.X[1], raw.get_data(picks=[0, 1])[:, 125:375])


def test_the_column_recording_names_the_file(mne, tmp_path):
    file = tmp_path / "night_raw.fif"
    raw_of(mne).save(file, verbose="ERROR")
    rec = Recordings.from_mne(mne.io.read_raw_fif(file, verbose="ERROR"), window_s=10)
    assert rec.columns["recording"].tolist() == ["night_raw"] * 2
    assert Recordings.from_mne(raw_of(mne), window_s=10).columns["recording"][0] == "S07"
    rec = Recordings.from_mne(raw_of(mne), window_s=10, name="nap")
    assert rec.columns["recording"].tolist() == ["nap"] * 2 and rec.name == "nap"


def test_onsets_count_from_the_first_sample_of_a_cropped_raw(mne):
    raw = raw_of(mne, MARKS)
    cropped = raw.copy().crop(tmin=5)
    rec = Recordings.from_mne(cropped, window_s=3)
    assert [rec.classes[k] for k in rec.y] == ["Stage W"] + ["Stage 2"] * 4
    late = Recordings.from_mne(raw_of(mne, MARKS, first=1000), window_s=4)
    assert [late.classes[k] for k in late.y] == ["Stage W"] * 2 + ["Stage 2"] * 3


def test_labels_by_mapping_and_by_pattern(mne):
    raw = raw_of(mne, MARKS)
    by_pattern = Recordings.from_mne(raw, window_s=4, labels="Stage (?P<label>.)")
    assert by_pattern.classes == ("2", "W")
    by_mapping = Recordings.from_mne(raw, window_s=4, labels={"Stage W": "wake"})
    assert by_mapping.classes == ("wake",) and by_mapping.y.tolist() == [0, 0, -1, -1, -1]
    with pytest.warns(TensorContrastWarning, match="left out 3 of 5 windows"):
        few = Recordings.from_mne(raw, window_s=4, labels={"Stage W": "wake"}, drop_unlabelled=True)
    assert few.y.tolist() == [0, 0]
    with pytest.raises(InvalidInputError, match=r"no annotation matches .*'Stage W', 'Stage 2'"):
        Recordings.from_mne(raw, window_s=4, labels="Sleep.*")


def test_a_window_takes_a_label_only_from_enough_time_and_never_from_a_tie(mne):
    marks = ((0, 2, "a"), (2, 2, "b"), (5, 1, "a"), (8, 3, "b"))
    raw = raw_of(mne, marks)
    rec = Recordings.from_mne(raw, window_s=4, group=3)
    assert rec.classes == ("b",) and rec.y.tolist() == [-1, -1, 0, -1, -1]
    assert Recordings.from_mne(raw, window_s=4, label_share=0.25).y.tolist() == [-1, 0, 1, -1, -1]
    assert rec.groups.tolist() == [3] * 5


def test_windows_that_touch_bad_annotations_are_dropped(mne):
    raw = raw_of(mne, (*MARKS, (7.9, 0.2, "BAD_blink"), (14, 0, "BAD boundary"), (16, 0, "EDGE")))
    rec = Recordings.from_mne(raw, window_s=4)
    assert rec.columns["start"].tolist() == [0, 800]
    assert rec.classes == ("Stage 2", "Stage W") and rec.y.tolist() == [1, 0]
    with pytest.raises(InvalidInputError, match="touch all 1 windows; take shorter"):
        Recordings.from_mne(raw, window_s=20)


def test_annotations_that_cannot_be_labels(mne):
    with pytest.warns(TensorContrastWarning, match=r"no duration.*mne\.Epochs"):
        assert Recordings.from_mne(raw_of(mne, ((1, 0, "go"),)), window_s=4).y is None
    with pytest.raises(InvalidInputError, match="overlaps"):
        Recordings.from_mne(raw_of(mne, ((0, 8, "a"), (4, 8, "b"))), window_s=4)
    assert Recordings.from_mne(raw_of(mne), window_s=4).y is None
    with pytest.raises(InvalidInputError, match="no annotations to take labels from"):
        Recordings.from_mne(raw_of(mne), window_s=4, labels="x")


def test_channels_are_chosen_by_name_or_pattern(mne):
    raw = raw_of(mne, names=("EEG Cz", "EEG Pz", "STI"))
    assert Recordings.from_mne(raw, window_s=4, channels=["EEG Pz"]).channels == ("EEG Pz",)
    raw.info["bads"] = ["EEG Cz"]
    assert Recordings.from_mne(raw, window_s=4).channels == ("EEG Pz",)
    assert Recordings.from_mne(raw, window_s=4, channels="EEG*").n_channels == 2
    with pytest.raises(InvalidInputError, match="no channel 'Oz'; there are 'EEG Cz'"):
        Recordings.from_mne(raw, window_s=4, channels=["Oz"])
    raw.info["bads"] = ["EEG Cz", "EEG Pz"]
    with pytest.raises(InvalidInputError, match="triggers or marked as bad; pass channels="):
        Recordings.from_mne(raw, window_s=4)


def test_windows_that_do_not_fit(mne):
    raw = raw_of(mne)
    with pytest.raises(InvalidInputError, match="fewer than a window of 1500 samples"):
        Recordings.from_mne(raw, window_s=30)
    with pytest.raises(InvalidInputError, match="step_s=5 must be above 0 and at most"):
        Recordings.from_mne(raw, window_s=4, step_s=5)
    with pytest.raises(InvalidInputError, match="step_s needs window_s"):
        Recordings.from_mne(raw, step_s=5)
    with pytest.raises(InvalidTypeError, match="a dict is neither a Raw nor Epochs"):
        Recordings.from_mne({})


# ------------------------------------------------------------------------------- Epochs


def epochs_of(mne, **more):
    pandas = pytest.importorskip("pandas")
    raw = raw_of(mne)
    events = np.array([[50, 0, 7], [200, 0, 2], [400, 0, 7], [600, 0, 9]])
    metadata = pandas.DataFrame({"rt": [0.5, 0.25, 0.75, 1.0], "hand": ["l", "r", None, "r"]})
    settings = {"tmin": -0.2, "tmax": 0.78, "baseline": None, "metadata": metadata} | more
    names = {"left": 7, "right": 2, "rest": 9}
    return mne.Epochs(raw, events, names, verbose=False, **settings)


def test_epochs_are_windows_with_events_as_labels(mne):
    epochs = epochs_of(mne)
    rec = Recordings.from_mne(epochs)
    assert rec.classes == ("right", "left", "rest") and rec.y.tolist() == [1, 0, 1, 2]
    assert rec.columns["start"].tolist() == [40, 190, 390, 590]
    assert rec.columns["rt"].tolist() == [0.5, 0.25, 0.75, 1.0]
    assert rec.columns["hand"].tolist() == ["l", "r", "", "r"]
    assert rec.groups.tolist() == ["S07"] * 4 and rec.units == "V"
    np.testing.assert_array_equal(rec.X, epochs.get_data(picks="eeg"))


def test_events_by_mapping_groups_by_column(mne):
    epochs = epochs_of(mne)
    rec = Recordings.from_mne(epochs, labels={"left": "move", "right": "move"}, group="hand")
    assert rec.classes == ("move",) and rec.y.tolist() == [0, 0, 0, -1]
    assert rec.groups.tolist() == ["l", "r", "", "r"] and "hand" not in rec.columns
    with pytest.warns(TensorContrastWarning, match="left out 1 of 4 windows"):
        few = Recordings.from_mne(epochs, labels="left|right", drop_unlabelled=True, group="S1")
    assert len(few) == 3 and few.groups.tolist() == ["S1"] * 3
    with pytest.raises(InvalidInputError, match="epochs are windows already"):
        Recordings.from_mne(epochs, window_s=1)
    with pytest.raises(InvalidInputError, match=r"labels='up'; there are 'left'"):
        Recordings.from_mne(epochs, labels="up")


def test_decimated_epochs_keep_their_start_times(mne):
    rec = Recordings.from_mne(epochs_of(mne).load_data().decimate(5, verbose="ERROR"))
    assert rec.fs == 10 and rec.columns["start"].tolist() == [8, 38, 78, 118]


def test_epochs_that_were_all_dropped_are_refused(mne):
    with pytest.raises(InvalidInputError, match=r"epochs\.drop_log"):
        Recordings.from_mne(epochs_of(mne, reject={"eeg": 1e-12}))


# ------------------------------------------------------------------------------- to MNE


def test_there_and_back(mne):
    raw = raw_of(mne, ((0, 8, "W"), (8, 6, "N2")))
    rec = Recordings.from_mne(raw, window_s=4, step_s=2)
    epochs = rec.to_mne()
    assert epochs.event_id == {"N2": 1, "W": 2, "unknown": 0}
    assert epochs.info["sfreq"] == 50 and epochs.info["subject_info"]["his_id"] == "S07"
    assert epochs.get_channel_types() == ["eeg", "eeg"]
    assert epochs.annotations.description.tolist()[:2] == ["W", "W"]
    np.testing.assert_allclose(epochs.annotations.onset, rec.columns["start"] / 50)
    back = Recordings.from_mne(epochs)
    np.testing.assert_array_equal(back.X, rec.X)
    assert back.classes == rec.classes and back.y.tolist() == rec.y.tolist()
    assert (back.fs, back.channels, back.units) == (rec.fs, rec.channels, rec.units)
    assert back.groups.tolist() == rec.groups.tolist()
    assert {k: v.tolist() for k, v in back.columns.items()} == {
        k: v.tolist() for k, v in rec.columns.items()
    }


def test_units_of_volts_become_volts_and_others_misc(mne):
    X = np.ones((2, 3, 10))
    rec = Recordings(X, [0, 1], fs=10, channels=["a", "b", "c"], units=["uV", "mV", "g"])
    epochs = rec.to_mne()
    np.testing.assert_allclose(epochs.get_data()[0, :, 0], [1e-6, 1e-3, 1])
    assert epochs.get_channel_types() == ["eeg", "eeg", "misc"]
    assert rec.to_mne(ch_types="ecg").get_channel_types() == ["ecg"] * 3
    assert epochs.event_id == {"0": 1, "1": 2}
    assert epochs.events[:, 0].tolist() == [0, 10]


def test_several_recordings_follow_one_another_in_time(mne):
    columns = {"recording": ["x", "x", "y", "y"], "start": [0, 5, 3, 8]}
    rec = Recordings(np.zeros((4, 1, 10)), fs=10, columns=columns)
    assert rec.to_mne().events[:, 0].tolist() == [0, 5, 18, 23]
    assert rec[[1, 0, 1, 3]].to_mne().events[:, 0].tolist() == [0, 10, 20, 30]
    assert Recordings.from_mne(rec.to_mne()).columns["start"].tolist() == [0, 5, 3, 8]


def test_what_mne_cannot_hold_is_refused(mne):
    with pytest.raises(InvalidInputError, match="needs a sampling rate"):
        Recordings(np.zeros((1, 1, 10))).to_mne()
    rec = Recordings(np.zeros((2, 1, 10)), ["unknown", None], fs=10)
    with pytest.raises(InvalidInputError, match="a class is named 'unknown'"):
        rec.to_mne()


def test_mne_is_imported_only_when_used(monkeypatch):
    code = (
        "import sys, numpy as np, tensorcontrast\n"
        "from tensorcontrast import Recordings\n"
        "Recordings(np.zeros((1, 1, 10)), fs=10)\n"
        "print([m for m in ('mne', 'polars') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
    monkeypatch.setitem(sys.modules, "mne", None)
    with pytest.raises(MissingDependencyError, match=r"tensorcontrast\[mne\]"):
        Recordings(np.zeros((1, 1, 10)), fs=10).to_mne()
