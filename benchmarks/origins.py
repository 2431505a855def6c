"""Whether windows are repeats of each other: ``python -m benchmarks.origins [--data ptb-xl …]``.

For halves of the development subjects, as in ``benchmarks.draws``: the median squared distance of
windows to their nearest neighbours, in that of repeats, by which PLC decides what its graph is made
of (``decompose/origins.py``), and how many of these neighbours are of the same subject. Then, which
no fit knows: the share of windows whose class is that of most others of their cluster, for 100
and 25 clusters of origins and of CPD's features. Nothing is written. Needs the recordings named by
TENSORCONTRAST_DATA, but for ``--data watch``.
"""

from __future__ import annotations

import argparse

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.neighbors import NearestNeighbors

from benchmarks.draws import changes_of, parts
from benchmarks.study import development
from benchmarks.variants import RANK
from tensorcontrast import CPD, SpectrogramTensor, _beside, _steady
from tensorcontrast._shapes import WINDOWS
from tensorcontrast.datasets import load_watch
from tensorcontrast.decompose import origins
from tensorcontrast.decompose.clusters import cluster

NAMES, COUNTS = ("har", "sleep-edf", "ptb-xl", "watch"), (100, 25)


def agreeing(clusters: np.ndarray, y: np.ndarray) -> float:
    """Share of windows whose class most others of their cluster have."""
    counts = np.zeros((clusters.max() + 1, y.max() + 1), dtype=int)
    np.add.at(counts, (clusters, y), 1)
    others = counts[clusters]
    others[np.arange(len(y)), y] -= 1
    return float(((others.argmax(axis=1) == y) & (others.max(axis=1) > 0)).mean())


def half(name: str, seed: int) -> list[float]:
    """Distance, share of neighbours of the same subject, agreement of both kinds of clusters."""
    rec = load_watch() if name == "watch" else development(name)
    assert rec.y is not None and rec.fs is not None and rec.groups is not None
    fitted, _ = parts(rec, seed, name == "har")
    signals = rec.X[fitted]
    by = SpectrogramTensor(rec.fs).fit(signals)
    maker = _beside.learn(signals[:: -(-len(signals) // WINDOWS)], by)
    noise = _steady.differences(signals, maker, by.n_fft_, changes_of("all", by))
    T = maker.transform(signals)
    model = CPD(RANK, beside=maker.n_slices, random_state=seed).fit(T)
    X = ((T - model.center_) / np.float32(model.scale_)).reshape(len(T), -1)
    found = origins.find(X, noise.reshape(len(noise), -1), model.scale_)
    assert found is not None
    G = X @ found.columns[:, : origins.FIRST]
    nearest = NearestNeighbors(n_neighbors=1).fit(G).kneighbors(return_distance=False)[:, 0]
    same = np.mean(rec.groups[fitted][nearest] == rec.groups[fitted])
    y = np.unique(rec.y[fitted], return_inverse=True)[1]
    W = model.transform(T)
    pure = [agreeing(labels, y) for labels in found.labels(X, COUNTS, seed)]
    own = [agreeing(cluster(W, count, seed=seed)[0], y) for count in COUNTS]
    return [found.distance, float(same), *pure, *own]


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.origins", description=__doc__)
    parser.add_argument("--data", nargs="*", default=list(NAMES), choices=NAMES)
    parser.add_argument("--halves", type=int, default=4)
    arguments = parser.parse_args()
    table = Table("data", "distance, of each half", "same subject", "origins: 100, 25", "features")
    for name in arguments.data:
        found = np.array([half(name, seed) for seed in range(arguments.halves)])
        mean = found.mean(axis=0)
        table.add_row(
            name,
            ", ".join(f"{distance:.2f}" for distance in found[:, 0]),
            f"{mean[1]:.0%}",
            ", ".join(f"{share:.3f}" for share in mean[2:4]),
            ", ".join(f"{share:.3f}" for share in mean[4:]),
        )
    Console(width=120).print(table)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
