"""What holds for every kind of model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from torch import Tensor, nn

from sdgar.data.history import History
from sdgar.maths.rows import Rows
from sdgar.maths.sequences import Sequences
from sdgar.maths.transitions import Decay
from sdgar.models.factors import Factors, FieldFactors
from sdgar.models.fold_in import NewContexts
from sdgar.models.item_weights import (
    ItemVectors,
    ItemWeights,
    LocalItemWeights,
    SparseItemWeights,
)
from sdgar.models.model import Model
from sdgar.models.network import MODULES, EncodedFactors, Encoder, ModuleScores
from sdgar.models.saved import _KINDS, Saved, model_class
from sdgar.models.sequence import SequenceEncoder
from sdgar.models.sum import Sum
from sdgar.models.transitions import TransitionWeights

USERS, ITEMS, DIM = 4, 6, 4
HISTORY = History(np.array([0, 2, 3, 4, 6]), np.array([0, 1, 2, 4, 3, 5], np.int32))
SEQUENCE = {"dim": DIM, "blocks": 1, "length": 5}


class Bilinear(nn.Module):
    """A network without vectors."""

    def __init__(self, n_users: int, n_items: int) -> None:
        super().__init__()
        self.score_UI = nn.Parameter(torch.arange(n_users * n_items).float().view(n_users, -1))

    def score_all(self, users_B: Tensor) -> Tensor:
        return self.score_UI[users_B]


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    monkeypatch.setitem(MODULES, "bilinear", Bilinear)


def made(kind: str) -> Model:
    random = np.random.default_rng(1)
    user_UD, item_ID, field_VD = (
        random.normal(size=(n, DIM)).astype(np.float32) for n in (USERS, ITEMS, 5)
    )
    vectors = user_UD, item_ID, np.arange(ITEMS, dtype=np.float32) / 10
    has = HISTORY
    match kind:
        case Factors.kind:
            return Factors(*vectors)
        case FieldFactors.kind:
            return FieldFactors(*vectors, field_VD=field_VD, scale=np.array([2], np.float32))
        case EncodedFactors.kind:
            torch.manual_seed(0)
            module = SequenceEncoder(USERS, ITEMS, **SEQUENCE)
            network = Encoder(module, USERS, ITEMS, "sequence", SEQUENCE)
            return EncodedFactors(*vectors, encoder=network)
        case ItemWeights.kind:
            return ItemWeights(has, random.normal(size=(ITEMS, ITEMS)).astype(np.float32))
        case SparseItemWeights.kind:
            near = np.arange(1, ITEMS + 1) % ITEMS
            weight_E = np.linspace(0.1, 1, ITEMS, dtype=np.float32)
            return SparseItemWeights(has, Rows(np.arange(ITEMS + 1), near, weight_E))
        case LocalItemWeights.kind:
            near = np.arange(1, ITEMS + 1) % ITEMS
            weight_E = np.linspace(-0.5, 1, ITEMS, dtype=np.float32)
            return LocalItemWeights(has, Rows(np.arange(ITEMS + 1), near, weight_E))
        case TransitionWeights.kind:
            near = np.arange(1, ITEMS + 1) % ITEMS
            weight_II = Rows(np.arange(ITEMS + 1), near, np.linspace(-0.5, 1, ITEMS, dtype="f4"))
            events = Sequences(has.indptr_U1, has.items_E)
            return TransitionWeights(has, weight_II, events, Decay(2.0, 0.1))
        case ItemVectors.kind:
            return ItemVectors(has, item_ID)
        case Sum.kind:
            return Sum(made(Factors.kind), made(LocalItemWeights.kind), 0.5)
        case _:
            return ModuleScores(Bilinear(USERS, ITEMS), USERS, ITEMS, "bilinear")


every_kind = pytest.mark.parametrize("kind", list(_KINDS))


@every_kind
def test_a_model_says_of_which_kind_it_is(kind):
    assert made(kind).kind == kind


@every_kind
def test_a_model_that_is_saved_and_made_again_scores_the_same(kind):
    model = made(kind)
    sizes = {"users": USERS, "items": ITEMS, "interactions": 6} | model.sizes()
    assert tuple(model.sizes()) == model.size_names
    saved = Saved(Path("model"), sizes, model.to_saved(), HISTORY, model.facts())
    again = model_class(kind).from_saved(saved)
    everyone = np.arange(USERS)
    assert_array_equal(again.score_all(everyone), model.score_all(everyone))
    assert type(again) is type(model)


@every_kind
def test_some_contexts_alone_score_as_they_do_among_all(kind):
    model, at_T = made(kind), np.array([2, 0])
    alone = model.only(at_T).score_all(np.arange(2))
    assert_allclose(alone, model.score_all(at_T), rtol=1e-5)
    again = model.only(at_T).only(np.array([1])).score_all(np.arange(1))
    assert_allclose(again, alone[1:], rtol=1e-5)


@every_kind
def test_pairs_score_as_they_do_in_the_catalogue_and_the_sum_of_nothing_is_nothing(kind):
    model = made(kind)
    users_P, items_P = np.array([3, 0, 3, 1]), np.array([5, 0, 4, 2])
    wanted = model.score_all(users_P)[np.arange(4), items_P]
    assert_allclose(
        model.score_pairs(users_P, items_P),
        wanted.clip(min=0) if kind == SparseItemWeights.kind else wanted,
        rtol=1e-5,
    )


@every_kind
def test_a_model_compares_items_if_it_has_vectors_or_weights(kind):
    model = made(kind)
    likeness = model.similarity("item")
    if kind == ModuleScores.kind:
        assert likeness is None
        return
    assert likeness is not None
    assert likeness.score_all(np.arange(ITEMS)).shape == (ITEMS, ITEMS)
    has_users = model.similarity("user") is not None
    assert has_users == isinstance(model, Factors | Sum)


@every_kind
def test_a_model_with_a_rule_of_its_own_keeps_it_and_others_take_what_they_are_given(kind):
    model = made(kind)
    assert model.ruled_by(None).rule == model.rule
    if model.rule is None:
        return
    new = NewContexts(History(np.array([0, 2]), np.array([1, 4], np.int32)), np.array([4, 1]))
    folded = model.fold_in(new)
    assert folded.rule == model.rule
    assert folded.score_all(np.arange(1)).shape == (1, ITEMS)


def test_a_context_that_is_new_is_the_sum_of_its_fields_at_the_length_that_is_set():
    model = made(FieldFactors.kind)
    assert isinstance(model, FieldFactors)
    places = np.array([[0, 3], [1, 4]])
    some = model.only(np.array([-1, 2]), places)
    sum_D = model.field_VD[0] + model.field_VD[3]
    assert_allclose(some.user_UD[0], 2 * sum_D / np.linalg.norm(sum_D), rtol=1e-5)
    assert_array_equal(some.user_UD[1], model.user_UD[2])
    assert_allclose(model.followed_by(places).user_UD[USERS], some.user_UD[0])
