"""Routes for administrators: changing to another model."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import Body, Request
from fastapi.responses import Response

from sdgar.serve import schemas
from sdgar.serve.problems import Refused
from sdgar.serve.routes.common import answer, router, state_of
from sdgar.serve.variants import MAIN

routes = router(role="admin", tags=["administration"])


@routes.post(
    "/admin/reload", response_model=schemas.ReloadResult, summary="Change to another model"
)
async def reload(request: Request, body: Annotated[schemas.ReloadBody, Body()]) -> Response:
    """Load the newest model, or one by name; it answers only if it passes all checks."""
    state = state_of(request)
    if state.draining:
        raise Refused(503, "The server is about to end.", code="draining", retry_after=5)
    variants = state.service.models.current
    variant = body.variant or (MAIN if MAIN in variants.by_name else variants.first.name)
    before = variants.by_name[variant].snapshot.version if variant in variants.by_name else None
    found = await asyncio.to_thread(state.reload, variant, body.model)
    changed = found.version != before
    return answer({"model": found.name, "version": found.version, "changed": changed})
