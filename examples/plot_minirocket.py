"""
Comparing with MiniRocket
=========================

The same labels for both, on people that neither has seen. One split of one data set says little:
``python -m benchmarks.archive`` compares them on sixteen. MiniRocket is that of aeon
(``pip install aeon``); without aeon, its bar is left out. The recordings are real and come with
``pip install 'tensorcontrast[data]'``.
"""

import numpy as np
from matplotlib.figure import Figure

from tensorcontrast import ContrastiveClassifier
from tensorcontrast.datasets import load_watch
from tensorcontrast.evaluate import label_budget

try:
    from aeon.classification.convolution_based import MiniRocketClassifier
except ImportError:
    MiniRocketClassifier = None
    print("aeon is not installed: MiniRocket is left out")

rec = load_watch()[::4]
known = np.isin(rec.groups, np.unique(rec.groups)[:7])
train, test = rec[known], rec[~known]
few = label_budget(train.y, 60, seed=0)
y = np.full(len(train), -1)
y[few] = train.y[few]

# %%
# tensorcontrast learns from all windows, MiniRocket from those with a label.

scores = {}
model = ContrastiveClassifier(random_state=0).fit(train, y)
scores["tensorcontrast"] = float(np.mean(model.predict(test) == test.y))
if MiniRocketClassifier is not None:
    peer = MiniRocketClassifier(random_state=0).fit(train.X[few], train.y[few])
    scores["MiniRocket"] = float(np.mean(peer.predict(test.X) == test.y))
print({name: round(value, 3) for name, value in scores.items()})

# %%
figure = Figure(figsize=(5, 2), layout="constrained")
axis = figure.subplots()
axis.barh(list(scores), list(scores.values()))
axis.set(xlabel="accuracy, 60 labels", xlim=(0, 1))
figure
