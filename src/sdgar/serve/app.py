"""The ASGI application: routes, errors, limits, the page, and a fast path for recommendations."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import entry_points
from importlib.resources import files
from typing import Any

import orjson
from fastapi import FastAPI, Request
from fastapi.middleware.cors import CORSMiddleware
from fastapi.responses import Response
from fastapi.routing import APIRoute
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.staticfiles import StaticFiles

from sdgar._version import __version__
from sdgar.serve.answers import ProblemDetails
from sdgar.serve.limits import LimitedApp
from sdgar.serve.problems import add_error_handlers, problem, refusal_of
from sdgar.serve.routes import recommendations
from sdgar.serve.routes.common import ROUTERS, ServerState, require_json
from sdgar.serve.schemas import RecommendBody
from sdgar.serve.settings import ServerSettings

access_log = logging.getLogger("sdgar.access")

PAGE_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; img-src 'self' data: https: http:; object-src 'none'; "
        "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
"""The page may load nothing from elsewhere but pictures of items."""


def build(state: ServerState, settings: ServerSettings) -> Any:
    """Return the ASGI application of a server."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        state.background.start()
        yield
        state.draining = True
        state.background.stop()
        state.service.batches.close()

    app = FastAPI(
        title="sdgar", version=__version__, lifespan=lifespan, docs_url=None, redoc_url=None,
        openapi_url="/v1/openapi.json",
        summary="Recommendations, similar items, reasons and feedback.",
    )  # fmt: skip
    app.state.parts = state
    add_error_handlers(app)
    for entry in entry_points(group="sdgar.routes"):
        entry.load()
    for router in ROUTERS.values():
        app.include_router(router)
    if settings.page:
        _add_page(app)
    _describe_errors(app)
    if settings.origins:
        app.add_middleware(
            CORSMiddleware, allow_origins=settings.origins, allow_methods=["*"], allow_headers=["*"]
        )
    if settings.hosts:
        app.add_middleware(TrustedHostMiddleware, allowed_hosts=settings.hosts)
    inner = app if settings.origins or settings.hosts else FastRecommend(app, state)
    return MeasuredApp(LimitedApp(inner, state), state)


def _describe_errors(app: FastAPI) -> None:
    """Add the schema of errors to the OpenAPI document, as no route returns it by itself."""
    make = app.openapi

    def with_problems() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = make()
            document["components"]["schemas"]["Problem"] = ProblemDetails.model_json_schema()
            document["components"]["securitySchemes"] = {
                "key": {"type": "http", "scheme": "bearer"},
            }
            if app.state.parts.access.needed:
                document["security"] = [{"key": []}]
            app.openapi_schema = document
        return app.openapi_schema

    app.openapi = with_problems  # type: ignore[method-assign]


class MeasuredApp:
    """An application whose requests are counted, and logged without ids, keys or bodies."""

    def __init__(self, app: Any, state: ServerState) -> None:
        self._app, self._state = app, state

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request, and record its route, status and time."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start, status = time.perf_counter(), 499

        async def send_and_note(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, send_and_note)
        finally:
            seconds = time.perf_counter() - start
            route = scope.get("route")
            path = getattr(route, "path", "other")
            self._state.metrics.request(path, status, seconds)
            if access_log.isEnabledFor(logging.INFO):
                access_log.info("%s %s %d %.1f ms", scope["method"], path, status, 1000 * seconds)


class FastRecommend:
    """An application in front of another one, which answers recommendations by itself.

    The route is declared like all others, for the description of the API, and gives the same
    answers and errors. This way takes a fifth of the time of the web framework's layers, which
    take longer than the answer itself.
    """

    _HEADERS = ((b"content-type", b"application/json"),)

    def __init__(self, app: FastAPI, state: ServerState) -> None:
        self._app, self._state = app, state
        (self._route,) = (
            route
            for route in recommendations.routes.routes
            if isinstance(route, APIRoute) and route.path == "/v1/recommend"
        )

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request for recommendations, and pass on all others."""
        if (
            scope["type"] != "http"
            or scope["path"] != self._route.path
            or scope["method"] != "POST"
        ):
            await self._app(scope, receive, send)
            return
        scope["route"] = self._route
        try:
            self._state.access.allow(scope, "read")
            require_json(dict(scope["headers"]))
            body = (await receive())["body"]
            request = RecommendBody.model_validate(orjson.loads(body) if body else None)
            found = await self._state.service.recommend(request)
        except Exception as error:
            await problem(refusal_of(error))(scope, receive, send)
            return
        body = orjson.dumps(found)
        headers = [*self._HEADERS, (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})


class PageFiles(StaticFiles):
    """The files of the page."""

    async def get_response(self, path: str, scope: Any) -> Response:
        """Return a file with the headers of the page; only files of its folder can be named."""
        response = await super().get_response(path, scope)
        response.headers.update(PAGE_HEADERS)
        return response


def _add_page(app: FastAPI) -> None:
    page = PageFiles(directory=str(files("sdgar.serve") / "page"))

    async def index(request: Request) -> Response:
        return await page.get_response("index.html", request.scope)

    app.mount("/page", page)
    app.add_route("/", index, include_in_schema=False)
