"""``tensorcontrast label``: label windows in a browser, on this machine."""

from __future__ import annotations

import getpass
import re
import shlex
import threading
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from tensorcontrast.cli.shared import data as recordings
from tensorcontrast.cli.shared.options import Force, complete_files
from tensorcontrast.cli.shared.session import Session, UsageFailure, facts, safe
from tensorcontrast.cli.shared.stored import ManyData, fitted_on, read_all
from tensorcontrast.errors import InvalidInputError
from tensorcontrast.io.atomic import atomic_write, check_writable

if TYPE_CHECKING:
    from tensorcontrast.classify import ContrastiveClassifier
    from tensorcontrast.labelling import Labelling
    from tensorcontrast.labelling.prepare import Prepared
    from tensorcontrast.labelling.server import PageServer
    from tensorcontrast.recordings import Recordings

__all__ = ["label"]

PAGE = "Page"


def _option(*names: str, help: str, **more: Any) -> Any:
    return typer.Option(*names, help=help, rich_help_panel=PAGE, show_default=False, **more)


def label(
    session: Session,
    data: ManyData,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="PROJECT",
            help="Project file that keeps the labels (.tcl); default: named like DATA, here.",
            show_default=False,
        ),
    ] = None,
    model: Annotated[
        Path | None,
        _option(
            "--model",
            "-m",
            metavar="MODEL",
            help="Use the features of this model, and its answers at first; default: fit.",
            autocompletion=complete_files,
        ),
    ] = None,
    port: Annotated[
        int,
        _option("--port", metavar="N", help="Port of the page; default: any.", min=0, max=65535),
    ] = 0,
    no_browser: Annotated[
        bool, _option("--no-browser", help="Print the address, do not open it.")
    ] = False,
    who: Annotated[
        str | None, _option("--who", metavar="NAME", help="Who labels; default: the user.")
    ] = None,
    take: Annotated[
        list[Path] | None,
        _option(
            "--import",
            metavar="FILE",
            help="Take labels from a table (recording, start_s, end_s, label) or EDF+ annotations.",
        ),
    ] = None,
    give: Annotated[
        Path | None,
        _option(
            "--export",
            metavar="FILE",
            help="Write the labels as .csv, .edf or, of several recordings, .zip, and end.",
        ),
    ] = None,
    finish: Annotated[
        bool, _option("--finish", help="Write model and report as the page does, and end.")
    ] = False,
    rank: Annotated[
        int | None, _option("--rank", "-r", metavar="N", help="Number of features (32).", min=1)
    ] = None,
    seed: Annotated[int, _option("--seed", "-s", metavar="N", help="Seed (0).", min=0)] = 0,
    reading: recordings.Reading = recordings.Reading(),  # noqa: B008
    force: Force = False,
) -> None:
    """Label windows in a browser; the most informative windows come first.

    Opens a page that this machine alone can see. Every label is on disk before the page says so.
    The same command opens the project again. Finish on the page writes a model for predict, and a
    report.
    """
    from tensorcontrast.labelling import Labelling, Project
    from tensorcontrast.labelling.prepare import fingerprint
    from tensorcontrast.labelling.server import PageServer

    path = _project_path(data, output)
    if give is not None and give.suffix.lower() not in (".csv", ".edf", ".zip"):
        raise UsageFailure(f"--export {give}: labels are written as .csv, .edf or .zip")
    if give is not None:
        session.target(give, force=force)
    check_writable(path)
    fitted = _load(model)
    rec = _recordings(session, data, fitted, reading)
    command = _command(data, path, model, reading)
    known = fingerprint(rec)
    about = {
        "fingerprint": known,
        "n_windows": len(rec),
        "description": _description(rec),
        "command": command,
    }
    project = Project(path, about)
    try:
        with session.progress("features") as update:
            prepared = _prepared(rec, path, known, fitted, rank, seed, update)
        work = Labelling(
            rec,
            project,
            prepared,
            who=_user() if who is None else who,
            force=force,
            command=command,
            on_model=lambda made: _remembering(made, rec),
        )
        _first_labels(session, work, rec, take_own=reading.labels is not None, files=take or [])
        if give is not None or finish:
            _write(session, work, give, finish)
            return
        server = PageServer(work, port)
        work.start()
        try:
            _serve(session, server, work, no_browser)
        finally:
            work.stop()
        _tell(session, work)
    finally:
        project.close()


def _project_path(data: list[str], output: Path | None) -> Path:
    if output is None:
        stem = re.sub(r"[^\w.-]+", "_", Path(data[0]).stem or "labels").strip("._*")
        output = Path(f"{stem or 'labels'}.tcl")
    path = output.expanduser()
    if path.suffix != ".tcl":
        raise UsageFailure(f"{path}: a project file is named .tcl, such as {path.stem}.tcl")
    if path.is_dir():
        raise UsageFailure(f"{path} is a folder; name a file")
    return path


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return "unknown"


def _load(path: Path | None) -> Any:
    """Read the model of ``--model``: features, or a classifier of recordings."""
    if path is None:
        return None
    from tensorcontrast.classify import ContrastiveClassifier
    from tensorcontrast.cli.shared.models import load
    from tensorcontrast.io.model_files import load_model

    found = load_model(path.expanduser())
    return found if isinstance(found, ContrastiveClassifier) else load(path)


def _recordings(
    session: Session, data: list[str], fitted: Any, reading: recordings.Reading
) -> Recordings:
    from tensorcontrast.recordings import Recordings

    extractor = getattr(fitted, "extractor_", fitted)
    rec = read_all(session, data, reading, model=extractor)
    if not isinstance(rec, Recordings):
        raise UsageFailure(
            f"{data[0]} is a store; the page needs all windows in memory: name the recordings that "
            "the store was made of, or a part of them"
        )
    if rec.fs is None:
        session.note("no sampling rate: time and frequencies count in samples; pass --fs")
    if len(rec) < 2:
        raise InvalidInputError(
            f"{', '.join(data)}: one window alone; cut it into windows with --window S"
        )
    return rec


def _description(rec: Recordings) -> str:
    rate = "" if rec.fs is None else f" at {rec.fs:g} Hz"
    return (
        f"{rec.name or 'recordings'}: {len(rec):,} windows of {rec.n_channels} channels and "
        f"{rec.n_times} samples{rate}"
    )


def _command(data: list[str], path: Path, model: Path | None, reading: recordings.Reading) -> str:
    words = ["tensorcontrast", "label", *data, "-o", str(path), *reading.arguments()]
    if model is not None:
        words += ["--model", str(model)]
    return shlex.join(words)


def _prepared(
    rec: Recordings,
    path: Path,
    known: str,
    fitted: Any,
    rank: int | None,
    seed: int,
    update: Any,
) -> Prepared:
    """Features, rows, map and clusters, from the folder of the project where it has them."""
    from tensorcontrast.decompose import PLC
    from tensorcontrast.features import ContrastiveFeatures
    from tensorcontrast.labelling.prepare import cache_folder, prepare

    core = PLC() if rank is None else PLC(rank=rank)
    features = ContrastiveFeatures(decompose=core, random_state=seed)
    folder = cache_folder(path)
    return prepare(rec, folder, known=known, model=fitted, features=features, progress=update)


def _remembering(model: ContrastiveClassifier, rec: Recordings) -> ContrastiveClassifier:
    """Keep with the features the windows that they, or the classifier, were trained on."""
    from tensorcontrast.utils.estimators import with_learned

    now = fitted_on(rec, groups=True)
    before = getattr(model.extractor_, "fitted_on_", None) or {}
    now["groups"] = sorted({*before.get("groups", []), *now["groups"]})
    now["sketch"] = np.union1d(before.get("sketch", now["sketch"]), now["sketch"])
    return with_learned(model, extractor_=with_learned(model.extractor_, fitted_on_=now))


def _first_labels(
    session: Session, work: Labelling, rec: Recordings, *, take_own: bool, files: list[Path]
) -> None:
    """Offer the classes of DATA, and take labels that the command names."""
    project = work.project
    names = rec.classes or ()
    if not project.classes:
        for name in names:
            project.add_class(name, who="data")
    if take_own and rec.y is not None:
        known = [int(w) for w in np.flatnonzero(rec.y >= 0) if project.label_of(int(w)) is None]
        texts = names or tuple(map(str, range(rec.n_classes)))
        if known:
            labels = [texts[rec.y[w]] for w in known]
            project.label(known, labels, who="data", source="import", only_unlabelled=True)
            session.note(f"took {len(known):,} labels of DATA")
    for path in files:
        count = work.take(path.expanduser(), work.who)
        session.note(f"took {count:,} labels from {path}")


def _write(session: Session, work: Labelling, give: Path | None, finish: bool) -> None:
    """Write labels, or model and report, without a page."""
    from tensorcontrast.labelling.tables import export_csv, export_edf

    labels = work.names()
    written: list[Path] = []
    if give is not None:
        give = give.expanduser()
        if give.suffix.lower() == ".csv":
            content = export_csv(work.rec, labels)
        else:
            name, content = export_edf(work.rec, labels)
            if Path(name).suffix != give.suffix.lower():
                raise UsageFailure(
                    f"--export {give}: these labels are a {Path(name).suffix} file; EDF+ "
                    "annotations are of one recording, and those of several are a .zip"
                )
        with atomic_write(give) as stream:
            stream.write(content)
        written.append(give)
    if finish:
        written += work.write()
    session.result(
        {"project": str(work.project.path), "labels": len(labels), "files": written},
        facts({"labels": f"{len(labels):,}", "written": ", ".join(map(str, written))}),
        summary=True,
    )


def _serve(session: Session, server: PageServer, work: Labelling, no_browser: bool) -> None:
    """Run the page until Ctrl-C."""

    def ready() -> None:
        session.out.print(safe(f"The page is at {server.address}"), soft_wrap=True)
        session.note("Labels are saved as you give them. Ctrl-C stops the server.")
        if not no_browser:
            threading.Thread(target=webbrowser.open, args=(server.address,), daemon=True).start()

    try:
        server.run(ready)
    except KeyboardInterrupt:  # the way to stop it
        pass


def _tell(session: Session, work: Labelling) -> None:
    labels = len(work.project.labels())
    path = work.project.path
    session.result(
        {"project": str(path), "labels": labels, "files": [str(path)]},
        facts({"stopped": f"{labels:,} labels are in {path}", "go on": work.command}),
    )
