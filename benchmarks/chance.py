"""How much of a comparison is chance: ``python -m benchmarks.chance [--data har] [variant …]``.

Variants of ``benchmarks.study`` on its four splits of development subjects, each split with several
random states of the fit. Printed are means with 60 and with all labels, the standard deviation
over states, and the difference to the first variant, of the same splits and states, with its
standard error. A difference that one state a split shows is worth no more than this table says.

Results go to ``benchmarks/results/chance-NAME.json``. Needs the recordings named by
TENSORCONTRAST_DATA.
"""

from __future__ import annotations

import argparse
import json
import warnings

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.exceptions import ConvergenceWarning

from benchmarks.common import RESULTS, environment
from benchmarks.study import NAMES, SEEDS, development, measure
from benchmarks.variants import VARIANTS

CHOSEN = ("default, unit length, graphs in turns", "default, unit length", "default, cpd")
BUDGETS = ("60 labels", "all labels")


def cells(name: str, variant: str, states: int) -> np.ndarray:
    """Accuracy (split, state, budget)."""
    rec = development(name)
    out = np.empty((len(SEEDS), states, len(BUDGETS)))
    for i, seed in enumerate(SEEDS):
        for j in range(states):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                cell = measure(name, rec, VARIANTS[variant], seed, seed + 1000 * j)
            out[i, j] = [cell[budget] for budget in BUDGETS]
    return out


def main() -> int:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.chance", description=__doc__)
    parser.add_argument("variants", nargs="*", default=list(CHOSEN), help="names of variants")
    parser.add_argument("--data", default="har", choices=NAMES)
    parser.add_argument("--states", type=int, default=3)
    arguments = parser.parse_args()
    unknown = [v for v in arguments.variants if v not in VARIANTS]
    if unknown or arguments.states < 2:
        parser.error(f"no variants: {unknown}" if unknown else "two states at least")
    table = Table("variant", "60, all labels", "sd over states", "difference", title=arguments.data)
    found = {}
    for variant in arguments.variants:
        values = found[variant] = cells(arguments.data, variant, arguments.states)
        apart = (values - found[arguments.variants[0]]).reshape(-1, len(BUDGETS))
        error = apart.std(axis=0, ddof=1) / np.sqrt(len(apart))
        sd = values.std(axis=1, ddof=1).mean(axis=0)
        table.add_row(
            variant,
            ", ".join(f"{v:.3f}" for v in values.mean(axis=(0, 1))),
            ", ".join(f"{v:.3f}" for v in sd),
            ", ".join(
                f"{d:+.3f} ± {e:.3f}" for d, e in zip(apart.mean(axis=0), error, strict=True)
            ),
        )
    Console(width=120).print(table)
    result = {"environment": environment(), "cells": {k: v.tolist() for k, v in found.items()}}
    path = RESULTS / f"chance-{arguments.data}.json"
    path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
