"""Variants for A/B tests: every user belongs to one of several models, today and tomorrow."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from sdgar.errors import UsageError
from sdgar.serve.snapshot import Snapshot

MAIN = "main"
"""The name of the first variant."""


@dataclass(frozen=True)
class Variant:
    """A model that answers a share of all users."""

    name: str
    """The name in the log of impressions."""
    snapshot: Snapshot
    """The model of the variant."""
    share: float = 1.0
    """The share of users, from 0 to 1."""


class Variants:
    """All variants at one moment; a swap makes new ones.

    The position of a user is a number from 0 to 1, computed from the user's id alone, so that it
    is the same on every server and after every swap.
    """

    def __init__(self, variants: Mapping[str, Variant]) -> None:
        self.by_name = dict(variants)
        self._only = next(iter(self.by_name.values())) if len(self.by_name) == 1 else None

    def of(self, user: str, name: str | None = None) -> Variant:
        """Return the variant of a user, or the variant with this name."""
        if name is not None:
            if name not in self.by_name:
                raise UsageError(
                    f"there is no variant {name!r:.80}; there are {', '.join(self.by_name)}.",
                    code="unknown_variant",
                )
            return self.by_name[name]
        if self._only is not None:
            return self._only
        at, end = position_of(user), 0.0
        for variant in self.by_name.values():
            end += variant.share
            if at < end:
                return variant
        return variant

    @property
    def first(self) -> Variant:
        """The first variant, which answers requests that concern no user."""
        return next(iter(self.by_name.values()))


def position_of(user: str) -> float:
    """Return the position of a user between 0 and 1."""
    digest = hashlib.sha256(f"sdgar variant {user}".encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64
