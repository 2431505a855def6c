"""Runs a range of cases in a process of its own, with limits of memory and time.

Every number below is written to the results file as one line of JSON; the case that is running is
always in the progress file, so that a crash of the process itself is not lost.
"""

import argparse
import faulthandler
import json
import os
import pickle
import random
import resource
import shutil
import signal
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path

import check
from targets import TARGETS

from tensorcontrast.errors import TensorContrastError, TensorContrastWarning

#: Most characters of a message.
LONGEST = 20_000


class Hang(BaseException):
    """A file took longer than allowed; not an Exception, so that no reader can swallow it."""


def hang(*_):
    raise Hang


def memory() -> int:
    """Address space of this process in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")


def forget_peak() -> None:
    """Let the most memory ever used be what is used now."""
    Path("/proc/self/clear_refs").write_text("5")


def peak() -> int:
    """Most memory used since :func:`forget_peak`, in bytes."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


class Worker:
    def __init__(self, folder: Path, seconds: float) -> None:
        self.folder = folder
        self.work = folder / "work"  # a folder in a folder: the one above holds the secret record
        self.seconds = seconds
        self.foreign: list[str] = []
        self.counts: Counter[str] = Counter()
        self.slowest, self.grown = 0.0, 0
        folder.mkdir(parents=True, exist_ok=True)
        warnings.simplefilter("always")
        warnings.showwarning = self.note_warning
        signal.signal(signal.SIGALRM, hang)
        signal.signal(signal.SIGPROF, hang)

    def note_warning(self, message, category, filename, lineno, file=None, line=None):
        if issubclass(category, TensorContrastWarning):
            self.counts["warned"] += 1
        else:
            self.foreign.append(f"{category.__name__}: {message} ({filename}:{lineno})")

    def write(self, seed) -> Path:
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir()
        for name, content in seed.files.items():
            path = self.work / name
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(content)
        return self.work / seed.entry if seed.entry != "." else self.work

    def run(self, target, seeds, originals, index: int, seed_number: int) -> str | None:
        """Read one mutated file; return what went wrong, or None."""
        rng = random.Random(f"{seed_number}/{target.name}/{index}")
        try:
            original, mutated, signed = target.case(rng, seeds)
        except Exception:
            return f"the fuzzer itself: {traceback.format_exc()}"
        path = self.write(mutated)
        self.foreign.clear()
        forget_peak()
        before, began = peak(), time.process_time()
        # Of the processor, so that a busy machine is no hang; by the clock, a wait for nothing is.
        signal.setitimer(signal.ITIMER_PROF, self.seconds)
        signal.setitimer(signal.ITIMER_REAL, 8 * self.seconds)
        try:
            found = target.read(path)
            self.counts["accepted"] += 1
            if target.model:
                check.model_holds(found)
            else:
                check.recordings_hold(found)
            if target.checksummed and not signed:
                same = check.same_model if target.model else check.same_recordings
                check.need(same(found, originals[seeds.index(original)]), "damage was not noticed")
            if not target.model and index % 8 == 0:
                check.recordings_come_back(found, self.folder / "again.npz")
        except TensorContrastError as error:
            self.counts["refused"] += 1
            if isinstance(error.__cause__, MemoryError):
                return f"memory: {error}"
            if self.work.name not in str(error):
                return f"nameless error: {error}"
            if len(str(error)) > LONGEST or not all(
                c.isprintable() or c == "\n" for c in str(error)
            ):
                return f"message that cannot be shown: {str(error)[:200]!r}"
        except Hang:
            return f"hang: more than {self.seconds} s"
        except MemoryError:
            return f"memory: {traceback.format_exc(limit=-3)}"
        except BaseException as error:
            return f"{type(error).__name__}: {error}\n{traceback.format_exc(limit=-4)}"
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.setitimer(signal.ITIMER_REAL, 0)
            self.slowest = max(self.slowest, time.process_time() - began)
            self.grown = max(self.grown, peak() - before)
        return f"foreign warning: {self.foreign[0]}" if self.foreign else None


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--targets", required=True, help="formats, each with its last file")
    parser.add_argument("--from", dest="first", type=int, required=True, help="of the first format")
    parser.add_argument("--start", type=int, required=True, help="of the other formats")
    parser.add_argument("--step", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--memory", type=int, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    options = parser.parse_args()
    faulthandler.enable()
    with (options.folder / "seeds.pickle").open("rb") as stream:  # written by run.py just before
        seeds, outside = pickle.load(stream)
    worker = Worker(options.folder / str(options.start % options.step), options.seconds)
    for name, content in outside.items():
        (worker.folder / name).write_bytes(content)
    stops = dict(target.split(":") for target in options.targets.split(","))
    names = list(stops)
    originals = {
        name: [TARGETS[name].read(worker.write(seed)) for seed in seeds[name]] for name in names
    }
    limit = memory() + options.memory
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    progress = os.open(worker.folder / "progress", os.O_RDWR | os.O_CREAT)
    with (worker.folder / "results").open("a") as results:
        for name in names:
            first = options.first if name == names[0] else options.start
            for index in range(first, int(stops[name]), options.step):
                os.pwrite(progress, f"{name} {index}".ljust(40).encode(), 0)
                trouble = worker.run(
                    TARGETS[name], seeds[name], originals[name], index, options.seed
                )
                worker.counts["cases"] += 1
                if trouble:
                    line = {"target": name, "index": index, "trouble": trouble}
                    results.write(json.dumps(line) + "\n")
                if trouble or worker.counts["cases"] % 200 == 0:
                    _report(results, name, worker)
            _report(results, name, worker)


def _report(results, name: str, worker: Worker) -> None:
    line = {"target": name, **worker.counts, "slowest": worker.slowest, "grown": worker.grown}
    worker.counts.clear()
    worker.slowest, worker.grown = 0.0, 0
    results.write(json.dumps(line) + "\n")
    results.flush()


if __name__ == "__main__":
    main()
