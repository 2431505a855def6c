"""The report as Markdown, with figures as files next to it."""

from __future__ import annotations

from collections.abc import Sequence

from tensorcontrast.report import diagnosis
from tensorcontrast.report.components import Component, features_lead, order_label
from tensorcontrast.report.data import FigureItem, ModelView, ReportData
from tensorcontrast.report.text import markdown_code, markdown_text

__all__ = ["render_markdown"]


def render_markdown(report: ReportData, figures: str | None = "figures") -> str:
    """Return the report; ``figures`` is the folder of the images, relative to the file."""
    out = [f"# {markdown_text(report.title)}"]
    out += [markdown_text(paragraph) for paragraph in report.question]
    out.append(_facts(report.facts))
    out += _images(report.figures, figures)
    for view in report.views:
        out += _view(view, figures)
    if report.diagnosis is not None:
        out += [f"## {diagnosis.TITLE}", *diagnosis.section_markdown(report.diagnosis)]
    if report.notes:
        out += ["## Notes", _list(report.notes)]
    out.append("## How to get this again")
    if report.command:
        out.append(markdown_code(report.command))
    if report.config:
        out += ["### Configuration", markdown_code(report.config)]
    if report.environment:
        out += ["### Environment", _list([f"{a}: {b}" for a, b in report.environment])]
    return "\n\n".join(part for part in out if part) + "\n"


def _view(view: ModelView, figures: str | None) -> list[str]:
    out = [f"## {markdown_text(view.title)}", _facts(view.facts)]
    if view.components:
        out.append("### What each feature is")
        out.append(markdown_text(features_lead(view.components)))
        out.append(f"Ordered {order_label(view.components)}.")
        out.append(_components(view.components))
    return [*out, *_images(view.figures, figures), _list(view.notes)]


def _components(components: Sequence[Component]) -> str:
    lines = ["| feature | what it is |", "| ---: | --- |"]
    lines += [f"| {c.index} | {markdown_text(c.sentence)} |" for c in components]
    return "\n".join(lines)


def _images(items: Sequence[FigureItem], folder: str | None) -> list[str]:
    out = []
    for item in items:
        if folder is not None:
            out.append(f"![{markdown_text(item.title)}]({folder}/{item.name}.png)")
            out.append(f"*{markdown_text(item.title)}.* {markdown_text(item.caption)}")
    return out


def _facts(facts: Sequence[tuple[str, str]]) -> str:
    return " · ".join(f"{markdown_text(a)}: **{markdown_text(b)}**" for a, b in facts)


def _list(lines: Sequence[str]) -> str:
    return "\n".join(f"- {markdown_text(line)}" for line in lines)
