"""Committed results are of this version, and the page names those of earlier sources."""

from __future__ import annotations

from benchmarks import stamps

import tensorcontrast


def test_results_are_of_this_version() -> None:
    found = stamps.stamps()
    assert found
    other = {name: v for name, (v, _) in found.items() if v != tensorcontrast.__version__}
    assert not other, f"run these benchmarks again with {tensorcontrast.__version__}: {other}"


def test_the_page_names_results_of_earlier_sources() -> None:
    page = stamps.PAGE.read_text(encoding="utf-8")
    assert stamps.listed(page) == stamps.earlier(), "run python -m benchmarks.stamps"


def test_prose_does_not_change_the_digest() -> None:
    plain = "def f(x):\n    return x + 1\n"
    told = '"""A module."""\n# a comment\ndef f(x):\n    """Add one."""\n    return (x + 1)\n'
    assert stamps.code(plain) == stamps.code(told)
    assert stamps.code(plain) != stamps.code(plain.replace("1", "2"))
    assert len(stamps.digest()) == 16
