"""``tensorcontrast export``: a model as an ONNX file, compared with what it was made of."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from tensorcontrast.cli.shared import data as recordings
from tensorcontrast.cli.shared import models
from tensorcontrast.cli.shared.options import Force, complete_data
from tensorcontrast.cli.shared.session import Session, UsageFailure, facts, safe
from tensorcontrast.errors import MissingDependencyError

__all__ = ["export"]

#: Windows of DATA that are compared, at most.
MAX_WINDOWS = 1000


def export(
    session: Session,
    model: models.Model,
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="FILE", help="What to write: .onnx.", show_default=False
        ),
    ],
    data: Annotated[
        str | None,
        typer.Option(
            "--data",
            "-d",
            metavar="DATA",
            help="Recordings to compare on; default: noise.",
            autocompletion=complete_data,
        ),
    ] = None,
    no_smooth: Annotated[
        bool,
        typer.Option("--no-smooth", help="Leave out the smoothing of a model trained with it."),
    ] = False,
    reading: recordings.Reading = recordings.Reading(),  # noqa: B008
    force: Force = False,
) -> None:
    """Write a model as an ONNX file, for use without Python.

    The file takes raw windows, float32 [n, channel, time], and gives features, or label and
    probabilities. It is run by onnxruntime and compared with MODEL; size, largest difference and
    time per window are printed.
    """
    from tensorcontrast.classify import ContrastiveClassifier
    from tensorcontrast.export import OPSET, compare_onnx, export_onnx
    from tensorcontrast.io.model_files import load_model

    if output.suffix.lower() != ".onnx":
        raise UsageFailure(f"-o {output.name}: the name of an ONNX file ends in .onnx")
    target = session.target(output, force=force)
    fitted: Any = load_model(model.expanduser())
    classifier = isinstance(fitted, ContrastiveClassifier)
    if classifier and fitted.smooth is not None:
        if not no_smooth:
            raise UsageFailure(
                f"{model} was trained with --smooth, which needs the other windows of a recording, "
                "but an ONNX file sees each window for itself; pass --no-smooth to leave it out"
            )
        fitted.set_params(smooth=None)
    windows = None
    if data is not None:
        features = fitted.extractor_ if classifier else models.load(model)
        rec = recordings.read(session, data, reading, model=features)
        windows = rec.X[:: -(-len(rec) // MAX_WINDOWS)]
    export_onnx(fitted, target)
    found: dict[str, Any] = {"size_bytes": target.stat().st_size}
    try:
        with session.progress(f"running {target.name}"):
            found = compare_onnx(fitted, target, windows)
    except MissingDependencyError as error:
        session.warn(f"{target.name} is written but was not run: {error}")
    about: dict[str, object] = {
        "written": safe(target),
        "size": f"{found['size_bytes'] / 1e6:.2f} MB, ONNX operators {OPSET}",
    }
    if "n_windows" in found:
        of = "noise" if data is None else data
        about["difference"] = (
            f"at most {found['max_difference']:.1e}, {found['other_labels']} other labels, over "
            f"{found['n_windows']:,} windows of {of}"
        )
        about["time"] = f"{found['ms_per_window']:.2f} ms per window, on one thread"
    session.result(
        {
            "onnx": str(target),
            "model": str(model),
            "kind": type(fitted).__name__,
            "opset": OPSET,
            "data": data,
            "outputs": ["label", "probabilities"] if classifier else ["features"],
            **{"n_windows": None, "max_difference": None, "relative_difference": None},
            **{"other_labels": None, "ms_per_window": None},
            **found,
        },
        facts(about),
        summary=True,
    )
