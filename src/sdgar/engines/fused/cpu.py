"""The engine that runs an epoch as one compiled loop on the CPU."""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sdgar.contracts import Health, System
from sdgar.discriminators.factorization import Embeddings
from sdgar.engines import host
from sdgar.engines.fused.cpu_records import (
    Items,
    at_rate,
    for_users,
    items_of,
    known_of,
    order_of,
    rows_of,
    scratch_of,
    steps_of,
    summed,
    tables_of,
    variants_of,
    without_users,
)
from sdgar.engines.fused.plan import CPU
from sdgar.engines.fused.records import DrawSettings
from sdgar.engines.protocol import Coverage, EpochStats
from sdgar.engines.visits import Visits
from sdgar.machine import cores
from sdgar.maths.rng import Permutation, Stream, last_counter_word

if TYPE_CHECKING:
    from sdgar.data.interactions import Interactions
    from sdgar.kernels.numba.epoch import Loop
    from sdgar.kernels.records import Record

_STRETCH_SECONDS = 0.1
"""The seconds after which the number of threads is chosen again."""


class FusedCpuEngine:
    """Draw, score, weigh and update in one pass, by Numba; see ``kernels/numba/epoch.py``.

    It draws the negatives of the eager engine, and gives the same parameters up to float32
    rounding. The result is bit-identical for any number of threads.
    """

    name: ClassVar[str] = "fused-cpu"

    def __init__(
        self,
        system: System,
        data: Interactions,
        *,
        seed: int,
        device: torch.device,
        items: Items | None = None,
    ) -> None:
        """Lay out tables and rows; ``items`` are shared with engines that have other users."""
        host.require_covered(self.name, self.covers(system, device))
        self.system = system
        """The system whose epochs are run."""
        self._model = cast("Embeddings", system.discriminator)
        self._seed = seed
        self.steps_done = 0
        """The number of steps that were taken, also by engines that share the items."""
        self._n_rows = len(data)
        self._rows = rows_of(data)
        self._known = known_of(data)
        self._visits = Visits(data, system.positives_per_visit, seed, device)
        # A batch may be set larger than the data; no more is allocated than there are visits.
        self._batch = min(system.visits_per_step, len(self._visits))
        self._order = order_of(self._visits, system, seed, self._batch)
        self.items = items_of(self._model, system) if items is None else items
        """The tables of items, with the state of their steps."""
        self._steps = steps_of(self._model, system, self.items)
        self._tables = tables_of(self._model, self.items)
        self._loss = CPU.lower("objective", system)
        self._scratch = scratch_of(self._model, system, self._batch)
        self._stretch = 1
        """The batches that are run before the number of threads is chosen again."""
        self._own_T: list[Record] = []
        """The scratch memory of each thread."""
        self._compiled = False
        """True once the loop is compiled, or loaded."""
        self._proposal: Any = None
        """The sampler's tables, lowered; None once they have changed."""

    @classmethod
    def covers(cls, system: System, device: torch.device) -> Coverage:
        """Return whether the loop has code for all parts, and why."""
        if device.type != "cpu":
            return Coverage(False, f"it runs on the CPU, not on {device.type}")
        if (why := CPU.misfit(system)) is not None:
            return Coverage(False, why)
        if any(p.dtype != torch.float32 for p in system.discriminator.parameters()):
            return Coverage(False, "its tables are float32, and the discriminator's are not")
        from sdgar.kernels.cache import is_noted

        kept = is_noted(f"epoch.{variants_of(system)}")
        first = "" if kept else "; its first use here compiles it, which takes some seconds"
        return Coverage(True, f"one compiled loop on the CPU has code for all parts{first}")

    @classmethod
    def deterministic(cls, device: torch.device) -> bool:
        """Return True: rows are owned by threads, and every sum has one order."""
        return True

    def run_epoch(self, epoch: int) -> EpochStats:
        """Make one pass over the positives, in a fresh order."""
        start = time.perf_counter()
        self._scratch.totals_3[:] = 0
        self._run_batches(self._loop(epoch))
        self.steps_done += self._batches
        self._unpack()
        loss, effective, unanswered = self._scratch.totals_3.tolist()
        if not math.isfinite(loss):
            raise host.diverged(f"the loss became {loss / self._n_rows}", self.system, epoch)
        return host.mean_stats(self.system, self._n_rows, start, loss, effective, unanswered)

    def _loop(self, epoch: int) -> Loop:
        """Return what the compiled loop reads and writes in an epoch."""
        from sdgar.kernels.numba.epoch import Loop

        order = Permutation.of(
            len(self._visits), seed=self._seed, stream=Stream.SHUFFLE, epoch=epoch
        )
        if self._proposal is None:
            self._proposal = CPU.lower("sampler", self.system, self._draw_settings)
        return Loop(
            keys=np.array(order.keys, np.uint64),
            tail=last_counter_word(Stream.NEGATIVES, epoch),
            deal=last_counter_word(Stream.DEAL, epoch),
            steps_before=self.steps_done,
            rows=self._rows,
            known=self._known,
            order=self._order,
            proposal=self._proposal,
            scores=self.items.scores,
            loss=self._loss,
            steps=at_rate(self._steps, self.system.optimizer.rate(epoch)),
            tables=self._tables,
            scratch=self._scratch,
        )

    @property
    def _draw_settings(self) -> DrawSettings:
        return DrawSettings(self.system.n_negatives, np.uint64(self._seed), self._model.n_items)

    @property
    def _batches(self) -> int:
        return -(-len(self._visits) // self._batch)

    def _run_batches(self, loop: Loop) -> None:
        """Run all batches; every tenth of a second, choose how many threads have a core."""
        from sdgar.kernels.numba.epoch import run_batches
        from sdgar.kernels.records import Record

        record = Record(loop)
        own_T = self._thread_scratch(cores.threads())
        self._compile(own_T, record)
        done = 0
        while done < self._batches:
            upto = min(done + self._stretch, self._batches)
            start = time.perf_counter()
            run_batches(done, upto, own_T[: cores.threads_now(len(own_T))], record)
            seconds = time.perf_counter() - start
            self._stretch = max(1, round(_STRETCH_SECONDS * (upto - done) / seconds))
            done = upto

    def _thread_scratch(self, threads: int) -> list[Record]:
        """Return the scratch memory of each thread."""
        from sdgar.kernels.numba.epoch import workspace

        while len(self._own_T) < threads:
            self._own_T.append(
                workspace(
                    self._model.user_UD.shape[1],
                    self.system.positives_per_visit,
                    self.system.n_negatives,
                    self._batch,
                    self._scratch.place_VF.shape[1],
                )
            )
        return self._own_T[:threads]

    def _compile(self, own_T: list[Record], loop: Record) -> None:
        """Compile the loop before it is timed, which is once for an engine."""
        from sdgar.kernels.cache import note
        from sdgar.kernels.numba.epoch import run_batches

        if not self._compiled:
            with _without_garbage_collection():
                run_batches(0, 0, own_T[:1], loop)
            note(f"epoch.{variants_of(self.system)}")
            self._compiled = True

    @torch.no_grad()
    def refit(self, epoch: int) -> Health:
        """Update the sampler to the discriminator, and return its health."""
        from sdgar.kernels.numba import mixtures

        factors = self._model.factors()

        def score(users_B: Tensor, items_BN: Tensor) -> Tensor:
            tables = factors.user_UD, factors.item_ID, factors.bias_I
            return mixtures.score(*tables, users_B, items_BN)

        with cores.torch_threads(cores.threads_now(cores.threads())):
            health = self.system.sampler.refit(score, seed=self._seed, epoch=epoch)
        self._proposal = None
        return health

    @torch.no_grad()
    def _unpack(self) -> None:
        """Bring the parameters back to the model."""
        self._model.user_UD.copy_(torch.from_numpy(self._arrays()["user_UCD"][:, 0]))
        self._model.item_ID.copy_(torch.from_numpy(self._tables.item_ICD[:, 0]))
        if self._model.bias_I is not None:
            self._model.bias_I.copy_(torch.from_numpy(self._arrays()["bias_IC"][:, 0]))

    def user_tables(self) -> dict[str, NDArray[np.float32]]:
        """Return the tables of users that training changes, by their names in a checkpoint."""
        vectors = {"user_UCD": getattr(self._tables, "field_VCD", self._tables.user_UCD)}
        return vectors | summed("sum_U", self._steps.user)

    def drawn_tables(self) -> Any:
        """Return the sampler's tables of items, without the users' tables."""
        return without_users(self._proposal)

    def draw_from(self, drawn: Any) -> None:
        """Draw negatives from the tables of another engine, whose generator has the same items."""
        self._proposal = for_users(drawn, self.system, self._draw_settings)

    def _arrays(self) -> dict[str, NDArray[np.float32]]:
        """Return all tables that training changes, by their names in a checkpoint."""
        return self.user_tables() | self.items.arrays()

    def state(self) -> dict[str, Tensor]:
        """Return parameters, optimiser state and sampler state, under one flat set of names."""
        tables = {name: torch.from_numpy(table) for name, table in self._arrays().items()}
        optimizer = {"steps": torch.tensor(self.steps_done), **tables}
        sampler = self.system.sampler.state()
        return host.StateParts(self._model.state_dict(), optimizer, sampler).flat()

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Restore what ``state`` returned."""
        parts = host.StateParts.of(state)
        self.steps_done = int(parts.optimizer["steps"])
        for name, table in self._arrays().items():
            table[...] = parts.optimizer[name].numpy()
        self._unpack()
        self.system.sampler.load_state(parts.sampler)
        self._proposal = None


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Collect no garbage for a while: nearly all that a compiler allocates is used until it ends.

    This takes an eighth off the seconds in which the loop is compiled.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
