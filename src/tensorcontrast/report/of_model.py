"""A report of one fitted model and the recordings that it is looked at with."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from tensorcontrast.classify import ContrastiveClassifier
from tensorcontrast.classify.evaluation import what_decides
from tensorcontrast.decompose.base import CPEstimator
from tensorcontrast.decompose.diagnosis import Diagnosis
from tensorcontrast.explain import PredictionExplanation, explain_predictions
from tensorcontrast.features import ContrastiveFeatures
from tensorcontrast.recordings import Recordings
from tensorcontrast.report import style
from tensorcontrast.report.components import Component, describe_components
from tensorcontrast.report.data import FigureItem, ModelView, ReportData, Windows, environment
from tensorcontrast.report.figures import plot_class_profiles, plot_convergence, plot_graph
from tensorcontrast.report.of_answers import decision_facts, plot_curve
from tensorcontrast.report.text import figure_texts, plain

__all__ = ["plot_contributions", "report_from_model"]

Array = NDArray[Any]

#: Windows whose answers are explained, at most.
MAX_WINDOWS = 512
#: Contributions that have a bar.
MOST_BARS = 16
#: Windows from which the components are fitted again.
MIN_WINDOWS = 8

GRAPH_CAPTION = (
    "Which windows the fit took to be of one class: it made {groups} groups. Rows and columns are "
    "windows{ordered}, a joined pair is a dot."
)


def report_from_model(
    model: ContrastiveFeatures | ContrastiveClassifier,
    recordings: Recordings,
    *,
    title: str | None = None,
    command: str = "",
    diagnose: bool = True,
) -> ReportData:
    """Gather what a report of a fitted model shows.

    Labels of the recordings are used to describe what was learned, never to change it.

    Parameters
    ----------
    model : ContrastiveFeatures or ContrastiveClassifier
        Fitted. Of a classifier, the report also shows what decides.
    recordings : Recordings
        Any with the channels and length of the fit: those it was fitted on, or others.
    title : str, optional
        Title of the report.
    command : str
        Command that makes this report again, whole and quoted for a shell.
    diagnose : bool, default=True
        Fit the decomposition again, with other seeds and to halves of the subjects, and say which
        components can be trusted. It takes about four times as long as the fit of the
        decomposition.

    Examples
    --------
    >>> from tensorcontrast import PLC, ContrastiveFeatures
    >>> from tensorcontrast.datasets import make_synthetic
    >>> rec = make_synthetic(n_samples=60, n_channels=2, n_times=64, random_state=0)
    >>> model = ContrastiveFeatures(decompose=PLC(rank=4), random_state=0)
    >>> report = report_from_model(model.fit(rec), rec, title="Test", diagnose=False)
    >>> report.title, len(report.views[0].components)
    ('Test', 4)
    """
    views = []
    if isinstance(model, ContrastiveClassifier):
        check_is_fitted(model, "coef_")
        views.append(classifier_view(model, recordings))
        model = model.extractor_
    check_is_fitted(model, "decompose_")
    features = np.asarray(model.transform(recordings))
    name = recordings.name or "these recordings"
    fitted = getattr(model.decompose_, "labels_", None)
    clusters = fitted if fitted is not None and len(fitted) == len(recordings) else None
    view = model_view(
        model,
        "What was learned",
        features=features,
        y=recordings.y,
        classes=recordings.classes,
        windows=_windows(recordings, features, clusters),
        history=getattr(model.decompose_, "history_", None),
        graph=clusters,
        prefix="",
        recordings=recordings,
    )
    rank = features.shape[1]
    spectrogram = model.spectrogram_
    by_time = spectrogram is None or spectrogram.n_quantiles_ is None
    labelled = recordings.y is not None and bool((recordings.y >= 0).any())
    notes = []
    if labelled:
        notes.append(
            "The features were learned without labels. Labels are used here to colour, to order "
            "and to name what each component speaks for."
        )
    return ReportData(
        title=title or f"{rank} features of {name}",
        question=[
            f"What did {rank} features, learned without labels, find in {name}, and what does "
            "each of them stand for?",
            "Each window of the signal became a spectrogram (channel × frequency × "
            f"{'time' if by_time else 'quantile over time, weakest frames first'})"
            f"{'' if model.convolution_ is None else ', coupled with random-convolution features'}"
            ". All windows together were decomposed into components; how much of each component "
            "a window holds are its features.",
        ],
        facts=recording_facts(recordings),
        views=[view, *views],
        diagnosis=_diagnosed(model, recordings) if diagnose else None,
        notes=notes,
        config=config_text(model),
        environment=environment(),
        command=command,
    )


def _diagnosed(model: ContrastiveFeatures, recordings: Recordings) -> Diagnosis | None:
    """Return the diagnosis of a CP model; None for other models and for signals with gaps."""
    able = isinstance(model.decompose_, CPEstimator)
    if not able or len(recordings) < MIN_WINDOWS or np.isnan(recordings.X).any():
        return None
    return model.diagnose(recordings)


def model_view(
    model: Any,
    title: str,
    *,
    features: Array | None,
    y: Array | None,
    classes: Sequence[str] | None,
    windows: Windows | None,
    history: Mapping[str, Any] | None,
    graph: Array | None,
    prefix: str,
    recordings: Any = None,
) -> ModelView:
    """Gather what is shown of one model; what a model does not have is left out."""
    figures = []
    if history:
        figures.append(
            FigureItem.draw(
                f"{prefix}convergence",
                "Convergence",
                "Relative reconstruction error of the spectrograms, contrast "
                "and share of windows whose pseudo class changes, over iterations. Where a dashed "
                "line is drawn, the contrast begins: some reconstruction is given up for it.",
                plot_convergence,
                history,
            )
        )
    known = y is not None and bool((y >= 0).any())
    if graph is not None and len(np.unique(graph)) > 1:
        figures.append(
            FigureItem.draw(
                f"{prefix}graph",
                "Pseudo graph",
                GRAPH_CAPTION.format(
                    groups=len(np.unique(graph)), ordered=", ordered by class" if known else ""
                ),
                plot_graph,
                graph,
                y if known else None,
                classes=classes,
            )
        )
    if known and features is not None and features.shape[1] > 1:
        figures.append(
            FigureItem.draw(
                f"{prefix}profiles",
                "Class profiles",
                "Mean of each standardised feature in each class: orange above the mean of all "
                "windows, blue below, in standard deviations.",
                plot_class_profiles,
                features,
                y,
                classes=classes,
            )
        )
    components: list[Component] = []
    if (
        isinstance(model, ContrastiveFeatures)
        and model.spectrogram_ is not None
        and len(model.factors_) == 3
    ):
        usable = known and features is not None
        components = describe_components(
            model,
            features=features if usable else None,
            y=y if usable else None,
            classes=classes,
            recordings=recordings,
            recording_features=features if recordings is not None else None,
        )
        if windows is not None:
            components = [_as_drawn(c, windows) for c in components]
    return ModelView(title, model_facts(model), components, windows, figures)


def _as_drawn(c: Component, windows: Windows) -> Component:
    """Return a component whose windows have the numbers and units of those that are shown."""
    if c.explanation is None:
        return c
    shown = c.explanation.windows
    if windows.index is not None:
        shown = [replace(w, index=int(windows.index[w.index])) for w in shown]
    explanation = replace(c.explanation, windows=shown, units=tuple(windows.units))
    return replace(c, explanation=explanation)


def model_facts(model: Any) -> list[tuple[str, str]]:
    """Say what a model is, as far as it says so."""
    part = getattr(model, "decompose_", model)
    if part is None:
        return []
    facts = [("method", type(part).__name__)]
    if hasattr(part, "rank_"):
        facts.append(("features", str(part.rank_)))
    if hasattr(part, "dims_"):
        spectrogram = getattr(model, "spectrogram_", None)
        dims = part.dims_ if spectrogram is None else spectrogram.output_shape_
        facts.append(("spectrogram", " × ".join(str(d) for d in dims)))
    convolution = getattr(model, "convolution_", None)
    if convolution is not None:
        facts.append(("convolution features", f"{len(convolution.components_)} values"))
    if isinstance(part, CPEstimator) and part.nuisance_gains_ is not None:
        facts.append(("nuisance metric", f"{len(part.nuisance_gains_)} directions"))
    if hasattr(part, "n_iter_"):
        facts.append(("iterations", str(part.n_iter_)))
    if hasattr(part, "reconstruction_error_"):
        facts.append(("relative error", f"{float(part.reconstruction_error_):.3f}"))
    return facts


def recording_facts(rec: Recordings) -> list[tuple[str, str]]:
    """Say what recordings are."""
    length = f"{rec.n_times} points"
    if rec.fs is not None:
        length = f"{rec.n_times / rec.fs:.3g} s at {rec.fs:g} Hz"
    facts = [
        ("windows", f"{len(rec):,}"),
        ("length", length),
        ("channels", str(rec.n_channels)),
    ]
    if rec.n_classes:
        facts.append(("classes", str(rec.n_classes)))
    if rec.groups is not None:
        facts.append(("subjects", str(len(np.unique(rec.groups)))))
    return facts


def _windows(rec: Recordings, features: Array, clusters: Array | None) -> Windows:
    labels: dict[str, tuple[Array, Sequence[str]]] = {}
    if rec.y is not None:
        names = rec.classes or [str(c) for c in range(rec.n_classes)]
        labels["class"] = (rec.y, names)
    if rec.groups is not None:
        groups, codes = np.unique(rec.groups, return_inverse=True)
        labels["subject"] = (codes, [str(g) for g in groups])
    if clusters is not None:
        labels["cluster"] = (clusters, [str(c) for c in range(int(clusters.max()) + 1)])
    per_channel = [rec.units] * rec.n_channels if isinstance(rec.units, str) else rec.units
    return Windows(
        features=features,
        signals=rec.X,
        times=np.arange(rec.n_times) / (rec.fs or 1.0),
        labels=labels,
        channels=rec.channels or [f"channel {c}" for c in range(rec.n_channels)],
        units=list(per_channel or ()),
        time_unit="s" if rec.fs is not None else "samples",
    )


def config_text(value: Any) -> str:
    """Return parameters as indented JSON; what JSON does not know is shown by its name."""
    if hasattr(value, "get_params"):
        parts = {
            name: getattr(value, f"{name}_", getattr(value, name))
            for name in ("tensorize", "augment", "decompose")
            if hasattr(value, name)
        }
        value = {**value.get_params(deep=False), **parts}
    return json.dumps(_jsonable(value), indent=2, ensure_ascii=False)


def _jsonable(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float | np.floating):
        return float(value) if np.isfinite(value) else str(value)
    if isinstance(value, np.integer):
        return int(value)
    if isinstance(value, Mapping):
        return {str(key): _jsonable(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set):
        return [_jsonable(item) for item in value]
    if isinstance(value, np.ndarray):
        return f"array of shape {value.shape}"
    if hasattr(value, "get_params"):
        return {"class": type(value).__name__, **_jsonable(value.get_params(deep=False))}
    if callable(getattr(value, "to_config", None)):
        return _jsonable(value.to_config())
    return getattr(value, "__name__", type(value).__name__)


# ------------------------------------------------------------ what decides


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
        *decision_facts(what_decides(model)),
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
