"""What runs here: the model, the service, its health, and numbers for Prometheus."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import PlainTextResponse, Response

from sdgar.serve.routes.common import ServerState, answer, needs, router, state_of
from sdgar.serve.snapshot import Snapshot, as_time

routes = router(role="read", tags=["status"])
health = APIRouter(tags=["status"])
numbers = APIRouter(tags=["status"], dependencies=[needs("read")])  # type: ignore[list-item]


@routes.get("/model", summary="What answers")
async def model(request: Request) -> Response:
    """Return what the model is, its data, its metrics, and how it learned."""
    models = state_of(request).service.models
    variants = models.current
    found = await asyncio.to_thread(_about, variants.first.snapshot)
    found["variants"] = [
        {"name": v.name, "share": v.share, "model": v.snapshot.name, "version": v.snapshot.version}
        for v in variants.by_name.values()
    ]
    state = state_of(request)
    found["refused"] = _refused(state)
    takes = state.database is not None and state.access.may(request.scope, "write")
    found["abilities"]["feedback"] = takes
    return answer(found)


def _about(snapshot: Snapshot) -> dict[str, Any]:
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
        {"variant": name, "model": one.model, "reason": one.reason}
        for name, one in state.service.models.refused.items()
    ]


@routes.get("/service", summary="How the service is doing")
async def service(request: Request) -> Response:
    """Return requests a minute, latencies, feedback an hour and what waits, of this process."""
    state = state_of(request)
    found = state.metrics.for_page()
    hours: list[int] | None = None
    if state.database is not None:
        hours = await asyncio.to_thread(state.database.events_per_hour, 24)
    failures = state.task_failures()
    return answer(
        found
        | {
            "feedback_per_hour": hours,
            "store": _store(state),
            "queue": len(state.service.batches),
            "running": state.running[0],
            "swaps": state.service.models.swaps,
            "failures": sorted(failures),
            "started": as_time(state.metrics.started),
        }
    )


def _store(state: ServerState) -> str | None:
    if state.database is None:
        return None
    return "postgresql" if state.database.is_postgresql else "sqlite"


@health.get("/livez", summary="Whether the process lives")
async def livez() -> Response:
    """Answer as long as the process can answer anything."""
    return answer({"alive": True})


@health.get("/readyz", summary="Whether requests should be sent here", responses={503: {}})
async def readyz(request: Request) -> Response:
    """Answer 200 if requests are welcome; a model that was refused is named, the old one serves."""
    state = state_of(request)
    failures = state.task_failures()
    ready = not state.draining and "store" not in failures
    refused = [one["model"] for one in _refused(state)]
    found = {"ready": ready, "draining": state.draining, "refused": refused}
    return answer(found, 200 if ready else 503)


@numbers.get(
    "/metrics",
    summary="Numbers for Prometheus",
    response_class=PlainTextResponse,
)
async def metrics(request: Request) -> Response:
    """Return the counters of this process."""
    state = state_of(request)
    metrics, models = state.metrics, state.service.models
    metrics.swaps.set(models.swaps)
    metrics.refused.set(len(models.refused))
    metrics.age.set(time.time() - models.current.first.snapshot.loaded_at)
    metrics.waiting.set(len(state.service.batches))
    metrics.running.set(state.running[0])
    metrics.kept.set(state.service.catalogue.found_kept)
    metrics.read.set(state.service.catalogue.read)
    metrics.dropped.set(state.service.impressions.dropped)
    return Response(metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")
