"""The sum of two models, such as vectors and a memory of the history beside them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from sdgar.data.history import History
from sdgar.models.factors import Factors
from sdgar.models.fold_in import NewContexts, Rule, read_rule
from sdgar.models.item_weights import LocalItemWeights
from sdgar.models.model import Model, Side
from sdgar.models.reasons import Shares
from sdgar.models.saved import Saved
from sdgar.storage.folders import DamagedError, Tensors

if TYPE_CHECKING:
    from typing import Self

FACTS = "sum"
"""The name under which a saved sum says what its two models are."""
_FIRST, _SECOND, _RULE = "first:", "second:", "second rule:"
_MOST = 8
"""The most sums within a sum that are read from a file."""
_NOTHING = History(np.zeros(1, np.int64), np.zeros(0, np.int32))
"""No history: a rule then gives all its arrays, and leaves out none that a history would tell."""


@dataclass(frozen=True, slots=True)
class Sum:
    """s_ci = a_ci + γ b_ci.

    What one of the models does not recommend at all (a score of -inf) counts as 0 there.
    """

    kind: ClassVar[str] = "sum"
    holds: ClassVar[str] = "two models that are added up"
    size_names: ClassVar[tuple[str, ...]] = ()

    first: Model
    """The model a, whose scores keep their scale; similar items are those of this model."""
    second: Model
    """The model b."""
    weight: float
    """The weight γ of the second model."""

    @property
    def n_items(self) -> int:
        """Number of items in the catalogue."""
        return self.first.n_items

    @property
    def n_values(self) -> int | None:
        """Number of values of all fields of contexts; None if a context is not a sum of fields."""
        return self.first.n_values

    @property
    def device(self) -> torch.device:
        """Where both models live."""
        return self.first.device

    @property
    def rule(self) -> Rule | None:
        """How new contexts are folded into the first model; None if one of both cannot be."""
        return None if self.second.rule is None else self.first.rule

    def score_all(self, users_B: Tensor) -> Tensor:
        """s_BI = a_BI + γ b_BI."""
        scores_BI = self.first.score_all(users_B)
        if type(self.first) is not Factors:  # whose scores are finite
            scores_BI = scores_BI.masked_fill_(scores_BI == -torch.inf, 0.0)
        if type(self.second) is LocalItemWeights:
            self.second.add_scores(users_B, scores_BI, self.weight)
            return scores_BI
        other_BI = self.second.score_all(users_B)
        return scores_BI.add_(other_BI.masked_fill(other_BI == -torch.inf, 0.0), alpha=self.weight)

    def score_pairs(self, users_P: Tensor, items_P: Tensor) -> Tensor:
        """s_P = a_P + γ b_P of each pair."""
        first_P = self.first.score_pairs(users_P, items_P)
        return first_P + self.weight * self.second.score_pairs(users_P, items_P)

    def shares(self, context: int, items_B: Tensor, history_H: Tensor) -> Shares | None:
        """Add up the shares of both models; None if one of them has none."""
        first = self.first.shares(context, items_B, history_H)
        second = self.second.shares(context, items_B, history_H)
        return None if first is None or second is None else first.plus(second, self.weight)

    def ruled_by(self, rule: Rule | None) -> Sum:
        """Give the same sum with a rule for the first model; the second one keeps its own."""
        return replace(self, first=self.first.ruled_by(rule))

    def fold_in(self, new: NewContexts) -> Sum:
        """Give the sum for new contexts, which both models fold in by their own rules."""
        return replace(self, first=self.first.fold_in(new), second=self.second.fold_in(new))

    def updated(self, at_U: Tensor, own: NewContexts) -> Sum:
        """Give the sum for contexts with these histories."""
        first, second = (model.updated(at_U, own) for model in (self.first, self.second))
        return replace(self, first=first, second=second)

    def only(self, at_T: Tensor, place_TF: Tensor | None = None) -> Sum:
        """Give the sum for these contexts alone, by their numbers."""
        first, second = (model.only(at_T, place_TF) for model in (self.first, self.second))
        return replace(self, first=first, second=second)

    def parts(self) -> list[Model]:
        """Give the models that are added up, those of sums within the sum too."""
        found: list[Model] = []
        for model in (self.first, self.second):
            found += model.parts() if isinstance(model, Sum) else [model]
        return found

    def alike(self, side: Side) -> Model | None:
        """Give what the first model finds similar; where it has nothing, the second."""
        return self.first.alike(side) or self.second.alike(side)

    def sizes(self) -> dict[str, int]:
        """Say nothing: the sizes of both models are among the facts."""
        return {}

    def facts(self) -> dict[str, Any]:
        """Say what the two models are, and the weight of the second."""
        rule = self.second.rule
        told: dict[str, dict[str, Any]] = {
            name: {"model": model.kind, "sizes": model.sizes(), "about": model.facts()}
            for name, model in (("first", self.first), ("second", self.second))
        }
        told["second"]["fold_in"] = None if rule is None else rule.record()
        return {FACTS: told | {"weight": self.weight}}

    def to_saved(self) -> Tensors:
        """Give the arrays of both models."""
        rule = self.second.rule
        parts = (
            (_FIRST, self.first.to_saved()),
            (_SECOND, self.second.to_saved()),
            (_RULE, {} if rule is None else rule.tensors(_NOTHING)),
        )
        return {prefix + name: t for prefix, named in parts for name, t in named.items()}

    @classmethod
    def from_saved(cls, saved: Saved) -> Self:
        """Make both models again, after checking what they are."""
        match saved.about.get(FACTS):
            case {
                "first": dict(first), "second": dict(second), "weight": int() | float() as weight
            } if 0 <= weight <= 1e6:  # fmt: skip
                _require_shallow(saved)
                made = [
                    _part(saved, told, prefix)
                    for told, prefix in ((first, _FIRST), (second, _SECOND))
                ]
                record, of_rule = second.get("fold_in"), _named(saved, _RULE)
                items = saved.sizes["items"]
                rule = read_rule(saved.path, record, of_rule, saved.history, items)
                return cls(made[0], made[1].ruled_by(rule), float(weight))
        raise DamagedError(saved.path, "the manifest does not say which models are added up")


def _part(saved: Saved, told: dict[str, Any], prefix: str) -> Model:
    from sdgar.models.kinds import KINDS

    kind, sizes, about = told.get("model"), told.get("sizes"), told.get("about")
    known = kind in KINDS
    if not known or not isinstance(sizes, dict) or not isinstance(about, dict):
        raise DamagedError(saved.path, f"{kind!r:.60} is no model that can be added up")
    wanted = KINDS[str(kind)].size_names
    if set(sizes) != set(wanted) or not all(
        isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in sizes.values()
    ):
        raise DamagedError(saved.path, f"sizes of {kind!r} should be {', '.join(wanted) or 'none'}")
    tensors = _named(saved, prefix)
    part = replace(saved, sizes={**saved.sizes, **sizes}, tensors=tensors, about=about)
    return KINDS[str(kind)].from_saved(part)


def _named(saved: Saved, prefix: str) -> Tensors:
    """Give the arrays whose names begin so, without the beginning."""
    found = saved.tensors.items()
    return {name.removeprefix(prefix): t for name, t in found if name.startswith(prefix)}


def _require_shallow(saved: Saved) -> None:
    """Raise if there are more sums within the sum than anybody adds up."""
    inner: list[Any] = [saved.about]
    for _ in range(_MOST):
        inner = [part.get("about") for one in inner for part in _told(one)]
    if any(_told(one) for one in inner):
        raise DamagedError(saved.path, f"it is a sum of sums, more than {_MOST} of them deep")


def _told(about: object) -> list[dict[str, Any]]:
    """Give what is told of the two models of a sum; nothing if it is no sum."""
    sums = about.get(FACTS) if isinstance(about, dict) else None
    parts = [sums.get(name) for name in ("first", "second")] if isinstance(sums, dict) else []
    return [part for part in parts if isinstance(part, dict)]
