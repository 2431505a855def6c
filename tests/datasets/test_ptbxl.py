import csv
import os
from pathlib import Path

import numpy as np
import pytest

from tensorcontrast.datasets import load_ptbxl
from tensorcontrast.errors import (
    DamagedFileError,
    DataNotFoundError,
    FileError,
    ForeignFileError,
    InvalidInputError,
    TruncatedFileError,
)

wfdb = pytest.importorskip("wfdb", reason="needs tensorcontrast[data]")
REAL = os.environ.get("TENSORCONTRAST_DATA", "")
LEADS = "I II III AVR AVL AVF V1 V2 V3 V4 V5 V6".split()
STATEMENTS = [("NORM", "1.0", "NORM"), ("IMI", "1.0", "MI"), ("LVH", "1.0", "HYP")]
STATEMENTS += [("NDT", "1.0", "STTC"), ("SR", "", "")]
ROWS = [  # patient, sex, age, fold, codes
    ("15709.0", "1", "56.0", "3", "{'NORM': 100.0, 'SR': 0.0}"),
    ("15709.0", "1", "57.0", "3", "{'IMI': 35.0}"),
    ("", "0", "", "9", "{'LVH': 50.0, 'NDT': 100.0, 'SR': 0.0}"),
    ("77.0", "0", "300.0", "10", "{'LVH': 100.0, 'NDT': 100.0}"),
    ("78.0", "0", "40.0", "10", "{'SR': 0.0}"),
    ("", "0", "33.0", "1", "{'LVH': 0.0}"),
]


@pytest.fixture(autouse=True)
def no_shared_folders(monkeypatch, tmp_path):
    monkeypatch.delenv("TENSORCONTRAST_DATA", raising=False)
    monkeypatch.setenv("TENSORCONTRAST_HOME", str(tmp_path / "home"))


def write_tables(folder, rows=ROWS):
    with (folder / "scp_statements.csv").open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["", "description", "diagnostic", "diagnostic_class"])
        writer.writerows([(code, "text", d, name) for code, d, name in STATEMENTS])
    head = "ecg_id patient_id age sex report scp_codes strat_fold filename_lr filename_hr".split()
    with (folder / "ptbxl_database.csv").open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(head)
        for k, (patient, sex, age, fold, codes) in enumerate(rows, start=1):
            names = (f"records100/00000/{k:05}_lr", f"records500/00000/{k:05}_hr")
            writer.writerow([k, patient, age, sex, "ö", codes, fold, *names])


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The official layout, with six records."""
    folder = tmp_path_factory.mktemp("built") / "ptb-xl"
    values = np.random.default_rng(0).uniform(-3, 3, (6, 12, 5000))
    for rate, suffix in ((100, "lr"), (500, "hr")):
        place = folder / f"records{rate}" / "00000"
        place.mkdir(parents=True)
        for k in range(6):
            wfdb.wrsamp(
                f"{k + 1:05}_{suffix}",
                fs=rate,
                units=["mV"] * 12,
                sig_name=LEADS,
                p_signal=values[k, :, : 10 * rate].T,
                fmt=["16"] * 12,
                adc_gain=[1000.0] * 12,
                baseline=[0] * 12,
                write_dir=str(place),
            )
    write_tables(folder)
    return folder, values


@pytest.fixture
def official(built, tmp_path):
    """A copy that a test may damage."""
    folder, values = built
    copy = tmp_path / "ptb-xl"
    for file in folder.rglob("*"):
        if file.is_file():
            target = copy / file.relative_to(folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(file.read_bytes())
    return copy, values


def test_superclass_of_records_with_one(built):
    folder, values = built
    rec = load_ptbxl(folder)
    assert rec.columns["ecg_id"].tolist() == [1, 2, 6]
    assert [rec.classes[y] for y in rec.y] == ["NORM", "MI", "HYP"]
    np.testing.assert_allclose(rec.X, values[[0, 1, 5], :, :1000], atol=6e-4)
    assert rec.X.dtype == np.float32
    assert rec.columns["fold"].tolist() == [3, 3, 1]
    assert rec.columns["sex"].tolist() == [1, 1, 0]
    assert rec.columns["age"].tolist() == [56, 57, 33]
    assert rec.groups[0] == rec.groups[1] == 15709
    assert rec.groups[2] < 0
    assert (rec.fs, rec.units, rec.channels) == (100.0, "mV", tuple(LEADS))
    assert "Wagner" in rec.citation
    assert rec.licence == "CC BY 4.0"


def test_several_superclasses_by_likelihood_and_ties_dropped(built):
    rec = load_ptbxl(built[0], several="likelihood")
    assert rec.columns["ecg_id"].tolist() == [1, 2, 3, 6]
    assert rec.classes[rec.y[2]] == "STTC"


def test_sex_folds_leads_and_500_hz(built):
    folder, values = built
    rec = load_ptbxl(folder, target="sex", folds=[9, 10], sampling_rate=500, channels=["V2", "I"])
    assert rec.columns["ecg_id"].tolist() == [3, 4, 5]
    assert rec.classes == ("male", "female")
    assert rec.y.tolist() == [0, 0, 0]
    assert rec.fs == 500.0
    np.testing.assert_allclose(rec.X, values[2:5][:, [7, 0]], atol=6e-4)
    assert np.isnan(rec.columns["age"][0])
    assert len(set(load_ptbxl(folder, target="sex").groups.tolist())) == 5


def test_codes_are_data_not_programs(official, tmp_path):
    folder, _ = official
    flag = tmp_path / "flag"
    evil = f"__import__('pathlib').Path({str(flag)!r}).touch()"
    write_tables(folder, [("1", "1", "5", "1", evil)])
    with pytest.raises(DamagedFileError, match="ecg_id 1: scp_codes is"):
        load_ptbxl(folder)
    assert not flag.exists()


@pytest.mark.parametrize("codes", ["", "{'NORM'", "['NORM']", "{'NORM': 'x'}", "7"])
def test_bad_codes(official, codes):
    folder, _ = official
    write_tables(folder, [("1", "1", "5", "1", codes)])
    with pytest.raises(DamagedFileError, match=r"ptbxl_database\.csv ecg_id 1"):
        load_ptbxl(folder)


def test_bad_tables(official):
    folder, _ = official
    table = folder / "ptbxl_database.csv"
    content = table.read_text()
    table.write_text(content[:-40])
    with pytest.raises(DamagedFileError, match="ecg_id 6: filename_hr"):
        load_ptbxl(folder)
    table.write_text(content.replace("strat_fold", "fold"))
    with pytest.raises(ForeignFileError, match="strat_fold"):
        load_ptbxl(folder)
    table.write_text(content.splitlines()[0] + "\n")
    with pytest.raises(DamagedFileError, match="no records"):
        load_ptbxl(folder)
    table.write_text(content.replace(",1,ö", ",?,ö", 1))
    with pytest.raises(DamagedFileError, match="ecg_id 1: sex"):
        load_ptbxl(folder)
    table.write_text(content)
    with pytest.raises(FileError, match="no record is left"):
        load_ptbxl(folder, folds=[7])
    statements = folder / "scp_statements.csv"
    statements.write_text("a,b\n1,2\n")
    with pytest.raises(ForeignFileError, match=r"scp_statements\.csv"):
        load_ptbxl(folder)
    statements.unlink()
    with pytest.raises(DataNotFoundError, match=r"scp_statements\.csv"):
        load_ptbxl(folder)


def test_bad_records(official):
    folder, _ = official
    data = folder / "records100" / "00000" / "00002_lr.dat"
    content = data.read_bytes()
    data.write_bytes(content[:-24])
    with pytest.raises(TruncatedFileError, match=r"00002_lr\.dat"):
        load_ptbxl(folder)
    data.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(DamagedFileError, match="checksum of signal 'V6'"):
        load_ptbxl(folder)
    data.unlink()
    with pytest.raises(DataNotFoundError, match=r"00002_lr\.dat"):
        load_ptbxl(folder)
    with pytest.raises(FileError, match="no channel 'V7'; there are 'I'"):
        load_ptbxl(folder, channels=["V7"])


def test_found_or_told_where_to_put_files(official, tmp_path, monkeypatch):
    assert len(load_ptbxl(tmp_path)) == 3
    assert len(load_ptbxl(data_home=tmp_path)) == 3
    monkeypatch.setenv("TENSORCONTRAST_DATA", str(tmp_path))
    assert len(load_ptbxl(download=False)) == 3
    monkeypatch.delenv("TENSORCONTRAST_DATA")
    with pytest.raises(DataNotFoundError, match=r"(?s)physionet.*TENSORCONTRAST_DATA"):
        load_ptbxl(download=False)
    with pytest.raises(DataNotFoundError, match=r"ptbxl_database\.csv"):
        load_ptbxl(tmp_path / "ptb-xl" / "records100")


@pytest.mark.parametrize("bad", [{"target": "age"}, {"several": "first"}, {"sampling_rate": 250}])
def test_bad_parameters(built, bad):
    with pytest.raises(InvalidInputError):
        load_ptbxl(built[0], **bad)


@pytest.mark.data
@pytest.mark.skipif(not REAL, reason="TENSORCONTRAST_DATA is not set")
def test_real_official_records():
    folder = Path(REAL) / "ptbxl_official_sample"
    if not folder.is_dir():
        pytest.skip(f"{folder} is not there")
    rec = load_ptbxl(folder)
    assert rec.X.shape == (52, 12, 1000)
    assert np.bincount(rec.y, minlength=5).tolist() == [41, 1, 5, 4, 1]
    # Einthoven: lead II = lead I + lead III
    np.testing.assert_allclose(rec.X[:, 1], rec.X[:, 0] + rec.X[:, 2], atol=2.1e-3)
    everyone = load_ptbxl(folder, target="sex")
    assert len(everyone) == 60
    first = wfdb.rdrecord(str(folder / "records100" / "00000" / "00001_lr"))
    np.testing.assert_allclose(everyone.X[0], first.p_signal.T, atol=1e-6)


@pytest.mark.data
@pytest.mark.skipif(not REAL, reason="TENSORCONTRAST_DATA is not set")
def test_real_npz():
    file = Path(REAL) / "ptbxl_100hz.npz"
    if not file.is_file():
        pytest.skip(f"{file} is not there")
    rec = load_ptbxl(file, target="sex", channels=["II", "V5"])
    assert rec.X.shape == (7804, 2, 1000)
    assert rec.classes == ("male", "female")
    np.testing.assert_array_equal(rec.y, rec.columns["sex"])
    assert rec.units == "mV"
    with pytest.raises(FileError, match="official folder"):
        load_ptbxl(file, sampling_rate=500)
