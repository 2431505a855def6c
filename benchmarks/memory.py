"""Peak memory of a fit on a whole archive: ``python -m benchmarks.memory [--records N]``.

Signals of the size of PTB-XL (21,837 records of 12 leads, 10 s at 500 Hz, as int16 in a mapped
file) become tensors of 24×129×75, 20 GB of them, which are made block by block and fitted from a
scratch file. Records are those named by TENSORCONTRAST_DATA, brought to 500 Hz and repeated with
noise; noise alone where there are none. The peak is that of the process that fits, everything
included.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.common import Row, show, write
from tensorcontrast import PLC, ContrastiveFeatures, SpectrogramTensor

RECORDS, LEADS, TIMES = 21_837, 12, 5000


def archive(path: Path, records: int) -> None:
    """Write int16 signals [records, 12, 5000]."""
    source = Path(os.environ.get("TENSORCONTRAST_DATA", "")) / "ptbxl_100hz.npz"
    real = None
    if source.is_file():
        with np.load(source, allow_pickle=False) as file:
            real = file["X"]
    out = np.lib.format.open_memmap(path, "w+", np.int16, (records, LEADS, TIMES))
    rng = np.random.default_rng(0)
    at = np.linspace(0, 999, TIMES)
    low = np.minimum(at.astype(int), 998)
    share = (at - low).astype(np.float32)
    for start in range(0, records, 256):
        stop = min(start + 256, records)
        noise = rng.normal(0, 20, size=(stop - start, LEADS, TIMES)).astype(np.float32)
        if real is not None:
            coarse = real[np.arange(start, stop) % len(real)].astype(np.float32)
            noise += coarse[..., low] * (1 - share) + coarse[..., low + 1] * share
        out[start:stop] = np.clip(noise, -32_000, 32_000).astype(np.int16)
    out.flush()


def fit(path: Path) -> None:
    """Fit in this process and print seconds, peak bytes and the reconstruction error."""
    signals = np.load(path, mmap_mode="r")
    model = ContrastiveFeatures(
        fs=500.0,
        tensorize=SpectrogramTensor.paper("ptb-xl"),
        decompose=PLC(rank=32, max_iter=50, tol=1e-4, random_state=0),
        random_state=0,
    )
    begin = time.perf_counter()
    model.fit(signals)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    inner = model.decompose_
    print(time.perf_counter() - begin, peak, inner.reconstruction_error_)


def rows(records: int = RECORDS) -> list[Row]:
    """Write the archive, fit it in a process of its own, measure."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "archive.npy"
        archive(path, records)
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-m", "benchmarks.memory", "--fit", str(path)],
            capture_output=True,
            text=True,
            check=True,
        )
    seconds, peak, error = (float(x) for x in done.stdout.split())
    size = records * 24 * 129 * 75 * 4
    name = f"{records:,} records as 24×129×75"
    return [
        Row(f"peak memory of a PLC fit, {name}", peak / 1e9, "GB", at_most=6.0),
        Row("the tensor in memory would be", size / 1e9, "GB"),
        Row("from mapped signals to model", seconds, "s"),
        Row("reconstruction error", error, ""),
    ]


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.memory", description=__doc__)
    parser.add_argument("--records", type=int, default=RECORDS)
    parser.add_argument("--fit", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.fit is not None:
        fit(arguments.fit)
        return 0
    found = rows(arguments.records)
    show("Peak memory", found)
    write("memory", found)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
