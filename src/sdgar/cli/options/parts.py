"""Options that choose a system, or compose one of parts; their help comes from tables of names."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sdgar.errors import UsageError
from sdgar.systems.names import SYSTEMS
from sdgar.systems.part_names import DISCRIMINATORS, OBJECTIVES, SAMPLERS

_COMPOSE = "Learner"

System = Annotated[
    str, typer.Option("--system", help=f"What to train: {', '.join(SYSTEMS.entries)}.")
]
Discriminator = Annotated[
    str | None,
    typer.Option(
        "--discriminator",
        help=f"Compose a system, with this part that scores: {', '.join(DISCRIMINATORS)}.",
        rich_help_panel=_COMPOSE,
    ),
]
Sampler = Annotated[
    str | None,
    typer.Option(
        "--sampler",
        help=f"Compose a system, with this part that proposes negatives: {', '.join(SAMPLERS)}.",
        rich_help_panel=_COMPOSE,
    ),
]
Objective = Annotated[
    str | None,
    typer.Option(
        "--objective",
        help=f"Compose a system, with this loss: {', '.join(OBJECTIVES)}.",
        rich_help_panel=_COMPOSE,
    ),
]
UserFeatures = Annotated[
    Path | None,
    typer.Option(
        "--user-features",
        metavar="TABLE",
        help="Read features of users from this table: the id, then columns of features, a|b for "
        "several.",
        rich_help_panel=_COMPOSE,
    ),
]
ItemFeatures = Annotated[
    Path | None,
    typer.Option(
        "--item-features",
        metavar="TABLE",
        help="Read features of items from such a table: items without events are recommended by "
        "them, or --discriminator two-tower looks at both tables.",
        rich_help_panel=_COMPOSE,
    ),
]
FeatureKinds = Annotated[
    str | None,
    typer.Option(
        "--feature-kinds",
        metavar="COLUMN=KIND,…",
        help="Say what columns of --item-features are, as title=text,year=number: category, "
        "number, text or embedding.",
        rich_help_panel=_COMPOSE,
    ),
]


def kinds_of(said: str | None, table: Path | None) -> dict[str, str]:
    """Return the kind of each column of features that is named."""
    if said is None:
        return {}
    if table is None:
        raise UsageError("--feature-kinds goes with --item-features.", code="unused_option")
    found = {}
    for pair in said.split(","):
        column, equals, kind = pair.partition("=")
        if not column or not equals or not kind:
            raise UsageError(
                f"--feature-kinds takes COLUMN=KIND, as title=text,year=number; got {pair!r}.",
                code="bad_option",
            )
        found[column] = kind
    return found


def composed_of(system: str, *, is_named: bool, **parts: str | None) -> tuple[str, dict[str, str]]:
    """Return the system to train and the parts that were named; parts alone mean ``composed``."""
    named = {kind: name for kind, name in parts.items() if name is not None}
    if not named or system == "composed":
        return system, named
    if is_named:
        raise UsageError(
            f"--system {system} has its own parts. Leave it out to compose a system of "
            f"{', '.join('--' + kind for kind in named)}.",
            code="system_and_parts",
        )
    return "composed", named
