"""The same fits on Dask: sums over blocks of samples, wherever these are.

``PLC().fit(X)`` with a ``dask.array`` comes here by itself. Needs ``tensorcontrast[dask]``.
"""

from __future__ import annotations

__all__: list[str] = []
