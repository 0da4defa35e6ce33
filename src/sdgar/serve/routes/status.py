"""Routes on the state of the server: the model, the service, health, metrics, and a new model."""

from __future__ import annotations

import asyncio
import time
from typing import Annotated, Any

from fastapi import Body, Request
from fastapi.responses import PlainTextResponse, Response
from prometheus_client import generate_latest

from sdgar.serve import answers, schemas
from sdgar.serve.problems import Refused
from sdgar.serve.routes.common import ServerState, answer, router, state_of
from sdgar.serve.snapshot import Snapshot, as_time
from sdgar.serve.swap import MAIN

routes = router("status", role="read", tags=["status"])
health = router("health", role=None, tags=["status"], prefix="")
numbers = router("metrics", role="read", tags=["status"], prefix="")
changes = router("administration", role="admin", tags=["administration"])


@routes.get("/model", summary="The model")
async def model(request: Request) -> Response:
    """Return the facts of the model: its data, its metrics, and its training."""
    state = state_of(request)
    variants = state.service.models.current
    found = await asyncio.to_thread(_facts, variants.first.snapshot)
    found["variants"] = [
        {"name": v.name, "share": v.share, "model": v.snapshot.name, "version": v.snapshot.version}
        for v in variants.by_name.values()
    ]
    found["refused"] = _refused(state)
    can_write = state.database is not None and state.access.may(request.scope, "write")
    found["abilities"]["feedback"] = can_write
    return answer(found)


def _facts(snapshot: Snapshot) -> dict[str, Any]:
    facts = snapshot.facts
    return {
        "version": snapshot.version,
        "name": snapshot.name,
        "system": facts["system"],
        "settings": facts["settings"],
        "data": facts["data"],
        "metrics": facts["test"],
        "popular_metrics": facts["most_popular"],
        "definition": facts["definition"],
        "protocol": facts["protocol"],
        "curve": snapshot.curve,
        "generator": facts["generator"],
        "index": snapshot.finder_facts,
        "concentration": snapshot.concentration,
        "created_by": facts["created_by"],
        "trained_at": facts["written"],
        "loaded_at": as_time(snapshot.loaded_at),
        "seconds": facts["seconds"],
        "abilities": {**facts["can"], "reasons": snapshot.has_reasons},
    }


def _refused(state: ServerState) -> list[dict[str, str]]:
    return [
        {"variant": name, "model": model, "reason": reason}
        for name, (model, reason) in state.service.models.refused.items()
    ]


@routes.get("/service", summary="The state of the service")
async def service(request: Request) -> Response:
    """Return the request rate, latencies, feedback rate and queue of this process."""
    state = state_of(request)
    hours: list[int] | None = None
    if state.database is not None:
        hours = await asyncio.to_thread(state.database.events_per_hour, 24)
    return answer(
        state.metrics.for_page()
        | {
            "feedback_per_hour": hours,
            "store": _store(state),
            "queue": len(state.service.batches),
            "running": state.running,
            "swaps": state.service.models.swaps,
            "failures": sorted(state.background.failures()),
            "started": as_time(state.metrics.started),
        }
    )


def _store(state: ServerState) -> str | None:
    if state.database is None:
        return None
    return "postgresql" if state.database.is_postgresql else "sqlite"


@health.get("/livez", summary="Whether the process runs")
async def livez() -> Response:
    """Answer 200 as long as the process runs."""
    return answer({"alive": True})


@health.get("/readyz", summary="Whether the server accepts requests", responses={503: {}})
async def readyz(request: Request) -> Response:
    """Answer 200 if requests are welcome; name refused models, while the old one answers."""
    state = state_of(request)
    ready = not state.draining and "store" not in state.background.failures()
    refused = [one["model"] for one in _refused(state)]
    found = {"ready": ready, "draining": state.draining, "refused": refused}
    return answer(found, 200 if ready else 503)


@numbers.get(
    "/metrics",
    summary="Metrics for Prometheus",
    response_class=PlainTextResponse,
)
async def metrics(request: Request) -> Response:
    """Return the metrics of this process."""
    state = state_of(request)
    found, models = state.metrics, state.service.models
    found.swaps.set(models.swaps)
    found.refused.set(len(models.refused))
    found.age.set(time.time() - models.current.first.snapshot.loaded_at)
    found.waiting.set(len(state.service.batches))
    found.running.set(state.running)
    found.kept.set(state.service.catalogue.found_kept)
    found.read.set(state.service.catalogue.read)
    found.dropped.set(state.service.impressions.dropped)
    text = generate_latest(found.registry)
    return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")


@changes.post(
    "/admin/reload", response_model=answers.ReloadResult, summary="Change to another model"
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
