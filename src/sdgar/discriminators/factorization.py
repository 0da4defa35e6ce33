"""Tables of vectors, and matrix factorization, the discriminator of the paper (section 3.2)."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, ClassVar, Required, Self, TypedDict, Unpack

import torch
from torch import Tensor, gather, nn
from torch.nn.functional import embedding

from sdgar.arguments import at_least
from sdgar.maths.rng import Stream, normal
from sdgar.models.factor_tensors import FactorTensors

if TYPE_CHECKING:
    from sdgar.contracts import Score
    from sdgar.data.contexts import Fields
    from sdgar.parts import Ingredients


class Start(TypedDict, total=False):
    """How tables of vectors are laid out, and what is in them at the start."""

    seed: Required[int]
    """The seed of the vectors."""
    init_scale: float
    """The standard deviation σ of the numbers of a vector, times √D."""
    streams: tuple[Stream, Stream]
    """The streams of random numbers of users and of items."""
    drawn: bool
    """Whether vectors are drawn; otherwise they are 0, as a trained state is loaded next."""
    users_drawn: bool
    """Whether users' vectors are drawn; otherwise they are 0, as they are computed from items."""
    sparse: bool
    """Whether gradients are sparse, for optimisers that move only the rows of a batch."""
    fields: Fields | None
    """The fields of contexts, if they have several."""


class Embeddings(nn.Module):
    """The vectors u_c and v_i, drawn from N(0, σ²); a subclass computes scores from them."""

    by_event: bool = False
    init_scale: ClassVar[float] = 1.0
    """The usual σ √D; a first score is of the same size at every D."""
    bias_I: nn.Parameter | None
    """The biases b_i, 0 at the start; None if scores have none."""
    place_UF: Tensor | None
    """The rows whose sum a context is, if it has fields: u_c = Σ_f e_f(c)."""

    def __init__(
        self,
        n_users: int,
        n_items: int,
        dim: int,
        *,
        bias: bool = False,
        **start: Unpack[Start],
    ) -> None:
        super().__init__()
        self.n_items = n_items
        at_least("dim", dim, 1)
        seed, fields = start["seed"], start.get("fields")
        scale = start.get("init_scale", self.init_scale) if start.get("drawn", True) else 0.0
        sigma = scale / dim**0.5
        of_users, of_items = start.get("streams", (Stream.INIT_CONTEXT, Stream.INIT_ITEM))
        n_vectors = n_users if fields is None else fields.n_values
        self._of_users = of_users, sigma
        if start.get("users_drawn", True):
            self.user_UD = nn.Parameter(self.drawn(n_vectors, dim, seed))
        else:
            self.user_UD = nn.Parameter(torch.zeros(n_vectors, dim))
        """The vectors, a row for each context or, with fields, for each value of each field."""
        place_UF = None if fields is None else torch.from_numpy(fields.place_UF)
        self.register_buffer("place_UF", place_UF, persistent=False)
        self.item_ID = nn.Parameter(_normal(seed, of_items, n_items, dim, sigma))
        self.register_parameter("bias_I", nn.Parameter(torch.zeros(n_items)) if bias else None)
        self._sparse = start.get("sparse", False)
        """True if gradients are sparse, for optimisers that move only the rows of a batch."""

    def drawn(self, n_users: int, dim: int, seed: int) -> Tensor:
        """Return vectors u_c as they are drawn at the start."""
        stream, sigma = self._of_users
        return _normal(seed, stream, n_users, dim, sigma)

    @property
    def device(self) -> torch.device:
        """The device of the parameters."""
        return self.item_ID.device

    def score(self, users_B: Tensor, items_BN: Tensor) -> Tensor:
        """Return s_BN of N items for each context."""
        raise NotImplementedError

    def frozen(self) -> Score:
        """Return the scores as they are: rows are looked up, and nothing is computed twice."""
        return self.score

    def factors(self) -> FactorTensors:
        """Return the scores as inner products, detached."""
        raise NotImplementedError

    def learned(self) -> FactorTensors:
        """Return the model of the scores, detached."""
        return self.factors()

    @torch.no_grad()
    def take(self, model: FactorTensors) -> None:
        """Set vectors and biases from a model that ``factors`` returned."""
        self.user_UD.copy_(model.user_UD)
        self.item_ID.copy_(model.item_ID)
        if self.bias_I is not None:
            self.bias_I.copy_(model.bias_I)

    def score_all(self, users_B: Tensor) -> Tensor:
        """Return s_BI of all items."""
        return self.factors().score_all(users_B)

    def for_users(self, user_UD: Tensor) -> Self:
        """Return the scores of other contexts by the same items, whose tables are shared."""
        other = copy(self)
        other.__dict__["_parameters"] = {**self._parameters, "user_UD": nn.Parameter(user_UD)}
        return other

    def contexts(self) -> Tensor:
        """Return u_UD of all contexts."""
        return self.user_UD if self.place_UF is None else self.user_UD[self.place_UF].sum(dim=1)

    def _parts(self, users_B: Tensor) -> Tensor:
        """Return the vectors whose sum is u_c, one a field: e_BFD."""
        place_BF = users_B[:, None] if self.place_UF is None else self.place_UF[users_B]
        return embedding(place_BF, self.user_UD, sparse=self._sparse)

    def _rows(self, users_B: Tensor, items_BN: Tensor) -> tuple[Tensor, Tensor]:
        v_BND = embedding(items_BN, self.item_ID, sparse=self._sparse)
        return self._parts(users_B).sum(dim=1), v_BND

    def _products(
        self, user_UD: Tensor, item_ID: Tensor, bias_I: Tensor, scale: float
    ) -> FactorTensors:
        """s = u · v + b; with fields, of contexts too that training did not see.

        Their u is the sum of the vectors of their fields, brought to the length ``scale`` unless
        that is 0.
        """
        if self.place_UF is None:
            return FactorTensors(user_UD, item_ID, bias_I)
        table_VD = self.user_UD.detach()
        length = torch.tensor([scale], device=table_VD.device)
        return FactorTensors(user_UD, item_ID, bias_I, field_VD=table_VD, scale=length)

    def _bias(self, items_BN: Tensor) -> Tensor:
        """Return b_BN, or 0 without biases."""
        if self.bias_I is None:
            return torch.zeros((), device=self.device)
        if self._sparse:
            return gather(self.bias_I, 0, items_BN.reshape(-1), sparse_grad=True).view_as(items_BN)
        return self.bias_I[items_BN]


def _normal(seed: int, stream: Stream, rows: int, dim: int, sigma: float) -> Tensor:
    if sigma == 0:
        return torch.zeros(rows, dim)
    return torch.from_numpy(normal(seed, stream, rows * dim)).reshape(rows, dim) * sigma


class MatrixFactorization(Embeddings):
    """g(c, i) = u_c · v_i + b_i, with u and v drawn from N(0, σ²) and b = 0 at the start.

    A context of several fields is the sum of their vectors: u_c = Σ_f e_f(c).
    """

    init_scale: ClassVar[float] = 0.1
    bias_I: nn.Parameter

    def __init__(self, n_users: int, n_items: int, dim: int, **start: Unpack[Start]) -> None:
        super().__init__(n_users, n_items, dim, bias=True, **start)

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
