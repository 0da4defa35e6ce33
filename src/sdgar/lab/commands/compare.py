"""``sdgar compare`` and ``sdgar tune``: several systems in one table, and the settings of one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sdgar.cli.commands import command_of
from sdgar.cli.console import Screen
from sdgar.cli.inputs import read_events, read_features, split_off
from sdgar.cli.options.option import Option, first_page, written_out
from sdgar.cli.options.shared import (
    Explain,
    Files,
    ItemFeatureOptions,
    Json,
    Ks,
    MetricOptions,
    Overwrite,
    lengths_of,
    require_one_split,
    require_one_test,
)
from sdgar.cli.options.train import RunOptions
from sdgar.cli.options.training import (
    METRIC_SETTING,
    TrainingOptions,
    settings_of,
)
from sdgar.cli.options.values import (
    folder_for_files,
    new_file,
    require_new,
    require_new_table,
)
from sdgar.cli.reports import print_definitions, print_left_out, print_split
from sdgar.cli.training_screen import stop_signals, work
from sdgar.data.read_options import ReadOptions
from sdgar.data.sources import source_of
from sdgar.errors import UsageError
from sdgar.show.printed import command
from sdgar.storage.remote import is_remote

if TYPE_CHECKING:
    from sdgar.lab.comparison import ComparedSystems

_FILLED = {"files", "system", "settings", "set", "out", "overwrite", "json", "explain_metrics"}
"""Parameters of ``sdgar train`` that the printed command has anyway, or leaves out."""
_SETTINGS = {"engine": "engine", "device": "device", "metric": METRIC_SETTING}
"""Options that some systems have no setting for, with the name of the setting."""
_MOST_SEEDS = 10_000


@dataclass(frozen=True, kw_only=True)
class ComparisonOptions:
    """What is compared, and where the result is kept."""

    systems: Annotated[str, Option(metavar="NAME,NAME…")] = "popular,bpr,sdgar,sdsoftmax"
    """Compare these systems."""
    seeds: int = 3
    """Run each system with so many seeds, from --seed upwards."""
    trials: Annotated[int | None, Option(metavar="TRIALS", flag="--tune")] = None
    """First tune each system, with so many trials."""
    against: Annotated[str | None, Option(metavar="NAME")] = None
    """Compare the others with this system; the default is the best one."""
    settings: Annotated[list[str] | None, Option(metavar="[SYSTEM.]KEY=VALUE", flag="--set")] = None
    """Set a hyper-parameter of one system, or of all that have it; repeatable."""
    out: Annotated[Path | None, Option(metavar="FOLDER", parse=folder_for_files)] = None
    """Keep everything in this folder, and resume from it."""
    latex: Annotated[Path | None, Option(parse=new_file)] = None
    """Write the table here as LaTeX."""
    csv: Annotated[Path | None, Option(parse=new_file)] = None
    """Write the table with all metrics to this .csv file."""
    item_facts: Annotated[Path | None, Option(metavar="TABLE")] = None
    """Read the columns that metrics such as diversity:genres@10 compare items by from this table:
    the id, categories as a|b, and columns of other fields."""


@first_page(
    "--systems", "--test", "--split", "--seeds", "--seed", "--tune", "--against", "--out",
    "--metric", "--k", "--set", "--overwrite", "--json", "--user-column", "--item-column",
    "--min-rating",
)  # fmt: skip
def compare(
    context: typer.Context,
    files: Files,
    *,
    rows: Annotated[RunOptions, ("test", "split", "valid", "protocol")],
    wanted: ComparisonOptions,
    ks: Ks = None,
    overwrite: Overwrite = False,
    explain: Explain = False,
    as_json: Json = False,
    training: TrainingOptions,
    features: ItemFeatureOptions,
    metrics: MetricOptions,
    reading: ReadOptions,
) -> None:
    """Compare systems on the same rows, with the same seeds, and by a paired test over users.

    Settings are searched on validation rows alone (--tune), with the first seed; the test rows
    are read once for each run. --split may name several folds, windows:7d:3 (three windows of 7
    days) or folds:5, and the table then has means over all of them. With --out the same command
    resumes after an interruption. A system that fails is a row with its reason, and the exit code
    is that of the first of them.
    """
    from sdgar.data import splits
    from sdgar.lab import compare as comparing
    from sdgar.lab import files as writing
    from sdgar.lab.conditions import Conditions, candidates_of

    screen, out = Screen(as_json=as_json), wanted.out
    if out is not None:
        comparing.require_ours(out)
    if not rows.test and rows.split == "none":
        raise UsageError(
            "a comparison needs test rows. Give --test, or another --split.", code="no_test"
        )
    require_one_test(rows.test, rows.split)
    seeds = seeds_from(training.seed, wanted.seeds)
    common = training.common()
    own = settings_of(wanted.settings, {*common, "seed", METRIC_SETTING})
    candidates = candidates_of(wanted.systems, own, common)
    estimators = [candidate.estimator for candidate in candidates]
    training.check(
        screen, written_out(context), estimators, protocol=rows.protocol, settings=own,
        valid_is_searched=wanted.trials is not None, metric_is_searched=True,
    )  # fmt: skip
    kinds = features.kinds()
    names = metrics.names()
    facts = metrics.facts(wanted.item_facts)
    require_new(wanted.latex, overwrite=overwrite)
    require_new_table(wanted.csv, overwrite=overwrite)
    data, reading = read_events(screen, "data", files, reading)
    items = read_features(screen, "item", features.item_features, data.items.values, kinds)
    data = data if items is None else data.with_features(None, items)
    if rows.test:
        test, _ = read_events(screen, "test", rows.test, reading)
        folds = [splits.Split(data, test, "given")]
    else:
        rule = rows.split or splits.default_rule(data)
        folds = list(splits.folds(data, rule, seed=training.seed))
        for parts in folds:
            print_split(screen, parts)
    conditions = Conditions(
        folds=tuple(folds),
        valid=read_events(screen, "valid", rows.valid, reading)[0] if rows.valid else None,
        protocol=rows.protocol, ks=lengths_of(ks), seeds=seeds, trials=wanted.trials,
        metric=training.metric, metrics=None if names is None else tuple(names), facts=facts,
    )  # fmt: skip
    with stop_signals() as stop, work(screen, comparing.pieces(candidates, conditions)) as watch:
        found = comparing.compare(
            candidates, conditions, against=wanted.against, out=out, overwrite=overwrite,
            watch=watch, stop=stop,
        )  # fmt: skip
    _report(screen, context, found, explain=explain)
    if out is not None:
        undrawn = writing.save(found, out)
        if undrawn:
            screen.warn(f"no picture: {undrawn}")
        screen.say("saved", str(out))
    for file, write in ((wanted.latex, writing.save_latex), (wanted.csv, writing.save_csv)):
        if file is not None:
            write(found, file)
            screen.say("saved", str(file))
    screen.result(found.as_dict() | {"out": None if out is None else str(out)})
    if found.failures:
        raise typer.Exit(found.failures[0].exit_code)


def _report(
    screen: Screen, context: typer.Context, found: ComparedSystems, *, explain: bool
) -> None:
    from sdgar.lab.files import table

    head, rows = table(found)
    # The last columns are words, which would leave no space for the numbers on a narrow screen.
    screen.table(head[:-2], [row[:-2] for row in rows])
    for standing in found.standings:
        said = [standing.engine, standing.settings or "defaults"]
        screen.say("model", f"{standing.system}: {' · '.join(said)}")
    for failure in found.failures:
        screen.say("failed", f"{failure.system}: {failure.message}", style="yellow")
    if found.conditions.protocol == "paper":
        screen.warn("epochs were chosen on test rows (protocol paper): optimistic numbers.")
    if found.counts is None:
        return
    folds = len(found.conditions.folds)
    if folds > 1:
        screen.say("folds", f"{folds} folds, all values are means over them")
    print_left_out(screen, found.counts)
    print_definitions(screen, found.definition, list(found.standings[0].means), explain=explain)
    screen.say("sure", found.how_sure)
    best = found.standings[0]
    screen.say("next", train_line(context, best.system, best.chosen))


@dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """How long is searched, and where the search is kept."""

    trials: int = 20
    """Try so many settings; the first are the defaults."""
    study: Annotated[Path | None, Option(parse=new_file)] = None
    """Keep the search in this file, and resume it."""


@first_page(
    "--system", "--trials", "--test", "--split", "--study", "--metric", "--seed", "--set",
    "--overwrite", "--json", "--user-column", "--item-column", "--min-rating",
)  # fmt: skip
def tune(
    context: typer.Context,
    files: Files,
    *,
    system: Annotated[RunOptions, ("system", "settings")],
    wanted: SearchOptions,
    rows: Annotated[RunOptions, ("test", "split", "valid")],
    overwrite: Overwrite = False,
    as_json: Json = False,
    training: TrainingOptions,
    reading: ReadOptions,
) -> None:
    """Search a system's settings for the best --metric on validation rows.

    Settings that are given (--set) are not searched. Test rows play no part: without --test they
    are first split off as `sdgar train` does, and left alone; the rows of --test are only read to
    check that none of them is a training row. Trials that fall behind the median of earlier ones
    are given up. The same seed gives the same trials. With --study the same command resumes after
    an interruption, and one with more --trials adds to them.
    """
    from sdgar.data.held_out import HeldOut
    from sdgar.evaluation.ranked import warn_of_known
    from sdgar.lab import tune as tuning
    from sdgar.lab.study import require_optuna
    from sdgar.runs.run import check_settings
    from sdgar.systems.make import estimator_from_text

    require_optuna()
    screen = Screen(as_json=as_json)
    seed, metric, study = training.seed, training.metric, wanted.study
    common = {"seed": seed, **training.common()}
    fixed = settings_of(system.settings, {*common, METRIC_SETTING})
    base = estimator_from_text(system.system, fixed, common=common)
    require_one_test(rows.test, rows.split)
    require_one_split(rows.split, "sdgar tune", "searches with")
    training.check(screen, written_out(context), [base], metric_is_searched=True)
    check_settings(base)
    data, reading = read_events(screen, "data", files, reading)
    if rows.test:
        elsewhere, _ = read_events(screen, "test", rows.test, reading)
        held_out = HeldOut.of(elsewhere, data)
        warn_of_known(held_out, held_out.excluded(data))
    elif rows.split != "none":
        data = split_off(screen, data, rows.split, seed).train
    valid = read_events(screen, "valid", rows.valid, reading)[0] if rows.valid else None
    with stop_signals() as stop, work(screen, wanted.trials) as watch:
        found = tuning.tune(
            base, data, valid, trials=wanted.trials, fixed=fixed, metric=metric, seed=seed,
            study=study, overwrite=overwrite, watch=watch, stop=stop,
        )  # fmt: skip
    best, defaults = found.best, found.trials[0]
    values = ["none" if one.value is None else f"{one.value:.4f}" for one in (defaults, best)]
    screen.table(
        ("setting", "default", "best"),
        [(name, str(defaults.settings[name]), str(best.settings[name])) for name in found.searched]
        + [(f"valid {found.metric}", *values)],
    )
    line = train_line(context, system.system, {**fixed, **best.settings})
    screen.say("best", f"trial {best.number} of {len(found.trials)}, {found.seconds:.1f} s in all")
    if study is not None:
        screen.say("saved", str(study))
    screen.say("next", line)
    screen.result(
        found.as_dict()
        | {"seed": seed, "study": None if study is None else str(study), "command": line}
    )


def train_line(context: typer.Context, system: str, settings: Mapping[str, Any]) -> str:
    """Return the command that trains with these settings, on the data of the command in context."""
    files = map(_shown, context.params["files"])
    words: list[object] = ["sdgar", "train", *files, "--system", system]
    heeded = _heeded(context, system)
    for parameter in context.command.params:
        name = str(parameter.name)
        source = context.get_parameter_source(name)
        if name not in heeded or source is None or source.name != "COMMANDLINE":
            continue
        value, option = context.params[name], max(parameter.opts, key=len)
        if isinstance(value, bool):
            words += [option] * value
        else:
            several = value if isinstance(value, list | tuple) else [value]
            if name in ("test", "valid"):
                several = list(map(_shown, several))
            words += [word for one in several for word in (option, one)]
    for key, chosen in settings.items():
        words += ["--set", f"{key}={chosen}"]
    return command(*words, "--out", "RUN")


def _shown(text: str) -> object:
    """Return a file or a store as it is printed: the address of a store without its password."""
    return text if is_remote(text) else source_of(text)


def _heeded(context: typer.Context, system: str) -> set[str]:
    """Name the parameters that ``sdgar train`` has too, and would not refuse here."""
    from sdgar.data.splits import is_several
    from sdgar.systems.names import SYSTEMS

    names = {str(parameter.name) for parameter in command_of("train").params} - _FILLED
    has = SYSTEMS[system]().get_params()
    names -= {name for name, setting in _SETTINGS.items() if setting not in has}
    names -= {"valid", "metric"} if context.params.get("protocol") == "paper" else set()
    names -= {"split"} if is_several(context.params.get("split")) else set()
    return names


def seeds_from(first: int, n: int) -> tuple[int, ...]:
    """Return n seeds, from ``first`` upwards."""
    if not 1 <= n <= _MOST_SEEDS:
        limit = "at least 1" if n < 1 else f"at most {_MOST_SEEDS:,}"
        raise UsageError(f"--seeds must be {limit}, got {n:,}.", code="no_seeds")
    return tuple(range(first, first + n))
