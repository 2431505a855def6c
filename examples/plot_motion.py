"""
Motion: exercises from a smartwatch
===================================

Features are learned without labels, and a classifier from 60 labels. Three people are held out.
The recordings are real: they come with ``pip install 'tensorcontrast[data]'``.
"""

import numpy as np

from tensorcontrast import ContrastiveClassifier
from tensorcontrast.datasets import load_watch
from tensorcontrast.evaluate import label_budget, subject_split
from tensorcontrast.report.timeline_figure import plot_timeline

rec = load_watch()
split = subject_split(rec, seed=0)  # no person is in two parts
rec

# %%
# Every window of seven people trains the features. Of these windows, 60 have a label.

seen = np.concatenate([split.unlabelled, split.train])
y = np.full(len(rec), -1)
some = split.train[label_budget(rec.y[split.train], 60, seed=0)]
y[some] = rec.y[some]
model = ContrastiveClassifier(random_state=0).fit(rec[seen], y[seen])
model

# %%
# Accuracy on people that the model has not seen.

test = rec[split.test]
predicted = model.predict(test)
print(f"accuracy on {len(test)} windows of other people: {np.mean(predicted == test.y):.3f}")
for code, name in enumerate(rec.classes):
    print(f"  {name:5s} {np.mean(predicted[test.y == code] == code):.2f}")

# %%
# What the model says when.

figure = plot_timeline(model.timeline(test))
