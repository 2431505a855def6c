"""``tensorcontrast components``: what each learned feature is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from tensorcontrast.cli import data as recordings
from tensorcontrast.cli import model as models
from tensorcontrast.cli.failures import UsageFailure
from tensorcontrast.cli.options import Force, complete_data
from tensorcontrast.cli.session import Session, listing, safe
from tensorcontrast.cli.transform import features_of
from tensorcontrast.errors import InvalidInputError
from tensorcontrast.files import atomic_write
from tensorcontrast.report.text import plain

if TYPE_CHECKING:
    from tensorcontrast.features import ContrastiveFeatures
    from tensorcontrast.recordings import Recordings

Array = NDArray[Any]
PICTURES = (".png", ".svg", ".pdf")


def components(
    session: Session,
    model: models.Model,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Draw them: .png, .svg or .pdf."),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(
            "--data",
            "-d",
            metavar="DATA",
            help="Recordings with labels: which class does each speak for?",
            autocompletion=complete_data,
        ),
    ] = None,
    count: Annotated[
        int, typer.Option("--count", "-n", metavar="N", min=1, help="How many to show.")
    ] = 6,
    reading: recordings.Reading = recordings.Reading(),  # noqa: B008
    force: Force = False,
) -> None:
    """Show what each feature is: its channels, its frequencies, its course in time.

    The heaviest come first; with --data those that tell the classes apart best.
    """
    target = None
    if output is not None:
        if output.suffix.lower() not in PICTURES:
            raise UsageFailure(f"-o {output.name}: pictures are {', '.join(PICTURES)}")
        target = session.target(output, force=force)
    fitted = models.load(model)
    if len(fitted.factors_) != 3 or not hasattr(fitted.tensorize_, "frequencies_"):
        raise InvalidInputError(
            f"{model} has {len(fitted.factors_)} modes; only models of channel × frequency × time "
            "made with SpectrogramTensor are shown"
        )
    rec = features = None
    if data is not None:
        rec = recordings.read(session, data, reading, model=fitted)
        if rec.y is None or not (rec.y >= 0).any():
            raise InvalidInputError(f"{data} has no labels; name their column with --labels")
        features = features_of(session, fitted, rec)
    rows = describe(fitted, features, rec)
    if target is not None:
        _draw(session, target, fitted, features, rec, count)
    _tell(session, fitted, rows, target, count, rec)


def describe(
    model: ContrastiveFeatures, features: Array | None = None, rec: Recordings | None = None
) -> list[dict[str, Any]]:
    """Facts of every component, in the order in which they are shown."""
    channels, frequencies, times = model.factors_
    tensorize = model.tensorize_
    names = channel_names(model, len(channels))
    weights = model.decompose_.weights_
    means = None
    order = np.arange(channels.shape[1])
    there: list[int] = []
    if features is not None and rec is not None and rec.y is not None:
        there = np.unique(rec.y[rec.y >= 0]).tolist()
        spread = features.std(axis=0)
        Z = (features - features.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
        means = np.stack([Z[rec.y == c].mean(axis=0) for c in there])
        order = np.argsort(-means.var(axis=0), kind="stable")
    rows = []
    for r in order:
        low, high = _band(tensorize.frequencies_, frequencies[:, r] ** 2)
        peak, centre = (int(np.abs(profile[:, r]).argmax()) for profile in (frequencies, times))
        row = {
            "component": int(r),
            "weight": float(weights[r]),
            "channels": dict(zip(names, channels[:, r].tolist(), strict=True)),
            "peak_frequency": float(tensorize.frequencies_[peak]),
            "band": [low, high],
            "peak_time": float(tensorize.times_[centre]),
            "frequency_unit": "Hz" if tensorize.fs is not None else "cycles/sample",
            "time_unit": "s" if tensorize.fs is not None else "samples",
        }
        if means is not None and rec is not None:
            best = int(means[:, r].argmax())
            c = there[best]
            row["class"] = str(c) if rec.classes is None else rec.classes[c]
            row["class_mean"] = float(means[best, r])
        rows.append(row)
    return rows


def channel_names(model: ContrastiveFeatures, n_rows: int) -> list[str]:
    """Names of the rows of the first factor; real and imaginary parts have a suffix."""
    names = [str(c) for c in (model.channels_ or range(model.n_channels_in_))]
    if n_rows == 2 * len(names):
        return [f"{n} re" for n in names] + [f"{n} im" for n in names]
    return names


def _band(frequencies: Array, strength: Array) -> tuple[float, float]:
    """Frequencies between which the middle 80 % of the squared profile lie."""
    order = np.argsort(frequencies, kind="stable")
    running = np.cumsum(strength[order])
    places = np.searchsorted(running, [0.1 * running[-1], 0.9 * running[-1]])
    low, high = frequencies[order][np.minimum(places, len(order) - 1)]
    return float(low), float(high)


def _draw(
    session: Session,
    target: Path,
    model: ContrastiveFeatures,
    features: Array | None,
    rec: Recordings | None,
    count: int,
) -> None:
    with session.progress(f"drawing {target.name}"):
        from tensorcontrast.report.figures import plot_components

        figure = plot_components(
            model,
            features=features,
            y=None if rec is None else rec.y,
            classes=None if rec is None else rec.classes,
            n_components=count,
        )
        kind = target.suffix.lower().removeprefix(".")
        with atomic_write(target) as stream:
            figure.savefig(stream, format=kind, dpi=150)


def _tell(
    session: Session,
    model: ContrastiveFeatures,
    rows: list[dict[str, Any]],
    target: Path | None,
    count: int,
    rec: Recordings | None,
) -> None:
    shown = rows[:count]
    hz, s = shown[0]["frequency_unit"], shown[0]["time_unit"]
    heads = ["", "weight", "channels", f"peak {hz}", f"band {hz}", f"peak {s}"]
    numbers = ("", "weight", f"peak {hz}", f"band {hz}", f"peak {s}")
    table = listing(*heads, *(["class"] if rec is not None else []), numbers=numbers)
    for row in shown:
        strongest = sorted(row["channels"].items(), key=lambda item: -abs(item[1]))[:3]
        text = ", ".join(f"{plain(name, 16)} {weight:+.2f}" for name, weight in strongest)
        cells: list[Any] = [
            str(row["component"]),
            f"{row['weight']:.3g}",
            safe(text),
            f"{row['peak_frequency']:.3g}",
            f"{row['band'][0]:.3g} – {row['band'][1]:.3g}",
            f"{row['peak_time']:.3g}",
        ]
        if rec is not None:
            cells.append(safe(f"{plain(row['class'], 24)} {row['class_mean']:+.1f} sd"))
        table.add_row(*cells)
    core = model.decompose_
    session.result(
        {
            "rank": core.rank_,
            "method": type(core).__name__,
            "components": rows,
            "picture": None if target is None else str(target),
        },
        f"{core.rank_} components of {type(core).__name__}; the first {len(shown)}:",
        table,
        *([safe(f"drawn in {target}")] if target is not None else []),
    )
