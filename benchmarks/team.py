"""Jobs spread over processes, for benchmarks that run many models on one GPU."""

from __future__ import annotations

import multiprocessing as mp
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch


def answers(
    work: Callable[[Any], dict[str, Any]], jobs: Sequence[Any], processes: int
) -> Iterator[dict[str, Any]]:
    """What ``work`` gives for each job, as it comes; an exception is an answer with "error"."""
    context = mp.get_context("spawn")
    todo, done = context.Queue(), context.Queue()
    for job in [*jobs, *[None] * processes]:
        todo.put(job)
    team = [context.Process(target=_member, args=(work, todo, done)) for _ in range(processes)]
    for process in team:
        process.start()
    for _ in jobs:
        yield done.get()
    for process in team:
        process.join()


def _member(work: Callable[[Any], dict[str, Any]], todo: mp.Queue, done: mp.Queue) -> None:
    torch.set_num_threads(1)
    while (job := todo.get()) is not None:
        try:
            done.put(work(job))
        except Exception as error:
            done.put({"job": job, "error": repr(error)})
