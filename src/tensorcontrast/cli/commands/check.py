"""``tensorcontrast check``: what recordings hold and what deserves a look, on one screen."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from tensorcontrast.cli.shared import data as recordings
from tensorcontrast.cli.shared.session import Code, Session, facts, listing, safe
from tensorcontrast.cli.shared.stored import ManyData, read_all
from tensorcontrast.errors import InvalidInputError

#: Rows of a table; the JSON object has all.
ROWS = 12


def check(
    session: Session,
    data: ManyData,
    model: Annotated[
        Path | None,
        typer.Option("--model", "-m", metavar="MODEL", help="Also compare with this model."),
    ] = None,
    reading: recordings.Reading = recordings.Reading(),  # noqa: B008
) -> None:
    """Show what recordings hold, and what deserves a look before they are used.

    Durations, starts, rates, channels and units; flat, clipped and humming channels, other scales,
    missing values and missing labels. With --model, DATA is read as the model needs it. The exit
    code is 4 where anything deserves a look.
    """
    fitted = None
    if model is not None:
        from tensorcontrast.cli.shared.models import load

        fitted = load(model)
    rec = read_all(session, data, reading, model=fitted, gaps=True)
    if not hasattr(rec, "X") or not hasattr(rec, "quality"):
        raise InvalidInputError(f"{data[0]} is a store; check the files that it was made of")
    found = rec.quality()
    files = _files(rec)
    names = rec.channels or tuple(str(c) for c in range(rec.n_channels))
    units = rec.units if isinstance(rec.units, tuple) else (rec.units,) * len(names)
    channels = [
        {
            "channel": name,
            "unit": unit or None,
            "spread": _number(found.spread[c]),
            "flat": int(found.constant[:, c].sum()),
            "clipped": int(found.clipped[:, c].sum()),
            "missing": int((found.non_finite[:, c] > 0).sum()),
            "hum": _number(found.hum[c]),
        }
        for c, (name, unit) in enumerate(zip(names, units, strict=True))
    ]
    rows: dict[str, object] = {
        "windows": f"{len(rec):,} of {rec.n_times} samples",
        "rate": "unknown" if rec.fs is None else f"{rec.fs:g} Hz",
        "classes": ", ".join(rec.classes or ()) or "none",
    }
    one = listing("recording", "start", "seconds", "windows", "labelled", numbers=("seconds",))
    for file in files[:ROWS]:
        one.add_row(*(safe("" if file[key] is None else file[key]) for key in file))
    two = listing(*channels[0], numbers=("spread", "flat", "clipped", "missing", "hum"))
    for channel in channels[:ROWS]:
        two.add_row(*(safe(_shown(value)) for value in channel.values()))
    looks = [safe(f"· {line}") for line in found.findings[:ROWS]] or [safe("nothing stands out")]
    session.result(
        {
            "windows": len(rec),
            "fs": rec.fs,
            "classes": list(rec.classes or ()),
            "recordings": files,
            "channels": channels,
            "findings": list(found.findings),
        },
        facts(rows),
        one,
        two,
        *looks,
    )
    if found.findings:
        session.exit_code = Code.DATA


def _files(rec: Any) -> list[dict[str, Any]]:
    """Start, seconds, windows and labels of each recording."""
    owner = rec.columns.get("recording", np.full(len(rec), rec.name or "recording"))
    starts = rec.columns.get("recording_start", np.full(len(rec), ""))
    out = []
    for name in dict.fromkeys(owner.tolist()):
        own = np.flatnonzero(owner == name)
        seconds = None
        if rec.fs is not None:
            first = rec.columns.get("start", np.arange(len(rec)) * rec.n_times)[own]
            seconds = round(float((first.max() - first.min() + rec.n_times) / rec.fs), 3)
        out.append(
            {
                "recording": str(name),
                "start": str(starts[own[0]]) or None,
                "seconds": seconds,
                "windows": len(own),
                "labelled": 0 if rec.y is None else int((rec.y[own] >= 0).sum()),
            }
        )
    return out


def _number(value: float) -> float | None:
    return float(f"{value:.4g}") if np.isfinite(value) else None


def _shown(value: Any) -> str:
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
