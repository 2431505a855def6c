"""Names from files as text: nothing in them is ever markup, mathematics or a terminal command.

Channels, classes, subjects and file names come from files of unknown origin. Every place that
shows one goes through the function for its medium here.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable
from itertools import takewhile
from typing import Any

from tensorcontrast.utils.names import visible

__all__ = [
    "figure_text",
    "figure_texts",
    "html_text",
    "json_block",
    "markdown_text",
    "plain",
    "shortened",
]

_MARKDOWN = re.compile(r"([\\`*_\[\]|~&$^])")


def plain(text: object, limit: int | None = None) -> str:
    r"""Return text that is safe in a terminal, a log or a file name in a message.

    Control characters and escapes become visible (``\x1b``), as do line breaks, direction
    overrides and other invisible characters.

    Parameters
    ----------
    text : object
        Anything with a ``str``; None is empty.
    limit : int, optional
        Most characters; longer text ends in "…".

    Examples
    --------
    >>> plain("Cz\x1b[2J")
    'Cz\\x1b[2J'
    >>> plain("a very long name of a channel", limit=10)
    'a very lo…'
    """
    out = visible("" if text is None else str(text))
    if limit is not None and len(out) > limit:
        out = out[: max(limit - 1, 0)] + "…"
    return out


def shortened(text: object, limit: int) -> str:
    """Return :func:`plain` text of at most so many characters, beginning and end kept.

    Long names of one file differ at their ends as often as not.

    Examples
    --------
    >>> shortened("accelerometer, left wrist, x", 14)
    'acceler…ist, x'
    """
    out = plain(text)
    if len(out) <= limit:
        return out
    tail = (limit - 1) // 2
    return f"{out[: limit - 1 - tail]}…{out[len(out) - tail :]}"


def html_text(text: object, limit: int | None = None) -> str:
    """Return text for an element or a quoted attribute of HTML or SVG.

    Examples
    --------
    >>> html_text('<img src=x onerror="alert(1)">')
    '&lt;img src=x onerror=&quot;alert(1)&quot;&gt;'
    """
    return html.escape(plain(text, limit), quote=True)


def figure_text(text: object, limit: int | None = 40) -> str:
    r"""Return text for a matplotlib label: a dollar sign is a dollar sign.

    Examples
    --------
    >>> figure_text("$x$")
    '\\$x\\$'
    """
    out = plain(text) if limit is None else shortened(text, limit)
    return out.replace("$", r"\$")


def figure_texts(texts: Iterable[object], limit: int | None = 40) -> list[str]:
    """Return labels of one axis: where shortening makes some equal, what they share is left out.

    Examples
    --------
    >>> figure_texts(["WALKING", "WALKING_UPSTAIRS", "WALKING_DOWNSTAIRS"], 14)
    ['WALKING', '…UPSTAIRS', '…DOWNSTAIRS']
    """
    names = [plain(text) for text in texts]
    out = [figure_text(name, limit) for name in names]
    for text in {text for text in out if out.count(text) > 1}:
        same = [i for i, other in enumerate(out) if other == text]
        columns = zip(*(names[i] for i in same), strict=False)
        shared = sum(1 for _ in takewhile(lambda column: len(set(column)) == 1, columns))
        for i in same:
            if names[i][shared:]:
                out[i] = figure_text(f"…{names[i][shared:]}", limit)
    return out


def markdown_text(text: object, limit: int | None = None) -> str:
    r"""Return text for a line or a table cell of Markdown: no link, image, code, table or HTML.

    Examples
    --------
    >>> print(markdown_text("a|b [c](d) <e>"))
    a\|b \[c\](d) &lt;e&gt;
    """
    out = _MARKDOWN.sub(r"\\\1", plain(text, limit))
    # An address would become a link by itself.
    out = out.replace("<", "&lt;").replace(">", "&gt;").replace("://", "\\://").replace("@", "\\@")
    # At the beginning of a line these would be a title, a list or a rule.
    return re.sub(
        r"^\s*(?:(\d{1,9})(?=[.)](?:\s|$))|(?=[-+=#]))", lambda m: (m[1] or "") + "\\", out
    ).strip()


def json_block(value: Any) -> str:
    r"""Return JSON for a script element of type application/json, which it cannot leave.

    Examples
    --------
    >>> json_block({"name": "</script><script>"})
    '{"name":"\\u003c/script\\u003e\\u003cscript\\u003e"}'
    """
    out = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return out.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
