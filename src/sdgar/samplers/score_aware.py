"""The samplers that look at the current scores before they propose."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch

from sdgar.arguments import at_least, not_negative
from sdgar.contracts import Negatives, Positives
from sdgar.errors import UsageError
from sdgar.samplers.static import Static, Uniform

if TYPE_CHECKING:
    from sdgar.parts import Ingredients


@dataclass(frozen=True, slots=True)
class HardestOf(Static):
    """Dynamic negative sampling (Zhang et al. 2013): the best scored of C uniform draws.

        j = argmax_t s(c, j_t),   j_1 … j_C uniform over the items unknown to c

    the first of them on ties. Candidate t of negative j uses slot j·C + t. How likely an item
    is depends on all scores, so log Q is not known.
    """

    candidates: int
    """The number C of uniform draws for each negative."""

    uses_scores: ClassVar[bool] = True
    knows_log_q: ClassVar[bool] = False
    counts_tries: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Raise if nothing would be proposed."""
        at_least("candidates", self.candidates, 1)

    def sample(self, positives: Positives, n: int) -> Negatives:
        """Draw n negatives a row, each the hardest of its candidates."""
        drawn = Uniform().sample(positives, n * self.candidates)
        shape = (len(positives.users_B), n, self.candidates)
        s_BNC = positives.score(positives.users_B, drawn.items_BN).reshape(shape)
        accepted_BNC = drawn.accepted_BN.reshape(shape)
        best_BN1 = torch.where(accepted_BNC, s_BNC, -torch.inf).argmax(dim=2, keepdim=True)
        items_BN = drawn.items_BN.reshape(shape).gather(2, best_BN1).squeeze(2)
        return Negatives(items_BN, accepted_BNC.any(dim=2))


@dataclass(frozen=True, slots=True)
class FirstViolation(Static):
    """Weighted approximate ranking (Weston et al. 2010): uniform draws until one violates.

        t = min {t : margin + s(c, j_t) - s(c, i⁺) > 0},   j_1, j_2 … uniform over unknown items

    Try t, from 1, uses slot t - 1. ``tries_B`` holds t, from which an objective estimates the
    rank of the positive. A row without a violation in ``max_tries`` keeps its last draw: the
    hinge is 0, so the model learns nothing from it, and it needs no mark.
    """

    margin: float
    """The lead over a negative that a positive should have."""
    max_tries: int
    """The most draws for a positive."""

    uses_scores: ClassVar[bool] = True
    knows_log_q: ClassVar[bool] = False
    counts_tries: ClassVar[bool] = True
    most_negatives: ClassVar[int] = 1
    by_positive: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Raise if nothing would be drawn."""
        at_least("max_tries", self.max_tries, 1)

    def sample(self, positives: Positives, n: int) -> Negatives:
        """Draw one negative a row, by 1, 2, 4 … tries at a time for the rows that still search."""
        if n != 1:
            raise UsageError(
                f"the search for a violation gives 1 negative a positive, and n_negatives is {n}. "
                "Use n_negatives=1.",
                code="one_negative",
            )
        users_B, pos_B, score = positives.users_B, positives.items_B, positives.score
        pos_s_B = score(users_B, pos_B[:, None])[:, 0]
        items_B, tries_B = pos_B.clone(), torch.zeros_like(pos_B)
        accepted_B = torch.zeros_like(pos_B, dtype=torch.bool)
        open_R = torch.arange(len(users_B), device=users_B.device)
        start, stop = 0, 1
        while start < self.max_tries and len(open_R) > 0:
            slots_N = torch.arange(start, stop, device=users_B.device)
            drawn = Uniform().at(slots_N, positives.rows(open_R))
            s_RN = score(users_B[open_R], drawn.items_BN)
            violates_RN = (self.margin + s_RN - pos_s_B[open_R, None] > 0) & drawn.accepted_BN
            found_R = violates_RN.any(dim=1)
            first_R = torch.where(found_R, violates_RN.int().argmax(dim=1), stop - start - 1)
            items_B[open_R] = drawn.items_BN.gather(1, first_R[:, None])[:, 0]
            accepted_B[open_R] = drawn.accepted_BN.gather(1, first_R[:, None])[:, 0]
            tries_B[open_R] = start + first_R + 1
            open_R = open_R[~found_R]
            start, stop = stop, min(2 * stop + 1, self.max_tries)
        return Negatives(items_B[:, None], accepted_B[:, None], tries_B=tries_B)


def hardest(given: Ingredients, *, candidates: int = 10) -> HardestOf:
    """Return the sampler that takes the best scored of some uniform draws."""
    return HardestOf(candidates)


def first_violation(
    given: Ingredients, *, margin: float = 1.0, max_tries: int = 30
) -> FirstViolation:
    """Return the sampler of the first uniform draw that scores too close to the positive."""
    return FirstViolation(not_negative("margin", margin), max_tries)
