"""``fit`` through crashes: ``--checkpoint`` and ``--resume``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from tensorcontrast.cli.shared.failures import UsageFailure
from tensorcontrast.cli.shared.options import complete_files
from tensorcontrast.cli.shared.session import Session
from tensorcontrast.errors import FileError

__all__ = ["Checkpoint", "Keeping"]

PANEL = "Long fits"


@dataclass(frozen=True)
class Checkpoint:
    """The file of a fit, and how many iterations it holds already where these are used."""

    path: Path | None = None
    resume: bool = False
    done: int | None = None
    #: When the file was last written before this command; None where there was none.
    written: int | None = None

    @property
    def way_on(self) -> str:
        """What was kept of a fit that was stopped, and what to do then."""
        if self.path is None:
            return "nothing was kept: no model was written, and there was no --checkpoint"
        if not self.path.exists():
            return f"nothing was kept: no iteration was done, {self.path} was not written"
        if self.path.stat().st_mtime_ns == self.written:
            return f"{self.path} is as it was before this command; no model was written"
        from tensorcontrast.solvers.checkpoint import iterations, load

        return (
            f"{self.path} holds {iterations(load(self.path)['runs'])} iterations; the same command "
            "with --resume goes on from there"
        )


@dataclass(frozen=True)
class Keeping:
    """Options that keep the state of a fit in a file."""

    checkpoint: Annotated[
        Path | None,
        typer.Option(
            "--checkpoint",
            metavar="FILE",
            help="Keep the state of the fit here (-p every=N: each N iterations, 10).",
            rich_help_panel=PANEL,
            show_default=False,
            autocompletion=complete_files,
        ),
    ] = None
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Go on from the checkpoint where there is one, to the same model.",
            rich_help_panel=PANEL,
        ),
    ] = False

    def prepared(self, session: Session, configured: str | None, *, force: bool) -> Checkpoint:
        """Check the place of the checkpoint, and what is there, before any work.

        A checkpoint that is there is never lost for want of an option.
        """
        path = self.checkpoint or (None if configured is None else Path(configured))
        if path is None:
            if self.resume:
                raise UsageFailure("--resume goes on from the file that --checkpoint FILE names")
            return Checkpoint()
        path = session.target(path, force=True)
        if not path.exists():
            if self.resume:
                session.note(f"{path} is not there yet: the fit begins")
            return Checkpoint(path, self.resume)
        from tensorcontrast.solvers.checkpoint import check_place, iterations, load

        check_place(path)
        written = path.stat().st_mtime_ns
        if self.resume:
            done = iterations(load(path)["runs"])
            session.note(f"going on from {path}, after {done} iterations")
            return Checkpoint(path, True, done, written)
        if not force:
            raise FileError(
                f"{path} exists: pass --resume to go on from it, or --force to begin anew"
            )
        return Checkpoint(path, written=written)
