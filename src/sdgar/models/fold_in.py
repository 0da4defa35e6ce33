"""How a model takes in contexts that are new to it, from their histories alone.

Items stay as they are; ``items`` is the mirror of it, for new items of contexts that stay. A model
carries a rule, which is a record of a few numbers and is saved with the model as
``{"rule": name, …}``:

    sphere           û of the softmax objective of cosines, for the items as they are
    least squares    u of half a sweep of alternating least squares
    no vector        there is nothing to find: everyone gets the same scores
    history          the history itself is all that the model looks at
    network          the network of the model finds the vector
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sdgar.data.history import History
from sdgar.errors import UsageError
from sdgar.maths.least_squares import HalfSweep
from sdgar.maths.sparse import SparseMatrix
from sdgar.maths.sphere import Contexts, Support, directions
from sdgar.models.saved import expect
from sdgar.storage.folders import DamagedError, Tensors

if TYPE_CHECKING:
    from typing import Self

    from sdgar.models.factors import Factors

POPULARITY = "popularity_I"
"""The name of the popularity of items in training, where a saved model holds it."""
GREATEST = 1e12
"""More than any setting of a model that was trained."""


@dataclass(frozen=True, slots=True)
class NewContexts:
    """The histories of contexts that are new to a model; none of them is empty."""

    history: History
    """The items of each context, ascending."""
    in_order_E: NDArray[np.int64] | None = None
    """The same items, those of a context in the order in which they came; None if unknown."""

    def rows(self, contexts_T: NDArray[np.int64]) -> NewContexts:
        """Give some of the contexts, in this order."""
        if self.in_order_E is None:
            return NewContexts(self.history.rows(contexts_T))
        by_time = History(self.history.indptr_U1, self.in_order_E.astype(np.int32))
        in_order_E = by_time.rows(contexts_T).items_E.astype(np.int64)
        return NewContexts(self.history.rows(contexts_T), in_order_E)

    def matrix(self, n_items: int, device: torch.device) -> SparseMatrix:
        """X: the items that each context has."""
        own = self.history
        return SparseMatrix.of(own.indptr_U1, own.items_E, n_items, device=device)


@dataclass(frozen=True)
class Rule:
    """How new contexts are folded into a model."""

    name: ClassVar[str] = ""
    """The name of the rule in a saved model."""
    works: ClassVar[bool] = True
    """Whether the rule can be used; False for one whose knowledge is lost."""

    def record(self) -> dict[str, Any]:
        """Give the rule as a saved model writes it down, without tensors."""
        numbers = {f.name: float(getattr(self, f.name)) for f in fields(self) if f.type == "float"}
        return {"rule": self.name, **numbers}

    def tensors(self, history: History) -> Tensors:
        """Give the arrays that must be saved too, beside a model with this history."""
        return {}

    @classmethod
    def read(cls, path: Path, record: Mapping[str, Any], tensors: Tensors, model: History) -> Rule:
        """Make the rule again, for a model of this history; ``tensors`` are its own arrays."""
        expect(path, tensors, {})
        return cls(**cls.numbers(path, record))

    @classmethod
    def numbers(cls, path: Path, record: Mapping[str, Any]) -> dict[str, float]:
        """Give the numbers of a record, if training could have used them."""
        found = {}
        for name in (f.name for f in fields(cls) if f.type == "float"):
            value = record.get(name)
            if not isinstance(value, int | float) or not 0 <= value <= GREATEST:
                raise DamagedError(
                    path, f"fold_in.{name} is {value!r}, not a number from 0 to {GREATEST:g}"
                )
            found[name] = float(value)
        return found


class VectorRule(Rule):
    """A rule that finds a vector for a new context, given the vectors of items."""

    def vectors(self, item_ID: Tensor, bias_I: Tensor, known: SparseMatrix) -> Tensor:
        """u_TD of contexts that have these items."""
        raise NotImplementedError

    def items(self, model: Factors, known: SparseMatrix, length_U: Tensor) -> tuple[Tensor, Tensor]:
        """v_ND and b_N of new items, from the contexts that have them and stay as they are.

        ``length_U`` says how many items each context of the model was trained with.
        """
        raise NotImplementedError

    def grown(self, place_I: Tensor, added_J: Tensor) -> Self:
        """Give the rule for a model with more items: where its own stand, and counts to add."""
        return self


@dataclass(frozen=True)
class OnSphere(VectorRule):
    """u = û / τ, where û climbs the softmax objective of cosines; see ``maths/sphere.py``."""

    name: ClassVar[str] = "sphere"

    tau: float
    """The temperature τ of cosines."""
    rho: float
    """The temperature ρ of positives over that of negatives."""
    popularity_I: Tensor = field(compare=False, repr=False)
    """In training, how many contexts had each item."""

    @classmethod
    def after(cls, history: History, n_items: int, *, tau: float, rho: float) -> Self:
        """Make the rule for a model that was trained on this history."""
        return cls(tau, rho, torch.from_numpy(np.bincount(history.items_E, minlength=n_items)))

    @cached_property
    def support(self) -> Support:
        """The items that stand for the catalogue, which are the same for every request."""
        return Support.of(self.popularity_I)

    def vectors(self, item_ID: Tensor, bias_I: Tensor, known: SparseMatrix) -> Tensor:
        """u_TD of contexts that have these items."""
        support = self.support.to(item_ID.device)
        return directions(known, item_ID, bias_I, support, tau=self.tau, rho=self.rho) / self.tau

    def items(self, model: Factors, known: SparseMatrix, length_U: Tensor) -> tuple[Tensor, Tensor]:
        """v̂ climbs the same objective as û does; b is on the line of the biases of other items.

        The best b without a penalty is known for every item. Training holds biases by a penalty,
        and least squares over the items that were trained say what becomes of the best b by that.
        """
        items = self.support.to(model.device)
        contexts = Contexts.of(
            self.tau * model.user_UD, length_U, model.item_ID, model.bias_I, items,
            tau=self.tau, rho=self.rho,
        )  # fmt: skip
        count_S = self.popularity_I.to(model.device)[items.item_S]
        at_S = items.item_S[count_S > 0]
        best_S = contexts.biases(model.item_ID[at_S], count_S[count_S > 0]).double()
        own_S = model.bias_I[at_S].double()
        spread = (best_S - best_S.mean()).square().sum()
        slope = ((best_S - best_S.mean()) * own_S).sum() / spread if spread > 0 else 0.0 * spread
        v_ND = contexts.directions(known)
        best_N = contexts.biases(v_ND, known.length_R).double()
        return v_ND, (own_S.mean() + slope * (best_N - best_S.mean())).to(v_ND)

    def grown(self, place_I: Tensor, added_J: Tensor) -> Self:
        """Give the rule for a model with more items: where its own stand, and counts to add."""
        count_J = added_J.cpu().clone()
        count_J[place_I.cpu()] += self.popularity_I.cpu()
        return replace(self, popularity_I=count_J)

    def tensors(self, history: History) -> Tensors:
        """Give the popularity, unless it is that of the model's own history."""
        own_I = self.popularity_I.cpu().numpy().astype(np.int64)
        count_I = np.bincount(history.items_E, minlength=len(own_I))
        return {} if np.array_equal(own_I, count_I) else {POPULARITY: own_I}

    @classmethod
    def read(cls, path: Path, record: Mapping[str, Any], tensors: Tensors, model: History) -> Rule:
        """Make the rule again, with the popularity that is saved or that of the history."""
        numbers = cls.numbers(path, record)
        if numbers["tau"] == 0 or numbers["rho"] == 0:
            raise DamagedError(path, "fold_in.tau or fold_in.rho is 0")
        n_items = int(record["items"])
        if POPULARITY not in tensors:
            expect(path, tensors, {})
            return cls.after(model, n_items, **numbers)
        expect(path, tensors, {POPULARITY: (np.int64, (n_items,))})
        if (tensors[POPULARITY] < 0).any():
            raise DamagedError(path, f"{POPULARITY} holds a number below 0")
        return cls(**numbers, popularity_I=torch.from_numpy(tensors[POPULARITY]))


@dataclass(frozen=True)
class LeastSquares(VectorRule):
    """u minimises α Σ_i (u · v_i)² + Σ_{i ∈ I_c} (1 - u · v_i)² + λ (|I_c| + α M)^ν ‖u‖²."""

    name: ClassVar[str] = "least squares"

    alpha: float
    """The weight α with which the score of every pair is drawn towards 0."""
    l2: float
    """The weight λ of the squared vectors."""
    power: float
    """The power ν of how often a vector is in the sum."""

    def vectors(self, item_ID: Tensor, bias_I: Tensor, known: SparseMatrix) -> Tensor:
        """u_TD of contexts that have these items."""
        return HalfSweep(self.alpha, self.l2, self.power)(known, item_ID)

    def items(self, model: Factors, known: SparseMatrix, length_U: Tensor) -> tuple[Tensor, Tensor]:
        """v minimises α Σ_c (u_c · v)² + Σ_{c ∈ U_i} (1 - u_c · v)² + λ (|U_i| + α N)^ν ‖v‖²."""
        v_ND = HalfSweep(self.alpha, self.l2, self.power)(known, model.user_UD)
        return v_ND, torch.zeros_like(v_ND[:, 0])


class NoVector(VectorRule):
    """u has no numbers, as in a model that gives everyone the same scores."""

    name: ClassVar[str] = "no vector"

    def vectors(self, item_ID: Tensor, bias_I: Tensor, known: SparseMatrix) -> Tensor:
        """u_TD of contexts that have these items: D = 0."""
        return torch.empty(known.n_rows, 0, device=item_ID.device)

    def items(self, model: Factors, known: SparseMatrix, length_U: Tensor) -> tuple[Tensor, Tensor]:
        """v has no numbers, and b is how many contexts have the item."""
        return model.item_ID.new_empty(known.n_rows, 0), known.length_R.to(model.bias_I)


class ByHistory(Rule):
    """The history of a context is all that the model looks at."""

    name: ClassVar[str] = "history"


class ByNetwork(Rule):
    """The network of the model finds the vector of a context from its history."""

    name: ClassVar[str] = "network"


class PopularityLost(VectorRule):
    """A rule of a model that was saved without the popularity of items, which it needs."""

    name: ClassVar[str] = "popularity lost"
    works: ClassVar[bool] = False

    def vectors(self, item_ID: Tensor, bias_I: Tensor, known: SparseMatrix) -> Tensor:
        """Refuse, and say where new contexts can be folded in."""
        raise UsageError(
            "this model has users folded in and no longer knows how popular items were in "
            "training, which new users are found by. Fold into the model it was made from.",
            code="folded_in",
        )


RULES: dict[str, type[Rule]] = {
    rule.name: rule
    for rule in (OnSphere, LeastSquares, NoVector, ByHistory, ByNetwork, PopularityLost)
}
"""The rules by the names that saved models have for them."""


def read_rule(
    path: Path, record: object, tensors: Tensors, history: History, n_items: int
) -> Rule | None:
    """Make the rule of a saved model again; None if the model has none."""
    if record is None:
        expect(path, tensors, {})
        return None
    if not isinstance(record, dict) or record.get("rule") not in RULES:
        raise DamagedError(path, f"fold_in is {record!r:.60}, which is no rule")
    return RULES[record["rule"]].read(path, record | {"items": n_items}, tensors, history)
