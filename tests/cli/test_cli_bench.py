"""bench, report and demo on tiny recordings."""

import html
import json
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time

import pytest

from tensorcontrast import Recordings
from tensorcontrast.evaluate.run import Run

CONFIG = """
title = "Tiny"
datasets = ["{data}"]
seeds = 2
budgets = [6, "100%"]
draws = 1
rank = 3

[[methods]]
name = "cpd"
params = {{ max_iter = 4, tol = 0.0 }}

[[methods]]
name = "pca"
"""


@pytest.fixture(scope="module")
def config(data, tmp_path_factory):
    path = tmp_path_factory.mktemp("bench") / "tiny.toml"
    path.write_text(CONFIG.format(data=data), encoding="utf-8")
    return path


def test_a_run_prints_its_table_and_goes_on_where_it_is(cli, config, tmp_path):
    folder = tmp_path / "run"
    args = ["bench", config, "-o", folder, "--jobs", 1, "--no-report"]
    done = cli(*args, "--json")
    assert done.code == 0, done.err
    found = done.json
    assert (found["complete"], found["cells"], found["failed"]) == (True, 8, [])
    (table,) = found["tables"]
    assert [row["method"] for row in table["rows"]] == ["CPD", "PCA"]
    assert len(table["rows"][0]["scores"]["6"]["values"]) == 2
    cells = (folder / "cells.jsonl").read_bytes()
    done = cli(*args)
    assert done.code == 0
    assert "already; --fresh" in done.err
    assert (folder / "cells.jsonl").read_bytes() == cells
    for mean in (row["scores"]["6"]["mean"] for row in table["rows"]):
        assert f"{mean:.3f} ±" in done.out
    assert str(folder) in done.out.replace("\n", "")


def test_parts_of_a_configuration(cli, config, tmp_path):
    done = cli("bench", config, "-o", tmp_path / "run", "-j", 1, "--no-report", "--json",
               "--methods", "pca", "--datasets", "trial", "--seeds", 1, "--budgets", "100%",
               "--limit", 80)  # fmt: skip
    assert done.code == 0, done.err
    assert done.json["cells"] == 1
    kept = Run.load(tmp_path / "run").config
    assert (kept.seeds, kept.budgets, kept.datasets[0].limit) == ((0,), ("100%",), 80)
    done = cli("bench", config, "-o", tmp_path / "run", "--no-report")
    assert done.code == 3  # another configuration
    assert "--fresh" in done.err


def test_cells_that_fail_are_told_and_the_others_kept(cli, config, tmp_path):
    args = ["bench", config, "-o", tmp_path / "run", "-j", 1, "--no-report", "--seeds", 1]
    done = cli(*args, "--budgets", "6,100000", "--json")
    assert done.code == 5
    found = done.json
    assert (found["complete"], found["cells"]) == (False, 2)
    assert [(f["method"], f["seed"]) for f in found["failed"]] == [("CPD", 0), ("PCA", 0)]
    assert "100000" in found["failed"][0]["message"]
    assert "warning: CPD on trial, seed 0, failed" in done.err
    args[3] = tmp_path / "other"
    done = cli(*args, "--budgets", "100000", "--json")
    assert (done.code, done.json["cells"]) == (1, 0)


@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        ("tabel1", 2, "table1"),
        ("missing.toml", 3, "missing.toml"),
    ],
)
def test_unknown_configurations(cli, tmp_path, monkeypatch, name, code, words):
    monkeypatch.chdir(tmp_path)
    done = cli("bench", name)
    assert done.code == code
    assert words in done.err
    assert list(tmp_path.iterdir()) == []


def test_wrong_configurations_are_pointed_at_by_line(cli, tmp_path):
    path = tmp_path / "wrong.toml"
    path.write_text('datasets = ["watch"]\nmethods = ["plc"]\nseds = 2\n')
    done = cli("bench", path, "-o", tmp_path / "run")
    assert done.code == 3
    assert "wrong.toml line 3" in done.err
    assert "seeds" in done.err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "args",
    [["--methods", "svm"], ["--datasets", "mnist"], ["--budgets", "none"], ["--jobs", "0"]],
    ids=lambda args: args[0],
)
def test_wrong_changes_are_wrong_use(cli, config, tmp_path, args):
    done = cli("bench", config, "-o", tmp_path / "run", *args)
    assert done.code == 2
    assert args[0] in done.err
    assert not (tmp_path / "run").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="signals of Unix")
@pytest.mark.parametrize(
    ("number", "code", "word"),
    [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")],
    ids=["INT", "TERM"],
)
def test_an_interrupted_run_keeps_its_cells(number, code, word, config, tmp_path, cli):
    folder = tmp_path / "run"
    slow = (
        "import sys, time\n"
        "from tensorcontrast.solvers import convergence\n"
        "record = convergence.Monitor.record\n"
        "def slow(self, terms):\n"
        "    time.sleep(0.4)\n"
        "    return record(self, terms)\n"
        "convergence.Monitor.record = slow\n"
        "from tensorcontrast.cli import main\n"
        "main()\n"
    )
    running = subprocess.Popen(
        [sys.executable, "-c", slow, "bench", config, "-o", folder, "-j", "1", "--no-report",
         "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    deadline = time.monotonic() + 60
    cells = folder / "cells.jsonl"
    while time.monotonic() < deadline and running.poll() is None:
        if cells.is_file() and cells.stat().st_size:
            time.sleep(0.5)  # into the next fit: lines that are being written are taken back
            break
        time.sleep(0.02)
    running.send_signal(number)
    out, err = running.communicate(timeout=60)
    assert running.returncode == code, err
    assert "Traceback" not in err
    assert re.search(rf"{word}: \d of 8 cells are kept", err)
    assert json.loads(out)["error"]["code"] == code
    kept = len(Run.load(folder).ok)
    assert 0 < kept < 8
    done = cli("bench", config, "-o", folder, "-j", 1, "--no-report", "--json")
    assert (done.code, done.json["cells"]) == (0, 8)


# -------------------------------------------------------------------- reports


def test_report_of_a_run(cli, config, tmp_path, monkeypatch):
    folder = tmp_path / "my run"
    done = cli("bench", config, "-o", folder, "-j", 1, "--json")
    assert done.code == 0, done.err
    page = folder / "report" / "report.html"
    assert done.json["report"] == str(page)
    assert "<html" in page.read_text(encoding="utf-8")
    done = cli("report", folder, "-o", tmp_path / "r.md", "--json")
    assert done.code == 0, done.err
    assert (done.json["format"], done.json["cells"]) == ("md", 8)
    assert "CPD" in (tmp_path / "r.md").read_text(encoding="utf-8")
    assert cli("report", folder, "-o", tmp_path / "r.md").code == 3
    assert cli("report", folder, "-o", tmp_path / "r.md", "--force").code == 0
    # "How to get this again" gives the same scores elsewhere.
    monkeypatch.chdir(tmp_path)
    command, settings = shell_text(page)[:2]
    assert str(tmp_path) not in command
    (tmp_path / "bench.toml").write_text(settings, encoding="utf-8")
    words = shlex.split(command, comments=True)
    assert words == ["tensorcontrast", "bench", "bench.toml", "-o", "runs/my run"]
    assert cli(*words[1:], "-j", 1, "--no-report").code == 0
    first, again = Run.load(folder), Run.load(tmp_path / "runs" / "my run")
    assert [c.accuracy for c in first.ok] == [c.accuracy for c in again.ok]


def shell_text(page):
    """Text of the code blocks of a page: command, configuration."""
    blocks = re.findall(r"<code>(.*?)</code>", page.read_text(encoding="utf-8"), re.DOTALL)
    return [html.unescape(block) for block in blocks]


@pytest.mark.parametrize("out", ["it's a report.html", "folder"])
def test_the_command_of_a_report_writes_it_again(cli, model, table, tmp_path, monkeypatch, out):
    monkeypatch.chdir(tmp_path)
    shutil.copy(table, "my $(data)'s.csv")
    shutil.copy(model, "a model.tcm")
    options = ["--fs", 100, "--labels", "activity", "--groups", "person", "--sample", "window",
               "--time", "t", "--where", "group!=p1", "--where", "label=rest,move",
               "--channels", "Fz,Cz,Pz"]  # fmt: skip
    done = cli("report", "a model.tcm", "-d", "my $(data)'s.csv", "-o", out, *options)
    assert done.code == 0, done.err
    page = tmp_path / out if out.endswith(".html") else tmp_path / out / "report.html"
    whole = page.read_bytes()
    command = shell_text(page)[0]
    page.unlink()
    words = shlex.split(command)
    assert words[0] == "tensorcontrast"
    for _ in range(2):  # also where the report is there already
        done = cli(*words[1:])
        assert done.code == 0, done.err
        assert page.read_bytes() == whole


def test_report_of_a_model(cli, model, data, tmp_path):
    page = tmp_path / "model.html"
    done = cli("report", model, "--data", data, "-o", page, "--json")
    assert done.code == 0, done.err
    assert done.json["report"] == str(page)
    text = page.read_text(encoding="utf-8")
    for name in ("Fz", "Cz", "Pz", "rest", "move", "think"):
        assert name in text


def test_reports_that_cannot_be_made(cli, model, data, tmp_path):
    assert cli("report", tmp_path / "nothing").code == 3
    done = cli("report", tmp_path)
    assert (done.code, "not the folder of a run" in done.err) == (3, True)
    done = cli("report", model)
    assert (done.code, "--data" in done.err) == (2, True)
    assert cli("report", tmp_path, "--data", data).code == 2
    assert cli("report", model, "--data", data, "--format", "pdf").code == 2
    assert cli("report", model, "--data", data, "-o", "x.html", "--format", "md").code == 2


def test_reports_of_hostile_names(cli, recordings, tmp_path, small):
    evil = "<script>alert(1)</script>"
    rec = Recordings(
        recordings.X,
        recordings.y,
        groups=recordings.groups,
        fs=100,
        channels=[evil + c for c in "abc"],
        classes=[evil + c for c in "abc"],
        name=evil,
    )
    path = rec.save(tmp_path / "x.npz")
    assert cli("fit", path, "-o", tmp_path / "m.tcm", *small).code == 0
    page = tmp_path / "r.html"
    assert cli("report", tmp_path / "m.tcm", "--data", path, "-o", page).code == 0
    assert "<script>alert" not in page.read_text(encoding="utf-8")
