"""Rules by which a model folds in contexts that are new to it, from their histories alone.

Items stay as they are; ``items`` does the reverse, for new items of contexts that stay. A model
has a rule, which is a record of a few numbers and is saved with the model as
``{"rule": name, …}``:

    sphere           û of the softmax objective of cosines, for the items as they are
    least squares    u of half a sweep of alternating least squares
    no vector        scores are the same for everyone
    history          scores depend on the history itself
    network          the network of the model finds the vector
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from sdgar.data.history import History
from sdgar.errors import NumericalError
from sdgar.maths.rows import Rows
from sdgar.maths.sphere import Contexts, Support, directions
from sdgar.models.saved import expect
from sdgar.storage.sealed import DamagedError, Tensors

if TYPE_CHECKING:
    from sdgar.models.factors import Factors

Floats = NDArray[np.float32]
Counts = NDArray[np.int64]
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
    """The same items in the order in which a context got them; None if unknown."""

    def rows(self, contexts_T: Counts) -> NewContexts:
        """Return some of the contexts, in this order."""
        if self.in_order_E is None:
            return NewContexts(self.history.rows(contexts_T))
        by_time = History(self.history.indptr_U1, self.in_order_E.astype(np.int32))
        in_order_E = by_time.rows(contexts_T).items_E.astype(np.int64)
        return NewContexts(self.history.rows(contexts_T), in_order_E)


@dataclass(frozen=True)
class FoldInRule:
    """How new contexts are folded into a model."""

    name: ClassVar[str] = ""
    """The name of the rule in a saved model."""
    places_items: ClassVar[bool] = False
    """Whether the rule finds vectors of new items too."""

    def record(self) -> dict[str, Any]:
        """Return the rule as a saved model records it, without arrays."""
        numbers = {f.name: float(getattr(self, f.name)) for f in fields(self) if f.type == "float"}
        return {"rule": self.name, **numbers}

    def tensors(self, history: History) -> Tensors:
        """Return the arrays that must be saved with a model that has this history."""
        return {}

    def grown(self, place_I: Counts, added_J: Counts) -> Self:
        """Return the rule for a model with more items: their new numbers, and counts to add."""
        return self

    @classmethod
    def read(
        cls, path: Path, record: Mapping[str, Any], tensors: Tensors, model: History
    ) -> FoldInRule:
        """Return the saved rule of a model with this history; ``tensors`` are its own arrays."""
        expect(path, tensors, {})
        return cls(**cls.numbers(path, record))

    @classmethod
    def numbers(cls, path: Path, record: Mapping[str, Any]) -> dict[str, float]:
        """Return the numbers of a record, if training could have used them."""
        found = {}
        for name in (f.name for f in fields(cls) if f.type == "float"):
            value = record.get(name)
            if not isinstance(value, int | float) or not 0 <= value <= GREATEST:
                raise DamagedError(
                    path, f"fold_in.{name} is {value!r}, not a number from 0 to {GREATEST:g}"
                )
            found[name] = float(value)
        return found


class VectorRule(FoldInRule):
    """A rule that finds a vector for a new context, given the vectors of items."""

    places_items: ClassVar[bool] = True

    def vectors(self, item_ID: Floats, bias_I: Floats, known: History) -> Floats:
        """u_TD of contexts that have these items."""
        raise NotImplementedError

    def items(self, model: Factors, known: History, length_U: Counts) -> tuple[Floats, Floats]:
        """v_ND and b_N of new items, from the contexts that have them and stay as they are.

        ``known`` has the contexts of each item, and ``length_U`` the number of items that each
        context of the model was trained with.
        """
        raise NotImplementedError


@dataclass(frozen=True)
class OnSphere(VectorRule):
    """u = û / τ, where û climbs the softmax objective of cosines; see ``maths/sphere.py``."""

    name: ClassVar[str] = "sphere"

    tau: float
    """The temperature τ of cosines."""
    rho: float
    """The temperature ρ of positives over that of negatives."""
    popularity_I: Counts = field(compare=False, repr=False)
    """How many contexts had each item in training."""

    @classmethod
    def after(cls, history: History, n_items: int, *, tau: float, rho: float) -> Self:
        """Return the rule for a model that was trained on this history."""
        return cls(tau, rho, np.bincount(history.items_E, minlength=n_items))

    @cached_property
    def support(self) -> Support:
        """The sampled items that represent the catalogue, the same for every request."""
        return Support.of(self.popularity_I)

    def vectors(self, item_ID: Floats, bias_I: Floats, known: History) -> Floats:
        """u_TD of contexts that have these items."""
        rows = Rows(known.indptr_U1, known.items_E)
        unit_TD = directions(rows, item_ID, bias_I, self.support, tau=self.tau, rho=self.rho)
        return unit_TD / np.float32(self.tau)

    def items(self, model: Factors, known: History, length_U: Counts) -> tuple[Floats, Floats]:
        """v̂ climbs the same objective as û does; b is on the line of the biases of other items.

        The best b without a penalty is known for every item. Training penalises biases, and least
        squares over the trained items find how the best b maps to a trained one.
        """
        items = self.support
        contexts = Contexts.of(
            np.float32(self.tau) * model.user_UD, length_U, model.item_ID, model.bias_I, items,
            tau=self.tau, rho=self.rho,
        )  # fmt: skip
        count_S = self.popularity_I[items.item_S]
        at_S = items.item_S[count_S > 0]
        best_S = contexts.biases(model.item_ID[at_S], count_S[count_S > 0]).astype(np.float64)
        own_S = model.bias_I[at_S].astype(np.float64)
        spread = np.square(best_S - best_S.mean()).sum()
        slope = ((best_S - best_S.mean()) * own_S).sum() / spread if spread > 0 else 0.0
        rows = Rows(known.indptr_U1, known.items_E)
        v_ND = contexts.directions(rows)
        best_N = contexts.biases(v_ND, np.diff(known.indptr_U1)).astype(np.float64)
        b_N = own_S.mean() + slope * (best_N - best_S.mean())
        return v_ND, b_N.astype(np.float32)

    def grown(self, place_I: Counts, added_J: Counts) -> Self:
        """Return the rule for a model with more items: their new numbers, and counts to add."""
        count_J = added_J.copy()
        count_J[place_I] += self.popularity_I
        return replace(self, popularity_I=count_J)

    def tensors(self, history: History) -> Tensors:
        """Return the popularity, unless it is that of the model's own history."""
        own_I = self.popularity_I.astype(np.int64)
        count_I = np.bincount(history.items_E, minlength=len(own_I))
        return {} if np.array_equal(own_I, count_I) else {POPULARITY: own_I}

    @classmethod
    def read(
        cls, path: Path, record: Mapping[str, Any], tensors: Tensors, model: History
    ) -> FoldInRule:
        """Return the saved rule, with the popularity that is saved or that of the history."""
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
        return cls(**numbers, popularity_I=tensors[POPULARITY])


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

    def vectors(self, item_ID: Floats, bias_I: Floats, known: History) -> Floats:
        """u_TD of contexts that have these items."""
        return self._solved(known, item_ID)

    def items(self, model: Factors, known: History, length_U: Counts) -> tuple[Floats, Floats]:
        """v minimises α Σ_c (u_c · v)² + Σ_{c ∈ U_i} (1 - u_c · v)² + λ (|U_i| + α N)^ν ‖v‖²."""
        v_ND = self._solved(known, model.user_UD)
        return v_ND, np.zeros(len(v_ND), np.float32)

    def _solved(self, known: History, v_CD: Floats) -> Floats:
        """u_r = (Σ_{c ∈ r} v_c v_c' + α V'V + λ (|r| + α C)^ν I)^-1 Σ_{c ∈ r} v_c."""
        gram_DD = self.alpha * (v_CD.T @ v_CD).astype(np.float64)
        unit_DD = np.eye(len(gram_DD))
        u_RD = np.empty((known.n_users, v_CD.shape[1]), np.float32)
        for row in range(known.n_users):
            own_HD = v_CD[known.of(row)].astype(np.float64)
            norm = self.l2 * (len(own_HD) + self.alpha * len(v_CD)) ** self.power
            left_DD = gram_DD + own_HD.T @ own_HD + norm * unit_DD
            try:
                u_RD[row] = np.linalg.solve(left_DD, own_HD.sum(axis=0))
            except np.linalg.LinAlgError:
                u_RD[row] = np.nan
        if not np.isfinite(u_RD).all():
            raise NumericalError(
                f"the equations of iALS have no solution with l2={self.l2:g} and "
                f"alpha={self.alpha:g}. Use a larger l2, such as 0.01.",
                code="singular",
            )
        return u_RD


class NoVector(VectorRule):
    """u has no coordinates, as in a model with the same scores for everyone."""

    name: ClassVar[str] = "no vector"

    def vectors(self, item_ID: Floats, bias_I: Floats, known: History) -> Floats:
        """u_TD of contexts that have these items: D = 0."""
        return np.empty((known.n_users, 0), np.float32)

    def items(self, model: Factors, known: History, length_U: Counts) -> tuple[Floats, Floats]:
        """v has no coordinates, and b is how many contexts have the item."""
        length_N = np.diff(known.indptr_U1)
        return np.empty((known.n_users, 0), np.float32), length_N.astype(np.float32)


class ByHistory(FoldInRule):
    """A rule for models whose scores depend on the history itself."""

    name: ClassVar[str] = "history"


class ByNetwork(FoldInRule):
    """A rule for models whose network finds the vector of a context from its history."""

    name: ClassVar[str] = "network"


RULES: dict[str, type[FoldInRule]] = {
    rule.name: rule for rule in (OnSphere, LeastSquares, NoVector, ByHistory, ByNetwork)
}
"""The rules by their names in saved models."""


def read_rule(
    path: Path, record: object, tensors: Tensors, history: History, n_items: int
) -> FoldInRule | None:
    """Return the rule of a saved model; None if the model has none."""
    if record is None:
        expect(path, tensors, {})
        return None
    if not isinstance(record, dict) or record.get("rule") not in RULES:
        raise DamagedError(path, f"fold_in is {record!r:.60}, which is no rule")
    return RULES[record["rule"]].read(path, record | {"items": n_items}, tensors, history)
