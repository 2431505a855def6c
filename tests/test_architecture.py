"""docs/architecture.md names every file and every equation, and nothing that is not there."""

import re
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "tensorcontrast"
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def named():
    """Files that the table of folders names."""
    table = PAGE.split("## Folders")[1].split("## Where an equation lives")[0]
    for folder, files in re.findall(r"(?m)^\| `?([\w/.]+?)`? \|[^|]*\|([^|]*)\|$", table):
        if folder.endswith(".py"):
            yield folder
        where = "" if folder == "." else folder
        yield from (f"{where}{name}.py" for name in re.findall(r"`(\w+)`", files))


def test_the_table_of_folders_names_every_file():
    there = {p.relative_to(SOURCE).as_posix() for p in SOURCE.rglob("*.py")}
    assert sorted(named()) == sorted(p for p in there if not p.endswith("__init__.py"))


EQUATIONS = re.findall(r"(?m)^\| (E\d+) \| [^|]* \| (.*) \|$", PAGE)


def test_every_equation_has_a_place():
    assert [name for name, _ in EQUATIONS] == [f"E{k}" for k in range(1, 24)]


@pytest.mark.parametrize(("equation", "places"), EQUATIONS, ids=lambda text: text[:4])
def test_functions_of_equations_exist_and_name_them(equation, places):
    for place in re.findall(r"`([\w.]+)`", places):
        module, name = place.rsplit(".", 1)
        assert hasattr(import_module(f"tensorcontrast.{module}"), name), place


def test_a_fit_is_told_in_at_most_twelve_steps():
    steps = re.findall(r"(?m)^\d+\. ", PAGE.split("## How a fit runs")[1])
    assert 5 <= len(steps) <= 12


def test_tests_have_the_folders_of_the_source():
    folders = {p.name for p in SOURCE.iterdir() if p.is_dir() and any(p.glob("*.py"))}
    tests = {p.name for p in (ROOT / "tests").iterdir() if p.is_dir()}
    assert folders <= tests
