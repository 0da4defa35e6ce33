"""What belongs to items, in memory that the workers of one machine share.

The first worker of all fills it, and other machines are given a copy. Nothing of it is computed by
two workers: the start, the updates of a batch, what the generator draws items from.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from sdgar.contracts import System
from sdgar.data.interactions import Interactions
from sdgar.engines.fused.cpu_records import Items
from sdgar.machine import cores
from sdgar.samplers.alias import AliasTables
from sdgar.samplers.decomposable import Decomposable
from sdgar.scale.common import Common
from sdgar.scale.dealt_cpu import Deal
from sdgar.scale.shared_cpu import Desk, Shared, SharedCpuEngine
from sdgar.scale.workers import Workers

_MODEL = ("item_ID", "bias_I")
_BINS, _Y = "bin_KI", "y_IK"


class SharedItems:
    """The tables of items that kernels change, those of the model, and those of the generator."""

    def __init__(self, system: System, items: Items, workers: Workers) -> None:
        """Give all workers the items of the first one."""
        self._workers, self._desk = workers, Desk(workers)
        model, generator = system.discriminator, _generator_of(system)
        tables: dict[str, Any] = dict(items.arrays())
        of_model = {name: getattr(model, name) for name in _MODEL}
        tables |= {name: one.detach().numpy() for name, one in of_model.items() if one is not None}
        if generator is not None:
            tables |= {_BINS: generator.item_of.bin_RN.numpy(), _Y: generator.y_IK.numpy()}
        shapes = {name: (table.shape, table.dtype) for name, table in tables.items()}
        self._common = Common(workers, shapes)
        """The memory that the workers of a machine share."""
        if workers.leads:
            for name, array in self._common.arrays.items():
                array[...] = tables[name]
        self.items = items.at(self._common.arrays)
        """The tables of items that kernels change."""
        for name, one in of_model.items():
            if one is not None:
                one.data = torch.from_numpy(self._common.arrays[name])
        self.spread(generator)

    @contextmanager
    def working(self) -> Iterator[None]:
        """Share the cores of this machine with its other workers, and notice if one is gone."""
        most = max(1, cores.threads() // self._workers.here)
        with self._common.watched(), cores.torch_threads(most):
            yield

    def engine(self, system: System, data: Interactions, seed: int, deal: Deal) -> SharedCpuEngine:
        """Return the engine of some shards."""
        return SharedCpuEngine(
            system, data, seed=seed, device=torch.device("cpu"), items=self.items, deal=deal,
            shared=Shared(self._common, self._desk),
        )  # fmt: skip

    def spread(self, generator: Decomposable | None) -> None:
        """Give all workers the tables of the first one, and the items of its generator."""
        self._take(generator)
        self._workers.spread(self._common.arrays.values())

    def spread_tables(self, generator: Decomposable) -> None:
        """Give all workers the items of the first one's generator."""
        self._take(generator)
        self._workers.spread(self._common.arrays[name] for name in (_BINS, _Y))

    def _take(self, generator: Decomposable | None) -> None:
        """Let a generator draw from tables in the shared memory, which get its own numbers."""
        if generator is None:
            return
        arrays = self._common.arrays
        bin_KI, y_IK = (torch.from_numpy(arrays[name]) for name in (_BINS, _Y))
        if self._workers.leads:
            bin_KI.copy_(generator.item_of.bin_RN)
            y_IK.copy_(generator.y_IK)
        generator.share_items(AliasTables(bin_KI), y_IK)


def _generator_of(system: System) -> Decomposable | None:
    sampler = system.sampler
    return sampler if isinstance(sampler, Decomposable) else None
