"""``sdgar ab``: what users did with the lists of each variant of a server."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sdgar.cli import options
from sdgar.cli.console import Screen
from sdgar.errors import UsageError

if TYPE_CHECKING:
    from sdgar.serve.store import Rate


def ab(
    store: Annotated[str, typer.Argument(metavar="STORE", help="The address of the store.")],
    kind: Annotated[
        str, typer.Option("--kind", help="The kind of event that counts as a success.")
    ] = "event",
    hours: Annotated[
        float,
        typer.Option("--hours", min=0.01, help="An event counts so long after a list was shown."),
    ] = 24.0,
    days: Annotated[
        float, typer.Option("--days", min=0.01, help="Look at lists of so many days.")
    ] = 30.0,
    as_json: options.Json = False,
) -> None:
    """Compare the variants of a server by what users did with their lists.

    A user counts as a success if an event of the kind, on an item of a list, followed the list
    within the time. Users belong to one variant each, so their rates can be compared.
    """
    from sdgar.serve.store import Database

    screen = Screen(as_json=as_json)
    with Database.open(store, read_only=True) as database:
        rates = database.rates(kind, 3600 * hours, since=time.time() - 86_400 * days)
    if not rates:
        raise UsageError(
            f"the log of {days:g} days holds no lists. Serve with --store, and wait for requests.",
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
    from sdgar.maths.proportions import wilson

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
    from sdgar.maths.proportions import newcombe

    a, b = rates[other], rates[first]
    low, high = newcombe((a.converted_users, a.users), (b.converted_users, b.users))
    difference = a.converted_users / max(1, a.users) - b.converted_users / max(1, b.users)
    return {
        "variant": other, "against": first, "difference": difference, "low": low, "high": high,
    }  # fmt: skip
