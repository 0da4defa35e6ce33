"""Two towers: a network for contexts, another for items, which see features of both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import embedding_bag

from sdgar.discriminators.vectors import Picks, Vectors
from sdgar.errors import DataError
from sdgar.maths.sparse import SparseMatrix

if TYPE_CHECKING:
    from sdgar.data.features import Features
    from sdgar.data.interactions import Interactions


class Tower(nn.Module):
    """y = x + W₂ relu(W₁ x),   x_r = e_r + mean_{f ∈ F_r} a_f.

    e_r is a vector of the row itself and a_f one of each of its features, so that rows that are
    alike are near each other from the start of training, and a row without features is no
    exception. W₂ = 0 at first: the tower starts as its embeddings.
    """

    start_R1: Tensor
    feature_E: Tensor

    def __init__(self, n_rows: int, dim: int, hidden: int) -> None:
        super().__init__()
        self.own_RD = nn.Parameter(torch.randn(n_rows, dim) / dim**0.5)
        self.feature_FD = nn.Parameter(torch.zeros(0, dim))
        self.inner, self.outer = nn.Linear(dim, hidden), nn.Linear(hidden, dim)
        nn.init.zeros_(self.outer.weight)
        nn.init.zeros_(self.outer.bias)
        self.register_buffer("start_R1", torch.zeros(n_rows + 1, dtype=torch.int64), False)
        self.register_buffer("feature_E", torch.zeros(0, dtype=torch.int64), False)

    def prepare(self, features: Features | None, ids: NDArray[Any]) -> None:
        """Take the features of the rows."""
        if features is None:
            return
        if features.value_E is not None:
            raise DataError(
                "two-tower looks at categories, and some columns of the features hold numbers, "
                "texts or embeddings. Sort numbers into ranges, or leave these columns out.",
                code="measured_features",
            )
        start_R1, feature_E = features.of(ids)
        if not len(feature_E):
            raise DataError(
                "features were given, and none of them is of an id that occurs in the data: ids "
                f"there are such as {ids[:3].tolist()!r}, of the features "
                f"{features.ids.values[:3].tolist()!r}. Write both alike.",
                code="no_common_ids",
            )
        self.start_R1, self.feature_E = torch.from_numpy(start_R1), torch.from_numpy(feature_E)
        dim = self.own_RD.shape[1]
        self.feature_FD = nn.Parameter(torch.randn(features.n_features, dim) / dim**0.5)

    def forward(self, rows_R: Tensor) -> Tensor:
        """Return y_RD of some rows."""
        x_RD = self.own_RD[rows_R]
        if len(self.feature_FD):
            own = SparseMatrix(self.start_R1, self.feature_E, len(self.feature_FD)).rows(rows_R)
            x_RD = x_RD + embedding_bag(own.column_E, self.feature_FD, own.start_R1[:-1])
        y_RD: Tensor = x_RD + self.outer(torch.relu(self.inner(x_RD)))
        return y_RD


class TwoTower(Vectors):
    """h_c = tower(c), v_i = tower(i): towers read ids and features of contexts and items."""

    looks_at_features: ClassVar[bool] = True

    def __init__(
        self, n_users: int, n_items: int, *, dim: int = 64, hidden: int = 128, tau: float = 0.12
    ) -> None:
        super().__init__(n_items, tau=tau, dim=dim, hidden=hidden)
        self.of_users, self.of_items = Tower(n_users, dim, hidden), Tower(n_items, dim, hidden)

    def prepare(self, data: Interactions) -> None:
        """Take the features of users and items."""
        self.of_users.prepare(data.user_features, data.user_id_U)
        self.of_items.prepare(data.item_features, data.items.values)

    def rows(self, users_B: Tensor, items_BN: Tensor) -> Picks:
        """Return h_BD and v_RD; an item that occurs twice in a batch is computed once."""
        distinct_R, row_BN = torch.unique(items_BN, return_inverse=True)
        return Picks(self.of_users(users_B), self.of_items(distinct_R), row_BN)

    def tables(self) -> tuple[Tensor, Tensor]:
        """Return h_UD and v_ID."""
        h_UD, v_ID = (
            tower(torch.arange(len(tower.own_RD), device=tower.own_RD.device))
            for tower in (self.of_users, self.of_items)
        )
        return h_UD, v_ID
