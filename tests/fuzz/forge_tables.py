"""Tables: CSV, plain and compressed, and Parquet."""

import gzip
import io

import numpy as np
from mutate import NUMBERS, Seed, damage


def _table() -> list[list[str]]:
    rows = [["sample", "time", "label", "subject", "acc_x", "acc_y"]]
    for n in range(3):
        for t in range(4):
            rows.append([str(n), str(t), "ab"[n % 2], f"p{n}", f"{n + t / 7:.4f}", f"{-t * n}.5"])
    return rows


def _csv(rows, separator=",") -> bytes:
    return ("\n".join(separator.join(row) for row in rows) + "\n").encode()


def csv_seeds() -> list[Seed]:
    text = _csv(_table())
    return [
        Seed({"t.csv": text}, "t.csv"),
        Seed({"t.tsv": _csv(_table(), "\t")}, "t.tsv"),
        Seed({"t.csv.gz": gzip.compress(text, mtime=0)}, "t.csv.gz"),
    ]


_gz_bomb: list[bytes] = []


def forge_csv(rng, seed: Seed) -> Seed:
    rows = _table()
    kind = rng.randrange(14)
    row = rng.randrange(len(rows))
    column = rng.randrange(6)
    if kind <= 3:
        rows[row][column] = rng.choice(NUMBERS).decode("utf-8", "replace")
    elif kind == 4:
        rows[row] += ["1"] * rng.choice((1, 2, 1000))
    elif kind == 5:
        rows = [[*r, "1"] for r in rows[:1]] + rows[1:] if rng.random() < 0.5 else rows
        rows = rows[:1] + [[*r, "3"] for r in rows[1:]]
    elif kind == 6:
        rows[row][column] = rng.choice(('"', "a" * 100_000, "\0", "\x1b[2J", "\r", "\ufeff", "<b>"))
    elif kind == 7:
        wide = rng.choice((100, 2000, 20_000, 200_000) if rng.random() < 0.1 else (100,))
        rows = [r + [f"{'c' if not k else ''}{j}" for j in range(wide)] for k, r in enumerate(rows)]
    elif kind == 8:
        rows[0][column] = rng.choice(
            ("sample", "time", "", "label", "id", "acc_x", "__index_level_0__")
        )
    elif kind == 9:
        rows = [[c for k, c in enumerate(r) if k != column] for r in rows]
    elif kind == 10:
        rows = rng.sample(rows, len(rows)) if rng.random() < 0.5 else rows[: rng.randrange(3)]
    elif kind == 11:
        for r in rows[1:]:
            r[column] = rng.choice(("", "nan", "1e300", "-1", "999999999999999999999", "True", "x"))
    elif kind == 12:
        rows = [[""]] * rng.choice((1, 50)) + rows
    elif rng.random() < 0.05 and seed.entry.endswith(".gz"):
        if not _gz_bomb:
            _gz_bomb.append(gzip.compress(b"sample,a\n" + b"0,0\n" * (30 << 20), 1, mtime=0))
        return Seed({seed.entry: _gz_bomb[0]}, seed.entry)
    content = _csv(rows, "\t" if ".tsv" in seed.entry else ",")
    if rng.random() < 0.1:
        content = rng.choice((b"\xef\xbb\xbf", b"\xff\xfe", b"\n\n", b"#x\n")) + content
    if rng.random() < 0.1:
        content = content.replace(b"\n", rng.choice((b"\r\n", b"\r", b"\n\n")))
    if seed.entry.endswith(".gz"):
        content = gzip.compress(content, mtime=0)
        content = content * 2 if rng.random() < 0.05 else content
    return Seed({seed.entry: content}, seed.entry)


def parquet_seeds() -> list[Seed]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = _table()
    columns = dict(zip(rows[0], zip(*rows[1:], strict=True), strict=True))
    table = pa.table({
        "sample": pa.array([int(v) for v in columns["sample"]]),
        "time": pa.array([int(v) for v in columns["time"]], pa.int16()),
        "label": pa.array(columns["label"]).dictionary_encode(),
        "subject": pa.array(columns["subject"]),
        "acc_x": pa.array([float(v) for v in columns["acc_x"]]),
        "acc_y": pa.array([float(v) for v in columns["acc_y"]], pa.float32()),
    })  # fmt: skip
    out = []
    for options in (
        {"compression": "snappy"},
        {"compression": "none", "use_dictionary": False, "write_page_checksum": True},
        {"compression": "zstd", "row_group_size": 5, "data_page_version": "2.0"},
    ):
        stream = io.BytesIO()
        pq.write_table(table, stream, **options)
        out.append(Seed({"t.parquet": stream.getvalue()}, "t.parquet"))
    frame = table.to_pandas().set_index("sample")
    stream = io.BytesIO()
    frame.to_parquet(stream)
    return [*out, Seed({"t.parquet": stream.getvalue()}, "t.parquet")]


_parquet_cache: dict[str, bytes] = {}


def _odd_parquet(kind: int) -> bytes:
    """Whole Parquet files that hold no table of signals."""
    import datetime

    import pyarrow as pa
    import pyarrow.parquet as pq

    if str(kind) not in _parquet_cache:
        n = 12
        sample = pa.array([k // 4 for k in range(n)])
        odd = [
            pa.array([[1.0]] * n), pa.array([None] * n), pa.array([{"a": 1}] * n),
            pa.array([datetime.datetime(2020, 1, 1)] * n), pa.array([b"\xff\xfe"] * n),
            pa.array([True, None] * 6), pa.array([2**63 - 1] * n), pa.array(["1e400"] * n),
            pa.array([1] * n).cast(pa.decimal128(38, 2)), pa.array([float("nan")] * n),
            pa.array([1e300] * n), pa.array([2**62] * n, pa.timestamp("us")),
            pa.array([1, None] * 6), pa.array(["x" * 100_000] + [""] * (n - 1)),
            pa.array([datetime.time(1)] * n), pa.array([2**64 - 1] * n, pa.uint64()),
            pa.array([1.0] * n, pa.float16()),
        ]  # fmt: skip
        if kind < len(odd):
            table = pa.table({"sample": sample, "a": odd[kind]})
        elif kind < 2 * len(odd):
            table = pa.table({"sample": odd[kind - len(odd)], "a": sample})
        elif kind < 3 * len(odd):
            table = pa.table({"sample": sample, "label": odd[kind - 2 * len(odd)], "a": sample})
        else:
            zeros = pa.array(np.zeros(6_000_000, np.int64))
            table = pa.table({"sample": zeros, "a": zeros})
        stream = io.BytesIO()
        pq.write_table(table, stream, compression="zstd")
        _parquet_cache[str(kind)] = stream.getvalue()
    return _parquet_cache[str(kind)]


def forge_parquet(rng, seed: Seed) -> Seed:
    content = bytearray(seed.files[seed.entry])
    length = int.from_bytes(content[-8:-4], "little")
    kind = rng.randrange(6)
    if kind == 0:
        content[-8:-4] = rng.choice((0, 1, 2**31 - 1, 2**32 - 1, length * 2, length - 1)).to_bytes(
            4, "little"
        )
    elif kind == 1:  # the footer
        start = len(content) - 8 - length
        part = damage(rng, bytes(content[start:-8]))
        content[start:] = part + len(part).to_bytes(4, "little") + b"PAR1"
    elif kind <= 3:  # varints of sizes and counts in the footer or in page headers
        start = 4 if kind == 2 else len(content) - 8 - length
        at = rng.randrange(start, len(content) - 8)
        content[at : at + rng.randint(0, 5)] = rng.choice(
            (
                b"\xff\xff\xff\xff\x0f",
                b"\xfe\xff\xff\xff\x0f",
                b"\x00",
                b"\xff" * 9 + b"\x01",
                b"\x7f",
            )
        )
    elif kind == 4:
        return Seed({seed.entry: _odd_parquet(rng.randrange(52))}, seed.entry)
    else:
        body = damage(rng, bytes(content[4 : -8 - length]))
        content[4 : -8 - length] = body
    return Seed({seed.entry: bytes(content)}, seed.entry)
