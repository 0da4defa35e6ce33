"""The users of ``sdgar recommend``: known users, contexts, or new users with their items."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sdgar.cli.console import Screen
from sdgar.cli.options.recommending import QueryOptions
from sdgar.cli.reports import print_loaded
from sdgar.errors import UsageError

if TYPE_CHECKING:
    from sdgar.data.interactions import Interactions
    from sdgar.data.read_options import ReadOptions
    from sdgar.recommend.recommender import Recommender

_COPIES = 4
"""How many copies of its files a model takes in RAM at most: as bytes, as arrays, and as tables."""
_OF_PROCESS = ("run", "workers", "ram", "as_json")
"""The parameters that may differ between the processes of one answer."""


def users_of(
    screen: Screen, model: Recommender, query: QueryOptions, reading: ReadOptions
) -> list[Any] | None:
    """Return the users or contexts to answer; None for all of them, or for new ones."""
    names = () if model.fields is None else model.fields.names
    if query.sample is not None:
        return _drawn(model, query.sample)
    if query.users is not None:
        from sdgar.data.readers.tables import read_users

        context = names if names and not query.context else ("user",)
        with _own_options():
            found = read_users(query.users, replace(reading, context=context))
        screen.say("users", f"{query.users.name}: {len(found):,} users")
        return contexts_of(found, query.context)
    if query.user and not query.context and names:
        others = " ".join(f"--context {name}=…" for name in names if name != "user")
        raise UsageError(
            f"a context of this model is {', '.join(names)}: add {others}.",
            code="bad_context",
        )
    return contexts_of(query.user, query.context) or None


def read_new(screen: Screen, files: list[Any], reading: ReadOptions) -> Interactions:
    """Read the items of new users from files of events, and print what was read."""
    from sdgar.data.readers import read_files

    with _own_options():
        loaded = read_files(files, reading)
    print_loaded(screen, "new", loaded, ", ".join(file.name for file in files))
    return loaded.interactions


def how_many(model: Recommender, users: list[Any] | None, new: Any) -> int:
    """Count the users that are answered."""
    if new is not None:
        return len(new.users) if hasattr(new, "users") else len(new)
    return len(model.users) if users is None else len(users)


def load_within(run: Path, ram: int) -> Recommender:
    """Load a model; map its arrays from the files if they and their copies exceed the RAM."""
    from sdgar.recommend.manifest import FILES, read_manifest
    from sdgar.recommend.recommender import load

    files = read_manifest(run)["files"]
    size = sum(files[name].get("bytes", 0) for name in FILES)
    return load(run, mapped=_COPIES * size > ram)


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


def identity(model: Recommender, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return what must be the same in all processes that make one answer together."""
    from sdgar._version import __version__

    own = {name: repr(value) for name, value in params.items() if name not in _OF_PROCESS}
    return {"sdgar": __version__, "model": model.version, **own}


def contexts_of(users: list[Any] | None, fields: list[str] | None) -> list[Any]:
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
                f"{', by --user' if name == 'user' else ''}. Ask for one context at a time.",
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


@contextmanager
def _own_options() -> Iterator[None]:
    """Remove options that ``sdgar recommend`` does not have from errors about a file."""
    try:
        yield
    except UsageError as error:
        text = re.sub(r", --weight-column \S+ uses the rating as the weight", "", str(error))
        raise UsageError(text, code=error.code) from error
