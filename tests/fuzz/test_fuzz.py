"""The readers against mutated files, with a fixed number of them; ``run.py`` takes any number."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

for package in ("pandas", "pyarrow", "edfio", "wfdb"):
    pytest.importorskip(package, reason="needs tensorcontrast[data]")

FILES = 20_000
FORMATS = {"npz", "recordings", "csv", "parquet", "edf", "wfdb", "ts", "numpy", "model"}


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory as on Linux")
def test_no_mutated_file_gets_past_the_readers(tmp_path):
    out = tmp_path / "numbers.json"
    script = Path(__file__).with_name("run.py")
    done = subprocess.run(
        [sys.executable, str(script), "--count", str(FILES), "--jobs", "2", "--json", str(out)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, f"{done.stdout[-6000:]}\n{done.stderr[-3000:]}"
    numbers = json.loads(out.read_text())
    assert numbers["findings"] == []
    assert numbers["total"] >= FILES
    assert set(numbers["formats"]) == FORMATS
    for name, row in numbers["formats"].items():
        assert row["cases"] >= FILES // len(FORMATS), name
        assert row["accepted"] + row["refused"] == row["cases"], name
        assert row["accepted"] > 50 and row["refused"] > 500, f"{name}: too easy or too hard"
        assert row["slowest"] < 5.0, name
        assert row["grown"] < 1 << 30, name
