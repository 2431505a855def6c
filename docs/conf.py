"""How Sphinx builds these pages: ``make docs``."""

import re
import textwrap
from typing import Any

from tensorcontrast import __version__

project = "tensorcontrast"
author = "The tensorcontrast developers"
copyright = author
release = version = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
default_role = "code"

myst_enable_extensions = ["deflist", "dollarmath"]
myst_heading_anchors = 3

autodoc_typehints = "none"  # the NumPy docstrings give the types
autodoc_member_order = "bysource"
napoleon_google_docstring = False
napoleon_use_rtype = False
# Fields rather than directives: names keep their underscore, and labels_ is not there twice.
napoleon_custom_sections = [("Attributes", "params_style")]

html_theme = "furo"
html_title = "tensorcontrast"

# Literals, roles and mathematics, in which nothing is escaped.
_KEEP = re.compile(r"(``.*?``|:\w+:`[^`]*`|`[^`]*`)")
_NAME = re.compile(r"(?<=\w)_(?!\w)")  # factors_ is a name, not the target of a link
_STAR = re.compile(r"(?<![\w*])\*(?=\w)(?![^*]*\w\*(?!\w))")  # *args, but not *emphasis*


def _escape(line: str) -> str:
    parts = _KEEP.split(line)
    for place in range(0, len(parts), 2):
        text = parts[place].replace("|", r"\|")
        parts[place] = _STAR.sub(r"\\*", _NAME.sub(r"\\_", text))
    return "".join(parts)


def plain_docstring(
    app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]
) -> None:
    """Make reStructuredText of docstrings that are written for the terminal.

    Lines that go on after a backslash are joined, and signs that mean something in
    reStructuredText but not in the docstring (``factors_``, ``|Z|``, ``*shape``) are escaped.
    """
    # In a raw docstring such a line begins at the margin, so nothing has been dedented.
    text = re.sub(r"\\\n", "", "\n".join(lines))
    first, _, rest = text.partition("\n")
    new = [first, *textwrap.dedent(rest).split("\n")]
    section, block = "", False
    for number, line in enumerate(new):
        under = new[number + 1] if number + 1 < len(new) else ""
        if line and re.fullmatch(r"-{3,}", under.strip()):
            section = line.strip()
        if line.lstrip().startswith(".. ") or line.endswith("::"):
            block = True
        elif line and not line.startswith(" "):
            block = False
        literal = section == "Examples" or block or re.fullmatch(r"[\w, ]+_", line.strip())
        if not literal:
            # Napoleon escapes the names of parameters and attributes itself.
            names, colon, kind = line.partition(" : ")
            listed = colon and re.fullmatch(r"[\w, ]+", names)
            new[number] = names + colon + _escape(kind) if listed else _escape(line)
    lines[:] = new


def setup(app: Any) -> None:
    """Run before napoleon, which has the usual priority of 500."""
    app.connect("autodoc-process-docstring", plain_docstring, priority=100)
