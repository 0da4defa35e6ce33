"""The screen of a command: lines, tables and bars for people, one JSON object for machines."""

from __future__ import annotations

import json
import math
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Literal

from sdgar.errors import SdgarWarning
from sdgar.show.printed import visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

_WIDE = 1 << 20
"""The width of a table, so large that nothing is cut; a narrow terminal breaks its lines."""
_LABEL = 8
"""The width of a label; the further lines of its text begin under the first."""
_COMMAND = "next"
"""The label of a command, which is copied as it is: its line is never broken."""


def _console(*, stderr: bool, width: int | None = None) -> Console:
    from rich.console import Console

    return Console(stderr=stderr, highlight=False, soft_wrap=width is None, width=width)


@contextmanager
def warnings_on(screen: Screen) -> Iterator[None]:
    """Show warnings of this package as lines, each sentence once."""
    said: set[str] = set()

    def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
        if not issubclass(category, SdgarWarning):
            before(message, category, *where, **more)
        elif str(message) not in said:
            said.add(str(message))
            screen.warn(str(message))

    with warnings.catch_warnings():
        before = warnings.showwarning
        warnings.simplefilter("always", SdgarWarning)
        warnings.showwarning = show
        yield


class Screen:
    """Lines for people on stdout; with ``--json`` on stderr, and the object alone on stdout.

    Whatever the text, people see it as it is: escapes stand for what has no shape, nothing is
    markup, and nothing is cut to the width of a screen. Long lines are broken between words.
    """

    def __init__(self, *, as_json: bool = False) -> None:
        self.as_json = as_json

    @cached_property
    def console(self) -> Console:
        """The console of Rich, which is imported with the first word to print."""
        return _console(stderr=self.as_json)

    def line(self, text: str, style: str = "none") -> None:
        """Print a line as it is."""
        from rich.text import Text

        self.console.print(Text(visible(text), style=style))

    def lines(self, text: str, *, further: int = 0) -> None:
        """Print a text as lines that fit the screen; those after the first begin further in."""
        for number, line in enumerate(_broken(text[further:], self.console.width - further)):
            self.line((text[:further] if number == 0 else " " * further) + line)

    def say(self, label: str, text: str, style: str = "") -> None:
        """Print a label and a text, whose further lines stand under its first."""
        from rich.text import Text

        head, shown = f"{label:<{_LABEL - 1}} ", visible(text)
        if label != _COMMAND:
            width = max(self.console.width - len(head), 2 * _LABEL)
            lines = _broken(shown, width) or [""]
            shown = f"\n{'':{_LABEL}}".join(lines)
        self.console.print(Text(head, style="bold cyan").append(shown, style=style or "none"))

    def warn(self, text: str) -> None:
        """Print a line that should not be missed."""
        self.say("warning", text, style="yellow")

    def failed(self, text: str, *, code: str, exit_code: int, is_stop: bool = False) -> None:
        """Print on stderr why a command ends without its result, and as JSON if requested."""
        from rich.text import Text

        console = _console(stderr=True)
        lines = list(map(visible, text.split("\n")))
        if console.is_terminal:  # elsewhere a message is one line, to be searched
            lines = [part for line in lines for part in _broken(line, console.width) or [""]]
        console.print(Text("\n".join(lines), style="yellow" if is_stop else "red"))
        message = text.removeprefix("error: ")
        self.result({"error": {"code": code, "message": message, "exit_code": exit_code}})

    def result(self, value: dict[str, Any]) -> None:
        """Print the JSON object, if it was requested."""
        if self.as_json:
            sys.stdout.write(json.dumps(value, allow_nan=False) + "\n")

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """Print a plain table; all columns but the first are numbers."""
        from rich import box
        from rich.table import Table
        from rich.text import Text

        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for i, name in enumerate(columns):
            justify: Literal["right", "left"] = "right" if i else "left"
            table.add_column(Text(visible(name)), justify=justify, no_wrap=True)
        for row in rows:
            table.add_row(*(Text(visible(_cell(value))) for value in row))
        _console(stderr=self.as_json, width=_WIDE).print(table)

    def bar(self) -> Progress:
        """Return the bar that moves while work continues; it is drawn on a terminal only."""
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
        )

        return Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[unit]}"),
            TimeElapsedColumn(),
            console=self.console,
            transient=True,
            disable=not self.console.is_terminal,
        )

    @contextmanager
    def counting(self, what: str, total: int) -> Iterator[Callable[[int], None]]:
        """Draw a bar for pieces of work; yield the function to call with how many more are done."""
        with self.bar() as bar:
            task = bar.add_task(what, total=total, unit="")
            yield lambda more: bar.advance(task, more)


def _cell(value: Any) -> str:
    """Return the text of a cell: counts with thousands, other numbers with four digits."""
    if value is None:
        return ""
    if isinstance(value, Integral):
        return f"{int(value):,}"
    if isinstance(value, Real):
        return "–" if math.isnan(value) else f"{float(value):.4f}"
    return str(value)


def _broken(text: str, width: int) -> list[str]:
    """Break a text between words into lines of that width; a longer word is one line."""
    return textwrap.wrap(
        text, width, break_long_words=False, break_on_hyphens=False, expand_tabs=False
    )
