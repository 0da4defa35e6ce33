"""The sum of two models, such as vectors and item-item weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from sdgar.data.history import History
from sdgar.models.contributions import Contributions
from sdgar.models.factors import Factors
from sdgar.models.fold_in import FoldInRule, NewContexts, read_rule
from sdgar.models.model import Floats, Growth, Indices, Model, Side, Terms
from sdgar.models.saved import Saved, model_class, under
from sdgar.storage.sealed import DamagedError, Tensors

if TYPE_CHECKING:
    from sdgar.maths.neighbours import Neighbourhoods
    from sdgar.maths.sequences import Sequences

FACTS = "sum"
"""The name under which a saved sum describes its two models."""
_FIRST, _SECOND, _RULE = "first:", "second:", "second rule:"
_NO_HISTORY = History(np.zeros(1, np.int64), np.zeros(0, np.int32))
"""An empty history: a rule then saves all its arrays, and leaves out none that a history has."""


@dataclass(frozen=True, slots=True)
class Sum(Model):
    """s_ci = a_ci + γ b_ci.

    An item that one of the models does not recommend at all (a score of -inf) counts as 0 there.
    """

    kind: ClassVar[str] = "sum"
    holds: ClassVar[str] = "two models that are added up"

    first: Model
    """The model a, whose scores keep their scale; it decides which items are similar."""
    second: Model
    """The model b."""
    weight: float
    """The weight γ of the second model."""

    @property
    def n_items(self) -> int:
        """The number of items in the catalogue."""
        return self.first.n_items

    @property
    def n_values(self) -> int | None:
        """The number of values of all fields of contexts; None if contexts are no sums of them."""
        return self.first.n_values

    @property
    def rule(self) -> FoldInRule | None:
        """The rule of the first model for new contexts; None if one of both has none."""
        return None if self.second.rule is None else self.first.rule

    @property
    def grows(self) -> bool:
        """Whether new items can be added to both models, which must be of different kinds."""
        kinds = [part.kind for part in self.parts()]
        return all(part.grows for part in self.parts()) and len(set(kinds)) == len(kinds)

    def score_all(self, users_B: Indices) -> Floats:
        """s_BI = a_BI + γ b_BI."""
        scores_BI = self.first.score_all(users_B)
        scores_BI[scores_BI == -np.inf] = 0
        self.second.add_scores(users_B, scores_BI, self.weight)
        return scores_BI

    def score_pairs(self, users_P: Indices, items_P: Indices) -> Floats:
        """s_P = a_P + γ b_P of each pair."""
        first_P = self.first.score_pairs(users_P, items_P)
        return first_P + np.float32(self.weight) * self.second.score_pairs(users_P, items_P)

    def contributions(
        self, context: int, items_B: Indices, history_H: Indices
    ) -> Contributions | None:
        """Return the contributions in both models, added up; None if one of them has none."""
        first = self.first.contributions(context, items_B, history_H)
        second = self.second.contributions(context, items_B, history_H)
        return None if first is None or second is None else first.plus(second, self.weight)

    def ruled_by(self, rule: FoldInRule | None) -> Sum:
        """Return the same sum with a rule for the first model; the second one keeps its own."""
        return replace(self, first=self.first.ruled_by(rule))

    def fold_in(self, new: NewContexts) -> Sum:
        """Return the sum for new contexts, which both models fold in by their own rules."""
        return self._of_both(lambda model: model.fold_in(new))

    def updated(self, at_U: Indices, own: NewContexts) -> Sum:
        """Return the sum for contexts with these histories."""
        return self._of_both(lambda model: model.updated(at_U, own))

    def only(self, at_T: Indices, place_TF: Indices | None = None) -> Sum:
        """Return the sum for these contexts alone, by their numbers."""
        return self._of_both(lambda model: model.only(at_T, place_TF))

    def with_history(self, history: History) -> Sum:
        """Return the sum with other histories of its contexts."""
        return self._of_both(lambda model: model.with_history(history))

    def with_items(self, growth: Growth) -> Sum:
        """Return the sum with places for more items in both models."""
        return self._of_both(lambda model: model.with_items(growth))

    def with_vectors(self, at_N: Indices, v_ND: Floats, b_N: Floats) -> Sum:
        """Return the sum with other vectors and biases of some items."""
        return self._of_both(lambda model: model.with_vectors(at_N, v_ND, b_N))

    def with_new_weights(self, rule: Neighbourhoods, new_N: Indices) -> Sum:
        """Return the sum with weights of new items, solved from the histories."""
        return self._of_both(lambda model: model.with_new_weights(rule, new_N))

    def _of_both(self, change: Callable[[Model], Model]) -> Sum:
        return replace(self, first=change(self.first), second=change(self.second))

    def in_order(self) -> Sequences | None:
        """Return the events of each context, if one of the models keeps their order."""
        first = self.first.in_order()
        return self.second.in_order() if first is None else first

    def parts(self) -> list[Model]:
        """Return the models that are added up, also the models of sums within the sum."""
        return [*self.first.parts(), *self.second.parts()]

    def factors(self) -> Factors | None:
        """Return the vectors of the first model; None if it has none."""
        return self.first.factors()

    def item_vectors(self) -> NDArray[np.floating] | None:
        """Return the vectors of items of the first model that has some."""
        found = self.first.item_vectors()
        return self.second.item_vectors() if found is None else found

    def terms(self) -> Terms | None:
        """Return the terms of both models; None if one of them has none."""
        first, second = self.first.terms(), self.second.terms()
        return None if first is None or second is None else first.plus(second, self.weight)

    def similarity(self, side: Side) -> Model | None:
        """Return what the first model compares by; if it has nothing, the second."""
        return self.first.similarity(side) or self.second.similarity(side)

    def facts(self) -> dict[str, Any]:
        """Return what the two models are, and the weight of the second."""
        rule = self.second.rule
        described: dict[str, dict[str, Any]] = {
            name: {"model": model.kind, "sizes": model.sizes(), "about": model.facts()}
            for name, model in (("first", self.first), ("second", self.second))
        }
        described["second"]["fold_in"] = None if rule is None else rule.record()
        return {FACTS: described | {"weight": self.weight}}

    def to_saved(self) -> Tensors:
        """Return the arrays of both models."""
        rule = self.second.rule
        parts = (
            (_FIRST, self.first.to_saved()),
            (_SECOND, self.second.to_saved()),
            (_RULE, {} if rule is None else rule.tensors(_NO_HISTORY)),
        )
        return {prefix + name: t for prefix, named in parts for name, t in named.items()}

    @classmethod
    def from_saved(cls, saved: Saved) -> Self:
        """Return the sum of a saved folder, after a check of what both models are."""
        match saved.about.get(FACTS):
            case {
                "first": dict(first), "second": dict(second), "weight": int() | float() as weight
            } if 0 <= weight <= 1e6:  # fmt: skip
                made = [
                    _part(saved, described, prefix)
                    for described, prefix in ((first, _FIRST), (second, _SECOND))
                ]
                record, of_rule = second.get("fold_in"), under(_RULE, saved.tensors)
                items = saved.sizes["items"]
                rule = read_rule(saved.path, record, of_rule, saved.history, items)
                return cls(made[0], made[1].ruled_by(rule), float(weight))
        raise DamagedError(saved.path, "the manifest does not say which models are added up")


def weighted_sum(model: Model, other: Model | None, weight: float) -> Model:
    """Return the sum of two models; with a weight of 0 the first model alone."""
    return model if other is None or weight == 0 else Sum(model, other, weight)


def _part(saved: Saved, described: dict[str, Any], prefix: str) -> Model:
    kind, sizes, about = described.get("model"), described.get("sizes"), described.get("about")
    found = model_class(kind)
    if found is None or not isinstance(sizes, dict) or not isinstance(about, dict):
        raise DamagedError(saved.path, f"{kind!r:.60} is no model that can be added up")
    wanted = found.size_names
    if set(sizes) != set(wanted) or not all(
        isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in sizes.values()
    ):
        raise DamagedError(saved.path, f"sizes of {kind!r} should be {', '.join(wanted) or 'none'}")
    tensors = under(prefix, saved.tensors)
    part = replace(saved, sizes={**saved.sizes, **sizes}, tensors=tensors, about=about)
    return found.from_saved(part)
