"""Files of arrays: ``.npz`` with and without checksums, and folders of ``.npy``."""

import io
import struct
import tempfile
import zipfile
from pathlib import Path

import numpy as np
from mutate import Seed, damage

from tensorcontrast import Recordings


def recordings(n=4, channels=2, times=8, seed=0):
    rng = np.random.default_rng(seed)
    return Recordings(
        rng.standard_normal((n, channels, times)).astype(np.float32),
        np.arange(n) % 2,
        groups=np.arange(n) // 2,
        fs=8.0,
        channels=["a", "b"][:channels],
        classes=["no", "yes"],
        units="mV",
        name="demo",
        columns={"age": np.arange(n) * 1.5, "site": np.array(["x", "yz"] * (n // 2))},
    )


SHAPES = ["(4, 2, 8)", "()", "(0, 2, 8)", "(4, 2, 2147483647)", "(1000000000000, 2, 8)",
          "(-1, 2, 8)", "(4, 2, 8.0)", "(4, 2, 9223372036854775808)", "(4, 2, 8, 1)", "(64,)",
          "(18446744073709551616,)", "(4, 2", "(4,,2)", "(0,)", "(0, 9223372036854775807)",
          "(True, 2, 8)", "(1000000000,)", "4", "(4, 2, 8),(4, 2, 8)", "(" * 3000,
          "(3)(4)"]  # fmt: skip
DTYPES = ["<f4", ">f4", "<f8", "<f2", "<f16", "|O", "<U0", "|S0", "<U1", "<U999999", "|S64", "<i8",
          "<u8", "|b1", "|V4", "<c8", "<M8[s]", "<m8[s]", "a4", "f4", "<f3", "<U99999999999", "|u1",
          "<i2", "[('a', '<f4')]", "O", "\\\\d", "<g", "", "<f4,<f4"]  # fmt: skip


def npy(array) -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array(stream, np.asarray(array), allow_pickle=False)
    return stream.getvalue()


def forge_npy(rng, content: bytes) -> bytes:
    """Another header before the same values."""
    _, _, values = content.partition(b"\n")
    array = np.lib.format.read_array(io.BytesIO(content))
    descr = rng.choice(DTYPES) if rng.random() < 0.5 else array.dtype.str
    shape = rng.choice(SHAPES) if rng.random() < 0.6 else str(array.shape)
    order = rng.choice(("True", "False", "False", "None", "1", "'yes'"))
    text = f"{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}"
    if rng.random() < 0.2:
        text = rng.choice((
            text[:-3], text + text, "{}", "[]", "__import__('os').abort()", "{" * 500,
                "1if 1else 2",
            text.replace("'descr'", '"descr"'), text.replace("descr", "de\\scr"),
            text.replace("}", "'x': 1}"), text.replace(", ", ",\n"),
        ))  # fmt: skip
    raw = text.encode("latin-1") + b" " * (-len(text) % 16) + b"\n"
    version, size = rng.choice(((1, "<H"), (1, "<H"), (2, "<I"), (3, "<I"), (9, "<H")))
    length = rng.choice((len(raw), len(raw), len(raw), 0, 65535))
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack(size, length & 0xFFFF) + raw + values


ODD_ARRAYS = [
    0.0, -5.0, float("nan"), float("inf"), 1e300, 1e-300, "", "fast", "a" * 100_000, [], [1.0, 2.0],
    [0, 1, 2, 3], [0, 1, 0, -7], [0.0, 0.5, 1.0, 1.0], [1e300] * 4, [2**62] * 4, [-1] * 4,
    ["no", "yes", "no", "maybe"], ["a", "a"], [["a"], ["b"]], [[0], [1], [0], [1]], [True, False],
    [float("nan")] * 4, ["x"] * 4, [b"x"] * 4, [b"\xff"] * 4,
]  # fmt: skip
ODD_X = [
    np.zeros((4, 2, 8)), np.full((4, 2, 8), np.nan), np.full((4, 2, 8), np.inf),
    np.full((4, 2, 8), 1e300), np.zeros((4, 2)), np.zeros((0, 2, 8)), np.float32(3),
    np.full((4, 2, 8), 2**62), np.full((4, 2, 8), 2**64 - 1, np.uint64), np.zeros((4, 2, 8), bool),
    np.full((4, 2, 8), -(2**63)), np.full((4, 2, 8), np.longdouble("1e4000")),
    np.full((4, 2, 8), 3e38, np.float32), np.full((4, 2, 8), "1"), np.ones((4, 2, 8), np.float16),
    np.zeros((4, 20_000, 1), np.int8), np.zeros((1, 1, 300_000), np.int8),
]  # fmt: skip


def odd_array(rng):
    """Something that does not belong where it is, as NumPy itself would write it."""
    return npy(np.asarray(rng.choice(ODD_ARRAYS)))


NAMES = ["../X", "/tmp/X", "C:\\X", "..\\X", "a/../../X", "X", "y", "fs", "scale", "name",
         "\x1b[31m",
         "<script>", "a" * 3000, "", "file", "allow_pickle", "."]  # fmt: skip


def zipped(members, method=zipfile.ZIP_DEFLATED) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in members:
            info = zipfile.ZipInfo(name)
            info.compress_type = method
            archive.writestr(info, content)
    return stream.getvalue()


_bombs: dict[str, bytes] = {}


def zip_bomb(kind: str) -> bytes:
    """A megabyte or less that claims to be hundreds of them."""
    if not _bombs:
        big = npy(np.zeros((1, 1, 120 << 20), np.int8))
        one = zipped([("X.npy", big)])
        _bombs["plain"] = one
        with zipfile.ZipFile(io.BytesIO(one)) as archive:
            info = archive.infolist()[0]
        # many entries of the central directory that all point to the same data
        end = one.rindex(b"PK\5\6")
        directory, start = one[info.header_offset :], one.index(b"PK\1\2")
        assert directory
        entry = one[start:end]
        copies = b"".join(
            entry.replace(b"X.npy", b"%c.npy" % (65 + k)) if k != 23 else entry for k in range(26)
        )
        tail = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 26, 26, len(copies), start, 0)
        _bombs["overlap"] = one[:start] + copies + tail
        small = npy(np.zeros((4, 2, 8), np.float32))
        _bombs["many"] = zipped([("X.npy", small)] + [(f"c{k}.npy", small) for k in range(3000)])
        _bombs["stored"] = zipped([("X.npy", small)], zipfile.ZIP_STORED)
    return _bombs[kind]


def unzipped(content: bytes) -> list[tuple[str, bytes]]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return [(m.filename, archive.read(m)) for m in archive.infolist()]


def forge_zip(rng, seed: Seed) -> Seed:
    members = unzipped(seed.files[seed.entry])
    method = rng.choice((zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED))
    k = rng.randrange(len(members))
    kind = rng.randrange(12)
    if kind == 0:
        members[k] = (rng.choice(NAMES) + rng.choice((".npy", "")), members[k][1])
    elif kind <= 3:
        members[k] = (members[k][0], forge_npy(rng, members[k][1]))
    elif kind == 4:
        members[k] = (members[k][0], odd_array(rng))
    elif kind == 5:
        members = [m for m in members if m[0] != "X.npy"]
        members.append(("X.npy", npy(rng.choice(ODD_X))))
    elif kind == 6:
        members.append((rng.choice(NAMES) + ".npy", odd_array(rng)))
    elif kind == 7:
        del members[k]
    elif kind == 8:
        members[k] = (members[k][0], damage(rng, members[k][1]))
    elif kind == 9:
        method = rng.choice((zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA))
    elif kind == 10:
        return Seed({seed.entry: _forge_fields(rng, zipped(members, method))}, seed.entry)
    elif rng.random() < 0.1:
        return Seed({seed.entry: zip_bomb(rng.choice(("plain", "overlap", "many")))}, seed.entry)
    return Seed({seed.entry: zipped(members, method)}, seed.entry)


def _forge_fields(rng, content: bytes) -> bytes:
    """Sizes, checksums, flags and methods in the headers of a zip."""
    places = []
    for mark, fields in (
        (b"PK\3\4", ((6, 2), (8, 2), (14, 4), (18, 4), (22, 4), (26, 2), (28, 2))),
        (b"PK\1\2", ((8, 2), (10, 2), (16, 4), (20, 4), (24, 4), (28, 2), (30, 2), (42, 4))),
        (b"PK\5\6", ((8, 2), (10, 2), (12, 4), (16, 4), (20, 2))),
    ):
        at = content.find(mark)
        while at >= 0:
            places += [(at + offset, size) for offset, size in fields]
            at = content.find(mark, at + 1)
    out = bytearray(content)
    for _ in range(rng.randint(1, 3)):
        at, size = rng.choice(places)
        value = rng.choice((0, 1, 8, 12, 14, 0xFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 1 << 20))
        out[at : at + size] = (value & (1 << 8 * size) - 1).to_bytes(size, "little")
    return bytes(out[: len(content)])


def npz_seeds() -> list[Seed]:
    stream = io.BytesIO()
    rec = recordings()
    np.savez_compressed(
        stream, X=(rec.X * 100).astype(np.int16), scale=np.float32(0.01), y=rec.y, fs=8.0,
        groups=rec.groups, channels=np.array(["a", "b"]), unit="mV", age=np.arange(4),
    )  # fmt: skip
    plain = io.BytesIO()
    np.savez(plain, X=rec.X)
    return [Seed({"r.npz": stream.getvalue()}, "r.npz"), Seed({"r.npz": plain.getvalue()}, "r.npz")]


def recordings_seeds() -> list[Seed]:
    with tempfile.TemporaryDirectory() as folder:
        contents = [
            recordings(seed=k).save(Path(folder) / "r.npz", compress=bool(k)).read_bytes()
            for k in range(2)
        ]
    return [Seed({"r.npz": content}, "r.npz") for content in contents]
