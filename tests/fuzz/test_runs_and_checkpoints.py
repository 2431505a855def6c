"""Damaged run folders and checkpoints: the project's own error, or what was written."""

import importlib.util
import json
import random
import shutil
from pathlib import Path

import numpy as np
import pytest

from tensorcontrast import CPD
from tensorcontrast.decompose.options import build
from tensorcontrast.errors import TensorContrastError
from tensorcontrast.evaluate.config import BenchConfig
from tensorcontrast.evaluate.run import Run
from tensorcontrast.evaluate.runner import run
from tensorcontrast.solvers import checkpoint

CHECKPOINTS, RUNS = 1500, 1500

_spec = importlib.util.spec_from_file_location("mutate", Path(__file__).with_name("mutate.py"))
_mutate = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_mutate)
damage = _mutate.damage


def test_the_page_on_reliability_states_these_numbers():
    docs = Path(__file__).parents[2] / "docs"
    page = (docs / "explanation" / "reliability.md").read_text("utf-8")
    assert f"{CHECKPOINTS:,} damaged checkpoints, {RUNS:,} damaged files of runs" in page


def test_damaged_checkpoints(tmp_path):
    X = np.random.default_rng(0).normal(size=(20, 3, 4))
    path = tmp_path / "fit.tcc"
    build(CPD, rank=2, max_iter=6, tol=0, random_state=0).fit(X, checkpoint=path, every=2)
    whole, expected = path.read_bytes(), checkpoint.load(path)
    rng = random.Random(0)
    refused = 0
    for _ in range(CHECKPOINTS):
        path.write_bytes(damage(rng, whole))
        try:
            found = checkpoint.load(path)
        except TensorContrastError as error:
            assert "fit.tcc" in str(error)
            refused += 1
        else:  # the damage changed nothing
            assert repr(found) == repr(expected)
    assert refused > 0.9 * CHECKPOINTS


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("runs") / "run"
    quick = {"name": "cpd", "params": {"max_iter": 5, "tol": 1.0}}
    given = {"datasets": [{"name": "synthetic", "limit": 60}], "methods": [quick, "pca"]}
    run(
        BenchConfig.from_data({**given, "seeds": 1, "budgets": [10, "100%"], "rank": 2}),
        place,
        n_jobs=1,
    )
    return place


def test_damaged_run_folders(folder, tmp_path):
    expected = Run.load(folder).summary()
    names = sorted(p.name for p in folder.iterdir() if p.suffix in {".json", ".jsonl"})
    assert {"cells.jsonl", "config.json"} <= set(names)
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    rng = random.Random(1)
    refused = 0
    for _ in range(RUNS):
        name = rng.choice(names)
        (copy / name).write_bytes(damage(rng, (folder / name).read_bytes()))
        try:
            found = Run.load(copy)
            cells = found.summary()
        except TensorContrastError:
            refused += 1
        else:  # lines may be missing at the end or whole ones twice; none says anything else
            known = {(row.dataset, row.method, str(row.budget)): row.accuracy for row in expected}
            for row in cells:
                assert row.accuracy in (known[row.dataset, row.method, str(row.budget)], None)
        shutil.copyfile(folder / name, copy / name)
    assert refused > 0.5 * RUNS


def test_a_changed_number_in_a_cell_is_told(folder, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    lines = (copy / "cells.jsonl").read_text().splitlines()
    cell = json.loads(lines[0])
    cell["accuracy"] = 0.999
    (copy / "cells.jsonl").write_text("\n".join([json.dumps(cell), *lines[1:]]) + "\n")
    with pytest.raises(TensorContrastError, match="line 1: was changed"):
        Run.load(copy)
