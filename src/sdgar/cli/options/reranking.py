"""Options of the rules of the house: a file of them, facts of items, and dials."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sdgar.cli.options.training import number
from sdgar.errors import UsageError

if TYPE_CHECKING:
    from sdgar.recommend.rules import Reranking

_PANEL = "Rules"

RulesFile = Annotated[
    Path | None,
    typer.Option(
        "--rules",
        metavar="FILE",
        help="Re-rank lists by the rules in this TOML file.",
        rich_help_panel=_PANEL,
    ),
]
ItemFacts = Annotated[
    Path | None,
    typer.Option(
        "--item-facts",
        metavar="TABLE",
        help="Read what rules know of items from this table: the id, categories as a|b, and "
        "columns of other fields.",
        rich_help_panel=_PANEL,
    ),
]
DiversityDial = Annotated[
    float,
    typer.Option(
        "--diversity",
        parser=number("--diversity", float),
        metavar="FROM 0 TO 1",
        help="Let items that resemble earlier ones come later.",
        rich_help_panel=_PANEL,
    ),
]
PopularityDial = Annotated[
    float,
    typer.Option(
        "--popularity",
        parser=number("--popularity", float),
        metavar="FROM -1 TO 1",
        help="Prefer popular items, or rare ones if it is below 0.",
        rich_help_panel=_PANEL,
    ),
]
ExcludeCategory = Annotated[
    list[str] | None,
    typer.Option(
        "--exclude-category",
        help="Do not recommend items of this category; repeatable.",
        rich_help_panel=_PANEL,
    ),
]


def rules_of(
    path: Path | None,
    facts: Path | None,
    diversity: float,
    popularity: float,
    categories: list[str] | None,
    *,
    facts_for_metrics: bool = False,
) -> Reranking | None:
    """Return the rules and dials that were given; None if there are none."""
    if path is None and not (diversity or popularity or categories):
        if facts is not None and not facts_for_metrics:
            raise UsageError(
                "--item-facts goes with --rules, --diversity, --popularity or --exclude-category.",
                code="unused_option",
            )
        return None
    if categories and facts is None:
        raise UsageError(
            "--exclude-category needs --item-facts TABLE, which says the categories of items.",
            code="missing_option",
        )
    from sdgar.data.readers.tables import read_facts
    from sdgar.recommend.rules import Rules

    rules = Rules.none() if path is None else Rules.read(path)
    table = None if facts is None else read_facts(facts)
    return rules.using(
        table, diversity=diversity, popularity=popularity, exclude_categories=categories or ()
    )
