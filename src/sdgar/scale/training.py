"""Train on shards: users pass through RAM block by block, items stay.

Validation rows belong to a sample of users, and are set aside as ``fitting`` does with rows in
RAM. They choose the number of epochs, or the weight of the item memory half way if that number is
fixed, and are then trained on too.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
import torch

from sdgar.arguments import below_one
from sdgar.data.history import History
from sdgar.data.interactions import Interactions
from sdgar.engines.choose import choose_device
from sdgar.errors import UsageError
from sdgar.machine import cores
from sdgar.machine.memory import allocated_bytes
from sdgar.maths.rng import Stream, check_seed
from sdgar.maths.rows import Rows
from sdgar.models.item_weights import LocalItemWeights
from sdgar.scale.block_engine import BlockEngine
from sdgar.scale.block_system import ValidationUsers
from sdgar.scale.gpu_block_engine import GpuBlockEngine
from sdgar.scale.item_weights import item_weights_from_shards
from sdgar.scale.needs import START_ROWS, gpu_needs
from sdgar.scale.shards import Shards
from sdgar.scale.shards.views import Held, ShardBlocks, Without, hold
from sdgar.scale.users import UsersOnDisk, UserStore
from sdgar.scale.workers import ALONE, Workers
from sdgar.settings import TOGETHER
from sdgar.show import progress
from sdgar.systems.recipe import recipe_of
from sdgar.training.checkpoints import Checkpoints
from sdgar.training.loop import Training
from sdgar.training.records import VALID_USERS, FitOptions, Fitted, OnPhase, Phase, Trained

if TYPE_CHECKING:
    from sdgar.systems.learner import Learner

_CPU = torch.device("cpu")
_NOBODY = History(np.zeros(1, np.int64), np.zeros(0, np.int32))
FEW = 0.001
"""The share of all rows that may be left out of the item memory: it is not solved again for them.
Nor does a model of one epoch visit all rows again for them."""
_FOR_ARRAYS = 0.9
"""The share of the RAM for arrays and rows; the rest is for code and other pages of files."""
_ROW_BYTES = 9
"""The bytes of a row in files that are read here and there while weights are solved for: its item,
its user, and some for where the rows of a user begin."""
VALID_SHARE = 0.1
"""The share of the rows of a validation user that is set aside."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OnShards:
    """Settings of training on shards: the size of a block, and where users wait between visits."""

    together: int = TOGETHER
    """The number of shards whose users are in RAM at the same time."""
    work: Path | None = None
    """The folder for what belongs to users; None keeps all users in RAM."""
    ram: int = 4 << 30
    """The bytes that the process may have while weights between items are solved for. They take
    what is left of it, or a quarter of it if that is more."""
    workers: Workers = ALONE
    """The processes that train together; several need a folder that all of them see."""
    on_gpu: bool = False
    """Whether users wait on the GPU while others are trained there, instead of in RAM."""
    gpu_memory: int | None = None
    """The bytes of a GPU that training there may take; None allows all that are free."""

    def device(self, name: str) -> torch.device:
        """Return the device of this name; ``auto`` is the CPU for several workers."""
        several = self.workers.count > 1
        return choose_device("cpu" if several and name == "auto" else name)

    def users(self, name: str, n_shards: int) -> UserStore:
        """Return the place for users of the pass of this name."""
        if self.work is None:
            return UserStore(on_device=self.on_gpu)
        return UsersOnDisk(self.work / f"users-{name}", n_shards, self.workers.owns)


LearnerT = TypeVar("LearnerT", bound="Learner")


def fit_shards(
    estimator: LearnerT,
    shards: Shards,
    *,
    together: int = TOGETHER,
    work: str | Path | None = None,
    ram: int = 4 << 30,
    users_on_gpu: bool = False,
    gpu_memory: int | None = None,
    verbose: bool | None = None,
) -> LearnerT:
    """Train a system on interactions in shards, of which some are in RAM at a time.

    Users of other shards wait in RAM, in a folder (``work``), or on the GPU that trains
    (``users_on_gpu``). That does not change the model. ``together`` shards are trained at a time.
    ``ram`` bounds the bytes of RAM for solving for item-item weights, and ``gpu_memory`` the
    bytes of the GPU.

    >>> data = sdgar.Interactions.from_arrays([1, 1, 2, 2, 3], ["a", "b", "b", "c", "a"])
    >>> shards = sdgar.Shards.write(data, "some.shards", 2)
    >>> model = sdgar.fit_shards(sdgar.BPR(dim=2, epochs=3), shards)
    >>> sorted(model.recommend([3], k=2)["item"])
    ['b', 'c']
    """
    how = OnShards(
        together=together,
        work=None if work is None else Path(work),
        ram=ram,
        on_gpu=users_on_gpu,
        gpu_memory=gpu_memory,
    )
    train_on_shards(estimator, shards, how, verbose=verbose)
    return estimator


def train_on_shards(
    estimator: Learner,
    shards: Shards,
    how: OnShards,
    *,
    on_epoch: OnPhase | None = None,
    checkpoints: Checkpoints | None = None,
    verbose: bool | None = None,
) -> None:
    """Train a system on shards, as the first of the workers; it keeps the trained model."""
    if below_one("sampler__dislikes", estimator.sampler.dislikes):
        raise UsageError(
            "training on shards draws no dislikes, and sampler__dislikes is "
            f"{estimator.sampler.dislikes:g}. Set it to 0, or read the events into RAM.",
            code="unused_dislikes",
        )
    sharded = ShardedTraining(estimator, shards, how, checkpoints)
    require_on_gpu(estimator, shards, how)
    training = sharded.training
    with progress.training(
        recipe_of(estimator).name,
        shards.size_text(),
        training.options.epochs,
        metric=training.options.metric,
        verbose=verbose,
        on_epoch=on_epoch,
    ) as training.on_epoch:
        trained = sharded.run()
    estimator._keep_trained(trained, sharded.everything, verbose)


def require_on_gpu(estimator: Learner, shards: Shards, how: OnShards) -> None:
    """Raise if training takes more memory of the GPU than it may; on a CPU it takes none."""
    device = how.device(estimator.device)
    if device.type == "cuda":
        needs = gpu_needs(estimator, shards, how.together, on_gpu=how.on_gpu)
        needs.require_within(how.gpu_memory, how.together, device)


class ShardedTraining:
    """Training on shards, with the settings and the log of a ``Training``."""

    def __init__(
        self,
        estimator: Learner,
        shards: Shards,
        how: OnShards,
        checkpoints: Checkpoints | None = None,
    ) -> None:
        """Settle the system; raise if it and the settings do not go together."""
        if (checkpoints is not None or how.workers.count > 1) and how.work is None:
            raise UsageError(
                "a run on shards that is kept in checkpoints, or trained by several workers, needs "
                "a folder for its users. Set work to one.",
                code="no_work",
            )
        rows = cast("Interactions", shards)  # of which only sizes are read
        settled = recipe_of(estimator).settled(rows)
        assert settled.loop is not None
        self.training = Training(
            recipe=settled,
            options=settled.loop,
            seed=check_seed(estimator.seed),
            engine=estimator.engine,
            device=how.device(estimator.device),
            checkpoints=checkpoints,
            memory=recipe_of(estimator).item_memory(rows),
        )
        """The settings and the log."""
        self._shards, self._how = shards, how
        of_gpu = (GpuBlockEngine.name, GpuBlockEngine.block_engine_class.name)
        on_gpu = estimator.engine in of_gpu or self.training.device.type == "cuda"
        self._kind: type[BlockEngine] = GpuBlockEngine if on_gpu else BlockEngine
        wrong, kind, several = "", self._kind.block_engine_class.name, how.workers.count
        if estimator.engine not in ("auto", self._kind.name, kind):
            wrong = (
                f"shards are trained on by {kind} here, and engine is {estimator.engine}. "
                "Leave it out."
            )
        elif on_gpu and several > 1:
            wrong = (
                f"{several} workers train together on CPUs only. Use one process for the GPU, or "
                'device="cpu".'
            )
        elif how.on_gpu and not on_gpu:
            wrong = (
                'users can wait on the GPU only if it trains them. Use device="cuda", or set '
                "on_gpu to False."
            )
        if wrong:
            raise UsageError(wrong, code="not_covered")

    @cached_property
    def everything(self) -> Interactions:
        """All rows, as a load in memory has them; with a folder for work they lie in files."""
        return self._shards.interactions(self._how.work)

    def run(self) -> Trained:
        """Choose on validation rows, train on all rows, and return the model of all users."""
        training, options = self.training, self.training.options
        valid = self._valid()
        rest = Without(self._shards, valid.rows_E)
        weight_II = self._remember(rest)
        memory = None if weight_II is None else LocalItemWeights(valid.seen, weight_II)
        few = len(valid.rows_E) <= FEW * self._shards.n_rows
        joined = options.keep_last and (options.epochs > 1 or few)
        engine = self._engine(rest, everything=False)
        first = replace(options, epochs=options.half) if joined else options
        chosen = self._pass("choose", engine, first, valid, memory=memory)
        weight, means = training.weight_of(chosen.model.model(), memory, valid.held_out, valid.seen)
        if joined:
            engine.continue_with(ShardBlocks(self._shards, self._how.together))
            kept = self._pass("final", engine, options, None, after=chosen)
            chosen = kept if kept.log else chosen
        else:
            del engine  # before the next one is made
            engine = self._engine(self._shards, everything=True)
            kept = self._pass("final", engine, replace(options, epochs=chosen.best_epoch), None)
        del engine
        if weight and not few:
            weight_II = self._remember(self._shards)
        memory = None
        if weight and weight_II is not None:  # histories of all users lie in a file, and stay there
            memory = LocalItemWeights(self.everything.history, weight_II)
        return training.done(kept, chosen, means, memory, weight)

    def follow(self) -> None:
        """Follow the orders of the first worker until training is over."""
        rest = Without(self._shards, self._valid().rows_E)
        workers, engine = self._how.workers, None
        while (order := workers.receive()) != {"do": "end"}:
            if order["do"] == "engine":
                everything = bool(order["everything"])
                engine = self._engine(self._shards if everything else rest, everything=everything)
                continue
            assert engine is not None
            if order["do"] == "continue":
                engine.continue_with(ShardBlocks(self._shards, self._how.together))
                continue
            with cores.torch_threads():
                engine.follow(**order)

    def _valid(self) -> Held:
        """Set validation rows aside."""
        return hold(
            self._shards, users=VALID_USERS, share=VALID_SHARE,
            seed=self.training.seed, stream=Stream.SPLIT_VALID,
        )  # fmt: skip

    def _remember(self, shards: Shards) -> Rows | None:
        """Solve for the item-item weights, if the system has an item memory."""
        memory = self.training.memory
        if memory is None:
            return None
        before = time.perf_counter()
        if self._how.work is None:
            found = memory.solve(ShardBlocks(shards, shards.n_shards)[0], _CPU)
        else:
            ram, taken = self._how.ram, shards.n_rows * _ROW_BYTES + allocated_bytes()
            left = max(int(_FOR_ARRAYS * ram) - taken, ram // 4)
            found = item_weights_from_shards(
                shards, memory.neighbourhoods, work=self._how.work, memory=left
            )
        self.training.memory_seconds += time.perf_counter() - before
        return found.weight_II

    def _engine(self, shards: Shards, *, everything: bool) -> BlockEngine:
        """Start a system on the first shards, and lay out its items.

        The first worker does so, and the others are given the items.
        """
        self._how.workers.send(do="engine", everything=everything)
        training, blocks = self.training, ShardBlocks(shards, self._how.together)
        before = time.perf_counter()
        enough = int((shards.rows_S.cumsum() <= START_ROWS).sum())
        first = blocks.rows(0, max(1, enough))
        system = training.recipe.compose(
            first, seed=training.seed, device=training.device, start=self._how.workers.leads
        )
        training.start_seconds += time.perf_counter() - before
        kind = self._kind
        training.why = kind.covers(system, training.device).why
        training.chosen_engine, training.deterministic = kind.name, True
        return kind(
            system,
            blocks,
            first=first,
            users=self._how.users("final" if everything else "choose", shards.n_shards),
            workers=self._how.workers,
            seed=training.seed,
            device=training.device,
        )

    def _pass(
        self,
        phase: Phase,
        engine: BlockEngine,
        options: FitOptions,
        valid: Held | None,
        **more: Any,
    ) -> Fitted:
        """Run one pass of the loop; only the validation users are ranked for."""
        system, held_out, seen = engine.system, None, _NOBODY
        if valid is not None:
            system = replace(system, recommends=ValidationUsers(engine, valid))
            held_out, seen = valid.held_out, valid.seen
        return self.training.loop(
            phase, system, lambda: engine, options, n_rows=engine.blocks.shards.n_rows,
            held_out=held_out, seen=seen, **more,
        )  # fmt: skip
