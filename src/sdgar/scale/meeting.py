"""Where workers meet: by the variables that torchrun sets, or at a store.

The variables are RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any

import torch.distributed as dist

from sdgar.errors import ResourceError, UsageError
from sdgar.scale.shared_memory import place
from sdgar.scale.workers import Workers

JOIN_SECONDS = 300.0
"""The seconds in which all workers must have come."""
_STEP, _WAIT = timedelta(minutes=30), timedelta(days=2)
"""The longest time between two messages within an epoch, and while the first worker is busy."""


def from_environment() -> tuple[int, int]:
    """Return the number of this process and how many there are, by torchrun's variables."""
    given = {name: os.environ.get(name) for name in ("RANK", "WORLD_SIZE")}
    if None in given.values():
        return 0, 1
    try:
        number, count = (int(str(text)) for text in given.values())
    except ValueError:
        number, count = -1, 0
    if not 0 <= number < count:
        said = " and ".join(f"{name}={text}" for name, text in given.items())
        raise UsageError(
            f"{said} do not say which of how many workers this is. Start workers with torchrun, "
            "or unset both.",
            code="bad_workers",
        )
    return number, count


def join(*, seconds: float = JOIN_SECONDS) -> Workers:
    """Meet the other processes where the environment says; raise if they do not all come."""
    number, count = from_environment()
    if count == 1:
        return Workers()
    from torch.distributed.rendezvous import rendezvous

    limit = timedelta(seconds=seconds)
    try:
        store, _, _ = next(rendezvous("env://", timeout=limit))
    except (RuntimeError, ValueError) as error:
        raise _absent(number, count, seconds, "the others cannot be reached", error) from error
    return meet_at(store, number, count, seconds=seconds)


def meet_at(
    store: Any,
    number: int,
    count: int,
    *,
    machine: str | None = None,
    seconds: float = JOIN_SECONDS,
) -> Workers:
    """Meet the other processes at a store; raise if they do not all come.

    Processes with the same ``machine`` share memory; without a name they are compared by ``place``.
    """
    limit = timedelta(seconds=seconds)
    # The store of torchrun outlives workers that it starts again, with what they have written.
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    store = dist.PrefixStore(f"sdgar/{attempt}", store)  # type: ignore[attr-defined]
    try:
        store.set_timeout(limit)
        store.set(f"here/{number}", place() if machine is None else machine)
        store.wait([f"here/{n}" for n in range(count)], limit)
        machine_R = _numbered([store.get(f"here/{n}") for n in range(count)])
        dist.init_process_group("gloo", store=store, rank=number, world_size=count, timeout=_STEP)
        waiting = dist.new_group(backend="gloo", timeout=_WAIT)
        first = [machine_R.index(m) for m in range(max(machine_R) + 1)]
        leaders = dist.new_group(first, backend="gloo", timeout=_STEP)
    except (RuntimeError, ValueError) as error:
        raise _absent(number, count, seconds, _missing(store, count), error) from error
    return Workers(number, machine_R, store=store, _waiting=waiting, _first=leaders)


def _numbered(names: Sequence[bytes]) -> tuple[int, ...]:
    """Return the number of each name, in the order in which names first come."""
    known = list(dict.fromkeys(names))
    return tuple(known.index(name) for name in names)


def leave() -> None:
    """Close the connections of this process."""
    if dist.is_initialized():
        with suppress(RuntimeError):
            dist.destroy_process_group()


def _absent(
    number: int, count: int, seconds: float, missing: str, error: Exception
) -> ResourceError:
    return ResourceError(
        f"worker {number} of {count} has waited up to {seconds:g} seconds, and {missing} "
        f"({' '.join(str(error).split())[:200]}). Start all of them, where MASTER_ADDR and "
        "MASTER_PORT can be reached.",
        code="worker_missing",
    )


def _missing(store: Any, count: int) -> str:
    absent = []
    with suppress(RuntimeError):
        absent = [n for n in range(count) if not store.check([f"here/{n}"])]
    if not absent:
        return "the others cannot be reached"
    return f"worker {', '.join(map(str, absent))} did not come"
