"""Inner products for contexts of several fields, such as (user, daypart)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from sdgar.models.factors import Factors

if TYPE_CHECKING:
    from typing import Self

    from sdgar.models.saved import Wanted


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldFactors(Factors):
    """u_c = Σ_f e_f(c), or that sum brought to a fixed length, with a vector e of each value.

    Contexts that training has seen stand in ``user_UD``; others are made up of their fields.
    """

    kind: ClassVar[str] = "factors of fields"
    size_names: ClassVar[tuple[str, ...]] = ("dim", "values")

    field_VD: Tensor
    """The vectors e of all values of all fields, numbered through."""
    scale: Tensor
    """The length (1,) that the sum is brought to; 0 leaves the sum as it is."""

    @property
    def n_values(self) -> int | None:
        """Number of values of all fields of contexts."""
        return len(self.field_VD)

    def contexts(self, place_XF: Tensor) -> Tensor:
        """u_XD of contexts with these values of their fields, whether they were seen or not."""
        sum_XD = self.field_VD[place_XF.to(self.device)].sum(dim=1)
        return self.scale * normalize(sum_XD, dim=1) if self.scale else sum_XD

    def only(self, at_T: Tensor, place_TF: Tensor | None = None) -> Self:
        """Give the model with these contexts alone, those with the number -1 by their fields."""
        user_TD = self.user_UD[at_T.to(self.device)]
        new_T = torch.nonzero(at_T < 0)[:, 0]
        if len(new_T):
            assert place_TF is not None
            user_TD[new_T] = self.contexts(place_TF[new_T])
        return replace(self, user_UD=user_TD)

    def followed_by(self, place_XF: Tensor) -> Self:
        """Give the model with more contexts behind its own, made up of their fields."""
        return replace(self, user_UD=torch.cat((self.user_UD, self.contexts(place_XF))))

    def tensors(self) -> dict[str, Tensor]:
        """Give everything that was learned, by name."""
        own = {"field_VD": self.field_VD, "scale": self.scale}
        return Factors.tensors(self) | own

    def sizes(self) -> dict[str, int]:
        """Give the sizes of ``size_names``."""
        return Factors.sizes(self) | {"values": len(self.field_VD)}

    @classmethod
    def wanted(cls, sizes: Mapping[str, int]) -> Wanted:
        """Say which arrays a saved model of these sizes holds."""
        return {
            **Factors.wanted(sizes),
            "field_VD": (np.float32, (sizes["values"], sizes["dim"])),
            "scale": (np.float32, (1,)),
        }
