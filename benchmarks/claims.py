"""The claims of the paper, computed and judged: ``python -m benchmarks.claims``.

Runs what is missing (:mod:`tensorcontrast.evaluate.claims`), puts all results into one file and
writes the page of verdicts. A stopped run goes on where it stopped.
"""

from __future__ import annotations

import argparse
import json
import platform
from collections.abc import Sequence
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

import tensorcontrast
from tensorcontrast.evaluate import theory, verdicts
from tensorcontrast.evaluate.benchmark import Benchmark, Cell, cells_of, run
from tensorcontrast.evaluate.claims import PARTS, THEORY, claim_runs, require
from tensorcontrast.evaluate.evidence import PIECES, collect
from tensorcontrast.report.claims_page import write_claims

#: Methods of the ablation whose fits are looked into.
LOOKED_INTO = ("PLC (paper)", "PLC (default)")


def look_into(benchmark: Benchmark, path: Path) -> dict[tuple[str, str, str], Any]:
    """Return the arrays behind the figures; what the file lacks is computed and added to it."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    found = {tuple(record["key"]): record["arrays"] for record in map(json.loads, lines)}
    for dataset in benchmark.datasets:
        for label in LOOKED_INTO:
            for piece in PIECES:
                key = (piece, dataset.label, label)
                if key in found:
                    continue
                print(*key, flush=True)
                arrays = collect(benchmark, dataset, benchmark.method(label), piece)
                found[key] = {name: np.asarray(values).tolist() for name, values in arrays.items()}
                with path.open("a", encoding="utf-8") as stream:
                    stream.write(json.dumps({"key": key, "arrays": found[key]}) + "\n")
    return {key: {n: np.array(v) for n, v in arrays.items()} for key, arrays in found.items()}


def environment() -> dict[str, Any]:
    """Return the versions that results depend on."""
    packages = {}
    for name in ("numpy", "scipy", "scikit-learn", "torch"):
        try:
            packages[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return {
        "tensorcontrast": tensorcontrast.__version__,
        "python": platform.python_version(),
        "packages": packages,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is missing, write results and page; 1 if a cell failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.claims", description=__doc__)
    parser.add_argument("--parts", nargs="*", choices=tuple(PARTS), default=tuple(PARTS))
    parser.add_argument("--sets", nargs="*", help="labels of data sets; all by default")
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("-o", "--output", type=Path, default=Path("runs/claims"))
    parser.add_argument("--results", type=Path, help="write the page of this file; run nothing")
    parser.add_argument("--update", type=Path, help="put what is run here into this file")
    parser.add_argument("--page", type=Path, help="write the page here")
    given = parser.parse_args(arguments)
    cells: dict[str, list[Cell]] = {}
    results = given.results
    if results is None:
        found = verdicts.Evidence({}, environment=environment())
        given.output.mkdir(parents=True, exist_ok=True)
        for part, benchmark in claim_runs(given.parts, seeds=range(given.seeds)).items():
            chosen = [d for d in benchmark.datasets if not given.sets or d.label in given.sets]
            benchmark = replace(benchmark, datasets=chosen)
            require(benchmark)
            path = given.output / f"{part}.jsonl"
            run(benchmark, path, n_jobs=given.jobs, progress=lambda *state: print(*state))
            cells[part] = cells_of(benchmark, path)
            if part == "ablation":
                arrays = look_into(benchmark, given.output / "evidence.jsonl")
                found = replace(found, arrays=arrays)
        if THEORY in given.parts:
            found = replace(found, theory=theory.measure(given.output / f"{THEORY}.json", print))
        good = {part: [cell for cell in own if not cell.error] for part, own in cells.items()}
        found = replace(found, cells=good)
        results = given.output / "claims.json"
        if given.update is not None:
            results = given.update
            found = verdicts.merged(verdicts.read_results(results), found)
        verdicts.write_results(found, results)
    rows = write_claims(verdicts.read_results(results), given.page or results.parent / "paper.md")
    for row in rows:
        print(f"{row.number:2d}  {row.verdict:18}  {row.says}")
    failed = [cell for own in cells.values() for cell in own if cell.error]
    for cell in failed:
        print(f"no result: {cell.method} on {cell.dataset}, seed {cell.seed}: {cell.error}")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
