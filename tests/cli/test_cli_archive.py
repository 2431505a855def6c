"""``tensorcontrast bench archive``: a folder of sets, a part of them, one comparison."""

import numpy as np
import pytest


@pytest.fixture
def folder(recordings, tmp_path):
    where = tmp_path / "sets"
    where.mkdir()
    for name in ("official", "Pair"):
        split = (np.arange(len(recordings)) % 3 == 0).astype(np.int8)
        recordings._with(columns={"split": split}).save(where / f"{name}.npz")
    return where


def test_the_program_has_the_same(folder, tmp_path, cli):
    where = tmp_path / "run"
    args = ["bench", "archive", "--folder", folder, "-o", where, "--methods", "PCA,Random encoder"]
    done = cli(*args, "--seeds", "1", "-b", "3", "-j", "1", "--sets", "official,pair", "--json")
    assert done.code == 0, done.err
    assert done.json["comparison"]["baseline"] == "PCA" and done.json["cells"] == 4
    assert (where / "report" / "report.html").is_file()
    assert "belong to the preset archive" in cli("bench", "quick", "--half", "all").err
    assert "there are choosing, reporting, all" in cli("bench", "archive", "--half", "best").err
