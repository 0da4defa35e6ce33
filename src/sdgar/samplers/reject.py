"""Known positives, which must not be proposed as negatives."""

from __future__ import annotations

import torch
from torch import Tensor

from sdgar.data.interactions import History


class KnownItems:
    """The training positives as sorted keys: membership and the complement by binary search."""

    def __init__(self, history: History, n_items: int, device: torch.device) -> None:
        self._n_items = n_items
        self._start_U1 = torch.from_numpy(history.indptr_U1).to(device)
        count_U = self._start_U1.diff()
        item_E = torch.from_numpy(history.items_E).to(device).long()
        user_E = torch.repeat_interleave(torch.arange(len(count_U), device=device), count_U)
        self._pair_E = user_E * n_items + item_E
        # Of the items below the j-th positive p_j of a context, p_j - j are unknown to it. This
        # is what nth_unknown searches; the keys ascend over contexts as p_j - j <= n_items.
        place_E = torch.arange(len(item_E), device=device) - self._start_U1[user_E]
        self._unknown_below_E = user_E * (n_items + 1) + item_E - place_E

    def contains(self, users_BN: Tensor, items_BN: Tensor) -> Tensor:
        """Boolean, True where the pair is a known positive."""
        pair_BN = users_BN * self._n_items + items_BN
        at_BN = torch.searchsorted(self._pair_E, pair_BN).clamp_(max=len(self._pair_E) - 1)
        return self._pair_E[at_BN] == pair_BN

    def n_unknown(self, users_BN: Tensor) -> Tensor:
        """How many items are not known positives of the context."""
        return self._n_items - (self._start_U1[users_BN + 1] - self._start_U1[users_BN])

    def nth_unknown(self, users_BN: Tensor, r_BN: Tensor) -> Tensor:
        """Find item r + #{j : p_j - j <= r}: every known item before it shifts it by one."""
        key_BN = users_BN * (self._n_items + 1) + r_BN
        shift_BN = torch.searchsorted(self._unknown_below_E, key_BN, right=True)
        return r_BN + shift_BN - self._start_U1[users_BN]
