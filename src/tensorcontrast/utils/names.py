"""Names from files and callers: visible in messages, short in lists, never a formula in CSV.

Channels, classes, columns, parameters and file names may hold anything. Three functions make them
safe to show: :func:`visible` for any message, :func:`listed` for several names at once, and
:func:`csv_text` for the cells of a table that a spreadsheet may open.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from itertools import islice
from typing import Any

__all__ = ["csv_text", "from_csv_text", "listed", "visible"]

#: Control, format (bidirectional overrides, invisible characters), surrogates, separators.
_HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}
#: Joiners that Persian, Indic scripts and emoji need.
_JOINERS = "\u200c\u200d"
#: Longest name that a message shows in full.
MAX_NAME = 80
# What spreadsheets take for the beginning of a formula, also after white space that they drop and
# in the full-width forms of East Asian keyboards. Tab and carriage return begin a cell anew.
_FORMULA = "[\\s\ufeff\u200b]*[=+\\-@\uff1d\uff0b\uff0d\uff20]|[\t\r]"
_RAW = re.compile(_FORMULA)
_NEEDS_QUOTE = re.compile(f"'*(?:{_FORMULA})")
_QUOTED = re.compile(f"'+(?:{_FORMULA})")
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)


def visible(text: str, keep: str = "") -> str:
    r"""Return text whose control, direction and other invisible characters are written out.

    Parameters
    ----------
    text : str
        Anything.
    keep : str
        Characters that stay as they are, such as a line end.

    Examples
    --------
    >>> visible("Cz\x1b[2J")
    'Cz\\x1b[2J'
    """
    if text.isprintable():  # no control, format or separator characters
        return text
    return "".join(c if c in keep else _visible(c) for c in text)


def _visible(character: str) -> str:
    if character in _JOINERS or unicodedata.category(character) not in _HIDDEN:
        return character
    short = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}
    code = ord(character)
    return short.get(character) or (f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}")


def listed(items: Any, most: int = 12) -> str:
    """Return the first names for a message, each quoted and cut where it is long.

    Examples
    --------
    >>> listed(["Cz", "Pz", "Oz"], most=2)
    "'Cz', 'Pz' and 1 more"
    """
    items = items if hasattr(items, "__len__") else list(items)
    texts = [repr(item) for item in islice(items, most)]
    texts = [text if len(text) <= MAX_NAME else f"{text[:MAX_NAME]}…" for text in texts]
    more = f" and {len(items) - most} more" if len(items) > most else ""
    return (", ".join(texts) + more) or "(none)"


def csv_text(text: str) -> str:
    """Return the text of a CSV cell that no spreadsheet takes for a formula.

    A single quote goes before text that would begin one; :func:`from_csv_text` takes it away
    again. Numbers stay numbers.

    Examples
    --------
    >>> csv_text("=1+1"), csv_text("-1.5"), csv_text("rest")
    ("'=1+1", '-1.5', 'rest')
    """
    return f"'{text}" if _NEEDS_QUOTE.match(text) and not _NUMBER.fullmatch(text) else text


def from_csv_text(texts: Sequence[str]) -> list[str]:
    """Return the texts of a CSV column as they were before :func:`csv_text`.

    A column that holds a formula without a quote was not written by it and is left alone.

    Examples
    --------
    >>> from_csv_text(["'=1+1", "rest"])
    ['=1+1', 'rest']
    """
    if any(_RAW.match(text) and not _NUMBER.fullmatch(text) for text in texts):
        return list(texts)
    return [
        text[1:] if _QUOTED.match(text) and not _NUMBER.fullmatch(text[1:]) else text
        for text in texts
    ]
