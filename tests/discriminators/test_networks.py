"""LightGCN, two towers and sequences, beside answers that are computed another way."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from sdgar.data.features import Features
from sdgar.data.interactions import Interactions
from sdgar.discriminators.adapter import Adapter
from sdgar.discriminators.lightgcn import LightGCN
from sdgar.discriminators.sequence import Sequence
from sdgar.discriminators.two_tower import TwoTower
from sdgar.discriminators.vectors import Vectors
from sdgar.errors import DataError, UsageError

USERS = [0, 0, 0, 1, 1, 2, 3, 3, 3, 3]
ITEMS = [0, 2, 4, 1, 2, 3, 0, 1, 3, 4]
TIMES = [30, 10, 20, 2, 1, 5, 4, 3, 2, 1]


def data() -> Interactions:
    return Interactions.from_arrays(USERS, ITEMS, time=TIMES)


def made(kind: type[Vectors], **settings) -> Vectors:
    torch.manual_seed(0)
    module = kind(4, 5, **({"dim": 6} | settings))
    module.prepare(data().with_features(None, movies()))
    with torch.no_grad():
        module.bias_I += torch.arange(5) / 10
    return module.eval()


def movies() -> Features:
    return Features.from_columns(
        [4, 0, 1, 2], {"genre": [["drama", "war"], "drama", None, "comedy"], "year": [1, 2, 2, 2]}
    )


KINDS = {"lightgcn": LightGCN, "two-tower": TwoTower, "sequence": Sequence}


@pytest.mark.parametrize("tau", [0.0, 0.3])
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_scores_of_some_pairs_are_those_of_the_vectors(kind, tau):
    model = Adapter(made(kind, tau=tau), 4, 5, l2=0.1)
    users_B, items_BN = torch.tensor([3, 0]), torch.tensor([[0, 4, 4], [1, 2, 3]])
    assert_close(model.score(users_B, items_BN), model.score_all(users_B).gather(1, items_BN))
    assert_close(model.frozen()(users_B, items_BN), model.score(users_B, items_BN))
    assert model.n_items == 5


def test_lightgcn_is_the_mean_of_powers_of_the_dense_graph():
    model = made(LightGCN, layers=3)
    a = torch.zeros(9, 9, dtype=torch.float64)
    for user, item in zip(USERS, ITEMS, strict=True):
        a[user, 4 + item] = a[4 + item, user] = 1
    degree = a.sum(1)
    a = a / (degree[:, None] * degree).sqrt()
    e = torch.cat((model.user_UD, model.item_ID)).double().detach().requires_grad_()
    layers = [e]
    for _ in range(3):
        layers.append(a @ layers[-1])
    mean = torch.stack(layers).mean(0)
    h_UD, v_ID = model.tables()
    assert_close(torch.cat((h_UD, v_ID)).double(), mean)
    weight = torch.sin(torch.arange(9.0 * 6)).view(9, 6)
    (torch.cat((h_UD, v_ID)) * weight).sum().backward()
    (mean * weight).sum().backward()
    assert_close(torch.cat((model.user_UD.grad, model.item_ID.grad)).double(), e.grad)


def test_lightgcn_without_a_graph_or_with_fewer_than_no_layers_is_refused():
    with pytest.raises(UsageError, match="prepare"):
        LightGCN(4, 5).tables()
    with pytest.raises(UsageError, match="layers"):
        LightGCN(4, 5, layers=-1)


def test_a_tower_adds_its_features_and_starts_as_its_embeddings():
    model = made(TwoTower, hidden=7)
    tower, names = model.of_items, movies().names
    assert names == ("genre=comedy", "genre=drama", "genre=war", "year=1", "year=2")
    bags = {0: [1, 4], 1: [4], 2: [0, 4], 3: [], 4: [1, 2, 3]}
    x = [tower.own_RD[i] + (tower.feature_FD[bag].mean(0) if bag else 0) for i, bag in bags.items()]
    assert_close(tower(torch.tensor([4, 3, 0, 3])), torch.stack([x[4], x[3], x[0], x[3]]))
    with torch.no_grad():
        tower.outer.weight += 0.1
    hidden = torch.relu(tower.inner.weight @ x[2] + tower.inner.bias)
    assert_close(tower(torch.tensor([2]))[0], x[2] + 0.1 * hidden.sum() * torch.ones(6))


def test_a_sequence_is_ordered_by_time_and_ends_before_its_row():
    model = made(Sequence, length=4)
    rows = data()
    found = {}
    for row, (user, item) in enumerate(zip(rows.users_E, rows.items_E, strict=True)):
        before = model.before(torch.tensor([user]), model.rank_E[[row]])[0].tolist()
        found[user, int(item)] = [i for i in before if i != model.empty]
    assert found[0, 2] == []
    assert found[0, 4] == [2]
    assert found[0, 0] == [2, 4]
    assert found[3, 0] == [4, 3, 1]
    everything = model.before(torch.tensor([3, 2]), torch.tensor([4, 1]))
    assert everything.tolist() == [[4, 3, 1, 0], [5, 5, 5, 3]]


def test_only_what_came_before_a_row_moves_its_score():
    one = made(Sequence, length=8, blocks=2)
    row = int(np.flatnonzero((data().users_E == 3) & (data().items_E == 1))[0])  # after 4, 3
    items_BN = torch.tensor([[0, 1, 2, 3, 4]])
    expected = one.score_event(torch.tensor([row]), items_BN)
    short = Interactions.from_arrays([3, 3], [3, 4], time=[2, 1])
    other = made(Sequence, length=8, blocks=2)
    other.load_state_dict(one.state_dict())
    other.item_E = torch.tensor([4, 3])
    other.start_U1 = torch.tensor([0, 0, 0, 0, 2])
    assert len(short) == 2
    assert_close(other.score(torch.tensor([3]), items_BN), expected)
    one.item_E = one.item_E.clone()
    one.item_E[one.start_U1[3] + 2] = 2  # the row itself, and thus later
    assert_close(one.score_event(torch.tensor([row]), items_BN), expected)
    one.item_E[one.start_U1[3] + 1] = 2  # the one before
    assert not torch.allclose(one.score_event(torch.tensor([row]), items_BN), expected)


def test_empty_places_do_not_matter_and_an_empty_history_is_finite():
    model = made(Sequence, length=6, blocks=2)
    short_BL = torch.tensor([[5, 5, 5, 5, 2, 4]])
    expected = model.encode(short_BL)
    with torch.no_grad():
        model.item_JD[5] += 7.0  # what stands for an empty place
    assert_close(model.encode(short_BL), expected)
    nothing = model.encode(torch.full((1, 6), 5))
    assert torch.isfinite(nothing).all()


@pytest.mark.parametrize("length", [1, 5, 8, 11])
def test_sequences_of_all_lengths_are_encoded_as_each_alone(length):
    model = made(Sequence, length=length, blocks=2).double()
    rng = np.random.default_rng(0)
    lengths = rng.permutation(np.repeat(np.arange(length + 1), 2))
    rows = [[5] * (length - n) + rng.integers(0, 5, n).tolist() for n in lengths]
    expected = torch.cat([plain_attention(model, [i for i in row if i != 5]) for row in rows])
    assert_close(model.encode(torch.tensor(rows)), expected)


def plain_attention(model: Sequence, items: list[int]) -> torch.Tensor:
    """The docstring's equations for one sequence, a place and a head at a time."""
    v_LD = model.item_JD[items] if items else torch.zeros(1, model.item_JD.shape[1])
    x_LD = v_LD + model.place_LD[-len(v_LD) :]
    for block in model.blocks:
        y_LD = block.before(x_LD)
        mixed = []
        for t in range(len(x_LD)):
            query, keys, values = (
                f.chunk(block.heads, dim=-1)
                for f in (
                    block.query(y_LD[t]),
                    *block.key_value(y_LD[: t + 1]).chunk(2, dim=-1),
                )
            )
            heads = [
                (k @ q / len(q) ** 0.5).softmax(dim=0) @ v
                for q, k, v in zip(query, keys, values, strict=True)
            ]
            mixed.append(torch.cat(heads))
        x_LD = x_LD + block.out(torch.stack(mixed))
        x_LD = x_LD + block.outer(torch.relu(block.inner(block.between(x_LD))))
    return model.norm(x_LD[-1:])


def test_dropout_is_for_training_only():
    model = Adapter(made(Sequence, dropout=0.5), 4, 5, l2=0.0)
    users_B, items_BN = torch.tensor([3]), torch.tensor([[0, 1]])
    one, two = (model.score(users_B, items_BN) for _ in range(2))
    assert_close(one, two)
    noisy = [model.score_and_penalty(torch.tensor([6]), items_BN)[0] for _ in range(2)]
    assert not torch.allclose(*noisy)


def test_bad_settings_of_sequences_are_refused():
    with pytest.raises(DataError, match="--time"):
        Sequence(4, 5).prepare(Interactions.from_arrays(USERS, ITEMS))
    for settings in ({"heads": 3, "dim": 8}, {"blocks": 0}, {"length": 0}, {"tau": -1.0}):
        with pytest.raises(UsageError):
            Sequence(4, 5, **settings)


def test_a_module_that_cannot_score_or_be_weighed_is_refused():
    class Scores(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.item_ID = torch.nn.Parameter(torch.ones(5, 2))

        def score(self, users_B, items_BN):
            return self.item_ID[items_BN].sum(2)

    class Enough(Scores):
        def vectors(self):
            return torch.ones(4, 2), self.item_ID

    with pytest.raises(UsageError, match="a way to rank"):
        Adapter(Scores(), 4, 5, l2=0.0)
    with pytest.raises(UsageError, match="penalty"):
        Adapter(Enough(), 4, 5, l2=0.1)
    model = Adapter(Enough(), 4, 5, l2=0.0)
    assert model.factors().bias_I.tolist() == [0] * 5
    assert model.score_and_penalty(torch.tensor([1]), torch.tensor([[1, 2]]))[1].tolist() == [0]
