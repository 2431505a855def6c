"""``label``: files and messages around the page; the page itself is in ``tests/labelling``."""

import csv

import numpy as np
import pytest

from tensorcontrast import Recordings, load_model

pytest.importorskip("starlette", reason="needs the extra 'label'")
pytest.importorskip("uvicorn", reason="needs the extra 'label'")


@pytest.fixture(scope="module")
def days(tmp_path_factory):
    """Windows of two classes in one recording."""
    rng = np.random.default_rng(0)
    y = np.arange(40) // 4 % 2
    time = np.arange(64) / 32
    X = np.sin(2 * np.pi * np.where(y, 3.0, 9.0)[:, None, None] * time)
    X = X + rng.normal(scale=0.3, size=(40, 2, 64))
    path = tmp_path_factory.mktemp("days") / "days.npz"
    columns = {"recording": np.full(40, "monday.csv"), "start": 64 * np.arange(40)}
    Recordings(X, y, fs=32, classes=["rest", "walk"], columns=columns, name="days").save(path)
    return path


@pytest.fixture(scope="module")
def project(days, call_once):
    """A project with labels of all windows."""
    path = days.with_name("days.tcl")
    done = call_once(
        "label", days, "-o", path, "--labels", "y", "-r", 3, "--finish", "--who", "ann", "--json"
    )
    assert done.code == 0, done.err
    assert done.json["labels"] == 40
    return path


def test_finish_writes_a_model_for_predict_a_report_and_the_labels(cli, days, project, tmp_path):
    model = load_model(project.with_suffix(".tcm"))
    assert model.classes_.tolist() == ["rest", "walk"]
    done = cli("predict", project.with_suffix(".tcm"), days, "-o", tmp_path / "answers.csv")
    assert done.code == 0, done.err
    with (tmp_path / "answers.csv").open() as stream:
        answers = [row["label"] for row in csv.DictReader(stream)]
    rec = Recordings.load(days)
    assert np.mean(np.array(answers) == np.array(rec.classes)[rec.y]) > 0.9
    assert "Labels of days" in project.with_suffix(".html").read_text(encoding="utf-8")
    known = model.extractor_.fitted_on_
    assert known["samples"] == 40 and known["step"] == 64


@pytest.mark.parametrize("suffix", [".csv", ".edf"])
def test_labels_out_and_in_again(cli, days, project, tmp_path, suffix):
    if suffix == ".edf":
        pytest.importorskip("edfio")
    file = tmp_path / f"monday{suffix}"
    done = cli("label", days, "-o", project, "--export", file)
    assert done.code == 0 and file.exists(), done.err
    if suffix == ".csv":
        assert file.read_text().splitlines()[1] == "monday.csv,0,2,rest"
        trained = cli("train", days, "--labels", file, "-r", 3, "-o", tmp_path / "m.tcm", "--json")
        assert trained.json["labels"] == {"rest": 20, "walk": 20}
    features = project.with_suffix(".tcm")  # spares the fit
    other = tmp_path / "other.tcl"
    done = cli(
        "label", days, "-o", other, "--model", features, "--import", file, "--export",
        tmp_path / "again.csv", "--json",
    )  # fmt: skip
    assert done.code == 0, done.err
    assert done.json["labels"] == 40 and "took 40 labels from" in done.err


def test_the_page_is_opened_and_the_end_is_told(cli, days, project, monkeypatch):
    from tensorcontrast.labelling import server

    opened = []

    def run(self, ready):
        ready()
        self._socket.close()
        raise KeyboardInterrupt

    monkeypatch.setattr(server.PageServer, "run", run)
    monkeypatch.setattr("webbrowser.open", opened.append)
    done = cli("label", days, "-o", project)
    assert done.code == 0, done.err
    assert "http://127.0.0.1:" in done.out and "40 labels are in" in done.out
    assert "tensorcontrast label" in done.out
    assert len(opened) == 1 and opened[0] in done.out.replace("\n", "")
    done = cli("label", days, "-o", project, "--no-browser", "--json")
    assert len(opened) == 1 and done.code == 0


def test_wrong_calls_are_told(cli, days, project, tmp_path):
    foreign = tmp_path / "script.tcl"
    foreign.write_text("puts hello")
    other = tmp_path / "other.npz"
    rec = Recordings.load(days)
    rec[:20].save(other)
    cases = [
        (["label", days, "-o", tmp_path / "p.txt"], 2, "named .tcl"),
        (["label", days, "-o", tmp_path / "no" / "p.tcl"], 3, "does not exist"),
        (["label", days, "-o", foreign], 3, "is not a project"),
        (["label", other, "-o", project], 4, "has labels of other windows"),
        (["label", days, "-o", project, "--export", tmp_path / "x.txt"], 2, ".csv, .edf"),
        (["label", days, "-o", project, "--export", days], 2, ".csv, .edf"),
        (["label", days, "-o", project, "--import", tmp_path / "no.csv"], 3, "no such file"),
        (["label", tmp_path / "none.csv", "-o", tmp_path / "p.tcl"], 3, "none.csv"),
        (["label", days, "-o", tmp_path / "q.tcl", "--model", days], 3, "days.npz"),
    ]
    for args, code, words in cases:
        done = cli(*args)
        assert done.code == code and words in " ".join(done.err.split()), (args, done.err)
    assert foreign.read_text() == "puts hello"
