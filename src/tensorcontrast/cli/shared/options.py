"""Commands and their options: what all share is added to each, groups of options are expanded."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer
import typer.core

from tensorcontrast.cli.shared.session import Session

__all__ = ["DATASETS", "Force", "command", "complete_data", "complete_files"]

#: Names that stand for recordings in place of a file.
DATASETS = ("watch", "har", "sleep-edf", "ptb-xl", "synthetic")

OUTPUT = "Output"
#: Parameters that name what a command reads.
INPUTS = ("data", "model", "source", "skip", "labels", "annotations")

Force = Annotated[
    bool,
    typer.Option("--force", "-f", help="Overwrite what is there.", rich_help_panel=OUTPUT),
]

_SHARED: dict[str, Any] = {
    "as_json": Annotated[
        bool, typer.Option("--json", help="One JSON object on stdout.", rich_help_panel=OUTPUT)
    ],
    "quiet": Annotated[
        bool,
        typer.Option("--quiet", "-q", help="Only results and errors.", rich_help_panel=OUTPUT),
    ],
    "verbose": Annotated[
        bool, typer.Option("--verbose", "-v", help="More details.", rich_help_panel=OUTPUT)
    ],
    "debug": Annotated[
        bool,
        typer.Option("--debug", help="Errors with their traceback.", rich_help_panel=OUTPUT),
    ],
}


def command(
    app: typer.Typer, name: str, *examples: str, label: str | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register a function as a command.

    The function gets a :class:`Session` first. Options that all commands have are added, and a
    parameter whose type is a dataclass becomes one option for each of its fields.

    Parameters
    ----------
    app : typer.Typer
    name : str
    *examples : str
        Command lines for ``--help``.
    label : str, optional
        Name in the JSON output, where it is not ``name``.
    """

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        hints = get_type_hints(function, include_extras=True)
        groups: dict[str, Any] = {}
        parameters: list[inspect.Parameter] = []
        for parameter in list(inspect.signature(function).parameters.values())[1:]:
            kind = hints[parameter.name]
            if dataclasses.is_dataclass(kind):
                groups[parameter.name] = kind
                types = get_type_hints(kind, include_extras=True)
                for field in dataclasses.fields(kind):
                    parameters.append(_keyword(field.name, types[field.name], field.default))
            else:
                parameters.append(_keyword(parameter.name, kind, parameter.default))
        parameters += [_keyword(key, kind, False) for key, kind in _SHARED.items()]

        @functools.wraps(function)
        def run(**given: Any) -> None:
            session = Session(label or name, **{key: given.pop(key) for key in _SHARED})
            for key in INPUTS:
                value = given.get(key)
                several = value if isinstance(value, list | tuple) else [value]
                session.inputs += [str(one) for one in several if one is not None]
            with session.running():
                for key, group in groups.items():
                    fields = [field.name for field in dataclasses.fields(group)]
                    given[key] = group(**{field: given.pop(field) for field in fields})
                function(session, **given)

        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {p.name: p.annotation for p in parameters}
        lines = "\n\n".join(f"  [cyan]{example}[/cyan]" for example in examples)
        about = paragraphs(function.__doc__ or "")
        app.command(name, cls=Command, help=about, epilog=f"[dim]Examples[/dim]\n\n{lines}")(run)
        return function

    return decorate


def paragraphs(text: str) -> str:
    """Text whose lines are broken at empty lines only."""
    parts = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join(" ".join(part.split()) for part in parts)


def bare_flags(parameters: list[Any]) -> list[Any]:
    """Parameters of which ``--help`` shows no type where they take no value."""
    for parameter in parameters:
        if getattr(parameter, "is_flag", False) or parameter.name == "help":
            parameter.metavar = ""
    return parameters


class Command(typer.core.TyperCommand):
    """A command whose flags have no type in ``--help``."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters."""
        return bare_flags(super().get_params(ctx))


def _keyword(name: str, kind: Any, default: Any) -> inspect.Parameter:
    if default is dataclasses.MISSING:
        default = inspect.Parameter.empty
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)


def complete_files(incomplete: str) -> list[str]:
    """Files and folders that begin like this."""
    typed = Path(incomplete).expanduser()
    folder = typed if incomplete.endswith("/") else typed.parent
    begin = "" if incomplete.endswith("/") else typed.name
    shown = incomplete[: len(incomplete) - len(begin)]
    try:
        entries = sorted(folder.iterdir())
    except OSError:
        return []
    return [
        f"{shown}{entry.name}{'/' if entry.is_dir() else ''}"
        for entry in entries
        if entry.name.startswith(begin) and (begin.startswith(".") or entry.name[0] != ".")
    ]


def complete_data(incomplete: str) -> list[str]:
    """Built-in datasets and files that begin like this."""
    return [n for n in DATASETS if n.startswith(incomplete)] + complete_files(incomplete)


def complete_datasets(incomplete: str) -> list[str]:
    """Built-in datasets that begin like this."""
    return [n for n in DATASETS if n.startswith(incomplete) and n != "synthetic"]
