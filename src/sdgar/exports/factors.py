"""Models of vectors that another library has learned, from arrays or from .npz files."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sdgar._version import __version__
from sdgar.arguments import of_kind
from sdgar.data.history import History
from sdgar.data.ids import Ids, held
from sdgar.data.interactions import Interactions
from sdgar.data.merge import with_ids_of
from sdgar.errors import DataError, NumericalError, UsageError
from sdgar.models.factors import Factors
from sdgar.recommend.artifact import Artifact
from sdgar.recommend.recommender import Recommender
from sdgar.storage.files import disk_error
from sdgar.storage.sealed import open_file

IdsOfRows = Sequence[Any] | NDArray[Any] | None
"""The id of each row of a table of vectors; None if the number of a row is its id."""


def import_factors(
    user_factors: ArrayLike,
    item_factors: ArrayLike,
    *,
    users: IdsOfRows = None,
    items: IdsOfRows = None,
    item_biases: ArrayLike | None = None,
    events: Interactions | None = None,
    learned_by: str = "another library",
) -> Recommender:
    """Return a model with the scores s_ui = u_u · v_i + b_i of vectors that were learned elsewhere.

    ``users`` and ``items`` are the ids of the rows, in the order of the rows; without them the
    number of a row is its id. ``events`` are the rows that the vectors were learned from: lists
    leave these items out, and item-item weights can be blended in. A bias of a user adds the same
    to all scores of the user, so that it changes no list and is not needed.

    implicit has ``model.user_factors`` and ``model.item_factors``. LightFM has
    ``model.get_user_representations()`` and ``model.get_item_representations()``, which return
    biases and vectors.

    >>> events = sdgar.Interactions.from_arrays(["ann", "bob"], ["tea", "ham"])
    >>> model = sdgar.import_factors(
    ...     [[1.0, 0.0], [0.0, 1.0]], [[0.2, 0.9], [0.8, 0.1]],
    ...     users=["ann", "bob"], items=["tea", "ham"], events=events,
    ... )
    >>> model.recommend(["ann"], k=2)["item"].to_list()
    ['ham']
    """
    user_UD, item_ID = _table("user_factors", user_factors), _table("item_factors", item_factors)
    if user_UD.shape[1] != item_ID.shape[1]:
        raise UsageError(
            f"user_factors have {user_UD.shape[1]} numbers a row and item_factors "
            f"{item_ID.shape[1]}. Pass both of the same model.",
            code="bad_shape",
        )
    user_ids, user_order = _ids("users", users, len(user_UD))
    item_ids, item_order = _ids("items", items, len(item_ID))
    bias_I = np.zeros(len(item_ID), np.float32)
    if item_biases is not None:
        bias_I = _numbers("item_biases", item_biases)
        if bias_I.shape != (len(item_ID),):
            raise UsageError(
                f"item_biases have the shape {bias_I.shape}, and there are {len(item_ID):,} items. "
                "Pass one number an item.",
                code="bad_shape",
            )
    about: dict[str, Any] = {
        "created_by": f"sdgar {__version__}",
        "system": "imported",
        "learned_by": str(learned_by),
        "context": ["user"],
    }
    history = History(np.zeros(len(user_ids) + 1, np.int64), np.zeros(0, np.int32))
    seen = neutral_E = None
    if events is not None:
        of_kind("events", events, Interactions, "Read them with sdgar.read(file).")
        rows = _rows(events, user_ids, item_ids)
        history, seen, neutral_E = rows.history, rows.seen, rows.seen_neutral_E
        about["data"] = {"fingerprint": rows.fingerprint(), "rows": events.account.as_dict()}
    model = Factors(user_UD[user_order], item_ID[item_order], bias_I[item_order])
    return Recommender(Artifact(model, user_ids, item_ids, history, about, seen, neutral_E))


def _table(name: str, raw: ArrayLike) -> NDArray[np.float32]:
    """Return vectors as float32; raise if they are no table."""
    table = _numbers(name, raw)
    if table.ndim != 2 or not len(table):
        raise UsageError(
            f"{name} must be a table with a vector a row, got the shape {table.shape}.",
            code="bad_shape",
        )
    return table


def _numbers(name: str, raw: ArrayLike) -> NDArray[np.float32]:
    found = np.asarray(raw)
    if found.dtype.kind not in "fiu":
        raise UsageError(
            f"{name} must be an array of numbers, got the type {found.dtype}.", code="bad_type"
        )
    with np.errstate(over="ignore"):  # what float32 cannot hold is refused as infinite
        numbers = found.astype(np.float32)
    if not np.isfinite(numbers).all():
        row = int(np.argwhere(~np.isfinite(numbers))[0][0])
        raise NumericalError(
            f"{name} hold a number that is not finite, first in row {row}. Train again with a "
            "smaller learning rate.",
            code="non_finite_factors",
        )
    return numbers


def _ids(what: str, raw: IdsOfRows, n: int) -> tuple[Ids, NDArray[np.int64]]:
    """Return ids in ascending order, and the row of each."""
    if raw is None:
        return Ids(np.arange(n)), np.arange(n)
    values = held(raw, what)
    if len(values) != n:
        raise UsageError(
            f"there are {len(values):,} {what} and {n:,} rows of their factors. Pass one id a row, "
            "in the order of the rows.",
            code="bad_shape",
        )
    order = np.argsort(values, kind="stable")
    ascending = values[order]
    twice = np.flatnonzero(ascending[1:] == ascending[:-1])
    if len(twice):
        raise DataError(
            f"the id {ascending[twice[0]]!r} stands twice among the {what}. Each row needs "
            "another id.",
            code="repeated_id",
        )
    return Ids(ascending), order


def _rows(events: Interactions, users: Ids, items: Ids) -> Interactions:
    """Return events with the indices of the factors; raise if an id is not among them."""
    if events.fields is not None:
        raise UsageError(
            f"the events have contexts of several fields ({', '.join(events.context)}), and the "
            "factors are of users. Read the events without --context.",
            code="bad_context",
        )
    for what, own, known in (("user", events.users, users), ("item", events.items, items)):
        strange = own.values[known.index_of(own.values) < 0]
        if len(strange):
            raise DataError(
                f"{len(strange):,} of {len(own):,} {what}s of the events are not among the ids of "
                f"the {what} factors, the first is {strange[0]!r}. Pass the ids of the rows "
                f"({what}s=…, --{what}-ids FILE, or --sorted-ids), in the order of the rows.",
                code=f"unknown_{what}",
            )
    frame = Interactions.from_indices(users, items, np.zeros(1, int), np.zeros(1, int))
    return with_ids_of(events, frame)


class Arrays(NamedTuple):
    """The arrays of a file, which may hold others too."""

    user_factors: NDArray[Any]
    """The vector of each user."""
    item_factors: NDArray[Any]
    """The vector of each item."""
    item_biases: NDArray[Any] | None
    """The bias of each item."""
    users: NDArray[Any] | None
    """The ids of users, in the order of their vectors."""
    items: NDArray[Any] | None
    """The ids of items, in the order of their vectors."""


def read_arrays(path: Path) -> Arrays:
    """Read the arrays of an .npz file, such as ``model.save`` of implicit writes; no code runs."""
    try:
        with open_file(path) as raw:
            loaded = np.load(raw, allow_pickle=False)
            if not isinstance(loaded, np.lib.npyio.NpzFile):
                raise _not_factors(path, "it holds one array, and several with names are needed")
            found = {name: loaded[name] for name in Arrays._fields if name in loaded.files}
            held = ", ".join(loaded.files[:8]) or "nothing"
    except (ValueError, EOFError, KeyError, zipfile.BadZipFile) as error:
        raise _not_factors(path, str(error).rstrip(".")) from error
    except OSError as error:
        raise disk_error(path, error) from error
    for name in Arrays._fields[:2]:
        if name not in found:
            raise _not_factors(path, f"it has no array {name!r}; it holds {held}")
    return Arrays(*(found.get(name) for name in Arrays._fields))  # type: ignore[arg-type]


def _not_factors(path: Path, why: str) -> DataError:
    return DataError(
        f"{path} holds no factors that can be read: {why}. Write an .npz file with the arrays "
        "user_factors and item_factors, as implicit's model.save does.",
        code="bad_factors",
    )
