"""What the figures show: stages of one fit, graphs of several seeds, the published numbers."""

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from tensorcontrast.evaluate import evidence
from tensorcontrast.evaluate.config import BenchConfig
from tensorcontrast.evaluate.paper import SHAPES, TABLE1, paper_result
from tensorcontrast.evaluate.presets import DEEP_EPOCHS, preset
from tensorcontrast.evaluate.run import Run
from tensorcontrast.evaluate.runner import plan, run

CONFIG = BenchConfig.from_data(
    {
        "datasets": [
            {
                "name": "synthetic",
                "options": {"n_samples": 150, "n_channels": 3, "n_times": 64, "n_subjects": 10},
            }
        ],
        "methods": [
            {"name": "plc", "epochs": 4},
            {"name": "plc-paper", "epochs": 6},
            {"name": "plc", "label": "w/o PLC", "params": {"beta": 0.0, "max_iter": 4}},
        ],
        "seeds": 1,
        "budgets": ["100%"],
        "rank": 4,
        "evidence": ["stages", "seeds"],
    }
)


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    return run(CONFIG, tmp_path_factory.mktemp("runs") / "figures", n_jobs=1)


def test_evidence_is_counted_and_kept(found):
    assert plan(CONFIG) == 3 + 2 * 2 and found.complete and not found.problems
    assert found.evidence("synthetic", "stages", "w/o PLC") is None
    before = {p: p.stat().st_mtime_ns for p in found.folder.rglob("*.npz")}
    states = []
    run(CONFIG, found.folder, n_jobs=1, progress=states.append)
    assert states[0].done == states[0].total == 7
    assert {p: p.stat().st_mtime_ns for p in found.folder.rglob("*.npz")} == before


@pytest.mark.parametrize("method", ["PLC", "PLC (paper)"])
def test_stages_are_those_of_the_cell_s_own_fit(found, method):
    stages = found.evidence("synthetic", "stages", method)
    cell = next(c for c in found.cells if c.method == method)
    history = found.history("synthetic", method)
    assert stages["iteration"][-1] == cell.n_epochs == len(history["objective"])
    assert stages["accuracy"][-1] == cell.accuracy
    assert stages["reconstruction_error"][-1] == pytest.approx(cell.reconstruction_error)
    assert np.allclose(stages["curve_error"], history["reconstruction_error"])
    assert (np.diff(stages["iteration"]) > 0).all() and stages["iteration"][0] == 1
    assert stages["reconstruction_error"][0] > stages["reconstruction_error"][-1]
    phases = stages["phase"].tolist()
    assert phases == sorted(phases, key=["cpd", "contrast"].index)
    # PLC finds its metric after the last iteration of the CPD.
    assert cell.n_epochs == {"PLC": 4, "PLC (paper)": 6}[method]
    assert phases[-1] == {"PLC": "cpd", "PLC (paper)": "contrast"}[method]
    assert stages["pseudo"].shape == (len(stages["iteration"]), len(stages["y"]))
    assert (np.diff(stages["y"]) >= 0).all()
    assert stages["tsne_start"].shape == stages["tsne_end"].shape == (len(stages["tsne_y"]), 2)
    assert np.isfinite(stages["tsne_end"]).all()


def test_graphs_of_four_seeds(found):
    seeds = found.evidence("synthetic", "seeds", "PLC (paper)")
    assert seeds["ari"].shape == (4, 4) and np.allclose(np.diag(seeds["ari"]), 1)
    assert np.allclose(seeds["ari"], seeds["ari"].T)
    small = [[adjusted_rand_score(a, b) for b in seeds["pseudo"]] for a in seeds["pseudo"]]
    assert np.abs(np.array(small) - seeds["ari"]).max() < 0.3  # a sample of the same windows
    assert seeds["ari_true"].shape == (4,) and seeds["pseudo"].shape[0] == 4


def test_a_piece_that_fails_is_told_and_tried_again(tmp_path, monkeypatch):
    small = CONFIG.replace(methods=[{"name": "plc", "epochs": 2}], evidence=["seeds"])

    def broken(rec, task):
        raise ValueError("no graph today")

    monkeypatch.setitem(evidence.PIECES, "seeds", broken)
    states = []
    bad = run(small, tmp_path / "run", n_jobs=1, progress=states.append)
    assert bad.problems == ["synthetic, plc, seeds: ValueError: no graph today"]
    assert bad.complete and states[-1].failed == 1
    monkeypatch.undo()
    good = run(small, tmp_path / "run", n_jobs=1)
    assert good.problems == [] and good.evidence("synthetic", "seeds") is not None


def test_the_published_numbers():
    assert len(TABLE1) == 6 * 3 and {d for d, _ in TABLE1} == set(SHAPES)
    plc, atd = (np.array([TABLE1[d, row].accuracy for d in SHAPES]) for row in ("PLC", "ATD"))
    # What its text says of the table: gains over ATD, and the deep methods' loss on HAR.
    assert np.round(100 * (plc - atd), 2).max() == 3.98
    assert np.round(100 * (plc - atd), 2).min() == 1.27
    deep = np.mean([TABLE1["har", row].accuracy for row in ("SimCLR", "BYOL")])
    assert 100 * (deep - plc[0]) == pytest.approx(-25.10, abs=0.01)
    assert paper_result("har", "pca") is None and paper_result("watch", "plc") is None
    assert paper_result("ptb-xl", "deep-tensor").epoch_seconds == 20.6826


def test_table1_says_what_differs():
    config = preset("table1")
    empty = Run(None, config, [], {}, [])
    for dataset in ("har", "sleep-edf", "ptb-xl"):
        notes = " ".join(empty.notes(dataset))
        for name, epochs in DEEP_EPOCHS.items():
            label = next(m.label for m in config.methods if m.name == name)
            assert f"{label}: {epochs} epochs instead of the paper's 100" in notes
    assert "5 s" in " ".join(empty.notes("sleep-edf"))
    assert "100 Hz" in " ".join(empty.notes("ptb-xl"))
    assert empty.summary() == [] and len(empty.missing) == 3 * 10 * 4 * 2
