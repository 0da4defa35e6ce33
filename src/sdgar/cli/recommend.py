"""``sdgar recommend``: recommendations for some users, for all, or for new ones."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sdgar._version import __version__
from sdgar.cli.answers import show, write_answers
from sdgar.cli.console import Screen
from sdgar.cli.inputs import read_events
from sdgar.cli.options.option import Option, first_page, options_of, written_out
from sdgar.cli.options.shared import Json, NameOptions, Overwrite, RuleOptions, RunFolder
from sdgar.cli.options.values import bytes_of, new_file, require_new, require_new_table, source
from sdgar.data.read_options import ReadOptions
from sdgar.errors import UsageError

if TYPE_CHECKING:
    from sdgar.recommend.inputs import Histories
    from sdgar.recommend.recommender import Recommender

_OF_FILES = (
    "user", "item", "time", "weight", "rating", "min_rating", "delimiter", "header_columns",
    "allow_bad_rows",
)  # fmt: skip
"""The options of reading that files of users and of histories have."""
_OF_PROCESS = ("run", "workers", "ram", "json")
"""The parameters that may differ between the processes of one answer."""


@dataclass(frozen=True, kw_only=True)
class QueryOptions:
    """The users that get recommendations, and the items that are recommended."""

    user: Annotated[list[str] | None, Option(metavar="ID")] = None
    """Recommend to this user; repeatable."""
    users: Path | None = None
    """Recommend to the users in this file: .txt with one a line, or a table with a column."""
    all: bool = False
    """Recommend to all users of the model."""
    sample: Annotated[int | None, Option(metavar="N")] = None
    """Recommend to N users of the model, drawn at random and always the same."""
    context: Annotated[list[str] | None, Option(metavar="FIELD=VALUE")] = None
    """Set another field of the context, such as daypart=evening; repeatable."""
    history: Annotated[list[str] | None, Option(metavar="ITEM,ITEM,…")] = None
    """Recommend to a new user with these items, as a,b,c; repeatable."""
    histories: Annotated[list[Any] | None, Option(metavar="FILE", parse=source)] = None
    """Recommend to the new users whose events this file has, as `sdgar train` reads them;
    repeatable."""
    k: Annotated[int, Option(flag="-k")] = 10
    """Recommend so many items to each user."""
    allow: Annotated[list[str] | None, Option(metavar="ITEM")] = None
    """Recommend only this item; repeatable."""
    exclude: Annotated[list[str] | None, Option(metavar="ITEM")] = None
    """Do not recommend this item; repeatable."""
    include_seen: bool = False
    """Recommend also items that the user has already."""
    fallback: Annotated[str, Option(metavar="popular|skip|error")] = "popular"
    """What unknown users get: the most popular items (popular), nothing (skip) or an error."""
    why: bool = False
    """Name the item of the history that contributes most to each score."""

    def check(self, written: Mapping[str, str]) -> None:
        """Refuse several ways to name users, none, and options of files without a file."""
        from sdgar.arguments import one_of
        from sdgar.recommend.inputs import FALLBACKS

        ways = (
            self.user, self.users, self.all, self.sample is not None, self.history, self.histories,
        )  # fmt: skip
        if sum(map(bool, ways)) != 1:
            raise UsageError(
                "say one of --user ID (repeatable), --users FILE, --all, --sample N, --history "
                "ITEM,ITEM,… (repeatable) or --histories FILE.",
                code="which_users",
            )
        one_of("fallback", self.fallback, FALLBACKS)
        declared = [one for one in options_of(ReadOptions) if one.source in _OF_FILES]
        unused = [one.flag for one in declared if one.name in written]
        if unused and self.users is None and not self.histories:
            raise UsageError(
                f"{', '.join(unused)} goes with --users or --histories, which are files. Leave it "
                "out.",
                code="unused_option",
            )

    def known_users(
        self, screen: Screen, model: Recommender, reading: ReadOptions
    ) -> list[Any] | None:
        """Return the users or contexts to answer; None for all of them, or for new ones."""
        names = () if model.fields is None else model.fields.names
        if self.sample is not None:
            return _drawn(model, self.sample)
        if self.users is not None:
            from sdgar.data.readers.tables import read_users

            context = names if names and not self.context else ("user",)
            found = read_users(self.users, replace(reading, context=context))
            screen.say("users", f"{self.users.name}: {len(found):,} users")
            return contexts_of(found, self.context)
        if self.user and not self.context and names:
            others = " ".join(f"--context {name}=…" for name in names if name != "user")
            raise UsageError(
                f"a context of this model is {', '.join(names)}: add {others}.",
                code="bad_context",
            )
        return contexts_of(self.user, self.context) or None

    def new_users(self, screen: Screen, reading: ReadOptions) -> Histories | None:
        """Return the items of new users, or their events; None if users are known ones."""
        if self.history:
            return new_users(self.history)
        if not self.histories:
            return None
        return read_events(screen, "new", self.histories, reading)[0]


@first_page(
    "--user", "--users", "--all", "--history", "-k", "--allow", "--exclude", "--include-seen",
    "--fallback", "--why", "--rules", "--item-facts", "--names", "--out", "--overwrite", "--json",
)  # fmt: skip
def recommend(
    context: typer.Context,
    run: RunFolder,
    *,
    query: QueryOptions,
    rules: RuleOptions,
    names: NameOptions,
    out: Annotated[
        Path | None,
        Option(
            "Write the answer to this .csv, .tsv, .jsonl or .parquet file.", "FILE", "-o --out",
            new_file,
        ),
    ] = None,
    trec: Annotated[
        Path | None,
        Option("Write the recommendations to this file as a run of TREC.", parse=new_file),
    ] = None,
    ram: Annotated[
        int,
        Option(
            "Use at most this much RAM in each process, as 4GiB; a larger model is mapped from its "
            "files. The default is 4GiB.",
            "BYTES",
            parse=bytes_of("--ram"),
        ),
    ] = 4 << 30,
    overwrite: Overwrite = False,
    as_json: Json = False,
    reading: Annotated[ReadOptions, _OF_FILES],
    extended: Mapping[Any, Any],
) -> None:  # fmt: skip
    """Recommend items that a user does not have yet."""
    from sdgar.recommend.ranking import require_ram
    from sdgar.recommend.recommender import load

    query.check(written_out(context))
    _require_one_place(out, trec, extended, overwrite=overwrite)
    reranking = rules.read()
    screen = Screen(as_json=as_json)
    model = load(run, ram=ram)
    titles = names.read()
    # Without a threshold that is given, ratings are refused: a file of users has no highest one.
    threshold = "unset" if reading.min_rating == "auto" else reading.min_rating
    reading = replace(reading, min_rating=threshold, duplicates="last")
    new = query.new_users(screen, reading)
    users = query.known_users(screen, model, reading)
    lists_of = partial(
        model.lists_in_pieces, users, query.k, histories=new, items=query.allow,
        exclude=query.exclude, exclude_seen=not query.include_seen, fallback=query.fallback,
        why=query.why, rules=reranking,
    )  # fmt: skip
    count = _how_many(model, users, new)
    require_ram(ram, model.users, model.items, count, query.k)
    for extension, options in extended.items():
        if extension.place(options)[1] is not None:
            parts = extension.write(
                screen, lists_of, options, titles, count, overwrite=overwrite,
                identity=_identity(model, context.params),
            )  # fmt: skip
            screen.result({"run": str(run), "k": query.k, **parts})
            return
    entries: list[dict[str, Any]] = []
    if (place := out or trec) is not None:
        is_trec = place == trec
        entries = write_answers(screen, lists_of(), place, titles, count, as_trec=is_trec)
    else:
        keys = ["user"] if new is not None else model.about.get("context", ["user"])
        for lists in lists_of():
            show(screen, lists, keys, titles)
            entries += lists.dicts(titles) if as_json else []
    screen.result({"run": str(run), "k": query.k, "recommendations": entries})


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


def _how_many(model: Recommender, users: list[Any] | None, new: Any) -> int:
    """Count the users that are answered."""
    if new is not None:
        return len(new.users) if hasattr(new, "users") else len(new)
    return len(model.users) if users is None else len(users)


def _drawn(model: Recommender, count: int) -> list[Any]:
    """Draw users of the model at random, always the same, in the order of the model."""
    import numpy as np

    if not 1 <= count <= len(model.users):
        raise UsageError(
            f"--sample must be from 1 to {len(model.users):,}, the number of users of the model, "
            f"got {count:,}.",
            code="bad_option",
        )
    chosen = np.random.default_rng(0).choice(len(model.users), count, replace=False)
    found = model.users.at(np.sort(chosen)).tolist()
    if model.fields is None:
        return list(found)
    return [dict(zip(model.fields.names, json.loads(text), strict=True)) for text in found]


def _identity(model: Recommender, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return what must be the same in all processes that make one answer together."""
    own = {name: repr(value) for name, value in params.items() if name not in _OF_PROCESS}
    return {"sdgar": __version__, "model": model.version, **own}


def contexts_of(users: Sequence[Any] | None, fields: list[str] | None) -> list[Any]:
    """Return the users; with other fields of their context, as mappings."""
    if not fields:
        return list(users or [])
    named: dict[str, str] = {}
    for text in fields:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise UsageError(f"--context takes FIELD=VALUE, got {text!r}.", code="bad_context")
        if name == "user" or name in named:
            raise UsageError(
                f"--context {text}: {name} is given already"
                f"{', by --user' if name == 'user' else ''}. Name one context at a time.",
                code="bad_context",
            )
        named[name] = value
    if not users:
        raise UsageError("--context goes with --user or --users.", code="which_users")
    return [{"user": user, **named} for user in users]


def new_users(histories: list[str]) -> dict[str, list[str]]:
    """Parse the items of each new user, who is called new; of several, new 1, new 2 and so on."""
    lists = [[item for item in text.split(",") if item] for text in histories]
    if len(lists) == 1:
        return {"new": lists[0]}
    return {f"new {number}": items for number, items in enumerate(lists, 1)}
