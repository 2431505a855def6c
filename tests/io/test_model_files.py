"""Model files: what is written comes back; damaged, cut, foreign and newer files are told apart."""

import io
import json
import os
import pickle
from importlib import import_module

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
from tensorcontrast.io import model_files

ALL = [CPD, ATD, PLC]


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


def members(raw):
    with np.load(io.BytesIO(raw)) as archive:
        arrays = {name: archive[name] for name in archive.files}
    return json.loads(arrays.pop(model_files.HEADER).tobytes()), arrays


def forge(raw, change):
    """Return the file with another description or other arrays."""
    header, arrays = members(raw)
    changed = change(header, arrays)
    text = changed if isinstance(changed, bytes) else json.dumps(header).encode()
    out = io.BytesIO()
    np.savez(out, **{model_files.HEADER: np.frombuffer(text, np.uint8)}, **arrays)
    return out.getvalue()


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
    assert (tmp_path / "m.tcm").stat().st_size < 2000 * 8 + 16_384
    header, arrays = members(raw)
    assert header["model"]["class"] == "CPD" and "center_" in arrays
    assert header["written_by"].startswith("tensorcontrast ")
    assert header["model"]["params"]["rank"] == 1


# ---------------------------------------------------------------------------- damaged, cut


def test_no_flipped_bit_gives_another_model(raw, tmp_path):
    """Damage is a FileError, or was where an archive says the same twice."""
    X = make_cp_tensor(8, (2, 3), 1, random_state=0)[0]
    W, found = read(tmp_path, raw).transform(X), 0
    positions = {*range(0, len(raw), 11), *range(60), *range(len(raw) - 60, len(raw))}
    for at in sorted(positions):
        broken = bytearray(raw)
        broken[at] ^= 1 << (at % 8)
        try:
            model = read(tmp_path, bytes(broken))
        except FileError as error:
            assert "read.tcm" in str(error)
            found += 1
        else:
            np.testing.assert_array_equal(model.transform(X), W)
            assert repr(model) == "CPD(random_state=0, rank=1)"
    assert found > len(positions) / 2


def test_every_length_is_told(raw, tmp_path):
    for length in {*range(200), *range(200, len(raw), 13), len(raw) - 1}:
        with pytest.raises((TruncatedFileError, DamagedFileError), match=r"read\.tcm"):
            read(tmp_path, raw[:length])


def test_foreign_files(raw, tmp_path, X):
    archive = io.BytesIO()
    np.savez(archive, X=X)
    foreign = {
        "pickle": pickle.dumps({"a": 1}),
        "npz": archive.getvalue(),
        "text": b"channel,time\n1,2\n",
        "short": b"x",
    }
    for data in foreign.values():
        with pytest.raises(ForeignFileError, match=r"read\.tcm"):
            read(tmp_path, data)


def test_a_pickle_in_the_archive_is_not_run(tmp_path):
    class Bomb:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "ran"),)

    out = io.BytesIO()
    np.savez(out, **{model_files.HEADER: np.array([Bomb()], dtype=object)})
    with pytest.raises(DamagedFileError, match=r"read\.tcm"):
        read(tmp_path, out.getvalue())
    assert not (tmp_path / "ran").exists()


# ---------------------------------------------------------------------------- newer and odd


def test_a_newer_format(raw, tmp_path):
    with pytest.raises(NewerFileError, match="format 2"):
        read(tmp_path, forge(raw, lambda header, arrays: header.update(format=2)))


def test_an_unknown_class_or_parameter_is_newer(raw, tmp_path):
    def other_class(header, arrays):
        header["model"]["class"] = "Transformer9000"

    def other_parameter(header, arrays):
        header["model"]["params"]["warp"] = 9

    with pytest.raises(NewerFileError, match="Transformer9000"):
        read(tmp_path, forge(raw, other_class))
    with pytest.raises(NewerFileError, match="warp"):
        read(tmp_path, forge(raw, other_parameter))


@pytest.mark.parametrize(
    "change",
    [
        lambda header, arrays: arrays.clear(),
        lambda header, arrays: header.pop("model"),
        lambda header, arrays: header["model"].pop("learned"),
        lambda header, arrays: header["model"]["learned"].update(transform=3),
        lambda header, arrays: header["model"]["learned"].update(n_iter_={"a": 1, "b": 2}),
        lambda header, arrays: header["model"]["params"].update(
            block_weights={"augment": {"type": "Warp", "by": 3}}
        ),
        lambda header, arrays: header["model"]["params"].update(
            block_weights={"module": "os.system"}
        ),
        lambda header, arrays: arrays["center_"].fill(np.nan),
        lambda header, arrays: b"[]",
        lambda header, arrays: b"{",
    ],
)
def test_what_describes_no_model_is_damaged(change, raw, tmp_path):
    with pytest.raises(DamagedFileError, match=r"read\.tcm"):
        read(tmp_path, forge(raw, change))


def test_a_file_cannot_choose_where_fit_writes_nor_what_it_prints(raw, tmp_path):
    machine = {"verbose": True, "callback": {"dict": {}}}
    loaded = read(tmp_path, forge(raw, lambda h, a: h["model"]["params"].update(machine)))
    assert (loaded.verbose, loaded.callback) == (False, None)
    data = forge(raw, lambda h, a: h["model"]["params"].update(autosave=str(tmp_path / "x")))
    with pytest.raises(FileError, match="autosave"):
        read(tmp_path, data)


def test_saving_leaves_out_what_acts_on_this_machine(X, tmp_path):
    part = CPD(rank=2, random_state=0, max_iter=3, tol=1.0, verbose=True)
    signals = np.random.default_rng(0).normal(size=(12, 2, 32)).astype(np.float32)
    model = ContrastiveFeatures(fs=8.0, n_jobs=2, decompose=part, random_state=0)
    model.fit(signals).save(tmp_path / "m.tcm")
    header, _ = members((tmp_path / "m.tcm").read_bytes())
    text = json.dumps(header)
    assert not any(f'"{name}"' in text for name in model_files.MACHINE_PARAMETERS)


def test_every_parameter_that_could_name_a_file_is_one_that_files_do_not_set():
    """A new parameter that takes any text or a path must be left out of files, or listed here."""
    described = {"device", "window", "channels"}
    for name, module in model_files._MODULES.items():
        cls = getattr(import_module(f"tensorcontrast.{module}"), name)
        for parameter, kinds in cls._parameter_constraints.items():
            free = kinds == "no_validation" or any(k in (str, os.PathLike, callable) for k in kinds)
            if free and parameter not in {"augment", "tensorize", "decompose"}:
                assert parameter in model_files.MACHINE_PARAMETERS | described, (
                    f"{name}.{parameter}"
                )


def test_a_model_that_could_not_be_loaded_is_not_saved(X, tmp_path):
    model = CPD(rank=2, random_state=0).fit(X)
    model.center_[0, 0, 0] = np.nan
    with pytest.raises(TensorContrastError, match="center_"):
        model.save(tmp_path / "m.tcm")
    assert not list(tmp_path.iterdir())


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
