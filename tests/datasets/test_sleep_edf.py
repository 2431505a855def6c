import datetime
import os
from pathlib import Path

import numpy as np
import pytest

from tensorcontrast.datasets import load_sleep_edf
from tensorcontrast.datasets.sleep_edf import SLEEP_CHANNELS
from tensorcontrast.errors import (
    DamagedFileError,
    DataNotFoundError,
    FileError,
    ForeignFileError,
    InvalidInputError,
    TensorContrastWarning,
    TruncatedFileError,
)

edfio = pytest.importorskip("edfio", reason="needs tensorcontrast[data]")
REAL = os.environ.get("TENSORCONTRAST_DATA", "")
STAGES = ["W", "W", "1", "2", "2", "3", "4", "R", "?", "M", "W", "W"]
FAST = SLEEP_CHANNELS[:3]


@pytest.fixture(autouse=True)
def no_shared_folders(monkeypatch, tmp_path):
    monkeypatch.delenv("TENSORCONTRAST_DATA", raising=False)
    monkeypatch.setenv("TENSORCONTRAST_HOME", str(tmp_path / "home"))


def write_night(folder, name="SC4001", letter="E", stages=STAGES, seed=0, n_epochs=None, **hyp):
    """A PSG and a hypnogram as PhysioNet has them: EEG and EOG at 100 Hz, the rest at 1 Hz."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    n_epochs = len(stages) if n_epochs is None else n_epochs
    values, signals = {}, []
    for label in SLEEP_CHANNELS:
        rate = 100 if label in FAST else 1
        values[label] = rng.uniform(-90, 90, n_epochs * 30 * rate)
        signals.append(
            edfio.EdfSignal(
                values[label], rate, label=label, physical_dimension="uV", physical_range=(-99, 99)
            )
        )
    start = datetime.time(22, 0, 0)
    edfio.Edf(signals, starttime=start).write(folder / f"{name}{letter}0-PSG.edf")
    write_hypnogram(folder / f"{name}{letter}C-Hypnogram.edf", stages, starttime=start, **hyp)
    return values


def write_hypnogram(path, stages, starttime, offset=0.0):
    texts = [{"M": "Movement time"}.get(s, f"Sleep stage {s}") for s in stages]
    marks, k = [], 0
    while k < len(texts):  # one annotation for a run of equal epochs, as in the official files
        run = k
        while run < len(texts) and texts[run] == texts[k]:
            run += 1
        marks.append(edfio.EdfAnnotation(offset + 30.0 * k, 30.0 * (run - k), texts[k]))
        k = run
    edfio.Edf([], annotations=marks, starttime=starttime).write(path)


def test_epochs_stages_and_names(tmp_path):
    values = write_night(tmp_path)
    rec = load_sleep_edf(tmp_path)
    assert rec.X.shape == (10, 7, 3000)
    assert rec.X.dtype == np.float32
    assert rec.classes == ("W", "N1", "N2", "N3", "REM")
    assert rec.y.tolist() == [0, 0, 1, 2, 2, 3, 3, 4, 0, 0]  # stage 4 is N3; ? and M are dropped
    assert rec.columns["epoch"].tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 10, 11]
    assert set(rec.groups.tolist()) == {"SC400"}
    assert set(rec.columns["night"].tolist()) == {1}
    assert set(rec.columns["recording"].tolist()) == {"SC4001"}
    assert rec.channels == SLEEP_CHANNELS
    assert rec.units == ("uV",) * 7
    np.testing.assert_allclose(rec.X[8, 1], values["EEG Pz-Oz"][30000:33000], atol=0.005)
    slow = np.repeat(values["Temp rectal"][30 * 5 : 30 * 6], 100)
    np.testing.assert_allclose(rec.X[5, 5], slow, atol=0.005)
    assert "Kemp" in rec.citation
    assert rec.licence.startswith("ODC-By")


def test_channels_subjects_nights_and_studies(tmp_path):
    write_night(tmp_path / "sleep-cassette", "SC4001")
    write_night(tmp_path / "sleep-cassette", "SC4002", seed=1)
    write_night(tmp_path / "sleep-cassette", "SC4821", letter="G", seed=2)
    write_night(tmp_path / "sleep-telemetry", "ST7011", letter="J", seed=3)
    rec = load_sleep_edf(tmp_path, channels=["EOG horizontal", "EEG Fpz-Cz"])
    assert rec.X.shape == (30, 2, 3000)
    assert rec.channels == ("EOG horizontal", "EEG Fpz-Cz")
    assert rec.groups.tolist() == ["SC400"] * 20 + ["SC482"] * 10
    assert rec.columns["night"].tolist() == [1] * 10 + [2] * 10 + [1] * 10
    both = load_sleep_edf(tmp_path, study="both", channels=["EEG Fpz-Cz"])
    assert sorted(set(both.groups.tolist())) == ["SC400", "SC482", "ST701"]
    one = load_sleep_edf(tmp_path, subjects=[82], channels=["EEG Fpz-Cz"])
    assert set(one.groups.tolist()) == {"SC482"}
    file = tmp_path / "sleep-telemetry" / "ST7011J0-PSG.edf"
    assert set(load_sleep_edf(file).groups.tolist()) == {"ST701"}
    with pytest.raises(DataNotFoundError, match=r"subjects \[5\]"):
        load_sleep_edf(tmp_path, subjects=[5])


def test_trimming_of_long_wake(tmp_path):
    write_night(tmp_path, stages=["W"] * 10 + ["1", "2", "W", "2"] + ["W"] * 10)
    rec = load_sleep_edf(tmp_path, channels=["EEG Fpz-Cz"], wake_margin_minutes=1.5)
    assert rec.columns["epoch"].tolist() == list(range(7, 17))
    rec = load_sleep_edf(tmp_path, channels=["EEG Fpz-Cz"], wake_margin_minutes=0)
    assert rec.y.tolist() == [1, 2, 0, 2]
    assert len(load_sleep_edf(tmp_path, channels=["EEG Fpz-Cz"])) == 24


def test_unknown_stage_label(tmp_path):
    write_night(tmp_path, stages=["W", "W", "5"])
    with pytest.raises(
        DamagedFileError, match=r"SC4001EC-Hypnogram\.edf: unknown stage 'Sleep stage 5' at 60 s"
    ):
        load_sleep_edf(tmp_path)


def test_missing_channel_lists_those_there_are(tmp_path):
    write_night(tmp_path)
    with pytest.raises(FileError, match=r"PSG\.edf: no channel 'ECG'; there are 'EEG Fpz-Cz'"):
        load_sleep_edf(tmp_path, channels=["ECG"])


def test_hypnogram_longer_than_the_recording(tmp_path):
    write_night(tmp_path, stages=["W", "2", "2", "?", "?"], n_epochs=3)
    assert len(load_sleep_edf(tmp_path, channels=["EEG Fpz-Cz"])) == 3
    write_night(tmp_path, stages=["W", "2", "2", "2", "?"], n_epochs=3)
    with pytest.warns(TensorContrastWarning, match="1 epochs with a stage lie behind the end"):
        assert len(load_sleep_edf(tmp_path, channels=["EEG Fpz-Cz"])) == 3


def test_hypnogram_that_starts_later(tmp_path):
    write_night(tmp_path)
    hypnogram = tmp_path / "SC4001EC-Hypnogram.edf"
    write_hypnogram(hypnogram, ["2"] * 3, starttime=datetime.time(22, 1, 0))
    rec = load_sleep_edf(tmp_path, channels=["EEG Fpz-Cz"])
    assert rec.columns["epoch"].tolist() == [2, 3, 4]
    write_hypnogram(hypnogram, ["2"] * 3, starttime=datetime.time(22, 0, 7))
    with pytest.raises(DamagedFileError, match=r"starts at 7 s.*not a multiple of 30"):
        load_sleep_edf(tmp_path)
    write_hypnogram(hypnogram, ["2"] * 3, starttime=datetime.time(21, 0, 0))
    with pytest.raises(DamagedFileError, match="-3600"):
        load_sleep_edf(tmp_path)


def test_overlapping_stages(tmp_path):
    write_night(tmp_path)
    marks = [
        edfio.EdfAnnotation(0, 90, "Sleep stage W"),
        edfio.EdfAnnotation(60, 30, "Sleep stage 1"),
    ]
    edfio.Edf([], annotations=marks, starttime=datetime.time(22)).write(
        tmp_path / "SC4001EC-Hypnogram.edf"
    )
    with pytest.raises(DamagedFileError, match="'Sleep stage 1' at 60 s overlaps"):
        load_sleep_edf(tmp_path)


def test_no_stage_at_all(tmp_path):
    write_night(tmp_path, stages=["?", "M"])
    with pytest.raises(FileError, match="no epoch has a sleep stage"):
        load_sleep_edf(tmp_path)


def test_missing_partner_foreign_names_and_truncation(tmp_path):
    write_night(tmp_path)
    psg, hypnogram = tmp_path / "SC4001E0-PSG.edf", tmp_path / "SC4001EC-Hypnogram.edf"
    content = psg.read_bytes()
    psg.write_bytes(content[:-100])
    with pytest.raises(TruncatedFileError, match=r"SC4001E0-PSG\.edf"):
        load_sleep_edf(tmp_path)
    psg.write_bytes(content)
    hypnogram.write_bytes(hypnogram.read_bytes()[:300])
    with pytest.raises(TruncatedFileError, match=r"SC4001EC-Hypnogram\.edf"):
        load_sleep_edf(tmp_path)
    hypnogram.unlink()
    with pytest.raises(DataNotFoundError, match=r"needs one file SC4001\.\.-Hypnogram\.edf"):
        load_sleep_edf(tmp_path)
    psg.rename(tmp_path / "night1-PSG.edf")
    with pytest.raises(ForeignFileError, match="the name is not like SC4001E0-PSG"):
        load_sleep_edf(tmp_path)


def test_found_in_folders_or_told_where_to_put_files(tmp_path, monkeypatch):
    with pytest.raises(DataNotFoundError, match=r"(?s)physionet.*sleep-cassette.*into one of"):
        load_sleep_edf(download=False)
    write_night(tmp_path / "data" / "sleep-edf-database-expanded-1.0.0" / "sleep-cassette")
    monkeypatch.setenv("TENSORCONTRAST_DATA", str(tmp_path / "data"))
    assert len(load_sleep_edf(channels=["EEG Fpz-Cz"])) == 10


@pytest.mark.parametrize("bad", [{"study": "cd"}, {"wake_margin_minutes": -1}])
def test_bad_parameters(tmp_path, bad):
    with pytest.raises(InvalidInputError):
        load_sleep_edf(tmp_path, **bad)


@pytest.mark.data
@pytest.mark.skipif(not REAL, reason="TENSORCONTRAST_DATA is not set")
def test_real_sleep_epochs():
    file = Path(REAL) / "sleepedf_fpzcz_5s.npz"
    if not file.is_file():
        pytest.skip(f"{file} is not there")
    rec = load_sleep_edf(file)
    assert rec.X.shape == (28023, 1, 500)
    assert rec.units == "uV"
    assert "5 s" in rec.name
    # deep sleep has larger slow waves than REM
    spread = rec.X[:, 0].std(axis=1)
    assert np.median(spread[rec.y == 3]) > 1.5 * np.median(spread[rec.y == 4])
    assert set(load_sleep_edf(file, subjects=[0]).groups.tolist()) == {0}
    with pytest.raises(FileError, match="official EDF files"):
        load_sleep_edf(file, channels=["EEG Pz-Oz"])
    with pytest.raises(FileError, match="wake_margin_minutes"):
        load_sleep_edf(file, wake_margin_minutes=30)
