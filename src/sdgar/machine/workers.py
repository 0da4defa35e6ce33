"""Workers: processes that train one model together, on one machine or on several.

The first one leads: it decides, measures, writes and speaks. The others follow what it tells them.
They meet by the variables that torchrun sets (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT), and
talk by torch.distributed over gloo, in plain bytes and never in pickles.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from sdgar.errors import ResourceError, UsageError

JOIN_SECONDS = 300.0
"""The seconds in which all workers must have come."""
_STEP, _WAIT = timedelta(minutes=30), timedelta(days=2)
"""The longest time between two messages within an epoch, and while the first worker is busy."""
_LOOKS, _LOOK_SECONDS = 20, 0.1
"""How often one looks for the words of a worker that is gone, and the seconds between."""
_ROOM = 1 << 12
"""The bytes of an order that the first worker gives."""
_gather: Any = getattr(dist, "all_gather_single", dist.all_gather_into_tensor)
"""The newer name, where torch has it; the older one is deprecated there."""
_FAILED = "failed"
"""The name under which the first error of all is written."""


@dataclass(slots=True, eq=False)
class Workers:
    """The processes that train together, seen from one of them."""

    number: int = 0
    """The number of this process, from 0."""
    count: int = 1
    """The number of processes."""
    here: int = 1
    """The number of processes on this machine."""
    sent: int = 0
    """The bytes of factors that this process told each of the others, with what pads them."""
    store: Any = None
    """The store by which the processes have met."""
    _waiting: Any = field(default=None, repr=False)
    """The group in which the others wait for the first."""

    @property
    def leads(self) -> bool:
        """True for the process that decides, writes and speaks."""
        return self.number == 0

    def owner(self, shard: int) -> int:
        """Return the number of the process that has the users of a shard."""
        return shard % self.count

    def owns(self, shard: int) -> bool:
        """Tell whether this process has the users of a shard."""
        return self.owner(shard) == self.number

    def gather(self, said: Tensor, heard: Tensor) -> None:
        """Let ``heard`` be what all processes say, by their numbers; all say as much."""
        self.sent += said.numel() * said.element_size()
        with self._together():
            _gather(heard, said)

    def meet(self) -> None:
        """Wait until all processes are here."""
        if self.count > 1:
            with self._together():
                dist.barrier(group=self._waiting)

    def tell(self, **order: Any) -> None:
        """Give an order to the processes that follow; nothing if this is one of them."""
        if self.count > 1 and self.leads:
            text = json.dumps(order).encode()
            self._broadcast(torch.tensor(list(text.ljust(_ROOM)), dtype=torch.uint8))

    def hear(self) -> dict[str, Any]:
        """Return the next order of the first process."""
        room = torch.zeros(_ROOM, dtype=torch.uint8)
        self._broadcast(room)
        return dict(json.loads(room.numpy().tobytes()))

    def share(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the tensors of the first process; the others give some of the same names."""
        if self.count == 1:
            return dict(tensors)
        about: dict[str, Any] = {
            name: [str(one.dtype), list(one.shape)] for name, one in tensors.items()
        }
        self.tell(**about)
        about = about if self.leads else self.hear()
        shared = {}
        for name, (dtype, shape) in about.items():
            kind = getattr(torch, dtype.removeprefix("torch."))
            one = tensors[name].contiguous() if self.leads else torch.empty(shape, dtype=kind)
            self._broadcast(one)
            shared[name] = one
        return shared

    def agree(self, identity: Mapping[str, Any]) -> None:
        """Raise if the identity of a run is another for one of the processes; name what differs."""
        if self.count == 1:
            return
        with self._together():
            self.store.set(f"identity/{self.number}", json.dumps(identity))
            found = [json.loads(self.store.get(f"identity/{n}")) for n in range(self.count)]
        for number, other in enumerate(found):
            differ = [
                f"{name} is {found[0].get(name)!r} for worker 0 and {other.get(name)!r} for worker "
                f"{number}"
                for name in sorted({*found[0], *other})
                if found[0].get(name) != other.get(name)
            ]
            if differ:
                raise UsageError(
                    f"the workers are to train different things: {'; '.join(differ)}. Start all of "
                    "them with the same sdgar, data and options.",
                    code="workers_differ",
                )

    @contextmanager
    def working(self, identity: Mapping[str, Any]) -> Iterator[None]:
        """Agree with the others, let them know of an error, and end them if this is the first."""
        self.agree(identity)
        try:
            yield
        except LostError:
            raise
        except BaseException as error:
            if self.count > 1 and not self.leads:
                with suppress(RuntimeError):
                    self.store.compare_set(_FAILED, "", f"worker {self.number}: {error}")
            self._end()
            raise
        self._end()

    def _end(self) -> None:
        """Let the others end, if this is the first of them."""
        with suppress(LostError):
            self.tell(do="end")

    def _broadcast(self, tensor: Tensor) -> None:
        with self._together():
            dist.broadcast(tensor, 0, group=self._waiting)

    @contextmanager
    def _together(self) -> Iterator[None]:
        """Turn what gloo and the store say of a process that is gone into a sentence."""
        try:
            yield
        except RuntimeError as error:
            raise LostError(self.number, self._why(error)) from error

    def _why(self, error: RuntimeError) -> str:
        """Return what the first process with an error has said, or else what was noticed."""
        with suppress(RuntimeError):
            for _ in range(_LOOKS):  # it may be about to say it
                if self.store.check([_FAILED]):
                    return str(self.store.get(_FAILED).decode()).rstrip(".")
                time.sleep(_LOOK_SECONDS)
        said = " ".join(str(error).split()).partition("] ")[2].partition(". ")[0]
        return f"another worker was killed, or cannot be reached any more ({said})"


ALONE = Workers()
"""The only process, which has all users."""


class LostError(ResourceError):
    """The error of a worker that has lost another one."""

    def __init__(self, number: int, why: str) -> None:
        super().__init__(
            f"worker {number} cannot go on: {why}. Go on with --resume, with any number of "
            "workers.",
            code="worker_lost",
        )


def asked_for() -> tuple[int, int]:
    """Return the number of this process and how many there are, as torchrun says it."""
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
    number, count = asked_for()
    if count == 1:
        return Workers()
    from torch.distributed.rendezvous import rendezvous

    here = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    limit = timedelta(seconds=seconds)
    try:
        store, _, _ = next(rendezvous("env://", timeout=limit))
    except (RuntimeError, ValueError) as error:
        raise _absent(number, count, seconds, "the others cannot be reached", error) from error
    return meet_at(store, number, count, here, seconds=seconds)


def meet_at(
    store: Any, number: int, count: int, here: int, *, seconds: float = JOIN_SECONDS
) -> Workers:
    """Meet the other processes at a store; raise if they do not all come."""
    limit = timedelta(seconds=seconds)
    # The store of torchrun outlives workers that it starts again, with what they have written.
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    store = dist.PrefixStore(f"sdgar/{attempt}", store)  # type: ignore[attr-defined]
    try:
        store.set_timeout(limit)
        store.set(f"here/{number}", "")
        store.wait([f"here/{n}" for n in range(count)], limit)
        dist.init_process_group("gloo", store=store, rank=number, world_size=count, timeout=_STEP)
        waiting = dist.new_group(backend="gloo", timeout=_WAIT)
    except (RuntimeError, ValueError) as error:
        raise _absent(number, count, seconds, _missing(store, count), error) from error
    return Workers(number, count, here, store=store, _waiting=waiting)


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
