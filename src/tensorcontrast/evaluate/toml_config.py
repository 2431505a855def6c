"""TOML files checked against a pydantic schema: every fault is named with its line.

The standard library's parser does not tell lines. A text that :mod:`tomllib` has accepted is
scanned once more here for its structure: headers, keys, arrays, inline tables and strings.

A file may come from anywhere. Its size, the depth of its brackets and the parts of its keys are
limited before it is parsed, as the parser recurses and takes the square of the parts in time.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from bisect import bisect_left
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import PydanticCustomError

from tensorcontrast.errors import DataNotFoundError, FileError, InvalidInputError
from tensorcontrast.utils.names import listed

__all__ = ["check_data", "fault", "line_numbers", "load_toml", "near"]

Place = tuple[str | int, ...]
Model = TypeVar("Model", bound=BaseModel)

#: Most bytes of a file, open brackets at once, parts of a key, and faults that a message names.
MAX_BYTES, MAX_DEPTH, MAX_PARTS, MAX_FAULTS = 256 << 10, 64, 32, 20
#: Most characters of one fault.
MAX_WORDS = 500

_SPACE = re.compile(r"[ \t]*")
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_SCALAR = re.compile(r"[^,\]}#\n]+")
# What a text is made of: strings, comments, words, blanks, and all else character by character. A
# string that is not closed goes on to its end, so that nothing is read twice.
_TOKEN = re.compile(
    r'"""(?:[^"\\]|\\.|"(?!""))*+(?:""")?|"(?:[^"\\\n]|\\.)*+"?'
    r"|'''(?:[^']|'(?!''))*+(?:''')?|'[^'\n]*+'?"
    r"|#[^\n]*|[A-Za-z0-9_-]+|[ \t]+|.",
    re.DOTALL,
)


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
    text = _text_of(source)
    try:
        data = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # also integers of thousands of digits
        raise FileError(f"{source}: is not valid TOML: {_cut(str(error))}") from None
    found = _too_large(data)
    if not found:
        try:
            return model.model_validate(data)
        except ValidationError as error:
            found = _faults(error, data, model)
    lines = line_numbers(text)
    faults = sorted(
        ((_line_of(lines, at) or 0, at, words) for at, words in found), key=lambda item: item[0]
    )
    raise FileError(
        _first_faults(
            f"{source}{f' line {line}' if line else ''}: {_named(at)}: {words}"
            for line, at, words in faults
        )
    )


def _text_of(source: Path) -> str:
    """Text of a file, after the checks that need no parser."""
    try:
        if source.exists() and not source.is_file():
            # A pipe or a device may never end.
            raise FileError(f"{source}: cannot be read: it is no file")
        with source.open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
        text = raw[:MAX_BYTES].decode("utf-8", "ignore" if len(raw) > MAX_BYTES else "strict")
    except FileNotFoundError:
        raise DataNotFoundError(f"{source}: no such file") from None
    except OSError as error:
        raise FileError(f"{source}: cannot be read: {error}") from error
    except UnicodeDecodeError as error:
        raise FileError(f"{source}: is not a text in UTF-8: {error}") from None
    if len(raw) > MAX_BYTES:
        raise FileError(
            f"{source}: is larger than {MAX_BYTES} bytes, which no configuration needs; put data "
            "into a file of its own"
        )
    depth = parts = 0
    for match in _TOKEN.finditer(text):
        token = match.group()
        if token == ".":
            parts += 1
        elif not (token[0].isalnum() or token[0] in "_-\"' \t"):
            parts = 0
            depth = max(0, depth + (token in ("[", "{")) - (token in ("]", "}")))
        if depth > MAX_DEPTH or parts > MAX_PARTS:
            line = text.count("\n", 0, match.start()) + 1
            raise FileError(
                f"{source} line {line}: is nested too deeply; at most {MAX_DEPTH} brackets and "
                f"{MAX_PARTS} parts of a key are read"
            )
    return text


def _too_large(data: Any) -> list[tuple[Place, str]]:
    """Integers beyond 64 bits, which TOML does not have, and tables within too many others."""
    out: list[tuple[Place, str]] = []
    waiting: list[tuple[Place, Any]] = [((), data)]
    while waiting:
        at, value = waiting.pop()
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            out.append((at, "is an integer of more than 64 bits; write a smaller one"))
        elif isinstance(value, dict | list) and len(at) > MAX_DEPTH:
            out.append((at[:2], f"is nested too deeply; at most {MAX_DEPTH} levels are read"))
        elif isinstance(value, dict):
            waiting += [((*at, key), item) for key, item in value.items()]
        elif isinstance(value, list):
            waiting += [((*at, k), item) for k, item in enumerate(value)]
    return out


def _first_faults(faults: Iterable[str]) -> str:
    """Lines of the first faults, and how many more there are."""
    lines = list(faults)
    more = len(lines) - MAX_FAULTS
    return "\n".join([*lines[:MAX_FAULTS], *([f"and {more} more faults"] if more > 0 else [])])


def _cut(words: str) -> str:
    return words if len(words) <= MAX_WORDS else f"{words[:MAX_WORDS]}…"


def check_data(data: Any, model: type[Model], where: str = "configuration") -> Model:
    """Check plain data against a model; all faults are in one :class:`InvalidInputError`."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        faults = [f"{where}: {_named(at)}: {words}" for at, words in _faults(error, data, model)]
        raise InvalidInputError(_first_faults(faults)) from None


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
            message = f"{message[0].lower()}{message[1:]}, not {listed([found['input']])}"
        out.append((at, _cut(message)))
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
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            key = part if _BARE.fullmatch(part) and len(part) <= 80 else listed([part])
            text += f".{key}" if text else key
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
        self.ends = [match.start() for match in re.finditer("\n", text)]
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
        self.lines.setdefault(path, self._line(self.at))

    def _line(self, at: int) -> int:
        return bisect_left(self.ends, at) + 1

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
        line = self._line(begin)
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
