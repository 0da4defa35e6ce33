"""The pages that ``--help`` shows, written without Rich.

Typer draws them with Rich, whose import and tables alone take longer than all else that a help
page needs. Here headings and names are bold on a terminal, and nothing else is drawn.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from sdgar.errors import unknown_name

WIDTH = 100
"""The widest a page becomes; a narrower terminal makes it narrower."""


def shown_as(**more: Any) -> dict[str, Any]:
    """Return the settings of a group or command whose pages are written here."""
    return {
        "rich_markup_mode": None,
        "pretty_exceptions_enable": False,
        "context_settings": {"help_option_names": ["--help", "-h"], "max_content_width": WIDTH},
        **more,
    }


class Command(TyperCommand):
    """A command whose options are listed in the panels that they name.

    If its function names the options of the first page, ``--help-all`` lists the others too.
    """

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.first_page: frozenset[str] | None = getattr(self.callback, "first_page", None)
        for parameter in self.params:
            if parameter.metavar is None:
                parameter.metavar = _metavar(parameter)

    def is_listed(self, parameter: Any) -> bool:
        """Return whether the page lists a parameter."""
        always = parameter.param_type_name == "argument" or parameter.opts[0].startswith("--help")
        return self.first_page is None or always or bool(self.first_page & set(parameter.opts))

    def get_help_option(self, ctx: Any) -> Any:
        """Return the option --help, which shows the page as ``show`` does."""
        return _showing(super().get_help_option(ctx))

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write a list of parameters for each panel, arguments first."""
        _write_panels(self, ctx, formatter, self.is_listed)


class Commands(TyperGroup):
    """A group of commands, each listed with its first sentence."""

    def get_help_option(self, ctx: Any) -> Any:
        """Return the option --help, which shows the page as ``show`` does."""
        return _showing(super().get_help_option(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """Take the options of the group; without any word the page is the answer."""
        if not args and not ctx.resilient_parsing:
            show(ctx)
            raise typer.Exit(2)
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command that is named first, or say which ones there are."""
        known = self.list_commands(ctx)
        if args[0] not in known and not ctx.resilient_parsing:
            raise unknown_name("command", args[0], known)
        return super().resolve_command(ctx, args)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the options of the group, and then its commands."""
        _write_panels(self, ctx, formatter, lambda parameter: True)
        panels: dict[str, list[tuple[str, str]]] = {}
        for name in self.list_commands(ctx):
            panels.setdefault(self.panel_of(ctx, name), []).append((name, self.line_of(ctx, name)))
        for title, lines in panels.items():
            _write_panel(formatter, title, lines)

    def line_of(self, ctx: Any, name: str) -> str:
        """Return the one line that says what a command does."""
        command = self.get_command(ctx, name)
        assert command is not None
        return (command.help or "").partition("\n\n")[0].replace("\n", " ")

    def panel_of(self, ctx: Any, name: str) -> str:
        """Return the heading that a command is listed under."""
        return "Commands"


def show(ctx: Any) -> None:
    """Write the page of a command to standard output, in letters that the stream has."""
    sys.stdout.write(ctx.get_help() + "\n")


def _showing(option: Any) -> Any:
    def answer(ctx: Any, parameter: Any, wanted: bool) -> None:
        if wanted and not ctx.resilient_parsing:
            show(ctx)
            raise typer.Exit

    if option is not None:
        option.callback = answer
    return option


def _metavar(parameter: Any) -> str | None:
    """Return the word for the value of a parameter, so that no Python type is shown."""
    if parameter.param_type_name == "argument":
        return str(parameter.name).upper()
    if parameter.is_flag or parameter.count:
        return None
    return str(parameter.opts[-1]).strip("-").upper()


def _write_panels(command: Any, ctx: Any, formatter: Any, is_listed: Callable[[Any], bool]) -> None:
    panels: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
    for parameter in filter(is_listed, command.get_params(ctx)):
        record = parameter.get_help_record(ctx)
        if record is not None:
            is_argument = parameter.param_type_name == "argument"
            if is_argument:  # without the Python type that Typer adds
                record = (parameter.metavar, record[1])
            plain = "Arguments" if is_argument else "Options"
            panel = getattr(parameter, "rich_help_panel", None) or plain
            panels.setdefault(panel, []).append(record)
    for title, records in panels.items():
        _write_panel(formatter, title, records)


def _write_panel(formatter: Any, title: str, records: list[tuple[str, str]]) -> None:
    if records:
        with formatter.section(_bold(title)):
            formatter.write_dl([(_bold(name), text) for name, text in records])


def _bold(text: str) -> str:
    """Return text that is bold on a terminal, and plain elsewhere."""
    plain = os.environ.get("NO_COLOR") or not sys.stdout.isatty()
    return text if plain else typer.style(text, bold=True)
