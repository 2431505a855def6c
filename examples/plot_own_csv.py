"""
Your own CSV file
=================

Write a small table, read it, fit, save the model and load it again. The table is in long form, one
row per sample of each window: an id of the window, the time, the class (empty where it is not
known), the subject, and a column for each channel. The values are simulated. Needs
``pip install 'tensorcontrast[data]'``, as pandas reads the table.
"""

import csv
import tempfile
from pathlib import Path

import numpy as np

from tensorcontrast import PLC, ContrastiveFeatures, Recordings, load_model
from tensorcontrast.datasets import make_synthetic
from tensorcontrast.report import plot_convergence

folder = tempfile.TemporaryDirectory()
table, file = Path(folder.name) / "signals.csv", Path(folder.name) / "model.tcm"

made = make_synthetic(n_samples=90, n_channels=3, n_times=128, fs=50, random_state=0)
with table.open("w", newline="", encoding="utf-8") as stream:
    writer = csv.writer(stream)
    writer.writerow(["window", "time", "class", "subject", *made.channels])
    for number, signal in enumerate(made.X):
        # Two windows of three have no label: their cells stay empty.
        name = made.classes[made.y[number]] if number % 3 == 0 else ""
        for step, values in enumerate(signal.T):
            row = [number, step / made.fs, name, f"S{made.groups[number]:02d}"]
            writer.writerow([*row, *(f"{v:.5f}" for v in values)])

# %%
# The usual names of columns are found; others are given, as in ``read(…, sample="trial")``.

rec = Recordings.read(table, fs=50)
print(rec.quality())
rec

# %%
# The model file gives the same features again.

model = ContrastiveFeatures(decompose=PLC(rank=8, n_clusters=3), random_state=0)
W = model.fit(rec).transform(rec)
model.save(file)
same = np.array_equal(load_model(file).transform(rec), W)
print(f"{file.name}: {file.stat().st_size} bytes; the same features again: {same}")
folder.cleanup()
figure = plot_convergence(model.decompose_.history_)
