"""Propose items near the best one of a context, found by search (Theorem 2.1 of the paper).

The optimum of the generator without entropy is the item with the largest score, a maximum inner
product search. Taken alone it proposes what is best and unknown, and much of what is best and
unknown is simply not known *yet*: false negatives. So a draw is uniform among the m best, and mixed
with uniform draws.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sdgar.arguments import at_least, one_of, within
from sdgar.contracts import Discriminator, Health, Negatives, Positives, Score
from sdgar.data.history import History
from sdgar.errors import ResourceError
from sdgar.maths.rng import below
from sdgar.samplers.static import PairLookup

if TYPE_CHECKING:
    from sdgar.models.factor_tensors import FactorTensors
    from sdgar.parts import Ingredients

_SCORES_AT_ONCE = 1 << 24
_FOUND_AT_ONCE = 1 << 22
_LEAST_RECALL = 0.5
"""The least share of the true best items that an index should find."""
_JUDGED = 256
"""The number of contexts for which the search is compared with the exact one."""

Search = Callable[[NDArray[np.float32], int], NDArray[np.int64]]
"""A function from vectors of contexts and k to their k best items, with -1 for those not found."""


class NearestItems:
    r"""Q(i | c) = (1 - ε) [i ∈ T_c] / |T_c| + ε / |I \\ I_c|, with T_c the m best unknown items.

    T_c is searched for when the sampler is refitted, in an index of the item vectors of that
    moment. With ε = 0 most items have Q = 0, importance weights do not exist, and log Q is not
    given: objectives that need it refuse.
    """

    uses_scores: ClassVar[bool] = False
    counts_tries: ClassVar[bool] = False

    def __init__(
        self,
        discriminator: Discriminator,
        history: History,
        *,
        index: str = "hnsw",
        near: int = 50,
        explore: float = 0.2,
    ) -> None:
        one_of("index", index, tuple(INDEXES))
        at_least("near", near, 1)
        within("explore", explore, 0, 1)
        self._discriminator = discriminator
        self._history = history
        self._index = index
        self.near = min(near, discriminator.n_items)
        """The number m of best items over which a draw is uniform."""
        self.explore = explore
        """The share ε of draws that are uniform over all unknown items."""
        self._take(torch.full((history.n_users, self.near), -1, dtype=torch.int32))

    def refit(self, score: Score, *, seed: int, epoch: int) -> Health:
        """Search again with the current vectors; return the share of the best that is found."""
        factors = self._discriminator.factors()
        context_UE, item_IE = _with_bias(factors)
        search = INDEXES[self._index](item_IE)
        n_items = len(item_IE)
        found_UM = _best_unknown(search, context_UE, self._history, self.near, n_items)
        self._take(torch.from_numpy(found_UM).to(factors.device))
        if self._index == "exact":
            return Health({"near": float(self.near)})
        some_T = np.unique(np.linspace(0, len(context_UE) - 1, _JUDGED).astype(np.int64))
        few = self._history.rows(some_T)
        true_TM = _best_unknown(exact(item_IE), context_UE[some_T], few, self.near, n_items)
        hits = sum(
            len(np.intersect1d(a[a >= 0], b[b >= 0]))
            for a, b in zip(found_UM[some_T], true_TM, strict=True)
        )
        recall = hits / max(1, int((true_TM >= 0).sum()))
        complaint = (
            f"the index finds only {recall:.0%} of the {self.near} best items of a context, so "
            "proposals are not what they claim to be. Set sampler__index to exact."
        )
        return Health(
            {"near": float(self.near), "recall": recall},
            f"finds {recall:.0%} of the {self.near} best",
            complaint if recall < _LEAST_RECALL else None,
        )

    @property
    def knows_log_q(self) -> bool:
        """True if every item has a probability, which exploring gives it."""
        return self.explore > 0

    def sample(self, positives: Positives, n: int) -> Negatives:
        """Draw n independent items a row: near the top, or anywhere."""
        users_B, known = positives.users_B, positives.known
        slots_N = torch.arange(n, device=users_B.device)
        high_BN, low_BN, coin_BN, place_BN = positives.draws.words(slots_N)
        users_BN = users_B[:, None].expand(-1, n)
        unknown_BN, listed_BN = known.n_unknown(users_BN), self._count_U[users_BN]
        accepted_BN = unknown_BN > 0
        anywhere_BN = (coin_BN < round(self.explore * 2**32)) | (listed_BN == 0)
        far_BN = known.nth_unknown(users_BN, below(unknown_BN, high_BN, low_BN))
        near_BN = self.best_UM[users_BN, (place_BN * listed_BN) >> 32].long()
        items_BN = torch.where(anywhere_BN, far_BN, near_BN)
        items_BN = torch.where(accepted_BN, items_BN, positives.items_B[:, None])
        if self.explore == 0:
            return Negatives(items_BN, accepted_BN)
        far_share_BN = torch.where(listed_BN == 0, 1.0, self.explore)
        q_BN = far_share_BN / unknown_BN.clamp(min=1)
        if self._listed is not None:
            is_near_BN = self._listed.contains(users_BN, items_BN)
            q_BN = q_BN + is_near_BN * (1 - self.explore) / listed_BN.clamp(min=1)
        return Negatives(items_BN, accepted_BN, q_BN.log())

    def to(self, device: torch.device) -> Self:
        """Move the lists to a device."""
        self._take(self.best_UM.to(device))
        return self

    def state(self) -> dict[str, Tensor]:
        """Return the lists of the last search."""
        return {"best_UM": self.best_UM}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Restore the state that ``state`` returned."""
        best_UM = state["best_UM"]
        if best_UM.amin() < -1 or best_UM.amax() >= self._discriminator.n_items:
            raise ValueError("one of the best items is none")
        if ((best_UM[:, 1:] >= 0) & (best_UM[:, :-1] < 0)).any():
            raise ValueError("the best items have a gap between them")
        sorted_UM = best_UM.sort(dim=1).values
        if ((sorted_UM[:, 1:] == sorted_UM[:, :-1]) & (sorted_UM[:, 1:] >= 0)).any():
            raise ValueError("one of the best items is listed twice")
        self._take(best_UM)

    def _take(self, best_UM: Tensor) -> None:
        self.best_UM = best_UM
        """The best unknown items of each context, the best first; -1 where there are fewer."""
        self._count_U = (best_UM >= 0).sum(dim=1)
        sorted_UM = best_UM.sort(dim=1).values
        items_E = sorted_UM[sorted_UM >= 0].cpu().numpy()
        indptr_U1 = np.concatenate(([0], np.cumsum(self._count_U.cpu().numpy())))
        n_items, device = self._discriminator.n_items, best_UM.device
        self._listed = (
            PairLookup(History(indptr_U1, items_E), n_items, device) if len(items_E) else None
        )


def exact(item_IE: NDArray[np.float32]) -> Search:
    """Search exactly: look at every item, in O(M) a context."""
    v_IE = torch.from_numpy(item_IE)

    def search(context_CE: NDArray[np.float32], k: int) -> NDArray[np.int64]:
        at_once = max(1, _SCORES_AT_ONCE // len(v_IE))
        parts = torch.from_numpy(context_CE).split(at_once)  # type: ignore[no-untyped-call]
        return torch.cat([(part @ v_IE.T).topk(k, dim=1).indices for part in parts]).numpy()

    return search


def hnsw(item_IE: NDArray[np.float32]) -> Search:
    """Search a graph of near items greedily (Malkov & Yashunin 2018)."""
    faiss = _faiss()
    index = faiss.IndexHNSWFlat(item_IE.shape[1], 32, faiss.METRIC_INNER_PRODUCT)
    index.hnsw.efConstruction = 80
    index.add(item_IE)

    def search(context_CE: NDArray[np.float32], k: int) -> NDArray[np.int64]:
        index.hnsw.efSearch = max(64, 2 * k)
        found: NDArray[np.int64] = index.search(context_CE, k)[1]
        return found

    return search


def pq(item_IE: NDArray[np.float32]) -> Search:
    """Search vectors in 8-bit codes of 4 numbers each, by tables (Jégou et al. 2011)."""
    faiss = _faiss()
    wide = -(-item_IE.shape[1] // 4) * 4

    def padded(rows: NDArray[np.float32]) -> NDArray[np.float32]:
        return np.pad(rows, ((0, 0), (0, wide - rows.shape[1])))

    bits = int(min(8, max(1, np.log2(max(2, len(item_IE) // 4)))))
    index = faiss.IndexPQ(wide, wide // 4, bits, faiss.METRIC_INNER_PRODUCT)
    index.train(padded(item_IE))
    index.add(padded(item_IE))

    def search(context_CE: NDArray[np.float32], k: int) -> NDArray[np.int64]:
        found: NDArray[np.int64] = index.search(padded(context_CE), k)[1]
        return found

    return search


INDEXES: dict[str, Callable[[NDArray[np.float32]], Search]] = {
    "exact": exact,
    "hnsw": hnsw,
    "pq": pq,
}
"""The ways to search for the best items, by name."""


def _with_bias(factors: FactorTensors) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """(u, 1) · (v, b): return vectors whose inner products include the bias."""
    one_U1 = torch.ones_like(factors.user_UD[:, :1])
    pairs = ((factors.user_UD, one_U1), (factors.item_ID, factors.bias_I[:, None]))
    context, item = (torch.cat(pair, dim=1).float().cpu().contiguous().numpy() for pair in pairs)
    return context, item


def _best_unknown(
    search: Search, context_UE: NDArray[np.float32], history: History, m: int, n_items: int
) -> NDArray[np.int32]:
    """Return the m best unknown items of each context; contexts that know as many go together."""
    best_UM = np.full((len(context_UE), m), -1, np.int32)
    known_U = np.diff(history.indptr_U1)
    size_U = np.ceil(np.log2(np.maximum(known_U, 1))).astype(int)
    # In ascending order, as contexts and the items of each are.
    pair_E = np.repeat(np.arange(len(known_U)), known_U) * n_items + history.items_E
    for group_C in _groups(size_U, m):
        k = min(m + int(known_U[group_C].max()), n_items)
        found_CK = search(context_UE[group_C], k)
        code_CK = group_C[:, None] * n_items + found_CK
        at_CK = np.searchsorted(pair_E, code_CK).clip(max=len(pair_E) - 1)
        fresh_CK = (pair_E[at_CK] != code_CK) & (found_CK >= 0)
        place_CK = np.cumsum(fresh_CK, axis=1) - 1
        row_E, column_E = np.nonzero(fresh_CK & (place_CK < m))
        best_UM[group_C[row_E], place_CK[row_E, column_E]] = found_CK[row_E, column_E]
    return best_UM


def _groups(size_U: NDArray[np.int64], m: int) -> Iterator[NDArray[np.int64]]:
    """Yield contexts of one size of history, as many as can be searched in memory at once."""
    for size in np.unique(size_U):
        group_C = np.flatnonzero(size_U == size)
        at_once = max(1, _FOUND_AT_ONCE // (m + (1 << int(size))))
        yield from (group_C[a : a + at_once] for a in range(0, len(group_C), at_once))


def _faiss() -> Any:
    try:
        import faiss
    except ImportError as error:
        raise ResourceError(
            'this index needs faiss, which is not installed: pip install "sdgar[ann]". The index '
            "exact needs nothing.",
            code="no_faiss",
        ) from error
    return faiss


def search(
    given: Ingredients, *, index: str = "hnsw", near: int = 50, explore: float = 0.2
) -> NearestItems:
    """Return the sampler of the items that score best, found by an index of nearest neighbours."""
    assert given.discriminator is not None
    history = given.data.history
    return NearestItems(given.discriminator, history, index=index, near=near, explore=explore)
