"""Know the positives, which must not be proposed as negatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from sdgar.contracts import KnownPositives
    from sdgar.data.history import History
    from sdgar.maths.rng import Draws

MAX_TRIES = 16


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
        """Return True for each pair that is a known positive."""
        pair_BN = users_BN * self._n_items + items_BN
        at_BN = torch.searchsorted(self._pair_E, pair_BN).clamp_(max=len(self._pair_E) - 1)
        return self._pair_E[at_BN] == pair_BN

    def n_unknown(self, users_BN: Tensor) -> Tensor:
        """Return the number of items that are not known positives of the context."""
        return self._n_items - (self._start_U1[users_BN + 1] - self._start_U1[users_BN])

    def nth_unknown(self, users_BN: Tensor, r_BN: Tensor) -> Tensor:
        """r + #{j : p_j - j <= r}: the r-th unknown item, shifted by every known item before it."""
        key_BN = users_BN * (self._n_items + 1) + r_BN
        shift_BN = torch.searchsorted(self._unknown_below_E, key_BN, right=True)
        return r_BN + shift_BN - self._start_U1[users_BN]


def redraw_known(
    draw: Callable[[Tensor, Draws, Tensor], Tensor],
    users_B: Tensor,
    n: int,
    draws: Draws,
    known: KnownPositives,
) -> tuple[Tensor, Tensor]:
    """Draw n items a row, and draw known positives again, at most 16 times in all.

    Try t of draw j uses slot t·n + j. After the last try a known positive stays, marked as not
    accepted: a context whose proposals are all its own positives must not hang the run.
    """
    slots_N = torch.arange(n, device=users_B.device)
    users_BN = users_B[:, None].expand(-1, n)
    items_BN = draw(users_BN, draws, slots_N)
    known_BN = known.contains(users_BN, items_BN)
    for t in range(1, MAX_TRIES):
        row_R, slot_R = known_BN.nonzero(as_tuple=True)
        if len(row_R) == 0:
            break
        again = draws.at(draws.rows[row_R, 0])
        items_R = draw(users_B[row_R], again, t * n + slot_R)
        items_BN[row_R, slot_R] = items_R
        known_BN[row_R, slot_R] = known.contains(users_B[row_R], items_R)
    return items_BN, ~known_BN
