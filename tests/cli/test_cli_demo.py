"""The demonstration: table on the screen, report on disk."""

import json

import pytest
from typer.testing import CliRunner

from tensorcontrast.cli import app
from tensorcontrast.cli.commands import demo
from tensorcontrast.errors import DataNotFoundError
from tensorcontrast.evaluate.config import BenchConfig

QUICK = {"max_iter": 4, "tol": 0.0}


@pytest.fixture
def tiny(monkeypatch):
    config = BenchConfig.from_data(
        {
            "datasets": [{"name": "synthetic", "limit": 150}],
            "methods": [
                {"name": "cpd", "params": QUICK},
                {"name": "plc", "params": QUICK},
            ],
            "seeds": 2,
            "budgets": [12, "100%"],
            "draws": 1,
            "rank": 3,
        }
    )
    monkeypatch.setattr(demo, "configuration", lambda: config)


def run(*args):
    return CliRunner(env={"COLUMNS": "100"}).invoke(app, ["demo", "-j", "1", *map(str, args)])


def test_prints_the_table_and_writes_the_report(tmp_path, tiny):
    folder = tmp_path / "out"
    done = run("-o", folder)
    assert done.exit_code == 0, done.output
    page = folder / "report.html"
    assert str(page) in done.stdout.replace("\n", "")
    assert "people never seen" in done.stderr
    assert "60 labels among" in done.stdout
    assert "What they did when" in done.stdout
    rows = (folder / "answers.csv").read_text(encoding="utf-8").splitlines()
    assert rows[0] == "recording,start_s,end_s,label,probability"
    assert len(rows) > 3 and rows[1].startswith("person ")
    assert (folder / "timeline.png").read_bytes().startswith(b"\x89PNG")
    again = run("-o", folder, "--json")
    found = json.loads(again.stdout)
    assert found["report"] == str(page)
    text = page.read_text(encoding="utf-8")
    for row in found["tables"][0]["rows"]:
        for score in row["scores"].values():
            assert f"{score['mean']:.3f} ± {score['sd']:.3f}" in done.stdout
            assert f"{score['mean']:.3f}" in text
    assert "already" in again.stderr


def test_compares_what_it_promises():
    config = demo.configuration()
    assert [m.name for m in config.methods] == ["cpd", "atd", "plc-paper", "plc", "pca"]
    assert len(config.seeds) == 4
    assert len(config.budgets) == 3
    assert config.split == "subject"
    assert config.fractions[2] * 10 >= 3  # people to test on


def test_goes_on_with_synthetic_recordings_where_the_embedded_ones_are_missing(
    monkeypatch, tmp_path
):
    def missing(**options):
        raise DataNotFoundError("not installed")

    monkeypatch.setattr("tensorcontrast.datasets.load_watch", missing)
    config = demo.configuration()
    assert [d.name for d in config.datasets] == ["synthetic"]
    assert "synthetic" in config.title
    few = {"n_samples": 300, "n_classes": 3, "n_subjects": 10}
    few_data = [{"name": "synthetic", "options": few}]
    small = config.replace(datasets=few_data, methods=["pca"], seeds=1, draws=1)
    monkeypatch.setattr(demo, "configuration", lambda: small)
    done = run("-o", tmp_path / "out", "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["complete"]
    assert any("synthetic ones" in text for text in json.loads(done.stdout)["warnings"])
