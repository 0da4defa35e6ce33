"""``sdgar recommend``: recommendations for some users, for all, or for new ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sdgar.cli import query as queries
from sdgar.cli.answers import show, write_answers, write_run
from sdgar.cli.commands import extensions_of
from sdgar.cli.console import Screen
from sdgar.cli.options.groups import Only, first_page, given, grouped_with, options_of
from sdgar.cli.options.recommending import FilterOptions, QueryOptions, RuleOptions
from sdgar.cli.options.shared import Json, NameOptions, Overwrite, RunFolder
from sdgar.cli.options.values import bytes_of, new_file, number, require_new, require_new_table
from sdgar.data.read_options import ReadOptions
from sdgar.errors import UsageError

if TYPE_CHECKING:
    from sdgar.recommend.histories import Histories

_OF_FILES = Only(
    "user", "item", "time", "rating", "min_rating", "delimiter", "header_columns", "allow_bad_rows"
)  # fmt: skip
"""The options of reading that files of users and of histories have."""


@first_page(
    "--user", "--users", "--all", "--history", "-k", "--allow", "--exclude", "--include-seen",
    "--fallback", "--why", "--rules", "--item-facts", "--names", "--out", "--overwrite", "--json",
)  # fmt: skip
@grouped_with(extensions_of("recommend"))
def recommend(
    context: typer.Context,
    run: RunFolder,
    *,
    query: QueryOptions,
    k: Annotated[
        int,
        typer.Option(
            "-k",
            parser=number("-k", int),
            metavar="INTEGER",
            help="Recommend so many items to each user.",
        ),
    ] = 10,
    choice: FilterOptions,
    rules: RuleOptions,
    names: NameOptions,
    out: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--out",
            parser=new_file,
            metavar="FILE",
            help="Write the answer to this .csv, .tsv, .jsonl or .parquet file.",
        ),
    ] = None,
    trec: Annotated[
        Path | None,
        typer.Option(
            "--trec",
            parser=new_file,
            metavar="FILE",
            help="Write the recommendations to this file as a run of TREC.",
        ),
    ] = None,
    ram: Annotated[
        str,
        typer.Option(
            "--ram",
            metavar="BYTES",
            help="Use at most this much RAM in each process, as 4GiB; a larger model is mapped "
            "from its files.",
        ),
    ] = "4GiB",
    overwrite: Overwrite = False,
    as_json: Json = False,
    reading: Annotated[ReadOptions, _OF_FILES],
    extended: Mapping[Any, Any],
) -> None:
    """Recommend items that a user does not have yet."""
    from sdgar.arguments import one_of
    from sdgar.recommend.room import require_within
    from sdgar.recommend.unknown import FALLBACKS

    query.require_one()
    one_of("fallback", choice.fallback, FALLBACKS)
    written = given(context)
    unused = [
        one.flag
        for one in options_of(ReadOptions)
        if one.field in _OF_FILES.fields and one.parameter in written
    ]
    if unused and query.users is None and not query.histories:
        raise UsageError(
            f"{', '.join(unused)} goes with --users or --histories, which are files. Leave it out.",
            code="unused_option",
        )
    _require_one_place(out, trec, extended, overwrite=overwrite)
    reranking = rules.read()
    screen = Screen(as_json=as_json)
    limit = bytes_of("--ram")(ram)
    model = queries.load_within(run, limit)
    titles = names.read()
    # Without a threshold that is given, ratings are refused: a file of users has no highest one.
    threshold = "unset" if reading.min_rating == "auto" else reading.min_rating
    reading = replace(reading, min_rating=threshold, duplicates="last")
    new: Histories | None = queries.new_users(query.history) if query.history else None
    if query.histories:
        new = queries.read_new(screen, query.histories, reading)
    users = queries.users_of(screen, model, query, reading)
    keys = ["user"] if new is not None else model.about.get("context", ["user"])
    lists_of = partial(
        model.lists_in_pieces, users, k, histories=new, items=choice.allow, exclude=choice.exclude,
        exclude_seen=not choice.include_seen, fallback=choice.fallback, why=choice.why,
        rules=reranking,
    )  # fmt: skip
    count = queries.how_many(model, users, new)
    require_within(limit, model, count, k)
    for extension, options in extended.items():
        if extension.place(options)[1] is not None:
            parts = extension.write(
                screen, lists_of, options, titles, count, overwrite=overwrite,
                identity=queries.identity(model, context.params),
            )  # fmt: skip
            screen.result({"run": str(run), "k": k, **parts})
            return
    entries: list[dict[str, Any]] = []
    if out is not None:
        entries = write_answers(screen, lists_of(), out, titles, count)
    elif trec is not None:
        entries = write_run(screen, lists_of(), trec, titles, count)
    else:
        for lists in lists_of():
            show(screen, lists, keys, titles)
            entries += lists.dicts(titles) if as_json else []
    screen.result({"run": str(run), "k": k, "recommendations": entries})


def _require_one_place(
    out: Path | None, trec: Path | None, extended: Mapping[Any, Any], *, overwrite: bool
) -> None:
    """Refuse two places for one answer, and a place that is taken."""
    places = {"--out": out, "--trec": trec}
    places |= dict(extension.place(options) for extension, options in extended.items())
    named = [name for name, place in places.items() if place is not None]
    if len(named) > 1:
        raise UsageError(
            f"{' and '.join(named)} name two places: leave one out.", code="bad_option"
        )
    require_new_table(out, overwrite=overwrite)
    require_new(trec, overwrite=overwrite)
    for extension, options in extended.items():
        extension.require_free(options, overwrite=overwrite)
