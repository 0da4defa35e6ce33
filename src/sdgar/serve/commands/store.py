"""``sdgar data export``, ``import-items``, ``import-users``, ``copy``, ``keys …`` and ``ab``.

These commands read and write a store, and need no server.
"""

from __future__ import annotations

import time
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from sdgar.cli.console import Screen
from sdgar.cli.options.option import Option
from sdgar.cli.options.shared import Json, Overwrite
from sdgar.cli.options.values import new_file, require_new_table
from sdgar.errors import UsageError
from sdgar.serve.store import Key, Rate
from sdgar.serve.store.address import Address
from sdgar.serve.store.records import Side
from sdgar.show.printed import command

_DAY = 86_400


_ADDRESS = "sqlite:///FILE.db or postgresql://USER@HOST/NAME"
Store = Annotated[
    Any,
    typer.Option(
        "--store",
        metavar="URL",
        parser=Address.of,
        envvar="SDGAR_STORE",
        help=f"Use this store: {_ADDRESS}; SDGAR_STORE is the same.",
    ),
]
OfStore = Annotated[
    Any, Option(f"Read this store: {_ADDRESS}.", "URL", parse=Address.of, is_argument=True)
]
Table = Annotated[
    Path, Option("Read this CSV, TSV, JSONL or Parquet file.", "FILE", is_argument=True)
]
IdColumn = Annotated[str | None, Option("The column of the ids; default: id.", "NAME")]


def export(
    url: OfStore,
    out: Annotated[
        Path,
        Option("Write this .parquet, .csv, .tsv or .jsonl file.", flag="-o --out", parse=new_file),
    ],
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Write all events of a store to a file.

    The file is complete, or not there at all. Servers may keep running: later events are not in
    the file.
    """
    from sdgar.serve.event_tables import export_events

    require_new_table(out, overwrite=overwrite)
    screen = Screen(as_json=as_json)
    count = export_events(url, out)
    screen.say("saved", f"{out}: {count:,} events of {url}")
    screen.say("next", command("sdgar", "train", out, "--out", "RUN"))
    screen.result({"store": str(url), "events": count, "out": str(out)})


def import_items(
    file: Table, store: Store, id_column: IdColumn = None, as_json: Json = False
) -> None:
    """Import names, pictures, categories and features of items into a store.

    Columns are id, name, picture, categories (several with | between them) and hidden; all others
    are features. The entry of an item that is in the store already is replaced.
    """
    _import(Screen(as_json=as_json), file, store, "item", id_column)


def import_users(
    file: Table, store: Store, id_column: IdColumn = None, as_json: Json = False
) -> None:
    """Import names, pictures, categories and features of users into a store.

    Columns are id, name, picture, categories (several with | between them) and hidden; all others
    are features. The entry of a user who is in the store already is replaced.
    """
    _import(Screen(as_json=as_json), file, store, "user", id_column)


def copy(
    url: OfStore,
    to: Annotated[Any, Option("Copy into this new store.", "URL", parse=Address.of)],
    as_json: Json = False,
) -> None:
    """Copy a whole store into a new one, such as a SQLite file into a PostgreSQL database.

    Stop the servers that use the store first: rows that they add meanwhile are not copied.
    """
    from sdgar.serve.store import Database
    from sdgar.serve.store.database import copy_store

    screen = Screen(as_json=as_json)
    with Database.open(url, read_only=True) as source, Database.open(to) as target:
        counts = copy_store(source, target)
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


def add(
    name: Annotated[str, Option("The owner of the key.", "NAME", is_argument=True)],
    store: Store,
    role: Annotated[
        str,
        Option(
            "Allow queries (read), also feedback and entries (write), or also changing models "
            "(admin)."
        ),
    ] = "read",
    expires: Annotated[
        float | None, Option("Days until the key expires; default: never.", "DAYS")
    ] = None,
    as_json: Json = False,
) -> None:
    """Create an API key and show it once: the store keeps only its hash."""
    from sdgar.serve.store import Database

    _require_positive("--expires", expires)
    screen = Screen(as_json=as_json)
    until = None if expires is None else time.time() + expires * _DAY
    with Database.open(store) as opened:
        secret = opened.add_key(name, role, until)
    id = secret.split("_")[1]
    screen.say("key", secret)
    screen.say("note", "it is not shown again; send it as `Authorization: Bearer KEY`")
    screen.say("until", _day(until))
    screen.say("next", command("sdgar", "keys", "revoke", id, "--store", store))
    screen.result({"id": id, "name": name, "role": role, "key": secret, "expires": until})


def list_(store: Store, as_json: Json = False) -> None:
    """Show the keys of a store, without their secrets."""
    from sdgar.serve.store import Database

    screen = Screen(as_json=as_json)
    with Database.open(store, read_only=True) as opened:
        found = opened.keys()
    if found:
        screen.table(
            ("id", "name", "role", "made", "until", "state"),
            [(k.id, k.name, k.role, _day(k.created), _day(k.expires), _state(k)) for k in found],
        )
    else:
        screen.say("keys", f"{store} has none")
    shown = [asdict(key) | {"state": _state(key)} for key in found]
    for key in shown:
        del key["hash"]
    screen.result({"keys": shown})


def revoke(
    id: Annotated[str, Option("The id of the key.", "ID", is_argument=True)],
    store: Store,
    as_json: Json = False,
) -> None:
    """Revoke a key for good; servers notice within seconds."""
    from sdgar.serve.store import Database

    screen = Screen(as_json=as_json)
    with Database.open(store, must_exist=True) as opened:
        if not opened.revoke_key(id):
            raise UsageError(
                f"{store} has no key {id!r}. See them with: "
                f"{command('sdgar', 'keys', 'list', '--store', store)}.",
                code="unknown_key",
            )
    screen.say("revoked", id)
    screen.result({"revoked": id})


def _require_positive(option: str, value: float | None) -> None:
    if value is not None and value <= 0:
        raise UsageError(f"{option} must be above 0, got {value:g}.", code="bad_option")


def _day(moment: float | None) -> str:
    return "never" if moment is None else datetime.fromtimestamp(moment, UTC).date().isoformat()


def _state(key: Key) -> str:
    if key.revoked:
        return "revoked"
    return "over" if key.expires is not None and key.expires <= time.time() else "valid"


def ab(
    store: Store,
    kind: Annotated[str, Option("The kind of event that counts as a success.", "NAME")] = "event",
    hours: Annotated[float, Option("Hours after a list for which an event counts.")] = 24.0,
    days: Annotated[float, Option("The number of days of lists.")] = 30.0,
    as_json: Json = False,
) -> None:
    """Compare the variants of a server by what users did with their lists.

    A user counts as a success if an event of the kind, on an item of a list, followed the list
    within the time. Each user belongs to one variant, so the rates can be compared.
    """
    from sdgar.serve.store import Database

    _require_positive("--hours", hours)
    _require_positive("--days", days)
    screen = Screen(as_json=as_json)
    with Database.open(store, read_only=True) as database:
        rates = database.rates(kind, 3600 * hours, since=time.time() - 86_400 * days)
    if not rates:
        raise UsageError(
            f"the log of {days:g} days has no lists. Serve with --store, and wait for requests.",
            code="no_impressions",
        )
    found = {name: _summary(rate) for name, rate in rates.items()}
    rows = [
        (
            name, f"{one['users']:,}", f"{one['converted_users']:,}", f"{one['rate']:.2%}",
            f"{one['low']:.2%} to {one['high']:.2%}", f"{one['requests']:,}",
            f"{one['request_rate']:.2%}",
        )
        for name, one in found.items()
    ]  # fmt: skip
    headings = ("variant", "users", "converted", "rate", "95 % interval", "requests", "of requests")
    screen.table(headings, rows)
    names = list(found)
    compared = [_difference(names[0], name, rates) for name in names[1:]]
    for one in compared:
        screen.say(
            "difference",
            f"{one['variant']} - {one['against']}: {one['difference']:+.2%}, 95 % interval "
            f"{one['low']:+.2%} to {one['high']:+.2%}",
        )
    screen.result({"kind": kind, "hours": hours, "variants": found, "differences": compared})


def _summary(rate: Rate) -> dict[str, Any]:
    from sdgar.serve.store.impressions import wilson

    low, high = wilson(rate.converted_users, rate.users)
    return {
        "users": rate.users,
        "converted_users": rate.converted_users,
        "rate": rate.converted_users / max(1, rate.users),
        "low": low,
        "high": high,
        "requests": rate.requests,
        "request_rate": rate.converted_requests / max(1, rate.requests),
    }


def _difference(first: str, other: str, rates: dict[str, Rate]) -> dict[str, Any]:
    from sdgar.serve.store.impressions import newcombe

    a, b = rates[other], rates[first]
    low, high = newcombe((a.converted_users, a.users), (b.converted_users, b.users))
    difference = a.converted_users / max(1, a.users) - b.converted_users / max(1, b.users)
    return {
        "variant": other, "against": first, "difference": difference, "low": low, "high": high,
    }  # fmt: skip
