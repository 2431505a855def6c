"""What transformers of windows [n, channel, time] share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from tensorcontrast.errors import InvalidInputError
from tensorcontrast.recordings.signals import as_signals, check_finite
from tensorcontrast.utils import threads
from tensorcontrast.utils.arrays import MASK_WAY

HINT = ", or pass missing='mask' to leave such frames out"
"""Way out for signals with NaN."""


class WindowTransformer(TransformerMixin, BaseEstimator):
    """Checks, threads, tags and pickling; what can be rebuilt is in no file."""

    #: Learned attributes whose names do not end in an underscore; ``_rebuild`` makes them.
    _learned_private: ClassVar[tuple[str, ...]] = ()
    n_channels_in_: int
    n_times_in_: int
    #: Computes the values of signals in its ``unit``, of its ``dtype``, less their offsets and up
    #: to its ``limit`` in size: :class:`.Frames` or :class:`.Kernels`.
    _engine: Any
    n_jobs: int | None

    def _check_signals(self, X: Any) -> np.ndarray:
        """Return ``X`` as an array of windows like those of ``fit``."""
        check_is_fitted(self)
        missing = getattr(self, "missing", None)
        signals = as_signals(X, missing=missing == "mask", way=MASK_WAY if missing else "")
        n_channels, n_times = self.n_channels_in_, self.n_times_in_
        if signals.shape[1:] != (n_channels, n_times):
            raise InvalidInputError(
                f"X has {signals.shape[1]} channels of {signals.shape[2]} samples, fit saw "
                f"{n_channels} of {n_times}; pass windows of the same kind, or fit again"
            )
        hint = HINT if missing else ""
        check_finite(signals, limit=self._engine.limit, nan=missing == "mask", hint=hint)
        return signals

    def _in_blocks(
        self,
        function: Callable[[np.ndarray], np.ndarray],
        X: np.ndarray,
        out: np.ndarray,
        step: int,
    ) -> np.ndarray:
        """Write what a function makes of windows, always ``step`` at a time, to ``out``."""

        def work(start: int) -> None:
            out[start : start + step] = function(X[start : start + step])

        with threads.jobs(self.n_jobs), threads.single("blas"):
            for _ in threads.mapped(work, range(0, len(X), step)):
                pass
        return out

    def _rebuild(self) -> None:
        """Make what follows from the learned attributes."""
        raise NotImplementedError

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for pickling, without what can be rebuilt."""
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name not in self._learned_private}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the state, and rebuild what it leaves out."""
        super().__setstate__(state)
        if "n_times_in_" in vars(self):
            self._rebuild()

    @property
    def n_features_in_(self) -> int:
        """Number of channels, as scikit-learn counts the second axis."""
        return int(self.n_channels_in_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.three_d_array = True
        tags.input_tags.allow_nan = getattr(self, "missing", "error") == "mask"
        tags.transformer_tags.preserves_dtype = []
        return tags
