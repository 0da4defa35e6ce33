from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import normalize
from torch.testing import assert_close

from sdgar.maths import sphere as module
from sdgar.maths.sparse import SparseMatrix
from sdgar.maths.sphere import Support

from ..sparse import rows_of

CPU = torch.device("cpu")


def problem(
    seed: int, users: int = 9, items: int = 60, dim: int = 5
) -> tuple[SparseMatrix, torch.Tensor, torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(seed)
    lists = [np.sort(rng.choice(items, rng.integers(1, 8), replace=False)) for _ in range(users)]
    start = np.concatenate(([0], np.cumsum([len(own) for own in lists])))
    known = SparseMatrix.of(start, np.concatenate(lists).astype(np.int32), items, device=CPU)
    unit_ID = normalize(torch.from_numpy(rng.normal(size=(items, dim))).float(), dim=1)
    bias_I = torch.from_numpy(rng.normal(size=items)).float()
    return known, unit_ID, bias_I, torch.from_numpy(rng.integers(0, 50, items))


def sampled(popularity_I: torch.Tensor) -> Support:
    return Support.of(popularity_I.numpy())


def directions(
    known: SparseMatrix, unit_ID: torch.Tensor, bias_I: torch.Tensor, sample: Support, **how: float
) -> torch.Tensor:
    arrays = unit_ID.numpy(), bias_I.numpy()
    return torch.from_numpy(module.directions(rows_of(known), *arrays, sample, **how))


def objective(
    u_D: torch.Tensor,
    own: list[int],
    unit_ID: torch.Tensor,
    bias_I: torch.Tensor,
    tau: float,
    rho: float = 1.0,
) -> torch.Tensor:
    """What the trained model minimises for one context, negated, by enumeration in float64."""
    s_I = unit_ID.double() @ u_D / tau + bias_I.double()
    others = [i for i in range(len(bias_I)) if i not in own]
    return (s_I - bias_I.double())[own].mean() / rho - s_I[others].logsumexp(dim=0)


def slope_along_the_sphere(u_D, own, unit_ID, bias_I, tau, rho) -> torch.Tensor:
    u_D = u_D.double().clone().requires_grad_()
    (slope_D,) = torch.autograd.grad(objective(u_D, own, unit_ID, bias_I, tau, rho), u_D)
    return tau * (slope_D - (slope_D @ u_D) * u_D).detach()


@pytest.mark.parametrize(("seed", "tau", "rho"), [(0, 0.1, 1.0), (1, 0.3, 1.0), (2, 0.2, 1.3)])
def test_enough_steps_end_where_the_objective_is_flat(seed, tau, rho, monkeypatch):
    monkeypatch.setattr(module, "LOOKS", 300)
    known, unit_ID, bias_I, popularity_I = problem(seed)
    u_BD = directions(known, unit_ID, bias_I, sampled(popularity_I), tau=tau, rho=rho)
    for user, u_D in enumerate(u_BD):
        own = known.rows(torch.tensor([user])).column_E.tolist()
        slope_D = slope_along_the_sphere(u_D, own, unit_ID, bias_I, tau, rho)
        assert slope_D.norm() < 2e-3


@settings(max_examples=20)
@given(st.integers(0, 1000), st.sampled_from([0.1, 0.2, 0.5]))
def test_a_few_looks_never_lose_and_get_half_of_the_way_or_more(seed, tau):
    known, unit_ID, bias_I, popularity_I = problem(seed)
    u_BD = directions(known, unit_ID, bias_I, sampled(popularity_I), tau=tau)
    assert_close(u_BD.norm(dim=1), torch.ones(len(u_BD)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "LOOKS", 100)
        best_BD = directions(known, unit_ID, bias_I, sampled(popularity_I), tau=tau)
    total = torch.zeros(3, dtype=torch.float64)
    for user in range(len(u_BD)):
        own = known.rows(torch.tensor([user])).column_E.tolist()
        mean_D = normalize(unit_ID[own].mean(dim=0), dim=0)
        total += torch.stack(
            [
                objective(u_D.double(), own, unit_ID, bias_I, tau)
                for u_D in (mean_D, u_BD[user], best_BD[user])
            ]
        )
    start, reached, best = total.tolist()
    assert best >= reached - 1e-4
    assert reached - start >= 0.5 * (best - start) - 1e-4


def test_a_context_gets_the_same_with_any_other_contexts(monkeypatch):
    known, unit_ID, bias_I, popularity_I = problem(1)
    whole_BD = directions(known, unit_ID, bias_I, sampled(popularity_I), tau=0.2)
    monkeypatch.setattr(module, "_BLOCK", 2)
    assert_close(directions(known, unit_ID, bias_I, sampled(popularity_I), tau=0.2), whole_BD)


def test_a_sample_of_the_catalogue_stands_for_all_of_it(monkeypatch):
    known, unit_ID, bias_I, popularity_I = problem(2, users=40, items=3000)
    sampled_BD = directions(known, unit_ID, bias_I, sampled(popularity_I), tau=0.2)
    monkeypatch.setattr(module, "_SUPPORT", 3000)
    exact_BD = directions(known, unit_ID, bias_I, sampled(popularity_I), tau=0.2)
    assert ((sampled_BD * exact_BD).sum(dim=1) > 0.98).all()
    assert not torch.equal(sampled_BD, exact_BD)


@given(st.lists(st.integers(0, 10_000), min_size=1, max_size=300))
def test_what_stands_for_the_catalogue_is_weighed_without_bias(counts):
    popularity_I = torch.tensor(counts)
    share_I = (popularity_I + 1) / (popularity_I + 1).sum()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_SUPPORT", 64)
        found = sampled(popularity_I)
    item_S, log_weight_S = torch.from_numpy(found.item_S), torch.from_numpy(found.log_weight_S)
    assert found.place_I[found.item_S].tolist() == list(range(len(item_S)))
    assert len(set(item_S.tolist())) == len(item_S)
    if len(counts) <= 64:
        assert item_S.tolist() == list(range(len(counts)))
        assert log_weight_S.tolist() == [0.0] * len(counts)
    else:
        # An item is met as often as it should be, to within one time.
        met_S = log_weight_S.exp() * 64 * share_I[item_S]
        assert_close(met_S, met_S.round(), rtol=0, atol=1e-3)
        assert ((met_S - 64 * share_I[item_S]).abs() < 1 + 1e-3).all()
        assert met_S.sum().item() == pytest.approx(64, abs=1e-2)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1000), st.sampled_from([0.1, 0.3]), st.sampled_from([57, 58, 59, 60]))
def test_one_context_after_the_other_climbs_as_all_at_a_time(seed, tau, items):
    known, unit_ID, bias_I, popularity_I = problem(seed, items=items, dim=7)
    ask = (known, unit_ID, bias_I, sampled(popularity_I))
    each_BD = directions(*ask, tau=tau, rho=1.2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_FEW", 0)
        together_BD = directions(*ask, tau=tau, rho=1.2)
    assert_close(each_BD, together_BD, rtol=1e-4, atol=1e-4)


def test_a_context_gets_the_same_bytes_in_any_company():
    known, unit_ID, bias_I, popularity_I = problem(5)
    stand_in = sampled(popularity_I)
    all_BD = directions(known, unit_ID, bias_I, stand_in, tau=0.2)
    for row in range(known.n_rows):
        alone = known.rows(torch.tensor([row]))
        assert torch.equal(directions(alone, unit_ID, bias_I, stand_in, tau=0.2)[0], all_BD[row])


@pytest.mark.parametrize("few", [0, 64])
def test_who_has_every_item_gets_their_mean(few, monkeypatch):
    monkeypatch.setattr(module, "_FEW", few)
    _, unit_ID, bias_I, popularity_I = problem(6, items=12)
    known = SparseMatrix.of(np.array([0, 12]), np.arange(12, dtype=np.int32), 12, device=CPU)
    u_BD = directions(known, unit_ID, bias_I, sampled(popularity_I), tau=0.2)
    assert_close(u_BD[0], normalize(unit_ID.mean(dim=0), dim=0))
