"""Tables whose rows are shared out among workers: row i belongs to worker i mod R.

A worker has its rows one after the other, row i at place i // R. It is given them by the first
worker, fetches some rows of others when it needs them, and gives them back to the first worker.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sdgar.scale.workers import Workers

_AT_ONCE = 1 << 22
"""The numbers of a table that travel at once."""


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of tables of one length, of which each worker has its part."""

    workers: Workers
    """The workers that share the rows out."""
    count: int
    """The number of rows of a whole table."""

    @property
    def own(self) -> range:
        """The numbers of the rows of this worker."""
        return range(self.workers.number, self.count, self.workers.count)

    @property
    def span(self) -> int:
        """The most rows of a worker."""
        return -(-self.count // self.workers.count)

    def deal(self, table: Tensor) -> Tensor:
        """Return the own rows of the first worker's table; others give one with no rows."""
        workers, leads = self.workers, self.workers.leads
        own = table.new_empty((len(self.own), *table.shape[1:]))
        for first, last, parts in self._pieces(table):
            given = [table[rows.start : rows.stop : rows.step] for rows in parts if leads]
            heard_R = [last - first, *[0] * (workers.count - 1)]
            own[first:last], _ = workers.swap(
                torch.cat(given) if leads else table[:0],
                [len(one) for one in given] if leads else [0] * workers.count,
                heard_R,
            )
        return own

    def collected(self, own: Tensor, multiple: int = 1) -> Iterator[Tensor]:
        """Yield the rows of all workers in their order, some at a time; only the first has them.

        All pieces but the last have a multiple of so many rows.
        """
        workers = self.workers
        for first, last, parts in self._pieces(own, multiple):
            counts = [len(rows) for rows in parts] if workers.leads else [0] * workers.count
            heard, _ = workers.swap(
                own[first:last], [last - first, *[0] * (workers.count - 1)], counts
            )
            piece = heard.new_empty(heard.shape)
            for number, part in enumerate(heard.split(counts)):  # type: ignore[no-untyped-call]
                piece[number :: workers.count] = part
            yield piece

    def collect(self, own: Tensor) -> Tensor:
        """Return all rows to the first worker, and none to the others."""
        whole = own.new_empty((self.count if self.workers.leads else 0, *own.shape[1:]))
        done = 0
        for piece in self.collected(own):
            whole[done : done + len(piece)] = piece
            done += len(piece)
        return whole

    def fetch(
        self, numbers: NDArray[Any], rows_of: Callable[[NDArray[Any]], Tensor]
    ) -> tuple[Fetched, NDArray[np.int64]]:
        """Return each of these rows once, and for every number the place of its row there.

        ``rows_of`` returns own rows by their places; all workers call this together.
        """
        workers = self.workers
        code_U, index = np.unique(
            numbers % workers.count * self.span + numbers // workers.count, return_inverse=True
        )
        owner_U, place_U = code_U // self.span, code_U % self.span
        count_R = np.bincount(owner_U, minlength=workers.count).tolist()
        asked, asked_R = workers.swap(torch.from_numpy(place_U.astype(np.int32)), count_R)
        rows_UW, _ = workers.swap(rows_of(asked.numpy()), asked_R, count_R)
        return Fetched(rows_UW, owner_U, place_U), index.reshape(numbers.shape)

    def ask(
        self, number_A: NDArray[Any], words_AW: Tensor, answer: Callable[[Tensor], Tensor]
    ) -> Tensor:
        """Ask the owner of a row something for each of these numbers, and return the answers.

        ``answer`` answers what others ask; words begin with the place of a row. All workers call
        this together.
        """
        workers = self.workers
        order_A = np.argsort((number_A % workers.count).astype(np.uint16), kind="stable")
        count_R = np.bincount(number_A % workers.count, minlength=workers.count).tolist()
        words_AW[:, 0] = torch.from_numpy(number_A // workers.count)
        heard_HW, heard_R = workers.swap(words_AW[torch.from_numpy(order_A)], count_R)
        told_A, _ = workers.swap(answer(heard_HW), heard_R, count_R)
        answer_A = torch.empty_like(told_A)
        answer_A[torch.from_numpy(order_A)] = told_A
        return answer_A

    def across(self, own: Tensor, others: Rows) -> Tensor:
        """Return own columns of all rows, of a table whose columns are shared out as ``others``.

        A worker has its rows with all columns before, and its columns with all rows afterwards.
        """
        workers = self.workers
        columns = torch.cat([own[:, r :: workers.count].reshape(-1) for r in range(workers.count)])
        width_R = [len(range(r, others.count, workers.count)) for r in range(workers.count)]
        height_R = [len(range(r, self.count, workers.count)) for r in range(workers.count)]
        width = width_R[workers.number]
        heard, _ = workers.swap(
            columns, [len(own) * one for one in width_R], [one * width for one in height_R]
        )
        whole = own.new_empty(self.count, width)
        pieces = heard.split([one * width for one in height_R])  # type: ignore[no-untyped-call]
        for number, piece in enumerate(pieces):
            whole[number :: workers.count] = piece.view(height_R[number], width)
        return whole

    def _pieces(self, like: Tensor, multiple: int = 1) -> Iterator[tuple[int, int, list[range]]]:
        """Yield the places of own rows that travel together, and which rows of each worker do."""
        size = max(1, _AT_ONCE // max(1, math.prod(like.shape[1:])) // self.workers.count)
        size = -(-size // multiple) * multiple
        for start in range(0, self.span, size):
            edge = min(start + size, self.span) * self.workers.count
            parts = [
                range(
                    start * self.workers.count + number, min(edge, self.count), self.workers.count
                )
                for number in range(self.workers.count)
            ]
            yield start, start + len(parts[self.workers.number]), parts


@dataclass(frozen=True, slots=True)
class Fetched:
    """Rows of a table, in the order of their owners and of their places there."""

    rows_UW: Tensor
    """The rows that were asked for, each of them once."""
    owner_U: NDArray[np.int64]
    """The worker that each belongs to."""
    place_U: NDArray[np.int64]
    """The place of each among the rows of its owner."""
