"""Claims of the paper: runs, verdicts from numbers, the page, and the propositions."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from tensorcontrast.errors import DamagedFileError, DataNotFoundError, InvalidInputError
from tensorcontrast.evaluate import store, theory
from tensorcontrast.evaluate.cells import Cell
from tensorcontrast.evaluate.claims import ECG, HAR, PARTS, READINGS, THEORY, claim_runs, require
from tensorcontrast.evaluate.claims_file import gather, merged, read_results, write_results
from tensorcontrast.evaluate.config import BenchConfig
from tensorcontrast.evaluate.runner import run
from tensorcontrast.evaluate.verdicts import Evidence, claims
from tensorcontrast.report.claims_page import claims_markdown, write_claims

ROOT = Path(__file__).parents[2]


def made(part: str, scores: dict[tuple[str, str, object], list[float]]) -> list[Cell]:
    """Cells with these accuracies by data set, method and budget, one per seed."""
    config = claim_runs([part], seeds=2)[part]
    for _, method, _ in scores:
        assert config.method(method).label == method
    return [
        Cell(dataset, method, seed, budget, accuracy=a, macro_f1=a, n_train=60)
        for (dataset, method, budget), values in scores.items()
        for seed, a in enumerate(values)
    ]


def by_method(values: dict[str, list[float]], budget: object = "100%"):
    return {(HAR, method, budget): scores for method, scores in values.items()}


def test_every_part_is_a_checked_configuration_or_the_theory():
    runs = claim_runs(seeds=1)
    assert set(runs) | {THEORY} == set(PARTS)
    for reading in READINGS.values():
        for method in reading:
            assert runs["table"].method(method).label == method
    with pytest.raises(InvalidInputError, match="no part 'tabel' of claims; there are table"):
        claim_runs(["tabel"])


def test_a_missing_file_names_the_way_out(monkeypatch, tmp_path):
    monkeypatch.setenv("TENSORCONTRAST_DATA", str(tmp_path))
    with pytest.raises(DataNotFoundError, match=r"no file of ptb-xl-500 .*--sets har,sleep-edf"):
        require(claim_runs(["deep"])["deep"])


def test_verdicts_follow_the_numbers():
    low, high = [0.90, 0.91], [0.95, 0.96]
    wins = {m: low for r in READINGS.values() for m in r[:2]} | {
        r[2]: high for r in READINGS.values()
    }
    table = by_method(wins) | by_method({r[2]: [0.90, 0.91] for r in READINGS.values()}, "33%")
    rows = {c.number: c for c in claims(Evidence({"table": made("table", table)}))}
    assert [rows[k].verdict for k in (1, 2, 3)] == ["holds"] * 3
    assert "+5.0 ± 0.0 over CPD" in rows[2].ours
    assert rows[4].verdict == rows[9].verdict == "not tested"

    loses = dict(wins) | {"PLC (paper)": [0.80, 0.81]}
    rows = {c.number: c for c in claims(Evidence({"table": made("table", by_method(loses))}))}
    assert [rows[k].verdict for k in (1, 2, 3)] == ["holds in part", "holds in part", "not tested"]

    # The default does not count for verdicts about the paper.
    rest = {m: s for m, s in wins.items() if "default" in m}
    rows = {c.number: c for c in claims(Evidence({"table": made("table", by_method(rest))}))}
    assert rows[1].verdict == "not tested" and "default: HAR" in rows[1].ours


def test_chance_differences_are_no_ablation():
    scores = {"PLC (paper)": [0.90, 0.90], "true graph (paper)": [0.905, 0.905]}
    scores |= {"w/o PLC (paper)": [0.86, 0.86], "w/o cross-view (paper)": [0.80, 0.98]}
    evidence = Evidence({"ablation": made("ablation", by_method(scores))})
    rows = {c.number: c for c in claims(evidence)}
    assert rows[5].verdict == "holds"
    assert rows[6].verdict == "holds in part" and "so in 1 of 2" in rows[6].why
    scores["true graph (paper)"] = [0.93, 0.94]  # a difference that counts
    rows = {
        c.number: c for c in claims(Evidence({"ablation": made("ablation", by_method(scores))}))
    }
    assert rows[5].verdict == "does not hold here"


@pytest.mark.parametrize(
    ("small", "large", "verdict"),
    [(2.0, 1.0, "holds"), (0.5, 0.5, "holds in part"), (2.0, 3.0, "does not hold here")],
)
def test_times_are_compared_by_tensor_size(small, large, verdict):
    seconds = {HAR: {"PLC (mini-batch)": small, "SimCLR": 1.0}}
    seconds[ECG] = {"PLC (mini-batch)": large, "SimCLR": 1.0}
    found = claims(Evidence({}, {"epochs": {"windows": 10, "seconds": seconds}}))[12]
    assert found.verdict == verdict and f"HAR {small:.2f}" in found.ours


def test_the_page_shows_every_claim_and_its_figures(tmp_path):
    wins = {m: [0.9, 0.8] for r in READINGS.values() for m in r}
    measured = {"cost": {"exponent": 1.02, "windows": [800, 400], "seconds": [2.0, 1.0]}}
    evidence = Evidence({"table": made("table", by_method(wins))}, measured)
    page = tmp_path / "paper.md"
    found = write_claims(evidence, page)
    text = page.read_text(encoding="utf-8")
    assert [c.number for c in found] == list(range(1, 14))
    assert all(f"| {c.number} | " in text for c in found)
    assert "exponent 1.02" in text and "Not computed for this page: `ablation`" in text
    assert "In 0 of 3." in text and "CPD < ATD < PLC" in text.split("## Table 1")[1]
    for name in ("paper-table", "paper-labels", "paper-cost"):
        assert f"_static/paper/{name}.png" in text
        assert (tmp_path / "_static" / "paper" / f"{name}.png").stat().st_size > 5000


def test_the_committed_page_is_that_of_the_committed_results():
    results = ROOT / "benchmarks" / "results" / "claims.json"
    assert results.stat().st_size < 1_000_000
    text = claims_markdown(read_results(results))
    assert (ROOT / "docs" / "paper.md").read_text(encoding="utf-8") == text
    for name in re.findall(r"\((_static/paper/[\w-]+\.png)\)", text):
        assert (ROOT / "docs" / name).stat().st_size < 200_000


def test_results_of_runs_become_a_file_and_back(tmp_path):
    config = BenchConfig.from_data(
        {
            "datasets": [{"name": "synthetic", "label": HAR, "options": {"n_samples": 60}}],
            "methods": [{"name": "plc", "label": "PLC (default)"}],
            "seeds": 1,
            "budgets": ["100%"],
            "rank": 4,
            "evidence": ["seeds"],
        }
    )
    run(config, tmp_path / "runs" / "ablation", n_jobs=1)
    found = gather(tmp_path / "runs")
    path = tmp_path / "claims.json"
    write_results(found, path)
    again = read_results(path)
    assert again.cells["ablation"][0].accuracy == pytest.approx(
        found.cells["ablation"][0].accuracy, rel=1e-4
    )
    assert again.datasets[HAR]["n_samples"] == 60 and again.environment["python"]
    key = ("seeds", HAR, "PLC (default)")
    assert np.array_equal(again.arrays[key]["pseudo"], found.arrays[key]["pseudo"])
    assert claims(again)[7].ours == claims(found)[7].ours
    twice = merged(Evidence({"table": [Cell(HAR, "CPD", 0, "100%")], **again.cells}), found)
    assert (
        twice.cells["ablation"] == list(found.cells["ablation"]) and len(twice.cells["table"]) == 1
    )
    assert twice.arrays.keys() == found.arrays.keys() and twice.environment == found.environment
    store.write_json(path, {"cells": {}})
    with pytest.raises(DamagedFileError, match="is not a file of results of the claims"):
        read_results(path)


@pytest.fixture(scope="module")
def tensors():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((420, 3, 6, 5))
    X[:210] += 2 * rng.standard_normal((3, 6, 5))
    return X, X + 0.3 * rng.standard_normal(X.shape)


def test_propositions_on_planted_tensors(tensors):
    given = {"rank": 4, "n_clusters": 2}
    gentle = theory.contraction(*tensors, beta=1e-4, gamma=0.5, **given)
    assert gentle["bounded"] == gentle["within"] == gentle["converged"] == 1
    assert gentle["measured"] <= gentle["bound"] < 1
    assert theory.contraction(*tensors, beta=10.0, gamma=0.5, **given)["bounded"] == 0
    blocks = theory.block_inequality(*tensors, **given)
    assert blocks["equal"] == 1 and blocks["holds"] == blocks["condition"]
    cost = theory.cost_exponent(*tensors, **given)
    assert cost["windows"] == [420, 210] and cost["exponent"] < 3


def test_measurements_are_kept_one_by_one(tensors, tmp_path, monkeypatch):
    monkeypatch.setattr(theory, "_paper_tensors", lambda: tensors)
    path = tmp_path / "theory.json"
    store.write_json(path, {"region": {"beta": 1.0}, "cost": {}, "blocks": {}, "epochs": {}})
    said = []
    found = theory.measure(path, said.append)
    assert said == ["contraction"] and found["region"] == {"beta": 1.0}
    assert [row["beta"] for row in found["contraction"]["rows"]] == list(theory.BETAS)
    assert theory.measure(path, said.append) == found and len(said) == 1
