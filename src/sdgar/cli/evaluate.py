"""``sdgar evaluate``: measure a saved model, or a run of another system, on held-out events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sdgar.cli.commands import extensions_of
from sdgar.cli.console import Screen
from sdgar.cli.measured import Measurement, write_trec
from sdgar.cli.options.groups import first_page, given, grouped_with
from sdgar.cli.options.recommending import GroupOptions, RuleOptions, TrecOptions
from sdgar.cli.options.shared import Explain, Json, Ks, Overwrite, events
from sdgar.cli.options.values import require_new, saved_folder
from sdgar.cli.reports import (
    print_effect,
    print_loaded,
    print_report,
)
from sdgar.data.read_options import USER, ReadOptions
from sdgar.errors import UsageError

if TYPE_CHECKING:
    from sdgar.data.interactions import Interactions
    from sdgar.recommend.recommender import Recommender


@first_page(
    "--test", "--train", "--histories", "--k", "--metrics", "--by", "--per-user", "--rules",
    "--item-facts", "--overwrite", "--explain-metrics", "--json", "--user-column", "--item-column",
    "--min-rating",
)  # fmt: skip
@grouped_with(extensions_of("evaluate"))
def evaluate(
    context: typer.Context,
    saved: Annotated[
        Path | None,
        typer.Argument(metavar="RUN", parser=saved_folder, help="The folder of a saved model."),
    ] = None,
    test: Annotated[list[Any] | None, events("--test", "Measure on these events.")] = None,
    train: Annotated[
        list[Any] | None,
        events("--train", "Do not recommend items of these events; default: the model's own."),
    ] = None,
    histories: Annotated[
        list[Any] | None,
        events("--histories", "Fold in test users who are new to the model from these events."),
    ] = None,
    ks: Ks = None,
    *,
    metrics: GroupOptions,
    trec: TrecOptions,
    rules: RuleOptions,
    overwrite: Overwrite = False,
    explain: Explain = False,
    as_json: Json = False,
    reading: ReadOptions,
    extended: Mapping[Any, Any],
) -> None:
    """Rank all items for every test user and compare with the test events.

    With --run and --qrels, measure the lists of another system instead.
    """
    screen = Screen(as_json=as_json)
    wanted = Measurement.of(metrics, rules.item_facts, ks=ks, explain=explain, overwrite=overwrite)
    for other, options in extended.items():
        if other.claims(options):
            other.measure(screen, given(context), options, train, reading, wanted)
            return
    if saved is None or not test:
        raise UsageError(
            "name a saved model and its test events: sdgar evaluate RUN --test FILE. Or measure "
            "lists of another system: sdgar evaluate --run FILE --qrels FILE.",
            code="missing_option",
        )
    for file in (trec.write_run, trec.write_qrels):
        require_new(file, overwrite=overwrite)
    from sdgar.recommend.effect import as_dict, effect_of
    from sdgar.recommend.recommender import load, most_popular

    reranking = rules.read(facts_for_metrics=wanted.items is not None)
    model = load(saved)
    reading = _as_trained(context, model, reading)
    held_out = _read(screen, "test", test, reading)
    seen = _read(screen, "train", train, reading) if train else None
    known = _read(screen, "history", histories, reading) if histories else None
    report, popular = (
        one.evaluate(
            held_out, seen=seen, ks=wanted.ks, histories=known, metrics=wanted.metrics,
            **wanted.inputs(model),
        )
        for one in (model, most_popular(model))
    )  # fmt: skip
    system = str(model.about.get("system", "model"))
    print_report(screen, report, popular, system, explain=explain)
    cold = {} if train else wanted.cold(screen, model, held_out, known)
    groups = wanted.groups(screen, report)
    effect = None
    if reranking is not None:
        effect = effect_of(
            reranking, model, held_out, ks=wanted.ks, seen=seen, histories=known,
            metrics=wanted.metrics,
        )  # fmt: skip
        print_effect(screen, effect)
    wanted.write(screen, report)
    write_trec(screen, report, held_out, trec.write_run, trec.write_qrels)
    screen.result(
        {
            "run": str(saved),
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
    fields = tuple(model.about.get("context", reading.context))
    if "context" in given(context) and reading.context != fields:
        raise UsageError(
            f"--context {','.join(reading.context)} is not what a context of this model is: "
            f"{','.join(fields)}. Leave it out.",
            code="bad_context",
        )
    return replace(reading, context=fields, seen_by=model.seen_by if fields != USER else "user")


def _read(screen: Screen, label: str, files: list[Any], reading: ReadOptions) -> Interactions:
    from sdgar.data.readers import read_files

    loaded = read_files(files, reading)
    print_loaded(screen, label, loaded, ", ".join(file.name for file in files))
    return loaded.interactions
