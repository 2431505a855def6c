"""How many threads a computation takes: as many as it can use, no more.

Threads that wait for each other in small matrix products cost more than they save, most of all
where other work has the processors. Limits hold for the whole process, so their users are
counted: whoever leaves last sets them back, in whichever Python thread.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import threadpoolctl

#: Multiplications in a matrix product from which more than one thread pays.
WORTH_THREADS = 2**28

_lock = threading.Lock()
_users: dict[str, int] = {}
_limiters: dict[str, Any] = {}


@cache
def _controller() -> Any:
    return threadpoolctl.ThreadpoolController()


def _disown() -> None:
    """Let any thread set limits: newer threadpoolctl keeps them to the one that set them first."""
    openblas = getattr(threadpoolctl, "OpenBLASController", None)
    if openblas is not None and hasattr(openblas, "clear_controlling_thread"):
        openblas.clear_controlling_thread(force=True)


@contextmanager
def single(api: str) -> Iterator[None]:
    """Hold the libraries of ``api`` ("blas" or "openmp") to one thread."""
    with _lock:
        _users[api] = _users.get(api, 0) + 1
        if _users[api] == 1:
            _limiters[api] = _controller().select(user_api=api).limit(limits=1)
    try:
        yield
    finally:
        with _lock:
            _users[api] -= 1
            if _users[api] == 0:
                _disown()
                _limiters.pop(api).restore_original_limits()
                _disown()


@contextmanager
def for_work(multiplications: int) -> Iterator[None]:
    """Give one BLAS thread where the largest matrix product is too small for more."""
    if multiplications < WORTH_THREADS:
        with single("blas"):
            yield
    else:
        yield
