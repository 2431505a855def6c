"""The report of a real run: its table, its evidence, its configuration to run again."""

import json
import tomllib
from html.parser import HTMLParser

import numpy as np
import pytest

from tensorcontrast import TensorContrastError, report
from tensorcontrast.evaluate.config import BenchConfig
from tensorcontrast.evaluate.run import Run
from tensorcontrast.evaluate.runner import run
from tensorcontrast.report.of_run import toml_text

SMALL = {"rank": 3, "max_iter": 6, "tol": 1e-3}
CONFIG = {
    "title": "A <small> run",
    "datasets": [
        {
            "name": "synthetic",
            "options": {"n_samples": 90, "n_channels": 2, "n_times": 64, "n_subjects": 9},
        }
    ],
    "methods": [
        {"name": "cpd", "params": SMALL},
        {"name": "plc", "note": "as it comes"},
        {"name": "plc", "label": "w/o PLC", "params": {**SMALL, "beta": 0.0}},
        {"name": "plc", "label": "PLC (true graph)", "params": SMALL, "labels_in_graph": "all"},
    ],
    "seeds": 2,
    "budgets": [6, "100%"],
    "draws": 1,
    "rank": 3,
    "evidence": ["stages", "seeds"],
}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    found = run(BenchConfig.from_data(CONFIG), tmp_path_factory.mktemp("run") / "r", n_jobs=1)
    assert found.complete and not found.problems
    return found


def test_tables_are_the_summaries_of_the_run(finished):
    (table,) = report.run_tables(finished)
    assert [row.method for row in table.rows] == ["CPD", "PLC", "w/o PLC", "PLC (true graph)"]
    by_key = {(s.method, str(s.budget)): s for s in finished.summary()}
    for row in table.rows:
        for budget, score in row.scores.items():
            assert score.mean == pytest.approx(by_key[row.method, budget].accuracy)
            assert score.sd == pytest.approx(by_key[row.method, budget].accuracy_sd)
    assert table.rows[1].note == "as it comes"
    assert not any("as it comes" in note for note in table.notes)
    f1 = report.run_tables(finished, metric="macro_f1")[0]
    assert f1.rows[0].scores["6"].mean == pytest.approx(by_key["CPD", "6"].macro_f1)


def test_report_of_a_run(finished, tmp_path):
    path = report.write_report(finished.folder, tmp_path)
    source = path.read_text(encoding="utf-8")
    reader = HTMLParser()
    text: list[str] = []
    reader.handle_data = text.append
    reader.feed(source)
    said = " ".join(text)
    (table,) = report.run_tables(finished)
    for row in table.rows:
        assert row.method in said
    assert "A <small> run" in said and "synthetic" in said
    assert "What PLC learned" in said and "tensorcontrast bench bench.toml" in said
    figures = {p.stem for p in (tmp_path / "figures").glob("*.svg")}
    assert {"label-curve", "convergence", "iterations", "true-graph", "ablation"} <= figures
    assert {"plc-tsne", "plc-adjacency", "plc-seeds"} <= figures
    markdown = report.write_report(finished, tmp_path / "r.md", figures=False)
    assert str(table.rows[0].scores["6"]) in markdown.read_text(encoding="utf-8")


def test_windows_of_the_run_are_those_of_the_scatter(finished):
    data = report.report_from_run(finished)
    (view,) = data.views
    kept = finished.windows("synthetic")
    np.testing.assert_array_equal(view.windows.signals, kept["X"])
    np.testing.assert_array_equal(view.windows.features, finished.features("synthetic", "PLC"))
    assert {"class", "subject", "part"} <= set(view.windows.labels)
    codes, names = view.windows.labels["part"]
    assert [names[c] for c in codes] == [str(p) for p in kept["part"]]


def test_the_configuration_shown_runs_the_same_again(finished):
    data = report.report_from_run(finished)
    assert BenchConfig.from_data(tomllib.loads(data.config)).hash == finished.config.hash
    odd = {"a": 'quote " \\ \x7f \x1b ü', "b": [1, 2.5, True, "x"], "t": [{"k": {"z y": None}}]}
    odd["t"][0]["k"]["w"] = 1e-7
    assert tomllib.loads(toml_text(odd)) == {**odd, "t": [{"k": {"w": 1e-7}}]}


def test_a_run_that_is_not_whole_says_so(finished, tmp_path):
    part = [c for c in finished.cells if c.method == "CPD" and c.seed == 0]
    half = Run(finished.folder, finished.config, finished.environment, finished.datasets, part)
    data = report.report_from_run(half)
    assert any(f"{len(half.missing)} cells have not run" in note for note in data.notes)
    empty = Run(finished.folder, finished.config, finished.environment, finished.datasets, [])
    with pytest.raises(TensorContrastError, match="no finished cell"):
        report.write_report(empty, tmp_path)
    assert not list(tmp_path.iterdir())
    with pytest.raises(TensorContrastError):
        report.write_report(tmp_path / "nowhere", tmp_path)


def test_plain_data_of_tables_is_json(finished):
    (table,) = report.run_tables(finished)
    assert json.loads(json.dumps(table.json(), allow_nan=False))["dataset"] == "synthetic"
