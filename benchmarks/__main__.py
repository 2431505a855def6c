"""Run every benchmark of speed: ``python -m benchmarks [name …]``; 1 if a goal was missed."""

from __future__ import annotations

import sys
from functools import partial

from benchmarks import decompose, memory, peers, scale, signals
from benchmarks.common import show, write

SUITES = {
    "decompose": ("Decomposition", decompose.rows),
    "signals": ("Signals to tensors", signals.rows),
    "tensorly": ("Fits against TensorLy", scale.tensorly_rows),
    "compression": ("Compression", partial(scale.rows, scale.compression)),
    "peers": ("Peers", partial(scale.rows, peers.peers)),
    "scale": ("Growth", partial(scale.rows, scale.growth)),
    "memory": ("Peak memory", memory.rows),
}


def main(names: list[str]) -> int:
    """Measure, print and write the named suites, all by default."""
    unknown = [name for name in names if name not in SUITES]
    if unknown:
        print(f"no benchmark {unknown}; there are {', '.join(SUITES)}", file=sys.stderr)
        return 2
    passed = True
    for name in names or list(SUITES):
        title, rows = SUITES[name]
        found = rows()
        show(title, found)
        write(name, found)
        passed &= all(row.passed for row in found)
    return 0 if passed else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
