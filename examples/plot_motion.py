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
names = np.array(rec.classes)[rec.y]
some = split.train[label_budget(rec.y[split.train], 60, seed=0)]
y = np.full(len(rec), "", dtype=names.dtype)  # "" stands for unknown
y[some] = names[some]
model = ContrastiveClassifier(random_state=0).fit(rec[seen], y[seen])
model

# %%
# Accuracy on people that the model has not seen.

test, true = rec[split.test], names[split.test]
predicted = model.predict(test)
print(f"accuracy on {len(test)} windows of other people: {np.mean(predicted == true):.3f}")
for name in model.classes_:
    print(f"  {name:5s} {np.mean(predicted[true == name] == name):.2f}")

# %%
# What the model says when.

figure = plot_timeline(model.timeline(test))
