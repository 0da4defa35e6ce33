"""Samplers that do not learn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from sdgar.contracts import KnownPositives, Negatives, Score
from sdgar.rng import Draws, below


@dataclass(frozen=True, slots=True)
class Uniform:
    r"""Q(i | c) = 1 / |I \\ I_c| for every item i that is not a known positive of c.

    Drawn from the complement directly: one number, one binary search, no rejection, so a
    context that knows all but one item costs the same as any other. A context that knows
    every item has no negative; its draws are marked as not accepted.
    """

    def sample(
        self,
        users_B: Tensor,
        pos_B: Tensor,
        n: int,
        *,
        score: Score,
        draws: Draws,
        known: KnownPositives,
    ) -> Negatives:
        """N independent draws a row."""
        slots_N = torch.arange(n, device=users_B.device)
        high_BN, low_BN, _, _ = draws.words(slots_N)
        users_BN = users_B[:, None].expand(-1, n)
        unknown_BN = known.n_unknown(users_BN)
        accepted_BN = unknown_BN > 0
        r_BN = below(unknown_BN, high_BN, low_BN)
        items_BN = torch.where(accepted_BN, known.nth_unknown(users_BN, r_BN), pos_B[:, None])
        return Negatives(items_BN, accepted_BN, log_q_BN=-unknown_BN.clamp(min=1).log())

    def refit(self, score: Score, epoch: int) -> None:
        """Nothing to follow."""

    def state(self) -> dict[str, Tensor]:
        """Nothing to keep."""
        return {}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Nothing to take back."""
