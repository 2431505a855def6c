"""Outputs never replace what a command reads, nor what is no file."""

import os

import numpy as np
import pandas as pd
import pytest


@pytest.fixture
def folder(cli, tmp_path):
    rng = np.random.default_rng(0)
    for name in ("a", "b"):
        frame = pd.DataFrame({"time": np.arange(400) / 50, "x": rng.normal(size=400)})
        frame["activity"] = np.where(np.arange(400) // 100 % 2, "rest", "walk")
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    done = cli("train", tmp_path, "--window", "1", "-o", tmp_path / "m.tcm", "--rank", "2")
    assert done.code == 0, done.err
    return tmp_path


@pytest.mark.parametrize("data", ["a.csv", "*.csv", "."])
@pytest.mark.parametrize("force", [(), ("--force",)])
def test_an_input_is_never_overwritten(cli, folder, data, force):
    before = (folder / "a.csv").read_bytes()
    where = folder if data == "." else folder / data
    done = cli("predict", folder / "m.tcm", where, "-o", folder / "a.csv", *force)
    assert done.code == 3 and "a.csv" in done.err
    done = cli("transform", folder / "m.tcm", folder / "a.csv", "-o", folder / "a.csv", *force)
    assert done.code == 3
    assert (folder / "a.csv").read_bytes() == before


def test_a_model_is_not_replaced_by_its_answers(cli, folder):
    before = (folder / "m.tcm").read_bytes()
    os.link(folder / "m.tcm", folder / "same.csv")
    done = cli("predict", folder / "m.tcm", folder / "a.csv", "-o", folder / "same.csv", "--force")
    assert done.code == 3 and (folder / "m.tcm").read_bytes() == before


@pytest.mark.skipif(os.name != "posix", reason="links and pipes of POSIX")
def test_links_and_pipes_are_not_replaced(cli, folder):
    (folder / "link.csv").symlink_to(folder / "b.csv")
    os.mkfifo(folder / "pipe.csv")
    for name in ("link.csv", "pipe.csv"):
        done = cli("predict", folder / "m.tcm", folder / "a.csv", "-o", folder / name, "--force")
        assert done.code == 3, done.err
    assert (folder / "link.csv").is_symlink() and (folder / "pipe.csv").is_fifo()


def test_answers_in_the_folder_of_the_data_are_written_again(cli, folder):
    out = folder / "answers.csv"
    assert cli("predict", folder / "m.tcm", folder, "-o", out).code == 0
    done = cli("predict", folder / "m.tcm", folder, "-o", out, "--force")
    assert done.code == 0, done.err
