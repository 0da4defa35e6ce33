"""Models side by side: every user belongs to one of them, today and tomorrow."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from sdgar.errors import UsageError
from sdgar.serve.snapshot import Snapshot

MAIN = "main"
"""The name of the only variant, where there is one."""


@dataclass(frozen=True)
class Variant:
    """A model that answers a share of all users."""

    name: str
    """The name, by which the log of impressions knows it."""
    snapshot: Snapshot
    """The model that answers."""
    share: float = 1.0
    """The share of users, from 0 to 1."""


class Variants:
    """The models that answer, which never change: a swap makes new ones.

    A user's place is a number from 0 to 1, made of the user's id and of nothing else, so that it is
    the same on every server and after every swap.
    """

    def __init__(self, variants: Mapping[str, Variant]) -> None:
        self.by_name = dict(variants)
        self._only = next(iter(self.by_name.values())) if len(self.by_name) == 1 else None

    def of(self, user: str, wanted: str | None = None) -> Variant:
        """Return the variant that a user belongs to, or the one that is wanted."""
        if wanted is not None:
            if wanted not in self.by_name:
                raise UsageError(
                    f"there is no variant {wanted!r:.80}; there are {', '.join(self.by_name)}.",
                    code="unknown_variant",
                )
            return self.by_name[wanted]
        if self._only is not None:
            return self._only
        at, upto = place_of(user), 0.0
        for variant in self.by_name.values():
            upto += variant.share
            if at < upto:
                return variant
        return variant

    @property
    def first(self) -> Variant:
        """Return the variant that is named first, which answers what concerns no user."""
        return next(iter(self.by_name.values()))


def place_of(user: str) -> float:
    """Return the place of a user between 0 and 1."""
    digest = hashlib.sha256(f"sdgar variant {user}".encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64
