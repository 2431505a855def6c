"""datasets: list, info, fetch without a network."""

import pytest

from tensorcontrast import Recordings
from tensorcontrast.errors import DataNotFoundError


@pytest.fixture(autouse=True)
def empty(tmp_path, monkeypatch):
    """No dataset is on the machine but what the test puts there."""
    monkeypatch.setenv("TENSORCONTRAST_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("TENSORCONTRAST_DATA", raising=False)


def test_list(cli):
    done = cli("datasets", "list", "--json")
    assert done.json["command"] == "datasets list"
    assert [row["name"] for row in done.json["datasets"]] == ["watch", "har", "sleep-edf", "ptb-xl"]
    assert done.json["datasets"][1]["path"] is None
    text = cli("datasets", "list").out
    assert "61 MB" in text
    assert "UCI HAR" in text


def test_list_tells_what_is_here(cli, tmp_path, monkeypatch):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "har.npz").write_bytes(b"")
    found = cli("datasets", "list", "--json").json["datasets"]
    assert found[1]["path"] == str(tmp_path / "home" / "har.npz")


def test_info(cli):
    found = cli("datasets", "info", "har", "--json").json
    assert found["licence"] == "CC BY 4.0"
    assert found["files"][0]["sha256"].startswith("c00b80")
    text = cli("datasets", "info", "har").out
    assert "Anguita" in text
    assert "load_har()" in text


@pytest.mark.parametrize("command", ["info", "fetch"])
def test_unknown_names(cli, command):
    done = cli("datasets", command, "mnist")
    assert done.code == 2
    assert "ptb-xl" in done.err


def test_fetch_uses_the_loader(cli, recordings, monkeypatch, tmp_path):
    asked = {}

    def load(**options):
        asked.update(options)
        return recordings

    monkeypatch.setattr("tensorcontrast.datasets.load_sleep_edf", load)
    done = cli("datasets", "fetch", "sleep-edf", "--subjects", "0,3", "--data-home", tmp_path,
               "--json")  # fmt: skip
    assert done.code == 0
    assert asked == {"data_home": tmp_path, "subjects": [0, 3]}
    assert done.json["samples"] == 90
    assert "8.1 GB" in done.err
    assert cli("datasets", "fetch", "sleep-edf", "--subjects", "one").code == 2
    assert cli("datasets", "fetch", "har", "--subjects", "1").code == 2


def test_fetch_without_a_connection(cli, monkeypatch):
    def load(**options):
        raise DataNotFoundError("https://example.org: no connection")

    monkeypatch.setattr("tensorcontrast.datasets.load_har", load)
    done = cli("datasets", "fetch", "har")
    assert done.code == 3
    assert "no connection" in done.err


def test_fit_never_downloads_and_says_how(cli, tmp_path):
    done = cli("fit", "har", "-o", tmp_path / "m.tcm")
    assert done.code == 3
    assert "tensorcontrast datasets fetch har" in done.err


def test_fit_of_a_dataset_that_is_here(cli, recordings, tmp_path, monkeypatch, small):
    monkeypatch.setattr("tensorcontrast.datasets.load_har", lambda download: recordings)
    done = cli("fit", "har", "-o", tmp_path / "m.tcm", *small, "--json")
    assert done.json["samples"] == 90


def test_watch_is_cut_as_asked(cli, monkeypatch, recordings, tmp_path, small):
    asked = {}

    def load(**options):
        asked.update(options)
        return Recordings(recordings.X, fs=50)

    monkeypatch.setattr("tensorcontrast.datasets.load_watch", load)
    done = cli("fit", "watch", "-o", tmp_path / "m.tcm", *small, "--window", 2, "--step", 0.5)
    assert done.code == 0
    assert asked == {"download": False, "window_s": 2.0, "overlap": 0.75}
