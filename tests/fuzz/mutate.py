"""Damage to files: what happens to bytes on disks and lines, and what someone hostile would try."""

import random
import re
import struct
from dataclasses import dataclass

NUMBERS = [
    b"0", b"-1", b"1", b"-0", b"7", b"255", b"65536", b"2147483647", b"-2147483649", b"4294967296",
    b"9223372036854775807", b"18446744073709551616", b"99999999", b"9" * 30, b"9" * 400, b"1e9",
    b"1e38", b"1e39", b"1e308", b"1e400", b"-1e400", b"1e-400", b"nan", b"inf", b"-inf", b"NaN",
    b"0x10", b"1_0", b"", b" ", b"abc", b"1.5", b"+", b"-", b".", b"\xff", b"\xd9\xa3",
]  # fmt: skip
_NUMBER = re.compile(rb"[-+]?\d+(?:\.\d+)?")
_WORDS = [0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**64 - 1]


@dataclass(frozen=True)
class Seed:
    """Files by name, and which of them is read."""

    files: dict[str, bytes]
    entry: str


def damage(rng: random.Random, content: bytes) -> bytes:
    """One to three kinds of damage, one after another."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        content = rng.choice(_KINDS)(rng, content)
    return content


def _span(rng, content, most=64):
    start = rng.randrange(len(content) + 1)
    return start, min(len(content), start + rng.randint(1, most))


def _flip(rng, content):
    out = bytearray(content)
    for _ in range(rng.randint(1, 8) if out else 0):
        out[rng.randrange(len(out))] ^= 1 << rng.randrange(8)
    return bytes(out)


def _overwrite(rng, content):
    start, end = _span(rng, content, 16)
    fill = rng.choice((b"\0", b"\xff", b" ", b"0", b"9", b"\n", bytes([rng.randrange(256)])))
    return content[:start] + fill * (end - start) + content[end:]


def _word(rng, content):
    """A number of 1 to 8 bytes, as sizes in headers are."""
    size = rng.choice((1, 2, 4, 8))
    value = rng.choice(_WORDS) & (1 << 8 * size) - 1
    packed = value.to_bytes(size, rng.choice(("little", "big")))
    start = rng.randrange(max(1, len(content)))
    return content[:start] + packed + content[start + size :]


def _number(rng, content):
    """A number in digits becomes another one."""
    found = list(_NUMBER.finditer(content))
    if not found:
        return _overwrite(rng, content)
    at = rng.choice(found)
    value = rng.choice(NUMBERS)
    if rng.random() < 0.5:  # as long as the one before, as in headers of fixed columns
        value = value[: len(at[0])].ljust(len(at[0]))
    return content[: at.start()] + value + content[at.end() :]


def _truncate(rng, content):
    return content[: rng.randrange(len(content) + 1)]


def _delete(rng, content):
    start, end = _span(rng, content)
    return content[:start] + content[end:]


def _insert(rng, content):
    start = rng.randrange(len(content) + 1)
    return content[:start] + rng.randbytes(rng.randint(1, 32)) + content[start:]


def _duplicate(rng, content):
    start, end = _span(rng, content, 400)
    times = rng.choice((1, 1, 2, 50))
    return content[:end] + content[start:end] * times + content[end:]


def _swap(rng, content):
    (a, b), (c, d) = sorted((_span(rng, content), _span(rng, content)))
    if b > c:
        return content[c:] + content[:c]
    return content[:a] + content[c:d] + content[b:c] + content[a:b] + content[d:]


def _float(rng, content):
    """A binary floating-point number that is none."""
    value = struct.pack("<f", rng.choice((float("nan"), float("inf"), 3e38, 1e-45)))
    start = rng.randrange(max(1, len(content)))
    return content[:start] + value + content[start + 4 :]


def _empty(rng, content):
    return rng.choice((b"", b"\0", b"\n", b"\0" * 512, content + b"\0" * 512))


_KINDS = (
    _flip, _flip, _flip, _overwrite, _word, _word, _number, _number, _number, _truncate, _truncate,
    _delete, _insert, _duplicate, _swap, _float, _empty,
)  # fmt: skip
