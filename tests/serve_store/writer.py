"""Processes that write events one by one, and say of each when it is stored."""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time

from sdgar.serve.store import Database, Event


def write(url: str, name: str, count: int, out: int) -> None:
    """Store events, and acknowledge each by a line."""
    store = Database.open(url)
    os.write(out, b"open\n")
    for n in range(count):
        store.add_events([Event(name, str(n), key=f"{name} {n}")])
        os.write(out, f"{n}\n".encode())


def killed(url: str, name: str, count: int, seconds: float) -> list[int]:
    """Return what a process acknowledged that is killed soon after so many of its events."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            write(url, name, 100_000, writing)
        finally:
            os._exit(1)
    os.close(writing)
    with os.fdopen(reading) as lines:
        assert lines.readline() == "open\n"
        said = "".join(lines.readline() for _ in range(count))
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        assert os.WTERMSIG(status) == signal.SIGKILL
        # A line that is cut by the kill was not acknowledged.
        return [int(n) for n in (said + lines.read()).split("\n")[:-1]]


if __name__ == "__main__":
    what, url, name, count = sys.argv[1:]
    if what == "write":
        write(url, name, int(count), sys.stdout.fileno())
    else:
        moments = random.Random(7)
        by_writer = {
            f"{name}{n}": killed(url, f"{name}{n}", moments.randint(0, 9), moments.uniform(0, 0.02))
            for n in range(int(count))
        }
        json.dump(by_writer, sys.stdout)
