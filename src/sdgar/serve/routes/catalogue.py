"""What is known of items and users: entries of the store, and what the model knows."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from fastapi import Body, Path, Query, Request
from fastapi.responses import Response

from sdgar.errors import UsageError
from sdgar.serve import schemas
from sdgar.serve.activity import is_negative
from sdgar.serve.render import details_of, model_ids
from sdgar.serve.routes.common import ServerState, answer, router, state_of

if TYPE_CHECKING:
    from sdgar.data.ids import Ids
    from sdgar.serve.store import Entry

reading = router(role="read", tags=["catalogue"])
writing = router(role="write", tags=["catalogue"])

Side = Literal["item", "user"]
OwnId = Annotated[str, Path(min_length=1, max_length=256, pattern=r"^[^\x00]+$")]
Asked = Annotated[str, Query(max_length=256, pattern=r"^[^\x00]*$", description="What is sought.")]
Few = Annotated[int, Query(ge=1, le=100, description="How many at most.")]
Category = Annotated[str | None, Query(min_length=1, max_length=256, pattern=r"^[^\x00]+$")]


def _ids_of(state: ServerState, side: Side) -> Ids:
    model = state.service.models.current.first.snapshot.model
    return model.items if side == "item" else model.users


def _told(own: Any, entry: Entry | None, *, known: bool, events: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = {"id": own, **details_of(entry), "features": {}, "hidden": False}
    if entry is not None:
        found |= {"features": dict(entry.features), "hidden": entry.hidden}
    return found | {"known": known, "events": events}


async def _get(request: Request, side: Side, raw: str) -> Response:
    state = state_of(request)
    ids = _ids_of(state, side)
    at = int(ids.index_of([raw])[0])
    entry, events = None, 0
    if state.database is not None:
        entry = await asyncio.to_thread(state.database.get, side, raw)
        count = state.database.count_events if side == "user" else state.database.events_of_item
        events = await asyncio.to_thread(count, raw)
    if at < 0 and entry is None and not events:
        raise UsageError(f"there is no {side} {raw!r}.", code=f"unknown_{side}")
    own = ids.at(np.array([at])).tolist()[0] if at >= 0 else raw
    return answer(_told(own, entry, known=at >= 0, events=events))


async def _put(request: Request, side: Side, raw: str, asked: schemas.Entry) -> Response:
    from sdgar.serve.store import Entry

    state = state_of(request)
    entry = Entry(
        id=raw, name=asked.name, picture=asked.picture, categories=tuple(asked.categories),
        features=dict(asked.features), hidden=asked.hidden,
    )  # fmt: skip
    await asyncio.to_thread(state.store().put, side, entry)
    await asyncio.to_thread(state.service.catalogue.refresh)
    ids = _ids_of(state, side)
    at = int(ids.index_of([raw])[0])
    own = ids.at(np.array([at])).tolist()[0] if at >= 0 else raw
    return answer(_told(own, entry, known=at >= 0))


async def _delete(request: Request, side: Side, raw: str) -> Response:
    state = state_of(request)
    if not await asyncio.to_thread(state.store().delete, side, raw):
        raise UsageError(f"the store has no {side} {raw!r}.", code=f"unknown_{side}")
    await asyncio.to_thread(state.service.catalogue.refresh)
    return Response(status_code=204)


async def _search(
    request: Request, side: Side, query: str, limit: int, category: str | None
) -> Response:
    """Find by the beginning of an id or a part of a name, first in the store, then the model."""
    state = state_of(request)
    ids = _ids_of(state, side)
    found: dict[str, dict[str, Any]] = {}
    if state.database is not None:
        entries = await asyncio.to_thread(state.database.search, side, query, limit, category)
        index_T = ids.index_of([entry.id for entry in entries])
        own = model_ids(ids, [entry.id for entry in entries])
        for entry, at, one in zip(entries, index_T, own, strict=True):
            found[entry.id] = _told(one, entry, known=bool(at >= 0))
    if category is None and len(found) < limit:
        for one in await asyncio.to_thread(_beginning, ids, query, limit):
            found.setdefault(str(one), _told(one, None, known=True))
    return answer({"found": list(found.values())[:limit]})


def _beginning(ids: Ids, query: str, limit: int) -> list[Any]:
    """Return the ids that are the query or begin so; of a large catalogue, without reading all."""
    exact = ids.index_of([query])
    found: list[Any] = ids.at(exact[exact >= 0]).tolist()
    for one in ids.values:
        if len(found) >= limit:
            break
        if str(one).startswith(query) and str(one) != query:
            found.append(one.item() if isinstance(one, np.generic) else one)
    return found


@reading.get("/items", response_model=schemas.Found, summary="Search items")
async def search_items(
    request: Request, query: Asked = "", limit: Few = 20, category: Category = None
) -> Response:
    """Return items whose id begins so or whose name holds it."""
    return await _search(request, "item", query, limit, category)


@reading.get("/users", response_model=schemas.Found, summary="Search users")
async def search_users(request: Request, query: Asked = "", limit: Few = 20) -> Response:
    """Return users whose id begins so or whose name holds it."""
    return await _search(request, "user", query, limit, None)


@reading.get("/items/{id:path}", response_model=schemas.Told, summary="What is known of an item")
async def get_item(request: Request, id: OwnId) -> Response:
    """Return the entry of the store, and whether the model knows the item."""
    return await _get(request, "item", id)


@reading.get("/users/{id:path}", response_model=schemas.Told, summary="What is known of a user")
async def get_user(request: Request, id: OwnId) -> Response:
    """Return the entry of the store, and whether the model knows the user."""
    return await _get(request, "user", id)


@writing.put("/items/{id:path}", response_model=schemas.Told, summary="Describe an item")
async def put_item(
    request: Request, id: OwnId, asked: Annotated[schemas.Entry, Body()]
) -> Response:
    """Keep the name, picture, categories and features of an item, or hide it."""
    return await _put(request, "item", id, asked)


@writing.put("/users/{id:path}", response_model=schemas.Told, summary="Describe a user")
async def put_user(
    request: Request, id: OwnId, asked: Annotated[schemas.Entry, Body()]
) -> Response:
    """Keep the name, picture, categories and features of a user."""
    return await _put(request, "user", id, asked)


@writing.delete("/items/{id:path}", status_code=204, summary="Forget the entry of an item")
async def delete_item(request: Request, id: OwnId) -> Response:
    """Forget what the store knows of an item; its events and the model stay as they are."""
    return await _delete(request, "item", id)


@writing.delete("/users/{id:path}", status_code=204, summary="Forget the entry of a user")
async def delete_user(request: Request, id: OwnId) -> Response:
    """Forget what the store knows of a user; events and the model stay as they are."""
    return await _delete(request, "user", id)


@reading.get("/categories", response_model=schemas.Categories, summary="All categories")
async def categories(request: Request) -> Response:
    """Return the categories of items in the store, the largest first."""
    database = state_of(request).database
    found = {} if database is None else await asyncio.to_thread(database.categories)
    ordered = sorted(found.items(), key=lambda pair: (-pair[1], pair[0]))
    return answer({"categories": [{"name": name, "items": n} for name, n in ordered]})


@reading.get("/history", response_model=schemas.OfUser, summary="What a user has")
async def history(
    request: Request,
    user: Annotated[str, Query(min_length=1, max_length=256, pattern=r"^[^\x00]+$")],
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> Response:
    """Return what a user has from training, and what they liked since, the newest last."""
    state = state_of(request)
    snapshot = state.service.models.current.of(user).snapshot
    model = snapshot.model
    at = int(model.users.index_of([user])[0]) if model.fields is None else -1
    of_training = model.items.at(model.history.of(at)).tolist() if at >= 0 else []
    told = {str(item): {"item": item, "from": "training"} for item in of_training}
    if state.database is not None:
        events = await asyncio.to_thread(state.database.events_of, user, 1000)
        for event, own in zip(
            events, model_ids(model.items, [event.item for event in events]), strict=True
        ):
            told.pop(event.item, None)
            if not is_negative(event):
                told[event.item] = {"item": own, "from": "feedback"}
    shown = list(told.values())[-limit:]
    entries = await state.service.catalogue.entries(str(one["item"]) for one in shown)
    items = [one | details_of(entries.get(str(one["item"]))) for one in shown]
    own_user = model.users.at(np.array([at])).tolist()[0] if at >= 0 else user
    return answer({"user": own_user, "items": items, "total": len(told), "known": at >= 0})
