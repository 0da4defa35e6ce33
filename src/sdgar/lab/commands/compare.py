"""``sdgar compare``: several systems on the same rows, in one table and one picture."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from sdgar.cli import options
from sdgar.cli.bars import work
from sdgar.cli.console import Screen
from sdgar.cli.inputs import read_events, read_features
from sdgar.cli.reports import tell_left_out, tell_measured, tell_split
from sdgar.cli.signals import HeldBack
from sdgar.cli.train_line import train_line
from sdgar.errors import UsageError

if TYPE_CHECKING:
    from sdgar.lab.comparison import Comparison


@options.reads_files
def compare(
    context: typer.Context,
    files: options.Train,
    test: options.Test = None,
    valid: options.Valid = None,
    systems: options.Systems = "popular,bpr,sdgar,sdsoftmax",
    seeds: options.Seeds = 3,
    seed: options.Seed = 0,
    trials: options.Tune = None,
    against: options.Against = None,
    out: options.Folder = None,
    protocol: options.Protocol = "validated",
    split: options.Folds = None,
    engine: options.Engine = "auto",
    device: options.Device = "auto",
    settings: options.OfSystems = None,
    dislikes: options.Dislikes = False,
    item_features: options.ItemFeatures = None,
    feature_kinds: options.FeatureKinds = None,
    metric: options.Metric = None,
    ks: options.Ks = None,
    metrics: options.Metrics = None,
    item_facts: options.MetricFacts = None,
    latex: options.Latex = None,
    csv: options.Csv = None,
    overwrite: options.Overwrite = False,
    explain: options.Explain = False,
    as_json: options.Json = False,
    reading: options.Reading = None,
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
    options.require_one_test(test, split)
    all_seeds = options.seeds_of(seed, seeds)
    common = {"engine": engine, "device": device, **options.drawn_dislikes(dislikes)}
    own = options.settings_of(settings, {*common, "seed", "early_stopping__metric"})
    candidates = candidates_of(systems, own, common)
    estimators = [candidate.estimator for candidate in candidates]
    options.require_heeded(
        options.given(context), estimators, protocol=protocol, settings=own,
        valid_is_searched=trials is not None, metric_is_searched=True,
    )  # fmt: skip
    options.require_draws(screen, dislikes, estimators)
    if metric is not None:
        check_metric(metric)
    kinds = options.kinds_of(feature_kinds, item_features)
    names, facts = options.metrics_and_facts(metrics, item_facts)
    for file in (latex, csv):
        if file is not None:
            options.require_new(file, overwrite=overwrite)
    if csv is not None:
        options.require_new_table(csv, overwrite=overwrite)
    data, reading = read_events(screen, "data", files, reading)
    items = read_features(screen, "item", item_features, data.items.values, kinds)
    data = data if items is None else data.with_features(None, items)
    if test:
        folds = [splits.Split(data, read_events(screen, "test", test, reading)[0], "given")]
    else:
        folds = list(splits.folds(data, split or splits.default_rule(data), seed=seed))
        for parts in folds:
            tell_split(screen, parts)
    conditions = Conditions(
        folds=tuple(folds),
        valid=read_events(screen, "valid", valid, reading)[0] if valid else None,
        protocol=protocol, ks=options.lists_of(ks), seeds=all_seeds, trials=trials, metric=metric,
        metrics=names, facts=facts,
    )  # fmt: skip
    with HeldBack() as stop, work(screen, comparing.pieces(candidates, conditions)) as watch:
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
    tell_left_out(screen, found.counts)
    tell_measured(screen, found.definition, list(found.standings[0].means), explain=explain)
    screen.say("sure", found.how_sure)
    best = found.standings[0]
    screen.say("next", train_line(context, best.system, best.chosen))
