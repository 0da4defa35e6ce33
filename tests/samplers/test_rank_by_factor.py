from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

from sdgar.data.interactions import Interactions
from sdgar.discriminators.factorization import MatrixFactorization
from sdgar.errors import UsageError
from sdgar.maths.rng import Draws, Stream
from sdgar.samplers.rank_by_factor import RankByFactor

from ..positives import positives_of

CPU = torch.device("cpu")
USERS, ITEMS, DIM = 3, 9, 2
SCALE = 0.25

DATA = Interactions.from_arrays([0, 0, 1, 1, *[2] * ITEMS], [1, 4, 0, 8, *range(ITEMS)])


def model() -> MatrixFactorization:
    """User 0 likes the first factor and not the second, user 1 neither; biases differ."""
    made = MatrixFactorization(USERS, ITEMS, DIM, seed=5, init_scale=1.0)
    with torch.no_grad():
        made.user_UD[:2] = torch.tensor([[0.5, -1.5], [-0.2, -0.4]])
        made.bias_I += torch.sin(torch.arange(ITEMS))
    return made


def probability(made: MatrixFactorization, user: int) -> np.ndarray:
    """The definition, summed over factors and ranks in float64; known positives taken out."""
    f = made.factors()
    v_IK = np.column_stack((f.item_ID.double().numpy(), f.bias_I.double().numpy()))
    u_K = np.append(f.user_UD[user].double().numpy(), 1.0)
    p_K = np.abs(u_K) * v_IK.std(axis=0)
    p_R = np.exp(-np.arange(ITEMS) / (SCALE * ITEMS))
    q_I = np.zeros(ITEMS)
    for k, weight in enumerate(p_K / p_K.sum()):
        best_first = sorted(range(ITEMS), key=lambda i: -u_K[k] * v_IK[i, k])
        for r, i in enumerate(best_first):
            q_I[i] += weight * p_R[r] / p_R.sum()
    q_I[DATA.history.of(user)] = 0
    return q_I / q_I.sum()


def draw(sampler: RankByFactor, user: int, rows: int = 20_000, n: int = 5):
    return sampler.sample(positives_of(DATA, torch.full((rows,), user), seed=2), n)


@pytest.mark.parametrize("user", [0, 1])
def test_draws_follow_the_distribution_that_is_summed_over_factors_and_ranks(user):
    # Chi-square at a false-alarm rate of 1e-6 with a fixed seed: 100,000 draws over 7 items
    # detect an error of 3 % in every one of them.
    made = model()
    negatives = draw(RankByFactor(made, SCALE), user)
    # Half of user 1's draws are known positives: some are so 16 times in a row.
    assert negatives.accepted_BN.double().mean() > 0.999
    q_I = probability(made, user)
    items = negatives.items_BN[negatives.accepted_BN].numpy()
    counts_I = np.bincount(items, minlength=ITEMS)
    assert (counts_I[q_I == 0] == 0).all()
    assert q_I[q_I > 0].max() > 2 * q_I[q_I > 0].min()
    kept = q_I > 0
    assert stats.chisquare(counts_I[kept], q_I[kept] * counts_I.sum()).pvalue > 1e-6


def test_a_narrow_scale_draws_from_the_top_of_what_the_context_likes():
    made = model()
    with torch.no_grad():
        made.item_ID[:, 0] = torch.arange(ITEMS) - 4.0
        made.item_ID[:, 1] = 0.0
        made.bias_I.zero_()
    sampler = RankByFactor(made, 1e-3)
    assert (sampler.draw(torch.zeros(50).long(), *words()) == ITEMS - 1).all()
    assert (sampler.draw(torch.ones(50).long(), *words()) == 0).all()


def words():
    return Draws(0, Stream.NEGATIVES, 1, torch.arange(50)), torch.zeros(50).long()


def test_a_factor_in_which_all_items_are_alike_is_never_drawn():
    made = model()
    with torch.no_grad():
        made.item_ID[:, 1] = 7.0
    factor_of = RankByFactor(made, SCALE).factor_of
    assert (factor_of.mass_RN[:, 1] == 0).all()
    assert (factor_of.mass_RN[:, [0, 2]] > 0).all()


def test_a_context_that_no_factor_speaks_for_draws_all_items():
    made = model()
    with torch.no_grad():
        made.user_UD[1] = 0.0
        made.bias_I.zero_()
    negatives = draw(RankByFactor(made, 10.0), 1, rows=400)
    assert set(negatives.items_BN.ravel().tolist()) == set(range(ITEMS)) - {0, 8}


def test_orders_and_weights_follow_the_discriminator_at_a_refit_and_not_before():
    made = model()
    sampler = RankByFactor(made, SCALE)
    before = {name: table.clone() for name, table in sampler.state().items()}
    first = draw(sampler, 0).items_BN
    with torch.no_grad():
        made.item_ID *= torch.tensor([-1.0, 2.0])
        made.user_UD[0] = torch.tensor([2.0, 0.1])
    assert torch.equal(draw(sampler, 0).items_BN, first)
    assert sampler.refit(None, seed=0, epoch=2).numbers == {}
    after = sampler.state()
    assert all(not torch.equal(after[name], before[name]) for name in before)
    fresh = RankByFactor(made, SCALE)
    assert torch.equal(draw(sampler, 0).items_BN, draw(fresh, 0).items_BN)
    fresh.load_state(before)
    assert torch.equal(draw(fresh, 0).items_BN, first)


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan")])
def test_a_scale_without_ranks_is_refused(scale):
    with pytest.raises(UsageError, match="rank_scale must be a positive share"):
        RankByFactor(model(), scale)
