"""Epochs over users in blocks on a GPU: items stay there, and blocks come and go.

    for each block, in the order of the epoch's shuffle:
        it is computed, while the next one is read and copied there, and the last one copied back

The order of work is that of ``block_engine.py``, by the fused engine of the GPU. Users wait on the
GPU, in RAM or in files until it is their turn, which changes no bit of the result.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import torch
from numpy.typing import NDArray
from torch import Tensor

from sdgar.contracts import System
from sdgar.engines import host
from sdgar.engines.fused.gpu import FusedGpuEngine
from sdgar.engines.fused.gpu_tables import Capacity, GpuRows, GpuTables
from sdgar.engines.protocol import Engine
from sdgar.machine import cores
from sdgar.scale.block_engine import BlockEngine
from sdgar.scale.block_system import with_new_users, with_users
from sdgar.scale.conveyor import Conveyor, Slot
from sdgar.scale.users import Places

if TYPE_CHECKING:
    from sdgar.data.interactions import Interactions
    from sdgar.models.factor_tensors import FactorTensors

Tensors = dict[str, Tensor]
"""Tensors by name, each with a row for every user of a block."""


class LoadedBlock(NamedTuple):
    """A block that has come to the GPU."""

    data: Interactions
    """The rows, which are in memory too."""
    start_U1: Tensor
    """The first row of each user."""
    items_E: Tensor
    """The item of each row."""
    weight_E: Tensor | None
    """The weight of each row, if there are weights."""
    vectors: Tensors | None
    """The vectors of users with their moments; None if the users have not started yet."""
    states: Tensors | None
    """The states of users; None if they have none, or have not started yet."""


class GpuBlockEngine(BlockEngine):
    """Run the epochs of a system over blocks of users, by the fused engine of the GPU."""

    name: ClassVar[str] = "fused-gpu-blocks"
    of_block: ClassVar[type[Engine]] = FusedGpuEngine
    """The engine that trains one block."""

    def _lay_out(self, system: System) -> None:
        system.discriminator.to(self._device)
        system.sampler.to(self._device)
        self._there = self._users if self._users.on_device else None
        users, rows = self.blocks.most()
        visits, weighted = rows, self.blocks.shards.has_weights
        if (shared := system.positives_per_visit) > 1:  # every user's last visit may lack some
            visits = min(visits, visits // shared + users)
        self._tables = GpuTables(system, Capacity(users, visits, weighted), self._device)
        kinds: dict[str, tuple[tuple[int, ...], torch.dtype]] = {
            "start_U1": ((users + 1,), torch.int64),
            "items_E": ((rows,), torch.int32),
        }
        if weighted:
            kinds["weight_E"] = ((rows,), torch.float32)
        if self._there is None:
            kinds["user_UD"] = ((users, self._tables.dim), torch.float32)
            for name, table in self._tables.moments_of_users(0).items():
                kinds[name] = ((users, *table.shape[1:]), table.dtype)
            if self._generator is not None:
                bins_UK = self._generator.state_of.bin_RN
                kinds["bins_UK"] = ((users, bins_UK.shape[1]), bins_UK.dtype)
        self._conveyor: Conveyor[LoadedBlock] = Conveyor(
            kinds, self._device, threads=cores.threads()
        )

    @property
    def waited(self) -> float:
        """The seconds for which the last epoch waited for blocks to come or leave."""
        return self._conveyor.waited

    def _engines(self, epoch: int, *, all_users: bool) -> Generator[tuple[int, Any]]:
        """Yield the blocks as they come to the GPU, each with its engine."""
        with closing(self._conveyor.round(self._order(epoch), self._load)) as blocks:
            for block, self._slot, loaded in blocks:
                yield block, self._engine_there(block, loaded)

    def learned_of(self, block: int) -> FactorTensors:
        """Return the vectors of the users of one block, and of items, in memory."""
        vectors = self._stored(block, "vectors", all_users=True)
        if vectors is None:
            system = self._system_of(block, None, None, all_users=True)
        else:
            system = with_users(self._like, torch.from_numpy(vectors["user_UD"]), None)
        found = system.discriminator.to(self._device).factors()
        return found.with_tensors({name: table.cpu() for name, table in found.tensors().items()})

    def _item_tables(self) -> Tensors:
        """Return the tables of items that training changes, by their names in a checkpoint."""
        model: Any = self._like.discriminator
        tables = {"item_ID": model.item_ID.detach()}
        if model.bias_I is not None:
            tables["bias_I"] = model.bias_I.detach()
        return tables | self._tables.moments_of_items()

    def _unpack(self) -> None:
        """Do nothing, as the model has the tables of items."""

    def _engine(self, block: int, *, all_users: bool = False) -> FusedGpuEngine:  # type: ignore[override]
        """Make the engine of a block, with its users as they were put."""
        with closing(self._conveyor.round([block], self._load)) as blocks:
            _, _, loaded = next(blocks)
            return self._engine_there(block, loaded)

    def _engine_of(self, system: System, data: Any, seed: int) -> FusedGpuEngine:  # type: ignore[override]
        """Make the engine of some users, in the tables that have the items of all blocks."""
        return FusedGpuEngine(system, data, seed=seed, device=self._device, tables=self._tables)

    def _engine_there(self, block: int, loaded: LoadedBlock) -> FusedGpuEngine:
        """Make the engine of a block that has come."""
        vectors, states = loaded.vectors, loaded.states
        if self._there is not None:
            shards = self.blocks.parts(block)
            vectors, states = (self._there.join(shards, kind) for kind in ("vectors", "states"))
        if vectors is None:
            system = with_new_users(self._like, loaded.data, seed=self._seed_of(block))
        else:
            bins_UK = None if states is None else states["bins_UK"]
            system = with_users(self._like, vectors["user_UD"], bins_UK)
        rows = GpuRows.there(
            loaded.start_U1, loaded.items_E, loaded.weight_E,
            n_items=loaded.data.n_items, positives=system.positives_per_visit,
        )  # fmt: skip
        for name, table in self._tables.moments_of_users(rows.n_users).items():
            if vectors is None:
                table.zero_()
            else:
                table.copy_(vectors[name])
        return self._engine_of(system, rows, self._seed_of(block))

    def _load(self, block: int, slot: Slot) -> LoadedBlock:
        """Read a block, and copy it to the device."""
        data, copies = self.blocks[block], list[tuple[Tensor, Tensor]]()

        def bring(name: str, array: NDArray[Any]) -> Tensor:
            here, there = slot.table(name, len(array))
            here.numpy()[...] = array
            copies.append((there, here))
            return there

        weight_E = host.scaled_weights(data)
        loaded = LoadedBlock(
            data,
            bring("start_U1", data.indptr_U1),
            bring("items_E", data.items_E),
            None if weight_E is None else bring("weight_E", weight_E),
            *(self._bring(block, slot, kind, copies) for kind in ("vectors", "states")),
        )
        self._conveyor.coming.make(copies)
        return loaded

    def _bring(
        self, block: int, slot: Slot, kind: str, copies: list[tuple[Tensor, Tensor]]
    ) -> Tensors | None:
        """Put what waits here for the users of a block into its slot; None if nothing does."""
        places = self.blocks.places(block)
        if self._there is not None or (first := self._users.get(places[0][0], kind)) is None:
            return None
        tables = {name: slot.table(name, places[-1][1].stop) for name in first}

        def fill(place: tuple[int, slice]) -> None:
            shard, own = place
            arrays = self._users.get(shard, kind)
            assert arrays is not None
            for name, (here, _) in tables.items():
                here.numpy()[own] = arrays[name]

        self._conveyor.each(fill, places)
        copies += [(there, here) for here, there in tables.values()]
        return {name: there for name, (_, there) in tables.items()}

    def _store(self, block: int, engine: FusedGpuEngine) -> None:
        """Queue copies of a block's users from the GPU."""
        places, kept = self.blocks.places(block), self._tables_to_keep(block, engine)
        slot = self._slot
        if self._there is not None:
            for shard, own in places:
                for kind, tables in kept.items():
                    self._there.keep(shard, kind, {n: table[own] for n, table in tables.items()})
            return
        here: dict[str, Tensors] = {kind: {} for kind in kept}
        copies = []
        for kind, tables in kept.items():
            for name, table in tables.items():
                here[kind][name], there = slot.table(name, len(table))
                if there.data_ptr() != table.data_ptr():
                    there.copy_(table)
                copies.append((here[kind][name], there))
        done = self._conveyor.leaving.mark()
        self._conveyor.leave(slot, partial(self._put_all, places, here, copies, done))

    def _put_all(
        self,
        places: Places,
        here: dict[str, Tensors],
        copies: list[tuple[Tensor, Tensor]],
        done: Any,
    ) -> None:
        self._conveyor.leaving.make(copies, after=done)

        def put(place: tuple[int, slice]) -> None:
            shard, own = place
            for kind, tables in here.items():
                arrays = {name: table[own].numpy() for name, table in tables.items()}
                self._users.put(shard, kind, arrays)

        self._conveyor.each(put, places)
