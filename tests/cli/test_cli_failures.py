"""Bad files, hostile names, full disks, interrupts: clear messages, nothing half-written."""

import errno
import json
import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from tensorcontrast import Recordings
from tensorcontrast.cli.shared.session import Code, code_of, message_of

HOSTILE = "\x1b[2J\x1b]0;own\x07[bold red]x[/]\u202egnp\r\n"
ESCAPES = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("missing.npz", None),
        ("empty.npz", b""),
        ("text.npz", b"this is no archive"),
        ("noise.edf", b"\x00" * 300),
        ("noise.parquet", b"PAR1garbage"),
        ("noise.ts", b"@data\n1,2:x\n"),
        ("unknown.xyz", b"?"),
    ],
)
def test_bad_files(cli, tmp_path, name, content):
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    before = sorted(tmp_path.iterdir())
    done = cli("fit", path, "-o", tmp_path / "m.tcm")
    if "pip install" in done.err:
        pytest.skip("needs the extra 'data'")
    assert done.code == 3, done.err
    assert done.err.startswith("error: ")
    assert name in done.err
    assert "Traceback" not in done.err
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("damage", ["missing", "empty", "foreign", "cut", "flipped"])
@pytest.mark.parametrize("command", ["transform", "evaluate", "components", "report"])
def test_bad_models(cli, model, data, tmp_path, command, damage):
    content = model.read_bytes()
    path = tmp_path / "bad.tcm"
    if damage != "missing":
        flipped = bytearray(content)
        flipped[len(content) // 2] ^= 1
        damaged = {
            "empty": b"",
            "foreign": b"PK\x03\x04 something else",
            "cut": content[:-50],
            "flipped": bytes(flipped),
        }
        path.write_bytes(damaged[damage])
    tail = {
        "transform": [data, "-o", tmp_path / "f.npz"],
        "evaluate": [data],
        "components": [],
        "report": ["--data", data],
    }
    done = cli(command, path, *tail[command])
    assert done.code == 3, done.err
    assert "bad.tcm" in done.err
    assert "Traceback" not in done.err
    assert not (tmp_path / "f.npz").exists()


def test_debug_shows_the_traceback(cli, tmp_path):
    done = cli("fit", tmp_path / "no.npz", "-o", tmp_path / "m.tcm", "--debug")
    assert done.code == 3
    assert "Traceback" in done.err
    assert "DataNotFoundError" in done.err
    assert done.err.rstrip().splitlines()[-1].startswith("error: ")


def test_errors_as_json(cli, tmp_path):
    done = cli("fit", tmp_path / "no.npz", "-o", tmp_path / "m.tcm", "--json")
    assert done.json["error"]["code"] == 3
    assert done.json["error"]["kind"] == "DataNotFoundError"
    assert "no.npz" in done.json["error"]["message"]
    assert done.err.startswith("error: ")


def test_codes_and_messages_of_errors():
    assert code_of(RuntimeError("x")) == Code.FAILED
    assert "bug" in message_of(RuntimeError("x"))
    assert code_of(OSError(28, "No space left on device", "f.npz")) == Code.FILE
    assert message_of(OSError(28, "No space left on device", "f.npz")).startswith("f.npz: No space")
    assert "--window" in message_of(MemoryError())
    assert code_of(KeyboardInterrupt()) == Code.INTERRUPTED


def test_a_bug_is_called_one(cli, data, tmp_path, monkeypatch):
    def broken(*args, **kwargs):
        raise ZeroDivisionError("oops")

    monkeypatch.setattr("tensorcontrast.features.ContrastiveFeatures.fit", broken)
    done = cli("fit", data, "-o", tmp_path / "m.tcm")
    assert done.code == 1
    assert "ZeroDivisionError: oops" in done.err
    assert "--debug" in done.err
    assert list(tmp_path.iterdir()) == []


# ----------------------------------------------------------------- hostile names


def test_hostile_names_reach_no_terminal(cli, recordings, tmp_path, small):
    rec = Recordings(
        recordings.X,
        recordings.y,
        groups=recordings.groups,
        fs=100,
        channels=[HOSTILE + c for c in "abc"],
        classes=[HOSTILE + c for c in "abc"],
        columns={HOSTILE: np.arange(90)},
        name=HOSTILE,
    )
    path = rec.save(tmp_path / "x.npz")
    model = tmp_path / "m.tcm"
    runs = [
        cli("fit", path, "-o", model, *small, "--verbose"),
        cli("evaluate", model, path),
        cli("components", model, "--data", path),
        cli("transform", model, path, "-o", tmp_path / "f.csv"),
        cli("evaluate", model, path, "--labels", "nothing"),
    ]
    assert [run.code for run in runs] == [0, 0, 0, 0, 3]
    for run in runs:
        assert not ESCAPES.search(run.out + run.err)
    shown = runs[1].out
    assert "[bold red]x[/]" in shown  # markup is text
    assert r"\x1b[2J" in shown


def test_hostile_names_of_files(cli, tmp_path):
    path = tmp_path / "\x1b[31mred.npz"
    done = cli("fit", path, "-o", tmp_path / "m.tcm")
    assert done.code == 3
    assert not ESCAPES.search(done.err)


# ------------------------------------------------------------------------ writing


def test_a_full_disk_leaves_nothing(model, data, tmp_path):
    """A limit on the size of files makes every write beyond it fail, as a full disk does."""
    pytest.importorskip("resource", reason="limits on the size of files need a Unix")
    names = ["f.npz", "f.csv", "f.parquet"]
    code = (
        "import resource, sys\n"
        "from tensorcontrast.cli import app\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (512, 512))\n"
        "model, data, *targets = sys.argv[1:]\n"
        "for target in targets:\n"
        "    code = app(['transform', model, data, '-o', target], standalone_mode=False)\n"
        "    print('code', int(code))\n"
    )
    targets = [str(tmp_path / name) for name in names]
    done = subprocess.run(
        [sys.executable, "-c", code, model, data, *targets], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    lines = done.stderr.splitlines()
    assert len(lines) == 3
    for name, line, code in zip(names, lines, done.stdout.splitlines(), strict=True):
        assert line.startswith("error: ")
        if "pip install" not in line:
            assert name in line
            assert code == "code 3"
    assert list(tmp_path.iterdir()) == []


def test_places_that_cannot_be_written_are_told_before_the_work(
    cli, data, tmp_path, monkeypatch, small
):
    done = cli("fit", data, "-o", tmp_path / "no" / "m.tcm", *small)
    assert done.code == 3
    assert "make it first" in done.err

    def read_only(*args, **kwargs):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(os, "open", read_only)
    place = tmp_path / "m.tcm"
    for args in (["-o", place], ["-o", place, "--checkpoint", tmp_path / "fit.tcc"]):
        done = cli("fit", data, *args, *small)
        assert done.code == 3
        assert "no permission" in done.err
        assert "Read-only file system" in done.err


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs a Linux /proc")
def test_a_folder_that_refuses_files(cli, model, data):
    for args in (
        ["transform", model, data, "-o", "/proc/f.npz"],
        ["demo", "-o", "/proc/run"],
        ["report", model, "--data", data, "-o", "/proc/r.html"],
    ):
        done = cli(*args)
        assert done.code == 3, done.err
        assert "/proc/" in done.err
        assert "Traceback" not in done.err


def test_a_full_standard_output():
    if not os.path.exists("/dev/full"):
        pytest.skip("needs /dev/full")
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "tensorcontrast", "datasets", "list", "--json"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert done.returncode == 3
    assert "No space left" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_reader_that_goes_away():
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as pipe:
        done = subprocess.run(
            [sys.executable, "-m", "tensorcontrast", "datasets", "list", "--json"],
            stdout=pipe,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert done.returncode == 141
    assert done.stderr == ""


# -------------------------------------------------------------------- interrupts


@pytest.mark.skipif(sys.platform == "win32", reason="signals of Unix")
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["INT", "TERM"]
)
def test_signals_stop_a_fit_cleanly(data, tmp_path, number, code):
    marker = tmp_path / "started"
    slow = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from tensorcontrast.solvers import convergence\n"
        "record = convergence.Monitor.record\n"
        "def slow(self, terms):\n"
        f"    Path({str(marker)!r}).touch()\n"
        "    time.sleep(0.05)\n"
        "    return record(self, terms)\n"
        "convergence.Monitor.record = slow\n"
        "from tensorcontrast.cli import main\n"
        "main()\n"
    )
    out = tmp_path / "out"
    out.mkdir()
    running = subprocess.Popen(
        [sys.executable, "-c", slow, "fit", data, "-o", out / "m.tcm", "-m", "cpd", "-p",
         "max_iter=5000", "-p", "tol=0", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    deadline = time.monotonic() + 60
    while not marker.exists() and time.monotonic() < deadline and running.poll() is None:
        time.sleep(0.02)
    running.send_signal(number)
    printed, err = running.communicate(timeout=60)
    assert running.returncode == code, err
    assert "Traceback" not in err
    assert list(out.iterdir()) == []
    word = "interrupted: " if number == signal.SIGINT else "terminated: "
    assert err.startswith(f"{word}the fit was stopped; nothing was kept")
    assert json.loads(printed)["error"]["code"] == code
