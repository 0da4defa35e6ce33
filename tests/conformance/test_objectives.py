"""What every objective owes: one loss a row, from that row alone, with the right gradient."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch.autograd import gradcheck
from torch.testing import assert_close

from sdgar.contracts import Negatives
from sdgar.errors import UsageError
from sdgar.objectives import (
    CmlHinge,
    Logistic,
    PairwiseLogistic,
    SampledSoftmax,
    WarpHinge,
    WeightedLogistic,
)

OBJECTIVES = {
    "pairwise logistic": PairwiseLogistic(),
    "logistic": Logistic(),
    "weighted logistic": WeightedLogistic(0.5),
    "weighted logistic, cold": WeightedLogistic(0.05),
    "weighted logistic, hot": WeightedLogistic(20.0),
    "weighted logistic, weights held": WeightedLogistic(0.5, hold_weights=True),
    "sampled softmax": SampledSoftmax(),
    "sampled softmax, positives at another temperature": SampledSoftmax(1.3),
    "rank hinge by tries": WarpHinge(1.0, 1000),
    "rank hinge by impostors": CmlHinge(0.5, 1000),
}
HELD = {"weighted logistic, weights held"}
"""Their gradient is by intention not the derivative of their value."""
WEIGHTED = sorted(name for name in OBJECTIVES if name.startswith("weighted"))


@pytest.fixture(params=sorted(OBJECTIVES))
def objective(request):
    return OBJECTIVES[request.param]


@pytest.fixture
def batch():
    generator = torch.Generator().manual_seed(0)
    pos_B = torch.randn(9, generator=generator, dtype=torch.float64)
    neg_BN = torch.randn(9, 4, generator=generator, dtype=torch.float64)
    accepted_BN = torch.rand(9, 4, generator=generator) < 0.8
    accepted_BN[3] = False
    log_q_BN = torch.randn(9, 4, generator=generator, dtype=torch.float64)
    tries_B = torch.tensor([1, 2, 3, 4, 7, 30, 333, 999, 1000])
    return pos_B, neg_BN, Negatives(torch.zeros(9, 4).long(), accepted_BN, log_q_BN, tries_B)


def test_the_needs_that_an_objective_states_are_true(objective, batch):
    pos_B, neg_BN, negatives = batch
    for name, need, cure in (
        ("log_q_BN", "needs_log_q", "importance weights need log Q"),
        ("tries_B", "needs_tries", "WARP needs the number of tries"),
    ):
        without = replace(negatives, **{name: None})
        if getattr(objective, need, False):
            with pytest.raises(UsageError, match=cure):
                objective(pos_B, neg_BN, without)
        else:
            assert torch.equal(
                objective(pos_B, neg_BN, without), objective(pos_B, neg_BN, negatives)
            )


def test_a_row_of_the_loss_depends_on_that_row_only(objective, batch):
    pos_B, neg_BN, negatives = batch
    whole_B = objective(pos_B, neg_BN, negatives)
    assert whole_B.shape == pos_B.shape
    for b in range(len(pos_B)):
        one = slice(b, b + 1)
        assert_close(objective(pos_B[one], neg_BN[one], negatives.rows(one)), whole_B[one])


def test_a_rejected_negative_has_no_weight(objective, batch):
    pos_B, neg_BN, negatives = batch
    changed_BN = torch.where(negatives.accepted_BN, neg_BN, neg_BN + 100)
    assert_close(objective(pos_B, changed_BN, negatives), objective(pos_B, neg_BN, negatives))


@pytest.mark.parametrize("name", sorted(OBJECTIVES.keys() - HELD))
def test_the_gradient_is_the_derivative_of_the_loss(name, batch):
    objective = OBJECTIVES[name]
    pos_B, neg_BN, negatives = batch
    pos_B.requires_grad_()
    neg_BN.requires_grad_()
    assert gradcheck(lambda p, n: objective(p, n, negatives), (pos_B, neg_BN))


def test_a_rejected_negative_gets_no_gradient(objective, batch):
    pos_B, neg_BN, negatives = batch
    neg_BN.requires_grad_()
    objective(pos_B, neg_BN, negatives).sum().backward()
    assert (neg_BN.grad[~negatives.accepted_BN] == 0).all()
    assert (neg_BN.grad[negatives.accepted_BN] != 0).any()


def test_effective_negatives_lie_between_one_and_those_accepted(objective, batch):
    _, neg_BN, negatives = batch
    effective_B = objective.effective(neg_BN, negatives)
    if effective_B is None:
        pytest.skip("this objective has no weights")
    accepted_B = negatives.accepted_BN.sum(dim=1)
    assert (effective_B <= accepted_B + 1e-9).all()
    assert (effective_B >= accepted_B.clamp(max=1) - 1e-9).all()


@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e4])
def test_extreme_scores_stay_finite(objective, batch, scale):
    pos_B, neg_BN, negatives = batch
    pos_B = (pos_B.float() * scale).requires_grad_()
    neg_BN = (neg_BN.float() * scale).requires_grad_()
    loss_B = objective(pos_B, neg_BN, negatives)
    loss_B.sum().backward()
    assert torch.isfinite(loss_B).all()
    assert torch.isfinite(pos_B.grad).all()
    assert torch.isfinite(neg_BN.grad).all()


def test_pairwise_logistic_is_the_mean_of_log_one_plus_exp():
    pos_B, neg_BN = torch.tensor([1.0]), torch.tensor([[0.5, 2.0]])
    accepted_BN = torch.ones(1, 2, dtype=torch.bool)
    loss_B = PairwiseLogistic()(pos_B, neg_BN, Negatives(torch.zeros(1, 2).long(), accepted_BN))
    expected = (torch.log1p(torch.exp(torch.tensor([-0.5, 1.0])))).mean()
    assert_close(loss_B[0], expected)


@pytest.mark.parametrize(
    "name", ["pairwise logistic", "rank hinge by tries", "rank hinge by impostors"]
)
def test_a_row_without_any_negative_costs_nothing(name, batch):
    pos_B, neg_BN, negatives = batch
    assert OBJECTIVES[name](pos_B, neg_BN, negatives)[3] == 0


@pytest.mark.parametrize("name", ["logistic", *WEIGHTED])
def test_a_logistic_row_without_any_negative_costs_what_its_positive_costs(name, batch):
    pos_B, neg_BN, negatives = batch
    loss_B = OBJECTIVES[name](pos_B, neg_BN, negatives)
    assert_close(loss_B[3], 0.5 * torch.nn.functional.softplus(-pos_B[3]))


@pytest.mark.parametrize("name", WEIGHTED)
def test_weights_sum_to_one_over_the_accepted_negatives(name, batch):
    _, neg_BN, negatives = batch
    weight_BN = OBJECTIVES[name].weights(neg_BN, negatives)
    assert (weight_BN[~negatives.accepted_BN] == 0).all()
    answered_B = negatives.accepted_BN.any(dim=1)
    assert_close(weight_BN.sum(dim=1), answered_B.double())


def test_equal_weights_are_worth_all_their_negatives():
    even = Negatives(torch.zeros(1, 4).long(), torch.ones(1, 4).bool(), torch.zeros(1, 4))
    assert_close(WeightedLogistic(0.5).effective(torch.zeros(1, 4), even), torch.tensor([4.0]))


def test_logistic_is_half_the_positive_and_half_the_mean_of_the_negatives():
    pos_B, neg_BN = torch.tensor([1.0]), torch.tensor([[0.5, 2.0, 9.0]])
    accepted_BN = torch.tensor([[True, True, False]])
    loss_B = Logistic()(pos_B, neg_BN, Negatives(torch.zeros(1, 3).long(), accepted_BN))
    cost = torch.log1p(torch.exp(torch.tensor([-1.0, 0.5, 2.0])))
    assert_close(loss_B[0], 0.5 * (cost[0] + (cost[1] + cost[2]) / 2))


def test_logistic_is_the_weighted_one_with_even_proposals_and_no_end_of_heat(batch):
    pos_B, neg_BN, negatives = batch
    even = Negatives(negatives.items_BN, negatives.accepted_BN, torch.zeros_like(neg_BN))
    # Weights differ by f / T: at T = 1e9, by less than 1e-8.
    assert_close(
        WeightedLogistic(1e9)(pos_B, neg_BN, even),
        Logistic()(pos_B, neg_BN, even),
        rtol=1e-7,
        atol=0,
    )


def test_the_hinge_by_tries_is_the_scalar_formula(batch):
    pos_B, neg_BN, negatives = batch
    first = slice(0, 1)
    one = Negatives(
        negatives.items_BN[:, first], negatives.accepted_BN[:, first], tries_B=negatives.tries_B
    )
    loss_B = WarpHinge(1.0, 1000)(pos_B, neg_BN[:, first], one)
    for b, tries in enumerate(negatives.tries_B.tolist()):
        hinge = max(0.0, 1.0 + neg_BN[b, 0].item() - pos_B[b].item())
        expected = math.log(max(1, 999 // tries)) * hinge if one.accepted_BN[b, 0] else 0.0
        assert loss_B[b].item() == pytest.approx(expected, rel=1e-12)
    assert (loss_B > 0).sum() >= 4


def test_the_hinge_by_impostors_is_the_scalar_formula(batch):
    pos_B, neg_BN, negatives = batch
    for margin, n_items in ((0.5, 1000), (2.0, 7), (0.0, 3)):
        loss_B = CmlHinge(margin, n_items)(pos_B, neg_BN, negatives)
        for b in range(9):
            kept = neg_BN[b][negatives.accepted_BN[b]].tolist()
            gaps = [margin + s - pos_B[b].item() for s in kept]
            rank = n_items * sum(gap > 0 for gap in gaps) // max(1, len(gaps))
            expected = math.log(rank + 1) * max([0.0, *gaps])
            assert loss_B[b].item() == pytest.approx(expected, rel=1e-12)


def test_only_the_hardest_impostor_gets_a_gradient(batch):
    pos_B, neg_BN, negatives = batch
    neg_BN.requires_grad_()
    loss_B = CmlHinge(0.5, 1000)(pos_B, neg_BN, negatives)
    loss_B.sum().backward()
    hardest_B = torch.where(negatives.accepted_BN, neg_BN, -torch.inf).argmax(dim=1)
    for b in range(9):
        expected = [hardest_B[b].item()] if loss_B[b] > 0 else []
        assert neg_BN.grad[b].nonzero().ravel().tolist() == expected


def test_sampled_softmax_is_the_softmax_when_every_other_item_is_drawn_once():
    """-log p of the positive over the others: the loss, up to log M, and its gradient."""
    s_I = torch.randn(12, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    s_I.requires_grad_()
    drawn = Negatives(
        torch.arange(1, 12)[None],
        torch.ones(1, 11, dtype=torch.bool),
        torch.full((1, 11), -math.log(11), dtype=torch.float64),
    )
    loss = SampledSoftmax()(s_I[:1], s_I[None, 1:], drawn)[0]
    expected = -s_I[0] + s_I[1:].logsumexp(dim=0)
    assert_close(loss, expected)
    (grad_I,) = torch.autograd.grad(loss, s_I)
    assert_close(grad_I, torch.cat((-torch.ones(1).double(), s_I[1:].detach().softmax(dim=0))))


def test_a_temperature_of_positives_divides_their_scores_only(batch):
    pos_B, neg_BN, negatives = batch
    shifted_B = SampledSoftmax(2.0)(pos_B, neg_BN, negatives)
    plain_B = SampledSoftmax()(pos_B, neg_BN, negatives)
    answered_B = negatives.accepted_BN.any(dim=1)
    assert_close(shifted_B, torch.where(answered_B, plain_B + pos_B / 2, 0.0))
    for rho in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(UsageError, match="rho must be a positive number"):
            SampledSoftmax(rho)


def test_sampled_softmax_does_not_depend_on_who_proposes():
    """Draws from any Q estimate the same sum: here over many draws, from a skewed Q."""
    rng = torch.Generator().manual_seed(2)
    s_I = torch.randn(20, generator=rng, dtype=torch.float64)
    q_I = torch.rand(20, generator=rng, dtype=torch.float64) ** 2 + 0.01
    q_I /= q_I.sum()
    items_1N = torch.multinomial(q_I, 400_000, replacement=True, generator=rng)[None]
    drawn = Negatives(items_1N, torch.ones_like(items_1N, dtype=torch.bool), q_I[items_1N].log())
    pos_1 = torch.zeros(1, dtype=torch.float64)
    assert_close(
        SampledSoftmax()(pos_1, s_I[items_1N], drawn)[0], s_I.logsumexp(dim=0), rtol=0, atol=0.01
    )
