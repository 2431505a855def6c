"""The project file: every label as an event that is on disk before anybody is shown it.

A project is one SQLite database. Its table ``events`` only grows: a label, a correction, an undo
and a skip are rows of their own, with who gave them, when, and after how many seconds. What a
window's label is now follows from the rows in their order. Several pages, and several programs, may
write to one project: a label is refused where another has changed the window in the meantime.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import EllipsisType
from typing import Any

from tensorcontrast.errors import (
    DamagedFileError,
    FileError,
    ForeignFileError,
    InvalidInputError,
    NewerFileError,
    TensorContrastError,
)
from tensorcontrast.utils.names import visible

__all__ = ["ConflictError", "Label", "Project"]

#: Identifies the database: "TCLB".
APPLICATION_ID = 0x54434C42
FORMAT = 1
MAGIC = b"SQLite format 3\0"
#: Longest name of a class and of a person, in characters.
MAX_NAME = 120
#: Most classes of a project.
MAX_CLASSES = 200
#: Texts that mean "unknown" wherever labels are read.
RESERVED = {"", "-1", "nan", "none", "na", "nat", "<na>"}

_SCHEMA = f"""
CREATE TABLE IF NOT EXISTS about (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS events (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  batch INTEGER NOT NULL,
  action TEXT NOT NULL CHECK (action IN ('label', 'skip', 'undo', 'class')),
  window INTEGER,
  label TEXT,
  undoes INTEGER,
  who TEXT NOT NULL,
  client TEXT NOT NULL,
  source TEXT NOT NULL,
  at TEXT NOT NULL,
  seconds REAL
) STRICT;
CREATE TABLE IF NOT EXISTS estimates (
  n INTEGER PRIMARY KEY, accuracy REAL, low REAL, high REAL, at TEXT
) STRICT;
CREATE TRIGGER IF NOT EXISTS no_change BEFORE UPDATE ON events
  BEGIN SELECT RAISE(ABORT, 'events are never changed'); END;
CREATE TRIGGER IF NOT EXISTS no_removal BEFORE DELETE ON events
  BEGIN SELECT RAISE(ABORT, 'events are never removed'); END;
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {FORMAT};
"""


class ConflictError(TensorContrastError):
    """A window that another page has labelled in the meantime."""

    def __init__(self, message: str, window: int, label: str | None) -> None:
        super().__init__(message)
        self.window, self.label = window, label


@dataclass(frozen=True)
class Label:
    """The label of a window: None where it was taken away."""

    label: str | None
    who: str
    at: str
    seconds: float | None
    source: str
    batch: int
    action: str = "label"


@dataclass
class _Now:
    """What follows from the events so far."""

    last: int = 0
    classes: list[str] = field(default_factory=list)
    stacks: dict[int, list[Label]] = field(default_factory=dict)
    windows: dict[int, list[int]] = field(default_factory=dict)
    clients: dict[int, tuple[str, str]] = field(default_factory=dict)
    undone: set[int] = field(default_factory=set)
    labels: dict[int, Label] = field(default_factory=dict)
    skipped: set[int] = field(default_factory=set)
    touched: set[int] = field(default_factory=set)

    def settle(self, window: int) -> None:
        """Find the label of a window whose events have changed."""
        stack = self.stacks[window]
        self.touched.add(window)
        given = [label for label in stack if label.action == "label"]
        if given and given[-1].label is not None:
            self.labels[window] = given[-1]
        else:
            self.labels.pop(window, None)
        if stack and stack[-1].action == "skip":
            self.skipped.add(window)
        else:
            self.skipped.discard(window)

    def add(self, row: sqlite3.Row) -> None:
        self.last = int(row["id"])
        batch, action = int(row["batch"]), str(row["action"])
        if action == "class":
            if row["label"] not in self.classes:
                self.classes.append(row["label"])
        elif action == "undo":
            undone = int(row["undoes"])
            self.undone.add(undone)
            for window in self.windows.get(undone, []):
                kept = [label for label in self.stacks[window] if label.batch != undone]
                self.stacks[window] = kept
                self.settle(window)
        else:
            label = Label(
                row["label"], row["who"], row["at"], row["seconds"], row["source"], batch, action
            )
            self.stacks.setdefault(int(row["window"]), []).append(label)
            self.windows.setdefault(batch, []).append(int(row["window"]))
            self.clients[batch] = (row["who"], row["client"])
            self.settle(int(row["window"]))


class Project:
    """An open project file.

    Parameters
    ----------
    path : path
        The file; made where it is missing.
    about : mapping
        What the windows are: ``fingerprint`` and ``n_windows``, and anything else that messages
        show. A file whose fingerprint is another is refused.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     project = Project(f"{folder}/a.tcl", {"fingerprint": "1", "n_windows": 9})
    ...     batch = project.label([4], "rest", who="ann")
    ...     project.close()
    ...     again = Project(f"{folder}/a.tcl", {"fingerprint": "1", "n_windows": 9})
    ...     {window: label.label for window, label in again.labels().items()}
    ...     again.close()
    {4: 'rest'}
    """

    def __init__(self, path: str | Path, about: Mapping[str, Any]) -> None:
        self.path = Path(path).expanduser()
        self._lock = threading.RLock()
        self._now = _Now()
        self.n_windows = int(about["n_windows"])
        exists = self.path.exists() and self.path.stat().st_size > 0
        if exists:
            self._check_file()
        try:
            self._base = sqlite3.connect(
                self.path, timeout=10, isolation_level=None, check_same_thread=False
            )
        except sqlite3.DatabaseError as error:
            raise self._failure(error) from error
        try:
            self._open(about, exists=exists)
        except BaseException:
            self._base.close()
            raise

    # ---------------------------------------------------------------------------- opening

    def _open(self, about: Mapping[str, Any], *, exists: bool) -> None:
        """Check the database, or make it, and read what it holds."""
        try:
            self._base.row_factory = sqlite3.Row
            if exists:
                self._check_kind()
            self._base.execute("PRAGMA journal_mode = WAL")
            self._base.execute("PRAGMA synchronous = FULL")
            if not exists:
                self._create(about)
        except sqlite3.DatabaseError as error:
            raise self._failure(error) from error
        self._check_data(about)
        self.refresh()

    def _check_file(self) -> None:
        try:
            with self.path.open("rb") as stream:
                begin = stream.read(len(MAGIC))
        except OSError as error:
            raise FileError(f"{self.path}: cannot be read: {error.strerror or error}") from error
        if begin != MAGIC:
            raise ForeignFileError(
                f"{self.path}: is not a project of tensorcontrast label; name another file with -o"
            )

    def _check_kind(self) -> None:
        kind = self._base.execute("PRAGMA application_id").fetchone()[0]
        version = self._base.execute("PRAGMA user_version").fetchone()[0]
        if kind != APPLICATION_ID:
            raise ForeignFileError(
                f"{self.path}: is a database of another program; name another file with -o"
            )
        if version > FORMAT:
            raise NewerFileError(
                f"{self.path}: is of format {version}, and this version reads up to {FORMAT}; "
                "install a newer tensorcontrast"
            )
        found = self._base.execute("PRAGMA quick_check(1)").fetchone()[0]
        if found != "ok":
            raise self._failure(found)

    def _failure(self, reason: object) -> FileError:
        text = str(reason)
        if "locked" in text:
            return FileError(f"{self.path}: is locked by another program; close that one first")
        if "full" in text or "disk I/O" in text or "readonly" in text or "unable to open" in text:
            return FileError(
                f"{self.path}: cannot be written: {text}; free some space, or check the rights"
            )
        return DamagedFileError(
            f"{self.path}: is damaged ({text}); put a copy of it in place, or name another file "
            "with -o"
        )

    def _create(self, about: Mapping[str, Any]) -> None:
        values = {**about, "created": _time()}
        begin = "BEGIN IMMEDIATE;" + _SCHEMA
        rows = "".join(
            f"INSERT OR IGNORE INTO about VALUES ({_quoted(name)}, {_quoted(json.dumps(value))});"
            for name, value in values.items()
        )
        self._base.executescript(begin + rows + "COMMIT;")

    def _check_data(self, about: Mapping[str, Any]) -> None:
        try:
            kept = self.about()
        except (sqlite3.DatabaseError, ValueError) as error:
            raise self._failure(error) from error
        if kept.get("fingerprint") != about["fingerprint"]:
            was = visible(str(kept.get("description", f"{kept.get('n_windows')} windows")))
            is_now = visible(str(about.get("description", f"{about['n_windows']} windows")))
            command = kept.get("command")
            way = f"open it with: {visible(str(command))}\nor " if command else ""
            raise InvalidInputError(
                f"{self.path}: has labels of other windows ({was}) than DATA ({is_now}); {way}"
                "name another project with -o"
            )

    def close(self) -> None:
        """Close the file; everything is on disk already."""
        with self._lock:
            self._base.close()

    # ---------------------------------------------------------------------------- reading

    def about(self) -> dict[str, Any]:
        """Return what the project knows about its data."""
        with self._lock:
            rows = self._base.execute("SELECT name, value FROM about").fetchall()
        return {row["name"]: json.loads(row["value"]) for row in rows}

    def refresh(self) -> bool:
        """Read what others have written; returns whether there was anything new."""
        with self._lock:
            before = self._now.last
            try:
                rows = self._base.execute(
                    "SELECT * FROM events WHERE id > ? ORDER BY id", (before,)
                )
                for row in rows:
                    self._now.add(row)
            except (sqlite3.DatabaseError, KeyError, TypeError) as error:
                raise self._failure(error) from error
            return self._now.last != before

    @property
    def version(self) -> int:
        """Number of the last event."""
        return self._now.last

    @property
    def classes(self) -> list[str]:
        """Names of the classes in the order in which they were added."""
        with self._lock:
            return list(self._now.classes)

    def labels(self) -> dict[int, Label]:
        """Return the label of each window that has one."""
        with self._lock:
            return dict(self._now.labels)

    def label_of(self, window: int) -> Label | None:
        """Return the label of a window; None where it has none."""
        return self._now.labels.get(window)

    def skipped(self) -> set[int]:
        """Return the windows that were looked at last and given no label."""
        with self._lock:
            return set(self._now.skipped)

    def touched(self) -> set[int]:
        """Return the windows whose label may have changed since this was called last."""
        with self._lock:
            out, self._now.touched = self._now.touched, set()
            return out

    def events(self) -> list[dict[str, Any]]:
        """Return all events, the first one first."""
        with self._lock:
            return [dict(row) for row in self._base.execute("SELECT * FROM events ORDER BY id")]

    # ---------------------------------------------------------------------------- writing

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction that has seen what others wrote, and is on disk at its end."""
        with self._lock:
            try:
                self._base.execute("BEGIN IMMEDIATE")
            except sqlite3.DatabaseError as error:
                raise self._failure(error) from error
            try:
                self.refresh()
                yield self._base
                self._base.execute("COMMIT")
            except sqlite3.DatabaseError as error:
                if self._base.in_transaction:
                    self._base.execute("ROLLBACK")
                raise self._failure(error) from error
            except BaseException:
                if self._base.in_transaction:
                    self._base.execute("ROLLBACK")
                raise
            self.refresh()

    def label(
        self,
        windows: Sequence[int],
        label: str | Sequence[str] | None,
        *,
        who: str = "",
        client: str = "",
        seconds: float | None = None,
        source: str = "window",
        expected: str | EllipsisType | None = ...,
        only_unlabelled: bool = False,
    ) -> int:
        """Label windows, all or none; returns the number of the batch.

        Parameters
        ----------
        windows : sequence of int
        label : str, sequence of str or None
            One class for all, one class for each, or None to take labels away. A class that is new
            is added.
        who, client : str
            The person, and the page.
        seconds : float, optional
            How long the window was looked at.
        source : str
            "window", "cluster", "review" or "import".
        expected : str or None, optional
            Label that the page showed. Where the window has another one by now, nothing is written.
        only_unlabelled : bool
            Leave out windows that have a label.

        Raises
        ------
        ConflictError
            Another page was quicker.
        """
        names = [label] * len(windows) if label is None or isinstance(label, str) else list(label)
        names = [None if name is None else class_name(name) for name in names]
        windows = [self._checked(window) for window in windows]
        if len(names) != len(windows) or not windows:
            raise InvalidInputError(f"{len(names)} labels for {len(windows)} windows")
        with self._writing() as base:
            pairs = list(zip(windows, names, strict=True))
            if only_unlabelled:
                pairs = [pair for pair in pairs if self.label_of(pair[0]) is None]
            if not isinstance(expected, EllipsisType):
                for window, _ in pairs:
                    found = self.label_of(window)
                    now = None if found is None else found.label
                    if now != expected:
                        by = f" by {visible(found.who)}" if found and found.who else ""
                        raise ConflictError(
                            f"this window has been labelled {visible(now)!r}{by} in the meantime"
                            if now is not None
                            else "the label of this window has been taken away in the meantime",
                            window,
                            now,
                        )
            batch = self._next()
            for name in dict.fromkeys(names):
                if name is not None and name not in self._now.classes:
                    self._check_room(1)
                    self._insert(base, batch, "class", None, name, who, client, source, None)
            share = None if seconds is None else seconds / max(1, len(pairs))
            for window, name in pairs:
                self._insert(base, batch, "label", window, name, who, client, source, share)
            return batch

    def skip(
        self, window: int, *, who: str = "", client: str = "", seconds: float | None = None
    ) -> int:
        """Note that a window was looked at and given no label."""
        window = self._checked(window)
        with self._writing() as base:
            batch = self._next()
            self._insert(base, batch, "skip", window, None, who, client, "window", seconds)
            return batch

    def add_class(self, name: str, *, who: str = "", client: str = "") -> str:
        """Add a class; returns its name without white space around it."""
        name = class_name(name)
        with self._writing() as base:
            if name in self._now.classes:
                raise InvalidInputError(f"there is a class {visible(name)!r} already")
            self._check_room(1)
            batch = self._next()
            self._insert(base, batch, "class", None, name, who, client, "window", None)
        return name

    def undo(
        self, *, who: str = "", client: str = "", others: Sequence[str] = ()
    ) -> list[int] | None:
        """Undo the last label or skip of a page; returns its windows, None where there is none.

        Parameters
        ----------
        who, client : str
            The person, and the page.
        others : sequence of str
            Pages that are open as well, whose labels are theirs to undo.
        """
        with self._writing() as base:
            mine = [b for b, (_, c) in self._now.clients.items() if c == client]
            left = [b for b in mine if b not in self._now.undone]
            if not left:  # of a page that was closed
                left = [
                    b
                    for b, (person, c) in self._now.clients.items()
                    if person == who and c not in others and b not in self._now.undone
                ]
            if not left:
                return None
            row = (self._next(), "undo", max(left), who, client, "window", _time())
            base.execute(
                "INSERT INTO events (batch, action, undoes, who, client, source, at) "
                "VALUES (?, ?, ?, ?, ?, ?, ?)",
                row,
            )
            return list(self._now.windows[max(left)])

    def _insert(
        self,
        base: sqlite3.Connection,
        batch: int,
        action: str,
        window: int | None,
        label: str | None,
        who: str,
        client: str,
        source: str,
        seconds: float | None,
    ) -> None:
        base.execute(
            "INSERT INTO events (batch, action, window, label, who, client, source, at, seconds) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (batch, action, window, label, who, client, source, _time(), seconds),
        )

    def _next(self) -> int:
        return self._now.last + 1

    def _checked(self, window: int) -> int:
        if not 0 <= int(window) < self.n_windows:
            raise InvalidInputError(f"there is no window {window} among {self.n_windows}")
        return int(window)

    def _check_room(self, more: int) -> None:
        if len(self._now.classes) + more > MAX_CLASSES:
            raise InvalidInputError(f"a project has at most {MAX_CLASSES} classes")

    # ------------------------------------------------------------------- what is remembered

    def remember(self, name: str, value: Any) -> None:
        """Keep a value about the project."""
        with self._writing() as base:
            text = json.dumps(value)
            base.execute("INSERT OR REPLACE INTO about VALUES (?, ?)", (name, text))

    def add_estimate(self, n: int, accuracy: float, low: float, high: float) -> None:
        """Keep the accuracy that was estimated with n labels."""
        with self._writing() as base:
            row = (n, accuracy, low, high, _time())
            base.execute("INSERT OR REPLACE INTO estimates VALUES (?, ?, ?, ?, ?)", row)

    def estimates(self) -> list[tuple[int, float, float, float]]:
        """Return number of labels, accuracy and the ends of its interval, fewest labels first."""
        with self._lock:
            rows = self._base.execute("SELECT n, accuracy, low, high FROM estimates ORDER BY n")
            return [tuple(row) for row in rows]


def class_name(name: Any) -> str:
    """Return the name of a class without white space around it; raise where it cannot be one."""
    if not isinstance(name, str):
        raise InvalidInputError(f"a class has a text for a name, not {type(name).__name__}")
    name = " ".join(name.split())
    if name.lower() in RESERVED:
        raise InvalidInputError(f"{name!r} means unknown and cannot be the name of a class")
    if len(name) > MAX_NAME:
        raise InvalidInputError(f"a name of {len(name)} characters is too long; take {MAX_NAME}")
    if visible(name) != name:
        raise InvalidInputError(
            f"the name {visible(name)!r} has an invisible character; leave it out"
        )
    return name


def _time() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
