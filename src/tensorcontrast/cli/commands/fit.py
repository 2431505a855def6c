"""``tensorcontrast fit``: a model file from recordings, without labels."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tensorcontrast.cli.shared import data as recordings
from tensorcontrast.cli.shared.cluster import Cluster, open_data
from tensorcontrast.cli.shared.failures import UsageFailure, message_of
from tensorcontrast.cli.shared.fingerprint import fitted_on
from tensorcontrast.cli.shared.keeping import Checkpoint, Keeping
from tensorcontrast.cli.shared.options import Force, complete_data, complete_files
from tensorcontrast.cli.shared.session import Session, facts, safe
from tensorcontrast.errors import InvalidInputError

if TYPE_CHECKING:
    from tensorcontrast.cli.shared.settings import FitSettings
    from tensorcontrast.features import ContrastiveFeatures
    from tensorcontrast.recordings import Recordings
    from tensorcontrast.utils.progress import StageTimes

MODEL = "Model"
METHODS = ("plc", "cpd", "atd", "plc-paper")
AUGMENTS = ("standard", "gentle", "har", "sleep-edf", "ptb-xl")


def _choice(*names: str) -> Any:
    return lambda incomplete: [n for n in names if n.startswith(incomplete)]


def _option(*names: str, metavar: str | None = None, help: str, **more: Any) -> Any:
    return typer.Option(
        *names, metavar=metavar, help=help, rich_help_panel=MODEL, show_default=False, **more
    )


def fit(
    session: Session,
    data: Annotated[
        str | None,
        typer.Argument(
            metavar="DATA",
            help="A file or folder of recordings, or watch, har, sleep-edf, ptb-xl, synthetic.",
            autocompletion=complete_data,
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="MODEL", help="Model file to write."),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            "-c",
            metavar="TOML",
            help="Settings from a file; options go before it.",
            autocompletion=complete_files,
        ),
    ] = None,
    method: Annotated[
        str | None,
        _option(
            "--method",
            "-m",
            metavar="NAME",
            help="plc (default), cpd, atd or plc-paper.",
            autocompletion=_choice(*METHODS),
        ),
    ] = None,
    rank: Annotated[
        int | None, _option("--rank", "-r", metavar="N", help="Number of features (32).", min=1)
    ] = None,
    seed: Annotated[
        int | None, _option("--seed", "-s", metavar="N", help="Seed (0).", min=0)
    ] = None,
    param: Annotated[
        list[str] | None,
        _option("--param", "-p", metavar="KEY=VALUE", help="Any parameter of the method."),
    ] = None,
    augment: Annotated[
        str | None,
        _option(
            "--augment",
            metavar="NAME",
            help="Views: standard (default), gentle, or the paper's for har, sleep-edf, ptb-xl.",
            autocompletion=_choice(*AUGMENTS),
        ),
    ] = None,
    n_fft: Annotated[
        int | None, _option("--n-fft", metavar="N", help="Points of a spectrum.", min=2)
    ] = None,
    hop: Annotated[
        int | None, _option("--hop", metavar="N", help="Points between spectra.", min=1)
    ] = None,
    representation: Annotated[
        str | None,
        _option(
            "--representation",
            metavar="NAME",
            help="sqrt-magnitude (default), magnitude, log-magnitude, log-real-imag or complex.",
        ),
    ] = None,
    mean_row: Annotated[
        bool | None,
        _option(
            "--mean-row/--no-mean-row",
            help="Keep the signed mean of each frame, such as gravity (default: no).",
        ),
    ] = None,
    quantiles: Annotated[
        str | None,
        _option(
            "--n-quantiles",
            metavar="N",
            help="Quantiles over time of each frequency (default: 4); time keeps the frames.",
            autocompletion=_choice("4", "time"),
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
        str | None,
        _option(
            "--missing",
            metavar="HOW",
            help="Missing values: error (default), or mask to leave them out of the fit.",
            autocompletion=_choice("error", "mask"),
        ),
    ] = None,
    robust: Annotated[
        str | None,
        _option(
            "--robust",
            metavar="HOW",
            help="huber: windows with artefacts count less.",
            autocompletion=_choice("huber"),
        ),
    ] = None,
    profile: Annotated[
        bool, typer.Option("--profile", help="Also show how long each stage took.")
    ] = False,
    keeping: Keeping = Keeping(),  # noqa: B008
    reading: recordings.Reading = recordings.Reading(),  # noqa: B008
    cluster: Cluster = Cluster(),  # noqa: B008
    force: Force = False,
) -> None:
    """Learn features from recordings; labels are never used.

    Writes one model file with all that transform needs: rate, channels, spectrogram, factors. A
    fit with --checkpoint that was killed goes on when it is called again with --resume.
    """
    if quantiles is not None and quantiles != "time" and not quantiles.isdecimal():
        raise UsageFailure(f"--n-quantiles {quantiles!r}: use a number, or time")
    settings = _settings(
        config,
        method=method,
        rank=rank,
        seed=seed,
        augment=augment,
        convolution=convolution,
        missing=missing,
        robust=robust,
        params=_params(param),
        tensor={
            "n_fft": n_fft,
            "hop": hop,
            "representation": representation,
            "mean_row": mean_row,
            "n_quantiles": quantiles if quantiles in (None, "time") else int(quantiles),
        },
    )
    data = data or settings.data.path
    if data is None:
        raise UsageFailure("DATA is missing: name a file, or [data] path in --config")
    if output is None and settings.output is None:
        raise UsageFailure("no place for the model; pass -o MODEL, such as -o model.tcm")
    target = session.target(output or Path(settings.output or ""), force=force)
    options = _reading(reading, settings)
    masked = settings.missing == "mask"
    if masked and options.drop_nan:
        raise UsageFailure("--drop-nan leaves out what --missing mask would use; choose one")
    kept = keeping.prepared(session, settings.checkpoint, force=force)
    if kept.path is not None and target.absolute() == kept.path.absolute():
        raise UsageFailure("the model (-o) and the checkpoint need files of their own")
    from tensorcontrast.utils.progress import StageTimes

    times = StageTimes()
    times.seconds["starting"] = session.seconds
    with times.stage("reading"):
        stored = open_data(data, options, cluster)
    if stored is not None and (masked or settings.robust or settings.params.get("robust")):
        name = "--missing mask" if masked else "--robust"
        raise UsageFailure(
            f"{name} needs all windows in one process and is not for stores; name the recordings "
            "that the store was made of"
        )
    with times.stage("reading"):
        rec: Any = stored or recordings.read(session, data, options, gaps=masked)
    if rec.fs is None:
        session.note("no sampling rate: frequencies count in cycles per sample; pass --fs")
    with cluster.running(session), times.stage("preparation"):
        model = _fitted(session, settings, rec, kept, times if profile else None)
        from tensorcontrast.utils.estimators import with_learned

        model = with_learned(model, fitted_on_=fitted_on(rec))
    with times.stage("writing"):
        model.save(target)
    _tell(session, target, settings, model, rec, kept, times if profile else None)


def _params(given: list[str] | None) -> dict[str, Any]:
    from tensorcontrast.cli.shared.settings import number

    out = {}
    for text in given or []:
        key, sign, value = text.partition("=")
        if not sign or not key.strip():
            raise UsageFailure(f"--param {text!r} is not KEY=VALUE, such as n_epochs=10")
        out[key.strip()] = number(value.strip())
    return out


def _settings(config: Path | None, **given: Any) -> FitSettings:
    from pydantic import ValidationError

    from tensorcontrast.cli.shared.settings import FitSettings, merged

    settings = FitSettings()
    if config is not None:
        from tensorcontrast.evaluate.toml_config import load_toml

        settings = load_toml(config, FitSettings)
    try:
        return merged(settings, **given)
    except ValidationError as error:
        first = error.errors()[0]
        place = [str(part) for part in first["loc"] if part not in ("tensor", "data")]
        option = "--" + place[0].replace("_", "-")
        raise UsageFailure(f"{option} {first['input']!r}: {first['msg']}") from None


def _reading(given: recordings.Reading, settings: FitSettings) -> recordings.Reading:
    """Options of the command line over those of ``[data]``."""
    section = settings.data
    own: dict[str, Any] = {
        name: getattr(section, name)
        for name in ("fs", "labels", "groups", "sample", "time", "where")
    }
    own |= {name: getattr(section, name) for name in ("window", "step", "resample")}
    own |= {name: getattr(section, name) for name in recordings.LABELLING}
    own["data_format"] = section.format
    own["channels"] = None if section.channels is None else ",".join(section.channels)
    own["drop_nan"] = section.drop_nan
    for name in ("window", "step"):
        own[name] = None if own[name] is None else str(own[name])
    chosen = {name: getattr(given, name) or value for name, value in own.items()}
    return recordings.Reading(**chosen)


def _fitted(
    session: Session,
    settings: FitSettings,
    rec: Recordings,
    kept: Checkpoint,
    times: StageTimes | None,
) -> ContrastiveFeatures:
    from tensorcontrast.cli.shared.model import without_callback
    from tensorcontrast.cli.shared.settings import estimator
    from tensorcontrast.utils.estimators import changed

    model = estimator(settings, rec)
    limits = model.decompose.get_params()
    every = settings.params.get("every", 10)
    name = settings.method
    with session.progress(f"{name}: spectrograms") as update:
        phase = {"start": 0}

        def show(row: dict[str, float]) -> None:
            done = int(row["iteration"])
            if limits.get("solver") == "tied" and "contrast" in row:
                phase["start"] = phase["start"] or done - 1
                total, text = limits["gradient__n_epochs"], "contrast"
            else:
                total, text = limits["als__max_iter"], "decomposition"
            update(done=done - phase["start"], total=total, text=f"{name}: {text}")

        shown = changed(model, decompose=changed(model.decompose, callback=show))
        try:
            resume = kept.resume or None
            shown.fit(rec, checkpoint=kept.path, every=every, resume=resume, times=times)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(f"the fit was stopped; {kept.way_on}") from None
        except InvalidInputError as error:
            if "is a checkpoint of" in str(error):  # with other options
                raise UsageFailure(message_of(error)) from error
            raise
    return without_callback(shown)


def _tell(
    session: Session,
    target: Path,
    settings: FitSettings,
    model: ContrastiveFeatures,
    rec: Recordings,
    kept: Checkpoint,
    times: StageTimes | None,
) -> None:
    core, spectrogram, convolution = model.decompose_, model.spectrogram_, model.convolution_
    assert spectrogram is not None
    length = f"{rec.n_times} points"
    if rec.fs is not None:
        length = f"{rec.n_times / rec.fs:.4g} s at {rec.fs:g} Hz"
    data = {
        "model": str(target),
        "method": settings.method,
        "rank": core.rank_,
        "seed": settings.seed,
        "data": rec.name,
        "samples": len(rec),
        "channels": model.channels_,
        "n_channels": rec.n_channels,
        "n_times": rec.n_times,
        "fs": rec.fs,
        "tensor_shape": spectrogram.output_shape_,
        "convolution_features": 0 if convolution is None else len(convolution.components_),
        "nuisance_metric": core.nuisance_gains_ is not None,
        "decisions": model.decisions_,
        "iterations": core.n_iter_,
        "reconstruction_error": core.reconstruction_error_,
        "checkpoint": None if kept.path is None else str(kept.path),
        "resumed_after": kept.done,
        "seconds": round(session.seconds, 3),
    }
    profiled = [] if times is None else [_profile(times, session.seconds, data)]
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
            "features": f"{core.rank_} by {settings.method}, {core.n_iter_} iterations, "
            f"reconstruction error {core.reconstruction_error_:.3f}"
            + (", nuisance metric" if data["nuisance_metric"] else ""),
            **{f"chosen: {d['name']}": d["outcome"] for d in model.decisions_},
            "time": f"{session.seconds:.1f} s",
        }
    )
    session.result(data, shown, *profiled, summary=True)


#: Stages of a fit in the order in which they begin.
_ORDER = (
    "starting",
    "reading",
    "preparation",
    "blocks",
    "augmentation",
    "CPD",
    "metric",
    "finishing",
    "writing",
)


def _profile(times: StageTimes, whole: float, data: dict[str, Any]) -> Any:
    """Return a table of the stages, and put them into the data of the result."""
    from rich.table import Table

    data["profile"] = [
        {"stage": name, "seconds": times.seconds[name], "share": times.seconds[name] / whole}
        for name in _ORDER
        if name in times.seconds
    ]
    table = Table(box=None, pad_edge=False)
    table.add_column("stage")
    table.add_column("seconds", justify="right")
    table.add_column("share", justify="right")
    for row in data["profile"]:
        table.add_row(row["stage"], f"{row['seconds']:.2f}", f"{row['share']:.1%}")
    table.add_row("all", f"{whole:.2f}", "")
    return table
