"""The order of an epoch where a discriminator computes some rows together: by whole groups."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from sdgar.engines.visits import Batch
from sdgar.maths.rng import Permutation, Stream


class Together:
    """The rows of every epoch, group by group, with the groups in a fresh order each time.

    Every row has negatives of its own. A step ends with the first group that fills it, so it has
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
