"""The k best items of every user by torch alone, for scorers whose tensors are on any device.

``torch.topk`` promises nothing about ties. Inside the k best, sorting by item and then stably by
score restores the order of ``topk.py``. Only a row whose k-th score occurs once more outside them
may have the wrong items, and is sorted whole at the end. Until then the host waits for nothing, so
that a GPU is never idle between blocks.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sdgar.machine import cores
from sdgar.models.model import Floats
from sdgar.models.scorers import TensorScorer, require_shape
from sdgar.ranking.blocks import Wanted, not_finite_of

_BYTES_PER_SCORE = 32
"""What a score costs while its block is alive: a masked copy and, where there are ties, a sort."""
_RAM = {"cpu": 64 << 20}
"""The bytes of a block of scores by the type of a device."""
_RAM_OF_GPU = 4 << 30
"""The bytes of a block on a GPU, where smaller ones cost launches."""


class TorchRanking:
    """Finds the k best of each row, a block at a time."""

    def __init__(self, scorer: TensorScorer, wanted: Wanted) -> None:
        users_T, k, seen, blocked_I = wanted
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

    @torch.no_grad()
    @cores.torch_threads()
    def rank(self) -> tuple[NDArray[np.int32], Floats]:
        """Return items and scores, best first, in blocks of bounded memory."""
        n_users, device = len(self._users_T), self._users_T.device
        ram_bytes = _RAM.get(device.type, _RAM_OF_GPU)
        rows = max(1, ram_bytes // (_BYTES_PER_SCORE * self._scorer.n_items))
        for start in range(0, n_users, rows):
            stop = min(start + rows, n_users)
            self._rank_block(start, stop, torch.arange(start, stop, device=device))
        bad, tied = torch.stack((self._bad_T.any(), self._tied_T.any())).tolist()
        if bad:
            first = int(self._bad_T.nonzero()[0, 0])
            user = self._users_T[first : first + 1]
            score_I = self._scorer.score_all(user)[0].float().cpu().numpy()
            raise not_finite_of(score_I, int(user))
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
        """Return scores with -inf for what may not be listed; without ``n_seen`` the host waits."""
        users_B = self._users_T[at_B]
        scores_BI = self._scorer.score_all(users_B)
        require_shape(scores_BI, len(users_B), self._scorer.n_items)
        scores_BI = scores_BI.to(torch.float32).contiguous()
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
