"""The records that the compiled loop on the CPU reads and writes, made from data and parts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sdgar.contracts import System
from sdgar.discriminators.bounded import Cosine
from sdgar.discriminators.factorization import Embeddings
from sdgar.engines import host
from sdgar.engines.fused.plan import CPU
from sdgar.engines.fused.records import DrawSettings, all_minus_one, lined_up, packed
from sdgar.engines.visits import STRIDES, Visits
from sdgar.machine.memory import aligned
from sdgar.maths.optimizers import LazyAdam
from sdgar.maths.rng import Permutation
from sdgar.samplers.decomposable import Decomposable

if TYPE_CHECKING:
    from sdgar.data.interactions import Interactions
    from sdgar.kernels.numba.contexts import Summed, Tables
    from sdgar.kernels.numba.epoch import Scratch
    from sdgar.kernels.numba.known import Known
    from sdgar.kernels.numba.moves import Steps
    from sdgar.kernels.numba.visits import Order, Rows

_BITS_OF_PAIRS = 64
"""The most bits a known positive for which all pairs of a context and an item have one."""


def rows_of(data: Interactions) -> Rows:
    """Lay out the training positives with their weights."""
    from sdgar.kernels.numba.visits import Rows

    weight_E = host.scaled_weights(data)
    if weight_E is None:
        weight_E = np.empty(0, np.float32)
    pair_E2 = aligned((len(data), 2), np.int32)
    pair_E2[:, 0], pair_E2[:, 1] = data.users_E, data.items_E
    return Rows(data.indptr_U1, pair_E2, weight_E)


def known_of(data: Interactions) -> Known:
    """Lay out the known positives, with a bit for each pair or a filter of 16 bits or more."""
    from sdgar.kernels.numba.known import Known, fill

    seen = data.excluded
    items_E, positive_E = map(np.ascontiguousarray, (seen.items_E, data.items_E))
    pairs = (len(seen.indptr_U1) - 1) * data.n_items
    if pairs <= _BITS_OF_PAIRS * len(items_E):
        n_items, size = data.n_items, pairs + 8
    else:
        n_items, size = 0, 1 << max(6, (16 * len(items_E) - 1).bit_length())
    bits = aligned((size // 8,), np.uint8)
    bits[:] = 0
    fill(seen.indptr_U1, items_E, n_items, bits)
    return Known(seen.indptr_U1, items_E, n_items, bits, positive_E)


def order_of(visits: Visits, system: System, seed: int, batch: int) -> Order:
    """Lay out the visits, in batches of ``batch`` of them."""
    from sdgar.kernels.numba.visits import Order

    order = Permutation(len(visits), ())
    return Order(
        seed=np.uint64(seed),
        n_visits=len(visits),
        positives=system.positives_per_visit,
        batch=batch,
        user_V=visits.user_V.numpy().astype(np.int32),
        place_V=visits.place_V.numpy().astype(np.int32),
        strides=np.array(STRIDES, np.uint64),
        left_bits=order.left_bits,
        right_bits=order.right_bits,
    )


class Items(NamedTuple):
    """The tables of items, with the state of their steps."""

    item_ICD: NDArray[np.float32]
    """The vectors, each followed by its moments."""
    step: Any
    """The step of vectors."""
    bias_step: Any
    """The step of biases."""
    scores: Any
    """What scores read of items besides their vectors, such as biases."""

    def arrays(self) -> dict[str, NDArray[np.float32]]:
        """Return the tables that training changes, by their names in a checkpoint."""
        of_scores = self.scores._asdict().items()
        return {
            "item_ICD": self.item_ICD,
            **{name: part for name, part in of_scores if isinstance(part, np.ndarray)},
            **summed("sum_I", self.step),
            **summed("sum_bias_I", self.bias_step),
        }

    def at(self, tables: Mapping[str, NDArray[np.float32]]) -> Items:
        """Return the same with other tables, under the names of ``arrays``."""
        of_scores = {name: tables[name] for name in self.scores._fields if name in tables}
        return Items(
            tables["item_ICD"],
            _summing(self.step, tables.get("sum_I")),
            _summing(self.bias_step, tables.get("sum_bias_I")),
            self.scores._replace(**of_scores),
        )


def _summing(step: Any, sum_R: NDArray[np.float32] | None) -> Any:
    """Return a step with other sums of squares, if it has any."""
    return step if sum_R is None else step._replace(sum_R=sum_R)


def summed(name: str, step: Any) -> dict[str, NDArray[np.float32]]:
    """Return the sums of squares that a step has, under a name, if it has any."""
    return {name: step.sum_R} if hasattr(step, "sum_R") else {}


def items_of(model: Embeddings, system: System) -> Items:
    """Copy the vectors and biases of items."""
    step, bias_step = (CPU.lower("optimizer", system, model.n_items) for _ in range(2))
    # A parameter itself, and the moments of Adam.
    columns = 3 if isinstance(system.optimizer, LazyAdam) else 1
    scores = CPU.lower("discriminator", system, columns)
    return Items(packed(model.item_ID, columns), step, bias_step, scores)


def steps_of(model: Embeddings, system: System, items: Items) -> Steps:
    """Make the steps of each table, with the state that the table does not hold itself."""
    from sdgar.kernels.numba.moves import Steps

    return Steps(
        user=CPU.lower("optimizer", system, len(model.user_UD)),
        item=items.step,
        bias=items.bias_step,
        l2=np.float32(system.l2),
    )


def at_rate(steps: Steps, rate: float) -> Steps:
    """Return the same steps with another learning rate."""
    user, item, bias = (step._replace(rate=np.float32(rate)) for step in steps[:3])
    return steps._replace(user=user, item=item, bias=bias)


def tables_of(model: Embeddings, items: Items) -> Tables | Summed:
    """Return tables with a copy of the vectors of contexts, or of the values of their fields."""
    from sdgar.kernels.numba.contexts import Summed, Tables

    item_ICD = items.item_ICD
    vectors = packed(model.user_UD, item_ICD.shape[1])
    if model.place_UF is None:
        return Tables(vectors, item_ICD)
    n_users, dim = len(model.place_UF), model.user_UD.shape[1]
    return Summed(
        user_UCD=aligned((n_users, 1, dim)),
        item_ICD=item_ICD,
        field_VCD=vectors,
        place_UF=model.place_UF.numpy().astype(np.int32),
        inverse_U=aligned((n_users,)),
        directions=type(model) is Cosine,
    )


def scratch_of(model: Embeddings, system: System, visits: int) -> Scratch:
    """Allocate what threads exchange within a batch of so many visits."""
    from sdgar.kernels.numba.epoch import Scratch

    n_rows, dim = model.user_UD.shape
    fields = 1 if model.place_UF is None else model.place_UF.shape[1]
    entries = visits * (system.positives_per_visit + system.n_negatives)
    return Scratch(
        place_VF=np.empty((visits, fields), np.int32),
        count_V=np.empty(visits, np.int32),
        item_e=np.empty(entries, np.int32),
        slope_e=np.empty(entries, np.float32),
        u_VD=aligned((visits, dim)),
        grad_VD=aligned((visits, dim)),
        tail_I=all_minus_one(model.n_items),
        tail_R=all_minus_one(n_rows),
        loss_V=np.empty(visits, np.float32),
        effective_V=np.zeros(visits, np.float32),
        answered_V=np.empty(visits, np.bool_),
        totals_3=np.zeros(3),
    )


def for_users(drawn: Any, system: System, settings: DrawSettings) -> Any:
    """Return a sampler lowered for the CPU with the users of this system, for the same items."""
    drawn = drawn._replace(**settings._asdict())
    if type(system.sampler) is not Decomposable:
        return drawn
    bins, x_UK = system.sampler.state_of.bin_RN.reshape(-1), system.sampler.x_UK
    return drawn._replace(state_bins=lined_up(bins), x_UK=lined_up(x_UK))


def without_users(drawn: Any) -> Any:
    """Return a sampler lowered for the CPU without users, which gets others later."""
    tables = {name: getattr(drawn, name, None) for name in ("state_bins", "x_UK")}
    return drawn._replace(
        **{n: table[:0].copy() for n, table in tables.items() if table is not None}
    )


def variants_of(system: System) -> str:
    """Name what the loop is compiled for."""
    model = system.discriminator
    parts = (model, system.sampler, system.objective, system.optimizer)
    names = [type(part).__name__ for part in parts]
    if (base := getattr(system.sampler, "base", None)) is not None:
        names.append(type(base).__name__)
    names += [name for name in ("bias_I", "place_UF") if getattr(model, name, None) is not None]
    return "-".join(names)
