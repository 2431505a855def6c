"""Imports point downwards: a folder uses what comes before it, never what comes after."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "tensorcontrast"

#: From the first to the last; a folder or file may import those before it and itself.
LAYERS = (
    "version",
    "errors",
    "utils",
    "cp",
    "recordings",
    "augment",
    "tensorize",
    "io",
    "readers",
    "solvers",
    "decompose",
    "readout",
    "live",
    "features",
    "classify",
    "explain",
    "export",
    "datasets",
    "distributed",
    "neural",
    "evaluate",
    "report",
    "labelling",
    "cli",
)
#: What is one layer: recordings are read from files, and files become recordings.
JOINED = ({"recordings", "readers"}, {"errors", "utils"})
#: The front door.
ENTRY = {"__init__", "__main__"}


def layer(module):
    return module.split(".")[1] if module.startswith("tensorcontrast.") else None


def imports(tree):
    """Yield the modules that a file imports, at its top or in functions, but not for types."""
    types = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    ]
    skipped = {id(child) for node in types for child in ast.walk(node)}
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.ImportFrom) and node.module:
            if node.module == "tensorcontrast":
                yield from (f"tensorcontrast.{name.name}" for name in node.names)
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names)


FILES = [
    p for p in sorted(SOURCE.rglob("*.py")) if p.relative_to(SOURCE).parts[0][:-3] not in ENTRY
]


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.relative_to(SOURCE).as_posix())
def test_no_file_imports_a_later_layer(path):
    own = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    allowed = set(LAYERS[: LAYERS.index(own) + 1])
    allowed |= set().union(*(group for group in JOINED if own in group))
    used = {layer(module) for module in imports(ast.parse(path.read_text("utf-8")))}
    assert used - {None} <= allowed


@pytest.mark.parametrize("path", [p for p in FILES if p.parent.name == "cp"], ids=lambda p: p.stem)
def test_the_algebra_knows_no_estimator(path):
    tree = ast.parse(path.read_text("utf-8"))
    names = {a.arg for node in ast.walk(tree) if isinstance(node, ast.arguments) for a in node.args}
    assert not names & {"model", "estimator"}
    assert {layer(module) for module in imports(tree)} <= {None, "errors", "utils", "cp"}


@pytest.mark.parametrize("place", ["features", "classify", "explain", "export"])
def test_modules_that_are_loaded_come_before(place):
    """What really happens at an import, optional packages included."""
    code = (
        f"import sys, tensorcontrast.{place}\n"
        "print(*(m for m in sys.modules if m.startswith('tensorcontrast.')))\n"
        "print(*(m for m in ('dask', 'torch', 'onnx', 'matplotlib', 'mne') if m in sys.modules))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    ours, optional = run.stdout.split("\n")[:2]
    loaded = {layer(module) for module in ours.split()}
    assert loaded <= set(LAYERS[: LAYERS.index(place) + 1])
    assert not optional
