"""docs/reference/cli.md stays true: options, examples, keys and codes."""

import re
import shlex
from pathlib import Path

from tensorcontrast.cli.shared.session import Code

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")


def blocks(kind):
    return re.findall(rf"(?ms)^```{kind}\n(.*?)^```", PAGE)


def test_every_example_names_commands_and_options_that_exist(cli):
    lines = [line for block in blocks("sh") for line in block.splitlines()]
    assert len(lines) > 20
    helps = {}
    for line in lines:
        program, *words = shlex.split(line, comments=True)
        assert program == "tensorcontrast"
        path = words[: 2 if words[0] == "datasets" else 1]
        if path[0].startswith("-"):
            path = []
        key = tuple(path)
        if key not in helps:
            done = cli(*path, "--help")
            assert done.code == 0, line
            helps[key] = done.out
        for option in (w for w in words if re.match(r"--?[a-z]", w)):
            assert re.search(rf"(?<![\w-]){option}(?![\w-])", helps[key]), f"{line}: {option}"


def test_codes_and_keys_are_listed(cli, data, model, other, tmp_path):
    for code in Code:
        assert re.search(rf"(?m)^\| [\d, ]*\b{int(code)}\b[\d, ]* \|", PAGE)
    calls = {
        "transform": [model, other, "-o", tmp_path / "f.npz"],
        "evaluate": [model, other],
        "train": [data, "-r", 3, "-o", tmp_path / "trained.tcm"],
        "predict": [tmp_path / "trained.tcm", other, "-o", tmp_path / "a.csv"],
        "components": [model],
        "export": [model, "-o", tmp_path / "model.onnx"],
        "rank": [other, "--ranks", "1", "--starts", 1, "--splits", 1, "-p", "max_iter=3"],
        "datasets list": [],
        "datasets info": ["har"],
    }
    for name, args in calls.items():
        (row,) = re.findall(rf"(?m)^\| `{name}` \| (.*) \|$", PAGE)
        top = re.sub(r"\([^)]*\)", "", row)
        keys = set(re.findall(r"`(\w+)`", top))
        found = set(cli(*name.split(), *args, "--json").json) - {"command", "warnings"}
        assert found == keys, name
