"""The program as a whole: start, help, version, wrong calls."""

import re
import subprocess
import sys

import pytest

from tensorcontrast import __version__
from tensorcontrast.cli.shared.options import DATASETS
from tensorcontrast.datasets import registry

COMMANDS = [
    ["fit"],
    ["transform"],
    ["evaluate"],
    ["train"],
    ["predict"],
    ["components"],
    ["report"],
    ["demo"],
    ["datasets", "list"],
    ["datasets", "info"],
    ["datasets", "fetch"],
]


def test_help_imports_nothing_heavy():
    code = (
        "import sys\n"
        "from tensorcontrast.cli import app\n"
        "for args in (['--help'], ['fit', '--help'], ['rank', '--help'], ['--version']):\n"
        "    assert not app(args, standalone_mode=False)\n"
        "heavy = ['torch', 'matplotlib', 'sklearn', 'scipy', 'pandas', 'joblib']\n"
        "print('heavy:', [name for name in heavy if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "heavy: []" in done.stdout
    assert done.stdout.count("Usage: ") == 3


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_explains_itself(cli, command):
    done = cli(*command, "--help")
    assert done.code == 0
    assert "Examples" in done.out
    assert f"tensorcontrast {' '.join(command)}" in done.out
    for option in ("--json", "--quiet", "--verbose", "--debug"):
        assert option in done.out
    assert "<bool>" not in done.out


def test_the_main_help_tells_exit_codes_and_commands(cli):
    out = cli("--help").out
    assert "130 interrupted" in " ".join(out.split())
    for command in {c[0] for c in COMMANDS}:
        assert re.search(rf"(?m)^│ {command} ", out)


def test_no_arguments_print_the_help_once(cli_process):
    done = cli_process()
    assert done.code == 2
    assert (done.out + done.err).count("Usage: ") == 1


def test_version(cli):
    assert cli("--version").out == f"tensorcontrast {__version__}\n"


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["fitt"], "Did you mean 'fit'"),
        (["fit", "--rnak", "3"], "--rnak"),
        (["fit", "x.npz", "-o", "m.tcm", "--rank", "many"], "--rank"),
        (["fit", "x.npz", "-o", "m.tcm", "--rank", "0"], "--rank"),
        (["transform", "model.tcm"], "DATA"),
        (["datasets", "nothing"], "nothing"),
    ],
)
def test_wrong_calls_are_one_line_with_the_way_out(cli, args, words):
    done = cli(*args)
    assert done.code == 2
    assert done.out == ""
    assert done.err.startswith("error: ")
    assert words in done.err
    assert "--help" in done.err
    assert len(done.err.splitlines()) == 1


def test_names_known_without_imports_are_the_real_ones():
    assert DATASETS == (*registry.DATASETS, "synthetic")


def test_terminals_that_know_ascii_only(cli_process):
    done = cli_process("datasets", "info", "sleep-edf", env={"PYTHONIOENCODING": "ascii"})
    assert done.code == 0
    assert "Obery\\xe9" in done.out
