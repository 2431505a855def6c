"""Tables: numbers are the means of the cells, the best is marked, names are text."""

import io
import math

import numpy as np
import pytest
from rich.console import Console

from tensorcontrast import TensorContrastError
from tensorcontrast.report.data import all_findings, findings
from tensorcontrast.report.scores import Published, Score, budget_name
from tensorcontrast.report.tables import score_tables


def printed(table):
    stream = io.StringIO()
    Console(file=stream, width=200, force_terminal=False).print(table.rich())
    return stream.getvalue()


def test_means_and_deviations_of_the_cells(cells):
    tables = score_tables(cells)
    assert [t.dataset for t in tables] == ["walk", "sleep"]
    for table in tables:
        assert table.budgets == ("30", "100%")
        for row in table.rows:
            for budget, score in row.scores.items():
                own = [
                    c["accuracy"]
                    for c in cells
                    if (c["dataset"], c["method"], str(c["budget"]))
                    == (table.dataset, row.method, budget)
                ]
                assert score.mean == pytest.approx(np.mean(own))
                assert score.sd == pytest.approx(np.std(own, ddof=1))
                text = f"{np.mean(own):.3f} ± {np.std(own, ddof=1):.3f}"
                assert text in printed(table) and text in table.markdown()
                assert table.json()["rows"][0]["scores"]["30"]["values"]


def test_the_best_of_a_column_is_marked_and_equals_share_it():
    cells = [
        {"dataset": "d", "method": m, "seed": 0, "budget": 5, "accuracy": a}
        for m, a in (("a", 0.70001), ("b", 0.7), ("c", 0.6))
    ]
    (table,) = score_tables(cells)
    assert table.best("5") == {"a", "b"}
    assert table.markdown().count("**0.700**") == 2 and "**0.600**" not in table.markdown()
    assert table.html().count('class="best"') == 2
    assert score_tables(cells[:1])[0].best("5") == set()


def test_one_repeat_has_no_deviation():
    score = Score((0.5,))
    assert math.isnan(score.sd) and str(score) == "0.500"
    cells = [{"dataset": "d", "method": "m", "seed": 0, "budget": 5, "accuracy": 0.5}]
    (table,) = score_tables(cells)
    assert "one repeat" in table.caption
    assert table.json()["rows"][0]["scores"]["5"]["sd"] is None


def test_columns_without_content_are_left_out_and_gaps_are_dashes(cells):
    fewer = [c for c in cells if not (c["method"] == "PLC" and c["budget"] == 30)]
    (table, _) = score_tables(fewer, published={("walk", "PLC"): Published(0.9349, 0.065)})
    assert table.head() == ["method", "30 labels", "all labels", "paper"]
    by_name = {line[0]: line[1:] for line in table.body()}
    assert by_name["PLC"][0] == "–" and by_name["PLC"][2] == "0.935 ± 0.065"
    assert by_name["CPD"][2] == "–"


def test_times_parameters_and_notes_are_shown(cells):
    more = [
        {**c, "fit_seconds": 2.0, "epoch_seconds": 0.25, "n_parameters": 12345, "note": "short"}
        for c in cells
    ]
    (table, _) = score_tables(more, notes={"walk": ["other data"]})
    assert table.head()[-4:] == ["s / epoch", "fit, s", "parameters", "note"]
    assert table.body()[0][-4:] == ["0.250", "2.0", "12,345", "short"]
    assert table.notes == ("other data",) and "other data" in table.markdown()
    assert "<sup>1</sup>" in table.html() and table.footnotes() == ["short"]


def test_findings_name_the_leader_and_the_spread(cells):
    (line, *_) = findings(score_tables(cells)[0])
    assert line.startswith("With 30 labels, PLC is ahead: ") and " sd)." in line
    assert [line.split(":")[0] for line in all_findings(score_tables(cells))] == (
        ["walk", "walk", "sleep", "sleep"]
    )
    many = [{**c, "dataset": "d", "budget": b} for c in cells for b in range(1, 6)]
    shown = all_findings(score_tables(many))
    assert [line.split(",")[0] for line in shown] == [
        "With 1 label",
        "With 3 labels",
        "With 5 labels",
    ]
    near = [
        {**c, "accuracy": 0.5 + 0.01 * c["seed"] + 0.001 * (c["method"] == "PLC")} for c in cells
    ]
    assert "(within one sd)" in findings(score_tables(near)[0])[0]


def test_who_is_level_is_not_ahead(cells):
    same = [
        {**c, "accuracy": 0.5 + 0.01 * c["seed"] + 0.0001 * (c["method"] == "PLC")} for c in cells
    ]
    (line, *_) = findings(score_tables(same)[0])
    methods = sorted({c["method"] for c in cells if c["dataset"] == "walk"})
    assert "ahead" not in line and line.endswith(" are level.")
    assert line.startswith("With 30 labels, PLC (0.5") and all(f"{m} (" in line for m in methods)


def test_budget_names():
    assert [budget_name(b) for b in (1, 30, "5%", "100%", "all")] == [
        "1 label",
        "30 labels",
        "5 % of labels",
        "all labels",
        "all labels",
    ]


def test_hostile_names_do_not_reach_the_terminal(hostile_name):
    name = hostile_name
    cells = [
        {"dataset": name, "method": name, "seed": s, "budget": 5, "accuracy": 0.5, "note": name}
        for s in range(2)
    ]
    (table,) = score_tables(cells)
    out = printed(table)
    assert "\x1b" not in out and "\x07" not in out and "\u202e" not in out
    assert "<img" not in table.html() and "<script" not in table.html()


def test_bad_cells_are_refused(cells):
    with pytest.raises(TensorContrastError, match="no method"):
        score_tables([{"dataset": "d", "budget": 3, "accuracy": 0.2}])
    with pytest.raises(TensorContrastError, match="nan"):
        score_tables([{**cells[0], "accuracy": float("nan")}])
    with pytest.raises(TensorContrastError, match="macro_f1"):
        score_tables(cells, metric="auc")


@pytest.mark.parametrize("width", [30, 45, 60, 80, 120])
def test_no_number_is_cut_however_narrow_the_terminal(cells, width):
    more = [
        {**c, "fit_seconds": 2.0, "n_parameters": 12345, "note": "a long note on the epochs"}
        for c in cells
    ]
    (table, _) = score_tables(more, published={("walk", "PLC"): Published(0.9349, 0.065)})
    stream = io.StringIO()
    Console(file=stream, width=width).print(table.rich())
    out = stream.getvalue()
    assert "…" not in out and max(map(len, out.splitlines())) <= width
    for row in table.rows:
        assert all(str(score) in out for score in row.scores.values())
    assert "0.935 ± 0.065" in out and "¹" in out and "a long note" in out
    assert ("12,345" in out) == (width >= 120)


def test_an_upper_bound_is_never_the_best(cells):
    marked = [{**c, "competes": c["method"] != "PLC"} for c in cells]
    (table, _) = score_tables(marked)
    assert table.best("30") and "PLC" not in table.best("30")
    assert not findings(table)[0].startswith("With 30 labels, PLC ")
