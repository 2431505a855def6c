"""Lines on disk: torn ones are dropped, writers do not disturb each other, full disks tear none."""

import json
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from tensorcontrast.errors import DamagedFileError, FileError, NewerFileError
from tensorcontrast.evaluate import store


def python(code, *args):
    return subprocess.Popen([sys.executable, "-c", textwrap.dedent(code), *map(str, args)])


def test_what_is_written_is_read(tmp_path):
    path = tmp_path / "cells.jsonl"
    assert store.read(path) == []
    store.append(path, [{"a": 1, "b": float("nan")}, {"c": [np.float32(0.5), np.int64(3)]}])
    store.append(path, [{"d": "ä\n"}])
    assert store.read(path) == [{"a": 1, "b": None}, {"c": [0.5, 3]}, {"d": "ä\n"}]


@pytest.mark.parametrize("cut", [1, 5, 8])
def test_a_torn_last_line_is_dropped_and_cut_off(tmp_path, cut):
    path = tmp_path / "cells.jsonl"
    store.append(path, [{"a": 1}, {"a": 2}])
    whole = path.read_bytes()
    path.write_bytes(whole[:-cut])
    assert store.read(path) == [{"a": 1}]
    store.append(path, [{"a": 3}])
    assert store.read(path) == [{"a": 1}, {"a": 3}]
    assert path.read_bytes().count(b"\n") == 2


def test_a_torn_line_longer_than_a_block_is_cut_off(tmp_path):
    path = tmp_path / "cells.jsonl"
    path.write_bytes(b'{"a": 1}\n{"b": "' + b"x" * 200_000)
    store.append(path, [{"c": 1}])
    assert store.read(path) == [{"a": 1}, {"c": 1}]
    path.write_bytes(b"x" * 200_000)
    store.append(path, [{"c": 1}])
    assert store.read(path) == [{"c": 1}]
    assert b"x" not in path.read_bytes()


@pytest.mark.parametrize("bad", ["{", "[1]", "", "nonsense", "[" * 100_000])
def test_a_bad_line_in_the_middle_is_named(tmp_path, bad):
    path = tmp_path / "cells.jsonl"
    path.write_text('{"a": 1}\n' + bad + '\n{"a": 2}\n')
    with pytest.raises(DamagedFileError, match="line 2: is not a cell; delete the line"):
        store.read(path)


def test_writers_at_the_same_time_lose_nothing(tmp_path):
    path = tmp_path / "cells.jsonl"
    code = """
        import sys
        from pathlib import Path
        from tensorcontrast.evaluate import store
        for k in range(40):
            store.append(Path(sys.argv[1]), [{"who": int(sys.argv[2]), "k": k, "pad": "x" * 5000}])
    """
    writers = [python(code, path, who) for who in range(3)]
    assert [writer.wait(60) for writer in writers] == [0, 0, 0]
    found = [(record["who"], record["k"]) for record in store.read(path)]
    assert sorted(found) == [(who, k) for who in range(3) for k in range(40)]


def test_a_full_disk_leaves_whole_lines(tmp_path):
    """The system's limit on the size of a file cuts a write short as a full disk does."""
    path = tmp_path / "cells.jsonl"
    store.append(path, [{"a": 1}])
    before = path.read_bytes()
    code = """
        import resource, signal, sys
        from pathlib import Path
        from tensorcontrast.errors import FileError
        from tensorcontrast.evaluate import store
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000))
        for write in (
            lambda: store.append(Path(sys.argv[1]), [{"b": "x" * 2000}, {"c": "y" * 2000}]),
            lambda: store.write_json(Path(sys.argv[1]).with_name("new.json"), {"b": "x" * 9000}),
        ):
            try:
                write()
            except FileError as error:
                assert "cannot be written" in str(error)
            else:
                sys.exit(1)
    """
    pytest.importorskip("resource", reason="limits on the size of files are those of Unix")
    assert python(code, path).wait(60) == 0
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["cells.jsonl"]


def test_places_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match="cannot be written"):
        store.append(tmp_path / "file" / "cells.jsonl", [{}])
    with pytest.raises(FileError, match="cannot be written"):
        store.append(tmp_path, [{}])
    with pytest.raises(FileError, match="cannot be read"):
        store.read(tmp_path)


def test_json_files_have_a_format(tmp_path):
    path = tmp_path / "x.json"
    store.write_json(path, {"a": (1, np.array([2.0, np.inf]))})
    assert store.read_json(path) == {"a": [1, [2.0, None]]}
    path.write_text(json.dumps({"format": store.FORMAT + 1}))
    with pytest.raises(NewerFileError, match="newer version"):
        store.read_json(path)
    for bad in ("{}", "[]", "{", '{"format": "1"}'):
        path.write_text(bad)
        with pytest.raises(DamagedFileError):
            store.read_json(path)
