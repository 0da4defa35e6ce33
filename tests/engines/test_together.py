"""An epoch by whole groups of rows."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from sdgar.data.interactions import Interactions
from sdgar.engines.eager import EagerEngine
from sdgar.engines.visits import GroupedRows
from sdgar.systems.composed import Composed
from sdgar.systems.recipe import recipe_of

CPU = torch.device("cpu")
GROUPS = torch.from_numpy(np.random.default_rng(0).integers(0, 40, 300))


def steps(order: GroupedRows, epoch: int, size: int, ahead: int) -> list[list[int]]:
    found = []
    for batch, ends in order.stretches(epoch, size, ahead):
        assert torch.equal(batch.first_V, batch.rows_B)
        assert batch.visit_B.tolist() == list(range(len(batch.rows_B)))
        found += [batch.rows_B[a:b].tolist() for a, b in itertools.pairwise((0, *ends))]
    return found


@pytest.mark.parametrize("size", [1, 7, 60, 1000])
@pytest.mark.parametrize("ahead", [1, 3, 100])
def test_every_row_comes_once_and_no_group_is_cut(size, ahead):
    found = steps(GroupedRows(GROUPS, seed=3), 2, size, ahead)
    assert sorted(itertools.chain(*found)) == list(range(300))
    groups = [set(GROUPS[rows].tolist()) for rows in found]
    assert sum(map(len, groups)) == len(GROUPS.unique())
    largest = int(GROUPS.bincount().max())
    done = np.cumsum([len(rows) for rows in found])
    for number, (rows, end) in enumerate(zip(found, done, strict=True), start=1):
        assert rows
        if size >= largest:
            assert number * size <= end < number * size + largest or end == 300


def test_epochs_have_other_orders_that_do_not_depend_on_what_is_drawn_ahead():
    order = GroupedRows(GROUPS, seed=3)
    assert steps(order, 1, 20, 1) == steps(GroupedRows(GROUPS, seed=3), 1, 20, 50)
    assert steps(order, 1, 20, 1) != steps(order, 2, 20, 1)
    assert steps(order, 1, 20, 1) != steps(GroupedRows(GROUPS, seed=4), 1, 20, 1)


@pytest.mark.parametrize("per_visit", [1, 2])
def test_a_model_that_computes_rows_together_is_given_them_together(monkeypatch, per_visit):
    rng = np.random.default_rng(0)
    users, items = np.repeat(np.arange(30), 5), np.tile(np.arange(25), 6)
    data = Interactions.from_arrays(users, items, time=rng.permutation(150))
    system = recipe_of(Composed(
        discriminator="sequence", sampler="uniform", dim=4, batch_size=20, device="cpu",
        sampler__positives_per_visit=per_visit,
    )).compose(data, seed=0, device=CPU)  # fmt: skip
    engine = EagerEngine(system, data, seed=0, device=CPU)
    model, given = system.discriminator, []
    scored = model.score_and_penalty
    monkeypatch.setattr(
        model,
        "score_and_penalty",
        lambda rows_B, items: given.append(rows_B) or scored(rows_B, items),
    )
    engine.run_epoch(1)
    assert sorted(torch.cat(given).tolist()) == list(range(150))
    windows = [len(model.together_E[rows_B].unique()) for rows_B in given]
    assert (sum(windows) == 30) == (per_visit == 1)
