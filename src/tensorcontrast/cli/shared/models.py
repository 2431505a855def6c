"""Models of the command line: files as arguments, and the estimators that options describe."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tensorcontrast.cli.shared.options import complete_files
from tensorcontrast.cli.shared.session import Session, UsageFailure, message_of
from tensorcontrast.errors import FileError, InvalidInputError

if TYPE_CHECKING:
    from tensorcontrast.classify import ContrastiveClassifier
    from tensorcontrast.features import ContrastiveFeatures
    from tensorcontrast.recordings import Recordings

__all__ = [
    "AUGMENTS",
    "METHODS",
    "REPRESENTATIONS",
    "Keeping",
    "Model",
    "estimator",
    "features_of",
    "load",
    "load_classifier",
    "load_whole",
    "parameters",
]

METHODS = ("plc", "cpd", "atd", "plc-paper")
AUGMENTS = ("standard", "gentle", "har", "sleep-edf", "ptb-xl")
REPRESENTATIONS = ("sqrt-magnitude", "magnitude", "log-magnitude", "log-real-imag")

Model = Annotated[
    Path,
    typer.Argument(
        metavar="MODEL",
        help="Model file written by fit or train.",
        autocompletion=complete_files,
        show_default=False,
    ),
]


def load(path: Path) -> ContrastiveFeatures:
    """Read a model that takes recordings; of a classifier its features."""
    return features_of(load_whole(path))


def features_of(model: ContrastiveFeatures | ContrastiveClassifier) -> ContrastiveFeatures:
    """Return features as they are, and those of a classifier."""
    from tensorcontrast.features import ContrastiveFeatures

    found = model if isinstance(model, ContrastiveFeatures) else model.extractor_
    assert isinstance(found, ContrastiveFeatures)
    return found


def load_whole(path: Path) -> ContrastiveFeatures | ContrastiveClassifier:
    """Read a model that takes recordings: features or a classifier."""
    from tensorcontrast.classify import ContrastiveClassifier
    from tensorcontrast.features import ContrastiveFeatures
    from tensorcontrast.io.model_files import load_model

    model = load_model(path.expanduser())
    if not isinstance(getattr(model, "extractor_", model), ContrastiveFeatures) or not isinstance(
        model, ContrastiveFeatures | ContrastiveClassifier
    ):
        raise InvalidInputError(
            f"{path} holds a {type(model).__name__} of tensors, not a model of recordings; write "
            "one with: tensorcontrast fit DATA -o model.tcm"
        )
    return model


def load_classifier(path: Path) -> ContrastiveClassifier:
    """Read a model that gives answers."""
    from tensorcontrast.classify import ContrastiveClassifier
    from tensorcontrast.io.model_files import load_model

    model = load_model(path.expanduser())
    if not isinstance(model, ContrastiveClassifier):
        raise InvalidInputError(
            f"{path} holds a {type(model).__name__}, which knows no classes; write a model that "
            "does with: tensorcontrast train DATA --labels LABELS -o model.tcm"
        )
    return model


# --------------------------------------------------------------------------------- estimators

#: Parameters that are no numbers or words, and those that have options of their own.
_NOT_BY_PARAM = {"augment", "callback", "missing", "random_state", "rank", "verbose"}


def parameters(given: list[str] | None) -> dict[str, Any]:
    """Return ``-p KEY=VALUE`` as a dict; a value is a number, true, false, none or text."""
    words: dict[str, Any] = {"true": True, "false": False, "none": None}
    out: dict[str, Any] = {}
    for text in given or []:
        key, sign, value = (part.strip() for part in text.partition("="))
        if not sign or not key:
            raise UsageFailure(f"--param {text!r} is not KEY=VALUE, such as max_iter=10")
        out[key] = words.get(value.lower(), value)
        for kind in (float, int):
            try:
                out[key] = kind(value)
            except ValueError:
                continue
    return out


def estimator(
    rec: Recordings,
    *,
    method: str = "plc",
    rank: int = 32,
    seed: int = 0,
    params: dict[str, Any] | None = None,
    augment: str = "standard",
    n_fft: int | None = None,
    hop: int | None = None,
    representation: str = "sqrt-magnitude",
    n_quantiles: int | None = None,
    in_time: bool = False,
    convolution: bool | None = None,
    missing: str = "error",
    verbose: bool = False,
) -> ContrastiveFeatures:
    """Make the estimator that options describe; wrong ones are reported before any work."""
    from tensorcontrast import augment as augmentations
    from tensorcontrast.features import N_QUANTILES, ContrastiveFeatures
    from tensorcontrast.tensorize import ConvolutionFeatures, SpectrogramTensor
    from tensorcontrast.utils import checks

    for option, value, known in (
        ("--method", method, METHODS),
        ("--augment", augment, AUGMENTS),
        ("--representation", representation, REPRESENTATIONS),
        ("--missing", missing, ("error", "mask")),
    ):
        if value not in known:
            raise UsageFailure(f"{option} {value!r}: use {', '.join(known[:-1])} or {known[-1]}")
    params = params or {}
    masked, parts = missing == "mask", params.get("nonnegative") is True
    if convolution and masked:
        raise UsageFailure(
            "--convolution needs signals without gaps; leave it out with --missing mask"
        )
    if convolution and parts:
        raise UsageFailure(
            "--convolution has values of both signs; leave it out with -p nonnegative=true"
        )
    if n_quantiles is None and not in_time:
        n_quantiles = N_QUANTILES
    spectrogram = SpectrogramTensor(
        fs=rec.fs, n_fft=n_fft, hop=hop, representation=representation, n_quantiles=n_quantiles
    )
    tensorize: Any = spectrogram
    if convolution is not False and not masked and not parts:
        tensorize = [spectrogram, ConvolutionFeatures()]
    view: Any = None
    if augment == "gentle":
        view = augmentations.gentle()
    try:
        if augment not in ("standard", "gentle"):
            channels = rec.channels if augment == "har" else None
            view = augmentations.paper(augment, fs=rec.fs, channels=channels)
        decompose = _decomposition(method, rank, params)
        checks.check_parameters(spectrogram)
    except InvalidInputError as error:
        raise UsageFailure(message_of(error)) from error
    return ContrastiveFeatures(
        tensorize=tensorize,
        augment=view,
        decompose=decompose,
        missing=missing,
        random_state=seed,
        verbose=verbose,
    )


def _decomposition(method: str, rank: int, params: dict[str, Any]) -> Any:
    from tensorcontrast.decompose import ATD, CPD, PLC, Algorithm1
    from tensorcontrast.utils import checks

    makers: dict[str, Any] = {"plc": PLC, "cpd": CPD, "atd": ATD, "plc-paper": PLC.paper}
    kind = Algorithm1 if method == "plc-paper" else makers[method]
    names = set(kind().get_params(deep=False))
    known = sorted(names - _NOT_BY_PARAM)
    for name in params:
        if name == "missing":
            raise UsageFailure("-p missing=: use --missing, which concerns the spectrogram as well")
        if name not in known:
            raise UsageFailure(f"{method} has no parameter {name}; it has {', '.join(known)}")
    model = makers[method](rank=rank, **params)
    checks.check_parameters(model)
    return model


# --------------------------------------------------------------------------------- long fits

PANEL = "Long fits"


@dataclass(frozen=True)
class Keeping:
    """Options that keep the state of a fit in a file."""

    checkpoint: Annotated[
        Path | None,
        typer.Option(
            "--checkpoint",
            metavar="FILE",
            help="Keep the model so far here, every few iterations.",
            rich_help_panel=PANEL,
            show_default=False,
            autocompletion=complete_files,
        ),
    ] = None
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Go on from the checkpoint where there is one.",
            rich_help_panel=PANEL,
        ),
    ] = False

    def begun(self, session: Session, target: Path, *, force: bool) -> ContrastiveFeatures | None:
        """Check the place of the checkpoint before any work; return the model to go on from.

        A file that is there is never lost for want of an option.
        """
        if self.checkpoint is None:
            if self.resume:
                raise UsageFailure("--resume goes on from the file that --checkpoint FILE names")
            return None
        path = session.target(self.checkpoint, force=True)
        if target.absolute() == path.absolute():
            raise UsageFailure("the model (-o) and the checkpoint need files of their own")
        if not path.exists():
            if self.resume:
                session.note(f"{path} is not there yet: the fit begins")
            return None
        if self.resume:
            model = load(path)
            session.note(f"going on from {path}, after {model.decompose_.n_iter_} iterations")
            return model
        if not force:
            raise FileError(
                f"{path} exists: pass --resume to go on from it, or --force to begin anew"
            )
        return None

    def check_same(self, before: ContrastiveFeatures | None, now: ContrastiveFeatures) -> None:
        """Raise where a checkpoint is of a fit with other options."""
        if before is not None and _settings(before) != _settings(now):
            raise UsageFailure(
                f"{self.checkpoint} is of a fit with other options; repeat them, or begin anew "
                "with --force instead of --resume"
            )

    def arguments(self, before: ContrastiveFeatures | None) -> dict[str, Any]:
        """Return the arguments of ``fit``."""
        return {"init": before, "autosave": self.checkpoint}

    def stopped(self, what: str, features: Any) -> KeyboardInterrupt:
        """Keep what an interrupted fit has learned, and say how to go on."""
        learned = getattr(features, "decompose_", None)
        if self.checkpoint is None:
            way_on = "nothing was kept: no model was written, and there was no --checkpoint"
        else:
            if learned is not None:
                features.save(self.checkpoint)
            way_on = f"{self.checkpoint} was not written: no iteration was done"
            if self.checkpoint.exists():
                way_on = f"the same command with --resume goes on from {self.checkpoint}"
        return KeyboardInterrupt(f"{what} was stopped; {way_on}")


def _settings(model: ContrastiveFeatures) -> list[str]:
    """Return what a fit depends on as text; how long it takes is left out."""
    free = {"callback", "max_iter", "n_jobs", "tol", "verbose"}
    parts = model.tensorize if isinstance(model.tensorize, list) else [model.tensorize]
    found = [f"{model.random_state} {model.missing} {model.augment!r}"]
    for part in (model.decompose, *parts):
        params = {} if part is None else part.get_params()
        own = {name: value for name, value in params.items() if name not in free}
        found.append(f"{type(part).__name__} {sorted(own.items(), key=lambda item: item[0])!r}")
    return found
