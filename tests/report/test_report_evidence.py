"""The paper's evidence: figures hold the numbers that the run kept."""

import numpy as np
import pytest

from tensorcontrast import TensorContrastError
from tensorcontrast.report.evidence_figures import (
    plot_adjacency,
    plot_iterations,
    plot_seeds,
    plot_tsne_stages,
)


@pytest.fixture
def stages():
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(3), 8)
    return {
        "iteration": np.array([1, 5, 9, 12]),
        "reconstruction_error": np.array([0.9, 0.6, 0.5, 0.52]),
        "accuracy": np.array([0.4, 0.5, 0.6, 0.7]),
        "phase": np.array(["cpd", "cpd", "contrast", "contrast"]),
        "curve_iteration": np.arange(1, 13),
        "curve_error": np.linspace(0.9, 0.5, 12),
        "y": y,
        "pseudo": rng.integers(0, 3, (4, 24)),
        "ari": np.array([0.0, 0.1, 0.4, 0.61]),
        "tsne_start": rng.standard_normal((24, 2)),
        "tsne_end": rng.standard_normal((24, 2)),
        "tsne_y": y,
        "classes": np.array(["a", "b", "$c$"]),
    }


def test_iterations(stages):
    figure = plot_iterations({"PLC": stages, "$other$": stages})
    left, right = figure.axes
    np.testing.assert_allclose(left.lines[0].get_ydata(), stages["curve_error"])
    np.testing.assert_allclose(right.lines[0].get_ydata(), stages["accuracy"])
    assert left.lines[1].get_xdata()[0] == 5  # the last stage before the contrast
    assert left.get_ylabel() == "relative error" and right.get_ylabel() == "accuracy"
    with pytest.raises(TensorContrastError, match="curve_error"):
        plot_iterations({"PLC": {k: v for k, v in stages.items() if k != "curve_error"}})
    with pytest.raises(TensorContrastError, match="no stages"):
        plot_iterations({})


def test_adjacency_at_stages(stages):
    figure = plot_adjacency(stages)
    assert [a.get_title(loc="left") for a in figure.axes] == [
        "iteration 1",
        "iteration 9",
        "iteration 12",
        "true graph",
    ]
    for axis, labels in zip(figure.axes, [*stages["pseudo"][[0, 2, 3]], stages["y"]], strict=True):
        joined = axis.images[0].get_array()[..., 3] > 0
        np.testing.assert_array_equal(joined, np.equal.outer(labels, labels))
    assert figure.axes[2].get_xlabel().endswith("0.61")


def test_tsne_at_start_and_end(stages):
    figure = plot_tsne_stages(stages)
    for axis, key in zip(figure.axes, ("tsne_start", "tsne_end"), strict=True):
        for c, points in enumerate(axis.collections):
            np.testing.assert_allclose(points.get_offsets(), stages[key][stages["y"] == c])
    assert [t.get_text() for t in figure.legends[0].get_texts()] == ["a", "b", r"\$c\$"]


def test_seeds_have_their_agreement_as_a_number(stages):
    ari = np.array([[1.0, 0.25], [0.25, 1.0]])
    seeds = {**stages, "seeds": np.arange(2), "pseudo": stages["pseudo"][:2], "ari": ari}
    figure = plot_seeds({**seeds, "ari_true": np.array([0.3, 0.4])})
    numbers = [t.get_text() for t in figure.axes[-1].texts]
    assert numbers == ["1.00", "0.25", "0.25", "1.00"]
    assert "mean ARI 0.25" in figure.axes[-1].get_xlabel()
    assert figure.axes[1].get_xlabel().endswith("0.40")
    with pytest.raises(TensorContrastError, match="ari"):
        plot_seeds({k: v for k, v in seeds.items() if k != "ari"})
