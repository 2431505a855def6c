"""
EEG with MNE: eyes open, eyes closed
====================================

Epochs of MNE become ``Recordings``, and the features keep the names of the electrodes. The signals
are simulated: a 10 Hz rhythm at the back of the head that is strong with closed eyes. Needs
``pip install 'tensorcontrast[mne]'``.
"""

import mne
import numpy as np

from tensorcontrast import PLC, ContrastiveFeatures, Recordings
from tensorcontrast.report import plot_components

rng = np.random.default_rng(0)
fs, n, electrodes = 100, 80, ["Fz", "Cz", "Pz", "O1", "O2"]
closed = np.arange(n) % 2
times = np.arange(4 * fs) / fs
topography = np.array([0.1, 0.2, 0.6, 1.0, 1.0])
rhythm = np.sin(2 * np.pi * (10 * times + rng.random((n, 1))))
X = rng.normal(size=(n, len(electrodes), len(times)))
X += (0.4 + 1.6 * closed)[:, None, None] * topography[:, None] * rhythm[:, None, :]

info = mne.create_info(electrodes, fs, "eeg", verbose=False)
events = np.stack([np.arange(n) * len(times), np.zeros(n, int), closed + 1], axis=1)
epochs = mne.EpochsArray(1e-6 * X, info, events, event_id={"open": 1, "closed": 2}, verbose=False)

# %%
# From MNE and back: ``Recordings.from_mne`` and ``rec.to_mne()``.

rec = Recordings.from_mne(epochs)
rec

# %%
# The features are learned without labels. The classes are used to order them in the figure.

model = ContrastiveFeatures(decompose=PLC(rank=8), random_state=0).fit(rec)
W = model.transform(rec)
figure = plot_components(model, features=W, y=rec.y, classes=rec.classes, n_components=3)
