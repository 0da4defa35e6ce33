from __future__ import annotations

import asyncio
import threading
from collections.abc import Hashable, Sequence
from typing import Any

import pytest

from sdgar.serve.batches import Batches
from sdgar.serve.problems import Refused


class Work:
    """Answers with the question; the first batch waits until it is let go."""

    def __init__(self) -> None:
        self.batches: list[tuple[Hashable, list[Any]]] = []
        self.go = threading.Event()

    def __call__(self, kind: Hashable, questions: Sequence[Any]) -> Sequence[Any]:
        self.batches.append((kind, list(questions)))
        assert self.go.wait(10)
        if "bad" in questions:
            raise ValueError("bad")
        return [(kind, question) for question in questions]


async def answers_of(batches: Batches, work: Work, pairs: list[tuple[str, Any]]) -> list[Any]:
    first = asyncio.create_task(batches.ask("a", 0))
    while not work.batches:
        await asyncio.sleep(0.001)
    others = [asyncio.create_task(batches.ask(kind, question)) for kind, question in pairs]
    await asyncio.sleep(0)
    work.go.set()
    return await asyncio.gather(first, *others, return_exceptions=True)


def test_queries_that_wait_at_the_same_time_are_answered_together():
    work = Work()
    batches = Batches(work)
    pairs = [("a", 1), ("b", 2), ("a", 3), ("b", 4)]
    found = asyncio.run(answers_of(batches, work, pairs))
    assert found == [("a", 0), *pairs]
    assert work.batches == [("a", [0]), ("a", [1, 3]), ("b", [2, 4])]
    batches.close()


def test_a_batch_is_bounded_and_the_oldest_come_first():
    work = Work()
    batches = Batches(work, most=2)
    asyncio.run(answers_of(batches, work, [("a", n) for n in range(1, 6)]))
    assert [questions for _, questions in work.batches] == [[0], [1, 2], [3, 4], [5]]
    batches.close()


def test_an_error_reaches_those_of_its_batch_only():
    work = Work()
    batches = Batches(work)
    found = asyncio.run(answers_of(batches, work, [("a", "bad"), ("b", 1), ("a", 2)]))
    assert [type(one) for one in found] == [tuple, ValueError, tuple, ValueError]
    batches.close()


def test_a_full_queue_turns_away():
    work = Work()
    batches = Batches(work, queue=2)
    found = asyncio.run(answers_of(batches, work, [("a", n) for n in range(3)]))
    assert [type(one) for one in found] == [tuple, tuple, tuple, Refused]
    assert found[3].status == 503
    batches.close()


def test_a_cancelled_query_is_not_answered():
    work = Work()
    batches = Batches(work)

    async def run() -> None:
        first = asyncio.create_task(batches.ask("a", 0))
        while not work.batches:
            await asyncio.sleep(0.001)
        gone, there = (asyncio.create_task(batches.ask("a", n)) for n in (1, 2))
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
    batches.close()
