"""What is acknowledged is there, once, whatever becomes of the process that wrote it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from sqlalchemy import text

from sdgar.serve.store import AddedEvents, Database, Event

WRITER = Path(__file__).with_name("writer.py")


def started(what: str, url: str, name: str, count: int) -> subprocess.Popen[str]:
    command = [sys.executable, str(WRITER), what, url, name, str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("kills", [10, pytest.param(30, marks=pytest.mark.exhaustive)])
def test_every_acknowledged_event_survives_kill_9(url, kills):
    Database.open(url).close()
    said, _ = started("kill", url, "w", kills).communicate(timeout=300)
    by_writer: dict[str, list[int]] = json.loads(said)
    assert len(by_writer) == kills
    acknowledged = {(name, str(n)) for name, all_ in by_writer.items() for n in all_}
    assert len(acknowledged) > kills
    with Database.open(url) as store:
        found = Counter((event.user, event.item) for event in store.events_after(0, 10**6)[0])
        assert acknowledged <= found.keys()
        assert set(found.values()) == {1}
        # At most the event that was being acknowledged is there besides.
        assert len(found) - len(acknowledged) <= kills
        again = [Event(name, n, key=f"{name} {n}") for name, n in sorted(acknowledged)]
        assert store.add_events(again) == AddedEvents(0, len(again))
        if not store.is_postgresql:
            with store._reading() as connection:
                assert connection.execute(text("PRAGMA integrity_check")).scalar() == "ok"


@pytest.mark.parametrize("names", [("one", "two"), ("same", "same")])
def test_two_processes_write_at_once(url, names):
    """Each event is stored once, also if both send the same ones."""
    Database.open(url).close()
    processes = [started("write", url, name, 80) for name in names]
    for process in processes:
        lines, _ = process.communicate(timeout=120)
        assert process.returncode == 0
        assert len(lines.split()) == 81
    with Database.open(url) as store:
        assert [store.count_events(name) for name in names] == [80, 80]
        numbers = [event.number for event in store.events_after(0)[0]]
        assert numbers == sorted(set(numbers))
