"""The torch optimisers of the eager engine, made from the records of optimisers.

A sparse gradient names the rows a batch touched; row-wise optimisers move those alone. torch's own
SparseAdam would do for lazy Adam, but puts ε elsewhere than its dense Adam, and with gradients
that are means over thousands of rows ε is not small.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter

from sdgar.maths import optimizers


def torch_optimizer(
    record: optimizers.Optimizer, parameters: list[Parameter]
) -> torch.optim.Optimizer:
    """Return the torch optimiser that takes the steps that the record describes."""
    match record:
        case optimizers.LazyAdam():
            return LazyAdam(parameters, record)
        case optimizers.RowAdagrad():
            return RowAdagrad(parameters, record)
        case optimizers.Adam(learning_rate=rate, beta1=beta1, beta2=beta2, epsilon=epsilon):
            return optimizers.lean(torch.optim.Adam)(
                parameters, lr=rate, betas=(beta1, beta2), eps=epsilon, fused=True
            )
        case optimizers.SGD(learning_rate=rate):
            return optimizers.lean(torch.optim.SGD)(parameters, lr=rate)
    msg = f"no torch optimiser for {record}"
    raise AssertionError(msg)


@optimizers.lean
class _RowWise(torch.optim.Optimizer):
    """An optimiser that moves the rows a sparse gradient names, and all rows by a dense one."""

    def __init__(self, parameters: list[Parameter], rate: float) -> None:
        super().__init__(parameters, {"lr": rate})

    def _move(self, parameter: Parameter, rows_R: Tensor, grad: Tensor, rate: float) -> None:
        raise NotImplementedError

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Take one step of every parameter that has a gradient."""
        for group in self.param_groups:
            for parameter in group["params"]:
                grad = parameter.grad
                if grad is None:
                    continue
                if grad.is_sparse:
                    grad = grad.coalesce()
                    rows_R, grad = grad.indices()[0], grad.values()
                else:
                    rows_R = torch.arange(len(grad), device=grad.device)
                self._move(parameter, rows_R, grad, group["lr"])


class LazyAdam(_RowWise):
    """The optimiser that the record ``optimizers.LazyAdam`` describes."""

    def __init__(self, parameters: list[Parameter], record: optimizers.LazyAdam) -> None:
        super().__init__(parameters, record.learning_rate)
        self._record = record
        for parameter in parameters:
            self.state[parameter] = {
                "step": torch.zeros((), dtype=torch.int64),
                "exp_avg": torch.zeros_like(parameter),
                "exp_avg_sq": torch.zeros_like(parameter),
            }

    def _move(self, parameter: Parameter, rows_R: Tensor, grad: Tensor, rate: float) -> None:
        beta1, beta2 = self._record.beta1, self._record.beta2
        state: dict[str, Any] = self.state[parameter]
        state["step"] += 1
        t = int(state["step"])
        m = beta1 * state["exp_avg"][rows_R] + (1 - beta1) * grad
        v = beta2 * state["exp_avg_sq"][rows_R] + (1 - beta2) * grad.square()
        state["exp_avg"][rows_R], state["exp_avg_sq"][rows_R] = m, v
        spread = (v / (1 - beta2**t)).sqrt() + self._record.epsilon
        parameter[rows_R] -= rate / (1 - beta1**t) * m / spread


class RowAdagrad(_RowWise):
    """The optimiser that the record ``optimizers.RowAdagrad`` describes."""

    def __init__(self, parameters: list[Parameter], record: optimizers.RowAdagrad) -> None:
        super().__init__(parameters, record.learning_rate)
        self._record = record
        for parameter in parameters:
            self.state[parameter] = {"sum": parameter.new_zeros(len(parameter))}

    def _move(self, parameter: Parameter, rows_R: Tensor, grad: Tensor, rate: float) -> None:
        sum_R = self.state[parameter]["sum"]
        sum_R[rows_R] += grad.square().reshape(len(grad), -1).mean(dim=1)
        spread_R = sum_R[rows_R].sqrt() + self._record.epsilon
        spread = spread_R.reshape(-1, *(1,) * (grad.ndim - 1))
        parameter[rows_R] -= rate * grad / spread
