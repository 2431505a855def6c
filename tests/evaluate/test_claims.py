"""Claims of the paper: runs, verdicts from numbers, the page, and the propositions."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from tensorcontrast.errors import DamagedFileError, DataNotFoundError, InvalidInputError
from tensorcontrast.evaluate import evidence as pieces
from tensorcontrast.evaluate import theory
from tensorcontrast.evaluate.benchmark import Benchmark, Cell, Dataset, Method, compute
from tensorcontrast.evaluate.claims import (
    ECG,
    HAR,
    PARTS,
    READINGS,
    TABLE1,
    THEORY,
    claim_runs,
    require,
)
from tensorcontrast.evaluate.verdicts import (
    Evidence,
    claims,
    merged,
    read_results,
    write_results,
)
from tensorcontrast.report.claims_page import claims_markdown, write_claims

ROOT = Path(__file__).parents[2]


def made(part: str, scores: dict[tuple[str, str, object], list[float]]) -> list[Cell]:
    """Cells with these accuracies by data set, method and budget, one per seed."""
    config = claim_runs([part])[part]
    for _, method, _ in scores:
        assert config.method(method).label == method
    return [
        Cell(dataset, method, seed, budget, accuracy=a, macro_f1=a, n_train=60)
        for (dataset, method, budget), values in scores.items()
        for seed, a in enumerate(values)
    ]


def by_method(values: dict[str, list[float]], budget: object = "100%"):
    return {(HAR, method, budget): scores for method, scores in values.items()}


def test_every_part_is_a_benchmark_or_the_theory():
    runs = claim_runs()
    assert set(runs) | {THEORY} == set(PARTS)
    for reading in READINGS.values():
        for method in reading:
            assert runs["table"].method(method).label == method
    with pytest.raises(InvalidInputError, match="tabel"):
        claim_runs(["tabel"])


def test_a_missing_file_names_the_way_out(monkeypatch, tmp_path):
    monkeypatch.setenv("TENSORCONTRAST_DATA", str(tmp_path))
    with pytest.raises(DataNotFoundError, match="ptb-xl-500"):
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


SMALL = Benchmark(
    [Dataset(HAR, "synthetic", options={"n_samples": 150, "n_channels": 3, "n_times": 64})],
    [Method("PLC (default)", "plc", {"max_iter": 4}), Method("PLC (paper)", "plc-paper")],
    seeds=[0],
    budgets=["100%"],
    rank=4,
)


def looked_into(label, piece, **params):
    method = replace(SMALL.method(label), params=params)
    return pieces.collect(SMALL, SMALL.datasets[0], method, piece), method


@pytest.mark.parametrize("label", ["PLC (default)", "PLC (paper)"])
def test_stages_are_those_of_the_cell_s_own_fit(label):
    stages, method = looked_into(label, "stages", max_iter=6, tol=0.0)
    (cell,) = compute(SMALL, SMALL.datasets[0], method, 0, ["100%"])
    assert stages["iteration"][-1] == cell.n_epochs == 6
    assert stages["accuracy"][-1] == pytest.approx(cell.accuracy)
    assert (np.diff(stages["iteration"]) > 0).all() and stages["iteration"][0] == 1
    assert stages["reconstruction_error"][0] > stages["reconstruction_error"][-1]
    # PLC finds its metric after the last iteration of the CPD.
    assert stages["phase"][-1] == ("cpd" if "default" in label else "contrast")
    assert stages["pseudo"].shape == (len(stages["iteration"]), len(stages["y"]))
    assert (np.diff(stages["y"]) >= 0).all()
    assert stages["tsne_start"].shape == stages["tsne_end"].shape == (len(stages["tsne_y"]), 2)
    assert np.isfinite(stages["tsne_end"]).all()


def test_graphs_of_four_seeds():
    seeds, _ = looked_into("PLC (paper)", "seeds", max_iter=6)
    assert seeds["ari"].shape == (4, 4) and np.allclose(np.diag(seeds["ari"]), 1)
    assert np.allclose(seeds["ari"], seeds["ari"].T)
    small = [[adjusted_rand_score(a, b) for b in seeds["pseudo"]] for a in seeds["pseudo"]]
    assert np.abs(np.array(small) - seeds["ari"]).max() < 0.3  # a sample of the same windows
    assert seeds["ari_true"].shape == (4,) and seeds["pseudo"].shape[0] == 4


def test_the_published_numbers():
    sets = ("har", "sleep-edf", "ptb-xl")
    assert len(TABLE1) == 6 * 3 and {d for d, _ in TABLE1} == set(sets)
    plc, atd = (np.array([TABLE1[d, row].accuracy for d in sets]) for row in ("PLC", "ATD"))
    # What its text says of the table: gains over ATD, and the deep methods' loss on HAR.
    assert np.round(100 * (plc - atd), 2).max() == 3.98
    assert np.round(100 * (plc - atd), 2).min() == 1.27
    deep = np.mean([TABLE1["har", row].accuracy for row in ("SimCLR", "BYOL")])
    assert 100 * (deep - plc[0]) == pytest.approx(-25.10, abs=0.01)


def test_results_become_a_file_and_back(tmp_path):
    cells = made("ablation", by_method({"PLC (paper)": [0.9, 0.8]}))
    arrays = {"ari": np.eye(4) / 3, "classes": np.array(["a", "b"])}
    key = ("seeds", HAR, "PLC (paper)")
    found = Evidence(
        {"ablation": cells}, {"blocks": {"holds": 0.5}}, {key: arrays}, {"python": "3"}
    )
    path = tmp_path / "claims.json"
    write_results(found, path)
    again = read_results(path)
    assert again.cells["ablation"] == cells and again.environment == {"python": "3"}
    np.testing.assert_allclose(again.arrays[key]["ari"], arrays["ari"], rtol=1e-4)
    assert again.arrays[key]["classes"].tolist() == ["a", "b"]
    assert claims(again)[7].ours == claims(found)[7].ours
    twice = merged(Evidence({"table": [Cell(HAR, "CPD", 0, "100%")], **again.cells}), found)
    assert twice.cells["ablation"] == cells and len(twice.cells["table"]) == 1
    path.write_text('{"cells": {}}')
    with pytest.raises(DamagedFileError, match=r"claims\.json"):
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
    known = {"region": {"beta": 1.0}, "cost": {}, "blocks": {}, "epochs": {}}
    path.write_text(json.dumps(known))
    said = []
    found = theory.measure(path, said.append)
    assert said == ["contraction"] and found["region"] == {"beta": 1.0}
    assert [row["beta"] for row in found["contraction"]["rows"]] == list(theory.BETAS)
    assert theory.measure(path, said.append) == found and len(said) == 1
