"""How Sphinx builds these pages: ``make docs``."""

import re
import textwrap
from pathlib import Path
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
    "sphinx_gallery.gen_gallery",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_build"]
default_role = "code"
suppress_warnings = ["config.cache"]  # the settings of the gallery hold a function

myst_enable_extensions = ["deflist", "dollarmath"]
myst_heading_anchors = 3

autodoc_typehints = "none"  # the NumPy docstrings give the types
autodoc_member_order = "bysource"
napoleon_google_docstring = False
napoleon_use_rtype = False
# Fields rather than directives: names keep their underscore, and labels_ is not there twice.
napoleon_custom_sections = [("Attributes", "params_style")]

html_theme = "furo"


def figure_scraper(block: Any, variables: dict[str, Any], settings: dict[str, Any]) -> str:
    """Save the figure that a block of an example calls ``figure``; pyplot knows none of them."""
    from matplotlib.figure import Figure
    from sphinx_gallery.scrapers import figure_rst

    figure = variables["example_globals"].get("figure")
    if not isinstance(figure, Figure) or getattr(figure, "saved_by_gallery", False):
        return ""
    path = next(iter(variables["image_path_iterator"]))
    figure.savefig(path, dpi=110)
    figure.saved_by_gallery = True  # type: ignore[attr-defined]
    return str(figure_rst([path], settings["src_dir"]))


sphinx_gallery_conf = {
    "examples_dirs": str(Path(__file__).parents[1] / "examples"),
    "gallery_dirs": "gallery",
    "image_scrapers": (figure_scraper,),
    "reset_modules": (),
    "download_all_examples": False,
    "show_memory": False,
    "min_reported_time": 1e9,
    "write_computation_times": False,
    "capture_repr": ("_repr_html_",),
    "abort_on_example_error": False,
    "copyfile_regex": r".*\.rst",
}
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


def without_requests(
    app: Any, what: str, name: str, obj: Any, skip: bool, options: Any
) -> bool | None:
    """Leave out what scikit-learn generates for metadata routing."""
    return True if re.fullmatch(r"set_\w+_request|get_metadata_routing", name) else None


def setup(app: Any) -> None:
    """Run before napoleon, which has the usual priority of 500."""
    app.connect("autodoc-skip-member", without_requests)
    app.connect("autodoc-process-docstring", plain_docstring, priority=100)
