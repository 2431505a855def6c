"""Completion in bash, zsh and fish: the scripts, and what they ask the program."""

import re
import shutil
import subprocess
import sys

import pytest

from tensorcontrast.cli.shared.options import complete_data

SHELLS = ("bash", "zsh", "fish")


def complete(cli_process, shell, *words):
    """Ask as the script of a shell does; the last word is what has been typed of it."""
    line = " ".join(["tensorcontrast", *words])
    env = {"_TENSORCONTRAST_COMPLETE": f"complete_{shell}"}
    if shell == "bash":
        env |= {"COMP_WORDS": line, "COMP_CWORD": str(len(words))}
    else:
        env |= {"_TYPER_COMPLETE_ARGS": line, "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    done = cli_process(env=env)
    assert (done.code, done.err) == (0, "")
    if shell == "zsh":
        found = re.fullmatch(r"_arguments '\*: :\(\((.*)\)\)'", done.out.strip(), re.DOTALL)
        return re.findall(r'(?m)^"(.*?)"(?::|$)', found[1])
    return [text.partition("\t")[0] for text in done.out.splitlines()]


@pytest.mark.parametrize("shell", SHELLS)
def test_subcommands(cli_process, shell):
    assert complete(cli_process, shell, "da") == ["datasets"]
    assert complete(cli_process, shell, "datasets", "f") == ["fetch"]


@pytest.mark.parametrize("shell", SHELLS)
def test_options(cli_process, shell):
    assert complete(cli_process, shell, "fit", "--check") == ["--checkpoint"]
    assert set(complete(cli_process, shell, "transform", "--w")) == {
        "--where", "--window", "--workers"
    }  # fmt: skip


def test_values_of_options_and_datasets(cli_process):
    assert complete(cli_process, "bash", "fit", "sl") == ["sleep-edf"]
    assert complete(cli_process, "bash", "datasets", "fetch", "p") == ["ptb-xl"]
    assert complete(cli_process, "bash", "fit", "x", "--method", "plc") == ["plc", "plc-paper"]
    assert complete(cli_process, "bash", "fit", "x", "--missing", "m") == ["mask"]


@pytest.mark.parametrize("shell", SHELLS)
def test_scripts(cli_process, shell, tmp_path):
    done = cli_process(env={"_TENSORCONTRAST_COMPLETE": f"source_{shell}"})
    assert (done.code, done.err) == (0, "")
    assert f"_TENSORCONTRAST_COMPLETE=complete_{shell}" in done.out
    assert "tensorcontrast" in done.out
    if shutil.which(shell):
        script = tmp_path / "script"
        script.write_text(done.out)
        subprocess.run([shell, "-n", str(script)], check=True)


@pytest.mark.skipif(not shutil.which("bash"), reason="needs bash")
def test_bash_itself_completes(cli_process, tmp_path):
    program = tmp_path / "tensorcontrast"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m tensorcontrast "$@"\n')
    program.chmod(0o755)
    script = tmp_path / "script"
    script.write_text(cli_process(env={"_TENSORCONTRAST_COMPLETE": "source_bash"}).out)
    ask = (
        f"source {script}\n"
        "complete -p tensorcontrast\n"
        "COMP_WORDS=(tensorcontrast fit sle) COMP_CWORD=2\n"
        f"_tensorcontrast_completion {program}\n"
        'echo "${COMPREPLY[@]}"\n'
    )
    done = subprocess.run(["bash", "--norc", "-c", ask], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "sleep-edf", done.stderr
    assert "_tensorcontrast_completion" in done.stdout.splitlines()[0]


def test_completion_of_files(tmp_path, monkeypatch):
    (tmp_path / "harbour").mkdir()
    (tmp_path / "har.npz").write_bytes(b"")
    (tmp_path / ".hidden").write_bytes(b"")
    monkeypatch.chdir(tmp_path)
    assert complete_data("har") == ["har", "har.npz", "harbour/"]
    assert complete_data(f"{tmp_path}/") == [f"{tmp_path}/har.npz", f"{tmp_path}/harbour/"]
    assert complete_data("nowhere/") == []
