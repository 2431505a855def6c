"""Tables: numbers are the means of the cells, names are text."""

import io

import numpy as np
from rich.console import Console

from tensorcontrast.evaluate.benchmark import Cell
from tensorcontrast.report.tables import TextTable, budget_name, score_table


def printed(table):
    stream = io.StringIO()
    Console(file=stream, width=200, force_terminal=False).print(table.rich())
    return stream.getvalue()


def test_means_and_deviations_of_the_cells(cells):
    table = score_table(cells, "Accuracy")
    assert [row[0] for row in table.rows] == ["CPD", "PLC", "w/o PLC"]
    for row in table.rows:
        for budget, text in zip((30, "100%"), row[1:], strict=True):
            own = [c.accuracy for c in cells if (c.method, c.budget) == (row[0], budget)]
            assert text == f"{np.mean(own):.3f} ± {np.std(own, ddof=1):.3f}"
            assert text in printed(table) and text in table.markdown() and text in table.html()


def test_one_repeat_has_no_deviation_and_gaps_are_dashes():
    cells = [Cell("d", "a", 0, 5, accuracy=0.5), Cell("d", "b", 0, 9, error="no")]
    assert score_table(cells, "").rows == [["a", "0.500", "–"], ["b", "–", "–"]]


def test_budget_names():
    assert [budget_name(b) for b in (1, 30, "5%", "100%")] == [
        "1 label",
        "30 labels",
        "5 % of labels",
        "all labels",
    ]


def test_hostile_names_do_not_reach_the_terminal_or_the_page(hostile_name):
    name = hostile_name
    table = TextTable(name, ["method", name], [[name, name]], [name])
    out = printed(table)
    assert "\x1b" not in out and "\x07" not in out and "\u202e" not in out
    assert "<img" not in table.html(stacked=True) and "<script" not in table.html()
    assert "<img" not in table.markdown()
