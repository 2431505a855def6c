"""
Machine vibration: a bearing with a fault
=========================================

Three accelerometers on a machine, windows of one second. The fault rings at 320 Hz, 37 times per
second. The signals are simulated, so that nothing is downloaded.
"""

import numpy as np

from tensorcontrast import ContrastiveClassifier, Recordings
from tensorcontrast.report import plot_embedding

rng = np.random.default_rng(0)
fs, n = 1000, 120
times = np.arange(fs) / fs
faulty = np.arange(n) % 2
X = rng.normal(size=(n, 3, fs))
for row, fault in zip(X, faulty, strict=True):
    row += np.sin(2 * np.pi * (29.5 * times + rng.random()))  # the shaft
    since = (times + rng.random()) % (1 / 37)
    row += 2.5 * fault * np.exp(-since / 0.004) * np.sin(2 * np.pi * 320 * since)

rec = Recordings(
    X,
    faulty,
    fs=fs,
    channels=["x", "y", "z"],
    classes=["sound", "faulty"],
    name="simulated bearing",
)
rec

# %%
# Sixteen labels are enough here.

labels = np.where(np.arange(n) < 16, faulty, -1)
model = ContrastiveClassifier(random_state=0).fit(rec, labels)
print(f"accuracy on the other windows: {np.mean(model.predict(rec[16:]) == faulty[16:]):.2f}")

# %%
# All windows in the plane, by their features.

W = model.extractor_.transform(rec)
figure = plot_embedding(W, rec.y, classes=rec.classes)
