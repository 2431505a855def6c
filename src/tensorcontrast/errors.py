"""Errors and warnings of the project: each says what was wrong, where, and the way out.

Messages name files, channels and classes of unknown origin. Control characters and direction
overrides in them are written out, so that a message shows what it says wherever it is printed.
"""

from typing import Any

from tensorcontrast.utils.names import visible


def _shown(values: tuple[Any, ...]) -> list[Any]:
    return [visible(value, keep="\n") if isinstance(value, str) else value for value in values]


class TensorContrastError(Exception):
    """Base of every error that the project raises for bad input or files.

    Examples
    --------
    >>> import tensorcontrast
    >>> try:
    ...     tensorcontrast.load_model("no-such-file.tcm")
    ... except tensorcontrast.TensorContrastError as error:
    ...     print(error)
    no model file at no-such-file.tcm
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*_shown(args))


class InvalidInputError(TensorContrastError, ValueError):
    """Arrays, labels or parameters that cannot be used; a ``ValueError`` for scikit-learn."""


class InvalidTypeError(TensorContrastError, TypeError):
    """Input of a kind that is not supported, such as a sparse matrix."""


class NumericalError(TensorContrastError, ArithmeticError):
    """A computation that cannot go on, such as a solve with a singular matrix."""


class FileError(TensorContrastError, ValueError):
    """A file that cannot be read or written as what it should be."""


class ForeignFileError(FileError):
    """A file of another kind."""


class TruncatedFileError(FileError):
    """A file that ends too early or is longer than it says."""


class DamagedFileError(FileError):
    """A file whose contents do not agree with its checksum or its own description."""


class NewerFileError(FileError):
    """A file written by a newer version of the project."""


class MissingDependencyError(TensorContrastError, ImportError):
    """An optional package that is not installed; the message names the extra."""


class DataNotFoundError(TensorContrastError, FileNotFoundError):
    """Recordings that are not on this machine; the message says which files to put where."""


class TensorContrastWarning(UserWarning):
    """Something was changed or left out for the caller, who should know."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*_shown(args))
