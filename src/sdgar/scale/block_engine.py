"""Epochs over users in blocks: one block of users at a time is in RAM, and all items.

    for each block, in the order of the epoch's shuffle:
        its users are read, the positives of the block are visited, and its users are stored

Each block has separate vectors of users, sums of squares and states of the generator. Vectors and
biases of items, the items of the generator's states and the count of steps are shared by all
blocks. Whether users are stored in RAM or in files, the result is bit-identical.

Several workers may run the epochs together. Each has the users of some shards, and workers of
one machine share the items. The first one sends the others the name of each method that it runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sdgar.contracts import Health, System
from sdgar.data.interactions import Interactions
from sdgar.engines import host
from sdgar.engines.fused.cpu import FusedCpuEngine
from sdgar.engines.fused.cpu_records import items_of
from sdgar.engines.protocol import Coverage, Engine, EpochStats
from sdgar.maths.rng import Permutation, Stream, sort_keys
from sdgar.models.factor_tensors import FactorTensors
from sdgar.samplers.alias import AliasTables
from sdgar.samplers.decomposable import Decomposable
from sdgar.scale.block_system import generator_of, with_new_users, with_users, without_users
from sdgar.scale.shared_engine import GENERATOR_TABLES, SharedCpuEngine, SharedItems
from sdgar.scale.users import Arrays, UserStore
from sdgar.scale.workers import ALONE, Workers

if TYPE_CHECKING:
    from sdgar.scale.shards.views import ShardBlocks

_CPU = torch.device("cpu")


class BlockEngine:
    """Run the epochs of a system over blocks of users, each by the fused engine of the CPU."""

    name: ClassVar[str] = "fused-cpu-blocks"
    block_engine_class: ClassVar[type[Engine]] = FusedCpuEngine
    """The engine that trains one block."""

    def __init__(
        self,
        system: System,
        blocks: ShardBlocks,
        *,
        first: Interactions,
        users: UserStore,
        seed: int,
        device: torch.device,
        workers: Workers = ALONE,
    ) -> None:
        """Lay out the items of a system that was started on the ``first`` rows of all blocks.

        Users wait in ``users`` between two visits.
        """
        host.require_covered(self.name, self.covers(system, device))
        self._template, self._first = system, cast("Interactions | None", first)
        self.blocks, self._seed, self._device = blocks, seed, device
        """The rows of all blocks."""
        self._users, self._workers = users, workers
        self._steps_done = 0
        self._drawn: Any = None
        """The tables of items that are drawn from, as the kernels have them; None if they have
        changed."""
        self._shared: SharedItems | None = None
        """The items that the workers of a machine share, if there are several workers."""
        self._epoch = self._refit_epoch = 0
        """The epoch that runs, and the last one in which states follow the scores."""
        self.compute_seconds = 0.0
        """Seconds that the last epoch spent on computing, without waiting for copies."""
        self._lay_out(system)

    def _lay_out(self, system: System) -> None:
        items = items_of(system.discriminator, system)  # type: ignore[arg-type]
        if self._workers.count > 1:
            self._shared = SharedItems(system, items, self._workers)
        self._items = items if self._shared is None else self._shared.items

    @classmethod
    def covers(cls, system: System, device: torch.device) -> Coverage:
        """Return whether the engine of a block covers the system, and why."""
        return cls.block_engine_class.covers(system, device)

    @classmethod
    def deterministic(cls, device: torch.device) -> bool:
        """Return whether the engine of a block is deterministic."""
        return cls.block_engine_class.deterministic(device)

    @property
    def system(self) -> System:
        """The system, whose model has the users of all blocks."""
        return replace(self._template, recommends=self)

    def run_epoch(self, epoch: int) -> EpochStats:
        """Make one pass over the positives of all blocks, in a fresh order."""
        self._workers.send(do="run_epoch", epoch=epoch)
        start, found = time.perf_counter(), []
        self._epoch = epoch
        self._forget_first()
        follows = self._refit_epoch == epoch and not self._learns_positives(epoch)
        with self._working(), closing(self._engines(epoch, all_users=follows)) as engines:
            for block, engine in engines:
                if follows:
                    self._follow(engine, epoch, items_too=False)
                engine.steps_done = self._steps_done
                found.append(engine.run_epoch(epoch))
                self._steps_done = engine.steps_done
                self._store(block, engine)
                del engine  # before the next one is made
            self._workers.meet()  # all users are stored
        self.compute_seconds = sum(stats.seconds for stats in found)
        return host.over_blocks(found, start)

    def _engines(self, epoch: int, *, all_users: bool) -> Generator[tuple[int, Any]]:
        """Yield the blocks in the order of the epoch, each with its engine."""
        for block in self._order(epoch):
            yield block, self._engine(block, all_users=all_users)

    def _working(self) -> AbstractContextManager[None]:
        return nullcontext() if self._shared is None else self._shared.working()

    def refit(self, epoch: int) -> Health:
        """Update the items of the generator to the scores, with the users of one block.

        Before the first epoch, these are the users that the system was started with. The states of
        the others follow when it is their turn.
        """
        self._workers.send(do="refit", epoch=epoch)
        self._refit_epoch, self._drawn = epoch, None
        health = self._items_follow(epoch)
        if self._shared is not None and self._generator is not None:
            self._shared.spread(self._generator, *GENERATOR_TABLES)
        return health

    def _items_follow(self, epoch: int) -> Health:
        if self._first is None:
            with self._working():
                engine = self._engine(self._order(epoch)[-1], all_users=True)
                return self._follow(engine, epoch, items_too=True)
        if not self._workers.leads:  # which alone has the users that the system was started with
            return Health()
        engine = self._engine_of(self._template, self._first, self._seed)
        return self._follow(engine, epoch, items_too=True)

    def follow(self, do: str, **order: Any) -> None:
        """Do what the first worker does, which has sent the order."""
        steps: dict[str, Callable[..., Any]] = {
            "run_epoch": self.run_epoch, "refit": self.refit, "state": self.state,
            "restore": self._restore,
        }  # fmt: skip
        steps[do](**order)

    def continue_with(self, blocks: ShardBlocks) -> None:
        """Replace the rows by others of the same users, between two epochs."""
        self._workers.send(do="continue")
        self.blocks = blocks

    def learned(self) -> FactorTensors:
        """Return the vectors of all users, in the order of a load in RAM, and of items."""
        user_UD: NDArray[np.float32] | None = None
        for block in range(len(self.blocks)):
            model = self.factors_of_block(block)
            if user_UD is None:
                shape = int(self.blocks.start_B1[-1]), model.user_UD.shape[1]
                user_UD = self._users.allocate("user_UD", shape)
            user_UD[self.blocks.rank_U(block)] = model.user_UD.numpy()
        assert user_UD is not None
        return replace(model, user_UD=torch.from_numpy(user_UD))

    def factors_of_block(self, block: int) -> FactorTensors:
        """Return the vectors of the users of one block, and of items."""
        vectors = self._stored(block, "vectors", all_users=True)
        return self._system_of(block, vectors, None, all_users=True).discriminator.factors()

    def state(self) -> dict[str, Tensor]:
        """Return what belongs to items, in the first worker; users are where they were stored."""
        self._workers.send(do="state")
        users = self._users.state()
        self._workers.meet()  # all users are on disk
        if not self._workers.leads:
            return {}
        generator = self._generator
        sampler = {} if generator is None else {"y_mass_KI": generator.item_of.mass_RN}
        optimizer = {"steps": torch.tensor(self._steps_done), "users": users}
        return host.StateParts({}, optimizer | self._item_tables(), sampler).flat()

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Restore what ``state`` returned, which the first worker alone has."""
        parts = host.StateParts.of(state)
        steps, users = int(parts.optimizer["steps"]), parts.optimizer["users"].tolist()
        self._workers.send(do="restore", steps=steps, users=users)
        self._restore(steps, users, parts)

    def _restore(
        self, steps: int, users: list[list[int]], parts: host.StateParts | None = None
    ) -> None:
        """Return to a count of steps and to stored users; the first worker has the items too."""
        self._steps_done, self._drawn = steps, None
        if steps:
            self._forget_first()
        self._users.load_state(torch.tensor(users))
        if parts is not None:
            self._load_items(parts)
        if self._shared is not None:
            self._shared.spread(self._generator)

    def _load_items(self, parts: host.StateParts) -> None:
        for name, table in self._item_tables().items():
            table.copy_(parts.optimizer[name])
        self._unpack()
        if self._generator is not None:
            mass_KI = parts.sampler["y_mass_KI"].to(self._generator.item_of.bin_RN.device)
            self._generator.share_items(AliasTables.restored(mass_KI))

    def _item_tables(self) -> dict[str, Tensor]:
        """Return the tables of items that training changes, by their names in a checkpoint."""
        return {name: torch.from_numpy(array) for name, array in self._items.arrays().items()}

    @property
    def _generator(self) -> Decomposable | None:
        """The generator with the items that all blocks share, if there is one."""
        return generator_of(self._template)

    def _forget_first(self) -> None:
        """Drop the users that the system was started with; they come again in their block."""
        self._first, self._template = None, without_users(self._template)

    def _order(self, epoch: int) -> list[int]:
        n = len(self.blocks)
        order = Permutation.of(n, seed=self._seed, stream=Stream.BLOCKS, epoch=epoch)
        return [int(block) for block in order(np.arange(n))]

    def _seed_of(self, block: int) -> int:
        """Return the seed of the draws of a block."""
        return int(sort_keys(self._seed, Stream.BLOCKS, 0, np.array([block]))[0])

    def _learns_positives(self, epoch: int) -> bool:
        """Return whether the generator learns positives in this epoch, and not yet the scores."""
        update = None if self._generator is None else self._generator.update
        return epoch == 1 and getattr(update, "positives", None) is not None

    def _engine(self, block: int, *, all_users: bool = False) -> FusedCpuEngine:
        """Make the engine of a block, with its users as they were stored.

        Without ``all_users`` it may have the users of this worker alone.
        """
        vectors, states = (
            self._stored(block, kind, all_users=all_users) for kind in ("vectors", "states")
        )
        data, seed = self.blocks[block], self._seed_of(block)
        system = self._system_of(block, vectors, states, all_users=all_users)
        if self._shared is None:
            engine = self._engine_of(system, data, seed)
        else:
            numbers, start_S1 = self.blocks.parts(block), self.blocks.shards.start_S1
            engine = SharedCpuEngine(
                system,
                data,
                seed=seed,
                device=_CPU,
                shared=self._shared,
                shards=numbers,
                start_S1=start_S1[numbers.start : numbers.stop + 1] - start_S1[numbers.start],
            )
        for name, table in (vectors or {}).items():
            engine.user_tables()[name][...] = table
        if self._drawn is not None:
            engine.draw_from(self._drawn)
        return engine

    def _engine_of(self, system: System, data: Interactions, seed: int) -> FusedCpuEngine:
        """Make the engine of some users, with the items of all blocks."""
        return FusedCpuEngine(system, data, seed=seed, device=_CPU, items=self._items)

    def _stored(self, block: int, kind: str, *, all_users: bool) -> Arrays | None:
        """Return what was stored for the users of a block; other workers' users may be missing."""
        numbers = self.blocks.parts(block)
        wanted = numbers if all_users else self._own(numbers) or numbers
        return self._users.read(kind, self.blocks.places(block), wanted)

    def _own(self, shards: range) -> list[int]:
        return [shard for shard in shards if self._workers.owns(shard)]

    def _system_of(
        self, block: int, vectors: Arrays | None, states: Arrays | None, *, all_users: bool
    ) -> System:
        """Return the system with the users of a block, as they were stored or where they start.

        Without ``all_users`` the users of other workers start as if they had no rows.
        """
        if vectors is None:
            numbers = self.blocks.parts(block)
            only = None if all_users else self._own(numbers)
            data = self.blocks.rows(numbers.start, numbers.stop, only)
            return with_new_users(self._template, data, seed=self._seed_of(block))
        bins_UK = None if states is None else torch.from_numpy(states["bins_UK"])
        return with_users(self._template, torch.from_numpy(vectors["user_UCD"][:, 0]), bins_UK)

    def _tables_to_keep(self, block: int, engine: Any) -> dict[str, dict[str, Any]]:
        """Return what is stored of the users of a block; their states only if they have changed."""
        generator, first = generator_of(engine.system), self.blocks.parts(block)[0]
        changed = self._refit_epoch == self._epoch or not self._users.has(first, "states")
        kept = {"vectors": dict(engine.user_tables())}
        if generator is not None and changed:
            kept["states"] = {"bins_UK": generator.state_of.bin_RN}
        return kept

    def _store(self, block: int, engine: Any) -> None:
        """Store the users of a block."""
        self._drawn = engine.drawn_tables()
        for kind, tables in self._tables_to_keep(block, engine).items():
            arrays = {name: np.asarray(table) for name, table in tables.items()}
            self._users.store(kind, self.blocks.places(block), arrays)

    def _follow(self, engine: Any, epoch: int, *, items_too: bool) -> Health:
        """Update a block's generator to the scores; all blocks then use its items."""
        generator = generator_of(engine.system)
        if generator is not None:
            generator.items_follow = items_too
            generator.exchange = self._workers if self._first is None else ALONE
        health: Health = engine.refit(epoch)
        if generator is None or self._generator is None:
            return health
        if items_too:
            self._generator.share_items(generator.item_of, generator.y_IK)
        elif self._drawn is not None:
            engine.draw_from(self._drawn)
        return health

    def _unpack(self) -> None:
        """Copy the items back to the model."""
        model = cast("Any", self._template.discriminator)
        with torch.no_grad():
            model.item_ID.copy_(torch.from_numpy(self._items.item_ICD[:, 0]))
            if model.bias_I is not None:
                model.bias_I.copy_(torch.from_numpy(self._items.arrays()["bias_IC"][:, 0]))
