"""The bodies of answers, as the OpenAPI document describes them."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from sdgar.recommend.by_index import Basis
from sdgar.serve.schemas import Finite, Id


class ReloadResult(BaseModel):
    """The model that answers from now on."""

    model: str
    version: str
    changed: bool


class ItemDetails(BaseModel):
    """The name, picture and categories of an item, if details are requested."""

    name: str | None = None
    picture: str | None = None
    categories: list[str] | None = None


class Reason(ItemDetails):
    """An item of the history, and its contribution to the score of an entry."""

    item: Id
    share: Finite
    by_weights: Finite | None = None
    by_vectors: Finite | None = None


class RankedItem(ItemDetails):
    """One entry of a ranked list."""

    item: Id
    score: Finite
    rank: int
    cold: bool | None = Field(
        default=None,
        description="True for an item without events, whose vector is predicted from features.",
    )
    because: list[Reason] | None = None
    rules: list[str] | None = None


class RankedList(BaseModel):
    """The ranked list of one user, history or context."""

    model_config = ConfigDict(extra="allow")

    user: Id | None
    items: list[RankedItem]
    short: bool
    basis: Basis
    model: str
    variant: str


class UnknownIds(BaseModel):
    """The ids of a request that the model does not know."""

    users: list[Id] = []
    items: list[Id] = []


class Recommendations(BaseModel):
    """The answer to a query for recommendations."""

    request: str
    lists: list[RankedList]
    unknown: UnknownIds


class SimilarItems(BaseModel):
    """The items that are similar to one item."""

    item: Id
    similar: list[RankedItem]
    short: bool
    basis: Literal["model", "unknown"]


class SimilarAnswer(BaseModel):
    """The answer to a query for similar items."""

    lists: list[SimilarItems]
    by: str
    model: str


class ExplainedItem(ItemDetails):
    """The score of an item, and its parts."""

    item: Id
    score: Finite
    because: list[Reason]
    rest: Finite


class Explanation(BaseModel):
    """The reasons of scores."""

    user: Id | None
    items: list[ExplainedItem]
    model: str
    basis: Basis


class FeedbackResult(BaseModel):
    """The number of new events, and of events that were stored before."""

    accepted: int
    repeated: int


class Description(BaseModel):
    """The description of an item or a user."""

    id: Id
    name: str | None = None
    picture: str | None = None
    categories: list[str] = []
    features: dict[str, float | str] = {}
    hidden: bool = False
    known: bool
    events: int = 0


class SearchResult(BaseModel):
    """The results of a search, best first."""

    found: list[Description]


class UserItems(BaseModel):
    """The items of a user, the newest last."""

    user: Id
    items: list[dict[str, Any]]
    total: int
    known: bool


class Category(BaseModel):
    """A category, and the number of its items."""

    name: str
    items: int


class Categories(BaseModel):
    """All categories of items."""

    categories: list[Category]


class ItemList(BaseModel):
    """A list that is the same for everyone."""

    items: list[RankedItem]


class ProblemDetails(BaseModel):
    """An error by RFC 9457; ``code`` is a stable word for programs."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    code: str
