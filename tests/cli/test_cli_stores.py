"""Zarr stores as DATA, and features as rows that are written as they come."""

import csv
import json
import os
import re
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from tensorcontrast import ContrastiveFeatures, Recordings, load_model
from tensorcontrast.cli.shared import stored
from tensorcontrast.cli.shared.feature_files import writing
from tensorcontrast.errors import FileError, InvalidInputError

zarr = pytest.importorskip("zarr", reason="needs the extra 'dask'")
pytest.importorskip("distributed", reason="needs the extra 'dask'")


def as_store(rec, path, rows):
    """Write recordings as ``convert`` does, with chunks of so many windows."""
    group = zarr.open_group(str(path), mode="w", zarr_format=3)
    group.create_array("X", data=rec.X, chunks=(rows, *rec.X.shape[1:]))
    about = {"format": 1, "fs": rec.fs, "units": None, "files": ["a.edf", "b.edf"]}
    about |= {"channels": list(rec.channels), "classes": list(rec.classes)}
    names, codes = np.unique(rec.groups, return_inverse=True)
    about["groups"] = names.tolist()
    values = {"y": rec.y, "groups": codes, "recording": np.arange(len(rec)) % 2}
    for key, array in (values | {"start": 64 * np.arange(len(rec))}).items():
        group.create_array(key, data=array)
    group.attrs["tensorcontrast"] = about
    return path


@pytest.fixture(scope="module")
def twin(recordings, tmp_path_factory):
    """The same recordings as a file and as a store of uneven blocks."""
    folder = tmp_path_factory.mktemp("twin")
    columns = {
        "recording": np.array(["a.edf", "b.edf"])[np.arange(90) % 2],
        "start": 64 * np.arange(90),
    }
    rec = recordings._with(columns=columns, name="trial.zarr")
    return rec.save(folder / "trial.npz"), as_store(rec, folder / "trial.zarr", 17)


def read_table(path):
    """Columns of a file of features of any format, features as one array."""
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as file:
            return dict(file)
    if path.suffix == ".zarr":
        group = zarr.open_group(str(path), mode="r")
        about = group.attrs["tensorcontrast"]
        found = {key: group[key][:] for key in sorted(group.array_keys())}
        for key, names in about["names"].items():
            found[key] = np.array(names)[found[key]]
        return {about["columns"].get(key, key): values for key, values in found.items()}
    if path.suffix == ".csv":
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        columns = {name: [row[name] for row in rows] for name in rows[0]}
    else:
        parquet = pytest.importorskip("pyarrow.parquet", reason="needs the extra 'data'")
        columns = parquet.read_table(path).to_pydict()
    names = [name for name in columns if name.startswith("component_")]
    features = np.array([columns.pop(name) for name in names], dtype=np.float32).T
    return {"features": features, **{k: np.array(v) for k, v in columns.items()}}


def same(a, b):
    assert list(a) == list(b)
    np.testing.assert_allclose(a["features"], b["features"], rtol=1e-5, atol=1e-6)
    for key in set(a) - {"features"}:
        np.testing.assert_array_equal(a[key], b[key], err_msg=key)


# -------------------------------------------------------------------- the same as files


@pytest.mark.parametrize("suffix", ["npz", "csv", "parquet", "zarr"])
def test_features_of_a_store_are_those_of_the_file(cli, model, twin, tmp_path, suffix):
    if suffix == "parquet":
        pytest.importorskip("pyarrow", reason="needs the extra 'data'")
    facts = []
    for name, data in zip("ab", twin, strict=True):
        done = cli("transform", model, data, "-o", tmp_path / f"{name}.{suffix}", "--json")
        assert done.code == 0, done.err
        facts.append({k: v for k, v in done.json.items() if k not in ("features", "seconds")})
    assert facts[0] == facts[1]
    assert facts[0]["samples"] == 90
    a, b = (read_table(tmp_path / f"{name}.{suffix}") for name in "ab")
    same(a, b)
    np.testing.assert_allclose(
        b["features"], load_model(model).transform(Recordings.load(twin[0])), rtol=1e-5, atol=1e-6
    )


def test_every_format_holds_the_same(cli, model, twin, tmp_path):
    tables = {}
    for suffix in ("npz", "csv", "zarr"):
        path = tmp_path / f"f.{suffix}"
        assert cli("transform", model, twin[1], "-o", path).code == 0
        tables[suffix] = read_table(path)
    for suffix in ("csv", "zarr"):
        np.testing.assert_allclose(tables[suffix]["features"], tables["npz"]["features"], rtol=1e-6)
    assert tables["zarr"]["recording"].tolist() == tables["csv"]["recording"].tolist()
    for key in ("y", "groups", "start"):
        np.testing.assert_array_equal(tables["zarr"][key], tables["npz"][key])
    about = zarr.open_group(str(tmp_path / "f.zarr"), mode="r").attrs["tensorcontrast"]
    assert about["classes"] == ["rest", "move", "think"]


def test_scores_of_a_store_are_those_of_the_file(cli, model, twin):
    a, b = (cli("evaluate", model, data, "--budgets", "30,100%", "--json").json for data in twin)
    assert b["fitted_on_share"] == 1.0
    for found in (a, b):
        found.pop("seconds")
    assert a == b


def test_a_converted_store_has_the_folds_and_budgets_of_its_file(cli, model, recordings, tmp_path):
    """Convert sorts the names of classes and makes texts of groups."""
    groups = np.where(recordings.groups == recordings.groups[0], 10, recordings.groups)
    rec = recordings._with(groups=groups, classes=("walk", "rest", "climb"), columns={})
    file = rec.save(tmp_path / "x.npz")
    assert cli("convert", file, "-o", tmp_path / "x.zarr").code == 0
    found = []
    for data in (file, tmp_path / "x.zarr"):
        done = cli("evaluate", model, data, "--budgets", "9,30,100%", "--json")
        assert done.code == 0, done.err
        found.append(done.json)
    assert found[0]["classes"] == ["walk", "rest", "climb"]
    assert found[1]["classes"] == ["climb", "rest", "walk"]
    assert found[0]["scores"] == found[1]["scores"]
    assert found[0]["recall"] == found[1]["recall"]


def test_components_and_reports_of_a_store(cli, model, twin, tmp_path):
    a, b = (cli("components", model, "--data", data, "--json").json for data in twin)
    assert [c["component"] for c in a["components"]] == [c["component"] for c in b["components"]]
    assert [c["class"] for c in a["components"]] == [c["class"] for c in b["components"]]
    texts = []
    for data in twin:
        place = tmp_path / data.suffix[1:]
        place.mkdir()
        done = cli("report", model, "--data", data, "-o", place / "r.html", "--json")
        assert (done.code, done.json["samples"]) == (0, 90)
        text = (place / "r.html").read_text(encoding="utf-8")
        texts.append([line for line in text.splitlines() if "tensorcontrast report" not in line])
    assert len(texts[0]) > 20
    assert texts[0] == texts[1]


@pytest.mark.parametrize("limit", ["max_shown_windows", "max_shown_bytes"])
def test_a_report_shows_some_windows_of_a_large_store(model, twin, limit):
    from tensorcontrast.distributed import open_store

    rec, notes = open_store(twin[1]), []
    window = rec.n_channels * rec.n_times * rec.X.dtype.itemsize
    tuning = stored.StoreTuning(**{limit: 40 * (window if limit.endswith("bytes") else 1)})
    session = SimpleNamespace(note=notes.append)
    shown = stored.sampled(session, rec, load_model(model), tuning)
    chosen = np.linspace(0, 89, 40).round().astype(int)
    np.testing.assert_array_equal(shown.X, Recordings.load(twin[0]).X[chosen])
    assert notes == ["40 of 90 windows are shown"]


def test_the_channels_of_the_model_are_picked_and_long_signals_cut(
    cli, model, recordings, tmp_path
):
    long = np.concatenate(list(recordings.X[:8]), axis=1)[None].repeat(3, axis=0)
    long *= np.array([1, 2, 3], dtype=long.dtype)[:, None, None]
    noise = np.ones((3, 1, long.shape[2]), dtype=long.dtype)
    rec = Recordings(
        np.concatenate([noise, long[:, ::-1]], axis=1),
        [0, 1, 2],
        groups=["p", "q", "p"],
        fs=100,
        channels=["EOG", "Pz", "Cz", "Fz"],
        classes=["rest", "move", "think"],
        columns={"recording": ["a.edf", "b.edf", "a.edf"], "start": [0, 64, 128]},
        name="long.zarr",
    )
    pair = rec.save(tmp_path / "long.npz"), as_store(rec, tmp_path / "long.zarr", 2)
    notes = []
    for name, data in zip("ab", pair, strict=True):
        done = cli("transform", model, data, "-o", tmp_path / f"{name}.npz")
        assert done.code == 0, done.err
        notes.append(done.err)
    assert notes[0] == notes[1]
    assert "3 channels of the model of 4" in notes[1]
    assert "24 windows of 64 points" in notes[1]
    a, b = (read_table(tmp_path / f"{name}.npz") for name in "ab")
    assert len(b["features"]) == 24
    same(a, b)


# --------------------------------------------------------------------------- a cluster


def test_a_cluster_gives_the_same(cli_process, cli, model, twin, tmp_path):
    options = ["--scheduler", "local", "--workers", 2, "--memory-limit", "500MiB", "--json"]
    done = cli_process("transform", model, twin[1], "-o", tmp_path / "a.zarr", *options)
    assert done.code == 0, done.err
    assert "cluster of 2 workers" in done.err
    assert done.json["samples"] == 90
    assert cli("transform", model, twin[0], "-o", tmp_path / "b.zarr").code == 0
    same(read_table(tmp_path / "a.zarr"), read_table(tmp_path / "b.zarr"))


def test_a_scheduler_that_runs_already(cli, model, twin):
    import distributed

    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=False, protocol="tcp", dashboard_address=":0"
    ) as cluster:
        there = ["--scheduler", cluster.scheduler_address, "--json"]
        done = cli("evaluate", model, twin[1], "--budgets", "100%", *there)
        assert done.code == 0, done.err
        assert "cluster of 2 workers" in done.err
        shown = cli("components", model, "--data", twin[1], *there)
        assert shown.code == 0, shown.err
    here = cli("evaluate", model, twin[0], "--budgets", "100%", "--json").json
    assert done.json["scores"] == here["scores"]
    assert done.json["fitted_on_share"] == 1.0
    here = cli("components", model, "--data", twin[0], "--json").json
    for a, b in zip(shown.json["components"], here["components"], strict=True):
        assert (a["component"], a["class"]) == (b["component"], b["class"])


def test_clusters_are_for_stores(cli, model, twin, tmp_path):
    for command in (["transform", model, twin[0], "-o", tmp_path / "f.npz"],
                    ["evaluate", model, twin[0]],
                    ["components", model, "--data", twin[0]],
                    ["components", model]):  # fmt: skip
        done = cli(*command, "--workers", 2)
        assert done.code == 2, command
        assert "--workers" in done.err
    assert not (tmp_path / "f.npz").exists()


# ------------------------------------------------------------------------ block by block


def test_only_blocks_are_in_memory(model, twin, monkeypatch):
    """No call sees more windows than a block has, and every window comes once, in order."""
    tuning = stored.StoreTuning(max_block_windows=20)
    seen = []
    transform = ContrastiveFeatures.transform

    def watched(self, rec):
        seen.append(len(rec))
        return transform(self, rec)

    monkeypatch.setattr(ContrastiveFeatures, "transform", watched)
    fitted = load_model(model)
    from tensorcontrast.distributed import open_store

    rec = open_store(twin[1])
    blocks = list(stored.feature_blocks(fitted, rec, tuning=tuning))
    assert seen == [17, 17, 17, 17, 17, 5]
    expected = transform(fitted, Recordings.load(twin[0]))
    np.testing.assert_allclose(np.concatenate(blocks), expected, rtol=1e-5, atol=1e-6)
    seen.clear()
    tuning = stored.StoreTuning(max_block_windows=8)  # smaller than a chunk, which is read once
    assert sum(map(len, stored.feature_blocks(fitted, rec, tuning=tuning))) == 90
    assert seen == [8, 8, 1] * 5 + [5]
    seen.clear()
    tuning = stored.StoreTuning(max_block_windows=40)  # several chunks at a time
    assert sum(map(len, stored.feature_blocks(fitted, rec, tuning=tuning))) == 90
    assert seen == [34, 34, 22]
    seen.clear()
    tuning = stored.StoreTuning(max_block_bytes=3 * 64 * 4 * 10)  # ten windows of float32
    assert sum(map(len, stored.feature_blocks(fitted, rec, tuning=tuning))) == 90
    assert max(seen) <= 10


@pytest.mark.parametrize("suffix", ["npz", "csv", "parquet", "zarr"])
def test_rows_of_any_blocks_make_the_same_file(recordings, tmp_path, suffix):
    if suffix == "parquet":
        pytest.importorskip("pyarrow", reason="needs the extra 'data'")
    small = {"group_rows": 32, "chunk_bytes": 25 * 4 * 4}
    features = np.random.default_rng(0).normal(size=(90, 4)).astype(np.float32)
    tables = []
    for i, sizes in enumerate(([90], [1] * 90, [40, 0, 50], [33, 33, 24])):
        path = tmp_path / f"{i}.{suffix}"
        with writing(path, recordings, 4, **small) as write:
            at = 0
            for size in sizes:
                write(features[at : at + size])
                at += size
        tables.append(read_table(path))
        np.testing.assert_allclose(tables[-1]["features"], features, rtol=1e-6)
        same(tables[0], tables[-1])
    if suffix == "parquet":
        import pyarrow.parquet as parquet

        found = parquet.ParquetFile(tmp_path / "1.parquet").metadata
        assert [found.row_group(g).num_rows for g in range(found.num_row_groups)] == [32, 32, 26]
    if suffix == "zarr":
        assert zarr.open_group(str(path), mode="r")["features"].chunks == (25, 4)
    if suffix == "npz":
        assert (tmp_path / "0.npz").read_bytes() == (tmp_path / "1.npz").read_bytes()


# -------------------------------------------------------------------- whole or not at all


@pytest.mark.parametrize("suffix", ["npz", "csv", "parquet", "zarr"])
def test_rows_that_are_missing_leave_no_file(recordings, tmp_path, suffix):
    if suffix == "parquet":
        pytest.importorskip("pyarrow", reason="needs the extra 'data'")
    path = tmp_path / f"f.{suffix}"
    with pytest.raises(InvalidInputError, match="30 of 90"):
        with writing(path, recordings, 2) as write:
            write(np.ones((30, 2), dtype=np.float32))
    with pytest.raises(InvalidInputError, match="do not fit"):
        with writing(path, recordings, 2) as write:
            write(np.ones((91, 2), dtype=np.float32))
    with pytest.raises(KeyboardInterrupt):
        with writing(path, recordings, 2) as write:
            write(np.ones((30, 2), dtype=np.float32))
            raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_leaves_no_store(model, twin, tmp_path):
    pytest.importorskip("resource", reason="limits on the size of files need a Unix")
    code = (
        "import resource, sys\n"
        "from tensorcontrast.cli import app\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (512, 512))\n"
        "print('code', int(app(['transform', *sys.argv[1:]], standalone_mode=False)))\n"
    )
    target = tmp_path / "f.zarr"
    done = subprocess.run(
        [sys.executable, "-c", code, model, twin[1], "-o", target], capture_output=True, text=True
    )
    assert done.stdout == "code 3\n", done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert "f.zarr" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_stores_of_features_are_replaced_only_by_force(cli, model, twin, tmp_path):
    path = tmp_path / "f.zarr"
    assert cli("transform", model, twin[1], "-o", path).code == 0
    before = read_table(path)
    done = cli("transform", model, twin[1], "-o", path)
    assert (done.code, "--force" in done.err) == (3, True)
    zarr.open_group(str(path), mode="r+")["features"][:] = 0
    assert cli("transform", model, twin[1], "-o", path, "--force").code == 0
    same(before, read_table(path))
    assert [p.name for p in tmp_path.iterdir()] == ["f.zarr"]


def test_no_other_folder_is_ever_replaced(cli, model, twin, tmp_path):
    work = tmp_path / "work.zarr"
    work.mkdir()
    (work / "precious").write_text("x")
    for folder in (work, twin[1]):
        count = len(list(folder.rglob("*")))
        done = cli("transform", model, twin[1], "-o", folder, "--force")
        assert done.code == 3
        assert "choose another name" in done.err
        assert len(list(folder.rglob("*"))) == count
    (tmp_path / "file.zarr").write_text("x")
    assert cli("transform", model, twin[1], "-o", tmp_path / "file.zarr", "--force").code == 0
    assert read_table(tmp_path / "file.zarr")["features"].shape == (90, 3)


def test_a_store_that_cannot_take_its_name_brings_the_old_one_back(
    recordings, tmp_path, monkeypatch
):
    path = tmp_path / "f.zarr"
    features = np.ones((90, 2), dtype=np.float32)
    with writing(path, recordings, 2) as write:
        write(features)
    rename = type(path).rename

    def broken(self, other):
        if other == path and self.name.endswith(".part") and (self / "new").exists():
            raise PermissionError(13, "Permission denied")
        return rename(self, other)

    monkeypatch.setattr(type(path), "rename", broken)
    with pytest.raises(FileError, match=re.escape("f.zarr")):
        with writing(path, recordings, 2) as write:
            write(2 * features)
            (part,) = tmp_path.glob("*.part")
            (part / "new").touch()
    assert [p.name for p in tmp_path.iterdir()] == ["f.zarr"]
    np.testing.assert_array_equal(read_table(path)["features"], features)


def test_columns_of_any_name_stay_in_the_store(recordings, tmp_path):
    names = ["../out", "a/b", "column_0", "column_2", "features", "zarr.json", "x\x00", ".hidden"]
    names += ["night 1", "Night 1"]
    rec = recordings._with(columns={name: np.arange(90) + i for i, name in enumerate(names)})
    path = tmp_path / "f.zarr"
    with writing(path, rec, 2) as write:
        write(np.zeros((90, 2), dtype=np.float32))
    group = zarr.open_group(str(path), mode="r")
    columns = group.attrs["tensorcontrast"]["columns"]
    assert sorted(columns.values()) == sorted(names)
    assert all(re.fullmatch(r"[\w ]+", key) for key in columns)
    assert len({key.casefold() for key in columns}) == len(names)
    for key, name in columns.items():
        np.testing.assert_array_equal(group[key][:], rec.columns[name])
    assert [p.name for p in tmp_path.iterdir()] == ["f.zarr"]


# ----------------------------------------------------------------------------- bad input


def test_missing_values_of_a_store_are_told_by_window(cli, model, recordings, tmp_path):
    X = recordings.X.copy()
    X[70, 1, 5] = np.nan
    rec = recordings._with(X=X, columns={}, name="x.zarr")
    store = as_store(rec, tmp_path / "x.zarr", 17)
    for command in (["transform", model, store, "-o", tmp_path / "f.csv"],
                    ["evaluate", model, store],
                    ["report", model, "--data", store, "-o", tmp_path / "r.html"]):  # fmt: skip
        done = cli(*command, "--json")
        assert done.code == 4, done.err
        message = done.json["error"]["message"]
        assert "window 70" in message
        assert "'Cz'" in message
    assert sorted(p.name for p in tmp_path.iterdir()) == ["x.zarr"]


def test_stores_that_do_not_fit(cli, model, recordings, tmp_path):
    done = cli("transform", model, tmp_path / "no.zarr", "-o", tmp_path / "f.csv")
    assert (done.code, "no.zarr" in done.err) == (3, True)
    zarr.open_group(str(tmp_path / "empty.zarr"), mode="w", zarr_format=3)
    done = cli("transform", model, tmp_path / "empty.zarr", "-o", tmp_path / "f.csv")
    assert (done.code, "empty.zarr" in done.err) == (3, True)
    short = recordings._with(X=recordings.X[..., :40], columns={})
    store = as_store(short, tmp_path / "short.zarr", 30)
    done = cli("transform", model, store, "-o", tmp_path / "f.csv")
    assert (done.code, "40" in done.err) == (4, True)
    slow = recordings._with(fs=50.0, columns={})
    done = cli("evaluate", model, as_store(slow, tmp_path / "slow.zarr", 30))
    assert (done.code, "sampling rate" in done.err) == (4, True)
    named = recordings._with(channels=("A", "B", "Cz"), columns={})
    done = cli("evaluate", model, as_store(named, tmp_path / "named.zarr", 30))
    assert (done.code, "'Fz'" in done.err) == (4, True)
    zarr.save_array(str(tmp_path / "bare.zarr"), recordings.X)
    done = cli("transform", model, tmp_path / "bare.zarr", "-o", tmp_path / "f.csv")
    assert (done.code, "--fs 100" in done.err) == (4, True)
    done = cli("transform", model, tmp_path / "bare.zarr", "-o", tmp_path / "f.csv", "--fs", 100)
    assert done.code == 0, done.err
    done = cli("transform", model, tmp_path / "bare.zarr", "-o", tmp_path / "g.csv", "--step", 1)
    assert (done.code, "--step" in done.err) == (2, True)
    assert not (tmp_path / "g.csv").exists()


def test_a_store_of_features_is_no_data(cli, model, twin, tmp_path):
    assert cli("transform", model, twin[1], "-o", tmp_path / "f.zarr").code == 0
    done = cli("transform", model, tmp_path / "f.zarr", "-o", tmp_path / "g.csv")
    assert (done.code, "no array X" in done.err) == (3, True)


def test_the_memory_of_a_transform_does_not_grow_with_the_store(cli, model, tmp_path):
    """Peak memory over four times as many windows; the signals would need far more."""
    if not os.path.exists("/proc/self/status"):
        pytest.skip("needs a Linux /proc")
    rng = np.random.default_rng(0)
    block = rng.normal(size=(1000, 3, 64)).astype(np.float32)
    peaks = []
    for n in (15_000, 60_000):
        store = tmp_path / f"{n}.zarr"
        array = zarr.create_array(
            str(store), shape=(n, 3, 64), chunks=(1000, 3, 64), dtype="float32", compressors=None
        )
        for start in range(0, n, 1000):
            array[start : start + 1000] = block
        code = (
            "import sys\n"
            "from pathlib import Path\n"
            "from tensorcontrast.cli import app\n"
            "assert not app(['transform', *sys.argv[1:], '-q'], standalone_mode=False)\n"
            "status = Path('/proc/self/status').read_text()\n"
            "print(int(status.partition('VmHWM:')[2].split()[0]) * 1024)\n"
        )
        target = tmp_path / f"{n}-features.zarr"
        done = subprocess.run(
            [sys.executable, "-c", code, model, store, "--fs", "100", "-o", target],
            capture_output=True,
            text=True,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        )
        assert done.returncode == 0, done.stderr
        peaks.append(int(done.stdout))
        assert json.loads((target / "features" / "zarr.json").read_text())["shape"] == [n, 3]
    signals = 45_000 * 3 * 64 * 4
    assert peaks[1] - peaks[0] < signals / 2, peaks
