"""What engines of several processes on CPUs share: whose visits are at the places of a batch."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from sdgar.contracts import System
from sdgar.data.interactions import Interactions
from sdgar.engines.fused.cpu import FusedCpuEngine
from sdgar.engines.fused.cpu_records import Items
from sdgar.scale.workers import Workers


class Deal(NamedTuple):
    """How the users of an engine are shared out."""

    workers: Workers
    """The processes that train together."""
    start_S1: NDArray[np.int64]
    """The number of the first user of each shard, in the rows of the engine."""
    owner_S: NDArray[np.int32]
    """The number of the process that has the users of each shard."""

    @classmethod
    def of(cls, workers: Workers, shards: range, start_S1: NDArray[np.int64]) -> Deal:
        """Return whose shards these are; their first users have the numbers ``start_S1``."""
        owner_S = np.array([workers.owner(shard) for shard in shards], np.int32)
        return cls(workers, start_S1 - start_S1[0], owner_S)


class DealtCpuEngine(FusedCpuEngine):
    """Run epochs with other processes; the vectors of others' users are left as they are."""

    def __init__(
        self,
        system: System,
        data: Interactions,
        *,
        seed: int,
        device: torch.device,
        items: Items,
        deal: Deal,
    ) -> None:
        super().__init__(system, data, seed=seed, device=device, items=items)
        self._deal = deal
        if system.positives_per_visit > 1:
            edge_S1 = np.searchsorted(self._visits.user_V.numpy(), deal.start_S1)
        else:
            edge_S1 = data.indptr_U1[deal.start_S1]
        self._edge_S1 = np.ascontiguousarray(edge_S1, np.int64)

    def _dealt(self) -> Any:
        """Allocate what says whose visits are at the places of a batch."""
        from sdgar.kernels.numba.shared_epoch import Dealt

        workers, batch = self._deal.workers, self._batch
        return Dealt(
            edge_S1=self._edge_S1,
            owner_S=self._deal.owner_S,
            machine_R=np.array(workers.machine_R, np.int32),
            number=workers.number,
            visit_V=np.zeros(batch, np.int64),
            machine_V=np.zeros(batch, np.int32),
            nth_V=np.zeros(batch, np.int32),
            count_M=np.zeros(workers.machines, np.int64),
            own_V=np.zeros(batch, np.int64),
            place_V=np.zeros(batch, np.int32),
            count_1=np.zeros(1, np.int64),
        )
