"""``sdgar evaluate``: measure a saved model, or a run of another system, on held-out events."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sdgar.cli import options
from sdgar.cli.commands import extensions_of
from sdgar.cli.console import Screen
from sdgar.cli.measured import Wanted, write_trec
from sdgar.cli.reports import tell_effect, tell_loaded, tell_report
from sdgar.errors import UsageError

if TYPE_CHECKING:
    from sdgar.data.interactions import Interactions
    from sdgar.data.readers import ReadOptions
    from sdgar.recommend.recommender import Recommender


@options.reads_files
def evaluate(
    context: typer.Context,
    run: options.MaybeRunFolder = None,
    test: Annotated[
        list[Any] | None,
        typer.Option(
            "--test", metavar=options.PATH, parser=options.source, help="Measure on these events."
        ),
    ] = None,
    train: Annotated[
        list[Any] | None,
        typer.Option(
            "--train",
            metavar=options.PATH,
            parser=options.source,
            help="Leave these events out of lists; default: the model's own.",
        ),
    ] = None,
    histories: Annotated[
        list[Any] | None,
        typer.Option(
            "--histories",
            metavar=options.PATH,
            parser=options.source,
            help="Fold in test users who are new to the model from these events.",
        ),
    ] = None,
    ks: options.Ks = None,
    metrics: options.Metrics = None,
    by: options.By = None,
    user_facts: options.UserFacts = None,
    per_user: options.PerUser = None,
    foreign: options.ForeignRun = None,
    qrels: options.Qrels = None,
    write_run: options.WriteRun = None,
    write_qrels: options.WriteQrels = None,
    rules: options.RulesFile = None,
    item_facts: options.ItemFacts = None,
    diversity: options.DiversityDial = 0.0,
    popularity: options.PopularityDial = 0.0,
    exclude_category: options.ExcludeCategory = None,
    overwrite: options.Overwrite = False,
    explain: options.Explain = False,
    as_json: options.Json = False,
    reading: options.Reading = None,
) -> None:
    """Rank all items for every test user and compare with the test events.

    With --run and --qrels, measure the lists of another system instead.
    """
    screen = Screen(as_json=as_json)
    wanted = Wanted.of(
        metrics, by, user_facts, item_facts, per_user, ks=ks, explain=explain, overwrite=overwrite
    )
    if foreign is not None or qrels is not None:
        (measure_run,) = extensions_of("evaluate")
        measure_run(screen, options.given(context), foreign, qrels, train, reading, wanted)
        return
    if run is None or not test:
        raise UsageError(
            "name a saved model and its test events: sdgar evaluate RUN --test FILE. Or measure "
            "lists of another system: sdgar evaluate --run FILE --qrels FILE.",
            code="missing_option",
        )
    for file in (write_run, write_qrels):
        if file is not None:
            options.require_new(file, overwrite=overwrite)
    from sdgar.recommend.effect import as_dict, effect_of
    from sdgar.recommend.recommender import load, most_popular

    reranking = options.rules_of(
        rules, item_facts, diversity, popularity, exclude_category,
        facts_for_metrics=wanted.facts_are_read,
    )  # fmt: skip
    model = load(run)
    reading = _as_trained(context, model, reading)
    held_out = _read(screen, "test", test, reading)
    seen = _read(screen, "train", train, reading) if train else None
    known = _read(screen, "history", histories, reading) if histories else None
    report, popular = (
        one.evaluate(
            held_out, seen=seen, ks=wanted.ks, histories=known, metrics=wanted.metrics,
            **wanted.beside(model),
        )
        for one in (model, most_popular(model))
    )  # fmt: skip
    system = str(model.about.get("system", "model"))
    tell_report(screen, report, popular, system, explain=explain)
    cold = {} if train else wanted.cold(screen, model, held_out, known)
    groups = wanted.groups(screen, report)
    effect = None
    if reranking is not None:
        effect = effect_of(
            reranking, model, held_out, ks=wanted.ks, seen=seen, histories=known,
            metrics=wanted.metrics,
        )  # fmt: skip
        tell_effect(screen, effect)
    wanted.write(screen, report)
    write_trec(screen, report, held_out, write_run, write_qrels)
    screen.result(
        {
            "run": str(run),
            "system": system,
            "test": report.means(),
            "intervals": report.intervals(),
            "users": len(report.users_T),
            "counts": asdict(report.counts),
            "most_popular": popular.means(),
            "definition": report.definition,
            **cold,
            **groups,
            **({} if effect is None else {"rules": as_dict(effect)}),
        }
    )


def _as_trained(context: typer.Context, model: Recommender, reading: ReadOptions) -> ReadOptions:
    """Return how to read events for a model, whose contexts may have several fields."""
    from sdgar.data.read_options import USER

    fields = tuple(model.about.get("context", reading.context))
    if "fields" in options.given(context) and reading.context != fields:
        raise UsageError(
            f"--context {','.join(reading.context)} is not what a context of this model is: "
            f"{','.join(fields)}. Leave it out.",
            code="bad_context",
        )
    return replace(reading, context=fields, seen_by=model.seen_by if fields != USER else "user")


def _read(screen: Screen, label: str, files: list[Any], reading: ReadOptions) -> Interactions:
    from sdgar.data.readers import read_files

    loaded = read_files(files, reading)
    tell_loaded(screen, label, loaded, ", ".join(file.name for file in files))
    return loaded.interactions
