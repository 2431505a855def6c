"""What a release is made of: oldest versions, citation, and the check of wheel and archive."""

import io
import re
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
from tests import check_packages

import tensorcontrast

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def versions(name):
    """Versions of a file of constraints, as numbers."""
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    pairs = [line.split("==") for line in lines if "==" in line]
    return {package.lower(): numbers(version) for package, version in pairs}


def numbers(version):
    found = [int(part) for part in re.findall(r"\d+", version)]
    return found[: max((i + 1 for i, part in enumerate(found) if part), default=0)]


def test_the_lowest_versions_are_the_bounds_of_the_project():
    lowest = versions("constraints-lowest.txt")
    for requirement in PROJECT["project"]["dependencies"]:
        package, bound = requirement.split(">=")
        assert lowest[package.lower()] == numbers(bound), requirement


def test_the_constraints_have_every_package_of_the_extra_onnx():
    newest = versions("constraints.txt")
    for requirement in PROJECT["project"]["optional-dependencies"]["onnx"]:
        package, bound = requirement.split(">=")
        assert newest[package] >= numbers(bound)


def test_the_citation_is_of_this_version():
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.search(rf"(?m)^version: {re.escape(tensorcontrast.__version__)}$", text)
    assert f"repository-code: {PROJECT['project']['urls']['Repository']}" in text


@pytest.fixture
def packages(tmp_path):
    """Return a wheel and a source archive as they should be, with changes."""

    def made(readme="[docs](https://example.org)", left_out=(), extra=()):
        about = "\n".join(
            [f"Project-URL: {n}, https://example.org" for n in sorted(check_packages.ADDRESSES)]
        )
        files = check_packages.package_files()
        with zipfile.ZipFile(tmp_path / "a.whl", "w") as wheel:
            for name in (files - set(left_out)) | set(extra):
                wheel.writestr(name, "")
            wheel.writestr("a-1.dist-info/licenses/LICENSE", "")
            wheel.writestr("a-1.dist-info/METADATA", f"Name: a\n{about}\n\n{readme}")
        with tarfile.open(tmp_path / "a.tar.gz", "w") as archive:
            for name in {f"src/{n}" for n in files} | set(check_packages.IN_SOURCE):
                if name not in left_out:
                    archive.addfile(tarfile.TarInfo(f"a-1/{name}"), io.BytesIO())
        return tmp_path / "a.whl", tmp_path / "a.tar.gz"

    return made


def test_packages_as_they_should_be(packages, tmp_path, capsys):
    assert check_packages.problems(*packages()) == []
    assert check_packages.main(tmp_path) == 0
    assert "hold what they should" in capsys.readouterr().out


def test_what_is_wrong_with_packages_is_listed(packages):
    left_out = ("tensorcontrast/py.typed", "CITATION.cff")
    found = check_packages.problems(
        *packages("[docs](docs/index.md)", left_out, ("tests/test_features.py",))
    )
    assert found == [
        "the wheel lacks tensorcontrast/py.typed",
        "the wheel holds tests/test_features.py",
        "the source archive lacks CITATION.cff",
        "the readme links to docs/index.md",
    ]
