"""Mutated files against every reader: ``python tests/fuzz/run.py --count 100000``.

Each file is made from a whole one by damage to its bytes or by a forgery that knows its format, and
is the same for the same ``--seed``. A reader may accept it or raise an error of the project that
names it. Anything else is a finding: another error, a warning of another library, a result that is
not valid, damage that a checksum should have found, a crash of the process, more than 5 seconds, or
more than 1 GB of memory. Findings are printed, with the command that repeats them.
"""

import argparse
import json
import multiprocessing
import os
import pickle
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
ENVIRONMENT = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1",
               "ARROW_DEFAULT_MEMORY_POOL": "system",
               "OMP_WAIT_POLICY": "PASSIVE", "MALLOC_ARENA_MAX": "2"}  # fmt: skip


def parse(arguments=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--count", type=int, default=2_000, help="files in all (2000)")
    parser.add_argument("--only", default="", help="formats, with commas between; all by default")
    parser.add_argument("--seed", type=int, default=0, help="other files (0)")
    parser.add_argument("--start", type=int, default=0, help="first file of each format (0)")
    parser.add_argument("--jobs", type=int, default=min(4, multiprocessing.cpu_count()))
    parser.add_argument("--seconds", type=float, default=5.0, help="limit for one file (5)")
    parser.add_argument("--memory", type=int, default=1 << 30, help="bytes above the start (1 GB)")
    parser.add_argument("--json", type=Path, help="write the numbers to this file")
    return parser.parse_args(arguments)


def make_seeds(folder: Path, names: list[str]) -> None:
    """Whole files of each format, made once."""
    from forge_signals import outside
    from targets import TARGETS

    with (folder / "seeds.pickle").open("wb") as stream:
        pickle.dump(({name: TARGETS[name].seeds() for name in names}, outside()), stream)


def work(share: int, counts: dict[str, int], options, folder: Path) -> list[dict]:
    """One share of every format's files; a crash is a finding, and the work goes on behind it."""
    names, start = list(counts), options.start
    place = folder / str((start + share) % options.jobs)
    found, first = [], start + share
    while names:
        stops = ",".join(f"{name}:{start + counts[name]}" for name in names)
        command = [sys.executable, str(HERE / "worker.py"), "--targets", stops]
        command += ["--from", str(first), "--start", str(start + share)]
        command += ["--step", str(options.jobs), "--seed", str(options.seed)]
        command += ["--seconds", str(options.seconds), "--memory", str(options.memory)]
        process = subprocess.Popen(
            [*command, "--folder", str(folder)],
            stderr=subprocess.PIPE,
            env={**os.environ, **ENVIRONMENT},
            text=True,
        )
        trouble = _watch(process, place / "progress", options.seconds)
        if process.returncode == 0:
            break
        if not (place / "progress").exists():
            raise SystemExit(f"the worker does not start:\n{trouble}")
        name, last = (place / "progress").read_text().split()
        found.append({"target": name, "index": int(last), "trouble": f"crash: {trouble}"})
        names, first = names[names.index(name) :], int(last) + options.jobs
    lines = (place / "results").read_text().splitlines() if (place / "results").exists() else []
    return found + [json.loads(line) for line in lines]


def _watch(process, progress: Path, seconds: float) -> str:
    """Wait for a worker; kill it where not even the alarm could stop a file."""
    last, since = "", time.monotonic()
    while True:
        try:
            _, errors = process.communicate(timeout=1)
            return f"exit {process.returncode}\n{errors[-3000:]}"
        except subprocess.TimeoutExpired:
            now = progress.read_text() if progress.exists() else ""
            if now != last:
                last, since = now, time.monotonic()
            if time.monotonic() - since > 60 + 4 * seconds:
                process.kill()
                process.communicate()
                return f"hang that no signal ends: more than {60 + 4 * seconds:.0f} s"


def main(arguments=None) -> int:
    options = parse(arguments)
    sys.path.insert(0, str(HERE))
    from targets import TARGETS

    names = options.only.split(",") if options.only else [n for n in TARGETS if n != "planted"]
    for name in [n for n in names if n in TARGETS and not TARGETS[n].there]:
        print(f"{name}: left out, for there is no {TARGETS[name].needs}")
        names.remove(name)
    unknown = sorted(set(names) - set(TARGETS))
    if unknown:
        sys.exit(f"no format {', '.join(unknown)}; there are {', '.join(TARGETS)}")
    if not names:
        return 0
    whole = [name for name in names if TARGETS[name].share == 1]
    each = -(-options.count // len(whole or names))
    counts = {n: max(1, int(each * TARGETS[n].share)) if whole else each for n in names}
    began = time.monotonic()
    findings, rows = [], {}
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        make_seeds(Path(folder), names)
        with ThreadPoolExecutor(options.jobs) as pool:
            shares = [
                pool.submit(work, k, counts, options, Path(folder))
                for k in range(min(options.jobs, each))
            ]
            lines = [line for share in shares for line in share.result()]
    for name in names:
        mine = [line for line in lines if line["target"] == name]
        findings += [(name, m["index"], m["trouble"]) for m in mine if "trouble" in m]
        row = {key: sum(line.get(key, 0) for line in mine) for key in _COLUMNS}
        for key in ("slowest", "grown"):
            row[key] = max(line.get(key, 0) for line in mine)
        rows[name] = row
        print(
            f"{name:11} {row['cases']:7} files {row['accepted']:7} accepted {row['refused']:7} "
            f"refused {row['slowest']:6.2f} s slowest {row['grown'] / 2**20:6.0f} MB most"
        )
    for name, index, trouble in findings[:50]:
        print(f"\n{name} {index}: {trouble}")
        print(
            f"  repeat: python tests/fuzz/run.py --only {name} --start {index} --count 1 "
            f"--seed {options.seed}"
        )
    total = sum(row["cases"] for row in rows.values())
    accepted = sum(row["accepted"] for row in rows.values())
    print(
        f"\n{total} files, {accepted} accepted and found valid, {len(findings)} findings; "
        f"slowest {max(row['slowest'] for row in rows.values()):.2f} s, most memory "
        f"{max(row['grown'] for row in rows.values()) / 2**20:.0f} MB above the start; "
        f"{time.monotonic() - began:.0f} s"
    )
    if options.json:
        report = {"total": total, "findings": [list(f) for f in findings], "formats": rows}
        options.json.write_text(json.dumps(report))
    return 1 if findings else 0


_COLUMNS = ("cases", "accepted", "refused", "warned")


if __name__ == "__main__":
    sys.exit(main())
