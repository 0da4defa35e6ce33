"""What users do: events are stored before they are acknowledged."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Annotated

from fastapi import Body, Header, Request
from fastapi.responses import Response

from sdgar.errors import UsageError
from sdgar.serve import schemas
from sdgar.serve.routes.common import answer, router
from sdgar.serve.state import State, state_of

if TYPE_CHECKING:
    from sdgar.serve.store import Database

routes = router(role="write", tags=["feedback"])


@routes.post("/feedback", response_model=schemas.Stored, status_code=202, summary="Events of users")
async def feedback(
    request: Request,
    asked: Annotated[
        schemas.Feedback,
        Body(
            openapi_examples={
                "a purchase": {"value": {"events": [{"user": "ann", "item": "i7", "kind": "buy"}]}}
            }
        ),
    ],
    idempotency_key: Annotated[
        str | None,
        Header(min_length=1, max_length=200, pattern=r"^[!-~]+$",
               description="A request with a key that came before stores nothing again."),
    ] = None,
) -> Response:  # fmt: skip
    """Keep events; what is acknowledged survives a crash, and counts from the next request on."""
    state = state_of(request)
    database = store_of(state)

    from sdgar.serve.store import Event

    now = time.time()
    events = [
        Event(
            user=str(one.user), item=str(one.item), kind=one.kind,
            time=now if one.time is None else one.time, weight=one.weight,
            key=_key(one.key, idempotency_key, number), request=one.request,
        )
        for number, one in enumerate(asked.events)
    ]  # fmt: skip
    added = await asyncio.to_thread(database.add_events, events)
    state.service.followed.take(events)
    state.measured.events.inc(added.accepted)
    return answer({"accepted": added.accepted, "repeated": added.repeated}, 202)


def _key(own: str | None, of_request: str | None, number: int) -> str | None:
    """Name an event, so that it is stored once: by its own key, or by that of its request."""
    if own is not None:
        return f"e:{own}"
    return None if of_request is None else f"r:{of_request}:{number}"


def store_of(state: State) -> Database:
    """Return the store, or say that there is none."""
    if state.database is None:
        raise UsageError(
            "this server has no store, so it can keep nothing. Start it with --store "
            "sqlite:///store.db.",
            code="no_store",
        )
    return state.database
