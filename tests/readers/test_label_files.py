"""Labels as people have them, and times that survive the way out and back."""

import datetime as dt

import numpy as np
import pandas as pd
import pytest

from tensorcontrast.classify import Timeline
from tensorcontrast.errors import FileError
from tensorcontrast.labelling.tables import export_csv, export_edf, import_labels
from tensorcontrast.readers.label_table import label_recordings, read_label_table
from tensorcontrast.recordings import Recordings

edfio = pytest.importorskip("edfio", reason="needs tensorcontrast[data]")
RNG = np.random.default_rng(0)
FS = 10


@pytest.fixture(scope="module")
def night():
    """Six windows of 10 s that begin at 23:59:30."""
    columns = {
        "recording": np.full(6, "a.edf"),
        "start": 100 * np.arange(6),
        "recording_start": np.full(6, "2024-03-01T23:59:30"),
    }
    return Recordings(np.zeros((6, 1, 100)), fs=FS, columns=columns)


def names(rec):
    return [rec.classes[k] if k >= 0 else None for k in rec.y]


W, N1 = "wake", "N1"
STAGES = [W, W, N1, N1, None, W]
#: Files with these stages.
TABLES = {
    "start and end": "start,end,stage\n0,20,wake\n20,40,N1\n50,60,wake\n",
    "onset and duration": "onset\tduration\ttrial_type\n0\t20\twake\n20\t20\tN1\n50\t10\twake\n",
    "in ms": "start_ms,end_ms,label\n0,20000,wake\n20000,40000,N1\n50000,60000,wake\n",
    "until the next": "time,label\n0,wake\n20,N1\n40,NA\n50,wake\n",
    "dates": (
        "start,end,label\n2024-03-01 23:59:30,2024-03-01 23:59:50,wake\n"
        "2024-03-01T23:59:50,2024-03-02T00:00:10,N1\n"
        "2024-03-02T00:00:20,2024-03-02T00:00:30,wake\n"
    ),
    "times of the day": (
        "start;end;label\n23:59:30;23:59:50;wake\n23:59:50;00:00:10;N1\n00:00:20;00:00:30;wake\n"
    ),
    "times until the next": "time,label\n23:59:30,wake\n23:59:50,N1\n00:00:10,\n00:00:20,wake\n",
    "one per line": "stage (10 s)\nwake\nwake\nN1\nN1\n-1\nwake\n",
    "as MNE writes": (
        "# MNE-Annotations\n# onset, duration, description\n0.0,20.0,wake\n20.0,20.0,N1\n"
        "50.0,10.0,wake\n"
    ),
}


@pytest.mark.parametrize("text", TABLES.values(), ids=TABLES)
def test_tables_of_labels(tmp_path, night, text):
    path = tmp_path / ("labels.tsv" if "\t" in text else "labels.csv")
    path.write_text(text)
    rec = label_recordings(night, read_label_table(path), where=str(path))
    assert names(rec) == STAGES


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("start,ende,label\n0,20,x\n20,40,y\n", "ende"),
        ("start_s,finished,label\n0,20,x\n20,40,y\n", "finished"),
        ("start,end,label\n20,10,x\n", "line 2"),
        ("start,end\n0,20\n", "label"),
        ("time,label\n20,x\n10,y\n", "line 3"),
        ("start,label\nsoon,x\n", "soon"),
    ],
)
def test_what_is_wrong_in_a_table_of_labels(tmp_path, night, text, word):
    (tmp_path / "labels.csv").write_text(text)
    with pytest.raises(FileError, match=word):
        rows = read_label_table(tmp_path / "labels.csv")
        label_recordings(night, rows, where="labels.csv")


def test_dates_need_a_recording_with_a_date(tmp_path, night):
    (tmp_path / "labels.csv").write_text(TABLES["dates"])
    columns = {k: v for k, v in night.columns.items() if k != "recording_start"}
    with pytest.raises(FileError, match="begins"):
        rows = read_label_table(tmp_path / "labels.csv")
        label_recordings(night._with(columns=columns), rows)


# ------------------------------------------------------------------------------ round trips

STARTS = {
    "none": None,
    "midnight": dt.datetime(2024, 3, 1, 0, 0, 0),
    "over midnight": dt.datetime(2024, 3, 1, 23, 59, 30),
    "into summer time": dt.datetime(2024, 3, 31, 1, 59, 30),
    "a fraction": dt.datetime(2024, 3, 1, 22, 15, 7, 250000),
}


def edf(folder, start):
    more = {}
    if start is not None:
        more = {"starttime": start.time(), "recording": edfio.Recording(startdate=start.date())}
    signal = edfio.EdfSignal(RNG.uniform(-1, 1, 600), FS, label="A", physical_range=(-1, 1))
    if start is not None and start.microsecond:
        with pytest.warns(UserWarning, match="microsecond"):
            file = edfio.Edf([signal], patient=edfio.Patient(code="P7"), **more)
    else:
        file = edfio.Edf([signal], patient=edfio.Patient(code="P7"), **more)
    file.write(folder / "night.edf")
    return folder / "night.edf"


def table(folder, start):
    t = np.arange(600) / FS
    if start is not None:
        t = [(start + dt.timedelta(seconds=s)).isoformat() for s in t]
    frame = pd.DataFrame({"time": t, "A": RNG.normal(size=600)})
    frame.to_csv(folder / "night.csv", index=False)
    return folder / "night.csv"


def gapped(folder, start):
    frame = pd.read_csv(table(folder, start))
    frame.drop(index=range(205, 300)).to_csv(folder / "night.csv", index=False)
    return folder / "night.csv"


def answers(rec, folder, suffix):
    labels = np.array([v or "" for v in WANTED[: len(rec)]])
    classes = ["N1", "wake"]
    timeline = Timeline.from_answers(rec, labels, np.tile([0.4, 0.6], (len(rec), 1)), classes)
    return timeline.write(folder / f"answers{suffix}")


def project(rec, folder, suffix):
    marks = {k: v for k, v in enumerate(WANTED[: len(rec)]) if v}
    path = folder / f"project{suffix}"
    path.write_bytes(export_csv(rec, marks) if suffix == ".csv" else export_edf(rec, marks)[1])
    return path


WANTED = ["wake", "wake", "N1", "N1", None, "wake"]


@pytest.mark.filterwarnings("ignore:.*gap")
@pytest.mark.parametrize("start", STARTS.values(), ids=STARTS)
@pytest.mark.parametrize("make", [edf, table, gapped])
@pytest.mark.parametrize("export", [answers, project])
@pytest.mark.parametrize("suffix", [".csv", ".edf"])
def test_labels_come_back_to_their_samples(tmp_path, start, make, export, suffix):
    source = make(tmp_path, start)
    rec = Recordings.read(source, window_s=10)
    starts = rec.columns.get("recording_start", [""])
    assert starts[0] == ("" if start is None else start.isoformat())
    written = export(rec, tmp_path, suffix)
    wanted = WANTED[: len(rec)]
    options = {"labels": "annotations"} if make is edf and suffix == ".edf" else {}
    back = Recordings.read(source, window_s=10, annotations=written, **options)
    assert names(back) == wanted
    named = written.with_name("night-labels" + suffix)
    written.rename(named)
    assert import_labels(rec, named) == {k: v for k, v in enumerate(wanted) if v}
    if suffix == ".csv":
        rows = read_label_table(named)
        assert names(label_recordings(rec, rows)) == wanted


def test_annotations_keep_start_and_patient(tmp_path):
    start = STARTS["over midnight"]
    rec = Recordings.read(edf(tmp_path, start), window_s=10)
    file = edfio.read_edf(answers(rec, tmp_path, ".edf"))
    assert file.startdatetime == start and file.patient.code == "P7"
    frame = pd.read_csv(answers(rec, tmp_path, ".csv"))
    assert frame["start_time"].tolist()[3] == "2024-03-02T00:00:00"
