"""The command ``sdgar``.

Exit codes: 0 done, 1 a bug, 2 usage, 3 data, 4 saved model, 5 disk, memory, device or
network, 6 numbers that are not finite, 130 interrupted, 143 told to end.
"""

from __future__ import annotations

import json
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

import sdgar
from sdgar.cli import (
    compare,
    data,
    demo,
    doctor,
    evaluate,
    paper,
    recommend,
    similar,
    train,
    tune,
)
from sdgar.errors import SdgarError, StoppedError, UsageError

app = typer.Typer(
    name="sdgar",
    help="Recommendations from implicit feedback with learned negative sampling.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    epilog=(
        "Exit codes: 0 done · 1 a bug · 2 usage · 3 data · 4 saved model · "
        "5 disk, memory, device, network · 6 numbers not finite · 130 interrupted · 143 told to end"
    ),
)
app.command("demo")(demo.demo)
app.command("train")(train.train)
app.command("compare")(compare.compare)
app.command("tune")(tune.tune)
app.command("paper")(paper.paper)
app.command("evaluate")(evaluate.evaluate)
app.command("recommend")(recommend.recommend)
app.command("similar")(similar.similar)
app.add_typer(data.app, name="data")
app.command("doctor")(doctor.doctor)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"sdgar {sdgar.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
    modules: Annotated[
        list[str] | None,
        typer.Option(
            "--import",
            metavar="MODULE",
            help="Import a Python module of yours first, which registers parts; repeatable.",
        ),
    ] = None,
) -> None:
    if modules:  # last, so that no file here stands for a package that is installed
        sys.path.append(str(Path.cwd()))
    for name in modules or []:
        try:
            import_module(name)
        except ImportError as error:
            raise UsageError(
                f"--import {name}: {error}. Name a module as `import` does, of this folder or "
                "installed.",
                code="no_such_module",
            ) from error


def run() -> None:
    """Run the command line; an expected error is one message and its exit code."""
    try:
        app()
    except SdgarError as error:
        said = str(error) if isinstance(error, StoppedError) else f"error: {error}"
        typer.secho(said, err=True, fg="yellow" if isinstance(error, StoppedError) else "red")
        if "--json" in sys.argv:
            described = {"code": error.code, "message": str(error), "exit_code": error.exit_code}
            typer.echo(json.dumps({"error": described}))
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        typer.secho("interrupted", err=True)
        sys.exit(130)
    except BrokenPipeError:
        # The reader of a pipe has left; nothing more can be said to it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
