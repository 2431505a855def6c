"""Claims of the paper: runs, verdicts from numbers, the page, and the propositions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tensorcontrast.errors import DataNotFoundError, InvalidInputError
from tensorcontrast.evaluate import store, theory
from tensorcontrast.evaluate.cells import Cell
from tensorcontrast.evaluate.claims import HAR, PARTS, READINGS, THEORY, claim_runs, require
from tensorcontrast.evaluate.run import Run
from tensorcontrast.evaluate.verdicts import Evidence, claims
from tensorcontrast.report.claims_page import write_claims


def made(part: str, scores: dict[tuple[str, str, object], list[float]]) -> Run:
    """A run with these accuracies by data set, method and budget, one per seed."""
    config = claim_runs([part], seeds=2)[part]
    cells = [
        Cell(dataset, method, seed, budget, accuracy=a, balanced_accuracy=a, macro_f1=a, n_train=60)
        for (dataset, method, budget), values in scores.items()
        for seed, a in enumerate(values)
    ]
    return Run(Path("nowhere"), config, [], dict.fromkeys([HAR]), cells)


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
    for name in ("paper-table", "paper-labels"):
        assert f"images/paper/{name}.png" in text
        assert (tmp_path / "images" / "paper" / f"{name}.png").stat().st_size > 5000


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
    store.write_json(path, {"region": {"beta": 1.0}, "cost": {}, "blocks": {}})
    said = []
    found = theory.measure(path, said.append)
    assert said == ["contraction"] and found["region"] == {"beta": 1.0}
    assert [row["beta"] for row in found["contraction"]["rows"]] == list(theory.BETAS)
    assert theory.measure(path, said.append) == found and len(said) == 1
