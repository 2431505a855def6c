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
    if "import mne" in code:
        pytest.importorskip("mne", reason="needs the extra 'mne'")
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


def headings(page):
    """Names by which links find the headings of a page."""
    found = re.findall(r"(?m)^#+ (.+)$", page.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w\s-]", "", name.lower()).replace(" ", "-") for name in found}


def test_every_named_file_exists():
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for link, place in re.findall(r"\]\(([^)#:]*)(?:#([^)]+))?\)", text):
            target = page.parent / link if link else page
            assert target.exists(), f"{page.name} links to {link}"
            assert not place or place in headings(target), f"{page.name} links to {link}#{place}"
        for name in re.findall(r"`(tests/[\w/]+\.py)`", text):
            assert (ROOT / name).exists(), f"{page.name} names {name}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_sentence_is_longer_than_40_words(page):
    text = re.sub(r"(?s)```.*?```", "", page.read_text(encoding="utf-8"))
    prose = re.sub(r"(?m)^\s*\|.*$|^#.*$", "", text)  # without tables and headings
    sentences = re.split(r"(?<=[.!?:;])\s+", prose)
    assert [s for s in sentences if len(s.split()) > 40] == []


LINK = re.compile(r"(!?)\[[^\]]*\]\(([^)\s]+)\)")


def test_the_readme_of_the_package_has_no_relative_link(monkeypatch):
    """A package index shows the readme without the files beside it."""
    import importlib.util
    import sys
    import tomllib
    from types import ModuleType, SimpleNamespace

    name = "hatchling.metadata.plugin.interface"
    for k in range(1, 5):  # the build has hatchling, the tests need not
        part = ModuleType(".".join(name.split(".")[:k]))
        part.MetadataHookInterface = object
        monkeypatch.setitem(sys.modules, part.__name__, part)
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    hook = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hook)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert "readme" in project["dynamic"] and "readme" not in project
    hook.ReadmeHook.update(SimpleNamespace(root=str(ROOT)), project)
    assert project["readme"]["content-type"] == "text/markdown"
    home = "https://github.com/tensorcontrast/tensorcontrast"
    assert all(url.startswith(home) for url in project["urls"].values())
    seen = {"": 0, "!": 0}
    for image, link in LINK.findall(project["readme"]["text"]):
        raw = home.replace("//github.com", "//raw.githubusercontent.com")
        start = f"{raw}/main/" if image else f"{home}/blob/main/"
        if link.startswith(start):
            assert (ROOT / link.removeprefix(start).partition("#")[0]).is_file(), link
            seen[image] += 1
        assert link.startswith("https://"), link
    assert seen["!"] >= 1 and seen[""] >= 8


def test_examples_run(capsys):
    import runpy

    pytest.importorskip("wfdb", reason="needs the extra 'data'")
    for script in sorted((ROOT / "examples").glob("*.py")):
        runpy.run_path(str(script), run_name="__main__")
        printed = capsys.readouterr().out
        assert printed.strip(), f"{script.name} prints nothing"
        if script.stem == "inspect_components":  # quantiles have no time
            assert "quantiles" in printed and not re.search(r"\d s$", printed, re.MULTILINE)
