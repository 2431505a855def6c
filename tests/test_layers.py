"""Imports follow the data: a folder uses what comes before it, never what comes after."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "tensorcontrast"

#: From the first to the last; a folder may import those before it and itself.
LAYERS = (
    "errors",
    "utils",
    "cp",
    "sources",
    "recordings",
    "augment",
    "tensorize",
    "io",
    "solvers",
    "decompose",
    "reader",
    "features",
    "classify",
    "live",
    "explain",
    "export",
    "readers",
    "datasets",
    "distributed",
    "neural",
    "evaluate",
    "report",
    "labelling",
    "cli",
)
#: Old import paths, and the front door.
FORWARDS = {"__init__", "__main__", "conversions", "model_io", "spectrogram"}


def layer(module):
    return module.split(".")[1] if module.startswith("tensorcontrast.") else None


def imports_at_load(tree):
    """Modules that are imported when the file is: not those inside functions or for types alone."""
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module:
            if node.module == "tensorcontrast":
                yield from (f"tensorcontrast.{name.name}" for name in node.names)
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names)


FILES = [
    p for p in sorted(SOURCE.rglob("*.py")) if p.relative_to(SOURCE).parts[0][:-3] not in FORWARDS
]


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.relative_to(SOURCE).as_posix())
def test_no_file_imports_a_later_layer(path):
    own = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    allowed = {*LAYERS[: LAYERS.index(own) + 1], *LAYERS[:2]}  # errors and utils are one layer
    used = {layer(module) for module in imports_at_load(ast.parse(path.read_text("utf-8")))}
    assert used - {None} <= allowed


@pytest.mark.parametrize("path", [p for p in FILES if p.parent.name == "cp"], ids=lambda p: p.stem)
def test_the_algebra_knows_no_estimator(path):
    text = path.read_text("utf-8")
    tree = ast.parse(text)
    names = {a.arg for node in ast.walk(tree) if isinstance(node, ast.arguments) for a in node.args}
    assert not names & {"model", "estimator"}
    everywhere = {n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and n.module}
    assert {layer(module) for module in everywhere} <= {None, "errors", "utils", "cp"}
