"""``tensorcontrast fit``: a model file from recordings, without labels."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tensorcontrast.cli.shared import data as recordings
from tensorcontrast.cli.shared.models import (
    AUGMENTS,
    METHODS,
    Keeping,
    estimator,
    parameters,
)
from tensorcontrast.cli.shared.options import Force, complete_data
from tensorcontrast.cli.shared.session import Session, UsageFailure, facts, safe
from tensorcontrast.cli.shared.stored import Cluster, fitted_on, open_data

if TYPE_CHECKING:
    from tensorcontrast.features import ContrastiveFeatures

MODEL = "Model"


def choice(*names: str) -> Any:
    """Return what completes an option that takes one of these words."""
    return lambda incomplete: [n for n in names if n.startswith(incomplete)]


def _option(*names: str, metavar: str | None = None, help: str, **more: Any) -> Any:
    return typer.Option(
        *names, metavar=metavar, help=help, rich_help_panel=MODEL, show_default=False, **more
    )


def fit(
    session: Session,
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            help="A file or folder of recordings, or watch, har, sleep-edf, ptb-xl, synthetic.",
            autocompletion=complete_data,
            show_default=False,
        ),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="MODEL", help="Model file to write.", show_default=False
        ),
    ],
    method: Annotated[
        str,
        _option(
            "--method",
            "-m",
            metavar="NAME",
            help="plc (default), cpd, atd or plc-paper.",
            autocompletion=choice(*METHODS),
        ),
    ] = "plc",
    rank: Annotated[
        int, _option("--rank", "-r", metavar="N", help="Number of features (32).", min=1)
    ] = 32,
    seed: Annotated[int, _option("--seed", "-s", metavar="N", help="Seed (0).", min=0)] = 0,
    param: Annotated[
        list[str] | None,
        _option("--param", "-p", metavar="KEY=VALUE", help="Any parameter of the method."),
    ] = None,
    augment: Annotated[
        str,
        _option(
            "--augment",
            metavar="NAME",
            help="Views: standard (default), gentle, or the paper's for har, sleep-edf, ptb-xl.",
            autocompletion=choice(*AUGMENTS),
        ),
    ] = "standard",
    n_fft: Annotated[
        int | None, _option("--n-fft", metavar="N", help="Points of a spectrum.", min=2)
    ] = None,
    hop: Annotated[
        int | None, _option("--hop", metavar="N", help="Points between spectra.", min=1)
    ] = None,
    representation: Annotated[
        str,
        _option(
            "--representation",
            metavar="NAME",
            help="sqrt-magnitude (default), magnitude, log-magnitude or log-real-imag.",
        ),
    ] = "sqrt-magnitude",
    quantiles: Annotated[
        str | None,
        _option(
            "--n-quantiles",
            metavar="N",
            help="Quantiles over time of each frequency (default: 4); time keeps the frames.",
            autocompletion=choice("4", "time"),
        ),
    ] = None,
    convolution: Annotated[
        bool | None,
        _option(
            "--convolution/--no-convolution",
            help="Couple the spectrograms with random-convolution features (default: yes).",
        ),
    ] = None,
    missing: Annotated[
        str,
        _option(
            "--missing",
            metavar="HOW",
            help="Missing values: error (default), or mask to leave them out of the fit.",
            autocompletion=choice("error", "mask"),
        ),
    ] = "error",
    keeping: Keeping = Keeping(),  # noqa: B008
    reading: recordings.Reading = recordings.Reading(),  # noqa: B008
    cluster: Cluster = Cluster(),  # noqa: B008
    force: Force = False,
) -> None:
    """Learn features from recordings; labels are never used.

    Writes one model file with all that transform needs: rate, channels, spectrogram, factors. A
    fit with --checkpoint that was killed goes on when it is called again with --resume.
    """
    from tensorcontrast.utils.estimators import with_learned

    numeric = quantiles is not None and quantiles.isdecimal() and int(quantiles) > 0
    if quantiles not in (None, "time") and not numeric:
        raise UsageFailure(f"--n-quantiles {quantiles!r}: use a number, or time")
    masked = missing == "mask"
    if masked and reading.drop_nan:
        raise UsageFailure("--drop-nan leaves out what --missing mask would use; choose one")
    params = parameters(param)
    target = session.target(output, force=force)
    begun = keeping.begun(session, target, force=force)
    stored = open_data(data, reading, cluster)
    if stored is not None and masked:
        raise UsageFailure(
            "--missing mask needs all windows in one process and is not for stores; name the "
            "recordings that the store was made of"
        )
    rec: Any = stored or recordings.read(session, data, reading, gaps=masked)
    if rec.fs is None:
        session.note("no sampling rate: frequencies count in cycles per sample; pass --fs")
    model = estimator(
        rec,
        method=method,
        rank=rank,
        seed=seed,
        params=params,
        augment=augment,
        n_fft=n_fft,
        hop=hop,
        representation=representation,
        n_quantiles=int(quantiles) if quantiles is not None and quantiles != "time" else None,
        in_time=quantiles == "time",
        convolution=convolution,
        missing=missing,
        verbose=session.shows_progress,
    )
    keeping.check_same(begun, model)
    with cluster.running(session):
        try:
            model.fit(rec, **keeping.arguments(begun))
        except KeyboardInterrupt:
            raise keeping.stopped("the fit", model) from None
        model = with_learned(model, fitted_on_=fitted_on(rec))
    model.save(target)
    _tell(session, target, method, seed, model, rec, keeping, begun)


def _tell(
    session: Session,
    target: Path,
    method: str,
    seed: int,
    model: ContrastiveFeatures,
    rec: Any,
    keeping: Keeping,
    begun: ContrastiveFeatures | None,
) -> None:
    core, spectrogram, convolution = model.decompose_, model.spectrogram_, model.convolution_
    assert spectrogram is not None
    length = f"{rec.n_times} points"
    if rec.fs is not None:
        length = f"{rec.n_times / rec.fs:.4g} s at {rec.fs:g} Hz"
    data = {
        "model": str(target),
        "method": method,
        "rank": core.rank_,
        "seed": seed,
        "data": rec.name,
        "samples": len(rec),
        "channels": model.channels_,
        "n_channels": rec.n_channels,
        "n_times": rec.n_times,
        "fs": rec.fs,
        "tensor_shape": spectrogram.output_shape_,
        "convolution_features": 0 if convolution is None else len(convolution.components_),
        "nuisance_metric": core.nuisance_gains_ is not None,
        "iterations": core.n_iter_,
        "reconstruction_error": core.reconstruction_error_,
        "checkpoint": None if keeping.checkpoint is None else str(keeping.checkpoint),
        "resumed_after": None if begun is None else begun.decompose_.n_iter_,
        "seconds": round(session.seconds, 3),
    }
    shape = " × ".join(str(n) for n in spectrogram.output_shape_)
    last = "time" if spectrogram.n_quantiles_ is None else "quantile"
    coupled = ""
    if convolution is not None:
        coupled = f", coupled with {len(convolution.components_)} convolution features"
    shown = facts(
        {
            "model": safe(target),
            "data": f"{len(rec):,} windows, {rec.n_channels} channels, {length}",
            "tensors": f"{shape} (channel × frequency × {last}){coupled}",
            "features": f"{core.rank_} by {method}, {core.n_iter_} iterations, "
            f"reconstruction error {core.reconstruction_error_:.3f}"
            + (", nuisance metric" if data["nuisance_metric"] else ""),
            "time": f"{session.seconds:.1f} s",
        }
    )
    session.result(data, shown, summary=True)
