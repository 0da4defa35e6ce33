"""LightGCN, two towers and sequences, compared with answers that are computed another way."""

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


def seen(model: Sequence, row: int) -> list[int]:
    """The items that a training row sees before it."""
    begin, count = int(model.begin_E[row]), int(model.count_E[row])
    return [i for i in model.item_J[begin : begin + count].tolist() if i != model.empty]


def test_a_sequence_is_ordered_by_time_and_ends_before_its_row():
    model = made(Sequence, length=4)
    rows = data()
    pairs = zip(rows.users_E.tolist(), rows.items_E.tolist(), strict=True)
    found = {pair: seen(model, row) for row, pair in enumerate(pairs)}
    assert found[0, 2] == []
    assert found[0, 4] == [2]
    assert found[0, 0] == [2, 4]
    assert found[3, 0] == [4, 3, 1]


@pytest.mark.parametrize("length", [1, 2, 4, 5, 30])
def test_rows_of_a_long_history_share_windows_and_see_half_of_the_length_at_least(length):
    items = np.random.default_rng(0).permutation(23)
    model = Sequence(1, 23, dim=2, length=length)
    model.prepare(Interactions.from_arrays(np.zeros(23, int), items, time=np.arange(23)))
    rows = Interactions.from_arrays(np.zeros(23, int), items, time=np.arange(23))
    for row, rank in enumerate(rows.time_E.tolist()):
        before = seen(model, row)
        assert before == items[rank - len(before) : rank].tolist()
        assert min(rank, -(-length // 2)) <= len(before) <= length
    windows = len(model.together_E.unique())
    assert windows == 1 + -(-max(0, 22 - length) // -(-length // 2))


def long_histories(length: int) -> tuple[Sequence, Interactions]:
    """A model in double precision, and users with 1 to 12 of 12 items."""
    rng = np.random.default_rng(1)
    users = np.repeat(np.arange(12), np.arange(1, 13))
    items = np.concatenate([rng.permutation(12)[: n + 1] for n in range(12)])
    rows = Interactions.from_arrays(users, items, time=rng.permutation(len(users)))
    torch.manual_seed(0)
    model = Sequence(12, 12, dim=6, length=length, dropout=0.0)
    model.prepare(rows)
    with torch.no_grad():
        for block in model.blocks:
            block.back_HL.normal_()
    return model.double(), rows


@pytest.mark.parametrize("length", [1, 5, 8, 20])
def test_one_pass_over_all_rows_is_one_sequence_for_each_row_with_its_gradients(length):
    model, data = long_histories(length)
    rows_B = torch.randperm(len(data), generator=torch.Generator().manual_seed(0))
    items_BN = (rows_B[:, None] * torch.tensor([1, 5, 7])) % 12
    weight_BN = torch.sin(1.0 + torch.arange(3.0 * len(data), dtype=torch.float64)).view(-1, 3)

    def grads(score_BN: torch.Tensor) -> list[torch.Tensor]:
        model.zero_grad()
        (score_BN * weight_BN).sum().backward()
        return [p.grad.clone() for p in model.parameters()]

    together = model.score_event(rows_B, items_BN)
    h_BD = torch.cat([plain_attention(model, seen(model, row)) for row in rows_B.tolist()])
    cosine = torch.nn.functional.cosine_similarity(h_BD[:, None], model.item_JD[items_BN], dim=2)
    alone = cosine / model.tau + model.bias_I[items_BN]
    assert_close(together, alone)
    for one, other in zip(grads(together), grads(alone), strict=True):
        assert_close(one, other)


def test_only_what_came_before_a_row_moves_its_score():
    model = made(Sequence, length=8, blocks=2)
    row = int(np.flatnonzero((data().users_E == 3) & (data().items_E == 1))[0])  # after 4, 3
    rows_B, items_BN = torch.arange(len(data())), torch.arange(5).expand(len(data()), 5)
    expected = model.score_event(rows_B, items_BN)[row]
    alone = model.encode_all(torch.tensor([0, 2]), torch.tensor([4, 3]))
    cosine = torch.nn.functional.cosine_similarity(alone, model.item_JD[:5])
    assert_close(cosine / model.tau + model.bias_I, expected)
    model.item_J[model.start_U1[3] + 2] = 2  # the row itself, and thus later
    assert_close(model.score_event(rows_B, items_BN)[row], expected)
    model.item_J[model.start_U1[3] + 1] = 2  # the one before
    assert not torch.allclose(model.score_event(rows_B, items_BN)[row], expected)


@pytest.mark.parametrize("length", [1, 5, 8, 11])
def test_the_last_items_of_histories_of_all_lengths_are_encoded_as_each_alone(length):
    model, _ = long_histories(length)
    rng = np.random.default_rng(0)
    histories = [rng.integers(0, 12, n).tolist() for n in rng.permutation(2 * length + 3)]
    start_U1 = torch.tensor([0, *np.cumsum([len(h) for h in histories])])
    item_E = torch.tensor([i for history in histories for i in history])
    expected = torch.cat([plain_attention(model, history[-length:]) for history in histories])
    assert_close(model.encode_all(start_U1, item_E), expected)


def plain_attention(model: Sequence, items: list[int]) -> torch.Tensor:
    """The docstring's equations for one sequence, a place and a head at a time."""
    x_LD = model.item_JD[items or [model.empty]]
    for block in model.blocks:
        y_LD = block.before(x_LD)
        mixed = []
        for t in range(len(x_LD)):
            projected = block.query_key_value(y_LD[: t + 1]).chunk(3, dim=-1)
            query, keys, values = (p.chunk(len(block.back_HL), dim=-1) for p in projected)
            back_HL = block.back_HL[:, : t + 1].flip(1)
            heads = [
                (k @ q[-1] / q.shape[1] ** 0.5 + back).softmax(dim=0) @ v
                for q, k, v, back in zip(query, keys, values, back_HL, strict=True)
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
    with pytest.raises(DataError, match="--time-column"):
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
