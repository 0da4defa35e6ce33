"""What ``sdgar compare`` and ``tune`` have in common: options, and the command to run next."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from sdgar.cli.commands import command_of
from sdgar.cli.options.shared import events
from sdgar.cli.options.training import METRIC_SETTING
from sdgar.cli.options.values import source
from sdgar.errors import UsageError
from sdgar.show.printed import command

_FILLED = {"files", "system", "settings", "set", "out", "overwrite", "as_json", "explain"}
"""Parameters of ``sdgar train`` that the printed command has anyway, or leaves out."""
_MOST_SEEDS = 10_000
_SETTINGS = {"engine": "engine", "device": "device", "metric": METRIC_SETTING}
"""Options that some systems have no setting for, with the name of the setting."""
SPLIT = (
    "Without --test, split rows off by: time (default with a time column), paper, leave-last-out, "
    "date:2024-03-01, users:0.1 (new users, folded in)"
)
"""The help of --split, without the rules that only one of the commands has."""

Train = Annotated[
    list[Any],
    typer.Argument(
        metavar="TRAIN",
        parser=source,
        help="Train on these files of events, or on a store: sqlite:///FILE.db, postgresql://…",
    ),
]
Valid = Annotated[list[Any] | None, events("--valid", "Choose epochs on these validation events.")]


def train_line(context: typer.Context, system: str, settings: Mapping[str, Any]) -> str:
    """Return the command that trains with these settings, on the data of the command in context."""
    words: list[object] = ["sdgar", "train", *context.params["files"], "--system", system]
    heeded = _heeded(context, system)
    for parameter in context.command.params:
        name = str(parameter.name)
        source = context.get_parameter_source(name)
        if name not in heeded or source is None or source.name != "COMMANDLINE":
            continue
        value, option = context.params[name], max(parameter.opts, key=len)
        if isinstance(value, bool):
            words += [option] * value
        else:
            several = value if isinstance(value, list | tuple) else [value]
            words += [word for one in several for word in (option, one)]
    for key, chosen in settings.items():
        words += ["--set", f"{key}={chosen}"]
    return command(*words, "--out", "RUN")


def _heeded(context: typer.Context, system: str) -> set[str]:
    """Name the parameters that ``sdgar train`` has too, and would not refuse here."""
    from sdgar.data.splits import is_several
    from sdgar.systems.names import SYSTEMS

    names = {str(parameter.name) for parameter in command_of("train").params} - _FILLED
    has = SYSTEMS[system]().get_params()
    names -= {name for name, setting in _SETTINGS.items() if setting not in has}
    names -= {"valid", "metric"} if context.params.get("protocol") == "paper" else set()
    names -= {"split"} if is_several(context.params.get("split")) else set()
    return names


def seeds_from(first: int, n: int) -> tuple[int, ...]:
    """Return n seeds, from ``first`` upwards."""
    if not 1 <= n <= _MOST_SEEDS:
        raise UsageError(
            f"--seeds must be at least 1, got {n}."
            if n < 1
            else f"--seeds must be at most {_MOST_SEEDS:,}, got {n:,}.",
            code="no_seeds",
        )
    return tuple(range(first, first + n))
