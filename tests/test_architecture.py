"""docs/architecture.md has a place for every equation, folder and module, and nothing else."""

import re
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "tensorcontrast"
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
EQUATIONS = re.findall(r"(?m)^\| (E\d+) \| [^|]* \| (.*) \|$", PAGE)


def test_every_equation_has_a_place():
    assert [name for name, _ in EQUATIONS] == [f"E{k}" for k in range(1, 25)]


@pytest.mark.parametrize(("equation", "places"), EQUATIONS, ids=lambda text: text[:4])
def test_functions_of_equations_exist(equation, places):
    for place in re.findall(r"`([\w.]+)`", places):
        module, name = place.rsplit(".", 1)
        assert hasattr(import_module(f"tensorcontrast.{module}"), name), place


def test_every_folder_and_module_is_listed():
    listed = set(re.findall(r"(?m)^\| `([\w/]+(?:\.py)?)/?` \|", PAGE))
    there = {p.parent.relative_to(SOURCE).as_posix() for p in SOURCE.rglob("__init__.py")} - {"."}
    modules = {p.name for p in SOURCE.glob("*.py")} - {"__init__.py", "__main__.py"}
    assert {name.rstrip("/") for name in listed} == there | modules


def test_tests_have_the_folders_of_the_source():
    folders = {p.name for p in SOURCE.iterdir() if p.is_dir() and any(p.glob("*.py"))}
    tests = {p.name for p in (ROOT / "tests").iterdir() if p.is_dir()}
    assert folders <= tests
