"""When a fit stops, what it leaves in ``history_``, and what it shows while it runs."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from tensorcontrast.errors import NumericalError
from tensorcontrast.utils import checks, progress

History = dict[str, list[float]]
Callback = Callable[[dict[str, float]], object]


#: Share of the data's squared norm by which an objective may rise for reasons of rounding, or of
#: clusters, views and mini-batches that change from one iteration to the next.
RISE = 1e-3


class Monitor:
    """Collect the terms of each iteration, decide when to stop, show progress.

    Parameters
    ----------
    name : str
        Shown with the progress bar and in warnings.
    max_iter : int
    tol : float
        The fit has converged once the objective changes by less than ``tol * size`` over an
        iteration, ``patience`` times in a row, and is no higher than it was before. 0 switches the
        test off.
    patience : int
    size : float
        What the objective is measured against: half the squared norm of the data, so that ``tol``
        is a share of the variance.
    falls : bool
        Whether every iteration lowers one and the same objective, as sweeps without a contrast
        over fixed views do. A rise by more than ``RISE * size`` is then an error, and a plateau
        above the lowest value is no convergence. Where clusters, views or mini-batches change the
        objective, a plateau above the first value of the phase is none.
    callback : callable, optional
        Called with a dict of the iteration's terms; a true return value ends the fit.
    verbose : bool
        Show a progress bar.

    Examples
    --------
    >>> with Monitor("demo", max_iter=10, tol=1e-3, patience=1) as monitor:
    ...     stopped = [monitor.record({"objective": f}) for f in (2.0, 1.0, 0.9999)]
    >>> stopped, monitor.converged, monitor.history["iteration"]
    ([False, False, True], True, [1.0, 2.0, 3.0])
    """

    def __init__(
        self,
        name: str,
        *,
        max_iter: int,
        tol: float,
        patience: int = 2,
        size: float = 1.0,
        falls: bool = False,
        callback: Callback | None = None,
        verbose: bool = False,
    ) -> None:
        self.name, self.max_iter, self.tol, self.patience = name, max_iter, tol, patience
        self.size, self.falls, self.callback = size, falls, callback
        self.history: History = {}
        self.converged = False
        self.stopped = False
        self._calm = 0
        self._last: float | None = None
        self._reference: float | None = None
        self._clock = time.perf_counter()
        self._bar = progress.bar() if verbose else None

    def anew(self) -> Monitor:
        """Return a monitor of the same settings for another fit, without progress."""
        return Monitor(
            self.name,
            max_iter=self.max_iter,
            tol=self.tol,
            patience=self.patience,
            size=self.size,
            falls=self.falls,
            callback=self.callback,
        )

    def __enter__(self) -> Monitor:
        if self._bar is not None:
            self._bar.start()
            self._task: Any = self._bar.add_task(self.name, total=self.max_iter, detail="")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    @property
    def n_iter(self) -> int:
        """Iterations recorded so far."""
        return len(self.history.get("objective", ()))

    def new_phase(self) -> None:
        """Forget the last objective: what follows is measured by another one."""
        self._last, self._calm, self.converged = None, 0, False
        self._reference = None

    def resume(self, history: History) -> None:
        """Go on after iterations that another monitor has recorded."""
        self.history = {key: list(values) for key, values in history.items()}
        self._clock = time.perf_counter()

    def record(self, terms: dict[str, float]) -> bool:
        """Take the terms of an iteration; true when the fit should end."""
        now = time.perf_counter()
        row = {"iteration": float(self.n_iter + 1), **terms, "seconds": now - self._clock}
        self._clock = now
        value = row["objective"]
        if not np.isfinite(value):
            raise NumericalError(
                f"{self.name}: the objective became {value} in iteration {self.n_iter + 1}; "
                "pass a larger alpha or dtype='float64'"
            )
        low = value if self._reference is None else self._reference
        if self.falls and value > low + RISE * self.size:
            raise NumericalError(
                f"{self.name}: the objective rose from {low:.5g} to {value:.5g} in iteration "
                f"{self.n_iter + 1}, which sweeps without a contrast cannot do but by rounding; "
                "pass dtype='float64', a smaller rank or another random_state"
            )
        for key in dict.fromkeys((*row, *self.history)):
            # A term that an iteration does not have (no contrast in the warm-up) is NaN there.
            column = self.history.setdefault(key, [float("nan")] * int(row["iteration"] - 1))
            column.append(float(row.get(key, float("nan"))))
        if self._last is not None:
            calm = abs(value - self._last) < self.tol * self.size
            calm = calm and value <= low + (self.tol if self.falls else RISE) * self.size
            self._calm = self._calm + 1 if calm else 0
            self.converged = self.tol > 0 and self._calm >= self.patience
        self._last = value
        self._reference = min(low, value) if self.falls else low
        if self._bar is not None:
            self._bar.update(self._task, advance=1, detail=f"objective {value:.5g}")
        if self.callback is not None and self.callback(dict(row)):
            self.stopped = True
        return self.converged or self.stopped

    def warn_if_unfinished(self) -> None:
        """Raise scikit-learn's ConvergenceWarning if the iterations ran out."""
        if self.tol > 0 and not (self.converged or self.stopped):
            checks.warn(
                f"{self.name} used all max_iter={self.max_iter} iterations before the objective "
                f"settled to tol={self.tol:g}; raise max_iter or tol (history_ has all iterations)",
                ConvergenceWarning,
            )
