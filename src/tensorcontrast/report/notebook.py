"""What notebooks show of recordings and fitted models: a small table.

Plain HTML with inline style: no script, no style sheet, nothing that is fetched. Text has the
colour of the page, so that it is legible on light and on dark ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from tensorcontrast.decompose.base import CPEstimator
from tensorcontrast.features import ContrastiveFeatures
from tensorcontrast.report.components import describe_components
from tensorcontrast.report.text import html_text, shortened

__all__ = ["learned_html", "recordings_html"]

Array = NDArray[Any]

#: Components that are described, the heaviest first.
MAX_COMPONENTS = 4
#: Classes whose windows are counted, and channels that are named; the others are counted.
MAX_NAMES = 12

_BOX = (
    "display:inline-block;max-width:100%;box-sizing:border-box;overflow-x:auto;margin:2px 0;"
    "padding:8px 12px;border:1px solid rgba(128,128,128,.45);border-radius:6px;color:inherit;"
    "font:13px/1.45 system-ui,sans-serif;text-align:left"
)
_CELL = "padding:1px 14px 1px 0;text-align:left;vertical-align:top;border:0;background:none"
_NAME = _CELL + ";font-weight:400;opacity:.75;white-space:nowrap"


def recordings_html(rec: Any) -> str:
    """Return a table of what recordings hold.

    Parameters
    ----------
    rec : Recordings or StoredRecordings
        Not changed; no signal is read.
    """
    n, n_channels, n_times = (int(size) for size in rec.X.shape)
    length = f"{n_times:,} samples"
    if rec.fs is not None:
        length = f"{n_times / rec.fs:.4g} s ({length})"
    rows = [
        ("windows", f"{n:,}"),
        ("channels", _channels(rec, n_channels)),
        ("rate", "not given" if rec.fs is None else f"{rec.fs:g} Hz"),
        ("length", length),
    ]
    if rec.y is not None:
        names = _class_names(rec)
        rows.append(("classes", _counts(names, _labels(rec.y, len(names)))))
        unknown = int((np.asarray(rec.y) < 0).sum())
        if unknown:
            rows.append(("without a label", f"{unknown:,}"))
    if rec.groups is not None:
        rows.append(("groups", f"{len(np.unique(np.asarray(rec.groups))):,}"))
    if rec.columns:
        rows.append(("columns", _names([str(key) for key in rec.columns])))
    title = f"Recordings: {rec.name}" if rec.name else "Recordings"
    return _box(title, rows)


def learned_html(model: Any) -> str:
    """Return a table of what an estimator has learned; "" before it is fitted.

    Parameters
    ----------
    model : ContrastiveClassifier, ContrastiveFeatures, CPD, ATD or PLC
        Not changed.
    """
    try:
        check_is_fitted(model)
    except Exception:  # sklearn.exceptions.NotFittedError, and what a half-made estimator raises
        return ""
    if hasattr(model, "extractor_"):
        return _classifier(model)
    if isinstance(model, ContrastiveFeatures):
        return _box("Learned features", _feature_rows(model))
    if isinstance(model, CPEstimator):
        return _box("Learned components", _component_rows(model))
    return ""


# ------------------------------------------------------------------------------------ tables


def _box(title: str, rows: Iterable[tuple[str, str]]) -> str:
    """Rows are names and values that are HTML already."""
    cells = "".join(
        f'<tr style="background:none"><th scope="row" style="{_NAME}">{html_text(name)}</th>'
        f'<td style="{_CELL}">{value}</td></tr>'
        for name, value in rows
    )
    return (
        f'<div class="tensorcontrast" style="{_BOX}"><strong>{html_text(title, 80)}</strong>'
        '<table style="border-collapse:collapse;border:0;margin:4px 0;font:inherit;color:inherit">'
        f"<tbody>{cells}</tbody></table></div>"
    )


def _names(names: Sequence[str], limit: int = 24) -> str:
    shown = ", ".join(html_text(shortened(name, limit)) for name in names[:MAX_NAMES])
    more = len(names) - MAX_NAMES
    return f"{shown} and {more:,} more" if more > 0 else shown


def _counts(names: Sequence[str], counts: Array) -> str:
    shown = " · ".join(
        f"{html_text(shortened(name, 24))} <b>{int(count):,}</b>"
        for name, count in zip(names[:MAX_NAMES], counts[:MAX_NAMES], strict=True)
    )
    more = len(names) - MAX_NAMES
    return f"{shown} and {more:,} more" if more > 0 else shown


def _channels(rec: Any, n_channels: int) -> str:
    if rec.channels is None:
        return f"{n_channels:,}"
    return f"{n_channels:,}: {_names(rec.channels)}"


def _class_names(rec: Any) -> list[str]:
    if rec.classes is not None:
        return [str(name) for name in rec.classes]
    return [str(code) for code in range(int(np.max(rec.y, initial=-1)) + 1)]


def _labels(y: Any, n_classes: int) -> Array:
    codes = np.asarray(y)
    return np.bincount(codes[codes >= 0], minlength=n_classes)


def _component_rows(model: CPEstimator) -> list[tuple[str, str]]:
    blocks = model.block_dims_ or (model.dims_,)
    shape = " and ".join(" × ".join(f"{size:,}" for size in dims) for dims in blocks)
    rows = [
        ("components", f"{model.rank_:,}"),
        ("shape of a window", shape),
        ("fitted on", f"{model.n_samples_seen_:,} windows"),
        ("iterations", f"{model.n_iter_:,}"),
    ]
    error = getattr(model, "reconstruction_error_", None)
    if error is not None and np.isfinite(error):
        rows.append(("explained variance", f"{100 * (1 - float(error) ** 2):.1f} %"))
    clusters = getattr(model, "n_clusters_", None)
    if clusters is not None:
        rows.append(("pseudo classes", f"{int(clusters):,}"))
    return rows


def _feature_rows(model: ContrastiveFeatures) -> list[tuple[str, str]]:
    length = f"{model.n_times_in_:,} samples"
    if model.fs_ is not None:
        length = f"{model.n_times_in_ / model.fs_:.4g} s at {model.fs_:g} Hz"
    inside = f"{model.n_channels_in_:,} channels, {length}"
    blocks = ", ".join(html_text(type(block).__name__) for block in model._blocks())
    rows = [
        ("features per window", f"{model._n_features_out:,}"),
        ("takes windows of", inside),
        ("made of", blocks),
    ]
    if isinstance(model.decompose_, CPEstimator):
        rows += [
            row
            for row in _component_rows(model.decompose_)
            if row[0] in ("fitted on", "explained variance", "pseudo classes")
        ]
        for part in describe_components(model, n_components=MAX_COMPONENTS):
            sentence = part.sentence.split(" Of its variance")[0]
            rows.append((f"component_{part.index}", html_text(shortened(sentence, 140))))
    return rows


def _classifier(model: Any) -> str:
    names = [str(name) for name in model.classes_.tolist()]
    held: dict[str, Any] = model.validation_
    rows = [
        ("classes, labels of each", _counts(names, model.n_labels_)),
        ("labels", f"{int(model.n_labels_.sum()):,}"),
    ]
    if held["accuracy"] is None:
        rows.append(("held-out accuracy", "unknown: too few labels to hold any out"))
    else:
        by = "subject" if held["by"] == "group" else "window"
        rows.append(
            (
                "held-out accuracy",
                f"<b>{held['accuracy']:.3f}</b> on {held['n_windows']:,} labelled windows, by {by}",
            )
        )
        rows.append(("calibration error", f"{held['calibration_error']:.3f}"))
    features = model.extractor_
    if isinstance(features, ContrastiveFeatures):
        rows += _feature_rows(features)
    return _box("Learned classifier", rows)
