"""The documentation stays true: its code runs, its names exist, every file has an owner."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def sections():
    """Python blocks of each section of each page; a section runs on its own."""
    for page in PAGES:
        for section in re.split(r"(?m)^## ", page.read_text(encoding="utf-8")):
            blocks = re.findall(r"(?ms)^```python\n(.*?)^```", section)
            if blocks:
                name = f"{page.name}: {section.splitlines()[0]}"
                yield pytest.param("\n".join(blocks), id=name)


@pytest.mark.parametrize("code", list(sections()))
def test_code_in_the_documentation_runs(code, tmp_path, monkeypatch):
    pytest.importorskip("wfdb", reason="the guide reads recordings: needs the extra 'data'")
    monkeypatch.chdir(tmp_path)
    space = {"__name__": "documentation"}
    exec(compile(code, "documentation", "exec"), space)
    assert len(space) > 1


def test_every_source_file_has_an_owner_in_the_architecture():
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    source = ROOT / "src" / "tensorcontrast"
    missing = [
        str(path.relative_to(source))
        for path in source.rglob("*.py")
        if path.name != "__init__.py" and f"{path.name}`" not in text
    ]
    assert missing == []


def test_every_named_file_exists():
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for link in re.findall(r"\]\(([^)#:]+)\)", text):
            assert (page.parent / link).exists(), f"{page.name} links to {link}"
        for name in re.findall(r"`(tests/[\w/]+\.py)`", text):
            assert (ROOT / name).exists(), f"{page.name} names {name}"


def test_examples_run(capsys):
    import runpy

    pytest.importorskip("wfdb", reason="needs the extra 'data'")
    for script in sorted((ROOT / "examples").glob("*.py")):
        runpy.run_path(str(script), run_name="__main__")
        printed = capsys.readouterr().out
        assert printed.strip(), f"{script.name} prints nothing"
        if script.stem == "inspect_components":  # frames ordered by strength have no time
            assert "moments" in printed and not re.search(r"\d s$", printed, re.MULTILINE)
