"""How many threads a computation takes: as many as it can use, no more.

Threads that wait for each other in small matrix products cost more than they save, most of all
where other work has the processors. Limits hold for the whole process, so their users are
counted: whoever leaves last sets them back, in whichever Python thread.
"""

from __future__ import annotations

import threading
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from typing import Any, TypeVar

import joblib
import threadpoolctl

T = TypeVar("T")
R = TypeVar("R")

#: Multiplications in a matrix product from which more than one thread is faster.
WORTH_THREADS = 2**28

#: Rows of a matrix product over samples that are taken at a time. Strips lie at multiples of this
#: among all samples, so that every sum is one of the same numbers, to the bit, whether the samples
#: are in one array, read in blocks, or spread over a cluster.
STRIP_ROWS = 512

_lock = threading.Lock()
_limits: dict[str, list[int]] = {}
_before: dict[str, int] = {}
_originals: dict[str, dict[str, int | None]] = {}
#: What callers asked for with ``jobs``.
_asked: list[int] = []


@cache
def _libraries(api: str) -> tuple[Any, ...]:
    """Libraries of ``api`` that this process has loaded; looking for them takes milliseconds."""
    return tuple(threadpoolctl.ThreadpoolController().select(user_api=api).lib_controllers)


def _disown() -> None:
    """Let any thread set limits: newer threadpoolctl keeps them to the one that set them first."""
    openblas = getattr(threadpoolctl, "OpenBLASController", None)
    if openblas is not None and hasattr(openblas, "clear_controlling_thread"):
        openblas.clear_controlling_thread(force=True)


@contextmanager
def limited(api: str, most: int) -> Iterator[None]:
    """Hold the libraries of ``api`` ("blas" or "openmp") to ``most`` threads.

    Of several limits at once the lowest holds, for the whole process.
    """
    with _lock:
        active = _limits.setdefault(api, [])
        if not active:
            _originals[api] = {lib.filepath: lib.num_threads for lib in _libraries(api)}
            if api == "blas":
                _before[api] = max((n or 1 for n in _originals[api].values()), default=1)
        lower = not active or most < min(active)
        active.append(most)
        if lower:
            _set(api, most)
    try:
        yield
    finally:
        with _lock:
            active.remove(most)
            if not active or most < min(active):
                _set(api, min(active) if active else None)


def _set(api: str, most: int | None) -> None:
    """Set the libraries of ``api`` to at most so many threads; None to what they had before."""
    for library in _libraries(api):
        # Never more than this library had before any limit was set here; others, such as
        # torch's, may have had another number.
        original = _originals[api][library.filepath]
        wanted = original if most is None or original is None else min(most, original)
        if wanted is not None and library.num_threads != wanted:
            _disown()
            library.set_num_threads(wanted)
            _disown()


def single(api: str) -> AbstractContextManager[None]:
    """Hold the libraries of ``api`` ("blas" or "openmp") to one thread."""
    return limited(api, 1)


@contextmanager
def jobs(n_jobs: int | None) -> Iterator[None]:
    """Use ``n_jobs`` threads at most: None as many as there are, −1 all, −2 all but one."""
    if n_jobs is None:
        yield
        return
    most = joblib.effective_n_jobs(n_jobs)
    with _lock:
        _asked.append(most)
    try:
        with limited("blas", most):
            yield
    finally:
        with _lock:
            _asked.remove(most)


_filters_lock = threading.RLock()


@contextmanager
def quiet(*categories: type[Warning]) -> Iterator[None]:
    """Leave out warnings of some categories.

    Filters belong to the process too: one thread at a time may change them and set them back.
    """
    with _filters_lock, warnings.catch_warnings():
        for category in categories:
            warnings.simplefilter("ignore", category)
        yield


def mapped(function: Callable[[T], R], items: Sequence[T]) -> Iterator[R]:
    """Results of the function in the order of the items, made by a thread a processor.

    For work that NumPy does without holding Python's lock. A few results at most wait for the
    caller, so that memory stays bounded.
    """
    workers = min(allowed(), len(items)) if len(items) > 1 else 1
    if workers < 2:
        yield from map(function, items)
        return
    with ThreadPoolExecutor(workers) as pool:
        waiting: deque[Future[R]] = deque()
        try:
            for item in items:
                waiting.append(pool.submit(function, item))
                if len(waiting) > 2 * workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for left in waiting:
                left.cancel()


def over_strips(function: Callable[[slice], R], n_rows: int, row_work: int) -> Iterator[R]:
    """Results of the function for each strip of rows, in order, with a BLAS of one thread.

    ``row_work`` is how many multiplications a row takes: little work is done by one thread.
    """
    places = [slice(a, min(a + STRIP_ROWS, n_rows)) for a in range(0, n_rows, STRIP_ROWS)]
    with single("blas"):
        if n_rows * row_work < WORTH_THREADS:
            yield from map(function, places)
        else:
            yield from mapped(function, places)


def allowed() -> int:
    """Threads that this process may use: those of its BLAS, outside of any limit set here."""
    with _lock:
        own = (library.num_threads or 1 for library in _libraries("blas"))
        count = _before["blas"] if _limits.get("blas") else max(own, default=1)
        return max(1, min([joblib.cpu_count(), count, *_asked]))


def for_work(multiplications: int) -> AbstractContextManager[None]:
    """Give one BLAS thread where the largest matrix product is too small for more."""
    return single("blas") if multiplications < WORTH_THREADS else nullcontext()
