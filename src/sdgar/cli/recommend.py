"""``sdgar recommend``: lists for some users, for all, or for new ones who have some items."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import typer

from sdgar.cli import asked, options
from sdgar.cli.answer_parts import write_parts
from sdgar.cli.answers import show, write_answers, write_run
from sdgar.cli.console import Screen
from sdgar.errors import UsageError

if TYPE_CHECKING:
    from sdgar.recommend.histories import Histories

_WHOM = (
    "say one of --user ID (repeatable), --users FILE, --all, --sample N, --history ITEM,ITEM,… "
    "(repeatable) or --histories FILE."
)
_OF_FILES = (
    "user_column", "item_column", "time", "rating", "min_rating", "delimiter", "columns",
    "allow_bad_rows",
)  # fmt: skip
"""Parameters that only files of users look at."""


def recommend(
    context: typer.Context,
    run: options.RunFolder,
    user: options.Users = None,
    users: options.UsersFile = None,
    everyone: options.Everyone = False,
    sample: options.Sample = None,
    fields: options.Fields = None,
    history: options.History = None,
    histories: options.Histories = None,
    k: options.ItemsEach = 10,
    allow: options.Allow = None,
    exclude: options.Exclude = None,
    include_seen: options.IncludeSeen = False,
    fallback: options.Fallback = "popular",
    why: options.Why = False,
    rules: options.RulesFile = None,
    item_facts: options.ItemFacts = None,
    diversity: options.DiversityDial = 0.0,
    popularity: options.PopularityDial = 0.0,
    exclude_category: options.ExcludeCategory = None,
    names: options.Names = None,
    name_column: options.NameColumn = None,
    out: options.AnswerFile = None,
    trec: options.TrecFile = None,
    parts: options.PartsFolder = None,
    workers: options.AnswerWorkers = 1,
    memory: options.AnswerMemory = "4GiB",
    overwrite: options.Overwrite = False,
    user_column: options.UserColumn = None,
    item_column: options.ItemColumn = None,
    time: options.TimeColumn = None,
    rating: options.RatingColumn = None,
    min_rating: options.MinRating = None,
    delimiter: options.Delimiter = None,
    columns: options.Header = None,
    allow_bad_rows: options.AllowBadRows = False,
    as_json: options.Json = False,
) -> None:
    """Recommend items that a user does not have yet."""
    from sdgar.arguments import one_of
    from sdgar.recommend.room import require_within
    from sdgar.recommend.unknown import FALLBACKS

    said = [user, users, everyone, sample is not None, history, histories]
    if sum(map(bool, said)) != 1:
        raise UsageError(_WHOM, code="whom")
    one_of("fallback", fallback, FALLBACKS)
    given = options.given(context)
    unused = [given[name] for name in _OF_FILES if name in given]
    if unused and users is None and not histories:
        raise UsageError(
            f"{', '.join(unused)} goes with --users or --histories, which are files. Leave it out.",
            code="unused_option",
        )
    asked.require_place(out, trec, parts, workers, overwrite=overwrite)
    reranking = options.rules_of(rules, item_facts, diversity, popularity, exclude_category)
    screen = Screen(as_json=as_json)
    limit = options.bytes_of("--memory", memory)
    model = asked.load_within(run, limit)
    titles = options.names_of(names, name_column)
    reading = options.reading_of(
        user=user_column, item=item_column, time=time, rating=rating, min_rating=min_rating,
        by_rule=False, delimiter=delimiter, columns=columns, allow_bad_rows=allow_bad_rows,
        duplicates="last",
    )  # fmt: skip
    new: Histories | None = asked.named(history) if history else None
    if histories:
        new = asked.read_new(screen, histories, reading)
    whom = asked.asked_for(screen, model, user, users, fields, reading)
    if sample is not None:
        whom = asked.drawn(model, sample)
    who = ["user"] if new is not None else model.about.get("context", ["user"])
    lists_of = partial(
        model.lists_in_pieces, whom, k, histories=new, items=allow, exclude=exclude,
        exclude_seen=not include_seen, fallback=fallback, why=why, rules=reranking,
    )  # fmt: skip
    count = asked.how_many(model, whom, new)
    require_within(limit, model, count, k)
    if parts is not None:
        told_of_parts = write_parts(
            screen, lists_of, parts, titles, count, workers, overwrite=overwrite,
            identity=asked.identity(model, context.params),
        )  # fmt: skip
        screen.result({"run": str(run), "k": k, **told_of_parts})
        return
    pieces = lists_of()
    told: list[dict[str, Any]] = []
    if out is not None:
        told = write_answers(screen, pieces, out, titles, count)
    elif trec is not None:
        told = write_run(screen, pieces, trec, titles, count)
    else:
        for lists in pieces:
            show(screen, lists, who, titles)
            told += lists.dicts(titles) if as_json else []
    screen.result({"run": str(run), "k": k, "recommendations": told})
