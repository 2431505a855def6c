"""Configurations: every fault is named with its line, and nothing unknown gets through."""

import re
import tomllib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorcontrast.errors import DataNotFoundError, FileError, InvalidInputError
from tensorcontrast.evaluate import kinds
from tensorcontrast.evaluate.config import BenchConfig, load_config, slug
from tensorcontrast.evaluate.presets import PRESETS, preset
from tensorcontrast.evaluate.toml_config import line_numbers

GOOD = """\
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
labels_in_graph = true
"""


def write(folder, text):
    path = folder / "bench.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_is_read_as_it_says(tmp_path):
    config = load_config(write(tmp_path, GOOD))
    assert [d.label for d in config.datasets] == ["watch", "har-atd"]
    assert config.seeds == (0, 1) and config.budgets == (10, "5%", "100%")
    assert [(m.name, m.label) for m in config.methods] == [("cpd", "CPD"), ("plc-paper", "ours")]
    assert config.methods[1].labels_in_graph == "drawn"


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("seeds = 2", "sedes = 2", 3, "sedes: no such key; did you mean seeds?"),
        ("seeds = 2", 'seeds = "2"', 3, "number of seeds"),
        ("seeds = 2", "seeds = [0, 1, 0]", 3, "seeds[2]: 0 is there twice"),
        ("seeds = 2", "seeds = []", 3, "seeds"),
        ("seeds = 2", "seeds = [1.5]", 3, "seeds[0]"),
        ("seeds = 2", "rank = 3.5", 3, "rank"),
        ("seeds = 2", "rank = true", 3, "rank"),
        ("seeds = 2", "draws = 0", 3, "draws: input should be greater than or equal to 1"),
        ("seeds = 2", "fractions = [0.5, 0.5, 0.5]", 3, "add up to 1"),
        ("seeds = 2", "n_jobs = 0", 3, "n_jobs"),
        ("seeds = 2", "tensorize = { n_ftt = 64 }", 3, "tensorize.n_ftt"),
        ("seeds = 2", 'augment = "strong"', 3, "'default', 'paper' or 'none', not 'strong'"),
        ('"5 %"', '"5"', 4, "budgets[1]: '5' is not a label budget"),
        ('"5 %"', "0", 4, "budgets[1]"),
        ('"5 %"', '"101%"', 4, "budgets[1]"),
        ('"watch"', '"wacth.npz", "har-set"', None, None),
        ('{ name = "har", split', '{ name = "har", splitt', 2, "datasets[1].splitt"),
        ('name = "har"', 'name = "hra"', 2, "no data set 'hra'; did you mean har?"),
        ('"atd-har"', '"random"', 2, "datasets[1].split"),
        (
            'name = "CPD"',
            'name = "CPDD"',
            7,
            "methods[0].name: no method 'CPDD'; did you mean cpd?",
        ),
        ('name = "CPD"', 'label = "CPD"', 6, "methods[0].name: is missing"),
        ("beta = 0.1", "bta = 0.1", 12, "methods[1].params.bta: PLC (paper) has no parameter"),
        ("labels_in_graph = true", 'labels_in_graph = "some"', 13, "methods[1].labels_in_graph"),
        ('label = "ours"', 'label = "cpd"', 9, "there twice"),
        ('name = "CPD"', 'name = "CPD"\nlabels_in_graph = true', 8, "no graph"),
    ],
)
def test_faults_are_named_with_their_line(tmp_path, old, new, line, words):
    assert old in GOOD
    path = write(tmp_path, GOOD.replace(old, new))
    if line is None:  # a text that is no name of a data set is a path
        names = [d.path for d in load_config(path).datasets]
        assert names == [str(tmp_path / "wacth.npz"), str(tmp_path / "har-set"), None]
        return
    with pytest.raises(FileError) as caught:
        load_config(path)
    assert f"{path} line {line}: " in str(caught.value)
    assert words in str(caught.value)


def test_all_faults_are_told_at_once_in_order(tmp_path):
    text = GOOD.replace("seeds = 2", "sedes = 2").replace("bta", "beta").replace("0.1", '"x"')
    text = text.replace('name = "CPD"', "name = 3").replace("title", "titel")
    with pytest.raises(FileError) as caught:
        load_config(write(tmp_path, text))
    lines = str(caught.value).splitlines()
    assert [line.split(": ")[0].rsplit(" ", 1)[1] for line in lines] == ["1", "3", "7"]


def test_no_file_no_text_no_toml(tmp_path):
    with pytest.raises(DataNotFoundError, match="no such file"):
        load_config(tmp_path / "none.toml")
    with pytest.raises(FileError, match="cannot be read"):
        load_config(tmp_path)
    (tmp_path / "b.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(FileError, match="UTF-8"):
        load_config(tmp_path / "b.toml")
    with pytest.raises(FileError, match=r"not valid TOML.*line 2"):
        load_config(write(tmp_path, "a = 1\nb = = 2\n"))
    with pytest.raises(FileError, match="datasets: is missing"):
        load_config(write(tmp_path, ""))


def test_tuning_is_checked(tmp_path):
    tune = '\n[methods.tune]\ncriterion = "cv"\n\n[methods.tune.grid]\nrank = [2, 4]\n'
    plain = GOOD.replace("labels_in_graph = true\n", "")
    config = load_config(write(tmp_path, plain + tune))
    assert config.methods[1].tune is not None and config.methods[1].tune.grid == {"rank": [2, 4]}
    for old, new, line, words in [
        ("rank = [2, 4]", "rnk = [2, 4]", 18, "no parameter 'rnk'"),
        ("rank = [2, 4]", "rank = []", 18, "no values"),
        ("rank = [2, 4]", "rank = 2", 18, "valid list"),
        ('"cv"', '"test"', 15, "'bic', 'aic' or 'cv'"),
    ]:
        with pytest.raises(FileError) as caught:
            load_config(write(tmp_path, plain + tune.replace(old, new)))
        assert f"line {line}: " in str(caught.value) and words in str(caught.value)
    pca = {"name": "pca", "tune": {"grid": {"n_features": [2]}}}
    with pytest.raises(InvalidInputError, match="no likelihood"):
        BenchConfig.from_data({"datasets": ["watch"], "methods": [pca]})


def test_paper_tensors_are_for_the_paper_s_data():
    data = {"datasets": ["watch"], "methods": ["cpd"], "tensorize": "paper"}
    with pytest.raises(InvalidInputError, match="has no tensors or augmentation for 'watch'"):
        BenchConfig.from_data(data)
    assert BenchConfig.from_data({**data, "datasets": ["har"]}).tensorize == "paper"
    with pytest.raises(InvalidInputError, match="'atd-har' is that of HAR"):
        BenchConfig.from_data({"datasets": ["watch"], "methods": ["cpd"], "split": "atd-har"})


def test_the_hash_is_that_of_what_results_depend_on():
    base = BenchConfig.from_data({"datasets": ["watch"], "methods": ["cpd"]})
    same = base.replace(title="other", n_jobs=7, methods=[{"name": "CPD", "note": "slow"}])
    assert same.hash == base.hash
    for change in ({"seeds": 3}, {"rank": 8}, {"budgets": [10]}, {"methods": ["plc"]}):
        assert base.replace(**change).hash != base.hash
    assert BenchConfig.from_data(base.model_dump(mode="json")) == base


@pytest.mark.parametrize("name", PRESETS)
def test_presets_are_valid_and_say_what_they_shorten(name):
    config = preset(name)
    assert config.title and config.hash == preset(name).hash
    for method in config.methods:
        if method.epochs is not None:
            assert f"{method.epochs} epochs instead of the paper's 100" in method.note
    assert preset(name, seeds=[5]).seeds == (5,)


def test_unknown_presets_and_labels():
    with pytest.raises(InvalidInputError, match="no preset 'table2'; there are table1"):
        preset("table2")
    with pytest.raises(InvalidInputError, match="no method 'x'; there are 'CPD'"):
        preset("demo").method("x")
    assert slug("../PLC (paper)!") == "plc-paper" and slug("…") == "unnamed"


names = st.sampled_from(["a", "b-c", '"q.r"', "d_1"])
leaves = st.sampled_from(["1", "true", '"x # y"', "'a=b'", '"""l\n\\"1"""', "1979-05-27T07:32:00Z"])
values = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda v: "[\n " + ",\n ".join(v) + "\n]")
        | st.dictionaries(names, inner, max_size=2).map(
            lambda d: "{ " + ", ".join(f"{k} = {v}" for k, v in d.items() if "\n" not in v) + " }"
        )
    ),
    max_leaves=6,
)
tables = st.lists(
    st.tuples(st.sampled_from(["[t{}]", "[[u]]", "[[u.v]]"]), st.dictionaries(names, values)),
    max_size=4,
)


def places(data, path=()):
    if path:
        yield path
    items = data.items() if isinstance(data, dict) else enumerate(data)
    for key, value in items:
        if isinstance(value, dict | list):
            yield from places(value, (*path, key))
        else:
            yield (*path, key)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(names, values), tables)
def test_every_value_of_any_toml_has_a_line(top, rest):
    text = "# comment\n" + "".join(f"{k} = {v} # end\n" for k, v in top.items())
    seen_u = False
    for number, (head, pairs) in enumerate(rest):
        if head == "[[u.v]]" and not seen_u:
            head = "[[u]]"
        seen_u |= head == "[[u]]"
        pairs = {k: v for k, v in pairs.items()}
        text += head.format(number) + "\n" + "".join(f"{k} = {v}\n" for k, v in pairs.items())
    data = tomllib.loads(text)
    lines = line_numbers(text)
    rows = text.split("\n")
    for path in places(data):
        assert path in lines, (path, text)
        key = path[-1]
        if isinstance(key, str):
            assert key in rows[lines[path] - 1]


def test_configurations_in_the_documentation_are_valid(tmp_path):
    page = Path(__file__).parents[2] / "docs" / "howto" / "benchmarks.md"
    blocks = re.findall(r"(?ms)^```toml\n(.*?)^```", page.read_text(encoding="utf-8"))
    found = [load_config(write(tmp_path, block)) for block in blocks]
    assert [len(config.methods) for config in found] == [3, 3]
    assert found[0].datasets[0].path == str(tmp_path / "machines.npz")
    for name in (*kinds.METHODS, *BenchConfig.model_fields):
        assert f"`{name}`" in page.read_text(encoding="utf-8") or name == "title", name
