"""Progress goes where the output goes: a bar in terminals and notebooks, lines elsewhere."""

import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from rich.progress import Progress

from tensorcontrast import CPD, ContrastiveFeatures
from tensorcontrast.datasets import make_synthetic
from tensorcontrast.utils import progress

X = np.random.default_rng(0).normal(size=(12, 3, 4))


@pytest.fixture
def kernel(monkeypatch):
    """Pretend that a Jupyter kernel runs the test; what each output shows, update by update."""
    outputs = []

    class Handle:
        def __init__(self, shown):
            self.history = [shown]

        def update(self, shown, *, raw):
            assert raw
            self.history.append(shown)

    def display(shown, *, raw, display_id):
        assert raw and display_id
        outputs.append(Handle(shown))
        return outputs[-1]

    ipython, module = ModuleType("IPython"), ModuleType("IPython.display")
    ipython.get_ipython = lambda: SimpleNamespace(kernel=object())
    module.display = display
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    monkeypatch.setattr(progress.NotebookBar, "interval", 0.0)
    return outputs


def test_plain_lines_where_standard_error_is_no_terminal(capsys, monkeypatch):
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
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
    bar.interval = 0.0
    bar.advance(task, 10)
    assert capsys.readouterr().err == "tensors\\x1b[2J: 20 of 100\n"
    bar.update(task, completed=7, detail="objective 1")
    bar.stop()
    assert capsys.readouterr().err.count("tensors\\x1b[2J: 7 of 100, objective 1\n") == 2


def test_a_bar_in_a_terminal(monkeypatch):
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")  # as a terminal
    assert isinstance(progress.bar(), Progress)
    with progress.stage("work", show=True, total=3) as advance:
        advance(3)


def test_an_html_bar_in_a_notebook(kernel, capsys):
    CPD(rank=2, random_state=0, verbose=True).fit(X)
    assert kernel
    first = [shown["text/html"] for shown in kernel[0].history]
    assert any("<progress value=" in markup and "objective" in markup for markup in first)
    assert "<progress" not in first[-1] and "CPD: " in first[-1]  # it ends as a line
    assert "<script" not in "".join(first)
    assert kernel[0].history[-1]["text/plain"].startswith("CPD: ")
    assert capsys.readouterr() == ("", "")


def test_stages_of_a_fit_in_a_notebook(kernel, capsys):
    rec = make_synthetic(n_samples=30, n_channels=2, n_times=64, random_state=0)
    model = ContrastiveFeatures(decompose=CPD(rank=2), random_state=0, verbose=True)
    model.fit(rec)
    last = [output.history[-1]["text/plain"] for output in kernel]
    for name in ("spectrogram", "convolution features", "tensors", "decomposition"):
        assert any(line.startswith(f"{name}: ") and line.endswith(" s") for line in last), name
    assert capsys.readouterr() == ("", "")


def test_names_are_text_in_a_notebook(kernel):
    with progress.stage("<b>&", show=True, total=1) as advance:
        advance(1)
    shown = "".join(one["text/html"] for one in kernel[0].history)
    assert "<b>" not in shown and "&lt;b&gt;&amp;" in shown


def test_ipython_in_a_terminal_is_no_notebook(monkeypatch):
    ipython = ModuleType("IPython")
    ipython.get_ipython = lambda: SimpleNamespace(kernel=None)
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    assert not progress.in_notebook()
    monkeypatch.delitem(sys.modules, "IPython")
    assert not progress.in_notebook()
