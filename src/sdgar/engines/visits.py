"""The order of an epoch: visits to contexts, each with some of the context's positives.

A visit is one pool of negatives and the positives that share it. With one positive a visit these
are rows of (context, positive) with private negatives; with more, it is Eq. 4 as printed, one
sample set S_c for a context, in chunks of P positives. The negatives of a visit are addressed by
the row of its first positive, so they do not depend on the batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from sdgar.maths.rng import Draws, Permutation, Stream

if TYPE_CHECKING:
    from sdgar.data.interactions import Interactions


STRIDES = (2147483647, 1610612741, 1073741827, 805306457)
"""The primes above every count of positives, so that a stride meets each of them once."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Some visits and the positives of each, as rows of the training data."""

    rows_B: Tensor
    """The rows of all visits of the batch, one visit after the other."""
    visit_B: Tensor
    """The visit of the batch that each row belongs to, in ascending order."""
    first_V: Tensor
    """The row of each visit that addresses the visit's negatives."""


class Visits:
    """The visits of every epoch, in a fresh order each time, with the positives of each visit."""

    def __init__(self, data: Interactions, positives: int, seed: int, device: torch.device) -> None:
        self._positives = positives
        self._seed = seed
        self._device = device
        self._n_rows = len(data)
        self._start_U = torch.from_numpy(data.indptr_U1[:-1]).to(device)
        count_U = np.diff(data.indptr_U1)
        self._count_U = torch.from_numpy(count_U).to(device)
        # With one positive a visit, visit v is row v, and there is nothing to look up.
        visits_U = -(-count_U // positives) if positives > 1 else np.zeros_like(count_U)
        user_V = np.repeat(np.arange(len(count_U)), visits_U)
        chunk_V = np.arange(len(user_V)) - np.repeat(np.cumsum(visits_U) - visits_U, visits_U)
        self.user_V = torch.from_numpy(user_V).to(device)
        self.place_V = torch.from_numpy(chunk_V * positives).to(device)

    def __len__(self) -> int:
        """Return the number of visits an epoch, Σ_c ⌈|I_c| / P⌉."""
        return self._n_rows if self._positives == 1 else len(self.user_V)

    def batch(self, epoch: int, start: int, stop: int) -> Batch:
        """Return visits start … stop - 1 of an epoch's order."""
        order = Permutation.of(len(self), seed=self._seed, stream=Stream.SHUFFLE, epoch=epoch)
        visits_V = order(torch.arange(start, min(stop, len(self)), device=self._device))
        if self._positives == 1:
            return Batch(visits_V, torch.arange(len(visits_V), device=self._device), visits_V)
        users_V, place_V = self.user_V[visits_V], self.place_V[visits_V]
        count_V = self._count_U[users_V]
        here_V = (count_V - place_V).clamp(max=self._positives)
        visit_B = torch.repeat_interleave(torch.arange(len(visits_V), device=self._device), here_V)
        first_V = here_V.cumsum(0) - here_V
        place_B = (place_V - first_V)[visit_B] + torch.arange(len(visit_B), device=self._device)
        rows_B = self._dealt(epoch, users_V[visit_B], place_B, count_V[visit_B])
        return Batch(rows_B, visit_B, rows_B[first_V])

    def stretches(self, epoch: int, size: int, steps: int) -> Iterator[tuple[Batch, list[int]]]:
        """Yield the visits of so many steps at a time, and where the rows of each step end."""
        for start in range(0, len(self), size * steps):
            batch = self.batch(epoch, start, start + size * steps)
            last_V = torch.arange(size, len(batch.first_V) + size, size, device=self._device)
            yield batch, torch.searchsorted(batch.visit_B, last_V).tolist()

    def _dealt(self, epoch: int, users_B: Tensor, place_B: Tensor, count_B: Tensor) -> Tensor:
        """Shuffle a context's positives: place p gets number (offset + stride · p) mod count."""
        w0, w1, _, _ = Draws(self._seed, Stream.DEAL, epoch, users_B).words(0 * users_B)
        stride_B = torch.tensor(STRIDES, device=self._device)[w1 & 3] % count_B
        offset_B = (w0 * count_B) >> 32
        dealt_B: Tensor = self._start_U[users_B] + (offset_B + stride_B * place_B) % count_B
        return dealt_B


class GroupedRows:
    """The rows of every epoch, group by group, with the groups in a fresh order each time.

    Every row has separate negatives. A step ends with the first group that fills it, so it has
    about as many rows as it should, and no group is cut.
    """

    def __init__(self, together_E: Tensor, seed: int) -> None:
        self._row_E = together_E.argsort(stable=True)
        counts = torch.unique_consecutive(together_E[self._row_E], return_counts=True)
        self._count_G: Tensor = counts[1]
        self._start_G = self._count_G.cumsum(0) - self._count_G
        self._seed = seed

    def rows(self, epoch: int) -> tuple[Tensor, Tensor]:
        """Return the rows of an epoch in their order, and where each group ends."""
        order = Permutation.of(
            len(self._count_G), seed=self._seed, stream=Stream.SHUFFLE, epoch=epoch
        )
        order_G = order(torch.arange(len(self._count_G), device=self._row_E.device))
        count_G = self._count_G[order_G]
        end_G = count_G.cumsum(0)
        shift_E = torch.repeat_interleave(self._start_G[order_G] - end_G + count_G, count_G)
        return self._row_E[shift_E + torch.arange(len(shift_E), device=shift_E.device)], end_G

    def stretches(self, epoch: int, size: int, steps: int) -> Iterator[tuple[Batch, list[int]]]:
        """Yield the rows of so many steps at a time, and where the rows of each step end."""
        row_E, end_G = self.rows(epoch)
        full_S = torch.arange(size, len(row_E) + size, size, device=row_E.device)
        last_S = torch.searchsorted(end_G, full_S.clamp(max=len(row_E)))
        ends = end_G[torch.unique_consecutive(last_S)].tolist()
        first = 0
        for start in range(0, len(ends), steps):
            some = ends[start : start + steps]
            rows_B = row_E[first : some[-1]]
            visit_B = torch.arange(len(rows_B), device=rows_B.device)
            yield Batch(rows_B, visit_B, rows_B), [end - first for end in some]
            first = some[-1]
