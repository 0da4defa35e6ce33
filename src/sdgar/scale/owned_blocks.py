"""Epochs over users in blocks, by workers that share the items out: each has its own rows alone.

The first worker starts the items. Before the first epoch it gives every worker its rows, and lets
go of the others. From then on no worker has all items, but for the first one as it looks at
validation rows, writes a checkpoint or ends: then it collects the rows of all.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sdgar.contracts import Covered, EpochStats, NotCovered, System
from sdgar.data.interactions import Interactions
from sdgar.discriminators.cosine import Cosine
from sdgar.discriminators.factorization import MatrixFactorization
from sdgar.engines import host
from sdgar.engines.fused.cpu import FusedCpuEngine
from sdgar.engines.fused.cpu_records import items_of
from sdgar.machine import cores
from sdgar.maths import least_squares
from sdgar.models.factors import Factors
from sdgar.objectives import Logistic, PairwiseLogistic, SampledSoftmax, WeightedLogistic
from sdgar.samplers.ablations import Frozen, Scrambled
from sdgar.samplers.alias import AliasTables
from sdgar.samplers.closed_form import ClosedForm
from sdgar.samplers.decomposable import Decomposable
from sdgar.samplers.em import ExpectationMaximization
from sdgar.samplers.static import Uniform
from sdgar.scale.blocks import BlockEngine
from sdgar.scale.owned_cpu import Owned, OwnedCpuEngine
from sdgar.scale.rows import Rows

_CPU = torch.device("cpu")
_COVERED = {
    "discriminator": (MatrixFactorization, Cosine),
    "sampler": (Uniform, Decomposable),
    "objective": (PairwiseLogistic, Logistic, WeightedLogistic, SampledSoftmax),
}
"""The parts that can be trained with items that are shared out."""


class OwnedBlockEngine(BlockEngine):
    """Run the epochs of a system over blocks of users, with items that are shared out."""

    _owned: Owned | None = None
    """How items are shared out; None until they are, before the first epoch."""
    _all: Any = None
    """The scores by all items, while the first worker has them."""

    @classmethod
    def covers(cls, system: System, device: torch.device) -> Covered | NotCovered:
        """Say whether all parts can be trained with items that are shared out."""
        known = {kind: dict.fromkeys(classes) for kind, classes in _COVERED.items()}
        why = host.uncovered(system, known, "code with sharded items")
        update = getattr(system.sampler, "update", None)
        update = update.update if isinstance(update, Scrambled) else update
        if why is None and not isinstance(
            update, ExpectationMaximization | ClosedForm | Frozen | None
        ):
            why = f"items cannot be sharded while they follow by {type(update).__name__}"
        if why is None and getattr(update, "calibration", "line") == "relative":
            why = "items cannot be sharded with calibration=relative, which compares all states"
        return FusedCpuEngine.covers(system, device) if why is None else NotCovered(why)

    def _lay_out(self, system: System) -> None:
        host.require_covered(self.name, self.covers(system, _CPU))
        self._items = items_of(system.discriminator, system, system.visits_per_step)  # type: ignore[arg-type]

    @property
    def _together(self) -> AbstractContextManager[None]:
        return cores.torch_threads(max(1, cores.threads() // self._workers.here))

    def run_epoch(self, epoch: int) -> EpochStats:
        """Make one pass over the positives of all blocks, in a fresh order."""
        self._all = None
        return super().run_epoch(epoch)

    def _forget_first(self) -> None:
        """Share the items out, and let go of the users that the system was started with."""
        if self._owned is None:
            self._share_out()
        super()._forget_first()

    def _share_out(self) -> None:
        """Give every worker its rows of what the first one has."""
        generator = self._generator
        states = 0 if generator is None else generator.state_of.n
        items = Rows(self._workers, self.blocks.shards.n_items)
        self._owned = Owned(items, Rows(self._workers, states))
        self._take_rows(self._item_tables())
        if generator is not None:
            bins_KI = generator.item_of.bin_RN
            if not self._workers.leads:
                bins_KI = bins_KI.new_empty(0, items.count)
            self._take_tables(AliasTables(self._owned.states.deal(bins_KI)))

    def _take_rows(self, tables: Mapping[str, Tensor]) -> None:
        """Let every worker have its rows of the first one's tables, in the place of all."""
        assert self._owned is not None
        deal, model = self._owned.items.deal, cast("MatrixFactorization", self._like.discriminator)
        own = {name: deal(tables[name]) for name in self._items.arrays()}
        self._items = self._items.at({name: table.numpy() for name, table in own.items()})
        model.item_ID.data = own["item_ICD"][:, 0].clone()
        if model.bias_I is not None:
            model.bias_I.data = own["bias_IC"][:, 0].clone()

    def _take_tables(self, item_of: AliasTables) -> None:
        """Draw from the tables of own states, and get the y of own items from all."""
        assert self._owned is not None
        assert self._generator is not None
        y_KI = self._owned.states.across(item_of.probability(), self._owned.items)
        self._generator.share_items(item_of, y_KI.T.contiguous())

    def _engine_of_block(
        self, block: int, system: System, data: Interactions, seed: int
    ) -> FusedCpuEngine:
        assert self._owned is not None
        return OwnedCpuEngine(
            system, data, seed=seed, device=_CPU, items=self._items, deal=self._deal(block),
            owned=self._owned,
        )  # fmt: skip

    def _started(self, data: Interactions, seed: int) -> System:
        """Return the system with users where training starts, by the items that they have."""
        if self._owned is None:
            return super()._started(data, seed)
        model, generator = cast("MatrixFactorization", self._like.discriminator), self._generator
        dim, rows = model.item_ID.shape[1], self._owned.items

        def rows_at(places: NDArray[Any]) -> Tensor:
            at = torch.from_numpy(places).long()
            tables = [model.item_ID.detach()] + ([] if generator is None else [generator.y_IK])
            return torch.cat([table[at] for table in tables], dim=1)

        fetched, index_E = rows.fetch(data.items_E.astype(np.int64), rows_at)
        gram_DD = None
        if isinstance(model, Cosine):
            pieces = rows.collected(model.item_ID.detach(), least_squares.GRAM_ROWS)
            gram_DD = least_squares.gram(pieces)
            self._workers.hand_out(gram_DD, 0)
        some = replace(
            self._like, discriminator=model.for_items(fetched.rows_UW[:, :dim].contiguous(), None)
        )
        if generator is not None:
            few = generator.for_users(generator.state_of)
            few.share_items(generator.item_of, fetched.rows_UW[:, dim:].contiguous())
            some = replace(some, sampler=few)
        data = replace(data, items_E=index_E.astype(np.int32))
        started = self._for_users(some, data, seed=seed, gram_DD=gram_DD)
        bins_UK = None if generator is None else started.sampler.state_of.bin_RN  # type: ignore[attr-defined]
        return self._with(started.discriminator.user_UD.detach(), bins_UK)  # type: ignore[attr-defined]

    def learned_of(self, block: int) -> Factors:
        """Return the vectors of the users of one block, and of all items, to the first worker."""
        if self._owned is None:
            return super().learned_of(block)
        if self._all is None:
            self.lend()
        vectors = self._taken(block, "vectors", everybody=True)
        assert vectors is not None
        factors: Factors = self._all.for_users(
            torch.from_numpy(vectors["user_UCD"][:, 0])
        ).factors()
        return factors

    def lend(self) -> None:
        """Let the first worker have all items until the next epoch."""
        self._workers.tell(do="lend")
        assert self._owned is not None
        model = cast("MatrixFactorization", self._like.discriminator)
        item_ID = self._owned.items.collect(model.item_ID.detach())
        bias_I = None if model.bias_I is None else self._owned.items.collect(model.bias_I.detach())
        self._all = model.for_items(item_ID, bias_I) if self._workers.leads else None

    def _item_state(self) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        if self._owned is None:
            return super()._item_state()
        collect = self._owned.items.collect
        tables = {name: collect(table) for name, table in self._item_tables().items()}
        if self._generator is None:
            return tables, {}
        return tables, {"y_mass_KI": self._owned.states.collect(self._generator.item_of.mass_RN)}

    def _load_items(self, parts: host.StateParts) -> None:
        if self._owned is None:
            super()._load_items(parts)
            return
        leads, items = self._workers.leads, self._owned.items
        none = {name: table[:0] for name, table in self._item_tables().items()}
        self._take_rows(parts.optimizer if leads else none)
        if self._generator is not None:
            empty_KI = torch.empty(0, items.count, dtype=torch.int64)
            mass_KI = self._owned.states.deal(parts.sampler["y_mass_KI"] if leads else empty_KI)
            self._take_tables(AliasTables.restored(mass_KI))
