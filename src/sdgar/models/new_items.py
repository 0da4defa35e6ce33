"""A model with more items than it was trained with: contexts stay as they are.

vectors          v and b of a new item, by the rule of the model or from elsewhere
weights          the weights from item to item that a new item has a part in
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor
from torch.nn.functional import pad

from sdgar.errors import UsageError
from sdgar.maths.neighbours import Neighbourhoods
from sdgar.maths.sparse import SparseMatrix
from sdgar.models.factors import Factors
from sdgar.models.fold_in import NoVector, VectorRule
from sdgar.models.item_weights import LocalItemWeights
from sdgar.models.model import Model
from sdgar.models.sum import Sum

GROWING_SYSTEMS = ("popular", "ials", "quick", "sdsoftmax", "local-ease")
"""The systems whose models can take in new items, as errors name them."""


def require_growing(model: Model, system: object) -> None:
    """Raise if a model is made of anything that cannot take in new items."""
    parts = [type(part) for part in parts_of(model)]
    rule = model.rule
    ruled = Factors not in parts or (isinstance(rule, VectorRule) and rule.works)
    once = len(set(parts)) == len(parts)
    if not ruled or not once or not set(parts) <= {Factors, LocalItemWeights}:
        raise UsageError(
            f"new items cannot be added to a model of system {system!r}: it has no rule for an "
            f"item that it was not trained with. Systems that have: {', '.join(GROWING_SYSTEMS)} "
            "(with similarity=cosine). Or train again with the new items' rows.",
            code="no_new_items",
        )


def parts_of(model: Model) -> list[Model]:
    """Give the models that a model is the sum of; one that is no sum is its only part."""
    return model.parts() if isinstance(model, Sum) else [model]


def factors_of(model: Model) -> Factors | None:
    """Give the vectors of a model; None if it has none."""
    return next((part for part in parts_of(model) if isinstance(part, Factors)), None)


def has_vectors(model: Model) -> bool:
    """Whether items have vectors, which can be predicted for items without events."""
    factors = factors_of(model)
    return factors is not None and not isinstance(factors.rule, NoVector)


def renumbered(
    model: Model, place_I: Tensor, history: SparseMatrix, added_J: Tensor | None = None
) -> Model:
    """Give the model with room for more items: ``place_I`` says where its own stand, ascending.

    The others have a vector, a bias and weights of 0. ``history`` is what contexts have by the new
    numbers, and ``added_J`` how many contexts of each item are new.
    """
    if isinstance(model, Sum):
        first, second = (
            renumbered(part, place_I, history, added_J) for part in (model.first, model.second)
        )
        return replace(model, first=first, second=second)
    n_items = history.n_columns
    if isinstance(model, LocalItemWeights):
        w = model.weight_II
        length_J = w.length_R.new_zeros(n_items)
        length_J[place_I] = w.length_R
        start_J1 = pad(length_J.cumsum(0), (1, 0))
        weight_JJ = SparseMatrix(start_J1, place_I[w.column_E], n_items, w.weights())
        return replace(model, history=history, weight_II=weight_JJ)
    assert isinstance(model, Factors)
    item_JD = model.item_ID.new_zeros(n_items, model.item_ID.shape[1])
    bias_J = model.bias_I.new_zeros(n_items)
    item_JD[place_I], bias_J[place_I] = model.item_ID, model.bias_I
    rule = model.rule
    if isinstance(rule, VectorRule):
        counts_J = torch.zeros(n_items, dtype=torch.long) if added_J is None else added_J
        rule = rule.grown(place_I, counts_J)
    return replace(model, item_ID=item_JD, bias_I=bias_J, rule=rule)


def with_vectors(model: Model, at_N: Tensor, v_ND: Tensor, b_N: Tensor) -> Model:
    """Give the model with other vectors and biases of some items."""
    if isinstance(model, Sum):
        first, second = (
            with_vectors(part, at_N, v_ND, b_N) for part in (model.first, model.second)
        )
        return replace(model, first=first, second=second)
    if not isinstance(model, Factors):
        return model
    item_ID, bias_I = model.item_ID.clone(), model.bias_I.clone()
    item_ID[at_N], bias_I[at_N] = v_ND.to(item_ID), b_N.to(bias_I)
    return replace(model, item_ID=item_ID, bias_I=bias_I)


def with_weights(model: Model, rule: Neighbourhoods, new_N: Tensor) -> Model:
    """Give the model with the weights that new items have a part in, by the histories it has."""
    if isinstance(model, Sum):
        first, second = (with_weights(part, rule, new_N) for part in (model.first, model.second))
        return replace(model, first=first, second=second)
    if not isinstance(model, LocalItemWeights):
        return model
    weight_II = rule.weights_with(model.history, model.weight_II, new_N.to(model.device))
    return replace(model, weight_II=weight_II)
