"""Names from files: visible in messages, short in lists, never a formula in a spreadsheet."""

import csv
import pickle

import numpy as np
import pytest

from tensorcontrast import Recordings
from tensorcontrast import errors as project_errors
from tensorcontrast.cli.shared import feature_files
from tensorcontrast.errors import DataNotFoundError, FileError, TensorContrastWarning
from tensorcontrast.utils.names import csv_text, from_csv_text, listed, visible

FORMULAS = [
    "=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\tx", "\rx", " =1", "\n=1", "\u00a0=1",
    "\ufeff=1", "\uff1d1", "'=1", "''=1", "-", "=", "+1-1", "-1e5x",
]  # fmt: skip
HARMLESS = [
    "",
    "rest",
    "a=b",
    "-1.5",
    "+3",
    "-.5e-3",
    "1e9",
    "'quoted'",
    "it's",
    "x-1",
    "'",
    "'-1x",
]
HOSTILE = "\x1b[2J\x9b\u202egnp\u2066a\u2069\u200b\x00b\x07"


def begins_a_formula(cell):
    return cell.lstrip(" \n\r\t\u00a0\ufeff\u200b")[:1] in tuple("=+-@\uff1d") or cell[:1] in "\t\r"


@pytest.mark.parametrize("text", FORMULAS)
def test_formulas_are_neutralised_and_come_back(text):
    out = csv_text(text)
    assert out == f"'{text}" and not begins_a_formula(out)
    assert from_csv_text([out, "rest"]) == [text, "rest"]


@pytest.mark.parametrize("text", HARMLESS[:-1])
def test_other_text_and_numbers_stay(text):
    assert csv_text(text) == text
    assert from_csv_text([text]) == [text]


def test_no_two_texts_become_one():
    texts = [*FORMULAS, *HARMLESS, "'-1", "''-1"]
    written = [csv_text(text) for text in texts]
    assert len(set(written)) == len(set(texts))
    assert from_csv_text(written) == texts
    foreign = ["=1", "'=1", "'-1", "-1"]  # by another program: left alone
    assert from_csv_text(foreign) == foreign
    assert from_csv_text(["'-1", "-1"]) == ["'-1", "-1"]


def test_no_cell_of_a_csv_of_features_begins_a_formula(tmp_path):
    n = len(FORMULAS)
    names = np.array(FORMULAS)
    rec = Recordings(
        np.random.default_rng(0).normal(size=(n, 1, 8)), names, groups=names[::-1].copy(),
        columns={"=HYPERLINK(1)": names, "sample": np.arange(n), "age": np.arange(n) - 5},
    )  # fmt: skip
    features = np.random.default_rng(1).normal(size=(n, 2))
    path = tmp_path / "f.csv"
    with feature_files.writing(path, rec, 2) as write:
        write(features)
    with path.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    head = list(rows[0])
    assert head == [
        "label",
        "group",
        "'=HYPERLINK(1)",
        "sample",
        "age",
        "component_0",
        "component_1",
    ]
    for row in rows:
        for key in ("label", "group", "'=HYPERLINK(1)"):
            assert row[key][0] == "'" and not begins_a_formula(row[key])
    assert [int(row["age"]) for row in rows] == (np.arange(n) - 5).tolist()
    np.testing.assert_allclose(
        [float(row["component_0"]) for row in rows], features[:, 0], rtol=1e-8
    )
    pytest.importorskip("pandas", reason="needs tensorcontrast[data]")
    back = Recordings.read(path, channels=["component_0", "component_1"], sample="sample")
    assert [back.classes[k] for k in back.y] == FORMULAS
    assert back.groups.tolist() == FORMULAS[::-1]
    np.testing.assert_allclose(back.X[:, :, 0], features, rtol=1e-5)
    with pytest.raises(FileError, match=r"no channel 'x'; there are .*'=HYPERLINK\(1\)'"):
        Recordings.read(path, channels=["x"], sample="sample")


# ---------------------------------------------------------------------------- messages


def classes():
    found = vars(project_errors).values()
    return [c for c in found if isinstance(c, type) and issubclass(c, Exception | Warning)]


@pytest.mark.parametrize("cls", classes())
def test_every_error_and_warning_shows_what_it_says(cls):
    error = cls(f"{HOSTILE}\nline")
    text = str(error)
    assert text == f"{visible(HOSTILE)}\nline"
    assert all(c.isprintable() or c == "\n" for c in text)
    assert r"\x1b[2J\x9b\u202egnp\u2066a\u2069\u200b\x00b\x07" in text
    assert str(pickle.loads(pickle.dumps(error))) == text
    assert str(cls()) == "" and cls(3).args == (3,)


def test_a_hostile_file_name_is_shown_harmlessly(tmp_path):
    with pytest.raises(DataNotFoundError) as info:
        Recordings.read(tmp_path / "\x1b[31m\u202efdp.npz")
    assert r"\x1b[31m\u202efdp.npz" in str(info.value)
    with pytest.warns(TensorContrastWarning) as caught:
        np.savez(tmp_path / "\u202ex.npz", X=np.ones((2, 1, 4)) * [[1], [2]], more=np.arange(5))
        Recordings.read(tmp_path / "\u202ex.npz")
    assert r"\u202ex.npz" in str(caught[0].message) and "\u202e" not in str(caught[0].message)


def test_lists_in_messages_are_short():
    text = listed([f"{k}" * 10_000 for k in range(1000)])
    assert len(text) < 1200 and text.endswith("and 988 more")
    assert listed([]) == "(none)"
    assert "\x1b" not in listed([HOSTILE]) and "\u202e" not in listed([HOSTILE])


def test_names_of_many_scripts_stay_as_they_are():
    for name in ("Fp1–M2", "µV", "氏名", "اسم", "क्‍ष", "👩‍🔬", "é"):
        assert visible(name) == name
