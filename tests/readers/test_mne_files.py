"""Files that MNE reads, by their path."""

import numpy as np
import pytest

from tensorcontrast.errors import FileError, TensorContrastWarning
from tensorcontrast.recordings import Recordings

mne = pytest.importorskip("mne", reason="needs tensorcontrast[mne]")
RNG = np.random.default_rng(0)


@pytest.fixture
def raw():
    info = mne.create_info(["Cz", "Pz", "STI"], 100, ["eeg", "eeg", "stim"])
    made = mne.io.RawArray(1e-5 * RNG.normal(size=(3, 2000)), info, verbose=False)
    made.set_annotations(mne.Annotations([0, 10, 4.5], [10, 10, 1], ["rest", "move", "bad x"]))
    return made


def test_fif_by_path(tmp_path, raw):
    raw.save(tmp_path / "a_raw.fif", verbose=False)
    with pytest.warns(TensorContrastWarning, match="gaps: 1"):
        rec = Recordings.read(tmp_path / "a_raw.fif", window_s=2, labels="annotations")
    assert (rec.channels, rec.units, rec.fs) == (("Cz", "Pz"), "V", 100)
    assert rec.columns["start"].tolist()[:3] == [0, 200, 550]
    np.testing.assert_allclose(rec.X[0], raw.get_data(picks=[0, 1])[:, :200], rtol=1e-5)
    assert [rec.classes[k] for k in rec.y[:2]] == ["rest", "rest"] and rec.classes[
        rec.y[-1]
    ] == "move"


def test_brainvision_and_eeglab_folders(tmp_path, raw):
    pytest.importorskip("pybv", reason="MNE writes BrainVision by pybv")
    mne.export.export_raw(tmp_path / "a.vhdr", raw.pick("eeg"), verbose=False)
    rec = Recordings.read(tmp_path / "a.vhdr", window_s=2)
    assert rec.fs == 100


def test_epochs_by_path(tmp_path, raw):
    events = np.column_stack([[100, 400], [0, 0], [1, 2]])
    epochs = mne.Epochs(
        raw, events, {"a": 1, "b": 2}, 0, 0.5, baseline=None, preload=True, verbose=False,
        reject_by_annotation=False,
    )  # fmt: skip
    epochs.save(tmp_path / "a-epo.fif", verbose=False)
    rec = Recordings.read(tmp_path / "a-epo.fif")
    assert rec.classes == ("a", "b") and rec.n_times == 51


def test_files_that_are_not_of_mne(tmp_path):
    for name in ("a.fif", "a.vhdr", "a.set", "a.gdf"):
        (tmp_path / name).write_bytes(b"no such file")
        with pytest.raises(FileError, match=name):
            Recordings.read(tmp_path / name)
