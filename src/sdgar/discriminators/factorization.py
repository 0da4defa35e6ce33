"""Matrix factorization, the paper's discriminator (section 3.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor, nn
from torch.nn.functional import embedding

from sdgar.discriminators.embeddings import Embeddings
from sdgar.maths.rng import Stream

if TYPE_CHECKING:
    from sdgar.data.contexts import Fields
    from sdgar.models.factor_tensors import FactorTensors
    from sdgar.parts import Ingredients


class MatrixFactorization(Embeddings):
    """g(c, i) = u_c · v_i + b_i, with u and v drawn from N(0, σ²) and b = 0 at the start.

    A context of several fields is the sum of their vectors: u_c = Σ_f e_f(c).
    """

    bias_I: nn.Parameter

    def __init__(
        self,
        n_users: int,
        n_items: int,
        dim: int,
        *,
        seed: int,
        init_scale: float = 0.1,
        sparse: bool = False,
        streams: tuple[Stream, Stream] = (Stream.INIT_CONTEXT, Stream.INIT_ITEM),
        fields: Fields | None = None,
    ) -> None:
        super().__init__(
            n_users,
            n_items,
            dim,
            seed=seed,
            init_scale=init_scale,
            sparse=sparse,
            bias=True,
            streams=streams,
            fields=fields,
        )

    def score(self, users_B: Tensor, items_BN: Tensor) -> Tensor:
        """Return s_BN of N items for each row."""
        u_BD, v_BND = self._rows(users_B, items_BN)
        return (u_BD[:, None] * v_BND).sum(dim=2) + self._bias(items_BN)

    def score_and_penalty(self, users_B: Tensor, items_BN: Tensor) -> tuple[Tensor, Tensor]:
        """Return s_BN, and ‖u‖² + ‖v⁺‖² + mean_j ‖v_j‖² with b_i as one more number of v_i."""
        e_BFD = self._parts(users_B)
        v_BND = embedding(items_BN, self.item_ID, sparse=self._sparse)
        b_BN = self._bias(items_BN)
        s_BN = (e_BFD.sum(dim=1)[:, None] * v_BND).sum(dim=2) + b_BN
        norm_BN = v_BND.square().sum(dim=2) + b_BN.square()
        norm_B = e_BFD.square().sum(dim=(1, 2)) + norm_BN[:, 0] + norm_BN[:, 1:].mean(dim=1)
        return s_BN, norm_B

    def project(self, users_B: Tensor, items_BN: Tensor) -> None:
        """Do nothing, as rows may have any length."""

    def factors(self) -> FactorTensors:
        """The parameters, detached, as inner products."""
        user_UD = self.contexts().detach()
        return self._products(user_UD, self.item_ID.detach(), self.bias_I.detach(), 0.0)


def factorization(given: Ingredients) -> MatrixFactorization:
    """Return inner products of the vectors of users and items, and a bias for each item."""
    data = given.data
    return MatrixFactorization(
        data.n_users, data.n_items, given.dim, seed=given.seed, sparse=given.row_wise,
        fields=data.fields,
    )  # fmt: skip
