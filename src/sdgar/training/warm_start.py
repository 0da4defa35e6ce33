"""Continue from an earlier model: its tables, by the indices of the new rows.

Known users and items keep their vectors. New users are folded in by the rule of the model; new
items, and new users of a model without a rule, start where least squares leads:

    v_i ∝ argmin Σ_{c ∈ U_i} (1 - û_c · v)² + α Σ_c (û_c · v)² + λ (|U_i| + α N) ‖v‖²

as long as vectors usually are. A bias follows popularity as the biases of known items do. Users and
items without any row in common with the earlier model start at random.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from sdgar.contracts import System
from sdgar.data.history import History
from sdgar.data.interactions import Interactions
from sdgar.discriminators.factorization import Embeddings
from sdgar.errors import UsageError
from sdgar.maths.least_squares import HalfSweep
from sdgar.maths.rng import Stream, normal
from sdgar.maths.sparse import SparseMatrix
from sdgar.models.factor_tensors import FactorTensors
from sdgar.models.factors import Factors
from sdgar.models.fold_in import VectorRule
from sdgar.recommend.recommender import Recommender

_LEAST_SQUARES = HalfSweep(alpha=0.01, l2=0.01, power=1.0)
_CPU = torch.device("cpu")


def begin(system: System, data: Interactions, before: Recommender, *, seed: int) -> None:
    """Copy the tables of an earlier model into a system that was just composed."""
    part = tables_of(system)
    old = before.factors
    if old.item_ID.shape[1] != part.item_ID.shape[1]:
        raise UsageError(
            f"the vectors of the earlier model have {old.item_ID.shape[1]} coordinates, and dim is "
            f"{part.item_ID.shape[1]}. Leave dim as it was, or train again from the start.",
            code="other_dim",
        )
    part.take(brought(before, data, seed=seed))


def tables_of(system: System) -> Embeddings:
    """Return the tables that training continues with; raise if a system has no such tables."""
    part = system.discriminator
    if system.recommends is not None or not isinstance(part, Embeddings):
        raise UsageError(
            f"training of {system.name} cannot continue from an earlier model: only a table of "
            "vectors of users and items that recommends by itself can. Train it from the start.",
            code="cannot_continue",
        )
    if part.place_UF is not None:
        raise UsageError(
            "training cannot continue from an earlier model where a context has several fields. "
            "Train it from the start.",
            code="cannot_continue",
        )
    return part


def memory_of(before: Recommender) -> float:
    """Return the weight γ of the item memory of an earlier model; 0 without one."""
    terms = before.model.terms()
    return terms.weights[0].weight if terms and terms.vectors and terms.weights else 0.0


def times_of(about: Mapping[str, Any]) -> int:
    """Return how often a model continued from another one since it was trained from the start."""
    match about.get("further"):
        case {"times": int(times)}:
            return times
    return 0


@torch.no_grad()
def brought(before: Recommender, data: Interactions, *, seed: int) -> FactorTensors:
    """Return the vectors and biases of an earlier model for the users and items of these rows."""
    vectors = before.factors
    tables = vectors.user_UD, vectors.item_ID, vectors.bias_I
    u_UD, v_ID, b_I = (torch.from_numpy(table) for table in tables)
    old = FactorTensors(u_UD, v_ID, b_I)
    user_U, item_I = (
        torch.from_numpy(mine.index_of(theirs.values))
        for mine, theirs in ((before.users, data.users), (before.items, data.items))
    )
    items_of = SparseMatrix.of(data.indptr_U1, data.items_E, data.n_items, device=_CPU)
    users_of = items_of.transposed()
    item_ID = old.item_ID[item_I.clamp(min=0)] * (item_I >= 0)[:, None]
    user_UD = old.user_UD[user_U.clamp(min=0)] * (user_U >= 0)[:, None]
    bias_I = _biases(before, old.bias_I, item_I, users_of.length_R)
    new_U, new_I = user_U < 0, item_I < 0
    if vectors.rule is not None and vectors.rule.places_items:
        _fold_in(user_UD, new_U, items_of, item_I, vectors)
    else:
        _solve(user_UD, new_U, items_of, item_ID)
    _solve(item_ID, new_I, users_of, user_UD)
    _solve(user_UD, new_U & (user_UD == 0).all(dim=1), items_of, item_ID)
    for table_RD, stream in ((user_UD, Stream.INIT_CONTEXT), (item_ID, Stream.INIT_ITEM)):
        _draw(table_RD, stream, seed)
    return FactorTensors(user_UD, item_ID, bias_I)


def _fold_in(
    user_UD: Tensor, new_U: Tensor, items_of: SparseMatrix, item_I: Tensor, old: Factors
) -> None:
    """Fold new users in by their items that the earlier model contains."""
    rule = cast("VectorRule", old.rule)
    rows_T = torch.nonzero(new_U)[:, 0]
    own = items_of.rows(rows_T)
    column_E = item_I[own.column_E]
    known_E = column_E >= 0
    length_T = torch.bincount(own.row_E[known_E], minlength=len(rows_T))
    if not (length_T > 0).any():
        return
    start_T1 = torch.cat((length_T.new_zeros(1), length_T[length_T > 0].cumsum(0)))
    known = History(start_T1.numpy(), column_E[known_E].int().numpy())
    found_TD = rule.vectors(old.item_ID, old.bias_I, known)
    user_UD[rows_T[length_T > 0]] = torch.from_numpy(found_TD)


def _solve(table_RD: Tensor, rows_R: Tensor, known: SparseMatrix, other_CD: Tensor) -> None:
    """Start new rows by least squares from the rows of the other side, which stay as they are."""
    rows_T = torch.nonzero(rows_R)[:, 0]
    if not len(rows_T):
        return
    unit_CD = normalize(other_CD, dim=1)
    nothing_TD = table_RD.new_zeros(len(rows_T), table_RD.shape[1])
    found_TD = _LEAST_SQUARES.improve(nothing_TD, known.rows(rows_T), unit_CD)
    table_RD[rows_T] = normalize(found_TD, dim=1) * _usual_length(table_RD)


def _draw(table_RD: Tensor, stream: Stream, seed: int) -> None:
    """Start rows that are still 0 in a random direction."""
    rows_T = torch.nonzero((table_RD == 0).all(dim=1))[:, 0]
    if len(rows_T):
        drawn = torch.from_numpy(normal(seed, stream, table_RD.numel())).view_as(table_RD)
        table_RD[rows_T] = normalize(drawn[rows_T], dim=1) * _usual_length(table_RD)


def _usual_length(table_RD: Tensor) -> Tensor:
    """Return the mean length of rows that are not 0; 1 if all are."""
    length_R: Tensor = table_RD.norm(dim=1)
    return length_R[length_R > 0].mean() if (length_R > 0).any() else length_R.new_ones(())


def _biases(before: Recommender, bias_I: Tensor, item_I: Tensor, count_I: Tensor) -> Tensor:
    """b_i of known items; of new ones a + c log (n_i + 1), the line that fits the known best."""
    counts = torch.from_numpy(before.popularity_I.astype(np.float32))
    log_n, log_new_I = (counts + 1).log(), (count_I + 1).float().log()
    spread = (log_n - log_n.mean()).square().sum()
    slope = ((log_n - log_n.mean()) * bias_I).sum() / spread if spread > 0 else spread
    line_I = bias_I.mean() + slope * (log_new_I - log_n.mean())
    return torch.where(item_I >= 0, bias_I[item_I.clamp(min=0)], line_I)
