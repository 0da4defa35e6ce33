"""Small ranking problems, and an oracle that does everything the slow and obvious way."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from hypothesis import strategies as st
from torch import Tensor

from sdgar.data.held_out import HeldOut
from sdgar.data.history import History
from sdgar.maths.rows import Rows
from sdgar.models.factors import Factors
from sdgar.models.item_weights import LocalItemWeights
from sdgar.models.sum import Sum


@dataclass(frozen=True)
class Table:
    """A scorer that reads its scores from a table."""

    scores_UI: Tensor

    @property
    def n_items(self) -> int:
        return self.scores_UI.shape[1]

    def score_all(self, users_B: np.ndarray) -> np.ndarray:
        return np.asarray(self.scores_UI)[users_B]


class TensorTable(Table):
    """The same for a scorer that computes with tensors, as on a GPU."""

    @property
    def device(self) -> torch.device:
        return self.scores_UI.device

    def score_all(self, users_B: Tensor) -> Tensor:
        return self.scores_UI[users_B]


def history(items_of: list[set[int]]) -> History:
    sizes = [len(items) for items in items_of]
    flat = [item for items in items_of for item in sorted(items)]
    return History(np.cumsum([0, *sizes]).astype(np.int64), np.array(flat, np.int32))


def held_out(items_of: dict[int, set[int]]) -> HeldOut:
    users = sorted(items_of)
    sizes = [len(items_of[user]) for user in users]
    flat = [item for user in users for item in sorted(items_of[user])]
    indptr_T1 = np.cumsum([0, *sizes]).astype(np.int64)
    return HeldOut(np.array(users, np.int64), indptr_T1, np.array(flat, np.int64), 0, 0, 0, 0)


@dataclass(frozen=True)
class Problem:
    """Scores with many ties, what each user saw, what is blocked, and what is held out."""

    scores_UI: Tensor
    seen: list[set[int]]
    blocked: set[int]
    test: dict[int, set[int]]
    k: int

    @property
    def n_items(self) -> int:
        return self.scores_UI.shape[1]

    @property
    def blocked_I(self) -> np.ndarray:
        return np.isin(np.arange(self.n_items), list(self.blocked))

    def best(self, user: int) -> list[int]:
        """Oracle: sort everything that may be recommended."""
        score = self.scores_UI[user].tolist()
        allowed = [
            item
            for item in range(self.n_items)
            if item not in self.seen[user] | self.blocked and score[item] > -math.inf
        ]
        return sorted(allowed, key=lambda item: (-score[item], item))[: self.k]


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    n_users = draw(st.integers(1, 6))
    # Several chunks of the kernel, and a remainder.
    n_items = draw(st.integers(1, 12) | st.integers(60, 110))
    seed = draw(st.integers(0, 2**32 - 1))
    levels = draw(st.sampled_from([1, 2, 5, 1000]))
    some_minus_inf = draw(st.booleans())
    k = draw(st.integers(1, 15))
    share_seen, share_blocked = draw(st.sampled_from([(0.0, 0.0), (0.3, 0.1), (0.95, 0.3)]))

    rng = np.random.default_rng(seed)
    scores = (rng.integers(0, levels, (n_users, n_items)) - levels // 2) / 4.0
    scores = np.where((scores == 0) & (rng.random(scores.shape) < 0.5), -0.0, scores)
    if some_minus_inf:
        scores = np.where(rng.random(scores.shape) < 0.2, -np.inf, scores)
    # Indices past the catalogue are held-out items that training never saw.
    n_test = np.minimum(rng.integers(1, 2 * k + 3, n_users), n_items + 3)
    return Problem(
        scores_UI=torch.tensor(scores, dtype=torch.float32),
        seen=[
            set(np.flatnonzero(rng.random(n_items) < share_seen).tolist()) for _ in range(n_users)
        ],
        blocked=set(np.flatnonzero(rng.random(n_items) < share_blocked).tolist()),
        test={
            user: set(rng.choice(n_items + 3, n_test[user], replace=False).tolist())
            for user in range(n_users)
            if rng.random() < 0.8 or user == 0
        },
        k=k,
    )


def oracle_metrics(ranked: list[int], positives: set[int], k: int) -> dict[str, float]:
    """Every metric of one list, straight from its definition."""
    relevant = [item in positives for item in ranked[:k]]
    hits = sum(relevant)
    ranks = [rank for rank, hit in enumerate(relevant, start=1) if hit]
    ideal = sum(1 / math.log2(rank + 1) for rank in range(1, min(len(positives), k) + 1))
    return {
        f"precision@{k}": hits / k,
        f"recall@{k}": hits / len(positives),
        f"ndcg@{k}": sum(1 / math.log2(rank + 1) for rank in ranks) / ideal,
        f"mrr@{k}": 1 / ranks[0] if ranks else 0.0,
        f"map@{k}": sum(sum(relevant[:rank]) / rank for rank in ranks) / len(positives),
        f"hit@{k}": float(hits > 0),
    }


def model_of(rng, n_users, n_items, dim, *, scale=1.0, memory=True, alike=1):
    """Return a synthetic model; ``alike`` items in a row have one vector, so that they tie."""
    item = rng.normal(size=(n_items, dim)) * rng.lognormal(0, scale, (n_items, 1))
    item = item[np.arange(n_items) // alike * alike]
    bias = rng.normal(size=n_items)[np.arange(n_items) // alike * alike]
    user = rng.normal(size=(n_users, dim)) * rng.lognormal(0, scale, (n_users, 1))
    factors = Factors(*(a.astype(np.float32) for a in (user, item, bias)))
    if not memory:
        return factors, None
    pairs = np.unique(rng.integers(0, n_users * n_items, 4 * n_users))
    history = History.of_pairs(pairs // n_items, pairs % n_items, n_users)
    start = np.arange(0, 4 * n_items, 4, dtype=np.int64)
    start = np.append(start, 4 * n_items)
    column = np.concatenate([np.sort(rng.permutation(n_items)[:4]) for _ in range(n_items)])
    weight = rng.normal(size=4 * n_items).astype(np.float32)
    weights = Rows(start, column.astype(np.int32), weight)
    return Sum(factors, LocalItemWeights(history, weights), 2.0), history
