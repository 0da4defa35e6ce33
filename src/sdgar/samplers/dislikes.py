"""Mix disliked items of a context into the negatives of another sampler."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, ClassVar, Self

import torch
from torch import Tensor

from sdgar.contracts import Health, KnownPositives, Negatives, Objective, Positives, Sampler, Score
from sdgar.errors import DataError, UsageError
from sdgar.maths.rng import Draws, Stream, below
from sdgar.samplers.static import MAX_TRIES, PairLookup

if TYPE_CHECKING:
    from sdgar.data.interactions import Interactions

_WORDS = 2.0**-32
_PAIRS = 1 << 16
"""The most positives whose probabilities are in memory at once."""

DISLIKES = 0.1
"""The default share of negatives that are drawn from dislikes."""


LogQOf = Callable[[Tensor, Tensor, KnownPositives | None], Tensor]
"""A function (users_B, items_BN, known) -> log q_BN of any items, also of those not drawn."""


class WithDislikes:
    """A sampler that draws a disliked item with probability p, and otherwise what ``base`` draws.

        Q'(i | c) = (1 - p) Q(i | c) + p [i ∈ D_c] / |D_c|

    where c has disliked items D_c, and Q without. Q is what ``base`` draws from once known
    positives P_c are drawn again, at most T times in all, and what is still one is given up:

        Q(i | c) = q(i | c) / Z_c · (1 - (1 - Z_c)^T),   Z_c = 1 - Σ_{j ∈ P_c} q(j | c)
    """

    def __init__(self, base: Sampler, data: Interactions, p: float) -> None:
        assert data.disliked is not None, "there is nothing to draw from"
        self.base, self.p = base, p
        self.uses_scores = base.uses_scores
        """True if the draws of the other sampler depend on the current scores."""
        self.knows_log_q = hasattr(base, "log_q_of")
        """True if the other sampler has log Q of an item that it did not draw."""
        self.most_negatives: int | None = getattr(base, "most_negatives", None)
        """The most negatives that the other sampler gives; None if there is no bound."""
        self._log_q_of: LogQOf = getattr(base, "log_q_of", None)  # type: ignore[assignment]
        # Whether the other sampler has a log q of single draws, and draws positives again.
        self._redraws: bool = getattr(base, "redraws_positives", False)
        self._positives, self._n_items = data.history, data.n_items
        self._disliked = data.disliked
        self._place(torch.device("cpu"))

    counts_tries: ClassVar[bool] = False

    def sample(self, positives: Positives, n: int) -> Negatives:
        """Draw n negatives a row; a number of a separate stream decides which are dislikes."""
        drawn = self.base.sample(positives, n)
        users_B, draws = positives.users_B, positives.draws
        own = Draws(draws.seed, Stream.DISLIKES, draws.epoch, draws.rows)
        coin_BN, high_BN, low_BN, _ = own.words(torch.arange(n, device=users_B.device))
        count_B1 = self._count_U[users_B][:, None]
        chosen_BN = (coin_BN * _WORDS < self.p) & (count_B1 > 0)
        place_BN = self._start_U[users_B][:, None] + below(count_B1, high_BN, low_BN)
        disliked_BN = self._item_D[place_BN.clamp(max=len(self._item_D) - 1)]
        items_BN = torch.where(chosen_BN, disliked_BN, drawn.items_BN)
        log_q_BN = None
        if self.knows_log_q:
            log_q_BN = self.log_q(users_B, items_BN, positives.known)
        return Negatives(items_BN, drawn.accepted_BN | chosen_BN, log_q_BN)

    def log_q(self, users_B: Tensor, items_BN: Tensor, known: KnownPositives) -> Tensor:
        """log Q'(i | c) of any items that are no positives."""
        users_BN = users_B[:, None].expand_as(items_BN)
        log_q_BN = self._log_q_of(users_B, items_BN, known)
        if self._redraws:
            log_q_BN = log_q_BN + self._log_kept_U[users_B][:, None]
        count_BN = self._count_U[users_BN]
        is_disliked_BN = self._is_disliked.contains(users_BN, items_BN)
        extra_BN = math.log(self.p) - count_BN.clamp(min=1).log()
        both_BN = torch.logaddexp(
            log_q_BN + math.log1p(-self.p), extra_BN.where(is_disliked_BN, -torch.inf)
        )
        return torch.where(count_BN > 0, both_BN, log_q_BN)

    def _weigh(self) -> None:
        """log (1 - (1 - Z_c)^T) / Z_c of every context, from the proposals as they are now."""
        if not self._redraws:
            return
        mass_U = torch.zeros(len(self._count_U), dtype=torch.float64, device=self._item_D.device)
        for first in range(0, len(self._user_E), _PAIRS):
            user_B = self._user_E[first : first + _PAIRS]
            item_B1 = self._item_E[first : first + _PAIRS, None]
            q_B = self._log_q_of(user_B, item_B1, None)[:, 0].exp().double()
            mass_U.index_add_(0, user_B, q_B)
        z_U = (1 - mass_U).clamp(min=1e-9)
        self._log_kept_U = ((1 - (1 - z_U) ** MAX_TRIES) / z_U).log().float()

    def _place(self, device: torch.device) -> None:
        """Put the tables on the device of the draws."""
        start_U1 = torch.from_numpy(self._disliked.indptr_U1).to(device)
        self._start_U, self._count_U = start_U1[:-1], start_U1.diff()
        self._item_D = torch.from_numpy(self._disliked.items_E).to(device).long()
        self._is_disliked = PairLookup(self._disliked, self._n_items, device)
        self._user_E = torch.from_numpy(self._positives.users_E).to(device)
        self._item_E = torch.from_numpy(self._positives.items_E).to(device).long()
        self._weigh()

    def tables(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return the tables that compiled draws read.

        They are where the dislikes of each context begin, the dislikes of all, and
        (1 - (1 - Z_c)^T) / Z_c, which is 1 for a sampler that draws no known positive.
        """
        start_U1 = torch.from_numpy(self._disliked.indptr_U1)
        kept_U = self._log_kept_U.exp() if self._redraws else torch.ones(len(self._count_U))
        return start_U1, self._item_D, kept_U

    def refit(self, score: Score, *, seed: int, epoch: int) -> Health:
        """Refit the other sampler, and return its health."""
        health = self.base.refit(score, seed=seed, epoch=epoch)
        self._weigh()
        return health

    def to(self, device: torch.device) -> Self:
        """Move the tables to a device."""
        self.base.to(device)
        self._place(device)
        return self

    def state(self) -> dict[str, Tensor]:
        """Return the state of the other sampler."""
        return self.base.state()

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Restore the state that ``state`` returned."""
        self.base.load_state(state)
        self._weigh()


def with_dislikes(
    system: str, sampler: Sampler, objective: Objective, data: Interactions, share: float
) -> Sampler:
    """Return a sampler with dislikes mixed into its draws, if that is sound and there are any.

    It is not sound if nothing is drawn, if ranks are estimated from the draws, or if Q is unknown.
    """
    if share == 0:
        return sampler
    if getattr(objective, "over_all_items", False):
        raise UsageError(
            f"{system} compares each positive with all items, and draws none that a dislike could "
            "take the place of. Set dislikes to 0, or draw negatives with n_negatives.",
            code="unused_dislikes",
        )
    if getattr(objective, "needs_uniform_negatives", False):
        raise UsageError(
            f"{system} estimates ranks from draws that are uniform, which draws of dislikes are "
            "not. Set dislikes to 0, or use another system.",
            code="unused_dislikes",
        )
    if getattr(objective, "needs_log_q", False) and not hasattr(sampler, "log_q_of"):
        raise UsageError(
            f"{system} weighs negatives by how likely they were proposed, which its sampler cannot "
            "say of a disliked item. Set dislikes to 0, or use sampler decomposable, uniform or "
            "popularity.",
            code="unused_dislikes",
        )
    return sampler if data.disliked is None else WithDislikes(sampler, data, share)


def require_dislikes(data: Interactions) -> None:
    """Raise if there is nothing that users dislike."""
    if data.disliked is None:
        raise DataError(
            "there are no dislikes to draw negatives from. Keep ratings of at least some value "
            "(--min-rating 4, min_rating=4): what is rated lower is disliked. Or name kinds of "
            "events (--dislike-kinds skip,return) or a weight (--weight-column NAME "
            "--dislike-below 0.1). Or leave dislikes out.",
            code="no_dislikes",
        )
