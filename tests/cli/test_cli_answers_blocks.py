"""Answers block by block: stores in place of memory, and commands that go on after a stop."""

import signal
from types import SimpleNamespace

import numpy as np
import pytest

from tensorcontrast import ContrastiveClassifier, Recordings, load_model
from tensorcontrast.cli.commands.suggest import looked_at
from tensorcontrast.cli.commands.train import chosen_windows, learn_classes
from tensorcontrast.cli.shared.session import Session

FS, LENGTH = 25, 50
NAMES = ("rest", "run", "walk")


def recordings(seed, n_files=3, n_windows=40):
    """Windows that follow each other in some recordings; every third one has a label."""
    rng = np.random.default_rng(seed)
    y = np.repeat(rng.integers(3, size=n_files * n_windows // 5), 5)
    t = np.arange(LENGTH) / FS
    angle = 2 * np.pi * np.array([1.0, 3.0, 6.0])[y][:, None, None] * t
    shift = rng.uniform(0, 6, (len(y), 1, 1)) + np.arange(3)[:, None]
    files = np.repeat([f"S{k}.csv" for k in range(n_files)], n_windows)
    return Recordings(
        np.sin(angle + shift) + 0.3 * rng.normal(size=(len(y), 3, LENGTH)),
        np.where(np.arange(len(y)) % 3 == 0, y, -1),
        groups=np.array([name[:2] for name in files]),
        fs=FS,
        channels=["x", "y", "z"],
        classes=NAMES,
        columns={
            "recording": files,
            "start": np.tile(np.arange(n_windows) * LENGTH, n_files),
        },
        name="days",
    )


def as_store(rec, path, chunk=25):
    """Write recordings as convert does."""
    zarr = pytest.importorskip("zarr", reason="needs the extra 'dask'")
    pytest.importorskip("dask", reason="needs the extra 'dask'")
    node = zarr.open_group(str(path), mode="w")
    X = node.create_array("X", shape=rec.X.shape, chunks=(chunk, *rec.X.shape[1:]), dtype="float64")
    X[:] = rec.X
    files, place = np.unique(rec.columns["recording"], return_inverse=True)
    groups, owner = np.unique(rec.groups, return_inverse=True)
    for name, values in (
        ("y", rec.y),
        ("groups", owner),
        ("recording", place),
        ("start", rec.columns["start"]),
    ):
        node.create_array(name, data=np.asarray(values, dtype=np.int64))
    node.attrs["tensorcontrast"] = {
        "format": 1,
        "fs": rec.fs,
        "channels": list(rec.channels),
        "classes": list(rec.classes),
        "units": None,
        "files": files.tolist(),
        "groups": groups.tolist(),
    }
    return path


@pytest.fixture(scope="module")
def twins(tmp_path_factory, call_once):
    """The same recordings in memory and in a store, each with its model."""
    folder = tmp_path_factory.mktemp("twins")
    rec = recordings(0)
    rec.save(folder / "days.npz")
    as_store(rec, folder / "days.zarr")
    told = {}
    for kind in ("npz", "zarr"):
        words = ["train", folder / f"days.{kind}", "-r", 4, "-o", folder / f"{kind}.tcm", "--json"]
        done = call_once(*words)
        assert done.code == 0, done.err
        told[kind] = done.json
    return folder, told


def test_a_store_trains_the_same_model(twins):
    folder, told = twins
    a, b = (load_model(folder / f"{kind}.tcm") for kind in ("npz", "zarr"))
    np.testing.assert_allclose(a.coef_, b.coef_, atol=1e-4)
    np.testing.assert_array_equal(a.classes_, b.classes_)
    assert a.stay_ == b.stay_ is not None
    assert a.temperature_ == pytest.approx(b.temperature_, rel=1e-3)
    assert (b.extractor_.fs_, b.extractor_.channels_) == (FS, ("x", "y", "z"))
    assert told["zarr"]["warnings"] == []
    assert b.extractor_.fitted_on_["groups"] == ["S0", "S1", "S2"]
    for key in ("windows", "labels", "groups", "n_features", "inputs"):
        assert told["npz"][key] == told["zarr"][key]


def test_a_store_is_answered_as_its_recordings_are(cli, twins, tmp_path):
    folder, _ = twins
    new = recordings(1)
    new.save(tmp_path / "new.npz")
    as_store(new, tmp_path / "new.zarr")
    for options in ([], ["--smooth", "--merge", "--abstain", 0.5]):
        for kind in ("npz", "zarr"):
            done = cli("predict", folder / "npz.tcm", tmp_path / f"new.{kind}", *options, "-o",
                       tmp_path / f"{kind}.csv", "--force", "--json")  # fmt: skip
            assert done.code == 0, done.err
        assert (tmp_path / "npz.csv").read_text() == (tmp_path / "zarr.csv").read_text()
    model = load_model(folder / "npz.tcm").set_params(smooth="viterbi", abstain=0.5)
    model.timeline(new).merged().write(tmp_path / "python.csv")
    assert (tmp_path / "python.csv").read_text() == (tmp_path / "npz.csv").read_text()


def test_a_store_is_suggested_from_as_its_recordings_are(cli, twins, tmp_path):
    folder, _ = twins
    rows = []
    for kind in ("npz", "zarr"):
        done = cli("suggest", folder / "npz.tcm", folder / f"days.{kind}", "-n", 7, "-o",
                   tmp_path / f"{kind}.csv", "--json")  # fmt: skip
        assert done.code == 0, done.err
        rows.append(done.json["rows"])
    assert len(rows[0]) == 7
    assert [row["window"] for row in rows[0]] == [row["window"] for row in rows[1]]
    assert all(row["window"] % 3 for row in rows[0])  # every third one has a label


def test_of_many_windows_some_are_looked_at_with_their_numbers():
    rec = recordings(1)
    session = Session("suggest", quiet=True)
    features = SimpleNamespace(missing="error")
    some, numbers = looked_at(session, rec, features, max_windows=50)
    assert len(some) == len(numbers) == 50
    np.testing.assert_array_equal(some.X, rec.X[numbers])
    assert (some.y >= 0).sum() == 25
    every, numbers = looked_at(session, rec, features)
    assert len(every) == len(rec) == len(numbers)


def test_a_store_takes_a_table_of_labels_and_is_evaluated(cli, twins, tmp_path):
    folder, _ = twins
    new = recordings(1)
    store = as_store(replace_labels(new, -1), tmp_path / "new.zarr")
    rows = [
        f"{name},{start / FS},{NAMES[k]}"
        for name, start, k in zip(*new.columns.values(), new.y, strict=True)
        if k >= 0
    ]
    table = tmp_path / "labels.csv"
    table.write_text("\n".join(["recording,start_s,label", *rows]))
    done = cli("train", store, "--labels", table, "-r", 4, "-o", tmp_path / "m.tcm", "--json")
    assert done.code == 0, done.err
    assert sum(done.json["labels"].values()) == len(rows)
    words = ["evaluate", folder / "npz.tcm", "--test", store, "--labels", table]
    refused = cli(*words)
    assert refused.code == 4 and "'S0', 'S1', 'S2' are in train and in test" in refused.err
    done = cli(*words, "--allow-leakage", "--test-groups", "S1", "--json")
    assert done.code == 0, done.err
    assert done.json["windows"] == sum(row.startswith("S1") for row in rows)
    assert done.json["accuracy"] > 0.9


def replace_labels(rec, value):
    return rec._with(y=np.full(len(rec), value))


def test_what_stores_are_refused_for(cli, twins, tmp_path):
    folder, _ = twins
    store, target = folder / "days.zarr", tmp_path / "m.tcm"
    for words, code, message in [
        ([store, folder / "days.npz"], 2, "a data set of its own; name it alone"),
        ([store, "--missing", "mask"], 2, "is not for stores"),
        ([store, "--resample", 10], 2, "--resample is not for stores"),
        ([as_store(replace_labels(recordings(1), -1), tmp_path / "no.zarr")], 4, "no window has"),
    ]:
        done = cli("train", *words, "-o", target)
        assert (done.code, message in done.err) == (code, True), done.err
    assert not target.exists()


def test_of_a_large_store_all_classes_train_the_classifier():
    class Lazy:
        dtype = np.dtype("float32")

    y = np.where(np.arange(100_000) % 2, 0, -1)
    y[[5, 99_999]] = 1
    from tensorcontrast.distributed.store import StoredRecordings

    class Large(StoredRecordings):
        def __len__(self):
            return len(self.y)

        n_channels, n_times = 10, 100

    chosen = chosen_windows(Large(Lazy(), y=y), max_bytes=10_000 * 4000)
    assert (np.diff(chosen) > 0).all() and len(chosen) <= 7100
    assert {5, 99_999} <= set(chosen.tolist())
    assert (y[chosen] == 0).sum() == 5000 and (y[chosen] < 0).sum() == 2000
    few = Large(Lazy(), y=y[:100])
    np.testing.assert_array_equal(chosen_windows(few), np.arange(100))


def test_some_windows_of_a_store_train_a_good_classifier(twins):
    from tensorcontrast.cli.shared.session import Session
    from tensorcontrast.distributed import open_store

    stored = open_store(twins[0] / "days.zarr")
    whole = load_model(twins[0] / "zarr.tcm")
    new = ContrastiveClassifier(random_state=0, smooth="viterbi")
    window = stored.n_channels * stored.n_times * 8
    size = 60 * window
    model = learn_classes(Session("train"), new, whole.extractor_, stored, max_bytes=size)
    assert model.extractor_ is whole.extractor_ and model.smooth == "viterbi"
    assert model.n_labels_.sum() == 40 == whole.n_labels_.sum()
    assert model.stay_ == whole.stay_
    new = recordings(4)
    assert model.score(new) > 0.9


# ---------------------------------------------------------------------------------- stops


@pytest.fixture
def many(tmp_path):
    """Recordings that are answered in three blocks."""
    rec = recordings(2, n_files=6, n_windows=200)
    return rec.save(tmp_path / "many.npz")


def stop_after(monkeypatch, count):
    """Ctrl-C in the block after so many; gives the list of the sizes of blocks."""
    sizes, whole = [], ContrastiveClassifier.predict_proba

    def answer(self, X, **more):
        if len(sizes) == count:
            raise KeyboardInterrupt
        sizes.append(len(X))
        return whole(self, X, **more)

    monkeypatch.setattr(ContrastiveClassifier, "predict_proba", answer)
    return sizes


def test_predict_goes_on_where_it_stopped(cli, twins, many, tmp_path, monkeypatch):
    model = twins[0] / "npz.tcm"
    target, parts = tmp_path / "a.csv", tmp_path / "a.csv.parts"
    words = ["predict", model, many, "--smooth", "--merge", "-o", target, "--json"]
    with monkeypatch.context() as patch:
        stop_after(patch, 2)
        done = cli(*words)
    assert done.code == 128 + signal.SIGINT
    assert "after 1,024 of 1,200 windows" in done.err and "goes on from there" in done.err
    assert not target.exists() and len(list(parts.iterdir())) == 2
    next(parts.iterdir()).write_bytes(b"torn")  # a part that a power cut has spoilt is made again
    sizes = stop_after(monkeypatch, 99)
    done = cli(*words)
    assert done.code == 0, done.err
    assert sorted(sizes) == [176, 512]
    assert done.json["resumed_after"] == 512 and "were answered before" in done.err
    assert not parts.exists()
    monkeypatch.undo()
    again = cli(*words[:-3], "-o", tmp_path / "b.csv", "--json")
    assert again.json["resumed_after"] == 0
    assert target.read_bytes() == (tmp_path / "b.csv").read_bytes()


def test_what_was_kept_for_another_model_is_not_used(cli, twins, many, tmp_path, monkeypatch):
    folder, target = twins[0], tmp_path / "a.csv"
    with monkeypatch.context() as patch:
        stop_after(patch, 2)
        assert cli("predict", folder / "npz.tcm", many, "-o", target).code == 130
    done = cli("train", folder / "days.npz", "-r", 3, "-o", tmp_path / "other.tcm")
    assert done.code == 0, done.err
    done = cli("predict", tmp_path / "other.tcm", many, "-o", target, "--json")
    assert (done.code, done.json["resumed_after"]) == (0, 0)
    assert not (tmp_path / "a.csv.parts").exists()


def test_what_is_in_the_way_is_told_before_any_work(cli, twins, many, tmp_path):
    (tmp_path / "a.csv.parts").write_text("mine")
    done = cli("predict", twins[0] / "npz.tcm", many, "-o", tmp_path / "a.csv")
    assert (done.code, "is in the way" in done.err) == (3, True)
    assert (tmp_path / "a.csv.parts").read_text() == "mine"


# ---------------------------------------------------------------------------- annotations


def test_mne_reads_the_answers(cli, twins, tmp_path):
    mne = pytest.importorskip("mne", reason="needs the extra 'mne'")
    rec = recordings(3, n_files=1)
    path = rec.save(tmp_path / "new.npz")
    target = tmp_path / "answers.edf"
    done = cli("predict", twins[0] / "npz.tcm", path, "-o", target)
    assert done.code == 0, done.err
    read = mne.read_annotations(target)
    wanted = load_model(twins[0] / "npz.tcm").timeline(rec).merged()
    assert read.description.tolist() == wanted.label.tolist()
    np.testing.assert_allclose(read.onset, wanted.start_s)
    np.testing.assert_allclose(read.onset + read.duration, wanted.end_s)
    raw = mne.io.RawArray(np.zeros((1, 2000)), mne.create_info(1, FS, "eeg"), verbose="ERROR")
    assert len(raw.set_annotations(read).annotations) == len(wanted)
