"""Synthetic names, categories and pictures for the items of a demo.

They depend on the model and the ids alone. Items with similar vectors share a category. A picture
is an SVG of a few shapes in the colour of its category.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from sdgar.recommend.recommender import Recommender
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
    names: Counter[str] = Counter()
    made = []
    for item, group in zip(model.items.values.tolist(), _groups(model).tolist(), strict=True):
        digest = hashlib.sha256(f"sdgar demo {item}".encode()).digest()
        name = f"{_FIRST[digest[0] % len(_FIRST)]} {_SECOND[digest[1] % len(_SECOND)]}"
        names[name] += 1
        made.append(
            Entry(
                id=str(item),
                name=name if names[name] == 1 else f"{name} {names[name]}",
                picture=picture(digest, _HUES[group]),
                categories=(CATEGORIES[group],),
                features={"year": float(1980 + digest[2] % 45)},
            )
        )
    return made


def _groups(model: Recommender) -> NDArray[np.int64]:
    """Return the group of each item: the signs of its vector along the three widest directions."""
    vectors = model.model.item_vectors()
    if vectors is None:
        return np.arange(len(model.items)) % len(CATEGORIES)
    item_ID = vectors.astype(np.float64) - vectors.mean(axis=0)
    _, directions_DD = np.linalg.eigh(item_ID.T @ item_ID)
    signs_I3 = item_ID @ directions_DD[:, -3:] > 0
    group_I: NDArray[np.int64] = signs_I3 @ np.array([1, 2, 4])[-signs_I3.shape[1] :]
    return group_I


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
