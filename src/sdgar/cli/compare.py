"""``sdgar compare``: several systems on the same rows, in one table and one picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sdgar.cli import options
from sdgar.cli.console import Screen
from sdgar.cli.signals import HeldBack
from sdgar.cli.train import read_events, tell_split
from sdgar.cli.tune import train_line
from sdgar.errors import UsageError, unknown_name

if TYPE_CHECKING:
    from sdgar.experiments.compare import Candidate
    from sdgar.experiments.standings import Comparison


@options.reads_files
def compare(
    context: typer.Context,
    files: options.Train,
    test: options.Test = None,
    valid: options.Valid = None,
    systems: Annotated[
        str, typer.Option("--systems", metavar="NAME,NAME…", help="What to compare.")
    ] = "popular,bpr,sdgar,sdsoftmax",
    seeds: Annotated[
        int,
        typer.Option(
            "--seeds",
            parser=options.number("--seeds", int),
            metavar="INTEGER",
            help="Runs of each system; from --seed upwards.",
        ),
    ] = 3,
    seed: options.Seed = 0,
    trials: Annotated[
        int | None,
        typer.Option(
            "--tune",
            parser=options.number("--tune", int),
            metavar="TRIALS",
            help="First tune each system, all as long.",
        ),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option("--against", metavar="NAME", help="Hold the others against this; the best."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            parser=options.folder_for_files,
            metavar="FOLDER",
            help="Folder to keep everything in, and go on from.",
        ),
    ] = None,
    protocol: options.Protocol = "validated",
    split: options.Folds = None,
    engine: options.Engine = "auto",
    device: options.Device = "auto",
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="[SYSTEM.]KEY=VALUE",
            help="A hyper-parameter of one system, or of all that have it.",
        ),
    ] = None,
    dislikes: options.Dislikes = False,
    metric: options.Metric = None,
    ks: options.Ks = None,
    overwrite: options.Overwrite = False,
    explain: options.Explain = False,
    as_json: options.Json = False,
    reading: options.Reading = None,
) -> None:
    """Compare systems: same rows, same seeds, same budget, a paired test over users.

    Settings are searched on validation rows alone (--tune), with the first seed; the test rows
    are read once for each run. With several folds the table has means over all of them. With
    --out the same command goes on after an interruption. A system that fails is a row with its
    reason, and the exit code is that of the first of them.
    """
    from sdgar.data import splits
    from sdgar.evaluation.metrics import check_metric
    from sdgar.experiments import compare as comparing
    from sdgar.experiments.results import require_ours

    screen = Screen(as_json=as_json)
    if out is not None:
        require_ours(out)
    if not test and split == "none":
        raise UsageError(
            "a comparison needs test rows. Give --test, or another --split.", code="no_test"
        )
    options.require_one_test(test, split)
    all_seeds = options.seeds_of(seed, seeds)
    common = {"engine": engine, "device": device, **options.drawn_dislikes(dislikes)}
    own = options.settings_of(settings, {*common, "seed", "metric"})
    candidates = _candidates(systems, own, common)
    options.require_heeded(
        options.given(context),
        [candidate.estimator for candidate in candidates],
        protocol=protocol,
        settings=own,
        valid_is_searched=trials is not None,
        metric_is_searched=True,
    )
    options.require_draws(screen, dislikes, [candidate.estimator for candidate in candidates])
    if metric is not None:
        check_metric(metric)
    data, reading = read_events(screen, "data", files, reading)
    if test:
        folds = [splits.Split(data, read_events(screen, "test", test, reading)[0], "given")]
    else:
        folds = list(splits.folds(data, split or splits.default_rule(data), seed=seed))
        for parts in folds:
            tell_split(screen, parts)
    conditions = comparing.Conditions(
        folds=tuple(folds),
        valid=read_events(screen, "valid", valid, reading)[0] if valid else None,
        protocol=protocol,
        ks=options.lists_of(ks),
        seeds=all_seeds,
        trials=trials,
        metric=metric,
    )
    with (
        HeldBack() as stop,
        screen.work(comparing.pieces(candidates, conditions)) as watch,
    ):
        found = comparing.compare(
            candidates,
            conditions,
            against=against,
            out=out,
            overwrite=overwrite,
            watch=watch,
            stop=stop,
        )
    _report(screen, context, found, explain=explain)
    if out is not None:
        undrawn = comparing.save(found, out)
        if undrawn:
            screen.warn(f"no picture: {undrawn}")
        screen.say("saved", str(out))
    screen.result(found.as_dict() | {"out": None if out is None else str(out)})
    if found.failures:
        raise typer.Exit(found.failures[0].exit_code)


def _candidates(names: str, settings: dict[str, str], common: dict[str, Any]) -> list[Candidate]:
    """Every system with its settings: those of its own, and those of all that it has."""
    from sdgar.experiments.compare import Candidate
    from sdgar.settings import RENAMED
    from sdgar.systems.make import make
    from sdgar.systems.names import SYSTEMS

    systems = [name.strip() for name in names.split(",") if name.strip()]
    for name in systems:
        if name not in SYSTEMS:
            raise unknown_name("system", name, SYSTEMS)
    known = {name: [*SYSTEMS[name]().get_params(), *RENAMED.get(name, ())] for name in systems}
    for key in settings:
        system, dot, name = key.rpartition(".")
        if dot and system not in systems:
            raise unknown_name("compared system", system, systems)
        if not dot and not any(name in fields for fields in known.values()):
            raise unknown_name("setting", name, {key for own in known.values() for key in own})
    found = []
    for name in systems:
        own = {key: value for key, value in settings.items() if key in known[name]}
        for key, value in settings.items():
            if key.startswith(f"{name}."):
                own[key.removeprefix(f"{name}.")] = value
        found.append(Candidate(make(name, own, common=common), own))
    return found


def _report(screen: Screen, context: typer.Context, found: Comparison, *, explain: bool) -> None:
    head, rows = found.table()
    # The last columns are words, which would leave the numbers no room on a narrow screen.
    screen.table(head[:-2], [row[:-2] for row in rows])
    for standing in found.standings:
        said = [standing.engine, standing.settings or "defaults"]
        screen.say("model", f"{standing.system}: {' · '.join(said)}")
    for failure in found.failures:
        screen.say("failed", f"{failure.system}: {failure.message}", style="yellow")
    if found.protocol == "paper":
        screen.warn("epochs were chosen on test rows (protocol paper): optimistic numbers.")
    if found.counts is None:
        return
    if len(found.folds) > 1:
        screen.say("folds", f"{len(found.folds)} folds, all values are means over them")
    screen.left_out(found.counts)
    screen.measured(found.definition, explain=explain)
    screen.say("sure", found.how_sure)
    best = found.standings[0]
    screen.say("next", train_line(context, best.system, best.chosen))
