"""``sdgar plan``: what a training would take, on machines that need not be there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sdgar.arguments import one_of
from sdgar.cli import options
from sdgar.cli.console import Screen
from sdgar.cli.planned import size, tell_plan
from sdgar.errors import ResourceError, UsageError

if TYPE_CHECKING:
    from sdgar.scale.planner.rates import Rates

_LAYOUTS = ("auto", "copied", "shared")


def plan(
    users: Annotated[str, typer.Option("--users", metavar="N", help="Plan for so many users.")],
    items: Annotated[str, typer.Option("--items", metavar="N", help="Plan for so many items.")],
    events: Annotated[
        str, typer.Option("--events", metavar="N", help="Plan for so many rows of events, as 1e11.")
    ],
    system: options.System = options.DEFAULT_SYSTEM,
    settings: options.Settings = None,
    machines: Annotated[
        int | None,
        typer.Option(
            "--machines",
            metavar="N",
            help="Plan with so many machines; without it, with the fewest that have room.",
        ),
    ] = None,
    hours: Annotated[
        float | None,
        typer.Option(
            "--hours", metavar="H", help="Use as many machines as an epoch within H hours needs."
        ),
    ] = None,
    cores: Annotated[
        int, typer.Option("--cores", metavar="N", help="Plan with so many cores a machine.")
    ] = 64,
    memory: Annotated[
        str,
        typer.Option("--memory", metavar="BYTES", help="Plan with so much memory a machine."),
    ] = "512GiB",
    network: Annotated[
        str,
        typer.Option(
            "--network", metavar="RATE", help="Plan with this network, as 100Gbit or 10GB a second."
        ),
    ] = "100Gbit",
    latency: Annotated[
        float,
        typer.Option(
            "--latency", metavar="SECONDS", help="Plan with this time until a message has come."
        ),
    ] = 1e-4,
    disk: Annotated[
        str,
        typer.Option("--disk", metavar="RATE", help="Plan with this disk, as 1GB a second."),
    ] = "1GB",
    price: Annotated[
        float,
        typer.Option("--price", metavar="X", help="Count X for a machine and hour."),
    ] = 0.0,
    layout: Annotated[
        str,
        typer.Option(
            "--layout",
            help="Have all items on each machine (copied), or 1/R of them (shared); auto copies "
            "them if they fit.",
        ),
    ] = "auto",
    rates: Annotated[
        Path | None,
        typer.Option(
            "--rates",
            metavar="FILE",
            help="Take the rates of a core from what this command printed with --json elsewhere; "
            "without it they are measured here in a few seconds.",
        ),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Say what a training on shards would take: memory, machines, hours and cost.

    The numbers follow from sizes and from how fast one core is, which is measured here or read from
    --rates. Nothing is trained, and no data is needed.
    """
    from sdgar.scale.planner.limits import limits
    from sdgar.scale.planner.machines import Machines
    from sdgar.scale.planner.plan import least_machines
    from sdgar.scale.planner.plan import plan as planned
    from sdgar.scale.planner.probe import probe
    from sdgar.scale.planner.workload import Workload
    from sdgar.systems.learner import Learner
    from sdgar.systems.make import make

    screen = Screen(as_json=as_json)
    one_of("--layout", layout, _LAYOUTS)
    numbers = [_number(f"--{n}", t) for n, t in
               zip(("users", "items", "events"), (users, items, events), strict=True)]  # fmt: skip
    estimator = make(system, options.settings_of(settings, set()), common={})
    if not isinstance(estimator, Learner):
        raise UsageError(
            f"{system} cannot be trained on shards. Plan for sdsoftmax, sdgar or bpr.",
            code="not_by_blocks",
        )
    kind = Machines(
        count=_positive("--machines", 1 if machines is None else machines),
        cores=_positive("--cores", cores),
        memory=options.bytes_of("--memory", memory),
        network=_rate("--network", network),
        latency=_not_negative("--latency", latency),
        disk=_rate("--disk", disk),
        price=_not_negative("--price", price),
    )
    work = Workload.made_up(estimator, *numbers)
    speed = probe(estimator, work.sizes) if rates is None else _read(rates)
    found = None
    for shared in {"auto": (False, True), "copied": (False,), "shared": (True,)}[layout]:
        if machines is None:
            found = least_machines(work, kind, speed, shared=shared, hours=hours)
        else:
            found = planned(work, kind, speed, shared=shared)
        if found is not None and found.fits:
            break
    if found is None:
        wish = "" if hours is None else f", or none that runs an epoch in {hours:g} hours"
        raise ResourceError(
            f"no number of machines with {size(kind.memory)} has room{wish}. Plan with more memory "
            "a machine, fewer items, dim or states, more hours, or --layout shared.",
            code="no_plan",
        )
    ends = limits(
        lambda growth: Workload.made_up(
            estimator, *(max(1, round(growth * n)) for n in numbers)
        ).for_workers(found.machines.count),
        found.machines,
        shared=found.shared,
    )
    if not found.fits:
        screen.warn(
            f"a machine needs {size(found.bytes_in_memory)} and has {size(kind.memory)}: this plan "
            "does not work. Leave --machines out to find the number that does."
        )
    tell_plan(screen, found, ends, priced=price > 0)
    screen.result(
        found.as_dict()
        | {"rates": speed.as_dict()}
        | {"limits": [{"what": e.what, "growth": e.growth, "cure": e.cure} for e in ends]}
    )


def _number(option: str, text: str) -> int:
    """Read a count that may be written as 1e9."""
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not 1 <= value <= 1e18:
        raise UsageError(
            f"{option} must be a number from 1 to 1e18, such as 1e9, got {text!r}.",
            code="bad_option",
        )
    return round(value)


def _positive(option: str, value: int) -> int:
    if value < 1:
        raise UsageError(f"{option} must be at least 1, got {value}.", code="bad_option")
    return value


def _not_negative(option: str, value: float) -> float:
    if not 0 <= value < float("inf"):
        raise UsageError(
            f"{option} must be a number of at least 0, got {value}.", code="bad_option"
        )
    return value


def _rate(option: str, text: str) -> float:
    """Read bytes a second, written as 100Gbit or 2GB."""
    bits = text.lower().endswith("bit")
    digits = text.lower().removesuffix("bit").removesuffix("b").rstrip("kmgt")
    unit = text.lower()[len(digits) : len(digits) + 1]
    try:
        value = float(digits)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise UsageError(
            f"{option} must be bytes or bits a second, such as 2GB or 100Gbit, got {text!r}.",
            code="bad_option",
        )
    power = " kmgt".index(unit) if unit in "kmgt" and unit else 0
    return float(value * 1000**power / (8 if bits else 1))


def _read(path: Path) -> Rates:
    from sdgar.errors import DataError
    from sdgar.scale.planner.rates import Rates

    try:
        return Rates.from_dict(json.loads(path.read_text()))
    except (OSError, ValueError) as error:
        raise DataError(
            f"{path} has no rates ({error}). Write one with sdgar plan … --json > FILE.",
            code="bad_rates",
        ) from error
