"""Synthetic names, categories and pictures for the items of a demo.

They depend on the model and the ids alone. Items with similar vectors share a category. A picture
is an SVG of a few shapes in the colour of its category.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from sdgar.recommend.recommender import Recommender

if TYPE_CHECKING:
    from sdgar.serve.store import Database, Entry

CATEGORIES = (
    "adventure", "comedy", "crime", "documentary", "drama", "fantasy", "mystery", "romance",
)  # fmt: skip
_HUES = (28, 48, 222, 186, 340, 280, 250, 4)
_FIRST = (
    "Amber", "Broken", "Crimson", "Distant", "Early", "Fading", "Golden", "Hidden", "Idle",
    "Jagged", "Kind", "Last", "Midnight", "Northern", "Open", "Paper", "Quiet", "Restless",
    "Silent", "Tender", "Unwritten", "Velvet", "Winter", "Young",
)  # fmt: skip
_SECOND = (
    "Anchor", "Bridge", "Compass", "Door", "Echo", "Ferry", "Garden", "Harbour", "Island",
    "Journey", "Kingdom", "Lantern", "Mirror", "Notebook", "Orchard", "Piano", "Quarry", "River",
    "Station", "Tower", "Umbrella", "Village", "Window", "Yard",
)  # fmt: skip
_SHAPES = (
    '<circle cx="{x}" cy="{y}" r="{r}"/>',
    '<rect x="{x}" y="{y}" width="{r}" height="{r}" transform="rotate({t} {x} {y})"/>',
    '<path d="M{x} {y}l{r} {r}h-{r}z"/>',
    '<path d="M0 {y}q40 -{r} 60 0t60 0v80h-120z"/>',
)


def fill(database: Database, model: Recommender) -> int:
    """Store an entry for every item of a model; return the number of entries."""
    return database.put_all("item", entries(model))


def entries(model: Recommender) -> list[Entry]:
    """Return a synthetic entry for every item."""
    from sdgar.serve.store import Entry

    group_I = _groups(model)
    made: list[Entry] = []
    names: dict[str, int] = {}
    for item, group in zip(model.items.values.tolist(), group_I.tolist(), strict=True):
        digest = hashlib.sha256(f"sdgar demo {item}".encode()).digest()
        name = f"{_FIRST[digest[0] % len(_FIRST)]} {_SECOND[digest[1] % len(_SECOND)]}"
        names[name] = names.get(name, 0) + 1
        if names[name] > 1:
            name = f"{name} {names[name]}"
        made.append(
            Entry(
                id=str(item),
                name=name,
                picture=picture(digest, _HUES[group]),
                categories=(CATEGORIES[group],),
                features={"year": float(1980 + digest[2] % 45)},
            )
        )
    return made


def _groups(model: Recommender) -> NDArray[np.int64]:
    """Return the group of each item, by deterministic k-means on the directions of vectors."""
    vectors = model.model.item_vectors()
    n_items = len(model.items)
    if vectors is None:
        return np.arange(n_items) % len(CATEGORIES)
    item_ID = vectors.astype(np.float64)
    item_ID = item_ID - item_ID.mean(axis=0)
    item_ID /= np.linalg.norm(item_ID, axis=1, keepdims=True) + 1e-12
    middle_GD = item_ID[_far_apart(item_ID, len(CATEGORIES))]
    for _ in range(10):
        group_I = (item_ID @ middle_GD.T).argmax(axis=1)
        sums_GD = np.zeros_like(middle_GD)
        np.add.at(sums_GD, group_I, item_ID)
        middle_GD = sums_GD / (np.linalg.norm(sums_GD, axis=1, keepdims=True) + 1e-12)
    found_I: NDArray[np.int64] = (item_ID @ middle_GD.T).argmax(axis=1)
    return found_I


def _far_apart(item_ID: NDArray[np.float64], n: int) -> list[int]:
    """Return n items, each the least similar to the items before it."""
    chosen = [0]
    like_I = item_ID @ item_ID[0]
    while len(chosen) < n:
        chosen.append(int(like_I.argmin()))
        like_I = np.maximum(like_I, item_ID @ item_ID[chosen[-1]])
    return chosen


def picture(digest: bytes, hue: int) -> str:
    """Return a poster of a few shapes, as a data URL of an SVG picture."""
    shade = 30 + digest[3] % 14
    shapes = "".join(
        f'<g fill="hsl({(hue + digest[4 + n] % 50) % 360} 60% {shade + 14 * n + 14}%)">'
        + _SHAPES[digest[8 + n] % len(_SHAPES)].format(
            x=10 + digest[12 + n] % 80,
            y=20 + digest[16 + n] % 80,
            r=20 + digest[20 + n] % 40,
            t=digest[24 + n] % 90,
        )
        + "</g>"
        for n in range(3)
    )
    svg = (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 120 120">'
        f'<rect width="120" height="120" fill="hsl({hue} 45% {shade}%)"/>{shapes}</svg>'
    )
    return "data:image/svg+xml," + quote(svg, safe=" =:/'()")
