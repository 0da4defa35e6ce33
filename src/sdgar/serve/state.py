"""What all routes of one application share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from fastapi import Depends, Request

from sdgar.serve.access import Access
from sdgar.serve.limits import Limits
from sdgar.serve.measured import Measured
from sdgar.serve.polling import Chores
from sdgar.serve.service import Service
from sdgar.serve.snapshot import Snapshot

if TYPE_CHECKING:
    from sdgar.serve.store import Database


@dataclass
class State:
    """The parts of a running server."""

    service: Service
    """The part that answers questions."""
    access: Access
    """The part that decides who may ask."""
    measured: Measured
    """The part that counts requests."""
    limits: Limits
    """The bounds of requests."""
    reload: Callable[[str, str | None], Snapshot]
    """The function that changes to another model of a variant: by name, or the newest."""
    database: Database | None = None
    """The store of events, items, users and keys; None if there is none."""
    chores: Chores | None = None
    """What is done beside answering."""
    draining: bool = False
    """Whether the server is about to end, and takes no new work that can go elsewhere."""
    running: list[int] = field(default_factory=lambda: [0])
    """How many requests are being answered."""


def state_of(request: Request) -> State:
    """Return the parts of the server that a request came to."""
    return cast("State", request.app.state.parts)


def needs(role: str) -> object:
    """Return what lets in only requests whose key has a role."""

    async def check(request: Request) -> None:
        state_of(request).access.allow(request.scope, role)

    check.__name__ = f"needs_{role}"
    return Depends(check)
