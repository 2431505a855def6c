"""What a report says of a classifier: what decides, its classes and labels, how sure it may be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from tensorcontrast.classify import ContrastiveClassifier
from tensorcontrast.classify.deciding import agreement_of_parts, what_decides
from tensorcontrast.explain import PredictionExplanation, explain_predictions
from tensorcontrast.recordings import Recordings
from tensorcontrast.report import style
from tensorcontrast.report.data import FigureItem, ModelView
from tensorcontrast.report.of_answers import decision_facts, plot_curve
from tensorcontrast.report.text import figure_texts, plain

__all__ = ["classifier_view", "plot_contributions"]

Array = NDArray[Any]

#: Windows whose answers are explained, at most.
MAX_WINDOWS = 512
#: Contributions that have a bar.
MOST_BARS = 16


def classifier_view(model: ContrastiveClassifier, recordings: Recordings) -> ModelView:
    """Gather what a report shows of a fitted classifier.

    Parameters
    ----------
    model : ContrastiveClassifier
        Fitted.
    recordings : Recordings
        Windows whose answers are explained.
    """
    some = recordings[np.linspace(0, len(recordings) - 1, min(len(recordings), MAX_WINDOWS))
                      .astype(np.intp)]  # fmt: skip
    found = explain_predictions(model, some)
    validation: Mapping[str, Any] = model.validation_
    facts = [
        ("classes", str(len(model.classes_))),
        ("labels", f"{int(model.n_labels_.sum()):,}"),
        *decision_facts(what_decides(model), agreement_of_parts(model, some)),
    ]
    n_held = int(validation["n_windows"])
    unit = "subject" if validation["by"] == "group" else "window"
    notes = [
        "Labels of each class: "
        + ", ".join(
            f"{plain(name, 40)} {count}"
            for name, count in zip(model.classes_.tolist(), model.n_labels_.tolist(), strict=True)
        )
        + "."
    ]
    figures = []
    if validation["accuracy"] is not None:
        facts += [
            ("held-out accuracy", f"{validation['accuracy']:.3f}"),
            ("held-out calibration error", f"{validation['calibration_error']:.3f}"),
            ("held out", f"{n_held:,} labelled windows, by {unit}"),
        ]
    else:
        notes.append("No labelled window could be held out: accuracy and calibration are unknown.")
    curve = validation.get("reliability")
    if curve:
        figures.append(
            FigureItem(
                "classifier-reliability",
                "Calibration on held-out labels",
                f"Accuracy of the most likely class against its probability, for {n_held} labelled "
                f"windows that were held out by {unit}. The temperature was chosen on the same "
                "windows. On the dashed line, probabilities can be taken at their word.",
                plot_curve({name: np.asarray(values) for name, values in curve.items()}),
            )
        )
    elif validation["accuracy"] is not None:
        notes.append("The model file is of a version that kept no reliability curve.")
    figures.append(
        FigureItem(
            "classifier-contributions",
            "What the answers rest on",
            "Mean size of the contributions to the log odds of the answer against the second "
            f"class, over {len(some)} windows of these recordings. For each window they add up to "
            "the log odds; predict --explain writes them.",
            plot_contributions(found),
        )
    )
    return ModelView(
        "What decides",
        facts,
        figures=figures,
        figures_title="How far answers can be trusted, and what they rest on",
        notes=notes,
    )


@style.styled
def plot_contributions(found: PredictionExplanation) -> Figure:
    """Draw the mean size of the contributions of features and blocks to the log odds."""
    names = [f"feature {k}" for k in range(found.features.shape[1])]
    values = [*np.abs(found.features).mean(axis=0), *np.abs(found.blocks).mean(axis=0)]
    names += [f"{name}, rest" if found.features.shape[1] else name for name in found.block_names]
    names.append("intercept")
    values.append(float(np.abs(found.intercept).mean()))
    order = np.argsort(-np.array(values), kind="stable")[:MOST_BARS]
    figure = style.new_figure(style.NARROW, 0.9 + 0.24 * len(order))
    axis: Any = figure.subplots()
    of_feature = [k < found.features.shape[1] for k in order]
    axis.barh(
        range(len(order)),
        [values[k] for k in order],
        color=[style.BLUE if own else style.GREY for own in of_feature],
        height=0.7,
    )
    axis.set_yticks(range(len(order)), figure_texts((names[k] for k in order), 26))
    axis.set_ylim(len(order) - 0.4, -0.6)
    axis.set_xlabel("mean size (log odds)")
    axis.grid(axis="y", visible=False)
    axis.grid(axis="x", visible=True)
    return figure
