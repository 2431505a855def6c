"""
Larger than memory: a mapped file
=================================

``fit`` and ``transform`` take an array that is mapped from a file, and read it block by block. The
signals are simulated and the file is small, so that the example is quick. The calls are the same
for a large one.
"""

import tempfile
from pathlib import Path

import numpy as np

from tensorcontrast import PLC, ContrastiveFeatures
from tensorcontrast.datasets import make_synthetic
from tensorcontrast.report import plot_embedding

folder = tempfile.TemporaryDirectory()
path = Path(folder.name) / "signals.npy"
rec = make_synthetic(n_samples=240, n_channels=4, n_times=128, fs=50, random_state=0)
np.save(path, rec.X)

# %%
# The file is opened, not read.

signals = np.load(path, mmap_mode="r")
print(type(signals).__name__, signals.shape, f"{path.stat().st_size / 1e6:.1f} MB on disk")
model = ContrastiveFeatures(fs=rec.fs, decompose=PLC(rank=8), random_state=0).fit(signals)

# %%
# Features are computed in pieces, too.

W = np.concatenate([model.transform(signals[k : k + 60]) for k in range(0, len(signals), 60)])
figure = plot_embedding(W, rec.y, classes=rec.classes)
del signals
folder.cleanup()
