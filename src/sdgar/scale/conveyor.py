"""Buffers for blocks of users on their way to a GPU and back: pinned RAM, and GPU memory.

    read → pinned memory → GPU, one block ahead        (a separate thread and stream)
    epoch of the block that is there                   (the stream of all other work)
    GPU → pinned memory → put, one block behind        (a separate thread and stream)

Copies between pinned memory and the GPU run in parallel to its work. A block has a slot from the
time it is read until its users are stored; with three slots one block can come and one leave while
one is computed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

SLOTS = 3
"""The number of blocks that are on the device or on their way."""

Loaded = TypeVar("Loaded")
"""The record of a block that is on the device."""
Part = TypeVar("Part")
"""One part of a block."""


Kinds = Mapping[str, tuple[tuple[int, ...], torch.dtype]]
"""The largest shape and the type of each table of a block, by its name."""


class Slot:
    """Buffers for the tables of one block, in RAM and on the device, which are reused."""

    def __init__(self, kinds: Kinds, device: torch.device) -> None:
        on_gpu = device.type == "cuda"
        self._here = {
            name: torch.empty(shape, dtype=dtype, pin_memory=on_gpu)
            for name, (shape, dtype) in kinds.items()
        }
        self._there = {
            name: torch.empty_like(here, device=device) for name, here in self._here.items()
        }

    def table(self, name: str, rows: int) -> tuple[Tensor, Tensor]:
        """Return the buffers for a table of so many rows, in RAM and on the device."""
        return self._here[name][:rows], self._there[name][:rows]


class Copies:
    """Copies between RAM and the device, in the order in which they are requested."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        on_gpu = device.type == "cuda"
        self._stream: Any = torch.cuda.Stream(device) if on_gpu else None  # type: ignore[no-untyped-call]

    def make(self, pairs: Sequence[tuple[Tensor, Tensor]], after: Any = None) -> None:
        """Copy each second tensor to the first, after an event, and wait until all are done."""
        if self._stream is None:
            for to, source in pairs:
                to.copy_(source)
            return
        with torch.cuda.stream(self._stream):
            if after is not None:
                self._stream.wait_event(after)
            for to, source in pairs:
                to.copy_(source, non_blocking=True)
        self._stream.synchronize()

    def mark(self) -> Any:
        """Return an event after all work that is queued so far."""
        if self._stream is None:
            return None
        event = torch.cuda.Event()  # type: ignore[no-untyped-call]
        event.record(torch.cuda.current_stream(self._device))
        return event


class Conveyor(Generic[Loaded]):
    """The slots of a device, and the threads that fill and empty them."""

    def __init__(self, kinds: Kinds, device: torch.device, *, threads: int) -> None:
        """Allocate buffers for tables of these kinds."""
        self._slots = [Slot(kinds, device) for _ in range(SLOTS)]
        if device.type == "cuda":
            torch.cuda.synchronize(device)  # other streams may use the buffers from here on
        self._threads = threads
        self.coming, self.leaving = Copies(device), Copies(device)
        """The copies to the device, and the copies from it."""
        self.wait_seconds = 0.0
        """The seconds for which the last round waited for blocks that had not come yet."""
        self._left: dict[int, Future[None]] = {}
        self._writer: ThreadPoolExecutor | None = None
        self._many: ThreadPoolExecutor | None = None

    def round(
        self, order: Sequence[int], load: Callable[[int, Slot], Loaded]
    ) -> Generator[tuple[int, Slot, Loaded]]:
        """Yield all blocks in this order, each with its slot and what ``load`` gave.

        The next block is loaded meanwhile. All that ``leave`` was given is done in the end.
        """
        self.wait_seconds, self._left = 0.0, {}
        with (
            ThreadPoolExecutor(self._threads) as self._many,
            ThreadPoolExecutor(1) as self._writer,
            ThreadPoolExecutor(1) as reader,
        ):
            ahead = self._load(reader, 0, order, load)
            for number, block in enumerate(order):
                start = time.perf_counter()
                loaded = ahead.result()
                self.wait_seconds += time.perf_counter() - start
                if number + 1 < len(order):
                    ahead = self._load(reader, number + 1, order, load)
                yield block, self._slots[number % SLOTS], loaded
            start = time.perf_counter()
            for left in self._left.values():
                left.result()
            self.wait_seconds += time.perf_counter() - start

    def leave(self, slot: Slot, work: Callable[[], None]) -> None:
        """Queue the writer's work, after which the slot is free."""
        assert self._writer is not None
        self._left[id(slot)] = self._writer.submit(work)

    def each(self, work: Callable[[Part], None], parts: Sequence[Part]) -> None:
        """Do some work for each part of a block, by several threads."""
        assert self._many is not None
        list(self._many.map(work, parts))

    def _load(
        self,
        reader: ThreadPoolExecutor,
        number: int,
        order: Sequence[int],
        load: Callable[[int, Slot], Loaded],
    ) -> Future[Loaded]:
        slot = self._slots[number % SLOTS]
        left = self._left.get(id(slot))

        def work() -> Loaded:
            if left is not None:
                left.result()
            return load(order[number], slot)

        return reader.submit(work)
