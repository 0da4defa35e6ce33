"""Options of a training that goes on from an earlier model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from sdgar.errors import UsageError

_OF_FROM = ("vanished", "replace_if")
"""The parameters that mean something only beside --from."""
_DECIDED = ("fast", "thorough", "discriminator", "sampler", "objective", "valid", "protocol")
"""The parameters that the earlier model has decided, or that going on has no use for."""

From = Annotated[
    Path | None,
    typer.Option(
        "--from",
        metavar="RUN",
        help="Go on from this model, with its system and settings: a few epochs instead of all.",
    ),
]
Vanished = Annotated[
    str,
    typer.Option(
        "--vanished",
        metavar="WHAT",
        help="With --from, keep rows that RUN has and the files lack (keep), or drop them with "
        "users and items that have no others (drop).",
    ),
]
ReplaceIf = Annotated[
    str,
    typer.Option(
        "--replace-if",
        metavar="WHEN",
        help="With --from, save the new model always, or if it is better or not-worse than RUN on "
        "the newest rows; else end with code 7 and change nothing.",
    ),
]


def require_from(given: Mapping[str, str]) -> None:
    """Refuse options that mean nothing where training begins anew."""
    for name in _OF_FROM:
        if name in given:
            raise UsageError(
                f"{given[name]} has a meaning only with --from RUN, the model that training goes "
                "on from.",
                code="unused_option",
            )


def require_further(given: Mapping[str, str], system: str, had: object) -> None:
    """Refuse what the earlier model has decided already, and another system than its own."""
    for name in _DECIDED:
        if name in given:
            raise UsageError(
                f"--from takes the system and its settings from RUN, and chooses no epochs: leave "
                f"{given[name]} out. --set changes a setting.",
                code="unused_option",
            )
    if "system" in given and system != had:
        raise UsageError(
            f"--from goes on with the system of RUN, which is {had}, and --system says {system}. "
            "Leave one of them out.",
            code="two_systems",
        )


def shared(given: Mapping[str, str], **options: Any) -> dict[str, Any]:
    """Return those options that were written out; RUN has the others."""
    return {name: value for name, value in options.items() if name in given}
