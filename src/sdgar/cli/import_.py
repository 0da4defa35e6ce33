"""``sdgar import``: vectors that another library has learned, as a saved model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sdgar.cli import options
from sdgar.cli.console import Screen
from sdgar.cli.reports import tell_loaded
from sdgar.errors import UsageError
from sdgar.show.printed import command

_FROM = ("implicit", "arrays")


@options.reads_files
def import_(
    source: Annotated[
        str,
        typer.Argument(
            metavar="FROM", help="implicit, for what its model.save wrote; or arrays, for any .npz."
        ),
    ],
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="Read user_factors and item_factors from this .npz."),
    ],
    events: Annotated[
        list[Any],
        typer.Option(
            "--events",
            metavar=options.PATH,
            parser=options.source,
            help="Leave what users have by these events out of their lists; repeatable.",
        ),
    ],
    out: Annotated[Path, typer.Option("--out", help="Save the model as this folder.")],
    user_ids: Annotated[
        Path | None,
        typer.Option("--user-ids", metavar="FILE", help="Read the id of each user row, in order."),
    ] = None,
    item_ids: Annotated[
        Path | None,
        typer.Option("--item-ids", metavar="FILE", help="Read the id of each item row, in order."),
    ] = None,
    sorted_ids: Annotated[
        bool,
        typer.Option(
            "--sorted-ids",
            help="Take the ids of the events in ascending order, as categories of pandas are.",
        ),
    ] = False,
    overwrite: options.Overwrite = False,
    as_json: options.Json = False,
    reading: options.Reading = None,
) -> None:
    """Make a model of vectors that implicit or another library has learned."""
    from sdgar.arguments import one_of
    from sdgar.data.readers import read_files
    from sdgar.data.readers.tables import read_ids
    from sdgar.exports.arrays import read_arrays
    from sdgar.exports.factors import import_factors
    from sdgar.runs.workspace import require_free

    one_of("source", source, _FROM)
    if sorted_ids and (user_ids or item_ids):
        raise UsageError(
            "--sorted-ids takes the ids from the events, and --user-ids and --item-ids from files. "
            "Leave one of them out.",
            code="unused_option",
        )
    require_free(out, overwrite=overwrite)
    screen = Screen(as_json=as_json)
    arrays = read_arrays(file)
    loaded = read_files(events, reading)
    tell_loaded(screen, "events", loaded, ", ".join(str(one) for one in events))
    data = loaded.interactions
    users, items = arrays.users, arrays.items
    if sorted_ids:
        users, items = data.users.values, data.items.values
    users = users if user_ids is None else read_ids(user_ids)
    items = items if item_ids is None else read_ids(item_ids)
    model = import_factors(
        arrays.user_factors, arrays.item_factors, users=users, items=items,
        item_biases=arrays.item_biases, events=data, learned_by=source,
    )  # fmt: skip
    model.save(out, overwrite=overwrite)
    dim = model.factors.item_ID.shape[1]
    screen.say("vectors", f"{len(model.users):,} users, {len(model.items):,} items, dim {dim}")
    screen.say("saved", f"{out}")
    someone = str(model.users.values[0])
    screen.say("next", command("sdgar", "recommend", out, "--user", someone))
    screen.result(
        {"run": str(out), "users": len(model.users), "items": len(model.items), "dim": dim}
    )
