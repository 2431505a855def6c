"""What the benchmarks share: timing in turns, rows with goals, the environment, the data."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import threadpoolctl
from rich.console import Console
from rich.table import Table

from benchmarks.stamps import digest

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Row:
    """One measured number; with a goal where there is one."""

    name: str
    value: float
    unit: str = "×"
    at_most: float | None = None
    at_least: float | None = None

    @property
    def goal(self) -> str:
        """The goal in words."""
        low = None if self.at_least is None else f"≥ {self.at_least:g}"
        high = None if self.at_most is None else f"≤ {self.at_most:g}"
        return " and ".join(part for part in (low, high) if part)

    @property
    def passed(self) -> bool:
        """Whether the value is within its goal; true where there is none."""
        return (self.at_least is None or self.value >= self.at_least) and (
            self.at_most is None or self.value <= self.at_most
        )


def best_times(tasks: dict[str, Callable[[], object]], repeats: int = 4) -> dict[str, float]:
    """Shortest time of each task in seconds; the tasks take turns, so that load hits all.

    A turn is two runs: virtual machines hand freed memory back to their host, and the first large
    array after a pause then waits for new pages.
    """
    best = dict.fromkeys(tasks, float("inf"))
    for _ in range(repeats):
        for name, task in tasks.items():
            for _ in range(2):
                start = time.perf_counter()
                task()
                best[name] = min(best[name], time.perf_counter() - start)
    return best


def har_signals() -> np.ndarray:
    """Windows of HAR [10299, 9, 128], real where they are at hand, else noise of that size."""
    path = Path(os.environ.get("TENSORCONTRAST_DATA", "")) / "har.npz"
    if path.is_file():
        with np.load(path, allow_pickle=False) as file:
            return np.ascontiguousarray(file["X"], dtype=np.float32)
    return np.random.default_rng(0).standard_normal((10_299, 9, 128), dtype=np.float32)


def environment() -> dict[str, Any]:
    """Versions, processor and threads: what a time depends on."""
    import scipy
    import sklearn

    import tensorcontrast

    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "processors": joblib.cpu_count(),
        "threads": {p["internal_api"]: p["num_threads"] for p in threadpoolctl.threadpool_info()},
        "tensorcontrast": tensorcontrast.__version__,
        "sources": digest(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
        "real_har": bool(os.environ.get("TENSORCONTRAST_DATA")),
    }


def show(title: str, rows: list[Row]) -> None:
    """Print the rows as a table."""
    table = Table(title=title, title_justify="left")
    table.add_column("measured")
    table.add_column("value", justify="right")
    table.add_column("goal")
    table.add_column("")
    for row in rows:
        verdict = ("ok" if row.passed else "MISSED") if row.goal else ""
        table.add_row(row.name, f"{row.value:.3f} {row.unit}", row.goal, verdict)
    Console(width=None if os.isatty(1) else 120).print(table)


def write(name: str, rows: list[Row]) -> Path:
    """Write rows and environment to ``benchmarks/results/NAME.json``."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    found = [{**asdict(row), "value": float(row.value), "passed": bool(row.passed)} for row in rows]
    path.write_text(json.dumps({"environment": environment(), "rows": found}, indent=1) + "\n")
    return path
