"""Batching: queries that wait at the same time are answered together.

One thread computes. While it is busy, queries wait in a queue. When it is free, it takes all
queries of the same kind as the oldest one, up to a limit. So a single query never waits for
others, and many queries are answered by one matrix product. The queue has a limit: further queries
are refused.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from sdgar.serve.problems import Refused

Work = Callable[[Hashable, Sequence[Any]], Sequence[Any]]
"""Answers queries of one kind."""
_MOST, _QUEUE = 64, 1024
"""The maximum number of queries in a batch, and in the queue."""


@dataclass(slots=True)
class _Waiting:
    """A query in the queue."""

    kind: Hashable
    query: Any
    answer: asyncio.Future[Any]


class Batches:
    """A queue of queries for the computing thread."""

    def __init__(self, work: Work, on_batch: Callable[[int], None]) -> None:
        self._work, self._on_batch = work, on_batch
        self._waiting: deque[_Waiting] = deque()
        self._busy = False
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="sdgar-answers")

    def __len__(self) -> int:
        """Return the number of waiting queries."""
        return len(self._waiting)

    async def ask(self, kind: Hashable, query: Any) -> Any:
        """Return the answer to a query, after waiting for its turn."""
        if len(self._waiting) >= _QUEUE:
            raise Refused(503, "Too many queries wait. Try again soon.", retry_after=1)
        future = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(kind, query, future))
        self._start()
        return await future

    def close(self) -> None:
        """Stop the thread after its current batch."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _start(self) -> None:
        if self._busy:
            return
        batch = self._take()
        if not batch:
            return
        self._busy = True
        self._on_batch(len(batch))
        loop = asyncio.get_running_loop()
        queries = [one.query for one in batch]
        running = loop.run_in_executor(self._pool, self._work, batch[0].kind, queries)
        running.add_done_callback(lambda done: self._finish(batch, done))

    def _take(self) -> list[_Waiting]:
        """Remove and return the oldest query and others of its kind; drop cancelled ones."""
        batch: list[_Waiting] = []
        others: list[_Waiting] = []
        while self._waiting and len(batch) < _MOST:
            one = self._waiting.popleft()
            if one.answer.done():
                continue
            (batch if not batch or one.kind == batch[0].kind else others).append(one)
        self._waiting.extendleft(reversed(others))
        return batch

    def _finish(self, batch: list[_Waiting], done: asyncio.Future[Any]) -> None:
        self._busy = False
        error = done.exception() if not done.cancelled() else Refused(503, "The server stops.")
        answers = [None] * len(batch) if error is not None else done.result()
        for one, answer in zip(batch, answers, strict=True):
            if one.answer.done():
                continue
            if error is not None:
                one.answer.set_exception(error)
            else:
                one.answer.set_result(answer)
        self._start()
