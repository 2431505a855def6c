"""What every command shares: output for people and for programs, progress, warnings, errors."""

from __future__ import annotations

import errno
import json
import math
import os
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import IntEnum
from pathlib import Path
from typing import Any

import typer
from rich import box
from rich.console import Console, RenderableType
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from tensorcontrast.errors import (
    DataNotFoundError,
    FileError,
    InvalidInputError,
    InvalidTypeError,
    MissingDependencyError,
    TensorContrastError,
    TensorContrastWarning,
)
from tensorcontrast.io.atomic import check_writable
from tensorcontrast.report.text import plain

__all__ = [
    "Code",
    "Session",
    "UsageFailure",
    "code_of",
    "facts",
    "listing",
    "message_of",
    "safe",
]

Update = Callable[..., None]

#: Columns of output that does not go to a terminal.
WIDTH = 120


def safe(text: object, limit: int | None = None) -> Text:
    """Text from a file for the terminal: no escapes, no markup."""
    return Text(plain(text, limit))


def facts(rows: dict[str, object]) -> Table:
    """Names and values, one per line."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows.items():
        table.add_row(name, value if isinstance(value, Text) else safe(value))
    return table


def listing(*columns: str, numbers: tuple[str, ...] = (), title: str | None = None) -> Table:
    """Return an empty table in the style of all tables; columns in ``numbers`` align right."""
    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", pad_edge=False)
    for name in columns:
        table.add_column(name, justify="right" if name in numbers else "left", overflow="fold")
    return table


# ---------------------------------------------------------------------- failures


class Code(IntEnum):
    """Exit codes; ``docs/reference/cli.md`` lists them."""

    OK = 0
    FAILED = 1
    USAGE = 2
    FILE = 3
    DATA = 4
    PARTIAL = 5
    INTERRUPTED = 130
    TERMINATED = 143
    PIPE = 141


EXIT_CODES = (
    "Exit codes: 0 done · 1 failed · 2 wrong use · 3 a file · 4 the data · "
    "5 part of a run failed · 130 interrupted · 143 terminated"
)


class UsageFailure(TensorContrastError):
    """A wrong combination of options or a value that cannot be used."""


def code_of(error: BaseException) -> Code:
    """Exit code of an error."""
    if isinstance(error, KeyboardInterrupt):
        return Code.TERMINATED if _terminated else Code.INTERRUPTED
    if isinstance(error, UsageFailure):
        return Code.USAGE
    if isinstance(error, MissingDependencyError):
        return Code.FAILED
    if isinstance(error, BrokenPipeError):
        return Code.PIPE
    if isinstance(error, FileError | DataNotFoundError | OSError):
        return Code.FILE
    if isinstance(error, InvalidInputError | InvalidTypeError):
        return Code.DATA
    return Code.FAILED


def message_of(error: BaseException) -> str:
    """Text for the user: what went wrong, where, and the way out."""
    if isinstance(error, KeyboardInterrupt):
        return str(error).removeprefix("stopped: ") or "nothing was written"
    if isinstance(error, TensorContrastError):
        return str(error)
    if isinstance(error, MemoryError):
        return (
            "the data do not fit into memory; use fewer channels (--channels), shorter windows "
            "(--window) or a part of the recordings"
        )
    if isinstance(error, OSError):
        where = error.filename or "writing the output"
        reason = error.strerror or str(error)
        out = "free some space" if error.errno == errno.ENOSPC else "check the path and its rights"
        return f"{where}: {reason}; {out}"
    return f"{type(error).__name__}: {error}; this is a bug: --debug shows where, please report it"


_terminated = False


def listen_to_sigterm() -> None:
    """Let SIGTERM end a command as Ctrl-C does: what was done is kept, the caller is told."""
    if hasattr(signal, "SIGTERM"):
        signal.signal(signal.SIGTERM, _end)


def _end(number: int, frame: object) -> None:
    global _terminated
    _terminated = True
    raise KeyboardInterrupt


# ----------------------------------------------------------------------- session


class Session:
    """Output of one command.

    Results go to standard output, as tables or, with ``as_json``, as one JSON object and nothing
    else. Progress (on a terminal only), notes, warnings and errors go to standard error.

    Parameters
    ----------
    command : str
        Name, for the JSON object.
    as_json, quiet, verbose, debug : bool
        The options that all commands have.
    """

    def __init__(
        self,
        command: str,
        *,
        as_json: bool = False,
        quiet: bool = False,
        verbose: bool = False,
        debug: bool = False,
    ) -> None:
        self.command = command
        self.as_json, self.quiet, self.verbose, self.debug = as_json, quiet, verbose, debug
        self.warnings: list[str] = []
        self.begin = time.perf_counter()
        self.exit_code = Code.OK
        #: What the command reads, as it was named: no output replaces it.
        self.inputs: list[str] = []
        self.out = Console(highlight=False)
        if not self.out.is_terminal and "COLUMNS" not in os.environ:
            self.out = Console(highlight=False, width=WIDTH)
        self.err = Console(stderr=True, highlight=False)

    @property
    def seconds(self) -> float:
        """Seconds since the command began."""
        return time.perf_counter() - self.begin

    @property
    def shows_progress(self) -> bool:
        """Whether bars are shown: on a terminal, unless ``--quiet`` was given."""
        return self.err.is_terminal and not self.quiet

    # ------------------------------------------------------------------ to people

    def note(self, text: object) -> None:
        """Say something that is good to know."""
        if not self.quiet:
            self._say("", text, "dim")

    def detail(self, text: object) -> None:
        """Say something that only ``--verbose`` shows."""
        if self.verbose:
            self._say("", text, "dim")

    def warn(self, text: object) -> None:
        """Say something that may change what the result means; also in the JSON object."""
        if str(text) not in self.warnings:
            self.warnings.append(str(text))
            self._say("warning: ", text, "yellow")

    def _say(self, label: str, text: object, style: str) -> None:
        lines = [plain(line) for line in str(text).split("\n")]
        message = Text.assemble((label, f"bold {style}"), ("\n".join(lines), style * (not label)))
        self.err.print(message, soft_wrap=not self.err.is_terminal)

    @contextmanager
    def progress(self, text: str, total: float | None = None) -> Iterator[Update]:
        """Show a bar while the block runs; gives ``update(done=, total=, text=)``.

        There is none where standard error is no terminal.
        """
        if not self.shows_progress:
            yield lambda **changes: None
            return
        columns = (TextColumn("{task.description}"), BarColumn(bar_width=24), TimeElapsedColumn())
        with Progress(*columns, console=self.err, transient=True) as bar:
            task = bar.add_task(_escaped(text), total=total)

            def update(
                done: float | None = None, total: float | None = None, text: str | None = None
            ) -> None:
                description = None if text is None else _escaped(text)
                bar.update(task, completed=done, total=total, description=description)

            yield update

    # ---------------------------------------------------------------- to programs

    def result(self, data: dict[str, Any], *shown: RenderableType, summary: bool = False) -> None:
        """Give the result: ``data`` with ``--json``, else what is to be shown.

        With ``summary``, what is shown only sums up a file that was written, so that ``--quiet``
        leaves it out.
        """
        if self.as_json:
            self._write_json({"command": self.command, **data, "warnings": self.warnings})
        elif not (summary and self.quiet):
            for item in shown:
                self.out.print(item)
        sys.stdout.flush()

    def _write_json(self, data: dict[str, Any]) -> None:
        sys.stdout.write(json.dumps(to_plain(data), indent=2, allow_nan=False) + "\n")
        sys.stdout.flush()

    # -------------------------------------------------------------------- running

    @contextmanager
    def running(self) -> Iterator[None]:
        """Turn warnings into lines and errors into a message and an exit code."""
        try:
            with warnings.catch_warnings():
                self._catch_warnings()
                yield
            sys.stdout.flush()
        except (typer.Exit, typer.Abort, SystemExit):
            raise
        except (Exception, KeyboardInterrupt) as error:
            if hasattr(error, "format_message"):  # a usage error of typer
                raise
            self._fail(error)
        if self.exit_code:
            raise typer.Exit(int(self.exit_code))

    def _fail(self, error: BaseException) -> None:
        code = code_of(error)
        if code == Code.PIPE:  # the reader has gone: nobody to tell
            sys.stdout = open(os.devnull, "w", encoding="utf-8")
            raise typer.Exit(int(code))
        if self.debug:
            self.err.print(Text(traceback.format_exc().rstrip()), soft_wrap=True)
        message = message_of(error)
        labels = {Code.INTERRUPTED: "interrupted: ", Code.TERMINATED: "terminated: "}
        self._say(labels.get(code, "error: "), message, "yellow" if code in labels else "red")
        if self.as_json:
            failure = {"code": int(code), "kind": type(error).__name__, "message": message}
            try:
                self._write_json({"command": self.command, "error": failure})
            except OSError:  # standard output is what failed
                sys.stdout = open(os.devnull, "w", encoding="utf-8")
        raise typer.Exit(int(code))

    def _catch_warnings(self) -> None:
        warnings.simplefilter("always")

        def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
            ours = issubclass(category, TensorContrastWarning)
            # by name, for scikit-learn need not be there yet
            if ours or category.__name__ == "ConvergenceWarning" or self.verbose:
                self.warn(message)

        warnings.showwarning = show

    def target(self, path: Path, *, force: bool, folder: bool = False) -> Path:
        """Check that a file, or a ``folder``, can be written before any work is done for it."""
        path = path.expanduser()
        if path.is_dir() and not folder:
            raise UsageFailure(f"{path} is a folder; name a file to write")
        if path.exists() and not folder:
            self._check_no_input(path)
        if path.exists() and not force:
            raise FileError(f"{path} exists and is not overwritten; pass --force or another name")
        check_writable(path)
        return path

    def _check_no_input(self, path: Path) -> None:
        """Raise where an output would replace a file that the command reads, or is no file."""
        if path.is_symlink() or not path.is_file():
            raise FileError(f"{path} is a link or a device, which is not replaced; name a file")
        readable = (".csv", ".tsv", ".gz", ".txt", ".parquet", ".edf", ".bdf", ".dat", ".hea")
        for value in self.inputs:
            source = Path(value).expanduser()
            same = source.exists() and source.is_file() and source.samefile(path)
            if any(sign in value for sign in "*?["):
                same = path.resolve().match(str(source.absolute()))
            elif source.is_dir() and path.resolve().is_relative_to(source.resolve()):
                from tensorcontrast.readers.label_table import holds_labels

                same = path.name.lower().endswith(readable) and not holds_labels(path)
            if same:
                raise FileError(
                    f"{path} is read by this command and is never overwritten; name another file"
                )


def to_plain(value: Any) -> Any:
    """Plain data for JSON: arrays as lists, NaN and infinity as null, paths as text."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, dict):
        return {str(key): to_plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return str(value)


def _escaped(text: str) -> str:
    return escape(plain(text))
