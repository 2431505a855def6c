"""How the text of a table is laid out, found from its first lines."""

from __future__ import annotations

import csv
import gzip
import re
import zlib
from dataclasses import dataclass, replace
from pathlib import Path

from tensorcontrast.errors import DamagedFileError, FileError, ForeignFileError, TruncatedFileError
from tensorcontrast.readers.dialects import Layout, recognise
from tensorcontrast.readers.files import MOST_CHANNELS, check_expansion
from tensorcontrast.readers.signals import different_names
from tensorcontrast.recordings.continuous import RATE_TOLERANCE
from tensorcontrast.utils.names import from_csv_text, listed

__all__ = ["TextTable", "sniff", "unit_of"]

#: Bytes at the beginning of a file from which its layout is found.
HEAD = 1 << 18
#: Lines before the table, at most.
MOST_LINES_BEFORE = 400
#: Rows by which separators are compared.
ROWS_COMPARED = 60

_MISSING = {"", "na", "nan", "n/a", "null", "none", "<na>", "nat", "-nan", "#n/a"}
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?inf(inity)?", re.IGNORECASE)
_DATE = re.compile(
    r"(\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4})([ T]\d{1,2}:\d{2}.*)?"
    r"|\d{1,2}:\d{2}(:\d{2}([.:,]\d+)?)?( ?[AP]M)?",
    re.IGNORECASE,
)
_UNIT_WORDS = (
    "V mV uV µV μV nV g mg G m/s² m/s^2 m/s2 m/(s^2) m/(s²) m/s/s ms-2 ms^-2 m/s^2* rad/s °/s "
    "deg/s deg/sec dps "
    "µT uT μT mT nT T gauss Gauss Hz bpm BPM % °C C degC K Pa hPa kPa mbar mmHg lux lx dB dBFS nW "
    "µS uS μS mS S Ohm ohm kOhm mA µA uA A N Nm W mm cm m km s ms µs us ns min h ° deg rad a.u. au "
    "arb adc ADC counts count mmol/l l/min km/h mph J kg"
).split()
_SAME_UNIT = {"uV": "µV", "μV": "µV", "uT": "µT", "μT": "µT", "uS": "µS", "μS": "µS"}
_SAME_UNIT |= dict.fromkeys(
    ("m/s^2", "m/s2", "m/(s^2)", "m/(s²)", "m/s/s", "ms-2", "ms^-2"), "m/s²"
)
_BRACKETS = re.compile(r"(?:\((?P<round>.+)\)|\[(?P<square>[^]]+)\])\s*$")
_SEPARATORS = ("\t", ";", ",", "|", None)


@dataclass(frozen=True)
class TextTable:
    """Where the rows of a text table begin, and how they are read.

    Attributes
    ----------
    layout : Layout
        With separator, decimal sign and comment decided.
    encoding : str
    first_line : int
        Number of the first row, from 1.
    names : tuple of str
        Of the columns, all different.
    header : bool
        Whether the names stand in the file.
    units : dict of str to str
        Units that stand in names or in a row of their own.
    quote : str
        Sign around text.
    trailing : int
        Empty cells at the ends of rows, which are no columns.
    """

    layout: Layout
    encoding: str
    first_line: int
    names: tuple[str, ...]
    header: bool
    units: dict[str, str]
    trailing: int = 0
    quote: str = '"'


def unit_of(name: str) -> str:
    """Return the unit in the name of a column; empty where there is none.

    Examples
    --------
    >>> unit_of("Acceleration x (m/s^2)"), unit_of("EEG [uV]"), unit_of("Arm (left)")
    ('m/s²', 'µV', '')
    """
    match = _BRACKETS.search(name)
    return _unit(match["round"] or match["square"]) if match else ""


def _unit(text: str) -> str:
    """Return a unit in its usual spelling, also of a cell ``[uV]``; empty for other text."""
    text = text.strip().rstrip("*")
    bare = text if text in _UNIT_WORDS else text[1:-1].strip() if text[:1] in "([" else ""
    return _SAME_UNIT.get(bare, bare) if bare in _UNIT_WORDS else ""


def sniff(path: Path, layout: Layout) -> TextTable:
    """Find how a text table is laid out; what ``layout`` says already is taken as it is."""
    text, encoding, whole = _head(path)
    lines = re.split(r"\r\n|\n|\r", text)
    if not whole:
        lines = lines[:-1]
    if not any(line.strip() for line in lines):
        if whole:
            raise TruncatedFileError(f"{path}: is empty")
        raise _too_wide(path)
    dialect = recognise([line.rstrip() for line in lines], path.name)
    if dialect is not None and layout.skip_lines is None and layout.header is None:
        passed = {k: v for k, v in vars(layout).items() if v not in (None, (), "", False)}
        if layout.fs and dialect.fs and abs(layout.fs / dialect.fs - 1) > RATE_TOLERANCE:
            raise FileError(
                f"{path}: its {dialect.dialect} header says {dialect.fs:g} samples per second, but "
                f"a rate of {layout.fs:g} was passed; leave fs= out"
            )
        layout = replace(dialect, **passed)
    marks = ("#", "%", "//") if layout.comment is None else (layout.comment,)
    skip = layout.skip_lines or 0
    body: list[tuple[int, str]] = []
    comments: list[tuple[int, str]] = []
    for k, line in enumerate(lines):
        if k >= skip and line.strip():
            (comments if line.lstrip().startswith(marks) else body).append((k, line))
    if body and (said := re.fullmatch(r'"?sep=(.|\\t)"?[,;\s]*', body[0][1].strip(" \r\n"), re.I)):
        layout = replace(layout, separator=layout.separator or said[1].replace("\\t", "\t"))
        body = body[1:]
    if not body:
        raise TruncatedFileError(f"{path}: holds lines of comments, but no table")
    layout, count = _separated(path, layout, body)
    rows = [(k, _cells(line, layout.separator)) for k, line in body]
    table = _placed(path, layout, encoding, rows, comments, count)
    trailing = max(0, count - len(table.names))
    return replace(table, trailing=trailing, quote=quote_of(body[0][1]))


def _head(path: Path) -> tuple[str, str, bool]:
    """Text at the beginning of a file, its encoding, and whether that is all of the file."""
    zipped = path.suffix.lower() == ".gz"
    try:
        with gzip.open(path) if zipped else path.open("rb") as stream:
            content = stream.read(HEAD + 1)
            size = len(content)
            while zipped and (part := stream.read(1 << 20)):
                size += len(part)
                check_expansion(path, size, path.stat().st_size)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ForeignFileError(f"{path}: not a text table: {error}") from error
    whole = len(content) <= HEAD
    encoding = "utf-8-sig"
    if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        encoding = "utf-16"
        content = content[: len(content) // 2 * 2]
    elif b"\0" in content:
        raise ForeignFileError(f"{path}: not a text table: it holds bytes of zero")
    try:
        return content.decode(encoding), encoding, whole
    except UnicodeDecodeError as error:
        if not whole and error.start > len(content) - 4:
            return content.decode(encoding, "ignore"), encoding, whole
        # Units in the names of columns, such as m/s², are written in Latin-1 by some programs.
        lines = content[: error.start].count(b"\n")
        rest = content.split(b"\n", lines + 1)[-1]
        if encoding == "utf-8-sig" and lines < 20 and rest.isascii() and len(rest) > 1:
            return content.decode("latin-1"), "latin-1", whole
        raise ForeignFileError(f"{path}: not a text table in UTF-8: {error}") from error


def _too_wide(path: Path) -> FileError:
    return FileError(
        f"{path}: the first line names more than {MOST_CHANNELS} columns, or does not end; a table "
        "has one column a channel and one row a point in time"
    )


def _cells(line: str, separator: str | None) -> list[str]:
    if separator in (None, " ", r"\s+"):
        return line.split()
    quote = quote_of(line)
    if quote in line:
        rows = csv.reader([line], delimiter=separator or ",", quotechar=quote)
        return [cell.strip() for cell in next(rows)]
    return [cell.strip() for cell in line.split(separator)]


def quote_of(line: str) -> str:
    """Return the sign around text: ``'`` where a line begins with it, as PhysioNet writes it."""
    return "'" if re.match(r"\s*'[^',]*'\s*,", line) else '"'


def _kind(cell: str, decimal: str | None) -> str:
    """``n`` for a number, ``d`` for a date or time, ``-`` for nothing, ``t`` for other text."""
    if cell.lower() in _MISSING:
        return "-"
    plain = cell if decimal in (None, ".") else cell.replace(str(decimal), ".")
    if _NUMBER.fullmatch(plain) and not (decimal == "," and "." in cell):
        return "n"
    return "d" if _DATE.match(cell) else "t"


def _separated(path: Path, layout: Layout, body: list[tuple[int, str]]) -> tuple[Layout, int]:
    """Decide separator and decimal sign; gives the number of cells of a row as well."""
    sample = [line for _, line in (body[1:] or body)[-ROWS_COMPARED:]]
    best: tuple[float, Layout, int] | None = None
    for separator in (layout.separator,) if layout.separator else _SEPARATORS:
        try:
            rows = [_cells(line, separator) for line in sample]
        except csv.Error as error:
            raise DamagedFileError(f"{path}: is not a table: {error}") from error
        counts = [len(row) for row in rows]
        count = max(set(counts), key=lambda c: (counts.count(c), c))
        if count < 2 and layout.separator is None:
            continue
        cells = [cell for row in rows if len(row) == count for cell in row]
        for decimal in (layout.decimal,) if layout.decimal else (".", ","):
            if decimal == "," and separator == ",":
                continue
            worth = {"n": 1.0, "d": 1.0, "-": 0.9}
            good = sum(
                worth.get(_kind(cell, decimal), 0.0 if re.search(r"\d[;,\t| ]\s*\d", cell) else 0.5)
                for cell in cells
            )
            score = counts.count(count) / len(counts) * good / max(1, len(cells))
            if best is None or score > best[0] + 1e-9:
                best = (score, replace(layout, separator=separator, decimal=decimal), count)
    if best is None:  # one column
        best = (1.0, replace(layout, separator=","), 1)
        if layout.decimal is None:
            comma = all(re.fullmatch(r"[+-]?\d+,\d+", line.strip()) for line in sample)
            best = (1.0, replace(best[1], decimal="," if comma else "."), 1)
    _, layout, count = best
    if count > MOST_CHANNELS:
        raise _too_wide(path)
    if layout.decimal == ",":
        _check_decimal_comma(path, layout, sample)
    return replace(layout, separator=layout.separator or r"\s+"), count


def _check_decimal_comma(path: Path, layout: Layout, sample: list[str]) -> None:
    """Raise where commas may be decimal signs or group the digits of thousands."""
    cells = [cell for line in sample for cell in _cells(line, layout.separator) if "," in cell]
    if cells and all(re.fullmatch(r"[+-]?[1-9]\d{0,2}(,\d{3})+", cell) for cell in cells):
        raise FileError(
            f"{path}: {cells[0]!r} may be a decimal number or thousands; pass decimal=',' "
            "(--decimal ,) for the first, or remove the commas"
        )


def _placed(
    path: Path,
    layout: Layout,
    encoding: str,
    rows: list[tuple[int, list[str]]],
    comments: list[tuple[int, str]],
    count: int,
) -> TextTable:
    """Find the first row of the table, the names of its columns and their units."""
    decimal = layout.decimal
    tail = [cells for _, cells in rows[1:] or rows if len(cells) == count][-ROWS_COMPARED:]
    while count > 1 and tail and all(cells[count - 1] == "" for cells in tail):
        named = any(len(c) == count and c[-1] for _, c in rows[:1] if layout.names is None)
        if named or (layout.names is not None and len(layout.names) >= count):
            break
        count -= 1  # separators at the ends of lines
        tail = [cells[:count] for cells in tail]
    usual = []
    for column in zip(*tail, strict=True):
        kinds = [kind for cell in column if (kind := _kind(cell, decimal)) != "-"]
        share = {kind: kinds.count(kind) / len(kinds) for kind in set(kinds)}
        usual.append(next((kind for kind in "nd" if share.get(kind, 0) >= 0.8), "t"))
    typed = [k for k, kind in enumerate(usual) if kind != "t"]

    def like_rows(cells: list[str]) -> bool:
        return all(_kind(cells[k], decimal) in (usual[k], "-") for k in typed)

    def like_names(cells: list[str]) -> bool:
        kinds = [_kind(cells[k], decimal) for k in typed] or ["t"]
        return "n" not in kinds and "d" not in kinds and any(cells)

    table = [(k, cells[:count]) for k, cells in rows if _fits(cells, count)]
    if layout.names is not None:
        first = table[0][0] if table else rows[0][0]
        if layout.header:
            raise FileError(f"{path}: header=True, but its columns are known by their place")
        return _table(layout, encoding, first, list(layout.names)[:count], False, {})
    if not table:
        raise FileError(f"{path}: its rows have {count} cells, but no line has; pass separator=")
    if layout.header is True or (layout.header is None and len(rows) == 1 and not typed):
        at = 0
    else:
        rest = [k for k, (_, cells) in enumerate(table) if like_rows(cells)]
        begin = next((k for k in rest if k + 1 in rest or k + 1 == len(table)), len(table))
        names_at = [k for k, (_, cells) in enumerate(table[:begin]) if like_names(cells)]
        if layout.header is False or not names_at:
            return _without_names(path, layout, encoding, rows, table, comments, count, begin)
        at = names_at[-1]
        run = [k for k in names_at if names_at[-1] - k <= len(names_at) - 1 - names_at.index(k)]
        if len(run) > 1 and _is_units(table[at][1], table[at - 1][1]):
            at = at - 1
        if table[at][0] > MOST_LINES_BEFORE:
            raise FileError(
                f"{path}: {table[at][0]} lines stand before the table; pass skip_lines="
            )
    line, names = table[at]
    following = table[at + 1][1] if at + 1 < len(table) else []
    units = {}
    first = rows[[k for k, _ in rows].index(line) + 1][0] if rows[-1][0] > line else line + 1
    if following and like_names(following) and _is_units(following, names):
        units = {k: unit for k, cell in enumerate(following) if (unit := _unit(cell))}
        first = table[at + 1][0] + 1
    return _table(layout, encoding, first, names, True, units)


def _fits(cells: list[str], count: int) -> bool:
    """Whether a line has so many cells, or more that are empty."""
    return len(cells) >= count and not any(cells[count:])


def _is_units(cells: list[str], names: list[str]) -> bool:
    """Whether a line below the names of columns holds units, or the kind of values (RAW, CAL)."""
    texts = [cell for cell in cells if cell]
    if not texts or cells == names:
        return False
    words = {
        "raw",
        "cal",
        "unitless",
        "no_units",
        "no units",
        "yyyy/mm/dd hh:mm:ss.000",
        "-",
        "n/a",
    }
    good = [cell for cell in texts if _unit(cell) or cell.lower() in words]
    return len(good) >= len(texts) / 2


def _without_names(
    path: Path,
    layout: Layout,
    encoding: str,
    rows: list[tuple[int, list[str]]],
    table: list[tuple[int, list[str]]],
    comments: list[tuple[int, str]],
    count: int,
    begin: int,
) -> TextTable:
    """Columns without names, or with names in the last comment before the first row."""
    first = table[0][0] if layout.header is None or begin == len(table) else table[begin][0]
    before = [cells for k, cells in rows if k < first]
    if layout.header is None:
        last = before[-1] if before else []
        numeric = [_kind(cell, layout.decimal) == "n" for cell in last]
        places = [cells[0].strip('"') for _, cells in table[:9]]
        counted = places == [str(k) for k in range(1, len(places) + 1)]
        if len(last) == count - 1 > 0 and counted and not any(numeric):  # row numbers of R
            return _table(layout, encoding, first, ["", *last], True, {})
        if len(last) > 1 and (any(numeric) or sum(map(bool, last)) >= count - 1):
            raise DamagedFileError(
                f"{path}: line {first + 1} has {count} cells, but the line before it has "
                f"{len(last)}, such as {listed(last, 3)}; correct it, or pass skip_lines="
            )
        for k, comment in reversed(comments):
            if k < first:
                text = comment.strip().lstrip("#%/ ")
                for separator in (layout.separator, ",", None):
                    cells = _cells(text, separator)
                    if len(cells) == count and all(_kind(c, ".") == "t" for c in cells):
                        return _table(layout, encoding, first, cells, True, {})
                break
    names = [f"column {k}" for k in range(1, count + 1)]
    return _table(layout, encoding, first, names, False, {})


def _table(
    layout: Layout,
    encoding: str,
    first: int,
    cells: list[str],
    header: bool,
    units: dict[int, str],
) -> TextTable:
    """Put together what was found; names that repeat get numbers."""
    texts = from_csv_text([cell.strip().strip('"') for cell in cells])
    names = different_names([name or f"Unnamed: {k}" for k, name in enumerate(texts)])
    said = {name: unit for name, text in zip(names, texts, strict=True) if (unit := unit_of(text))}
    said |= {names[k]: unit for k, unit in units.items()}
    return TextTable(layout, encoding, first + 1, tuple(names), header, said)
