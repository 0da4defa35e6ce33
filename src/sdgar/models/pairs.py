"""The scores of some pairs, from models that score the whole catalogue at once."""

from __future__ import annotations

import torch
from torch import Tensor

from sdgar.models.model import Scorer, checked

_SCORES = 4 << 20
"""How many scores are held at once, of which some are picked."""


def picked(scorer: Scorer, users_P: Tensor, items_P: Tensor) -> Tensor:
    """s_P of each context and the item beside it, with no more than a block of other scores."""
    found_P = torch.zeros(len(users_P), device=users_P.device)
    users_X, which_P = torch.unique(users_P, return_inverse=True)
    step = max(1, _SCORES // scorer.n_items)
    for start in range(0, len(users_X), step):
        users_B = users_X[start : start + step]
        scores_BI = checked(scorer.score_all(users_B), len(users_B), scorer.n_items)
        here_P = ((which_P >= start) & (which_P < start + len(users_B))).nonzero()[:, 0]
        found_P[here_P] = scores_BI[which_P[here_P] - start, items_P[here_P]]
    return found_P
