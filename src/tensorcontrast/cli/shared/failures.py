"""What a failure means to the caller: an exit code, and a message without a traceback."""

from __future__ import annotations

import errno
from enum import IntEnum

from tensorcontrast.cli.shared import signals
from tensorcontrast.cli.shared.advice import in_options
from tensorcontrast.errors import (
    DataNotFoundError,
    FileError,
    InvalidInputError,
    InvalidTypeError,
    MissingDependencyError,
    TensorContrastError,
)


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
        return Code.TERMINATED if signals.terminated() else Code.INTERRUPTED
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
        # A usage failure speaks of options already.
        return str(error) if isinstance(error, UsageFailure) else in_options(str(error))
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
