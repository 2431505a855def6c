"""Settings of ``fit``: from the command line, over those of a TOML file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from tensorcontrast.cli.shared.failures import UsageFailure, message_of
from tensorcontrast.errors import InvalidInputError
from tensorcontrast.utils.names import listed

if TYPE_CHECKING:
    from tensorcontrast.features import ContrastiveFeatures
    from tensorcontrast.recordings import Recordings

__all__ = ["FitSettings", "estimator", "merged", "number"]

Representation = Literal["sqrt-magnitude", "magnitude", "log-magnitude", "log-real-imag", "complex"]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class DataSettings(_Section):
    """``[data]``: what is read and how; the options of the same names."""

    path: str | None = None
    fs: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    channels: list[str] | None = None
    labels: str | None = None
    groups: str | None = None
    sample: str | None = None
    time: str | None = None
    where: list[str] | None = None
    window: float | str | None = None
    step: float | str | None = None
    resample: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    format: str | None = None
    annotations: str | None = None
    inside_annotations: bool = False
    label_share: Annotated[float, Field(gt=0, le=1)] | None = None
    drop_unlabelled: bool = False
    drop_nan: bool = False


class TensorSettings(_Section):
    """``[tensor]``: the spectrogram; parameters of ``SpectrogramTensor``."""

    n_fft: Annotated[int, Field(ge=2, le=2**24)] | None = None
    hop: Annotated[int, Field(ge=1, le=2**24)] | None = None
    window: str = "hann"
    representation: Representation = "sqrt-magnitude"
    mean_row: bool = False
    n_quantiles: Annotated[int, Field(ge=1, le=2**16)] | Literal["time"] | None = None
    norm: Literal["backward", "ortho"] = "backward"
    floor: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1e-3
    dtype: Literal["float32", "float64"] = "float32"


class FitSettings(_Section):
    """A whole file for ``tensorcontrast fit --config``."""

    method: Literal["plc", "cpd", "atd", "plc-paper"] = "plc"
    rank: Annotated[int, Field(ge=1, le=2**16)] = 32
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 0
    augment: Literal["standard", "gentle", "har", "sleep-edf", "ptb-xl"] | dict[str, Any] = (
        "standard"
    )
    fresh_views: bool = False
    convolution: bool | None = None
    missing: Literal["error", "mask"] | None = None
    robust: Literal["huber"] | None = None
    checkpoint: str | None = None
    output: str | None = None
    params: dict[str, Any] = {}
    data: DataSettings = DataSettings()
    tensor: TensorSettings = TensorSettings()


def merged(settings: FitSettings, **given: Any) -> FitSettings:
    """Return the settings with what the command line gives; None is what it does not."""
    data = settings.model_dump()
    for name, value in given.items():
        if isinstance(value, dict):
            data[name] |= {k: v for k, v in value.items() if v is not None}
        elif value is not None:
            data[name] = value
    return FitSettings.model_validate(data)


def number(text: str) -> Any:
    """Value of ``--param KEY=VALUE``: a number, true, false, none or text."""
    words: dict[str, Any] = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def estimator(settings: FitSettings, rec: Recordings) -> ContrastiveFeatures:
    """Make the estimator of the settings; wrong parameters are reported before any work."""
    from tensorcontrast import augment
    from tensorcontrast.features import N_QUANTILES, ContrastiveFeatures
    from tensorcontrast.tensorize import ConvolutionFeatures, SpectrogramTensor

    tensor = settings.tensor.model_dump()
    if tensor["n_quantiles"] == "time":
        tensor["n_quantiles"] = None
    elif tensor["n_quantiles"] is None and settings.tensor.representation != "complex":
        tensor["n_quantiles"] = N_QUANTILES
    spectrogram = SpectrogramTensor(fs=rec.fs, **tensor)
    tensorize: Any = spectrogram
    masked = settings.missing == "mask"
    if masked and settings.convolution:
        raise UsageFailure(
            "--convolution needs signals without gaps; leave it out with --missing mask"
        )
    parts = settings.params.get("nonnegative") is True
    if parts and settings.convolution:
        raise UsageFailure(
            "--convolution has values of both signs; leave it out with -p nonnegative=true"
        )
    if settings.convolution is not False and not masked and not parts:
        tensorize = [spectrogram, ConvolutionFeatures()]
    view: Any = None
    try:
        if isinstance(settings.augment, dict):
            view = augment.from_config(settings.augment)
        elif settings.augment == "gentle":
            view = augment.gentle()
        elif settings.augment != "standard":
            channels = rec.channels if settings.augment == "har" else None
            view = augment.paper(settings.augment, fs=rec.fs, channels=channels)
    except InvalidInputError as error:
        raise UsageFailure(f"augment: {message_of(error)}") from error
    model = ContrastiveFeatures(
        tensorize=tensorize,
        augment=view,
        decompose=_decomposition(settings),
        fresh_views=settings.fresh_views,
        missing=settings.missing or "error",
        random_state=settings.seed,
    )
    try:
        model.decompose._check_parameters()
        spectrogram._check_params()
    except InvalidInputError as error:
        raise UsageFailure(message_of(error)) from error
    return model


def _decomposition(settings: FitSettings) -> Any:
    from tensorcontrast.decompose import ATD, CPD, PLC
    from tensorcontrast.decompose.options import build, option_names

    kinds: dict[str, Any] = {"plc": PLC, "cpd": CPD, "atd": ATD, "plc-paper": PLC}
    kind = kinds[settings.method]
    code = {"rank", "random_state", "callback", "verbose", "init", "augment", "clusterer"}
    own = {"missing", "checkpoint"}  # which concern more than the method
    known = sorted((set(option_names(kind)) | {"every"}) - code - own - {"als", "gradient"})
    unknown = [name for name in settings.params if name not in known]
    if unknown and unknown[0] in own:
        raise UsageFailure(f"{unknown[0]} is no parameter of the method; pass --{unknown[0]}")
    if unknown:
        raise UsageFailure(
            f"{settings.method} has no parameter {listed(unknown)}; it has {', '.join(known)}"
        )
    params = {"rank": settings.rank, **settings.params}
    every = params.pop("every", 1)  # of the checkpoint, not of the method
    if type(every) is not int or every < 1:
        raise UsageFailure(f"-p every={every} must be an integer of at least 1")
    if settings.robust is not None:
        params["robust"] = settings.robust
    try:
        if settings.method == "plc-paper":
            return PLC.paper(**params)
        return build(kind, **params)
    except InvalidInputError as error:
        raise UsageFailure(message_of(error)) from error
