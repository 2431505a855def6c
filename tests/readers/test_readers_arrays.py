"""npz files and folders of NumPy files."""

import io
import pickle
import struct
import zipfile

import numpy as np
import pytest

from tensorcontrast.errors import (
    DamagedFileError,
    DataNotFoundError,
    FileError,
    ForeignFileError,
    InvalidInputError,
    TensorContrastWarning,
    TruncatedFileError,
)
from tensorcontrast.recordings import Recordings

RNG = np.random.default_rng(0)
X = RNG.standard_normal((5, 2, 16)).astype(np.float32)


@pytest.fixture
def saved(tmp_path):
    rec = Recordings(X, [0, 1, 0, 1, 0], fs=8.0, columns={"age": np.arange(5)})
    return rec.save(tmp_path / "r.npz")


def npy(array):
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def zipped(path, **members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return path


def test_integers_with_scale_unit_and_columns(tmp_path):
    raw = RNG.integers(-300, 300, (4, 3, 8)).astype(np.int16)
    path = tmp_path / "r.npz"
    np.savez(
        path,
        X=raw,
        scale=np.float32(0.005),
        unit="mV",
        y=np.zeros(4, np.int8),
        groups=np.arange(4, dtype=np.int32),
        fs=100.0,
        channels=np.array(["I", "II", "III"]),
        classes=np.array(["NORM", "MI"]),
        split=np.array([0, 0, 1, 1], np.int8),
    )
    rec = Recordings.read(path)
    assert rec.X.dtype == np.float32
    np.testing.assert_allclose(rec.X, raw * np.float32(0.005))
    assert (rec.units, rec.fs, rec.channels) == ("mV", 100.0, ("I", "II", "III"))
    assert rec.columns["split"].tolist() == [0, 0, 1, 1]


def test_arrays_that_fit_nowhere_are_left_out_with_a_warning(tmp_path):
    path = tmp_path / "r.npz"
    np.savez(path, X=X, filters=np.zeros(3))
    with pytest.warns(TensorContrastWarning, match="left out 'filters'"):
        rec = Recordings.load(path)
    assert rec.columns == {}


def test_fortran_order_and_every_npy_version(tmp_path):
    big_header = np.zeros(5, dtype="<U3")
    path = zipped(tmp_path / "r.npz", X=npy(np.asfortranarray(X)), site=npy(big_header))
    np.testing.assert_array_equal(Recordings.load(path).X, X)
    stream = io.BytesIO()
    np.lib.format.write_array(stream, X, version=(2, 0))
    path = zipped(tmp_path / "v2.npz", X=stream.getvalue())
    np.testing.assert_array_equal(Recordings.load(path).X, X)


def test_every_truncation_of_an_npz_is_an_error(saved):
    content = saved.read_bytes()
    for size in [0, 1, 2, 30, 100, len(content) // 2, len(content) - 30, len(content) - 1]:
        saved.write_bytes(content[:size])
        with pytest.raises(FileError, match=r"r\.npz"):
            Recordings.load(saved)


def test_flipped_bytes_are_found_by_the_checksum(saved):
    content = bytearray(saved.read_bytes())
    content[200] ^= 0xFF
    saved.write_bytes(bytes(content))
    with pytest.raises(DamagedFileError, match=r"member .*\.npy"):
        Recordings.load(saved)


def test_a_truncated_npz_is_called_that_and_a_foreign_file_foreign(saved, tmp_path):
    saved.write_bytes(saved.read_bytes()[:400])
    with pytest.raises(TruncatedFileError, match="end"):
        Recordings.load(saved)
    other = tmp_path / "x.npz"
    other.write_text("hello")
    with pytest.raises(ForeignFileError, match=r"not an \.npz"):
        Recordings.load(other)
    with pytest.raises(ForeignFileError, match=r"no array 'X'.*holds 'a"):
        Recordings.load(zipped(other, a=npy(X)))
    with zipfile.ZipFile(other, "w") as archive:
        archive.writestr("readme.txt", "hello")
    with pytest.raises(ForeignFileError, match=r"readme\.txt"):
        Recordings.load(other)


def header(shape, descr="<f4", tail=b""):
    text = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}"
    text = text.ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode() + tail


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (header((10**12, 10**6, 10**6)), TruncatedFileError),
        (header((2, 2, 2), tail=bytes(31)), TruncatedFileError),
        (header((2, 2, 2), tail=bytes(33)), TruncatedFileError),
        (header((-1, 2, 2)), TruncatedFileError),
        (header((2, 2, 2), descr="|O", tail=pickle.dumps(1)), DamagedFileError),
        (header((2, 2, 2), descr="nonsense"), DamagedFileError),
        (b"\x93NUMPY\x09\x00", DamagedFileError),
        (b"not npy at all", DamagedFileError),
        (b"", DamagedFileError),
    ],
)
def test_npy_headers_are_checked_before_memory_is_taken(tmp_path, content, error):
    with pytest.raises(error, match=r"r\.npz member 'X\.npy'"):
        Recordings.load(zipped(tmp_path / "r.npz", X=content))


def test_nothing_is_ever_unpickled(tmp_path):
    path = tmp_path / "r.npz"
    np.savez(path, X=X, y=np.array([{"a": 1}] * 5, dtype=object))
    with pytest.raises(DamagedFileError, match="pickle"):
        Recordings.load(path)


@pytest.mark.parametrize("key", ["fs", "scale"])
def test_single_values_must_be_single(tmp_path, key):
    path = tmp_path / "r.npz"
    np.savez(path, X=X, **{key: np.ones(2)})
    with pytest.raises(DamagedFileError, match=key):
        Recordings.load(path)


def test_bad_contents_name_the_file(tmp_path):
    path = tmp_path / "r.npz"
    np.savez(path, X=np.full((1, 1, 4), np.nan))
    with pytest.raises(FileError, match=r"r\.npz.*X\[0\] channel 0 holds 4 NaN"):
        Recordings.load(path)
    assert np.isnan(Recordings.load(path, allow_nan=True).X).all()


def test_missing_files_unknown_formats_and_options(tmp_path, saved):
    with pytest.raises(DataNotFoundError, match="nothing"):
        Recordings.read(tmp_path / "nothing.npz")
    with pytest.raises(DataNotFoundError, match="no such file"):
        Recordings.read(tmp_path / "nothing")
    strange = tmp_path / "x.xyz"
    strange.write_text("?")
    with pytest.raises(ForeignFileError, match=r"known are .*\.edf"):
        Recordings.read(strange)
    with pytest.raises(InvalidInputError, match="format='mat'"):
        Recordings.read(saved, format="mat")
    with pytest.raises(InvalidInputError, match="window_s"):
        Recordings.read(saved, window_s=3)
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(ForeignFileError, match="empty"):
        Recordings.read(empty)
