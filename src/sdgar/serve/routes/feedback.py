"""The route for feedback: events of users, which are stored before they are acknowledged."""

from __future__ import annotations

import asyncio
import time
from typing import Annotated

from fastapi import Body, Header, Request
from fastapi.responses import Response

from sdgar.serve import answers, schemas
from sdgar.serve.routes.common import answer, router, state_of
from sdgar.serve.store import Event

routes = router("feedback", role="write", tags=["feedback"])


@routes.post(
    "/feedback", response_model=answers.FeedbackResult, status_code=202, summary="Store events"
)
async def feedback(
    request: Request,
    body: Annotated[
        schemas.FeedbackBody,
        Body(
            openapi_examples={
                "a purchase": {"value": {"events": [{"user": "ann", "item": "i7", "kind": "buy"}]}}
            }
        ),
    ],
    idempotency_key: Annotated[
        str | None,
        Header(min_length=1, max_length=200, pattern=r"^[!-~]+$",
               description="A request with an earlier key stores nothing again."),
    ] = None,
) -> Response:  # fmt: skip
    """Store events; acknowledged events survive a crash, and count from the next request on."""
    state = state_of(request)
    database = state.store()
    now = time.time()
    events = [
        Event(
            user=str(one.user), item=str(one.item), kind=one.kind,
            time=now if one.time is None else one.time, weight=one.weight,
            key=_key(one.key, idempotency_key, number), request=one.request,
        )
        for number, one in enumerate(body.events)
    ]  # fmt: skip
    added = await asyncio.to_thread(database.add_events, events)
    state.service.recent.add(events)
    state.metrics.events.inc(added.accepted)
    return answer({"accepted": added.accepted, "repeated": added.repeated}, 202)


def _key(own: str | None, of_request: str | None, number: int) -> str | None:
    """Return the key under which an event is stored once: its own, or one from its request."""
    if own is not None:
        return f"e:{own}"
    return None if of_request is None else f"r:{of_request}:{number}"
