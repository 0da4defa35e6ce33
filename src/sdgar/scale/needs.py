"""Whether training on shards fits: bytes of RAM and of GPU memory, counted before it starts.

On a GPU some tables stay (vectors, their moments, states and alias tables). Others are there while
a part of the work is done: the start of vectors by least squares, steps of EM, the building of
alias tables, and one chunk of draws. These do not coincide, so the largest of them counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import torch

from sdgar.arguments import at_least
from sdgar.data.interactions import Interactions
from sdgar.engines.choose import choose_device
from sdgar.errors import ResourceError
from sdgar.machine.memory import free_bytes
from sdgar.scale.conveyor import SLOTS
from sdgar.scale.shards import Shards
from sdgar.scale.shards.views import ShardBlocks
from sdgar.systems.recipe import recipe_of

if TYPE_CHECKING:
    from sdgar.systems.learner import Learner

_CPU = torch.device("cpu")
START_ROWS = 4_000_000
"""The most rows that the vectors and the generator are started on; of more, the first shards."""
_ROW_BYTES = 44
"""The bytes of a row of a block: its item, its user, a filter of known pairs, its place."""
_TABLE_BYTES, _COPY_BYTES = 12, 20
"""The bytes of a state of a user or an item: a bin of a table and a probability; and a copy of both
with what they are made from, while tables are changed."""
_OPTIMIZER_BYTES = 64
_DOTS, _SCORES, _TABLES, _DRAWN = 1 << 20, 1 << 21, 1 << 24, 1 << 25
"""The numbers that are computed at once: inner products, scores, entries of alias tables, draws."""


@dataclass(frozen=True, slots=True)
class Needs:
    """The bytes that training on shards takes of RAM (without libraries) or of a GPU."""

    items: int
    """The bytes for all items."""
    block: int
    """The bytes for the users and rows of the blocks that are there at once, or of the first rows
    that training starts on."""
    work: int = 0
    """The bytes for intermediate results, which do not depend on the size of the data."""
    on_gpu: bool = True
    """Whether these are bytes of a GPU."""

    @property
    def total(self) -> int:
        """The bytes in all."""
        return self.items + self.block + self.work

    def require_within(self, limit: int | None, together: int, device: torch.device = _CPU) -> None:
        """Raise if the bytes are more than the limit, or without one than are free."""
        most = free_bytes(device) if limit is None else limit
        if self.total <= most:
            return
        left = most - self.items - self.work
        fewer = max(1, together * left // max(1, self.block))
        cure = "or train with --device cpu" if self.on_gpu else "or allow more RAM"
        cure = (
            f"Put fewer shards together, such as --together {fewer}."
            if left > 0 and fewer < together
            else f"Use a smaller dim or states, leave rare items out, {cure}."
        )
        option = "--gpu-memory" if self.on_gpu else "--ram"
        allowed = "are free" if limit is None else f"are allowed by {option}"
        raise ResourceError(
            f"training on these shards needs {gib(self.total)} of "
            f"{'the GPU' if self.on_gpu else 'RAM'}: {self.sentence()}; {gib(most)} {allowed}. "
            f"{cure}",
            code="out_of_memory",
        )

    def sentence(self) -> str:
        """Return what the bytes are for, as a sentence."""
        work = f" and {gib(self.work)} for intermediate results" if self.work else ""
        both = "," if work else " and"
        return f"{gib(self.items)} for items{both} {gib(self.block)} for the users of blocks{work}"


def gib(size: int) -> str:
    """Write bytes in GiB."""
    return f"{size / 2**30:.2f} GiB"


def ram_needs(estimator: Learner, shards: Shards, together: int) -> Needs:
    """Count the bytes of RAM that training a system on so many shards at a time takes.

    Vectors are held twice, for the kernels and for the model. There are copies of the tables of
    items or of users while they are changed, never of both. With a GPU one more block waits in RAM.
    """
    settled = recipe_of(estimator).settled(cast("Interactions", shards))
    dim, states = at_least("dim", settled.settings["dim"], 1), settled.n_states
    users, rows = ShardBlocks(shards, together).most()
    start = min(shards.n_rows, max(START_ROWS, -(-shards.n_rows // shards.n_shards)))
    users = max(users, -(-shards.n_users * start // max(1, shards.n_rows)))
    each = 8 * dim + _TABLE_BYTES * states + _OPTIMIZER_BYTES
    copies = max(0, users - shards.n_items) * _COPY_BYTES * states
    waiting = 4 * dim if choose_device(estimator.device).type == "cuda" else 0
    return Needs(
        items=shards.n_items * (each + _COPY_BYTES * states),
        block=users * (each + waiting) + copies + _ROW_BYTES * max(rows, start),
        on_gpu=False,
    )


def gpu_needs(estimator: Learner, shards: Shards, together: int, *, on_gpu: bool = False) -> Needs:
    """Count the bytes of a GPU that training a system on so many shards at a time takes.

    Users who are not trained may wait ``on_gpu`` too. The start on the first shards has to fit.
    """
    settled = recipe_of(estimator).settled(cast("Interactions", shards))
    own, states = settled.settings, settled.n_states
    dim, negatives = at_least("dim", own["dim"], 1), at_least("n_negatives", own["n_negatives"], 1)
    name = "sampler__positives_per_visit"
    shared = at_least(name, own[name], 1)
    visits = max(1, at_least("batch_size", own["batch_size"], 1) // shared)
    entries = visits * (1 + shared + negatives)  # contexts, positives and negatives of a step
    moments = {"adagrad": 4, "lazy-adam": 8 * dim}.get(settled.optimizer[0], 0)
    users, rows = ShardBlocks(shards, together).most()
    start = min(max(rows, START_ROWS), len(shards))
    started = max(users, -(-shards.n_users * start // len(shards)))
    tables = 8 * dim + 12 * states + moments + 40
    meanwhile = max(28 * dim, 36 * states)
    slot = 4 * dim + 8 * states + moments + 8
    weights = 4 if shards.has_weights else 0
    return Needs(
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
