"""Your own table: write a small CSV, read it, fit, save the model and load it again.

The table is in long form, one row per sample of each window: an id of the window,
the time, the class (empty where it is not known), the subject, and a column for each channel.

    python examples/own_csv.py

Needs ``pip install 'tensorcontrast[data]'`` (pandas reads the table).
"""

import csv
import tempfile
from pathlib import Path

import numpy as np

from tensorcontrast import PLC, ContrastiveFeatures, Recordings, load_model
from tensorcontrast.datasets import make_synthetic


def write_table(path: Path) -> None:
    """Write synthetic recordings as a table that could have come from anywhere."""
    rec = make_synthetic(n_samples=90, n_channels=3, n_times=128, fs=50, random_state=0)
    with path.open("w", newline="", encoding="utf-8") as stream:
        table = csv.writer(stream)
        table.writerow(["window", "time", "class", "subject", *rec.channels])
        for number, signal in enumerate(rec.X):
            # Two windows of three have no label: their cells stay empty.
            name = rec.classes[rec.y[number]] if number % 3 == 0 else ""
            for step, values in enumerate(signal.T):
                row = [number, step / rec.fs, name, f"S{rec.groups[number]:02d}"]
                table.writerow([*row, *(f"{v:.5f}" for v in values)])


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        table, file = Path(folder) / "signals.csv", Path(folder) / "model.tcm"
        write_table(table)

        # The usual names of columns are found; others are given, as in read(…, sample="trial").
        rec = Recordings.read(table, fs=50)
        print(rec)
        print(rec.quality())

        model = ContrastiveFeatures(decompose=PLC(rank=8, n_clusters=3), random_state=0)
        W = model.fit(rec).transform(rec)
        model.save(file)

        again = load_model(file)
        same = np.array_equal(again.transform(rec), W)
        print(f"{file.name}: {file.stat().st_size} bytes; the same features again: {same}")
        assert same


if __name__ == "__main__":
    main()
