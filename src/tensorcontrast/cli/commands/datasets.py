"""``tensorcontrast datasets``: which there are, what is known of them, getting them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tensorcontrast.cli.shared.options import complete_datasets
from tensorcontrast.cli.shared.session import Session, UsageFailure, facts, listing, safe

if TYPE_CHECKING:
    from tensorcontrast.datasets.registry import DatasetInfo

Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="watch, har, sleep-edf or ptb-xl.",
        autocompletion=complete_datasets,
        show_default=False,
    ),
]
Home = Annotated[
    Path | None,
    typer.Option(
        "--data-home", metavar="FOLDER", help="Where downloads are kept, if not in the cache."
    ),
]


def list_datasets(session: Session, data_home: Home = None) -> None:
    """List the built-in datasets and which of them are on this machine."""
    from tensorcontrast.datasets import info

    rows = [_row(entry, data_home) for entry in info()]
    table = listing("name", "here", "size", "what")
    for row in rows:
        here = "[green]yes[/green]" if row["path"] else "[dim]no[/dim]"
        table.add_row(row["name"], here, row["size"].partition(",")[0], row["title"])
    session.result({"datasets": rows}, table, "tensorcontrast datasets info NAME tells more.")


def about_dataset(session: Session, name: Name, data_home: Home = None) -> None:
    """Tell what is known of a dataset: contents, citation, licence, files, where it is."""
    entry = _entry(name)
    row = _row(entry, data_home)
    looked = [str(folder) for folder in _folders(name, data_home)]
    remote = [
        {"name": f.name, "url": f.url, "sha256": f.sha256, "verified_by": f.verified_by}
        for f in entry.files
    ]
    session.result(
        {**row, "citation": entry.citation, "url": entry.url, "files": remote, "looked_in": looked},
        facts(
            {
                "name": entry.name,
                "what": entry.title,
                "samples": entry.samples,
                "size": entry.size,
                "licence": entry.licence,
                "cite": entry.citation,
                "source": entry.url,
                "files": ", ".join(entry.place),
                "here": safe(row["path"] or "no; looked in " + ", ".join(looked)),
                "in Python": f"tensorcontrast.datasets.{entry.loader}()",
            }
        ),
    )


def fetch_dataset(
    session: Session,
    name: Name,
    subjects: Annotated[
        str | None,
        typer.Option(
            "--subjects", metavar="0,1", help="sleep-edf: only these subjects (50 MB a night)."
        ),
    ] = None,
    data_home: Home = None,
) -> None:
    """Get a dataset from its official source and check it by reading it.

    What is already here, with the right checksum, is not fetched again.
    """
    from tensorcontrast import datasets

    entry = _entry(name)
    options: dict[str, Any] = {"data_home": data_home}
    if subjects is not None:
        if name != "sleep-edf":
            raise UsageFailure(f"--subjects is for sleep-edf; {name} comes whole")
        try:
            options["subjects"] = [int(s) for s in subjects.split(",")]
        except ValueError:
            raise UsageFailure(f"--subjects {subjects!r}: write numbers, such as 0,1,2") from None
    if _row(entry, data_home)["path"] is None:
        session.note(f"fetching {entry.title} ({entry.size}; {entry.licence})")
    rec = getattr(datasets, entry.loader)(**options)
    path = _row(entry, data_home)["path"]
    session.result(
        {
            "name": name,
            "path": path,
            "samples": len(rec),
            "channels": rec.channels,
            "classes": rec.classes,
            "fs": rec.fs,
            "seconds": round(session.seconds, 3),
        },
        facts(
            {
                "here": safe(path),
                "holds": repr(rec).removeprefix("Recordings(").removesuffix(")"),
                "cite": entry.citation,
            }
        ),
        summary=True,
    )


def _entry(name: str) -> DatasetInfo:
    from tensorcontrast.datasets.registry import DATASETS

    if name not in DATASETS:
        raise UsageFailure(f"no dataset {name!r}; there are {', '.join(DATASETS)}")
    return DATASETS[name]


def _folders(name: str, home: Path | None) -> list[Path]:
    from tensorcontrast.datasets.registry import folders

    return folders(name, home)


def _row(entry: DatasetInfo, home: Path | None) -> dict[str, Any]:
    from tensorcontrast.datasets.registry import find_data

    path = find_data(entry.name, home)
    return {
        "name": entry.name,
        "title": entry.title,
        "samples": entry.samples,
        "size": entry.size,
        "licence": entry.licence,
        "path": None if path is None else str(path),
    }
