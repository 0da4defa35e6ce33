"""A system for the users of a block: the parts with other users and the same items."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import singledispatch
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from torch import Tensor

from sdgar.contracts import System
from sdgar.data.interactions import Interactions
from sdgar.discriminators.bounded import Cosine, directions
from sdgar.discriminators.factorization import MatrixFactorization
from sdgar.errors import UsageError
from sdgar.maths.rng import Stream, uniform_range
from sdgar.models.factor_tensors import FactorTensors
from sdgar.samplers.alias import AliasTables
from sdgar.samplers.decomposable import Decomposable, tables_of_states
from sdgar.samplers.static import Popularity, PopularityMix, Uniform

if TYPE_CHECKING:
    from sdgar.scale.block_engine import BlockEngine
    from sdgar.scale.shards.views import Held


def generator_of(system: System) -> Decomposable | None:
    """Return the generator of a system; None if its sampler has no states of users."""
    sampler = system.sampler
    return sampler if isinstance(sampler, Decomposable) else None


def with_users(system: System, user_UD: Tensor, bins_UK: Tensor | None) -> System:
    """Return the system for users of these vectors, and of these tables of states, if any."""
    discriminator, generator = cast("Any", system.discriminator), generator_of(system)
    sampler = system.sampler
    if generator is not None and bins_UK is not None:
        sampler = generator.for_users(AliasTables(bins_UK))
    return replace(system, discriminator=discriminator.for_users(user_UD), sampler=sampler)


def without_users(system: System) -> System:
    """Return the system for no users."""
    item_ID, generator = cast("Any", system.discriminator).item_ID, generator_of(system)
    bins_UK = None if generator is None else generator.state_of.bin_RN[:0].clone()
    return with_users(system, torch.empty(0, item_ID.shape[1]), bins_UK)


def with_new_users(system: System, data: Interactions, *, seed: int) -> System:
    """Return the system for the users of ``data``, who start where the items lead or at random."""
    return replace(
        system,
        discriminator=_scores(system.discriminator, data, seed),
        sampler=_proposals(system.sampler, data, seed),
    )


@singledispatch
def _scores(part: Any, data: Interactions, seed: int) -> Any:
    raise _not_by_blocks("discriminator", part)


@_scores.register
def _(part: MatrixFactorization, data: Interactions, seed: int) -> MatrixFactorization:
    return part.for_users(part.drawn(data.n_users, part.item_ID.shape[1], seed))


@_scores.register
def _(part: Cosine, data: Interactions, seed: int) -> Cosine:
    return part.for_users(directions(part.item_ID, data))


@singledispatch
def _proposals(part: Any, data: Interactions, seed: int) -> Any:
    raise _not_by_blocks("sampler", part)


@_proposals.register(Uniform)
@_proposals.register(Popularity)
@_proposals.register(PopularityMix)
def _(part: Any, data: Interactions, seed: int) -> Any:
    return part


@_proposals.register
def _(part: Decomposable, data: Interactions, seed: int) -> Decomposable:
    update: Any = part.update
    if getattr(update, "positives", None) is not None:  # which only EM learns
        weight_UK = update.states_of(data.history, part.y_IK)
    else:
        shape = data.n_users, part.y_IK.shape[1]
        drawn = uniform_range(seed, Stream.INIT_GENERATOR, 0, math.prod(shape))
        weight_UK = torch.from_numpy(drawn).reshape(shape).to(part.y_IK.device)
    return part.for_users(tables_of_states(weight_UK))


def _not_by_blocks(kind: str, part: object) -> UsageError:
    return UsageError(
        f"the {kind} {type(part).__name__} cannot be trained on users in blocks. Train sdsoftmax, "
        "sdgar or bpr, or read the events into memory.",
        code="not_by_blocks",
    )


@dataclass(frozen=True, slots=True)
class ValidationUsers:
    """The model of the validation users."""

    engine: BlockEngine
    """The engine that trains them with all others."""
    held: Held
    """The rows that are set aside, and their users."""

    def learned(self) -> FactorTensors:
        """Return the vectors of these users, numbered from 0, and of items."""
        users_T, start_B1, vectors = self.held.users_T, self.engine.blocks.start_B1, []
        own_B = np.split(users_T, np.searchsorted(users_T, start_B1[1:-1]))
        for block, own_T in enumerate(own_B):
            if len(own_T):
                model = self.engine.factors_of_block(block)
                vectors.append(model.user_UD[torch.from_numpy(own_T - start_B1[block])])
        return replace(model, user_UD=torch.cat(vectors))
