"""Answers with times: segments, files, and scores of answers."""

import json

import numpy as np
import pytest
from sklearn.metrics import balanced_accuracy_score, confusion_matrix, f1_score, roc_auc_score

from tensorcontrast import Recordings
from tensorcontrast.classify import Timeline
from tensorcontrast.classify.evaluation import score_answers
from tensorcontrast.errors import FileError, InvalidInputError
from tensorcontrast.report.of_answers import (
    plot_confusion,
    plot_reliability,
    plot_sureness,
    report_of_answers,
)
from tensorcontrast.report.timeline_figure import plot_timeline


def timeline(labels, start, recording=None, length=20):
    """Answers for windows of 2 s at 10 Hz."""
    columns = {"start": np.asarray(start)}
    if recording is not None:
        columns["recording"] = np.asarray(recording)
    rec = Recordings(np.zeros((len(labels), 1, length)), fs=10, columns=columns, name="night")
    rng = np.random.default_rng(0)
    probabilities = rng.dirichlet([1, 1], len(labels))
    return Timeline.from_answers(rec, np.array(labels), probabilities, ["a", "b"])


def segments(line):
    return list(zip(line.recording, line.start_s, line.end_s, line.label, strict=True))


def test_neighbours_with_one_answer_are_one_segment():
    line = timeline(["a", "a", "b", "b", "a"], [0, 20, 40, 60, 100])
    merged = line.merged()
    assert segments(merged) == [
        ("night", 0, 4, "a"),
        ("night", 4, 8, "b"),
        ("night", 10, 12, "a"),
    ]
    assert merged.probability[0] == pytest.approx(line.probability[:2].mean())
    np.testing.assert_allclose(merged.probabilities[1], line.probabilities[2:4].mean(axis=0))


def test_overlapping_windows_meet_in_the_middle():
    line = timeline(["a", "a", "b", ""], [0, 10, 20, 30]).merged()
    assert segments(line) == [
        ("night", 0, 2.5, "a"),
        ("night", 2.5, 3.5, "b"),
        ("night", 3.5, 5, ""),
    ]


def test_recordings_stay_apart_and_in_order():
    line = timeline(["a", "a", "a"], [20, 0, 0], ["y", "y", "x"]).merged()
    assert segments(line) == [("x", 0, 2, "a"), ("y", 0, 4, "a")]


def test_unknown_answers_have_the_probability_of_the_likeliest_class():
    line = timeline(["", "b"], [0, 20])
    assert line.probability[0] == line.probabilities[0].max()
    assert line.probability[1] == line.probabilities[1, 1]
    assert [row["label"] for row in line.rows()] == [None, "b"]


@pytest.mark.parametrize(
    ("labels", "texts"), [([3, -1], ["3", ""]), ([True, False], ["True", "False"])]
)
def test_labels_of_any_type(labels, texts):
    rec = Recordings(np.zeros((2, 1, 20)))
    line = Timeline.from_answers(rec, np.array(labels), np.full((2, 2), 0.5), sorted(set(labels)))
    assert line.label.tolist() == texts
    assert not line.has_times
    for call in (line.merged, lambda: plot_timeline(line)):
        with pytest.raises(InvalidInputError, match="needs times"):
            call()


def test_files_appear_whole_or_not_at_all(tmp_path, monkeypatch):
    line = timeline(["a", "=b"], [0, 20])
    assert line.write(tmp_path / "a.csv").read_text().splitlines()[2].split(",")[3] == "'=b"
    data = json.loads(line.write(tmp_path / "a.json", probabilities=True).read_text())
    assert data["answers"][0].keys() >= {"p_a", "p_b"}
    with pytest.raises(FileError, match="answers are written as"):
        line.write(tmp_path / "a.xlsx")
    with pytest.raises(FileError, match="does not exist"):
        line.write(tmp_path / "no" / "a.csv")
    monkeypatch.setattr("csv.writer", lambda *args, **more: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        line.write(tmp_path / "b.csv")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.csv", "a.json"]


def test_the_picture_has_a_panel_per_recording():
    names = np.repeat([f"r{k:02}" for k in range(14)], 2)
    line = timeline(["a", "b"] * 14, [0, 20] * 14, names)
    figure = plot_timeline(line, line)
    assert [axis.get_title(loc="left") for axis in figure.axes] == [f"r{k:02}" for k in range(12)]
    assert [t.get_text() for t in figure.axes[0].get_yticklabels()] == ["a", "b"]


# --------------------------------------------------------------------------------- scores


@pytest.fixture(scope="module")
def judged():
    rng = np.random.default_rng(0)
    p = rng.dirichlet([1, 1, 1], 200)
    names = np.array(["a", "b", "c"])
    true = names[np.where(rng.random(200) < 0.6, p.argmax(axis=1), rng.integers(3, size=200))]
    return true, names[p.argmax(axis=1)], p


def test_scores_are_those_of_scikit_learn(judged):
    true, answers, p = judged
    groups = np.arange(200) % 4
    scores = score_answers(true, answers, p, ["a", "b", "c"], groups)
    assert scores.accuracy == pytest.approx((true == answers).mean())
    assert scores.balanced_accuracy == pytest.approx(balanced_accuracy_score(true, answers))
    assert scores.macro_f1 == pytest.approx(f1_score(true, answers, average="macro"))
    assert scores.macro_auc == pytest.approx(roc_auc_score(true, p, multi_class="ovr"))
    np.testing.assert_array_equal(scores.confusion, confusion_matrix(true, answers))
    assert [row["group"] for row in scores.by_group] == ["0", "1", "2", "3"]
    mean = np.mean([row["accuracy"] for row in scores.by_group])
    assert mean == pytest.approx(scores.accuracy)
    assert scores.reliability["count"].sum() == 200


def test_unknown_answers_and_classes_that_the_model_lacks(judged):
    true, answers, p = judged
    true, answers = np.where(np.arange(200) < 20, "d", true), answers.copy()
    answers[100:110] = ""
    scores = score_answers(true, answers, p, ["a", "b", "c"])
    assert scores.classes == ("a", "b", "c", "d", "unknown")
    assert scores.n_unknown == 10 == scores.confusion[:, -1].sum()
    assert scores.by_class[3]["recall"] == 0 and scores.by_class[3]["auc"] is None
    assert scores.accuracy == pytest.approx((true == answers).mean())
    figure = plot_confusion(scores)
    assert [t.get_text() for t in figure.axes[0].get_xticklabels()][-1] == "unknown"
    assert len(plot_reliability(scores).axes[0].collections) == 1
    heights = [bar.get_height() for bar in plot_sureness(scores).axes[0].patches]
    assert sum(heights) == pytest.approx(200)
    facts = dict(report_of_answers(scores, title="night").facts)
    assert facts["without an answer"] == "10"
    shown = report_of_answers(scores, title="night").figures
    told = next(item for item in shown if item.title == "How sure the answers are").caption
    right = (true == answers)[answers != ""].mean()
    assert f"10 of 200 windows have no answer; of the other 190, {right:.1%} are right" in told


def test_lengths_that_differ_are_refused():
    with pytest.raises(InvalidInputError, match="2 labels, 1 answers"):
        score_answers(["a", "b"], ["a"], np.ones((2, 1)), ["a"])
