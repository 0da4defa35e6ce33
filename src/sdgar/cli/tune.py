"""``sdgar tune``: the settings of one system that do best on validation rows."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from sdgar.cli import options
from sdgar.cli.console import Screen
from sdgar.cli.signals import HeldBack
from sdgar.cli.train import read_events, split_off
from sdgar.cli.train import train as train_command
from sdgar.show.printed import command


@options.reads_files
def tune(
    context: typer.Context,
    files: options.Train,
    system: Annotated[
        str, typer.Option("--system", help="What to tune; see sdgar train.")
    ] = options.DEFAULT_SYSTEM,
    trials: Annotated[
        int,
        typer.Option(
            "--trials",
            parser=options.number("--trials", int),
            metavar="INTEGER",
            help="Settings to try; the first are the defaults.",
        ),
    ] = 20,
    test: Annotated[
        list[Path] | None,
        typer.Option(
            "--test",
            help="Events held out elsewhere, so that nothing is split off; they are only looked "
            "at to see that none of them is a training row.",
        ),
    ] = None,
    valid: options.Valid = None,
    split: options.Split = None,
    study: Annotated[
        Path | None,
        typer.Option(
            "--study",
            parser=options.new_file,
            metavar="FILE",
            help="Keep the search here, and go on with it.",
        ),
    ] = None,
    dislikes: options.Dislikes = False,
    metric: options.Metric = None,
    seed: options.Seed = 0,
    engine: options.Engine = "auto",
    device: options.Device = "auto",
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A hyper-parameter that stays as it is."),
    ] = None,
    overwrite: options.Overwrite = False,
    as_json: options.Json = False,
    reading: options.Reading = None,
) -> None:
    """Search a system's settings for the best --metric on validation rows.

    Test rows play no part: without --test they are first split off as `sdgar train` does, and
    left alone. Trials that fall behind the median of earlier ones are given up. The same seed
    gives the same trials. With --study the same command goes on after an interruption, and one
    with more --trials adds to them.
    """
    from sdgar.data.held_out import HeldOut
    from sdgar.evaluation.metrics import check_metric
    from sdgar.evaluation.report import warn_of_known
    from sdgar.experiments import tune as tuning
    from sdgar.experiments.study import require_optuna
    from sdgar.systems.make import make

    require_optuna()
    screen = Screen(as_json=as_json)
    common = {"seed": seed, "engine": engine, "device": device}
    common |= options.drawn_dislikes(dislikes)
    fixed = options.settings_of(settings, {*common, "metric"})
    if metric is not None:
        check_metric(metric)
    base = make(system, fixed, common=common)
    options.require_draws(screen, dislikes, [base])
    options.require_one_test(test, split)
    options.require_one_split(split, "sdgar tune", "searches with")
    options.require_heeded(options.given(context), [base], metric_is_searched=True)
    data, reading = read_events(screen, "data", files, reading)
    if test:
        elsewhere, _ = read_events(screen, "test", test, reading)
        held_out = HeldOut.of(elsewhere, data)
        warn_of_known(held_out, held_out.left_out(data))
    elif split != "none":
        data = split_off(screen, data, split, seed).train
    validation = read_events(screen, "valid", valid, reading)[0] if valid else None
    with HeldBack() as stop, screen.work(trials) as watch:
        found = tuning.tune(
            base,
            data,
            validation,
            trials=trials,
            fixed=fixed,
            metric=metric,
            seed=seed,
            study=study,
            overwrite=overwrite,
            watch=watch,
            stop=stop,
        )
    best, defaults = found.best, found.trials[0]
    screen.table(
        ("setting", "default", "best"),
        [(name, str(defaults.settings[name]), str(best.settings[name])) for name in found.searched]
        + [(f"valid {found.metric}", _shown(defaults.value), _shown(best.value))],
    )
    line = train_line(context, system, {**fixed, **best.settings})
    screen.say("best", f"trial {best.number} of {len(found.trials)}, {found.seconds:.1f} s in all")
    if study is not None:
        screen.say("saved", str(study))
    screen.say("next", line)
    screen.result(
        found.as_dict()
        | {"seed": seed, "study": None if study is None else str(study), "command": line}
    )


def train_line(context: typer.Context, system: str, settings: Mapping[str, Any]) -> str:
    """The command that trains with these settings, on the data of the command that was given."""
    from sdgar.data.splits import is_several
    from sdgar.systems.names import SYSTEMS

    shared = set(inspect.signature(train_command).parameters)
    shared -= {"context", "files", "system", "settings", "out", "overwrite", "as_json", "explain"}
    # What the system has not, and what the protocol does not look at, would be refused.
    shared -= {"engine", "device", "metric"} - SYSTEMS[system]().get_params().keys()
    shared -= {"valid", "metric"} if context.params.get("protocol") == "paper" else set()
    shared -= {"split"} if is_several(context.params.get("split")) else set()
    words: list[object] = ["sdgar", "train", *context.params["files"], "--system", system]
    for parameter in context.command.params:
        name = str(parameter.name)
        source = context.get_parameter_source(name)
        if name not in shared or source is None or source.name != "COMMANDLINE":
            continue
        value, option = context.params[name], parameter.opts[0]
        if isinstance(value, bool):
            words += [option] * value
        else:
            several = value if isinstance(value, list | tuple) else [value]
            words += [word for one in several for word in (option, one)]
    for key, chosen in settings.items():
        words += ["--set", f"{key}={chosen}"]
    return command(*words, "--out", "RUN")


def _shown(value: float | None) -> str:
    return "none" if value is None else f"{value:.4f}"
