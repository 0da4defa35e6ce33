"""The engine of one of several processes, which train the same rows together on CPUs.

A process has the vectors of the users of its own shards. The processes of one machine share the
tables of items, and the factors of a batch: each scores the visits of its users, and moves some of
the items. Machines tell each other the factors of their visits, from which all of them move their
items alike; see ``kernels/numba/shared_epoch.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from sdgar.contracts import System
from sdgar.data.interactions import Interactions
from sdgar.engines.fused.cpu_records import Items
from sdgar.machine import cores
from sdgar.scale.common import Common
from sdgar.scale.dealt_cpu import Deal, DealtCpuEngine
from sdgar.scale.workers import Workers

if TYPE_CHECKING:
    from sdgar.kernels.numba.epoch import Scratch

_FACTORS = ("count_V", "item_e", "slope_e", "u_VD", "loss_V", "effective_V", "answered_V")
"""What the processes of a machine tell each other of the visits of a batch."""
_EXTRA = 4
"""The numbers that are sent of a visit besides its vector, slopes and items: a count, and three for
the log."""
_AT_ONCE = 64
"""The batches after which a process listens to signals."""
_THREADS = 5
"""The word in which the first process of a machine says how many threads it has."""


class Desk:
    """Where the processes of a machine put the factors of a batch; it grows with the batches."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._common: Common | None = None
        self._visits = 0
        self.used = False
        """Whether the processes have met there before."""

    def under(self, scratch: Scratch) -> Scratch:
        """Return what threads hand each other, with factors that all processes see."""
        if self._common is None or len(scratch.count_V) > self._visits:
            arrays = {name: getattr(scratch, name) for name in _FACTORS}
            shapes = {name: (array.shape, array.dtype) for name, array in arrays.items()}
            self._common, self._visits = Common(self._workers, shapes), len(scratch.count_V)
        return scratch._replace(**self._common.arrays)


class Shared(NamedTuple):
    """What the processes of a machine have in common."""

    common: Common
    """The tables of items, with the words in which the processes of a machine meet."""
    desk: Desk
    """The place for the factors of a batch."""


class SharedCpuEngine(DealtCpuEngine):
    """Run epochs with other processes, of which those of one machine share the tables of items.

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
        deal: Deal,
        shared: Shared,
    ) -> None:
        super().__init__(system, data, seed=seed, device=device, items=items, deal=deal)
        self._shared = shared

    def _run_batches(self, keys: Any, *args: Any) -> None:
        """Run all batches; between the halves of one, machines tell each other their factors."""
        from sdgar.kernels.numba import shared_epoch
        from sdgar.kernels.numba.processes import WORDS
        from sdgar.kernels.numba.threads import run
        from sdgar.kernels.records import laid

        workers, batch, words = self._deal.workers, self._batch, self._shared.common.words
        threads = cores.threads()
        positives, negatives = self.system.positives_per_visit, self.system.n_negatives
        dim = self._model.user_UD.shape[1]
        own_T = self._rooms(threads)
        scratch, dealt = self._shared.desk.under(self._scratch), self._dealt()
        records = tuple(laid((*args[:-1], scratch, self._scratch, dealt)))
        if workers.local == 0:
            words[_THREADS] = threads
        lost_1 = np.zeros(1, np.int32)

        def by_all(halves: int, first: int, last: int) -> None:
            here = workers.here
            meeting = shared_epoch.Shared(words[:WORDS], here, here * int(words[_THREADS]), lost_1)

            def part(t: int, of: int, barrier_4: Any) -> None:
                shared_epoch.shared_epoch(
                    t, of, barrier_4, halves, first, last, keys, *records, meeting, own_T[t],
                )  # fmt: skip

            run(part, threads)
            if lost_1[0]:
                raise workers.lost("it shared the memory of this machine")

        factors = _Factors(workers, dim, positives + negatives, batch)
        if not self._shared.desk.used:
            if workers.leads:  # the others load what it has compiled, where they share a folder
                by_all(shared_epoch.SCORE | shared_epoch.MOVE, 0, 0)
                factors.tell(0, dealt, scratch)
            workers.meet()
            self._shared.desk.used = True
        step = _AT_ONCE if workers.machines == 1 else 1
        for first in range(0, self._batches, step):
            last = min(first + step, self._batches)
            if workers.machines == 1:
                by_all(shared_epoch.SCORE | shared_epoch.MOVE, first, last)
                continue
            by_all(shared_epoch.SCORE, first, last)
            if workers.local == 0:
                factors.tell(min(batch, self._order.n_visits - first * batch), dealt, scratch)
            by_all(shared_epoch.MOVE, first, last)

    @torch.no_grad()
    def _unpack(self) -> None:
        """Bring the parameters back to the model: own users, and a part of the items."""
        workers, arrays = self._deal.workers, self._arrays()
        self._model.user_UD.copy_(torch.from_numpy(arrays["user_UCD"][:, 0]))
        edges = [self._model.n_items * (workers.local + one) // workers.here for one in (0, 1)]
        part = slice(*edges)
        self._model.item_ID[part] = torch.from_numpy(self._tables.item_ICD[part, 0])
        if self._model.bias_I is not None:
            self._model.bias_I[part] = torch.from_numpy(arrays["bias_IC"][part, 0])
        workers.meet()


class _Factors:
    """What the first process of a machine says to those of other machines, and hears of them."""

    def __init__(self, workers: Workers, dim: int, entries: int, batch: int) -> None:
        self._workers, self._entries = workers, entries
        rows = batch if workers.machines > 1 and workers.local == 0 else 0
        words = dim + 2 * entries + _EXTRA
        self._said = torch.zeros(rows, words, dtype=torch.int32)
        self._heard = torch.zeros(workers.machines * rows, words, dtype=torch.int32)

    def tell(self, visits: int, dealt: Any, scratch: Any) -> None:
        """Exchange the factors of the visits of a batch; nothing where there is one machine."""
        from sdgar.kernels.numba.shared_epoch import pack, unpack

        workers, s = self._workers, self._entries
        if workers.machines == 1:
            return
        pack(visits, s, workers.machine, dealt, scratch, _packed(self._said))
        most = int(dealt.count_M.max())
        if visits:
            workers.gather(self._said[:most], self._heard[: workers.machines * most])
        heard = _packed(self._heard)
        unpack(visits, s, workers.machine, most, dealt, heard, scratch)


def _packed(words_VW: torch.Tensor) -> Any:
    from sdgar.kernels.numba.shared_epoch import Packed

    whole_VW = words_VW.numpy()
    return Packed(whole_VW.view(np.float32), whole_VW)
