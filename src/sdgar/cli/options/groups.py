"""Options of a command that are the fields of dataclasses.

A parameter of a command whose type is a dataclass becomes one option for each field: the name of
the field is that of the option, its type says how the text is parsed, and the text under it is the
help.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from keyword import iskeyword
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Protocol, get_args, get_origin, get_type_hints

import typer

from sdgar.cli.options.values import bytes_of, number, words_of
from sdgar.cli.pages import show
from sdgar.data.read_options import ReadOptions
from sdgar.errors import UsageError, unknown_name
from sdgar.settings import settings_of


@dataclass(frozen=True, slots=True)
class As:
    """Metadata of a field that is not written as its name and type say."""

    flag: str | None = None
    """The option; by default the name of the field with dashes."""
    metavar: str | None = None
    """The word for the value in the help."""
    parse: Callable[[str], Any] | None = None
    """The function from the text to the value."""
    help: str | None = None
    """The help; by default the text under the field."""


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
        name: As(f"--{name}-column", "NAME")
        for name in ("user", "item", "time", "weight", "rating", "kind")
    },
    "min_rating": As(metavar="NUMBER", parse=_min_rating),
    "header_columns": As("--columns"),
    "delimiter": As(metavar="CHARACTER"),
    "max_uncompressed": As(metavar="BYTES", parse=bytes_of("--max-uncompressed")),
}
"""The options of reading that differ from their fields; the library does not use ``As``."""


class Only:
    """Metadata of a parameter: only these fields of its dataclass are options of the command."""

    def __init__(self, *fields: str) -> None:
        self.fields = fields


class Extension(Protocol):
    """An object that adds options to a command, as another package registers it."""

    options: ClassVar[type]
    """The dataclass of its options."""


@dataclass(frozen=True, slots=True)
class _Option:
    """An option that a field has become."""

    field: str
    flag: str
    panel: str | None
    metavar: str
    parse: Callable[[str], Any]
    several: bool
    is_flag: bool
    help: str

    @property
    def parameter(self) -> str:
        """The name of the parameter of the command, which is not a word that Python keeps."""
        name = self.flag.strip("-").replace("-", "_")
        return f"{name}_" if iskeyword(name) or name == "context" else name

    def signature(self) -> inspect.Parameter:
        """Return the parameter that Typer reads."""
        kind: Any = list[str] | None if self.several else str | None
        about: Any = typer.Option(
            self.flag,
            metavar=None if self.is_flag else self.metavar,
            help=self.help,
            rich_help_panel=self.panel,
        )
        return inspect.Parameter(
            self.parameter,
            inspect.Parameter.KEYWORD_ONLY,
            default=False if self.is_flag else None,
            annotation=Annotated[bool if self.is_flag else kind, about],
        )

    def value(self, written: Any) -> Any:
        """Return the value of the field for what is written on the command line."""
        if self.is_flag:
            return written
        return [self.parse(one) for one in written] if self.several else self.parse(written)


def options_of(group: type) -> list[_Option]:
    """Return the options that a dataclass stands for."""
    hints = get_type_hints(group, include_extras=True)
    written = _READING if group is ReadOptions else {}
    panel = "Columns" if group is ReadOptions else getattr(group, "panel", None)
    found = []
    for setting, field in zip(settings_of(group), fields(group), strict=True):
        kind, more = _unwrapped(hints[field.name])
        about = written.get(field.name) or next((m for m in more if isinstance(m, As)), As())
        flag = about.flag or f"--{field.name.replace('_', '-')}"
        parse, metavar = _by_type(flag, kind)
        is_unset = setting.default is None or setting.default is False
        shown = not is_unset and "default" not in setting.meaning
        usual = f"  [default: {_written(setting.default)}]" if shown else ""
        found.append(
            _Option(
                field=field.name,
                flag=flag,
                panel=panel,
                metavar=about.metavar or metavar,
                parse=about.parse or parse,
                several=get_origin(kind) is list,
                is_flag=kind is bool,
                help=(about.help or setting.meaning) + usual,
            )
        )
    return found


def _written(default: Any) -> str:
    return ",".join(default) if isinstance(default, tuple) else str(default)


def _unwrapped(hint: Any) -> tuple[Any, Sequence[Any]]:
    """Return a type without None and without metadata, and the metadata."""
    more: Sequence[Any] = ()
    if get_origin(hint) is Annotated:
        hint, *more = get_args(hint)
    choices = [kind for kind in get_args(hint) if kind is not type(None)]
    is_optional = type(None) in get_args(hint)
    return (choices[0] if is_optional else hint), more


def _by_type(flag: str, kind: Any) -> tuple[Callable[[str], Any], str]:
    """Return how the text of an option is parsed by the type of its field, and its word."""
    if get_origin(kind) is Literal:
        choices = get_args(kind)
        return functools.partial(_choice, flag, choices), "|".join(map(str, choices))
    if get_origin(kind) is tuple:
        return words_of, "A,B"
    if kind in (int, float):
        return number(flag, kind), "INTEGER" if kind is int else "NUMBER"
    return (Path, "FILE") if kind is Path else (str, flag.strip("-").upper())


def _choice(flag: str, choices: Sequence[str], text: str) -> str:
    if text not in choices:
        raise unknown_name(f"value of {flag}", text, choices)
    return text


def grouped_with(extensions: Sequence[Extension]) -> Callable[[Any], Callable[..., None]]:
    """Return ``grouped`` with the options of extensions.

    The command receives the record of each in ``extended``, by extension.
    """
    return functools.partial(grouped, extended_by=extensions)


def grouped(
    command: Callable[..., None], *, extended_by: Sequence[Extension] = ()
) -> Callable[..., None]:
    """Return a command with one option for each field of the dataclasses among its parameters."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[Any, Any] = {}
    all_options = {}
    for key, hint in (*hints.items(), *((one, one.options) for one in extended_by)):
        kind, more = _unwrapped(hint)
        if is_dataclass(kind):
            groups[key] = kind
            only = next((m.fields for m in more if isinstance(m, Only)), None)
            found = options_of(groups[key])
            all_options[key] = [one for one in found if only is None or one.field in only]

    @functools.wraps(command)
    def wrapper(**values: Any) -> None:
        records: dict[Any, Any] = {}
        for key, options in all_options.items():
            written = {one: values.pop(one.parameter) for one in options}
            given = {
                one.field: one.value(text) for one, text in written.items() if text is not None
            }
            records[key] = groups[key](**given)
        extended = {extension: records.pop(extension) for extension in extended_by}
        command(**values, **records, **({"extended": extended} if extended_by else {}))

    own = inspect.signature(command).parameters.values()
    parameters = []
    for parameter in own:
        if parameter.name in groups:
            parameters += [one.signature() for one in all_options[parameter.name]]
        elif parameter.name != "extended":
            keyword = inspect.Parameter.KEYWORD_ONLY
            parameters.append(parameter.replace(kind=keyword, annotation=hints[parameter.name]))
    for extension in extended_by:
        parameters += [one.signature() for one in all_options[extension]]
    wrapper.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    wrapper.__annotations__ = {p.name: p.annotation for p in parameters}
    return wrapper


def _show_all(ctx: typer.Context, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        ctx.command.first_page = None  # type: ignore[attr-defined]
        show(ctx)
        raise typer.Exit


_HelpAll = Annotated[
    bool,
    typer.Option(
        "--help-all",
        is_eager=True,
        callback=_show_all,
        help="Show all options and exit.",
    ),
]


def first_page(*flags: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Show only these options on the page of ``--help``; ``--help-all`` shows the others too."""

    def marked(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def wrapper(*, help_all: bool = False, **values: Any) -> None:
            command(**values)

        more = inspect.Parameter(
            "help_all", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=_HelpAll
        )
        own = inspect.signature(command).parameters.values()
        wrapper.__signature__ = inspect.Signature([*own, more])  # type: ignore[attr-defined]
        wrapper.__annotations__ = {**command.__annotations__, "help_all": _HelpAll}
        wrapper.first_page = frozenset(flags)  # type: ignore[attr-defined]
        return wrapper

    return marked


def given(context: typer.Context) -> dict[str, str]:
    """Return the options that were written out, as ``{"user_column": "--user-column"}``.

    An argument goes by the name of its parameter, and its word in the help.
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
