"""Item tables stay on the GPU; blocks of users are copied in and out.

    for each block, in the order of the epoch's shuffle:
        it is computed, while the next one is read and copied in, and the last one copied out

The order of work is that of ``block_engine.py``, by the fused engine of the GPU. Users wait on the
GPU, in RAM or in files until it is their turn; the result is bit-identical.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from functools import partial
from typing import Any, ClassVar, NamedTuple

import torch
from numpy.typing import NDArray
from torch import Tensor

from sdgar.contracts import System
from sdgar.data.interactions import Interactions
from sdgar.engines import host
from sdgar.engines.fused.gpu import FusedGpuEngine
from sdgar.engines.fused.gpu_tables import Capacity, GpuRows, GpuTables
from sdgar.engines.protocol import Engine
from sdgar.machine import cores
from sdgar.models.factor_tensors import FactorTensors
from sdgar.scale.block_engine import BlockEngine
from sdgar.scale.block_system import with_new_users, with_users
from sdgar.scale.conveyor import Conveyor, Slot
from sdgar.scale.users import Places

Tensors = dict[str, Tensor]
"""Tensors by name, each with a row for every user of a block."""


class LoadedBlock(NamedTuple):
    """A block that has come to the GPU."""

    data: Interactions
    """The rows, in RAM."""
    start_U1: Tensor
    """The first row of each user."""
    items_E: Tensor
    """The item of each row."""
    weight_E: Tensor | None
    """The weight of each row, if there are weights."""
    vectors: Tensors | None
    """The vectors of users with their moments; None if these users have not been trained yet."""
    states: Tensors | None
    """The generator's states of the users; None without a generator, or before training."""


class GpuBlockEngine(BlockEngine):
    """Run the epochs of a system over blocks of users, by the fused engine of the GPU."""

    name: ClassVar[str] = "fused-gpu-blocks"
    block_engine_class: ClassVar[type[Engine]] = FusedGpuEngine
    """The engine that trains one block."""

    def _lay_out(self, system: System) -> None:
        system.discriminator.to(self._device)
        system.sampler.to(self._device)
        self._users_on_gpu = self._users if self._users.on_device else None
        users, rows = self.blocks.most()
        visits, weighted = rows, self.blocks.shards.has_weights
        if (shared := system.positives_per_visit) > 1:  # a user's last group may be smaller
            visits = min(visits, visits // shared + users)
        self._tables = GpuTables(system, Capacity(users, visits, weighted), self._device)
        kinds: dict[str, tuple[tuple[int, ...], torch.dtype]] = {
            "start_U1": ((users + 1,), torch.int64),
            "items_E": ((rows,), torch.int32),
        }
        if weighted:
            kinds["weight_E"] = ((rows,), torch.float32)
        if self._users_on_gpu is None:
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
    def wait_seconds(self) -> float:
        """The seconds for which the last epoch waited for blocks to come or leave."""
        return self._conveyor.wait_seconds

    def _engines(self, epoch: int, *, all_users: bool) -> Generator[tuple[int, Any]]:
        """Yield the blocks as they are loaded to the GPU, each with its engine."""
        with closing(self._conveyor.round(self._order(epoch), self._load)) as blocks:
            for block, self._slot, loaded in blocks:
                yield block, self._engine_of_loaded(block, loaded)

    def factors_of_block(self, block: int) -> FactorTensors:
        """Return the vectors of the users of one block, and of items, in RAM."""
        vectors = self._stored(block, "vectors", all_users=True)
        if vectors is None:
            system = self._system_of(block, None, None, all_users=True)
        else:
            system = with_users(self._template, torch.from_numpy(vectors["user_UD"]), None)
        found = system.discriminator.to(self._device).factors()
        return found.with_tensors({name: table.cpu() for name, table in found.tensors().items()})

    def _item_tables(self) -> Tensors:
        """Return the tables of items that training changes, by their names in a checkpoint."""
        model: Any = self._template.discriminator
        tables = {"item_ID": model.item_ID.detach()}
        if model.bias_I is not None:
            tables["bias_I"] = model.bias_I.detach()
        return tables | self._tables.moments_of_items()

    def _unpack(self) -> None:
        """Do nothing, as the model has the tables of items."""

    def _engine(self, block: int, *, all_users: bool = False) -> FusedGpuEngine:  # type: ignore[override]
        """Make the engine of a block, with its users as they were stored."""
        with closing(self._conveyor.round([block], self._load)) as blocks:
            _, _, loaded = next(blocks)
            return self._engine_of_loaded(block, loaded)

    def _engine_of(self, system: System, data: Any, seed: int) -> FusedGpuEngine:  # type: ignore[override]
        """Make the engine of some users, in the tables that have the items of all blocks."""
        return FusedGpuEngine(system, data, seed=seed, device=self._device, tables=self._tables)

    def _engine_of_loaded(self, block: int, loaded: LoadedBlock) -> FusedGpuEngine:
        """Return the engine of a block that is on the GPU."""
        vectors, states = loaded.vectors, loaded.states
        if (users := self._users_on_gpu) is not None:
            shards = self.blocks.parts(block)
            vectors, states = (users.join(shards, kind) for kind in ("vectors", "states"))
        if vectors is None:
            system = with_new_users(self._template, loaded.data, seed=self._seed_of(block))
        else:
            bins_UK = None if states is None else states["bins_UK"]
            system = with_users(self._template, vectors["user_UD"], bins_UK)
        rows = GpuRows.on_device(
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

        def load_table(name: str, array: NDArray[Any]) -> Tensor:
            in_ram, on_gpu = slot.table(name, len(array))
            in_ram.numpy()[...] = array
            copies.append((on_gpu, in_ram))
            return on_gpu

        weight_E = host.scaled_weights(data)
        loaded = LoadedBlock(
            data,
            load_table("start_U1", data.indptr_U1),
            load_table("items_E", data.items_E),
            None if weight_E is None else load_table("weight_E", weight_E),
            *(self._load_users(block, slot, kind, copies) for kind in ("vectors", "states")),
        )
        self._conveyor.coming.make(copies)
        return loaded

    def _load_users(
        self, block: int, slot: Slot, kind: str, copies: list[tuple[Tensor, Tensor]]
    ) -> Tensors | None:
        """Read the stored tables of a block's users into its slot; None if there are none."""
        places = self.blocks.places(block)
        if self._users_on_gpu is not None or (first := self._users.get(places[0][0], kind)) is None:
            return None
        tables = {name: slot.table(name, places[-1][1].stop) for name in first}

        def fill(place: tuple[int, slice]) -> None:
            shard, own = place
            arrays = self._users.get(shard, kind)
            assert arrays is not None
            for name, (in_ram, _) in tables.items():
                in_ram.numpy()[own] = arrays[name]

        self._conveyor.each(fill, places)
        copies += [(on_gpu, in_ram) for in_ram, on_gpu in tables.values()]
        return {name: on_gpu for name, (_, on_gpu) in tables.items()}

    def _store(self, block: int, engine: FusedGpuEngine) -> None:
        """Queue copies of a block's users from the GPU."""
        places, kept = self.blocks.places(block), self._tables_to_keep(block, engine)
        slot = self._slot
        if (users := self._users_on_gpu) is not None:
            for shard, own in places:
                for kind, tables in kept.items():
                    users.keep(shard, kind, {n: table[own] for n, table in tables.items()})
            return
        in_ram: dict[str, Tensors] = {kind: {} for kind in kept}
        copies = []
        for kind, tables in kept.items():
            for name, table in tables.items():
                in_ram[kind][name], on_gpu = slot.table(name, len(table))
                if on_gpu.data_ptr() != table.data_ptr():
                    on_gpu.copy_(table)
                copies.append((in_ram[kind][name], on_gpu))
        done = self._conveyor.leaving.mark()
        self._conveyor.leave(slot, partial(self._store_users, places, in_ram, copies, done))

    def _store_users(
        self,
        places: Places,
        in_ram: dict[str, Tensors],
        copies: list[tuple[Tensor, Tensor]],
        done: Any,
    ) -> None:
        self._conveyor.leaving.make(copies, after=done)

        def put(place: tuple[int, slice]) -> None:
            shard, own = place
            for kind, tables in in_ram.items():
                arrays = {name: table[own].numpy() for name, table in tables.items()}
                self._users.put(shard, kind, arrays)

        self._conveyor.each(put, places)
