"""The shapes of synthetic data sets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sdgar.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The shape of a synthetic data set, checked when it is made, so that drawing cannot fail."""

    users: int
    """The number of users; each of them occurs."""
    items: int
    """The number of items, all of which occur."""
    interactions: int
    """The number of distinct (user, item) pairs."""
    concentration: float
    """The share of the interactions on the ⌈5 %⌉ most popular items, as in the paper's Table 1."""
    min_per_user: int = 5
    """The fewest interactions that a user has."""
    activity: float = 1.2
    """The σ of the log-normal activity; 0 makes all users equally active."""
    head: float = 0.002
    """The Zipf–Mandelbrot shift h, a share of all items; a larger one flattens the bestsellers."""
    interests: float = 3.0
    """The interests of a user of mean activity; they grow with the square root of activity."""
    home: float = 0.03
    """Half of a user's interests lie within this share of the circle from home."""
    niche: float = 8.0
    """Half of a user's choices lie within this many items of an interest; more blurs taste."""
    breadth: float = 4.0
    """The number of items that compete at one place; a larger one blurs taste."""
    mainstream: float = 0.1
    """The share of a user's choices that follow popularity alone."""
    ids: Literal["integer", "text"] = "integer"
    """The kind of ids: 1, 2, … or ``user-0001``, ``item-0001``, …."""

    def __post_init__(self) -> None:
        """Raise if no such data set exists."""
        for name in ("users", "items", "interactions", "min_per_user"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise _bad(f"{name} must be a whole number of at least 1, got {value!r}.")
        most = self.users * self.items // 2
        if self.interactions > most:
            raise _bad(
                f"{self.interactions:,} interactions are more than half of all pairs of "
                f"{self.users:,} users and {self.items:,} items, which leaves nothing to "
                f"recommend. Ask for at most {most:,}, or for more users or items."
            )
        least = max(self.users * self.min_per_user, self.items)
        if self.interactions < least:
            raise _bad(
                f"{self.interactions:,} interactions are too few for {self.users:,} users with at "
                f"least {self.min_per_user:,} each and {self.items:,} items with at least one. Ask "
                f"for at least {least:,}, or lower min_per_user, users or items."
            )
        bounds = {
            "activity": (0.0, 4.0),
            "head": (0.0, 1.0),
            "interests": (1.0, 1000.0),
            "home": (0.0, 1.0),
            "niche": (0.0, float(self.items)),
            "breadth": (0.0, float(self.items)),
            "mainstream": (0.0, 1.0),
        }
        for name, (low, high) in bounds.items():
            value = getattr(self, name)
            if not low <= value <= high:
                raise _bad(f"{name} must lie from {low:g} to {high:g}, got {value!r}.")
        if self.ids not in ("integer", "text"):
            raise _bad(f"ids must be 'integer' or 'text', got {self.ids!r}.")
        self._check_concentration()

    @property
    def top(self) -> int:
        """top = ⌈I / 20⌉, the number of items that count as most popular."""
        return -(-self.items // 20)

    def _check_concentration(self) -> None:
        each, over = divmod(self.interactions, self.items)
        flat = self.top * each + min(self.top, over)
        steep = min(self.top * self.users, self.interactions - (self.items - self.top))
        low, high = flat / self.interactions, steep / self.interactions
        if not low <= self.concentration <= high:
            raise _bad(
                f"concentration {self.concentration!r} cannot be reached: the {self.top:,} most "
                f"popular of {self.items:,} items can hold from {low:.4f} to {high:.4f} of "
                f"{self.interactions:,} interactions. Choose a share in that range."
            )


PRESETS: dict[str, Shape] = {
    "demo": Shape(
        users=1_000,
        items=1_200,
        interactions=40_000,
        concentration=0.25,
        head=0.05,
        ids="text",
    ),
    "citeulike": Shape(
        users=7_947,
        items=25_975,
        interactions=134_860,
        concentration=0.3156,
        # The paper says 5, but its authors' own split has users with 3.
        min_per_user=3,
    ),
    "gowalla": Shape(
        users=29_858,
        items=40_988,
        interactions=1_027_464,
        concentration=0.2915,
        min_per_user=10,
    ),
    "movielens": Shape(users=60_655, items=8_939, interactions=2_105_971, concentration=0.6198),
    "amazon": Shape(users=130_380, items=128_939, interactions=2_415_650, concentration=0.3298),
    "echonest": Shape(users=217_966, items=60_654, interactions=4_422_471, concentration=0.4563),
}
"""A small data set to play with, and the shapes of the paper's Table 1."""


def _bad(message: str) -> UsageError:
    return UsageError(message, code="bad_shape")
