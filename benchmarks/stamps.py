"""Which results were measured with which sources: ``python -m benchmarks.stamps``.

Each file in ``benchmarks/results`` has the version of the library and a digest of the sources that
numbers depend on. The digest is that of the code: comments, docstrings and layout do not count.
The command writes the list of files with another digest into docs/howto/benchmarks.md; a test
compares the list with the files.
"""

from __future__ import annotations

import ast
import hashlib
import json
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "docs" / "howto" / "benchmarks.md"
#: Below ``src/tensorcontrast``: from signals to features and classes.
NUMERICAL = (
    "augment",
    "classify",
    "cp",
    "decompose",
    "features.py",
    "readout.py",
    "solvers",
    "tensorize",
)
BEGIN, END = "```text\nresults of earlier sources:\n", "```"


@cache
def digest() -> str:
    """Digest of the code of all numerical sources."""
    out = hashlib.blake2b(digest_size=8)
    base = ROOT / "src" / "tensorcontrast"
    for name in NUMERICAL:
        found = [base / name] if name.endswith(".py") else sorted((base / name).rglob("*.py"))
        for path in found:
            out.update(path.relative_to(base).as_posix().encode())
            out.update(code(path.read_text(encoding="utf-8")).encode())
    return out.hexdigest()


def code(text: str) -> str:
    """Syntax tree of a module without its docstrings, the same in every version of Python."""
    return _written(ast.parse(text))


def _written(node: object) -> str:
    """Return a node as text; fields that are empty are left out, since versions add some."""
    if isinstance(node, ast.AST):
        fields = [
            f"{name}={_written(value)}"
            for name, value in ast.iter_fields(node)
            if value is not None and value != []
        ]
        return f"{type(node).__name__}({','.join(fields)})"
    if isinstance(node, list):
        return f"[{','.join(_written(one) for one in node if not _is_text(one))}]"
    return repr(node)


def _is_text(node: object) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def stamps() -> dict[str, tuple[str, str]]:
    """Version and digest of each result file; "" where it has none."""
    found = {}
    for path in sorted(RESULTS.glob("*.json")):
        about = json.loads(path.read_text(encoding="utf-8")).get("environment", {})
        found[path.name] = (about.get("tensorcontrast", ""), about.get("sources", ""))
    return found


def earlier() -> list[str]:
    """Return result files that were measured with other sources than the present ones."""
    return [name for name, (_, sources) in stamps().items() if sources != digest()]


def listed(page: str) -> list[str]:
    """Return result files that the page names as measured with earlier sources."""
    return page.split(BEGIN)[1].split(END)[0].split()


def write() -> list[str]:
    """Bring the list of the page up to date."""
    page, names = PAGE.read_text(encoding="utf-8"), earlier()
    head, rest = page.split(BEGIN)
    lines = "".join(f"{name}\n" for name in names)
    text = head + BEGIN + lines + END + rest.split(END, 1)[1]
    PAGE.write_text(text, encoding="utf-8")
    return names


if __name__ == "__main__":
    for name in write():
        print(f"{name}: measured with earlier sources")
