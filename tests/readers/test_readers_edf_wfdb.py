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
    rec = Recordings.read(twice)
    assert rec.channels == ("A", "A 2")
    np.testing.assert_allclose(rec.X[0], values, atol=0.01)


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


def test_annotations_without_a_duration_label_their_window(tmp_path):
    path = tmp_path / "a.edf"
    signal = edf_signal(RNG.uniform(-90, 90, 600), 10, "A")
    notes = [(0, 20, "rest"), (25, None, "spike"), (30, 20, "walk"), (35, None, "spike")]
    edfio.Edf([signal], annotations=[edfio.EdfAnnotation(*note) for note in notes]).write(path)
    rec = Recordings.read(path, window_s=10, labels="annotations")
    names = [rec.classes[k] if k >= 0 else None for k in rec.y]
    assert names == ["rest", "rest", "spike", "walk", "walk", None]


def test_triggers_of_bdf_are_events(tmp_path):
    codes = np.repeat([0, 7, 0, 9], [40, 60, 50, 50])
    status = edfio.BdfSignal(
        codes.astype(float), 10, label="Status", physical_range=(-8388608, 8388607)
    )
    signal = edf_signal(RNG.uniform(-90, 90, 200), 10, "A", edfio.BdfSignal)
    edfio.Bdf([signal, status]).write(tmp_path / "a.bdf")
    rec = Recordings.read(tmp_path / "a.bdf", window_s=5, labels="annotations")
    assert rec.channels == ("A",) and rec.classes == ("7", "9")
    assert [rec.classes[k] if k >= 0 else None for k in rec.y] == [None, "7", None, "9"]
    assert Recordings.read(tmp_path / "a.bdf", channels=["Status"], window_s=5).n_channels == 1


def test_edf_header_in_latin_1_and_start(tmp_path):
    path = write_edf(tmp_path / "a.edf")
    path.write_bytes(path.read_bytes().replace(b"uV      ", "µV      ".encode("latin-1")))
    rec = Recordings.read(path, window_s=10)
    assert rec.units == "µV"
    content = bytearray(path.read_bytes())
    content[168:184] = b"17.01.1823.59.58"
    path.write_bytes(bytes(content).replace(b"Startdate X", b"Startdate 17-JAN-2018"[:11]))
    assert Recordings.read(path, window_s=10).n_channels == 1


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


def test_several_samples_per_frame_keep_their_rates(tmp_path):
    ecg, breath = RNG.uniform(-1, 1, 400), RNG.uniform(-1, 1, 100)
    fast = np.round(1000 * ecg).astype(np.int64)
    slow = np.round(1000 * breath).astype(np.int64)
    frames = np.column_stack([fast.reshape(-1, 4), slow[:, None]]).astype("<i2")
    frames.tofile(tmp_path / "r.dat")
    sums = [int(x.sum()) % 65536 for x in (fast, slow)]
    lines = [f"r.dat 16x4 1000/mV 16 0 0 {sums[0]} 0 ECG", f"r.dat 16 1000 16 0 0 {sums[1]} 0 Resp"]
    (tmp_path / "r.hea").write_text("\n".join(["r 2 62.5 100", *lines]))
    with pytest.raises(FileError, match=r"'ECG' 250 Hz.*resample=250"):
        Recordings.read(tmp_path / "r.hea")
    rec = Recordings.read(tmp_path / "r.hea", channels=["ECG"])
    assert rec.fs == 250
    np.testing.assert_allclose(rec.X[0, 0], ecg, atol=6e-4)
    rec = Recordings.read(tmp_path / "r.hea", resample=250)
    assert (rec.fs, rec.channels, rec.n_times) == (250, ("ECG", "Resp"), 400)


def test_segments_are_one_record_with_gaps(tmp_path):
    values = RNG.uniform(-1, 1, (3, 2, 100))
    for k in range(3):
        write_record(tmp_path, f"m{k}", values[k])
    (tmp_path / "m.hea").write_text(
        "m/4 2 50 350 12:00:00 01/02/2020\nm0 100\n~ 50\nm1 100\nm2 100"
    )
    with pytest.warns(TensorContrastWarning, match="gaps: 1"):
        rec = Recordings.read(tmp_path / "m.hea", window_s=1)
    assert rec.columns["start"].tolist() == [0, 50, 150, 200, 250, 300]
    joined = np.concatenate([values[1], values[2]], axis=1)
    np.testing.assert_allclose(rec.X[2:], joined.reshape(2, 4, 50).transpose(1, 0, 2), atol=6e-4)
    assert set(rec.columns["recording_start"]) == {"2020-02-01T12:00:00"}
    with pytest.warns(TensorContrastWarning, match="gaps"):
        assert len(Recordings.read(tmp_path, window_s=1)) == 6  # of a folder, not of its segments


def test_segments_of_other_channels(tmp_path):
    values = RNG.uniform(-1, 1, (2, 2, 100))
    write_record(tmp_path, "m0", values[0])
    write_record(tmp_path, "m1", values[1], names=("I", "V"))
    layout = "layout 3 50 0\n" + "".join(f"~ 0 200/mV 16 0 0 0 0 {n}\n" for n in ("I", "II", "V"))
    (tmp_path / "layout.hea").write_text(layout)
    (tmp_path / "m.hea").write_text("m/3 3 50 200\nlayout 0\nm0 100\nm1 100\n")
    rec = Recordings.read(tmp_path / "m.hea", channels=["I"], window_s=1)
    np.testing.assert_allclose(rec.X[2:, 0].ravel(), values[1, 0], atol=6e-4)
    rec = Recordings.read(tmp_path / "m.hea", window_s=1, allow_nan=True)
    assert np.isnan(rec.X[:, 1]).all(axis=1).tolist() == [False, False, True, True]


def test_constant_signals_and_repeated_names(tmp_path):
    path = write_record(tmp_path, "r", np.ones((2, 100)))
    header = path.with_suffix(".hea")
    header.write_text(header.read_text().replace(" II", " I").rstrip())
    rec = Recordings.read(path)
    assert rec.channels == ("I", "I 2") and (rec.X == 1).all()


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
        ({"duration": b"0"}, "duration of a data record|cannot be read"),
        ({"duration": b"-1"}, "duration of a data record|cannot be read"),
        ({"duration": b"nan"}, "duration of a data record|cannot be read"),
        ({"duration": b"inf"}, "duration of a data record|cannot be read"),
        ({"duration": b"1e-300"}, "duration of a data record|cannot be read"),
        ({"duration": b"1e300"}, "duration of a data record|cannot be read"),
        ({"duration": b"\x1b[2J"}, "duration of a data record|cannot be read"),
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
