"""Progress goes where the output goes: a bar in terminals, lines elsewhere."""

import numpy as np
from rich.progress import Progress

from tensorcontrast import CPD
from tensorcontrast.utils import progress

X = np.random.default_rng(0).normal(size=(12, 3, 4))


def test_plain_lines_where_standard_error_is_no_terminal(capsys):
    CPD(rank=2, random_state=0, verbose=True).fit(X)
    out, err = capsys.readouterr()
    assert out == "" and "\x1b" not in err
    lines = err.splitlines()
    assert lines and all(line.startswith("CPD: ") and "objective" in line for line in lines)


def test_lines_come_at_intervals(capsys, monkeypatch):
    bar = progress.LineBar()
    bar.start()
    task = bar.add_task("tensors\x1b[2J", total=100)
    bar.advance(task, 10)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(progress, "LINE_INTERVAL", 0.0)
    bar.advance(task, 10)
    assert capsys.readouterr().err == "tensors\\x1b[2J: 20 of 100\n"
    bar.update(task, advance=7, detail="objective 1")
    bar.stop()
    assert capsys.readouterr().err.count("tensors\\x1b[2J: 27 of 100, objective 1\n") == 2


def test_a_bar_in_a_terminal(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")  # as a terminal
    assert isinstance(progress.bar(), Progress)
    with progress.stage("work", show=True, total=3) as advance:
        advance(3)
