from __future__ import annotations

import asyncio
import threading
from collections.abc import Hashable, Iterator, Sequence
from typing import Any

import pytest

from sdgar.serve.batches import Batches
from sdgar.serve.problems import Refused


class Work:
    """Answers with the question; the first batch waits until it is let go."""

    def __init__(self) -> None:
        self.batches: list[tuple[Hashable, list[Any]]] = []
        self.sizes: list[int] = []
        self.go = threading.Event()
        self.queue = Batches(self.answer, self.sizes.append)

    def answer(self, kind: Hashable, questions: Sequence[Any]) -> Sequence[Any]:
        self.batches.append((kind, list(questions)))
        assert self.go.wait(10)
        if "bad" in questions:
            raise ValueError("bad")
        return [(kind, question) for question in questions]

    async def begun(self) -> asyncio.Task[Any]:
        """Ask a first question, and wait until it is being answered."""
        first = asyncio.create_task(self.queue.ask("a", 0))
        while not self.batches:
            await asyncio.sleep(0.001)
        return first

    def answers_of(self, pairs: list[tuple[str, Any]]) -> list[Any]:
        """Ask a first question, and the others while it is being answered."""

        async def run() -> list[Any]:
            tasks = [await self.begun()]
            tasks += [asyncio.create_task(self.queue.ask(*pair)) for pair in pairs]
            await asyncio.sleep(0)
            self.go.set()
            return await asyncio.gather(*tasks, return_exceptions=True)

        return asyncio.run(run())


@pytest.fixture
def work() -> Iterator[Work]:
    made = Work()
    yield made
    made.queue.close()


def test_queries_that_wait_at_the_same_time_are_answered_together(work):
    pairs = [("a", 1), ("b", 2), ("a", 3), ("b", 4)]
    assert work.answers_of(pairs) == [("a", 0), *pairs]
    assert work.batches == [("a", [0]), ("a", [1, 3]), ("b", [2, 4])]
    assert work.sizes == [1, 2, 2]


def test_a_batch_is_bounded_and_the_oldest_come_first(work, monkeypatch):
    monkeypatch.setattr("sdgar.serve.batches._MOST", 2)
    work.answers_of([("a", n) for n in range(1, 6)])
    assert [questions for _, questions in work.batches] == [[0], [1, 2], [3, 4], [5]]


def test_an_error_reaches_those_of_its_batch_only(work):
    found = work.answers_of([("a", "bad"), ("b", 1), ("a", 2)])
    assert [type(one) for one in found] == [tuple, ValueError, tuple, ValueError]


def test_a_full_queue_turns_away(work, monkeypatch):
    monkeypatch.setattr("sdgar.serve.batches._QUEUE", 2)
    found = work.answers_of([("a", n) for n in range(3)])
    assert [type(one) for one in found] == [tuple, tuple, tuple, Refused]
    assert found[3].status == 503


def test_a_cancelled_query_is_not_answered(work):
    async def run() -> None:
        first = await work.begun()
        gone, there = (asyncio.create_task(work.queue.ask("a", n)) for n in (1, 2))
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.sleep(0)
        work.go.set()
        assert await there == ("a", 2)
        await first
        with pytest.raises(asyncio.CancelledError):
            await gone

    asyncio.run(run())
    assert work.batches[1] == ("a", [2])
