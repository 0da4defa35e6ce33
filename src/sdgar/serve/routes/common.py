"""Shared parts of the routes: the server's state, roles, strict JSON bodies, and JSON answers."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Annotated, Any, cast

import orjson
from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import Response
from fastapi.routing import APIRoute

from sdgar.errors import UsageError
from sdgar.recommend.recommender import Recommender
from sdgar.serve.access import Access
from sdgar.serve.background import BackgroundTasks
from sdgar.serve.metrics import ServiceMetrics
from sdgar.serve.problems import MEDIA_TYPE, Refused
from sdgar.serve.service import Service
from sdgar.serve.settings import RequestLimits
from sdgar.serve.snapshot import Snapshot
from sdgar.serve.store import Database

_PROBLEMS = {
    400: "The body is not JSON.", 401: "There is no valid key.", 403: "The key may not do this.",
    404: "Something that the request names is not here.",
    409: "The model or the store cannot do this.", 413: "The body is too large.",
    415: "The body is not declared as JSON.", 422: "The request does not fit the schema.",
    429: "The client sends too many requests.", 503: "The server is busy, or about to end.",
    504: "The answer took too long.",
}  # fmt: skip

Category = Annotated[
    str | None,
    Query(min_length=1, max_length=256, pattern=r"^[^\x00]+$", description="Only this category."),
]
"""The name of a category in the query of a URL."""


@dataclass
class ServerState:
    """The parts of a running server."""

    service: Service
    """The service that answers requests."""
    access: Access
    """Decides which requests are allowed."""
    metrics: ServiceMetrics
    """The counters of requests."""
    limits: RequestLimits
    """The limits of requests."""
    reload: Callable[[str, str | None], Snapshot]
    """Changes a variant to another model: by name, or the newest."""
    background: BackgroundTasks
    """Periodic tasks in a thread."""
    database: Database | None = None
    """The store of events, items, users and keys, or None."""
    draining: bool = False
    """Whether the server is about to end, so that new requests should go elsewhere."""
    running: int = 0
    """The number of requests in progress."""

    def store(self) -> Database:
        """Return the store; raise if the server has none."""
        if self.database is None:
            raise UsageError(
                "this server has no store to keep this in. Start it with --store "
                "sqlite:///store.db.",
                code="no_store",
            )
        return self.database

    @property
    def model(self) -> Recommender:
        """The model that answers now; with variants, the first one."""
        return self.service.models.current.first.snapshot.model


def state_of(request: Request) -> ServerState:
    """Return the parts of the server that received a request."""
    return cast("ServerState", request.app.state.parts)


def needs(role: str) -> object:
    """Return a dependency that allows only requests whose key has a role."""

    async def check(request: Request) -> None:
        state_of(request).access.allow(request.scope, role)

    return Depends(check)


class StrictRequest(Request):
    """A request whose body is parsed strictly: no NaN, no lone surrogates, no endless depth."""

    async def json(self) -> Any:
        """Return the parsed body; raise if it is not JSON."""
        if not hasattr(self, "_json"):
            self._json = orjson.loads(await self.body())
        return self._json


class StrictRoute(APIRoute):
    """A route that accepts JSON only."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler behind the strict parser."""
        handler = super().get_route_handler()

        async def strict(request: Request) -> Response:
            if request.method in ("POST", "PUT"):
                require_json(dict(request.scope["headers"]))
            return await handler(StrictRequest(request.scope, request.receive))

        return strict


def require_json(headers: dict[bytes, bytes]) -> None:
    """Raise if a body is not declared as JSON, or is compressed."""
    kind = headers.get(b"content-type", b"application/json").partition(b";")[0]
    if kind.strip().lower() != b"application/json":
        raise Refused(415, "Send JSON, with the header Content-Type: application/json.")
    if headers.get(b"content-encoding", b"identity").strip().lower() != b"identity":
        raise Refused(415, "Send the body without a Content-Encoding.")


ROUTERS: dict[str, APIRouter] = {}
"""All routers of the API by name; a server includes the routers that exist when it starts."""


def router(name: str, *, role: str | None, tags: list[str], prefix: str = "/v1") -> APIRouter:
    """Return a new router of the API, whose routes all need a key with this role, if any."""
    problem = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    responses: dict[int | str, dict[str, Any]] = {
        status: {"description": text, "content": problem} for status, text in _PROBLEMS.items()
    }
    ROUTERS[name] = APIRouter(
        prefix=prefix, route_class=StrictRoute, responses=responses, tags=list(tags),
        dependencies=[] if role is None else [needs(role)],  # type: ignore[list-item]
    )  # fmt: skip
    return ROUTERS[name]


def answer(found: Any, status: int = 200) -> Response:
    """Return a value as JSON; numbers that JSON cannot hold become null."""
    return Response(orjson.dumps(found), status, media_type="application/json")
