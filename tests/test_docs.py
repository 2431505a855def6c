"""The documentation stays true: its code runs, its links work."""

import re
from importlib import import_module
from inspect import ismodule
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
KINDS = ("tutorials", "howto", "reference", "explanation")
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *(page for page in sorted(DOCS.rglob("*.md")) if "_build" not in page.parts),
]


def name_of(page):
    return page.relative_to(ROOT).as_posix()


def sections():
    """Python blocks of each section of each page; a section runs on its own."""
    for page in PAGES:
        for section in re.split(r"(?m)^## ", page.read_text(encoding="utf-8")):
            blocks = re.findall(r"(?ms)^```python\n(.*?)^```", section)
            if blocks:
                name = f"{name_of(page)}: {section.splitlines()[0]}"
                yield pytest.param("\n".join(blocks), id=name)


@pytest.fixture
def few_windows(monkeypatch):
    """Every third window of the embedded recordings: code must run, and its fits converge."""
    from tensorcontrast import datasets

    whole = datasets.load_watch
    monkeypatch.setattr(datasets, "load_watch", lambda **options: whole(**options)[::3])


@pytest.mark.usefixtures("few_windows")
@pytest.mark.parametrize("code", list(sections()))
def test_code_in_the_documentation_runs(code, tmp_path, monkeypatch):
    pytest.importorskip("wfdb", reason="the guide reads recordings: needs the extra 'data'")
    if "import mne" in code:
        pytest.importorskip("mne", reason="needs the extra 'mne'")
    if "import onnxruntime" in code:
        pytest.importorskip("onnxruntime", reason="needs the extra 'onnx'")
    monkeypatch.chdir(tmp_path)
    space = {"__name__": "documentation"}
    exec(compile(code, "documentation", "exec"), space)
    assert len(space) > 1


def test_every_page_is_of_one_kind_and_in_the_index():
    text = (DOCS / "index.md").read_text(encoding="utf-8")
    for page in PAGES[2:]:
        name = page.relative_to(DOCS).as_posix()
        if name == "index.md":
            continue
        assert name in ("architecture.md", "paper.md") or page.parent.name in KINDS, name
        assert f"]({name})" in text, f"index.md has no link to {name}"
        assert f"\n{name.removesuffix('.md')}\n" in text, f"no toctree has {name}"


def headings(page):
    """Names by which links find the headings of a page."""
    found = re.findall(r"(?m)^#+ (.+)$", page.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w\s-]", "", name.lower()).replace(" ", "-") for name in found}


def test_every_named_file_exists():
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for link, place in re.findall(r"\]\(([^)#:]*)(?:#([^)]+))?\)", text):
            target = page.parent / link if link else page
            where = name_of(page)
            assert target.is_file(), f"{where} links to {link}"
            assert not place or place in headings(target), f"{where} links to {link}#{place}"
        for name in re.findall(r"`((?:tests|examples|benchmarks)/[\w/]+\.py)`", text):
            assert (ROOT / name).exists(), f"{name_of(page)} names {name}"


LINK = re.compile(r"(!?)\[[^\]]*\]\(([^)\s]+)\)")


def test_the_readme_of_the_package_has_no_relative_link(monkeypatch):
    """A package index shows the readme without the other files."""
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


@pytest.mark.parametrize("name", ["plot_own_csv", "plot_larger_than_memory"])
def test_quick_examples_run(name, capsys):
    """``make docs`` runs all of them."""
    import runpy

    pytest.importorskip("wfdb", reason="needs the extra 'data'")
    runpy.run_path(str(ROOT / "examples" / f"{name}.py"), run_name="__main__")
    assert capsys.readouterr().out.strip()


PUBLIC = (
    "tensorcontrast",
    *(f"tensorcontrast.{name}" for name in ("augment", "classify", "datasets", "distributed")),
    *(f"tensorcontrast.{name}" for name in ("evaluate", "explain", "neural", "report")),
)


@pytest.mark.parametrize("place", PUBLIC)
def test_every_public_name_has_an_example(place):
    """Doctests run all of them, but for downloads."""
    module = import_module(place)
    found = {name: getattr(module, name) for name in module.__all__}
    assert len(found) >= 3
    plain = {name for name, thing in found.items() if not callable(thing) or ismodule(thing)}
    assert [n for n in found if n not in plain and ">>>" not in (found[n].__doc__ or "")] == []
