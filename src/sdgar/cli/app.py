"""The commands of ``sdgar``, and what is said when one of them fails."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from sdgar._version import __version__
from sdgar.cli.commands import CommandGroup
from sdgar.cli.console import Screen, warnings_on
from sdgar.cli.pages import SETTINGS
from sdgar.errors import SdgarError, StoppedError, UsageError, did_you_mean, exhausted
from sdgar.show import progress
from sdgar.show.printed import command
from sdgar.storage.files import disk_error

app = typer.Typer(
    cls=CommandGroup,
    name="sdgar",
    help="Recommendations from implicit feedback with learned negative sampling.",
    epilog="Exit codes: 0 done · 1 a bug · 2 usage · 3 data · 4 saved model · 5 disk, memory, "
    "device, network · 6 numbers not finite · 7 model not replaced · 130 interrupted · "
    "143 terminated",
    **SETTINGS,
)


def _version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"sdgar {__version__}\n")
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
        _import(name)


def _import(name: str) -> None:
    """Import a module of the user's, in which anything can go wrong."""
    said = command("--import", name)
    cure = "Name a module as `import` does, of this folder or installed: parts, not ./parts.py."
    if not all(part.isidentifier() for part in name.split(".")):
        raise UsageError(f"{said} names no module. {cure}", code="no_such_module")
    try:
        import_module(name)
    except ModuleNotFoundError as error:
        raise UsageError(f"{said}: {error}. {cure}", code="no_such_module") from error
    except (Exception, SystemExit) as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        raise UsageError(
            f"{said}: the module ends with {type(error).__name__}: {error} "
            f"({where.filename}, line {where.lineno}). Correct it, or leave the option out.",
            code="module_fails",
        ) from error


def answer(interrupted: Callable[[], bool]) -> int:
    """Run the command, say what went wrong if anything did, and return the exit code."""
    screen = Screen(as_json="--json" in sys.argv)
    with warnings_on(screen), progress.silenced():
        try:
            code = int(app(prog_name="sdgar", standalone_mode=False) or 0)
            sys.stdout.flush()
            return code
        except SdgarError as error:
            return _fail(screen, error)
        except typer.TyperException as error:
            return _fail(screen, _usage(error))
        except typer.Abort:
            return 130
        except OSError as error:
            return _fail(screen, disk_error(error.filename or "a file", error))
        except Exception as error:
            if interrupted():
                raise
            known = exhausted(error)
            if known is not None:
                return _fail(screen, known)
            screen.failed(traceback.format_exc(), code="bug", exit_code=1)
            return 1


def _fail(screen: Screen, error: SdgarError) -> int:
    stopped = isinstance(error, StoppedError)
    said = str(error) if stopped else f"error: {error}"
    screen.failed(said, code=error.code, exit_code=error.exit_code, is_stop=stopped)
    return error.exit_code


def _usage(mistake: Any) -> UsageError:
    """Turn a mistake in the words of a command into an error of ours.

    An unknown option gets the nearest one that the command has, or where settings are written.
    """
    text = str(mistake.format_message()).rstrip(".")
    context = getattr(mistake, "ctx", None)
    command = "sdgar" if context is None else context.command_path
    wrong = getattr(mistake, "option_name", None)
    if wrong is not None and context is not None and "No such option" in text:
        known = [word for one in context.command.params for word in one.opts]
        near = did_you_mean(wrong, known, cutoff=0.75)
        if not near and "--set" in known:
            setting = wrong.strip("-").replace("-", "_")
            near = f" A setting of the system is written as --set {setting}=…"
        text = f"{command} has no option {wrong}.{near}".rstrip(".")
    return UsageError(
        f"{text}{'' if text.endswith('?') else '.'} See {command} --help.", code="usage"
    )
