"""Configurations: whole ones, and forgeries that know TOML."""

from mutate import Seed

_BENCH = """\
title = "Ours"
datasets = ["watch", { name = "har", split = "atd-har" }]
seeds = 2
budgets = [10, "5 %", "100%"]

[[methods]]
name = "CPD"

[[methods]]
name = "PLC (paper)"
label = "ours"
params = { beta = 0.1 }
"""
_FIT = """\
method = "plc"
rank = 8
augment = { type = "Jitter", spread = 0.02 }
params = { max_iter = 5 }

[data]
path = "rec.npz"
fs = 50.0
channels = ["a", "b"]

[tensor]
n_fft = 16
n_quantiles = 4
"""
_VALUES = [
    "1979-05-27", "07:32:00", "nan", "-inf", "1e999", "9" * 4000, "9" * 5000, "0x" + "f" * 9000,
    "[" * 70 + "]" * 70, "{a=" * 70 + "1" + "}" * 70, "[" + "1," * 3000 + "]",
    '"' + "x" * 9999 + '"', "true", "''", "-1", "0", str(2**63), str(2**31), '"""', "{", "[1, 'a']",
    '"\\u001b[31m\\u202e\\n"',
]  # fmt: skip
_KEYS = [
    '"\\u001b[2J\\n\\u2066"', ".".join(["a"] * 40), ".".join(["'#.'"] * 40), "k" * 9999, '""',
    "rank", "data.fs", "methods", "x" * 50 + "." + "y" * 50, "datasets.name", "params.rank.x",
]  # fmt: skip


def toml_seeds() -> list[Seed]:
    return [
        Seed({"bench.toml": _BENCH.encode()}, "bench.toml"),
        Seed({"fit.toml": _FIT.encode()}, "fit.toml"),
    ]


def forge_toml(rng, seed: Seed) -> Seed:
    lines = seed.files[seed.entry].decode().splitlines()
    for _ in range(rng.choice((1, 1, 2))):
        at = rng.randrange(len(lines))
        key, sign, _ = lines[at].partition("=")
        kind = rng.randrange(8)
        if kind <= 2 and sign:
            lines[at] = f"{key}= {rng.choice(_VALUES)}"
        elif kind == 3:
            lines.insert(at, f"{rng.choice(_KEYS)} = {rng.choice(('1', *_VALUES))}")
        elif kind == 4:
            lines.insert(at, rng.choice(("[{}]", "[[{}]]")).format(rng.choice(_KEYS)))
        elif kind == 5:  # what changes nothing
            lines.insert(at, rng.choice(("# " + "[." * 500, "", "  # {{{ '", "\t")))
        elif kind == 6 and sign:
            lines[at] = f'  {key}= {rng.choice(("3", "[2, 3]", "1.5"))} # """'
        else:
            lines[at:at] = [f"k{k} = 1" for k in range(rng.choice((3, 300)))]
    return Seed({seed.entry: "\n".join(lines).encode()}, seed.entry)
