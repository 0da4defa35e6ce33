"""IRGAN's generator (Wang et al. 2017): a softmax over all items, drawn from exactly."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, ClassVar, Self

import torch
from torch import Tensor

from sdgar.contracts import Health, Negatives, Positives, Score
from sdgar.discriminators.factorization import MatrixFactorization
from sdgar.maths.optimizers import lean, moments, take_moments
from sdgar.maths.rng import Stream
from sdgar.models.factor_tensors import FactorTensors

if TYPE_CHECKING:
    from sdgar.data.history import History


_BITS = 40
MOST_ROWS = 1 << (62 - _BITS)
"""The most distributions whose running sums fit behind each other into an int64."""
BLOCK = 256
"""The items of a block, whose sum is looked at first; sums within it are made for draws only."""
_DRAWS_AT_ONCE = 1 << 15


def inverse_cdf(p_CI: Tensor, place_RN: Tensor, high_RN: Tensor, low_RN: Tensor) -> Tensor:
    """Return the first item whose running sum Σ_{j <= i} p_cj exceeds a number in [0, Σ p_c).

    c is the row of p that ``place_RN`` names. First the block of items, then the item in it, so
    that all of p is read once, to be summed. Blocks are compared in whole numbers of 2^-40, offset
    by row, so that a single binary search serves all. No item of probability 0 is drawn, unless a
    row has no other.
    """
    n_items = p_CI.shape[1]
    even = n_items - n_items % BLOCK
    blocks_CKL = p_CI[:, :even].unflatten(1, (-1, BLOCK))  # type: ignore[no-untyped-call]
    parts = [blocks_CKL.sum(2)]
    if even < n_items:
        parts.append(p_CI[:, even:].sum(1, keepdim=True))
    sum_CK = torch.cat(parts, dim=1).cumsum(dim=1, dtype=torch.float64)
    sum_CK /= sum_CK[:, -1:].clamp(min=torch.finfo(torch.float64).tiny)
    whole_CK = (sum_CK * 2.0**_BITS).long()
    n_blocks = whole_CK.shape[1]
    before_C1 = torch.arange(len(whole_CK), device=p_CI.device)[:, None] << _BITS
    bounds = (whole_CK + before_C1).view(-1)

    def draw(place_R: Tensor, uniform_R: Tensor) -> Tensor:
        block_R = torch.searchsorted(bounds, (place_R << _BITS) + uniform_R, right=True)
        block_R = (block_R - place_R * n_blocks).clamp(max=n_blocks - 1)
        end_R = whole_CK[place_R, block_R]
        start_R = torch.where(block_R > 0, whole_CK[place_R, block_R - 1], 0)
        # Halfway into the unit of 2^-40, so that it is below the sum however that is rounded.
        share_R = (uniform_R - start_R + 0.5) / (end_R - start_R).clamp(min=1)
        item_RL = block_R[:, None] * BLOCK + torch.arange(BLOCK, device=p_CI.device)
        p_RL = p_CI[place_R[:, None], item_RL.clamp(max=n_items - 1)]
        sum_RL = p_RL.masked_fill_(item_RL >= n_items, 0).cumsum(dim=1, dtype=torch.float64)
        at_R1 = torch.searchsorted(sum_RL, share_R[:, None] * sum_RL[:, -1:], right=True)
        return (block_R * BLOCK + at_R1[:, 0]).clamp(max=n_items - 1)

    uniform_RN = (high_RN << (_BITS - 32)) | (low_RN >> (64 - _BITS))  # whole numbers below 2^40
    place_RS = place_RN.reshape(-1).split(_DRAWS_AT_ONCE)  # type: ignore[no-untyped-call]
    uniform_RS = uniform_RN.reshape(-1).split(_DRAWS_AT_ONCE)  # type: ignore[no-untyped-call]
    return torch.cat(list(map(draw, place_RS, uniform_RS))).view(place_RN.shape)


_SCORES_AT_ONCE, _SCORES_AT_ONCE_ON_GPU = 1 << 22, 1 << 26
"""The most scores in memory at a time, on the CPU and on a GPU, where fewer only cost launches."""


class SoftmaxGenerator:
    """Q(i | c) = exp(g(c, i)/τ) / Σ_j exp(g(c, j)/τ), with g a matrix factorization.

    Exact, so a context costs the scores of all items, for its draws as for its updates: O(N·M·D)
    an epoch by nature. It is the cost that a decomposable generator avoids.

    Proposals are Q given that the item is not a known positive: known positives are masked
    before the softmax, which is exact where redrawing could run out of tries.
    """

    uses_scores: ClassVar[bool] = False
    knows_log_q: ClassVar[bool] = True
    counts_tries: ClassVar[bool] = False

    def __init__(
        self,
        history: History,
        n_items: int,
        dim: int,
        *,
        seed: int,
        temperature: float,
        learning_rate: float,
        update: Callable[..., Health],
    ) -> None:
        streams = (Stream.INIT_GENERATOR, Stream.INIT_GENERATOR_ITEM)
        self.model = MatrixFactorization(history.n_users, n_items, dim, seed=seed, streams=streams)
        self.n_items = n_items
        self.temperature = temperature
        """The temperature τ of the proposals; the generator learns at τ = 1, as in the authors'
        code."""
        self.update = update
        """The update by which the generator follows the discriminator."""
        self.optimizer = lean(torch.optim.Adam)(self.model.parameters(), lr=learning_rate)
        self._start_U1 = torch.from_numpy(history.indptr_U1)
        self._item_E = torch.from_numpy(history.items_E).long()

    def logits(self, users_B: Tensor) -> Tensor:
        """Return g_BI, with a gradient."""
        model = self.model
        return FactorTensors(model.user_UD, model.item_ID, model.bias_I).score_all(users_B)

    @torch.no_grad()
    def proposals(self, users_B: Tensor) -> Tensor:
        """Return Q_BI with known positives masked; all 0 for a context that has every item."""
        f = self.model.factors()
        scaled_BI = torch.addmm(
            f.bias_I / self.temperature, f.user_UD[users_B] / self.temperature, f.item_ID.T
        )
        scaled_BI[self.positives(users_B)] = -torch.inf
        q_BI = scaled_BI.softmax(dim=1)
        q_BI[self._count(users_B) == self.n_items] = 0
        return q_BI

    def positives(self, users_B: Tensor) -> tuple[Tensor, Tensor]:
        """Return the known positives of some contexts: places in ``users_B``, and items."""
        start_B, count_B = self._start_U1[users_B], self._count(users_B)
        place_R = torch.repeat_interleave(count_B)
        before_B = count_B.cumsum(dim=0) - count_B
        rank_R = torch.arange(len(place_R), device=place_R.device) - before_B[place_R]
        return place_R, self._item_E[start_B[place_R] + rank_R]

    def _count(self, users_B: Tensor) -> Tensor:
        return self._start_U1[users_B + 1] - self._start_U1[users_B]

    def with_positives(self) -> Tensor:
        """Return the contexts that have positives."""
        return self._start_U1.diff().nonzero()[:, 0]

    def pieces(self, users_B: Tensor) -> tuple[Tensor, ...]:
        """Yield groups of contexts for which the scores of all items fit into bounded memory."""
        most = _SCORES_AT_ONCE if users_B.device.type == "cpu" else _SCORES_AT_ONCE_ON_GPU
        size = min(max(1, most // self.n_items), MOST_ROWS)
        return users_B.split(size)  # type: ignore[no-untyped-call,no-any-return]

    def sample(self, positives: Positives, n: int) -> Negatives:
        """Draw n independent items a row; each distinct context is computed once."""
        users_B, pos_B = positives.users_B, positives.items_B
        high_BN, low_BN, _, _ = positives.draws.words(torch.arange(n, device=users_B.device))
        accepted_BN = (positives.known.n_unknown(users_B) > 0)[:, None].expand(-1, n)
        items_BN = pos_B[:, None].repeat(1, n)
        log_q_BN = torch.zeros(items_BN.shape, device=users_B.device)
        users_C, place_B = torch.unique(users_B, return_inverse=True)
        sorted_B, order_B = place_B.sort(stable=True)
        pieces = self.pieces(users_C)
        firsts = [0, *accumulate(map(len, pieces))]
        bounds = torch.searchsorted(sorted_B, torch.tensor(firsts, device=users_B.device)).tolist()
        for users_P, first, (start, stop) in zip(
            pieces, firsts[:-1], pairwise(bounds), strict=True
        ):
            rows_R = order_B[start:stop]
            place_RN = (place_B[rows_R] - first)[:, None].expand(-1, n)
            q_PI, found_RN = self.proposals(users_P), accepted_BN[rows_R]
            drawn_RN = inverse_cdf(q_PI, place_RN, high_BN[rows_R], low_BN[rows_R])
            items_BN[rows_R] = torch.where(found_RN, drawn_RN, items_BN[rows_R])
            log_q_BN[rows_R] = torch.where(found_RN, q_PI[place_RN, drawn_RN].log(), 0.0)
        return Negatives(items_BN, accepted_BN, log_q_BN)

    def refit(self, score: Score, *, seed: int, epoch: int) -> Health:
        """Learn from the rewards of the discriminator."""
        return self.update(self, score, seed=seed, epoch=epoch)

    def learned(self) -> FactorTensors:
        """Return the generator as a recommender, which ranks by g."""
        return self.model.factors()

    def to(self, device: torch.device) -> Self:
        """Move the tables to a device."""
        self.model.to(device)
        self._start_U1, self._item_E = self._start_U1.to(device), self._item_E.to(device)
        return self

    def state(self) -> dict[str, Tensor]:
        """Return the parameters, and the moments of their optimiser."""
        return {**self.model.state_dict(), **moments(self.optimizer)}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Restore the state that ``state`` returned."""
        self.model.load_state_dict({k: v for k, v in state.items() if "." not in k})
        take_moments(self.optimizer, {k: v for k, v in state.items() if "." in k})
