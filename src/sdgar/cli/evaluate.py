"""``sdgar evaluate``: measure a saved model, or a run of another system, on held-out events."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple

import typer

from sdgar.cli.answers import rankings
from sdgar.cli.console import Screen
from sdgar.cli.inputs import read_events
from sdgar.cli.options.option import Option, first_page, written_out
from sdgar.cli.options.shared import (
    Explain,
    Json,
    Ks,
    MetricOptions,
    Overwrite,
    RuleOptions,
    compares_items,
    events,
    lengths_of,
)
from sdgar.cli.options.values import new_file, require_new, require_new_table
from sdgar.cli.reports import print_cold, print_effect, print_groups, print_report
from sdgar.data.read_options import USER, ReadOptions
from sdgar.errors import UsageError
from sdgar.storage import remote

if TYPE_CHECKING:
    from sdgar.data.interactions import Interactions
    from sdgar.evaluation.report import Report
    from sdgar.recommend.recommender import Recommender

Table = Mapping[str | int, Mapping[str, Any]]
"""Fields by id."""


@dataclass(frozen=True, kw_only=True)
class GroupOptions(MetricOptions):
    """Metrics by name, for groups, and for each user."""

    by: Annotated[list[str] | None, Option(metavar="activity|popularity|COLUMN")] = None
    """Show metrics for groups too: users by their activity, held-out items by their popularity, or
    a column of --user-facts or --item-facts; repeatable."""
    user_facts: Annotated[Path | None, Option(metavar="TABLE")] = None
    """Read the columns that --by groups users by from this table: the id, and columns of fields."""
    per_user: Annotated[Path | None, Option(parse=new_file)] = None
    """Write the metrics of each user to this .csv, .tsv, .jsonl or .parquet file."""

    def tables(self, item_facts: Path | None, *, overwrite: bool) -> FactTables:
        """Check the options, and read the tables that they name."""
        from sdgar.data.readers.tables import read_facts

        columns = [one for one in self.groups if one not in ("activity", "popularity")]
        if self.user_facts is not None and not columns:
            raise UsageError("--user-facts goes with --by COLUMN.", code="unused_option")
        require_new_table(self.per_user, overwrite=overwrite)
        items = item_facts
        if not columns and not compares_items(self.names()):
            items = None  # the facts are for rules
        return FactTables(
            None if self.user_facts is None else read_facts(self.user_facts, side="user"),
            None if items is None else read_facts(items),
        )

    @property
    def groups(self) -> list[str]:
        """What metrics are grouped by."""
        return [one for text in self.by or () for one in text.split(",")]

    def show_groups(self, screen: Screen, report: Report, tables: FactTables) -> dict[str, Any]:
        """Print metrics for all groups and write them for each user; return groups for JSON."""
        found = {}
        for what in self.groups:
            groups = report.by(what, users=tables.users, items=tables.items)
            print_groups(screen, what, groups, named=self.metrics is not None)
            found[what] = {
                name: {
                    "users": one.counts.users,
                    "rows": one.counts.rows,
                    **{n: None if math.isnan(v) else v for n, v in one.means().items()},
                }
                for name, one in groups.items()
            }
        if self.per_user is not None:
            from sdgar.data.tables import write_table

            frame = report.frame()
            write_table(frame, self.per_user)
            screen.say("saved", f"{frame.height:,} rows to {self.per_user}")
        return {"by": found} if found else {}


class FactTables(NamedTuple):
    """Tables of fields by id, each None if it is not given or not used by metrics."""

    users: Table | None
    items: Table | None


@dataclass(frozen=True, kw_only=True)
class TrecOptions:
    """Files of TREC, to exchange recommendations with other programs."""

    panel: ClassVar[str] = "Files of TREC"

    write_run: Annotated[Path | None, Option(parse=new_file)] = None
    """Write the measured recommendations to this file, for other tools."""
    write_qrels: Annotated[Path | None, Option(parse=new_file)] = None
    """Write the test events of the measured users to this file, for other tools."""

    def write(self, screen: Screen, report: Report, test: Interactions) -> None:
        """Write the files that are wanted."""
        from sdgar.data import trec

        written = {}
        assert report.ids is not None
        if self.write_run is not None:
            assert report.ranked is not None
            assert report.ranked.known.items is not None
            lists = rankings(report.ids, report.ranked.items_TK, report.ranked.known.items)
            written[self.write_run] = trec.write_run(lists, self.write_run)
        if self.write_qrels is not None:
            measured = set(report.ids["user"].tolist())
            users, items = test.users.values.tolist(), test.items.values.tolist()
            pairs = zip(test.users_E.tolist(), test.items_E.tolist(), strict=True)
            relevant = ((users[u], items[i]) for u, i in pairs if users[u] in measured)
            written[self.write_qrels] = trec.write_qrels(relevant, self.write_qrels)
        for file, rows in written.items():
            screen.say("saved", f"{rows:,} rows to {file}")


@first_page(
    "--test", "--train", "--histories", "--k", "--metrics", "--by", "--per-user", "--rules",
    "--item-facts", "--overwrite", "--explain-metrics", "--json", "--user-column", "--item-column",
    "--min-rating",
)  # fmt: skip
def evaluate(
    context: typer.Context,
    saved: Annotated[
        Path | None,
        Option(
            "The folder of a saved model.", "RUN", parse=remote.fetched_folder, is_argument=True
        ),
    ] = None,
    test: Annotated[list[Any] | None, events("--test", "Measure on these events.")] = None,
    train: Annotated[
        list[Any] | None,
        events("--train", "Do not recommend items of these events; default: the model's own."),
    ] = None,
    histories: Annotated[
        list[Any] | None,
        events("--histories", "Fold in test users who are new to the model from these events."),
    ] = None,
    ks: Ks = None,
    *,
    metrics: GroupOptions,
    trec: TrecOptions,
    rules: RuleOptions,
    overwrite: Overwrite = False,
    explain: Explain = False,
    as_json: Json = False,
    reading: ReadOptions,
    extended: Mapping[Any, Any],
) -> None:
    """Rank all items for every test user and compare with the test events.

    With --run and --qrels, measure the lists of another system instead.
    """
    screen, written = Screen(as_json=as_json), written_out(context)
    lengths = lengths_of(ks)
    names, tables = metrics.names(), metrics.tables(rules.item_facts, overwrite=overwrite)
    for other, options in extended.items():
        if other.claims(options):
            other.measure(
                screen, written, options, train, reading, metrics, tables,
                ks=lengths if ks else None, explain=explain,
            )  # fmt: skip
            return
    if saved is None or not test:
        raise UsageError(
            "name a saved model and its test events: sdgar evaluate RUN --test FILE. Or measure "
            "lists of another system: sdgar evaluate --run FILE --qrels FILE.",
            code="missing_option",
        )
    for file in (trec.write_run, trec.write_qrels):
        require_new(file, overwrite=overwrite)
    from sdgar.evaluation.measures import meanings
    from sdgar.recommend.evaluating import among_cold, effect_of
    from sdgar.recommend.recommender import load, most_popular

    reranking = rules.read(facts_for_metrics=tables.items is not None)
    model = load(saved)
    reading = _as_trained("context" in written, model, reading)
    held_out = read_events(screen, "test", test, reading)[0]
    seen = read_events(screen, "train", train, reading)[0] if train else None
    known = read_events(screen, "history", histories, reading)[0] if histories else None
    how: Any = {"ks": lengths, "histories": known, "metrics": names}
    compared: Any = {"facts": tables.items, "vectors": model.model.item_vectors()}
    report = model.evaluate(held_out, seen=seen, **how, **compared)
    popular = most_popular(model).evaluate(held_out, seen=seen, **how, **compared)
    system = str(model.about.get("system", "model"))
    print_report(screen, report, popular, system, explain=explain)
    cold, of_cold = None if train else among_cold(model, held_out, **how), {}
    if cold is not None:
        means, intervals = cold.means(), cold.intervals()
        of_cold = {"among_cold": {**asdict(cold.counts), "test": means, "intervals": intervals}}
    print_cold(screen, cold)
    groups = metrics.show_groups(screen, report, tables)
    effect: dict[str, Any] = {}
    if reranking is not None:
        reports = effect_of(reranking, model, held_out, seen=seen, **how)
        without, ruled = (one.means() for one in reports)
        print_effect(screen, without, ruled)
        said = {"without": without, "with": ruled, "definitions": meanings(list(ruled))}
        effect = {"rules": said}
    trec.write(screen, report, held_out)
    screen.result(
        {
            "run": str(saved),
            "system": system,
            "test": report.means(),
            "intervals": report.intervals(),
            "users": len(report.users_T),
            "counts": asdict(report.counts),
            "most_popular": popular.means(),
            "definition": report.definition,
            **of_cold,
            **groups,
            **effect,
        }
    )


def _as_trained(is_given: bool, model: Recommender, reading: ReadOptions) -> ReadOptions:
    """Return how to read events for a model, whose contexts may have several fields."""
    fields = tuple(model.about.get("context", reading.context))
    if is_given and reading.context != fields:
        raise UsageError(
            f"--context {','.join(reading.context)} is not what a context of this model is: "
            f"{','.join(fields)}. Leave it out.",
            code="bad_context",
        )
    return replace(reading, context=fields, seen_by=model.seen_by if fields != USER else "user")
