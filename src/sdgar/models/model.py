"""The interface of trained models: they score, fold in new users, and are saved.

A model holds arrays of NumPy, whatever trained it, so that nothing that answers imports torch.
Models of networks hold a torch module instead; ``factor_tensors.py`` has the vectors in training.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from sdgar.maths.rows import Rows
from sdgar.models.scorers import checked

if TYPE_CHECKING:
    from sdgar.data.history import History
    from sdgar.maths.neighbours import Neighbourhoods
    from sdgar.maths.sequences import Sequences
    from sdgar.models.contributions import Contributions
    from sdgar.models.factors import Factors
    from sdgar.models.fold_in import FoldInRule, NewContexts
    from sdgar.models.saved import Saved
    from sdgar.storage.sealed import Tensors

Side = Literal["item", "user"]
"""The things that can be similar to each other."""
Indices = NDArray[np.int64]
Floats = NDArray[np.float32]
_SCORES = 4 << 20
"""How many scores are in memory at once while pairs are picked from them."""


@dataclass(frozen=True, slots=True)
class VectorTerm:
    """γ (u_c · v_i + b_i)."""

    user_UD: Floats | None
    """The vectors u of contexts; None if u_c = Σ_{j ∈ I_c} v_j."""
    item_ID: Floats
    """The vectors v of items."""
    bias_I: Floats
    """The biases b of items."""
    weight: float = 1.0
    """The weight γ of the term."""
    history: History | None = None
    """The items I of each context, if its vector is the sum of theirs."""

    def users(self) -> Floats:
        """Return the vectors u of contexts."""
        if self.user_UD is not None:
            return self.user_UD
        assert self.history is not None
        return Rows(self.history.indptr_U1, self.history.items_E).sums(self.item_ID)


@dataclass(frozen=True, slots=True)
class WeightTerm:
    """γ Σ_{j ∈ I_c} w_ji."""

    history: History
    """The items I of each context."""
    weight_II: Rows | Floats
    """The weights w from item to item, sparse by rows or dense."""
    weight: float = 1.0
    """The weight γ of the term."""


@dataclass(frozen=True, slots=True)
class Terms:
    """s_ci = Σ γ (u_c · v_i + b_i) + Σ γ Σ_{j ∈ I_c} w_ji: the terms that a score is the sum of."""

    vectors: tuple[VectorTerm, ...] = ()
    """The terms by inner products."""
    weights: tuple[WeightTerm, ...] = ()
    """The terms by weights between items."""
    exact: bool = True
    """Whether the sum is the score of every item; False if it is that of unseen items alone."""
    only_supported: bool = False
    """Whether an item is never recommended where no item of the history has a weight for it."""
    missing: tuple[str, ...] = ()
    """Sentences on what the model can do and these terms cannot."""

    def plus(self, other: Terms, weight: float) -> Terms:
        """Return the terms of the sum a + γ b of two models."""
        return Terms(
            (*self.vectors, *(replace(t, weight=weight * t.weight) for t in other.vectors)),
            (*self.weights, *(replace(t, weight=weight * t.weight) for t in other.weights)),
            exact=self.exact and other.exact and not (self.only_supported or other.only_supported),
            missing=tuple(dict.fromkeys((*self.missing, *other.missing))),
        )


class Model:
    """A trained model: it scores, folds in new contexts, and can be saved and loaded."""

    __slots__ = ()
    kind: ClassVar[str]
    """The name of the kind of model in a saved folder."""
    holds: ClassVar[str]
    """What the scores are made of, in words for people."""
    size_names: ClassVar[tuple[str, ...]] = ()
    """The sizes that a saved model has in addition to its users, items and interactions."""
    compares_by: ClassVar[str] = ""
    """What similar items are found by: "vectors", "weights", or nothing."""

    @property
    def n_items(self) -> int:
        """The number of items in the catalogue."""
        raise NotImplementedError

    @property
    def n_values(self) -> int | None:
        """The number of values of all fields of contexts; None if contexts are no sums of them."""
        return None

    @property
    def rule(self) -> FoldInRule | None:
        """The rule by which new contexts are folded in; None if they cannot be."""
        return None

    @property
    def grows(self) -> bool:
        """Whether new items can be added without training."""
        return False

    def score_all(self, users_B: Indices) -> Floats:
        """Return the scores s_BI; larger is better."""
        raise NotImplementedError

    def add_scores(self, users_B: Indices, scores_BI: Floats, weight: float) -> None:
        """s_BI += γ times the scores of this model, of which -inf counts as 0."""
        own_BI = self.score_all(users_B)
        own_BI[own_BI == -np.inf] = 0
        scores_BI += np.float32(weight) * own_BI

    def score_pairs(self, users_P: Indices, items_P: Indices) -> Floats:
        """Return the score s_P of each context for one item."""
        found_P = np.zeros(len(users_P), np.float32)
        users_X, which_P = np.unique(users_P, return_inverse=True)
        step = max(1, _SCORES // self.n_items)
        for start in range(0, len(users_X), step):
            users_B = users_X[start : start + step]
            scores_BI = checked(self.score_all(users_B), len(users_B), self.n_items)
            here_P = np.flatnonzero((which_P >= start) & (which_P < start + len(users_B)))
            found_P[here_P] = scores_BI[which_P[here_P] - start, items_P[here_P]]
        return found_P

    def contributions(
        self, context: int, items_B: Indices, history_H: Indices
    ) -> Contributions | None:
        """Return how much each item of the history adds to the scores; None if nobody can say."""
        return None

    def ruled_by(self, rule: FoldInRule | None) -> Model:
        """Return the same model with a rule to fold in by; the other kinds have their own way."""
        return self

    def fold_in(self, new: NewContexts) -> Model:
        """Return a model of the same items for new contexts; only a model with a rule can."""
        raise NotImplementedError

    def updated(self, at_U: Indices, own: NewContexts) -> Model:
        """Return the model for contexts with these histories.

        A context with a number ``at_U`` keeps what was learned of it. One with the number -1 is
        folded in, which only a model with a rule can do.
        """
        raise NotImplementedError

    def only(self, at_T: Indices, place_TF: Indices | None = None) -> Model:
        """Return the model with these contexts alone, by their numbers.

        A model whose contexts are sums of fields computes a context with the number -1 from the
        values ``place_TF`` of its fields.
        """
        raise NotImplementedError

    def followed_by(self, place_XF: Indices) -> Model | None:
        """Return the model with more contexts after its own, given the values of their fields.

        None if contexts are no sums of fields.
        """
        return None

    def with_history(self, history: History) -> Model:
        """Return the model with other histories of its contexts; vectors stay as they are."""
        return self

    def with_items(self, growth: Growth) -> Model:
        """Return the model with places for more items; see ``Growth``."""
        raise NotImplementedError

    def with_vectors(self, at_N: Indices, v_ND: Floats, b_N: Floats) -> Model:
        """Return the model with other vectors and biases of some items, if it has vectors."""
        return self

    def with_new_weights(self, rule: Neighbourhoods, new_N: Indices) -> Model:
        """Return the model with weights of new items, solved from the histories, if it has any."""
        return self

    def in_order(self) -> Sequences | None:
        """Return the events of each context in their order; None if the model does not keep it."""
        return None

    def parts(self) -> list[Model]:
        """Return the models whose scores are added up; a model that is no sum is its only part."""
        return [self]

    def factors(self) -> Factors | None:
        """Return the vectors of contexts and items; None if the model has none."""
        return None

    def item_vectors(self) -> NDArray[np.floating] | None:
        """Return vectors by which items can be compared; None without any."""
        return None

    def terms(self) -> Terms | None:
        """Return the terms that scores are sums of; None if they are not of this form."""
        return None

    def similarity(self, side: Side) -> Model | None:
        """Return a model that scores all items for an item, or all users for a user.

        None if nothing can be compared.
        """
        return None

    def sizes(self) -> dict[str, int]:
        """Return the sizes of ``size_names``."""
        return {}

    def facts(self) -> dict[str, Any]:
        """Return what loading needs in addition to arrays and sizes."""
        return {}

    def to_saved(self) -> Tensors:
        """Return the arrays that a saved model holds."""
        raise NotImplementedError

    @classmethod
    def from_saved(cls, saved: Saved) -> Self:
        """Return the model of a saved folder, after a check of names, types, shapes and numbers."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Growth:
    """How the items of a model are renumbered when new items are added."""

    place_I: Indices
    """The new number of each item, ascending."""
    history: History
    """The items of each context by the new numbers."""
    n_items: int
    """The number of items, the new ones included."""
    added_J: Indices | None = None
    """How many contexts of each item are new."""
