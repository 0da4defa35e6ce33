"""A system for other users: the parts with the same items, and users where training starts.

Users who are not all in memory at once are trained in blocks. Each block has separate
vectors and states of users; all blocks share the items.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import singledispatch
from typing import TYPE_CHECKING, Any

import torch

from sdgar.data.interactions import Interactions
from sdgar.discriminators.bounded import Cosine, directions
from sdgar.discriminators.factorization import MatrixFactorization
from sdgar.errors import UsageError
from sdgar.maths.rng import Stream, uniform_line
from sdgar.samplers.decomposable import Decomposable, tables_of_states
from sdgar.samplers.em import ExpectationMaximization
from sdgar.samplers.static import Popularity, PopularityMix, Uniform

if TYPE_CHECKING:
    from sdgar.contracts import System


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
    if isinstance(part.update, ExpectationMaximization) and part.update.positives is not None:
        weight_UK = part.update.states_of(data.history, part.y_IK)
    else:
        shape = data.n_users, part.y_IK.shape[1]
        drawn = uniform_line(seed, Stream.INIT_GENERATOR, 0, math.prod(shape))
        weight_UK = torch.from_numpy(drawn).reshape(shape).to(part.y_IK.device)
    return part.for_users(tables_of_states(weight_UK))


def _not_by_blocks(kind: str, part: object) -> UsageError:
    return UsageError(
        f"the {kind} {type(part).__name__} cannot be trained on users in blocks. Train sdsoftmax, "
        "sdgar or bpr, or read the events into memory.",
        code="not_by_blocks",
    )
