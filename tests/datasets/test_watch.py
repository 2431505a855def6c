import builtins
import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

from tensorcontrast.datasets import load_watch
from tensorcontrast.errors import DamagedFileError, DataNotFoundError

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("seglearn") is None, reason="seglearn, which has the data, is missing"
)


@pytest.fixture(autouse=True)
def no_shared_folders(monkeypatch, tmp_path):
    monkeypatch.delenv("TENSORCONTRAST_DATA", raising=False)
    monkeypatch.setenv("TENSORCONTRAST_HOME", str(tmp_path / "home"))


def shipped_file():
    spec = importlib.util.find_spec("seglearn")
    return Path(spec.submodule_search_locations[0]) / "data" / "watch_dataset.npy"


def test_watch_without_importing_seglearn(monkeypatch):
    real = builtins.__import__

    def guarded(name, *args, **kwargs):
        assert not name.startswith("seglearn"), "seglearn was imported"
        return real(name, *args, **kwargs)

    for name in [name for name in sys.modules if name.partition(".")[0] == "seglearn"]:
        monkeypatch.delitem(sys.modules, name)  # another test may have imported it
    monkeypatch.setattr(builtins, "__import__", guarded)
    rec = load_watch()
    assert "seglearn" not in sys.modules
    assert rec.X.shape[1:] == (6, 200)
    assert rec.X.dtype == np.float32
    assert (rec.fs, rec.n_classes) == (50.0, 7)
    assert sorted(set(rec.groups.tolist())) == list(range(1, 11))
    assert set(rec.columns) == {"side", "recording", "start"}
    assert len(set(rec.columns["recording"].tolist())) == 140
    assert "seglearn" in rec.citation.lower()
    assert rec.licence.startswith("BSD-3")


def test_every_subject_did_every_exercise_with_both_arms():
    rec = load_watch(window_s=2.0, overlap=0.0)
    done = set(zip(rec.groups.tolist(), rec.y.tolist(), rec.columns["side"].tolist(), strict=True))
    assert len(done) == 10 * 7 * 2


def test_gravity_is_one_g():
    rec = load_watch()
    assert np.median(np.linalg.norm(rec.X[:, :3], axis=1)) == pytest.approx(1.0, abs=0.1)


def test_windows_are_pieces_of_the_recordings():
    data = np.load(shipped_file(), allow_pickle=True).item()
    rec = load_watch(window_s=3.0, overlap=0.25)
    for n in (0, 77, len(rec) - 1):
        k, start = rec.columns["recording"][n], rec.columns["start"][n]
        np.testing.assert_array_equal(
            rec.X[n], data["X"][k][start : start + 150].T.astype(np.float32)
        )
        assert rec.y[n] == data["y"][k]
        assert rec.groups[n] == data["subject"][k]
    assert rec.classes == tuple(data["y_labels"])


def test_only_the_known_file_is_unpickled(tmp_path):
    path = tmp_path / "watch_dataset.npy"
    content = shipped_file().read_bytes()
    path.write_bytes(content[:-1])
    with pytest.raises(DamagedFileError, match="not the known file"):
        load_watch(path)

    class Bomb:
        def __reduce__(self):
            return (pytest.fail, ("a foreign pickle was opened",))

    np.save(path, np.array([Bomb()], dtype=object), allow_pickle=True)
    with pytest.raises(DamagedFileError, match="was not opened"):
        load_watch(path)
    path.write_bytes(path.read_bytes().ljust(len(content), b"\0"))  # of the right size
    with pytest.raises(DamagedFileError, match="was not opened"):
        load_watch(tmp_path)
    path.write_bytes(content)
    assert len(load_watch(tmp_path)) > 2000


def test_where_it_is_not(tmp_path, monkeypatch):
    with pytest.raises(DataNotFoundError, match=r"watch_dataset\.npy"):
        load_watch(tmp_path)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(DataNotFoundError, match=r"pip install 'tensorcontrast\[data\]'"):
        load_watch()
