"""Requests that wait together are answered together.

One thread computes. While it is busy, questions gather; when it is free, it takes all that are of
the kind of the oldest one, up to a bound. So a lone question never waits for company, and a crowd
is answered by one matrix product. The queue is bounded: whoever finds it full is told to come back.
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
"""Answers questions of one kind, each with an answer."""


@dataclass(slots=True)
class _Waiting:
    kind: Hashable
    question: Any
    answer: asyncio.Future[Any]


class Batches:
    """Questions on their way to the thread that computes."""

    def __init__(
        self,
        work: Work,
        *,
        most: int = 64,
        queue: int = 1024,
        on_batch: Callable[[int], None] | None = None,
    ) -> None:
        self._work, self._most, self._queue = work, most, queue
        self._on_batch = on_batch
        self._waiting: deque[_Waiting] = deque()
        self._busy = False
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="sdgar-answers")

    def __len__(self) -> int:
        """Return how many questions wait."""
        return len(self._waiting)

    async def ask(self, kind: Hashable, question: Any) -> Any:
        """Return the answer to a question, once it was its turn."""
        if len(self._waiting) >= self._queue:
            raise Refused(503, "Too many questions wait. Ask again soon.", retry_after=1)
        future = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(kind, question, future))
        self._start()
        return await future

    def close(self) -> None:
        """Let the thread end after what it is doing."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _start(self) -> None:
        if self._busy:
            return
        batch = self._take()
        if not batch:
            return
        self._busy = True
        if self._on_batch is not None:
            self._on_batch(len(batch))
        loop = asyncio.get_running_loop()
        questions = [one.question for one in batch]
        running = loop.run_in_executor(self._pool, self._work, batch[0].kind, questions)
        running.add_done_callback(lambda done: self._over(batch, done))

    def _take(self) -> list[_Waiting]:
        """Take the oldest question and others of its kind; whoever hung up is dropped."""
        batch: list[_Waiting] = []
        others: list[_Waiting] = []
        while self._waiting and len(batch) < self._most:
            one = self._waiting.popleft()
            if one.answer.done():
                continue
            (batch if not batch or one.kind == batch[0].kind else others).append(one)
        self._waiting.extendleft(reversed(others))
        return batch

    def _over(self, batch: list[_Waiting], done: asyncio.Future[Any]) -> None:
        self._busy = False
        error = done.exception() if not done.cancelled() else Refused(503, "The server ends.")
        answers = [None] * len(batch) if error is not None else done.result()
        for one, answer in zip(batch, answers, strict=True):
            if one.answer.done():
                continue
            if error is not None:
                one.answer.set_exception(error)
            else:
                one.answer.set_result(answer)
        self._start()
