"""Small charts of components as SVG: bars over channels and classes, lines over Hz and seconds.

They carry classes and no inline style, so that the page's style sheet, theme and security policy
hold for them too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorcontrast.report.components import Component, time_axis_label
from tensorcontrast.report.text import html_text, plain, shortened

__all__ = ["component_charts"]

Array = NDArray[Any]

WIDTH, HEIGHT = 260, 150
#: Channels and classes that have a bar; the rest is counted.
MOST_BARS = 12


def component_charts(c: Component) -> list[tuple[str, str]]:
    """Return title and ``<svg>`` of each chart of a component."""
    charts = [
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


def _line(at: Array, values: Array, label: str, kind: str) -> str:
    left, top, bottom = 36.0, 8.0, HEIGHT - 30.0
    low, high = min(0.0, float(values.min())), max(0.0, float(values.max()))
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
