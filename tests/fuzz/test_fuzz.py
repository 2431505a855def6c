"""The readers against mutated files, with a fixed number of them; ``run.py`` takes any number."""

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

for package in ("pandas", "pyarrow", "edfio", "wfdb"):
    pytest.importorskip(package, reason="needs tensorcontrast[data]")

#: ``make fuzz`` reads 200,000; these are the first of them.
FILES = 1_400
FORMATS = {"npz", "recordings", "csv", "parquet", "edf", "wfdb", "ts", "model"}
#: Files of neural models are a few besides: each takes ten times as long.
NEURAL = {"neural"} if find_spec("torch") else set()


pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits of memory as on Linux")


def run(folder, *options):
    """Exit code, what was printed, and the numbers of a run."""
    out = folder / "numbers.json"
    script = Path(__file__).with_name("run.py")
    done = subprocess.run(
        [sys.executable, str(script), "--jobs", "2", "--json", str(out), *options],
        capture_output=True,
        text=True,
    )
    printed = f"{done.stdout[-6000:]}\n{done.stderr[-3000:]}"
    return done.returncode, printed, json.loads(out.read_text()) if out.exists() else {}


def test_no_mutated_file_gets_past_the_readers(tmp_path):
    code, printed, numbers = run(tmp_path, "--count", str(FILES))
    assert code == 0, printed
    assert numbers["findings"] == []
    assert numbers["total"] >= FILES
    assert set(numbers["formats"]) == FORMATS | NEURAL
    for name in NEURAL:
        row = numbers["formats"].pop(name)
        assert row["cases"] >= FILES // len(FORMATS) // 8
        assert row["accepted"] + row["refused"] == row["cases"]
        assert row["accepted"] and row["refused"], f"{name}: too easy or too hard"
        assert row["slowest"] < 5.0
        assert row["grown"] < 1 << 30
    for name, row in numbers["formats"].items():
        assert row["cases"] >= FILES // len(FORMATS), name
        assert row["accepted"] + row["refused"] == row["cases"], name
        assert row["accepted"] and row["refused"] > 50, f"{name}: too easy or too hard"
        assert row["slowest"] < 5.0, name
        assert row["grown"] < 1 << 30, name


def test_the_fuzzer_finds_what_is_planted(tmp_path):
    code, printed, numbers = run(
        tmp_path, "--only", "planted", "--count", "8", "--seconds", "1", "--seed", "27"
    )
    assert code == 1
    kinds = {trouble.split(":")[0] for _, _, trouble in numbers["findings"]}
    assert kinds == {
        "memory", "hang", "ValueError", "foreign warning", "crash", "Broken", "nameless error"
    }, printed  # fmt: skip
    assert len(numbers["findings"]) == 8
