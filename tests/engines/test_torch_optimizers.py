"""The row-wise optimisers against torch's own, and against plain NumPy."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from sdgar.engines.eager import torch_optimizer
from sdgar.maths import optimizers

ROW_WISE = {
    "lazy adam": optimizers.LazyAdam(0.05, beta1=0.8, beta2=0.95, epsilon=1e-3),
    "adagrad": optimizers.RowAdagrad(0.3, epsilon=1e-3),
}


def tables() -> list[nn.Parameter]:
    """A table of rows and one of numbers, as the discriminator has them."""
    generator = torch.Generator().manual_seed(0)
    return [nn.Parameter(torch.randn(*shape, generator=generator)) for shape in ((6, 4), (6,))]


def gradients(step: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(100 + step)
    return [torch.randn(*shape, generator=generator) for shape in ((6, 4), (6,))]


def sparse(gradient: Tensor, rows: list[int]) -> Tensor:
    """Names some rows, one of them twice with half of its gradient each."""
    twice = torch.tensor([*rows, rows[0]])
    value = gradient[twice].clone()
    value[0] /= 2
    value[-1] /= 2
    return torch.sparse_coo_tensor(twice[None], value, gradient.shape, check_invariants=True)


def take(record, steps: list[list[int] | None]) -> tuple[list[nn.Parameter], object]:
    """One step for each entry: a dense gradient for None, else one of these rows."""
    parameters = tables()
    optimizer = torch_optimizer(record, parameters)
    for step, rows in enumerate(steps):
        for parameter, gradient in zip(parameters, gradients(step), strict=True):
            parameter.grad = gradient if rows is None else sparse(gradient, rows)
        optimizer.step()
    return parameters, optimizer


def test_lazy_adam_is_adam_where_every_row_is_touched():
    record = ROW_WISE["lazy adam"]
    everyone = [5, 0, 1, 2, 3, 4]
    dense = optimizers.Adam(0.05, beta1=0.8, beta2=0.95, epsilon=1e-3)
    expected, _ = take(dense, [None] * 8)
    for found in (take(record, [everyone] * 8)[0], take(record, [None] * 8)[0]):
        for mine, theirs in zip(found, expected, strict=True):
            assert_close(mine, theirs, rtol=1e-5, atol=1e-6)


def adagrad_row(g, t, state):
    """The step of a row by its gradient, and the row's one number."""
    state["sum"] = state.get("sum", 0.0) + (g**2).mean()
    return 0.3 * g / (np.sqrt(state["sum"]) + 1e-3)


def adam_row(g, t, state):
    """The step of a row by its gradient, and the row's moments."""
    state["exp_avg"] = 0.8 * state.get("exp_avg", 0.0) + 0.2 * g
    state["exp_avg_sq"] = 0.95 * state.get("exp_avg_sq", 0.0) + 0.05 * g**2
    spread = np.sqrt(state["exp_avg_sq"] / (1 - 0.95**t)) + 1e-3
    return 0.05 * state["exp_avg"] / (1 - 0.8**t) / spread


@pytest.mark.parametrize(("name", "step_of"), [("adagrad", adagrad_row), ("lazy adam", adam_row)])
def test_rows_are_stepped_as_in_plain_numpy_when_they_are_touched(name, step_of):
    """Row Adagrad divides by the root of the mean squares of a row; Adam counts all steps."""
    steps = [None, [0, 2], [2, 5, 1], [2, 0]]
    found, optimizer = take(ROW_WISE[name], steps)
    for i, parameter in enumerate(tables()):
        theta = parameter.detach().double().numpy().reshape(6, -1)
        states = [{} for _ in range(6)]
        for t, rows in enumerate(steps, start=1):
            g = gradients(t - 1)[i].double().numpy().reshape(6, -1)
            for r in range(6) if rows is None else rows:
                theta[r] -= step_of(g[r], t, states[r])
        np.testing.assert_allclose(found[i].detach().reshape(6, -1), theta, rtol=1e-5, atol=1e-6)
        kept = optimizer.state[found[i]]
        for key in states[0]:
            exact = np.array([state[key] for state in states]).reshape(kept[key].shape)
            np.testing.assert_allclose(kept[key], exact, rtol=1e-5, atol=1e-7)
        assert int(kept.get("step", len(steps))) == len(steps)


@pytest.mark.parametrize(
    ("kind", "how"),
    [
        (torch.optim.Adam, {"fused": True}),
        (torch.optim.Adam, {}),
        (torch.optim.NAdam, {}),
        (torch.optim.SGD, {}),
    ],
)
def test_torch_takes_the_same_steps_without_its_compiler(kind, how, monkeypatch):
    """Outside of what torch compiles, its compiler does nothing to an optimiser."""
    nothing = SimpleNamespace(graph_break=lambda: None, disable=lambda function, *_, **__: function)
    found = []
    for made, compiler in ((kind, nothing), (optimizers.lean(kind), None)):
        monkeypatch.setitem(sys.modules, "torch._dynamo", compiler)
        monkeypatch.setattr(torch, "_dynamo", compiler, raising=False)
        parameters = tables()
        halves = [made(parameters, lr=0.05, **how) for _ in range(2)]
        for step in range(6):
            optimizer = halves[step // 3]
            if step == 3:  # another one continues from what was kept
                optimizer.load_state_dict(halves[0].state_dict())
            optimizer.zero_grad()
            for parameter, gradient in zip(parameters, gradients(step), strict=True):
                parameter.grad = gradient
            optimizer.step()
        found.append([*parameters, *optimizers.moments(halves[1]).values()])
    assert len(found[0]) == len(found[1])
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))


def test_a_rate_stays_or_falls_evenly_over_the_horizon_and_never_to_nothing():
    assert optimizers.SGD(0.4).rate(1) == optimizers.SGD(0.4).rate(99) == 0.4
    falling = optimizers.SGD(0.4, horizon=4)
    assert [falling.rate(epoch) for epoch in (1, 2, 3, 4)] == pytest.approx(
        [0.35, 0.25, 0.15, 0.05]
    )
    assert falling.rate(5) == falling.rate(75) == falling.rate(4)
