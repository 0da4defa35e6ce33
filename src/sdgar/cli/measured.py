"""What `sdgar evaluate` measures, and what it writes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sdgar.cli.console import Screen
from sdgar.cli.options.recommending import GroupOptions, compares_items
from sdgar.cli.options.shared import lengths_of
from sdgar.cli.options.values import require_new_table
from sdgar.cli.reports import print_cold, print_groups
from sdgar.errors import UsageError

if TYPE_CHECKING:
    from sdgar.data.interactions import Interactions
    from sdgar.evaluation.report import Report
    from sdgar.recommend.measuring import Beside
    from sdgar.recommend.recommender import Recommender

Table = Mapping[str | int, Mapping[str, Any]]
"""Fields by id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """The metrics, groups and tables of one call of `sdgar evaluate`."""

    ks: tuple[int, ...]
    """The lengths of lists, for metrics that name none."""
    ks_given: bool
    """Whether the lengths of lists were written out."""
    metrics: list[str] | None
    """The names of the metrics; None for all metrics of accuracy."""
    by: list[str]
    """What metrics are grouped by."""
    users: Table | None
    """The fields of users; None without a table."""
    items: Table | None
    """The fields of items; None without a table that metrics use."""
    per_user: Path | None
    """The file for the metrics of each user; None writes none."""
    explain: bool
    """Whether the meanings of metrics are shown."""

    @classmethod
    def of(
        cls,
        options: GroupOptions,
        item_facts: Path | None,
        *,
        ks: list[str] | None,
        explain: bool,
        overwrite: bool,
    ) -> Measurement:
        """Check the options and read the tables."""
        from sdgar.data.readers.tables import read_facts

        names = options.names()
        groups = [one for text in options.by or () for one in text.split(",")]
        columns = [one for one in groups if one not in ("activity", "popularity")]
        if options.user_facts is not None and not columns:
            raise UsageError("--user-facts goes with --by COLUMN.", code="unused_option")
        require_new_table(options.per_user, overwrite=overwrite)
        reads_items = item_facts is not None and bool(columns or compares_items(names))
        users = options.user_facts
        return cls(
            ks=lengths_of(ks),
            ks_given=ks is not None,
            metrics=names,
            by=groups,
            users=None if users is None else read_facts(users, side="user"),
            items=read_facts(item_facts) if item_facts is not None and reads_items else None,
            per_user=options.per_user,
            explain=explain,
        )

    def inputs(self, model: Recommender) -> Beside:
        """Return what metrics compare items by: facts, and vectors of the model."""
        return {"facts": self.items, "vectors": model.model.item_vectors()}

    def cold(
        self,
        screen: Screen,
        model: Recommender,
        test: Interactions,
        histories: Interactions | None,
    ) -> dict[str, Any]:
        """Print accuracy among cold items alone, if some have test rows; return it for JSON."""
        from sdgar.recommend.measuring import among_cold

        found = among_cold(model, test, ks=self.ks, histories=histories, metrics=self.metrics)
        print_cold(screen, found)
        if found is None:
            return {}
        means, intervals = found.means(), found.intervals()
        return {"among_cold": {**asdict(found.counts), "test": means, "intervals": intervals}}

    def groups(self, screen: Screen, report: Report) -> dict[str, Any]:
        """Print metrics for all groups, and return them for JSON."""
        found = {}
        for what in self.by:
            groups = report.by(what, users=self.users, items=self.items)
            print_groups(screen, what, groups, named=self.metrics is not None)
            found[what] = {
                name: {
                    "users": one.counts.users,
                    "rows": one.counts.rows,
                    **{n: None if math.isnan(v) else v for n, v in one.means().items()},
                }
                for name, one in groups.items()
            }
        return {"by": found} if found else {}

    def write(self, screen: Screen, report: Report) -> None:
        """Write the metrics of each user, if a file is named for them."""
        if self.per_user is None:
            return
        from sdgar.data.tables import write_table

        frame = report.frame()
        write_table(frame, self.per_user)
        screen.say("saved", f"{frame.height:,} rows to {self.per_user}")


def write_trec(
    screen: Screen, report: Report, test: Interactions, run: Path | None, qrels: Path | None
) -> None:
    """Write the measured recommendations and the test events as files of TREC, if wanted."""
    from sdgar.data import trec

    if run is not None:
        rows = trec.write_run(_lists(report), run)
        screen.say("saved", f"{rows:,} rows to {run}")
    if qrels is not None:
        assert report.ids is not None
        measured = set(report.ids["user"].tolist())
        users, items = test.users.values.tolist(), test.items.values.tolist()
        pairs = zip(test.users_E.tolist(), test.items_E.tolist(), strict=True)
        rows = trec.write_qrels(
            ((users[u], items[i]) for u, i in pairs if users[u] in measured), qrels
        )
        screen.say("saved", f"{rows:,} rows to {qrels}")


def _lists(report: Report) -> Iterator[tuple[object, list[object]]]:
    ranked = report.ranked
    assert ranked is not None
    assert ranked.known.items is not None
    assert report.ids is not None
    if list(report.ids) != ["user"]:
        raise UsageError(
            f"a context of this model is {', '.join(report.ids)}, and files of TREC have one id "
            "for each list. Use --per-user, or `sdgar recommend -o FILE`.",
            code="bad_context",
        )
    ids = ranked.known.items.values.tolist()
    for user, items_K in zip(report.ids["user"].tolist(), ranked.items_TK.tolist(), strict=True):
        yield user, [ids[item] for item in items_K if item >= 0]
