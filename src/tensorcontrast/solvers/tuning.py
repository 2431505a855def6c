"""Tuning numbers of a fit in one place: limits of memory and work, not parameters of the method.

An estimator has them as its private ``_tuning``; tests and benchmarks pass others.
"""

from __future__ import annotations

from dataclasses import dataclass

from tensorcontrast.cp import compress, gls, kmeans, scaling, sketch
from tensorcontrast.sources import source


@dataclass(frozen=True)
class Tuning:
    """Tuning numbers of CPD, ATD and PLC, by the part of a fit that they belong to."""

    blocks: source.BlockSize = source.BLOCK_SIZE
    compress: compress.CompressTuning = compress.TUNING
    sketch: sketch.SketchTuning = sketch.TUNING
    kmeans: kmeans.KMeansTuning = kmeans.TUNING
    gls: gls.GLSTuning = gls.TUNING
    #: Windows at the beginning that say what sums of the first pass are taken about.
    head_windows: int = scaling.HEAD_WINDOWS
    #: Windows that a descent and the nuisance metric go through: of more, so many drawn once.
    max_descent_windows: int = 100_000
    #: Share of the learning rate with which a batch of a stream is descended.
    stream_rate: float = 1 / 15
    #: Limits of β in the search of the ε-region (E14).
    min_beta: float = 1e-6
    max_beta: float = 64.0
    #: Values up to which the features of a fit on Dask are brought to the caller (256 MiB in
    #: float32).
    max_gathered_values: int = 2**26


TUNING = Tuning()
