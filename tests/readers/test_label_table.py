"""Tables of labels: what they may hold, and which windows get which label."""

import numpy as np
import pytest

from tensorcontrast import Recordings
from tensorcontrast.errors import DataNotFoundError, FileError, ForeignFileError
from tensorcontrast.readers.label_table import label_recordings, read_label_table


@pytest.fixture(scope="module")
def rec():
    """Two recordings of five windows of 2 s at 10 Hz."""
    columns = {
        "recording": np.repeat(["days/a.csv", "days/b.csv"], 5),
        "start": np.tile(np.arange(5) * 20, 2),
    }
    return Recordings(np.zeros((10, 1, 20)), ["old"] * 10, fs=10, columns=columns)


def labelled(rec, tmp_path, text, **options):
    path = tmp_path / "labels.csv"
    path.write_text(text, encoding="utf-8")
    found = label_recordings(rec, read_label_table(path), where="labels.csv", **options)
    return [None if c < 0 else found.classes[c] for c in found.y]


def test_stretches_label_what_they_cover(rec, tmp_path):
    text = "recording,start_s,end_s,label\na,0,4,x\na,4.9,10,y\ndays/b.csv,2,4,x\n"
    found = labelled(rec, tmp_path, text)
    assert found == ["x", "x", "y", "y", "y", None, "x", None, None, None]
    half = labelled(rec, tmp_path, "recording,start_s,end_s,label\na,1,2,x\n")
    assert half[0] == "x"
    assert labelled(rec, tmp_path, text, min_share=0.9)[2] is None


def test_starts_label_the_nearest_window(rec, tmp_path):
    text = (
        "Recording,Start_s,Label,by\na.csv,0.2,x,me\na.csv,7.7,y,you\n\nb.csv,4,x,me\nb.csv,6,,me\n"
    )
    found = labelled(rec, tmp_path, text)
    assert found == ["x", None, None, None, "y", None, None, "x", None, None]


def test_one_recording_needs_no_name(rec, tmp_path):
    assert labelled(rec[:5], tmp_path, "start_s,label\n0,x\n2,y\n")[:3] == ["x", "y", None]
    with pytest.raises(FileError, match="no column 'recording', but there are 2 recordings"):
        labelled(rec, tmp_path, "start_s,label\n0,x\n")


def test_formulas_are_text(rec, tmp_path):
    assert labelled(rec, tmp_path, "recording,start_s,label\na,0,'=1+1\na,2,b\n")[0] == "=1+1"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("recording,when,label\na,0,x\n", "start_s"),
        ("recording,start_s,label\na,0,\n", "holds no label"),
        ("recording,start_s,label\na,nan,x\n", "line 2: start_s is 'nan'"),
        (
            "recording,start_s,label\na,0,x\na,0.3,y\n",
            "line 3: 'y' at 0.3 s overlaps 'x' of line 2",
        ),
        ("recording,start_s,label\na,40,x\n", "more than half a window from any window"),
        ("recording,start_s,label\nc,0,x\n", "labels recordings 'c', but there are 'days/a.csv'"),
        ("recording,start_s,end_s,label\na,0,0.5,x\n", "no label covers 50% of a window"),
    ],
)
def test_what_is_no_label_is_an_error(rec, tmp_path, text, message):
    with pytest.raises(FileError, match=message):
        labelled(rec, tmp_path, text)


def test_names_that_fit_two_recordings(rec, tmp_path):
    twice = rec._with(columns={**rec.columns, "recording": np.repeat(["x/a.csv", "y/a.csv"], 5)})
    with pytest.raises(FileError, match=r"line 2: 'a' may be 'x/a.csv', 'y/a.csv'"):
        labelled(twice, tmp_path, "recording,start_s,label\na,0,x\n")


def test_the_rest_after_the_last_window_is_no_error(rec, tmp_path):
    text = "recording,start_s,end_s,label\na,8,11.5,x\na,11.5,11.9,y\n"
    assert labelled(rec, tmp_path, text)[4] == "x"


def test_windows_without_times(tmp_path):
    with pytest.raises(FileError, match="do not say when they are from"):
        labelled(Recordings(np.zeros((3, 1, 20))), tmp_path, "start_s,label\n0,x\n")


def test_files_that_are_no_tables(tmp_path):
    with pytest.raises(DataNotFoundError, match="no such file of labels"):
        read_label_table(tmp_path / "labels.csv")
    with pytest.raises(ForeignFileError, match=r"\.csv or \.tsv"):
        read_label_table(tmp_path / "labels.xlsx")
    (tmp_path / "bytes.csv").write_bytes(b"\xff\xfe\x00start")
    with pytest.raises(FileError, match="UTF-8"):
        read_label_table(tmp_path / "bytes.csv")
