"""The command ``tensorcontrast``: its commands, and what happens when it is called wrongly."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer
import typer.core
from rich.console import Console
from rich.text import Text

from tensorcontrast.cli.commands.check import check
from tensorcontrast.cli.commands.components import components
from tensorcontrast.cli.commands.convert import convert
from tensorcontrast.cli.commands.datasets import about_dataset, fetch_dataset, list_datasets
from tensorcontrast.cli.commands.demo import demo
from tensorcontrast.cli.commands.evaluate import evaluate
from tensorcontrast.cli.commands.export import export
from tensorcontrast.cli.commands.fit import fit
from tensorcontrast.cli.commands.label import label
from tensorcontrast.cli.commands.predict import predict
from tensorcontrast.cli.commands.rank import rank
from tensorcontrast.cli.commands.report import report
from tensorcontrast.cli.commands.suggest import suggest
from tensorcontrast.cli.commands.train import train
from tensorcontrast.cli.commands.transform import transform
from tensorcontrast.cli.shared.options import bare_flags, command, paragraphs
from tensorcontrast.cli.shared.session import EXIT_CODES, Code, code_of, listen_to_sigterm
from tensorcontrast.report.text import plain

__all__ = ["app", "main"]

#: Base of all errors of a wrong call, in whichever place this version of typer has it.
_CallError: Any = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException")


class Group(typer.core.TyperGroup):
    """Commands whose wrong calls end in one line like all other errors."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters."""
        return bare_flags(super().get_params(ctx))

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run the command line; ends the process unless ``standalone_mode`` is false."""
        try:
            code = super().main(
                args,
                prog_name,
                complete_var,
                standalone_mode=False,
                windows_expand_args=windows_expand_args,
                **extra,
            )
        except _CallError as error:
            code = _tell(error)
        except typer.Abort:
            code = code_of(KeyboardInterrupt())
        if standalone_mode:
            sys.exit(int(code or 0))
        return code


def _tell(error: Any) -> int:
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":
        if error.format_message():  # with rich, typer has printed it already
            typer.echo(error.format_message(), err=True)
        return Code.USAGE
    path = context.command_path if context is not None else "tensorcontrast"
    console = Console(stderr=True, highlight=False)
    message = plain(error.format_message().rstrip("."))
    text = Text.assemble(("error: ", "bold red"), f"{message}; {path} --help tells how")
    console.print(text, soft_wrap=not console.is_terminal)
    return Code.USAGE


app = typer.Typer(
    name="tensorcontrast",
    cls=Group,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=EXIT_CODES,
)


def _version(wanted: bool) -> None:
    if wanted:
        from tensorcontrast.version import __version__

        typer.echo(f"tensorcontrast {__version__}")
        raise typer.Exit()


def _program(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Features of multichannel time series, learned without labels.

    Fit a model, turn recordings into features, evaluate them with few labels; or label windows,
    train a classifier and get answers.
    """


app.callback(help=paragraphs(_program.__doc__ or ""))(_program)


command(
    app,
    "fit",
    "tensorcontrast fit watch -o model.tcm",
    "tensorcontrast fit night.edf --window 30 --channels 'EEG Fpz-Cz,EEG Pz-Oz' -o model.tcm",
    "tensorcontrast fit windows.csv --fs 50 --rank 16 -m atd -o model.tcm",
    "tensorcontrast fit data.zarr --scheduler tcp://host:8786 -o model.tcm",
    "tensorcontrast fit data.zarr --checkpoint part.tcm --resume -o model.tcm",
)(fit)
command(
    app,
    "convert",
    "tensorcontrast convert nights/ --window 30 -o nights.zarr",
    "tensorcontrast fit nights.zarr --workers 4 -o model.tcm",
)(convert)
command(
    app,
    "transform",
    "tensorcontrast transform model.tcm watch -o features.csv",
    "tensorcontrast transform model.tcm night.edf --step 15 -o features.parquet",
    "tensorcontrast transform model.tcm nights.zarr --workers 4 -o features.zarr",
)(transform)
command(
    app,
    "evaluate",
    "tensorcontrast evaluate model.tcm watch --budgets 10,30,100%",
    "tensorcontrast evaluate model.tcm windows.csv --fs 50 --labels activity --groups person",
    "tensorcontrast evaluate model.tcm nights.zarr --workers 4",
    "tensorcontrast evaluate trained.tcm --train day1.csv --test day2.csv -o page.html",
)(evaluate)
command(
    app,
    "label",
    "tensorcontrast label watch",
    "tensorcontrast label 'nights/*.edf' --window 30 -o nights.tcl",
    "tensorcontrast label nights --model model.tcm --import labels.csv -o nights.tcl",
    "tensorcontrast label watch -o watch.tcl --export labels.csv",
)(label)
command(
    app,
    "check",
    "tensorcontrast check 'data/*.csv' --window 5",
    "tensorcontrast check night.edf --model model.tcm --json",
)(check)
command(
    app,
    "train",
    "tensorcontrast train watch -o model.tcm",
    "tensorcontrast train 'data/*.csv' --window 5 --labels labels.csv -o model.tcm",
    "tensorcontrast train nights --labels 'Sleep stage (?P<label>.*)' --window 30 -o model.tcm",
)(train)
command(
    app,
    "predict",
    "tensorcontrast predict model.tcm tomorrow.csv -o answers.csv --plot timeline.png",
    "tensorcontrast predict model.tcm night.edf --smooth -o night-answers.edf",
    "tensorcontrast predict model.tcm watch --merge --abstain 0.6 -o answers.json",
)(predict)
command(
    app,
    "suggest",
    "tensorcontrast suggest model.tcm 'data/*.csv' -n 20 -o to-label.csv",
    "tensorcontrast suggest model.tcm 'data/*.csv' --labels labels.csv -o to-label.csv",
)(suggest)
command(
    app,
    "components",
    "tensorcontrast components model.tcm -o components.png",
    "tensorcontrast components model.tcm --data watch -n 10",
)(components)
command(
    app,
    "export",
    "tensorcontrast export model.tcm -o model.onnx",
    "tensorcontrast export trained.tcm --data watch -o trained.onnx --json",
)(export)
command(
    app,
    "rank",
    "tensorcontrast rank watch -o rank.png",
    "tensorcontrast rank windows.csv --fs 50 --groups person --ranks 2,4,8,16",
)(rank)
command(
    app,
    "report",
    "tensorcontrast report model.tcm --data watch -o report.html",
    "tensorcontrast report model.tcm --data nights.zarr --no-diagnose",
)(report)
command(app, "demo", "tensorcontrast demo", "tensorcontrast demo -o here --fresh")(demo)

datasets = typer.Typer(
    cls=Group,
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="List, describe and fetch public datasets.",
)
app.add_typer(datasets, name="datasets")
command(datasets, "list", "tensorcontrast datasets list --json", label="datasets list")(
    list_datasets
)
command(datasets, "info", "tensorcontrast datasets info har", label="datasets info")(about_dataset)
command(
    datasets,
    "fetch",
    "tensorcontrast datasets fetch har",
    "tensorcontrast datasets fetch sleep-edf --subjects 0,1",
    label="datasets fetch",
)(fetch_dataset)


def main() -> None:
    """Run the command line."""
    listen_to_sigterm()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # no encoding of a terminal stops a command
            stream.reconfigure(errors="backslashreplace")
    app(prog_name="tensorcontrast")
