"""What may be asked over HTTP and what is answered, as the OpenAPI document shows it.

A request says exactly what it means: an unknown name, a number in quotes or a list that is too long
is refused. An id is a text or an integer, and comes back as the model has it.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    Strict,
    StrictBool,
    StringConstraints,
)

MOST_ASKED = 256
"""The most users, histories, contexts or items that one request may ask about."""
MOST_ENTRIES = 1_000
"""The greatest k."""
MOST_NAMED = 10_000
"""The most ids in a list of items to choose from, to leave out, or of a history."""
MOST_EVENTS = 1_000
"""The most events in one request."""
MOST_REASONS = 10
"""The most reasons for an entry."""


def _whole(value: Any) -> Any:
    """Return 17 for 17.0, which is the same number in JSON, and anything else as it is."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


_WHOLE = BeforeValidator(_whole)
Text = Annotated[
    str, StringConstraints(strict=True, min_length=1, max_length=256, pattern=r"^[^\x00]+$")
]
"""A short text without the character NUL, which databases cannot hold."""


def _id(value: Any) -> Any:
    """Return an integer that 64 bits cannot hold as text: its spelling names the same id."""
    whole = _whole(value)
    if isinstance(whole, int) and not -(2**63) <= whole < 2**64:
        return str(whole)
    return whole


Id = Annotated[Text | Annotated[int, Strict()], BeforeValidator(_id)]
"""An id, which is a text or an integer."""
Long = Annotated[str, StringConstraints(strict=True, max_length=2048, pattern=r"^[^\x00]*$")]
"""A name, or the address of a picture."""
Share = Annotated[float, Field(allow_inf_nan=False)]
Named = Annotated[list[Id], Field(max_length=MOST_NAMED)]
K = Annotated[
    int, Strict(), Field(ge=1, le=MOST_ENTRIES, description="How many items a list has."), _WHOLE
]
_NAMED_SO = Field(json_schema_extra={"additionalProperties": False})
"""Says in the description that there are no names but those that fit their pattern."""
Context = Annotated[dict[Text, Id], Field(min_length=1, max_length=20), _NAMED_SO]
"""The value of each field of a context, by name."""
Basis = Literal["model", "feedback", "history", "popular"]


class Asked(BaseModel):
    """A request: names that are not known are refused."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class History(Asked):
    """The items of someone whom the model need not know."""

    id: Id | None = Field(default=None, description="The name of this history in the answer.")
    items: Annotated[list[Id], Field(min_length=1, max_length=MOST_NAMED)]


class Wishes(Asked):
    """What the lists should be like."""

    k: K = 10
    items: Named | None = Field(default=None, description="Only these items are recommended.")
    exclude: Named | None = Field(default=None, description="These items are left out.")
    exclude_seen: StrictBool = Field(
        default=True, description="What a user has already is left out."
    )
    exclude_categories: Annotated[list[Text], Field(max_length=100)] | None = Field(
        default=None, description="Items of these categories are left out."
    )
    reasons: Annotated[int, Strict(), Field(ge=0, le=MOST_REASONS), _WHOLE] = Field(
        default=0, description="How many items of the history are named as reasons for each entry."
    )
    diversity: Annotated[float, Field(ge=0, le=1, strict=True)] = Field(
        default=0.0,
        description="0 ranks by score alone; 1 wants items unlike each other above all.",
    )
    popularity: Annotated[float, Field(ge=-1, le=1, strict=True)] = Field(
        default=0.0, description="Below 0 buries what is popular, above 0 prefers it."
    )
    details: StrictBool = Field(
        default=False, description="Names, pictures and categories of items are told."
    )
    variant: Text | None = Field(
        default=None,
        description="The variant that answers, instead of the one that the user belongs to.",
    )


class ForUsers(Wishes):
    """Lists for users by their ids."""

    users: Annotated[list[Id], Field(min_length=1, max_length=MOST_ASKED)]


class ForHistories(Wishes):
    """Lists for anyone by the items that they have."""

    histories: Annotated[list[History], Field(min_length=1, max_length=MOST_ASKED)]


class ForContexts(Wishes):
    """Lists for users in a context, if the model's contexts have several fields."""

    contexts: Annotated[list[Context], Field(min_length=1, max_length=MOST_ASKED)]


class Similar(Asked):
    """A question for items that are like an item."""

    items: Annotated[list[Id], Field(min_length=1, max_length=MOST_ASKED)]
    k: K = 10
    by: Literal["auto", "vectors", "weights"] = "auto"
    details: StrictBool = False


class Why(Asked):
    """What an explanation is about."""

    items: Annotated[list[Id], Field(min_length=1, max_length=MOST_ASKED)] | None = Field(
        default=None, description="The items to explain; without them, the k best ones."
    )
    k: Annotated[int, Strict(), Field(ge=1, le=100), _WHOLE] = 10
    reasons: Annotated[int, Strict(), Field(ge=1, le=MOST_REASONS), _WHOLE] = 3
    details: StrictBool = False


class WhyUser(Why):
    """A question for the reasons of a user's scores."""

    user: Id


class WhyHistory(Why):
    """A question for the reasons of the scores of someone with these items."""

    history: Annotated[list[Id], Field(min_length=1, max_length=MOST_NAMED)]


class Event(Asked):
    """Something that a user did with an item."""

    user: Id
    item: Id
    kind: Text = "event"
    time: Annotated[float, Field(strict=True, ge=0, le=1e11)] | None = Field(
        default=None, description="Seconds since 1970; without it, the time of arrival."
    )
    weight: Annotated[float, Field(strict=True, ge=-1e9, le=1e9)] | None = None
    key: Text | None = Field(default=None, description="An event with a key is stored once only.")
    request: Text | None = Field(
        default=None, description="The request whose answer led to the event."
    )


class Feedback(Asked):
    """Events that are to be kept."""

    events: Annotated[list[Event], Field(min_length=1, max_length=MOST_EVENTS)]


class Entry(Asked):
    """What the store knows of an item or of a user."""

    name: Long | None = None
    picture: Long | None = Field(default=None, description="The address of a picture.")
    categories: Annotated[list[Text], Field(max_length=100)] = []
    features: Annotated[dict[Text, Share | Long], Field(max_length=1000), _NAMED_SO] = {}
    hidden: StrictBool = Field(default=False, description="A hidden item is never recommended.")


class Reload(Asked):
    """The wish for another model."""

    model: (
        Annotated[str, StringConstraints(strict=True, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
        | None
    ) = Field(default=None, description="The name of a folder among the models; none means newest.")
    variant: Text | None = Field(default=None, description="The variant; none means the first.")


class Reloaded(BaseModel):
    """The model that answers from now on."""

    model: str
    version: str
    changed: bool


class Details(BaseModel):
    """What is told of an item beside its id, if details are asked for."""

    name: str | None = None
    picture: str | None = None
    categories: list[str] | None = None


class Reason(Details):
    """An item of the history that speaks for an entry."""

    item: Id
    share: Share
    by_weights: Share | None = None
    by_vectors: Share | None = None


class Listed(Details):
    """One entry of a list."""

    item: Id
    score: Share
    rank: int
    cold: bool | None = Field(
        default=None, description="True for an item that the model knows by its features alone."
    )
    because: list[Reason] | None = None
    rules: list[str] | None = None


class List(BaseModel):
    """The list of one user, history or context."""

    model_config = ConfigDict(extra="allow")

    user: Id | None
    items: list[Listed]
    short: bool
    basis: Basis
    model: str
    variant: str


class Unknown(BaseModel):
    """The ids of a request that the model does not know."""

    users: list[Id] = []
    items: list[Id] = []


class Lists(BaseModel):
    """The answer to a request for recommendations."""

    request: str
    lists: list[List]
    unknown: Unknown


class Alike(BaseModel):
    """The items that are like one item."""

    item: Id
    similar: list[Listed]
    short: bool
    basis: Literal["model", "unknown"]


class SimilarLists(BaseModel):
    """The answer to a question for similar items."""

    lists: list[Alike]
    by: str
    model: str


class Explained(Details):
    """The score of an item, and where it comes from."""

    item: Id
    score: Share
    because: list[Reason]
    rest: Share


class Explanation(BaseModel):
    """The reasons of scores."""

    user: Id | None
    items: list[Explained]
    model: str
    basis: Basis


class Stored(BaseModel):
    """How many events are new, and how many were stored before."""

    accepted: int
    repeated: int


class Told(BaseModel):
    """What is known of an item or of a user."""

    id: Id
    name: str | None = None
    picture: str | None = None
    categories: list[str] = []
    features: dict[str, float | str] = {}
    hidden: bool = False
    known: bool
    events: int = 0


class Found(BaseModel):
    """What a search finds, best first."""

    found: list[Told]


class OfUser(BaseModel):
    """What a user has, the newest last."""

    user: Id
    items: list[dict[str, Any]]
    total: int
    known: bool


class Category(BaseModel):
    """A category, and how many items it has."""

    name: str
    items: int


class Categories(BaseModel):
    """All categories of items."""

    categories: list[Category]


class Ranked(BaseModel):
    """A list that is the same for everyone."""

    items: list[Listed]


class ProblemDetails(BaseModel):
    """What went wrong, as RFC 9457 has it; ``code`` is a stable word for programs."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    code: str
