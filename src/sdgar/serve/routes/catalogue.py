"""Routes of items and users: their entries in the store, and whether the model contains them."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import Body, Path, Query, Request
from fastapi.responses import Response

from sdgar.data.ids import Ids
from sdgar.errors import UsageError
from sdgar.serve import answers, schemas
from sdgar.serve.activity import is_negative
from sdgar.serve.catalogue import details_of, model_ids
from sdgar.serve.routes.common import Category, ServerState, answer, router, state_of
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


def _ids_of(state: ServerState, side: Side) -> Ids:
    return state.model.items if side == "item" else state.model.users


def _described(
    state: ServerState, side: Side, raw: str, entry: Entry | None, events: int = 0
) -> dict[str, Any]:
    """Return the description of an id, with its entry in the store if there is one."""
    ids = _ids_of(state, side)
    known = bool(ids.index_of([raw])[0] >= 0)
    return _description(model_ids(ids, [raw])[0], entry, known=known, events=events)


def _description(id: Any, entry: Entry | None, *, known: bool, events: int = 0) -> dict[str, Any]:
    features, hidden = ({}, False) if entry is None else (dict(entry.features), entry.hidden)
    return {
        "id": id, **details_of(entry), "features": features, "hidden": hidden, "known": known,
        "events": events,
    }  # fmt: skip


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


@reading.get("/items", response_model=answers.SearchResult, summary="Search items")
async def search_items(
    request: Request, query: Text = "", limit: Limit = 20, category: Category = None
) -> Response:
    """Return items whose id begins with the text or whose name contains it."""
    return await _search(request, "item", query, limit, category)


@reading.get("/users", response_model=answers.SearchResult, summary="Search users")
async def search_users(request: Request, query: Text = "", limit: Limit = 20) -> Response:
    """Return users whose id begins with the text or whose name contains it."""
    return await _search(request, "user", query, limit, None)


def _add_entry_routes(side: Side, name: str) -> None:
    """Add the routes of one entry; ``name`` is the side with its article."""
    path = f"/{side}s/{{id:path}}"

    @reading.get(
        path, name=f"get_{side}", response_model=answers.Description, summary=f"Get {name}"
    )
    async def get(request: Request, id: PathId) -> Response:
        """Return the entry of an id in the store, and whether the model contains the id."""
        state = state_of(request)
        entry, events = None, 0
        if state.database is not None:
            entry = await asyncio.to_thread(state.database.get, side, id)
            events = await asyncio.to_thread(state.database.count_events, **{side: id})
        found = _described(state, side, id, entry, events)
        if not found["known"] and entry is None and not events:
            raise UsageError(f"there is no {side} {id!r}.", code=f"unknown_{side}")
        return answer(found)

    @writing.put(
        path, name=f"put_{side}", response_model=answers.Description, summary=f"Describe {name}"
    )
    async def put(
        request: Request, id: PathId, body: Annotated[schemas.EntryBody, Body()]
    ) -> Response:
        """Store a name, picture, categories and features; a hidden item is never recommended."""
        state = state_of(request)
        entry = Entry(id=id, **body.model_dump())
        await asyncio.to_thread(state.store().put, side, entry)
        await asyncio.to_thread(state.service.catalogue.refresh)
        return answer(_described(state, side, id, entry))

    @writing.delete(
        path, name=f"delete_{side}", status_code=204, summary=f"Delete the entry of {name}"
    )
    async def delete(request: Request, id: PathId) -> Response:
        """Delete the entry of an id; its events and the model stay as they are."""
        state = state_of(request)
        if not await asyncio.to_thread(state.store().delete, side, id):
            raise UsageError(f"the store has no {side} {id!r}.", code=f"unknown_{side}")
        await asyncio.to_thread(state.service.catalogue.refresh)
        return Response(status_code=204)


_add_entry_routes("item", "an item")
_add_entry_routes("user", "a user")


@reading.get("/categories", response_model=answers.Categories, summary="All categories")
async def categories(request: Request) -> Response:
    """Return the categories of items in the store, the largest first."""
    database = state_of(request).database
    found = {} if database is None else await asyncio.to_thread(database.categories)
    ordered = sorted(found.items(), key=lambda pair: (-pair[1], pair[0]))
    return answer({"categories": [{"name": name, "items": n} for name, n in ordered]})


@reading.get("/history", response_model=answers.UserItems, summary="The items of a user")
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
