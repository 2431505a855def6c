"""The report as one HTML file: nothing is fetched, nothing from the data is markup.

Style sheet and script are put into the page, and its security policy names their hashes: a browser
runs and applies these two and nothing else, and makes no request at all.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from importlib import resources
from string import Template

from tensorcontrast.report import diagnosis, scatter
from tensorcontrast.report.charts import component_charts, window_charts
from tensorcontrast.report.components import Component, features_lead, order_label
from tensorcontrast.report.data import FigureItem, ModelView, ReportData
from tensorcontrast.report.style import InlineSvg
from tensorcontrast.report.text import html_text, json_block

__all__ = ["render_html"]

#: Components that are shown at once; the others are one click away.
SHOWN = 6


def render_html(report: ReportData) -> str:
    """Return the page."""
    svg = InlineSvg()
    sections = list(_sections(report, svg))
    body = "\n".join(
        f'<section id="{name}" aria-labelledby="{name}-title">'
        f'<h2 id="{name}-title">{html_text(title)}</h2>\n{content}</section>'
        for name, title, content in sections
    )
    menu = "".join(f'<a href="#{name}">{html_text(title)}</a>' for name, title, _ in sections)
    css = f"{_static('report.css')}\n{svg.css}"
    script = _static("report.js")
    return Template(_static("page.html")).substitute(
        policy=_policy(css, script),
        title=html_text(report.title),
        question="".join(f"<p>{html_text(p)}</p>" for p in report.question),
        facts=_facts(report.facts, "facts"),
        menu=menu,
        body=body,
        css=css,
        script=script,
    )


def _sections(report: ReportData, svg: InlineSvg) -> Iterable[tuple[str, str, str]]:
    if report.figures:
        yield "figures", "Figures", _figures(report.figures, svg)
    for k, view in enumerate(report.views):
        yield f"learned-{k}", view.title, _view(view, k, len(report.views), svg)
    if report.diagnosis is not None:
        yield "trust", diagnosis.TITLE, diagnosis.section_html(report.diagnosis)
    if report.notes:
        yield "notes", "Notes", _list(report.notes, "notes")
    yield "setup", "How to get this again", _setup(report)


def _view(view: ModelView, k: int, n_views: int, svg: InlineSvg) -> str:
    parts = [_facts(view.facts, "facts small")]
    if view.components:
        parts.append("<h3>What each feature is</h3>")
        parts.append(
            f'<p class="lead">{html_text(features_lead(view.components))} They are ordered '
            f"{html_text(order_label(view.components))}.</p>"
        )
        parts.append("".join(map(_component, view.components[:SHOWN])))
        rest = view.components[SHOWN:]
        if rest:
            parts.append(
                f"<details><summary>{len(rest)} more features</summary>"
                f"{''.join(map(_component, rest))}</details>"
            )
    if view.windows is not None:
        parts.append(_scatter(view, k, scatter.MOST_VALUES // n_views))
    if view.figures:
        parts.append(f"<h3>{html_text(view.figures_title)}</h3>")
        parts.append(_figures(view.figures, svg))
    parts.append(_list(view.notes, "notes"))
    return "".join(parts)


def _component(c: Component) -> str:
    charts = _charts(component_charts(c), "charts")
    if c.explanation is not None:
        charts += _charts(window_charts(c.explanation), "windows")
    return (
        f'<article class="component"><h4>Feature {c.index}</h4>'
        f"<p>{html_text(c.sentence[:1].upper() + c.sentence[1:])}</p>{charts}</article>"
    )


def _charts(charts: Sequence[tuple[str, str]], kind: str) -> str:
    inside = "".join(
        f"<figure><figcaption>{html_text(title)}</figcaption>{chart}</figure>"
        for title, chart in charts
    )
    return f'<div class="{kind}">{inside}</div>' if charts else ""


def _scatter(view: ModelView, k: int, values: int) -> str:
    assert view.windows is not None
    data = scatter.pack(view.windows, values=values)
    shown = (
        f"{data['n']} of {data['total']} windows, drawn at random"
        if data["n"] < data["total"]
        else f"{data['n']} windows"
    )
    return Template(_static("scatter.html")).substitute(
        k=k, shown=html_text(shown), data=json_block(data)
    )


def _figures(items: Sequence[FigureItem], svg: InlineSvg) -> str:
    out = []
    small = [item.figure.get_figwidth() <= 6 for item in items]
    waiting = False  # a small figure has the left half and the right half is free
    for k, item in enumerate(items):
        spoken = f"{item.title}. {item.caption}"
        drawn = svg.add(item.figure, spoken)
        if item.narrow is not None:
            drawn = (
                f'<div class="on-wide">{drawn}</div>'
                f'<div class="on-narrow">{svg.add(item.narrow, spoken)}</div>'
            )
        half = small[k] and (waiting or small[k + 1 : k + 2] == [True])
        waiting = half and not waiting
        size = "half" if half else "full"
        out.append(
            f'<figure class="plate {size}"><h4>{html_text(item.title)}</h4>'
            f'<div class="wide" tabindex="0" role="region" aria-label="{html_text(item.title)}">'
            f"{drawn}</div><figcaption>{html_text(item.caption)}</figcaption></figure>"
        )
    return f'<div class="plates">{"".join(out)}</div>' if out else ""


def _setup(report: ReportData) -> str:
    parts = []
    if report.command:
        parts.append(
            '<div class="command"><pre tabindex="0"><code>'
            f"{_lines(report.command)}</code></pre>"
            '<button type="button" class="copy">Copy</button></div>'
        )
    if report.config:
        parts.append(
            "<details><summary>Full configuration</summary>"
            f'<pre tabindex="0"><code>{_lines(report.config)}</code></pre></details>'
        )
    if report.environment:
        rows = "".join(
            f'<tr><th scope="row">{html_text(a)}</th><td>{html_text(b)}</td></tr>'
            for a, b in report.environment
        )
        parts.append(
            f'<details><summary>Environment</summary><table class="plain">{rows}</table></details>'
        )
    return "".join(parts)


def _facts(facts: Sequence[tuple[str, str]], kind: str) -> str:
    items = "".join(f"<div><dt>{html_text(a)}</dt><dd>{html_text(b)}</dd></div>" for a, b in facts)
    return f'<dl class="{kind}">{items}</dl>' if items else ""


def _list(lines: Sequence[str], kind: str) -> str:
    items = "".join(f"<li>{html_text(line)}</li>" for line in lines)
    return f'<ul class="{kind}">{items}</ul>' if items else ""


def _lines(text: str) -> str:
    return "\n".join(html_text(line) for line in text.split("\n"))


def _policy(css: str, script: str) -> str:
    return (
        f"default-src 'none'; style-src '{_hash(css)}'; script-src '{_hash(script)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"sha256-{base64.b64encode(digest).decode('ascii')}"


def _static(name: str) -> str:
    return (resources.files("tensorcontrast.report") / "static" / name).read_text(encoding="utf-8")
