"""Vectors that are kept on a sphere (cosines) or in a ball (distances)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Unpack

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from sdgar.arguments import at_least
from sdgar.discriminators.factorization import Embeddings, Start
from sdgar.errors import UsageError
from sdgar.maths.least_squares import HalfSweep
from sdgar.maths.sparse import SparseMatrix
from sdgar.models.factor_tensors import FactorTensors

if TYPE_CHECKING:
    from sdgar.data.interactions import Interactions
    from sdgar.parts import Ingredients


class Cosine(Embeddings):
    """s(c, i) = cos(u_c, v_i) / τ (+ b_i): popularity is in no norm, but may be in a bias.

    Rows are kept at length 1, except rows of fields, whose sum is a context: their lengths weigh
    the fields. A gradient of a cosine shrinks with the length of its vector, so left
    alone lengths would only grow, and steps shrink; drawn to 0 they would cross it.
    """

    def __init__(
        self,
        n_users: int,
        n_items: int,
        dim: int,
        *,
        tau: float,
        bias: bool = False,
        **start: Unpack[Start],
    ) -> None:
        super().__init__(n_users, n_items, dim, bias=bias, **start)
        if not 0 < tau < float("inf"):
            raise UsageError(f"tau must be a positive number, got {tau!r}.", code="bad_tau")
        self.tau = tau
        for table in (self.user_UD, self.item_ID):
            _to_sphere(table, slice(None))

    def score(self, users_B: Tensor, items_BN: Tensor) -> Tensor:
        """Return s_BN of N items for each row."""
        return self._angles(users_B, items_BN) + self._bias(items_BN)

    def score_and_penalty(self, users_B: Tensor, items_BN: Tensor) -> tuple[Tensor, Tensor]:
        """Return s_BN, and b⁺² + mean_j b_j²: directions have no length to hold."""
        b_BN = self._bias(items_BN)
        square_BN = b_BN.square().expand(items_BN.shape)
        penalty_B = square_BN[:, 0] + square_BN[:, 1:].mean(dim=1)
        return self._angles(users_B, items_BN) + b_BN, penalty_B

    def project(self, users_B: Tensor, items_BN: Tensor) -> None:
        """Bring the rows that moved back to length 1: all of them, after a dense optimiser."""
        if self.place_UF is None:
            _to_sphere(self.user_UD, users_B if self._sparse else slice(None))
        _to_sphere(self.item_ID, items_BN.reshape(-1) if self._sparse else slice(None))

    def factors(self) -> FactorTensors:
        """Return (û/τ, v̂, b), detached."""
        user_UD, item_ID = (normalize(t.detach(), dim=1) for t in (self.contexts(), self.item_ID))
        bias_I = torch.zeros_like(item_ID[:, 0]) if self.bias_I is None else self.bias_I.detach()
        return self._products(user_UD / self.tau, item_ID, bias_I, 1 / self.tau)

    def take(self, model: FactorTensors) -> None:
        """Set directions and biases from a model that ``factors`` returned."""
        super().take(model)
        for table in (self.user_UD, self.item_ID):
            _to_sphere(table, slice(None))

    def _angles(self, users_B: Tensor, items_BN: Tensor) -> Tensor:
        """Return the cosines of the directions of rows, so that a gradient is along the sphere."""
        u_BD, v_BND = self._rows(users_B, items_BN)
        u_BD, v_BND = normalize(u_BD, dim=1), normalize(v_BND, dim=2)
        return (u_BD[:, None] * v_BND).sum(dim=2) / self.tau


@torch.no_grad()
def _to_sphere(table: nn.Parameter, rows: Tensor | slice) -> None:
    """Divide each row by its length. A row that is named twice gets the same value twice."""
    table[rows] = normalize(table[rows], dim=1)


MANY = 250_000
"""The number of rows from which on data is not small."""
_LEAST_SQUARES = HalfSweep(alpha=0.01, l2=0.01, power=1.0)
_SMALL = 0.1
"""The length of the random vectors with which the sweeps start."""


@torch.no_grad()
def start(cosine: Cosine, data: Interactions, *, sweeps: int) -> None:
    """Set biases by popularity and directions by least squares; without sweeps they stay random."""
    items_of = SparseMatrix.of(data.indptr_U1, data.items_E, data.n_items, device=cosine.device)
    users_of = items_of.transposed()
    if cosine.bias_I is not None:
        log_n_I = (users_of.length_R + 1).float().log()
        cosine.bias_I.copy_(log_n_I - log_n_I.mean())
    item_ID = _SMALL * cosine.item_ID
    user_UD = torch.zeros_like(cosine.contexts())
    for _ in range(sweeps):
        user_UD = _LEAST_SQUARES.improve(user_UD, items_of, item_ID)
        item_ID = _LEAST_SQUARES.improve(item_ID, users_of, user_UD)
    if sweeps:
        _point(cosine.item_ID, item_ID, users_of)
        if cosine.place_UF is None:
            _point(cosine.user_UD, user_UD, items_of)
        else:
            _fit_fields(cosine.user_UD, normalize(user_UD, dim=1), cosine.place_UF)


@torch.no_grad()
def directions(item_ID: Tensor, data: Interactions) -> Tensor:
    """Return where the users of some rows start if the items are given: û_UD by least squares."""
    items_of = SparseMatrix.of(data.indptr_U1, data.items_E, data.n_items, device=item_ID.device)
    none_UD = item_ID.new_zeros(data.n_users, item_ID.shape[1])
    along_UD = _LEAST_SQUARES.improve(none_UD, items_of, item_ID)
    lost_U1 = along_UD.norm(dim=1, keepdim=True) == 0
    return normalize(torch.where(lost_U1, 1.0, along_UD), dim=1)


def _point(vector_RD: Tensor, along_RD: Tensor, known: SparseMatrix) -> None:
    """Set unit vectors; rows without data stay as they are."""
    usable_R1 = (known.length_R > 0)[:, None] & (along_RD.norm(dim=1, keepdim=True) > 0)
    vector_RD.copy_(torch.where(usable_R1, normalize(along_RD, dim=1), vector_RD))


def _fit_fields(vector_VD: Tensor, left_UD: Tensor, place_UF: Tensor) -> None:
    """Set each field in turn to the mean of what earlier fields have left of u_c."""
    vector_VD.zero_()
    for place_U in place_UF.T:
        count_V1 = torch.bincount(place_U, minlength=len(vector_VD)).clamp(min=1)[:, None]
        vector_VD += torch.zeros_like(vector_VD).index_add_(0, place_U, left_UD) / count_V1
        left_UD = left_UD - vector_VD[place_U]


def cosine(
    given: Ingredients, *, tau: float | None = None, bias: bool = True, sweeps: int = 6
) -> Cosine:
    """Return cosines over a temperature τ, which start from some sweeps of iALS."""
    data = given.data
    made = Cosine(
        data.n_users, data.n_items, given.dim, seed=given.seed,
        tau=temperature_of(data) if tau is None else tau, sparse=given.row_wise, bias=bias,
        drawn=given.start, users_drawn=at_least("sweeps", sweeps, 0) == 0, fields=data.fields,
    )  # fmt: skip
    made = made.to(given.device)
    if given.start:
        start(made, data, sweeps=sweeps)
    return made


def temperature_of(data: Interactions) -> float:
    """τ = 0.12 max(1, 250,000 / rows)^⅕ up to ½, in three digits: few rows need a high τ.

    A low temperature makes the softmax sharp, which wants directions that are known well. On eight
    data sets of 2,000 to 800,000 rows the best τ falls from about 0.35 to 0.12 (docs/defaults.md).
    """
    return float(f"{min(0.5, 0.12 * max(1.0, MANY / len(data)) ** 0.2):.3g}")


class MetricModel(Embeddings):
    """Nearer is better: s(c, i) = ‖u_c‖² - ‖u_c - v_i‖² = 2 u_c · v_i - ‖v_i‖².

    It differs from the negative squared distance by ‖u_c‖² only, a constant of the context that
    neither a ranking nor a loss of differences sees, and is an inner product with a bias.
    All points lie in the unit ball, ‖u_c‖ <= 1 and ‖v_i‖ <= 1: a step that leaves it is followed
    by a projection. They start spread over it, from N(0, 1/D), as in the authors' code.
    """

    def __init__(self, n_users: int, n_items: int, dim: int, **start: Unpack[Start]) -> None:
        super().__init__(n_users, n_items, dim, **start)
        for table in (self.user_UD, self.item_ID):
            _project(table, slice(None))

    def score(self, users_B: Tensor, items_BN: Tensor) -> Tensor:
        """Return s_BN of N items for each row."""
        return _nearness(*self._rows(users_B, items_BN))

    def score_and_penalty(self, users_B: Tensor, items_BN: Tensor) -> tuple[Tensor, Tensor]:
        """Return s_BN, and how redundant the D axes are in this batch, one value for all rows.

            C = 1/n Σ_y (y - μ)(y - μ)',   penalty = ‖C‖² - ‖diag C‖²

        over the n vectors y of the batch's contexts and items, as often as they occur in it. The
        paper divides by n once more, and adds it to a sum over rows, where an engine takes a
        mean. The authors' code has the plain sum of the off-diagonal entries of C instead,
        positive ones against negative ones, which has no lower bound at independent axes.
        """
        u_BD, v_BND = self._rows(users_B, items_BN)
        y_RD = torch.cat((u_BD, v_BND.flatten(0, 1)))
        y_RD = y_RD - y_RD.mean(dim=0)
        c_DD = y_RD.T @ y_RD / len(y_RD)
        penalty = (c_DD - c_DD.diagonal().diag()).square().sum()
        return _nearness(u_BD, v_BND), penalty.expand(len(users_B))

    def project(self, users_B: Tensor, items_BN: Tensor) -> None:
        """Project the rows that moved onto the unit ball: all of them, after a dense optimiser."""
        _project(self.user_UD, users_B if self._sparse else slice(None))
        _project(self.item_ID, items_BN.reshape(-1) if self._sparse else slice(None))

    def factors(self) -> FactorTensors:
        """Return (2u, v, -‖v‖²), detached."""
        user_UD, item_ID = self.user_UD.detach(), self.item_ID.detach()
        return FactorTensors(2 * user_UD, item_ID, -item_ID.square().sum(dim=1))

    def take(self, model: FactorTensors) -> None:
        """Set the points from a model that ``factors`` returned."""
        super().take(replace(model, user_UD=model.user_UD / 2))


def _nearness(u_BD: Tensor, v_BND: Tensor) -> Tensor:
    return ((2 * u_BD[:, None] - v_BND) * v_BND).sum(dim=2)


@torch.no_grad()
def _project(table: nn.Parameter, rows: Tensor | slice) -> None:
    """Divide each y by max(1, ‖y‖). A row that is named twice gets the same value twice."""
    y_RD = table[rows]
    table[rows] = y_RD / y_RD.norm(dim=1, keepdim=True).clamp(min=1)


def metric(given: Ingredients) -> MetricModel:
    """Return points in a unit ball, where nearer is better."""
    data = given.data
    return MetricModel(
        data.n_users, data.n_items, given.dim, seed=given.seed, sparse=given.row_wise
    )
