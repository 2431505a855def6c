"""The runs behind ``tensorcontrast bench claims``: what the paper claims, on its three data sets.

Each run is an ordinary benchmark in a folder of its own, so that it resumes, and so that its cells
can be looked at. :mod:`tensorcontrast.evaluate.verdicts` reads them.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tensorcontrast.errors import DataNotFoundError, InvalidInputError
from tensorcontrast.evaluate.config import BenchConfig

__all__ = ["PARTS", "READINGS", "claim_runs", "require"]

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

_LITERAL: dict[str, Any] = {"tensorize": "paper", "augment": "paper"}
#: As the authors of ATD train: batches of 128, steps of 0.005, 100 epochs, raw data.
_BATCHES: dict[str, Any] = {
    "batch_size": 128,
    "step_size": 5e-3,
    "max_iter": 100,
    "tol": 0.0,
    "center": False,
    "scale": False,
}


def claim_runs(parts: Sequence[str] | None = None, *, seeds: int = 4) -> dict[str, BenchConfig]:
    """Return the runs by name.

    Parameters
    ----------
    parts : sequence of str, optional
        Names of :data:`PARTS`; all by default. "theory" is no run and has no configuration.
    seeds : int, default=4
        Repeats, as in the paper. Deep methods have one.

    Examples
    --------
    >>> sorted(claim_runs(["protocols"], seeds=1))
    ['protocols']
    """
    makers = {
        "table": _table,
        "ablation": _ablation,
        "search": _search,
        "protocols": _protocols,
        "deep": _deep,
    }
    wanted = [name for name in (PARTS if parts is None else parts) if name != THEORY]
    unknown = [name for name in wanted if name not in makers]
    if unknown:
        raise InvalidInputError(f"no part {unknown[0]!r} of claims; there are {', '.join(PARTS)}")
    return {
        name: BenchConfig.from_data({"seeds": seeds, **makers[name]()}, f"claims, {name}")
        for name in wanted
    }


def require(config: BenchConfig) -> None:
    """Raise an error that says what to do where a file of a run is missing."""
    absent = [d.label for d in config.datasets if d.path and not Path(d.path).is_file()]
    if absent:
        raise DataNotFoundError(
            f"claims: no file of {', '.join(absent)} in the folder of TENSORCONTRAST_DATA; name "
            f"other sets (--sets {HAR},{SLEEP}), or set that variable"
        )


def _ecg() -> dict[str, Any]:
    """Return the records at 500 Hz, which the paper's tensors (24 × 129 × 75) need."""
    path = Path(os.environ.get("TENSORCONTRAST_DATA", "")).expanduser() / "ptbxl_500hz.npz"
    # A few records have artefacts of 30 mV; no heart makes 5.
    return {"name": "ptb-xl", "label": ECG, "path": str(path), "format": "npz", "clip": 5.0}


def _paper_sets() -> list[Any]:
    return [
        {"name": "har", "label": HAR},
        {"name": "har", "label": HAR_ATD, "split": "atd-har"},
        {"name": "sleep-edf", "label": SLEEP, "limit": SLEEP_WINDOWS},
        _ecg(),
    ]


def _table() -> dict[str, Any]:
    batches = {**_LITERAL, "params": dict(_BATCHES)}
    weighted = {**_LITERAL, "params": {**_BATCHES, "beta": 2.0}}
    return {
        "title": "The paper's table under three trainings",
        "datasets": _paper_sets(),
        "methods": [
            {"name": "cpd", "label": "CPD", **_LITERAL},
            {"name": "atd", "label": "ATD", **_LITERAL},
            {"name": "plc-paper", "label": "PLC (paper)", **_LITERAL},
            {"name": "cpd", "label": "CPD (mini-batch)", **batches},
            {"name": "atd", "label": "ATD (mini-batch)", **weighted},
            {"name": "plc-paper", "label": "PLC (mini-batch)", **weighted},
            {"name": "cpd", "label": "CPD (default)"},
            {"name": "atd", "label": "ATD (default)"},
            {"name": "plc", "label": "PLC (default)"},
        ],
        "budgets": [30, 60, "10%", "33%", "100%"],
        "draws": 3,
    }


def _ablation() -> dict[str, Any]:
    methods: list[dict[str, Any]] = []
    for name, suffix, settings in (("plc-paper", "paper", _LITERAL), ("plc", "default", {})):
        methods += [
            {"name": name, "label": f"PLC ({suffix})", **settings},
            {"name": name, "label": f"true graph ({suffix})", "labels_in_graph": "all", **settings},
            *(
                {"name": name, "label": f"{label} ({suffix})", "params": params, **settings}
                for label, params in (
                    ("w/o PLC", {"beta": 0.0}),
                    ("w/o cross-view", {"gamma": 0.0}),
                    ("w/o trans-inv", {"trans_inv": False}),
                )
                # The closed form of the default has one term for both views.
                if name == "plc-paper" or label == "w/o PLC"
            ),
        ]
    return {
        "title": "The paper's ablations",
        "datasets": [
            {"name": "har", "label": HAR},
            {"name": "sleep-edf", "label": SLEEP, "limit": SLEEP_WINDOWS},
            _ecg(),
        ],
        "methods": methods,
        "budgets": ["100%"],
        "evidence": ["stages", "seeds"],
    }


def _search() -> dict[str, Any]:
    grid = {"beta": [0.01, 0.03, 0.1], "gamma": [0.1, 1.0], "n_clusters": [6, 30]}
    steps = {"beta": [0.5, 8.0], "n_clusters": [6, 30]}
    return {
        "title": "Settings of Algorithm 1, chosen on training subjects",
        "datasets": [{"name": "har", "label": HAR}],
        "methods": [
            {"name": "cpd", "label": "CPD", **_LITERAL},
            {
                "name": "plc-paper",
                "label": "PLC (paper, searched)",
                "tune": {"grid": grid, "criterion": "cv"},
                **_LITERAL,
            },
            {
                "name": "plc-paper",
                "label": "PLC (mini-batch, searched)",
                "params": dict(_BATCHES),
                "tune": {"grid": steps, "criterion": "cv"},
                **_LITERAL,
            },
        ],
        "budgets": ["100%"],
    }


def _protocols() -> dict[str, Any]:
    return {
        "title": "Protocols of other publications",
        "datasets": [
            {"name": "har", "label": "har, official test", "split": "train-test"},
            {"name": "ptb-xl", "label": "ptb-xl, fold 9", "split": "train-test", "clip": 5.0},
            {"name": "sleep-edf", "label": "sleep-edf, by subject"},
        ],
        "methods": ["plc", "cpd"],
        "budgets": ["1%", "5%", "10%", "100%"],
        "draws": 3,
    }


def _deep() -> dict[str, Any]:
    return {
        "title": "Deep methods, at most 100 epochs",
        "datasets": [{"name": "har", "label": HAR}, _ecg()],
        "methods": [
            {"name": name, "epochs": 100, **_LITERAL} for name in ("simclr", "byol", "deep-tensor")
        ],
        "budgets": ["100%"],
        "seeds": 1,
    }
