"""How many threads a computation takes: as many as it can use, no more.

Threads that wait for each other in small matrix products cost more than they save, most of all
where other work has the processors.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController

#: Multiplications in a matrix product from which more than one thread pays.
WORTH_THREADS = 2**28


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


def single(api: str) -> AbstractContextManager[Any]:
    """Hold the libraries of ``api`` ("blas" or "openmp") to one thread."""
    limit: AbstractContextManager[Any] = _controller().limit(limits=1, user_api=api)
    return limit


def for_work(multiplications: int) -> AbstractContextManager[Any]:
    """Give one BLAS thread where the largest matrix product is too small for more."""
    return single("blas") if multiplications < WORTH_THREADS else nullcontext()
