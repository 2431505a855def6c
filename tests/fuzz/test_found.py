"""Files that once got past a reader, or could have: each stays refused, or is now read right."""

import gzip
import hashlib
import io
import os
import struct
import tracemalloc
import warnings
import zipfile

import numpy as np
import pytest

from tensorcontrast import Recordings, load_model
from tensorcontrast.datasets import load_har, load_ptbxl
from tensorcontrast.datasets.download import extract_verified
from tensorcontrast.errors import (
    DamagedFileError,
    DataNotFoundError,
    FileError,
    ForeignFileError,
    InvalidInputError,
    TensorContrastWarning,
)
from tensorcontrast.io.atomic import atomic_write

X = np.random.default_rng(0).standard_normal((4, 2, 8)).astype(np.float32)


@pytest.fixture(autouse=True)
def little_memory():
    """Nothing here may take more than a few megabytes."""
    tracemalloc.start()
    yield
    assert tracemalloc.get_traced_memory()[1] < 200 << 20
    tracemalloc.stop()


def npy(array):
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def header(descr, shape, tail=b""):
    text = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode() + tail


def zipped(path, members, method=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


# ------------------------------------------------------------------------- recordings files


@pytest.fixture
def saved(tmp_path):
    rec = Recordings(X, [0, 1, 0, 1], fs=8.0, columns={"age": np.arange(4), "site": list("abcd")})
    return rec.save(tmp_path / "r.npz")


def members(path):
    with zipfile.ZipFile(path) as archive:
        return {m.filename: archive.read(m) for m in archive.infolist()}


def test_the_same_recordings_give_the_same_bytes(saved, tmp_path):
    before = saved.read_bytes()
    assert Recordings.load(saved).save(tmp_path / "again.npz").read_bytes() == before


def test_a_list_of_members_that_was_cut_off(saved):
    """zipfile reads the members that it finds and does not count them."""
    content = bytearray(saved.read_bytes())
    last = content.rfind(b"PK\1\2")
    before = content.rfind(b"PK\1\2", 0, last)
    content[before + 32 : before + 34] = (len(content) - 22 - last).to_bytes(2, "little")  # comment
    saved.write_bytes(bytes(content))
    with zipfile.ZipFile(saved) as archive:
        assert "site.npy" not in archive.namelist()
    with pytest.raises(DamagedFileError, match="lists 4 of its 5 members"):
        Recordings.load(saved)


def test_columns_named_as_arguments_of_numpy(tmp_path):
    """A column named ``file`` is one that savez cannot take."""
    rec = Recordings(X, columns={"file": list("abcd"), "allow_pickle": np.arange(4)})
    back = Recordings.load(rec.save(tmp_path / "r.npz"))
    assert back.columns["file"].tolist() == list("abcd")
    assert back.columns["allow_pickle"].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("columns", "match"),
    [
        ({"when": np.array(["2020-01-01"] * 4, dtype="M8[D]")}, "make it numbers or text"),
        ({"z": np.ones(4, dtype=complex)}, "make it numbers or text"),
        ({"a\0z": np.ones(4)}, "not valid text"),
        ({"fs": np.ones(4)}, "rename"),
    ],
)
def test_what_could_not_be_loaded_is_not_saved(tmp_path, columns, match):
    with pytest.raises(InvalidInputError, match=match):
        Recordings(X, columns=columns).save(tmp_path / "r.npz")
    assert not list(tmp_path.iterdir())


def test_bombs_are_refused_before_they_are_unpacked(tmp_path):
    with zipfile.ZipFile(tmp_path / "r.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        with archive.open("X.npy", "w", force_zip64=True) as member:
            member.write(header("|i1", (1, 1, 80 << 20)))
            for _ in range(80):
                member.write(bytes(1 << 20))
    with pytest.raises(DamagedFileError, match=r"claims 838.* bytes out of"):
        Recordings.load(tmp_path / "r.npz")
    with gzip.open(tmp_path / "t.csv.gz", "wb", 1) as stream:
        stream.write(b"sample,a\n")
        for _ in range(70):
            stream.write(b"0,0\n" * (1 << 18))
    with pytest.raises(DamagedFileError, match="claims"):
        Recordings.read(tmp_path / "t.csv.gz")


def test_nearly_constant_signals_are_saved_so_that_they_load(tmp_path):
    tracemalloc.stop()
    rec = Recordings(np.zeros((1, 1, 18 << 20), np.float32))
    path = rec.save(tmp_path / "r.npz")
    assert Recordings.load(path).X.shape == rec.X.shape
    tracemalloc.start()


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (header("<U0", (10**9,)), "plain numbers"),
        (header("|S0", (10**9,)), "plain numbers"),
        (header("|b1", (4,), bytes([0, 1, 7, 1])), "neither true nor false"),
        (header("<U1", (4,), struct.pack("<4I", 65, 66, 0x110000, 67)), "not Unicode"),
        (header("<U1", (4,), struct.pack("<4I", 65, 66, 0xD800, 67)), "not Unicode"),
        (header("<f4', 'x': '", (4,), bytes(16)), "an array"),
    ],
)
def test_arrays_that_numpy_would_take(tmp_path, content, match):
    path = zipped(tmp_path / "r.npz", {"X.npy": npy(X), "z.npy": content})
    with pytest.raises(DamagedFileError, match=match):
        Recordings.load(path)


def test_headers_of_python_2_are_read_without_a_warning(tmp_path):
    content = header("<f4", "(4L, 2L, 8L)", X.tobytes())
    np.testing.assert_array_equal(
        Recordings.load(zipped(tmp_path / "r.npz", {"X.npy": content})).X, X
    )


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
@pytest.mark.parametrize("name", ["r.npz", "r.csv", "r.edf", "r.ts", "m.tcm"])
def test_pipes_are_not_waited_for(tmp_path, name):
    os.mkfifo(tmp_path / name)
    with pytest.raises(FileError, match=name):
        load_model(tmp_path / name) if name == "m.tcm" else Recordings.read(tmp_path / name)


# ------------------------------------------------------------------------------- recordings


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"y": np.array([0, 1, 2, 1e300])}, r"y\[3\] is about 1e300, "),
        ({"y": np.array([0, 1, 2, 2**63], dtype=np.uint64)}, r"y\[3\] is 9223372036854775808"),
        ({"y": [0, 1, 2, 10**15]}, "Give ids as text"),
        ({"groups": np.array([0, 1, 2, 1e300])}, "groups"),
        ({"channels": ["a", "\ud800"]}, "not valid text"),
        ({"channels": ["a", "a\0"]}, "not valid text"),
        ({"units": ["mV", "\0"]}, "not valid text"),
        ({"scale": 1e300}, "scale=1e.300"),
        ({"scale": 3e38}, "out of the range of float32"),
        ({"scale": "x"}, "not a number"),
        ({"columns": {"z": np.array(["a" * 10**6] + [""] * 3, dtype=object)}}, None),
    ],
)
def test_values_out_of_range(options, match):
    if match is None:
        assert len(Recordings(X, **options)) == 4
        return
    with pytest.raises(InvalidInputError, match=match):
        Recordings(X, **options)


def test_one_long_text_among_many(tmp_path):
    """NumPy keeps every text at the length of the longest: a megabyte would become gigabytes."""
    rows = "".join(f"{k},{k}\n" for k in range(3000))
    (tmp_path / "t.csv").write_text("sample,a\n" + rows + "z" * 500_000 + ",1\n")
    with pytest.raises(FileError, match=r"3001 texts, the longest of 500000"):
        Recordings.read(tmp_path / "t.csv")
    lines = ["@problemName d", f"@classLabel true {'c' * 500_000} n", "@data", *["1:n"] * 3000]
    (tmp_path / "d.ts").write_text("\n".join(lines) + "\n")
    assert Recordings.read(tmp_path / "d.ts").y.tolist() == [1] * 3000


# ----------------------------------------------------------------------------------- tables


def test_rows_with_more_cells_than_names(tmp_path):
    """pandas would take the first column for an index and shift all others."""
    pytest.importorskip("pandas", reason="needs tensorcontrast[data]")
    (tmp_path / "t.csv").write_text("sample,a\n0,1,2\n0,3,4\n")
    with pytest.raises(DamagedFileError, match="line 2"):
        Recordings.read(tmp_path / "t.csv")


def test_tables_with_a_column_a_point(tmp_path):
    pytest.importorskip("pandas", reason="needs tensorcontrast[data]")
    names = ",".join(f"c{k}" for k in range(20_000))
    (tmp_path / "t.csv").write_text(f"\n\nsample,{names}\n")
    with pytest.raises(FileError, match="more than 16384 columns"):
        Recordings.read(tmp_path / "t.csv")


def test_numbers_beyond_float32_stay_numbers(tmp_path):
    pytest.importorskip("pandas", reason="needs tensorcontrast[data]")
    (tmp_path / "t.csv").write_text("sample,a\n0,1e39\n0,2\n")
    assert Recordings.read(tmp_path / "t.csv").X.tolist() == [[[1e39, 2.0]]]
    for word in ("1e39", "1e400", "inf"):
        (tmp_path / "d.ts").write_text(f"@problemName d\n@classLabel false\n@data\n1,{word}\n")
        with pytest.raises(DamagedFileError, match=f"line 4: channel 0 holds '{word}'"):
            Recordings.read(tmp_path / "d.ts", allow_nan=True)


def test_parquet_of_other_things(tmp_path):
    pa = pytest.importorskip("pyarrow", reason="needs tensorcontrast[data]")
    from pyarrow import parquet

    path = tmp_path / "t.parquet"
    table = pa.table({"sample": [0, 0], "a": [1.0, 2.0], "b": [[1], [2]]})
    parquet.write_table(table, path)
    with pytest.raises(FileError, match="'b' holds list"):
        Recordings.read(path)
    assert Recordings.read(path, channels=["a"]).X.tolist() == [[[1.0, 2.0]]]
    zeros = pa.array(np.zeros(5_000_000, np.int64))
    parquet.write_table(pa.table({"sample": zeros, "a": zeros}), path, compression="zstd")
    with pytest.raises(DamagedFileError, match="claims 80000000 bytes"):
        Recordings.read(path)
    frame = table.select(["sample", "a"]).to_pandas()
    frame.set_index("sample").to_parquet(path)
    assert Recordings.read(path).columns["sample"].tolist() == [0]


# ---------------------------------------------------------------------------------- signals


@pytest.fixture
def edf(tmp_path):
    edfio = pytest.importorskip("edfio", reason="needs tensorcontrast[data]")
    values = np.linspace(-9, 9, 24)
    signal = edfio.EdfSignal(values, 8, label="A", physical_range=(-10, 10))
    path = tmp_path / "r.edf"
    edfio.Edf([signal]).write(path)
    return path, values


@pytest.mark.parametrize(
    ("at", "value"),
    [
        (376, b"0       "),
        (376, b"abc     "),
        (368, b"nan     "),
        (376, b"1e999   "),
        (384, b"32767   "),
        (392, b"-32768  "),
        (360, b"-1e308  "),
    ],
)
def test_edf_that_does_not_say_its_scale(edf, at, value):
    """edfio returns the numbers of the converter as if they were in their unit."""
    path, _ = edf
    content = bytearray(path.read_bytes())
    fields = [bytes(content[k : k + 8]) for k in (360, 368, 376, 384)]
    assert fields == [b"-10     ", b"10      ", b"-32768  ", b"32767   "]
    if at == 376 and value == b"0       ":  # a whole range, but not from minimum to maximum
        content[360:376] = b"5       5       "
    elif at == 384:
        content[376:392] = value * 2
    elif at == 392:
        content[376:392] = b"32767   " + b"-32768  "
    else:
        content[at : at + 8] = value
    path.write_bytes(bytes(content))
    with pytest.raises(DamagedFileError, match=r"r\.edf.*(scale|range of float32)"):
        Recordings.read(path)


def test_edf_labels_filled_up_with_zeros(edf):
    path, values = edf
    content = bytearray(path.read_bytes())
    content[256:272] = b"A".ljust(16, b"\0")
    path.write_bytes(bytes(content))
    rec = Recordings.read(path, channels=["A"])
    assert rec.channels == ("A",)
    np.testing.assert_allclose(rec.X[0, 0], values, atol=1e-3)


def test_edf_that_was_not_closed_gives_the_warning_of_the_project_only(edf):
    path, values = edf
    content = bytearray(path.read_bytes())
    content[236:244] = b"-1      "
    path.write_bytes(bytes(content))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        np.testing.assert_allclose(Recordings.read(path).X[0, 0], values, atol=1e-3)
    assert [w.category for w in caught] == [TensorContrastWarning]


LINE = "r.dat 16 100(0)/mV 16 0 0 {} 0 I"


def record(folder, first="r 1 10 5", line=LINE, name="r"):
    folder.mkdir(exist_ok=True)
    values = np.arange(5, dtype="<i2")
    (folder / f"{name}.dat").write_bytes(values.tobytes())
    (folder / f"{name}.hea").write_text(f"{first}\n{line.format(int(values.sum()))}\n")
    return folder / f"{name}.hea"


@pytest.mark.parametrize(
    ("first", "line", "match"),
    [
        ("r 1 10 5", LINE.replace("r.dat", "../secret.dat"), "names the file|invalid syntax"),
        ("r 1 10 0", LINE.replace("r.dat", "../secret.dat"), r"names the file|invalid syntax"),
        ("r 1 10", LINE.replace("r.dat 16", "../secret.dat 212"), r"names the file|invalid syntax"),
        ("r 1 10", LINE.replace("r.dat", "/etc/passwd"), r"names the file|invalid syntax"),
        (
            "r 1 10",
            LINE.replace("r.dat", "r.dat::http://127.0.0.1:9/x"),
            r"names the file|invalid syntax",
        ),
        ("r 1 10", LINE.replace("r.dat", "s3://bucket/x"), r"names the file|invalid syntax"),
        ("r/2 1 10 10", "../secret 5\nr 5", r"segment"),
        ("r/1 1 10 5", "r 5", "describes no signals"),
        ("r 1 10 5", LINE.replace("100(0)", "100(99999999999999999999)"), "baseline"),
        ("r 1 10 5", LINE.replace("100(0)", "0." + "0" * 320 + "1(0)"), "r"),
        ("r 1 10 5", LINE.replace("100(0)", "0." + "0" * 39 + "1(-9)"), "infinite"),
        ("r 1 10 5", LINE.replace("16 100", "16:99999999999 100"), "skew"),
        ("r 1 10 5", LINE.replace("16 100", "16:2000000000 100"), "skew of 2000000000"),
        ("r 1 10 999999999999", LINE, "says 999999999999 points"),
        ("r 1 10 5", LINE.replace("16 100", "16x999999999 100"), "says 5 points"),
        ("r 1 10 5", LINE.replace("16 100", "516 100").replace("5", "9" * 12, 0), "r"),
        ("r 1 10 999999999999", LINE.replace("16 100", "516 100"), "claims"),
        ("r 1 10 5", LINE.replace("16 100", "99 100"), "format 99"),
        ("r 2 10 5", LINE, "r"),
    ],
)
def test_forged_wfdb_headers(tmp_path, first, line, match):
    pytest.importorskip("wfdb", reason="needs tensorcontrast[data]")
    record(tmp_path, "secret 1 10 5", LINE.replace("r.dat", "secret.dat"), name="secret")
    with pytest.raises(FileError, match=match):
        Recordings.read(record(tmp_path / "work", first, line))


@pytest.mark.parametrize(
    ("listing", "match"),
    [
        ("../secret", "outside"),
        ("/etc/x", "outside"),
        ("r\nr", "more than once"),
        ("a" * 5000, "a"),
    ],
)
def test_forged_lists_of_wfdb_records(tmp_path, listing, match):
    record(tmp_path, "secret 1 10 5", LINE.replace("r.dat", "secret.dat"), name="secret")
    folder = record(tmp_path / "work").parent
    (folder / "RECORDS").write_text(listing)
    with pytest.raises((FileError, DataNotFoundError), match=match):
        Recordings.read(folder)


# -------------------------------------------------------------------------- models, archives


def test_a_large_file_of_another_kind_is_not_read_whole(tmp_path):
    with (tmp_path / "m.tcm").open("wb") as stream:
        stream.truncate(1 << 34)  # takes no room on the disk
    with pytest.raises(ForeignFileError, match="not a tensorcontrast"):
        load_model(tmp_path / "m.tcm")


def test_archives_unpack_into_their_folder_only(tmp_path):
    content = b"evil"
    name = "../evil"
    archive = zipped(tmp_path / "a.zip", {name: content})
    (tmp_path / "out").mkdir()
    sums = {name: hashlib.sha256(content).hexdigest()}
    with pytest.raises(DamagedFileError, match="outside its folder"):
        extract_verified(archive, tmp_path / "out", sums, [name])
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.zip", "out"]
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as opened:
        with opened.open("big", "w") as member:
            for _ in range(70):
                member.write(bytes(1 << 20))
    with pytest.raises(DamagedFileError, match="claims 73400320 bytes"):
        extract_verified(archive, tmp_path / "out", {"big": "0" * 64}, ["big"])
    assert not list((tmp_path / "out").iterdir())


def test_har_zip_that_claims_too_much(tmp_path):
    archive = zipped(
        tmp_path / "har.zip", {"UCI HAR Dataset/activity_labels.txt": b" " * (80 << 20)}
    )
    with pytest.raises(DamagedFileError, match="claims 83886080 bytes"):
        load_har(archive)


def test_ptbxl_table_that_names_other_folders(tmp_path):
    record(tmp_path, "secret 1 100 5", LINE.replace("r.dat", "secret.dat"), name="secret")
    names = "ecg_id,patient_id,age,sex,scp_codes,strat_fold,filename_lr,filename_hr"
    folder = tmp_path / "ptb-xl"
    folder.mkdir()
    (folder / "ptbxl_database.csv").write_text(f"{names}\n1,1,50,0,{{}},1,../secret,../secret\n")
    with pytest.raises(DamagedFileError, match=r"'../secret', which lies outside"):
        load_ptbxl(folder, target="sex")


def test_names_as_long_as_the_system_allows(tmp_path):
    path = tmp_path / ("n" * 251 + ".npz")
    with atomic_write(path) as stream:
        stream.write(b"whole")
    assert path.read_bytes() == b"whole"
    with pytest.raises(FileError, match=r"cannot be (read|written)"):
        Recordings.load(tmp_path / ("n" * 300 + ".npz"))
