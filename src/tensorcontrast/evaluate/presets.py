"""Benchmarks by name: the paper's table and figures, accuracy on real data, the demonstration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensorcontrast.errors import InvalidInputError

if TYPE_CHECKING:
    from tensorcontrast.evaluate.config import BenchConfig

__all__ = ["PRESETS", "preset"]

#: Names with what they compute; light, for help and completion of the command line.
PRESETS: dict[str, str] = {
    "table1": "the paper's Table 1: HAR, Sleep-EDF and PTB-XL, with the published numbers next to",
    "figures": "what the paper's figures show, on HAR: label budgets, stages, ablation, graphs",
    "accuracy": "32 features under a logistic probe with 60 and all labels, on all data sets",
    "archive": "seventeen data sets, or a folder of them, with few labels and strong peers",
    "demo": "embedded smartwatch recordings, five methods, four seeds, three label budgets",
    "quick": "one seed of two methods on the smartwatch recordings, to see that all works",
}

#: Epochs of the deep methods, which the paper trains for 100: HAR's table is to take half an hour.
DEEP_EPOCHS = {"deep-tensor": 50, "simclr": 6, "byol": 6}

_PTB = {"name": "ptb-xl", "clip": 5.0}  # a few records have artefacts of 30 mV; no heart makes 5
_PAPER: dict[str, Any] = {"tensorize": "paper", "augment": "paper"}


def preset(name: str, **changes: Any) -> BenchConfig:
    """Return a benchmark by its name, with fields of :class:`BenchConfig` changed where given.

    Examples
    --------
    >>> config = preset("demo", seeds=1)
    >>> [m.label for m in config.methods]
    ['CPD', 'ATD', 'PLC (paper)', 'PLC', 'PCA']
    """
    from tensorcontrast.evaluate.config import BenchConfig

    makers = {
        "table1": _table1,
        "figures": _figures,
        "accuracy": _accuracy,
        "archive": _archive,
        "demo": _demo,
        "quick": _quick,
    }
    if name not in makers:
        raise InvalidInputError(f"no preset {name!r}; there are {', '.join(PRESETS)}")
    config = BenchConfig.from_data(makers[name](), f"preset {name}")
    return config.replace(**changes) if changes else config


def _deep(name: str) -> dict[str, Any]:
    epochs = DEEP_EPOCHS[name]
    note = f"{epochs} epochs instead of the paper's 100, to end in minutes on two cores"
    return {"name": name, "epochs": epochs, "note": note, **_PAPER}


def _table1() -> dict[str, Any]:
    return {
        "title": "Table 1: accuracy with all training labels",
        "datasets": ["har", "sleep-edf", dict(_PTB)],
        "methods": [
            _deep("simclr"),
            _deep("byol"),
            {"name": "cpd", **_PAPER},
            _deep("deep-tensor"),
            {"name": "atd", **_PAPER},
            {"name": "plc-paper", **_PAPER},
            {"name": "plc", "label": "PLC (default)", "note": "this project's tensor and solver"},
            {"name": "cpd", "label": "CPD (default tensor)", "note": "this project's tensor"},
            {"name": "pca", "note": "this project's tensor; not in the paper"},
            {"name": "minirocket", "note": "9,996 features, ridge classifier; not in the paper"},
        ],
        "seeds": 4,
        "budgets": [60, "100%"],
    }


def _figures() -> dict[str, Any]:
    ablation = [
        {"name": "plc", "label": "PLC (true graph)", "labels_in_graph": "all"},
        {"name": "plc", "label": "w/o PLC", "params": {"beta": 0.0}},
        {"name": "plc", "label": "w/o cross-view", "params": {"gamma": 0.0}},
        {"name": "plc", "label": "w/o trans-inv", "params": {"trans_inv": False}},
        {"name": "plc-paper", "label": "PLC (paper, true graph)", "labels_in_graph": "all"},
        {"name": "plc-paper", "label": "w/o PLC (paper)", "params": {"beta": 0.0}},
        {"name": "plc-paper", "label": "w/o cross-view (paper)", "params": {"gamma": 0.0}},
        {"name": "plc-paper", "label": "w/o trans-inv (paper)", "params": {"trans_inv": False}},
    ]
    return {
        "title": "The paper's figures",
        "datasets": ["har"],
        "methods": ["cpd", "atd", "plc-paper", "plc", "pca", *ablation],
        "seeds": 4,
        # In the order of HAR's numbers of labels: 1 % are 17 windows.
        "budgets": [10, "1%", 30, 60, "5%", "10%", "100%"],
        "evidence": ["stages", "seeds"],
    }


def _accuracy() -> dict[str, Any]:
    return {
        "title": "Accuracy of 32 features",
        "datasets": [
            {"name": "har", "split": "atd-har"},
            {"name": "har", "split": "official"},
            {"name": "har", "split": "subject"},
            "sleep-edf",
            dict(_PTB),
        ],
        "methods": [
            "pca",
            "cpd",
            "atd",
            "plc-paper",
            "plc",
            {
                "name": "plc",
                "label": "PLC (labels in graph)",
                "labels_in_graph": "drawn",
                "note": "the labels of the budget also go into the graph",
            },
            {
                "name": "plc",
                "label": "PLC (labels hidden)",
                "labels_in_graph": "hidden",
                "note": "fitted on the same windows as with labels in the graph, without them",
            },
            {"name": "minirocket", "note": "9,996 features, ridge classifier"},
        ],
        "seeds": 4,
        "budgets": [60, "100%"],
    }


def _archive() -> dict[str, Any]:
    from tensorcontrast.evaluate.archive import archive_config

    return archive_config().model_dump(mode="json")


def _demo() -> dict[str, Any]:
    return {
        "title": "Features of smartwatch recordings with few labels",
        "datasets": ["watch"],
        "methods": ["cpd", "atd", "plc-paper", "plc", "pca"],
        "seeds": 4,
        "fractions": [0.5, 0.2, 0.3],  # three of the ten people to test on: one alone is chance
        "budgets": [30, 60, "100%"],
        "draws": 3,
    }


def _quick() -> dict[str, Any]:
    return {
        "title": "Quick look",
        "datasets": ["watch"],
        "methods": ["cpd", "plc"],
        "seeds": 1,
        "budgets": [60, "100%"],
        "draws": 2,
    }
