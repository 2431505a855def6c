"""``tensorcontrast check``: what recordings hold, and what deserves a look."""

import json

import numpy as np

from tensorcontrast.recordings import Recordings


def test_good_and_bad_recordings(cli, tmp_path):
    X = np.random.default_rng(0).normal(size=(6, 3, 100))
    columns = {"recording": np.repeat(["r1", "r2"], 3), "start": np.tile([0, 100, 200], 2)}
    about = {"fs": 50, "channels": ["x", "y", "z"], "units": "g", "columns": columns}
    good = Recordings(X, ["a", "b"] * 3, **about).save(tmp_path / "good.npz")
    done = cli("check", good, "--json")
    assert done.code == 0, done.err
    told = json.loads(done.out)
    assert told["findings"] == [] and told["recordings"][1]["seconds"] == 6
    X[:, 1] = 3
    bad = Recordings(X, **about).save(tmp_path / "bad.npz")
    done = cli("check", bad)
    assert done.code == 4 and "'y' is flat" in done.out
    assert json.loads(cli("check", bad, "--json").out)["channels"][1]["flat"] == 6


def test_against_a_model(cli, data, other, tmp_path):
    model = tmp_path / "m.tcm"
    assert cli("fit", data, "-o", model, "--rank", "2").code == 0
    assert cli("check", other, "--model", model).code in (0, 4)
    rec = Recordings.load(other)
    slow = Recordings(rec.X, fs=1, channels=rec.channels).save(tmp_path / "slow.npz")
    done = cli("check", slow, "--model", model)
    assert done.code == 4 and "rate" in done.err
