"""Small charts of features as SVG: bars over channels and classes, lines over Hz and seconds.

They carry classes and no inline style, so that the page's style sheet, theme and security policy
hold for them too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorcontrast.explain import FeatureExplanation
from tensorcontrast.explain.feature import WindowContributions
from tensorcontrast.explain.words import main_channels
from tensorcontrast.report.components import Component, time_axis_label
from tensorcontrast.report.text import html_text, plain, shortened

__all__ = ["component_charts", "window_charts"]

Array = NDArray[Any]

WIDTH, HEIGHT = 260, 150
#: Channels and classes that have a bar; the rest is counted.
MOST_BARS = 12


def component_charts(c: Component) -> list[tuple[str, str]]:
    """Return title and ``<svg>`` of each chart of a feature."""
    charts = _of_pattern(c) if c.explanation is None else _of_feature(c.explanation)
    if c.class_means is not None:
        charts.append(
            (
                "Mean by class",
                _bars(
                    c.classes,
                    c.class_means,
                    "standard deviations",
                    "bar-d",
                    "class means",
                    strong=c.speaks_for,
                ),
            )
        )
    return charts


def _of_pattern(c: Component) -> list[tuple[str, str]]:
    """Charts of a component whose feature is not explained."""
    return [
        ("Channels", _bars(c.channels, c.channel_weights, "weight", "bar-a", "channel weights")),
        (
            "Frequencies",
            _line(c.frequencies, c.frequency_profile, f"frequency ({c.frequency_unit})", "line-b"),
        ),
        (
            "Quantiles over time" if c.by_strength else "Time",
            _line(c.times, c.time_profile, time_axis_label(c.by_strength, c.time_unit), "line-c"),
        ),
    ]


def _of_feature(e: FeatureExplanation) -> list[tuple[str, str]]:
    """Charts of a whole feature: channels, frequencies, times, what raises it, kernels."""
    frequency = f"frequency ({e.frequency_unit})"
    charts = [
        (
            "Channels, % of variance",
            _bars(e.channels, 100 * e.channel_share, "% of variance", "bar-a", "channel shares"),
        ),
        (
            "Frequencies, % of variance",
            _line(
                e.frequencies,
                100 * e.frequency_share,
                frequency,
                "line-b",
                other=100 * e.convolution_share if len(e.blocks) > 1 else None,
            ),
        ),
    ]
    if e.times is not None and e.time_share is not None:
        label = f"time in the window ({e.time_unit})"
        charts.append(("Time, % of variance", _line(e.times, 100 * e.time_share, label, "line-c")))
    elif len(e.panel):
        at, label = e.panel, f"time in the window ({e.time_unit})"
        if e.by_quantile:
            at, label = 100 * e.panel, "quantile over time (%)"
        title = "Spectrogram, % of variance"
        charts.append((title, _line(at, 100 * e.panel_share, label, "line-c")))
    names, shares = time_scales(e)
    charts.append(
        ("Time scale, % of variance", _bars(names, shares, "% of variance", "bar-b", "time scales"))
    )
    charts.append(
        (
            "What raises it: amplitude × 2",
            _line(e.frequencies, e.frequency_gain, f"{frequency}; change in sd", "line-b"),
        )
    )
    if e.kernels:
        charts.append(("Kernels that matter most", _kernels(e)))
    return charts


def time_scales(e: FeatureExplanation) -> tuple[list[str], Array]:
    """Names and shares (%) of the lengths of kernels and of frames."""
    names = [f"{_length(v, e.time_unit)}" for v in e.scales]
    shares = list(100 * e.scale_share)
    if e.frame_length is not None and e.frame_share is not None:
        names.append(f"{_length(e.frame_length, e.time_unit)} frame")
        shares.append(100 * e.frame_share)
    return names, np.array(shares)


def _length(value: float, unit: str) -> str:
    if unit == "s" and value < 1:
        return f"{1000 * value:.3g} ms"
    return f"{value:.3g} {unit}"


def _bars(
    names: Sequence[str],
    values: Array,
    unit: str,
    kind: str,
    what: str,
    *,
    strong: int | None = None,
) -> str:
    keep = list(range(len(values)))
    if len(values) > MOST_BARS:
        order = np.argsort(-np.abs(values), kind="stable")
        keep = sorted(int(k) for k in order[: MOST_BARS - 1])
    if len(keep) < len(values):
        unit += f" ({len(values) - len(keep)} smaller left out)"
    row = min(20.0, (HEIGHT - 32) / max(len(keep), 1)) if len(keep) <= 6 else 15.0
    height = 8 + row * len(keep) + 30
    left = 12 + 6.7 * min(max((len(shortened(names[k], 15)) for k in keep), default=1), 15)
    low, high = min(0.0, float(values.min())), max(0.0, float(values.max()))
    ticks = nice_ticks(low, high, 3)

    def x(value: float) -> float:
        return left + (value - low) / ((high - low) or 1.0) * (WIDTH - left - 14)

    bottom = 8 + row * len(keep)
    parts = [
        f'<line class="grid" x1="{x(t):.1f}" x2="{x(t):.1f}" y1="6" y2="{bottom:.1f}"/>'
        f'<text class="tick" x="{x(t):.1f}" y="{bottom + 12:.1f}" text-anchor="middle">'
        f"{number(t)}</text>"
        for t in ticks
    ]
    for line, k in enumerate(keep):
        y = 8 + line * row
        a, b = sorted((x(0.0), x(float(values[k]))))
        name = html_text(shortened(names[k], 15))
        mark = " strong" if strong == k else ""
        parts.append(
            f"<g><title>{html_text(names[k])}: {number(float(values[k]))}</title>"
            f'<text class="tick{mark}" x="{left - 6:.1f}" y="{y + row / 2 + 3.6:.1f}" '
            f'text-anchor="end">{name}</text>'
            f'<rect class="{kind}{mark}" x="{a:.1f}" y="{y + row * 0.14:.1f}" '
            f'width="{max(b - a, 0.6):.1f}" height="{row * 0.72:.1f}"/></g>'
        )
    parts.append(f'<line class="axis" x1="{x(0):.1f}" x2="{x(0):.1f}" y1="6" y2="{bottom:.1f}"/>')
    parts.append(
        f'<text class="label" x="{WIDTH / 2 + 20:.1f}" y="{bottom + 26:.1f}" '
        f'text-anchor="middle">{html_text(unit)}</text>'
    )
    spoken = ", ".join(f"{plain(names[k], 30)} {number(float(values[k]))}" for k in keep)
    return _svg("".join(parts), f"{what}: {spoken}", height)


def _line(at: Array, values: Array, label: str, kind: str, other: Array | None = None) -> str:
    left, top, bottom = 36.0, 8.0, HEIGHT - 30.0
    drawn = values if other is None else np.concatenate([values, other])
    low, high = min(0.0, float(drawn.min())), max(0.0, float(drawn.max()))
    y_ticks = nice_ticks(low, high, 3)
    first, last = float(at[0]), float(at[-1])
    x_ticks = nice_ticks(first, last, 4)

    def x(value: float) -> float:
        return left + (value - first) / ((last - first) or 1.0) * (WIDTH - left - 12)

    def y(value: float) -> float:
        return bottom - (value - low) / ((high - low) or 1.0) * (bottom - top)

    parts = [
        f'<line class="grid" x1="{left}" x2="{WIDTH - 12}" y1="{y(t):.1f}" y2="{y(t):.1f}"/>'
        f'<text class="tick" x="{left - 6:.1f}" y="{y(t) + 3.6:.1f}" text-anchor="end">'
        f"{number(t)}</text>"
        for t in y_ticks
    ]
    parts.append(
        f'<line class="axis" x1="{left}" x2="{WIDTH - 12}" y1="{y(0):.1f}" y2="{y(0):.1f}"/>'
    )
    for t in x_ticks:
        parts.append(
            f'<text class="tick" x="{x(t):.1f}" y="{bottom + 13:.1f}" text-anchor="middle">'
            f"{number(t)}</text>"
        )
    points = [(x(float(a)), y(float(v))) for a, v in zip(at, values, strict=True)]
    if len(points) > 1:
        path = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
        parts.append(f'<polyline class="{kind}" points="{path}"/>')
    if other is not None and len(points) > 1:
        path = " ".join(
            f"{x(float(a)):.1f},{y(float(v)):.1f}" for a, v in zip(at, other, strict=True)
        )
        parts.append(f'<polyline class="line-e" points="{path}"/>')
        parts.append(
            f'<text class="label" x="{WIDTH - 12}" y="{top + 8}" text-anchor="end">'
            "dashed: kernels alone</text>"
        )
    if len(points) < 30:
        parts += [f'<circle class="dot-{kind[-1]}" cx="{a:.1f}" cy="{b:.1f}" r="2.2"/>'
                  for a, b in points]  # fmt: skip
    parts.append(
        f'<text class="label" x="{(left + WIDTH - 12) / 2:.1f}" y="{bottom + 27:.1f}" '
        f'text-anchor="middle">{html_text(label)}</text>'
    )
    peak = number(float(at[int(np.argmax(np.abs(values)))]))
    spoken = f"profile over {label}, largest at {peak}"
    return _svg("".join(parts), spoken, HEIGHT)


def _kernels(e: FeatureExplanation) -> str:
    """Draw the taps of each kernel over its own time axis, with its channels and share."""
    lane = 46.0
    longest = max(float(k.times[-1]) for k in e.kernels) or 1.0
    scale, unit = kernel_unit(longest, e.time_unit)
    longest *= scale
    left, right = 12.0, WIDTH - 12.0

    def x(value: float) -> float:
        return left + (value + longest) / (2 * longest) * (right - left)

    parts = []
    for row, kernel in enumerate(e.kernels):
        top = 4 + row * lane
        points = [
            (x(float(t) * scale), top + lane - 6 - (float(w) + 1) / 3 * 22)
            for t, w in zip(kernel.times, kernel.weights, strict=True)
        ]
        path = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
        channels = ", ".join(plain(name, 12) for name in kernel.channels[:3])
        if len(kernel.channels) > 3:
            channels += f" + {len(kernel.channels) - 3}"
        zero = top + lane - 6 - 22 / 3
        kind = "b" if kernel.raises else "a"
        dots = "".join(
            f'<circle class="dot-{kind}" cx="{a:.1f}" cy="{b:.1f}" r="1.8"/>' for a, b in points
        )
        parts.append(
            f'<line class="grid" x1="{left}" x2="{right}" y1="{zero:.1f}" y2="{zero:.1f}"/>'
            f'<polyline class="line-{kind}" points="{path}"/>{dots}'
            f'<text class="tick" x="{left}" y="{top + 11:.1f}">{html_text(channels)}</text>'
            f'<text class="tick" x="{right}" y="{top + 11:.1f}" text-anchor="end">'
            f"{'raises' if kernel.raises else 'lowers'}, {number(100 * kernel.share)} %</text>"
        )
    bottom = 4 + lane * len(e.kernels)
    for t in nice_ticks(-longest, longest, 4):
        parts.append(
            f'<text class="tick" x="{x(t):.1f}" y="{bottom + 9:.1f}" text-anchor="middle">'
            f"{number(t)}</text>"
        )
    parts.append(
        f'<text class="label" x="{WIDTH / 2}" y="{bottom + 23:.1f}" text-anchor="middle">'
        f"time from the middle ({unit})</text>"
    )
    spoken = "kernels of " + "; ".join(", ".join(map(plain, k.channels)) for k in e.kernels)
    return _svg("".join(parts), spoken, bottom + 27)


def kernel_unit(longest: float, time_unit: str) -> tuple[float, str]:
    """Return what times of kernels are multiplied with, and their unit: milliseconds below 1 s."""
    return (1000.0, "ms") if time_unit == "s" and longest < 1 else (1.0, time_unit)


# ------------------------------------------------------------------------------ windows

#: Channels of a window that are drawn, and points of each.
MOST_LANES, MOST_POINTS = 3, 160


def window_charts(e: FeatureExplanation) -> list[tuple[str, str]]:
    """Return title and ``<svg>`` of each window, with contributions under the signal."""
    if not e.windows:
        return []
    lanes = [int(i) for i in main_channels(e.channel_share, 1.0)[:MOST_LANES]]
    size = max(float(np.abs(w.contributions[lanes]).max()) for w in e.windows) or 1.0
    return [
        (
            f"{w.role.capitalize()}: window {w.index}, value {number(w.value)}",
            _window(e, w, lanes, size),
        )
        for w in e.windows
    ]


def _window(
    e: FeatureExplanation, w: WindowContributions, lanes: Sequence[int], size: float
) -> str:
    left, right, wave, band, gap = 6.0, WIDTH - 6.0, 32.0, 26.0, 13.0
    lane = wave + band + gap
    n_times = w.signal.shape[1]
    step = e.times[-1] + e.times[0] if e.times is not None else float(n_times)
    parts = []
    for row, c in enumerate(lanes):
        top = 2 + row * lane
        at, values = thinned(np.asarray(w.signal[c], dtype=np.float64), MOST_POINTS)
        low, high = float(values.min()), float(values.max())
        height = (high - low) or 1.0
        path = " ".join(
            f"{left + a / max(n_times - 1, 1) * (right - left):.1f},"
            f"{top + gap + wave - 2 - (v - low) / height * (wave - 4):.1f}"
            for a, v in zip(at, values, strict=True)
        )
        middle = top + gap + wave + band / 2
        own = w.contributions[c]
        parts.append(
            f'<text class="tick" x="{left}" y="{top + 10:.1f}"><tspan class="strong">'
            f"{html_text(plain(e.channels[c], 14))}</tspan> "
            f"{html_text(signal_range(low, high, e.units, c))}</text>"
            f'<text class="tick" x="{right}" y="{top + 10:.1f}" text-anchor="end">'
            f"adds {number(float(own.sum()))}</text>"
            f'<polyline class="line-d" points="{path}"/>'
            f'<line class="grid" x1="{left}" x2="{right}" y1="{middle:.1f}" y2="{middle:.1f}"/>'
        )
        for kind, part in (("up", np.maximum(own, 0)), ("down", np.minimum(own, 0))):
            if not part.any():
                continue
            width = (right - left) / len(part)
            curve = "".join(
                f"L{left + (k + 0.5) * width:.1f} {middle - float(v) / size * band / 2:.1f}"
                for k, v in enumerate(part)
            )
            parts.append(
                f'<path class="{kind}" d="M{left} {middle:.1f}{curve}L{right} {middle:.1f}Z"/>'
            )
    bottom = 2 + lane * len(lanes)
    for t in nice_ticks(0.0, float(step), 4):
        x = left + t / float(step) * (right - left)
        anchor = "start" if t == 0 else "end" if t > 0.97 * step else "middle"
        parts.append(
            f'<text class="tick" x="{x:.1f}" y="{bottom + 10:.1f}" text-anchor="{anchor}">'
            f"{number(t)}</text>"
        )
    rest = w.value - float(w.contributions[list(lanes)].sum())
    more = len(e.channels) - len(lanes)
    others = f"; {more} more channels add {number(rest)}" if more else ""
    parts.append(
        f'<text class="label" x="{WIDTH / 2}" y="{bottom + 24:.1f}" text-anchor="middle">'
        f"time ({html_text(e.time_unit)}){others}</text>"
    )
    spoken = f"window {w.index}: " + ", ".join(
        f"{plain(e.channels[c], 30)} adds {number(float(w.contributions[c].sum()))}" for c in lanes
    )
    return _svg("".join(parts), spoken, bottom + 28)


def signal_range(low: float, high: float, units: Sequence[str], channel: int) -> str:
    """Return the range of a signal with its unit, where that is known."""
    unit = units[channel] if channel < len(units) else ""
    return f"{number(low)} to {number(high)} {plain(unit, 8)}".strip()


def thinned(values: Array, most: int) -> tuple[Array, Array]:
    """Return places and values of at most so many points: smallest and largest of each interval.

    Examples
    --------
    >>> at, values = thinned(np.array([0.0, 3.0, 1.0, 2.0, -1.0, 0.0]), 4)
    >>> at.tolist(), values.tolist()
    ([0, 1, 3, 4], [0.0, 3.0, 2.0, -1.0])
    """
    if len(values) <= most:
        return np.arange(len(values)), values
    keep = []
    for part in np.array_split(np.arange(len(values)), most // 2):
        keep += sorted({int(part[values[part].argmin()]), int(part[values[part].argmax()])})
    return np.array(keep), values[keep]


def _svg(inside: str, spoken: str, height: float) -> str:
    return (
        f'<svg class="chart" viewBox="0 0 {WIDTH} {height:.0f}" role="img" '
        f'aria-label="{html_text(spoken)}">{inside}</svg>'
    )


def nice_ticks(low: float, high: float, count: int) -> list[float]:
    """Return round numbers from low to high, about so many steps of 1, 2 or 5.

    Examples
    --------
    >>> nice_ticks(-0.1, 0.83, 3)
    [0.0, 0.5]
    """
    span = high - low
    if not math.isfinite(span) or span <= 0:
        return [low]
    rough = span / count
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(s * power for s in (1, 2, 5, 10) if s * power >= rough * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(k * step, 12) + 0.0 for k in range(first, last + 1)]


def number(value: float) -> str:
    """Return a short number with a real minus sign."""
    return f"{value:.3g}".replace("-", "−")
