"""``sdgar tune``: the settings of one system that do best on validation rows."""

from __future__ import annotations

import typer

from sdgar.cli import options
from sdgar.cli.bars import work
from sdgar.cli.console import Screen
from sdgar.cli.inputs import read_events, split_off
from sdgar.cli.signals import HeldBack
from sdgar.cli.train_line import train_line


@options.reads_files
def tune(
    context: typer.Context,
    files: options.Train,
    system: options.Tuned = options.DEFAULT_SYSTEM,
    trials: options.Trials = 20,
    test: options.Elsewhere = None,
    valid: options.Valid = None,
    split: options.Split = None,
    study: options.Study = None,
    dislikes: options.Dislikes = False,
    metric: options.Metric = None,
    seed: options.Seed = 0,
    engine: options.Engine = "auto",
    device: options.Device = "auto",
    settings: options.Fixed = None,
    overwrite: options.Overwrite = False,
    as_json: options.Json = False,
    reading: options.Reading = None,
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
    common = {"seed": seed, "engine": engine, "device": device}
    common |= options.drawn_dislikes(dislikes)
    fixed = options.settings_of(settings, {*common, "early_stopping__metric"})
    if metric is not None:
        check_metric(metric)
    base = make(system, fixed, common=common)
    options.require_draws(screen, dislikes, [base])
    options.require_one_test(test, split)
    options.require_one_split(split, "sdgar tune", "searches with")
    options.require_heeded(options.given(context), [base], metric_is_searched=True)
    check_settings(base)
    data, reading = read_events(screen, "data", files, reading)
    if test:
        elsewhere, _ = read_events(screen, "test", test, reading)
        held_out = HeldOut.of(elsewhere, data)
        warn_of_known(held_out, held_out.left_out(data))
    elif split != "none":
        data = split_off(screen, data, split, seed).train
    validation = read_events(screen, "valid", valid, reading)[0] if valid else None
    with HeldBack() as stop, work(screen, trials) as watch:
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
