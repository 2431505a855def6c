"""Where cells were computed: versions, processor, threads."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from pathlib import Path
from typing import Any

import joblib
import threadpoolctl

import tensorcontrast

__all__ = ["environment", "processor"]

#: Packages that results or times depend on.
_PACKAGES = ("numpy", "scipy", "scikit-learn", "joblib", "torch", "aeon")

#: Entries by which sessions of a run must agree for their results to be comparable.
RESULTS = ("tensorcontrast", "packages", "python")


def environment(n_jobs: int, threads: int) -> dict[str, Any]:
    """Return versions, processor and threads of this session, without names of places or people."""
    packages = {}
    for name in _PACKAGES:
        try:
            packages[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return {
        "tensorcontrast": tensorcontrast.__version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "processor": processor(),
        "processors": joblib.cpu_count(),
        "memory_gib": _memory(),
        "processes": n_jobs,
        "threads_per_process": threads,
        "blas": sorted(
            {
                f"{pool['internal_api']} {pool.get('version') or ''}".strip()
                for pool in threadpoolctl.threadpool_info()
                if pool["user_api"] == "blas"
            }
        ),
        "packages": packages,
    }


def processor() -> str:
    """Return the name of the processor, as far as the system tells it."""
    try:
        for line in Path("/proc/cpuinfo").read_text(errors="replace").splitlines():
            if line.lower().startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _memory() -> float | None:
    try:
        size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return None
    return round(size / 2**30, 1)
