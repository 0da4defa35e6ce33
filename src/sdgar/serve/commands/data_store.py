"""``sdgar data export``, ``import-items``, ``import-users``, ``copy``: in and out of a store."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sdgar.cli import options
from sdgar.cli.console import Screen
from sdgar.show.printed import command

if TYPE_CHECKING:
    from sdgar.serve.store.address import Address
    from sdgar.serve.store.records import Side

Table = Annotated[
    Path, typer.Argument(metavar="FILE", help="Read this CSV, TSV, JSONL or Parquet file.")
]
IdColumn = Annotated[
    str | None,
    typer.Option("--id-column", metavar="NAME", help="Name the column of the ids; default: id."),
]


def export(
    url: options.OfStore,
    out: Annotated[
        Path,
        typer.Option(
            "-o",
            "--out",
            parser=options.new_file,
            metavar="FILE",
            help="Write this .parquet, .csv, .tsv or .jsonl file.",
        ),
    ],
    overwrite: options.Overwrite = False,
    as_json: options.Json = False,
) -> None:
    """Write all events of a store to a file, complete or not at all.

    Servers may go on meanwhile; what comes in after the beginning is not in the file.
    """
    from sdgar.serve.event_tables import export_events

    options.require_new_table(out, overwrite=overwrite)
    screen = Screen(as_json=as_json)
    count = export_events(url, out)
    screen.say("saved", f"{out}: {count:,} events of {url}")
    screen.say("next", command("sdgar", "train", out, "--out", "RUN"))
    screen.result({"store": str(url), "events": count, "out": str(out)})


def import_items(
    file: Table, store: options.Store, id_column: IdColumn = None, as_json: options.Json = False
) -> None:
    """Put names, pictures, categories and features of items into a store.

    Columns are id, name, picture, categories (several with | between them) and hidden; all others
    are features. An item that the store has already is replaced.
    """
    _import(Screen(as_json=as_json), file, store, "item", id_column)


def import_users(
    file: Table, store: options.Store, id_column: IdColumn = None, as_json: options.Json = False
) -> None:
    """Put names, pictures, categories and features of users into a store.

    Columns are id, name, picture, categories (several with | between them) and hidden; all others
    are features. A user whom the store has already is replaced.
    """
    _import(Screen(as_json=as_json), file, store, "user", id_column)


def copy(
    url: options.OfStore,
    to: Annotated[
        Any,
        typer.Option("--to", metavar="URL", parser=options.store, help="Copy into this new store."),
    ],
    as_json: options.Json = False,
) -> None:
    """Copy a whole store into a new one, such as a SQLite file into a PostgreSQL database.

    Stop the servers that use it first: what they would add meanwhile stays behind.
    """
    from sdgar.serve.store import Database
    from sdgar.serve.store.database import copy_store as copy_all

    screen = Screen(as_json=as_json)
    with Database.open(url, read_only=True) as source, Database.open(to) as target:
        counts = copy_all(source, target)
    for table, count in counts.items():
        if count:
            screen.say("copied", f"{table}: {count:,} rows")
    screen.say("saved", str(to))
    screen.result({"store": str(url), "to": str(to), "rows": counts})


def _import(screen: Screen, file: Path, store: Address, side: Side, id_column: str | None) -> None:
    from sdgar.serve.entry_tables import read_entries
    from sdgar.serve.store import Database
    from sdgar.serve.store.entries import put_table

    table = read_entries(file, side, id=id_column)
    screen.say("columns", table.sentence())
    with Database.open(store) as opened:
        count = put_table(opened, side, table.entries)
    screen.say("saved", f"{count:,} {side}s of {table.name} in {store}")
    screen.result(
        {"store": str(store), f"{side}s": count, "columns": table.parts | {"id": table.id}}
    )
