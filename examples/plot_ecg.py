"""
ECG: two shapes of a heartbeat
==============================

Windows of ten seconds, two leads, with normal and with wide beats. The signals are simulated here,
so that nothing is downloaded. ``tensorcontrast.datasets.load_ptbxl`` loads a real data set.
"""

import numpy as np

from tensorcontrast import ContrastiveClassifier, Recordings
from tensorcontrast.report import plot_feature

rng = np.random.default_rng(0)
fs, n, times = 100, 120, np.arange(1000) / 100


def beats(width: float) -> np.ndarray:
    """Return two leads with an R wave of a width (s), a T wave, and noise."""
    at = np.cumsum(rng.normal(0.85, 0.06, 14))[:, None]
    wave = np.exp(-0.5 * ((times - at) / width) ** 2).sum(axis=0)
    t_wave = 0.3 * np.exp(-0.5 * ((times - at - 0.3) / 0.06) ** 2).sum(axis=0)
    leads = np.stack([wave + t_wave, 0.6 * wave - t_wave])
    return leads * rng.normal(1, 0.15) + 0.08 * rng.normal(size=leads.shape)


names = ["normal", "wide"]
y = np.arange(n) % 2
X = np.stack([beats(0.012 if label == 0 else 0.045) for label in y])
rec = Recordings(X, y, fs=fs, channels=["II", "V1"], classes=names, name="simulated ECG")
rec

# %%
# Twenty of the windows have a label.

labels = np.where(np.arange(n) < 20, y, -1)
model = ContrastiveClassifier(random_state=0).fit(rec, labels)
print(f"accuracy on the other windows: {np.mean(model.predict(rec[20:]) == y[20:]):.2f}")

# %%
# All of the first feature: channels, frequencies, time scales, and three windows.

figure = plot_feature(model, 0, rec)
