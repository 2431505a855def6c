"""Groups (subjects) from the names of files, by a pattern."""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from tensorcontrast.errors import FileError, InvalidInputError

__all__ = ["groups_by_name", "is_pattern", "parts_by_name"]


def is_pattern(text: str | None) -> bool:
    """Whether text is a pattern for names of files, such as ``(?P<group>S[0-9]+)``."""
    return text is not None and "(?P<" in text


def groups_by_name(pattern: str, names: Iterable[str]) -> npt.NDArray[np.str_]:
    r"""Group of each file: what ``(?P<group>...)`` matches anywhere in its name.

    Parameters
    ----------
    pattern : str
        A regular expression with a named group ``group``.
    names : iterable of str
        Names of files. One that the pattern does not match is an error.

    Examples
    --------
    >>> groups_by_name(r"(?P<group>S\d+)", ["S1-night1.edf", "S1-night2.edf", "S2-night1.edf"])
    array(['S1', 'S1', 'S2'], dtype='<U2')
    """
    parts = parts_by_name(pattern, names)
    if "group" not in parts:
        raise InvalidInputError(f"groups={pattern!r} has no part named 'group'; add (?P<group>...)")
    return parts["group"]


def parts_by_name(pattern: str, names: Iterable[str]) -> dict[str, npt.NDArray[np.str_]]:
    r"""Match each file's name: the part ``group``, and all others that the pattern names.

    Examples
    --------
    >>> parts_by_name(r"(?P<group>S\d+)-(?P<session>\w+)", ["S1-a.csv", "S2-b.csv"])["session"]
    array(['a', 'b'], dtype='<U1')
    """
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise InvalidInputError(
            f"groups={pattern!r} is not a regular expression ({error}); write one such as "
            r"'(?P<group>S\d+)'"
        ) from error
    if not {"group", "label"} & set(compiled.groupindex):
        raise InvalidInputError(
            f"groups={pattern!r} has no part named 'group' or 'label'; write one such as "
            "'(?P<group>S\\d+)'"
        )
    found: list[dict[str, str]] = []
    for name in names:
        match = compiled.search(name)
        if match is None or not all(
            match[part] for part in ("group", "label") if part in compiled.groupindex
        ):
            raise FileError(
                f"{name}: the name does not match groups={pattern!r}; change the pattern, or leave "
                "the file out"
            )
        found.append({part: value or "" for part, value in match.groupdict().items()})
    return {
        part: np.array([one[part] for one in found], dtype=np.str_) for part in compiled.groupindex
    }
