"""What a report holds, whatever it is made from and however it is written."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from typing import TYPE_CHECKING, Any

from matplotlib.figure import Figure
from numpy.typing import NDArray

from tensorcontrast.errors import InvalidInputError
from tensorcontrast.report.components import Component
from tensorcontrast.report.style import NARROW

if TYPE_CHECKING:
    from tensorcontrast.decompose.diagnosis import Diagnosis

__all__ = ["FigureItem", "ModelView", "ReportData", "Windows"]

Array = NDArray[Any]


@dataclass(frozen=True)
class FigureItem:
    """A figure with the words that go with it."""

    name: str
    """File name without suffix."""
    title: str
    caption: str
    figure: Figure
    narrow: Figure | None = None
    """The same for the screen of a phone; None where the figure fits as it is."""

    @classmethod
    def draw(
        cls,
        name: str,
        title: str,
        caption: str,
        plot: Callable[..., Figure],
        *args: Any,
        **more: Any,
    ) -> FigureItem:
        """Draw ``plot(*args, **more)``, and again with ``narrow=True`` where it is wide."""
        figure = plot(*args, **more)
        wide = figure.get_figwidth() > NARROW + 0.2
        narrow = plot(*args, **more, narrow=True) if wide else None
        return cls(name, title, caption, figure, narrow)


@dataclass(frozen=True)
class Windows:
    """Windows to be looked at one by one: their features and their signals.

    Parameters
    ----------
    features : (n, r) array
    signals : (n, channel, t) array
        May be thinned in time; ``times`` says where the points are.
    times : (t,) array
        In ``time_unit``.
    labels : mapping of str to (codes, names)
        What points can be coloured by ("class", "subject", "cluster"): an int array with −1 for
        unknown, and a name for each code.
    """

    features: Array
    signals: Array
    times: Array
    labels: Mapping[str, tuple[Array, Sequence[str]]]
    channels: Sequence[str]
    units: Sequence[str] = ()
    index: Array | None = None
    time_unit: str = "s"
    total: int | None = None
    """Windows of the recordings these were drawn from."""

    def __post_init__(self) -> None:
        n = len(self.features)
        shapes = {"signals": self.signals.shape[:1], "index": (n,)}
        if self.index is not None:
            shapes["index"] = self.index.shape
        shapes |= {name: codes.shape for name, (codes, _) in self.labels.items()}
        for name, shape in shapes.items():
            if tuple(shape) != (n,):
                raise InvalidInputError(
                    f"{name} is for {shape[0] if shape else 0} windows, but there are features "
                    f"of {n}"
                )
        if self.signals.ndim != 3 or self.signals.shape[1:] != (
            len(self.channels),
            len(self.times),
        ):
            raise InvalidInputError(
                f"signals of shape {self.signals.shape} do not fit {len(self.channels)} channels "
                f"and {len(self.times)} points in time"
            )


@dataclass(frozen=True)
class ModelView:
    """What one model learned from one dataset."""

    title: str
    facts: Sequence[tuple[str, str]] = ()
    components: Sequence[Component] = ()
    windows: Windows | None = None
    figures: Sequence[FigureItem] = ()
    figures_title: str = "How the fit went"
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class ReportData:
    """Everything that a report shows.

    Examples
    --------
    >>> from tensorcontrast import PLC, ContrastiveFeatures
    >>> from tensorcontrast.datasets import make_synthetic
    >>> rec = make_synthetic(n_samples=60, n_channels=2, n_times=64, random_state=0)
    >>> model = ContrastiveFeatures(decompose=PLC(rank=4), random_state=0)
    >>> from tensorcontrast.report.of_model import report_from_model
    >>> report = report_from_model(model.fit(rec), rec, diagnose=False)
    >>> report.title, report.facts[0]
    ('4 features of synthetic', ('windows', '60'))
    """

    title: str
    question: Sequence[str]
    facts: Sequence[tuple[str, str]] = ()
    figures: Sequence[FigureItem] = ()
    views: Sequence[ModelView] = ()
    diagnosis: Diagnosis | None = None
    """How far the components of the model can be trusted."""
    notes: Sequence[str] = ()
    config: str = ""
    environment: Sequence[tuple[str, str]] = ()
    command: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)

    def all_figures(self) -> list[FigureItem]:
        """All figures in the order of the report; their names are unique."""
        found = [*self.figures, *(f for view in self.views for f in view.figures)]
        names = [item.name for item in found]
        if len(set(names)) != len(names):
            raise InvalidInputError(f"two figures of the report have one name: {sorted(names)}")
        return found


def environment() -> list[tuple[str, str]]:
    """Versions and machine of this process; nothing that names its owner."""
    import os

    packages = ("tensorcontrast", "numpy", "scipy", "scikit-learn", "matplotlib")
    versions = []
    for name in packages:
        try:
            versions.append((name, metadata.version(name)))
        except metadata.PackageNotFoundError:
            versions.append((name, "not installed as a package"))
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return [
        ("Python", platform.python_version()),
        *versions,
        ("system", f"{platform.system()} {platform.machine()}"),
        ("processors", str(count)),
    ]
