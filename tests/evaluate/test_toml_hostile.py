"""Hostile TOML: refused at once, in few words, and shown harmlessly."""

import os
import time

import pytest

from tensorcontrast.cli.shared.settings import FitSettings
from tensorcontrast.errors import FileError
from tensorcontrast.evaluate.config import BenchConfig
from tensorcontrast.evaluate.toml_config import MAX_BYTES, load_toml

MANY = 20_000
CASES = {
    "arrays in arrays": "rank = " + "[" * MANY + "]" * MANY,
    "tables in tables": "params = " + "{a=" * 5000 + "1" + "}" * 5000,
    "tables of dotted keys": "params = " + ("{" + ".".join("a" * 30) + "=") * 60 + "1" + "}" * 60,
    "dotted key": ".".join(["a"] * 20_000) + " = 1",
    "dotted key in quotes": " . ".join(["'#'"] * 20_000) + " = 1",
    "dotted key in a table": "params = { " + ".".join(["a"] * 20_000) + " = 1 }",
    "dotted header": "[" + ".".join(["a"] * 20_000) + "]",
    "5000 digits": "rank = " + "9" * 5000,
    "4000 digits": "rank = " + "9" * 4000,
    "hexadecimal digits": "params = { max_iter = 0x" + "f" * MANY + " }",
    "65 bits": f"seed = {2**63}",
    "seeds": "seeds = 2147483648",
    "infinite rank": "rank = 1e999",
    "rate that is no number": "[data]\nfs = nan",
    "infinite rate": "[data]\nfs = inf",
    "date": "rank = 1979-05-27",
    "time": "[data]\nfs = 07:32:00",
    "keys": "\n".join(f"k{i} = 1" for i in range(2_000)),
    "tables": "[[a]]\n" * 5_000,
    "array": "rank = [" + "1," * MANY + "]",
    "array in lines": "rank = [\n" + "1,\n" * MANY + "]",
    "array of what is wrong": "[data]\nchannels = [" + "1," * 5_000 + "]",
    "long text": 'method = "' + "x" * 200_000 + '"',
    "long key": "x" * 200_000 + " = 1",
    "too long": "#" * (MAX_BYTES + 1),
    "too long, in two bytes": "# " + "ü" * MAX_BYTES,
    "open text": 'rank = """' + '"\\' * MANY,
    "open table": "rank = {" * 50,
    "key with escapes": '"\\u001b[31mk\\ney\\u202e" = 1',
    "text with escapes": 'method = "\\u001b[31mk\\n\\u202e"',
    "parameter with escapes": 'methods = [{ name = "cpd", params = { "\\u001b\\u2066" = 1 } }]',
    "name with escapes": 'datasets = ["\\u001b\\u2066<b>"]',
}


@pytest.mark.parametrize("model", [FitSettings, BenchConfig])
@pytest.mark.parametrize("text", CASES.values(), ids=CASES)
def test_hostile_toml(tmp_path, model, text):
    path = tmp_path / "config.toml"
    path.write_text(text, encoding="utf-8")
    begin = time.process_time()
    with pytest.raises(FileError, match=r"config\.toml") as info:
        load_toml(path, model)
    assert time.process_time() - begin < 1.0
    message = str(info.value)
    assert len(message) < 20 * 700
    assert all(c.isprintable() or c == "\n" for c in message)
    lines = message.split("\n")
    assert all(line.startswith(str(path)) for line in lines[:20])  # no key breaks a line


def test_faults_are_counted(tmp_path):
    path = tmp_path / "config.toml"
    path.write_text("\n".join(f"k{i} = 1" for i in range(100)))
    with pytest.raises(FileError, match=r"line 20: k19: .*\nand 80 more faults$"):
        load_toml(path, FitSettings)


def test_brackets_and_dots_in_text_and_comments_do_not_count(tmp_path):
    path = tmp_path / "config.toml"
    path.write_text(
        f"# {'.' * 200} {'[' * 200}\noutput = '{'[.' * 100}' # {'{' * 100}\n"
        f'checkpoint = """{"[." * 100}"""\n[data]\npath = "{"../" * 40}x"\nwhere = [\n'
        + "  'a=1.5',\n" * 100
        + "]\n"
    )
    assert load_toml(path, FitSettings).data.where == ["a=1.5"] * 100


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes as on POSIX systems")
def test_a_pipe_is_no_configuration(tmp_path):
    os.mkfifo(tmp_path / "pipe.toml")
    with pytest.raises(FileError, match="no file"):
        load_toml(tmp_path / "pipe.toml", FitSettings)
