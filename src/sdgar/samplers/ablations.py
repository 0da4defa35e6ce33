"""Updates that take something away from a generator, to measure what it was worth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from sdgar.maths.rng import Stream, sort_keys

if TYPE_CHECKING:
    from sdgar.contracts import Score
    from sdgar.samplers.generator import Mixture, Update


@dataclass(frozen=True, slots=True)
class Frozen:
    """The update that leaves the generator as it began, at random."""

    log_target: ClassVar[None] = None

    def __call__(self, generator: Mixture, score: Score, *, seed: int, epoch: int) -> None:
        """Leave the generator as it is."""


@dataclass(frozen=True, slots=True)
class Scrambled:
    """The update that gives every context the states of another one.

    This leaves what the generator is worth when it is fitted, but not to the context at hand.
    """

    update: Update
    """The update whose states are scrambled."""

    def log_target(self, s: Tensor) -> Tensor:
        """log P(i | c) of the update whose states are then scrambled."""
        assert self.update.log_target is not None
        return self.update.log_target(s)

    def __call__(self, generator: Mixture, score: Score, *, seed: int, epoch: int) -> None:
        """Update the generator, then deal the states to other contexts."""
        self.update(generator, score, seed=seed, epoch=epoch)
        rows = torch.arange(len(generator.x_UK), device=generator.x_UK.device)
        generator.deal_x(torch.argsort(sort_keys(seed, Stream.SCRAMBLE, epoch, rows), stable=True))
