"""How much memory of a GPU training on shards takes, by the sizes of what it holds there.

Some tables stay there (vectors, their moments, states and alias tables); others are there while a
part of the work is done: the start of vectors by least squares, steps of EM, the building of alias
tables, and one chunk of draws. These do not coincide, so the largest of them counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from sdgar.errors import ResourceError
from sdgar.machine.memory import free_bytes
from sdgar.scale.sharded import START_ROWS
from sdgar.scale.shards.blocks import Blocks
from sdgar.scale.slots import SLOTS

if TYPE_CHECKING:
    from typing import Self

    from sdgar.scale.shards import Shards

_DOTS, _SCORES, _TABLES, _DRAWN = 1 << 20, 1 << 21, 1 << 24, 1 << 25
"""The numbers that are computed at once: inner products, scores, entries of alias tables, draws."""


@dataclass(frozen=True, slots=True)
class GpuNeeds:
    """The bytes of a GPU that training on shards takes."""

    items: int
    """The bytes for all items."""
    block: int
    """The bytes for the users and rows of the blocks that are there at once."""
    work: int
    """The bytes for what is computed at a time, whatever the size of the data."""

    @property
    def total(self) -> int:
        """The bytes in all."""
        return self.items + self.block + self.work

    @classmethod
    def of(
        cls,
        shards: Shards,
        together: int,
        *,
        dim: int,
        states: int,
        moments: int,
        entries: int,
        on_gpu: bool = False,
    ) -> Self:
        """Count the bytes for vectors of ``dim`` numbers, each with ``moments`` bytes of moments.

        A step has so many ``entries``: contexts, positives and negatives. The start on the first
        shards has to fit too. Users of all blocks may wait ``on_gpu``.
        """
        users, rows = Blocks(shards, together).most()
        start = min(max(rows, START_ROWS), len(shards))
        started = max(users, -(-shards.n_users * start // len(shards)))
        tables = 8 * dim + 12 * states + moments + 40
        meanwhile = max(28 * dim, 36 * states)
        slot = 4 * dim + 8 * states + moments + 8
        weights = 4 if shards.has_weights else 0
        return cls(
            items=shards.n_items * (tables + meanwhile),
            block=users * (tables + SLOTS * slot)
            + (shards.n_users * slot if on_gpu else 0)
            + started * meanwhile
            + rows * (SLOTS * (4 + weights) + 12)
            + 56 * start,
            work=12 * dim * _SCORES
            + 12 * states * _DOTS
            + 96 * _TABLES
            + 16 * _DRAWN
            + (8 * dim + 16) * entries,
        )

    def require_within(self, limit: int | None, together: int, device: torch.device) -> None:
        """Raise if the bytes are more than the limit, or without one than are free."""
        most = free_bytes(device) if limit is None else limit
        if self.total <= most:
            return
        left = most - self.items - self.work
        fewer = together * max(0, left) // max(1, self.block)
        cure = (
            f"Put fewer shards together, such as --together {fewer}"
            if 0 < fewer < together
            else "Use a smaller dim or states, leave rare items out, or train with --device cpu"
        )
        allowed = "are free" if limit is None else "are allowed by --gpu-memory"
        raise ResourceError(
            f"training on these shards needs {gib(self.total)} of the GPU: {self.sentence()}; "
            f"{gib(most)} {allowed}. {cure}.",
            code="out_of_memory",
        )

    def sentence(self) -> str:
        """Say what the bytes are for."""
        return (
            f"{gib(self.items)} for items, {gib(self.block)} for the users of blocks and "
            f"{gib(self.work)} for what is computed at a time"
        )


def gib(size: int) -> str:
    """Write bytes in GiB."""
    return f"{size / 2**30:.2f} GiB"
