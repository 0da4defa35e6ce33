"""``sdgar evaluate``: measure a saved model on held-out events."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sdgar.cli import options
from sdgar.cli.console import Screen
from sdgar.cli.reports import tell_cold, tell_effect, tell_loaded, tell_report
from sdgar.errors import UsageError

if TYPE_CHECKING:
    from sdgar.evaluation.report import Report


@options.reads_files
def evaluate(
    context: typer.Context,
    run: options.RunFolder,
    test: Annotated[
        list[Any],
        typer.Option(
            "--test", metavar=options.PATH, parser=options.source, help="Measure on these events."
        ),
    ],
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
    rules: options.RulesFile = None,
    item_facts: options.ItemFacts = None,
    diversity: options.DiversityDial = 0.0,
    popularity: options.PopularityDial = 0.0,
    exclude_category: options.ExcludeCategory = None,
    explain: options.Explain = False,
    as_json: options.Json = False,
    reading: options.Reading = None,
) -> None:
    """Rank all items for every test user and compare with the test events."""
    from sdgar.data.contexts import USER
    from sdgar.data.readers import read_files
    from sdgar.recommend.effect import as_dict, effect_of
    from sdgar.recommend.measuring import among_cold
    from sdgar.recommend.recommender import load, most_popular

    reranking = options.rules_of(rules, item_facts, diversity, popularity, exclude_category)
    screen = Screen(as_json=as_json)
    model = load(run)
    fields = tuple(model.about.get("context", reading.context))
    if "fields" in options.given(context) and reading.context != fields:
        raise UsageError(
            f"--context {','.join(reading.context)} is not what a context of this model is: "
            f"{','.join(fields)}. Leave it out.",
            code="bad_context",
        )
    reading = replace(reading, context=fields, seen_by=model.seen_by if fields != USER else "user")
    lists = options.lists_of(ks)
    held_out = read_files(test, reading)
    tell_loaded(screen, "test", held_out, ", ".join(file.name for file in test))
    seen = None
    if train:
        loaded = read_files(train, reading)
        tell_loaded(screen, "train", loaded, ", ".join(file.name for file in train))
        seen = loaded.interactions
    known = None
    if histories:
        loaded = read_files(histories, reading)
        tell_loaded(screen, "history", loaded, ", ".join(file.name for file in histories))
        known = loaded.interactions
    report, popular = (
        one.evaluate(held_out.interactions, seen=seen, ks=lists, histories=known)
        for one in (model, most_popular(model))
    )
    system = str(model.about.get("system", "model"))
    tell_report(screen, report, popular, system, explain=explain)
    cold = None if train else among_cold(model, held_out.interactions, ks=lists, histories=known)
    tell_cold(screen, cold)
    effect = None
    if reranking is not None:
        effect = effect_of(
            reranking, model, held_out.interactions, ks=lists, seen=seen, histories=known
        )
        tell_effect(screen, effect)
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
            **({} if cold is None else {"among_cold": _told(cold)}),
            **({} if effect is None else {"rules": as_dict(effect)}),
        }
    )


def _told(cold: Report) -> dict[str, Any]:
    """Return what was measured among cold items alone, for JSON."""
    return {**asdict(cold.counts), "test": cold.means(), "intervals": cold.intervals()}
