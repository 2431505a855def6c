"""Figures have names and units on their axes, and show what the factors hold."""

import subprocess
import sys

import matplotlib
import numpy as np
import pytest

from tensorcontrast import PLC, ContrastiveFeatures, SpectrogramTensor, TensorContrastError
from tensorcontrast.datasets import make_synthetic
from tensorcontrast.decompose.options import build
from tensorcontrast.report import (
    describe_components,
    plot_components,
    plot_convergence,
    plot_embedding,
    plot_graph,
    plot_label_curve,
    save_figure,
    score_tables,
)
from tensorcontrast.report.charts import component_charts


@pytest.fixture(scope="module")
def rec():
    return make_synthetic(n_samples=90, n_channels=3, n_times=128, n_classes=3, random_state=0)


def fitted(rec, **params):
    params = {"decompose": build(PLC, rank=5, tol=1e-3), "random_state": 0, **params}
    return ContrastiveFeatures(**params).fit(rec)


def test_axes_have_names_and_units(rec, tmp_path):
    model = fitted(rec)
    W = model.transform(rec)
    figure = plot_components(model, features=W, y=rec.y, classes=rec.classes, n_components=3)
    axes = np.array(figure.axes).reshape(3, 4)
    titles = [a.get_title(loc="left") for a in axes[0]]
    assert titles == ["channels", "frequencies", "quantiles over time", "mean by class"]
    assert axes[-1, 1].get_xlabel() == "frequency (Hz)"
    assert axes[-1, 2].get_xlabel() == "quantile over time (%)"
    in_time = plot_components(fitted(rec, tensorize=SpectrogramTensor()), n_components=1)
    assert in_time.axes[2].get_title(loc="left") == "time"
    assert in_time.axes[2].get_xlabel() == "time in the window (s)"
    assert [t.get_text() for t in axes[-1, 0].get_xticklabels()] == list(rec.channels)
    assert [t.get_text() for t in axes[0, 3].get_yticklabels()] == list(rec.classes)
    figure.savefig(tmp_path / "components.png")
    assert (tmp_path / "components.png").stat().st_size > 10_000


def test_lines_are_the_factors_of_the_components_that_tell_classes_apart(rec):
    model = fitted(rec, tensorize=SpectrogramTensor(rec.fs))
    W = model.transform(rec)
    figure = plot_components(model, features=W, y=rec.y, n_components=1)
    between = sum((rec.y == c).mean() * (W[rec.y == c].mean(0) - W.mean(0)) ** 2 for c in range(3))
    best = int(np.argmax(between / W.var(axis=0)))
    line = figure.axes[1].lines[0]
    np.testing.assert_allclose(line.get_xdata(), model.tensorize_.frequencies_)
    np.testing.assert_allclose(line.get_ydata(), model.factors_[1][:, best])
    plain = plot_components(model, n_components=2)
    assert len(plain.axes) == 6
    np.testing.assert_allclose(plain.axes[2].lines[0].get_ydata(), model.factors_[2][:, 0])


def test_tables_and_figures_choose_the_same_components(rec):
    model = fitted(rec)
    rng = np.random.default_rng(0)
    # A rare class moves feature 1, frequent ones move feature 3: the means of the classes are
    # further apart in 1, the share of variance between classes is larger in 3.
    y = np.repeat([0, 1, 2], [48, 48, 4])
    W = rng.normal(size=(100, 5))
    W[y == 2, 1] += 4.0
    W[y == 1, 3] += 2.0
    Z = (W - W.mean(axis=0)) / W.std(axis=0)
    assert np.argmax(np.var([Z[y == c].mean(axis=0) for c in range(3)], axis=0)) == 1
    found = describe_components(model, features=W, y=y)
    assert found[0].index == 3
    figure = plot_components(model, features=W, y=y, n_components=5)
    drawn = [a.get_ylabel() for a in figure.axes if a.get_ylabel()]
    assert drawn == [f"component {c.index}" for c in found]
    assert "share of variance between classes (η²)" in figure.get_suptitle()
    assert "by weight" in plot_components(model, n_components=1).get_suptitle()


def test_real_and_imaginary_channels_are_told_apart(rec):
    tensorize = SpectrogramTensor(rec.fs, representation="log-real-imag")
    figure = plot_components(fitted(rec, tensorize=tensorize), n_components=1)
    names = [t.get_text() for t in figure.axes[0].get_xticklabels()]
    assert names == [f"{c} re" for c in rec.channels] + [f"{c} im" for c in rec.channels]


def test_the_row_of_means_is_no_frequency(rec):
    model = fitted(rec, tensorize=SpectrogramTensor(rec.fs, mean_row=True))
    kinds = model.tensorize_.row_kinds_
    figure = plot_components(model, n_components=1)
    (line, _) = figure.axes[1].lines  # the second is the axis
    np.testing.assert_allclose(line.get_ydata(), model.factors_[1][kinds == "magnitude", 0])
    for c in describe_components(model):
        B = model.factors_[1][:, c.index]
        np.testing.assert_allclose(c.frequency_profile, B[kinds == "magnitude"])
        assert c.mean_weight == pytest.approx(float(B[kinds == "mean"][0]))
        title, chart = component_charts(c)[1]
        assert (title, chart.count("<polyline")) == ("Frequencies", 1)
    plain = fitted(rec, tensorize=SpectrogramTensor(rec.fs))
    assert describe_components(plain)[0].mean_weight is None


def test_the_sentence_names_the_frequency(rec):
    model = fitted(rec, tensorize=SpectrogramTensor(rec.fs))
    profile = np.zeros_like(model.factors_[1][:, 0])
    profile[9] = -1
    model.factors_[1][:, 0] = profile
    (found,) = [c for c in describe_components(model) if c.index == 0]
    assert f"around {model.tensorize_.frequencies_[9]:.2g} Hz" in found.sentence


def test_the_sentence_tells_the_share_of_the_convolution_block(rec):
    model = fitted(rec)
    spectrogram, convolution = model.decompose_.factors_
    for c in describe_components(model):
        sizes = [
            np.prod([np.sum(np.square(U[:, c.index], dtype=np.float64)) for U in block])
            for block in (spectrogram, convolution)
        ]
        assert c.convolution_share == pytest.approx(sizes[1] / sum(sizes), rel=1e-5)
        assert f"({100 * c.convolution_share:.0f} % of it)" in c.sentence
    convolution[-1][:, 0] *= 1e3
    (mostly,) = [c for c in describe_components(model) if c.index == 0]
    assert mostly.sentence.startswith("mostly waveforms (100 % of it), with ")
    alone = describe_components(fitted(rec, tensorize=SpectrogramTensor(n_quantiles=4)))[0]
    assert alone.convolution_share is None
    assert "waveforms" not in alone.sentence


def test_bad_input(rec):
    model = fitted(rec)
    W = model.transform(rec)
    with pytest.raises(TensorContrastError, match="together"):
        plot_components(model, features=W)
    with pytest.raises(TensorContrastError, match="one label per row"):
        plot_components(model, features=W, y=rec.y[:-1])


def test_convergence_draws_the_history(rec):
    (alone,) = plot_convergence(fitted(rec)).axes
    assert alone.get_title(loc="left") == "Reconstruction"
    model = fitted(rec, decompose=build(PLC, rank=5, solver="tied", n_epochs=2, tol=1e-3))
    figure = plot_convergence(model)
    titles = [axis.get_title(loc="left") for axis in figure.axes]
    assert titles == ["Reconstruction", "Contrast", "Pseudo graph"]
    np.testing.assert_allclose(
        figure.axes[0].lines[0].get_ydata(), model.decompose_.history_["reconstruction_error"]
    )
    assert all(axis.get_xlabel() == "iteration" and axis.get_ylabel() for axis in figure.axes)
    only = plot_convergence({"objective": [3.0, 2.0, 1.0]})
    np.testing.assert_allclose(only.axes[0].lines[0].get_ydata(), [3, 2, 1])
    with pytest.raises(TensorContrastError, match="history"):
        plot_convergence(object())
    with pytest.raises(TensorContrastError, match="equal length"):
        plot_convergence({"objective": [1.0], "seconds": [1.0, 2.0]})


def test_embedding_draws_every_class_with_its_own_look():
    rng = np.random.default_rng(0)
    y = np.concatenate([np.repeat(np.arange(12), 4), [-1, -1]])
    xy = rng.standard_normal((len(y), 2))
    figure = plot_embedding(xy, y, classes=[f"$c{k}$" for k in range(12)], method=None)
    points = figure.axes[0].collections
    assert len(points) == 13  # the unlabelled first
    for c in range(12):
        np.testing.assert_allclose(points[c + 1].get_offsets(), xy[y == c])
    looks = {
        (
            tuple(p.get_facecolor()[0]),
            len(p.get_paths()[0].vertices),
            str(p.get_paths()[0].vertices),
        )
        for p in points[1:]
    }
    assert len(looks) == 12
    texts = [t.get_text() for t in figure.legends[0].get_texts()]
    assert texts[0] == "no label" and texts[1] == r"\$c0\$"
    with pytest.raises(TensorContrastError, match="two columns"):
        plot_embedding(rng.standard_normal((9, 3)), method=None)
    with pytest.raises(TensorContrastError, match="tsne"):
        plot_embedding(rng.standard_normal((9, 3)), method="umap")
    for odd in (rng.standard_normal((30, 1)), np.ones((30, 4)), np.ones((2, 4))):
        for method in ("tsne", "pca"):
            (points,) = plot_embedding(odd, method=method).axes[0].collections
            assert np.isfinite(points.get_offsets()).all() and len(points.get_offsets()) == len(odd)


def test_graph_is_the_adjacency_ordered_by_class():
    y = np.array([1, 0, 1, 0, 2, -1])
    labels = np.array([0, 1, 0, 0, 2, 2])
    figure = plot_graph(labels, y, classes=["a", "b", "c"])
    order = [1, 3, 0, 2, 4]  # by class, the unlabelled left out; within a class by pseudo class
    order = sorted(order, key=lambda i: (y[i], labels[i]))
    pseudo, true = (axis.images[0].get_array()[..., 3] > 0 for axis in figure.axes)
    np.testing.assert_array_equal(pseudo, np.equal.outer(labels[order], labels[order]))
    np.testing.assert_array_equal(true, np.equal.outer(y[order], y[order]))
    names = [t.get_text() for t in figure.axes[0].get_yticklabels()]
    assert names == ["a", "b", "c"]
    assert len(plot_graph(labels).axes) == 1
    with pytest.raises(TensorContrastError, match="one per window"):
        plot_graph(labels, y[:-1])


def test_label_curve_draws_the_means(cells):
    tables = score_tables(cells)
    figure = plot_label_curve(tables)
    assert [a.get_title(loc="left") for a in figure.axes] == ["walk", "sleep"]
    for axis, table in zip(figure.axes, tables, strict=True):
        drawn = [c.lines[0].get_ydata() for c in axis.containers]
        means = [[row.scores[b].mean for b in table.budgets] for row in table.rows]
        np.testing.assert_allclose(drawn, means)
        assert axis.get_ylabel() == "accuracy" and "labels" in axis.get_xlabel()
    one = plot_label_curve(tables[0], methods=["PLC"])
    assert len(one.axes[0].containers) == 1
    with pytest.raises(TensorContrastError, match="no finished cell"):
        plot_label_curve([])


def test_figures_leave_no_trace_in_matplotlib(rec):
    model = fitted(rec)
    before = dict(matplotlib.rcParams)
    plot_components(model)
    plot_convergence(model)
    assert dict(matplotlib.rcParams) == before
    code = (
        "import sys, tensorcontrast.report as r\n"
        "r.plot_graph([0, 0, 1]); r.plot_convergence({'objective': [2.0, 1.0]})\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_saved_figures(tmp_path):
    figure = plot_convergence({"objective": [3.0, 2.0, 1.0]})
    paths = save_figure(figure, tmp_path / "a" / "b", "curve", ("png", "svg", "pdf"))
    assert [p.name for p in paths] == ["curve.png", "curve.svg", "curve.pdf"]
    assert paths[0].read_bytes()[:4] == b"\x89PNG"
    twice = [
        save_figure(plot_graph([0, 1, 1]), tmp_path / f"again{k}", "graph", ("svg",))[0]
        for k in range(2)
    ]
    assert twice[0].read_bytes() == twice[1].read_bytes()  # the same drawing, the same file
    for name in ("../up", "a/b", "", "x\n"):
        with pytest.raises(TensorContrastError, match="letters"):
            save_figure(figure, tmp_path, name)
    with pytest.raises(TensorContrastError, match="png, svg and pdf"):
        save_figure(figure, tmp_path, "x", ("exe",))


def test_names_in_any_script_are_drawn_without_a_warning(tmp_path):
    figure = plot_graph([0, 1, 0, 1], [0, 1, 0, 1], classes=["脳波 🧠", "$x_1$"])
    (path,) = save_figure(figure, tmp_path, "names", ("png",))
    assert path.stat().st_size > 1000


def test_components_are_told_in_words(rec):
    model = fitted(rec)
    W = model.transform(rec)
    found = describe_components(model, features=W, y=rec.y, classes=rec.classes)
    assert sorted(c.index for c in found) == list(range(5))
    shares = [c.separation for c in found]
    assert shares == sorted(shares, reverse=True) and 0 <= shares[-1] <= shares[0] <= 1
    best = found[0]
    groups = [W[rec.y == c, best.index] for c in range(3)]
    within = sum(((g - g.mean()) ** 2).sum() for g in groups)
    total = ((W[:, best.index] - W[:, best.index].mean()) ** 2).sum()
    assert best.separation == pytest.approx(1 - within / total, rel=1e-3)
    means = best.class_means
    assert rec.classes[int(np.argmax(np.abs(means)))] in best.sentence
    assert "Hz" in best.sentence and best.sentence.endswith(".")
    loudest = int(np.argmax(np.abs(best.channel_weights)))
    assert rec.channels[loudest] in best.sentence
    assert describe_components(model, n_components=2)[1].class_means is None
