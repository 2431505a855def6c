"""Which methods a benchmark knows, before any of them is imported."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from importlib import import_module

__all__ = ["METHODS", "Kind", "canonical", "parameters"]


@dataclass(frozen=True)
class Kind:
    """A method: its name in configurations, the name shown, where its class is.

    ``takes`` is what it is fitted on: tensors (through ``ContrastiveFeatures``) or raw signals.
    ``tensor`` says that it is a CP model with a likelihood, ``labels`` that labels can go into its
    graph, ``epochs`` which parameter counts its iterations, ``rank`` which one its features.
    """

    name: str
    label: str
    where: str
    paper_row: str | None = None
    takes: str = "tensors"
    tensor: bool = False
    labels: bool = False
    deep: bool = False
    epochs: str | None = None
    rank: str | None = "rank"


_CP = "tensorcontrast.decompose"
_NEURAL = "tensorcontrast.neural"
_PEERS = "tensorcontrast.evaluate.peers"
_ARCHIVE = "tensorcontrast.evaluate.archive_peers"

METHODS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind("cpd", "CPD", f"{_CP}:CPD", "CPD", tensor=True, epochs="max_iter"),
        Kind("atd", "ATD", f"{_CP}:ATD", "ATD", tensor=True, epochs="max_iter"),
        Kind("atd-paper", "ATD (paper)", f"{_CP}:ATD", "ATD", tensor=True, epochs="max_iter"),
        Kind("plc", "PLC", f"{_CP}:PLC", "PLC", tensor=True, labels=True, epochs="max_iter"),
        Kind(
            "plc-paper",
            "PLC (paper)",
            f"{_CP}:PLC",
            "PLC",
            tensor=True,
            labels=True,
            epochs="max_iter",
        ),
        Kind("pca", "PCA", f"{_PEERS}:FlatPCA", rank="n_features"),
        Kind("flat", "Flat tensor", f"{_PEERS}:FlatTensor", rank=None),
        Kind(
            "minirocket", "MiniRocket", f"{_PEERS}:MiniRocketFeatures", takes="signals", rank=None
        ),
        Kind(
            "minirocket-pca",
            "MiniRocket PCA",
            f"{_ARCHIVE}:MiniRocketPCA",
            takes="signals",
            rank="n_features",
        ),
        Kind(
            "multirocket-hydra",
            "MultiRocket-Hydra",
            f"{_ARCHIVE}:MultiRocketHydraFeatures",
            takes="signals",
            rank=None,
        ),
        Kind("quant", "QUANT", f"{_ARCHIVE}:QuantFeatures", takes="signals", rank=None),
        Kind("catch22", "Catch22", f"{_ARCHIVE}:Catch22Features", takes="signals", rank=None),
        Kind("random", "Random encoder", f"{_PEERS}:RandomEncoder"),
        Kind(
            "deep-tensor",
            "DeepTensor",
            f"{_NEURAL}:DeepTensor",
            "DeepTensor",
            deep=True,
            epochs="max_iter",
        ),
        Kind(
            "simclr",
            "SimCLR",
            f"{_NEURAL}:SimCLR",
            "SimCLR",
            deep=True,
            epochs="max_iter",
            rank=None,
        ),
        Kind("byol", "BYOL", f"{_NEURAL}:BYOL", "BYOL", deep=True, epochs="max_iter", rank=None),
    )
}


def canonical(name: str) -> str:
    """Return the name as configurations keep it: lower case, one hyphen between words.

    Examples
    --------
    >>> canonical("PLC (paper)"), canonical("DeepTensor"), canonical("Mini Rocket")
    ('plc-paper', 'deep-tensor', 'minirocket')
    """
    words = "".join(c if c.isalnum() else " " for c in name).lower().split()
    joined = "-".join(words)
    for known in METHODS:
        if joined.replace("-", "") == known.replace("-", ""):
            return known
    return joined


def find(name: str) -> type:
    """Import the class of a method."""
    module, _, attribute = METHODS[name].where.partition(":")
    found: type = getattr(import_module(module), attribute)
    return found


def parameters(name: str) -> list[str] | None:
    """Names of a method's parameters; None where its package is not installed."""
    try:
        found = find(name)
    except ImportError:
        return None
    from tensorcontrast.decompose.options import option_names

    own = hasattr(found, "_settings")
    names = option_names(found) if own else list(inspect.signature(found).parameters)
    return [p for p in names if p not in ("self", "random_state", "callback", "als", "gradient")]
