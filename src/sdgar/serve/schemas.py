"""The bodies of requests, as the OpenAPI document describes them.

Requests are strict: an unknown field, a number in quotes or a list that is too long is refused. An
id is a text or an integer, and is returned as the model spells it.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    Strict,
    StrictBool,
    StringConstraints,
    model_validator,
)

MOST_ASKED = 256
"""The maximum number of users, histories, contexts or items in one query."""
MOST_ENTRIES = 1_000
"""The maximum k."""
MOST_NAMED = 10_000
"""The maximum number of ids in a history, or in a list of items to allow or to exclude."""
MOST_EVENTS = 1_000
"""The maximum number of events in one request."""
MOST_REASONS = 10
"""The maximum number of reasons for an entry."""


def _whole(value: Any) -> Any:
    """Return 17 for 17.0, which is the same number in JSON; leave other values as they are."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


_WHOLE = BeforeValidator(_whole)
Text = Annotated[
    str, StringConstraints(strict=True, min_length=1, max_length=256, pattern=r"^[^\x00]+$")
]
"""A short text without the character NUL, which databases cannot store."""


def _id(value: Any) -> Any:
    """Return an integer beyond 64 bits as text, because its spelling is the same id."""
    whole = _whole(value)
    if isinstance(whole, int) and not -(2**63) <= whole < 2**64:
        return str(whole)
    return whole


Id = Annotated[Text | Annotated[int, Strict()], BeforeValidator(_id)]
"""An id: a text or an integer."""
Long = Annotated[str, StringConstraints(strict=True, max_length=2048, pattern=r"^[^\x00]*$")]
"""A name, or the address of a picture."""
Finite = Annotated[float, Field(allow_inf_nan=False)]
Named = Annotated[list[Id], Field(max_length=MOST_NAMED)]
K = Annotated[
    int,
    Strict(),
    Field(ge=1, le=MOST_ENTRIES, description="The number of items in a list."),
    _WHOLE,
]
_NAMED_SO = Field(json_schema_extra={"additionalProperties": False})
"""Describes that all names must match the pattern."""
_ASKED: Any = Field(default_factory=list, min_length=1, max_length=MOST_ASKED)
Context = Annotated[dict[Text, Id], Field(min_length=1, max_length=20), _NAMED_SO]
"""The values of the fields of a context, by name."""


def _describe_forms(schema: dict[str, Any], body: Any) -> None:
    """Add to the description of a body that exactly one of its forms is required."""
    if body.forms:
        schema["oneOf"] = [{"required": [name]} for name in body.forms]


class RequestBody(BaseModel):
    """The body of a request; unknown fields are refused."""

    model_config = ConfigDict(
        extra="forbid", allow_inf_nan=False, json_schema_extra=_describe_forms
    )
    forms: ClassVar[tuple[str, ...]] = ()
    """The fields of which a request has exactly one, if there are any."""

    @property
    def form(self) -> str:
        """The field of the forms that the request has."""
        return next(name for name in self.forms if name in self.model_fields_set)

    @model_validator(mode="after")
    def _require_one_form(self) -> Self:
        if self.forms and len(self.model_fields_set.intersection(self.forms)) != 1:
            raise ValueError(f"give exactly one of {', '.join(self.forms)}")
        return self


class HistoryBody(RequestBody):
    """The items of a user, who may be unknown to the model."""

    id: Id | None = Field(default=None, description="The name of this history in the answer.")
    items: Annotated[list[Id], Field(min_length=1, max_length=MOST_NAMED)]


class RankingBody(RequestBody):
    """The options of ranked lists."""

    k: K = 10
    items: Named | None = Field(default=None, description="Only these items are recommended.")
    exclude: Named | None = Field(default=None, description="These items are left out.")
    exclude_seen: StrictBool = Field(
        default=True, description="Items that a user has already are left out."
    )
    exclude_categories: Annotated[list[Text], Field(max_length=100)] | None = Field(
        default=None, description="Items of these categories are left out."
    )
    reasons: Annotated[int, Strict(), Field(ge=0, le=MOST_REASONS), _WHOLE] = Field(
        default=0, description="The number of items of the history given as reasons for each entry."
    )
    diversity: Annotated[float, Field(ge=0, le=1, strict=True)] = Field(
        default=0.0,
        description="0 ranks by score only; 1 prefers items that differ from each other.",
    )
    popularity: Annotated[float, Field(ge=-1, le=1, strict=True)] = Field(
        default=0.0, description="Above 0 prefers popular items, below 0 rare ones."
    )
    details: StrictBool = Field(
        default=False, description="Whether names, pictures and categories of items are returned."
    )
    variant: Text | None = Field(
        default=None,
        description="The variant that answers, instead of the user's own.",
    )


class RecommendBody(RankingBody):
    """A query for lists by the ids of users, by the items that they have, or by contexts."""

    forms = ("users", "histories", "contexts")
    users: Annotated[list[Id], _ASKED]
    histories: Annotated[list[HistoryBody], _ASKED]
    contexts: Annotated[list[Context], _ASKED]


class SimilarBody(RequestBody):
    """A query for items that are similar to an item."""

    items: Annotated[list[Id], Field(min_length=1, max_length=MOST_ASKED)]
    k: K = 10
    by: Literal["auto", "vectors", "weights"] = "auto"
    details: StrictBool = False


class ExplainBody(RequestBody):
    """A query for the reasons of scores: of a user, or of anyone with these items."""

    forms = ("user", "history")
    user: Annotated[Id, Field(default_factory=str)]
    history: Annotated[list[Id], Field(default_factory=list, min_length=1, max_length=MOST_NAMED)]
    items: Annotated[list[Id], Field(min_length=1, max_length=MOST_ASKED)] | None = Field(
        default=None, description="The items to explain; the k best items by default."
    )
    k: Annotated[int, Strict(), Field(ge=1, le=100), _WHOLE] = 10
    reasons: Annotated[int, Strict(), Field(ge=1, le=MOST_REASONS), _WHOLE] = 3
    details: StrictBool = False


class EventBody(RequestBody):
    """An interaction of a user with an item."""

    user: Id
    item: Id
    kind: Text = "event"
    time: Annotated[float, Field(strict=True, ge=0, le=1e11)] | None = Field(
        default=None, description="Seconds since 1970; the time of arrival by default."
    )
    weight: Annotated[float, Field(strict=True, ge=-1e9, le=1e9)] | None = None
    key: Text | None = Field(default=None, description="An event with a key is stored once only.")
    request: Text | None = Field(
        default=None, description="The request whose answer led to the event."
    )


class FeedbackBody(RequestBody):
    """Events to store."""

    events: Annotated[list[EventBody], Field(min_length=1, max_length=MOST_EVENTS)]


class EntryBody(RequestBody):
    """The description of an item or a user."""

    name: Long | None = None
    picture: Long | None = Field(default=None, description="The address of a picture.")
    categories: Annotated[list[Text], Field(max_length=100)] = []
    features: Annotated[dict[Text, Finite | Long], Field(max_length=1000), _NAMED_SO] = {}
    hidden: StrictBool = Field(default=False, description="A hidden item is never recommended.")


class ReloadBody(RequestBody):
    """A request to change to another model."""

    model: (
        Annotated[str, StringConstraints(strict=True, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
        | None
    ) = Field(
        default=None, description="The name of a folder among the models; the newest by default."
    )
    variant: Text | None = Field(default=None, description="The variant; the first by default.")
