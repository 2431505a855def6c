"""Logistic regression on rows: its penalty is selected on windows that were held out."""

import numpy as np

from tensorcontrast.classify.linear import ROW_LENGTHS, fit_logistic, select_length


def grouped(rng, n=240, width=60, own=0.0):
    """Rows of four people: a weak signal of two classes, and a strong mark of person and class."""
    codes, groups = rng.integers(0, 2, n), np.arange(n) % 4
    rows = 0.3 * rng.standard_normal((n, width))
    rows[:, 0] += 0.5 * (2 * codes - 1)
    rows[np.arange(n), 1 + groups * 2 + codes] += own  # tells nothing of other people
    return rows / np.linalg.norm(rows, axis=1, keepdims=True), codes, groups


def test_marks_of_single_people_call_for_a_stronger_penalty():
    rows, codes, groups = grouped(np.random.default_rng(0), own=3.0)
    length, scores, judged = select_length(rows, codes, 2, groups, np.random.default_rng(0))
    assert length < ROW_LENGTHS[0]
    assert judged.all() and scores.shape == (240, 2)


def test_the_standard_penalty_stays_where_none_is_clearly_better():
    rng = np.random.default_rng(0)
    codes = np.arange(20) % 2
    rows = 0.1 * rng.standard_normal((20, 6))
    rows[:, 0] += 2 * codes - 1
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    assert select_length(rows, codes, 2, None, rng)[0] == ROW_LENGTHS[0]
    assert select_length(rows[:2], codes[:2], 2, None, rng)[0] == ROW_LENGTHS[0]  # none to judge


def test_a_smaller_length_is_a_stronger_penalty():
    rows, codes, _ = grouped(np.random.default_rng(1))
    sizes = [np.linalg.norm(fit_logistic(rows, codes, 2, length)[0]) for length in ROW_LENGTHS]
    assert sizes == sorted(sizes, reverse=True)
