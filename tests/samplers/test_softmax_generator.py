from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from sdgar.data.interactions import Interactions
from sdgar.errors import NumericalError
from sdgar.maths.rng import Draws, Stream
from sdgar.samplers import softmax_generator as module
from sdgar.samplers.policy_gradient import PolicyGradient, PolicySettings, Pushes
from sdgar.samplers.softmax_generator import MOST_ROWS, SoftmaxGenerator, inverse_cdf
from sdgar.systems.irgan import IRGAN
from sdgar.systems.recipe import recipe_of
from sdgar.training.fitting import fixed
from sdgar.training.loop import Training
from sdgar.training.records import FitOptions

from ..positives import positives_of

CPU = torch.device("cpu")
QUIET = {
    "learning_rate": 0.05,
    "l2": 0.0,
    "batch_size": 3,
    "samples": 8,
    "pretrain": 0,
    "pretrain_rate": 0.05,
}
"""Settings of an update that does not learn before the first epoch."""
ITEMS = {0: [1, 4], 1: [0, 1, 2, 3, 4, 5, 7], 2: [6], 3: list(range(8))}
"""Of 8 items, the second context has all but one and the last all."""


def data() -> Interactions:
    pairs = [(user, item) for user, items in ITEMS.items() for item in items]
    return Interactions.from_arrays(*zip(*pairs, strict=True))


def made(*, temperature: float = 0.5, **changes) -> SoftmaxGenerator:
    update = PolicyGradient(settings=PolicySettings(**QUIET | changes))
    sampler = SoftmaxGenerator(
        data().history, 8, 3, seed=0, temperature=temperature,
        learning_rate=update.settings.learning_rate, update=update,
    )  # fmt: skip
    with torch.no_grad():
        for parameter in sampler.model.parameters():
            parameter += 0.5 * torch.sin(7.0 * torch.arange(parameter.numel())).view_as(parameter)
    return sampler


def scores(users_B: torch.Tensor, items_BN: torch.Tensor) -> torch.Tensor:
    return 2 * torch.sin(1.0 + users_B[:, None] * 7 + items_BN * 3)


def enumerated(sampler: SoftmaxGenerator, user: int, *, known: list[int]) -> list[float]:
    """Q(. | c) in Python's floats, over the items that are not known."""
    f = sampler.learned()
    g = [
        sum(a * b for a, b in zip(f.user_UD[user].tolist(), f.item_ID[i].tolist(), strict=True))
        + f.bias_I[i].item()
        for i in range(8)
    ]
    mass = [0.0 if i in known else math.exp(g[i] / sampler.temperature) for i in range(8)]
    return [m / max(sum(mass), 1e-300) for m in mass]


def sampled(sampler: SoftmaxGenerator, users_B: torch.Tensor, n: int, *, epoch: int = 1):
    items_B = torch.tensor([ITEMS[u][0] for u in users_B.tolist()], device=users_B.device)
    positives = positives_of(data(), users_B, items_B, seed=3, epoch=epoch, score=scores)
    return sampler.sample(positives, n)


@pytest.mark.parametrize("temperature", [0.1, 1.0, 10.0])
def test_proposals_are_the_softmax_over_the_unknown_items(temperature):
    sampler = made(temperature=temperature)
    q_UI = sampler.proposals(torch.arange(4))
    for user, items in ITEMS.items():
        assert_close(q_UI[user], torch.tensor(enumerated(sampler, user, known=items)))
    assert_close(q_UI.sum(dim=1), torch.tensor([1.0, 1.0, 1.0, 0.0]))


def test_memory_is_bounded_and_pieces_change_nothing(monkeypatch):
    users_B = torch.tensor([2, 0, 1, 3, 0, 2, 2, 1, 0])
    sampler, other = made(pretrain=2), made(pretrain=2)
    whole = sampled(sampler, users_B, 6)
    sampler.refit(scores, seed=5, epoch=1)
    monkeypatch.setattr(module, "_SCORES_AT_ONCE", 1)
    assert [len(piece) for piece in other.pieces(users_B)] == [1] * 9
    parts = sampled(other, users_B, 6)
    # A matrix product is added up in an order that libraries choose by its shape, so the pieces
    # agree up to rounding: one draw in a million may fall on the other side of a boundary.
    same_BN = whole.items_BN == parts.items_BN
    assert (~same_BN).sum() <= 1
    assert_close(whole.log_q_BN[same_BN], parts.log_q_BN[same_BN])
    other.refit(scores, seed=5, epoch=1)
    for one, two in zip(sampler.model.parameters(), other.model.parameters(), strict=True):
        assert_close(one, two)


def test_positives_come_in_the_order_of_the_contexts():
    place_R, item_R = made().positives(torch.tensor([2, 0, 2, 1]))
    contexts = [2, 0, 2, 1]
    expected = [(place, item) for place, user in enumerate(contexts) for item in ITEMS[user]]
    assert list(zip(place_R.tolist(), item_R.tolist(), strict=True)) == expected


@given(
    st.lists(
        st.lists(st.sampled_from([0.0, 1e-9, 0.1, 1.0, 3.0]), min_size=4, max_size=4).filter(any),
        min_size=1,
        max_size=3,
    ),
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**32 - 1),
)
def test_the_inverse_cdf_is_the_first_running_sum_above_the_number(masses, high, low):
    p_CI = torch.tensor(masses, dtype=torch.float64)
    words = (torch.full((len(masses), 1), word) for word in (high, low))
    place_R1 = torch.arange(len(masses))[:, None]
    drawn = inverse_cdf(p_CI, place_R1, *words)[:, 0].tolist()
    for mass, item in zip(masses, drawn, strict=True):
        assert mass[item] > 0
        u = ((high << 32) | low) / 2**64
        share = [sum(mass[: i + 1]) / sum(mass) for i in range(4)]
        # Up to the 2^-40 in which sums are counted.
        assert share[item] > u - 2**-39
        assert item == 0 or share[item - 1] <= u + 2**-39


@pytest.mark.parametrize("n_items", [255, 256, 257, 700])
def test_the_inverse_cdf_over_many_blocks_follows_the_probabilities(n_items, monkeypatch):
    # Every item of positive probability in its turn: a number in the middle of its share.
    monkeypatch.setattr(module, "_DRAWS_AT_ONCE", 100)
    p_I = torch.sin(torch.arange(1.0, n_items + 1)).clamp(min=0).double()
    p_I[-1] = 0.5
    if n_items > 600:
        p_I[256:512] = 0  # a block in which there is nothing to draw
    p_CI = torch.stack((p_I.flip(0), p_I))
    end_I = p_I.cumsum(0) / p_I.sum()
    middle_I = ((end_I - 0.5 * p_I / p_I.sum()) * 2**32).long()[p_I > 0]
    place_R1 = torch.ones_like(middle_I)[:, None]
    drawn_R1 = inverse_cdf(p_CI, place_R1, middle_I[:, None], 0 * place_R1)
    assert drawn_R1[:, 0].tolist() == p_I.nonzero()[:, 0].tolist()


def test_the_last_of_as_many_rows_as_there_may_be_is_drawn_from_rightly():
    p_CI = torch.zeros(MOST_ROWS, 2)
    p_CI[:, 1] = 1.0
    last = torch.tensor([[MOST_ROWS - 1]])
    for word in (0, 2**32 - 1):
        assert inverse_cdf(p_CI, last, torch.full((1, 1), word), torch.full((1, 1), word)) == 1


def test_the_gradient_of_pushes_is_that_of_the_weighted_log_probabilities():
    generator = torch.Generator().manual_seed(0)
    g_BI = torch.randn(3, 6, generator=generator, dtype=torch.float64, requires_grad=True)
    place_R, item_R = torch.tensor([0, 0, 2, 2, 2]), torch.tensor([1, 5, 0, 0, 3])
    push_R = torch.randn(5, generator=generator, dtype=torch.float64)
    (push_R * g_BI.log_softmax(dim=1)[place_R, item_R]).sum().backward()
    q_BI = g_BI.detach().softmax(dim=1)
    assert_close(Pushes(place_R, item_R, push_R, 1.0).gradient(q_BI), g_BI.grad)


@pytest.mark.parametrize("reward", ["sigmoid", "softplus"])
@pytest.mark.parametrize("share", [0.0, 0.5])
def test_the_estimate_has_the_mean_of_the_exact_gradient(reward, share):
    """Few samples, many times: what must vanish with their number is noise, not bias."""
    sampler, times = made(reward=reward, positive_share=share, samples=3), 20_000
    g_BI = sampler.logits(torch.arange(3)).detach().double().requires_grad_()
    s_BI = scores(torch.arange(3), torch.arange(8).expand(3, -1)).double()
    r_BI = 2 * s_BI.sigmoid() - 1 if reward == "sigmoid" else torch.log1p(s_BI.exp())
    (g_BI.softmax(dim=1) * r_BI).sum().backward()
    users_R = torch.arange(3).repeat(times)
    q_RI = g_BI.detach().softmax(dim=1)[users_R]
    draws = Draws(1, Stream.GENERATOR_ITEMS, 1, torch.arange(3 * times)[:, None])
    pushes, _ = sampler.update.estimate(sampler, scores, users_R, q_RI, draws)
    found_TBI = pushes.gradient(q_RI).view(times, 3, 8)
    error_BI = found_TBI.std(dim=0) / times**0.5
    # Six standard errors on 24 numbers; the fixed seed makes it the same on every run.
    assert ((found_TBI.mean(dim=0) - g_BI.grad).abs() < 6 * error_BI).all()
    assert (g_BI.grad.abs() > 12 * error_BI).any()


def test_rewards_are_those_of_the_generators_own_items():
    sampler = made(samples=20_000, positive_share=0.3)
    users_B = torch.arange(3)
    q_BI = sampler.logits(users_B).detach().softmax(dim=1)
    draws = Draws(1, Stream.GENERATOR_ITEMS, 1, users_B[:, None])
    _, reward_B = sampler.update.estimate(sampler, scores, users_B, q_BI, draws)
    r_BI = 2 * scores(users_B, torch.arange(8).expand(3, -1)).sigmoid() - 1
    assert_close(reward_B, (q_BI * r_BI).sum(dim=1), atol=0.03, rtol=0)


def expected_reward(sampler: SoftmaxGenerator) -> float:
    q_UI = sampler.logits(torch.arange(4)).detach().softmax(dim=1)
    r_UI = 2 * scores(torch.arange(4), torch.arange(8).expand(4, -1)).sigmoid() - 1
    return float((q_UI * r_UI).sum(dim=1).mean())


def test_updates_raise_the_expected_reward_towards_the_best():
    sampler = made(samples=16)
    before = expected_reward(sampler)
    said = [sampler.refit(scores, seed=2, epoch=epoch).numbers for epoch in range(2, 150)]
    best = float((2 * scores(torch.arange(4), torch.arange(8).expand(4, -1)).sigmoid() - 1).amax())
    assert before < 0.3
    assert expected_reward(sampler) > 0.9 * best
    assert said[-1]["reward"] > said[0]["reward"]
    assert said[-1]["perplexity"] < said[0]["perplexity"] <= 8


@pytest.mark.parametrize("l2", [0.0, 0.7])
def test_pretraining_takes_adams_steps_up_the_likelihood_of_the_positives(l2):
    sampler = made(pretrain=2, pretrain_rate=0.03, batch_size=4, l2=l2)
    tables = {n: p.detach().double().requires_grad_() for n, p in sampler.model.named_parameters()}
    user_UD, item_ID, bias_I = (tables[n] for n in ("user_UD", "item_ID", "bias_I"))
    adam = torch.optim.Adam(tables.values(), lr=0.03)
    for _ in range(2):
        adam.zero_grad()
        log_q_UI = (user_UD @ item_ID.T + bias_I).log_softmax(dim=1)
        pairs = [(user, item) for user, items in ITEMS.items() for item in items]
        loss = -sum(log_q_UI[user, item] for user, item in pairs)
        norms = sum(
            user_UD[u].square().sum() + item_ID[i].square().sum() + bias_I[i] ** 2 for u, i in pairs
        )
        ((loss + 0.5 * l2 * norms) / 4).backward()
        adam.step()
    sampler.update.pretrain(sampler, seed=0)
    for name, parameter in sampler.model.named_parameters():
        assert_close(parameter.detach(), tables[name].detach().float(), atol=1e-5, rtol=1e-5)


def test_only_the_first_refit_pretrains():
    sampler, never = made(pretrain=3), made()
    sampler.refit(scores, seed=0, epoch=2)
    never.refit(scores, seed=0, epoch=2)
    assert torch.equal(sampler.model.user_UD, never.model.user_UD)
    sampler.refit(scores, seed=0, epoch=1)
    never.refit(scores, seed=0, epoch=1)
    assert not torch.equal(sampler.model.user_UD, never.model.user_UD)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"pretrain": 3, "pretrain_rate": 1e35},
            "pretraining.* Lower sampler__pretrain_rate",
        ),
        ({"learning_rate": 1e35}, "before epoch 1 .* Lower sampler__learning_rate"),
    ],
)
def test_a_generator_that_diverges_is_refused(changes, message):
    sampler = made(**changes)
    with torch.no_grad():  # as after a step of that length: their products are no numbers
        sampler.model.item_ID.fill_(1e35)
        sampler.model.user_UD.fill_(1e35)
    with pytest.raises(NumericalError, match=message):
        sampler.refit(scores, seed=0, epoch=1)


def test_the_generator_starts_elsewhere_than_the_discriminator():
    system = recipe_of(IRGAN(dim=4)).compose(data(), seed=0)
    assert not torch.equal(system.discriminator.user_UD, system.sampler.model.user_UD)
    assert not torch.equal(system.discriminator.item_ID, system.sampler.model.item_ID)


@pytest.mark.parametrize("side", ["generator", "discriminator"])
def test_the_recommending_part_is_measured_and_kept(side, checkerboard):
    composed = []

    class Spy(IRGAN):
        def _compose(self, data, *, seed, device, start=True):
            composed.append(super()._compose(data, seed=seed))
            return composed[-1]

    recipe = Spy(dim=4, side=side)
    options = FitOptions(epochs=2, early_stopping=False)
    run = Training(recipe=recipe_of(recipe), options=options, seed=0, engine="auto", device=CPU)
    trained = fixed(run, checkerboard)
    system = composed[0]
    who = system.sampler if side == "generator" else system.discriminator
    assert np.array_equal(trained.model.user_UD, who.learned().user_UD)
    assert trained.engine == "eager"
    assert 1 <= trained.generator["perplexity"] <= 40


def test_the_perplexity_is_the_exponential_of_the_entropy():
    sampler = made(learning_rate=1e-30)
    perplexity = sampler.refit(scores, seed=5, epoch=2).numbers["perplexity"]
    q_UI = sampler.logits(torch.arange(4)).detach().double().softmax(dim=1)
    entropy_U = -(q_UI * q_UI.log()).sum(dim=1)
    assert perplexity == pytest.approx(entropy_U.exp().mean().item(), rel=1e-5)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_draws_and_learns_the_same():
    here, there = made(pretrain=2), made(pretrain=2).to(torch.device("cuda"))
    for sampler in (here, there):
        sampler.refit(scores, seed=5, epoch=1)
    for one, two in zip(here.model.parameters(), there.model.parameters(), strict=True):
        assert_close(one, two.cpu(), atol=1e-4, rtol=1e-3)
    users_B = torch.arange(4, device="cuda")
    there.load_state(here.state())
    drawn = sampled(there, users_B, 50)
    assert torch.equal(drawn.items_BN.cpu(), sampled(here, users_B.cpu(), 50).items_BN)
