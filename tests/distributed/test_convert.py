"""Stores: converted from folders, in parallel, stopped and resumed, and opened lazily."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from tensorcontrast import Recordings, distributed
from tensorcontrast.datasets import make_synthetic
from tensorcontrast.distributed import is_store, open_store
from tensorcontrast.errors import (
    DataNotFoundError,
    FileError,
    ForeignFileError,
    InvalidInputError,
    MissingDependencyError,
    NewerFileError,
)

zarr = pytest.importorskip("zarr")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three npz files of different lengths, two with labels of different classes."""
    source = tmp_path / "source"
    (source / "b").mkdir(parents=True)
    rng = np.random.default_rng(0)
    for name, n, classes in (("a", 5, ("sit", "walk")), ("b/c", 7, ("run", "sit")), ("d", 3, None)):
        X = rng.standard_normal((n, 3, 20)).astype(np.float32)
        y = None if classes is None else np.arange(n) % 2
        rec = Recordings(X, y, fs=50.0, channels=("x", "y", "z"), classes=classes, units="g")
        rec.save(source / f"{name}.npz")
    return source


#: Conversion that notes how far it is after each file.
convert = partial(distributed.convert, chunk_bytes=1)


def tree(store: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(store)): path.read_bytes()
        for path in sorted(store.rglob("*"))
        if path.is_file()
    }


def test_labels_by_number_and_by_name_do_not_mix(folder: Path, tmp_path: Path) -> None:
    X = np.ones((2, 3, 20), np.float32)
    rec = Recordings(X, [0, 1], fs=50.0, channels=("x", "y", "z"), units="g")
    rec.save(folder / "e.npz")
    with pytest.raises(InvalidInputError, match="by number"):
        convert(folder, tmp_path / "store.zarr")


def test_a_store_holds_what_the_files_hold(folder: Path, tmp_path: Path) -> None:
    steps: list[tuple[int, int]] = []
    target = convert(
        folder,
        tmp_path / "s.zarr",
        chunk_bytes=4 * 3 * 20 * 4,
        progress=lambda *step: steps.append(step),
    )
    rec = open_store(target)
    files = [Recordings.load(folder / name) for name in ("a.npz", "b/c.npz", "d.npz")]
    np.testing.assert_array_equal(rec.X.compute(), np.concatenate([p.X for p in files]))
    assert rec.X.chunks[0] == (4, 4, 4, 3)
    assert (rec.fs, rec.channels, rec.units) == (50.0, ("x", "y", "z"), "g")
    assert rec.classes == ("run", "sit", "walk")
    assert rec.y is not None
    names = [rec.classes[label] if label >= 0 else "" for label in rec.y]
    assert names == ["sit", "walk"] * 2 + ["sit"] + ["run", "sit"] * 3 + ["run"] + [""] * 3
    assert rec.columns["recording"].tolist() == ["a.npz"] * 5 + ["b/c.npz"] * 7 + ["d.npz"] * 3
    assert rec.groups is not None
    assert rec.groups.tolist() == ["a"] * 5 + ["b/c"] * 7 + ["d"] * 3
    assert len(rec) == 15
    assert steps == [(0, 3), (1, 3), (2, 3), (3, 3)]
    assert is_store(target)


@pytest.mark.parametrize("stop_at", [1, 2, 3])
@pytest.mark.parametrize("rows", [1, 4, 100])
def test_stopped_and_run_again_gives_the_same_store(
    folder: Path, tmp_path: Path, stop_at: int, rows: int
) -> None:
    size = rows * 3 * 20 * 4
    whole = convert(folder, tmp_path / "whole.zarr", chunk_bytes=size)

    def stop(done: int, total: int) -> None:
        if done == stop_at:
            raise KeyboardInterrupt

    target = tmp_path / "stopped.zarr"
    with pytest.raises(KeyboardInterrupt):
        convert(folder, target, chunk_bytes=size, progress=stop)
    with pytest.raises(FileError, match="again"):
        open_store(target)
    done = []
    convert(folder, target, chunk_bytes=size, progress=lambda *step: done.append(step))
    assert tree(target) == tree(whole)
    noted = {1: stop_at, 4: stop_at, 100: 3 if stop_at == 3 else 0}[rows]
    assert done[0] == (noted, 3)  # what was noted is not read again


def test_killed_in_the_middle_and_run_again(folder: Path, tmp_path: Path) -> None:
    target, whole = tmp_path / "killed.zarr", convert(folder, tmp_path / "whole.zarr")
    code = (
        "import sys, time\n"
        "from tensorcontrast.distributed import convert\n"
        "convert(sys.argv[1], sys.argv[2], chunk_bytes=1, "
        "progress=lambda d, t: (print(d, flush=True), time.sleep(60 if d == 2 else 0)))\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(folder), str(target)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    while process.stdout.readline().strip() != "2":
        assert process.poll() is None
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()
    done: list[tuple[int, int]] = []
    convert(folder, target, progress=lambda *step: done.append(step))
    assert done[0] == (2, 3)
    assert tree(target) == tree(whole)


def test_a_changed_file_is_read_again(folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "s.zarr"

    def stop(done: int, total: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        convert(folder, target, progress=stop)
    rec = Recordings.load(folder / "a.npz")
    time.sleep(0.01)
    rec._with(X=rec.X + 1).save(folder / "a.npz")
    convert(folder, target)
    np.testing.assert_array_equal(open_store(target).X[:5].compute(), rec.X + 1)


def test_files_that_do_not_fit_are_named(folder: Path, tmp_path: Path) -> None:
    Recordings(np.zeros((2, 3, 21), dtype=np.float32), fs=50.0, channels=("x", "y", "z")).save(
        folder / "z.npz"
    )
    with pytest.raises(FileError, match=r"z\.npz: points of a window is 21, but a\.npz has 20"):
        convert(folder, tmp_path / "s.zarr")


def test_files_at_two_rates_are_named_with_their_rates(tmp_path: Path) -> None:
    source = nights(tmp_path, {"a": ("X", 100), "b": ("X", 128)})
    said = r"b\.edf: sampling rate is 128 Hz, but a\.edf has 100 Hz; resample"
    with pytest.raises(FileError, match=said):
        convert(source, tmp_path / "s.zarr", window_s=2)


def nights(tmp_path: Path, files: dict[str, tuple[str, int]]) -> Path:
    """EDF files of four seconds: names, patient codes and rates."""
    edfio = pytest.importorskip("edfio")
    source = tmp_path / "nights"
    for name, (code, fs) in files.items():
        path = source / f"{name}.edf"
        path.parent.mkdir(parents=True, exist_ok=True)
        signal = edfio.EdfSignal(np.random.default_rng(0).standard_normal(4 * fs), fs, label="C3")
        edfio.Edf([signal], patient=edfio.Patient(code=code)).write(path)
    return source


def test_groups_are_patient_codes_or_come_from_names(tmp_path: Path) -> None:
    files = {"S1a": ("P7", 50), "S1b": ("P7", 50), "S2/x": ("X", 50), "S3/x": ("X", 50)}
    source = nights(tmp_path, files)
    rec = open_store(convert(source, tmp_path / "codes.zarr", window_s=4))
    assert rec.groups is not None
    assert rec.groups.tolist() == ["P7", "P7", "S2/x", "S3/x"]
    pattern = r"(?P<group>S\d+)"
    rec = open_store(convert(source, tmp_path / "names.zarr", window_s=4, groups=pattern))
    assert rec.groups is not None
    assert rec.groups.tolist() == ["S1", "S1", "S2", "S3"]
    for wrong, error, said in (
        (r"(?P<group>S1)", FileError, r"S2/x\.edf: the name does not match"),
        (r"(?P<group>S1*?)(?P<x>", InvalidInputError, "not a regular expression"),
        (r"(?P<who>S\d)", InvalidInputError, "no part named 'group'"),
    ):
        with pytest.raises(error, match=said):
            convert(source, tmp_path / "wrong.zarr", window_s=4, groups=wrong)
    assert not (tmp_path / "wrong.zarr").exists()


def test_without_dask_nothing_is_written(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "dask.array", None)
    with pytest.raises(MissingDependencyError, match=r"tensorcontrast\[dask\]"):
        convert(folder, tmp_path / "s.zarr")
    assert not (tmp_path / "s.zarr").exists()


def test_windows_with_gaps(folder: Path, tmp_path: Path) -> None:
    rec = Recordings.load(folder / "d.npz")
    X = rec.X.copy()
    X[1, 0, 3] = np.nan
    Recordings(X, fs=50.0, channels=rec.channels, units="g", allow_nan=True).save(folder / "d.npz")
    with pytest.raises((FileError, ValueError), match="NaN"):
        convert(folder, tmp_path / "s.zarr")
    stored = open_store(convert(folder, tmp_path / "t.zarr", drop_nan=True))
    assert len(stored) == 14
    assert np.isfinite(stored.X.compute()).all()


def test_wrong_places(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(DataNotFoundError, match="no such"):
        convert(tmp_path / "nothing", tmp_path / "s.zarr")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataNotFoundError, match=r"\.edf"):
        convert(tmp_path / "empty", tmp_path / "s.zarr")
    (tmp_path / "there" / "of_somebody").mkdir(parents=True)
    with pytest.raises(FileError, match="not overwritten"):
        convert(folder, tmp_path / "there")
    with pytest.raises(FileError, match="does not exist"):
        convert(folder, tmp_path / "no" / "s.zarr")
    with pytest.raises(DataNotFoundError, match="no such store"):
        open_store(tmp_path / "none.zarr")
    with pytest.raises(ForeignFileError, match="not a Zarr store"):
        open_store(tmp_path / "empty")


def test_other_stores(tmp_path: Path) -> None:
    X = np.ones((4, 2, 8), dtype=np.float32)
    array = zarr.create_array(str(tmp_path / "plain.zarr"), data=X, chunks=(2, 2, 8))
    assert array.shape == X.shape
    rec = open_store(tmp_path / "plain.zarr")
    assert (rec.fs, rec.channels, rec.X.chunks[0]) == (None, None, (2, 2))
    group = zarr.open_group(str(tmp_path / "new.zarr"), mode="w")
    group.create_array("X", data=X)
    group.attrs["tensorcontrast"] = {"format": 99}
    with pytest.raises(NewerFileError, match="newer"):
        open_store(tmp_path / "new.zarr")
    group.attrs["tensorcontrast"] = {"format": 1, "fs": 1.0}
    with pytest.raises(FileError, match="does not fit"):
        open_store(tmp_path / "new.zarr")


def test_a_fit_takes_a_store(tmp_path: Path) -> None:
    from tensorcontrast import CPD, ContrastiveFeatures

    rec = make_synthetic(n_samples=60, n_classes=3, random_state=0)
    (tmp_path / "in").mkdir()
    rec.save(tmp_path / "in" / "a.npz")
    stored = open_store(convert(tmp_path / "in", tmp_path / "s.zarr", chunk_bytes=20_000))
    assert stored.X.numblocks[0] > 2
    there = ContrastiveFeatures(decompose=CPD(rank=3, tol=1e-3), random_state=0).fit(stored)
    here = ContrastiveFeatures(decompose=CPD(rank=3, tol=1e-3), random_state=0).fit(rec)
    assert (there.fs_, there.channels_) == (here.fs_, here.channels_)
    features = there.transform(stored)
    assert hasattr(features, "dask")
    np.testing.assert_allclose(features.compute(), here.transform(rec), atol=1e-4)


def test_annotations_of_edf_files_become_labels(tmp_path):
    edfio = pytest.importorskip("edfio", reason="needs tensorcontrast[data]")
    (tmp_path / "d").mkdir()
    notes = [edfio.EdfAnnotation(10 * k, 10, f"stage {'ab'[k]}") for k in range(2)]
    for name in ("S1", "S2"):
        signal = edfio.EdfSignal(np.sin(np.arange(320.0)), 16, label="EEG")
        edfio.Edf([signal]).write(tmp_path / "d" / f"{name}-PSG.edf")
        edfio.Edf([], annotations=notes).write(tmp_path / "d" / f"{name}-Hyp.edf")
    options = {"window_s": 5, "labels": "stage (?P<label>.)", "annotations": "*-Hyp.edf"}
    rec = open_store(convert(tmp_path / "d", tmp_path / "s.zarr", **options))
    assert rec.classes == ("a", "b")
    assert np.asarray(rec.y).tolist() == [0, 0, 1, 1] * 2


def test_windows_have_a_start_where_the_files_say_one(folder: Path, tmp_path: Path) -> None:
    assert "start" not in open_store(convert(folder, tmp_path / "unknown.zarr")).columns
    placed = tmp_path / "placed"
    placed.mkdir()
    for name, starts in (("a", [0, 20, 40]), ("b", [5])):
        X = np.zeros((len(starts), 1, 20), np.float32)
        Recordings(X, fs=50.0, columns={"start": np.array(starts)}).save(placed / f"{name}.npz")
    store = open_store(convert(placed, tmp_path / "placed.zarr"))
    assert store.columns["start"].tolist() == [0, 20, 40, 5]
