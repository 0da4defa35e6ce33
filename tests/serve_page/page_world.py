"""Synthetic items, users and histories for the stub of the server."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

Id = str | int

HOSTILE = 'a/b "c" <img src=x onerror=alert(1)> ü&?#%'
"""An id with all that could be mistaken for something else."""
GREAT = 2**63 + 11
"""An integer id that is no exact number of JavaScript."""
_FIRST = ("Quiet", "Amber", "Northern", "Paper", "Glass", "Hidden", "Late", "Silver")
_SECOND = ("Harbour", "Garden", "Orchard", "Lantern", "River", "Atlas", "Winter", "Signal")
_CATEGORIES = ("Adventure", "Comedy", "Drama", "Family", "Mystery", "Nature", "Science", "Travel")
_PEOPLE = ("Ada", "Bruno", "Chiara", "Dmitri", "Elif", "Farid", "Grace", "Hugo", "Ines", "Jun")


def _share(*words: Any) -> float:
    """Return a number in [0, 1) that depends on these words."""
    digest = hashlib.sha256(repr(words).encode()).digest()
    return int.from_bytes(digest[:6], "big") / 2**48


def _scene(number: int) -> str:
    """Draw a landscape as the address of a picture."""
    hue, sun = round(_share("hue", number) * 360), 30 + round(_share("sun", number) * 60)
    hills = "".join(
        f"<path d='M0 {y} Q 30 {y - 24 * _share(number, y):.0f} 60 {y} T 120 {y} V120 H0Z' "
        f"fill='hsl({(hue + 30) % 360} 35% {light}%)'/>"
        for y, light in ((72, 52), (88, 40), (104, 28))
    )
    drawing = (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 120 120'><rect width='120' "
        f"height='120' fill='hsl({hue} 55% 82%)'/><circle cx='{sun}' cy='38' r='15' "
        f"fill='hsl({(hue + 50) % 360} 80% 92%)'/>{hills}</svg>"
    )
    return "data:image/svg+xml," + quote(drawing)


@dataclass
class Item:
    id: Id
    name: str | None
    picture: str | None
    categories: list[str]
    vector: list[float]
    people: int


@dataclass
class World:
    items: dict[Id, Item] = field(default_factory=dict)
    users: dict[Id, str | None] = field(default_factory=dict)
    histories: dict[Id, list[Id]] = field(default_factory=dict)
    feedback: list[dict[str, Any]] = field(default_factory=list)

    def known_item(self, id: Id) -> Item | None:
        """Find an item; a text of digits may mean an integer."""
        if id not in self.items and isinstance(id, str) and id.lstrip("-").isdigit():
            id = int(id)
        return self.items.get(id)

    def known_user(self, id: Id) -> Id | None:
        if id not in self.users and isinstance(id, str) and id.lstrip("-").isdigit():
            id = int(id)
        return id if id in self.users else None

    def events_of(self, user: Id) -> list[dict[str, Any]]:
        return [event for event in self.feedback if str(event["user"]) == str(user)]

    def has(self, user: Id) -> list[Id]:
        """Return the items of a user: from training, and from positive feedback since."""
        known = self.known_user(user)
        old = [] if known is None else self.histories[known]
        liked = [e["item"] for e in self.events_of(user) if e["kind"] != "dislike"]
        return [*old, *(item for item in liked if item not in old)]

    def reasons(self, history: list[Id], item: Item, most: int) -> list[dict[str, Any]]:
        found = []
        for id in history:
            other = self.items[id]
            alike = _alike(other, item) / (2 + len(history))
            weights = alike * (0.3 + 0.5 * _share("w", id, item.id))
            parts = {"share": alike, "by_weights": weights, "by_vectors": alike - weights}
            found.append({"item": id, "name": other.name, **parts})
        return sorted(found, key=lambda one: -one["share"])[:most]

    def score(self, history: list[Id], item: Item) -> float:
        if not history:
            return float(item.people)
        return sum(_alike(self.items[id], item) for id in history) / (2 + len(history)) + 0.05


def _alike(a: Item, b: Item) -> float:
    dot = sum(x * y for x, y in zip(a.vector, b.vector, strict=True))
    return (
        max(0.0, dot) / math.sqrt(sum(x * x for x in a.vector) * sum(y * y for y in b.vector))
    ) ** 3


def world() -> World:
    made = World()
    ids: list[Id] = [*range(1, 61), "17", HOSTILE, GREAT, ".."]
    for number, id in enumerate(ids):
        categories = sorted({_CATEGORIES[int(_share("c", n, number) * 8)] for n in range(2)})
        vector = [float(name in categories) + 0.6 * _share(name, number) for name in _CATEGORIES]
        name: str | None = f"The {_FIRST[number % 8]} {_SECOND[number // 8]}"
        if not isinstance(id, int) or number % 11 == 10:
            name = None
        picture = _scene(number) if number % 3 and isinstance(id, int) else None
        people = 3 + round(900 * _share("people", number) ** 3)
        made.items[id] = Item(id, name, picture, categories, vector, people)
    for number, id in enumerate([*range(1, 41), "17", HOSTILE]):
        made.users[id] = _PEOPLE[number] if number < len(_PEOPLE) else None
        taste = _CATEGORIES[number % 8]
        order = sorted(
            ids, key=lambda i: _share("h", number, i) + (taste in made.items[i].categories)
        )
        made.histories[id] = order[: -6 - number % 9 : -1]
    return made
