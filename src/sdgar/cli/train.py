"""``sdgar train``: from files of events to a saved, measured model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sdgar.cli import options
from sdgar.cli.console import Screen
from sdgar.errors import UsageError

if TYPE_CHECKING:
    from sdgar.data.interactions import Interactions


@options.reads_files
def train(
    files: Annotated[list[Path], typer.Argument(metavar="TRAIN…", help="Files of events.")],
    out: Annotated[Path, typer.Option("--out", help="Folder for the model.")],
    test: Annotated[list[Path] | None, typer.Option("--test", help="Held-out events.")] = None,
    valid: Annotated[list[Path] | None, typer.Option("--valid", help="Validation events.")] = None,
    system: Annotated[str, typer.Option("--system", help="What to train: bpr, popular.")] = "bpr",
    seed: options.Seed = 0,
    protocol: Annotated[
        str,
        typer.Option("--protocol", help="validated, or paper (chooses its epoch on test)."),
    ] = "validated",
    split: Annotated[
        str | None,
        typer.Option(
            "--split",
            help="Without --test: time (default with a time column), paper, leave-last-out, none.",
        ),
    ] = None,
    engine: Annotated[str, typer.Option("--engine", help="auto, or an engine by name.")] = "auto",
    device: Annotated[str, typer.Option("--device", help="auto, cpu or cuda.")] = "auto",
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A hyper-parameter.")
    ] = None,
    ks: options.Ks = None,
    overwrite: options.Overwrite = False,
    as_json: options.Json = False,
    reading: options.Reading = None,
) -> None:
    """Train a model on files of (user, item) events and measure it.

    CSV, TSV, JSONL and Parquet, plain or compressed. Without --test, test rows are split off:
    by time if there is a time column, else 20 % of each user's rows.
    """
    from sdgar import artifact
    from sdgar.estimators import Learner, make
    from sdgar.experiments.run import run

    screen = Screen(as_json=as_json)
    artifact.require_free(out, overwrite=overwrite)
    common = {"seed": seed, "engine": engine, "device": device}
    estimator = make(system, _settings(settings, common), common=common)
    data = _read(screen, "data", files, reading)
    held_out = _read(screen, "test", test, reading) if test else None
    if held_out is None and split != "none":
        data, held_out = split_off(screen, data, split, seed)
    validation = _read(screen, "valid", valid, reading) if valid else None
    epochs = estimator.fit_options().epochs if isinstance(estimator, Learner) else 1
    screen.say(
        "system", ", ".join([system, *(f"{k}={v}" for k, v in estimator.get_params().items())])
    )
    with screen.training(epochs) as on_epoch:
        result = run(
            estimator,
            data,
            test=held_out,
            valid=validation,
            protocol=protocol,
            out=out,
            overwrite=overwrite,
            ks=options.lists_of(ks),
            on_epoch=on_epoch,
        )
    if result.test is not None and result.popular is not None:
        screen.report(result.test, result.popular, system)
        if protocol == "paper":
            screen.warn("the epoch was chosen on test rows (protocol paper): optimistic numbers.")
    if "seconds" in result.summary:
        seconds = result.summary["seconds"]
        screen.say(
            "time",
            f"{seconds['train']:.1f} s training · {seconds['evaluate']:.1f} s evaluating · "
            f"{result.summary['positives_per_second']:,} positives a second · "
            f"engine {result.summary['engine']}",
        )
    screen.say("saved", str(out))
    some = result.model.users.values[0]
    screen.say("next", f"sdgar recommend {out} --user {some}")
    screen.result(result.summary | {"out": str(out)})


def _settings(texts: list[str] | None, common: dict[str, Any]) -> dict[str, str]:
    settings = {}
    for text in texts or []:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise UsageError(f"--set takes KEY=VALUE, got {text!r}.", code="bad_setting")
        if key in common:
            raise UsageError(f"use --{key} rather than --set {key}=…", code="bad_setting")
        settings[key] = value
    return settings


def _read(screen: Screen, label: str, files: list[Path], reading: options.Reading) -> Interactions:
    from sdgar.data.readers import read_files

    loaded = read_files(files, reading)
    screen.loaded(label, loaded, ", ".join(file.name for file in files))
    return loaded.interactions


def split_off(
    screen: Screen, data: Interactions, rule: str | None, seed: int
) -> tuple[Interactions, Interactions]:
    """Hold test rows out by a rule, the default one if none is named, and say how."""
    from sdgar.data import splits

    parts = splits.split(data, rule, seed=seed)
    screen.say(
        "split",
        f"{parts.how}: {len(parts.train):,} rows to train, {len(parts.held_out):,} to test",
    )
    if parts.warning:
        screen.warn(parts.warning)
    return parts.train, parts.held_out
