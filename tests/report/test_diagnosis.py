"""The section of a report on what can be trusted: words and tables."""

import dataclasses

import numpy as np

from tensorcontrast import CPD
from tensorcontrast.datasets import make_cp_tensor
from tensorcontrast.report import diagnosis


def test_sentences_tables_and_markup():
    X, *_ = make_cp_tensor(60, (6, 8, 7), 2, noise=0.3, n_classes=1, random_state=0)
    X[5] *= 20
    found = CPD(14, random_state=0).fit(X).diagnose(X, np.arange(60) // 6, n_seeds=1, n_splits=1)
    words = diagnosis.sentences(found)
    assert words[0].startswith(f"{found.n_stable} of 14")
    assert any("5 (leverage" in line for line in words)
    assert all(line.endswith(".") and line[0].upper() == line[0] for line in words)
    table = diagnosis.feature_table(found)
    assert [row[1] for row in table.rows] == [f.verdict for f in found.features]
    assert all(len(row) == len(table.head) for row in table.rows)
    page = diagnosis.section_html(found)
    assert page.count("<tr>") == 14 + 2 and "2 more features" in page
    bare = dataclasses.replace(
        found, seeds=0, splits=0, seed_space=None, split_space=None, outliers=(), notes=("<b>",)
    )
    assert len(diagnosis.sentences(bare)) < len(words)
    assert "<b>" not in diagnosis.section_html(bare)
