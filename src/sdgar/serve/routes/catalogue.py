"""Routes of items and users: their entries in the store, and whether the model contains them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from fastapi import Body, Path, Query, Request
from fastapi.responses import Response

from sdgar.errors import UsageError
from sdgar.serve import schemas
from sdgar.serve.activity import is_negative
from sdgar.serve.catalogue import details_of, model_ids
from sdgar.serve.routes.common import ServerState, answer, router, state_of

if TYPE_CHECKING:
    from sdgar.data.ids import Ids
    from sdgar.serve.store import Entry

reading = router("catalogue", role="read", tags=["catalogue"])
writing = router("entries", role="write", tags=["catalogue"])

Side = Literal["item", "user"]
PathId = Annotated[str, Path(min_length=1, max_length=256, pattern=r"^[^\x00]+$")]
QueryId = Annotated[str, Query(min_length=1, max_length=256, pattern=r"^[^\x00]+$")]
Text = Annotated[
    str, Query(max_length=256, pattern=r"^[^\x00]*$", description="The text to search for.")
]
Limit = Annotated[int, Query(ge=1, le=100, description="The maximum number of results.")]
Category = Annotated[str | None, Query(min_length=1, max_length=256, pattern=r"^[^\x00]+$")]


def _ids_of(state: ServerState, side: Side) -> Ids:
    return state.model.items if side == "item" else state.model.users


def _description(id: Any, entry: Entry | None, *, known: bool, events: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = {"id": id, **details_of(entry), "features": {}, "hidden": False}
    if entry is not None:
        found |= {"features": dict(entry.features), "hidden": entry.hidden}
    return found | {"known": known, "events": events}


async def _get(request: Request, side: Side, raw: str) -> Response:
    state = state_of(request)
    ids = _ids_of(state, side)
    known = bool(ids.index_of([raw])[0] >= 0)
    entry, events = None, 0
    if state.database is not None:
        entry = await asyncio.to_thread(state.database.get, side, raw)
        events = await asyncio.to_thread(state.database.count_events, **{side: raw})
    if not known and entry is None and not events:
        raise UsageError(f"there is no {side} {raw!r}.", code=f"unknown_{side}")
    return answer(_description(model_ids(ids, [raw])[0], entry, known=known, events=events))


async def _put(request: Request, side: Side, raw: str, body: schemas.EntryBody) -> Response:
    from sdgar.serve.store import Entry

    state = state_of(request)
    entry = Entry(
        id=raw, name=body.name, picture=body.picture, categories=tuple(body.categories),
        features=dict(body.features), hidden=body.hidden,
    )  # fmt: skip
    await asyncio.to_thread(state.store().put, side, entry)
    await asyncio.to_thread(state.service.catalogue.refresh)
    ids = _ids_of(state, side)
    known = bool(ids.index_of([raw])[0] >= 0)
    return answer(_description(model_ids(ids, [raw])[0], entry, known=known))


async def _delete(request: Request, side: Side, raw: str) -> Response:
    state = state_of(request)
    if not await asyncio.to_thread(state.store().delete, side, raw):
        raise UsageError(f"the store has no {side} {raw!r}.", code=f"unknown_{side}")
    await asyncio.to_thread(state.service.catalogue.refresh)
    return Response(status_code=204)


async def _search(
    request: Request, side: Side, text: str, limit: int, category: str | None
) -> Response:
    """Return ids that begin with a text and names that contain it: of the store, then the model."""
    state = state_of(request)
    ids = _ids_of(state, side)
    found: dict[str, dict[str, Any]] = {}
    if state.database is not None:
        entries = await asyncio.to_thread(state.database.search, side, text, limit, category)
        raw = [entry.id for entry in entries]
        rows = zip(entries, ids.index_of(raw), model_ids(ids, raw), strict=True)
        found = {entry.id: _description(id, entry, known=bool(at >= 0)) for entry, at, id in rows}
    if category is None and len(found) < limit:
        for id in await asyncio.to_thread(_ids_beginning_with, ids, text, limit):
            found.setdefault(str(id), _description(id, None, known=True))
    return answer({"found": list(found.values())[:limit]})


def _ids_beginning_with(ids: Ids, text: str, limit: int) -> list[Any]:
    """Return the id that equals a text, and then ids that begin with it; stop at the limit."""
    exact = ids.index_of([text])
    found: list[Any] = ids.at(exact[exact >= 0]).tolist()
    for one in ids.values:
        if len(found) >= limit:
            break
        if str(one).startswith(text) and str(one) != text:
            found.append(one.item() if isinstance(one, np.generic) else one)
    return found


@reading.get("/items", response_model=schemas.SearchResult, summary="Search items")
async def search_items(
    request: Request, query: Text = "", limit: Limit = 20, category: Category = None
) -> Response:
    """Return items whose id begins with the text or whose name contains it."""
    return await _search(request, "item", query, limit, category)


@reading.get("/users", response_model=schemas.SearchResult, summary="Search users")
async def search_users(request: Request, query: Text = "", limit: Limit = 20) -> Response:
    """Return users whose id begins with the text or whose name contains it."""
    return await _search(request, "user", query, limit, None)


@reading.get("/items/{id:path}", response_model=schemas.Description, summary="Get an item")
async def get_item(request: Request, id: PathId) -> Response:
    """Return the entry of an item in the store, and whether the model contains it."""
    return await _get(request, "item", id)


@reading.get("/users/{id:path}", response_model=schemas.Description, summary="Get a user")
async def get_user(request: Request, id: PathId) -> Response:
    """Return the entry of a user in the store, and whether the model contains the user."""
    return await _get(request, "user", id)


@writing.put("/items/{id:path}", response_model=schemas.Description, summary="Describe an item")
async def put_item(
    request: Request, id: PathId, body: Annotated[schemas.EntryBody, Body()]
) -> Response:
    """Store the name, picture, categories and features of an item, or hide it."""
    return await _put(request, "item", id, body)


@writing.put("/users/{id:path}", response_model=schemas.Description, summary="Describe a user")
async def put_user(
    request: Request, id: PathId, body: Annotated[schemas.EntryBody, Body()]
) -> Response:
    """Store the name, picture, categories and features of a user."""
    return await _put(request, "user", id, body)


@writing.delete("/items/{id:path}", status_code=204, summary="Delete the entry of an item")
async def delete_item(request: Request, id: PathId) -> Response:
    """Delete the entry of an item; its events and the model stay as they are."""
    return await _delete(request, "item", id)


@writing.delete("/users/{id:path}", status_code=204, summary="Delete the entry of a user")
async def delete_user(request: Request, id: PathId) -> Response:
    """Delete the entry of a user; events and the model stay as they are."""
    return await _delete(request, "user", id)


@reading.get("/categories", response_model=schemas.Categories, summary="All categories")
async def categories(request: Request) -> Response:
    """Return the categories of items in the store, the largest first."""
    database = state_of(request).database
    found = {} if database is None else await asyncio.to_thread(database.categories)
    ordered = sorted(found.items(), key=lambda pair: (-pair[1], pair[0]))
    return answer({"categories": [{"name": name, "items": n} for name, n in ordered]})


@reading.get("/history", response_model=schemas.UserItems, summary="The items of a user")
async def history(
    request: Request,
    user: QueryId,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> Response:
    """Return the items of a user from training and from positive feedback since, newest last."""
    state = state_of(request)
    model = state.service.models.current.of(user).snapshot.model
    at = int(model.users.index_of([user])[0]) if model.fields is None else -1
    trained = model.items.at(model.history.of(at)).tolist() if at >= 0 else []
    found = {str(item): {"item": item, "from": "training"} for item in trained}
    if state.database is not None:
        events = await asyncio.to_thread(state.database.events_of, user, 1000)
        items = model_ids(model.items, [event.item for event in events])
        for event, item in zip(events, items, strict=True):
            found.pop(event.item, None)
            if not is_negative(event):
                found[event.item] = {"item": item, "from": "feedback"}
    shown = list(found.values())[-limit:]
    entries = await state.service.catalogue.entries(str(one["item"]) for one in shown)
    rows = [one | details_of(entries.get(str(one["item"]))) for one in shown]
    id = model.users.at(np.array([at])).tolist()[0] if at >= 0 else user
    return answer({"user": id, "items": rows, "total": len(found), "known": at >= 0})
