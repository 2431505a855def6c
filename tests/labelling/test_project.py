"""The project file: nothing that was saved is lost, nothing is overwritten, bad files are named."""

import os
import signal
import sqlite3
import subprocess
import sys
import threading

import pytest

from tensorcontrast.errors import (
    DamagedFileError,
    FileError,
    ForeignFileError,
    InvalidInputError,
    NewerFileError,
)
from tensorcontrast.labelling.project import ConflictError, Project, class_name

ABOUT = {"fingerprint": "abc", "n_windows": 50, "description": "fifty windows", "command": "again"}


def names(project):
    return {window: label.label for window, label in project.labels().items()}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "p.tcl"


@pytest.fixture
def project(path):
    made = Project(path, ABOUT)
    yield made
    made.close()


def test_labels_corrections_and_undo_are_events_of_their_own(project, path):
    project.add_class("rest", who="ann")
    project.label([3], "rest", who="ann", client="a", seconds=2.5)
    project.label([3], "walk", who="bob", client="b", expected="rest")
    project.label([4, 5], "walk", who="ann", client="a", source="cluster")
    project.skip(6, who="ann", client="a")
    assert names(project) == {3: "walk", 4: "walk", 5: "walk"} and project.skipped() == {6}
    assert project.undo(client="a", who="ann") == [6]
    assert project.undo(client="a", who="ann") == [4, 5]
    assert project.undo(client="a", who="ann") == [3]  # under the label of the other page
    assert names(project) == {3: "walk"}
    assert project.undo(client="b", who="bob") == [3]
    assert names(project) == {} and project.skipped() == set()
    assert project.undo(client="b", who="bob") is None
    events = project.events()
    assert [e["action"] for e in events if e["action"] != "class"] == [
        *["label"] * 4,
        "skip",
        *["undo"] * 4,
    ]
    first = next(e for e in events if e["action"] == "label")
    assert (first["who"], first["client"], first["seconds"]) == ("ann", "a", 2.5)
    assert first["at"].endswith("+00:00")
    project.close()
    again = Project(path, ABOUT)
    assert names(again) == {} and again.classes == ["rest", "walk"]
    again.close()


def test_events_are_never_changed_or_removed(project, path):
    project.label([1], "rest")
    with sqlite3.connect(path) as base:
        for change in ("UPDATE events SET label = 'x'", "DELETE FROM events"):
            with pytest.raises(sqlite3.IntegrityError, match="never"):
                base.execute(change)
    base.close()
    assert names(project) == {1: "rest"}


def test_two_pages_do_not_overwrite_each_other(project, path):
    other = Project(path, ABOUT)  # another program
    project.label([7], "rest", who="ann", expected=None)
    with pytest.raises(ConflictError, match="labelled 'rest' by ann in the meantime") as caught:
        other.label([7], "walk", who="bob", expected=None)
    assert (caught.value.window, caught.value.label) == (7, "rest")
    assert names(other) == {7: "rest"}
    other.label([7], "walk", who="bob", expected="rest")  # now on purpose
    project.refresh()
    assert names(project) == {7: "walk"}
    project.label([7], None, expected="walk")
    with pytest.raises(ConflictError, match="taken away"):
        other.label([7], "walk", expected="walk")
    other.label([7, 8], ["rest", "run"], only_unlabelled=True)
    assert project.label([7, 9], "walk", only_unlabelled=True) and project.refresh() is False
    assert names(project) == {7: "rest", 8: "run", 9: "walk"}
    other.close()


def test_many_threads_write_to_one_project(project, path):
    other = Project(path, ABOUT)
    failures = []

    def work(owner, begin):
        try:
            for window in range(begin, begin + 10):
                owner.label([window], "rest", client=str(begin), expected=None)
        except Exception as error:
            failures.append(error)

    threads = [
        threading.Thread(target=work, args=(owner, begin))
        for begin, owner in zip(range(0, 40, 10), [project, other] * 2, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    project.refresh()
    assert failures == [] and sorted(names(project)) == list(range(40))
    other.close()


KILLED = """
import sys
from tensorcontrast.labelling.project import Project
project = Project(sys.argv[1], {"fingerprint": "abc", "n_windows": 50})
for window in range(50):
    project.label([window], "rest", who="ann")
    print(window, flush=True)  # what a page would say
"""


@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
def test_a_killed_program_loses_no_label_that_it_had_confirmed(path):
    child = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(path)], stdout=subprocess.PIPE, text=True
    )
    said = [int(child.stdout.readline()) for _ in range(18)]
    child.send_signal(signal.SIGKILL)
    said += [int(line) for line in child.stdout.read().split("\n")[:-1]]
    child.wait()
    child.stdout.close()
    project = Project(path, ABOUT)
    assert set(said) <= set(names(project)) and len(names(project)) <= len(said) + 1
    project.close()


def test_foreign_damaged_newer_and_other_files_are_named(path, tmp_path):
    path.write_text("# Tcl\nputs hello\n" * 50)
    with pytest.raises(ForeignFileError, match=r"p\.tcl: is not a project"):
        Project(path, ABOUT)
    path.unlink()
    base = sqlite3.connect(path)
    base.execute("CREATE TABLE t (x)")
    base.close()
    with pytest.raises(ForeignFileError, match="database of another program"):
        Project(path, ABOUT)
    path.unlink()
    good = Project(path, ABOUT)
    for window in range(50):
        good.label([window], "rest" * 20)
    good.close()
    with pytest.raises(InvalidInputError, match=r"fifty windows.*open it with: again"):
        Project(path, {"fingerprint": "other", "n_windows": 4})
    raw = path.read_bytes()
    for damage in (raw[: len(raw) // 2], raw[:4096] + b"\xff" * (len(raw) - 4096), raw[:100]):
        path.write_bytes(damage)
        with pytest.raises(DamagedFileError, match=r"p\.tcl: is damaged"):
            Project(path, ABOUT)
    path.write_bytes(raw)
    base = sqlite3.connect(path)
    base.execute("PRAGMA user_version = 99")
    base.close()
    with pytest.raises(NewerFileError, match="format 99"):
        Project(path, ABOUT)
    with pytest.raises(FileError, match="cannot be"):
        Project(tmp_path / "none" / "p.tcl", ABOUT)


@pytest.mark.parametrize("name", ["", "  ", "-1", "NaN", "x" * 121, "a\x1bb", "a\u202eb", 3, None])
def test_names_that_no_class_can_have(project, name):
    with pytest.raises(InvalidInputError):
        project.add_class(name)
    assert project.classes == []


def test_names_of_classes(project):
    assert class_name("  walk \n fast ") == "walk fast"
    project.add_class("rest")
    with pytest.raises(InvalidInputError, match="already"):
        project.add_class(" rest ")
    for window in (-1, 50):
        with pytest.raises(InvalidInputError, match="no window"):
            project.label([window], "rest")
    with pytest.raises(InvalidInputError, match="2 labels for 1 windows"):
        project.label([1], ["rest", "walk"])
    assert names(project) == {}


def test_estimates_and_notes_are_kept(project, path):
    project.add_estimate(20, 0.8, 0.6, 0.9)
    project.add_estimate(10, 0.5, 0.2, 0.8)
    project.remember("written", ["a.tcm"])
    project.close()
    again = Project(path, ABOUT)
    assert again.estimates() == [(10, 0.5, 0.2, 0.8), (20, 0.8, 0.6, 0.9)]
    assert again.about()["written"] == ["a.tcm"]
    again.close()
