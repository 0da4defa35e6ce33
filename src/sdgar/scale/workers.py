"""Workers: processes that train one model together, on one machine or on several.

The first one leads: it decides, measures, writes and prints. The others follow its orders. They
meet by ``meeting.py``, and communicate by torch.distributed over gloo, in plain bytes and never in
pickles. Workers of one machine also share memory; see ``shared_memory.py``.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor

from sdgar.errors import ResourceError, UsageError

_CHECKS, _CHECK_SECONDS = 20, 0.1
"""How often the error of a lost worker is read, and the seconds between."""
_ORDER_BYTES = 1 << 12
"""The bytes of an order of the first worker."""
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
            text = json.dumps(order).encode()
            self._broadcast(torch.tensor(list(text.ljust(_ORDER_BYTES)), dtype=torch.uint8))

    def receive(self) -> dict[str, Any]:
        """Return the next order of the first process."""
        text = torch.zeros(_ORDER_BYTES, dtype=torch.uint8)
        self._broadcast(text)
        return dict(json.loads(text.numpy().tobytes()))

    def share(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the tensors of the first process."""
        if self.count == 1:
            return dict(tensors)
        about: dict[str, Any] = {
            name: [str(one.dtype), list(one.shape)] for name, one in tensors.items()
        }
        self.send(**about)
        about = about if self.leads else self.receive()
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
