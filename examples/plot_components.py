"""
What the components are
=======================

A component is a pattern over channels times a spectrum times a profile over the frames of a window,
from the weakest to the strongest. The features are learned without labels; these are used at the
end alone, to say in which class a feature is high. The smartwatch recordings are real and come with
``pip install 'tensorcontrast[data]'``.
"""

from tensorcontrast import PLC, ContrastiveFeatures, SpectrogramTensor
from tensorcontrast.datasets import load_watch
from tensorcontrast.report import describe_components, plot_components

rec = load_watch()[::3]
model = ContrastiveFeatures(
    tensorize=SpectrogramTensor(fs=rec.fs, n_fft=100, hop=10, n_quantiles=4),  # rows of 0.5 Hz
    decompose=PLC(rank=16, n_clusters=rec.n_classes),
    random_state=0,
).fit(rec)
model

# %%
# Each of them in words.

W = model.transform(rec)
shown = {"features": W, "y": rec.y, "classes": rec.classes, "n_components": 4}
for component in describe_components(model, **shown):
    print(f"component_{component.index} {component.sentence}")

# %%
# And in a figure.

figure = plot_components(model, **shown)
