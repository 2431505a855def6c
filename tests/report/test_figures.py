"""Figures have names and units on their axes, and show what the factors hold."""

import subprocess
import sys
from dataclasses import replace

import matplotlib
import numpy as np
import pytest

from tensorcontrast import PLC, ContrastiveFeatures, SpectrogramTensor, TensorContrastError
from tensorcontrast.datasets import make_synthetic
from tensorcontrast.explain import explain_features
from tensorcontrast.report import (
    describe_components,
    plot_components,
    plot_convergence,
    plot_embedding,
    plot_feature,
    plot_graph,
    plot_label_curve,
    save_figure,
)
from tensorcontrast.report.charts import component_charts, number, time_scales, window_charts
from tensorcontrast.report.components import features_lead
from tensorcontrast.report.data import FigureItem
from tensorcontrast.report.figures import plot_class_profiles


@pytest.fixture(scope="module")
def rec():
    return make_synthetic(n_samples=90, n_channels=3, n_times=128, n_classes=3, random_state=0)


def fitted(rec, **params):
    params = {"decompose": PLC(rank=5), "random_state": 0, **params}
    return ContrastiveFeatures(**params).fit(rec)


def test_axes_have_names_and_units(rec, tmp_path):
    model = fitted(rec)
    W = model.transform(rec)
    figure = plot_components(model, features=W, y=rec.y, classes=rec.classes, n_components=3)
    axes = np.array(figure.axes).reshape(3, 4)
    titles = [a.get_title(loc="left") for a in axes[0]]
    assert titles == ["channels", "frequencies", "time scale", "mean by class"]
    assert axes[-1, 1].get_xlabel() == "frequency (Hz)"
    assert axes[-1, 2].get_xlabel() == "length of kernel or frame"
    assert axes[-1, 2].get_xticklabels()[-1].get_text().endswith("s frame")
    assert "% " not in axes[-1, 0].get_xlabel() and "(%)" in figure.get_suptitle()
    in_time = plot_components(model, n_components=1, recordings=rec)
    assert in_time.axes[2].get_title(loc="left") == "time"
    assert in_time.axes[2].get_xlabel() == "time in the window (s)"
    assert [t.get_text() for t in axes[-1, 0].get_xticklabels()] == list(rec.channels)
    assert [t.get_text() for t in axes[0, 3].get_yticklabels()] == list(rec.classes)
    figure.savefig(tmp_path / "components.png")
    assert (tmp_path / "components.png").stat().st_size > 10_000


def test_lines_are_the_shares_of_the_features_that_tell_classes_apart(rec):
    model = fitted(rec)
    W = model.transform(rec)
    figure = plot_components(model, features=W, y=rec.y, n_components=1, recordings=rec)
    between = sum((rec.y == c).mean() * (W[rec.y == c].mean(0) - W.mean(0)) ** 2 for c in range(3))
    best = int(np.argmax(between / W.var(axis=0)))
    (found,) = explain_features(model, rec, only=[best])
    bars = [bar.get_height() for bar in figure.axes[0].patches]
    np.testing.assert_allclose(bars, 100 * found.channel_share)
    line = figure.axes[1].lines[0]
    np.testing.assert_allclose(line.get_xdata(), model.spectrogram_.frequencies_)
    np.testing.assert_allclose(line.get_ydata(), 100 * found.frequency_share)
    np.testing.assert_allclose(figure.axes[2].lines[0].get_ydata(), 100 * found.time_share)


def test_all_of_a_feature_is_drawn(rec, tmp_path):
    model = fitted(rec)
    figure = plot_feature(model, 2, rec)
    titles = [axis.get_title(loc="left") for axis in figure.axes]
    assert titles[:7] == [
        "channels",
        "frequencies",
        "time",
        "time scale (kernel, frame)",
        "what raises it",
        "kernels that matter most",
        "mean by class",
    ]
    (found,) = explain_features(model, rec, only=[2])
    assert [t.split(":")[0] for t in titles[7:]] == ["highest", "typical", "lowest"]
    assert [f"window {w.index}," in t for w, t in zip(found.windows, titles[7:], strict=True)]
    assert found.sentence[1:40] in figure.get_suptitle().replace("\n", " ")
    for axis in figure.axes:
        assert axis.get_xlabel(), axis.get_title(loc="left")
    assert figure.axes[5].get_xlabel().startswith("time from the middle (")
    save_figure(figure, tmp_path, "feature", ("png",))
    alone = plot_feature(model, 2)
    assert [axis.get_title(loc="left") for axis in alone.axes][2] == "spectrogram alone"
    assert len(alone.axes) == 6
    with pytest.raises(TensorContrastError, match="no feature 5"):
        plot_feature(model, 5)


def test_narrow_figures_fit_a_phone():
    y = np.arange(40) % 3
    W = np.random.default_rng(0).standard_normal((40, 20))
    for draw in (
        lambda **more: plot_graph(y, y, **more),
        lambda **more: plot_class_profiles(W, y, **more),
        lambda **more: plot_convergence(
            {"reconstruction_error": [1.0, 0.5], "contrast": [1.0, 2.0], "loss": [2, 1]}, **more
        ),
    ):
        wide, narrow = draw(), draw(narrow=True)
        assert wide.get_figwidth() > 4.4 >= narrow.get_figwidth()
        assert len(wide.axes) == len(narrow.axes)
        item = FigureItem.draw("a", "b", "c", draw)
        assert item.narrow is not None and item.narrow.get_figwidth() <= 4.4
    assert FigureItem.draw("a", "b", "c", plot_convergence, {"objective": [2.0]}).narrow is None


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
    assert drawn == [f"feature {c.index}" for c in found]
    assert "share of variance between classes (η²)" in figure.get_suptitle()
    assert "by weight" in plot_components(model, n_components=1).get_suptitle()


def test_real_and_imaginary_rows_are_of_one_channel(rec):
    tensorize = SpectrogramTensor(rec.fs, representation="log-real-imag")
    model = fitted(rec, tensorize=tensorize)
    figure = plot_components(model, n_components=1)
    assert [t.get_text() for t in figure.axes[0].get_xticklabels()] == list(rec.channels)
    c = describe_components(model)[0]
    assert c.channels == (*(f"{n} re" for n in rec.channels), *(f"{n} im" for n in rec.channels))


def test_charts_of_a_feature_cover_both_blocks(rec):
    model = fitted(rec)
    c = describe_components(model, recordings=rec)[0]
    charts = dict(component_charts(c))
    assert list(charts) == [
        "Channels, % of variance",
        "Frequencies, % of variance",
        "Time, % of variance",
        "Time scale, % of variance",
        "What raises it: amplitude × 2",
        "Kernels that matter most",
    ]
    assert "kernels alone" in charts["Frequencies, % of variance"]
    assert charts["Kernels that matter most"].count("<polyline") == 3
    windows = window_charts(c.explanation)
    assert [title.split(":")[0] for title, _ in windows] == ["Highest", "Typical", "Lowest"]
    for (_, chart), window in zip(windows, c.explanation.windows, strict=True):
        assert chart.count('class="line-d"') == 3  # a signal per channel
        for own in window.contributions:
            assert f"adds {number(float(own.sum()))}" in chart
    names, shares = time_scales(c.explanation)
    assert len(names) == len(model.convolution_.dilations_) + 1
    assert shares.sum() == pytest.approx(100)
    alone = describe_components(fitted(rec, tensorize=SpectrogramTensor(n_quantiles=4)))[0]
    assert "All of its variance is of spectrogram" in alone.sentence
    assert list(dict(component_charts(alone)))[2] == "Spectrogram, % of variance"


def test_components_of_networks_are_patterns(rec):
    model = fitted(rec, tensorize=SpectrogramTensor(rec.fs, n_quantiles=4))
    (c,) = describe_components(model, n_components=1)
    pattern = replace(c, explanation=None)
    assert [title for title, _ in component_charts(pattern)] == [
        "Channels", "Frequencies", "Quantiles over time",
    ]  # fmt: skip
    assert "not explained" in features_lead([pattern])
    assert "all of it" in features_lead([c])


def test_bad_input(rec):
    model = fitted(rec)
    with pytest.raises(TensorContrastError, match="ContrastiveFeatures"):
        plot_components(model.decompose_)
    for wrong in (0, -1, "many", True):
        with pytest.raises(TensorContrastError, match="n_components"):
            plot_components(model, n_components=wrong)
    W = model.transform(rec)
    with pytest.raises(TensorContrastError, match="together"):
        plot_components(model, features=W)
    with pytest.raises(TensorContrastError, match="one label per row"):
        plot_components(model, features=W, y=rec.y[:-1])


def test_convergence_draws_the_history(rec):
    (alone,) = plot_convergence(fitted(rec)).axes
    assert alone.get_title(loc="left") == "Reconstruction"
    model = fitted(rec, decompose=PLC.paper(rank=5, max_iter=3, tol=0))
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
    figure = plot_label_curve(cells)
    (axis,) = figure.axes
    assert axis.get_ylabel() == "accuracy" and "labels" in axis.get_xlabel()
    for method, drawn in zip(("CPD", "PLC", "w/o PLC"), axis.containers, strict=True):
        means = [
            np.mean([c.accuracy for c in cells if (c.method, c.budget) == (method, budget)])
            for budget in (30, "100%")
        ]
        np.testing.assert_allclose(drawn.lines[0].get_ydata(), means)


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
