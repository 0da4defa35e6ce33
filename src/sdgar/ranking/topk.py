"""The k best items of every user, over the whole catalogue, in bounded memory.

    rank of i for u: position of i among { j : j not seen by u, j not blocked, s_uj > -inf },
    ordered by score descending, then item index ascending

The order is total, so no tie depends on a thread, a block or a partition algorithm. Scores
come in blocks of users, and a block is reduced to its k best as soon as it is computed. On the
CPU every thread scores and reduces blocks of its own, so no thread waits for another one. Where
all users have the same scores, the items are put in order once.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from sdgar.errors import NumericalError, UsageError
from sdgar.machine import cores
from sdgar.models.factors import Factors
from sdgar.models.model import Scorer, checked
from sdgar.models.parts import Parts, as_array
from sdgar.ranking.few import few_parts, scores_of_few
from sdgar.ranking.one_order import ranked

if TYPE_CHECKING:
    from torch import Tensor

    from sdgar.data.history import History

# What a score costs while its block is alive: the kernel only reads what the scorer made (and
# the scorer may need a temporary of the same size); the torch path also holds a masked copy
# and, where there are ties, a sort with int64 indices.
_KERNEL_BYTES_PER_SCORE = 8
_TORCH_BYTES_PER_SCORE = 32
# Users that a thread of the CPU scores at once, at most: enough for a fast matrix product, few
# enough that all threads end at about the same time.
_MOST_ROWS = 256


@dataclass(frozen=True, slots=True)
class TopK:
    """The best items of each user, best first."""

    items_TK: NDArray[np.int32]
    """The numbers of the items; -1 where a user has fewer than K recommendable items."""
    scores_TK: NDArray[np.float32]
    """The scores of the items; -inf where the item is -1."""


def top_k(
    scorer: Scorer,
    users_T: NDArray[np.int64],
    k: int,
    *,
    seen: History | None = None,
    blocked_I: NDArray[np.bool_] | None = None,
    memory_bytes: int | None = None,
) -> TopK:
    """Rank the whole catalogue for each user and keep the k best.

    A seen or blocked item is never returned, nor one with the score -inf: the row is padded
    instead. A score that is NaN or +inf anywhere in the catalogue is an error, since every rank
    below it would be meaningless. ``memory_bytes`` bounds a block of scores: 64 MiB for each
    thread of the CPU, where more only leaves the caches, and 4 GiB on a GPU, where less only costs
    launches. On the CPU, ``scorer.score_all`` is called by several threads at once.
    """
    if memory_bytes is None:
        memory_bytes = 64 << 20 if scorer.device.type == "cpu" else 4 << 30
    n_items = scorer.n_items
    users_T = np.ascontiguousarray(users_T, np.int64)
    require_rankable(users_T, k, n_items, seen, blocked_I)
    kept = min(k, n_items)
    items_TK = np.full((len(users_T), k), -1, np.int32)
    scores_TK = np.full((len(users_T), k), -np.inf, np.float32)
    kernel = _kernel() if scorer.device.type == "cpu" else None
    rows = block_rows(n_items, memory_bytes=memory_bytes, compiled=kernel is not None)
    if len(users_T) == 0:
        return TopK(items_TK, scores_TK)
    if isinstance(scorer, Factors) and scorer.user_UD.shape[1] == 0:
        found = _in_one_order(scorer, users_T, kept, seen, blocked_I)
    else:
        with torch.no_grad(), cores.torch_threads():
            if kernel is None:
                found = _OnDevice(scorer, users_T, kept, seen, blocked_I).rank(rows)
            else:
                few = few_parts(scorer, len(users_T), memory_bytes)
                found = _OnThreads(scorer, users_T, kept, seen, blocked_I, few).rank(kernel, rows)
    items_TK[:, :kept], scores_TK[:, :kept] = found
    return TopK(items_TK, scores_TK)


def block_rows(n_items: int, *, memory_bytes: int, compiled: bool) -> int:
    """Say how many users are in a block: as many as ``memory_bytes`` hold, at least one."""
    per_score = _KERNEL_BYTES_PER_SCORE if compiled else _TORCH_BYTES_PER_SCORE
    rows = max(1, memory_bytes // (per_score * n_items))
    return min(rows, _MOST_ROWS) if compiled else rows


def require_rankable(
    users_T: NDArray[np.int64],
    k: int,
    n_items: int,
    seen: History | None,
    blocked_I: NDArray[np.bool_] | None,
) -> None:
    """Refuse a question with anything out of range, as kernels check no bounds."""
    if k < 1:
        raise UsageError(f"k must be at least 1, got {k}.", code="bad_k")
    if n_items < 1:
        raise UsageError("the scorer has no items, so there is nothing to rank.", code="no_items")
    if users_T.ndim != 1:
        raise UsageError(f"users must be one-dimensional, got shape {users_T.shape}.")
    if len(users_T) and users_T.min() < 0:
        raise UsageError(
            f"user index {users_T.min()} is negative. Leave unknown users out before ranking.",
            code="unknown_user",
        )
    if seen is not None and len(users_T) and users_T.max() >= seen.n_users:
        raise UsageError(
            f"user index {users_T.max()} is outside the history of {seen.n_users} users. "
            "Give the history of the data the model was trained on.",
            code="unknown_user",
        )
    if blocked_I is not None and (blocked_I.shape != (n_items,) or blocked_I.dtype != np.bool_):
        raise UsageError(
            f"blocked_I must be {n_items} booleans, one an item, got {blocked_I.dtype} of shape "
            f"{blocked_I.shape}.",
            code="bad_blocked",
        )


def _not_finite(scores_I: Tensor, user: int) -> NumericalError:
    item = int(torch.nonzero(~(scores_I < torch.inf))[0, 0])
    return NumericalError(
        f"the score of user index {user} for item index {item} is {float(scores_I[item])}, so "
        "nothing can be ranked. The model has diverged or its file is damaged: train again with "
        "a smaller learning rate, or load an earlier checkpoint.",
        code="non_finite_scores",
    )


def _in_one_order(
    popular: Factors,
    users_T: NDArray[np.int64],
    k: int,
    seen: History | None,
    blocked_I: NDArray[np.bool_] | None,
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Rank by biases alone: without vectors they are everyone's scores."""
    if not bool((popular.bias_I < torch.inf).all()):
        raise _not_finite(popular.bias_I, int(users_T[0]))
    indptr_T1, seen_E = np.zeros(len(users_T) + 1, np.int64), np.empty(0, np.int32)
    if seen is not None:
        start_T, count_T = seen.indptr_U1[users_T], np.diff(seen.indptr_U1)[users_T]
        np.cumsum(count_T, out=indptr_T1[1:])
        shift_E = np.repeat(start_T - indptr_T1[:-1], count_T)
        seen_E = seen.items_E[np.arange(len(shift_E)) + shift_E]
    bias_I = popular.bias_I.cpu().numpy()
    return ranked(bias_I, k, indptr_T1=indptr_T1, seen_E=seen_E, blocked_I=blocked_I)


def _kernel() -> Callable[..., int] | None:
    """Give the compiled selection; None without Numba, where the torch path ranks the same."""
    try:
        from sdgar.kernels.numba.topk import select_rows
    except ImportError:
        return None
    compiled: Callable[..., int] = select_rows
    return compiled


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    """Start so many threads, which all calls share from then on."""
    return ThreadPoolExecutor(threads, thread_name_prefix="sdgar-topk")


if hasattr(os, "register_at_fork"):  # a process that is forked has none of the threads
    os.register_at_fork(after_in_child=_pool.cache_clear)


class _OnThreads:
    """Finds the k best of each row by threads of the CPU; see ``kernels/numba/topk.py``.

    Blocks have the same rows for any number of threads, so scores have the same bytes.
    """

    def __init__(
        self,
        scorer: Scorer,
        users_T: NDArray[np.int64],
        k: int,
        seen: History | None,
        blocked_I: NDArray[np.bool_] | None,
        few: Parts | None,
    ) -> None:
        self._scorer, self._users_T, self._few = scorer, users_T, few
        parts = Parts.of(scorer) if few is None else None
        self._parts = parts if parts is not None and parts.is_float32 else None
        self._rooms = threading.local()
        self._items_TK = np.empty((len(users_T), k), np.int32)
        self._top_TK = np.empty((len(users_T), k), np.float32)
        if seen is None:
            self._starts_T = self._ends_T = np.zeros(len(users_T), np.int64)
            self._seen_E = np.empty(0, np.int32)
        else:
            self._starts_T = seen.indptr_U1[users_T]
            self._ends_T = seen.indptr_U1[users_T + 1]
            self._seen_E = np.ascontiguousarray(seen.items_E)
        self._blocked_I = (
            np.empty(0, np.bool_) if blocked_I is None else np.ascontiguousarray(blocked_I)
        )

    def rank(
        self, kernel: Callable[..., int], rows: int
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Give items and scores, best first, ``rows`` users at a time in every thread."""
        from sdgar.machine.threads import share

        bad: list[tuple[int, int]] = []

        def part(first: int, last: int) -> None:
            row = self._rank_block(kernel, slice(first, last))
            if row >= 0:
                bad.append((first, row))

        n_users, n_items = len(self._users_T), self._scorer.n_items
        if n_users <= rows or self._few is not None:
            rows = n_users
            part(0, n_users)
        else:
            with cores.torch_aside():
                share(part, n_users, n_users * n_items, at_once=rows, pool_of=_pool)
        if bad:
            first, row = min(bad)
            users_B = self._users_T[first : first + rows]
            raise _not_finite(self._scores(users_B)[row], int(users_B[row]))
        return self._items_TK, self._top_TK

    def _rank_block(self, kernel: Callable[..., int], block: slice) -> int:
        """Rank one block, and give the first of its rows that cannot be ranked, or -1."""
        if self._parts is not None:
            return self._rank_parts(self._parts, block)
        if self._few is not None:
            scores_BI = scores_of_few(self._few, self._users_T[block], _pool)
        else:
            scores_BI = self._scores(self._users_T[block]).detach().numpy()
        return kernel(
            scores_BI, self._starts_T[block], self._ends_T[block], self._seen_E, self._blocked_I,
            0, len(scores_BI), self._items_TK[block], self._top_TK[block],
        )  # fmt: skip

    def _rank_parts(self, parts: Parts, block: slice) -> int:
        """Rank one block of a model of vectors, and of a memory beside them, each row at once."""
        from sdgar.kernels.numba.topk import finish_rows

        users_B = self._users_T[block]
        factors = parts.factors
        room_BI = self._room(len(users_B), factors.n_items)
        with torch.no_grad():
            u_BD = factors.user_UD.index_select(0, torch.from_numpy(users_B))
            torch.mm(u_BD, factors.item_ID.T, out=room_BI)
        bad: int = finish_rows(
            room_BI.numpy(), as_array(factors.bias_I), *parts.memory_of(users_B),
            self._starts_T[block], self._ends_T[block], self._seen_E, self._blocked_I,
            self._items_TK[block], self._top_TK[block],
        )  # fmt: skip
        return bad

    def _room(self, rows: int, columns: int) -> Tensor:
        """Give room for scores, which this thread keeps: to get it anew costs more than to fill."""
        kept: Tensor | None = getattr(self._rooms, "scores", None)
        if kept is None or kept.numel() < rows * columns:
            kept = self._rooms.scores = torch.empty(rows * columns)
        return kept[: rows * columns].view(rows, columns)

    def _scores(self, users_B: NDArray[np.int64]) -> Tensor:
        with torch.no_grad():  # a setting of each thread
            scores_BI = self._scorer.score_all(torch.tensor(users_B, device=self._scorer.device))
        return checked(scores_BI, len(users_B), self._scorer.n_items)


class _OnDevice:
    """Finds the k best of each row in the same order with torch alone, on any device.

    ``torch.topk`` promises nothing about ties. Inside the k best, sorting by item and then
    stably by score restores the order; only a row whose k-th score occurs once more outside
    them may hold the wrong items, and is sorted whole at the end. Until then the host waits for
    nothing, so that a GPU is never idle between blocks.
    """

    def __init__(
        self,
        scorer: Scorer,
        users_T: NDArray[np.int64],
        k: int,
        seen: History | None,
        blocked_I: NDArray[np.bool_] | None,
    ) -> None:
        device = scorer.device
        self._scorer, self._k = scorer, k
        self._users_T = torch.tensor(users_T, device=device)
        self._items_TK = torch.empty((len(users_T), k), dtype=torch.int32, device=device)
        self._top_TK = torch.empty((len(users_T), k), device=device)
        self._bad_T = torch.zeros(len(users_T), dtype=torch.bool, device=device)
        self._tied_T = torch.zeros_like(self._bad_T)
        self._blocked_I = None if blocked_I is None else torch.tensor(blocked_I, device=device)
        self._seen_E: Tensor | None = None
        if seen is not None:
            self._seen_E = torch.tensor(seen.items_E, device=device).long()
            start_T, count_T = seen.indptr_U1[users_T], np.diff(seen.indptr_U1)[users_T]
            self._start_T = torch.tensor(start_T, device=device)
            self._count_T = torch.tensor(count_T, device=device)
            self._upto_T1 = np.concatenate(([0], np.cumsum(count_T)))

    def rank(self, rows: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Give items and scores, best first, ``rows`` users at a time."""
        n_users, device = len(self._users_T), self._users_T.device
        for start in range(0, n_users, rows):
            stop = min(start + rows, n_users)
            self._rank_block(start, stop, torch.arange(start, stop, device=device))
        bad, tied = torch.stack((self._bad_T.any(), self._tied_T.any())).tolist()
        if bad:
            first = int(self._bad_T.nonzero()[0, 0])
            user = self._users_T[first : first + 1]
            raise _not_finite(self._scorer.score_all(user)[0].float(), int(user))
        if tied:
            for at_B in self._tied_T.nonzero()[:, 0].split(rows):  # type: ignore[no-untyped-call]
                whole = self._masked(at_B).sort(dim=1, descending=True, stable=True)
                self._top_TK[at_B] = whole.values[:, : self._k]
                self._items_TK[at_B] = whole.indices[:, : self._k].int()
        items_TK = self._items_TK.masked_fill(self._top_TK == -torch.inf, -1)
        return items_TK.cpu().numpy(), self._top_TK.cpu().numpy()

    def _rank_block(self, start: int, stop: int, at_B: Tensor) -> None:
        n_seen = None if self._seen_E is None else int(self._upto_T1[stop] - self._upto_T1[start])
        masked_BI = self._masked(at_B, n_seen)
        one_more = min(self._k + 1, masked_BI.shape[1])
        value_BK, item_BK = masked_BI.topk(one_more, dim=1)
        if one_more > self._k:
            last_B, next_B = value_BK[:, self._k - 1], value_BK[:, self._k]
            self._tied_T[at_B] = (last_B == next_B) & (last_B > -torch.inf)
        item_BK, order_BK = item_BK[:, : self._k].sort(dim=1)
        value_BK = value_BK.gather(1, order_BK)
        top_BK, order_BK = value_BK.sort(dim=1, descending=True, stable=True)
        self._top_TK[at_B] = top_BK
        self._items_TK[at_B] = item_BK.gather(1, order_BK).int()

    def _masked(self, at_B: Tensor, n_seen: int | None = None) -> Tensor:
        """Give scores with -inf for what may not be listed; without ``n_seen`` the host waits."""
        users_B = self._users_T[at_B]
        scores_BI = checked(self._scorer.score_all(users_B), len(users_B), self._scorer.n_items)
        # The largest of a row is NaN if one of them is.
        self._bad_T[at_B] = ~(scores_BI.amax(dim=1) < torch.inf)
        # Adding zero copies, and makes -0.0 and 0.0 one value for sorts that look at the bits.
        masked_BI = scores_BI + 0.0
        if self._seen_E is not None:
            count_B = self._count_T[at_B]
            row_B = torch.arange(len(at_B), device=at_B.device)
            row_E = torch.repeat_interleave(row_B, count_B, output_size=n_seen)
            place_E = torch.arange(len(row_E), device=at_B.device)
            shift_B = self._start_T[at_B] - (count_B.cumsum(0) - count_B)
            masked_BI[row_E, self._seen_E[place_E + shift_B[row_E]]] = -torch.inf
        if self._blocked_I is not None:
            masked_BI[:, self._blocked_I] = -torch.inf
        return masked_BI
