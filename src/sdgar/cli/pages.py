"""The pages that ``--help`` shows, written without Rich.

Typer draws them with Rich, whose import and tables alone take longer than all else that a help
page needs. Here nothing is drawn.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any

import typer
from typer.core import TyperCommand

WIDTH = 100
"""The most characters of a line; a narrower terminal has fewer."""
SETTINGS: Mapping[str, Any] = {
    "rich_markup_mode": None,
    "pretty_exceptions_enable": False,
    "context_settings": {"help_option_names": ["--help", "-h"], "max_content_width": WIDTH},
}
"""The settings of a group or command whose pages are written here."""


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
        shown = self.first_page and self.first_page | {"--help", "--help-all"}
        is_argument = parameter.param_type_name == "argument"
        return shown is None or is_argument or bool(shown & set(parameter.opts))

    def get_help_option(self, ctx: Any) -> Any:
        """Return the option --help, which writes the page by ``write_page``."""
        return with_page(super().get_help_option(ctx))

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write a list of parameters for each panel, arguments first."""
        write_options(ctx, formatter, filter(self.is_listed, self.get_params(ctx)))


def write_page(ctx: Any) -> None:
    """Write the page of a command to standard output, in letters that the stream has."""
    sys.stdout.write(ctx.get_help() + "\n")


def with_page(option: Any) -> Any:
    """Return the option --help so that it writes the page and ends the command."""

    def answer(ctx: Any, parameter: Any, wanted: bool) -> None:
        if wanted and not ctx.resilient_parsing:
            write_page(ctx)
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


def write_options(ctx: Any, formatter: Any, parameters: Iterable[Any]) -> None:
    """Write a list of parameters for each panel that they name, arguments first."""
    panels: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
    for parameter in parameters:
        record = parameter.get_help_record(ctx)
        if record is not None:
            is_argument = parameter.param_type_name == "argument"
            if is_argument:  # without the Python type that Typer adds
                record = (parameter.metavar, record[1])
            plain = "Arguments" if is_argument else "Options"
            panel = getattr(parameter, "rich_help_panel", None) or plain
            panels.setdefault(panel, []).append(record)
    for title, records in panels.items():
        write_panel(formatter, title, records)


def write_panel(formatter: Any, title: str, records: list[tuple[str, str]]) -> None:
    """Write a heading and a list of names and texts; nothing if the list is empty."""
    if records:
        with formatter.section(title):
            formatter.write_dl(records)
