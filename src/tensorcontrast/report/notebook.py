"""What notebooks show of recordings and fitted models: a small table and a small picture.

Plain HTML and SVG with inline style: no script, no style sheet, nothing that is fetched. Text and
axes have the colour of the page, so that they are legible on light and on dark ones.
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

#: Windows, channels of each, and components that are drawn.
MAX_WINDOWS, MAX_CHANNELS, MAX_COMPONENTS = 3, 6, 4
#: Classes whose windows are counted, and channels that are named; the others are counted.
MAX_NAMES = 12
#: Values of a longer signal that are drawn as one point.
MAX_POINTS = 160
#: Bars of one profile; longer ones are lines.
MAX_BARS = 40
#: Points of a window that are read for a picture, at most.
MAX_VALUES = 200_000

#: At least 3:1 on white and on black.
BLUE, ORANGE = "#2f8fd0", "#d06a1e"
_BOX = (
    "display:inline-block;max-width:100%;box-sizing:border-box;overflow-x:auto;margin:2px 0;"
    "padding:8px 12px;border:1px solid rgba(128,128,128,.45);border-radius:6px;color:inherit;"
    "font:13px/1.45 system-ui,sans-serif;text-align:left"
)
_CELL = "padding:1px 14px 1px 0;text-align:left;vertical-align:top;border:0;background:none"
_NAME = _CELL + ";font-weight:400;opacity:.75;white-space:nowrap"


def recordings_html(rec: Any) -> str:
    """Return a table of what recordings hold, and a picture of a few windows.

    Parameters
    ----------
    rec : Recordings or StoredRecordings
        Not changed; at most three windows are read, of a store none.
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
    return _box(title, rows, _window_pictures(rec))


def learned_html(model: Any) -> str:
    """Return a table and a picture of what an estimator has learned; "" before it is fitted.

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
        return _box("Learned features", _feature_rows(model), _feature_pictures(model))
    if isinstance(model, CPEstimator):
        return _box("Learned components", _component_rows(model), _factor_pictures(model))
    return ""


# ------------------------------------------------------------------------------------ tables


def _box(title: str, rows: Iterable[tuple[str, str]], pictures: str = "") -> str:
    """Rows are names and values that are HTML already."""
    cells = "".join(
        f'<tr style="background:none"><th scope="row" style="{_NAME}">{html_text(name)}</th>'
        f'<td style="{_CELL}">{value}</td></tr>'
        for name, value in rows
    )
    return (
        f'<div class="tensorcontrast" style="{_BOX}"><strong>{html_text(title, 80)}</strong>'
        '<table style="border-collapse:collapse;border:0;margin:4px 0;font:inherit;color:inherit">'
        f"<tbody>{cells}</tbody></table>{pictures}</div>"
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
    picture = ""
    if isinstance(features, ContrastiveFeatures):
        rows += _feature_rows(features)
        picture = _feature_pictures(features)
    return _box("Learned classifier", rows, picture)


# ---------------------------------------------------------------------------------- pictures


def _window_pictures(rec: Any) -> str:
    """Draw a few windows of recordings that are in memory or in a mapped file."""
    n_channels, n_times = rec.X.shape[1:]
    if not isinstance(rec.X, np.ndarray) or not n_channels * n_times:
        return ""
    drawn = min(n_channels, MAX_CHANNELS, max(1, MAX_VALUES // n_times))
    pictures = []
    for row in _some_windows(rec):
        signals = np.asarray(rec.X[row, :drawn, : MAX_VALUES // drawn], dtype=np.float64)
        caption = f"window {row}"
        if rec.y is not None and rec.y[row] >= 0:
            caption += f": {_class_names(rec)[int(rec.y[row])]}"
        pictures.append(_figure(_traces(signals, caption), caption))
    left = f"; first {drawn} of {n_channels:,} channels" if drawn < n_channels else ""
    return _row(pictures, f"{len(pictures)} windows, each channel in its own scale{left}")


def _some_windows(rec: Any) -> list[int]:
    """Return the first window of the first classes; else windows evenly spaced."""
    n = len(rec.X)
    if rec.y is not None:
        codes = np.asarray(rec.y)
        present = np.unique(codes[codes >= 0])[:MAX_WINDOWS]
        if len(present) >= 2:
            return [int(np.flatnonzero(codes == code)[0]) for code in present]
    return sorted({int(k) for k in np.linspace(0, n - 1, min(n, MAX_WINDOWS))})


def _feature_pictures(model: ContrastiveFeatures) -> str:
    """Draw the heaviest components, with what their features follow."""
    if not isinstance(model.decompose_, CPEstimator):
        return ""
    pictures = []
    for part in describe_components(model, n_components=MAX_COMPONENTS):
        profiles = [part.channel_weights, part.frequency_profile, part.time_profile]
        sentence = part.sentence.split(" Of its variance")[0]
        caption = f"component_{part.index} {sentence}"
        if all(len(profile) for profile in profiles):
            pictures.append(_figure(_profiles(profiles, caption), caption))
        else:
            pictures.append(_figure("", caption))
    last = "quantiles over time"
    spectrogram = model.spectrogram_
    if spectrogram is not None and spectrogram.n_quantiles_ is None:
        last = "times"
    return _row(
        pictures,
        f"The {len(pictures)} heaviest components: channels, frequencies and {last}",
    )


def _factor_pictures(model: CPEstimator) -> str:
    """Draw the factors of the heaviest components, of the first block."""
    factors: list[Any] = list(model.factors_[0] if model.block_dims_ else model.factors_)
    pictures = []
    for r in range(min(model.rank_, MAX_COMPONENTS)):
        caption = f"component_{r}, weight {float(model.weights_[r]):.3g}"
        profiles = [np.asarray(U, dtype=np.float64)[:, r] for U in factors[:4]]
        pictures.append(_figure(_profiles(profiles, caption), caption))
    modes = " × ".join(str(len(U)) for U in factors[:4])
    return _row(
        pictures, f"The {len(pictures)} heaviest components: one profile per mode ({modes})"
    )


def _figure(svg: str, caption: str) -> str:
    return (
        '<figure style="display:inline-block;width:190px;margin:2px 12px 2px 0;'
        f'vertical-align:top">{svg}<figcaption style="font-size:11px;line-height:1.3;'
        f'overflow-wrap:anywhere">{html_text(shortened(caption, 140))}</figcaption></figure>'
    )


def _row(pictures: Sequence[str], note: str) -> str:
    if not pictures:
        return ""
    return (
        f'<div style="max-width:840px">{"".join(pictures)}</div>'
        f'<div style="font-size:11px;opacity:.75">{html_text(note)}</div>'
    )


def _svg(parts: str, spoken: str, height: float) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 190 {height:.0f}" width="190" '
        f'height="{height:.0f}" role="img" aria-label="{html_text(spoken, 160)}" fill="none">'
        f"{parts}</svg>"
    )


def _traces(signals: Array, spoken: str) -> str:
    """Draw channels over time, one below the other; gaps where values are missing."""
    height = 16.0 if len(signals) > 3 else 24.0
    parts = []
    for place, values in enumerate(signals):
        colour = BLUE if place % 2 == 0 else ORANGE
        middle = (place + 0.5) * height
        for path in _paths(_envelope(values), middle, 0.42 * height):
            parts.append(f'<polyline points="{path}" stroke="{colour}" stroke-width="1"/>')
    return _svg("".join(parts), f"signals of {spoken}", height * len(signals))


def _envelope(values: Array) -> Array:
    """Return at most about MAX_POINTS values: least and greatest of each piece, in turn."""
    if len(values) <= MAX_POINTS:
        return values
    pieces = np.array_split(values, MAX_POINTS // 2)
    known = [piece[np.isfinite(piece)] for piece in pieces]
    ends = [(p.min(), p.max()) if len(p) else (np.nan, np.nan) for p in known]
    return np.array(ends).ravel()


def _paths(values: Array, middle: float, half: float) -> list[str]:
    """Return the points of the lines between missing values, from left to right."""
    finite = np.isfinite(values)
    if not finite.any():
        return []
    low, high = float(values[finite].min()), float(values[finite].max())
    spread = high / 2 - low / 2  # of values near the largest number, without overflow
    centred = np.where(finite, values, low) / 2 - (high / 4 + low / 4)
    y = middle - half * (centred / (spread / 2) if spread > 0 else np.zeros(len(values)))
    x = np.linspace(2, 188, len(values)) if len(values) > 1 else np.array([95.0])
    edges = np.flatnonzero(np.diff(finite.astype(int))) + 1
    runs = [run for run in np.split(np.arange(len(values)), edges) if finite[run[0]]]
    return [" ".join(f"{x[k]:.1f},{y[k]:.1f}" for k in run) for run in runs]


def _profiles(profiles: Sequence[Array], spoken: str) -> str:
    """Draw short profiles as bars and long ones as lines, next to each other."""
    width = 190 / len(profiles)
    parts = []
    for place, values in enumerate(profiles):
        left, right = place * width + 3, (place + 1) * width - 5
        low, high = min(0.0, float(values.min())), max(0.0, float(values.max()))
        y = 44 - 40 * (values - low) / ((high - low) or 1.0)
        zero = 44 + 40 * low / ((high - low) or 1.0)
        step = (right - left) / len(values)
        if len(values) > MAX_BARS:
            x = np.linspace(left, right, len(values))
            points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True))
            shape = f'<polyline points="{points}" stroke="{BLUE}" stroke-width="1.2"/>'
        else:
            shape = "".join(
                f'<rect x="{left + (k + 0.15) * step:.1f}" width="{0.7 * step:.1f}" '
                f'y="{min(zero, b):.1f}" height="{max(abs(zero - b), 0.4):.1f}" fill="{BLUE}"/>'
                for k, b in enumerate(y)
            )
        parts.append(
            f'{shape}<line x1="{left:.1f}" x2="{right:.1f}" y1="{zero:.1f}" y2="{zero:.1f}" '
            'stroke="currentColor" stroke-opacity=".5"/>'
        )
    return _svg("".join(parts), f"profiles of {spoken}", 48)
