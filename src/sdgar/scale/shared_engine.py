"""Epochs by several processes on CPUs, which train the same rows together.

A process has the vectors of the users in its shards. The processes of one machine share the
tables of items, and the factors of a batch: each scores the visits of its users, and moves some of
the items. Machines exchange the factors of their visits, from which all of them move their items
alike; see ``kernels/numba/shared_epoch.py``. The first worker fills the tables of items, and other
machines receive a copy, so that nothing of them is computed twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from sdgar.contracts import System
from sdgar.data.interactions import Interactions
from sdgar.engines.fused.cpu import FusedCpuEngine
from sdgar.engines.fused.cpu_records import Items
from sdgar.machine import cores
from sdgar.samplers.alias import AliasTables
from sdgar.samplers.decomposable import Decomposable
from sdgar.scale.block_system import generator_of
from sdgar.scale.shared_memory import SharedArrays

if TYPE_CHECKING:
    from sdgar.kernels.numba.epoch import Loop, Scratch
    from sdgar.scale.workers import Workers

_MODEL_TABLES = ("item_ID", "bias_I")
GENERATOR_TABLES = ("bin_KI", "y_IK")
"""The tables of the items of a generator."""
_FACTORS = ("count_V", "item_e", "slope_e", "u_VD", "loss_V", "effective_V", "answered_V")
"""The arrays in which the processes of a machine exchange the visits of a batch."""
_EXTRA_NUMBERS = 4
"""The numbers that are sent of a visit besides its vector, slopes and items: a count, and three for
the log."""
_BATCHES_AT_ONCE = 64
"""The batches after which a process listens to signals."""
_THREADS_WORD = 5
"""The word in which the first process of a machine writes how many threads it has."""


class SharedItems:
    """The items in shared memory: the tables of kernels, of the model and of the generator.

    The factors of a batch are shared too, in memory that grows with the batches.
    """

    def __init__(self, system: System, items: Items, workers: Workers) -> None:
        """Copy the items of the first worker to all workers."""
        self.workers = workers
        """The processes that share the tables."""
        self.compiled = False
        """True once the processes have the compiled kernels."""
        self._factors: SharedArrays | None = None
        self._visits = 0
        model, generator = system.discriminator, generator_of(system)
        tables: dict[str, Any] = dict(items.arrays())
        of_model = {name: getattr(model, name) for name in _MODEL_TABLES}
        tables |= {name: one.detach().numpy() for name, one in of_model.items() if one is not None}
        if generator is not None:
            values = generator.item_of.bin_RN.numpy(), generator.y_IK.numpy()
            tables |= dict(zip(GENERATOR_TABLES, values, strict=True))
        shapes = {name: (table.shape, table.dtype) for name, table in tables.items()}
        self.shared = SharedArrays(workers, shapes)
        """The memory that the workers of a machine share."""
        if workers.leads:
            for name, array in self.shared.arrays.items():
                array[...] = tables[name]
        self.items = items.at(self.shared.arrays)
        """The tables of items that kernels change."""
        for name, one in of_model.items():
            if one is not None:
                one.data = torch.from_numpy(self.shared.arrays[name])
        self.spread(generator)

    @contextmanager
    def working(self) -> Iterator[None]:
        """Share the cores of this machine with its other workers, and notice if one is gone."""
        most = max(1, cores.threads() // self.workers.here)
        with self.shared.watched(), cores.torch_threads(most):
            yield

    def spread(self, generator: Decomposable | None, *names: str) -> None:
        """Copy the tables of these names, or all, of the first worker to all workers.

        Its generator and theirs draw from the shared tables then.
        """
        arrays = self.shared.arrays
        if generator is not None:
            bin_KI, y_IK = (torch.from_numpy(arrays[name]) for name in GENERATOR_TABLES)
            if self.workers.leads:
                bin_KI.copy_(generator.item_of.bin_RN)
                y_IK.copy_(generator.y_IK)
            generator.share_items(AliasTables(bin_KI), y_IK)
        self.workers.spread(arrays[name] for name in names or arrays)

    def in_place_of(self, scratch: Scratch) -> Scratch:
        """Return the arrays that threads exchange, with factors that all processes see."""
        if self._factors is None or len(scratch.count_V) > self._visits:
            arrays = {name: getattr(scratch, name) for name in _FACTORS}
            shapes = {name: (array.shape, array.dtype) for name, array in arrays.items()}
            self._factors = SharedArrays(self.workers, shapes)
            self._visits = len(scratch.count_V)
        return scratch._replace(**self._factors.arrays)


class SharedCpuEngine(FusedCpuEngine):
    """Run epochs with other processes; processes of one machine share the tables of items.

    The result is bit-identical to ``FusedCpuEngine`` for any number of processes. The
    vectors of users of other processes stay as they are.
    """

    def __init__(
        self,
        system: System,
        data: Interactions,
        *,
        seed: int,
        device: torch.device,
        shared: SharedItems,
        shards: range,
        start_S1: NDArray[np.int64],
    ) -> None:
        """Lay out the rows of some shards, in which their first users have these numbers."""
        super().__init__(system, data, seed=seed, device=device, items=shared.items)
        self._shared, self._workers = shared, shared.workers
        self._owner_S = np.array([shared.workers.owner(shard) for shard in shards], np.int32)
        if system.positives_per_visit > 1:
            edge_S1 = np.searchsorted(self._visits.user_V.numpy(), start_S1)
        else:
            edge_S1 = data.indptr_U1[start_S1]
        self._edge_S1 = np.ascontiguousarray(edge_S1, np.int64)

    def _dealt(self) -> Any:
        """Allocate the record that has the owners of the visits of a batch."""
        from sdgar.kernels.numba.shared_epoch import Dealt

        workers, batch = self._workers, self._batch
        return Dealt(
            edge_S1=self._edge_S1,
            owner_S=self._owner_S,
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

    def _run_batches(self, loop: Loop) -> None:
        """Run all batches; between the halves of one, machines exchange their factors."""
        from sdgar.kernels.numba import shared_epoch
        from sdgar.kernels.numba.threads import WORDS, run
        from sdgar.kernels.records import Record

        workers, batch, words = self._workers, self._batch, self._shared.shared.words
        threads = cores.threads()
        positives, negatives = self.system.positives_per_visit, self.system.n_negatives
        dim = self._model.user_UD.shape[1]
        own_T = self._thread_scratch(threads)
        scratch, dealt = self._shared.in_place_of(self._scratch), self._dealt()
        records = Record(loop), Record(scratch), Record(dealt)
        if workers.local == 0:
            words[_THREADS_WORD] = threads
        lost_1 = np.zeros(1, np.int32)

        def by_all(halves: int, first: int, last: int) -> None:
            here = workers.here
            all_threads = here * int(words[_THREADS_WORD])
            meeting = shared_epoch.Shared(here, all_threads, lost_1)

            def part(t: int, of: int, barrier_5: Any) -> None:
                shared_epoch.shared_epoch(
                    t, of, barrier_5, words[:WORDS], halves, first, last, *records, meeting,
                    own_T[t],
                )  # fmt: skip

            run(part, threads)
            if lost_1[0]:
                raise workers.lost("it shared the memory of this machine")

        machines = _BetweenMachines(workers, dim, positives + negatives, batch)
        if not self._shared.compiled:
            if workers.leads:  # the others load what it has compiled, where they share a folder
                by_all(shared_epoch.SCORE | shared_epoch.MOVE, 0, 0)
                machines.exchange(0, dealt, scratch)
            workers.meet()
            self._shared.compiled = True
        step = _BATCHES_AT_ONCE if workers.machines == 1 else 1
        for first in range(0, self._batches, step):
            last = min(first + step, self._batches)
            if workers.machines == 1:
                by_all(shared_epoch.SCORE | shared_epoch.MOVE, first, last)
                continue
            by_all(shared_epoch.SCORE, first, last)
            if workers.local == 0:
                visits = min(batch, self._order.n_visits - first * batch)
                machines.exchange(visits, dealt, scratch)
            by_all(shared_epoch.MOVE, first, last)

    @torch.no_grad()
    def _unpack(self) -> None:
        """Copy the parameters back to the model: own users, and a part of the items."""
        workers, arrays = self._workers, self._arrays()
        self._model.user_UD.copy_(torch.from_numpy(arrays["user_UCD"][:, 0]))
        edges = [self._model.n_items * (workers.local + one) // workers.here for one in (0, 1)]
        part = slice(*edges)
        self._model.item_ID[part] = torch.from_numpy(self._tables.item_ICD[part, 0])
        if self._model.bias_I is not None:
            self._model.bias_I[part] = torch.from_numpy(arrays["bias_IC"][part, 0])
        workers.meet()


class _BetweenMachines:
    """The factors that the first process of each machine sends to the others, and receives."""

    def __init__(self, workers: Workers, dim: int, entries: int, batch: int) -> None:
        self._workers, self._entries = workers, entries
        rows = batch if workers.machines > 1 and workers.local == 0 else 0
        words = dim + 2 * entries + _EXTRA_NUMBERS
        self._sent = torch.zeros(rows, words, dtype=torch.int32)
        self._received = torch.zeros(workers.machines * rows, words, dtype=torch.int32)

    def exchange(self, visits: int, dealt: Any, scratch: Any) -> None:
        """Exchange the factors of the visits of a batch; nothing where there is one machine."""
        workers = self._workers
        if workers.machines == 1:
            return
        machine_V, nth_V = dealt.machine_V[:visits], dealt.nth_V[:visits]
        own_V = machine_V == workers.machine
        for rows, words in self._factors(scratch, visits, self._sent):
            words[: own_V.sum()] = rows[own_V]
        most = int(dealt.count_M.max())
        if visits:
            workers.gather(self._sent[:most], self._received[: workers.machines * most])
        place_V = machine_V[~own_V].astype(np.int64) * most + nth_V[~own_V]
        for rows, words in self._factors(scratch, visits, self._received):
            rows[~own_V] = words[place_V]

    def _factors(
        self, scratch: Any, visits: int, words_VW: torch.Tensor
    ) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
        """Yield the factors of visits as they are kept and as they are sent, one after another."""
        whole_VW, s = words_VW.numpy(), self._entries
        real_VW, dim = whole_VW.view(np.float32), scratch.u_VD.shape[1]
        yield scratch.u_VD[:visits], real_VW[:, :dim]
        yield scratch.slope_e.reshape(-1, s)[:visits], real_VW[:, dim : dim + s]
        yield scratch.item_e.reshape(-1, s)[:visits], whole_VW[:, dim + s : dim + 2 * s]
        for n, name in enumerate(("count_V", "loss_V", "effective_V", "answered_V"), dim + 2 * s):
            rows = getattr(scratch, name)[:visits]
            yield rows, (real_VW if rows.dtype == np.float32 else whole_VW)[:, n]
