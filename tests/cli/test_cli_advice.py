"""Messages of the library name options, not Python's keywords, once they reach the terminal."""

import ast
import re
from pathlib import Path

import pytest
import typer

import tensorcontrast
from tensorcontrast.cli.app import app
from tensorcontrast.cli.shared.advice import _OPTIONS, in_options

SOURCE = Path(tensorcontrast.__file__).parent
#: What no command reaches, or what is a file of settings there.
ELSEWHERE = ("cli/", "augment/", "neural/", "evaluate/", "report/", "datasets/", "utils/arrays.py",
             "recordings/conversion.py", "recordings/frames.py", "recordings/joining.py",
             "recordings/mne_objects.py", "recordings/sampling.py",
             "recordings/xarray_objects.py", "live.py")  # fmt: skip
#: Keywords that commands never pass, or check themselves first.
PYTHON_ONLY = {
    "label_rule", "overlap", "short", "time_axis", "scale", "beside", "nuisance",
    "min_share", "tensorize",
}  # fmt: skip


def template(node):
    """Text of a message, with 7 for every value in it."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(p.value if isinstance(p, ast.Constant) else "7" for p in node.values)
    return ""


def messages():
    for path in sorted(SOURCE.rglob("*.py")):
        place = path.relative_to(SOURCE)
        if place.as_posix().startswith(ELSEWHERE):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and node.args:
                if re.search(r"(Error|warn)$", ast.unparse(node.func)):
                    yield f"{place.as_posix()}:{node.lineno}", template(node.args[0])


def test_no_message_gives_advice_in_python():
    found = dict(messages())
    assert len(found) > 200
    left = []
    for place, text in found.items():
        told = in_options(text)
        keywords = re.findall(r"(?<!-p )(?<![\w-])([a-z]\w*[a-z])=", told)
        calls = re.findall(r"\.(?:save|select|fit|compute)\(|\b(?:fit|read|PLC|CPD|ATD)\(", told)
        if set(keywords) - PYTHON_ONLY or calls:
            left.append(f"{place}: {told}")
    assert not left, "\n".join(left)


def test_every_option_exists():
    commands = typer.main.get_command(app).commands.values()
    known = {name for c in commands for p in c.params for name in p.opts}
    assert set(_OPTIONS.values()) <= known


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a.edf: pass channels= without it", "a.edf: pass --channels without it"),
        ("fill them or pass allow_nan=True", "fill them or pass --drop-nan"),
        ("pass format= one of npz, csv", "pass --data-format one of npz, csv"),
        ("use n_quantiles=4", "use --n-quantiles 4"),
        ("leave mean_row=True out", "leave --mean-row out"),
        ("use mean_row=False", "use --no-mean-row"),
        ("Use PLC(solver='tied') or CPD", "Use PLC with -p solver=tied or CPD"),
        ("n_samples=3 is fewer than n_clusters=4", "3 windows is fewer than -p n_clusters=4"),
        ("model files are written by .save(path)",
         "model files are written by tensorcontrast fit -o MODEL"),
        ("/data/fs=50/rank=3/a.edf: no such file", "/data/fs=50/rank=3/a.edf: no such file"),
        ("no column 'fs=50'", "no column 'fs=50'"),
        ("rank=32 is more than it can have; rank_=6 is used",
         "--rank 32 is more than it can have; a rank of 6 is used"),
        ("a = 3, b=2", "a = 3, b=2"),
    ],
)  # fmt: skip
def test_keywords_become_options(text, told):
    assert in_options(text) == told


def test_short_recordings_and_foreign_models(cli, tmp_path, recordings, small):
    path = recordings.save(tmp_path / "r.npz")
    done = cli("fit", path, "-o", tmp_path / "m.tcm", "--window", 99)
    assert (done.code, "short=" in done.err, "shorter --window" in done.err) == (4, False, True)
    (tmp_path / "m.tcm").write_bytes(b"no model at all" * 99)
    done = cli("components", tmp_path / "m.tcm")
    assert (done.code, ".save(" in done.err, "fit -o MODEL" in done.err) == (3, False, True)
    done = cli("fit", path, "-o", tmp_path / "n.tcm", *small[:2], "-m", "cpd", "-p", "max_iter=2")
    assert "raise -p max_iter= or -p tol=" in " ".join(done.err.split())
