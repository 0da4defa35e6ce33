"""The selection of a list: one candidate after the other, the best of those that caps leave open.

    argmax_i  (1 - λ_d) (1 - λ_c) r_i + λ_d d_i(S) - λ_c KL(p ‖ q̃(S ∪ i))

over the candidates i that no cap has closed, where S is what was selected before, d and λ_d are of
the rule for diversity, and KL and λ_c of the rule for calibration. r_i is the score after all
changes, from 0 for the last candidate to 1 for the first. Ties go to the better score of the
model, and then to the lower number.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sdgar.recommend.rules.calibration import Calibration
from sdgar.recommend.rules.caps import Cap, Counting
from sdgar.recommend.rules.changes import Notes
from sdgar.recommend.rules.diversity import Diversity, Term
from sdgar.recommend.rules.facts import Facts


@dataclass(frozen=True, slots=True)
class Selection:
    """The rules that act while a list is selected."""

    caps: tuple[Cap, ...] = ()
    """The rules of how many items a value may have."""
    diversity: Diversity | None = None
    """The rule for diversity, if there is one."""
    calibration: Calibration | None = None
    """The rule for calibration, if there is one."""

    def select(
        self,
        z_N: NDArray[np.float64],
        items_N: NDArray[np.int64],
        n: int,
        facts: Facts,
        notes: Notes,
        *,
        history_H: NDArray[np.int64] | None,
        pinned: list[int],
    ) -> list[int]:
        """Return the places of at most n candidates, in order; caps count the pinned items too."""
        order_N = np.argsort(-z_N, kind="stable")
        items_N, relevance_N = items_N[order_N], _from_0_to_1(z_N[order_N])
        counting = Counting(self.caps, items_N, facts, pinned)
        terms, own = self._terms(items_N, facts, history_H)
        base_N = own * relevance_N
        left_N = np.ones(len(items_N), bool)
        picked: list[int] = []
        bound: set[str] = set()
        said: dict[int, list[str]] = {}
        while len(picked) < n:
            open_N = left_N & ~counting.closed_N if counting.closed_by else left_N
            first = int(open_N.argmax()) if len(open_N) else 0
            if not len(open_N) or not open_N[first]:
                break
            at = wished = first
            parts = [weight * term.values() for weight, term, _ in terms]
            if parts:
                value_N = sum(parts, base_N)  # a new array; those that are taken come last in it
                value_N[~left_N] = -np.inf
                at = wished = int(value_N.argmax())
            if counting.closed_by:
                wished = int((value_N if parts else np.where(left_N, base_N, -np.inf)).argmax())
                if parts:
                    at = int(np.where(open_N, value_N, -np.inf).argmax())
            said[at] = []
            if wished != at:
                bound.add(counting.closed_by[wished])
                said[at].append(f"moved up: {counting.closed_by[wished]}")
            if first != at:
                words = zip(parts, terms, strict=True)
                said[at] += [word for part_N, (_, _, word) in words if part_N[at] > part_N[first]]
            picked.append(at)
            left_N[at] = False
            counting.add(at)
            for _, term, _ in terms:
                term.add(at)
        for at in picked:
            kept = [f"kept: {words}" for words in counting.words_of(at) if words in bound]
            notes[int(order_N[at])] += said[at] + kept
        return [int(order_N[at]) for at in picked]

    def _terms(
        self, items_N: NDArray[np.int64], facts: Facts, history_H: NDArray[np.int64] | None
    ) -> tuple[list[tuple[float, Term, str]], float]:
        """Return the terms with their weights and words, and the weight of the scores."""
        terms: list[tuple[float, Term, str]] = []
        if self.diversity is not None and self.diversity.strength > 0 and len(items_N):
            varied = self.diversity.begin(items_N, facts)
            terms.append((self.diversity.strength, varied, "moved up for diversity"))
        if self.calibration is not None and self.calibration.strength > 0:
            shared = self.calibration.begin(items_N, history_H, facts)
            if shared is not None:
                terms.append((self.calibration.strength, shared, "moved up for calibration"))
        own = 1.0
        for weight, _, _ in terms:
            own *= 1 - weight
        return terms, own


def _from_0_to_1(z_N: NDArray[np.float64]) -> NDArray[np.float64]:
    """r_i = (z_i - min z) / (max z - min z), and 0 where all are equal."""
    if not len(z_N) or z_N.max() == z_N.min():
        return np.zeros(len(z_N))
    r_N: NDArray[np.float64] = (z_N - z_N.min()) / (z_N.max() - z_N.min())
    return r_N
