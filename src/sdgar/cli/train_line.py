"""The ``sdgar train`` command that a search or a comparison ends with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import typer

from sdgar.cli.commands import command_of
from sdgar.show.printed import command

_OWN = {"files", "system", "settings", "out", "overwrite", "as_json", "explain"}
"""Parameters of ``sdgar train`` that the line fills in by itself, or leaves out."""
_SETTINGS = {"engine": "engine", "device": "device", "metric": "early_stopping__metric"}
"""Parameters that some systems have no setting for, with the name of the setting."""


def train_line(context: typer.Context, system: str, settings: Mapping[str, Any]) -> str:
    """Return the command that trains with these settings, on the data of the command in context."""
    words: list[object] = ["sdgar", "train", *context.params["files"], "--system", system]
    heeded = _heeded(context, system)
    for parameter in context.command.params:
        name = str(parameter.name)
        source = context.get_parameter_source(name)
        if name not in heeded or source is None or source.name != "COMMANDLINE":
            continue
        value, option = context.params[name], parameter.opts[0]
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

    names = {str(parameter.name) for parameter in command_of("train").params} - _OWN
    has = SYSTEMS[system]().get_params()
    names -= {name for name, setting in _SETTINGS.items() if setting not in has}
    names -= {"valid", "metric"} if context.params.get("protocol") == "paper" else set()
    names -= {"split"} if is_several(context.params.get("split")) else set()
    return names
