"""Runs: the same numbers as by hand, resumed after any end, never mixed with others."""

import json
import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pytest

from tensorcontrast import CPD, ContrastiveFeatures
from tensorcontrast.datasets import make_synthetic
from tensorcontrast.decompose.options import build
from tensorcontrast.errors import (
    DamagedFileError,
    DataNotFoundError,
    FileError,
    ForeignFileError,
    InvalidInputError,
    TensorContrastWarning,
)
from tensorcontrast.evaluate import methods, runner, scoring
from tensorcontrast.evaluate.config import BenchConfig
from tensorcontrast.evaluate.protocol import label_budget, linear_probe, subject_split
from tensorcontrast.evaluate.run import Run
from tensorcontrast.evaluate.runner import plan, run

OPTIONS = {"n_samples": 160, "n_channels": 3, "n_times": 64, "n_subjects": 10}
SMALL = {
    "datasets": [{"name": "synthetic", "options": OPTIONS}],
    "methods": [
        {"name": "cpd", "params": {"max_iter": 15}},
        {"name": "plc", "params": {"max_iter": 15}},
    ],
    "seeds": 2,
    "budgets": [6, "50%", "100%"],
    "draws": 2,
    "rank": 4,
}


def config(**changes):
    return BenchConfig.from_data({**SMALL, **changes})


def numbers(found):
    """What must not depend on how a run came about: everything but times."""
    return {
        cell.key: (cell.status, cell.accuracy, cell.macro_f1, cell.draws, cell.n_epochs)
        for cell in found.cells
    }


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "whole"
    states = []
    found = run(config(), folder, n_jobs=1, progress=states.append)
    return found, states


def test_all_cells_are_there(finished):
    found, states = finished
    assert found.complete and not found.failed and not found.missing and not found.problems
    assert len(found.ok) == 1 * 2 * 2 * 3
    assert [s.done for s in states] == [0, 1, 2, 3, 4] and states[0].total == plan(config()) == 4
    assert states[-1].text == "synthetic, PLC, seed 1" and states[-1].failed == 0
    cell = found.ok[0]
    assert cell.n_features == 4 and cell.n_parameters and cell.epoch_seconds and cell.fit_seconds
    assert cell.n_unlabelled + cell.n_test < 160 and len(cell.draws) == 2
    assert "Run(" in repr(found) and "12 of 12 cells" in repr(found)
    assert found.datasets["synthetic"].n_groups == 10
    assert found.environment[0]["packages"]["numpy"] == np.__version__


def test_cells_are_what_the_parts_give_by_hand(finished):
    found, _ = finished
    rec = make_synthetic(**OPTIONS, random_state=0)
    split = subject_split(rec, seed=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = ContrastiveFeatures(
            fs=rec.fs,
            channels=rec.channels,
            decompose=build(CPD, rank=4, max_iter=15),
            random_state=1,
        ).fit(rec.X[split.unlabelled])
    train, test = model.transform(rec.X[split.train]), model.transform(rec.X[split.test])
    y_train, y_test = rec.y[split.train], rec.y[split.test]
    cells = {cell.budget: cell for cell in found.cells if cell.key[1:3] == ("CPD", 1)}
    expected = linear_probe(train, y_train, test, y_test)
    assert cells["100%"].accuracy == expected.accuracy
    assert cells["100%"].macro_f1 == expected.macro_f1 and len(cells["100%"].draws) == 1
    for budget in (6, "50%"):
        draws = []
        for number in range(2):
            at = label_budget(y_train, budget, seed=1000 + number)
            draws.append(linear_probe(train[at], y_train[at], test, y_test).accuracy)
        assert cells[budget].draws == tuple(draws)
        assert cells[budget].accuracy == pytest.approx(np.mean(draws))


def test_artefacts_of_the_first_seed(finished):
    found, _ = finished
    rec = make_synthetic(**OPTIONS, random_state=0)
    shown = found.windows("synthetic")
    assert np.array_equal(shown["X"], rec.X[shown["index"]].astype(np.float32))
    assert np.array_equal(shown["y"], rec.y[shown["index"]])
    split = subject_split(rec, seed=0)
    assert set(shown["index"][shown["part"] == "test"]) <= set(split.test.tolist())
    model = found.model("synthetic", "PLC")
    again = model.transform(rec.X[shown["index"]])
    assert np.allclose(again, found.features("synthetic", "PLC"), atol=1e-5)
    history = found.history("synthetic", "PLC")
    assert len(history["objective"]) == len(history["seconds"]) == model.decompose_.n_iter_
    assert found.evidence("synthetic", "stages") is None
    with pytest.raises(InvalidInputError, match="no method 'PLCC'"):
        found.model("synthetic", "PLCC")
    with pytest.raises(InvalidInputError, match="no evidence 'x'"):
        found.evidence("synthetic", "x")


def test_summaries(finished):
    found, _ = finished
    rows = found.summary("synthetic")
    assert [(row.method, row.budget) for row in rows] == [
        (m, b) for m in ("CPD", "PLC") for b in (6, "50%", "100%")
    ]
    cells = [c.accuracy for c in found.cells if (c.method, c.budget) == ("CPD", "50%")]
    assert rows[1].accuracy == pytest.approx(np.mean(cells))
    assert rows[1].accuracy_sd == pytest.approx(np.std(cells, ddof=1))
    assert rows[1].n_seeds == 2 and rows[1].n_failed == 0 and rows[1].paper is None


def test_running_again_does_nothing(finished):
    found, _ = finished
    path = found.folder / "cells.jsonl"
    before, states = path.read_bytes(), []
    again = run(config(title="new", n_jobs=1), found.folder, progress=states.append)
    assert path.read_bytes() == before and numbers(again) == numbers(found)
    assert [(s.done, s.total) for s in states] == [(4, 4)]


def test_only_what_is_missing_is_computed(finished, tmp_path):
    found, _ = finished
    folder = copy(found.folder, tmp_path / "part")
    lines = (folder / "cells.jsonl").read_bytes().splitlines(keepends=True)
    kept = b"".join(lines[:4]) + lines[4][:30]  # one fit, a cell of the next, and a torn line
    (folder / "cells.jsonl").write_bytes(kept)
    states = []
    assert len(Run.load(folder).ok) == 4 and len(Run.load(folder).missing) == 8
    again = run(config(), folder, n_jobs=2, progress=states.append)
    assert numbers(again) == numbers(found)
    assert (folder / "cells.jsonl").read_bytes().startswith(b"".join(lines[:4]))
    assert len((folder / "cells.jsonl").read_bytes().splitlines()) == 12
    assert states[0].done == 1 and states[-1].done == 4
    assert again.environment[-1]["processes"] == 2 and again.cells[-1].session == 1
    run(config(), folder, n_jobs=3)
    assert Run.load(folder).environment == again.environment  # nothing was computed


def copy(source, target):
    import shutil

    return shutil.copytree(source, target)


# ------------------------------------------------------------------------ never mixed


def test_another_configuration_is_refused(finished, tmp_path):
    folder = copy(finished[0].folder, tmp_path / "run")
    before = (folder / "cells.jsonl").read_bytes()
    for change in ({"rank": 5}, {"seeds": 3}, {"methods": ["cpd"]}, {"budgets": [6]}):
        with pytest.raises(FileError, match=r"another configuration.*another folder.*--fresh"):
            run(config(**change), folder, n_jobs=1)
    with pytest.raises(FileError, match="holds a run already"):
        run(config(), folder, n_jobs=1, resume=False)
    assert (folder / "cells.jsonl").read_bytes() == before


def test_fresh_deletes_the_old_run_and_nothing_else(finished, tmp_path):
    folder = copy(finished[0].folder, tmp_path / "run")
    (folder / "report.html").write_text("mine")
    small = config(methods=[SMALL["methods"][0]], seeds=[3], budgets=["100%"])
    again = run(small, folder, n_jobs=1, fresh=True)
    assert len(again.cells) == 1 and again.complete and again.cells[0].seed == 3
    assert (folder / "report.html").read_text() == "mine"
    assert again.path("synthetic", "CPD", "model.tcm").is_file()
    assert not (folder / "artefacts" / "synthetic" / "plc").exists()


def test_other_data_are_refused(tmp_path):
    file, folder = tmp_path / "own.npz", tmp_path / "run"
    rec = make_synthetic(**OPTIONS, random_state=0)
    rec.save(file)
    mine = config(datasets=[str(file)], methods=[SMALL["methods"][0]], seeds=1)
    first = run(mine, folder, n_jobs=1)
    assert first.config.datasets[0].name == "own" and first.complete
    y = rec.y.copy()
    y[0] = (y[0] + 1) % 3
    rec._with(y=y).save(file)
    with pytest.raises(FileError, match="computed from other data"):
        run(mine, folder, n_jobs=1)
    rec.save(tmp_path / "moved.npz")
    moved = mine.replace(datasets=[{"name": "own", "path": str(tmp_path / "moved.npz")}])
    assert numbers(run(moved, folder, n_jobs=1)) == numbers(first)


def test_a_changed_or_damaged_folder_is_refused(finished, tmp_path):
    folder = copy(finished[0].folder, tmp_path / "run")
    text = (folder / "config.json").read_text()
    (folder / "config.json").write_text(text.replace('"rank": 4', '"rank": 5'))
    with pytest.raises(DamagedFileError, match="was changed since it was written"):
        Run.load(folder)
    edited = json.loads(text.replace('"rank": 4', '"rank": 5'))
    del edited["checksum"]
    (folder / "config.json").write_text(json.dumps(edited))
    with pytest.raises(DamagedFileError, match="was changed after the run began"):
        Run.load(folder)
    with pytest.raises(DamagedFileError, match="was changed"):
        run(config(), folder, n_jobs=1)
    (folder / "config.json").write_text(text)
    (folder / "datasets.json").write_text('{"format": 1}')
    with pytest.raises(DamagedFileError, match="keeps the cells"):
        Run.load(folder)
    with pytest.raises(DataNotFoundError, match="no such folder"):
        Run.load(tmp_path / "none")
    (tmp_path / "other").mkdir()
    with pytest.raises(ForeignFileError, match="not the folder of a run"):
        Run.load(tmp_path / "other")
    (tmp_path / "other" / "thesis.tex").write_text("")
    with pytest.raises(ForeignFileError, match=r"thesis\.tex' but no run"):
        run(config(), tmp_path / "other", n_jobs=1)
    with pytest.raises(FileError, match="is a file"):
        run(config(), tmp_path / "other" / "thesis.tex", n_jobs=1)


@pytest.mark.parametrize(
    "change", [{"budget": [1]}, {"seed": "0"}, {"accuracy": None}, {"dataset": None}, {"method": 3}]
)
def test_cells_of_wrong_types_are_named(finished, tmp_path, change):
    folder = copy(finished[0].folder, tmp_path / "run")
    lines = (folder / "cells.jsonl").read_text().splitlines()
    cell = {**json.loads(lines[4]), **change}
    lines[4] = json.dumps(cell)
    (folder / "cells.jsonl").write_text("\n".join(lines) + "\n")
    with pytest.raises(DamagedFileError, match="line 5: was changed"):
        Run.load(folder)
    del cell["checksum"]  # as lines from before there was one
    lines[4] = json.dumps(cell)
    (folder / "cells.jsonl").write_text("\n".join(lines) + "\n")
    with pytest.raises(DamagedFileError, match="line 5: is not a cell"):
        Run.load(folder)


def test_other_versions_are_told(finished, tmp_path):
    folder = copy(finished[0].folder, tmp_path / "run")
    data = json.loads((folder / "environment.json").read_text())
    data["sessions"][0]["packages"]["numpy"] = "1.0"
    del data["checksum"]
    (folder / "environment.json").write_text(json.dumps(data))
    lines = (folder / "cells.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "cells.jsonl").write_bytes(b"".join(lines[:-1]))
    with pytest.warns(TensorContrastWarning, match="other versions"):
        found = run(config(), folder, n_jobs=1)
    assert len(found.environment) == 2 and found.complete
    assert {cell.session for cell in found.cells} == {0, 1}


# ------------------------------------------------------------------------ ends of all kinds

KILLED = """
import sys
from tensorcontrast.evaluate.config import BenchConfig
from tensorcontrast.evaluate.runner import run
import json
if __name__ == "__main__":
    run(BenchConfig.from_data(json.loads(sys.argv[1])), sys.argv[2], n_jobs=int(sys.argv[3]))
"""


SLOW = {**SMALL, "seeds": 4, "methods": [{"name": "plc", "params": {"max_iter": 30}}, "cpd"]}


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    return run(BenchConfig.from_data(SLOW), tmp_path_factory.mktemp("runs") / "whole", n_jobs=1)


def is_alive(group):
    """Whether a process of the group runs; those that ended and wait for their parent do not."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    states = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()  # state, parent, group, …
        except OSError:  # it has ended
            continue
        if int(fields[2]) == group:
            states.append(fields[0])
    return not states or any(state not in "ZX" for state in states)


def wait_for_the_end_of_group(group):
    """Workers end with the process that started them."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if not is_alive(group):
            return
        time.sleep(0.05)
    os.killpg(group, signal.SIGKILL)
    raise AssertionError("workers have outlived the process that started them")


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_killed_run_goes_on(tmp_path, uninterrupted, n_jobs):
    script = tmp_path / "go.py"
    script.write_text(KILLED)
    folder = tmp_path / "killed"
    process = subprocess.Popen(
        [sys.executable, str(script), json.dumps(SLOW), str(folder), str(n_jobs)],
        start_new_session=True,
        stderr=subprocess.DEVNULL,
    )
    cells = folder / "cells.jsonl"
    deadline = time.monotonic() + 120
    while not (cells.exists() and cells.stat().st_size) and time.monotonic() < deadline:
        time.sleep(0.005)
    process.kill()
    process.wait()
    wait_for_the_end_of_group(process.pid)
    half = Run.load(folder)
    assert 0 < len(half.ok) < 24 and not half.failed
    before = cells.read_bytes()
    again = run(BenchConfig.from_data(SLOW), folder, n_jobs=1)
    assert again.complete and numbers(again) == numbers(uninterrupted)
    assert cells.read_bytes().startswith(before[: before.rfind(b"\n") + 1])


def test_ctrl_c_keeps_cells_and_says_how_to_go_on(tmp_path):
    def press(state):
        if state.done == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt, match=r"3 of 12 cells are kept in .*run the same again"):
        run(config(), tmp_path / "run", n_jobs=1, progress=press)
    assert len(Run.load(tmp_path / "run").ok) == 3
    assert run(config(), tmp_path / "run", n_jobs=1).complete


def test_an_interrupted_fit_is_not_taken_for_a_whole_one():
    class Stopped:
        interrupted_ = True

        def fit(self, X):
            return self

    with pytest.raises(KeyboardInterrupt):
        methods.fit(Stopped(), np.zeros((2, 2)))


PRESSED = """
import json, os, signal, sys, threading
from tensorcontrast.evaluate.config import BenchConfig
from tensorcontrast.evaluate.runner import run

def press(state):
    if state.done == 1:
        threading.Timer(1.5, os.killpg, (0, signal.SIGINT)).start()

if __name__ == "__main__":
    try:
        run(BenchConfig.from_data(json.loads(sys.argv[1])), sys.argv[2], n_jobs=int(sys.argv[3]),
            progress=press)
    except KeyboardInterrupt as stop:
        assert "of 12 cells are kept" in str(stop), str(stop)
        sys.exit(42)
"""


@pytest.mark.skipif(os.name == "nt", reason="process groups of Unix")
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_ctrl_c_in_the_middle_of_fits(tmp_path, n_jobs):
    """The terminal sends the signal to all processes; estimators end early on it, cells do not."""
    endless = {"name": "cpd", "params": {"max_iter": 1_000_000, "tol": 0.0}, "label": "endless"}
    both = {**SMALL, "methods": [SMALL["methods"][0], endless]}
    script = tmp_path / "go.py"
    script.write_text(PRESSED)
    done = subprocess.run(
        [sys.executable, str(script), json.dumps(both), str(tmp_path / "run"), str(n_jobs)],
        timeout=120,
        start_new_session=True,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert done.returncode == 42, done.stderr
    kept = Run.load(tmp_path / "run")
    assert len(kept.ok) in (3, 6) and {cell.method for cell in kept.cells} == {"CPD"}


def test_failed_fits_do_not_stop_others_and_are_tried_again(tmp_path, monkeypatch):
    good = methods.fit
    monkeypatch.setattr(scoring, "fit", lambda *a, **k: (_ for _ in ()).throw(OSError("no luck")))
    folder, states = tmp_path / "run", []
    first = run(config(), folder, n_jobs=1, progress=states.append)
    assert len(first.failed) == 12 and not first.ok and not first.complete
    assert first.failed[0].message == "OSError: no luck" and states[-1].failed == 4
    assert all(row.n_failed == 2 and np.isnan(row.accuracy) for row in first.summary())
    monkeypatch.setattr(scoring, "fit", good)
    again = run(config(), folder, n_jobs=1)
    assert again.complete and not again.failed


def test_a_budget_that_cannot_be_met_fails_alone(tmp_path):
    found = run(config(budgets=[6, 10_000], seeds=1), tmp_path / "run", n_jobs=1)
    assert {cell.budget for cell in found.ok} == {6}
    assert {cell.budget for cell in found.failed} == {10_000}
    assert "more than the" in found.failed[0].message


def test_wrong_values_of_parameters_are_told(tmp_path):
    bad = [{"name": "plc", "params": {"temperature": -1.0}}, SMALL["methods"][0]]
    found = run(config(methods=bad, seeds=1), tmp_path / "run", n_jobs=2)
    assert {cell.method for cell in found.failed} == {"PLC"}
    assert "temperature" in found.failed[0].message
    assert {cell.method for cell in found.ok} == {"CPD"}


def test_a_folder_that_cannot_be_written(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match="cannot be made"):
        run(config(), tmp_path / "file" / "run", n_jobs=1)

    def full(*args):
        raise OSError(28, "No space left on device")

    folder = tmp_path / "run"
    monkeypatch.setattr("tensorcontrast.evaluate.store.os.write", full)
    with pytest.raises(FileError, match=r"cells\.jsonl: cannot be written.*No space.*cells before"):
        run(config(), folder, n_jobs=1)
    monkeypatch.undo()
    assert (folder / "cells.jsonl").read_bytes() == b""
    assert not [p for p in folder.rglob("*") if p.name.endswith(".part")]
    assert run(config(), folder, n_jobs=1).complete


# ------------------------------------------------------------------------ bad recordings


def refused(tmp_path, rec, words, **changes):
    rec.save(tmp_path / "bad.npz")
    folder = tmp_path / "run"
    with pytest.raises(InvalidInputError, match=words):
        run(config(datasets=[str(tmp_path / "bad.npz")], **changes), folder, n_jobs=1)
    assert not folder.exists()


def test_recordings_that_cannot_be_judged(tmp_path):
    rec = make_synthetic(**OPTIONS, random_state=0)
    refused(tmp_path, rec._with(y=None, classes=None), "no labels")
    refused(tmp_path, rec._with(y=np.full(160, -1)), "no labels")
    refused(tmp_path, rec._with(y=np.zeros(160, dtype=int)), "all labels are 'class0'|all labels")
    refused(tmp_path, rec._with(groups=None), "have no groups")
    refused(tmp_path, rec._with(groups=rec.groups % 2), "at least 3 groups, but there are 2")
    refused(tmp_path, rec, "official split needs", split="official")
    # One class a subject: the one subject in train cannot show two.
    alone = rec._with(groups=rec.y.copy())
    refused(tmp_path, alone, r"train part \(1 groups\) has windows of 1 class")


def test_missing_files_leave_nothing(tmp_path):
    folder = tmp_path / "run"
    with pytest.raises(DataNotFoundError, match=r"none\.npz"):
        run(config(datasets=[str(tmp_path / "none.npz")]), folder, n_jobs=1)
    with pytest.raises(InvalidInputError, match="n_sampels"):
        wrong = [{"name": "synthetic", "options": {"n_sampels": 3}}]
        run(config(datasets=wrong), folder, n_jobs=1)
    assert not folder.exists()


def test_ungrouped_recordings_on_demand(tmp_path):
    make_synthetic(**OPTIONS, random_state=0)._with(groups=None).save(tmp_path / "own.npz")
    free = config(datasets=[str(tmp_path / "own.npz")], allow_ungrouped=True, seeds=1)
    found = run(free, tmp_path / "run", n_jobs=1)
    assert found.complete and any("no groups" in note for note in found.notes("own"))


def test_classes_absent_from_train_are_counted(tmp_path):
    rec = make_synthetic(**OPTIONS, random_state=0)
    split = subject_split(rec, seed=0)
    y = rec.y.copy()
    y[np.isin(rec.groups, rec.groups[split.train]) & (y == 2)] = 0
    rec._with(y=y).save(tmp_path / "own.npz")
    one = config(datasets=[str(tmp_path / "own.npz")], seeds=1, budgets=["100%"])
    found = run(one, tmp_path / "run", n_jobs=1)
    assert found.complete and all(cell.absent_classes == 1 for cell in found.ok)
    assert any("have no training window" in text for text in found.ok[0].warnings)
    assert any("had no label in a draw" in note for note in found.notes("own"))


def test_a_subject_alone_in_train(tmp_path):
    rec = make_synthetic(**OPTIONS, random_state=0)
    rec._with(groups=rec.groups % 3).save(tmp_path / "own.npz")
    tune = {"grid": {"rank": [2, 3]}, "criterion": "cv"}
    several = [SMALL["methods"][0], {"name": "cpd", "label": "tuned", "tune": tune}]
    alone = config(datasets=[str(tmp_path / "own.npz")], methods=several, seeds=1)
    found = run(alone, tmp_path / "run", n_jobs=1)
    assert {cell.method for cell in found.ok} == {"CPD"}
    assert {cell.method for cell in found.failed} == {"tuned"}
    assert "all labelled windows are of one subject" in found.failed[0].message
    assert any("With seed 0 one subject makes up all of test" in n for n in found.notes("own"))


def test_limit_clip_and_recordings_with_unlabelled_windows(tmp_path):
    rec = make_synthetic(**OPTIONS, random_state=0)
    y = rec.y.copy()
    y[::7] = -1
    rec._with(y=y).save(tmp_path / "own.npz")
    given = {"path": str(tmp_path / "own.npz"), "limit": 120, "clip": 0.5}
    found = run(config(datasets=[given], seeds=1), tmp_path / "run", n_jobs=1)
    assert found.complete and found.datasets["own"].n_samples == 120
    assert np.abs(found.windows("own")["X"]).max() == 0.5
    assert sum(found.datasets["own"].class_counts) < 120


def test_groups_and_columns_of_text(tmp_path):
    rec = make_synthetic(**OPTIONS, random_state=0)
    names = np.array([f"person {g}" for g in rec.groups])
    rec._with(groups=names, columns={"side": np.array(["left", "right"] * 80)}).save(
        tmp_path / "own.npz"
    )
    found = run(config(datasets=[str(tmp_path / "own.npz")], seeds=1), tmp_path / "run", n_jobs=1)
    assert found.complete and set(found.windows("own")["groups"]) <= set(names)


@pytest.mark.data
@pytest.mark.skipif(
    "TENSORCONTRAST_DATA" not in os.environ, reason="TENSORCONTRAST_DATA is not set"
)
def test_paper_tensors_of_real_recordings(tmp_path):
    small = {"limit": 900, "tensorize": "paper", "augment": "paper"}
    both = [{"name": "har", "split": "atd-har", **small}, {"name": "har", "split": "official"}]
    both[1] |= {"limit": 900}
    quick = {"name": "plc-paper", "params": {"max_iter": 12}}
    given = {"datasets": both, "methods": [quick], "budgets": [30, "100%"], "seeds": 1}
    found = run(BenchConfig.from_data({**given, "draws": 2}), tmp_path / "run", n_jobs=1)
    assert found.complete, [cell.message for cell in found.failed]
    assert found.model("har-atd", "PLC (paper)").tensorize_.output_shape_ == (18, 33, 33)
    assert found.model("har-official", "PLC (paper)").spectrogram_.output_shape_ == (9, 33, 4)
    row = found.summary("har-atd")[1]
    assert row.accuracy > 0.5 and row.paper is not None and row.paper.accuracy == 0.9349
    assert any("split of the ATD authors" in note for note in found.notes("har-atd"))


def test_jobs_are_counted():
    assert runner._workers(3) == 3 and runner._workers(-1) >= 1 and runner._workers(None) >= 1
    with pytest.raises(InvalidInputError, match="n_jobs is 0"):
        runner._workers(0)
