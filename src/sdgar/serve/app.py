"""The application: routes, errors and bounds, put together by a function."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI
from fastapi.middleware.cors import CORSMiddleware
from fastapi.routing import APIRoute
from pydantic import TypeAdapter
from starlette.middleware.trustedhost import TrustedHostMiddleware

from sdgar._version import __version__
from sdgar.serve import pages
from sdgar.serve.direct import Direct
from sdgar.serve.limits import Limited
from sdgar.serve.problems import told_by
from sdgar.serve.routes import admin, catalogue, feedback, questions, status
from sdgar.serve.schemas import Problem
from sdgar.serve.state import State

log = logging.getLogger("sdgar.serve")
access_log = logging.getLogger("sdgar.access")


def build(
    state: State, *, origins: Sequence[str] = (), hosts: Sequence[str] = (), page: bool = True
) -> Any:
    """Return an ASGI application on these parts.

    ``origins`` are the addresses of pages elsewhere that may ask by CORS, ``hosts`` the names by
    which the server may be called; any, if none is given.
    """

    @asynccontextmanager
    async def alive(app: FastAPI) -> AsyncIterator[None]:
        if state.chores is not None:
            state.chores.start()
        yield
        state.draining = True
        if state.chores is not None:
            state.chores.stop()
        state.service.batches.close()

    app = FastAPI(
        title="sdgar", version=__version__, lifespan=alive, docs_url=None, redoc_url=None,
        openapi_url="/v1/openapi.json",
        summary="Recommendations, similar items, reasons and feedback.",
    )  # fmt: skip
    app.state.parts = state
    told_by(app)
    for routes in (
        questions.routes, feedback.routes, catalogue.reading, catalogue.writing, status.routes,
        status.health, status.numbers, admin.routes,
    ):  # fmt: skip
        app.include_router(routes)
    if page:
        app.include_router(pages.routes())
    _describe(app)
    if origins:
        app.add_middleware(
            CORSMiddleware, allow_origins=list(origins), allow_methods=["*"], allow_headers=["*"]
        )
    if hosts:
        app.add_middleware(TrustedHostMiddleware, allowed_hosts=list(hosts))
    (route,) = (
        one
        for one in questions.routes.routes
        if isinstance(one, APIRoute) and one.path == "/v1/recommend"
    )
    asks: TypeAdapter[Any] = TypeAdapter(questions.AskedFor)
    direct = Direct(app, state, route, asks, state.service.recommend, role="read")
    limited = Limited(
        app if origins or hosts else direct, state.limits, state.access.client, state.running
    )
    return Counted(limited, state)


def _describe(app: FastAPI) -> None:
    """Let the OpenAPI document name the form of errors, which no route returns by itself."""
    made = app.openapi

    def with_problems() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = made()
            document["components"]["schemas"]["Problem"] = Problem.model_json_schema()
            document["components"]["securitySchemes"] = {
                "key": {"type": "http", "scheme": "bearer"},
            }
            if app.state.parts.access.needed:
                document["security"] = [{"key": []}]
            app.openapi_schema = document
        return app.openapi_schema

    app.openapi = with_problems  # type: ignore[method-assign]


class Counted:
    """An application whose requests are counted, and logged without ids, keys or bodies."""

    def __init__(self, app: Any, state: State) -> None:
        self._app, self._state = app, state

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request, and remember how long it took."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start, status = time.perf_counter(), 499

        async def sent(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, sent)
        finally:
            seconds = time.perf_counter() - start
            route = scope.get("route")
            path = getattr(route, "path", "other")
            self._state.measured.request(path, status, seconds)
            if access_log.isEnabledFor(logging.INFO):
                access_log.info("%s %s %d %.1f ms", scope["method"], path, status, 1000 * seconds)
