"""Options that several commands have: inputs, tables of features, names and rules, and metrics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from sdgar.cli.options.option import Option
from sdgar.cli.options.values import source
from sdgar.errors import UsageError
from sdgar.settings import KS
from sdgar.storage import remote

if TYPE_CHECKING:
    from sdgar.recommend.rules import Reranking

PATH = "PATH"
"""The word for a file or a store in the help of an option."""
_DIGITS = 18
"""The most digits of a number that fits into 64 bits."""


def events(flag: str, help: str) -> Option:
    """Return an option that names files of events, or a store."""
    return Option(help, PATH, flag=flag, parse=source)


Json = Annotated[bool, Option("Print one JSON object as the last line of stdout.", flag="--json")]
Overwrite = Annotated[bool, Option("Replace what exists.")]
Explain = Annotated[
    bool, Option("Print below the table what each metric means.", flag="--explain-metrics")
]
Seed = Annotated[int, Option("The seed of all random numbers.")]
Ks = Annotated[
    list[str] | None,
    Option(
        f"Measure recommendations of this length; repeatable. Default {','.join(map(str, KS))}.",
        "INTEGER",
        flag="--k",
    ),
]
Files = Annotated[
    list[Any],
    Option(
        "Files of events, also at addresses such as s3://BUCKET/PATH, or a store: "
        "sqlite:///FILE.db, postgresql://…",
        "FILE",
        parse=source,
        is_argument=True,
    ),
]
RunFolder = Annotated[
    Path,
    Option("The folder of a saved model.", "RUN", parse=remote.fetched_folder, is_argument=True),
]


@dataclass(frozen=True, kw_only=True)
class ItemFeatureOptions:
    """A table of features of items."""

    panel: ClassVar[str] = "Features"

    item_features: Annotated[Path | None, Option(metavar="TABLE")] = None
    """Read features of items from this table: the id, then columns of features, a|b for several.
    Items without events are recommended by them."""
    feature_kinds: Annotated[str | None, Option(metavar="COLUMN=KIND,…")] = None
    """The kinds of columns of --item-features, as title=text,year=number: category, number, text or
    embedding."""

    def kinds(self) -> dict[str, str]:
        """Return the kind of each column of features that is named."""
        if self.feature_kinds is None:
            return {}
        if self.item_features is None:
            raise UsageError("--feature-kinds goes with --item-features.", code="unused_option")
        found = {}
        for pair in self.feature_kinds.split(","):
            column, _, kind = pair.partition("=")
            if not column or not kind:
                raise UsageError(
                    f"--feature-kinds takes COLUMN=KIND, as title=text,year=number; got {pair!r}.",
                    code="bad_option",
                )
            found[column] = kind
        return found


@dataclass(frozen=True, kw_only=True)
class NameOptions:
    """A table with names of items."""

    panel: ClassVar[str] = "Names"

    names: Annotated[Path | None, Option(metavar="TABLE")] = None
    """Show the names of items that this table has: the id, then the name."""
    name_column: Annotated[str | None, Option(metavar="NAME")] = None
    """The column of names in --names, if it is not the second one."""

    def read(self) -> dict[str, str] | None:
        """Return the names of items; None without a table."""
        if self.names is None:
            if self.name_column is not None:
                raise UsageError("--name-column goes with --names TABLE.", code="unused_option")
            return None
        from sdgar.data.readers.tables import read_names

        return read_names(self.names, self.name_column)


@dataclass(frozen=True, kw_only=True)
class RuleOptions:
    """Rules that re-rank recommendations."""

    panel: ClassVar[str] = "Rules"

    rules: Path | None = None
    """Re-rank recommendations by the rules in this TOML file."""
    item_facts: Annotated[Path | None, Option(metavar="TABLE")] = None
    """Read facts of items, which rules and metrics use, from this table: the id, categories as a|b,
    and columns of other fields."""
    diversity: Annotated[float, Option(metavar="FROM 0 TO 1")] = 0.0
    """Move items that resemble earlier ones down."""
    popularity: Annotated[float, Option(metavar="FROM -1 TO 1")] = 0.0
    """Prefer popular items, or rare ones if it is below 0."""
    exclude_category: Annotated[list[str] | None, Option(metavar="CATEGORY")] = None
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

    metrics: Annotated[list[str] | None, Option(metavar="NAME,NAME,…")] = None
    """Measure these, such as ndcg@20,coverage@10,diversity:genres@10; a name without @ is measured
    at each --k. --explain-metrics prints what they mean."""

    def names(self) -> list[str] | None:
        """Return the names of metrics, or None; wrong names are refused before any work."""
        from sdgar.evaluation.measures import metrics_of

        if not self.metrics:
            return None
        names = [name.strip() for text in self.metrics for name in text.split(",")]
        metrics_of(names, (1,))
        return names

    def facts(self, table: Path | None) -> Mapping[Any, Mapping[str, Any]] | None:
        """Return the facts of items in a table that only metrics use; None without a table."""
        if table is None:
            return None
        if not compares_items(self.names()):
            raise UsageError(
                "--item-facts goes with a metric that compares items, such as --metrics "
                "diversity@10,calibration@10.",
                code="unused_option",
            )
        from sdgar.data.readers.tables import read_facts

        return read_facts(table)


def compares_items(names: list[str] | None) -> bool:
    """Return whether a metric among these needs a table of items."""
    from sdgar.evaluation.measures import MEASURES, split_name

    return any(MEASURES[split_name(name)[0]].column for name in names or ())


def lengths_of(texts: list[str] | None) -> tuple[int, ...]:
    """Parse the lengths of recommendations, each an integer of at least 1."""
    if not texts:
        return KS
    words = ",".join(texts).split(",")
    wrong = [w for w in words if not w.isdecimal() or len(w) > _DIGITS or int(w) < 1]
    if wrong:
        raise UsageError(
            f"--k takes integers of at least 1 and {_DIGITS} digits, got {wrong[0][:40]!r}.",
            code="bad_k",
        )
    return tuple(dict.fromkeys(map(int, words)))


def require_one_test(test: list[Any] | None, split: str | None) -> None:
    """Refuse test rows that are given and split off at the same time."""
    if test and split not in (None, "none"):
        raise UsageError(
            f"--split {split} splits test rows off, and --test gives some: leave one of them out.",
            code="split_and_test",
        )


def require_one_split(split: str | None, command: str, then: str) -> None:
    """Refuse a rule that gives several splits to a command that has one model."""
    from sdgar.data.splits import is_several

    if is_several(split):
        raise UsageError(
            f"--split {split} gives several folds, and {command} {then} one. Measure on all of "
            f"them with sdgar compare --split {split}, or use a split such as date:2024-03-01.",
            code="several_folds",
        )
