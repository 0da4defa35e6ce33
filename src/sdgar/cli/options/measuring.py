"""Options of what is measured: metrics by name, groups, values of users, and files of TREC."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from sdgar.cli.options.places import new_file
from sdgar.errors import UsageError

_PANEL = "Metrics"
_TREC = "Files of TREC"

Metrics = Annotated[
    list[str] | None,
    typer.Option(
        "--metrics",
        metavar="NAME,NAME…",
        help="Measure these, such as ndcg@20,coverage@10,diversity:genres@10; a name without @ is "
        "measured at each --k. --explain-metrics says what they mean.",
        rich_help_panel=_PANEL,
    ),
]
By = Annotated[
    list[str] | None,
    typer.Option(
        "--by",
        metavar="activity|popularity|COLUMN",
        help="Show metrics for groups too: users by their activity, held-out items by their "
        "popularity, or a column of --user-facts or --item-facts; repeatable.",
        rich_help_panel=_PANEL,
    ),
]
UserFacts = Annotated[
    Path | None,
    typer.Option(
        "--user-facts",
        metavar="TABLE",
        help="Read what --by groups users by from this table: the id, and columns of fields.",
        rich_help_panel=_PANEL,
    ),
]
PerUser = Annotated[
    Path | None,
    typer.Option(
        "--per-user",
        parser=new_file,
        metavar="FILE",
        help="Write the metrics of each user to this .csv, .tsv, .jsonl or .parquet file.",
        rich_help_panel=_PANEL,
    ),
]
ForeignRun = Annotated[
    Path | None,
    typer.Option(
        "--run",
        metavar="FILE",
        help="Measure the lists of this run instead of those of a model.",
        rich_help_panel=_TREC,
    ),
]
Qrels = Annotated[
    Path | None,
    typer.Option(
        "--qrels",
        metavar="FILE",
        help="Name the relevant items of the users of --run.",
        rich_help_panel=_TREC,
    ),
]
WriteRun = Annotated[
    Path | None,
    typer.Option(
        "--write-run",
        parser=new_file,
        metavar="FILE",
        help="Write the measured lists to this file, for other tools.",
        rich_help_panel=_TREC,
    ),
]
WriteQrels = Annotated[
    Path | None,
    typer.Option(
        "--write-qrels",
        parser=new_file,
        metavar="FILE",
        help="Write the test events of the measured users to this file, for other tools.",
        rich_help_panel=_TREC,
    ),
]
TrecFile = Annotated[
    Path | None,
    typer.Option(
        "--trec",
        parser=new_file,
        metavar="FILE",
        help="Write the lists to this file as a run of TREC.",
    ),
]
MetricFacts = Annotated[
    Path | None,
    typer.Option(
        "--item-facts",
        metavar="TABLE",
        help="Read the columns that metrics such as diversity:genres@10 compare items by from this "
        "table: the id, categories as a|b, and columns of other fields.",
        rich_help_panel=_PANEL,
    ),
]
Latex = Annotated[
    Path | None,
    typer.Option(
        "--latex",
        parser=new_file,
        metavar="FILE",
        help="Write the table to this file as LaTeX.",
    ),
]
Csv = Annotated[
    Path | None,
    typer.Option(
        "--csv",
        parser=new_file,
        metavar="FILE",
        help="Write the table with all metrics to this .csv file.",
    ),
]


def named_metrics(texts: list[str] | None) -> list[str] | None:
    """Return the names of metrics, or None; names that are wrong are refused before any work."""
    from sdgar.evaluation.asked import asked_metrics

    if not texts:
        return None
    names = [name.strip() for text in texts for name in text.split(",")]
    asked_metrics(names, (1,))
    return names


def metrics_and_facts(
    texts: list[str] | None, table: Path | None
) -> tuple[tuple[str, ...] | None, Mapping[Any, Mapping[str, Any]] | None]:
    """Return the names of metrics and the fields of items, which only metrics look at here."""
    names = named_metrics(texts)
    if table is not None and not by_column(names):
        raise UsageError(
            "--item-facts goes with a metric that compares items, such as --metrics "
            "diversity@10,calibration@10.",
            code="unused_option",
        )
    from sdgar.data.readers.tables import read_facts

    facts = None if table is None else read_facts(table)
    return None if names is None else tuple(names), facts


def by_column(names: list[str] | None) -> bool:
    """Return whether a metric among these looks at a table of items."""
    from sdgar.evaluation.asked import split_name
    from sdgar.evaluation.measures import MEASURES

    return any(MEASURES[split_name(name)[0]].column for name in names or ())
