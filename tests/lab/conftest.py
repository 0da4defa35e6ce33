"""Small data, quick settings and a watcher that can interrupt, for all tests of the lab."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from sdgar.data import splits
from sdgar.data.interactions import Interactions
from sdgar.data.synthetic import Shape, generate
from sdgar.runs.watching import Watch
from sdgar.systems.recipe import spec_of

QUICK = {"epochs": 4, "early_stopping__every": 2, "dim": 4, "batch_size": 512, "engine": "eager"}


@pytest.fixture(scope="session")
def events() -> Interactions:
    return generate(Shape(users=60, items=40, interactions=900, concentration=0.1), seed=0)


@pytest.fixture(scope="session")
def parts(events) -> splits.Split:
    return splits.split(events, "paper", seed=0)


@pytest.fixture
def search_only(monkeypatch) -> Callable[..., None]:
    """Make a search of a system try these settings alone."""

    def only(kind, **space) -> None:
        monkeypatch.setattr(kind, "_spec", replace(spec_of(kind), searched=space))

    return only


class Listening(Watch):
    """Notes what is begun, its epochs and what is over, and can crash at a place."""

    def __init__(self, *, crash_after: int | None = None, crash_in: int | None = None) -> None:
        self.begun: list[str] = []
        self.epochs: list[int] = []
        self.ended: list[str] = []
        self._crash_after, self._crash_in = crash_after, crash_in

    def begin(self, what, loop):
        self.begun.append(what)
        self.epochs.append(0)

        def on_epoch(phase, epoch):
            self.epochs[-1] = epoch.epoch
            if len(self.begun) == self._crash_in and epoch.epoch == 2:
                raise KeyboardInterrupt

        return on_epoch

    def end(self, label, said):
        self.ended.append(label)
        if len(self.ended) == self._crash_after:
            raise KeyboardInterrupt
