"""The demonstration: a table on the screen, files on disk."""

import json

import pytest
from typer.testing import CliRunner

from tensorcontrast.cli import app
from tensorcontrast.cli.commands import demo
from tensorcontrast.errors import DataNotFoundError
from tensorcontrast.evaluate.benchmark import Benchmark, Dataset, Method

QUICK = {"max_iter": 4}


@pytest.fixture
def tiny(monkeypatch):
    wanted = Benchmark(
        [Dataset("synthetic", "synthetic", limit=150)],
        [Method("CPD", "cpd", QUICK), Method("PLC", "plc", QUICK)],
        seeds=[0, 1],
        budgets=[12, "100%"],
        draws=1,
        rank=3,
    )
    monkeypatch.setattr(demo, "benchmark", lambda: wanted)


def run(*args):
    return CliRunner(env={"COLUMNS": "100"}).invoke(app, ["demo", "-j", "1", *map(str, args)])


def test_prints_the_table_and_writes_the_files(tmp_path, tiny):
    folder = tmp_path / "out"
    done = run("-o", folder)
    assert done.exit_code == 0, done.output
    page = folder / "report.html"
    assert str(page) in done.stdout.replace("\n", "")
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    rows = (folder / "answers.csv").read_text(encoding="utf-8").splitlines()
    assert rows[0] == "recording,start_s,end_s,label,probability"
    assert len(rows) > 3 and rows[1].startswith("person ")
    for picture in ("timeline.png", "label-curve.png"):
        assert (folder / picture).read_bytes().startswith(b"\x89PNG")
    before = (folder / "results.jsonl").read_bytes()
    again = run("-o", folder, "--json")
    found = json.loads(again.stdout)
    assert found["report"] == str(page) and found["cells"] == 2 * 2 * 2
    assert (folder / "results.jsonl").read_bytes() == before
    text = (folder / "accuracy.md").read_text(encoding="utf-8")
    for row in found["table"]["rows"]:
        assert all(cell in done.stdout and cell in text for cell in row)
    assert run("-o", folder, "--fresh").exit_code == 0
    assert (folder / "results.jsonl").read_bytes() != before  # times differ


def test_compares_what_it_promises():
    wanted = demo.benchmark()
    assert [m.name for m in wanted.methods] == ["cpd", "atd", "plc-paper", "plc", "pca"]
    assert (len(wanted.seeds), len(wanted.budgets)) == (4, 3)
    (dataset,) = wanted.datasets
    assert dataset.split == "subject" and dataset.fractions[2] * 10 >= 3  # people to test on


def test_synthetic_recordings_take_the_place_of_missing_ones(monkeypatch):
    def missing(**options):
        raise DataNotFoundError("not installed")

    monkeypatch.setattr("tensorcontrast.datasets.load_watch", missing)
    assert [d.name for d in demo.benchmark().datasets] == ["synthetic"]
