"""What the scores of most models are made of: vectors, and a memory of the history beside them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sdgar.models.factors import Factors
from sdgar.models.item_weights import LocalItemWeights
from sdgar.models.model import Scorer
from sdgar.models.sum import Sum


class Parts(NamedTuple):
    """s_ci = u_c · v_i + b_i + γ Σ_{j ∈ I_c} w_ji."""

    factors: Factors
    """The vectors u and v, and the biases b."""
    memory: LocalItemWeights | None
    """The histories I and the weights w from item to item; None if there are none."""
    weight: float
    """The weight γ of the memory."""

    @classmethod
    def of(cls, model: Scorer) -> Parts | None:
        """Give the parts of a model on the CPU; None if it is made of anything else."""
        first, second, weight = model, None, 0.0
        if type(model) is Sum:
            if type(model.second) is not LocalItemWeights:
                return None
            first, second, weight = model.first, model.second, model.weight
        if type(first) is not Factors or first.device.type != "cpu":
            return None
        return cls(first, second, weight) if first.item_ID.shape[1] else None

    @property
    def is_float32(self) -> bool:
        """Whether all numbers are of the type that kernels compute with."""
        tensors = [*self.factors.tensors().values()]
        if self.memory is not None:
            tensors.append(self.memory.weight_II.weights())
        return all(tensor.dtype == torch.float32 for tensor in tensors)

    def memory_of(self, users_B: NDArray[np.int64]) -> tuple[Any, ...]:
        """Give what kernels add the memory by: the histories of some contexts, w, and γ.

        These are the first and the last entry of each history and the items of all, then the
        weights by rows, and the weight of all of it.
        """
        if self.memory is None:
            none_B, no_items = np.zeros(len(users_B), np.int64), np.zeros(0, np.int64)
            weights = np.zeros(1, np.int64), no_items, np.zeros(0, np.float32)
            return none_B, none_B, no_items, *weights, np.float32(0)
        x, w = self.memory.history, self.memory.weight_II
        start_U1 = as_array(x.start_R1)
        weights = as_array(w.start_R1), as_array(w.column_E), as_array(w.weights())
        spans = start_U1[users_B], start_U1[users_B + 1], as_array(x.column_E)
        return *spans, *weights, np.float32(self.weight)


def as_array(tensor: Tensor) -> NDArray[Any]:
    """Give a tensor of the CPU as an array; of the same memory, if it lies there in one piece."""
    array: NDArray[Any] = tensor.detach().contiguous().numpy()
    return array
