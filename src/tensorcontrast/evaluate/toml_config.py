"""TOML files checked against a pydantic schema: every fault is named with its line.

The standard library's parser does not tell lines. A text that :mod:`tomllib` has accepted is
scanned once more here for its structure: headers, keys, arrays, inline tables and strings.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import PydanticCustomError

from tensorcontrast.errors import DataNotFoundError, FileError, InvalidInputError

__all__ = ["check_data", "fault", "line_numbers", "load_toml", "near"]

Place = tuple[str | int, ...]
Model = TypeVar("Model", bound=BaseModel)

_SPACE = re.compile(r"[ \t]*")
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_SCALAR = re.compile(r"[^,\]}#\n]+")


def load_toml(path: str | Path, model: type[Model]) -> Model:
    """Read a TOML file as a pydantic model, whose ``extra`` should be "forbid".

    Raises
    ------
    FileError
        With one line of text a fault: file, line, key, what is wrong and what to write instead.
    DataNotFoundError
        Where there is no such file.
    """
    source = Path(path).expanduser()
    try:
        text = source.read_bytes().decode("utf-8")
    except FileNotFoundError:
        raise DataNotFoundError(f"{source}: no such file") from None
    except OSError as error:
        raise FileError(f"{source}: cannot be read: {error}") from error
    except UnicodeDecodeError as error:
        raise FileError(f"{source}: is not a text in UTF-8: {error}") from None
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise FileError(f"{source}: is not valid TOML: {error}") from None
    try:
        return model.model_validate(data)
    except ValidationError as error:
        lines = line_numbers(text)
        faults = [
            (_line_of(lines, at) or 0, at, words) for at, words in _faults(error, data, model)
        ]
        raise FileError(
            "\n".join(
                f"{source}{f' line {line}' if line else ''}: {_named(at)}: {words}"
                for line, at, words in sorted(faults, key=lambda item: item[0])
            )
        ) from None


def check_data(data: Any, model: type[Model], where: str = "configuration") -> Model:
    """Check plain data against a model; all faults are in one :class:`InvalidInputError`."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        faults = [f"{where}: {_named(at)}: {words}" for at, words in _faults(error, data, model)]
        raise InvalidInputError("\n".join(faults)) from None


def fault(message: str, key: str | int | None = None) -> PydanticCustomError:
    """Make an error for a validator; ``key`` is what is wrong within the value it checks."""
    return PydanticCustomError(
        "tensorcontrast", "{text}", {"text": message, **({} if key is None else {"key": key})}
    )


def near(word: str, known: Iterable[str]) -> str:
    """Say which known word was probably meant, or list them all.

    Examples
    --------
    >>> near("rnk", ["rank", "seeds"])
    'did you mean rank?'
    """
    known = sorted(known)
    close = difflib.get_close_matches(word.lower(), known, n=1)
    return f"did you mean {close[0]}?" if close else f"there are {', '.join(known)}"


def _faults(error: ValidationError, data: Any, model: type[BaseModel]) -> list[tuple[Place, str]]:
    """Place and message of every fault, in words."""
    out = []
    errors = error.errors()
    # A list whose items are wrong is also said to be too short: that is no second fault.
    deeper = {tuple(found["loc"][:-1]) for found in errors}
    deeper |= {place[:1] for place in deeper}
    for found in errors:
        if found["type"] == "too_short" and tuple(found["loc"]) in deeper and found["input"]:
            continue
        at = tuple(found["loc"])
        kind, message = found["type"], found["msg"]
        # Names of union members and such are in the path of pydantic, but not in the data.
        while at and kind != "missing" and not _has(data, at):
            at = at[:-1]
        key = found.get("ctx", {}).get("key")
        if key is not None:
            for inner in ((key,), ("params", key), ("grid", key), ("tune", "grid", key)):
                if _has(data, (*at, *inner)):
                    at = (*at, *inner)
                    break
        if kind == "extra_forbidden":
            message = f"no such key; {near(str(at[-1]), _fields(at, model))}"
        elif kind == "missing":
            message = "is missing"
        elif kind != "tensorcontrast":
            message = f"{message[0].lower()}{message[1:]}, not {found['input']!r}"
        out.append((at, message))
    return out


def _fields(at: Place, model: type[BaseModel]) -> list[str]:
    """Names of the keys that the table around ``at`` may have."""
    for part in at[:-1]:
        if isinstance(part, str) and part in model.model_fields:
            model = _inner(model.model_fields[part].annotation) or model
    return list(model.model_fields)


def _inner(annotation: Any) -> type[BaseModel] | None:
    """Find the model within a type such as ``tuple[Model, ...]`` or ``Model | None``."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(filter(None, map(_inner, get_args(annotation))), None)


def _named(at: Place) -> str:
    text = ""
    for part in at:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text or "the whole"


def line_numbers(text: str) -> dict[Place, int]:
    r"""Line (from 1) of every key, table and array element of a valid TOML text, by its path.

    Examples
    --------
    >>> line_numbers('a = 1\n[[b]]\nc = [\n  2,\n  3,\n]\n')[("b", 0, "c", 1)]
    5
    """
    return _Scanner(text.replace("\r\n", "\n")).run()


def _line_of(lines: dict[Place, int], path: Place) -> int | None:
    """Line of a path, or of its nearest parent that has one."""
    for end in range(len(path), 0, -1):
        if path[:end] in lines:
            return lines[path[:end]]
    return None


class _Scanner:
    """Follow the structure of a TOML text and note the line of everything."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0
        self.lines: dict[Place, int] = {}
        self.counts: dict[Place, int] = {}

    def run(self) -> dict[Place, int]:
        prefix: Place = ()
        while True:
            self._blank()
            if self.at >= len(self.text):
                return self.lines
            if self.text.startswith("[[", self.at):
                self.at += 2
                path = self._resolve(self._key())
                index = self.counts.get(path, -1) + 1
                self.counts[path] = index
                prefix = (*path, index)
                self._note(path)
                self._note(prefix)
                self.at = self.text.index("]]", self.at) + 2
            elif self.text[self.at] == "[":
                self.at += 1
                prefix = self._resolve(self._key())
                self._note(prefix)
                self.at = self.text.index("]", self.at) + 1
            else:
                self._pair(prefix)

    def _note(self, path: Place) -> None:
        self.lines.setdefault(path, self.text.count("\n", 0, self.at) + 1)

    def _resolve(self, keys: Place) -> Place:
        """Path of a header: names of arrays of tables mean their last table so far."""
        out: Place = ()
        for number, key in enumerate(keys):
            out = (*out, key)
            if out in self.counts and number < len(keys) - 1:
                out = (*out, self.counts[out])
        return out

    def _blank(self) -> None:
        """Skip white space, line ends and comments."""
        while self.at < len(self.text):
            if self.text[self.at] in " \t\n":
                self.at += 1
            elif self.text[self.at] == "#":
                end = self.text.find("\n", self.at)
                self.at = len(self.text) if end < 0 else end
            else:
                return

    def _spaces(self) -> None:
        match = _SPACE.match(self.text, self.at)
        self.at = match.end() if match else self.at

    def _key(self) -> Place:
        parts: list[str | int] = []
        while True:
            self._spaces()
            if self.text[self.at] in "\"'":
                begin = self.at
                self._string()
                parts.append(self.text[begin + 1 : self.at - 1])
            else:
                match = _BARE.match(self.text, self.at)
                if match is None:  # cannot be in a text that tomllib accepts
                    self.at += 1
                    return tuple(parts)
                parts.append(match.group())
                self.at = match.end()
            self._spaces()
            if self.at >= len(self.text) or self.text[self.at] != ".":
                return tuple(parts)
            self.at += 1

    def _pair(self, prefix: Place) -> None:
        begin = self.at
        keys = self._key()
        line = self.text.count("\n", 0, begin) + 1
        for end in range(1, len(keys) + 1):
            self.lines.setdefault((*prefix, *keys[:end]), line)
        self.at = self.text.index("=", self.at) + 1
        self._value((*prefix, *keys))

    def _value(self, path: Place) -> None:
        self._spaces()
        character = self.text[self.at]
        if character in "\"'":
            self._string()
        elif character == "[":
            self._items(path, "]")
        elif character == "{":
            self._items(path, "}")
        else:
            match = _SCALAR.match(self.text, self.at)
            self.at = match.end() if match else self.at + 1

    def _items(self, path: Place, end: str) -> None:
        self.at += 1
        index = 0
        while True:
            self._blank()
            if self.text[self.at] == end:
                self.at += 1
                return
            if self.text[self.at] == ",":
                self.at += 1
            elif end == "]":
                self._note((*path, index))
                self._value((*path, index))
                index += 1
            else:
                self._pair(path)

    def _string(self) -> None:
        quote = self.text[self.at]
        mark = quote * 3 if self.text.startswith(quote * 3, self.at) else quote
        self.at += len(mark)
        while not self.text.startswith(mark, self.at):
            self.at += 2 if self.text[self.at] == "\\" and quote == '"' else 1
        self.at += len(mark)
        while len(mark) == 3 and self.at < len(self.text) and self.text[self.at] == quote:
            self.at += 1  # a long string may end in quotes of its own


def _has(data: Any, path: Place) -> bool:
    """Whether parsed data hold something at this path."""
    for key in path:
        if isinstance(data, dict) and key in data:
            data = data[key]
        elif isinstance(data, list) and isinstance(key, int) and key < len(data):
            data = data[key]
        else:
            return False
    return True
