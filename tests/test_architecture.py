"""docs/architecture.md names every file and every equation, and nothing that is not there."""

import ast
import re
import textwrap
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
    assert [name for name, _ in EQUATIONS] == [f"E{k}" for k in range(1, 25)]


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


UPPER = re.compile(r"_?[A-Z][A-Z0-9]*(_[A-Z0-9]+)*")
CODE = re.compile(r"(?m)^\w+(\.\w+)*\.(_?[A-Z][A-Z0-9_]+) = ")


def patched(code):
    """Constants of modules that a file sets: the line and the name of each."""
    for node in ast.walk(ast.parse(code)):
        names = []
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "setattr":
            values = [a.value for a in node.args[:2] if isinstance(a, ast.Constant)]
            names = [v.rsplit(".", 1)[-1] for v in values if isinstance(v, str)]
        elif isinstance(node, ast.Assign | ast.AugAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [t.attr for t in targets if isinstance(t, ast.Attribute)]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            names = [found.group(2) for found in CODE.finditer(node.value)]  # of a subprocess
        # Arrays have names of one letter.
        yield from ((node.lineno, n) for n in names if len(n) > 2 and UPPER.fullmatch(n))


def test_constants_that_are_patched_are_found():
    code = """
    monkeypatch.setattr(kmeans, "FIRST_ROWS", 50)
    patch.setattr("tensorcontrast.features.IN_MEMORY_VALUES", 0)
    compress.LEAST_VALUES = 0
    run("import x\\nparts.BATCH_BYTES = 1\\n")
    monkeypatch.setattr(os, "replace", fail)
    source.X = model.W = 3
    """
    found = [name for _, name in patched(textwrap.dedent(code))]
    assert sorted(found) == ["BATCH_BYTES", "FIRST_ROWS", "IN_MEMORY_VALUES", "LEAST_VALUES"]


def test_no_test_and_no_benchmark_patches_a_tuning_number():
    files = [p for folder in ("tests", "benchmarks") for p in (ROOT / folder).rglob("*.py")]
    found = [
        f"{path.relative_to(ROOT).as_posix()}:{line} sets {name}"
        for path in files
        for line, name in patched(path.read_text(encoding="utf-8"))
    ]
    assert not found, (
        f"{found}: pass a keyword, or a tuning dataclass with another number, such as "
        "model._tuning = Tuning(max_descent_windows=60); do not patch the constant of a module"
    )
