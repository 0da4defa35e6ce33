"""``sdgar keys …``: make, list and revoke the API keys of a store."""

from __future__ import annotations

import time
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from sdgar.cli import options
from sdgar.cli.console import Screen
from sdgar.errors import UsageError
from sdgar.show.printed import command

if TYPE_CHECKING:
    from sdgar.serve.store import Key

_DAY = 86_400


def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Say whose key it is.")],
    store: options.Store,
    role: Annotated[
        str,
        typer.Option(
            "--role",
            help="Allow to ask (read), also to send feedback and entries (write), or "
            "also to swap models (admin).",
        ),
    ] = "read",
    expires: Annotated[
        float | None,
        typer.Option(
            "--expires",
            parser=options.number("--expires", float),
            metavar="DAYS",
            help="End the key after so many days; default: never.",
        ),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Make an API key and show it, once: the store keeps only its hash."""
    from sdgar.serve.store import Database

    if expires is not None and expires <= 0:
        raise UsageError(f"--expires must be above 0, got {expires:g}.", code="bad_option")
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


def list_(store: options.Store, as_json: options.Json = False) -> None:
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
    id: Annotated[str, typer.Argument(metavar="ID", help="Name the key by its id.")],
    store: options.Store,
    as_json: options.Json = False,
) -> None:
    """Take a key back for good; servers hear of it within seconds."""
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


def _day(moment: float | None) -> str:
    return "never" if moment is None else datetime.fromtimestamp(moment, UTC).date().isoformat()


def _state(key: Key) -> str:
    if key.revoked:
        return "revoked"
    return "over" if key.expires is not None and key.expires <= time.time() else "valid"
