"""EDF, BDF and WFDB files, written here by the libraries of the formats."""

import math
import sys

import numpy as np
import pytest

from tensorcontrast.errors import (
    DamagedFileError,
    DataNotFoundError,
    FileError,
    ForeignFileError,
    MissingDependencyError,
    TensorContrastWarning,
    TruncatedFileError,
)
from tensorcontrast.readers import wfdb_records
from tensorcontrast.recordings import Recordings

edfio = pytest.importorskip("edfio", reason="needs tensorcontrast[data]")
wfdb = pytest.importorskip("wfdb", reason="needs tensorcontrast[data]")
RNG = np.random.default_rng(0)


def edf_signal(values, fs, label, kind=edfio.EdfSignal):
    return kind(values, fs, label=label, physical_dimension="uV", physical_range=(-100, 100))


@pytest.fixture
def edf(tmp_path):
    """Ten seconds: two channels at 50 Hz and one at 1 Hz."""
    values = RNG.uniform(-90, 90, (2, 500))
    slow = RNG.uniform(-90, 90, 10)
    path = tmp_path / "r.edf"
    signals = [edf_signal(values[0], 50, "EEG A"), edf_signal(values[1], 50, "EEG B")]
    edfio.Edf([*signals, edf_signal(slow, 1, "Temp")]).write(path)
    return path, values


def test_edf_whole_and_in_windows(edf):
    path, values = edf
    rec = Recordings.read(path, channels=["EEG A", "EEG B"])
    step = 200 / 65535  # of 16 bits
    assert rec.X.shape == (1, 2, 500)
    np.testing.assert_allclose(rec.X[0], values, atol=step)
    assert (rec.fs, rec.units, rec.channels) == (50.0, "uV", ("EEG A", "EEG B"))
    rec = Recordings.read(path, channels=["EEG B"], window_s=2, overlap=0.5)
    assert rec.X.shape == (9, 1, 100)
    np.testing.assert_allclose(rec.X[3, 0], values[1, 150:250], atol=step)


def write_edf(path, seconds=60, code="X", fs=10, seed=0):
    values = np.random.default_rng(seed).uniform(-90, 90, seconds * fs)
    patient = edfio.Patient(code=code)
    edfio.Edf([edf_signal(values, fs, "EEG A")], patient=patient).write(path)
    return path


def test_long_recordings_are_cut_by_a_stated_default(tmp_path):
    path = write_edf(tmp_path / "night.edf", seconds=65)
    with pytest.warns(TensorContrastWarning, match=r"night\.edf: .*10 s, the default.*window_s="):
        rec = Recordings.read(path)
    assert rec.X.shape == (6, 1, 100)
    assert Recordings.read(path, window_s=math.inf).X.shape == (1, 1, 650)
    assert Recordings.read(path, window_s=30).X.shape == (2, 1, 300)
    assert Recordings.read(write_edf(tmp_path / "clip.edf", seconds=19)).X.shape == (1, 1, 190)
    slow = write_edf(tmp_path / "slow.edf", seconds=600, fs=1)
    assert Recordings.read(slow).X.shape == (1, 1, 600)
    record = write_record(tmp_path, "r", RNG.uniform(-2, 2, (2, 50 * 25)))
    with pytest.warns(TensorContrastWarning, match="10 s, the default"):
        assert Recordings.read(record).X.shape == (2, 2, 500)
    assert Recordings.read(record, window_s=math.inf).X.shape == (1, 2, 1250)


@pytest.mark.parametrize(
    ("field", "group"),
    [
        ("P07 F 02-MAY-1951 Someone", "P07"),
        ("P07 X X X", "P07"),
        ("X F X Female_33yr", "file"),
        ("", "file"),
        ("Jane Doe, born 1951", "file"),  # plain EDF: free text
    ],
)
def test_the_patient_code_is_the_group(tmp_path, field, group):
    path = write_edf(tmp_path / "file.edf")
    content = path.read_bytes()
    path.write_bytes(content[:8] + field.encode().ljust(80) + content[88:])
    assert Recordings.read(path, window_s=10).groups.tolist() == [group] * 6
    assert Recordings.read(path, window_s=math.inf).groups.tolist() == [group]


def test_bdf(tmp_path):
    values = RNG.uniform(-90, 90, 200)
    edfio.Bdf([edf_signal(values, 20, "A", edfio.BdfSignal)]).write(tmp_path / "r.bdf")
    rec = Recordings.read(tmp_path / "r.bdf")
    np.testing.assert_allclose(rec.X[0, 0], values, atol=1e-4)
    content = (tmp_path / "r.bdf").read_bytes()
    (tmp_path / "r.bdf").write_bytes(content[:-3])
    with pytest.raises(TruncatedFileError, match=r"r\.bdf"):
        Recordings.read(tmp_path / "r.bdf")


def test_edf_channels(edf, tmp_path):
    path, values = edf
    with pytest.raises(FileError, match=r"several sampling rates.*'Temp' 1 Hz.*channels="):
        Recordings.read(path)
    with pytest.raises(FileError, match=r"no channel 'EMG'; there are 'EEG A', 'EEG B', 'Temp'"):
        Recordings.read(path, channels=["EMG"])
    twice = tmp_path / "t.edf"
    edfio.Edf([edf_signal(values[0], 50, "A"), edf_signal(values[1], 50, "A")]).write(twice)
    with pytest.raises(FileError, match="'A' is there more than once"):
        Recordings.read(twice)


def test_edf_signals_of_several_rates_are_brought_to_one(edf):
    path = edf[0]
    with pytest.raises(FileError, match=r"resample=50"):
        Recordings.read(path, window_s=2)
    rec = Recordings.read(path, window_s=2, resample=50)
    assert (rec.fs, rec.channels) == (50, ("EEG A", "EEG B", "Temp"))
    plain = Recordings.read(path, window_s=2, channels=["EEG A", "EEG B"])
    np.testing.assert_array_equal(rec.X[:, :2], plain.X)
    slow = Recordings.read(path, channels=["Temp"], window_s=2)
    np.testing.assert_allclose(rec.X[:, 2, ::50], slow.X[:, 0], rtol=0.02, atol=0.1)


def test_edf_too_short_for_a_window(edf):
    with pytest.raises(FileError, match=r"r\.edf.*fewer than a window"):
        Recordings.read(edf[0], channels=["EEG A"], window_s=11)


def test_every_truncation_of_an_edf_is_an_error(edf):
    path, _ = edf
    content = path.read_bytes()
    for size in [*range(0, 1200, 97), len(content) // 2, len(content) - 104, len(content) - 1]:
        path.write_bytes(content[:size])
        with pytest.raises(FileError, match=r"r\.edf"):
            Recordings.read(path, channels=["EEG A"])
    path.write_bytes(content + b"more")
    with pytest.raises(TruncatedFileError, match="header says 10 data records"):
        Recordings.read(path, channels=["EEG A"])


def test_foreign_and_damaged_edf(edf):
    path, _ = edf
    content = path.read_bytes()
    path.write_bytes(b"RIFF" + content[4:])
    with pytest.raises(ForeignFileError, match="does not start like an EDF"):
        Recordings.read(path)
    for place, junk in [(184, b"many"), (236, b"-7  "), (252, b"0   "), (252, b"9999")]:
        damaged = bytearray(content)
        damaged[place : place + 4] = junk
        path.write_bytes(bytes(damaged))
        with pytest.raises(FileError, match=r"r\.edf"):
            Recordings.read(path)


def test_random_damage_of_an_edf_header_never_escapes(edf):
    path, _ = edf
    content = path.read_bytes()
    rng = np.random.default_rng(1)
    refused = 0
    for _ in range(150):
        damaged = bytearray(content)
        for place in rng.integers(0, 1024, 3):
            damaged[place] = rng.integers(0, 256)
        path.write_bytes(bytes(damaged))
        try:
            Recordings.read(path, channels=["EEG A"])
        except FileError as error:
            assert "r.edf" in str(error)
            refused += 1
    assert refused > 20


def test_edf_that_was_never_closed(edf):
    path, values = edf
    content = bytearray(path.read_bytes())
    content[236:244] = b"-1      "
    path.write_bytes(bytes(content))
    with pytest.warns(TensorContrastWarning, match="not closed.*all 10 data records"):
        rec = Recordings.read(path, channels=["EEG A"])
    np.testing.assert_allclose(rec.X[0, 0], values[0], atol=0.01)


def test_edf_with_annotations_only(tmp_path):
    path = tmp_path / "h.edf"
    edfio.Edf([], annotations=[edfio.EdfAnnotation(0, 30, "x")]).write(path)
    with pytest.raises(FileError, match="annotations only"):
        Recordings.read(path)


def test_edf_with_gaps_is_refused(tmp_path):
    path = tmp_path / "gap.edf"
    signal = edf_signal(RNG.uniform(-90, 90, 100), 10, "A")
    edfio.Edf([signal], annotations=[edfio.EdfAnnotation(0, None, "x")]).write(path)
    content = path.read_bytes()
    content = content.replace(b"EDF+C", b"EDF+D").replace(b"+5\x14\x14", b"+7\x14\x14")
    path.write_bytes(content)
    with pytest.raises(FileError, match="has gaps"):
        Recordings.read(path)


@pytest.mark.parametrize(("module", "name"), [("edfio", "r.edf"), ("wfdb", "r.hea")])
def test_missing_packages_name_the_extra(tmp_path, monkeypatch, module, name):
    (tmp_path / name).write_text("x")
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'tensorcontrast\[data\]'"):
        Recordings.read(tmp_path / name)


# ---------------------------------------------------------------------------------- WFDB


def write_record(folder, name, values, fs=50, names=("I", "II"), fmt="16"):
    folder.mkdir(parents=True, exist_ok=True)
    wfdb.wrsamp(
        name,
        fs=fs,
        units=["mV"] * len(names),
        sig_name=list(names),
        p_signal=values.T,
        fmt=[fmt] * len(names),
        adc_gain=[1000.0] * len(names),
        baseline=[0] * len(names),
        write_dir=str(folder),
    )
    return folder / name


@pytest.fixture
def records(tmp_path):
    values = RNG.uniform(-2, 2, (3, 2, 200))
    for k in range(3):
        write_record(tmp_path / "db" / f"p{k}", f"r{k}", values[k])
    return tmp_path / "db", values


def test_wfdb_record_by_any_of_its_names(records):
    folder, values = records
    for name in ("r1", "r1.hea", "r1.dat"):
        rec = Recordings.read(folder / "p1" / name)
        np.testing.assert_allclose(rec.X[0], values[1], atol=6e-4)
    assert (rec.fs, rec.units, rec.channels) == (50.0, "mV", ("I", "II"))


@pytest.mark.parametrize("fmt", ["16", "24", "32", "80", "212"])
def test_wfdb_formats_equal_what_wfdb_reads(tmp_path, fmt):
    values = RNG.uniform(-0.1, 0.1, (2, 101))
    path = write_record(tmp_path, "r", values, fmt=fmt)
    rec = Recordings.read(path)
    np.testing.assert_allclose(rec.X[0], wfdb.rdrecord(str(path)).p_signal.T, rtol=1e-6)


def test_the_quick_way_equals_wfdb(tmp_path, monkeypatch):
    values = RNG.uniform(-3, 3, (2, 301))
    values[0, 5] = np.nan
    path = write_record(tmp_path, "r", values)
    header = path.with_suffix(".hea")
    text = header.read_text() + "# a comment\n"
    for gain in ("1000.0(0)/mV", "1000(-7)/uV", "250", "1000.0/mV"):
        header.write_text(text.replace("1000.0(0)/mV", gain))
        quick = wfdb_records.read_record(path, verify=False)
        with monkeypatch.context() as patch:
            patch.setattr(wfdb_records, "_read_plain", lambda *args: None)
            slow = wfdb_records.read_record(path, verify=False)
        theirs = wfdb.rdrecord(str(path))
        np.testing.assert_allclose(quick.signals, theirs.p_signal.T, rtol=1e-6)
        np.testing.assert_array_equal(quick.signals, slow.signals)
        assert quick.channels == slow.channels == tuple(theirs.sig_name)
        assert quick.units == slow.units == tuple(theirs.units)
        assert quick.fs == slow.fs == theirs.fs


def test_wfdb_folder(records):
    folder, values = records
    rec = Recordings.read(folder)
    np.testing.assert_allclose(rec.X, values, atol=6e-4)
    assert rec.columns["record"].tolist() == ["p0/r0", "p1/r1", "p2/r2"]
    (folder / "RECORDS").write_text("p2/r2\np0/r0\n")
    rec = Recordings.read(folder, channels=["II"], window_s=1)
    assert rec.X.shape == (8, 1, 50)
    assert rec.columns["record"].tolist() == ["p2/r2"] * 4 + ["p0/r0"] * 4
    np.testing.assert_allclose(rec.X[5, 0], values[0, 1, 50:100], atol=6e-4)


def test_wfdb_records_that_do_not_fit(records):
    folder, values = records
    write_record(folder / "p3", "r3", values[0, :, :90])
    with pytest.raises(FileError, match=r"r3 has 90 samples, but p0/r0 has 200.*window_s="):
        Recordings.read(folder)
    assert len(Recordings.read(folder, window=45)) == 14
    write_record(folder / "p3", "r3", values[0], fs=60)
    with pytest.raises(FileError, match=r"60 Hz: 'p3/r3'\); pass resample=50"):
        Recordings.read(folder)
    rec = Recordings.read(folder, resample=50, window=40)
    assert rec.fs == 50 and {n.item() for n in rec.columns["record"]} >= {"p0/r0", "p3/r3"}
    with pytest.raises(FileError, match=r"r1\.hea: no channel 'V9'; there are 'I', 'II'"):
        Recordings.read(folder / "p1" / "r1", channels=["V9"])


def test_missing_signal_file(records):
    folder, _ = records
    (folder / "p0" / "r0.dat").unlink()
    with pytest.raises(DataNotFoundError, match=r"r0\.dat.*r0\.hea names it"):
        Recordings.read(folder / "p0" / "r0.hea")
    with pytest.raises(DataNotFoundError, match=r"none\.hea"):
        Recordings.read(folder / "none.hea")


def test_truncated_and_damaged_wfdb(records):
    folder, _ = records
    data = folder / "p0" / "r0.dat"
    content = data.read_bytes()
    for size in (0, 1, 400, len(content) - 1):
        data.write_bytes(content[:size])
        with pytest.raises(TruncatedFileError, match=r"r0\.dat: has .* 200 points = 800 bytes"):
            Recordings.read(data)
    data.write_bytes(content + bytes(4))
    with pytest.raises(TruncatedFileError):
        Recordings.read(data)
    data.write_bytes(bytes([content[0] ^ 1]) + content[1:])
    with pytest.raises(DamagedFileError, match="checksum of signal 'I'"):
        Recordings.read(data)


@pytest.mark.parametrize(
    "text", ["", "nonsense", "r0 2\n", "r0 2 50 200\nr0.dat 16 x\n", "\x00\xff"]
)
def test_damaged_wfdb_header(records, text):
    folder, _ = records
    (folder / "p0" / "r0.hea").write_text(text)
    with pytest.raises(FileError, match="r0"):
        Recordings.read(folder / "p0" / "r0.hea")


@pytest.mark.parametrize("fmt", ["16", "212"])
def test_no_truncated_wfdb_header_gives_other_signals(tmp_path, fmt):
    path = write_record(tmp_path, "r", RNG.uniform(-1, 1, (2, 30)), names=("I", "V2"), fmt=fmt)
    header = path.with_suffix(".hea")
    content = header.read_bytes()
    whole = Recordings.read(path)
    accepted = 0
    for size in range(len(content)):
        header.write_bytes(content[:size])
        try:
            rec = Recordings.read(path)
        except FileError as error:
            assert "r" in str(error)
            continue
        accepted += 1
        np.testing.assert_array_equal(rec.X, whole.X)
    assert accepted <= 2  # without the last line end, or within the last name


def test_wfdb_header_without_names(tmp_path):
    path = write_record(tmp_path, "r", RNG.uniform(-1, 1, (2, 30)))
    header = path.with_suffix(".hea")
    lines = header.read_text().splitlines()
    header.write_text("\n".join([lines[0], *(" ".join(x.split()[:3]) for x in lines[1:])]) + "\n")
    assert Recordings.read(path).channels == ("signal 0", "signal 1")


def test_wfdb_missing_values_become_nan(tmp_path):
    values = RNG.uniform(-1, 1, (2, 50))
    values[1, 7] = np.nan
    path = write_record(tmp_path, "r", values)
    with pytest.raises(FileError, match=r"channel 1 \(II\) holds 1 NaN"):
        Recordings.read(path)
    assert np.isnan(Recordings.read(path, allow_nan=True).X[0, 1, 7])


# ---------------------------------------------------------------------------- forged EDF


EDF_FIELDS = {"records": (236, 8), "duration": (244, 8), "patient": (8, 80)}
EDF_SIGNAL = ("label", "transducer", "unit", "low", "high", "digital low", "digital high")
EDF_SIZES = (16, 80, 8, 8, 8, 8, 8)


def forged_edf(source, target, **changes):
    """Copy of an EDF file with other fields in the header; those of signals are of the first."""
    raw = bytearray(source.read_bytes())
    signals, at = int(raw[252:256]), 256
    fields = dict(EDF_FIELDS)
    for name, size in zip(EDF_SIGNAL, EDF_SIZES, strict=True):
        fields[name] = at, size
        at += size * signals
    for name, value in changes.items():
        at, size = fields[name.replace("_", " ")]
        raw[at : at + size] = value.ljust(size)
    target.write_bytes(raw)
    return target


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"records": b"99999999"}, "99999999 data records"),
        ({"records": b"1e9"}, "not a number"),
        ({"records": b"1_0"}, "not a number"),
        ({"records": b"-7"}, "-7 data records"),
        ({"duration": b"0"}, "duration of a data record"),
        ({"duration": b"-1"}, "duration of a data record"),
        ({"duration": b"nan"}, "duration of a data record"),
        ({"duration": b"inf"}, "duration of a data record"),
        ({"duration": b"1e-300"}, "duration of a data record"),
        ({"duration": b"1e300"}, "duration of a data record"),
        ({"duration": b"\x1b[2J"}, "duration of a data record"),
        ({"digital_low": b"9", "digital_high": b"-9"}, "how to scale channel"),
        ({"digital_low": b"9", "digital_high": b"9"}, "how to scale channel"),
        ({"digital_low": b"nan"}, "how to scale channel"),
        ({"low": b"inf"}, "how to scale channel"),
        ({"high": b"1e308"}, "range of float32"),
    ],
)
def test_forged_edf_headers_are_refused(edf, tmp_path, change, words):
    path, _ = edf
    with pytest.raises(FileError, match=words) as info:
        Recordings.read(forged_edf(path, tmp_path / "forged.edf", **change), channels=["EEG A"])
    assert "forged.edf" in str(info.value) and str(info.value).isprintable()


def test_names_in_edf_headers_are_shown_harmlessly(edf, tmp_path):
    path, _ = edf
    forged = forged_edf(
        path, tmp_path / "f.edf", label=b"\x1b[2J<b>", unit=b"\x1b[31m", patient=b"\x1b]0;x\x07"
    )
    rec = Recordings.read(forged, channels=["\x1b[2J<b>"])
    assert rec.channels == ("\x1b[2J<b>",)
    assert repr(rec).isprintable()
    with pytest.raises(FileError, match=r"no channel 'Oz'; there are '\\x1b\[2J<b>'") as info:
        Recordings.read(forged, channels=["Oz"])
    assert str(info.value).isprintable()


def test_control_characters_in_edf_annotations_do_no_harm(tmp_path):
    edfio = pytest.importorskip("edfio", reason="needs tensorcontrast[data]")
    from tensorcontrast.readers.edf import open_edf, read_annotations

    signal = edfio.EdfSignal(np.sin(np.arange(32.0)), 8, label="EEG A")
    notes = [edfio.EdfAnnotation(0, 1, "Sleep stage W")]
    edfio.Edf([signal], annotations=notes).write(tmp_path / "a.edf")
    raw = (tmp_path / "a.edf").read_bytes()
    for words in (b"\x1b[2Jstage W\x07", b"\xff\xfe\x9b stage W", b"\x14\x14\x00\x15+1\x14\x14"):
        forged = tmp_path / "b.edf"
        forged.write_bytes(raw.replace(b"Sleep stage W", words.ljust(13)[:13]))
        try:
            found = read_annotations(open_edf(forged), forged)
        except FileError as error:
            assert "b.edf" in str(error) and str(error).isprintable()
        else:
            assert all(np.isfinite([onset, duration]).all() for onset, duration, _ in found)
        assert Recordings.read(forged, channels=["EEG A"]).X.shape == (1, 1, 32)
