"""Run every benchmark of speed: ``python -m benchmarks [name …]``; 1 if a goal was missed."""

from __future__ import annotations

import sys
import time
from functools import partial

from benchmarks import decompose, engine, latency, memory, peers, ptbxl, scale, signals
from benchmarks.common import Row, show, write

SUITES = {
    "engine": ("Engine", engine.rows),
    "decompose": ("Decomposition", decompose.rows),
    "signals": ("Signals to tensors", signals.rows),
    "latency": ("Single windows and live signals", latency.rows),
    "tensorly": ("Fits against TensorLy", scale.tensorly_rows),
    "peers": ("Peers", partial(scale.rows, peers.peers)),
    "ptbxl": ("PTB-XL", ptbxl.rows),
    "scale": ("Growth", partial(scale.rows, scale.growth)),
    "memory": ("Peak memory", memory.rows),
}

#: Minutes that all suites may take on two processors.
MAX_MINUTES = 45


def main(names: list[str]) -> int:
    """Measure, print and write the named suites, all by default."""
    unknown = [name for name in names if name not in SUITES]
    if unknown:
        print(f"no benchmark {unknown}; there are {', '.join(SUITES)}", file=sys.stderr)
        return 2
    passed = True
    begin = time.perf_counter()
    for name in names or list(SUITES):
        title, rows = SUITES[name]
        own = time.perf_counter()
        found = rows()
        if not found:
            continue
        found.append(Row("the suite took", (time.perf_counter() - own) / 60, "min"))
        show(title, found)
        write(name, found)
        passed &= all(row.passed for row in found)
    minutes = (time.perf_counter() - begin) / 60
    print(f"{minutes:.1f} minutes in all; the goal for all suites is {MAX_MINUTES}")
    passed &= minutes <= MAX_MINUTES
    return 0 if passed else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
