"""``sdgar blend``: add two saved models, with a weight that validation rows choose."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from sdgar.cli.console import Screen
from sdgar.cli.inputs import read_events
from sdgar.cli.options.option import Option
from sdgar.cli.options.shared import Json, Overwrite, events
from sdgar.data.read_options import ReadOptions
from sdgar.errors import UsageError
from sdgar.settings import METRIC


def blend(
    first: Annotated[Path, Option("The model whose scores stay.", "RUN_A", is_argument=True)],
    second: Annotated[Path, Option("The model that is added.", "RUN_B", is_argument=True)],
    out: Annotated[Path, Option("Save the sum as this folder.", "RUN")],
    valid: Annotated[
        list[Any] | None,
        events("--valid", "Choose the weight on events that neither was trained on."),
    ] = None,
    train: Annotated[
        list[Any] | None,
        events("--train", "Choose it on a tenth of these; both systems train on the rest for it."),
    ] = None,
    gamma: Annotated[float | None, Option("Use this weight instead of choosing one.")] = None,
    metric: Annotated[str, Option("Choose the weight by this metric.", "KIND@K")] = METRIC,
    overwrite: Overwrite = False,
    as_json: Json = False,
    *,
    reading: ReadOptions,
) -> None:
    """Add the scores of two models of the same events: the sum is a model like any other."""
    from sdgar.lab.blend import blend as added
    from sdgar.recommend.recommender import load
    from sdgar.runs.workspace import require_free

    if sum((bool(valid), bool(train), gamma is not None)) != 1:
        raise UsageError(
            "say one of --valid FILE, --train FILE or --gamma NUMBER.", code="no_weight"
        )
    require_free(out, overwrite=overwrite)
    screen = Screen(as_json=as_json)
    one, other = load(first), load(second)
    rows = None
    if valid or train:
        rows, _ = read_events(screen, "events", valid or train or [], reading)
    found = added(
        one, other, rows if valid else None, train=rows if train else None, weight=gamma,
        metric=metric,
    )  # fmt: skip
    how = f"chosen on {found.chosen_on:,} users" if found.chosen_on else "as given"
    screen.say("weight", f"{found.weight:.4g} times the scores of {second}, {how}")
    found.model.save(out, overwrite=overwrite)
    screen.say("saved", f"{out}")
    screen.result({"run": str(out), "weight": found.weight, "chosen_on": found.chosen_on})
