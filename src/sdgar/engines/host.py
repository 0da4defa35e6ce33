"""The work that all engines share: weights, states and divergence."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from sdgar.contracts import System
from sdgar.engines.protocol import Coverage, EpochStats
from sdgar.errors import NumericalError, UsageError

if TYPE_CHECKING:
    from sdgar.data.interactions import Interactions


def scaled_weights(data: Interactions) -> NDArray[np.float32] | None:
    """ω_E = weight_E / mean(weight_E), so that the learning rate keeps its meaning.

    The answer is None if all rows weigh 1.
    """
    if data.weight_E is None:
        return None
    mean = data.weight_E.mean(dtype=np.float64)
    scaled_E: NDArray[np.float32] = (data.weight_E / mean).astype(np.float32)
    return scaled_E


class StateParts(NamedTuple):
    """The state of an engine in three parts: of the model, the optimiser and the sampler."""

    model: Mapping[str, Tensor]
    optimizer: Mapping[str, Tensor]
    sampler: Mapping[str, Tensor]

    def flat(self) -> dict[str, Tensor]:
        """Return copies of all tensors under names like ``model.user_UD``, for a checkpoint."""
        return {
            f"{part}.{name}": tensor.clone()
            for part, tensors in self._asdict().items()
            for name, tensor in tensors.items()
        }

    @classmethod
    def of(cls, state: Mapping[str, Tensor]) -> StateParts:
        """Split a state that ``flat`` returned into its parts."""
        parts: dict[str, dict[str, Tensor]] = {part: {} for part in cls._fields}
        for name, tensor in state.items():
            part, _, rest = name.partition(".")
            parts[part][rest] = tensor
        return cls(**parts)


def diverged(found: str, system: System, epoch: int) -> NumericalError:
    """Return the error for a model that diverged; ``found`` is a sentence without its end."""
    return NumericalError(
        f"{found} in epoch {epoch}: the model diverged. Lower the learning rate "
        f"(now {system.optimizer.learning_rate:g}) or raise l2 (now {system.l2:g}).",
        code="diverged",
    )


def mean_stats(
    system: System, n_rows: int, start: float, loss: float, effective: float, unanswered: float
) -> EpochStats:
    """Turn the sums of an epoch that began at ``start`` into means over its rows.

    Only objectives that weigh their negatives, for which they need log Q, have an effective number.
    """
    weighs = getattr(system.objective, "needs_log_q", False)
    return EpochStats(
        loss / n_rows,
        n_rows,
        time.perf_counter() - start,
        int(unanswered),
        effective / n_rows if weighs else None,
    )


def over_blocks(found: Sequence[EpochStats], start: float) -> EpochStats:
    """Return the means over the positives of all blocks, of an epoch that began at ``start``."""
    n_rows = sum(stats.positives for stats in found)
    loss = sum(stats.loss * stats.positives for stats in found) / n_rows
    weighed = [s.effective * s.positives for s in found if s.effective is not None]
    return EpochStats(
        loss,
        n_rows,
        time.perf_counter() - start,
        sum(stats.unanswered for stats in found),
        sum(weighed) / n_rows if weighed else None,
    )


def require_covered(name: str, answer: Coverage) -> None:
    """Raise if an engine cannot run a system."""
    if not answer.runs:
        raise UsageError(f"the engine {name} cannot run this: {answer.why}.", code="not_covered")
