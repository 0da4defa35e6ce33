"""Routes that a model answers: recommend, similar, explain, popular, latest."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import Body, Query, Request
from fastapi.responses import Response

from sdgar.serve import answers, schemas
from sdgar.serve.catalogue import details_of, model_ids
from sdgar.serve.routes.common import Category, answer, router, state_of

routes = router("recommendations", role="read", tags=["questions"])

Limit = Annotated[int, Query(ge=1, le=schemas.MOST_ENTRIES, description="The number of items.")]


@routes.post(
    "/recommend",
    response_model=answers.Recommendations,
    summary="The best items for users, histories or contexts",
)
async def recommend(
    request: Request,
    body: Annotated[
        schemas.RecommendBody,
        Body(
            openapi_examples={
                "users": {"value": {"users": ["ann", "bob"], "k": 5}},
                "a history": {"value": {"histories": [{"items": ["i7", "i9"]}], "reasons": 2}},
            }
        ),
    ],
) -> Response:
    """Return the k best items of each user; unknown users get popular items."""
    return answer(await state_of(request).service.recommend(body))


@routes.post("/similar", response_model=answers.SimilarAnswer, summary="Items similar to an item")
async def similar(
    request: Request,
    body: Annotated[
        schemas.SimilarBody, Body(openapi_examples={"one": {"value": {"items": ["i7"], "k": 5}}})
    ],
) -> Response:
    """Return the k items that are most similar to each item; an unknown item is marked."""
    return answer(await state_of(request).service.similar(body))


@routes.post("/explain", response_model=answers.Explanation, summary="The reasons of scores")
async def explain(
    request: Request,
    body: Annotated[
        schemas.ExplainBody, Body(openapi_examples={"one": {"value": {"user": "ann", "k": 3}}})
    ],
) -> Response:
    """Return the contributions of the history to each score; contributions and rest add up."""
    return answer(await state_of(request).service.explain(body))


@routes.get("/popular", response_model=answers.ItemList, summary="The most popular items")
async def popular(request: Request, k: Limit = 10, category: Category = None) -> Response:
    """Return the most popular items, of all or of one category."""
    return answer(await state_of(request).service.popular(k, category))


@routes.get("/latest", response_model=answers.ItemList, summary="The newest items")
async def latest(request: Request, k: Limit = 10, category: Category = None) -> Response:
    """Return the newest items of the store; hidden ones are left out."""
    state = state_of(request)
    if state.database is None:
        return answer({"items": []})
    found = await asyncio.to_thread(state.database.latest, k, category)
    entries = await state.service.catalogue.entries(raw for raw, _ in found)
    ids = model_ids(state.model.items, [raw for raw, _ in found])
    rows = [
        {"item": id, "score": when, "rank": place, **details_of(entries.get(raw))}
        for place, (id, (raw, when)) in enumerate(zip(ids, found, strict=True), 1)
    ]
    return answer({"items": rows})
