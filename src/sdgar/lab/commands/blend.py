"""``sdgar blend``: add two saved models up, with a weight that validation rows choose."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sdgar.cli import options
from sdgar.cli.console import Screen
from sdgar.cli.reports import tell_loaded
from sdgar.errors import UsageError
from sdgar.settings import METRIC


@options.reads_files
def blend(
    first: Annotated[Path, typer.Argument(metavar="RUN_A", help="The model whose scores stay.")],
    second: Annotated[Path, typer.Argument(metavar="RUN_B", help="The model that is added.")],
    out: Annotated[Path, typer.Option("--out", help="Save the sum as this folder.")],
    valid: Annotated[
        list[Any] | None,
        typer.Option(
            "--valid",
            metavar=options.PATH,
            parser=options.source,
            help="Choose the weight on events that both have not learned.",
        ),
    ] = None,
    train: Annotated[
        list[Any] | None,
        typer.Option(
            "--train",
            metavar=options.PATH,
            parser=options.source,
            help="Choose it on a tenth of these events; both systems train on the rest for it.",
        ),
    ] = None,
    gamma: Annotated[
        float | None, typer.Option("--gamma", help="Take this weight instead of choosing one.")
    ] = None,
    metric: options.Metric = None,
    overwrite: options.Overwrite = False,
    as_json: options.Json = False,
    reading: options.Reading = None,
) -> None:
    """Add the scores of two models of the same events: the sum is a model like any other."""
    from sdgar.data.readers import read_files
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
        files = valid or train or []
        loaded = read_files(files, reading)
        tell_loaded(screen, "events", loaded, ", ".join(file.name for file in files))
        rows = loaded.interactions
    found = added(
        one, other, rows if valid else None, train=rows if train else None, weight=gamma,
        metric=metric or METRIC,
    )  # fmt: skip
    how = f"chosen on {found.chosen_on:,} users" if found.chosen_on else "as given"
    screen.say("weight", f"{found.weight:.4g} times the scores of {second}, {how}")
    found.model.save(out, overwrite=overwrite)
    screen.say("saved", f"{out}")
    screen.result({"run": str(out), "weight": found.weight, "chosen_on": found.chosen_on})
