"""``tensorcontrast rank``: how many components recordings support."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tensorcontrast.cli.commands.components import PICTURES
from tensorcontrast.cli.commands.fit import choice
from tensorcontrast.cli.shared import data as recordings
from tensorcontrast.cli.shared.models import estimator, parameters
from tensorcontrast.cli.shared.options import Force, complete_data
from tensorcontrast.cli.shared.session import Session, UsageFailure, listing, safe
from tensorcontrast.cli.shared.stored import Cluster, open_data
from tensorcontrast.io.atomic import atomic_write

if TYPE_CHECKING:
    from tensorcontrast.evaluate.rank import RankCurve

METHODS = ("plc", "cpd", "atd")


def rank(
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
    ranks: Annotated[
        str, typer.Option("--ranks", metavar="N,M", help="Ranks to compare.")
    ] = "1,2,3,4,6,8,12,16,24,32",
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Draw the curves: .png, .svg or .pdf."),
    ] = None,
    method: Annotated[
        str,
        typer.Option(
            "--method",
            "-m",
            metavar="NAME",
            help="plc, cpd or atd.",
            autocompletion=choice(*METHODS),
        ),
    ] = "plc",
    seed: Annotated[int, typer.Option("--seed", "-s", metavar="N", min=0, help="Seed.")] = 0,
    param: Annotated[
        list[str] | None,
        typer.Option(
            "--param",
            "-p",
            metavar="KEY=VALUE",
            help="Any parameter of the method.",
            show_default=False,
        ),
    ] = None,
    starts: Annotated[
        int, typer.Option("--starts", metavar="N", min=1, help="Random starts of each fit.")
    ] = 3,
    splits: Annotated[
        int,
        typer.Option("--splits", metavar="N", min=1, help="Times that subjects are halved."),
    ] = 2,
    reading: recordings.Reading = recordings.Reading(),  # noqa: B008
    force: Force = False,
) -> None:
    """Compare ranks: BIC, core consistency, split halves and, with labels, accuracy.

    Recommends the largest rank, up to the one with the smallest BIC, whose components are found
    again in two halves of the subjects. Labels are used for the accuracy alone.
    """
    wanted = parse_ranks(ranks)
    if method not in METHODS:
        raise UsageFailure(f"--method {method!r}: use {', '.join(METHODS[:-1])} or {METHODS[-1]}")
    params = parameters(param)
    for name, option in (("rank", "--ranks"), ("random_state", "--seed")):
        if name in params:
            raise UsageFailure(f"-p {name}=: use {option}")
    target = None
    if output is not None:
        if output.suffix.lower() not in PICTURES:
            raise UsageFailure(f"-o {output.name}: pictures are {', '.join(PICTURES)}")
        target = session.target(output, force=force)
    if open_data(data, reading, Cluster()) is not None:
        raise UsageFailure(
            f"{data} is a store; rank fits many models in one process: name the recordings that "
            "the store was made of"
        )
    from tensorcontrast.evaluate.rank import rank_curve

    rec = recordings.read(session, data, reading)
    model = estimator(rec, method=method, seed=seed, params=params)
    with session.progress(f"{len(wanted)} ranks", total=len(wanted)) as update:
        curve = rank_curve(
            model,
            rec,
            wanted,
            n_init=starts,
            n_splits=splits,
            random_state=seed,
            progress=lambda done, total: update(done=done, total=total),
        )
    if target is not None:
        from tensorcontrast.report.diagnosis import plot_rank_curve

        with atomic_write(target) as stream:
            plot_rank_curve(curve).savefig(
                stream, format=target.suffix.lower().removeprefix("."), dpi=150
            )
    _tell(session, curve, rec.name, method, target)


def parse_ranks(text: str) -> list[int]:
    """Ranks such as ``2,4,8``."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and 1 <= int(part) <= 2**16 for part in parts):
        raise UsageFailure(f"--ranks {text!r} is not a list of ranks such as 2,4,8")
    return sorted({int(part) for part in parts})


def _tell(
    session: Session, curve: RankCurve, name: str | None, method: str, target: Path | None
) -> None:
    scored = any(p.accuracy is not None for p in curve.points)
    columns = ["rank", "BIC", "explained", "core consistency", "halves"]
    columns += ["accuracy"] if scored else []
    table = listing(*columns, numbers=tuple(columns))
    for p in curve.points:
        cells = [
            f"{p.rank}" + (" *" if p.rank == curve.recommended else ""),
            f"{p.bic:,.0f}",
            f"{p.explained:.1%}",
            _shown(p.core_consistency, ".0f"),
            _shown(p.split_similarity, ".2f"),
        ]
        if scored:
            sem = "" if p.accuracy_sem is None else f" ± {p.accuracy_sem:.3f}"
            cells.append(_shown(p.accuracy, ".3f") + sem)
        table.add_row(*cells)
    lines = [f"recommended rank: {curve.recommended}; {curve.reason}"]
    if curve.accuracy_rank is not None:
        lines.append(
            f"smallest rank within one standard error of the best accuracy: {curve.accuracy_rank}"
        )
    session.result(
        {
            "data": name,
            "method": method,
            **curve.to_dict(),
            "picture": None if target is None else str(target),
            "seconds": round(session.seconds, 3),
        },
        safe(f"{curve.n_windows:,} windows, halves by {curve.split_by}, {method}"),
        table,
        *map(safe, lines),
        *([safe(f"drawn in {target}")] if target is not None else []),
    )


def _shown(value: float | None, form: str) -> str:
    if value is None:
        return "–"
    return "< −100" if value < -100 else format(value, form)
