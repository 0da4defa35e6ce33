"""``sdgar compare``: several systems on the same rows, in one table and one picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sdgar.cli.console import Screen
from sdgar.cli.inputs import read_events, read_features
from sdgar.cli.options.groups import first_page, given, grouped
from sdgar.cli.options.recommending import MetricOptions, metrics_and_facts
from sdgar.cli.options.shared import (
    Explain,
    ItemFeatureOptions,
    Json,
    Ks,
    Overwrite,
    events,
    lengths_of,
    require_one_test,
)
from sdgar.cli.options.training import (
    METRIC_SETTING,
    TrainingOptions,
    require_heeded,
    settings_of,
)
from sdgar.cli.options.values import (
    folder_for_files,
    new_file,
    number,
    require_new,
    require_new_table,
)
from sdgar.cli.reports import print_definitions, print_left_out, print_split
from sdgar.cli.training_screen import StopRequest, work
from sdgar.data.read_options import ReadOptions
from sdgar.errors import UsageError
from sdgar.lab.commands.shared import SPLIT, Train, Valid, seeds_from, train_line

if TYPE_CHECKING:
    from sdgar.lab.comparison import Comparison


@first_page(
    "--systems", "--test", "--split", "--seeds", "--seed", "--tune", "--against", "--out",
    "--metric", "--k", "--set", "--overwrite", "--json", "--user-column", "--item-column",
    "--min-rating",
)  # fmt: skip
@grouped
def compare(
    context: typer.Context,
    files: Train,
    test: Annotated[list[Any] | None, events("--test", "Measure on these held-out events.")] = None,
    valid: Valid = None,
    systems: Annotated[
        str, typer.Option("--systems", metavar="NAME,NAME…", help="Compare these systems.")
    ] = "popular,bpr,sdgar,sdsoftmax",
    seeds: Annotated[
        int,
        typer.Option(
            "--seeds",
            parser=number("--seeds", int),
            metavar="INTEGER",
            help="Run each system with so many seeds, from --seed upwards.",
        ),
    ] = 3,
    trials: Annotated[
        int | None,
        typer.Option(
            "--tune",
            parser=number("--tune", int),
            metavar="TRIALS",
            help="First tune each system, with so many trials.",
        ),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            "--against",
            metavar="NAME",
            help="Compare the others with this system; the default is the best one.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            parser=folder_for_files,
            metavar="FOLDER",
            help="Keep everything in this folder, and resume from it.",
        ),
    ] = None,
    protocol: Annotated[
        str,
        typer.Option(
            "--protocol",
            metavar="validated|paper",
            help="Choose epochs on validation rows (validated), or on test rows (paper).",
        ),
    ] = "validated",
    split: Annotated[
        str | None,
        typer.Option(
            "--split",
            metavar="RULE",
            help=f"{SPLIT}, or several folds: windows:7d:3 (three windows of 7 days), folds:5.",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="[SYSTEM.]KEY=VALUE",
            help="Set a hyper-parameter of one system, or of all that have it; repeatable.",
        ),
    ] = None,
    ks: Ks = None,
    latex: Annotated[
        Path | None,
        typer.Option(
            "--latex", parser=new_file, metavar="FILE", help="Write the table here as LaTeX."
        ),
    ] = None,
    csv: Annotated[
        Path | None,
        typer.Option(
            "--csv",
            parser=new_file,
            metavar="FILE",
            help="Write the table with all metrics to this .csv file.",
        ),
    ] = None,
    item_facts: Annotated[
        Path | None,
        typer.Option(
            "--item-facts",
            metavar="TABLE",
            help="Read the columns that metrics such as diversity:genres@10 compare items by from "
            "this table: the id, categories as a|b, and columns of other fields.",
            rich_help_panel="Metrics",
        ),
    ] = None,
    overwrite: Overwrite = False,
    explain: Explain = False,
    as_json: Json = False,
    *,
    training: TrainingOptions,
    features: ItemFeatureOptions,
    metrics: MetricOptions,
    reading: ReadOptions,
) -> None:
    """Compare systems on the same rows, with the same seeds, and by a paired test over users.

    Settings are searched on validation rows alone (--tune), with the first seed; the test rows
    are read once for each run. With several folds the table has means over all of them. With
    --out the same command resumes after an interruption. A system that fails is a row with its
    reason, and the exit code is that of the first of them.
    """
    from sdgar.data import splits
    from sdgar.evaluation.metrics import check_metric
    from sdgar.lab import compare as comparing
    from sdgar.lab import files as writing
    from sdgar.lab.conditions import Conditions, candidates_of
    from sdgar.lab.results import require_ours

    screen = Screen(as_json=as_json)
    if out is not None:
        require_ours(out)
    if not test and split == "none":
        raise UsageError(
            "a comparison needs test rows. Give --test, or another --split.", code="no_test"
        )
    require_one_test(test, split)
    all_seeds = seeds_from(training.seed, seeds)
    common = {
        "engine": training.engine,
        "device": training.device,
        **training.negatives(),
    }
    own = settings_of(settings, {*common, "seed", METRIC_SETTING})
    candidates = candidates_of(systems, own, common)
    estimators = [candidate.estimator for candidate in candidates]
    require_heeded(
        given(context), estimators, protocol=protocol, settings=own,
        valid_is_searched=trials is not None, metric_is_searched=True,
    )  # fmt: skip
    training.require_draws(screen, estimators)
    metric = training.metric
    if metric is not None:
        check_metric(metric)
    kinds = features.kinds()
    names, facts = metrics_and_facts(metrics.names(), item_facts)
    require_new(latex, overwrite=overwrite)
    require_new_table(csv, overwrite=overwrite)
    data, reading = read_events(screen, "data", files, reading)
    items = read_features(screen, "item", features.item_features, data.items.values, kinds)
    data = data if items is None else data.with_features(None, items)
    if test:
        folds = [splits.Split(data, read_events(screen, "test", test, reading)[0], "given")]
    else:
        folds = list(splits.folds(data, split or splits.default_rule(data), seed=training.seed))
        for parts in folds:
            print_split(screen, parts)
    conditions = Conditions(
        folds=tuple(folds),
        valid=read_events(screen, "valid", valid, reading)[0] if valid else None,
        protocol=protocol, ks=lengths_of(ks), seeds=all_seeds, trials=trials, metric=metric,
        metrics=names, facts=facts,
    )  # fmt: skip
    with StopRequest() as stop, work(screen, comparing.pieces(candidates, conditions)) as watch:
        found = comparing.compare(
            candidates, conditions, against=against, out=out, overwrite=overwrite, watch=watch,
            stop=stop,
        )  # fmt: skip
    _report(screen, context, found, explain=explain)
    if out is not None:
        undrawn = writing.save(found, out)
        if undrawn:
            screen.warn(f"no picture: {undrawn}")
        screen.say("saved", str(out))
    for file, write in ((latex, writing.save_latex), (csv, writing.save_csv)):
        if file is not None:
            write(found, file)
            screen.say("saved", str(file))
    screen.result(found.as_dict() | {"out": None if out is None else str(out)})
    if found.failures:
        raise typer.Exit(found.failures[0].exit_code)


def _report(screen: Screen, context: typer.Context, found: Comparison, *, explain: bool) -> None:
    head, rows = found.table()
    # The last columns are words, which would leave no space for the numbers on a narrow screen.
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
    print_left_out(screen, found.counts)
    print_definitions(screen, found.definition, list(found.standings[0].means), explain=explain)
    screen.say("sure", found.how_sure)
    best = found.standings[0]
    screen.say("next", train_line(context, best.system, best.chosen))
