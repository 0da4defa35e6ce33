"""``sdgar tune``: the settings of one system that do best on validation rows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sdgar.cli.console import Screen
from sdgar.cli.inputs import read_events, split_off
from sdgar.cli.options.groups import first_page, given, grouped
from sdgar.cli.options.shared import Json, Overwrite, events, require_one_split, require_one_test
from sdgar.cli.options.training import (
    DEFAULT_SYSTEM,
    METRIC_SETTING,
    TrainingOptions,
    require_heeded,
    settings_of,
)
from sdgar.cli.options.values import new_file, number
from sdgar.cli.training_screen import StopRequest, work
from sdgar.data.read_options import ReadOptions
from sdgar.lab.commands.shared import SPLIT, Train, Valid, train_line


@first_page(
    "--system", "--trials", "--test", "--split", "--study", "--metric", "--seed", "--set",
    "--overwrite", "--json", "--user-column", "--item-column", "--min-rating",
)  # fmt: skip
@grouped
def tune(
    context: typer.Context,
    files: Train,
    system: Annotated[
        str, typer.Option("--system", metavar="NAME", help="Tune this system; see sdgar systems.")
    ] = DEFAULT_SYSTEM,
    trials: Annotated[
        int,
        typer.Option(
            "--trials",
            parser=number("--trials", int),
            metavar="INTEGER",
            help="Try so many settings; the first are the defaults.",
        ),
    ] = 20,
    test: Annotated[
        list[Any] | None,
        events(
            "--test",
            "Files of test events, so that none are split off; they are only read to check that "
            "none of them is a training row.",
        ),
    ] = None,
    valid: Valid = None,
    split: Annotated[
        str | None, typer.Option("--split", metavar="RULE", help=f"{SPLIT}, none.")
    ] = None,
    study: Annotated[
        Path | None,
        typer.Option(
            "--study",
            parser=new_file,
            metavar="FILE",
            help="Keep the search in this file, and resume it.",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Fix a hyper-parameter, so that it is not searched; repeatable.",
        ),
    ] = None,
    overwrite: Overwrite = False,
    as_json: Json = False,
    *,
    training: TrainingOptions,
    reading: ReadOptions,
) -> None:
    """Search a system's settings for the best --metric on validation rows.

    Test rows play no part: without --test they are first split off as `sdgar train` does, and
    left alone. Trials that fall behind the median of earlier ones are given up. The same seed
    gives the same trials. With --study the same command resumes after an interruption, and one
    with more --trials adds to them.
    """
    from sdgar.data.held_out import HeldOut
    from sdgar.evaluation.counts import warn_of_known
    from sdgar.evaluation.metrics import check_metric
    from sdgar.lab import tune as tuning
    from sdgar.lab.study import require_optuna
    from sdgar.runs.run import check_settings
    from sdgar.systems.make import make

    require_optuna()
    screen = Screen(as_json=as_json)
    seed, metric = training.seed, training.metric
    common = {"seed": seed, "engine": training.engine, "device": training.device}
    common |= training.negatives()
    fixed = settings_of(settings, {*common, METRIC_SETTING})
    if metric is not None:
        check_metric(metric)
    base = make(system, fixed, common=common)
    training.require_draws(screen, [base])
    require_one_test(test, split)
    require_one_split(split, "sdgar tune", "searches with")
    require_heeded(given(context), [base], metric_is_searched=True)
    check_settings(base)
    data, reading = read_events(screen, "data", files, reading)
    if test:
        elsewhere, _ = read_events(screen, "test", test, reading)
        held_out = HeldOut.of(elsewhere, data)
        warn_of_known(held_out, held_out.left_out(data))
    elif split != "none":
        data = split_off(screen, data, split, seed).train
    validation = read_events(screen, "valid", valid, reading)[0] if valid else None
    with StopRequest() as stop, work(screen, trials) as watch:
        found = tuning.tune(
            base, data, validation, trials=trials, fixed=fixed, metric=metric, seed=seed,
            study=study, overwrite=overwrite, watch=watch, stop=stop,
        )  # fmt: skip
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


def _shown(value: float | None) -> str:
    return "none" if value is None else f"{value:.4f}"
