"""Check wheel and source archive: ``python tests/check_packages.py dist``. Needs no other package.

The wheel holds every file of ``src`` and the licence, and nothing else. The source archive holds
what tests and documentation need. The readme has no relative link, which a package index would
break, and the metadata have the addresses of the project.
"""

import re
import sys
import tarfile
import zipfile
from email import message_from_string
from pathlib import Path

ROOT = Path(__file__).parents[1]

#: Files that the source archive must hold, next to those of ``src``.
IN_SOURCE = (
    *("README.md", "CHANGELOG.md", "CITATION.cff", "SECURITY.md", "LICENSE", "Makefile"),
    *("constraints.txt", "constraints-lowest.txt", "docs/index.md", "tests/check_packages.py"),
    *("tests/models/test_frozen.py", "benchmarks/archive.py", "hatch_build.py"),
)
ADDRESSES = {"Homepage", "Documentation", "Repository", "Issues", "Changelog"}


def package_files():
    """Files of the package, as a wheel names them."""
    base = ROOT / "src"
    there = (p for p in (base / "tensorcontrast").rglob("*") if p.is_file())
    return {p.relative_to(base).as_posix() for p in there if "__pycache__" not in p.parts}


def problems(wheel, source):
    """Return what is wrong with a wheel and a source archive."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        (metadata,) = (n for n in names if n.endswith(".dist-info/METADATA"))
        about = message_from_string(archive.read(metadata).decode())
    inside = {n for n in names if ".dist-info/" not in n}
    with tarfile.open(source) as archive:
        packed = {n.split("/", 1)[1] for n in archive.getnames() if "/" in n}
    found = [f"the wheel lacks {n}" for n in sorted(package_files() - inside)]
    found += [f"the wheel holds {n}" for n in sorted(inside - package_files())]
    if not any(n.endswith("licenses/LICENSE") for n in names):
        found.append("the wheel lacks the licence")
    wanted = {f"src/{n}" for n in package_files()} | set(IN_SOURCE)
    found += [f"the source archive lacks {n}" for n in sorted(wanted - packed)]
    # Any model file of a release is worth keeping; anything that a build made is not.
    found += [f"the source archive holds {n}" for n in sorted(packed) if "__pycache__" in n]
    readme = about.get_payload()
    found += [
        f"the readme links to {link}"
        for link in re.findall(r"\]\(([^)\s]+)\)", readme)
        if not link.startswith(("https://", "#"))
    ]
    named = {line.split(",")[0] for line in about.get_all("Project-URL", [])}
    found += [f"no address for {name}" for name in sorted(ADDRESSES - named)]
    return found


def main(folder):
    """Print what is wrong; the exit code."""
    (wheel,), (source,) = Path(folder).glob("*.whl"), Path(folder).glob("*.tar.gz")
    found = problems(wheel, source)
    print("\n".join(found) or f"{wheel.name} and {source.name} hold what they should")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
