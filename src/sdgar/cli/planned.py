"""How sizes, times and plans are written for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sdgar.cli.console import Screen

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sdgar.scale.planner.limits import Limit
    from sdgar.scale.planner.plan import Plan
    from sdgar.scale.run import Layout
    from sdgar.scale.shards import Shards
    from sdgar.scale.workers import Workers
    from sdgar.systems.learner import Learner

_UNITS = ((1024**4, "TiB"), (1024**3, "GiB"), (1024**2, "MiB"), (1024, "KiB"))
_TIMES = ((86400.0, "days"), (3600.0, "hours"), (60.0, "minutes"))
_MANY_DAYS = 3.0


def size(count: float) -> str:
    """Write a number of bytes in the largest unit of which there is one."""
    for each, unit in _UNITS:
        if count >= each:
            return f"{count / each:,.1f} {unit}"
    return f"{count:,.0f} bytes"


def duration(seconds: float) -> str:
    """Write seconds as days, hours, minutes or seconds, of which there are at least some."""
    for each, unit in _TIMES:
        if seconds >= (_MANY_DAYS if unit == "days" else 1.5) * each:
            return f"{seconds / each:,.1f} {unit}"
    return f"{seconds:,.1f} seconds" if seconds < 10 else f"{seconds:,.0f} seconds"


def tell_estimate(screen: Screen, found: Plan) -> None:
    """Say in one line how long a training on shards will take, and what for."""
    recipe, around = found.work.recipe, found.around
    before = around["start"] + around["latent classes"] + around["start of users"]
    epochs = f"{recipe.all_epochs} epochs" if recipe.all_epochs > 1 else "one epoch"
    most = "at most" if recipe.passes > 1 and recipe.epochs > 1 else "about"
    parts = {
        "start": before,
        f"{epochs} of {duration(found.epoch_seconds)}": 0.0,
        "refits": around["refits"],
        "memory of histories": around["memory of histories"],
        "measuring": around["judging"] + around["measuring"],
    }
    shown = [
        f"{n} {duration(s)}" if s else n for n, s in parts.items() if s or n.startswith(epochs)
    ]
    cores = found.machines.cores * found.machines.count
    screen.say(
        "time",
        f"{most} {duration(found.seconds)} on {cores} cores, by a short probe: {', '.join(shown)}",
    )


def tell_memory(
    screen: Screen,
    estimator: Learner,
    shards: Shards,
    told: Mapping[str, int],
    workers: Workers,
    items: Layout,
) -> bool:
    """Say what a training on shards holds in memory, and of several workers what they send.

    Return whether items are sharded among the workers.
    """
    from sdgar.scale.planner.machines import Machines
    from sdgar.scale.planner.memory import BESIDE
    from sdgar.scale.planner.traffic import sent_a_step
    from sdgar.scale.planner.workload import Workload
    from sdgar.scale.run import bytes_needed, layout_of

    several, together = workers.count > 1, told["together"]
    apart = layout_of(items, estimator, shards, together, told["memory"], workers) == "sharded"
    all_items, block = bytes_needed(estimator, shards, together)
    own = all_items / (workers.count if apart else 1) / 2**30
    shared = " that workers of a machine share," if several and not apart else ""
    each = f" in each of {workers.count} workers" if several else ""
    screen.say(
        "memory",
        f"{own:.2f} GiB for items{shared} and {block / 2**30:.2f} GiB for the users of a block of "
        f"shards{each}, and about {BESIDE / 2**30:.1f} GiB for libraries and pieces",
    )
    if not several:
        return False
    work = Workload.of(estimator, shards, together)
    parts = workers.count if apart else workers.machines
    sent = size(sent_a_step(work, Machines(count=parts), shared=apart))
    screen.say(
        "items",
        f"sharded: each of {parts} workers has a part of them, and sends about {sent} a "
        f"step. The first one needs {size(all_items)} as training starts, looks and ends"
        if apart
        else f"replicated: each machine has all of them, and sends about {sent} a step",
    )
    return apart


def tell_plan(screen: Screen, found: Plan, ends: list[Limit], *, priced: bool) -> None:
    """Show a plan: memory, disk, seconds, cost, and what ends first."""
    machines, sizes = found.machines, found.work.sizes
    items = "shared out among them" if found.shared else "copied to each"
    several = f"{machines.count:,} machines" if machines.count > 1 else "one machine"
    screen.say(
        "machines",
        f"{several} with {machines.cores} cores and {size(machines.memory)}"
        + (f", items {items}" if machines.count > 1 else ""),
    )
    rows = [(name, size(count)) for name, count in found.memory.items()]
    rows.append(("all of it while training", size(sum(found.memory.values()))))
    rows += [(f"first machine: {name}", size(count)) for name, count in found.first.items()]
    screen.table(("memory of a machine", "bytes"), rows)
    screen.table(
        ("disk that all see", "bytes"), [(name, size(count)) for name, count in found.disk.items()]
    )
    each = found.work.recipe.all_epochs
    times = [(f"epoch: {name}", duration(s), duration(each * s)) for name, s in found.epoch.items()]
    times.append(("epoch", duration(found.epoch_seconds), duration(each * found.epoch_seconds)))
    times += [(name, "", duration(s)) for name, s in found.around.items()]
    times.append(("everything", "", duration(found.seconds)))
    screen.table(("seconds of", "one epoch", "all"), times)
    screen.say(
        "network",
        f"{size(found.sent_a_step)} sent by a machine in each of {found.work.steps:,.0f} steps, "
        f"{size(found.sent_an_epoch)} an epoch",
    )
    screen.say("longest", found.bottleneck)
    if priced:
        screen.say(
            "cost",
            f"{found.cost(found.epoch_seconds):,.2f} an epoch, {found.cost(found.seconds):,.2f} "
            "for everything",
        )
    first = ends[0]
    grown = f"{first.growth * sizes.items:,.3g} items, {first.growth * sizes.users:,.3g} users"
    screen.say("limit", f"at {grown}: {first.what} {first.cure}")
