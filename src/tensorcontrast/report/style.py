"""How figures look: colours that colour-blind eyes tell apart, calm axes, both themes of a page."""

from __future__ import annotations

import functools
import io
import re
import warnings
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, ParamSpec, TypeVar

import matplotlib
from cycler import cycler
from matplotlib.figure import Figure

from tensorcontrast.errors import FileError, InvalidInputError
from tensorcontrast.io.atomic import atomic_write
from tensorcontrast.report.text import html_text

__all__ = ["PALETTE", "InlineSvg", "inline_svg", "new_figure", "save_figure", "styled"]

P = ParamSpec("P")
R = TypeVar("R")

INK, MUTED, GRID, PAPER = "#1f2328", "#5b6570", "#dfe3e8", "#ffffff"
#: Okabe and Ito's colours without their yellow (invisible on white), then olive and grey.
PALETTE = (
    "#0072b2",
    "#d55e00",
    "#009e73",
    "#cc79a7",
    "#e69f00",
    "#56b4e9",
    "#7f7a1a",
    "#77808a",
)
BLUE, VERMILION, GREEN, PINK, ORANGE, SKY, OLIVE, GREY = PALETTE
#: Shapes repeat with another period than the colours, so that 40 classes stay apart.
MARKERS = ("o", "s", "^", "D", "v")
LINES = ("-", (0, (5, 2)), (0, (1, 1.5)), (0, (5, 1.5, 1, 1.5)))

#: What a colour of a figure is called in the style sheet of the page.
TOKENS = {
    INK: "var(--ink)",
    MUTED: "var(--muted)",
    GRID: "var(--line)",
    PAPER: "var(--surface)",
    **{colour: f"var(--c{k})" for k, colour in enumerate(PALETTE)},
}

RC: Any = {
    "axes.axisbelow": True,
    "axes.edgecolor": MUTED,
    "axes.formatter.use_mathtext": False,
    "axes.formatter.useoffset": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.labelcolor": INK,
    "axes.labelsize": 9.5,
    "axes.linewidth": 0.7,
    "axes.prop_cycle": cycler(color=PALETTE),
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlecolor": INK,
    "axes.titlelocation": "left",
    "axes.titlepad": 7.0,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "figure.facecolor": PAPER,
    "font.family": ["DejaVu Sans"],
    "font.size": 9.5,
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "legend.fontsize": 9,
    "legend.frameon": False,
    "lines.linewidth": 1.7,
    "lines.solid_capstyle": "round",
    "savefig.dpi": 160,
    "text.color": INK,
    "text.usetex": False,
    "xtick.color": MUTED,
    "xtick.labelcolor": MUTED,
    "xtick.labelsize": 8.5,
    "xtick.major.size": 3,
    "xtick.major.width": 0.7,
    "ytick.color": MUTED,
    "ytick.labelcolor": MUTED,
    "ytick.labelsize": 8.5,
    "ytick.major.size": 0,
    "ytick.major.width": 0.7,
}


def styled(function: Callable[P, R]) -> Callable[P, R]:
    """Make a plotting function draw in the project's style, whatever the caller's settings are."""

    @functools.wraps(function)
    def drawn(*args: P.args, **kwargs: P.kwargs) -> R:
        with matplotlib.rc_context(RC):
            return function(*args, **kwargs)

    return drawn


def new_figure(
    width: float, height: float, layout: Literal["constrained", "compressed"] = "constrained"
) -> Figure:
    """Return an empty figure (inches) that belongs to no pyplot session.

    "compressed" is for panels of fixed aspect.
    """
    return Figure(figsize=(width, height), layout=layout)


#: Inches of a figure that a phone shows whole.
NARROW = 4.2


def panels(
    count: int,
    size: tuple[float, float],
    margin: tuple[float, float] = (0.0, 0.0),
    *,
    narrow: bool = False,
    layout: Literal["constrained", "compressed"] = "constrained",
    **options: Any,
) -> tuple[Figure, list[Any]]:
    """Return a figure and its panels: side by side, or below each other where it is ``narrow``.

    Parameters
    ----------
    count : int
    size, margin : (width, height) in inches
        Of a panel, and of what is around all of them.
    narrow : bool, default=False
        Make a figure for the screen of a phone.
    layout : {"constrained", "compressed"}
        As in :func:`new_figure`.
    **options
        Of ``Figure.subplots``.
    """
    if narrow:
        figure = new_figure(NARROW, size[1] * count + margin[1], layout)
        axes = figure.subplots(count, 1, squeeze=False, **options)
    else:
        figure = new_figure(size[0] * count + margin[0], size[1] + margin[1], layout)
        axes = figure.subplots(1, count, squeeze=False, **options)
    return figure, list(axes.flat)


def colour(k: int) -> str:
    """Return the colour of the k-th class."""
    return PALETTE[k % len(PALETTE)]


def marker(k: int) -> str:
    """Return the shape of the k-th class."""
    return MARKERS[k % len(MARKERS)]


# ------------------------------------------------------------------------------ files


def save_figure(
    figure: Figure,
    folder: str | Path,
    name: str,
    formats: Sequence[str] = ("png", "svg"),
) -> list[Path]:
    """Write a figure as ``name.png`` and ``name.svg``, each whole or not at all.

    Parameters
    ----------
    figure : Figure
    folder : path
        Made where it is missing.
    name : str
        File name without suffix: letters, digits, ``-`` and ``_``.
    formats : sequence of {"png", "svg", "pdf"}

    Examples
    --------
    >>> import tempfile
    >>> from tensorcontrast.report import plot_graph
    >>> figure = plot_graph([0, 0, 1, 1])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [path.name for path in save_figure(figure, folder, "graph")]
    ['graph.png', 'graph.svg']
    """
    if not re.fullmatch(r"[A-Za-z0-9_-]+", name):
        raise InvalidInputError(f"figure name {name!r} may hold letters, digits, - and _ only")
    unknown = set(formats) - {"png", "svg", "pdf"}
    if unknown:
        raise InvalidInputError(f"formats {sorted(unknown)} are not among png, svg and pdf")
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"{folder}: cannot be made: {error}; choose another folder") from error
    paths = []
    for suffix in formats:
        path = folder / f"{name}.{suffix}"
        with atomic_write(path) as stream:
            stream.write(_render(figure, suffix, fonts="path"))
        paths.append(path)
    return paths


def settle(figure: Figure) -> None:
    """Lay a finished figure out once and for all, so that drawing it again is quick."""
    with _any_script():
        figure.draw_without_rendering()
    figure.set_layout_engine("none")


def _render(figure: Figure, suffix: str, *, fonts: str, transparent: bool = False) -> bytes:
    buffer = io.BytesIO()
    date = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {}}[suffix]
    rc: Any = {"svg.fonttype": fonts, "svg.hashsalt": "tensorcontrast", "pdf.fonttype": 42}
    with matplotlib.rc_context({**rc, "savefig.dpi": RC["savefig.dpi"]}), _any_script():
        figure.savefig(buffer, format=suffix, metadata=date, transparent=transparent)
    return buffer.getvalue()


@contextmanager
def _any_script() -> Iterator[None]:
    """Names in scripts that the font lacks are no reason to warn: browsers have the glyphs."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from", category=UserWarning)
        warnings.filterwarnings("ignore", message="constrained_layout not applied")
        yield


# ------------------------------------------------------------------------------ in a page


class InlineSvg:
    """Figures as SVG inside one page: shared classes in place of style attributes.

    A page whose policy forbids inline styles cannot take matplotlib's SVG as it is. Every style
    becomes a class of the page's own style sheet, colours become its variables (so that figures
    follow the theme), and ids get a prefix of their figure.
    """

    def __init__(self) -> None:
        self._classes: dict[str, str] = {}
        self._widths: list[str] = []
        self._count = 0

    @property
    def css(self) -> str:
        """Rules for all figures so far."""
        rules = [f".{name}{{{rule}}}" for rule, name in self._classes.items()]
        return "\n".join(rules + self._widths)

    def add(self, figure: Figure, title: str) -> str:
        """Return an ``<svg>`` element whose accessible name is ``title``."""
        self._count += 1
        # Wider than this its letters would be larger than the text around it. What is wider than
        # a phone and has no narrow form scrolls there, so that it can be read.
        inches = figure.get_figwidth()
        widest = max(inches * 104, min(inches * 140, 720))
        rule = f".w{self._count}{{max-width:{widest:.0f}px}}"
        if inches > NARROW + 0.2:
            rule += f"@media (max-width:560px){{.w{self._count}{{min-width:{inches * 76:.0f}px}}}}"
        self._widths.append(rule)
        source = _render(figure, "svg", fonts="none", transparent=True).decode("utf-8")
        # The document is matplotlib's own: no doctype or entity of a stranger is parsed here.
        source = re.sub(r"<!DOCTYPE.*?>", "", source, count=1, flags=re.DOTALL)
        root = ElementTree.fromstring(source)
        out: list[str] = []
        self._element(root, out, f"f{self._count}-", root_title=title)
        return "".join(out)

    def _element(
        self, node: ElementTree.Element, out: list[str], prefix: str, root_title: str | None = None
    ) -> None:
        tag = _local(node.tag)
        if tag in {"metadata", "style", "title", "desc"} or (tag == "defs" and not len(node)):
            return
        attributes = {}
        for key, value in node.attrib.items():
            key = _local(key)
            if key == "id":
                value = prefix + value
            elif key == "href" and value.startswith("#"):
                value = "#" + prefix + value[1:]
            elif key in {"clip-path", "fill", "stroke"}:
                value = value.replace("url(#", f"url(#{prefix}")
            elif key == "style":
                key, value = "class", self._class(value.replace("url(#", f"url(#{prefix}"))
            if key not in {"version", "type", "space"}:
                attributes[key] = value
        if root_title is not None:
            attributes = {
                "viewBox": attributes["viewBox"],
                "class": f"figure w{prefix[1:-1]}",
                "role": "img",
                "aria-label": root_title,
            }
        inside = "".join(f' {key}="{html_text(value)}"' for key, value in attributes.items())
        out.append(f"<{tag}{inside}>")
        if tag in {"text", "tspan"} and node.text:
            out.append(html_text(node.text))
        for child in node:
            self._element(child, out, prefix)
        out.append(f"</{tag}>")

    def _class(self, style: str) -> str:
        rules = []
        for part in style.split(";"):
            key, _, value = (piece.strip() for piece in part.partition(":"))
            if not key:
                continue
            if key == "font":  # size and weight stay, the family is the page's
                size = re.search(r"([\d.]+)px", value)
                weight = re.search(r"\b(bold|[5-9]00)\b", value)
                rules.append(f"font-size:{size.group(1) if size else '9.5'}px")
                if weight:
                    rules.append("font-weight:600")
                continue
            if key == "font-family":
                continue
            value = re.sub(r"#[0-9a-fA-F]{6}", lambda m: TOKENS.get(m[0].lower(), m[0]), value)
            rules.append(f"{key}:{value}")
        rule = ";".join(rules)
        return self._classes.setdefault(rule, f"s{len(self._classes)}")


def inline_svg(figure: Figure, title: str) -> tuple[str, str]:
    """Return one figure as an ``<svg>`` element and the rules that it needs."""
    page = InlineSvg()
    return page.add(figure, title), page.css


def _local(name: str) -> str:
    return name.rsplit("}", 1)[-1]
