"""Options of a command: parameters of its function, and fields of dataclasses.

The name of a parameter or field is that of the option, and its type says how the text is parsed.
The help is in an ``Option``, or is the text under the field. A parameter whose type is a dataclass
becomes one option for each field. Annotations of Typer are left as they are.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from keyword import iskeyword
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import typer

from sdgar.cli.options.values import bytes_of, number
from sdgar.cli.pages import write_page
from sdgar.data.read_options import ReadOptions
from sdgar.errors import UsageError, unknown_name
from sdgar.settings import settings_of


@dataclass(frozen=True, slots=True)
class Option:
    """Metadata of a parameter or field that is an option, or an argument, of a command."""

    help: str | None = None
    """The help; by default the text under the field."""
    metavar: str | None = None
    """The word for the value in the help; by default that of the type."""
    flag: str | None = None
    """The option, after its short form if it has one; by default the name with dashes."""
    parse: Callable[[str], Any] | None = None
    """The function from the text to the value; by default that of the type."""
    is_argument: bool = False
    """Whether the value is an argument, which has no flag."""


def _min_rating(text: str) -> float | str | None:
    if text in ("none", "auto"):
        return None if text == "none" else text
    try:
        return float(text)
    except ValueError:
        raise UsageError(
            f"--min-rating must be a number or 'none', got {text!r}.", code="bad_min_rating"
        ) from None


_READING = {
    **{
        name: Option(flag=f"--{name}-column", metavar="NAME")
        for name in ("user", "item", "time", "weight", "rating", "kind")
    },
    "min_rating": Option(metavar="NUMBER", parse=_min_rating),
    "header_columns": Option(flag="--columns"),
    "delimiter": Option(metavar="CHARACTER"),
    "max_uncompressed": Option(metavar="BYTES", parse=bytes_of("--max-uncompressed")),
}
"""The options of reading that differ from their fields; the library does not use ``Option``."""


@dataclass(frozen=True, slots=True)
class Declared:
    """An option that a parameter or a field has become."""

    source: str
    """The name of the parameter or field."""
    flag: str
    """The option in its long form."""
    parameter: inspect.Parameter
    """The parameter that Typer reads: a text, or None unless the option is written out."""
    parse: Callable[[Any], Any]
    """The function from what Typer has read to the value."""

    @property
    def name(self) -> str:
        """The name that Typer has for the option."""
        return self.parameter.name


def _declare(
    source: str, hint: Any, default: Any, meaning: str, option: Option, panel: str | None = None
) -> Declared:
    """Return the option that stands for a value of this type and default."""
    kind = _unwrapped(hint)[0]
    flags = (option.flag or f"--{source.replace('_', '-')}").split()
    if kind is bool and default is True:
        flags[-1] += f"/--no-{flags[-1].strip('-')}"
    several = get_origin(kind) is list
    parse, metavar = _by_type(flags[-1], get_args(kind)[0] if several else kind)
    parse = option.parse or parse
    help, required = option.help or meaning, default is inspect.Parameter.empty
    is_shown = not required and default is not None and kind is not bool
    if is_shown and "default" not in help:
        help += f"  [default: {_written(default)}]"
    about: dict[str, Any] = {"help": help, "rich_help_panel": panel}
    if kind is not bool:
        about["metavar"] = option.metavar or metavar
    long = flags[-1].partition("/")[0]
    name = source if option.is_argument else long.strip("-").replace("-", "_")
    shown = typer.Argument(**about) if option.is_argument else typer.Option(*flags, **about)
    typed: Any = bool if kind is bool else list[str] if several else str
    return Declared(
        source,
        long,
        inspect.Parameter(
            f"{name}_" if iskeyword(name) or name == "context" else name,
            inspect.Parameter.KEYWORD_ONLY,
            default=default if required or kind is bool else None,
            annotation=Annotated[typed if required or kind is bool else typed | None, shown],
        ),
        (lambda texts: list(map(parse, texts))) if several else parse,
    )


def options_of(record: Any) -> list[Declared]:
    """Return the options that a dataclass stands for."""
    hints = get_type_hints(record, include_extras=True)
    reading = _READING if record is ReadOptions else {}
    panels = {
        name: "Columns" if base is ReadOptions else getattr(base, "panel", None)
        for base in reversed(record.__mro__)
        for name in inspect.get_annotations(base)
    }
    return [
        _declare(
            field.name, hints[field.name], setting.default, setting.meaning,
            reading.get(field.name) or _metadata(hints[field.name]) or Option(),
            panels[field.name],
        )
        for setting, field in zip(settings_of(record), fields(record), strict=True)
    ]  # fmt: skip


def _metadata(hint: Any) -> Option | None:
    return next((one for one in _unwrapped(hint)[1] if isinstance(one, Option)), None)


def _written(default: Any) -> str:
    return ",".join(map(str, default)) if isinstance(default, tuple) else str(default)


def _unwrapped(hint: Any) -> tuple[Any, Sequence[Any]]:
    """Return a type without None and without metadata, and the metadata."""
    more: Sequence[Any] = ()
    if get_origin(hint) is Annotated:
        hint, *more = get_args(hint)
    choices = [kind for kind in get_args(hint) if kind is not type(None)]
    is_optional = type(None) in get_args(hint)
    return (choices[0] if is_optional else hint), more


def _by_type(flag: str, kind: Any) -> tuple[Callable[[Any], Any], str]:
    """Return how the text of an option is parsed by its type, and the word for it."""
    if get_origin(kind) is Literal:
        choices = get_args(kind)
        return functools.partial(_choice, flag, choices), "|".join(map(str, choices))
    if get_origin(kind) is tuple:
        return lambda text: tuple(text.split(",")), "A,B"
    if kind in (int, float):
        return number(flag, kind), "INTEGER" if kind is int else "NUMBER"
    if kind is bool:
        return bool, ""
    return (Path, "FILE") if kind is Path else (str, flag.strip("-").upper())


def _choice(flag: str, choices: Sequence[str], text: str) -> str:
    if text not in choices:
        raise unknown_name(f"value of {flag}", text, choices)
    return text


def _show_all(ctx: typer.Context, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        ctx.command.first_page = None  # type: ignore[attr-defined]
        write_page(ctx)
        raise typer.Exit


_HELP_ALL = inspect.Parameter(
    "help_all",
    inspect.Parameter.KEYWORD_ONLY,
    default=False,
    annotation=Annotated[
        bool,
        typer.Option(
            "--help-all", is_eager=True, callback=_show_all, help="Show all options and exit."
        ),
    ],
)

Function = Callable[..., None]


def _taken(values: dict[str, Any], declared: Iterable[Declared]) -> dict[str, Any]:
    """Take the values of options from all values; options that are not written out have none."""
    taken = [(one, values.pop(one.name)) for one in declared]
    return {one.source: one.parse(value) for one, value in taken if value is not None}


def first_page(*flags: str) -> Callable[[Function], Function]:
    """Show only these options on the page of ``--help``; ``--help-all`` shows the others too."""

    def mark(function: Function) -> Function:
        function.first_page = frozenset(flags)  # type: ignore[attr-defined]
        return function

    return mark


def command_from(function: Function, extensions: Sequence[Any] = ()) -> Function:
    """Return the function that Typer makes a command of, with one parameter for each option.

    An extension has a dataclass ``options``; the function receives a record of each, by extension,
    as ``extended``. A tuple in the annotation of a dataclass names the fields that are options of
    this command.
    """
    hints = get_type_hints(function, include_extras=True)
    single: dict[str, Declared] = {}
    records: dict[Any, tuple[Any, list[Declared]]] = {}
    parameters = []
    for name, own in inspect.signature(function).parameters.items():
        kind: Any
        (kind, more), option = _unwrapped(hints[name]), _metadata(hints[name])
        if name == "extended":
            continue
        if is_dataclass(kind):
            only = next((one for one in more if isinstance(one, tuple)), None)
            declared = [one for one in options_of(kind) if only is None or one.source in only]
            records[name] = kind, declared
            parameters += [one.parameter for one in declared]
        elif option is not None:
            single[name] = _declare(name, hints[name], own.default, "", option)
            parameters.append(single[name].parameter)
        else:
            keyword = inspect.Parameter.KEYWORD_ONLY
            parameters.append(own.replace(kind=keyword, annotation=hints[name]))
    for extension in extensions:
        records[extension] = extension.options, options_of(extension.options)
        parameters += [one.parameter for one in records[extension][1]]
    if hasattr(function, "first_page"):
        parameters.append(_HELP_ALL)

    @functools.wraps(function)
    def wrapper(*, help_all: bool = False, **values: Any) -> None:
        made = {key: kind(**_taken(values, options)) for key, (kind, options) in records.items()}
        if "extended" in hints:
            values["extended"] = {extension: made.pop(extension) for extension in extensions}
        function(**_taken(values, single.values()), **values, **made)

    wrapper.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    wrapper.__annotations__ = {one.name: one.annotation for one in parameters}
    return wrapper


def written_out(context: typer.Context) -> dict[str, str]:
    """Return the options that were written out, as ``{"user_column": "--user-column"}``.

    An argument has the name of its parameter, and its word in the help.
    """
    found = {}
    for parameter in context.command.params:
        source = context.get_parameter_source(str(parameter.name))
        if source is None or source.name != "COMMANDLINE":
            continue
        flag = max(parameter.opts, key=len)
        if flag.startswith("-"):
            found[flag.strip("-").replace("-", "_")] = flag
        else:
            found[str(parameter.name)] = str(parameter.metavar or parameter.name)
    return found
