"""EM steps of the generator: exact ones never raise the KL, sampled ones estimate them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from sdgar.data.history import History
from sdgar.samplers import em
from sdgar.samplers.closed_form import Frozen
from sdgar.samplers.decomposable import Decomposable
from sdgar.samplers.em import EMSettings, ExpectationMaximization, step

USERS, ITEMS, STATES = 6, 9, 3


def scores(seed: int, spread: float) -> Tensor:
    rng = torch.Generator().manual_seed(seed)
    return spread * torch.randn(USERS, ITEMS, generator=rng, dtype=torch.float64)


def start(seed: int) -> tuple[Tensor, Tensor]:
    rng = torch.Generator().manual_seed(seed + 1)
    x_UK = torch.rand(USERS, STATES, generator=rng, dtype=torch.float64) + 0.01
    y_IK = torch.rand(ITEMS, STATES, generator=rng, dtype=torch.float64) + 0.01
    return x_UK / x_UK.sum(dim=1, keepdim=True), y_IK / y_IK.sum(dim=0)


def kl(p_UI: Tensor, x_UK: Tensor, y_IK: Tensor) -> float:
    return float((p_UI * (p_UI.log() - (x_UK @ y_IK.T).log())).sum())


def exact_x(p_UI: Tensor, x_UK: Tensor, y_IK: Tensor, floor: float) -> Tensor:
    return step(x_UK, (p_UI / (x_UK @ y_IK.T) @ y_IK).log(), floor, dim=1)


def exact_y(p_UI: Tensor, x_UK: Tensor, y_IK: Tensor, floor: float) -> Tensor:
    return step(y_IK, ((p_UI / (x_UK @ y_IK.T)).T @ x_UK).log(), floor, dim=0)


@given(st.integers(0, 10**6), st.floats(0.0, 8.0))
def test_exact_steps_never_raise_the_divergence(seed, spread):
    p_UI = scores(seed, spread).softmax(dim=1)
    x_UK, y_IK = start(seed)
    before = kl(p_UI, x_UK, y_IK)
    for _ in range(20):
        x_UK = exact_x(p_UI, x_UK, y_IK, 0.0)
        after_x = kl(p_UI, x_UK, y_IK)
        y_IK = exact_y(p_UI, x_UK, y_IK, 0.0)
        after = kl(p_UI, x_UK, y_IK)
        assert after_x <= before + 1e-9
        assert after <= after_x + 1e-9
        before = after


def test_enough_states_fit_any_target():
    """With a state for every context Q can be P itself."""
    p_UI = scores(0, 2.0).softmax(dim=1)
    x_UK = 0.5 * torch.eye(USERS, dtype=torch.float64) + 0.5 / USERS
    y_IK = torch.full((ITEMS, USERS), 1 / ITEMS, dtype=torch.float64)
    first = kl(p_UI, x_UK, y_IK)
    for _ in range(3000):
        x_UK = exact_x(p_UI, x_UK, y_IK, 0.0)
        y_IK = exact_y(p_UI, x_UK, y_IK, 0.0)
    assert kl(p_UI, x_UK, y_IK) < 0.01 * first


def generator_of(x_UK: Tensor, y_IK: Tensor, update: ExpectationMaximization) -> Decomposable:
    made = Decomposable(USERS, ITEMS, STATES, seed=0, update=update)
    made.set_x(x_UK)
    made.set_y(y_IK)
    return made


def by_em(positives: History | None = None, **settings) -> ExpectationMaximization:
    return ExpectationMaximization(settings=EMSettings(**settings), positives=positives)


def test_an_update_by_many_draws_is_the_exact_round():
    s_UI = scores(1, 1.5)
    update = by_em(samples=200_000, floor_x=0.01, floor_y=0.1)
    generator = generator_of(*start(1), update)
    x_UK, y_IK = generator.x_UK.double(), generator.y_IK.double()
    p_UI = s_UI.softmax(dim=1)
    expected_x = exact_x(p_UI, x_UK, y_IK, 0.01)
    expected_y = exact_y(p_UI, expected_x, y_IK, 0.1)
    found = generator.refit(lambda u, i: s_UI.float()[u[:, None], i], seed=3, epoch=1).numbers
    assert_close(generator.x_UK.double(), expected_x, rtol=0.02, atol=1e-4)
    assert_close(generator.y_IK.double(), expected_y, rtol=0.03, atol=1e-4)
    now = (generator.x_UK.double() @ generator.y_IK.double().T).log()
    expected_kl = float((p_UI * (p_UI.log() - now)).sum() / USERS)
    assert found["kl"] == pytest.approx(expected_kl, rel=1e-3)


def test_updates_follow_the_scores_and_keep_their_floors():
    s_UI = scores(2, 4.0)
    update = by_em(samples=64, floor_x=0.05, floor_y=0.2)
    generator = generator_of(*start(2), update)
    values = [
        generator.refit(lambda u, i: s_UI.float()[u[:, None], i], seed=3, epoch=e).numbers["kl"]
        for e in range(1, 30)
    ]
    assert values[-1] < 0.6 * values[0]
    assert generator.x_UK.min() >= 0.05 / STATES * 0.999
    assert generator.y_IK.min() >= 0.2 / ITEMS * 0.999
    assert_close(generator.x_UK.sum(dim=1), torch.ones(USERS))
    assert_close(generator.y_IK.sum(dim=0), torch.ones(STATES))


def test_a_line_without_a_finite_factor_stays_as_it_was():
    before = torch.tensor([[0.5, 0.5], [0.2, 0.8]])
    factor = torch.tensor([[float("nan"), 1.0], [0.0, 0.0]])
    after = step(before, factor, 0.1, dim=1)
    assert torch.equal(after[0], before[0])
    assert_close(after[1], torch.tensor([0.9 * 0.2 + 0.05, 0.9 * 0.8 + 0.05]))


def two_groups() -> tuple[History, Tensor]:
    """Even contexts have even items, odd ones odd items, all but one of them."""
    liked = [[i for i in range(ITEMS) if i % 2 == c % 2 and i != c] for c in range(USERS)]
    start_U1 = np.concatenate(([0], np.cumsum([len(own) for own in liked])))
    history = History(start_U1, np.concatenate(liked).astype(np.int32))
    positive_UI = torch.zeros(USERS, ITEMS, dtype=torch.float64)
    for c, own in enumerate(liked):
        positive_UI[c, own] = 1
    return history, positive_UI


def pretrained(steps: int, seed: int = 0) -> Decomposable:
    """A generator after nothing but its steps on positives: it has no scores to follow."""
    update = by_em(two_groups()[0], floor_x=1e-6, floor_y=1e-6, pretrain=steps)
    made = Decomposable(USERS, ITEMS, STATES, seed=seed, update=update)
    update._learn_positives(made, two_groups()[0])
    return made


def test_a_step_on_positives_is_the_round_of_latent_classes(monkeypatch):
    monkeypatch.setattr(em, "_PRIOR_X", 0.0)
    monkeypatch.setattr(em, "_PRIOR_Y", 0.0)
    positive_UI = two_groups()[1]
    start, made = pretrained(0), pretrained(1)
    x_UK, y_IK = start.x_UK.double(), start.y_IK.double()
    state_UIK = x_UK[:, None] * y_IK[None]
    state_UIK *= (positive_UI / state_UIK.sum(dim=2))[:, :, None]
    wanted_UK, wanted_IK = state_UIK.sum(dim=1), state_UIK.sum(dim=0)
    wanted_UK, wanted_IK = (
        wanted_UK / wanted_UK.sum(dim=1, keepdim=True),
        wanted_IK / wanted_IK.sum(0),
    )
    assert_close(made.x_UK.double(), wanted_UK, atol=1e-5, rtol=0)
    assert_close(made.y_IK.double(), wanted_IK, atol=1e-5, rtol=0)


@given(st.integers(0, 1000))
def test_steps_on_positives_never_make_them_less_likely(seed):
    positive_UI = two_groups()[1]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(em, "_PRIOR_X", 0.0)
        patch.setattr(em, "_PRIOR_Y", 0.0)
        likely = [
            float((positive_UI * (made.x_UK.double() @ made.y_IK.double().T).log()).sum())
            for made in (pretrained(steps, seed) for steps in range(8))
        ]
    assert np.all(np.diff(likely) > -1e-4)


def test_before_it_follows_scores_the_generator_knows_who_has_what():
    """A flat discriminator says nothing, so after the first update only the positives speak."""
    history, _ = two_groups()
    update = by_em(history, samples=64, pretrain=30)
    made = Decomposable(USERS, ITEMS, STATES, seed=0, update=update)
    share_of_own = []
    for epoch in (1, 2):
        made.refit(lambda users_B, items_BN: torch.zeros(items_BN.shape), seed=0, epoch=epoch)
        q_UI = made.x_UK.double() @ made.y_IK.double().T
        own_UI = torch.arange(USERS)[:, None] % 2 == torch.arange(ITEMS) % 2
        share_of_own.append(float((q_UI * own_UI).sum(dim=1).min()))
    random = Decomposable(USERS, ITEMS, STATES, seed=0, update=Frozen())
    by_chance = float(((random.x_UK @ random.y_IK.T) * own_UI).sum(dim=1).min())
    assert share_of_own[0] > by_chance + 0.1
    # The second update has only the flat scores to follow.
    assert share_of_own[1] < share_of_own[0]


def test_without_steps_on_positives_the_generator_starts_at_random():
    flat = {"score": lambda users_B, items_BN: torch.zeros(items_BN.shape), "seed": 0, "epoch": 1}
    made = [
        Decomposable(USERS, ITEMS, STATES, seed=0, update=by_em(positives, pretrain=0))
        for positives in (None, two_groups()[0])
    ]
    for generator in made:
        generator.refit(**flat)
    assert torch.equal(made[0].x_UK, made[1].x_UK)
    assert torch.equal(made[0].y_IK, made[1].y_IK)


def test_lines_that_are_computed_some_at_a_time_are_those_computed_at_once(monkeypatch):
    random = np.random.default_rng(0)
    before_IK, log_factor_IK = (torch.from_numpy(random.random((40, 7), np.float32)) for _ in "ab")
    for dim in (0, 1):
        at_once = step(before_IK, log_factor_IK, 0.1, dim=dim)
        with monkeypatch.context() as patch:
            patch.setattr(em, "_AT_ONCE", 1)
            assert_close(step(before_IK, log_factor_IK, 0.1, dim=dim), at_once)
