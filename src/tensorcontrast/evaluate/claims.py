"""What the paper claims, on its three data sets: the published numbers, and the runs behind ours.

M. Li, Z. Li, L. Sun, F. Tsung: Enabling Tensor Decomposition for Time-Series Classification via A
Simple Pseudo-Laplacian Contrast. Preprint, 2024. Table 1: test accuracy of a logistic classifier,
mean and standard deviation of four repeats, and seconds an epoch. It gives no numbers of
parameters.

``python -m benchmarks.claims`` computes the runs, :mod:`tensorcontrast.evaluate.verdicts` reads
them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tensorcontrast.errors import DataNotFoundError, InvalidInputError
from tensorcontrast.evaluate.benchmark import Benchmark, Dataset, Method

__all__ = ["CITATION", "PARTS", "READINGS", "TABLE1", "PaperResult", "claim_runs", "require"]

CITATION = (
    "M. Li, Z. Li, L. Sun, F. Tsung: Enabling Tensor Decomposition for Time-Series Classification "
    "via A Simple Pseudo-Laplacian Contrast. Preprint, 2024."
)


@dataclass(frozen=True)
class PaperResult:
    """A cell of the paper's Table 1."""

    accuracy: float
    accuracy_sd: float
    epoch_seconds: float


_ROWS: dict[str, tuple[tuple[float, float, float], ...]] = {
    # HAR, Sleep-EDF, PTB-XL: accuracy, standard deviation, seconds an epoch
    "SimCLR": ((0.6662, 3.8e-2, 7.9508), (0.8313, 7.2e-3, 15.7657), (0.6442, 6.7e-2, 19.5069)),
    "BYOL": ((0.7017, 1.0e-1, 7.4217), (0.8257, 1.2e-1, 15.4009), (0.6251, 1.4e-2, 19.260)),
    "CPD": ((0.8813, 1.6e-3, 3.6819), (0.7913, 3.2e-2, 6.8075), (0.6749, 5.7e-2, 7.2089)),
    "DeepTensor": ((0.8371, 5.4e-2, 17.8731), (0.7667, 1.5e-2, 20.1100), (0.6932, 1.9e-2, 20.6826)),
    "ATD": ((0.8951, 2.6e-2, 16.0915), (0.8293, 1.6e-1, 18.2486), (0.6868, 2.0e-2, 28.7403)),
    "PLC": ((0.9349, 6.5e-2, 13.7321), (0.8420, 1.7e-3, 18.6653), (0.7147, 7.9e-2, 20.1542)),
}

#: By data set and row.
TABLE1: dict[tuple[str, str], PaperResult] = {
    (dataset, row): PaperResult(*values[at])
    for row, values in _ROWS.items()
    for at, dataset in enumerate(("har", "sleep-edf", "ptb-xl"))
}

#: The runs, in the order in which they are computed.
PARTS: dict[str, str] = {
    "table": "Table 1, label curves, stages and graphs: tensor methods under three trainings",
    "ablation": "the paper's ablations and the true-label graph",
    "search": "beta, gamma and the number of clusters, searched on training subjects",
    "protocols": "data splits and scores of other publications",
    "deep": "SimCLR, BYOL and DeepTensor, until their loss has settled, at most 100 epochs",
    "theory": "the propositions, measured on windows of HAR",
}

#: The part that is no benchmark.
THEORY = "theory"

#: How CPD, ATD and PLC are read: name of the reading, with the labels of the three methods.
READINGS: dict[str, tuple[str, str, str]] = {
    "literal, converged": ("CPD", "ATD", "PLC (paper)"),
    "literal, mini-batches": ("CPD (mini-batch)", "ATD (mini-batch)", "PLC (mini-batch)"),
    "default": ("CPD (default)", "ATD (default)", "PLC (default)"),
}

#: Data sets of the paper, by the label that they have here.
HAR, HAR_ATD, SLEEP, ECG = "har", "har-atd", "sleep-edf", "ptb-xl-500"

#: Windows of Sleep-EDF that are used, of 28,023: half, so that the runs end within an hour or two.
SLEEP_WINDOWS = 14_000

#: As the authors of ATD train: batches of 128, steps of 0.005, 100 epochs, raw data.
_BATCHES: dict[str, Any] = {
    "batch_size": 128,
    "step_size": 5e-3,
    "max_iter": 100,
    "tol": 0.0,
    "center": False,
    "scale": False,
}
#: No contrast is strong enough for an ε-region of this size.
_NO_CONTRAST = {"epsilon": 1e-12}


def claim_runs(
    parts: Sequence[str] | None = None, *, seeds: Sequence[int] = (0, 1, 2, 3)
) -> dict[str, Benchmark]:
    """Return the runs by name.

    Parameters
    ----------
    parts : sequence of str, optional
        Names of :data:`PARTS`; all by default. "theory" is no benchmark and is left out.
    seeds : sequence of int
        Four repeats, as in the paper. Deep methods have one.

    Examples
    --------
    >>> sorted(claim_runs(["protocols"]))
    ['protocols']
    """
    wanted = list(PARTS if parts is None else parts)
    unknown = [name for name in wanted if name not in PARTS]
    if unknown:
        raise InvalidInputError(f"no part {unknown[0]!r} of claims; there are {', '.join(PARTS)}")
    runs = _runs(seeds)
    return {name: runs[name] for name in wanted if name != THEORY}


def require(benchmark: Benchmark) -> None:
    """Raise an error that says what to do where a file of a run is missing."""
    absent = [d.label for d in benchmark.datasets if d.path and not Path(d.path).is_file()]
    if absent:
        raise DataNotFoundError(
            f"claims: no file of {', '.join(absent)} in the folder of TENSORCONTRAST_DATA; name "
            f"other sets (--sets {HAR} {SLEEP}), or set that variable"
        )


def _runs(seeds: Sequence[int]) -> dict[str, Benchmark]:
    # The paper's tensors (24 × 129 × 75) need the records at 500 Hz. A few records have artefacts
    # of 30 mV; no heart makes 5.
    path = Path(os.environ.get("TENSORCONTRAST_DATA", "")).expanduser() / "ptbxl_500hz.npz"
    ecg = Dataset(ECG, "ptb-xl", str(path), clip=5.0)
    har, sleep = Dataset(HAR, "har"), Dataset(SLEEP, "sleep-edf", limit=SLEEP_WINDOWS)
    atd_split = Dataset(HAR_ATD, "har", split="atd-har")
    return {
        "table": Benchmark(
            [har, atd_split, sleep, ecg],
            [
                Method("CPD", "cpd", paper=True),
                Method("ATD", "atd", paper=True),
                Method("PLC (paper)", "plc-paper", paper=True),
                # Without its contrast, ATD is a CPD of both views.
                Method("CPD (mini-batch)", "atd", {**_BATCHES, "beta": 0.0}, paper=True),
                Method("ATD (mini-batch)", "atd", {**_BATCHES, "beta": 2.0}, paper=True),
                Method("PLC (mini-batch)", "plc-paper", {**_BATCHES, "beta": 2.0}, paper=True),
                Method("CPD (default)", "cpd"),
                Method("ATD (default)", "atd"),
                Method("PLC (default)", "plc"),
            ],
            seeds,
            [30, 60, "10%", "33%", "100%"],
            draws=3,
        ),
        "ablation": Benchmark(
            [har, sleep, ecg],
            [
                *_ablation("plc-paper", "paper", {"beta": 0.0}, paper=True),
                Method("w/o cross-view (paper)", "plc-paper", {"gamma": 0.0}, paper=True),
                Method("w/o trans-inv (paper)", "plc-paper", {"trans_inv": False}, paper=True),
                # The closed form of the default has one term for both views.
                *_ablation("plc", "default", _NO_CONTRAST, paper=False),
            ],
            seeds,
            ["100%"],
        ),
        "search": Benchmark(
            [har],
            [
                Method("CPD", "cpd", paper=True),
                Method(
                    "PLC (paper, searched)",
                    "plc-paper",
                    paper=True,
                    grid={"beta": [0.01, 0.03, 0.1], "gamma": [0.1, 1.0], "n_clusters": [6, 30]},
                ),
                Method(
                    "PLC (mini-batch, searched)",
                    "plc-paper",
                    _BATCHES,
                    paper=True,
                    grid={"beta": [0.5, 8.0], "n_clusters": [6, 30]},
                ),
            ],
            seeds,
            ["100%"],
        ),
        "protocols": Benchmark(
            [
                Dataset("har, official test", "har", split="train-test"),
                Dataset("ptb-xl, fold 9", "ptb-xl", split="train-test", clip=5.0),
                Dataset("sleep-edf, by subject", "sleep-edf"),
            ],
            [Method("PLC", "plc"), Method("CPD", "cpd")],
            seeds,
            ["1%", "5%", "10%", "100%"],
            draws=3,
        ),
        "deep": Benchmark(
            [har, ecg],
            [
                Method(label, name, {"max_iter": 100}, paper=True)
                for label, name in (
                    ("SimCLR", "simclr"),
                    ("BYOL", "byol"),
                    ("DeepTensor", "deep-tensor"),
                )
            ],
            [0],
            ["100%"],
        ),
    }


def _ablation(
    name: str, suffix: str, without: Mapping[str, Any], *, paper: bool
) -> tuple[Method, ...]:
    return (
        Method(f"PLC ({suffix})", name, paper=paper),
        Method(f"true graph ({suffix})", name, paper=paper, labels_in_graph="all"),
        Method(f"w/o PLC ({suffix})", name, without, paper=paper),
    )
