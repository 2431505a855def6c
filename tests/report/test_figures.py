"""Figures have names and units on their axes, and show what the factors hold."""

import numpy as np
import pytest

from tensorcontrast import PLC, ContrastiveFeatures, SpectrogramTensor, TensorContrastError
from tensorcontrast.datasets import make_synthetic
from tensorcontrast.report.figures import plot_components


@pytest.fixture(scope="module")
def rec():
    return make_synthetic(n_samples=90, n_channels=3, n_times=128, n_classes=3, random_state=0)


def fitted(rec, **params):
    decompose = PLC(rank=5, n_epochs=2, tol=1e-3)
    return ContrastiveFeatures(decompose=decompose, random_state=0, **params).fit(rec)


def test_axes_have_names_and_units(rec, tmp_path):
    model = fitted(rec)
    W = model.transform(rec)
    figure = plot_components(model, features=W, y=rec.y, classes=rec.classes, n_components=3)
    axes = np.array(figure.axes).reshape(3, 4)
    assert [a.get_title(loc="left") for a in axes[0]][:3] == ["channels", "frequencies", "time"]
    assert axes[-1, 1].get_xlabel() == "frequency (Hz)"
    assert axes[-1, 2].get_xlabel() == "time in the window (s)"
    assert [t.get_text() for t in axes[-1, 0].get_xticklabels()] == list(rec.channels)
    assert [t.get_text() for t in axes[0, 3].get_yticklabels()] == list(rec.classes)
    figure.savefig(tmp_path / "components.png")
    assert (tmp_path / "components.png").stat().st_size > 10_000


def test_lines_are_the_factors_of_the_components_that_tell_classes_apart(rec):
    model = fitted(rec)
    W = model.transform(rec)
    figure = plot_components(model, features=W, y=rec.y, n_components=1)
    Z = (W - W.mean(axis=0)) / W.std(axis=0)
    spread = np.var([Z[rec.y == c].mean(axis=0) for c in range(3)], axis=0)
    best = int(np.argmax(spread))
    line = figure.axes[1].lines[0]
    np.testing.assert_allclose(line.get_xdata(), model.tensorize_.frequencies_)
    np.testing.assert_allclose(line.get_ydata(), model.factors_[1][:, best])
    plain = plot_components(model, n_components=2)
    assert len(plain.axes) == 6
    np.testing.assert_allclose(plain.axes[2].lines[0].get_ydata(), model.factors_[2][:, 0])


def test_real_and_imaginary_channels_are_told_apart(rec):
    tensorize = SpectrogramTensor(rec.fs, representation="log-real-imag")
    figure = plot_components(fitted(rec, tensorize=tensorize), n_components=1)
    names = [t.get_text() for t in figure.axes[0].get_xticklabels()]
    assert names == [f"{c} re" for c in rec.channels] + [f"{c} im" for c in rec.channels]


def test_bad_input(rec):
    model = fitted(rec)
    W = model.transform(rec)
    with pytest.raises(TensorContrastError, match="together"):
        plot_components(model, features=W)
    with pytest.raises(TensorContrastError, match="one label a row"):
        plot_components(model, features=W, y=rec.y[:-1])
