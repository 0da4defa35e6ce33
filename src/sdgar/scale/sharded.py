"""Train on shards: users pass through memory block by block, items stay.

Validation rows are those of some users, and are set aside as ``protocols`` does with rows in
memory: they choose the number of epochs, or where that is fixed the weight of the memory half way,
and are then trained on too.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import torch

from sdgar.data.history import History
from sdgar.data.interactions import Interactions
from sdgar.engines.choose import choose_device
from sdgar.errors import UsageError
from sdgar.machine import cores
from sdgar.machine.memory import allocated_bytes
from sdgar.maths.neighbours import as_matrix
from sdgar.maths.rng import Stream
from sdgar.maths.sparse import SparseMatrix
from sdgar.maths.transposing import Rows
from sdgar.models.factors import Factors
from sdgar.models.item_weights import LocalItemWeights
from sdgar.models.model import Learned, Model
from sdgar.scale.blocks import BlockEngine, ForUsers
from sdgar.scale.gpu_blocks import GpuBlockEngine
from sdgar.scale.shards import Shards
from sdgar.scale.shards.blocks import Blocks
from sdgar.scale.shards.held import Held, Without, hold
from sdgar.scale.users import InMemory, OnDevice, Users
from sdgar.scale.users_on_disk import UsersOnDisk
from sdgar.scale.workers import ALONE, Workers
from sdgar.settings import TOGETHER
from sdgar.training.fit import EpochRecord, FitOptions, Fitted, fit
from sdgar.training.memory import beside
from sdgar.training.protocols import Training
from sdgar.training.trained import Phase, Trained

_CPU = torch.device("cpu")
_NOBODY = History(np.zeros(1, np.int64), np.zeros(0, np.int32))
START_ROWS = 4_000_000
"""The most rows that the vectors and the generator are started on; of more, the first shards."""
FEW = 0.001
"""The share of all rows that the memory may do without: it is not solved for anew to have them.
Neither does a model of one epoch go over all rows again to have them."""
_FOR_ARRAYS = 0.9
"""The share of the memory for arrays and rows; the rest is for code and other pages of files."""
_ROW_BYTES = 9
"""The bytes of a row in files that are read here and there while weights are solved for: its item,
its user, and some for where those of a user begin."""
VALID_SHARE = 0.1
"""The share of the rows of a validation user that is set aside."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OnShards:
    """How training on shards goes: what is together, and where users are between two visits."""

    together: int = TOGETHER
    """The number of shards whose users are in memory together."""
    work: Path | None = None
    """The folder for what belongs to users; None keeps all users in memory."""
    memory: int = 4 << 30
    """The bytes that the process may have while weights between items are solved for. They take
    what is left of it, or a quarter of it if that is more."""
    workers: Workers = ALONE
    """The processes that train together; several need a folder that all of them see."""
    on_gpu: bool = False
    """Whether users wait on the GPU while others are trained there, instead of in memory."""
    gpu_memory: int | None = None
    """The bytes of a GPU that training there may take; None allows all that are free."""

    def device(self, asked: str) -> torch.device:
        """Return the device that was asked for; several workers train on CPUs."""
        several = self.workers.count > 1
        return choose_device("cpu" if several and asked == "auto" else asked)

    def users(self, name: str, n_shards: int) -> Users:
        """Return the place for users of the pass of this name."""
        if self.work is None:
            return OnDevice() if self.on_gpu else InMemory()
        return UsersOnDisk(self.work / f"users-{name}", n_shards, self.workers.owns)


@dataclass(frozen=True, slots=True)
class _Watched:
    """The model of some users, for looks at validation rows."""

    engine: BlockEngine
    held: Held

    def learned(self) -> Factors:
        """Return the vectors of these users, and of items."""
        return learned_of(self.engine, self.held)


def learned_of(engine: BlockEngine, held: Held) -> Factors:
    """Return the model of the users of held-out rows alone, numbered from 0."""
    start_B1, vectors = engine.blocks.start_B1, []
    for block in range(len(engine.blocks)):
        first, last = int(start_B1[block]), int(start_B1[block + 1])
        own_T = held.users_T[(held.users_T >= first) & (held.users_T < last)] - first
        if len(own_T):
            model = engine.learned_of(block)
            vectors.append(model.user_UD[torch.from_numpy(own_T)])
    return replace(model, user_UD=torch.cat(vectors))


def room_for_weights(memory: int, n_rows: int, taken: int) -> int:
    """Return the bytes that weights between items may allocate, if so many are taken already."""
    return max(int(_FOR_ARRAYS * memory) - n_rows * _ROW_BYTES - taken, memory // 4)


def _beside(history: History, weight_II: SparseMatrix | None) -> LocalItemWeights | None:
    """Return the memory of some histories, if there are weights between items.

    Histories of all users lie in a file, and stay there.
    """
    if weight_II is None:
        return None
    rows = Rows(history.indptr_U1, history.items_E)
    return LocalItemWeights(as_matrix(rows, weight_II.n_columns), weight_II)


class ShardedTraining:
    """Training on shards, with the settings and the log of a ``protocols.Training``."""

    def __init__(
        self, training: Training, shards: Shards, how: OnShards, for_users: ForUsers
    ) -> None:
        several = how.workers.count > 1
        if (training.checkpoints is not None or several) and how.work is None:
            raise UsageError(
                "a run on shards that is kept in checkpoints, or trained by several workers, needs "
                "a folder for its users. Set work to one.",
                code="no_work",
            )
        self._training, self._shards = training, shards
        self._how, self._for_users = how, for_users
        self._require_sound()

    @property
    def _on_gpu(self) -> bool:
        """True if blocks are trained by the engine of the GPU."""
        asked = self._training.engine == GpuBlockEngine.name
        return asked or self._training.device.type == "cuda"

    def _require_sound(self) -> None:
        """Raise if what was asked for does not go together."""
        kind = GpuBlockEngine if self._on_gpu else BlockEngine
        if (asked := self._training.engine) not in ("auto", kind.name):
            raise UsageError(
                f"shards are trained on by {kind.name} here, and engine is {asked}. Leave it out.",
                code="not_covered",
            )
        if self._on_gpu and self._how.workers.count > 1:
            raise UsageError(
                f"{self._how.workers.count} workers train together on CPUs only. Use one process "
                'for the GPU, or device="cpu".',
                code="not_covered",
            )
        if self._how.on_gpu and not self._on_gpu:
            raise UsageError(
                'users can wait on the GPU only if it trains them. Use device="cuda", or set '
                "on_gpu to False.",
                code="not_covered",
            )

    @cached_property
    def everything(self) -> Interactions:
        """All rows, as a load in memory has them; with a folder for work they lie in files."""
        return self._shards.interactions(self._how.work)

    def run(self) -> Trained:
        """Choose on validation rows, train on all rows, and return the model of all users."""
        training, options = self._training, self._training.options
        valid = self._valid()
        rest = Without(self._shards, valid.rows_E)
        weight_II = self._remember(rest)
        memory = _beside(valid.seen, weight_II)
        few = len(valid.rows_E) <= FEW * self._shards.n_rows
        joined = options.keep_last and (options.epochs > 1 or few)
        engine = self._engine(rest, everything=False)
        first = replace(options, epochs=options.half) if joined else options
        chosen = self._pass("choose", engine, first, valid, memory)
        weight, means = training.judged(chosen.model, memory, valid.held_out, valid.seen)
        if joined:
            engine.go_on_with(Blocks(self._shards, self._how.together))
            kept = self._pass("final", engine, options, after=chosen)
            chosen = kept if kept.log else chosen
        else:
            del engine  # before the next one is made
            engine = self._engine(self._shards, everything=True)
            kept = self._pass("final", engine, replace(options, epochs=chosen.best_epoch))
        del engine
        if weight and not few:
            weight_II = self._remember(self._shards)
        memory = _beside(self.everything.history, weight_II) if weight else None
        return training.done(kept, chosen, means, memory, weight)

    def follow(self) -> None:
        """Do what the first worker tells this one to do, until it says that training is over."""
        rest = Without(self._shards, self._valid().rows_E)
        workers, engine = self._how.workers, None
        while (told := workers.hear()) != {"do": "end"}:
            if told["do"] == "engine":
                everything = bool(told["everything"])
                engine = self._engine(self._shards if everything else rest, everything=everything)
                continue
            assert engine is not None
            match told:
                case {"do": "run_epoch", "epoch": int(epoch)}:
                    self._run_epoch(engine, epoch)
                case {"do": "refit", "epoch": int(epoch)}:
                    engine.refit(epoch)
                case {"do": "go_on"}:
                    engine.go_on_with(Blocks(self._shards, self._how.together))
                case {"do": "state"}:
                    engine.state()
                case {"do": "load_state"}:
                    engine.load_state({})

    @cores.torch_threads()
    def _run_epoch(self, engine: BlockEngine, epoch: int) -> None:
        engine.run_epoch(epoch)

    def _valid(self) -> Held:
        """Set validation rows aside."""
        return hold(
            self._shards, users=self._training.options.valid_users, share=VALID_SHARE,
            seed=self._training.seed, stream=Stream.SPLIT_VALID,
        )  # fmt: skip

    def _remember(self, shards: Shards) -> SparseMatrix | None:
        """Solve for the weights between items, if there is to be a memory."""
        memory = self._training.memory
        if memory is None:
            return None
        before = time.perf_counter()
        if self._how.work is None:
            found = memory.of(Blocks(shards, shards.n_shards)[0], _CPU)
        else:
            left = room_for_weights(self._how.memory, shards.n_rows, allocated_bytes())
            found = LocalItemWeights.from_shards(
                shards, memory.neighbourhoods, work=self._how.work, memory=left
            )
        self._training.memory_seconds += time.perf_counter() - before
        return found.weight_II

    def _engine(self, shards: Shards, *, everything: bool) -> BlockEngine:
        """Start a system on the first shards, and lay out its items.

        The first worker does so, and the others are given the items.
        """
        self._how.workers.tell(do="engine", everything=everything)
        training, blocks = self._training, Blocks(shards, self._how.together)
        before = time.perf_counter()
        enough = int((shards.rows_S.cumsum() <= START_ROWS).sum())
        first = blocks.rows(0, max(1, enough))
        system = training.recipe.compose(
            first, seed=training.seed, device=training.device, start=self._how.workers.leads
        )
        training.start_seconds += time.perf_counter() - before
        kind = GpuBlockEngine if self._on_gpu else BlockEngine
        training.why = kind.covers(system, training.device).why
        training.chosen_engine, training.deterministic = kind.name, True
        users = self._how.users("final" if everything else "choose", shards.n_shards)
        if self._on_gpu:
            return GpuBlockEngine(
                system, first, blocks, seed=training.seed, for_users=self._for_users, users=users,
                device=training.device,
            )  # fmt: skip
        return BlockEngine(
            system, first, blocks, seed=training.seed, for_users=self._for_users, users=users,
            workers=self._how.workers,
        )  # fmt: skip

    @cores.torch_threads()
    def _pass(
        self,
        phase: Phase,
        engine: BlockEngine,
        options: FitOptions,
        valid: Held | None = None,
        memory: LocalItemWeights | None = None,
        after: Fitted | None = None,
    ) -> Fitted:
        """Run one pass of the loop; looks at validation rows are for their users alone."""
        training = self._training

        def tell(epoch: EpochRecord) -> None:
            if training.on_epoch is not None:
                training.on_epoch(phase, epoch)

        def judged(model: Learned) -> Model:
            return beside(model, memory, 0.0 if training.memory is None else training.memory.usual)

        system = engine.system
        if valid is not None:
            system = replace(system, recommends=_Watched(engine, valid))
        kept = training.checkpoints
        fitted = None if kept is None else kept.finished(phase, system.learned)
        if fitted is None:
            fitted = fit(
                system, engine, options, held_out=None if valid is None else valid.held_out,
                seen=_NOBODY if valid is None else valid.seen, on_epoch=tell, judged=judged,
                keeper=None if kept is None else kept.keeper(phase, system.learned), after=after,
            )  # fmt: skip
            if kept is not None:
                kept.finish(phase, fitted)
        else:
            for epoch in fitted.log:
                tell(epoch)
        training.log += [(phase, epoch) for epoch in fitted.log]
        training.positives += engine.blocks.shards.n_rows * len(fitted.log)
        return fitted
