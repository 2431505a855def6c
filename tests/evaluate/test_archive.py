"""The archive: which sets and halves, which labels, tables by hand, runs that grow."""

import json
from dataclasses import replace

import numpy as np
import pytest
from benchmarks import comparison

import tensorcontrast
from tensorcontrast import CPD, ContrastiveFeatures
from tensorcontrast.datasets import make_synthetic
from tensorcontrast.errors import DataNotFoundError, FileError, InvalidInputError
from tensorcontrast.evaluate import archive
from tensorcontrast.evaluate.benchmark import (
    Benchmark,
    Cell,
    Dataset,
    Method,
    compute,
    read_cells,
)
from tensorcontrast.evaluate.peers import MultiRocketHydraFeatures, RandomEncoder, SparseScaler
from tensorcontrast.evaluate.protocol import fitting_budget, train_test_split
from tensorcontrast.readers.ts import read_ts_pair


def recordings(n=60, seed=0):
    """Windows of two channels with three classes and an official split."""
    rec = make_synthetic(
        n_samples=n, n_classes=3, n_channels=2, n_times=32, n_subjects=6, random_state=seed
    )
    return rec._with(columns={"split": (np.arange(n) % 3 == 0).astype(np.int8)})


def write_ts(path, X, labels, classes="a b c"):
    lines = ["@problemName x", "@timeStamps false", f"@classLabel true {classes}", "@data"]
    for window, label in zip(X, labels, strict=True):
        channels = [",".join(f"{v:.4f}" for v in channel) for channel in window]
        lines.append(":".join([*channels, label]))
    path.write_text("\n".join(lines) + "\n")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two ``.npz`` sets, one of them without official split, and a pair of ``.ts`` deeper in."""
    where = tmp_path_factory.mktemp("archive")
    recordings().save(where / "official.npz")
    recordings(seed=1)._with(columns={}).save(where / "Grouped.npz")
    deeper = where / "Pair"
    deeper.mkdir()
    rec = recordings(seed=2)
    names = np.array(["a", "b", "c"])[rec.y]
    test = rec.columns["split"] == 1
    write_ts(deeper / "Pair_TRAIN.ts", rec.X[~test], names[~test])
    write_ts(deeper / "Pair_TEST.ts", rec.X[test], names[test], classes="c b a")
    return where


# --------------------------------------------------------------------------- sets and halves


def test_the_seventeen_sets_and_their_halves_are_fixed():
    assert len(archive.NAMES) == 17
    chosen = archive.of_half(archive.NAMES, "choosing")
    assert chosen == (
        "BasicMotions",
        "FingerMovements",
        "Handwriting",
        "ItalyPowerDemand",
        "Libras",
        "myo_emg",
        "RacketSports",
        "Smartwatch",
        "wisdm_watch",
    )
    reporting = archive.of_half(archive.NAMES, "reporting")
    assert not set(chosen) & set(reporting) and len(chosen) + len(reporting) == 17
    assert archive.of_half(archive.NAMES[::-1], "reporting") == reporting[::-1]
    with pytest.raises(InvalidInputError, match="no half 'best'; there are choosing, reporting"):
        archive.of_half(archive.NAMES, "best")


def test_the_archive_s_protocol():
    found = archive.archive_benchmark()
    assert [d.label for d in found.datasets] == list(archive.NAMES)
    assert tuple(found.budgets) == (10, 30, 60, "100%")
    assert (len(found.seeds), found.draws, found.rank, len(found.methods)) == (4, 6, 32, 11)
    split = {d.label: d.split for d in found.datasets}
    assert (split["HAR"], split["PTB-XL"], split["GunPoint"]) == (
        "official",
        "subject",
        "train-test",
    )
    assert found.dataset("Smartwatch").fractions == (0.5, 0.2, 0.3)


def test_parts_of_the_archive_are_named_or_refused():
    found = archive.archive_benchmark(sets=["gunpoint", "HAR"], methods=["quant", "PLC"])
    assert [d.label for d in found.datasets] == ["GunPoint", "HAR"]
    assert [m.label for m in found.methods] == ["PLC", "QUANT + trees"]
    with pytest.raises(InvalidInputError, match="Gunpont"):
        archive.archive_benchmark(sets=["Gunpont"])
    with pytest.raises(InvalidInputError, match="GunPoint"):
        archive.archive_benchmark(sets=["GunPoint"], half="choosing")


def test_a_folder_is_searched_for_sets(folder, tmp_path):
    found = archive.folder_sets(folder)
    assert [dataset.label for dataset in found] == ["Grouped", "official", "Pair"]
    with pytest.raises(DataNotFoundError, match="no such folder"):
        archive.folder_sets(tmp_path / "absent")
    with pytest.raises(DataNotFoundError, match=r"NAME\.npz or NAME_TRAIN\.ts with NAME_TEST\.ts"):
        archive.folder_sets(tmp_path)
    (tmp_path / "Alone_TRAIN.ts").write_text("@data\n")
    with pytest.raises(DataNotFoundError, match=r"Alone_TEST\.ts, are not next to it"):
        archive.folder_sets(tmp_path)
    (tmp_path / "Alone_TEST.ts").write_text("@data\n")
    (tmp_path / "Alone.npz").write_bytes(b"")
    with pytest.raises(InvalidInputError, match="'Alone' is there twice"):
        archive.folder_sets(tmp_path)


def test_missing_files_say_what_to_do(monkeypatch, tmp_path):
    monkeypatch.setenv("TENSORCONTRAST_DATA", str(tmp_path))
    found = archive.archive_benchmark(sets=["Libras", "HAR"])
    with pytest.raises(
        DataNotFoundError, match=r"no files of Libras in .*TENSORCONTRAST_DATA.*--f"
    ):
        archive.require(found.datasets)


def test_a_pair_of_ts_files_is_one_set(folder):
    rec = read_ts_pair(folder / "Pair" / "Pair_TRAIN.ts")
    expected = recordings(seed=2)
    order = np.argsort(expected.columns["split"], kind="stable")
    np.testing.assert_allclose(rec.X, expected.X[order], atol=1e-4)
    np.testing.assert_array_equal(rec.y, expected.y[order])  # classes were listed in other orders
    assert rec.classes == ("a", "b", "c") and rec.columns["split"].tolist() == [0] * 40 + [1] * 20
    with pytest.raises(FileError, match=r"ends in _TRAIN\.ts"):
        read_ts_pair(folder / "Pair" / "Pair_TEST.ts")


def test_pairs_of_unequal_length_are_refused(tmp_path):
    for name, length in (("TRAIN", 9), ("TEST", 8)):
        write_ts(tmp_path / f"x_{name}.ts", np.zeros((2, 1, length)), ["a", "b"])
    with pytest.raises(FileError, match="unequal lengths need cutting or padding"):
        read_ts_pair(tmp_path / "x_TRAIN.ts")


# ------------------------------------------------------------------------ split and budgets


def test_training_windows_serve_with_and_without_labels():
    rec = recordings()
    split = train_test_split(rec)
    np.testing.assert_array_equal(split.unlabelled, split.train)
    np.testing.assert_array_equal(split.test, np.flatnonzero(np.arange(60) % 3 == 0))
    grouped = rec._with(columns={})
    split = train_test_split(grouped)
    assert not set(rec.groups[split.train]) & set(rec.groups[split.test])
    assert len(np.unique(rec.groups[split.test])) == 2  # 30 % of six
    np.testing.assert_array_equal(split.test, train_test_split(grouped).test)
    with pytest.raises(InvalidInputError, match="neither an official split"):
        train_test_split(grouped._with(groups=None))
    with pytest.raises(InvalidInputError, match="0 test"):
        train_test_split(rec._with(columns={"split": np.zeros(60)}))


def test_budgets_have_one_label_per_class_and_at_most_all():
    y = np.array([0] * 5 + [1] * 5 + [2, -1])
    assert [fitting_budget(y, b) for b in (1, 3, 7, 11, 60)] == [3, 3, 7, "100%", "100%"]
    assert fitting_budget(y, "5%") == "5%"


def test_cells_follow_the_rule_for_budgets(folder):
    wanted = replace(
        archive.archive_benchmark(folder, budgets=[1, 30, 60]),
        methods=[Method("CPD", "cpd", {"max_iter": 5})],
        rank=3,
        draws=3,
    )
    dataset = wanted.dataset("official")
    one, some, every = compute(wanted, dataset, wanted.methods[0], 0, wanted.budgets)
    assert [cell.n_train for cell in (one, some, every)] == [3, 30, 40]
    assert every.transform_seconds > 0 and every.n_test == 20


# ------------------------------------------------------------------------------- comparison


def cells(method, table):
    """Cells of a method with accuracies by data set and seed."""
    return [
        Cell(name, method, seed, 30, accuracy=a, balanced_accuracy=a, macro_f1=a, fit_seconds=a,
             transform_seconds=2 * a)
        for name, values in table.items()
        for seed, a in enumerate(values)
    ]  # fmt: skip


TABLE = [
    *cells("PLC", {"a": [0.5, 0.7], "b": [0.8, 0.8], "c": [0.9, 0.9]}),
    *cells("CPD", {"a": [0.4, 0.5], "b": [0.8, 0.8], "c": [0.8, 0.8]}),
    *cells("ridge", {"a": [0.7, 0.9], "b": [0.7, 0.7], "c": [0.9001, 0.8999], "d": [0.1, 0.1]}),
]


def test_standings_by_hand():
    found = comparison.accuracies(TABLE, 30)
    assert comparison.common_sets(found) == ["a", "b", "c"]
    by = {s.method: s for s in comparison.standings(found, "PLC")}
    # a: ridge 1, PLC 2, CPD 3; b: PLC and CPD 1.5, ridge 3; c: PLC and ridge 1.5, CPD 3
    assert by["PLC"].rank == pytest.approx((2 + 1.5 + 1.5) / 3)
    assert by["CPD"].rank == pytest.approx((3 + 1.5 + 3) / 3)
    assert by["ridge"].rank == pytest.approx((1 + 3 + 1.5) / 3)
    assert [s.method for s in comparison.standings(found, "PLC")] == ["PLC", "ridge", "CPD"]
    assert by["PLC"].mean == pytest.approx((0.6 + 0.8 + 0.9) / 3)
    assert (by["ridge"].wins, by["ridge"].ties, by["ridge"].losses) == (1, 1, 1)
    assert (by["CPD"].wins, by["CPD"].ties, by["CPD"].losses) == (0, 1, 2)
    assert by["CPD"].sd == pytest.approx(np.std([2.0 / 3, 2.1 / 3], ddof=1))
    assert comparison.standings(comparison.accuracies(TABLE, 60), "PLC") == []


def test_differences_and_times_by_hand():
    found = comparison.accuracies(TABLE, 30)
    a, b, c = comparison.differences(found, "CPD", "PLC")
    assert (a.mean, a.error, a.count) == (pytest.approx(-0.15), pytest.approx(0.05), 2)
    assert (b.mean, b.error) == (0.0, 0.0)
    mean = comparison.mean_difference([a, b, c])
    assert mean.mean == pytest.approx(-0.25 / 3)
    assert mean.error == pytest.approx(np.std([-0.15, 0, -0.1], ddof=1) / np.sqrt(3))
    assert comparison.mean_difference([]) is None
    single = comparison.differences(comparison.accuracies(TABLE[:1] + TABLE[6:7], 30), "CPD", "PLC")
    assert np.isnan(single[0].error)
    times = {t.method: t for t in comparison.times(TABLE)}
    assert times["PLC"].fit == pytest.approx(0.8) and times["PLC"].transform == pytest.approx(1.6)


def test_failed_cells_take_no_part():
    bad = Cell("a", "QUANT", 0, 30, error="too short")
    assert "QUANT" not in comparison.accuracies([*TABLE, bad], 30)["a"]
    assert all(t.method != "QUANT" for t in comparison.times([*TABLE, bad]))


def test_tables_of_halves_and_of_all():
    from benchmarks.archive import numbers, tables

    datasets = [
        Dataset(label, "synthetic", half=("choosing", "reporting")[k % 2])
        for k, label in enumerate("abcd")
    ]
    methods = [Method("PLC", "plc"), Method("CPD", "cpd"), Method("ridge", "minirocket")]
    wanted = Benchmark(datasets, methods, seeds=[0, 1], budgets=[30])
    found = tables(wanted, TABLE, "PLC")
    assert len(found) == 5  # standings of two halves and all, differences, times
    assert found[2].rows[0] == ["PLC", "0.767 ± 0.047", "–", "1.67"]
    assert found[2].rows[1] == ["ridge", "0.800 ± 0.047", "1 / 1 / 1", "1.83"]
    assert "d" in found[2].notes[0]
    assert found[3].head == ["data set", "PLC", "CPD", "ridge"]
    assert found[3].rows[0] == ["a", "0.600", "-15.0 ± 5.0", "+20.0 ± 0.0"]
    assert [row[0] for row in found[3].rows][:2] == ["a", "c"]
    assert found[3].rows[4] == ["d", "–", "–", "–"]
    assert found[3].rows[2][2] == "-12.5 ± 2.5" and found[3].rows[6][2] == "-8.3 ± 4.4"
    data = numbers(wanted, TABLE, "PLC")
    assert {(s["half"], s["n_sets"]) for s in data["standings"]} == {
        ("choosing", 2), ("reporting", 1), ("all", 3)
    }  # fmt: skip
    json.dumps(data, allow_nan=False)


# ------------------------------------------------------------------------------------ peers


def test_the_random_encoder_gives_e12_of_random_factors():
    X = np.random.default_rng(0).normal(size=(9, 2, 3, 4))
    model = RandomEncoder(5, alpha=0.1, random_state=0).fit(X)
    H = np.einsum("ir,jr,kr->ijkr", *model.factors_[0]).reshape(24, 5)
    K = H.T @ H
    K += 0.1 * np.trace(K) / 5 * np.eye(5)
    expected = (X - X.mean(axis=0)).reshape(9, 24) @ H @ np.linalg.inv(K)
    np.testing.assert_allclose(model.transform(X), expected, rtol=1e-9)
    other = RandomEncoder(5, random_state=1).fit(X)
    assert not np.allclose(other.factors_[0][0], model.factors_[0][0])


def test_the_sparse_scaler_keeps_zeros():
    X = np.array([[0.0, 4.0], [0.0, 9.0], [1.0, 16.0], [4.0, 25.0]])
    model = SparseScaler().fit(X)
    np.testing.assert_allclose(model.mean_, [0.75, 3.5])
    np.testing.assert_allclose(model.scale_[0], np.std([0, 0, 1, 2], ddof=1) + 0.5**4, rtol=1e-6)
    found = model.transform(X)
    assert (found[:2, 0] == 0).all() and found[3, 1] == pytest.approx(1.5 / model.scale_[1])


def test_peers_need_long_enough_signals():
    pytest.importorskip("aeon")
    with pytest.raises(InvalidInputError, match="8"):
        MultiRocketHydraFeatures().fit(np.random.default_rng(0).normal(size=(4, 1, 8)))


# ---------------------------------------------------------------------------------- compare


def features(rec, seed):
    return ContrastiveFeatures(rec.fs, decompose=CPD(rank=3, max_iter=5), random_state=seed)


def broken(rec, seed):
    raise InvalidInputError("no estimator today")


def test_compare_prints_differences_and_keeps_failures(folder, tmp_path, capsys):
    from benchmarks.archive import compare

    found = compare(
        {"mine": features, "same": features, "broken": broken},
        folder=folder,
        half="all",
        seeds=2,
        budgets=[3, "100%"],
        baseline="same",
        results=tmp_path / "r.jsonl",
    )
    printed = capsys.readouterr().out
    assert "+0.0 ± 0.0" in printed
    assert "no estimator today" in printed and len(found.failed) == 3 * 2 * 2
    assert found.accuracy("mine") == found.accuracy("same")
    assert set(found.accuracy("mine")) == {"Grouped", "official", "Pair"}
    with pytest.raises(InvalidInputError, match="PLC"):
        compare({"PLC": features}, folder=folder)


def test_compare_uses_the_cells_of_a_run(folder, tmp_path):
    from benchmarks.archive import compare

    path = tmp_path / "run.jsonl"
    options = {"folder": folder, "sets": ["official"], "seeds": 1, "budgets": [3]}
    for _ in range(2):
        found = compare({"mine": features}, baseline="Random encoder", results=path, **options)
        assert len(read_cells(path)) == 1
    assert set(found.accuracy("Random encoder")) == {"official"}
    assert [p.name for p in tmp_path.iterdir()] == ["run.jsonl"]


# --------------------------------------------------------------------------------- commands


def test_the_command_resumes_and_writes_a_result(folder, tmp_path, capsys):
    from benchmarks.archive import main

    path, result = tmp_path / "run.jsonl", tmp_path / "result.json"
    some = ["--folder", str(folder), "-o", str(path), "--result", str(result)]
    some += ["--budgets", "3", "100%", "--seeds", "1"]
    assert main([*some, "--methods", "PCA", "--half", "choosing"]) == 0
    assert {c.dataset for c in read_cells(path)} == {"Grouped", "Pair"}
    before = path.read_bytes()
    assert main([*some, "--methods", "PCA", "random encoder"]) == 0
    assert path.read_bytes().startswith(before)
    assert len(read_cells(path)) == 3 * 2 * 2
    assert "against PCA" in capsys.readouterr().out
    found = json.loads(result.read_text())
    assert found["environment"]["tensorcontrast"] == tensorcontrast.__version__
    assert (found["choosing"], found["reporting"]) == (["Grouped", "Pair"], ["official"])
    assert {d["dataset"] for d in found["differences"]} == {"Grouped", "official", "Pair", "mean"}
