"""``sdgar export``, ``import`` and ``add-items``: saved models in and out, and with new items."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from sdgar.cli.console import Screen
from sdgar.cli.inputs import read_events, read_features
from sdgar.cli.options.option import Option
from sdgar.cli.options.shared import ItemFeatureOptions, Json, Overwrite, RunFolder, events
from sdgar.data.read_options import ReadOptions
from sdgar.errors import UsageError
from sdgar.show.printed import command

_FROM = ("implicit", "arrays")
"""The formats of vectors that are imported."""


def export(
    run: RunFolder,
    to: Annotated[str, Option("Write parquet, numpy, faiss or onnx.", "FORMAT")],
    out: Annotated[Path, Option("Write the files into this new folder.", "FOLDER")],
    vectors_only: Annotated[
        bool, Option("Leave item-item weights out, and rank by the vectors alone.")
    ] = False,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Write a model for other programs: tables, arrays, an index, a graph, or SQL."""
    from sdgar.exports.export import export as written
    from sdgar.recommend.recommender import load

    screen = Screen(as_json=as_json)
    made = written(load(run), to, out, vectors_only=vectors_only, overwrite=overwrite)
    screen.say("score", made.score)
    for name, what in made.files.items():
        screen.say("file", f"{name}: {what}")
    for sentence in made.left_out:
        screen.warn(sentence)
    screen.say("saved", f"{out}")
    screen.result(
        {
            "run": str(run), "to": to, "out": str(out), "score": made.score, "files": made.files,
            "left_out": list(made.left_out),
        }
    )  # fmt: skip


def import_(
    source: Annotated[
        str,
        Option(
            "implicit, for what its model.save wrote; or arrays, for any .npz.",
            "FROM",
            is_argument=True,
        ),
    ],
    file: Annotated[
        Path,
        Option("Read user_factors and item_factors from this .npz.", "FILE", is_argument=True),
    ],
    rows: Annotated[
        list[Any],
        events("--events", "Do not recommend the items that users have by these events."),
    ],
    out: Annotated[Path, Option("Save the model as this folder.", "RUN")],
    user_ids: Annotated[Path | None, Option("Read the id of each user row, in order.")] = None,
    item_ids: Annotated[Path | None, Option("Read the id of each item row, in order.")] = None,
    sorted_ids: Annotated[
        bool, Option("Take the ids of the events in ascending order, as categories of pandas are.")
    ] = False,
    overwrite: Overwrite = False,
    as_json: Json = False,
    *,
    reading: ReadOptions,
) -> None:
    """Make a model of vectors that implicit or another library has learned."""
    from sdgar.arguments import one_of
    from sdgar.data.readers.tables import read_ids
    from sdgar.exports.factors import import_factors, read_arrays
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
    data, _ = read_events(screen, "events", rows, reading)
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


def add_items(
    run: RunFolder,
    out: Annotated[Path, Option("Save the model with the items here.", "RUN")],
    new_events: Annotated[
        list[Any] | None, events("--events", "Read interactions with new items from these events.")
    ] = None,
    skip_unknown: Annotated[bool, Option("Leave out users who are not in the model.")] = False,
    overwrite: Overwrite = False,
    as_json: Json = False,
    *,
    features: ItemFeatureOptions,
    reading: ReadOptions,
) -> None:
    """Add new items to a saved model, by their events, their features, or both.

    Users stay as they are. An item with events gets the vector that suits them, and weights from
    and to other items. One of --item-features alone is cold: its vector is predicted, and lists
    mark it. The table has the features of known items too, which predictions are learned from.
    """
    from sdgar.recommend.recommender import load
    from sdgar.runs.workspace import require_free

    if not new_events and features.item_features is None:
        raise UsageError("say --events FILE, --item-features TABLE, or both.", code="no_items")
    kinds = features.kinds()
    require_free(out, overwrite=overwrite)
    screen = Screen(as_json=as_json)
    model = load(run)
    rows = None
    if new_events:
        rows, _ = read_events(screen, "events", new_events, reading)
    table = read_features(screen, "item", features.item_features, model.items.values, kinds)
    found = model.add_items(rows, features=table, skip_unknown=skip_unknown)
    by_events = 0 if rows is None else rows.n_items
    cold = len(found.cold_items)
    screen.say(
        "items",
        f"{len(model.items):,} known, {len(found.items) - len(model.items):,} added: "
        f"{by_events:,} with events, {cold:,} cold in all",
    )
    found.save(out, overwrite=overwrite)
    screen.say("saved", f"{out}")
    screen.result(
        {
            "run": str(out),
            "items": len(found.items),
            "added": len(found.items) - len(model.items),
            "with_events": by_events,
            "cold": cold,
            "about": found.about.get("new_items", {}),
        }
    )
