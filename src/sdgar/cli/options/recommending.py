"""Options of commands that rank items: rules, metrics by name and groups, and TREC files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from sdgar.cli.options.groups import As
from sdgar.cli.options.values import new_file, source
from sdgar.errors import UsageError

if TYPE_CHECKING:
    from sdgar.recommend.rules import Reranking


@dataclass(frozen=True, kw_only=True)
class QueryOptions:
    """The users that get recommendations."""

    user: Annotated[list[str] | None, As(metavar="ID")] = None
    """Recommend to this user; repeatable."""
    users: Path | None = None
    """Recommend to the users in this file: .txt with one a line, or a table with a column."""
    all: bool = False
    """Recommend to all users of the model."""
    sample: Annotated[int | None, As(metavar="N")] = None
    """Recommend to N users of the model, drawn at random and always the same."""
    context: Annotated[list[str] | None, As(metavar="FIELD=VALUE")] = None
    """Set another field of the context, such as daypart=evening; repeatable."""
    history: Annotated[list[str] | None, As(metavar="ITEM,ITEM,…")] = None
    """Recommend to a new user with these items, as a,b,c; repeatable."""
    histories: Annotated[list[Any] | None, As(metavar="FILE", parse=source)] = None
    """Recommend to the new users whose events this file has, as `sdgar train` reads them;
    repeatable."""

    def require_one(self) -> None:
        """Refuse several ways to name users, and none."""
        ways = (
            self.user, self.users, self.all, self.sample is not None, self.history, self.histories,
        )  # fmt: skip
        if sum(map(bool, ways)) != 1:
            raise UsageError(
                "say one of --user ID (repeatable), --users FILE, --all, --sample N, --history "
                "ITEM,ITEM,… (repeatable) or --histories FILE.",
                code="which_users",
            )


@dataclass(frozen=True, kw_only=True)
class FilterOptions:
    """The items that are recommended."""

    allow: Annotated[list[str] | None, As(metavar="ITEM")] = None
    """Recommend only this item; repeatable."""
    exclude: Annotated[list[str] | None, As(metavar="ITEM")] = None
    """Do not recommend this item; repeatable."""
    include_seen: bool = False
    """Recommend also items that the user has already."""
    fallback: Annotated[str, As(metavar="popular|skip|error")] = "popular"
    """What unknown users get: the most popular items (popular), nothing (skip) or an error."""
    why: bool = False
    """Name the item of the history that contributes most to each score."""


@dataclass(frozen=True, kw_only=True)
class RuleOptions:
    """Rules that re-rank recommendations."""

    panel: ClassVar[str] = "Rules"

    rules: Path | None = None
    """Re-rank recommendations by the rules in this TOML file."""
    item_facts: Annotated[Path | None, As(metavar="TABLE")] = None
    """Read facts of items, which rules and metrics use, from this table: the id, categories as a|b,
    and columns of other fields."""
    diversity: Annotated[float, As(metavar="FROM 0 TO 1")] = 0.0
    """Move items that resemble earlier ones down."""
    popularity: Annotated[float, As(metavar="FROM -1 TO 1")] = 0.0
    """Prefer popular items, or rare ones if it is below 0."""
    exclude_category: Annotated[list[str] | None, As(metavar="CATEGORY")] = None
    """Do not recommend items of this category; repeatable."""

    def read(self, *, facts_for_metrics: bool = False) -> Reranking | None:
        """Return the rules that were given; None if there are none."""
        if self.rules is None and not (self.diversity or self.popularity or self.exclude_category):
            if self.item_facts is not None and not facts_for_metrics:
                raise UsageError(
                    "--item-facts goes with --rules, --diversity, --popularity or "
                    "--exclude-category.",
                    code="unused_option",
                )
            return None
        if self.exclude_category and self.item_facts is None:
            raise UsageError(
                "--exclude-category needs --item-facts TABLE, which has the categories of items.",
                code="missing_option",
            )
        from sdgar.data.readers.tables import read_facts
        from sdgar.recommend.rules import Rules

        rules = Rules.none() if self.rules is None else Rules.read(self.rules)
        return rules.using(
            None if self.item_facts is None else read_facts(self.item_facts),
            diversity=self.diversity,
            popularity=self.popularity,
            exclude_categories=self.exclude_category or (),
        )


@dataclass(frozen=True, kw_only=True)
class MetricOptions:
    """Metrics by name."""

    panel: ClassVar[str] = "Metrics"

    metrics: Annotated[list[str] | None, As(metavar="NAME,NAME,…")] = None
    """Measure these, such as ndcg@20,coverage@10,diversity:genres@10; a name without @ is measured
    at each --k. --explain-metrics prints what they mean."""

    def names(self) -> list[str] | None:
        """Return the names of metrics, or None; wrong names are refused before any work."""
        from sdgar.evaluation.asked import asked_metrics

        if not self.metrics:
            return None
        names = [name.strip() for text in self.metrics for name in text.split(",")]
        asked_metrics(names, (1,))
        return names


@dataclass(frozen=True, kw_only=True)
class GroupOptions(MetricOptions):
    """Metrics by name, for groups, and for each user."""

    by: Annotated[list[str] | None, As(metavar="activity|popularity|COLUMN")] = None
    """Show metrics for groups too: users by their activity, held-out items by their popularity, or
    a column of --user-facts or --item-facts; repeatable."""
    user_facts: Annotated[Path | None, As(metavar="TABLE")] = None
    """Read the columns that --by groups users by from this table: the id, and columns of fields."""
    per_user: Annotated[Path | None, As(parse=new_file)] = None
    """Write the metrics of each user to this .csv, .tsv, .jsonl or .parquet file."""


@dataclass(frozen=True, kw_only=True)
class TrecOptions:
    """Files of TREC, to exchange recommendations with other programs."""

    panel: ClassVar[str] = "Files of TREC"

    write_run: Annotated[Path | None, As(parse=new_file)] = None
    """Write the measured recommendations to this file, for other tools."""
    write_qrels: Annotated[Path | None, As(parse=new_file)] = None
    """Write the test events of the measured users to this file, for other tools."""


def compares_items(names: list[str] | None) -> bool:
    """Return whether a metric among these needs a table of items."""
    from sdgar.evaluation.asked import split_name
    from sdgar.evaluation.measures import MEASURES

    return any(MEASURES[split_name(name)[0]].column for name in names or ())


def metrics_and_facts(
    names: list[str] | None, table: Path | None
) -> tuple[tuple[str, ...] | None, Mapping[Any, Mapping[str, Any]] | None]:
    """Return the names of metrics and the facts of items, which only metrics use here."""
    if table is not None and not compares_items(names):
        raise UsageError(
            "--item-facts goes with a metric that compares items, such as --metrics "
            "diversity@10,calibration@10.",
            code="unused_option",
        )
    from sdgar.data.readers.tables import read_facts

    facts = None if table is None else read_facts(table)
    return None if names is None else tuple(names), facts
