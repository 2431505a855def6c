"""Signals: EDF, BDF, WFDB and ``.ts``."""

import functools
import re
import tempfile
from pathlib import Path

import numpy as np
from mutate import NUMBERS, Seed, damage

SECRET = 12345.0  # in a record outside the folder that is read


def edf_seeds() -> list[Seed]:
    import edfio

    rng = np.random.default_rng(0)
    out = []
    with tempfile.TemporaryDirectory() as folder:
        for kind, signal, suffix in (
            (edfio.Edf, edfio.EdfSignal, "edf"), (edfio.Bdf, edfio.BdfSignal, "bdf")
        ):  # fmt: skip
            for annotated in (False, True):
                signals = [
                    signal(rng.uniform(-9, 9, 24), 8, label=name, physical_dimension="uV",
                           physical_range=(-10, 10)) for name in ("EEG A", "EEG B")
                ]  # fmt: skip
                path = Path(folder) / f"r.{suffix}"
                more = {}
                if annotated:
                    note = edfio.EdfAnnotation
                    more = {"annotations": [note(0, 1, "x")]}
                kind(signals, **more).write(path)
                out.append(Seed({path.name: path.read_bytes()}, path.name))
    return out


_EDF_FIELDS = [(0, 8), (8, 80), (88, 80), (168, 8), (176, 8), (184, 8), (192, 44), (236, 8),
               (244, 8),
               (252, 4)]  # fmt: skip
_EDF_SIGNAL = (16, 80, 8, 8, 8, 8, 8, 80, 8, 32)


@functools.cache
def _many_signals(many: int = 9999) -> bytes:
    """As many signals as the header can say."""
    values = (b"", b"", b"uV", b"-10", b"10", b"-99", b"99", b"", b"1", b"")
    head = [b"0".ljust(184), str(256 * (many + 1)).ljust(8).encode(), bytes(44)]
    head.append(b"1       1       9999")
    for size, value in zip(_EDF_SIGNAL, values, strict=True):
        head += [(b"c%d" % k if size == 16 else value).ljust(size) for k in range(many)]
    return b"".join(head) + bytes(2 * many)


def forge_edf(rng, seed: Seed) -> Seed:
    content = bytearray(seed.files[seed.entry])
    signals = int(content[252:256])
    fields = list(_EDF_FIELDS)
    start = 256
    for size in _EDF_SIGNAL:
        fields += [(start + k * size, size) for k in range(signals)]
        start += size * signals
    texts = [b"EDF Annotations", b"BDF Annotations", b"EDF+C", b"EDF+D", b"BDF+D", b"EEG A", b"-1",
             b"0", b"1e-9", b"Startdate X X X X", b"\x1b[31m", b"<b>"]  # fmt: skip
    for _ in range(rng.choice((1, 1, 2, 4))):
        at, size = rng.choice(fields[6:] if rng.random() < 0.9 else fields)
        value = rng.choice(NUMBERS + texts)
        content[at : at + size] = value[:size].ljust(size)
    if rng.random() < 0.1:
        value = rng.choice((b"EDF+D", b"BDF+D"))
        content[192:197] = value
        content[start + 20 :] = damage(rng, bytes(content[start + 20 :]))
    if rng.random() < 0.003:
        return Seed({seed.entry: _many_signals()}, seed.entry)
    return Seed({seed.entry: bytes(content)}, seed.entry)


def _wfdb_record(fmt="16", name="r", value=None) -> dict[str, bytes]:
    import wfdb

    rng = np.random.default_rng(1)
    values = rng.uniform(-1, 1, (20, 2)) if value is None else np.full((20, 2), value)
    gain = 100.0 if value is None else 1.0
    with tempfile.TemporaryDirectory() as folder:
        wfdb.wrsamp(
            name, fs=10, units=["mV"] * 2, sig_name=["I", "II"], p_signal=values, fmt=[fmt] * 2,
            adc_gain=[gain] * 2, baseline=[0] * 2, write_dir=folder,
        )  # fmt: skip
        return {file.name: file.read_bytes() for file in sorted(Path(folder).iterdir())}


def wfdb_seeds() -> list[Seed]:
    out = [Seed(_wfdb_record(fmt), "r.hea") for fmt in ("16", "212", "80", "24", "32")]
    folder = {"RECORDS": b"r\ns\n", **_wfdb_record("16"), **_wfdb_record("16", "s")}
    return [*out, Seed(folder, "."), Seed({k: v for k, v in folder.items() if k != "RECORDS"}, ".")]


def outside() -> dict[str, bytes]:
    """A record beside the folder that is read; nothing of it may ever be returned."""
    return _wfdb_record("16", "secret", SECRET)


WFDB_NAMES = [b"../secret.dat", b"../secret", b"/etc/passwd", b"r.dat::http://127.0.0.1:9/x",
              b"~", b"-",
              b"a/b", b"..", b".", b"file:///etc/passwd", b"s3://x/y", b"..\\secret.dat", b"r.dat ",
              b"../work/../secret.dat", b"simplecache::../secret.dat"]  # fmt: skip
WFDB_WORDS = [b"16", b"212", b"310", b"311", b"8", b"61", b"160", b"508", b"516", b"524",
              b"16x3", b"16x0",
              b"16x999999999", b"16:5", b"16:999999999", b"16+3", b"16+99999999999",
              b"16x2:3+4", b"0",
              b"99999999999999999999", b"0/mV", b"nan/mV", b"1e-320(0)/mV", b"1e400", b"-5",
              b"1(9)/u",
              b"1(99999999999999999999)/mV", b"200(-32769)/mV", b"10/2.5(10)", b"0/0", b"100(0",
              b"(",
              b"999999999999", b"12:00:00", b"01/01/2000", b"1e3"]  # fmt: skip


def forge_wfdb(rng, seed: Seed) -> Seed:
    files = dict(seed.files)
    headers = [name for name in files if name.endswith(".hea")]
    name = rng.choice(headers)
    lines = [line.split(b" ") for line in files[name].splitlines()]
    kind = rng.randrange(9)
    line = rng.choice(lines)
    if kind <= 3:
        for _ in range(rng.randint(1, 2)):
            line[rng.randrange(len(line))] = rng.choice(WFDB_WORDS + NUMBERS)
    elif kind == 4:
        line[0] = rng.choice(WFDB_NAMES)
    elif kind == 5:
        seg = rng.choice((b"../secret 20", b"r 20", b"~ 999999999999", b"r 10\nr 10", b"s 20"))
        lines = [[name[:-4].encode() + b"/%d" % rng.choice((1, 2, 10**9)), b"2 10 20"], [seg]]
    elif kind == 6:
        lines = rng.choice((lines[:2], lines + lines[1:], lines[:1], lines[1:], lines * 50))
    elif kind == 7 and "RECORDS" in files:
        files["RECORDS"] = rng.choice((
            b"../secret\n", b"r\nr\nr\n", b"r\n../work/r\n", b"/etc/passwd\n", b"none\n", b"\0\n",
            b"r/\n", b"r.hea\ns.dat\n", b"\n\n", b"C:\\x\n", b"a" * 5000, b"./r\ns\n",
        ))  # fmt: skip
    else:
        data = rng.choice([n for n in files if n.endswith(".dat")])
        files[data] = damage(rng, files[data])
        if rng.random() < 0.5:  # checksums that nothing can be said against
            for parts in lines[1:]:
                if len(parts) > 6:
                    parts[6] = b""
    files[name] = b"\n".join(b" ".join(parts) for parts in lines) + b"\n"
    return Seed(files, seed.entry)


_TS = """# demo
@problemName demo
@timeStamps false
@missing false
@univariate false
@dimensions 2
@equalLength true
@seriesLength 4
@classLabel true no yes
@data
1.0,2.5,-3,4:5,6,7,8:no
1.5,2.5,-3e-1,4:5,6.25,7,8:yes
0.1,0.2,0.3,0.4:9,9,8,8:no
"""


def ts_seeds() -> list[Seed]:
    bare = "@problemName demo\n@classLabel false\n@data\n1,2,3\n4,5,6\n"
    return [Seed({"d.ts": _TS.encode()}, "d.ts"), Seed({"d.ts": bare.encode()}, "d.ts")]


def forge_ts(rng, seed: Seed) -> Seed:
    lines = seed.files[seed.entry].splitlines()
    at = rng.randrange(len(lines))
    kind = rng.randrange(10)
    if kind <= 3:
        words = lines[at].replace(b",", b"\1").replace(b" ", b"\2").replace(b":", b"\3")
        parts = [p for p in re.split(rb"([\1\2\3])", words)]
        parts[rng.randrange(0, len(parts), 2)] = rng.choice(
            [*NUMBERS, b"?", b"true", b"false", b"a" * 9999]
        )
        lines[at] = b"".join(parts).replace(b"\1", b",").replace(b"\2", b" ").replace(b"\3", b":")
    elif kind == 4:
        lines[at] = lines[at] * rng.choice((2, 100))
    elif kind == 5:
        lines[at] = rng.choice((b":" * 20_000, b"1," * 50_000 + b"1:no", b"1:" * 3000 + b"no",
                                b"@data",
                                b"?,?,?,?:?,?,?,?:no", b"1,2,3,4:no", b"@classLabel true",
                                b"@timeStamps true", b"@targetLabel true",
                                b"\xff\xfe"))  # fmt: skip
    elif kind == 6:
        names = b" ".join(
            b"c%d" % k for k in range(rng.choice((3, 20_000 if rng.random() < 0.2 else 30)))
        )
        lines = [b"@classLabel true no yes " + names if b"@classLabel" in x else x for x in lines]
    elif kind == 7:
        lines = rng.sample(lines, len(lines))
    elif kind == 8:
        lines = lines[:at] + lines[at + 1 :]
    else:
        lines += [lines[-1]] * rng.choice((1, 500))
    return Seed({seed.entry: b"\n".join(lines) + b"\n"}, seed.entry)
