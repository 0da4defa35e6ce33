"""Epochs over users in blocks: one block of users at a time is in memory, beside all items.

    for each block, in the order of the epoch's shuffle:
        its users are taken, the positives of the block are visited, and its users are put back

A block has vectors of users, sums of squares and states of the generator of its own. Vectors and
biases of items and the items of the generator's states are shared by all blocks, and so is the
count of steps. Where the users of a block are put, in memory or in files, changes no byte.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Protocol, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sdgar.contracts import Covered, EpochStats, Health, NotCovered, System
from sdgar.data.interactions import Interactions
from sdgar.data.shards.blocks import Blocks
from sdgar.engines import host
from sdgar.engines.fused.cpu import FusedCpuEngine
from sdgar.engines.fused.cpu_records import items_of
from sdgar.maths.rng import Permutation, Stream, sort_keys
from sdgar.models.factors import Factors
from sdgar.samplers.alias import AliasTables
from sdgar.samplers.decomposable import Decomposable

ForUsers = Callable[..., System]
"""The function (system, data, seed=…) that gives a system for other users, where they start."""
Arrays = dict[str, NDArray[Any]]
"""Arrays by name, each with a row for every user of a block."""
_CPU = torch.device("cpu")


class Users(Protocol):
    """A place for what belongs to the users of blocks, between two visits."""

    def has(self, block: int, kind: str) -> bool:
        """Tell whether something was put for a block."""
        ...

    def take(self, block: int, kind: str) -> Arrays:
        """Return what was put for a block; nothing if nothing was."""
        ...

    def put(self, block: int, kind: str, arrays: Arrays) -> None:
        """Keep the ``vectors`` or the ``states`` of the users of a block."""
        ...

    def room(self, name: str, shape: tuple[int, ...]) -> NDArray[np.float32]:
        """Return room for numbers of all users."""
        ...

    def state(self) -> Tensor:
        """Return a tensor by which ``load_state`` goes back to what is kept now."""
        ...

    def load_state(self, state: Tensor) -> None:
        """Go back to what was kept when ``state`` returned this."""
        ...


class InMemory:
    """A place in memory for the users of all blocks, which no checkpoint can go back to."""

    def __init__(self) -> None:
        self._kept: dict[tuple[int, str], Arrays] = {}

    def has(self, block: int, kind: str) -> bool:
        """Tell whether something was put for a block."""
        return (block, kind) in self._kept

    def take(self, block: int, kind: str) -> Arrays:
        """Return what was put for a block; nothing if nothing was."""
        return self._kept.get((block, kind), {})

    def put(self, block: int, kind: str, arrays: Arrays) -> None:
        """Keep the ``vectors`` or the ``states`` of the users of a block."""
        self._kept[block, kind] = arrays

    def room(self, name: str, shape: tuple[int, ...]) -> NDArray[np.float32]:
        """Return room for numbers of all users."""
        return np.empty(shape, np.float32)

    def state(self) -> Tensor:
        """Return nothing, as users who are in memory are lost with it."""
        return torch.zeros(0)

    def load_state(self, state: Tensor) -> None:
        """Do nothing, as nothing was kept."""


class BlockEngine:
    """Run the epochs of a system over blocks of users, by the fused engine of the CPU."""

    name: ClassVar[str] = "fused-cpu"

    def __init__(
        self,
        system: System,
        first: Interactions,
        blocks: Blocks,
        *,
        seed: int,
        for_users: ForUsers,
        users: Users,
    ) -> None:
        """Lay out the items of ``system``, which is started on the rows ``first``."""
        host.require_covered(self.name, FusedCpuEngine.covers(system, _CPU))
        self._items = items_of(system.discriminator, system, system.visits_per_step)  # type: ignore[arg-type]
        self._like, self._first = system, cast("Interactions | None", first)
        self.blocks, self._seed = blocks, seed
        """The rows, which may be exchanged for others of the same users between two epochs."""
        self._for_users, self._users = for_users, users
        self._steps_done = 0
        self._drawn: Any = None
        """The tables of items that are drawn from, as the kernels have them; None if they have
        changed."""
        self._epoch = self._refit_epoch = 0
        """The epoch that runs, and the last one in which states follow the scores."""

    @classmethod
    def covers(cls, system: System, device: torch.device) -> Covered | NotCovered:
        """Say whether the engine of a block covers the system."""
        return FusedCpuEngine.covers(system, device)

    @classmethod
    def deterministic(cls, device: torch.device) -> bool:
        """Say yes, as the engine of a block does."""
        return FusedCpuEngine.deterministic(device)

    @property
    def system(self) -> System:
        """The system, whose model has the users of all blocks."""
        return replace(self._like, recommends=self)

    def run_epoch(self, epoch: int) -> EpochStats:
        """Make one pass over the positives of all blocks, in a fresh order."""
        start, found = time.perf_counter(), []
        self._epoch = epoch
        self._forget_first()
        for block in self._order(epoch):
            engine = self._engine(block)
            if self._refit_epoch == epoch and not self._learns_positives(epoch):
                self._follow(engine, epoch, items_too=False)
            engine.steps_done = self._steps_done
            found.append(engine.run_epoch(epoch))
            self._steps_done, self._drawn = engine.steps_done, engine.items_drawn()
            self._put(block, engine)
            del engine  # before the next one is made
        return _together(found, start)

    def refit(self, epoch: int) -> Health:
        """Let the items of the generator follow the scores, with the users of one block.

        Before the first epoch, these are the users that the system was started with. The states of
        the others follow when it is their turn.
        """
        self._refit_epoch, self._drawn = epoch, None
        if self._first is not None:
            engine = FusedCpuEngine(
                self._like, self._first, seed=self._seed, device=_CPU, items=self._items
            )
        else:
            engine = self._engine(self._order(epoch)[-1])
        return self._follow(engine, epoch, items_too=True)

    def learned(self) -> Factors:
        """Return the vectors of all users, in the order of a load in memory, and of items."""
        room: NDArray[np.float32] | None = None
        for block in range(len(self.blocks)):
            model = self.learned_of(block)
            if room is None:
                shape = int(self.blocks.start_B1[-1]), model.user_UD.shape[1]
                room = self._users.room("user_UD", shape)
            room[self.blocks.rank_U(block)] = model.user_UD.numpy()
        assert room is not None
        return replace(model, user_UD=torch.from_numpy(room))

    def learned_of(self, block: int) -> Factors:
        """Return the vectors of the users of one block, and of items."""
        if vectors := self._users.take(block, "vectors"):
            return self._scores_of(vectors).factors()  # type: ignore[no-any-return]
        seed = self._seed_of(block)
        return self._for_users(self._like, self.blocks[block], seed=seed).discriminator.factors()

    def state(self) -> dict[str, Tensor]:
        """Return what belongs to items; users are where they were put."""
        tables = {name: torch.from_numpy(array) for name, array in self._items.arrays().items()}
        optimizer = {"steps": torch.tensor(self._steps_done), **tables}
        optimizer["users"] = self._users.state()
        y = {} if self._generator is None else {"y_mass_KI": self._generator.item_of.mass_RN}
        return host.StateParts({}, optimizer, y).flat()

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Restore what ``state`` returned."""
        parts = host.StateParts.of(state)
        self._steps_done, self._drawn = int(parts.optimizer["steps"]), None
        self._users.load_state(parts.optimizer["users"])
        for name, table in self._items.arrays().items():
            table[...] = parts.optimizer[name].numpy()
        self._unpack()
        if self._generator is not None:
            self._generator.share_items(AliasTables.restored(parts.sampler["y_mass_KI"]))

    @property
    def _generator(self) -> Decomposable | None:
        """The generator with the items that all blocks share, if there is one."""
        sampler = self._like.sampler
        return sampler if isinstance(sampler, Decomposable) else None

    def _forget_first(self) -> None:
        """Let go of the users that the system was started with; they come again in their block."""
        self._first, like = None, self._like
        none_UD = torch.empty(0, like.discriminator.item_ID.shape[1])  # type: ignore[attr-defined]
        sampler = like.sampler
        if isinstance(sampler, Decomposable):
            none_UK = torch.empty(0, sampler.state_of.n, dtype=torch.int64)
            sampler = sampler.for_users(AliasTables(none_UK))
        discriminator = like.discriminator.for_users(none_UD)  # type: ignore[attr-defined]
        self._like = replace(like, discriminator=discriminator, sampler=sampler)

    def _order(self, epoch: int) -> list[int]:
        n = len(self.blocks)
        order = Permutation.of(n, seed=self._seed, stream=Stream.BLOCKS, epoch=epoch)
        return [int(block) for block in order(np.arange(n))]

    def _seed_of(self, block: int) -> int:
        """Return the seed of the draws of a block."""
        return int(sort_keys(self._seed, Stream.BLOCKS, 0, np.array([block]))[0])

    def _learns_positives(self, epoch: int) -> bool:
        """Tell whether the generator learns positives in this epoch, and not yet the scores."""
        update = None if self._generator is None else self._generator.update
        return epoch == 1 and getattr(update, "positives", None) is not None

    def _engine(self, block: int) -> FusedCpuEngine:
        """Make the engine of a block, with its users as they were put."""
        vectors = self._users.take(block, "vectors")
        data, seed = self.blocks[block], self._seed_of(block)
        if vectors:
            system = self._system_of(block, vectors)
        else:
            system = self._for_users(self._like, data, seed=seed)
        engine = FusedCpuEngine(system, data, seed=seed, device=_CPU, items=self._items)
        for name, table in vectors.items():
            engine.users()[name][...] = table
        if self._drawn is not None:
            engine.draw_items(self._drawn)
        return engine

    def _system_of(self, block: int, vectors: Arrays) -> System:
        """Return the system with the users of a block, as they were put."""
        sampler = self._like.sampler
        if self._generator is not None:
            bins_UK = torch.from_numpy(self._users.take(block, "states")["bins_UK"])
            sampler = self._generator.for_users(AliasTables(bins_UK))
        return replace(self._like, discriminator=self._scores_of(vectors), sampler=sampler)

    def _scores_of(self, vectors: Arrays) -> Any:
        user_UD = torch.from_numpy(vectors["user_UCD"][:, 0])
        return self._like.discriminator.for_users(user_UD)  # type: ignore[attr-defined]

    def _put(self, block: int, engine: FusedCpuEngine) -> None:
        """Put the users of a block back; states only if they have changed."""
        self._users.put(block, "vectors", dict(engine.users()))
        sampler = engine.system.sampler
        changed = self._refit_epoch == self._epoch or not self._users.has(block, "states")
        if isinstance(sampler, Decomposable) and changed:
            self._users.put(block, "states", {"bins_UK": sampler.state_of.bin_RN.numpy()})

    def _follow(self, engine: FusedCpuEngine, epoch: int, *, items_too: bool) -> Health:
        """Let a block's generator follow the scores; its items then become those of all blocks."""
        sampler = engine.system.sampler
        if not isinstance(sampler, Decomposable):
            return engine.refit(epoch)
        sampler.items_follow = items_too
        health = engine.refit(epoch)
        if items_too and self._generator is not None:
            self._generator.share_items(sampler.item_of)
        elif self._drawn is not None:
            engine.draw_items(self._drawn)
        return health

    def _unpack(self) -> None:
        """Bring the items back to the model."""
        model = self._like.discriminator
        with torch.no_grad():
            model.item_ID.copy_(torch.from_numpy(self._items.item_ICD[:, 0]))  # type: ignore[attr-defined]
            if model.bias_I is not None:  # type: ignore[attr-defined]
                model.bias_I.copy_(torch.from_numpy(self._items.arrays()["bias_IC"][:, 0]))  # type: ignore[attr-defined]


def _together(found: Sequence[EpochStats], start: float) -> EpochStats:
    """Return the means over the positives of all blocks, of an epoch that began at ``start``."""
    n_rows = sum(stats.positives for stats in found)
    loss = sum(stats.loss * stats.positives for stats in found) / n_rows
    weighed = [s.effective * s.positives for s in found if s.effective is not None]
    return EpochStats(
        loss,
        n_rows,
        time.perf_counter() - start,
        sum(stats.unanswered for stats in found),
        sum(weighed) / n_rows if weighed else None,
    )
