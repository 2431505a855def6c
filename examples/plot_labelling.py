"""
Labelling: which windows to label next
======================================

``suggest_windows`` names the windows whose labels help most. Here they are compared with windows
drawn at random, in one run; ``python -m benchmarks.labelling`` measures many. The smartwatch
recordings are real and come with ``pip install 'tensorcontrast[data]'``.
"""

import numpy as np
from matplotlib.figure import Figure

from tensorcontrast import ContrastiveClassifier, suggest_windows
from tensorcontrast.datasets import load_watch

rec = load_watch()[::4]
half = np.isin(rec.groups, np.unique(rec.groups)[:5])
pool, test = rec[half], rec[~half]
first = np.full(len(pool), -1)
first[:: len(pool) // 20] = pool.y[:: len(pool) // 20]
model = ContrastiveClassifier(random_state=0).fit(pool, first)

# %%
# Label the suggested windows, and learn again: the features stay as they are.

W = model.extractor_.transform(pool)
rng = np.random.default_rng(0)
budgets = (10, 20, 40, 60)
curves = {"suggested": [], "random": []}
for n in budgets:
    for name, chosen in (
        ("suggested", suggest_windows(W, n=n, random_state=0)),
        ("random", rng.permutation(len(pool))[:n]),
    ):
        y = np.full(len(pool), -1)
        y[chosen] = pool.y[chosen]
        curves[name].append(float(np.mean(model.refit(pool, y).predict(test) == test.y)))
print(curves)

# %%
figure = Figure(figsize=(5, 3.2), layout="constrained")
axis = figure.subplots()
for name, values in curves.items():
    axis.plot(budgets, values, marker="o", label=name)
axis.set(xlabel="labels", ylabel="accuracy on other people", ylim=(0, 1))
axis.legend()
figure
