from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sdgar.data.interactions import Interactions
from sdgar.engines.eager import EagerEngine
from sdgar.errors import UsageError
from sdgar.maths.rng import Draws, Stream, below
from sdgar.samplers.score_aware import FirstViolation, HardestOf
from sdgar.samplers.static import PairLookup
from sdgar.systems.bpr import BPR, DNS
from sdgar.systems.hinges import WARP
from sdgar.systems.recipe import recipe_of

from ..positives import positives_of

CPU = torch.device("cpu")
USERS, ITEMS = 6, 25


def problem() -> Interactions:
    """The last user has every item but one."""
    rng = np.random.default_rng(3)
    users = np.concatenate((rng.integers(0, USERS, 40), np.full(ITEMS - 1, USERS)))
    items = np.concatenate((rng.integers(0, ITEMS, 40), np.arange(ITEMS - 1)))
    return Interactions.from_arrays(np.append(users, 0), np.append(items, ITEMS - 1))


DATA = problem()
KNOWN = PairLookup(DATA.history, DATA.n_items, CPU)
SCORE_UI = torch.from_numpy(np.random.default_rng(4).integers(-3, 4, (USERS + 1, ITEMS))).float()
"""Whole numbers, so that there are many ties and no rounding."""


def score(users_B: torch.Tensor, items_BN: torch.Tensor) -> torch.Tensor:
    return SCORE_UI[users_B[:, None], items_BN]


def sample(sampler, n: int = 1, *, seed: int = 0, epoch: int = 1, score=score):
    return sampler.sample(positives_of(DATA, seed=seed, epoch=epoch, score=score), n)


UNKNOWN = [sorted(set(range(ITEMS)) - set(DATA.history.of(u).tolist())) for u in range(USERS + 1)]


def uniform_items(seed: int, epoch: int, slots: int) -> list[list[int]]:
    """The definition: for each row and slot the item at place n·u of the user's unknown ones."""
    draws = Draws(seed, Stream.NEGATIVES, epoch, np.arange(len(DATA))[:, None])
    high_BS, low_BS, _, _ = draws.words(np.arange(slots))
    n_B = np.array([len(UNKNOWN[u]) for u in DATA.users_E])
    place_BS = below(n_B[:, None], high_BS, low_BS).tolist()
    return [
        [UNKNOWN[u][place] for place in places]
        for u, places in zip(DATA.users_E, place_BS, strict=True)
    ]


@given(st.integers(0, 2**64 - 1), st.integers(1, 3), st.integers(1, 6))
def test_the_hardest_is_the_first_best_of_its_candidates(seed, n, candidates):
    negatives = sample(HardestOf(candidates), n, seed=seed)
    assert negatives.accepted_BN.all()
    assert negatives.log_q_BN is None
    score_UI = SCORE_UI.tolist()
    for row, items in enumerate(uniform_items(seed, 1, n * candidates)):
        score_I = score_UI[DATA.users_E[row]]
        best = [
            max(items[j : j + candidates], key=score_I.__getitem__)  # max keeps the first
            for j in range(0, n * candidates, candidates)
        ]
        assert negatives.items_BN[row].tolist() == best


@given(
    st.integers(0, 2**64 - 1),
    st.sampled_from([-4.0, -1.0, 0.0, 0.5, 1.0, 5.0]),
    st.integers(1, 20),
)
def test_the_first_violation_is_that_of_trying_one_by_one(seed, margin, max_tries):
    negatives = sample(FirstViolation(margin, max_tries), seed=seed, epoch=2)
    score_UI, pos_E = SCORE_UI.tolist(), DATA.items_E.tolist()
    expected = []
    for row, items in enumerate(uniform_items(seed, 2, max_tries)):
        score_I = score_UI[DATA.users_E[row]]
        tries = 1
        while tries < max_tries and score_I[items[tries - 1]] <= score_I[pos_E[row]] - margin:
            tries += 1
        expected.append((items[tries - 1], tries))
    found = zip(negatives.items_BN[:, 0].tolist(), negatives.tries_B.tolist(), strict=True)
    assert list(found) == expected
    assert negatives.accepted_BN.all()


def test_rows_stop_being_scored_once_they_have_a_violation():
    scored = []

    def counting(users_B, items_BN):
        scored.append(items_BN.shape)
        return score(users_B, items_BN)

    tries_B = sample(FirstViolation(1.0, 100), score=counting).tries_B
    # 1, 2, 4 … tries at a time: a row that needs t of them pays for less than 2 t.
    draws = sum(rows * tries for rows, tries in scored[1:])
    assert scored[0] == (len(DATA), 1)
    assert tries_B.sum() <= draws < 2 * tries_B.sum()


def engine_of(recipe, data: Interactions) -> EagerEngine:
    return EagerEngine(recipe_of(recipe).compose(data, seed=0), data, seed=0, device=CPU)


def test_a_row_without_a_violation_teaches_nothing_and_is_not_reported_as_unanswered():
    # Scores are near 0 and a margin of 0 is violated half of the time, so of rows with one try
    # about half find nothing. User 2 has every item: only those 12 rows have no negative.
    users = np.concatenate((np.repeat([0, 1], 6), np.full(12, 2)))
    items = np.concatenate((np.arange(12), np.arange(12)))
    data = Interactions.from_arrays(users, items)
    recipe = WARP(dim=4, margin=0.0, max_tries=1, l2=0.0, batch_size=64)
    engine = engine_of(recipe, data)
    system = recipe_of(recipe).compose(data, seed=0)
    negatives = system.sampler.sample(positives_of(data, score=system.discriminator.score), 1)
    s_BN = system.discriminator.score(
        torch.from_numpy(data.users_E),
        torch.cat((torch.from_numpy(data.items_E).long()[:, None], negatives.items_BN), dim=1),
    )
    loss_B = system.objective(s_BN[:, 0], s_BN[:, 1:], negatives)
    found_B = (s_BN[:, 1] > s_BN[:, 0]) & negatives.accepted_BN[:, 0]
    assert 0 < found_B[:12].sum() < 12
    assert torch.equal(loss_B > 0, found_B)
    assert engine.run_epoch(1).unanswered == 12


def test_dynamic_sampling_with_one_candidate_is_bpr_to_the_bit(checkerboard):
    alike = {"l2": 0.02, "learning_rate": 0.1}
    recipes = (DNS(candidates=1, **alike), BPR(**alike))
    one, other = (engine_of(recipe, checkerboard) for recipe in recipes)
    for epoch in (1, 2):
        assert one.run_epoch(epoch).loss == other.run_epoch(epoch).loss


def test_only_one_negative_is_searched_for():
    with pytest.raises(UsageError, match=r"n_negatives is 2\. Use n_negatives=1"):
        sample(FirstViolation(1.0, 5), 2)


@pytest.mark.parametrize("name", ["n_negatives", "sampler__positives_per_visit"])
def test_warp_refuses_pools(name):
    with pytest.raises(UsageError, match=f"Set {name} to 1"):
        recipe_of(WARP(**{name: 3})).compose(DATA, seed=0)
