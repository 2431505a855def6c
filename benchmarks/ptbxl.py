"""PTB-XL's records from raw signals to features: ``python -m benchmarks ptbxl``.

The records are those of ``ptbxl_100hz.npz`` in the folder named by TENSORCONTRAST_DATA. Where they
are absent, nothing is measured.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np

from benchmarks.common import Row
from tensorcontrast import CPD, PLC, ContrastiveFeatures

RANK = 32


def rows() -> list[Row]:
    """Time the default fit, that of a CPD, and the features of all records."""
    path = Path(os.environ.get("TENSORCONTRAST_DATA", "")) / "ptbxl_100hz.npz"
    if not path.is_file():
        print("ptbxl_100hz.npz is not in TENSORCONTRAST_DATA: PTB-XL is not measured")
        return []
    with np.load(path, allow_pickle=False) as file:
        X = np.ascontiguousarray(file["X"], dtype=np.float32)
    seconds = {}
    for kind in (CPD, PLC):
        begin = time.perf_counter()
        model = ContrastiveFeatures(100.0, decompose=kind(RANK), random_state=0).fit(X)
        seconds[kind.__name__] = time.perf_counter() - begin
    begin = time.perf_counter()
    model.transform(X)
    encoded = time.perf_counter() - begin
    name = f"{len(X):,} records of PTB-XL, {X.shape[1]}×{X.shape[2]}"
    return [
        Row(f"PLC, from raw signals to a model / CPD, {name}", seconds["PLC"] / seconds["CPD"]),
        Row(f"PLC, from raw signals to a model, {name}", seconds["PLC"], "s"),
        Row("CPD, the same", seconds["CPD"], "s"),
        Row("PLC, features of all records", encoded, "s"),
    ]
