"""``sdgar add-items``: a saved model that knows new items too, without training."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sdgar.cli import options
from sdgar.cli.console import Screen
from sdgar.cli.inputs import read_events, read_features
from sdgar.errors import UsageError


@options.reads_files
def add_items(
    run: options.RunFolder,
    out: Annotated[Path, typer.Option("--out", help="Save the model with the items here.")],
    events: Annotated[
        list[Any] | None,
        typer.Option(
            "--events",
            metavar=options.PATH,
            parser=options.source,
            help="Read who had to do with new items from these events.",
        ),
    ] = None,
    item_features: options.ItemFeatures = None,
    feature_kinds: options.FeatureKinds = None,
    skip_unknown: Annotated[
        bool,
        typer.Option("--skip-unknown", help="Leave out users whom the model does not know."),
    ] = False,
    overwrite: options.Overwrite = False,
    as_json: options.Json = False,
    reading: options.Reading = None,
) -> None:
    """Add new items to a saved model, by their events, their features, or both.

    Users stay as they are. An item with events gets the vector that suits them, and weights from
    and to other items. One of --item-features alone is cold: its vector is predicted, and lists
    mark it. The table has the features of known items too, which predictions are learned from.
    """
    from sdgar.recommend.recommender import load
    from sdgar.runs.workspace import require_free

    if not events and item_features is None:
        raise UsageError("say --events FILE, --item-features TABLE, or both.", code="no_items")
    kinds = options.kinds_of(feature_kinds, item_features)
    require_free(out, overwrite=overwrite)
    screen = Screen(as_json=as_json)
    model = load(run)
    rows = None
    if events:
        rows, _ = read_events(screen, "events", events, reading)
    features = read_features(screen, "item", item_features, model.items.values, kinds)
    found = model.add_items(rows, features=features, skip_unknown=skip_unknown)
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
