"""The engine of one of several processes, each of which has a part of the users and of the items.

Item i belongs to process i mod R, with its vector, its bias, what the optimiser keeps of it and
its y_i; the table that state k draws items from belongs to process k mod R. A process fetches the
rows of the items that its visits of a batch meet, and tells the owners of these items how to move
them; see ``kernels/numba/owned_epoch.py``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sdgar.contracts import Health, System
from sdgar.data.interactions import Interactions
from sdgar.engines.fused.cpu_records import Items, scratch_of
from sdgar.engines.fused.plan import Asked
from sdgar.machine import cores
from sdgar.samplers.decomposable import Decomposable
from sdgar.scale.dealt_cpu import Deal, DealtCpuEngine
from sdgar.scale.owned_sampler import OwnedGenerator
from sdgar.scale.rows import Fetched, Rows
from sdgar.scale.workers import ALONE


@dataclass(slots=True, eq=False)
class Owned:
    """How items, and the tables of states, are shared out."""

    items: Rows
    """The rows of tables of items."""
    states: Rows
    """The tables that states draw items from."""
    compiled: bool = False
    """Whether the first process has compiled the kernels, which the others then load."""


class OwnedCpuEngine(DealtCpuEngine):
    """Run epochs with other processes; this one has its part of the users and of the items.

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
        owned: Owned,
    ) -> None:
        """Lay out users and rows; ``items`` and the tables of ``system`` have own rows only."""
        super().__init__(system, data, seed=seed, device=device, items=items, deal=deal)
        self._owned = owned

    @property
    def _asked(self) -> Asked:
        return super()._asked._replace(n_items=self._owned.items.count)

    def _run_batches(self, *args: Any) -> None:
        """Run all batches, and add up what the log counts."""
        workers, owned = self._deal.workers, self._owned
        if not owned.compiled:
            if workers.leads:
                alone = Owned(Rows(ALONE, owned.items.count), Rows(ALONE, owned.states.count))
                _Batches(self, alone, args).run(0, 0)
            workers.meet()
            owned.compiled = True
        batches, before = _Batches(self, owned, args), workers.swapped
        for first in range(0, self._order.n_visits, self._batch):
            batches.run(first, min(self._batch, self._order.n_visits - first))
        workers.sent += workers.swapped - before
        totals_3 = torch.from_numpy(self._scratch.totals_3)
        totals_3.copy_(workers.told(totals_3).sum(dim=0))

    @torch.no_grad()
    def refit(self, epoch: int) -> Health:
        """Let the sampler follow the discriminator, together with the other processes."""
        sampler = self.system.sampler
        if not isinstance(sampler, Decomposable):
            return super().refit(epoch)
        factors = self._model.factors()
        generator = OwnedGenerator(sampler, factors, self._owned.items, self._owned.states)
        health = generator.refit(seed=self._seed, epoch=epoch)
        self._proposal = None
        return health


class _Batches:
    """The batches of an epoch, with the room that each of them needs."""

    def __init__(self, engine: OwnedCpuEngine, owned: Owned, args: Any) -> None:
        from sdgar.kernels.numba import owned_epoch
        from sdgar.kernels.numba.epoch import own
        from sdgar.kernels.records import Laid

        self._kernels, self._owned = owned_epoch, owned
        (
            self._keys, self._tail, self._deal, self._steps_before, self._rows, self._known,
            self._order, self._proposal, self._scores, self._loss, self._steps, self._tables,
            self._own_scratch,
        ) = args  # fmt: skip
        self._rows, self._known = Laid(self._rows), Laid(self._known)
        system, batch = engine.system, self._order.batch
        self._p, self._n = system.positives_per_visit, system.n_negatives
        self._s, self._dim = self._p + self._n, self._tables.item_ICD.shape[2]
        self._dealt = engine._dealt()
        self._scratch = scratch_of(engine._model, system, batch)
        room = self._dim, self._p, self._n, batch, 1
        self._own_T = [own(*room) for _ in range(cores.threads())]
        self._met = owned_epoch.Met(
            user_V=np.zeros(batch, np.int64),
            row_V=np.zeros(batch, np.int64),
            item_VS=np.zeros((batch, self._s), np.int64),
            ok_VN=np.zeros((batch, self._n), np.bool_),
            words_A3=np.zeros((batch * self._n, 3), np.int32),
        )
        count = owned.items.workers.count
        self._last_R, self._head_R = (np.zeros(count, np.int64) for _ in range(2))
        self._count_R2 = np.zeros((count, 2), np.int64)

    def run(self, first: int, visits: int) -> None:
        """Run the batch of the visits first … first + visits - 1 of the order."""
        kernels = self._kernels
        mine = kernels.draw_own(
            first, visits, self._keys, self._tail, self._deal, self._rows, self._known,
            self._order, self._proposal, self._scores, self._tables, self._dealt, self._scratch,
            self._met, self._own_T[0],
        )  # fmt: skip
        if hasattr(self._proposal, "item_bins"):
            self._draw_items(mine)
        fetched, index_VS = self._owned.items.fetch(self._met.item_VS[:mine], self._rows_at)
        self._score(fetched.rows_UW.numpy(), index_VS)
        real_W = self._told(mine, fetched)
        kernels.unpack(visits, self._s, real_W, real_W.view(np.int32), self._scratch)
        step = self._steps_before + first // self._order.batch + 1
        self._on_threads(
            kernels.move_own, visits, step, self._p, self._n, self._scores, self._steps,
            self._tables, self._dealt, self._scratch, self._own_scratch,
        )  # fmt: skip

    def _on_threads(self, kernel: Any, *args: Any) -> None:
        from sdgar.kernels.numba.threads import run

        def part(t: int, threads: int, barrier_4: Any) -> None:
            kernel(t, threads, barrier_4, *args, self._own_T[t])

        run(part, len(self._own_T))

    def _draw_items(self, mine: int) -> None:
        """Let the owners of tables draw items, and ask again for what is a known positive."""
        kernels, p, met = self._kernels, self._p, self._met
        item_A = self._asked(met.words_A3[: mine * self._n])
        refused = kernels.take_first(mine, p, self._known, item_A, met)
        words_A3 = np.zeros((refused * kernels.TRIES, 3), np.int32)
        kernels.ask_again(mine, self._tail, self._proposal, met, words_A3)
        kernels.take_again(mine, p, self._known, self._asked(words_A3), met)

    def _asked(self, words_A3: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the items that states draw by these words."""

        def answer(asked_A3: Tensor) -> Tensor:
            item_A = torch.empty(len(asked_A3), dtype=torch.int32)
            p = self._proposal
            self._kernels.open_bins(asked_A3.numpy(), p.n_items, p.item_bins, item_A.numpy())
            return item_A

        words = torch.from_numpy(words_A3)
        return self._owned.states.ask(words_A3[:, 0].copy(), words, answer).numpy()

    def _rows_at(self, places: NDArray[Any]) -> Tensor:
        """Return the vector, the bias and the y of own items, one after the other."""
        y_IK = getattr(self._proposal, "y_IK", None)
        states, dim = 0 if y_IK is None else y_IK.shape[1], self._dim
        rows_UW = np.zeros((len(places), dim + 1 + states), np.float32)
        rows_UW[:, :dim] = self._tables.item_ICD[places, 0]
        if hasattr(self._scores, "bias_IC"):
            rows_UW[:, dim] = self._scores.bias_IC[places, 0]
        if y_IK is not None:
            rows_UW[:, dim + 1 :] = y_IK[places]
        return torch.from_numpy(rows_UW)

    def _score(self, rows_UW: NDArray[np.float32], index_VS: NDArray[np.int64]) -> None:
        """Score own visits, with the rows of their items alone."""
        dim = self._dim
        vectors, bias, y_IK = (
            np.ascontiguousarray(part) for part in np.split(rows_UW, [dim, dim + 1], axis=1)
        )
        scores, proposal = self._scores, self._proposal
        if hasattr(scores, "bias_IC"):
            scores = scores._replace(bias_IC=bias)
        if hasattr(proposal, "y_IK"):
            proposal = proposal._replace(y_IK=y_IK)
        tables = self._tables._replace(item_ICD=vectors.reshape(len(vectors), 1, dim))
        self._on_threads(
            self._kernels.score_own, self._tail, self._deal, self._rows, self._known, self._order,
            proposal, scores, self._loss, self._steps, tables, self._dealt, index_VS, self._met,
            self._own_scratch,
        )  # fmt: skip

    def _told(self, mine: int, fetched: Fetched) -> NDArray[np.float32]:
        """Tell the owners of items the factors of own visits, and return those of own items."""
        kernels, workers, scratch = self._kernels, self._owned.items.workers, self._own_scratch
        kernels.count_factors(
            mine, self._s, fetched.owner_U, scratch, self._last_R, self._count_R2
        )  # fmt: skip
        each = np.array([kernels.HEAD + self._dim, kernels.ENTRY])
        words_R = self._count_R2 @ each
        end_R = np.cumsum(words_R) - words_R
        real_W = np.zeros(int(words_R.sum()), np.float32)
        kernels.pack(
            mine, self._s, fetched.owner_U, fetched.place_U, self._dealt, scratch, self._last_R,
            self._head_R, end_R, real_W, real_W.view(np.int32),
        )  # fmt: skip
        heard_W, _ = workers.swap(torch.from_numpy(real_W), words_R.tolist())
        return heard_W.numpy()
