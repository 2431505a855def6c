"""CSV, Parquet and .ts files."""

import gzip

import numpy as np
import pandas as pd
import pytest

from tensorcontrast.errors import (
    DamagedFileError,
    FileError,
    ForeignFileError,
    TruncatedFileError,
)
from tensorcontrast.recordings import Recordings

pytest.importorskip("pyarrow", reason="needs tensorcontrast[data]")
RNG = np.random.default_rng(0)
X = RNG.standard_normal((3, 2, 4)).astype(np.float32)


def long_form():
    rows = []
    for n, name in enumerate(["s2", "s1", "s3"]):
        for t in range(4):
            row = {"sample": name, "time": t / 10, "acc": X[n, 0, t], "gyro": X[n, 1, t]}
            rows.append(row | {"label": ["run", "sit", "run"][n], "subject": [7, 8, 7][n]})
    return pd.DataFrame(rows)


def write_csv(path, frame):
    frame.to_csv(path, index=False)
    return path


@pytest.fixture
def csv(tmp_path):
    return write_csv(tmp_path / "t.csv", long_form())


def check(rec):
    np.testing.assert_allclose(rec.X, X, rtol=1e-6)
    assert rec.channels == ("acc", "gyro")
    assert rec.classes == ("run", "sit")
    assert rec.y.tolist() == [0, 1, 0]
    assert rec.groups.tolist() == [7, 8, 7]
    assert rec.columns["sample"].tolist() == ["s2", "s1", "s3"]


def test_csv(csv):
    rec = Recordings.read(csv, fs=10)
    check(rec)
    assert rec.X.dtype == np.float32
    assert rec.fs == 10


def test_tsv_and_gzip(tmp_path):
    long_form().to_csv(tmp_path / "t.tsv", index=False, sep="\t")
    check(Recordings.read(tmp_path / "t.tsv"))
    long_form().to_csv(tmp_path / "t.csv.gz", index=False)
    check(Recordings.read(tmp_path / "t.csv.gz"))


def test_parquet(tmp_path):
    long_form().to_parquet(tmp_path / "t.parquet")
    rec = Recordings.read(tmp_path / "t.parquet")
    check(rec)
    assert rec.X.dtype == np.float32
    wide = long_form().astype({"acc": "float64"})
    wide.to_parquet(tmp_path / "t.parquet")
    assert Recordings.read(tmp_path / "t.parquet").X.dtype == np.float64


def test_rows_in_any_order_are_sorted_by_time(tmp_path):
    shuffled = long_form().sample(frac=1, random_state=3)
    rec = Recordings.read(write_csv(tmp_path / "t.csv", shuffled))
    order = [rec.columns["sample"].tolist().index(name) for name in ("s2", "s1", "s3")]
    np.testing.assert_allclose(rec.X[order], X, rtol=1e-6)


def test_named_columns_and_channels(tmp_path):
    frame = long_form().rename(
        columns={"sample": "trial", "time": "ms", "label": "what", "subject": "who"}
    )
    path = write_csv(tmp_path / "t.csv", frame)
    rec = Recordings.read(
        path, sample="trial", time="ms", label="what", group="who", channels=["gyro", "acc"]
    )
    np.testing.assert_allclose(rec.X, X[:, ::-1], rtol=1e-6)
    with pytest.raises(FileError, match="sample='trial'"):
        Recordings.read(path)
    with pytest.raises(FileError, match="EEG"):
        Recordings.read(path, sample="trial", channels=["EEG"])
    with pytest.raises(FileError, match="'x'"):
        Recordings.read(path, sample="trial", group="x")


DATES = pd.Timestamp("2024-03-01 12:00")


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize(
    ("times", "fits", "rate"),
    [
        (lambda t: t / 10, 10, "10"),
        (lambda t: 100 * t, 10, "10"),  # ms
        (lambda t: 10**8 * t + 1_700_000_000 * 10**9, 10, "10"),  # ns since 1970
        (lambda t: DATES + t * pd.Timedelta("100ms"), 10, "10"),
        (lambda t: t / 10 + 1e-3 * np.sin(9.0 * t), 10, "9.968"),  # jitter
    ],
)
def test_times_that_contradict_the_rate_are_an_error(tmp_path, kind, times, fits, rate):
    frame = long_form()
    frame["time"] = [times(round(10 * t)) for t in frame["time"]]
    path = tmp_path / f"t.{kind}"
    frame.to_csv(path, index=False) if kind == "csv" else frame.to_parquet(path)
    assert Recordings.read(path, fs=fits).fs == fits
    for wrong in (5, 9.8, 10.3, 50):
        message = rf"'time'.* has {rate}.* samples per second, but a rate of {wrong} "
        with pytest.raises(FileError, match=message):
            Recordings.read(path, fs=wrong)


def test_positions_in_place_of_times_have_no_rate(tmp_path):
    frame = long_form()
    frame["time"] = [round(10 * t) for t in frame["time"]]
    assert Recordings.read(write_csv(tmp_path / "t.csv", frame), fs=50).fs == 50
    frame["time"] = [f"step {t}" for t in frame["time"]]
    assert Recordings.read(write_csv(tmp_path / "u.csv", frame), fs=50).fs == 50


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_bad_tables(tmp_path, kind):
    path = tmp_path / f"t.{kind}"

    def read(frame):
        frame.to_csv(path, index=False) if kind == "csv" else frame.to_parquet(path)
        return Recordings.read(path)

    frame = long_form()
    with pytest.raises(FileError, match="sample s1 has 3 points, but most have 4"):
        read(frame.drop(index=5))
    with pytest.raises(FileError, match=r"sample s1 has 'time' 0.1 more than once"):
        read(frame.assign(time=frame.time.where(frame.index != 6, 0.1)))
    with pytest.raises(FileError, match="'label' changes within sample s3"):
        read(frame.assign(label=frame.label.where(frame.index != 9, "sit")))
    with pytest.raises(FileError, match=f"{'line 4' if kind == 'csv' else 'row 2'}: 'acc' is nan"):
        read(frame.assign(acc=frame.acc.where(frame.index != 2)))
    with pytest.raises(FileError, match="'label' changes within sample s2"):
        read(frame.assign(label=frame.label.where(frame.index > 2)))
    with pytest.raises(FileError, match="'subject' is missing"):
        read(frame.assign(subject=frame.subject.where(frame.index > 3)))
    with pytest.raises(DamagedFileError, match="'sample' is missing"):
        read(frame.assign(sample=frame["sample"].where(frame.index != 2)))
    with pytest.raises(DamagedFileError, match="'time' is missing"):
        read(frame.assign(time=frame.time.where(frame.index != 2)))
    with pytest.raises(DamagedFileError, match="'acc' is 'oops', not a number"):
        read(frame.assign(acc=frame.acc.astype(str).where(frame.index != 2, "oops")))
    with pytest.raises(TruncatedFileError, match="no rows"):
        read(frame.iloc[:0])


@pytest.mark.parametrize(
    ("labels", "y", "classes"),
    [
        (["sit", None, "run"], [1, -1, 0], ("run", "sit")),
        ([4, None, 2], [4, -1, 2], None),
        ([None, None, None], [-1, -1, -1], None),
    ],
)
def test_empty_labels_are_unlabelled_samples(tmp_path, labels, y, classes):
    frame = long_form().assign(label=np.repeat(np.array(labels, dtype=object), 4))
    rec = Recordings.read(write_csv(tmp_path / "t.csv", frame))
    assert rec.y.tolist() == y
    assert rec.classes == classes


def test_missing_values_on_request(tmp_path):
    frame = long_form()
    frame.loc[2, "acc"] = np.nan
    path = write_csv(tmp_path / "t.csv", frame)
    assert np.isnan(Recordings.read(path, allow_nan=True).X).sum() == 1


def test_truncated_and_foreign_csv(csv):
    content = csv.read_bytes()
    for size in range(60, len(content) - 12, 17):
        csv.write_bytes(content[:size])
        with pytest.raises(FileError, match=r"t\.csv"):
            Recordings.read(csv)
    csv.write_bytes(b"")
    with pytest.raises(TruncatedFileError, match="is empty"):
        Recordings.read(csv)
    csv.write_bytes(bytes(range(256)) * 8)
    with pytest.raises(FileError, match=r"t\.csv"):
        Recordings.read(csv)
    csv.write_text("sample,a\n1,2\n1,2,3,4\n")
    with pytest.raises(DamagedFileError, match="line 3"):
        Recordings.read(csv)


def test_truncated_gzip(tmp_path):
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(b"sample,a\n1,2\n1,3\n" * 100)[:40])
    with pytest.raises(FileError, match=r"t\.csv\.gz"):
        Recordings.read(path)


def test_truncated_and_foreign_parquet(tmp_path):
    path = tmp_path / "t.parquet"
    long_form().to_parquet(path)
    content = path.read_bytes()
    for size in (4, 50, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:size])
        with pytest.raises(FileError, match=r"t\.parquet"):
            Recordings.read(path)
    path.write_bytes(b"hello")
    with pytest.raises(ForeignFileError):
        Recordings.read(path)


# ------------------------------------------------------------------------------------ ts

MULTI = """#a comment
@problemName Demo
@timeStamps false
@missing false
@univariate false
@dimensions 2
@equalLength true
@seriesLength 3
@classLabel true walk run
@data
1,2,3:4,5,6:walk

7,8,9:10,11,12:run
"""
UNI = "@problemName U\n@timeStamps false\n@univariate true\n@classLabel false\n@data\n1,2\n3,4\n"


@pytest.fixture
def ts(tmp_path):
    def write(text):
        path = tmp_path / "d.ts"
        path.write_text(text)
        return path

    return write


def test_multivariate_ts(ts):
    rec = Recordings.read(ts(MULTI), fs=5, channels=["x", "y"])
    assert rec.X.tolist() == [[[1, 2, 3], [4, 5, 6]], [[7, 8, 9], [10, 11, 12]]]
    assert (rec.y.tolist(), rec.classes, rec.name) == ([0, 1], ("walk", "run"), "Demo")
    assert (rec.fs, rec.channels, rec.X.dtype) == (5.0, ("x", "y"), np.float32)


def test_univariate_ts_without_classes(ts):
    rec = Recordings.read(ts(UNI))
    assert rec.X.tolist() == [[[1, 2]], [[3, 4]]]
    assert rec.y is None


def test_ts_equals_what_aeon_reads(ts):
    loading = pytest.importorskip("aeon.datasets", reason="aeon is not installed")
    path = ts(MULTI.replace("\n\n", "\n"))
    their_X, their_y = loading.load_from_ts_file(str(path))
    rec = Recordings.read(path)
    np.testing.assert_allclose(rec.X, their_X, rtol=1e-6)
    assert [rec.classes[k] for k in rec.y] == their_y.tolist()


def test_ts_missing_values(ts):
    path = ts(MULTI.replace("8,9", "?,9"))
    with pytest.raises(FileError, match=r"line 13: channel 0 holds missing values"):
        Recordings.read(path)
    assert np.isnan(Recordings.read(path, allow_nan=True).X[1, 0, 1])


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("10,11,12:run", "10,11:run", "line 13: channel 1 has 2 points.*unequal lengths"),
        ("7,8,9:10,11,12:run", "7,8:10,11:run", "line 13: channel 0 has 2 points"),
        ("7,8,9:10,11,12:run", "7,8,9:run", "line 13: has 1 channels"),
        ("12:run", "12:jump", "line 13: ends with 'jump', which is none of the classes"),
        ("12:run", "12", "line 13: ends with '10,11,12'"),
        ("8,9", "x,9", "line 13: channel 0"),
        ("@dimensions 2", "@dimensions 3", "says dimensions 3, but the samples have 2"),
        ("@seriesLength 3", "@seriesLength 4", "says serieslength 4"),
        ("@univariate false", "@univariate true", "@univariate true, but"),
        ("@timeStamps false", "@timeStamps true", "time stamps"),
        ("@classLabel true walk run", "@classLabel true", "lists no classes"),
        ("@classLabel true walk run", "@targetLabel true", "regression"),
        ("@data\n", "", "line 10: '1,2,3.*comes before @data"),
    ],
)
def test_bad_ts(ts, old, new, message):
    assert old in MULTI
    with pytest.raises(FileError, match=message):
        Recordings.read(ts(MULTI.replace(old, new)))


def test_truncated_and_foreign_ts(ts):
    whole = MULTI.rstrip()
    for size in range(10, len(whole)):
        if whole[:size].rstrip().endswith("6:walk"):
            continue  # cut between two samples: the format does not say how many there are
        with pytest.raises(FileError, match=r"d\.ts"):
            Recordings.read(ts(whole[:size]))
    path = ts("")
    path.write_bytes(b"\xff\xfe\x00binary")
    with pytest.raises(ForeignFileError, match="not a text file"):
        Recordings.read(path)
