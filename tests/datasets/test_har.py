import io
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest

from tensorcontrast.datasets import har, load_har
from tensorcontrast.errors import (
    DamagedFileError,
    DataNotFoundError,
    FileError,
    ForeignFileError,
    TruncatedFileError,
)

NAMES = "WALKING WALKING_UPSTAIRS WALKING_DOWNSTAIRS SITTING STANDING LAYING".split()
COUNTS = {"train": 5, "test": 3}
RNG = np.random.default_rng(0)
SIGNALS = {part: RNG.standard_normal((n, 9, 128)) for part, n in COUNTS.items()}
LABELS = {"train": [1, 2, 3, 4, 5], "test": [6, 1, 1]}
SUBJECTS = {"train": [1, 1, 3, 3, 30], "test": [2, 2, 4]}


@pytest.fixture(autouse=True)
def no_shared_folders(monkeypatch, tmp_path):
    monkeypatch.delenv("TENSORCONTRAST_DATA", raising=False)
    monkeypatch.setenv("TENSORCONTRAST_HOME", str(tmp_path / "home"))


@pytest.fixture
def official(tmp_path):
    """The layout and number format of the official folder."""
    root = tmp_path / "UCI HAR Dataset"
    for part in COUNTS:
        (root / part / "Inertial Signals").mkdir(parents=True)
        (root / part / f"y_{part}.txt").write_text("".join(f"{y}\n" for y in LABELS[part]))
        (root / part / f"subject_{part}.txt").write_text("".join(f"{s}\n" for s in SUBJECTS[part]))
        for k, name in enumerate(har._CHANNELS):
            lines = ["".join(f" {v: .7e}" for v in row) for row in SIGNALS[part][:, k]]
            file = root / part / "Inertial Signals" / f"{name}_{part}.txt"
            file.write_text("".join(f"{line}\n" for line in lines))
    (root / "activity_labels.txt").write_text(
        "".join(f"{k} {name}\n" for k, name in enumerate(NAMES, 1))
    )
    return root


def zip_of(root):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(root.rglob("*")):
            archive.write(file, file.relative_to(root.parent))
        archive.writestr("__MACOSX/UCI HAR Dataset/._activity_labels.txt", "junk")
    return stream.getvalue()


def check(rec):
    X = np.concatenate([SIGNALS["train"], SIGNALS["test"]])
    np.testing.assert_allclose(rec.X, X, rtol=1e-6)
    assert rec.X.dtype == np.float32
    assert rec.y.tolist() == [0, 1, 2, 3, 4, 5, 0, 0]
    assert rec.groups.tolist() == [1, 1, 3, 3, 30, 2, 2, 4]
    assert rec.columns["split"].tolist() == [0] * 5 + [1] * 3
    assert (rec.fs, rec.classes) == (50.0, tuple(NAMES))
    assert rec.channels[0] == "body_acc_x"
    assert "ESANN" in rec.citation
    assert rec.licence == "CC BY 4.0"


def test_official_folder_and_the_one_above(official):
    check(load_har(official))
    check(load_har(official.parent))


def test_zip_and_zip_in_zip_without_unpacking(official, tmp_path):
    plain = tmp_path / "a.zip"
    plain.write_bytes(zip_of(official))
    before = sorted(tmp_path.iterdir())
    check(load_har(plain))
    nested = tmp_path / "b.zip"
    with zipfile.ZipFile(nested, "w") as archive:
        archive.writestr("UCI HAR Dataset.names", "names")
        archive.write(plain, "UCI HAR Dataset.zip")
    check(load_har(nested))
    assert sorted(tmp_path.iterdir()) == [*before[:1], *sorted({*before[1:], nested})]


def test_found_in_the_data_folder_and_in_the_cache(official, tmp_path, monkeypatch):
    monkeypatch.setenv("TENSORCONTRAST_DATA", str(tmp_path))
    check(load_har())
    monkeypatch.delenv("TENSORCONTRAST_DATA")
    with pytest.raises(DataNotFoundError):
        load_har(download=False)
    check(load_har(data_home=tmp_path))
    (tmp_path / "home" / "har").mkdir(parents=True)
    official.rename(tmp_path / "home" / "har" / official.name)
    check(load_har(download=False))


def test_not_there_says_which_files_to_put_where(tmp_path):
    with pytest.raises(DataNotFoundError) as caught:
        load_har(data_home=tmp_path / "cache", download=False)
    message = str(caught.value)
    assert "UCI HAR Dataset.zip" in message
    assert str(tmp_path / "cache") in message
    assert "https://archive.ics.uci.edu/dataset/240" in message
    assert "TENSORCONTRAST_DATA" in message
    with pytest.raises(DataNotFoundError, match="no such"):
        load_har(tmp_path / "nowhere")
    with pytest.raises(DataNotFoundError, match="activity_labels"):
        load_har(tmp_path)


def test_damaged_text_files_are_named_with_the_line(official):
    file = official / "train" / "Inertial Signals" / "body_gyro_y_train.txt"
    content = file.read_text()
    lines = content.splitlines(keepends=True)
    file.write_text("".join(lines[:3]) + lines[3][:900])
    with pytest.raises(DamagedFileError, match=r"body_gyro_y_train\.txt.*row 4"):
        load_har(official)
    file.write_text("".join(lines[:3]))
    with pytest.raises(TruncatedFileError, match=r"body_gyro_y_train\.txt.*\(3, 128\)"):
        load_har(official)
    file.write_text(content.replace("e+00", "e+zz", 1))
    with pytest.raises(DamagedFileError, match="e\\+zz"):
        load_har(official)
    file.write_text("")
    with pytest.raises(FileError, match="empty"):
        load_har(official)
    file.unlink()
    with pytest.raises(DataNotFoundError, match=r"body_gyro_y_train\.txt"):
        load_har(official)


def test_bad_labels_and_subjects(official):
    file = official / "test" / "y_test.txt"
    file.write_text("1\n7\n2\n")
    with pytest.raises(DamagedFileError, match="labels from 1 to 7"):
        load_har(official)
    file.write_text("1\n2\n")
    with pytest.raises(TruncatedFileError, match=r"subject_test\.txt.*\(3, 1\)"):
        load_har(official)
    (official / "activity_labels.txt").write_text("1 WALKING\n3 SITTING\n")
    with pytest.raises(DamagedFileError, match=r"activity_labels\.txt"):
        load_har(official)


def test_damaged_zips(official, tmp_path):
    path = tmp_path / "a.zip"
    content = zip_of(official)
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(TruncatedFileError, match=r"a\.zip"):
        load_har(path)
    damaged = bytearray(content)
    damaged[2000:2100] = bytes(100)
    path.write_bytes(bytes(damaged))
    with pytest.raises(FileError, match=r"a\.zip"):
        load_har(path)
    path.write_bytes(b"no zip")
    with pytest.raises(ForeignFileError):
        load_har(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x.txt", "x")
    with pytest.raises(ForeignFileError, match="not the UCI HAR zip"):
        load_har(path)


def test_other_npz_files_are_refused(tmp_path):
    np.savez(tmp_path / "har.npz", X=np.zeros((2, 9, 128)))
    with pytest.raises(ForeignFileError, match="UCI HAR"):
        load_har(tmp_path)


@pytest.mark.data
@pytest.mark.skipif(
    "TENSORCONTRAST_DATA" not in os.environ, reason="TENSORCONTRAST_DATA is not set"
)
def test_real_har():
    file = Path(REAL) / "har.npz"
    if not file.is_file():
        pytest.skip(f"{file} is not there")
    rec = load_har(file)
    assert rec.X.shape == (10299, 9, 128)
    assert len(set(rec.groups.tolist())) == 30
    assert np.bincount(rec.columns["split"]).tolist() == [7352, 2947]
    assert np.bincount(rec.y).tolist() == [1722, 1544, 1406, 1777, 1906, 1944]
    # total acceleration = body acceleration + gravity, which is slow and about 1 g
    gravity = rec.X[:, 6:] - rec.X[:, :3]
    assert np.median(np.linalg.norm(gravity, axis=1)) == pytest.approx(1.0, abs=0.05)


REAL = os.environ.get("TENSORCONTRAST_DATA", "")
