"""``tensorcontrast components``: what each learned feature is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tensorcontrast.cli.shared import data as recordings
from tensorcontrast.cli.shared import models, stored
from tensorcontrast.cli.shared.options import Force, complete_data
from tensorcontrast.cli.shared.session import Session, UsageFailure, listing, safe
from tensorcontrast.cli.shared.stored import Cluster
from tensorcontrast.io.atomic import atomic_write

if TYPE_CHECKING:
    from tensorcontrast.features import ContrastiveFeatures
    from tensorcontrast.report.components import Component

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
            help="Recordings that shares are measured on and windows are taken from; with labels "
            "also which class each feature speaks for.",
            autocompletion=complete_data,
        ),
    ] = None,
    count: Annotated[
        int, typer.Option("--count", "-n", metavar="N", min=1, help="How many to show.")
    ] = 6,
    only: Annotated[
        int | None,
        typer.Option("--only", metavar="K", min=0, help="All about this one feature."),
    ] = None,
    reading: recordings.Reading = recordings.Reading(),  # noqa: B008
    cluster: Cluster = Cluster(),  # noqa: B008
    force: Force = False,
) -> None:
    """Show what each feature is: its channels, its frequencies, its times, its kernels.

    A feature is a weighted sum over spectrogram and random convolutions; shares are of its
    variance over both. The heaviest come first; with labelled --data those with the largest share
    of variance between classes (η²). Table and picture show the same features.
    """
    from tensorcontrast.report.components import describe_components

    if data is None and cluster.wanted:
        raise UsageFailure("--scheduler, --workers and --memory-limit are for --data DATA.zarr")
    target = None
    if output is not None:
        if output.suffix.lower() not in PICTURES:
            raise UsageFailure(f"-o {output.name}: pictures are {', '.join(PICTURES)}")
        target = session.target(output, force=force)
    fitted = models.load(model)
    if only is not None and only >= fitted.decompose_.rank_:
        raise UsageFailure(
            f"--only {only}: the model has {fitted.decompose_.rank_} features, from 0 on"
        )
    rec = None
    about: dict[str, Any] = {"n_components": None}
    if data is not None:
        rec = stored.opened(session, data, reading, cluster, model=fitted)
        labelled = rec.y is not None and bool((rec.y >= 0).any())
        if labelled:
            with cluster.running(session):
                features = stored.features_of(session, fitted, rec, cluster=cluster)
            about |= {"features": features, "y": rec.y, "classes": rec.classes}
        rec = stored.sampled(session, rec, fitted)
    if only is not None:
        about["only"] = [only]
    with session.progress("explaining features"):
        found = describe_components(fitted, recordings=rec, **about)
    if target is not None:
        _draw(session, target, fitted, rec, found, about | {"n_components": count}, only)
    _tell(session, fitted, found, target, count)


def _draw(
    session: Session,
    target: Path,
    model: ContrastiveFeatures,
    rec: Any,
    found: list[Component],
    about: dict[str, Any],
    only: int | None,
) -> None:
    with session.progress(f"drawing {target.name}"):
        from tensorcontrast.report.feature_figure import drawn
        from tensorcontrast.report.figures import plot_components

        first = found[0]
        if only is not None and first.explanation is not None:
            classes = None
            if first.class_means is not None:
                classes = list(first.classes), first.class_means
            figure = drawn(first.explanation, classes)
        else:
            figure = plot_components(model, recordings=rec, **about)
        kind = target.suffix.lower().removeprefix(".")
        with atomic_write(target) as stream:
            figure.savefig(stream, format=kind, dpi=150)


def _tell(
    session: Session,
    model: ContrastiveFeatures,
    found: list[Component],
    target: Path | None,
    count: int,
) -> None:
    from tensorcontrast.report.components import order_label

    core = model.decompose_
    rated = ["η²"] if found[0].separation is not None else []
    table = listing("", "weight", *rated, "what it is", numbers=("", "weight", *rated))
    for c in found[:count]:
        eta = [] if c.separation is None else [f"{c.separation:.2f}"]
        table.add_row(str(c.index), f"{core.weights_[c.index]:.3g}", *eta, safe(c.sentence))
    session.result(
        {
            "method": type(core).__name__,
            "rank": core.rank_,
            "order": order_label(found),
            "components": [_data(c, float(core.weights_[c.index])) for c in found],
            "picture": None if target is None else str(target),
        },
        f"{core.rank_} components of {type(core).__name__}; "
        + (
            f"component {found[0].index}:"
            if len(found) == 1 < core.rank_
            else f"the first {min(count, len(found))} {order_label(found)}:"
        ),
        table,
        *([safe(f"drawn in {target}")] if target is not None else []),
    )


def _data(c: Component, weight: float) -> dict[str, Any]:
    """All that is known of a component, as plain data."""
    from tensorcontrast.report.components import time_axis_label

    data: dict[str, Any] = {
        "component": c.index,
        "weight": weight,
        "what": c.sentence,
        "channels": dict(zip(c.channels, c.channel_weights.tolist(), strict=True)),
        "frequencies": c.frequencies,
        "frequency_profile": c.frequency_profile,
        "frequency_unit": c.frequency_unit,
        "times": c.times,
        "time_profile": c.time_profile,
        "time_unit": c.time_unit,
        "time_axis": time_axis_label(c.by_strength, c.time_unit),
    }
    if c.explanation is not None:
        data["explanation"] = c.explanation.to_dict()
    if c.class_means is not None and c.speaks_for is not None:
        data["class"] = c.classes[c.speaks_for]
        data["class_means"] = dict(zip(c.classes, c.class_means.tolist(), strict=True))
        data["separation"] = c.separation
    return data
