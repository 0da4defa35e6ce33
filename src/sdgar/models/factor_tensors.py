"""Vectors and biases in training: tensors that an engine changes from step to step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from torch import Tensor

if TYPE_CHECKING:
    from sdgar.models.factors import Factors
    from sdgar.models.model import Indices, Model
    from sdgar.models.network import Encoder
    from sdgar.models.scorers import AnyScorer

ENCODER = "encoder."
"""The prefix of the names of a network's tensors among the tensors of the model."""


@dataclass(frozen=True, slots=True)
class FactorTensors:
    """s_ui = u_u · v_i + b_i, with what a model for new contexts needs in addition."""

    user_UD: Tensor
    """The vectors u of contexts."""
    item_ID: Tensor
    """The vectors v of items."""
    bias_I: Tensor
    """The biases b of items."""
    field_VD: Tensor | None = None
    """The vectors e of all values of all fields, if a context is a sum of fields."""
    scale: Tensor | None = None
    """The length (1,) that the sum of fields is brought to; 0 leaves the sum as it is."""
    encoder: Encoder | None = None
    """The network that finds the vectors of contexts, if there is one."""

    @property
    def n_items(self) -> int:
        """The number of items in the catalogue."""
        return self.item_ID.shape[0]

    @property
    def device(self) -> torch.device:
        """The device of the tensors."""
        return self.item_ID.device

    def score(self, users_B: Tensor, items_BN: Tensor) -> Tensor:
        """s_BN = u · v + b of N items for each context."""
        s_BN1 = torch.bmm(self.item_ID[items_BN], self.user_UD[users_B][:, :, None])
        return s_BN1[:, :, 0] + self.bias_I[items_BN]

    def score_all(self, users_B: Tensor) -> Tensor:
        """s_BI = U_B V' + b."""
        return torch.addmm(self.bias_I, self.user_UD[users_B], self.item_ID.T)

    def followed_by(self, place_XF: Indices) -> Model | None:
        """Return the model with contexts that are new, on the CPU; None without fields."""
        return self.model().followed_by(place_XF)

    def tensors(self) -> dict[str, Tensor]:
        """Return everything that was learned, by name."""
        names = ("user_UD", "item_ID", "bias_I", "field_VD", "scale")
        own = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        network = {} if self.encoder is None else self.encoder.tensors()
        return own | {ENCODER + name: tensor for name, tensor in network.items()}

    def with_tensors(self, named: Mapping[str, Tensor]) -> Self:
        """Return the same model with tensors that ``tensors`` returned before."""
        own: dict[str, Any] = {n: t for n, t in named.items() if not n.startswith(ENCODER)}
        if self.encoder is not None:
            rest = {name.removeprefix(ENCODER): named[name] for name in named.keys() - own.keys()}
            own["encoder"] = self.encoder.with_tensors(rest)
        return replace(self, **own)

    def copied(self) -> Self:
        """Return the model as it is now, in new tensors."""
        return self.with_tensors({name: t.clone() for name, t in self.tensors().items()})

    def model(self) -> Factors:
        """Return the model in arrays of NumPy; on the CPU they share memory with the tensors."""
        from sdgar.models.factors import Factors, FieldFactors  # training needs tensors alone

        tables = _array(self.user_UD), _array(self.item_ID), _array(self.bias_I)
        if self.encoder is not None:
            from sdgar.models.network import EncodedFactors

            return EncodedFactors(*tables, encoder=self.encoder)
        if self.field_VD is not None and self.scale is not None:
            return FieldFactors(*tables, field_VD=_array(self.field_VD), scale=_array(self.scale))
        return Factors(*tables)

    def scorer(self) -> AnyScorer:
        """Return what ranks fastest where the tensors are: arrays on the CPU, tensors on a GPU."""
        return self.model() if self.device.type == "cpu" else self


def _array(tensor: Tensor) -> np.ndarray[Any, np.dtype[np.float32]]:
    array: np.ndarray[Any, np.dtype[np.float32]] = tensor.detach().cpu().numpy()
    return array
