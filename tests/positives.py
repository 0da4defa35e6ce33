"""Rows of a batch, as samplers get them."""

from __future__ import annotations

import torch

from sdgar.contracts import Positives, Score
from sdgar.data.interactions import Interactions
from sdgar.maths.rng import Draws, Stream
from sdgar.samplers.static import PairLookup


def flat(users_B: torch.Tensor, items_BN: torch.Tensor) -> torch.Tensor:
    """Scores that are all 0."""
    return torch.zeros(items_BN.shape)


def positives_of(
    data: Interactions,
    users_B: torch.Tensor | None = None,
    items_B: torch.Tensor | None = None,
    *,
    rows_B: torch.Tensor | None = None,
    seed: int = 0,
    epoch: int = 1,
    score: Score = flat,
) -> Positives:
    """All rows of the data, or rows of these contexts; row b has the numbers of ``rows_B[b]``."""
    if users_B is None:
        users_B, items_B = torch.from_numpy(data.users_E), torch.from_numpy(data.items_E).long()
    if rows_B is None:
        rows_B = torch.arange(len(users_B), device=users_B.device)
    items_B = torch.zeros_like(users_B) if items_B is None else items_B
    draws = Draws(seed, Stream.NEGATIVES, epoch, rows_B[:, None])
    known = PairLookup(data.history, data.n_items, users_B.device)
    return Positives(users_B, items_B, score, draws, known)
