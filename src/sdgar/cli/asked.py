"""For whom ``sdgar recommend`` is asked: known users, contexts, or new users with their items."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sdgar.cli import options
from sdgar.cli.answer_parts import require_free
from sdgar.cli.console import Screen
from sdgar.cli.reports import tell_loaded
from sdgar.errors import UsageError
from sdgar.scale.commands.workers import follows

if TYPE_CHECKING:
    from sdgar.data.interactions import Interactions
    from sdgar.data.readers import ReadOptions
    from sdgar.recommend.recommender import Recommender

_COPIES = 4
"""How often what is read from files lies in memory at most: as bytes, as arrays, and as tables."""
_OF_PROCESS = ("run", "workers", "memory", "as_json")
"""The parameters of which each process may have its own."""


def asked_for(
    screen: Screen,
    model: Recommender,
    user: list[str] | None,
    file: Path | None,
    fields: list[str] | None,
    reading: ReadOptions,
) -> list[Any] | None:
    """Return the users or contexts to answer; None for all of them, or for new ones."""
    from sdgar.data.readers.tables import read_users

    names = () if model.fields is None else model.fields.names
    if file is not None:
        context = names if names and not fields else ("user",)
        with _columns_named_here():
            found = read_users(file, replace(reading, context=context))
        screen.say("users", f"{file.name}: {len(found):,} users")
        return contexts_of(found, fields)
    if user and not fields and names:
        others = " ".join(f"--context {name}=…" for name in names if name != "user")
        raise UsageError(
            f"a context of this model is {', '.join(names)}: say {others} too.",
            code="bad_context",
        )
    return contexts_of(user, fields) or None


def read_new(screen: Screen, files: list[Any], reading: ReadOptions) -> Interactions:
    """Read what new users have from files of events, and say what was read."""
    from sdgar.data.readers import read_files

    with _columns_named_here():
        loaded = read_files(files, reading)
    tell_loaded(screen, "new", loaded, ", ".join(file.name for file in files))
    return loaded.interactions


def how_many(model: Recommender, asked: list[Any] | None, new: Any) -> int:
    """Count the users that are answered."""
    if new is not None:
        return len(new.users) if hasattr(new, "users") else len(new)
    return len(model.users) if asked is None else len(asked)


def require_place(
    out: Path | None, trec: Path | None, parts: Path | None, workers: int, *, overwrite: bool
) -> None:
    """Refuse two places for one answer, a place that is taken, and workers without parts."""
    named = {"--out": out, "--trec": trec, "--parts": parts}
    given = [name for name, place in named.items() if place is not None]
    if len(given) > 1:
        raise UsageError(
            f"{' and '.join(given)} name two places: leave one out.", code="bad_option"
        )
    if workers != 1 and parts is None:
        raise UsageError(
            "--workers goes with --parts FOLDER, where each of them writes a file.",
            code="unused_option",
        )
    if out is not None:
        options.require_new_table(out, overwrite=overwrite)
    if trec is not None:
        options.require_new(trec, overwrite=overwrite)
    if parts is not None and not follows():  # the first worker looks, and then writes there
        require_free(parts, overwrite=overwrite)


def load_within(run: Path, memory: int) -> Recommender:
    """Load a model; map its arrays from the files if they and their copies exceed the memory."""
    from sdgar.recommend.manifest import FILES, read_manifest
    from sdgar.recommend.recommender import load

    files = read_manifest(run)["files"]
    size = sum(files[name].get("bytes", 0) for name in FILES)
    return load(run, mapped=_COPIES * size > memory)


def drawn(model: Recommender, count: int) -> list[Any]:
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


def identity(model: Recommender, said: Mapping[str, Any]) -> dict[str, Any]:
    """Return what must be the same for workers that make the lists of one answer together."""
    from sdgar._version import __version__

    own = {name: repr(value) for name, value in said.items() if name not in _OF_PROCESS}
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
                f"--context {text}: {name} is said already"
                f"{', by --user' if name == 'user' else ''}. Ask about one context at a time.",
                code="bad_context",
            )
        named[name] = value
    if not users:
        raise UsageError("--context goes with --user or --users.", code="whom")
    return [{"user": user, **named} for user in users]


def named(histories: list[str]) -> dict[str, list[str]]:
    """Read the items of each new user, who is called new; of several, new 1, new 2 and so on."""
    lists = [[item for item in text.split(",") if item] for text in histories]
    if len(lists) == 1:
        return {"new": lists[0]}
    return {f"new {number}": items for number, items in enumerate(lists, 1)}


@contextmanager
def _columns_named_here() -> Iterator[None]:
    """Let errors name only options that the command has."""
    try:
        yield
    except UsageError as error:
        text = re.sub(r", --weight-column \S+ uses the rating as the weight", "", str(error))
        raise UsageError(text, code=error.code) from error
