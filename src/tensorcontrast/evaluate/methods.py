"""The methods of a benchmark by name, and the estimators that they stand for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tensorcontrast import augment
from tensorcontrast.decompose import ATD, CPD, PLC
from tensorcontrast.errors import InvalidInputError
from tensorcontrast.evaluate import peers
from tensorcontrast.features import ContrastiveFeatures
from tensorcontrast.neural import BYOL, DeepTensor, SimCLR
from tensorcontrast.recordings import Recordings
from tensorcontrast.tensorize.spectrogram import SpectrogramTensor

__all__ = ["METHODS", "Method", "make_estimator"]

#: Class of each method, and which of its parameters counts the features.
METHODS: dict[str, tuple[Any, str | None]] = {
    "cpd": (CPD, "rank"),
    "atd": (ATD, "rank"),
    "atd-paper": (ATD, "rank"),
    "plc": (PLC, "rank"),
    "plc-paper": (PLC, "rank"),
    "pca": (peers.FlatPCA, "n_features"),
    "flat": (peers.FlatTensor, None),
    "minirocket": (peers.MiniRocketFeatures, None),
    "minirocket-pca": (peers.MiniRocketPCA, "n_features"),
    "multirocket-hydra": (peers.MultiRocketHydraFeatures, None),
    "quant": (peers.QuantFeatures, None),
    "catch22": (peers.Catch22Features, None),
    "random": (peers.RandomEncoder, "rank"),
    "deep-tensor": (DeepTensor, "rank"),
    "simclr": (SimCLR, None),
    "byol": (BYOL, None),
}


@dataclass(frozen=True)
class Method:
    """A way to features.

    Attributes
    ----------
    label : str
        What tables call it.
    name : str
        A key of :data:`METHODS`.
    params : mapping
        Parameters of its class; of ``Algorithm1`` for "plc-paper".
    paper : bool
        Take the paper's tensors and augmentation of the data set instead of the defaults.
    labels_in_graph : {"no", "drawn", "hidden", "all"}
        Which labels go into the graph: none; those that are drawn for training, in a fit per draw;
        none, in the same fits; or all labels of the unlabelled windows, an upper bound.
    grid : mapping of sequences, optional
        Values of parameters, chosen by cross-validation over the labelled subjects.
    note : str
        What tables say about it.
    make : callable, optional
        ``make(recordings, seed)`` gives the unfitted estimator, instead of all of the above.
    """

    label: str
    name: str = ""
    params: Mapping[str, Any] = field(default_factory=dict)
    paper: bool = False
    labels_in_graph: str = "no"
    grid: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    note: str = field(default="", repr=False)
    make: Callable[[Recordings, int], Any] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.make is None and self.name not in METHODS:
            raise InvalidInputError(f"no method {self.name!r}; there are {', '.join(METHODS)}")

    @property
    def fits_draws(self) -> bool:
        """Whether there is a fit for each draw of labels, on the windows of these as well."""
        return self.labels_in_graph in ("drawn", "hidden")


def make_estimator(
    rec: Recordings,
    method: Method,
    *,
    rank: int,
    seed: int,
    paper_set: str = "",
    params: Mapping[str, Any] | None = None,
) -> Any:
    """Return the unfitted estimator of a method.

    Of the recordings only sampling rate, channels, length and number of classes are used.

    Parameters
    ----------
    rec : Recordings
    method : Method
    rank, seed : int
    paper_set : str
        Name of the data set in the paper, for ``method.paper``.
    params : mapping, optional
        Stand in for those of the method.
    """
    if method.make is not None:
        return method.make(rec, seed)
    kind, counts = METHODS[method.name]
    settings: dict[str, Any] = {} if counts is None else {counts: rank}
    settings |= {**method.params, **(params or {})}
    if method.labels_in_graph == "all":
        settings.setdefault("graph", "true")
    if getattr(kind, "takes", "tensors") == "signals":
        return kind(**settings, random_state=seed)
    if method.name == "plc-paper":
        settings.setdefault("n_clusters", rec.n_classes)
    if method.name.endswith("-paper"):
        # beta and gamma are those of the class, sums over windows.
        decompose = kind.paper().set_params(**settings)
    else:
        decompose = kind(**settings)
    if not method.paper:
        return ContrastiveFeatures(rec.fs, rec.channels, decompose=decompose, random_state=seed)
    channels = rec.channels if paper_set == "har" else None
    return ContrastiveFeatures(
        rec.fs,
        rec.channels,
        tensorize=SpectrogramTensor.paper(paper_set, fs=rec.fs),
        augment=augment.paper(paper_set, fs=rec.fs, channels=channels),
        decompose=decompose,
        random_state=seed,
    )
