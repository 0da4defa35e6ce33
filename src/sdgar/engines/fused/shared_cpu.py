"""The engine of one of several processes, which train the same rows together on CPUs.

A process has the vectors of the users of its own shards, and of all items. All go through the same
batches: of a batch each scores the visits of its users, and tells the others the factors of these
visits, from which all of them move the items alike; see ``kernels/numba/shared_epoch.py``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from sdgar.contracts import System
from sdgar.data.interactions import Interactions
from sdgar.engines.fused.cpu import FusedCpuEngine
from sdgar.engines.fused.cpu_records import Items, scratch_of
from sdgar.machine import cores
from sdgar.machine.traffic import words_of
from sdgar.machine.workers import Workers


class Shared(NamedTuple):
    """How the users of an engine are shared out."""

    workers: Workers
    """The processes that train together."""
    start_S1: NDArray[np.int64]
    """The number of the first user of each shard, in the rows of the engine."""
    owner_S: NDArray[np.int32]
    """The number of the process that has the users of each shard."""


class SharedCpuEngine(FusedCpuEngine):
    """Run epochs with other processes; the vectors of others' users are left as they are.

    It gives the bytes of ``FusedCpuEngine`` for any number of processes.
    """

    def __init__(
        self,
        system: System,
        data: Interactions,
        *,
        seed: int,
        device: torch.device,
        items: Items,
        shared: Shared,
    ) -> None:
        super().__init__(system, data, seed=seed, device=device, items=items)
        self._shared = shared
        if system.positives_per_visit > 1:
            edge_S1 = np.searchsorted(self._visits.user_V.numpy(), shared.start_S1)
        else:
            edge_S1 = data.indptr_U1[shared.start_S1]
        self._edge_S1 = np.ascontiguousarray(edge_S1, np.int64)
        # Its own visits have room of their own: only the rows of users are those of all visits.
        self._own = scratch_of(self._model, system, self._batch)._replace(
            tail_I=self._scratch.tail_I, tail_R=self._scratch.tail_R
        )

    def _run_batches(
        self, keys: Any, tail: Any, deal: Any, steps_before: int, *args: Any
    ) -> None:  # fmt: skip
        """Run all batches: deal, score, tell the others, and move, one batch after the other."""
        from sdgar.kernels.numba import shared_epoch
        from sdgar.kernels.numba.epoch import own
        from sdgar.kernels.numba.threads import run

        rows, known, order, proposal, scores, loss, steps, tables, scratch = args
        workers, batch = self._shared.workers, self._batch
        positives, negatives = self.system.positives_per_visit, self.system.n_negatives
        dim = self._model.user_UD.shape[1]
        threads = max(1, cores.threads() // workers.here)
        own_T = [own(dim, positives, negatives, batch, 1) for _ in range(threads)]
        words = words_of(dim, positives + negatives)
        said = torch.zeros(batch, words, dtype=torch.int32)
        heard = torch.zeros(workers.count * batch, words, dtype=torch.int32)
        said_words, heard_words = (_packed(shared_epoch, one) for one in (said, heard))
        dealt = shared_epoch.Dealt(
            self._edge_S1,
            self._shared.owner_S,
            np.zeros(batch, np.int32),
            np.zeros(batch, np.int32),
            np.zeros(workers.count, np.int64),
            np.zeros(batch, np.int64),
        )

        def score(t: int, of: int, barrier_4: Any, own_visits: int) -> None:
            shared_epoch.score_own(
                t, of, barrier_4, own_visits, dealt.own_V, tail, deal, rows, known, order,
                proposal, scores, loss, steps, tables, self._own, said_words, own_T[t],
            )  # fmt: skip

        def move(t: int, of: int, barrier_4: Any, *counts: int) -> None:
            shared_epoch.move_shared(
                t, of, barrier_4, *counts, dealt, heard_words, order, proposal, scores, steps,
                tables, scratch, self._own, own_T[t],
            )  # fmt: skip

        def compile_all() -> None:
            shared_epoch.deal(0, 0, keys, order, workers.number, dealt)
            run(score, 1, 0)
            run(move, 1, 0, 0, 0, 0)

        if workers.leads:  # the others load what it has compiled, where they share a folder
            compile_all()
        workers.meet()
        compile_all()
        for number in range(self._batches):
            begin = number * batch
            visits = min(batch, order.n_visits - begin)
            shared_epoch.deal(begin, visits, keys, order, workers.number, dealt)
            own_visits, most = int(dealt.count_R[workers.number]), int(dealt.count_R.max())
            run(score, threads, own_visits)
            workers.gather(said[:most], heard[: workers.count * most])
            run(move, threads, visits, most, own_visits, steps_before + number + 1)


def _packed(kernels: Any, words_VW: torch.Tensor) -> Any:
    whole_VW = words_VW.numpy()
    return kernels.Packed(whole_VW.view(np.float32), whole_VW)
