"""Fixed samplers (uniform, popularity), and the lookup that keeps known positives out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from sdgar.arguments import within
from sdgar.contracts import Health, KnownPositives, Negatives, Positives, Sampler, Score
from sdgar.maths.rng import Draws, below
from sdgar.samplers.alias import AliasTables

if TYPE_CHECKING:
    from sdgar.data.history import History
    from sdgar.parts import Ingredients


MAX_TRIES = 16


class PairLookup:
    """(user, item) pairs as sorted keys: a binary search finds one, or the r-th item without."""

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
        """Return True for each pair that is there."""
        pair_BN = users_BN * self._n_items + items_BN
        at_BN = torch.searchsorted(self._pair_E, pair_BN).clamp_(max=len(self._pair_E) - 1)
        return self._pair_E[at_BN] == pair_BN

    def n_unknown(self, users_BN: Tensor) -> Tensor:
        """Return the number of items with which the context has no pair."""
        return self._n_items - (self._start_U1[users_BN + 1] - self._start_U1[users_BN])

    def nth_unknown(self, users_BN: Tensor, r_BN: Tensor) -> Tensor:
        """r + #{j : p_j - j <= r}: the r-th unknown item, shifted by every known item before it."""
        key_BN = users_BN * (self._n_items + 1) + r_BN
        shift_BN = torch.searchsorted(self._unknown_below_E, key_BN, right=True)
        return r_BN + shift_BN - self._start_U1[users_BN]


def redraw_known(
    draw: Callable[[Tensor, Draws, Tensor], Tensor],
    positives: Positives,
    n: int,
) -> tuple[Tensor, Tensor]:
    """Draw n items a row, and draw known positives again, up to ``MAX_TRIES`` tries.

    Try t of draw j uses slot t·n + j. After the last try a known positive stays, marked as not
    accepted: without a limit, a user whose candidates are all positives would loop forever.
    """
    users_B, draws, known = positives.users_B, positives.draws, positives.known
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


class Static:
    """The base of samplers that do not learn: no saved state, and by default no tensors to move."""

    __slots__ = ()

    uses_scores: ClassVar[bool] = False

    def refit(self, score: Score, *, seed: int, epoch: int) -> Health:
        """Do nothing, as the sampler does not learn."""
        return Health()

    def to(self, device: torch.device) -> Self:
        """Return the sampler as it is, as it holds no tensors."""
        return self

    def state(self) -> dict[str, Tensor]:
        """Return an empty state."""
        return {}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Do nothing, as the state is empty."""


@dataclass(frozen=True, slots=True)
class NoDraws(Static):
    """Nothing is proposed, for a loss over all items."""

    def sample(self, positives: Positives, n: int) -> Negatives:
        """Return no negatives."""
        none_BN = positives.items_B.new_empty((len(positives.items_B), 0))
        return Negatives(none_BN, none_BN.bool())


@dataclass(frozen=True, slots=True)
class Uniform(Static):
    r"""Q(i | c) = 1 / |I \\ I_c| for every item i that is not a known positive of c.

    Drawn from the complement directly: one number, one binary search, no rejection, so a
    context that has all but one item costs the same as any other. A context that has
    every item has no negative; its draws are marked as not accepted.
    """

    knows_log_q: ClassVar[bool] = True
    counts_tries: ClassVar[bool] = False

    def sample(self, positives: Positives, n: int) -> Negatives:
        """Draw n independent items a row."""
        return self.at(torch.arange(n, device=positives.users_B.device), positives)

    def at(self, slots_N: Tensor, positives: Positives) -> Negatives:
        """Draw one item a row for each of these slots, for samplers that draw a few at a time."""
        known = positives.known
        high_BN, low_BN, _, _ = positives.draws.words(slots_N)
        users_BN = positives.users_B[:, None].expand(-1, len(slots_N))
        unknown_BN = known.n_unknown(users_BN)
        accepted_BN = unknown_BN > 0
        r_BN = below(unknown_BN, high_BN, low_BN)
        pos_B1 = positives.items_B[:, None]
        items_BN = torch.where(accepted_BN, known.nth_unknown(users_BN, r_BN), pos_B1)
        return Negatives(items_BN, accepted_BN, log_q_BN=-unknown_BN.clamp(min=1).log())

    def log_q_of(self, users_B: Tensor, items_BN: Tensor, known: KnownPositives | None) -> Tensor:
        """log Q(i | c) of items that are no positives. It is the same for all of them."""
        assert known is not None
        return -known.n_unknown(users_B[:, None].expand_as(items_BN)).clamp(min=1).log()


class Popularity(Static):
    """Q(i | c) ∝ n_i^power for every context, with n_i the number of users of item i."""

    __slots__ = ("log_q_I", "table")

    knows_log_q: ClassVar[bool] = True
    counts_tries: ClassVar[bool] = False
    redraws_positives: ClassVar[bool] = True

    def __init__(self, count_I: Tensor, power: float = 1.0) -> None:
        self.table = AliasTables.of(count_I.double().pow(power)[None])
        self.log_q_I = self.table.probability()[0].log()

    def sample(self, positives: Positives, n: int) -> Negatives:
        """Draw n independent items a row; known positives are drawn again."""
        items_BN, accepted_BN = redraw_known(self._draw, positives, n)
        return Negatives(items_BN, accepted_BN, self.log_q_I[items_BN])

    def log_q_of(self, users_B: Tensor, items_BN: Tensor, known: KnownPositives | None) -> Tensor:
        """log Q(i) of one draw, not corrected for redrawing known positives."""
        return self.log_q_I[items_BN].float()

    def to(self, device: torch.device) -> Self:
        """Move the table to a device."""
        self.table = self.table.to(device)
        self.log_q_I = self.log_q_I.to(device)
        return self

    def _draw(self, users: Tensor, draws: Draws, slots: Tensor) -> Tensor:
        high, low, _, _ = draws.words(slots)
        return self.table.draw(torch.zeros_like(users), high, low)


class PopularityMix(Popularity):
    """Q(i | c) = share · n_i / Σ_j n_j + (1 - share) / M, for every context.

    Popular items are proposed often, and yet every item is proposed at times. Both parts are one
    alias table, so a draw costs what a draw by popularity costs, and log Q is exact.
    """

    __slots__ = ()

    def __init__(self, count_I: Tensor, share: float) -> None:
        share = within("share", share, 0, 1)
        popular_I = count_I.double() / count_I.sum()
        super().__init__(share * popular_I + (1 - share) / len(count_I))


def uniform(given: Ingredients) -> Uniform:
    """Return the sampler that draws uniformly from the items that the user does not have."""
    return Uniform()


def popularity(given: Ingredients) -> Popularity:
    """Return the sampler that draws items in proportion to the number of their users."""
    return Popularity(_counts(given))


def popularity_mix(given: Ingredients, *, share: float = 0.5) -> PopularityMix:
    """Return the sampler that draws by popularity with probability ``share``, else uniformly."""
    return PopularityMix(_counts(given), share)


def _counts(given: Ingredients) -> Tensor:
    """Return the number of users of each item."""
    return torch.from_numpy(np.bincount(given.data.items_E, minlength=given.data.n_items))


STATIC: dict[str, Callable[[Ingredients], Sampler]] = {"uniform": uniform, "popularity": popularity}
"""The static samplers without settings, to compare a generator with; popularity-mix has one."""
