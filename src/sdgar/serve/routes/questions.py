"""The questions for which there is a model: recommend, similar, explain, popular, latest."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import Body, Query, Request
from fastapi.responses import Response
from pydantic import Discriminator, Tag

from sdgar.serve import schemas
from sdgar.serve.render import details_of, model_ids
from sdgar.serve.routes.common import answer, router, state_of

routes = router(role="read", tags=["questions"])


def _by_name(*names: str) -> Discriminator:
    """Choose a schema by the first of these names that a request has."""

    def which(body: Any) -> str:
        held = body if isinstance(body, dict) else getattr(body, "__dict__", {})
        return next((name for name in names if name in held), names[0])

    return Discriminator(which)


RecommendBody = Annotated[
    Annotated[schemas.ForUsers, Tag("users")]
    | Annotated[schemas.ForHistories, Tag("histories")]
    | Annotated[schemas.ForContexts, Tag("contexts")],
    _by_name("users", "histories", "contexts"),
]
ExplainBody = Annotated[
    Annotated[schemas.WhyUser, Tag("user")] | Annotated[schemas.WhyHistory, Tag("history")],
    _by_name("user", "history"),
]
Category = Annotated[
    str | None,
    Query(min_length=1, max_length=256, pattern=r"^[^\x00]+$", description="Only these."),
]
Most = Annotated[int, Query(ge=1, le=schemas.MOST_ENTRIES, description="How many at most.")]


@routes.post(
    "/recommend",
    response_model=schemas.Lists,
    summary="The best items for users, histories or contexts",
)
async def recommend(
    request: Request,
    asked: Annotated[
        RecommendBody,
        Body(
            openapi_examples={
                "users": {"value": {"users": ["ann", "bob"], "k": 5}},
                "a history": {"value": {"histories": [{"items": ["i7", "i9"]}], "reasons": 2}},
            }
        ),
    ],
) -> Response:
    """Return the k best items of each; one that is unknown gets what is popular."""
    return answer(await state_of(request).service.recommend(asked))


@routes.post("/similar", response_model=schemas.SimilarLists, summary="Items like an item")
async def similar(
    request: Request,
    asked: Annotated[
        schemas.Similar, Body(openapi_examples={"one": {"value": {"items": ["i7"], "k": 5}}})
    ],
) -> Response:
    """Return the k items that are most like each item; an unknown one is marked."""
    return answer(await state_of(request).service.similar(asked))


@routes.post("/explain", response_model=schemas.Explanation, summary="The reasons of scores")
async def explain(
    request: Request,
    asked: Annotated[
        ExplainBody, Body(openapi_examples={"one": {"value": {"user": "ann", "k": 3}}})
    ],
) -> Response:
    """Return the items of the history that speak for each item; shares and rest add up."""
    return answer(await state_of(request).service.explain(asked))


@routes.get("/popular", response_model=schemas.Ranked, summary="What most people have")
async def popular(request: Request, k: Most = 10, category: Category = None) -> Response:
    """Return what most people have, in all or in one category."""
    return answer(await state_of(request).service.popular(k, category))


@routes.get("/latest", response_model=schemas.Ranked, summary="What came last")
async def latest(request: Request, k: Most = 10, category: Category = None) -> Response:
    """Return the items that the store learned of last; hidden ones are left out."""
    state = state_of(request)
    if state.database is None:
        return answer({"items": []})
    found = await asyncio.to_thread(state.database.latest, k, category)
    entries = await state.service.catalogue.entries(raw for raw, _ in found)
    items = state.service.models.current.first.snapshot.model.items
    own = model_ids(items, [raw for raw, _ in found])
    return answer(
        {
            "items": [
                {"item": item, "score": when, "rank": place, **details_of(entries.get(raw))}
                for place, (item, (raw, when)) in enumerate(zip(own, found, strict=True), 1)
            ]
        }
    )
