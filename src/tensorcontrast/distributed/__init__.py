"""The same fits on Dask: sums over blocks of windows, wherever these are.

``PLC().fit(X)`` with a ``dask.array`` comes here by itself. Needs ``tensorcontrast[dask]``.
"""

from __future__ import annotations

from tensorcontrast.distributed.conversion import convert
from tensorcontrast.distributed.store import StoredRecordings, is_store, open_store

__all__ = ["StoredRecordings", "convert", "is_store", "open_store"]
