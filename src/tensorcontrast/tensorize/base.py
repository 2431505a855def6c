"""What transformers of windows [n, channel, time] share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from tensorcontrast.errors import InvalidInputError
from tensorcontrast.recordings.signals import as_signals, check_finite
from tensorcontrast.utils import threads
from tensorcontrast.utils.estimators import RebuiltMixin

HINT = ", or pass missing='mask' to leave such frames out"
"""Way out for signals with NaN."""


class WindowTransformer(RebuiltMixin, TransformerMixin, BaseEstimator):
    """Checks, threads, tags and pickling."""

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
        signals = as_signals(X)
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
