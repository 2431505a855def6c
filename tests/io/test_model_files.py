"""Model files: what is written comes back; damaged, cut, foreign and newer files are told apart."""

import hashlib
import io
import json
import os
import pickle
import pickletools
import struct
import time
import tracemalloc
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from tensorcontrast import (
    ATD,
    CPD,
    PLC,
    Algorithm1,
    ContrastiveFeatures,
    TensorContrastError,
    augment,
    load_model,
)
from tensorcontrast.datasets import make_cp_tensor
from tensorcontrast.errors import (
    DamagedFileError,
    DataNotFoundError,
    FileError,
    ForeignFileError,
    NewerFileError,
    TensorContrastWarning,
    TruncatedFileError,
)
from tensorcontrast.io import container, model_files

ALL = [CPD, ATD, PLC]
PREFIX = struct.Struct("<8sIIQQ")  # magic, version, zero, size of the file, length of the header
DIGEST = 32


@pytest.fixture(scope="module")
def X():
    return make_cp_tensor(40, (4, 10, 5), 3, noise=0.05, random_state=0)[0]


@pytest.fixture(scope="module")
def raw(tmp_path_factory):
    """The bytes of a small model file."""
    path = tmp_path_factory.mktemp("model") / "small.tcm"
    X, *_ = make_cp_tensor(8, (2, 3), 1, random_state=0)
    CPD(rank=1, random_state=0).fit(X).save(path)
    return path.read_bytes()


def read(tmp_path, data):
    path = tmp_path / "read.tcm"
    path.write_bytes(data)
    return load_model(path)


def header_of(raw):
    length = PREFIX.unpack_from(raw)[4]
    return json.loads(raw[PREFIX.size : PREFIX.size + length])


def forge(raw, change, **prefix):
    """Return the file with another header, sizes and checksum made to agree."""
    *_, length = PREFIX.unpack_from(raw)
    start = -(-(PREFIX.size + length) // 64) * 64
    header = header_of(raw)
    changed = change(header)
    header = header if changed is None else changed
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    body = bytearray(PREFIX.size) + text
    body += bytes(-len(body) % 64) + raw[start:-DIGEST]
    values = {"magic": b"TCMODEL\0", "version": 1, "zero": 0, "total": len(body) + DIGEST}
    PREFIX.pack_into(body, 0, *{**values, "length": len(text), **prefix}.values())
    return bytes(body) + hashlib.sha256(body).digest()


# ---------------------------------------------------------------------------- there and back


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("cls", ALL)
def test_round_trip(cls, dtype, X, tmp_path):
    X = X.astype(dtype)
    model = cls(rank=3, alpha=0.01, random_state=7).fit(X)
    model.save(tmp_path / "model.tcm")
    loaded = load_model(tmp_path / "model.tcm")
    assert type(loaded) is cls
    assert loaded.get_params() == model.get_params()
    np.testing.assert_array_equal(loaded.transform(X), model.transform(X))
    assert loaded.transform(X).dtype == dtype
    assert loaded.score(X) == model.score(X)
    W = model.transform(X)
    np.testing.assert_array_equal(loaded.inverse_transform(W), model.inverse_transform(W))
    assert loaded.history_.keys() == model.history_.keys()
    for key, column in model.history_.items():
        np.testing.assert_array_equal(loaded.history_[key], column)
    kept = {k for k in vars(model) if k.endswith("_")}
    for name in kept:
        a, b = getattr(model, name), getattr(loaded, name)
        assert type(a) is type(b), name
        if isinstance(a, np.ndarray):
            assert a.dtype == b.dtype
            np.testing.assert_array_equal(a, b)
        elif name not in {"factors_", "history_"}:
            assert a == b, name
    assert loaded.get_feature_names_out().tolist() == model.get_feature_names_out().tolist()


@pytest.mark.parametrize("cls", ALL)
def test_a_loaded_model_can_be_saved_again(cls, X, tmp_path):
    cls(rank=3, random_state=0).fit(X).save(tmp_path / "a.tcm")
    load_model(tmp_path / "a.tcm").save(tmp_path / "b.tcm")
    again = load_model(tmp_path / "b.tcm")
    first = load_model(tmp_path / "a.tcm")
    np.testing.assert_array_equal(again.transform(X), first.transform(X))


@pytest.mark.parametrize(
    "aug",
    [
        augment.gentle(),
        augment.Compose((augment.Jitter(0.02), augment.Compose((augment.Scale(0.2),)))),
    ],
)
@pytest.mark.parametrize("cls", [ATD, Algorithm1])
def test_augmentations_of_the_library_are_kept(cls, aug, tmp_path):
    X, *_ = make_cp_tensor(30, (4, 20), 2, random_state=0)
    model = cls(rank=2, max_iter=5, tol=0, random_state=0, augment=aug).fit(X)
    model.save(tmp_path / "m.tcm")  # no warning: warnings are errors
    loaded = load_model(tmp_path / "m.tcm")
    assert loaded.augment == aug
    np.testing.assert_array_equal(loaded.fit(X).factors_[0], model.factors_[0])


def test_the_settings_of_the_paper_are_kept(X, tmp_path):
    model = PLC.paper(
        rank=3, n_clusters=3, max_iter=5, tol=0, beta=2.0, gamma=0.1, random_state=0
    ).fit(X)
    model.save(tmp_path / "m.tcm")
    loaded = load_model(tmp_path / "m.tcm")
    assert repr(loaded) == repr(model)
    assert isinstance(loaded, Algorithm1)
    np.testing.assert_array_equal(loaded.labels_, model.labels_)
    assert (loaded.beta_, loaded.gamma_) == (model.beta_, model.gamma_)


def test_code_is_left_out_with_a_warning_that_names_it(X, tmp_path):
    model = Algorithm1(rank=3, max_iter=9, tol=0, augment=lambda X, rng: X + 0.01)
    model.set_params(callback=lambda row: None).fit(X)
    with pytest.warns(TensorContrastWarning, match=r"m\.tcm") as caught:
        model.save(tmp_path / "m.tcm")
    for name in ("callback", "augment"):
        assert name in str(caught[0].message)
    assert caught[0].filename == __file__
    loaded = load_model(tmp_path / "m.tcm")
    assert loaded.callback is loaded.augment is None
    np.testing.assert_array_equal(loaded.transform(X), model.transform(X))


def test_names_of_columns_are_kept(tmp_path):
    import pandas as pd

    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(20, 3)), columns=["a", "b", "ü"])
    CPD(rank=2, alpha=0.1, random_state=0).fit(frame).save(tmp_path / "m.tcm")
    loaded = load_model(tmp_path / "m.tcm")
    assert loaded.feature_names_in_.tolist() == ["a", "b", "ü"]
    assert loaded.transform(frame).shape == (20, 2)


def test_the_file_is_small_and_documented(X, tmp_path, raw):
    """R·ΣI_k numbers, mean, labels and history: not the features, not the data."""
    CPD(rank=3, random_state=0).fit(np.repeat(X, 50, axis=0)).save(tmp_path / "m.tcm")
    assert (tmp_path / "m.tcm").stat().st_size < 2000 * 8 + 8192 + 200 * 8
    header = header_of(raw)
    assert header["model"]["class"] == "CPD"
    assert header["written_by"].startswith("tensorcontrast ")
    assert header["model"]["params"]["rank"] == 1
    assert all(entry["offset"] % 64 == 0 for entry in header["arrays"])


def test_no_pickle_in_the_file_nor_in_the_code(raw, monkeypatch, tmp_path):
    def forbidden(*args, **kwargs):
        raise AssertionError("unpickled")

    for module, name in [(pickle, "loads"), (pickle, "load"), (pickle, "Unpickler")]:
        monkeypatch.setattr(module, name, forbidden)
    monkeypatch.setattr(np, "load", forbidden)
    assert read(tmp_path, raw).rank == 1
    with pytest.raises(Exception):  # noqa: B017 - whatever pickletools says of no pickle
        pickletools.dis(raw, out=io.StringIO())
    assert b"numpy" not in raw
    source = Path(model_files.__file__).read_text(encoding="utf-8")
    assert "import pickle" not in source
    assert "allow_pickle" not in source


# ---------------------------------------------------------------------------- damaged, cut


def test_every_byte_counts(raw, tmp_path):
    """One flipped bit anywhere is found, and is never anything but a FileError."""
    positions = {*range(0, len(raw), 7), *range(PREFIX.size + 40), *range(len(raw) - 40, len(raw))}
    for at in sorted(positions):
        broken = bytearray(raw)
        broken[at] ^= 1 << (at % 8)
        with pytest.raises(FileError, match=r"read\.tcm") as info:
            read(tmp_path, bytes(broken))
        if at < 8:
            assert type(info.value) is ForeignFileError
        elif at < 12:
            assert type(info.value) in (NewerFileError, DamagedFileError)
        elif at < 24:
            assert type(info.value) in (TruncatedFileError, DamagedFileError)
        else:
            assert type(info.value) is DamagedFileError


def test_every_length_is_told_as_truncated(raw, tmp_path):
    for length in {*range(200), *range(200, len(raw), 13), len(raw) - 1}:
        with pytest.raises(TruncatedFileError, match=r"read\.tcm"):
            read(tmp_path, raw[:length])


def test_a_longer_file_is_damaged(raw, tmp_path):
    for tail in (b"\0", raw):
        with pytest.raises(DamagedFileError, match="bytes"):
            read(tmp_path, raw + tail)


def test_foreign_files(raw, tmp_path, X):
    archive = io.BytesIO()
    np.savez(archive, X=X)
    foreign = {
        "pickle": pickle.dumps({"a": 1}),
        "npz": archive.getvalue(),
        "text": b"channel,time\n1,2\n",
        "short": b"x",
        "lower case": b"tcmodel\0" + raw[8:],
    }
    for data in foreign.values():
        with pytest.raises(ForeignFileError, match=r"read\.tcm"):
            read(tmp_path, data)


def test_a_pickle_behind_the_magic_is_not_run(raw, tmp_path):
    class Bomb:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "ran"),)

    bomb = pickle.dumps(Bomb())
    with pytest.raises(FileError):
        read(tmp_path, raw[: PREFIX.size] + bomb)
    with pytest.raises(DamagedFileError, match="JSON"):
        read(tmp_path, forge(raw, lambda header: bomb))
    assert not (tmp_path / "ran").exists()


# ---------------------------------------------------------------------------- newer


def test_forging_nothing_gives_the_model(raw, tmp_path):
    """The helper of the tests below makes valid files."""
    np.testing.assert_array_equal(
        read(tmp_path, forge(raw, lambda header: None)).factors_[0], read(tmp_path, raw).factors_[0]
    )


@pytest.mark.parametrize("version", [2, 3, 2**31])
def test_a_newer_format(raw, tmp_path, version):
    with pytest.raises(NewerFileError, match=f"format {version}"):
        read(tmp_path, forge(raw, lambda header: None, version=version))


def test_an_unknown_class_or_parameter_is_newer(raw, tmp_path):
    def other_class(header):
        header["model"]["class"] = "Transformer9000"

    def other_parameter(header):
        header["model"]["params"]["warp"] = 9

    with pytest.raises(NewerFileError, match="Transformer9000"):
        read(tmp_path, forge(raw, other_class))
    with pytest.raises(NewerFileError, match="warp"):
        read(tmp_path, forge(raw, other_parameter))


def test_an_unknown_augmentation_or_kind_of_value_is_a_file_error(raw, tmp_path):
    for value in ({"augment": {"type": "Warp", "by": 3}}, {"module": "os.system"}):
        data = forge(raw, lambda h, v=value: h["model"]["params"].update(block_weights=v))
        with pytest.raises(FileError, match=r"read\.tcm") as info:
            read(tmp_path, data)
        assert not isinstance(info.value, NewerFileError)


# ---------------------------------------------------------------------------- forged


def arrays(**changes):
    def change(header):
        header["arrays"][0].update(changes)

    return change


def learned(name, value):
    def change(header):
        header["model"]["learned"][name] = value

    return change


@pytest.mark.parametrize(
    "change",
    [
        arrays(shape=[2**40]),
        arrays(shape=[2**31, 2**31, 2**31]),
        arrays(shape=[2**63, 2**63]),
        arrays(shape=[-1]),
        arrays(shape=[1.5]),
        arrays(shape=["a"]),
        arrays(shape=[True]),
        arrays(shape=None),
        arrays(shape=[0]),
        arrays(offset=-64),
        arrays(offset=2**62),
        arrays(offset=0.5),
        arrays(offset="a"),
        arrays(dtype="|O"),
        arrays(dtype="<U999999999"),
        arrays(dtype="<f2"),
        arrays(dtype=["<f8"]),
        arrays(name="other"),
        arrays(name=["a"]),
        learned("factors_", None),
        learned("factors_", {"list": []}),
        learned("factors_", {"list": [1, 2]}),
        learned("factors_", {"array": "center_"}),
        learned("center_", {"array": "nothing"}),
        learned("center_", 3),
        learned("ridge_", {"tuple": [1.0]}),
        learned("rank_", "one"),
        learned("rank_", 10**12),
        learned("dims_", None),
        learned("dims_", {"tuple": [2]}),
        learned("scale_", "large"),
        learned("scale_", None),
        learned("scale_", 0.0),
        learned("scale_", {"float": "nan"}),
        learned("n_iter_", {"list": 3}),
        learned("n_iter_", {}),
        learned("n_iter_", {"a": 1, "b": 2}),
        learned("transform", 3),
        learned("__class__", "x"),
        learned("__dict__", {"dict": {}}),
        learned("__init__", 3),
        lambda header: header.pop("arrays"),
        lambda header: header.pop("model"),
        lambda header: header["model"].pop("class"),
        lambda header: header["model"].pop("params"),
        lambda header: header["model"].pop("learned"),
        lambda header: header["model"]["learned"].pop("factors_"),
        lambda header: header["model"]["learned"].pop("center_"),
        lambda header: header["model"]["learned"].pop("rank_"),
        lambda header: header["model"]["learned"].pop("scale_"),
        lambda header: header["model"]["learned"].pop("n_features_in_"),
        lambda header: header.update(arrays=3),
        lambda header: header.update(arrays=[3]),
        lambda header: header.update(arrays={"a": 1}),
        lambda header: header.update(model=[]),
        lambda header: header["model"].update(params=[]),
        lambda header: header["model"].update({"class": ["CPD"]}),
        lambda header: header["model"].update({"class": {"a": 1}}),
        lambda header: b"[]",
        lambda header: b"null",
        lambda header: b"{",
        lambda header: b"\xff\xfe",
        lambda header: b"",
        lambda header: b"[" * 100_000,
        lambda header: b'{"model": ' * 50_000,
    ],
)
def test_a_forged_header_is_damage_and_takes_no_memory(raw, tmp_path, change):
    """The checksum agrees, so only the description itself can give the forgery away."""

    def apply(header):
        result = change(header)
        return result if isinstance(result, bytes) else None

    data = forge(raw, apply)
    tracemalloc.start()
    try:
        with pytest.raises(DamagedFileError, match=r"read\.tcm"):
            read(tmp_path, data)
        assert tracemalloc.get_traced_memory()[1] < 64 * 2**20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("length", [2**20, 2**40, 2**64 - 1])
def test_a_forged_length_of_the_header(raw, tmp_path, length):
    with pytest.raises(DamagedFileError, match="header"):
        read(tmp_path, forge(raw, lambda header: None, length=length))


@pytest.mark.parametrize("total", [0, 10, 2**40, 2**64 - 1])
def test_a_forged_size_of_the_file(raw, tmp_path, total):
    with pytest.raises((DamagedFileError, TruncatedFileError), match="bytes"):
        read(tmp_path, forge(raw, lambda header: None, total=total))


def test_a_forged_file_cannot_choose_where_fit_writes(raw, tmp_path):
    victim = tmp_path / "victim.txt"
    victim.write_text("keep")
    machine = {"verbose": True, "callback": {"dict": {}}}
    loaded = read(tmp_path, forge(raw, lambda header: header["model"]["params"].update(machine)))
    assert (loaded.verbose, loaded.callback) == (False, None)
    for name in ("autosave", "checkpoint"):
        data = forge(raw, lambda h, n=name: h["model"]["params"].update({n: str(victim)}))
        with pytest.raises(FileError, match=name):
            read(tmp_path, data)
    loaded.fit(make_cp_tensor(8, (2, 3), 1, random_state=0)[0])
    assert victim.read_text() == "keep"


def test_nor_can_an_estimator_within_an_estimator(tmp_path):
    X = np.random.default_rng(0).normal(size=(12, 2, 32)).astype(np.float32)
    part = CPD(rank=2, random_state=0, max_iter=3, tol=1.0)
    model = ContrastiveFeatures(fs=8.0, n_jobs=2, decompose=part, random_state=0)
    model.fit(X).save(tmp_path / "m.tcm")
    data = (tmp_path / "m.tcm").read_bytes()
    assert "n_jobs" not in header_of(data)["model"]["params"]
    changed = []

    def add(header):
        state = header["model"]
        state["params"]["n_jobs"] = 10**9
        for part in ("params", "learned"):
            for name, value in state[part].items():
                inner = value if isinstance(value, dict) else {}
                for one in inner.get("list", inner.get("tuple", [inner])):
                    if isinstance(one, dict) and "estimator" in one:
                        own = one["estimator"]["params"]
                        changed.append(name)
                        own |= {"verbose": True} if "rank" in own else {"n_jobs": 10**9}

    loaded = read(tmp_path, forge(data, add))
    assert {"decompose", "decompose_"} < set(changed) and len(changed) > 3
    assert loaded.n_jobs is None
    assert not loaded.decompose.verbose and not loaded.decompose_.verbose
    assert all(getattr(block, "n_jobs", None) is None for block in loaded.tensorize_)
    loaded.fit(X)


def test_saving_leaves_out_what_acts_on_this_machine(X, tmp_path):
    model = CPD(rank=2, random_state=0, verbose=True).fit(X)
    model.save(tmp_path / "m.tcm")
    data = (tmp_path / "m.tcm").read_bytes()
    assert not set(header_of(data)["model"]["params"]) & model_files.MACHINE_PARAMETERS


def test_every_parameter_that_could_name_a_file_is_one_that_files_do_not_set():
    """A new parameter that takes any text or a path must be left out of files, or listed here."""
    described = {"device", "window", "channels"}
    for name, module in model_files._MODULES.items():
        cls = getattr(import_module(f"tensorcontrast.{module}"), name)
        for parameter, kinds in cls._parameter_constraints.items():
            free = kinds == "no_validation" or any(k in (str, os.PathLike, callable) for k in kinds)
            if free and parameter not in {"augment", "clusterer", "tensorize", "decompose"}:
                assert parameter in model_files.MACHINE_PARAMETERS | described, (
                    f"{name}.{parameter}"
                )


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", ["center_", "factors_.1", "ridge_", "weights_", "feature_gram_"])
def test_a_learned_array_that_is_not_finite_is_named(raw, tmp_path, name, value):
    header = header_of(raw)
    (entry,) = [e for e in header["arrays"] if e["name"] == name]
    data = bytearray(raw)
    start = -(-(PREFIX.size + PREFIX.unpack_from(raw)[4]) // 64) * 64 + entry["offset"]
    packed = np.array(value, dtype=entry["dtype"]).tobytes()
    data[start : start + len(packed)] = packed
    with pytest.raises(DamagedFileError, match=rf"read\.tcm.*{name.split('.')[0]}.*NaN"):
        read(tmp_path, forge(bytes(data), lambda header: None))


def test_a_model_that_could_not_be_loaded_is_not_saved(X, tmp_path):
    model = CPD(rank=2, random_state=0).fit(X)
    model.center_[0, 0, 0] = np.nan
    with pytest.raises(TensorContrastError, match="center_"):
        model.save(tmp_path / "m.tcm")
    model.center_[0, 0, 0] = 0.0
    model.extra_ = [[] for _ in range(container.MAX_OBJECTS)]
    with pytest.raises(TensorContrastError, match=r"m\.tcm.*entries"):
        model.save(tmp_path / "m.tcm")
    assert not list(tmp_path.iterdir())


MANY = 200_000
EMPTY = {"name": "a", "dtype": "<f8", "shape": [0], "offset": 0}


@pytest.mark.parametrize(
    "change",
    [
        lambda h: h.update(arrays=[EMPTY] * MANY),
        lambda h: h["model"]["params"].update({f"a{k}": 0 for k in range(MANY)}),
        lambda h: h["model"]["learned"].update(x_={"list": [{"list": []}] * MANY}),
        lambda h: h["arrays"][0].update(shape=[2**62] * 200_000),
        lambda h: h["model"]["params"].update(block_weights={"x" * MANY: 1}),
        lambda h: h["model"].update({"class": "y" * MANY}),
    ],
)
def test_many_forged_entries_are_refused_at_once_and_in_few_words(raw, tmp_path, change):
    data = forge(raw, lambda header: change(header) and None)
    begin = time.process_time()
    with pytest.raises(FileError, match=r"read\.tcm") as info:
        read(tmp_path, data)
    assert time.process_time() - begin < 2.0
    assert len(str(info.value)) < 1000


# ---------------------------------------------------------------------------- paths


def test_no_file(tmp_path):
    with pytest.raises(DataNotFoundError, match=r"nothing\.tcm") as info:
        load_model(tmp_path / "nothing.tcm")
    assert isinstance(info.value, FileNotFoundError | TensorContrastError)


def test_a_folder_is_no_file(tmp_path):
    with pytest.raises(FileError, match="cannot be read"):
        load_model(tmp_path)
    (tmp_path / "file").write_text("x")
    with pytest.raises(TensorContrastError, match="file"):
        load_model(tmp_path / "file" / "m.tcm")


@pytest.fixture
def model(X):
    return CPD(rank=3, random_state=0).fit(X)


def test_paths_may_be_strings(model, X, tmp_path):
    path = str(tmp_path / "a b ü.tcm")
    model.save(path)
    np.testing.assert_array_equal(load_model(path).transform(X), model.transform(X))


def test_places_that_cannot_be_written(model, tmp_path):
    (tmp_path / "file").write_text("x")
    (tmp_path / "folder").mkdir()
    for path in ("file/m.tcm", "missing/m.tcm", "folder"):
        with pytest.raises(FileError, match="cannot be written") as info:
            model.save(tmp_path / path)
        assert str(tmp_path / path) in str(info.value)
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["file", "folder"]
    assert (tmp_path / "file").read_text() == "x"


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_an_existing_file_survives_a_failed_write(model, X, tmp_path, monkeypatch, step):
    path = tmp_path / "m.tcm"
    model.save(path)
    before = path.read_bytes()

    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, step, full)
    with pytest.raises(FileError, match="No space left"):
        CPD(rank=2, random_state=1).fit(X).save(path)
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["m.tcm"]


def test_an_interrupted_write_leaves_nothing_behind(model, tmp_path, monkeypatch):
    def interrupt(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        model.save(tmp_path / "m.tcm")
    assert not list(tmp_path.iterdir())


def test_saving_over_a_file_replaces_it(model, X, tmp_path):
    path = tmp_path / "m.tcm"
    path.write_bytes(b"old")
    model.save(path)
    np.testing.assert_array_equal(load_model(path).transform(X), model.transform(X))


@pytest.mark.skipif(os.name != "posix", reason="permissions as on POSIX systems")
def test_a_saved_file_has_the_permissions_of_any_new_file(model, tmp_path):
    (tmp_path / "plain").write_text("x")
    model.save(tmp_path / "m.tcm")
    modes = {p.stat().st_mode & 0o777 for p in tmp_path.iterdir()}
    assert len(modes) == 1


def test_an_unfitted_model_is_not_saved(tmp_path):
    with pytest.raises(NotFittedError):
        CPD().save(tmp_path / "m.tcm")
    assert not list(tmp_path.iterdir())
