"""Other ways to the pseudo graph and to features, for ``python -m benchmarks.draws``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from tensorcontrast import PLC
from tensorcontrast.decompose import noise, plc_solve
from tensorcontrast.decompose.graph import cluster_space
from tensorcontrast.decompose.tied import TiedContrast

TEACHERS = 3


@contextmanager
def _contrast_of(kind: Callable[..., TiedContrast], **more: Any) -> Iterator[None]:
    """Let descents have a contrast of this kind."""
    usual = plc_solve.tied_contrast

    def made(*args: Any) -> TiedContrast:
        own = usual(*args)
        return kind(**{f.name: getattr(own, f.name) for f in fields(TiedContrast)}, **more)

    plc_solve.tied_contrast = made
    try:
        yield
    finally:
        plc_solve.tied_contrast = usual


class OwnGraph(PLC):
    """PLC whose graph is always that of its features."""

    def _asks_origins(self) -> bool:
        return False


class ByVariance(OwnGraph):
    """The same, its features read against 128 directions of noise, each by its variance.

    Other variants than "now" came before PLC counted noise by its standard deviation.
    """

    def _settle(self, fit: Any, views: Any) -> Any:
        usual = noise.gains, noise.FEWEST, noise.LEAST
        noise.gains, noise.FEWEST, noise.LEAST = _by_variance, noise.MOST, np.sqrt(noise.LEAST)
        try:
            return super()._settle(fit, views)
        finally:
            noise.gains, noise.FEWEST, noise.LEAST = usual


def _by_variance(variances: np.ndarray, strength: float) -> np.ndarray:
    return variances / (variances + strength**2)


@dataclass(frozen=True)
class _Taught(TiedContrast):
    teacher: np.ndarray | None = None

    def graph(self, W: np.ndarray, memory: Any, level: int) -> Any:
        assert self.teacher is not None
        return super().graph(self.teacher.astype(W.dtype), memory, level)


class Still(ByVariance):
    """The same with factors that stay as they are when features are read against noise."""

    def _sweeps(self, fit: Any) -> bool:
        return False


class Unmoved(PLC):
    """PLC whose factors stay as they are when its features are read against noise."""

    def _sweeps(self, fit: Any) -> bool:
        return False


class Following(PLC):
    """PLC whose factors follow its features with many labels in the graph too."""

    def _sweeps(self, fit: Any) -> bool:
        return True


class Untold(PLC):
    """PLC that is given labels and does not look at them."""

    def fit(self, X: Any, y: Any = None, **more: Any) -> Any:
        """Fit without labels."""
        return super().fit(X, None, **more)


class Taught(Still):
    """PLC over a graph that it does not make itself: of the features of several other fits.

    These are the first principal components, as many as there are features, of the features of all
    teachers side by side, each of them scaled as for its own clusters.
    """

    def fit(
        self, X: Any, y: Any = None, view: Any = None, sequence: Any = None, **more: Any
    ) -> Any:
        """Fit the teachers, then the model."""
        features = []
        for k in range(TEACHERS):
            teacher = PLC(**self.get_params()).set_params(random_state=self.random_state + 1 + k)
            features.append(cluster_space(teacher.fit(X, view=view).transform(X)))
        joined = np.hstack(features)
        rows, sizes, _ = np.linalg.svd(joined - joined.mean(axis=0), full_matrices=False)
        with _contrast_of(_Taught, teacher=(rows * sizes)[:, : self.rank]):
            return super().fit(X, y, view=view, sequence=sequence, **more)
