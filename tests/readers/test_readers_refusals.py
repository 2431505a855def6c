"""What readers refuse, each with an error that names the file, the place and the way out."""

import csv
import datetime as dt
import gzip
import warnings
import zipfile

import numpy as np
import pandas as pd
import pytest

from tensorcontrast.errors import (
    DamagedFileError,
    DataNotFoundError,
    FileError,
    ForeignFileError,
    InvalidInputError,
    MissingDependencyError,
    TensorContrastWarning,
    TruncatedFileError,
)
from tensorcontrast.readers import edf, files, grouping, label_table
from tensorcontrast.readers.ts import read_ts_pair
from tensorcontrast.recordings import Recordings
from tensorcontrast.utils.optional import optional

pytest.importorskip("pyarrow", reason="needs tensorcontrast[data]")
edfio = pytest.importorskip("edfio", reason="needs tensorcontrast[data]")
wfdb = pytest.importorskip("wfdb", reason="needs tensorcontrast[data]")


def refuse(*args, **more):
    raise OSError(13, "Permission denied")


# ---------------------------------------------------------------------------- files


def test_files_that_cannot_be_searched_or_opened(tmp_path, monkeypatch):
    with pytest.raises(DataNotFoundError, match=r"holds no file that ends in \.csv"):
        files.data_files(tmp_path, (".csv",))
    with pytest.raises(MissingDependencyError, match=r"'nowhere'.*tensorcontrast\[data\]"):
        optional("nowhere.at_all", "data")
    assert files.is_glob("~no-such-user/*.csv")  # no home folder: nothing is there
    monkeypatch.setattr(files.Path, "glob", refuse)
    with pytest.raises(FileError, match=r"\*\.csv: cannot be searched: .*Permission denied"):
        files.matching_files(tmp_path / "*.csv")


@pytest.mark.parametrize(
    ("raised", "error", "match"),
    [
        (MemoryError(), FileError, "x: too large for the memory of this machine"),
        (OSError(5, "Input/output error"), FileError, "x: cannot be read: .*Input/output"),
        (ValueError("odd"), DamagedFileError, "x: cannot be read as EDF: ValueError: odd"),
        (InvalidInputError("no fs"), FileError, "x: no fs"),
        (MissingDependencyError("install"), MissingDependencyError, "^install"),
        (TruncatedFileError("y: short"), TruncatedFileError, "^y: short"),
    ],
)
def test_errors_of_libraries_name_the_file(raised, error, match):
    with pytest.raises(error, match=match), files.file_errors(files.Path("x"), "EDF"):
        raise raised


def test_several_files_of_a_format_of_one_file(tmp_path):
    for name in ("a", "b"):
        np.savez(tmp_path / f"{name}.npz", X=np.zeros((2, 1, 4)))
    with pytest.raises(FileError, match=r"2 files such as a\.npz are not read as one data set"):
        Recordings.read(tmp_path / "*.npz")
    (tmp_path / "x").write_text("no suffix")
    with pytest.raises(FileError, match="1 files such as x are not read"):
        Recordings.read(tmp_path / "?")


# ---------------------------------------------------------------------------- groups


def test_groups_from_names(tmp_path):
    assert grouping.is_pattern("(?P<group>S.)")
    assert not grouping.is_pattern("subject") and not grouping.is_pattern(None)
    names = ["S1-a.csv", "S2-b.csv", "S1-c.csv"]
    found = grouping.groups_by_name(r"(?P<group>S\d+)", names)
    assert found.tolist() == ["S1", "S2", "S1"]
    np.savez(tmp_path / "S7.npz", X=np.random.default_rng(0).normal(size=(2, 1, 4)))
    rec = Recordings.read(tmp_path / "S7.npz", groups=r"(?P<group>S\d+)")
    assert rec.groups.tolist() == ["S7", "S7"]
    for pattern, match in (("(?P<group>", "not a regular expression"), ("S.", "no part named")):
        with pytest.raises(InvalidInputError, match=match):
            grouping.groups_by_name(pattern, names)
    with pytest.raises(FileError, match=r"x\.csv: the name does not match groups="):
        grouping.groups_by_name(r"(?P<group>S\d+)", ["x.csv"])


# ---------------------------------------------------------------------------- arrays


def test_npz_files_of_other_shapes(tmp_path):
    X = np.random.default_rng(0).normal(size=(4, 2, 5))
    np.savez(tmp_path / "a.npz", X=X, channels=np.array([["a", "b"]]))
    with pytest.raises(DamagedFileError, match=r"'channels' has shape \(1, 2\), not a list"):
        Recordings.read(tmp_path / "a.npz")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of zipfile, which writes a name twice all the same
        np.savez(tmp_path / "b.npz", X=X)
        with zipfile.ZipFile(tmp_path / "b.npz", "a") as archive:
            archive.writestr("X.npy", archive.read("X.npy"))
    with pytest.raises(DamagedFileError, match="twice"):
        Recordings.read(tmp_path / "b.npz")


# ---------------------------------------------------------------------------- .ts


def ts(path, rows, head="@classLabel true a b\n"):
    path.write_text(f"@problemName P\n{head}@data\n" + "\n".join(rows) + "\n")
    return path


def test_train_and_test_files_are_one_data_set(tmp_path):
    train = ts(tmp_path / "P_TRAIN.ts", ["1,2,3:4,5,6:a", "7,8,9:1,2,3:b"])
    test = tmp_path / "P_TEST.ts"
    ts(test, ["3,2,1:6,5,4:c", "1,1,2:2,2,3:b"], "@classLabel true c b\n")
    rec = read_ts_pair(train, fs=10, channels=["x", "y"])
    assert rec.classes == ("a", "b", "c")
    assert rec.y.tolist() == [0, 1, 2, 1]
    assert rec.columns["split"].tolist() == [0, 0, 1, 1]
    assert (rec.name, rec.fs, rec.channels) == ("P", 10.0, ("x", "y"))
    np.testing.assert_array_equal(rec.X[2], [[3, 2, 1], [6, 5, 4]])
    with pytest.raises(FileError, match=r"training windows ends in _TRAIN\.ts"):
        read_ts_pair(test)
    ts(test, ["3,2:6,5:a"])
    with pytest.raises(FileError, match=r"P_TEST\.ts: windows of shape \(2, 2\).*cutting"):
        read_ts_pair(train)
    ts(test, ["3,2,1:6,5,4"], "@classLabel false\n")
    with pytest.raises(FileError, match=r"P_TEST\.ts: has no classes"):
        read_ts_pair(train)
    test.unlink()
    with pytest.raises(DataNotFoundError, match=r"P_TEST\.ts"):
        read_ts_pair(train)


def test_ts_lines_without_signals_or_out_of_range(tmp_path):
    with pytest.raises(DamagedFileError, match="line 4: holds no channels"):
        Recordings.read(ts(tmp_path / "a.ts", ["a"]))
    with pytest.raises(DamagedFileError, match=r"line 4: channel 0 holds '1e99'.*float32"):
        Recordings.read(ts(tmp_path / "b.ts", ["1,1e99:a"]))


# ---------------------------------------------------------------------------- tables


def wide(**columns):
    frame = pd.DataFrame({"time": np.arange(40) / 10, "x": np.sin(np.arange(40.0)), "y": 1.0})
    return frame.assign(**columns)


def test_long_form_is_found_by_the_columns(tmp_path):
    plain, long = wide(), wide(sample=np.repeat(["a", "b"], 20))
    for frame, n in ((plain, 4), (long, 2)):
        frame.to_csv(tmp_path / "t.csv", index=False)
        frame.to_csv(tmp_path / "t.tsv.gz", index=False, sep="\t")
        frame.to_parquet(tmp_path / "t.parquet")
        for name in ("t.csv", "t.tsv.gz", "t.parquet"):
            options = {"window_s": 1} if frame is plain else {}
            assert len(Recordings.read(tmp_path / name, **options)) == n, name
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 and nothing more")
    with pytest.raises(FileError, match=r"bad\.parquet"):
        Recordings.read(tmp_path / "bad.parquet")


def test_groups_of_numbers_and_of_names_become_text(tmp_path):
    wide(subject=7).to_csv(tmp_path / "a.csv", index=False)
    wide().to_csv(tmp_path / "b.csv", index=False)
    one = Recordings.read(tmp_path / "a.csv", window_s=2, group="subject")
    assert one.groups.tolist() == [7, 7]
    both = Recordings.read(tmp_path, window_s=2, channels=["x", "y"])
    assert set(both.groups) == {"7", "b"}


@pytest.mark.parametrize(
    ("frame", "options", "match"),
    [
        (wide(subject=["a"] * 39 + [None]), {"group": "subject"}, "'subject' is missing in some"),
        (wide(time=[*range(39), None]), {"time": "time"}, "'time' is missing in 1 rows"),
        (wide(time=["soon"] * 40), {"time": "time"}, "holds 'soon', which is no time"),
        (wide().iloc[:1], {}, "one row is no recording"),
    ],
)
def test_tables_without_a_time_or_a_group(tmp_path, frame, options, match):
    frame.to_csv(tmp_path / "a.csv", index=False)
    with pytest.raises(FileError, match=match):
        Recordings.read(tmp_path / "a.csv", window_s=2, **options)


def test_parquet_of_too_many_columns_or_of_lists(tmp_path):
    wide(z=[[1, 2]] * 40).to_parquet(tmp_path / "a.parquet")
    with pytest.raises(FileError, match="window_s"):
        Recordings.read(tmp_path / "a.parquet", window_s=2)
    many = pd.DataFrame(np.zeros((1, files.MOST_CHANNELS + 1))).add_prefix("x")
    many.to_parquet(tmp_path / "b.parquet")
    with pytest.raises(FileError, match="columns; one per channel is meant"):
        Recordings.read(tmp_path / "b.parquet", window_s=2)


def test_labels_that_cover_no_window(tmp_path):
    frame = wide(activity=np.tile(["a", "b"], 20))
    frame.to_csv(tmp_path / "a.csv", index=False)
    options = {"window_s": 2, "label": "activity", "label_share": 0.9}
    with pytest.warns(TensorContrastWarning, match="no label covers 90% .* none of 2 windows"):
        rec = Recordings.read(tmp_path / "a.csv", **options)
    assert rec.y is None or (rec.y < 0).all()
    with pytest.raises(FileError, match="take shorter windows, or a smaller share"):
        Recordings.read(tmp_path / "a.csv", drop_unlabelled=True, **options)


def test_channels_in_another_order_are_brought_into_one(tmp_path):
    wide().to_csv(tmp_path / "a.csv", index=False)
    wide()[["time", "y", "x"]].to_csv(tmp_path / "b.csv", index=False)
    rec = Recordings.read(tmp_path, window_s=2)
    assert rec.channels == ("x", "y")
    np.testing.assert_array_equal(rec.X[:2], rec.X[2:])


# ---------------------------------------------------------------------------- tables of labels


def test_tables_of_labels_that_cannot_be_read(tmp_path, monkeypatch):
    path = tmp_path / "labels.csv"
    path.write_text("start_s,end_s,label\nsoon,2,x\n")
    assert label_table.holds_labels(path)
    with pytest.raises(FileError, match=r"line 2: start_s is 'soon', not a number of seconds"):
        label_table.read_label_table(path)
    path.write_text("start_s,end_s,label\n2,2,x\n")
    with pytest.raises(FileError, match=r"line 2: end_s is 2, which is not after start_s 2"):
        label_table.read_label_table(path)
    path.write_text("start_s,label\n0," + "x" * (csv.field_size_limit() + 1))
    with pytest.raises(FileError, match=r"labels\.csv: is not a table: field larger"):
        label_table.read_label_table(path)
    path.write_bytes(b"start_s,label\n0,\xff\xfe\n")
    with pytest.raises(FileError, match="cannot be read as text in UTF-8"):
        label_table.read_label_table(path)
    monkeypatch.setattr(label_table.Path, "open", refuse)
    assert not label_table.holds_labels(path)


def test_labels_of_other_recordings_or_other_times(tmp_path):
    columns = {"recording": np.repeat(["a.csv", "b.csv"], 3), "start": np.tile([0, 20, 40], 2)}
    rec = Recordings(np.zeros((6, 1, 20)), fs=10, columns=columns)
    path = tmp_path / "labels.csv"

    def labelled(text):
        path.write_text(f"recording,start_s,label\n{text}\n")
        rows = label_table.read_label_table(path)
        return label_table.label_recordings(rec, rows, where="labels.csv")

    with pytest.raises(FileError, match=r"labels recordings 'c', but there are .*must agree"):
        labelled("c,0,x")
    with pytest.raises(FileError, match=r"2 of 2 labels are more than half.*the same start"):
        labelled("a,90,x\na,95,y")
    with pytest.warns(TensorContrastWarning, match="1 of 2 labels are of recordings that are not"):
        assert labelled("a,2,x\nc,0,x").y.tolist() == [-1, 0, -1, -1, -1, -1]


# ---------------------------------------------------------------------------- EDF


def night(path, notes=(), signals=True, start=dt.time(23, 0)):
    values = np.random.default_rng(0).uniform(-90, 90, 600)
    signal = edfio.EdfSignal(values, 10, label="EEG", physical_range=(-100, 100))
    edfio.Edf(
        [signal] if signals else [],
        annotations=[edfio.EdfAnnotation(*note) for note in notes] or None,
        starttime=start,
    ).write(path)
    return path


def test_files_of_annotations_only(tmp_path):
    signals = night(tmp_path / "a.edf")
    notes = night(tmp_path / "b.edf", [(0, 30, "W")], signals=False)
    assert edf.annotations_only(notes)
    assert not edf.annotations_only(signals)
    (tmp_path / "c.edf").write_bytes(b"no EDF at all")
    assert not edf.annotations_only(tmp_path / "c.edf")
    assert not edf.annotations_only(tmp_path / "d.csv")
    with pytest.raises(FileError, match="holds annotations only, no signals"):
        Recordings.read(notes, window_s=10)
    with pytest.raises(FileError, match="holds annotations only, no signals"):
        Recordings.read(tmp_path / "b*.edf", window_s=10, labels="W", annotations=str(notes))
    with pytest.raises(DataNotFoundError, match="no such file with annotations, neither"):
        Recordings.read(signals, window_s=10, labels="W", annotations="*-none.edf")


def test_annotations_of_a_file_without_dates_are_placed_by_the_time_of_day(tmp_path):
    recording = edf.open_edf(night(tmp_path / "a.edf", start=dt.time(23, 59)))
    other = edf.open_edf(night(tmp_path / "b.edf", start=dt.time(0, 1)))
    assert edf.start_shift(recording, tmp_path, other, tmp_path) == 120.0  # over midnight
    with pytest.raises(DamagedFileError, match="cannot be read as an EDF start time"):
        edf.start_shift(recording, tmp_path, object(), tmp_path)


def test_edf_without_points_in_a_record(tmp_path):
    path = night(tmp_path / "a.edf")
    content = bytearray(path.read_bytes())
    content[256 + 216 : 256 + 224] = b"0       "
    path.write_bytes(bytes(content))
    with pytest.raises(DamagedFileError, match=r"signal 0 has 0 points|rate|cannot be read"):
        Recordings.read(path)


def test_annotations_that_fit_two_files(tmp_path):
    night(tmp_path / "a1.edf")
    for name in ("a2-x.edf", "a2-y.edf"):
        night(tmp_path / name, [(0, 30, "W")], signals=False)
    with pytest.raises(FileError, match=r"may be in 'a2-x\.edf', 'a2-y\.edf'; name one file"):
        Recordings.read(tmp_path, window_s=10, labels="W")


# ---------------------------------------------------------------------------- WFDB

LINE = "r.dat 16 100(0)/mV 16 0 0 10 0 {}"


def record(folder, *lines, first="r {} 10 5", points=5):
    values = np.repeat(np.arange(points, dtype="<i2"), len(lines))
    (folder / "r.dat").write_bytes(values.tobytes())
    (folder / "r.hea").write_text("\n".join([first.format(len(lines)), *lines, ""]))
    return folder / "r.hea"


def test_wfdb_signals_that_are_not_there(tmp_path):
    with pytest.raises(FileError, match="no channel 'V'; there are 'I'"):
        Recordings.read(record(tmp_path, LINE.format("I")), channels=["V"])


def test_wfdb_folders_and_patterns_without_records(tmp_path):
    (tmp_path / "r.dat").write_bytes(b"1234")
    with pytest.raises(ForeignFileError, match=r"matches no headers of records"):
        Recordings.read(tmp_path / "*.dat", format="wfdb")
    (tmp_path / "RECORDS").write_text("\n")
    with pytest.raises(ForeignFileError, match="holds no WFDB records"):
        Recordings.read(tmp_path, format="wfdb")


def test_wfdb_without_its_length_or_its_file(tmp_path):
    path = record(tmp_path, LINE.format("I"), first="r {} 10")
    assert Recordings.read(path).X[0, 0].tolist() == pytest.approx([0, 0.01, 0.02, 0.03, 0.04])
    (tmp_path / "r.dat").unlink()
    with pytest.raises(DataNotFoundError, match=r"r\.dat: no such file, but r\.hea names it"):
        Recordings.read(path)
    with pytest.raises(DataNotFoundError, match=r"s\.hea: no such file"):
        Recordings.read(tmp_path / "s.hea")


def test_wfdb_headers_that_are_too_long_or_describe_nothing(tmp_path):
    path = record(tmp_path, LINE.format("I"), first="r {} 10")
    path.write_text(path.read_text() + "\n" * 40_000)
    with pytest.raises(FileError, match="too long for the header of a record"):
        Recordings.read(path)
    path.write_text("r 0 10 5\n")
    with pytest.raises(ForeignFileError, match="describes no signals"):
        Recordings.read(path)
    with pytest.raises(DamagedFileError, match="has no samples a frame"):
        Recordings.read(record(tmp_path, LINE.format("I").replace(" 16 100", " 16x0 100")))


def test_wfdb_annotations_without_text_give_no_labels(tmp_path):
    path = record(tmp_path, LINE.format("I"), points=5)
    wfdb.wrann("r", "atr", np.array([1, 3]), symbol=["N", "N"], write_dir=str(tmp_path))
    with pytest.raises(FileError, match="label"):
        Recordings.read(path, window=2, labels="annotations")


def test_gzip_is_named_in_the_error(tmp_path):
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"time,x\n0,1\n1,2\n")[:-6])
    with pytest.raises(FileError, match=r"a\.csv\.gz"):
        Recordings.read(tmp_path / "a.csv.gz")
