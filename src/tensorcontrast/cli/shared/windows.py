"""Windows of the command line: ``--window`` and ``--step``, or what a model was fitted on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tensorcontrast.cli.shared.failures import UsageFailure
from tensorcontrast.cli.shared.session import Session

if TYPE_CHECKING:
    from tensorcontrast.features import ContrastiveFeatures
    from tensorcontrast.recordings import Recordings

__all__ = ["Windows", "asked", "cut", "of_model", "tell"]


@dataclass(frozen=True)
class Windows:
    """Length and step of windows, each in seconds or in points."""

    length: float
    points: bool
    step: float | None
    step_points: bool

    def sizes(self, fs: float | None) -> tuple[int, float]:
        """Points of a window and share that neighbours have in common."""
        length = self._points("--window", self.length, self.points, fs)
        if self.step is None:
            return length, 0.0
        step = self._points("--step", self.step, self.step_points, fs)
        if step > length:
            raise UsageFailure(
                f"--step of {step} points is longer than --window of {length}; what lies between "
                "would be lost"
            )
        return length, 1.0 - step / length

    def for_reader(self) -> dict[str, Any] | None:
        """Options for readers that cut, whose rate is not known yet; None for mixed units."""
        if self.step is not None and self.points != self.step_points:
            return None
        length, overlap = self.length, 0.0
        if self.step is not None:
            if self.step > length:
                self.sizes(1.0)
            overlap = 1.0 - self.step / length
        return {"window" if self.points else "window_s": length, "overlap": overlap}

    @staticmethod
    def _points(option: str, value: float, points: bool, fs: float | None) -> int:
        if points:
            return int(value)
        if fs is None:
            raise UsageFailure(
                f"{option} is in seconds, but DATA does not say its rate; pass --fs, or points: "
                f"{option} 128pt"
            )
        return max(1, round(value * fs))


def _duration(option: str, text: str) -> tuple[float, bool]:
    """Return the number, and whether it counts points."""
    points = text.endswith("pt")
    number = text.removesuffix("pt").removesuffix("s").strip()
    try:
        value = float(number)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e9 or (points and value != int(value)):
        raise UsageFailure(
            f"{option} {text!r} is no length; write seconds, such as 2.5, or points, such as 128pt"
        )
    return value, points


def asked(window: str | None, step_text: str | None) -> Windows | None:
    """Windows of ``--window`` and ``--step``; None where there is no ``--window``."""
    if window is None:
        if step_text is not None:
            _duration("--step", step_text)
        return None
    length, points = _duration("--window", window)
    step, step_points = (None, False) if step_text is None else _duration("--step", step_text)
    return Windows(length, points, step, step_points)


def of_model(model: ContrastiveFeatures, step_text: str | None) -> Windows:
    """Windows as the model was fitted on, with the step asked for or that of its data."""
    length = int(model.n_times_in_)
    if step_text is not None:
        step, points = _duration("--step", step_text)
        return Windows(length, True, step, points)
    step_points = (model.fitted_on_ or {}).get("step")
    return Windows(length, True, step_points, True)


def cut(
    session: Session, rec: Recordings, windows: Windows, model: ContrastiveFeatures | None
) -> Recordings:
    """Cut signals into windows; for a model, only those that are longer than its windows."""
    from tensorcontrast.recordings import Recordings

    if model is not None and rec.n_times <= windows.length:
        return rec  # windows already, or too short, of which the model tells
    length, overlap = windows.sizes(rec.fs)
    if length == rec.n_times:
        return rec
    columns = {k: v for k, v in rec.columns.items() if k not in ("recording", "start")}
    new = Recordings.from_signals(
        list(rec.X),
        fs=rec.fs,
        window=length,
        overlap=overlap,
        labels=rec.y,
        groups=rec.groups,
        columns=columns,
        classes=rec.classes,
        channels=rec.channels,
        units=rec.units,
        name=rec.name,
        citation=rec.citation,
        licence=rec.licence,
        allow_nan=True,
    )
    source = new.columns["recording"]
    if "start" in rec.columns:  # windows of windows: count from the start of the signal
        new.columns["start"] = rec.columns["start"][source] + new.columns["start"]
    if "recording" in rec.columns:
        new.columns["recording"] = rec.columns["recording"][source]
    tell(session, len(rec), len(new), length, rec.fs)
    return new


def tell(session: Session, signals: int, windows: int, length: int, fs: float | None) -> None:
    """Note what was cut."""
    seconds = "" if fs is None else f" ({length / fs:.4g} s)"
    session.note(f"cut {signals} signals into {windows} windows of {length} points{seconds}")
