"""Fits on Dask workers against the serial fit, and the bytes that an iteration moves.

``python -m benchmarks.distributed [time] [traffic] [growth]`` measures at full size and prints
the tables; ``--quick`` does so with few windows, to see
that it runs. Traffic is counted in the comms of every worker, both ways: data, partial sums, tasks
and heartbeats alike.
``growth`` fits signals that are made on the workers, 50,000 and 200,000 windows of them and, with
``--million``, 1,000,000, and windows of more channels and samples; it prints the exponents.
``python -m benchmarks.distributed report FOLDER`` writes the performance reports of ``distributed``
for fits on 1, 2 and 4 workers, and prints what they and the workers say of transfers next to these
counts.
"""

from __future__ import annotations

import logging
import re
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import dask.array
import numpy as np
import zarr
from rich.console import Console
from rich.table import Table
from sklearn.exceptions import ConvergenceWarning

import distributed
from benchmarks.common import Row, show, write
from benchmarks.decompose import tensor
from tensorcontrast import CPD, PLC, ContrastiveFeatures, SpectrogramTensor

RANK, DIMS = 32, (9, 33, 9)
#: Samples of a block: 55 MB of tensors, as Dask's own advice has it.
BLOCK = 5_120


def stored(n: int, folder: Path, block: int = BLOCK) -> Path:
    """Random rank-32 tensors (n, 9, 33, 9) in a Zarr array, written block by block."""
    path = folder / f"{n}.zarr"
    array = zarr.create_array(
        str(path), shape=(n, *DIMS), chunks=(block, *DIMS), dtype="float32", compressors=None
    )
    for start in range(0, n, block):
        size = min(block, n - start)
        array[start : start + size] = tensor(size, DIMS, seed=start).reshape(size, *DIMS)
    return path


@contextmanager
def cluster(workers: int) -> Iterator[Any]:
    """Give the client of a local cluster of processes with one thread each."""
    with (
        distributed.LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            dashboard_address=None,
            memory_limit=0,
            silence_logs=logging.CRITICAL,
        ) as made,
        distributed.Client(made, timeout=120) as client,
    ):
        yield client


# ---------------------------------------------------------------------------- bytes


def count_bytes() -> None:
    """Count what goes through the comms of this process from now on."""
    from distributed.comm import tcp

    counts = {"in": 0, "out": 0}
    write_plain, from_plain = tcp.TCP.write, tcp.from_frames

    async def write_counted(self: Any, *args: Any, **more: Any) -> Any:
        size = await write_plain(self, *args, **more)
        counts["out"] += int(size)
        return size

    async def from_counted(frames: Any, *args: Any, **more: Any) -> Any:
        counts["in"] += sum(memoryview(frame).nbytes for frame in frames)
        return await from_plain(frames, *args, **more)

    tcp.TCP.write, tcp.from_frames = write_counted, from_counted
    tcp.counted_bytes = counts


def bytes_so_far() -> dict[str, int]:
    """Return the counts of this process."""
    from distributed.comm import tcp

    return dict(tcp.counted_bytes)


def models(iterations: int, callback: Any = None) -> dict[str, Any]:
    """Estimators whose iterations go over all samples, so many of them."""
    params = dict(rank=RANK, max_iter=iterations, tol=0, random_state=0, callback=callback)
    return {
        "CPD": CPD(**params),
        "PLC": PLC(**params),
    }


def bytes_an_iteration(
    client: Any, path: Path, name: str = "CPD", iterations: int = 20
) -> dict[str, float]:
    """Bytes that an iteration brings to a worker and takes from it, mean over workers.

    The counts are read when an iteration ends, after the first three and after the last.
    """
    marks: dict[int, dict[str, dict[str, int]]] = {}

    def mark(row: dict[str, float]) -> None:
        if row["iteration"] in (3, iterations - 2):  # the last two go over whole windows
            marks[int(row["iteration"])] = client.run(bytes_so_far)

    fitted(models(iterations, mark)[name], lazy(path))
    first, last = marks[3], marks[iterations - 2]
    return {
        way: float(np.mean([last[w][way] - first[w][way] for w in last])) / (iterations - 5)
        for way in ("in", "out")
    }


def traffic(sizes: tuple[int, int], folder: Path) -> list[Row]:
    """Bytes of an iteration on 1, 2 and 4 workers, and their growth with the samples."""
    rows, found = [], {}
    small, large = sizes
    for workers in (1, 2, 4):
        with cluster(workers) as client:
            client.run(count_bytes)
            for name in models(1):
                for n in sizes:
                    moved = bytes_an_iteration(client, folder / f"{n}.zarr", name)
                    found[name, workers, n] = moved
                    for way, verb in (("in", "received"), ("out", "sent")):
                        rows.append(
                            Row(
                                f"{name}: {verb} a worker and iteration, {workers} workers, "
                                f"N = {n:,}",
                                moved[way] / 1024,
                                "KiB",
                            )
                        )
    for name in models(1):
        for workers in (2, 4):
            ratio = sum(found[name, workers, large].values())
            ratio /= sum(found[name, workers, small].values())
            rows.append(
                Row(
                    f"{name}: bytes an iteration, N = {large:,} / {small:,}, {workers} workers",
                    ratio,
                    at_most=1.2,
                )
            )
    size = int(np.prod(DIMS))
    rows.append(
        Row("a partial sum: Q and WᵀW in float64", (RANK * size + RANK**2) * 8 / 1024, "KiB")
    )
    return rows


# ---------------------------------------------------------------------------- reports


@dataclass(frozen=True)
class Told:
    """What a performance report, and the workers' own counts, say of one fit."""

    tasks: str
    compute: str
    transfer: str
    sent: int


def transferred(dask_worker: Any) -> int:
    """Bytes of results that this worker has sent to others or to the caller."""
    return int(dask_worker.transfer_outgoing_bytes_total)


def summary(page: str) -> dict[str, str]:
    """Numbers of the summary of a performance report."""
    found = {}
    for key, pattern in (
        ("tasks", r"number of tasks: ([\d,]+)"),
        ("compute", r"compute time: ([\d.]+ ?\w+)"),
        ("transfer", r"transfer time: ([\d.]+ ?\w+)"),
    ):
        match = re.search(pattern, page)
        found[key] = match.group(1) if match else "0"
    return found


def reported(client: Any, model: Any, path: Path, target: Path) -> Told:
    """Fit, with a performance report of it."""
    before = client.run(transferred)
    with distributed.performance_report(filename=str(target)):
        fitted(model, lazy(path))
    after = client.run(transferred)
    sent = sum(after[w] - before[w] for w in after)
    return Told(**summary(target.read_text(encoding="utf-8")), sent=sent)


def report(folder: Path, quick: bool = False, iterations: int = 20) -> int:
    """Write a report for each model on 1, 2 and 4 workers, and print what they hold."""
    n = 5_000 if quick else 40_000
    folder.mkdir(parents=True, exist_ok=True)
    table = Table(
        "fit",
        "workers",
        "tasks",
        "compute time",
        "transfer time",
        "results sent",
        "comms in",
        "comms out",
        title=f"performance reports: {iterations} iterations, N = {n:,}",
    )
    with tempfile.TemporaryDirectory() as name:
        path = stored(n, Path(name))
        for workers in (1, 2, 4):
            with cluster(workers) as client:
                client.run(count_bytes)
                for kind, model in models(iterations).items():
                    target = folder / f"{kind.lower().replace('.', '-')}-{workers}-workers.html"
                    first = client.run(bytes_so_far)
                    told = reported(client, model, path, target)
                    last = client.run(bytes_so_far)
                    comms = [
                        sum(last[w][way] - first[w][way] for w in last) for way in ("in", "out")
                    ]
                    table.add_row(
                        kind,
                        str(workers),
                        told.tasks,
                        told.compute,
                        told.transfer,
                        *(f"{size / 2**20:.2f} MiB" for size in (told.sent, *comms)),
                    )
    Console().print(table)
    print(f"reports in {folder}")
    return 0


# ---------------------------------------------------------------------------- time


def lazy(path: Path) -> Any:
    """Return the array as Dask reads it, a block a chunk."""
    return dask.array.from_zarr(str(path))


def fitted(model: Any, X: Any) -> float:
    """Fit; gives the seconds."""
    begin = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # iterations are fixed
        model.fit(X)
    return time.perf_counter() - begin


def read_and_fitted(model: Any, path: Path) -> float:
    """Read the whole array into this process and fit; gives the seconds."""
    begin = time.perf_counter()
    X = zarr.open_array(str(path), mode="r")[:]
    read = time.perf_counter() - begin
    return read + fitted(model, X)


def overhead(n: int, folder: Path, repeats: int = 3) -> list[Row]:
    """Time whole fits on two workers and in this process, each from the store to the model."""
    path, rows = folder / f"{n}.zarr", []
    timed = {
        "CPD, 30 sweeps": lambda: CPD(rank=RANK, max_iter=30, tol=0, random_state=0),
        "PLC, 30 sweeps": lambda: PLC(rank=RANK, max_iter=30, tol=0, random_state=0),
    }
    for name, make in timed.items():
        here, there = np.inf, np.inf
        with cluster(2):
            for _ in range(repeats):  # in turns, so that load hits both
                here = min(here, read_and_fitted(make(), path))
                there = min(there, fitted(make(), lazy(path)))
        rows += [
            Row(f"{name}, N = {n:,}: two workers / serial", there / here, at_most=1.3),
            Row(f"{name}, N = {n:,}: two workers", there, "s"),
            Row(f"{name}, N = {n:,}: serial", here, "s"),
        ]
    return rows


# ---------------------------------------------------------------------------- growth

#: Largest exponent of the time that counts as close to linear.
NEARLY_LINEAR = 1.15


def planted(block_id: tuple[int, ...], size: int, n: int, shape: tuple[int, int]) -> np.ndarray:
    """Noisy oscillations of four kinds, for one block of windows (channel, time)."""
    rng = np.random.default_rng(block_id[0])
    count = min(size, n - block_id[0] * size)
    kind = rng.integers(4, size=count)
    t = np.arange(shape[1]) / 64
    wave = 2 * np.pi * (4 + 5 * kind)[:, None] * t + rng.uniform(0, 2 * np.pi, (count, 1))
    loading = rng.uniform(0.5, 1.5, (count, shape[0])) * (
        1 + np.add.outer(kind, range(shape[0])) % 3
    )
    X = loading[:, :, None] * np.sin(wave)[:, None, :]
    return (X + rng.standard_normal(X.shape)).astype(np.float32)


def made_on_workers(n: int, shape: tuple[int, int], size: int) -> Any:
    """Signals (n, channel, time) that every worker makes for itself, block by block."""
    chunks = tuple(min(size, n - at) for at in range(0, n, size))
    return dask.array.map_blocks(
        planted,
        size=size,
        n=n,
        shape=shape,
        chunks=(chunks, *((d,) for d in shape)),
        dtype=np.float32,
        meta=np.empty((0, 0, 0), np.float32),
    )


def used() -> tuple[float, int]:
    """Processor seconds of this process so far, and the most memory that it has had.

    Not ``ru_maxrss``: a new process inherits that of the one that starts it.
    """
    text = Path("/proc/self/status").read_text(encoding="utf-8")
    peak = re.search(r"VmHWM:\s+(\d+) kB", text)
    return time.process_time(), int(peak.group(1)) * 1024 if peak else 0


@dataclass(frozen=True)
class Cost:
    """What a fit has taken: wall and processor seconds, and the peak bytes of a worker."""

    seconds: float
    work: float
    peak: float


def grown(n: int, shape: tuple[int, int], size: int) -> Cost:
    """Fit signals on two workers; processor seconds are those of the workers and the caller."""
    model = ContrastiveFeatures(
        fs=64.0,
        tensorize=SpectrogramTensor(n_quantiles=9),
        decompose=PLC(rank=8, max_iter=30, tol=0, random_state=0),
        random_state=0,
    )
    with cluster(2) as client:
        begin = sum(work for work, _ in client.run(used).values()) + time.process_time()
        seconds = fitted(model, made_on_workers(n, shape, size))
        found = list(client.run(used).values())
        work = sum(work for work, _ in found) + time.process_time() - begin
    out = Cost(seconds, work, float(max(peak for _, peak in found)))
    print(f"{n:,} windows {shape}: {out}", file=sys.stderr)
    return out


def growth(sizes: list[int], few: int, block: int) -> list[Row]:
    """Cost of whole fits over windows, channels and samples.

    Exponents are those of processor seconds, which other work on the machine changes less.
    """
    rows = []
    found = {n: grown(n, (3, 64), block) for n in sizes}
    for n, cost in found.items():
        rows += [
            Row(f"PLC from signals 3×64, {n:,} windows, two workers", cost.seconds, "s"),
            Row(f"processor time, {n:,} windows", cost.work, "s"),
            Row(f"peak memory of a worker, {n:,} windows", cost.peak / 2**20, "MiB"),
        ]
    for a, b in pairwise(sizes):
        power = float(np.log(found[b].work / found[a].work) / np.log(b / a))
        name = f"exponent of processor time over windows, {a:,} to {b:,}"
        rows.append(Row(name, power, "", at_most=NEARLY_LINEAR))
    base = found[few]
    for name, shape in (("channels, 3 to 12", (12, 64)), ("samples, 64 to 256", (3, 256))):
        cost = grown(few, shape, block)
        power = float(np.log(cost.work / base.work) / np.log(4))
        name = f"exponent of processor time over {name}, {few:,} windows"
        rows.append(Row(name, power, "", at_most=NEARLY_LINEAR))
    return rows


PARTS = {
    "time": "Dask workers: time",
    "traffic": "Dask workers: bytes moved",
    "growth": "Dask workers: growth",
}


def rows(part: str, quick: bool = False, million: bool = False) -> list[Row]:
    """Measure "time", "traffic" or "growth"."""
    if part == "growth":
        if quick:
            return growth([1_024, 2_048], 2_048, 512)
        return growth([50_000, 200_000, *([1_000_000] if million else [])], 200_000, 8_192)
    # Traffic: at least a block for each of four workers, so that none is idle.
    sizes = [4_096] if quick else [40_000]
    if part == "traffic":
        sizes = [4_096, 8_192] if quick else [20_000, 80_000]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for n in sizes:
            stored(n, folder, BLOCK if not quick else 1_024)
        if part == "time":
            return overhead(sizes[0], folder, 1 if quick else 3)
        return traffic((sizes[0], sizes[1]), folder)


def main(words: list[str]) -> int:
    """Measure the parts that are named, all by default; 1 if a goal was missed."""
    quick = "--quick" in words
    if words[:1] == ["report"]:
        folder = [word for word in words[1:] if word != "--quick"]
        if len(folder) != 1:
            print("report needs a folder to write to", file=sys.stderr)
            return 2
        return report(Path(folder[0]), quick)
    names = [word for word in words if not word.startswith("--")] or list(PARTS)
    unknown = [name for name in names if name not in PARTS]
    if unknown:
        print(f"no benchmark {unknown}; there are {', '.join(PARTS)}", file=sys.stderr)
        return 2
    passed = True
    for name in names:
        found = rows(name, quick, "--million" in words)
        show(PARTS[name], found)
        if not quick:
            write(f"distributed-{name}", found)
        passed &= all(row.passed for row in found)
    return 0 if passed else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
