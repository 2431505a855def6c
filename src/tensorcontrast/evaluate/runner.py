"""Runs: fit by fit, in parallel, with every finished cell on disk at once.

A run is a folder (:mod:`tensorcontrast.evaluate.run`). Running again does what is missing or
failed; a folder of another configuration, or of other data, is refused.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path

import joblib

from tensorcontrast.errors import (
    FileError,
    ForeignFileError,
    InvalidInputError,
    TensorContrastError,
    TensorContrastWarning,
)
from tensorcontrast.evaluate import artefacts, data, evidence, store
from tensorcontrast.evaluate.cells import CELLS, Cell, DatasetFacts, read_cells, write_cells
from tensorcontrast.evaluate.config import BenchConfig
from tensorcontrast.evaluate.environment import RESULTS, environment
from tensorcontrast.evaluate.run import (
    ARTEFACTS,
    CONFIG,
    DATASETS,
    ENVIRONMENT,
    Run,
    artefact,
    read_config,
)
from tensorcontrast.evaluate.scoring import Task, compute
from tensorcontrast.recordings import Recordings
from tensorcontrast.utils.names import listed

__all__ = ["Progress", "plan", "run"]

_OWN = (CONFIG, ENVIRONMENT, DATASETS, CELLS, ARTEFACTS)


@dataclass(frozen=True)
class Progress:
    """How far a run is: fits done of all, what was done last, fits with failed cells."""

    done: int
    total: int
    text: str
    failed: int


@dataclass(frozen=True)
class _Job:
    """A fit with all its budgets, or a piece of evidence; what a worker needs to know."""

    folder: Path
    task: Task
    piece: str
    fingerprint: str
    session: int = 0
    keep: bool = True

    @property
    def text(self) -> str:
        what = self.piece or f"seed {self.task.seed}"
        return f"{self.task.dataset.label}, {self.task.method.label}, {what}"


def plan(config: BenchConfig) -> int:
    """Return the number of fits of a whole run, pieces of evidence included."""
    fits = len(config.datasets) * len(config.methods) * len(config.seeds)
    return fits + len(evidence.pieces_of(config))


def run(
    config: BenchConfig,
    folder: str | Path,
    *,
    n_jobs: int | None = None,
    progress: Callable[[Progress], object] | None = None,
    resume: bool = True,
    fresh: bool = False,
    grow: bool = False,
    artefacts: bool = True,
    skip: bool = False,
) -> Run:
    """Compute what a folder does not hold yet of a benchmark.

    Parameters
    ----------
    config : BenchConfig
        What to compute.
    folder : path
        Where the run is kept; made where it does not exist.
    n_jobs : int, optional
        Fits at a time, -1 for one a processor. Default: what the configuration says, else -1.
    progress : callable, optional
        Called with :class:`Progress` at the start and after every fit.
    resume : bool
        Whether a folder that holds cells of this run may be added to.
    fresh : bool
        Delete the run that the folder holds, of whatever configuration, and begin again.
    grow : bool
        Whether the folder may hold other data sets, methods, seeds and budgets under the same
        protocol. They are kept, and the folder becomes the run of both.
    artefacts : bool
        Whether models, histories and features of the first seed are kept for the report.
    skip : bool
        Whether a data set that cannot be used becomes failed cells with the reason, instead of an
        error before anything is computed.

    Returns
    -------
    Run
        What was asked for, without what a folder that grows holds next to it.
        ``run.failed`` lists the cells whose computation raised an error. They do not stop the
        others, and are tried again by the next call.

    Raises
    ------
    FileError
        Where the folder holds the run of another configuration or other data, or cannot be
        written. Cells that were finished are kept.
    KeyboardInterrupt
        On Ctrl-C, with a text that says what was kept and how to go on.
    """
    where = Path(folder).expanduser()
    wanted = _workers(config.n_jobs if n_jobs is None else n_jobs)
    whole = _check_folder(config, where, resume=resume, fresh=fresh, grow=grow)
    fingerprints, reasons = _prepare(config, where, whole, fresh=fresh, skip=skip)
    _note_skipped(config, where, reasons)
    jobs = [replace(job, keep=artefacts) for job in _missing(config, where, fingerprints)]
    workers = min(wanted, max(1, len(jobs)))
    threads = max(1, joblib.cpu_count() // workers)
    if jobs:
        session = _session(where, workers, threads)
        jobs = [replace(job, session=session) for job in jobs]
    total = plan(config)
    done, failed = total - len(jobs), 0
    report = progress or (lambda state: None)
    report(Progress(done, total, "", failed))
    try:
        for text, bad in _work_off(jobs, workers, threads):
            done, failed = done + 1, failed + bad
            report(Progress(done, total, text, failed))
    except KeyboardInterrupt:
        kept = Run.load(where).of_config(config)
        raise KeyboardInterrupt(
            f"stopped: {len(kept.ok)} of {len(kept.ok) + len(kept.failed) + len(kept.missing)} "
            f"cells are kept in {where}; run the same again to go on"
        ) from None
    return Run.load(where).of_config(config)


def _workers(n_jobs: int | None) -> int:
    if n_jobs == 0:
        raise InvalidInputError("n_jobs is 0; give a number of processes, or -1 for all processors")
    n_jobs = -1 if n_jobs is None else n_jobs
    return n_jobs if n_jobs > 0 else max(1, joblib.cpu_count() + 1 + n_jobs)


# -------------------------------------------------------------------------------- the folder


def _check_folder(
    config: BenchConfig, folder: Path, *, resume: bool, fresh: bool, grow: bool
) -> BenchConfig:
    """Refuse a folder that cannot be that of this run; nothing is changed yet.

    Gives the configuration that the folder is to have.
    """
    if folder.exists() and not folder.is_dir():
        raise FileError(f"{folder}: is a file; a run needs a folder")
    if (folder / CONFIG).is_file():
        if fresh:
            return config
        if not resume:
            raise FileError(
                f"{folder}: holds a run already; go on with it, name another folder, or start "
                "afresh (fresh=True, --fresh), which deletes it"
            )
        before, reason = read_config(folder), ""
        if grow:
            try:
                return before.union(config)
            except InvalidInputError as error:
                reason = f" ({error})"
        if grow or before.hash != config.hash:
            raise FileError(
                f"{folder}: holds the run of another configuration{reason}, whose cells must not "
                "be mixed with these; name another folder, or start afresh (fresh=True, --fresh), "
                "which deletes that run"
            )
        return config
    there = folder.iterdir() if folder.is_dir() else ()
    others = sorted(path.name for path in there if not path.name.startswith("."))
    if others:
        raise ForeignFileError(
            f"{folder}: holds {listed(others, 3)} but no run; name a new or empty folder"
        )
    return config


def _prepare(
    config: BenchConfig, folder: Path, whole: BenchConfig, *, fresh: bool, skip: bool
) -> tuple[dict[str, str], dict[str, str]]:
    """Load all recordings once before hours are spent, then make the folder that of ``whole``.

    Gives the fingerprints of the data sets by label, which must be those of the folder, and why
    others are skipped.
    """
    known: dict[str, DatasetFacts] = {}
    if (folder / DATASETS).is_file() and not fresh:
        known = Run.load(folder).datasets
    found, reasons = dict(known), {}
    for dataset in config.datasets:
        try:
            facts = data.facts(dataset, data.checked(dataset, config), config)
        except TensorContrastError as error:
            if not skip:
                raise
            reasons[dataset.label] = f"{type(error).__name__}: {error}"
            continue
        before = known.get(dataset.label)
        if before is not None and before.fingerprint != facts.fingerprint:
            raise FileError(
                f"{folder}: its cells of {dataset.label!r} were computed from other data "
                f"({before.n_samples} windows, now {facts.n_samples}); name another folder, or "
                "start afresh (fresh=True, --fresh)"
            )
        found[dataset.label] = facts
    artefacts.make_folder(folder)
    if fresh:
        _delete(folder)
    if not (folder / CONFIG).is_file() or read_config(folder).hash != whole.hash:
        plain = whole.model_dump(mode="json")
        store.write_json(folder / CONFIG, {"hash": whole.hash, "config": plain})
    store.write_json(folder / DATASETS, {"datasets": [asdict(facts) for facts in found.values()]})
    labels = [d.label for d in config.datasets if d.label not in reasons]
    return {label: found[label].fingerprint for label in labels}, reasons


def _note_skipped(config: BenchConfig, folder: Path, reasons: dict[str, str]) -> None:
    """Write failed cells of data sets that cannot be used, unless they are there."""
    there = {(cell.key, cell.message) for cell in read_cells(folder)} if reasons else set()
    cells = [
        Cell(label, method.label, seed, budget, status="failed", message=reason[:2000])
        for label, reason in reasons.items()
        for method in config.methods
        for seed in config.seeds
        for budget in config.budgets
    ]
    new = [cell for cell in cells if (cell.key, cell.message) not in there]
    if new:
        write_cells(folder, new)


def _delete(folder: Path) -> None:
    """Delete the files of a run and nothing else; the configuration last."""
    try:
        for name in reversed(_OWN):
            path = folder / name
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
    except OSError as error:
        raise FileError(f"{folder}: the old run cannot be deleted: {error}") from error


def _session(folder: Path, workers: int, threads: int) -> int:
    """Note where the cells to come are computed; gives the number of the session."""
    path = folder / ENVIRONMENT
    sessions = list(store.read_json(path).get("sessions", [])) if path.is_file() else []
    now = environment(workers, threads)
    if now in sessions:
        return sessions.index(now)
    if sessions and any(sessions[-1].get(key) != now[key] for key in RESULTS):
        warnings.warn(
            f"{folder}: the cells so far were computed with other versions of Python or packages; "
            f"{ENVIRONMENT} lists both, and every cell names its session",
            TensorContrastWarning,
            stacklevel=3,
        )
    store.write_json(path, {"sessions": [*sessions, now]})
    return len(sessions)


def _missing(config: BenchConfig, folder: Path, fingerprints: dict[str, str]) -> Iterator[_Job]:
    """Yield what is to do, one data set after the other."""
    done = {cell.key for cell in read_cells(folder) if cell.status == "ok"}
    pieces = evidence.pieces_of(config)
    for dataset in config.datasets:
        if dataset.label not in fingerprints:
            continue
        digest = fingerprints[dataset.label]
        for seed in config.seeds:
            for method in config.methods:
                task = Task(config, dataset, method, seed, config.budgets).without(done)
                if task.budgets:
                    yield _Job(folder, task, "", digest)
        for label, name, piece in pieces:
            there = artefact(folder, label, name, f"{piece}.npz").exists()
            if label == dataset.label and not there:
                task = Task(config, dataset, config.method(name), config.seeds[0], ())
                yield _Job(folder, task, piece, digest)


# --------------------------------------------------------------------------------- the work


def _work_off(jobs: list[_Job], workers: int, threads: int) -> Iterator[tuple[str, bool]]:
    """Do the jobs; gives what was done and whether something of it failed."""
    if workers == 1:
        yield from map(_work, jobs)
        return
    with joblib.parallel_config("loky", inner_max_num_threads=threads):
        pool = joblib.Parallel(
            workers, return_as="generator_unordered", batch_size=1, pre_dispatch=workers
        )
        try:
            yield from pool(joblib.delayed(_work_for)(os.getpid(), job) for job in jobs)
        except joblib.externals.loky.process_executor.TerminatedWorkerError as error:
            raise TensorContrastError(
                "a worker process was killed, most likely for want of memory; finished cells are "
                "kept, run again with n_jobs=1"
            ) from error


@cache
def _end_with(parent: int) -> None:
    """End this worker as soon as ``parent`` is gone.

    A parent that was killed (``kill -9``, out of memory) ends no workers: they would finish their
    fits, then wait for more with their data in memory. Files are whole whenever a worker ends.
    """

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    if os.name == "posix" and os.getppid() == parent:
        threading.Thread(target=watch, daemon=True).start()


def _work_for(parent: int, job: _Job) -> tuple[str, bool]:
    """Do one job in a worker process of ``parent``."""
    _end_with(parent)
    return _work(job)


_last: list[tuple[str, Recordings]] = []


def _recordings(job: _Job) -> Recordings:
    """Load the recordings of a job; this process keeps the last ones in memory."""
    key = job.task.dataset.model_dump_json() + job.fingerprint
    if not _last or _last[0][0] != key:
        _last[:] = []  # never two data sets at a time
        _last[:] = [(key, data.load(job.task.dataset))]
    return _last[0][1]


def _work(job: _Job) -> tuple[str, bool]:
    """Do one job and write its cells; errors of writing end the run, others become cells."""
    rec = _recordings(job)
    if job.piece:
        return job.text, evidence.collect(rec, job.task, job.piece, job.folder)
    # Another process may work on the same folder.
    task = job.task.without({c.key for c in read_cells(job.folder) if c.status == "ok"})
    cells, fitted = compute(rec, task) if task.budgets else ([], None)
    if job.keep and fitted is not None and task.seed == task.config.seeds[0]:
        artefacts.keep(job.folder, rec, task, fitted)
    write_cells(job.folder, [replace(cell, session=job.session) for cell in cells])
    return job.text, any(cell.status == "failed" for cell in cells)
