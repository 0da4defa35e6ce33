"""Workers: processes that train one model together, on one machine or on several.

The first one leads: it decides, measures, writes and prints. The others follow its orders. They
meet where the variables of torchrun say (RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT) or at a
store, and communicate by torch.distributed over gloo, in plain bytes and never in pickles. Workers
of one machine also share memory; see ``shared_memory.py``.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor

from sdgar.errors import ResourceError, UsageError
from sdgar.scale.shared_memory import memory_name

_CHECKS, _CHECK_SECONDS = 20, 0.1
"""How often the error of a lost worker is read, and the seconds between."""
_gather: Any = getattr(dist, "all_gather_single", dist.all_gather_into_tensor)
"""The newer name, where torch has it; the older one is deprecated there."""
_FAILED = "failed"
"""The name under which the first error of all is written."""


@dataclass(slots=True, eq=False)
class Workers:
    """The processes that train together, seen from one of them."""

    number: int = 0
    """The number of this process, from 0."""
    machine_R: tuple[int, ...] = (0,)
    """The number of the machine of each process, in the order of their first processes."""
    sent: int = 0
    """The bytes that this process sent to others in steps, padding included."""
    store: Any = None
    """The store by which the processes have met."""
    cure: str = "Resume with --resume, with any number of workers."
    """What to do when one of the processes is lost."""
    _waiting: Any = field(default=None, repr=False)
    """The group in which the others wait for the first."""
    _first: Any = field(default=None, repr=False)
    """The group of the first process of each machine."""
    _taken: int = field(default=0, repr=False)

    @property
    def leads(self) -> bool:
        """True for the process that decides, writes and speaks."""
        return self.number == 0

    @property
    def count(self) -> int:
        """The number of processes."""
        return len(self.machine_R)

    @property
    def machine(self) -> int:
        """The number of the machine of this process."""
        return self.machine_R[self.number]

    @property
    def machines(self) -> int:
        """The number of machines."""
        return max(self.machine_R) + 1

    @property
    def here(self) -> int:
        """The number of processes on this machine."""
        return self.machine_R.count(self.machine)

    @property
    def local(self) -> int:
        """The number of this process among the processes of its machine, from 0."""
        return self.machine_R[: self.number].count(self.machine)

    def owner(self, shard: int) -> int:
        """Return the number of the process that has the users of a shard."""
        return shard % self.count

    def owns(self, shard: int) -> bool:
        """Return whether this process has the users of a shard."""
        return self.owner(shard) == self.number

    def gather(self, sent: Tensor, received: Tensor) -> None:
        """Fill ``received`` with the tensors of the first processes of all machines."""
        self.sent += (self.machines - 1) * sent.numel() * sent.element_size()
        with self._errors_in_words():
            _gather(received, sent, group=self._first)

    def spread(self, arrays: Iterable[NDArray[Any]]) -> None:
        """Copy the arrays of the first process to all machines.

        The processes of one machine share these arrays.
        """
        if self.machines > 1 and self.local == 0:
            for array in arrays:
                with self._errors_in_words():
                    dist.broadcast(torch.from_numpy(array), 0, group=self._first)
        self.meet()

    def own_chunks(self, count: int) -> range:
        """Return the numbers of the chunks of an update that this process computes."""
        return range(self.number, count, self.count)

    def collect(
        self, chunks: list[Tensor | None], shapes: Sequence[tuple[int, ...]]
    ) -> list[Tensor]:
        """Return the chunks of all processes, each of which has computed its own."""
        found = []
        for number, (chunk, shape) in enumerate(zip(chunks, shapes, strict=True)):
            whole = torch.empty(shape) if chunk is None else chunk.contiguous()
            if self.count > 1:
                with self._errors_in_words():
                    dist.broadcast(whole, number % self.count)
            found.append(whole)
        return found

    def take_number(self) -> int:
        """Return a new number, the same for all processes that call this as often."""
        self._taken += 1
        return self._taken

    def lost(self, found: str) -> LostError:
        """Return the error of a process that has lost another one."""
        return LostError(self.number, self._why(found), self.cure)

    def meet(self) -> None:
        """Wait until all processes are here."""
        if self.count > 1:
            with self._errors_in_words():
                dist.barrier(group=self._waiting)

    def send(self, **order: Any) -> None:
        """Send an order to the processes that follow; only the first process does."""
        if self.count > 1 and self.leads:
            text = torch.frombuffer(bytearray(json.dumps(order).encode()), dtype=torch.uint8)
            self._broadcast(torch.tensor(len(text)))
            self._broadcast(text)

    def receive(self) -> dict[str, Any]:
        """Return the next order of the first process."""
        size = torch.tensor(0)
        self._broadcast(size)
        text = torch.zeros(int(size), dtype=torch.uint8)
        self._broadcast(text)
        return dict(json.loads(text.numpy().tobytes()))

    def agree(self, identity: Mapping[str, Any]) -> None:
        """Raise if the identity of a run is another for one of the processes; name what differs."""
        if self.count == 1:
            return
        with self._errors_in_words():
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
                    f"the workers have different settings: {'; '.join(differ)}. Start all of "
                    "them with the same sdgar, data and options.",
                    code="workers_differ",
                )

    @contextmanager
    def working(self, identity: Mapping[str, Any]) -> Iterator[None]:
        """Check that all workers agree; report an error to the others, and end them in the end."""
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
        """End the others, if this is the first process."""
        with suppress(LostError):
            self.send(do="end")

    def _broadcast(self, tensor: Tensor) -> None:
        with self._errors_in_words():
            dist.broadcast(tensor, 0, group=self._waiting)

    @contextmanager
    def _errors_in_words(self) -> Iterator[None]:
        """Turn an error of gloo or the store into a sentence."""
        try:
            yield
        except RuntimeError as error:
            raise self.lost(" ".join(str(error).split()).partition("] ")[2]) from error

    def _why(self, found: str) -> str:
        """Return the error of the first process that failed, or else what was noticed."""
        with suppress(RuntimeError):
            for _ in range(_CHECKS):  # the error may be about to be written
                if self.store.check([_FAILED]):
                    return str(self.store.get(_FAILED).decode()).rstrip(".")
                time.sleep(_CHECK_SECONDS)
        said = found.partition(". ")[0]
        return f"another worker was killed, or cannot be reached any more ({said})"


ALONE = Workers()
"""The only process, which has all users."""


class LostError(ResourceError):
    """The error of a worker that has lost another one."""

    def __init__(self, number: int, why: str, cure: str) -> None:
        super().__init__(f"worker {number} cannot continue: {why}. {cure}", code="worker_lost")


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
        raise _absent(number, count, seconds, error) from error
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
        store.set(f"here/{number}", memory_name() if machine is None else machine)
        store.wait([f"here/{n}" for n in range(count)], limit)
        machine_R = _numbered([store.get(f"here/{n}") for n in range(count)])
        dist.init_process_group("gloo", store=store, rank=number, world_size=count, timeout=_STEP)
        waiting = dist.new_group(backend="gloo", timeout=_WAIT)
        first = [machine_R.index(m) for m in range(max(machine_R) + 1)]
        leaders = dist.new_group(first, backend="gloo", timeout=_STEP)
    except (RuntimeError, ValueError) as error:
        raise _absent(number, count, seconds, error) from error
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


def _absent(number: int, count: int, seconds: float, error: Exception) -> ResourceError:
    return ResourceError(
        f"worker {number} of {count} has waited up to {seconds:g} seconds for the others "
        f"({' '.join(str(error).split())[:200]}). Start all of them, where MASTER_ADDR and "
        "MASTER_PORT can be reached.",
        code="worker_missing",
    )
