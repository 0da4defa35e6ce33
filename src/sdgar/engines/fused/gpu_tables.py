"""Rows and tables on the GPU, which engines of different users may use in turn."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Self, cast

import torch
from torch import Tensor

from sdgar.contracts import System
from sdgar.discriminators.factorization import Embeddings
from sdgar.engines import host
from sdgar.engines.fused.plan import GPU
from sdgar.engines.fused.records import Draw, Loss, Step
from sdgar.engines.visits import STRIDES

if TYPE_CHECKING:
    from sdgar.data.interactions import Interactions


@dataclass(frozen=True)
class GpuRows:
    """The training positives, context by context, and their visits; see ``engines/visits.py``."""

    start_U1: Tensor
    """The rows of context u are ``start_U1[u]`` to ``start_U1[u + 1] - 1``."""
    items_E: Tensor
    """The item of each row."""
    weight_E: Tensor | None
    """The weights ω of the rows, with a mean of 1; None if all are 1."""
    n_items: int
    """The number of items."""
    n_visits: int
    """The number of visits of an epoch."""
    search_steps: int
    """The number of halvings that find an item in the longest history."""
    user_E: Tensor | None = None
    """The context of each row, where a visit has one positive."""
    context_V: Tensor | None = None
    """The context of each visit, where visits have several positives."""
    place_V: Tensor | None = None
    """The number of positives that the context has in earlier visits."""

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.items_E)

    @property
    def n_users(self) -> int:
        """The number of contexts."""
        return len(self.start_U1) - 1

    @classmethod
    def of(cls, data: Interactions, positives: int, device: torch.device) -> Self:
        """Copy rows to a device, for visits with so many positives."""
        weight_E = host.scaled_weights(data)
        return cls.on_device(
            torch.from_numpy(data.indptr_U1).to(device),
            torch.from_numpy(data.items_E).to(device),
            None if weight_E is None else torch.from_numpy(weight_E).to(device),
            n_items=data.n_items,
            positives=positives,
        )

    @classmethod
    def on_device(
        cls,
        start_U1: Tensor,
        items_E: Tensor,
        weight_E: Tensor | None,
        *,
        n_items: int,
        positives: int,
    ) -> Self:
        """Lay out the visits of rows that are on the device already."""
        count_U = start_U1.diff()
        users_U = torch.arange(len(count_U), dtype=torch.int32, device=start_U1.device)
        steps = int(count_U.max()).bit_length()
        if positives == 1:
            user_E = torch.repeat_interleave(users_U, count_U, output_size=len(items_E))
            return cls(start_U1, items_E, weight_E, n_items, len(items_E), steps, user_E)
        visits_U = (count_U + positives - 1) // positives
        context_V = torch.repeat_interleave(users_U, visits_U)
        first_V = (visits_U.cumsum(0) - visits_U)[context_V.long()]
        place_V = positives * (torch.arange(len(context_V), device=first_V.device) - first_V)
        return cls(
            start_U1, items_E, weight_E, n_items, len(context_V), steps,
            context_V=context_V, place_V=place_V,
        )  # fmt: skip


NUMBERS_AHEAD = 1 << 25
"""The number of positives and negatives that are drawn at once."""
MOST_STEPS = 2048
"""The most steps of a graph; more take longer to record than they save."""


@dataclass(frozen=True, slots=True)
class Tiles:
    """The numbers of visits, rows and draws that one program works on, and its warps."""

    visits: int
    """The number of visits whose gradients one program adds up."""
    visit_warps: int
    """The number of warps of such a program."""
    rows: int
    """The number of touched rows that one program moves."""
    row_warps: int
    """The number of warps of a program that moves rows."""
    drawn: int
    """The number of visits that one program draws for."""
    log_q: int
    """The number of negatives whose log Q one program computes."""

    @classmethod
    def of(cls, n: int, p: int, d: int, k: int, drawn: int, device: torch.device) -> Tiles:
        """Return tiles of about 16 numbers a thread; large ones for Triton's interpreter."""
        if device.type == "cpu":
            return cls(64, 4, 256, 4, 128, 256)
        widest = max(n, p, 4) * d
        return cls(
            visits=max(1, 512 // widest),
            visit_warps=min(8, max(1, widest // 512)),
            rows=max(1, 1024 // d),
            row_warps=8,
            drawn=max(1, 256 // max(drawn, p)),
            log_q=max(1, 2048 // k),
        )


class Capacity(NamedTuple):
    """The largest data that tables are allocated for."""

    users: int
    """The number of contexts."""
    visits: int
    """The number of visits of an epoch."""
    weighted: bool
    """Whether rows have weights."""

    @classmethod
    def of(cls, rows: GpuRows) -> Capacity:
        """Return what these rows need."""
        return cls(rows.n_users, rows.n_visits, rows.weight_E is not None)


class GpuTables:
    """The tensors that the kernels read and write; see the docstrings of ``kernels/triton``.

    Engines of different contexts may use the same tables one after the other. Contexts have the
    first rows, and items the rows after the largest possible number of contexts.
    """

    def __init__(self, system: System, capacity: Capacity, device: torch.device) -> None:
        """Allocate the tables for the epochs of a system."""
        scores, draw, loss, step = (GPU.lower(part, system) for part in GPU.tables)
        model = cast("Embeddings", system.discriminator)
        self.device = device
        self.positives, self.negatives = system.positives_per_visit, system.n_negatives
        self.drawn = self.negatives * draw.candidates
        self.n_users, self.n_items = capacity.users, model.n_items
        self.strides = torch.tensor(STRIDES, device=device)
        self._plan_steps(system.visits_per_step, capacity.visits)
        self._make_tables(model, step)
        self._make_chunk(draw, loss, weighted=capacity.weighted)
        self._of_scale = system.visits_per_step * self.positives, loss.slope_limit, scores.steepest
        self.tiles = Tiles.of(
            n=power(max(self.negatives, draw.candidates)),
            p=power(self.positives),
            d=power(self.dim),
            k=power(1 if draw.x_UK is None else draw.n_states),
            drawn=power(self.drawn),
            device=device,
        )
        programs = -(-self.size // self.tiles.visits)
        self.stats = self._zeros(self.chunk_steps, programs, 3)
        self.flag = self._zeros(1, dtype=torch.int32)
        self.graphs: dict[float, torch.cuda.CUDAGraph] = {}
        """The steps of a chunk as they were recorded, by the scale of gradients."""

    def _zeros(self, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        return torch.zeros(shape, dtype=dtype, device=self.device)

    def _plan_steps(self, visits_per_step: int, n_visits: int) -> None:
        """Split the visits into steps, and the steps into chunks that are drawn at once."""
        self.size = min(visits_per_step, n_visits)
        n_steps = -(-n_visits // self.size)
        width = self.positives + self.drawn
        most = max(1, min(MOST_STEPS, NUMBERS_AHEAD // (width * self.size)))
        chunks = -(-n_steps // most)
        self.chunk_steps = -(-n_steps // chunks)

    def _make_tables(self, model: Embeddings, step: Step) -> None:
        """Allocate the parameters, their moments, and the sums of their gradients."""
        self.dim = model.user_UD.shape[1]
        n_rows = self.n_users + self.n_items
        self.theta_RD, self.bias_I = self._zeros(n_rows, self.dim), self._zeros(self.n_items)
        self.has_bias = model.bias_I is not None
        entries = self.size * (1 + self.positives + self.negatives)
        self.claim_R = self._zeros(n_rows, dtype=torch.int32)
        self.grad_LD = self._zeros(entries, self.dim, dtype=torch.int64)
        self.grad_L = self._zeros(entries, dtype=torch.int64)
        self.touch_L = self._zeros(entries, dtype=torch.int32)
        self.moved_L = self._zeros(entries, dtype=torch.int32)
        wide = max(n_rows, entries) * self.dim >= 2**31
        p, n = self.positives, self.negatives
        self.constants = {
            "P": p, "PP": power(p), "N": n, "NN": power(n), "D": self.dim, "DD": power(self.dim),
            "HAS_BIAS": self.has_bias, "WIDE": wide,
        }  # fmt: skip
        """The constants of the kernels of a step."""
        self.moments: dict[str, Tensor] = {}
        for name in step.moments:
            shape = (n_rows,) if step.one_a_row else (n_rows, self.dim)
            self.moments[f"{name}_RD"] = self._zeros(*shape)
            self.moments[f"{name}_I"] = self._zeros(self.n_items)

    def _make_chunk(self, draw: Draw, loss: Loss, *, weighted: bool) -> None:
        """Allocate the draws of a chunk of steps."""
        p, n = self.positives, self.negatives
        lanes = self.chunk_steps * self.size
        self.row_VW = self._zeros(lanes, 1 + p + n, dtype=torch.int32)
        # What is drawn ahead: the rows of the steps, or candidates that each step picks from.
        self.drawn_VW = self.row_VW
        if draw.pick is not None:
            self.drawn_VW = self._zeros(lanes, 1 + p + self.drawn, dtype=torch.int32)
        self.tries_V = self._zeros(lanes, dtype=torch.int32)
        self.weight_VP = self._zeros(lanes, p) if weighted else None
        # Where all negatives of a context have one Q, weights cancel it, and only the value of a
        # softmax loss needs it.
        has_q = loss.needs_q and (loss.needs_same_q or not draw.same_q)
        self.log_q_VN = self._zeros(lanes, n) if has_q else None
        self.rates_S3 = self._zeros(self.chunk_steps, 3)

    def scale(self, rows: GpuRows) -> float:
        """Return the largest power of two that leaves the integer sums of a step below 2^62."""
        most_weight = 1.0 if rows.weight_E is None else float(rows.weight_E.max())
        positives, slope_limit, steepest = self._of_scale
        most = positives * most_weight * (slope_limit + 1) * steepest
        return 2.0 ** (62 - math.ceil(math.log2(most)))

    def copy_from(self, model: Embeddings) -> None:
        """Copy the parameters of the discriminator, which is authoritative between epochs."""
        self.theta_RD[: len(model.user_UD)] = model.user_UD
        self.theta_RD[self.n_users :] = model.item_ID
        if model.bias_I is not None:
            self.bias_I.copy_(model.bias_I)

    def copy_to(self, model: Embeddings) -> None:
        """Copy the parameters back to the discriminator."""
        model.user_UD.copy_(self.theta_RD[: len(model.user_UD)])
        model.item_ID.copy_(self.theta_RD[self.n_users :])
        if model.bias_I is not None:
            model.bias_I.copy_(self.bias_I)

    def moments_of_users(self, n_users: int) -> dict[str, Tensor]:
        """Return the moments of the first contexts, by their names."""
        return {name: table[:n_users] for name, table in self._rows_of_moments()}

    def moments_of_items(self) -> dict[str, Tensor]:
        """Return the moments of vectors and biases of items, by their names."""
        vectors = {name: table[self.n_users :] for name, table in self._rows_of_moments()}
        return {**self.moments, **vectors}

    def _rows_of_moments(self) -> list[tuple[str, Tensor]]:
        return [(name, table) for name, table in self.moments.items() if name.endswith("_RD")]


def power(n: int) -> int:
    """Return the least power of two that is at least n."""
    return 1 << (n - 1).bit_length()
