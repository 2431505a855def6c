"""report: the page of a model, and the command in it that writes it again."""

import html
import re
import shlex
import shutil

import pytest

from tensorcontrast import Recordings


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
    assert cli("report", tmp_path / "nothing", "--data", data).code == 3
    done = cli("report", model)
    assert (done.code, "--data" in done.err) == (2, True)
    assert cli("report", tmp_path, "--data", data).code == 3
    assert cli("report", model, "--data", data, "-o", "x.md").code == 2


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
