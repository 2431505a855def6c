"""``tensorcontrast bench``: data sets × methods × seeds × label budgets, as one run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from tensorcontrast.cli.commands.evaluate import parse_budgets
from tensorcontrast.cli.shared.failures import Code, UsageFailure
from tensorcontrast.cli.shared.options import complete_files
from tensorcontrast.cli.shared.session import Session, listing, safe
from tensorcontrast.errors import DataNotFoundError, InvalidInputError
from tensorcontrast.report.text import plain
from tensorcontrast.utils.names import listed

if TYPE_CHECKING:
    from tensorcontrast.evaluate.config import BenchConfig
    from tensorcontrast.evaluate.run import Run

__all__ = ["bench", "execute", "show_run"]

CHANGES = "Changes to the configuration"


def _complete(incomplete: str) -> list[str]:
    from tensorcontrast.evaluate.presets import PRESETS

    return [name for name in (*PRESETS, "claims") if name.startswith(incomplete)] + complete_files(
        incomplete
    )


def _change(*names: str, metavar: str, help: str, **more: Any) -> Any:
    return typer.Option(*names, metavar=metavar, help=help, rich_help_panel=CHANGES, **more)


def bench(
    session: Session,
    config: Annotated[
        str,
        typer.Argument(
            metavar="CONFIG",
            help="A TOML file, or a preset: table1, figures, accuracy, archive, demo, quick; "
            "or claims.",
            autocompletion=_complete,
            show_default=False,
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="RUN", help="Folder of the run (runs/NAME)."),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option("--jobs", "-j", metavar="N", help="Fits at a time; -1: all processors."),
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Delete what an earlier run left and start anew.")
    ] = False,
    report: Annotated[
        bool, typer.Option("--report/--no-report", help="Write RUN/report/report.html.")
    ] = True,
    datasets: Annotated[
        str | None,
        _change("--datasets", "--sets", metavar="A,B", help="Only these of its data sets."),
    ] = None,
    methods: Annotated[
        str | None, _change("--methods", metavar="A,B", help="Only these of its methods.")
    ] = None,
    seeds: Annotated[
        int | None, _change("--seeds", metavar="N", help="So many repeats.", min=1)
    ] = None,
    budgets: Annotated[
        str | None, _change("--budgets", "-b", metavar="N,P%", help="Label budgets.")
    ] = None,
    limit: Annotated[
        int | None, _change("--limit", metavar="N", help="At most N windows a data set.", min=1)
    ] = None,
    half: Annotated[
        str | None,
        _change("--half", metavar="HALF", help="archive: choosing, reporting or all."),
    ] = None,
    parts: Annotated[
        str | None,
        _change("--parts", metavar="A,B", help="claims: only these of its runs."),
    ] = None,
    page: Annotated[
        Path | None,
        _change("--page", metavar="FILE", help="claims: write the page here (RUN/paper.md)."),
    ] = None,
    results: Annotated[
        Path | None,
        _change(
            "--results", metavar="FILE", help="claims: write the page of this file; run nothing."
        ),
    ] = None,
    update: Annotated[
        Path | None,
        _change("--update", metavar="FILE", help="claims: put what is run here into this file."),
    ] = None,
    sets_folder: Annotated[
        Path | None,
        _change("--folder", metavar="DIR", help="archive: sets of this folder (.npz, .ts pairs)."),
    ] = None,
) -> None:
    """Run a benchmark: the paper's tables and figures, or your own recordings.

    What is in the folder already is not computed again, so that a stopped run goes on where it
    stopped.
    """
    if config != "claims" and (parts, page, results, update) != (None, None, None, None):
        raise UsageFailure("--parts, --page, --results and --update belong to bench claims")
    if results is not None and update is not None:
        raise UsageFailure(
            "--results runs nothing that --update could put into a file; leave one out"
        )
    if config == "claims":
        if methods is not None or budgets is not None or limit is not None:
            raise UsageFailure("claims has its own methods and budgets; --datasets may name some")
        bench_claims(
            session,
            output or Path("runs") / "claims",
            parts=None if parts is None else [name.strip() for name in parts.split(",")],
            seeds=seeds or 4,
            datasets=datasets,
            page=page,
            results=results,
            update=update,
            jobs=jobs,
            fresh=fresh,
        )
        return
    many = config == "archive"
    if not many and (half is not None or sets_folder is not None):
        raise UsageFailure("--half and --folder belong to the preset archive: bench archive")
    chosen = _archive(sets_folder, half or "all") if many else configuration(config)
    changes: dict[str, Any] = {}
    if datasets is not None or limit is not None:
        changes["datasets"] = _subset(chosen.datasets, datasets, "--datasets")
        for entry in changes["datasets"] if limit is not None else []:
            entry["limit"] = limit
    if methods is not None:
        changes["methods"] = _subset(chosen.methods, methods, "--methods")
    if seeds is not None:
        changes["seeds"] = seeds
    if budgets is not None:
        changes["budgets"] = parse_budgets(budgets)
    try:
        chosen = chosen.replace(**changes)
    except InvalidInputError as error:
        raise UsageFailure(str(error)) from error
    folder = output or Path("runs") / Path(config).stem
    if many:
        from tensorcontrast.evaluate.archive import require

        require(chosen.datasets)
    options = {"grow": True, "artefacts": False, "skip": sets_folder is not None} if many else {}
    run = execute(session, chosen, folder, jobs=jobs, fresh=fresh, **options)
    show_run(session, run, report=run.folder / "report" if report else None)


def bench_claims(
    session: Session,
    folder: Path,
    *,
    parts: list[str] | None,
    seeds: int,
    datasets: str | None,
    page: Path | None,
    results: Path | None,
    update: Path | None,
    jobs: int | None,
    fresh: bool,
) -> None:
    """Run what is missing behind the claims of the paper, and write the page of verdicts."""
    from tensorcontrast.evaluate.claims_file import (
        RESULTS,
        gather,
        merged,
        read_results,
        write_results,
    )
    from tensorcontrast.report.claims_page import write_claims

    failed = 0
    if results is None:
        before = None if update is None else read_results(update)  # before hours of work
        failed = _run_claims(session, folder, parts, seeds, datasets, jobs, fresh)
        found = gather(folder)
        results = update or folder / RESULTS
        write_results(found if before is None else merged(before, found), results)
    target = page or results.parent / "paper.md"
    rows = write_claims(read_results(results), target)
    if failed:
        session.exit_code = Code.PARTIAL
    table = listing("", "claim", "verdict", numbers=("",))
    for row in rows:
        table.add_row(str(row.number), safe(row.says, 60), row.verdict)
    session.result(
        {
            "run": str(folder),
            "results": str(results),
            "page": str(target),
            "failed": failed,
            "claims": [asdict(row) for row in rows],
            "seconds": round(session.seconds, 3),
        },
        table,
        safe(f"{session.seconds:.0f} s. The page: {target}"),
    )


def _run_claims(
    session: Session,
    folder: Path,
    parts: list[str] | None,
    seeds: int,
    datasets: str | None,
    jobs: int | None,
    fresh: bool,
) -> int:
    """Run what is missing behind the claims; gives the number of failed cells."""
    from tensorcontrast.evaluate.claims import PARTS, THEORY, claim_runs, require
    from tensorcontrast.evaluate.theory import measure

    try:
        runs = claim_runs(parts, seeds=seeds)
    except InvalidInputError as error:
        raise UsageFailure(str(error)) from error
    if datasets is not None:
        chosen = _subset([d for c in runs.values() for d in c.datasets], datasets, "--datasets")
        labels = {entry["label"] for entry in chosen}
        kept = {n: [d for d in c.datasets if d.label in labels] for n, c in runs.items()}
        runs = {n: c.model_copy(update={"datasets": tuple(kept[n])})
                for n, c in runs.items() if kept[n]}  # fmt: skip
    failed = 0
    for name, config in runs.items():
        require(config)
        session.note(f"{name}: {PARTS[name]}")
        run = execute(session, config, folder / name, jobs=jobs, fresh=fresh, grow=not fresh)
        failed += len(run.failed)
        for cell in run.failed[:3]:
            session.warn(f"{cell.method} on {cell.dataset}, seed {cell.seed}: {cell.message}")
    if parts is None or THEORY in parts:
        folder.mkdir(parents=True, exist_ok=True)
        with session.progress("propositions") as update:
            measure(folder / f"{THEORY}.json", lambda text: update(text=text))
    return failed


def _archive(folder: Path | None, half: str) -> BenchConfig:
    from tensorcontrast.evaluate.archive import HALVES, archive_config

    if half not in HALVES:
        raise UsageFailure(f"--half {half!r}: there are {', '.join(HALVES)}")
    return archive_config(folder, half=half)


def configuration(name: str) -> BenchConfig:
    """Read a configuration by the name of its preset or file."""
    from tensorcontrast.evaluate.config import load_config
    from tensorcontrast.evaluate.presets import PRESETS, preset

    if name in PRESETS:
        return preset(name)
    path = Path(name).expanduser()
    if not path.exists():
        from tensorcontrast.evaluate.toml_config import near

        text = f"no preset and no file {name!r}; presets: {near(name, PRESETS)}"
        raise DataNotFoundError(text) if path.suffix else UsageFailure(text)
    return load_config(path)


def _subset(entries: Sequence[Any], wanted: str | None, option: str) -> list[dict[str, Any]]:
    names = [name.strip().lower() for name in wanted.split(",")] if wanted else []
    known = [n.lower() for entry in entries for n in (entry.name, entry.label)]
    for name in names:
        if name not in known:
            there = listed(dict.fromkeys(entry.label for entry in entries))
            raise UsageFailure(f"{option}: the configuration has no {name!r}; it has {there}")
    return [
        entry.model_dump(mode="json")
        for entry in entries
        if not names or entry.name.lower() in names or entry.label.lower() in names
    ]


def execute(
    session: Session,
    config: BenchConfig,
    folder: Path,
    *,
    jobs: int | None,
    fresh: bool,
    **options: bool,
) -> Run:
    """Compute what is missing of a run, with a bar; ``options`` are those of the runner."""
    from tensorcontrast.evaluate.runner import Progress, run

    if jobs == 0:
        raise UsageFailure("--jobs 0 computes nothing; give a number, or -1 for all processors")
    with session.progress(config.title or "fits") as update:
        said = False

        def show(state: Progress) -> None:
            nonlocal said
            if state.done and not said and not state.text:
                there = "all" if state.done == state.total else f"{state.done} of {state.total}"
                session.note(f"{there} fits are in {folder} already; --fresh computes them anew")
            said = True
            failed = f", {state.failed} failed" if state.failed else ""
            last = f": {state.text}" if state.text else ""
            text = f"{state.done}/{state.total} fits{failed}{last}"
            update(done=state.done, total=state.total, text=text)

        return run(config, folder, n_jobs=jobs, progress=show, fresh=fresh, **options)


def show_run(session: Session, run: Run, *, report: Path | None) -> None:
    """Print the tables of a run, write its report to a folder, and say what failed."""
    from tensorcontrast.report.comparison import comparison_data, comparison_tables
    from tensorcontrast.report.tables import run_tables

    path = None
    if report is not None and run.ok:
        from tensorcontrast.report import write_report

        with session.progress("report"):
            path = write_report(run, report)
    tables = run_tables(run) if run.ok else []
    many = any(dataset.half is not None for dataset in run.config.datasets)
    comparisons = comparison_tables(run) if many else []
    shown: list[Any] = [table.rich() for table in comparisons]
    for table in () if many else tables:
        shown.append(table.rich())
        said = {f"{row.method}: {row.note}" for row in table.rows}  # in its footnotes
        shown += [Text(plain(note), style="dim") for note in table.notes if note not in said]
    fits = {(c.dataset, c.method, c.seed): c.message for c in run.failed}
    for (dataset, method, seed), message in list(fits.items())[:5]:
        session.warn(f"{method} on {dataset}, seed {seed}, failed: {message}")
    if len(fits) > 5:
        session.warn(f"{len(fits) - 5} further fits failed; {run.folder} has their messages")
    for problem in run.problems:
        session.warn(problem)
    if fits or run.problems:
        session.exit_code = Code.PARTIAL if run.ok else Code.FAILED
    place = path or run.folder
    session.result(
        {
            "run": str(run.folder),
            "complete": run.complete,
            "cells": len(run.ok),
            "failed": [
                {"dataset": d, "method": m, "seed": s, "message": text}
                for (d, m, s), text in fits.items()
            ],
            "problems": run.problems,
            "tables": [table.json() for table in tables],
            **({"comparison": comparison_data(run)} if many else {}),
            "report": None if path is None else str(path),
            "seconds": round(session.seconds, 3),
        },
        *shown,
        safe(f"{session.seconds:.0f} s. Look at {place}"),
    )
