"""Bytes on the network, and how often machines wait for each other.

Items are *copied* to all machines, or *shared* out: item i lies on machine i mod R, and the items
that state k draws on machine k mod R.

    copied   a machine tells all others the factors of its visits, and all move all items
    shared   it asks for draws, fetches (v_i, b_i, y_i) of the items that it met, and sends factors
             to the machines that have these items

An item that several visits of a machine meet in one step is fetched once; here each counts as met
once, which is the most. Draws of known positives, which are tried again, are not counted here.
"""

from __future__ import annotations

from math import ceil

from sdgar.scale.planner.machines import Machines
from sdgar.scale.planner.workload import Workload
from sdgar.scale.traffic import to_all, to_owners

_ROUNDS = {False: 1, True: 11}
"""The messages of a step that wait for each other: factors; with shared items these have a length,
and draws, further tries and rows have a length, a question and an answer."""


def sent_a_step(work: Workload, machines: Machines, *, shared: bool) -> float:
    """Return the bytes that a machine sends in a step, which are as many as it receives."""
    if machines.count == 1:
        return 0.0
    recipe, entries = work.recipe, work.recipe.positives + work.recipe.negatives
    own = work.visits_per_step / machines.count
    if not shared:
        return float(to_all(ceil(own), recipe.dim, entries, machines.count))
    elsewhere = own * machines.rest
    others = (machines.count - 1) * (1 - (1 - 1 / machines.count) ** entries)
    return float(
        to_owners(
            draws=ceil(elsewhere * recipe.negatives) if recipe.states else 0,
            rows=ceil(elsewhere * entries),
            visits=ceil(own * others),
            entries=ceil(elsewhere * entries),
            dim=recipe.dim,
            states=recipe.states,
            workers=machines.count,
        )
    )


def seconds_of_an_epoch(work: Workload, machines: Machines, *, shared: bool) -> dict[str, float]:
    """Return the seconds that bytes are on their way, and those that messages take to come."""
    sent = work.steps * sent_a_step(work, machines, shared=shared)
    waits = work.steps * _ROUNDS[shared] * machines.latency * (machines.count > 1)
    return {"network": sent / machines.network, "waiting": waits}
