"""Annotations of EDF and WFDB files as labels and as segments."""

import datetime as dt

import numpy as np
import pytest

from tensorcontrast.errors import (
    DataNotFoundError,
    FileError,
    InvalidInputError,
    TensorContrastWarning,
)
from tensorcontrast.recordings import Recordings

edfio = pytest.importorskip("edfio", reason="needs tensorcontrast[data]")
wfdb = pytest.importorskip("wfdb", reason="needs tensorcontrast[data]")
STAGES = "Sleep stage (?P<label>[^?]*)"
NIGHT = [(0, 30, "Sleep stage W"), (30, 60, "Sleep stage 2"), (90, 15, "Sleep stage ?")]


def night(path, notes=(), seconds=120, fs=10, code="X", start=dt.time(23, 0), signals=True):
    path.parent.mkdir(exist_ok=True)
    values = np.random.default_rng(0).uniform(-90, 90, seconds * fs)
    signal = edfio.EdfSignal(values, fs, label="EEG", physical_range=(-100, 100))
    edfio.Edf(
        [signal] if signals else [],
        patient=edfio.Patient(code=code),
        annotations=[edfio.EdfAnnotation(*note) for note in notes] or None,
        recording=edfio.Recording(startdate=dt.date(2020, 1, 1)),
        starttime=start,
    ).write(path)
    return path


def test_annotations_are_labels(tmp_path):
    path = night(tmp_path / "a.edf", [*NIGHT, (45, 0, "Lights off")])
    rec = Recordings.read(path, window_s=20, labels=STAGES)
    assert rec.classes == ("2", "W")
    assert rec.y.tolist() == [1, -1, 0, 0, 0, -1]  # the second is half W, half 2
    assert rec.columns["start"].tolist() == [0, 200, 400, 600, 800, 1000]
    assert rec.columns["recording"].tolist() == ["a.edf"] * 6
    rec = Recordings.read(path, window_s=20, labels=STAGES, label_share=0.6)
    assert rec.y.tolist() == [1, -1, 0, 0, -1, -1]
    rec = Recordings.read(path, window_s=30, labels={"Sleep stage W": "wake"})
    assert (rec.classes, rec.y.tolist()) == (("wake",), [0, -1, -1, -1])
    rec = Recordings.read(path, window_s=30, labels="annotations")
    assert rec.classes == ("Sleep stage 2", "Sleep stage ?", "Sleep stage W")
    rec = Recordings.read(path, window_s=30, labels="Sleep stage [W2]")
    assert rec.classes == ("Sleep stage 2", "Sleep stage W")
    assert Recordings.read(path, window_s=30).y is None


def test_windows_only_inside_annotated_segments(tmp_path):
    path = night(tmp_path / "a.edf", [(5, 25, "a"), (30.05, 21, "b"), (60, 8, "a")])
    rec = Recordings.read(path, window_s=10, labels="annotations", inside_annotations=True)
    assert rec.columns["start"].tolist() == [50, 150, 301, 401]
    assert rec.y.tolist() == [0, 0, 1, 1]
    with pytest.raises(FileError, match="no labelled segment is as long as a window"):
        Recordings.read(path, window_s=30, labels="annotations", inside_annotations=True)
    with pytest.warns(TensorContrastWarning, match="left out 6 of 12 windows"):
        rec = Recordings.read(path, window_s=10, labels="annotations", drop_unlabelled=True)
    assert len(rec) == 6


def test_annotations_in_a_file_beside_the_recording(tmp_path):
    psg = night(tmp_path / "SC4001E0-PSG.edf")
    hypnogram = night(
        tmp_path / "SC4001EC-Hypnogram.edf", NIGHT, start=dt.time(23, 0, 30), signals=False
    )
    wanted = [-1, 1, 0, 0]  # the hypnogram starts 30 s later
    for place in (hypnogram, "SC4001EC-Hypnogram.edf", "*-Hypnogram.edf"):
        rec = Recordings.read(psg, window_s=30, labels=STAGES, annotations=place)
        assert rec.y.tolist() == wanted
    night(tmp_path / "SC4002E0-PSG.edf")
    night(tmp_path / "SC4002EC-Hypnogram.edf", NIGHT, signals=False)
    pattern = r"(?P<group>SC4\d\d)(?P<night>\d)"
    for options in ({}, {"annotations": "*-Hypnogram.edf"}):
        rec = Recordings.read(
            tmp_path,
            window_s=30,
            labels=STAGES,
            groups=pattern,
            **options,
        )
        assert rec.y.tolist() == [*wanted, 1, 0, 0, -1]
        assert set(rec.groups) == {"SC400"}
        assert rec.columns["night"].tolist() == ["1"] * 4 + ["2"] * 4
    assert len(Recordings.read(tmp_path, window_s=30)) == 8
    (tmp_path / "SC4001EC-Hypnogram.edf").unlink()
    with pytest.raises(FileError, match=r"SC4002EC.* of SC4001E0-PSG\.edf and of SC4002E0-PSG"):
        Recordings.read(tmp_path, window_s=30, labels=STAGES)
    with pytest.raises(DataNotFoundError, match="no such file with annotations"):
        Recordings.read(psg, window_s=30, labels=STAGES, annotations="none.edf")


def test_a_folder_of_edf_files_is_one_data_set(tmp_path):
    night(tmp_path / "d" / "a.edf", NIGHT, code="P1")
    night(tmp_path / "d" / "b.edf")
    with pytest.warns(TensorContrastWarning, match=r"1 of 2 recordings have no labels, .* b\.edf"):
        rec = Recordings.read(tmp_path / "d", window_s=60, labels=STAGES)
    assert rec.groups.tolist() == ["P1", "P1", "b", "b"]
    assert rec.y.tolist() == [-1, 0, -1, -1]  # the first is half W, half 2
    night(tmp_path / "d" / "b.edf", fs=20)
    with pytest.raises(FileError, match=r"\(10 Hz: 'a\.edf'; 20 Hz: 'b\.edf'\); pass resample=10"):
        Recordings.read(tmp_path / "d", window_s=60)
    night(tmp_path / "d" / "b.edf", seconds=50)
    with pytest.raises(FileError, match=r"b\.edf: it has 500 samples \(50 s\), fewer than"):
        Recordings.read(tmp_path / "d" / "*.edf", window_s=60)


@pytest.mark.parametrize(
    ("notes", "options", "message"),
    [
        (
            NIGHT,
            {"labels": "REM"},
            r"matches labels='REM'; there are 'Sleep stage W'",
        ),
        (NIGHT, {"labels": "("}, "is not a regular expression"),
        (NIGHT, {"annotations": "x.edf"}, "need labels="),
        (NIGHT, {"inside_annotations": True}, "need labels="),
        (NIGHT, {"drop_unlabelled": True}, "no labels were named"),
        (NIGHT, {"labels": STAGES, "label_share": 1.5}, "label_share|min_share"),
        ([], {"labels": STAGES}, r"a\.edf: has no annotations to take labels from"),
        ([(3, 0, "event")], {"labels": "event"}, "'event' have no duration"),
        ([(0, 20, "a"), (10, 20, "b")], {"labels": "annotations"}, "'b' at 10 s overlaps 'a'"),
        ([(500, 20, "a")], {"labels": "annotations"}, "outside the recording, which lasts 120 s"),
    ],
)
def test_bad_annotations(tmp_path, notes, options, message):
    path = night(tmp_path / "a.edf", notes)
    with pytest.raises((FileError, InvalidInputError), match=message):
        Recordings.read(path, window_s=20, **options)


def test_annotations_beyond_the_end_are_left_out_with_a_warning(tmp_path):
    path = night(tmp_path / "a.edf", [(0, 60, "a"), (60, 600, "b")])
    with pytest.warns(TensorContrastWarning, match=r"a\.edf: 1 of 2 labelled segments"):
        rec = Recordings.read(path, window_s=60, labels="annotations")
    assert rec.y.tolist() == [0, 1]


@pytest.fixture
def record(tmp_path):
    """Two minutes at 50 Hz: normal rhythm, then atrial fibrillation from 65 s on, and beats."""
    values = np.random.default_rng(0).uniform(-1, 1, (6000, 1))
    about = {"units": ["mV"], "sig_name": ["II"], "fmt": ["16"], "write_dir": str(tmp_path)}
    wfdb.wrsamp("r1", fs=50, p_signal=values, **about)
    wfdb.wrann(
        "r1",
        "atr",
        np.array([10, 50, 100, 3250, 3300]),
        symbol=["+", "N", "N", "+", "V"],
        aux_note=["(N", "", "", "(AFIB", ""],
        write_dir=str(tmp_path),
    )
    return tmp_path / "r1"


def test_rhythms_of_wfdb_records_are_segments(record):
    rec = Recordings.read(record, window_s=30, labels="annotations")
    assert rec.classes == ("AFIB", "N")
    assert rec.y.tolist() == [1, 1, 0, 0]
    assert rec.columns["record"].tolist() == ["r1"] * 4
    rec = Recordings.read(record, window_s=20, labels="AFIB", inside_annotations=True)
    assert rec.columns["start"].tolist() == [3250, 4250]
    rec = Recordings.read(record.parent / "*.hea", window_s=30, labels={"AFIB": "af"})
    assert rec.y.tolist() == [-1, -1, 0, 0]
    with pytest.raises(DataNotFoundError, match=r"r1\.qrs: no such file with annotations"):
        Recordings.read(record, window_s=30, labels="annotations", annotations="qrs")
    with pytest.raises(FileError, match=r"matches labels='VT'; there are 'N', 'AFIB'"):
        Recordings.read(record, window_s=30, labels="VT")
    raw = record.with_suffix(".atr").read_bytes()
    record.with_suffix(".atr").write_bytes(raw[:7])
    with pytest.raises(FileError, match=r"r1\.atr"):
        Recordings.read(record, window_s=30, labels="annotations")
