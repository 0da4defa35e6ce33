from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sdgar.errors import UsageError
from sdgar.serve.coordinator import SwapCoordinator
from sdgar.serve.store import Database
from sdgar.serve.swap import ModelSource, ServedModels

from .test_swap import damaged


@pytest.fixture
def shelf(tmp_path: Path, model_folder: Path, other_folder: Path) -> Path:
    shutil.copytree(model_folder, tmp_path / "shelf" / "first")
    shutil.copytree(other_folder, tmp_path / "shelf" / "second")
    return tmp_path / "shelf"


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with Database.open(f"sqlite:///{tmp_path / 'store.db'}") as store:
        yield store


class Member:
    """One process among several, as an object whose steps a test takes."""

    def __init__(
        self,
        shelf: Path,
        database: Database,
        name: str,
        group: str = "g",
        variants: tuple[str, ...] = ("main",),
    ) -> None:
        self.models = ServedModels(
            {name: ModelSource(name, shelf, watched=True) for name in variants}
        )
        for variant in variants:
            self.models.reload(variant, "first")
        self.coordinator = SwapCoordinator(self.models, database, group)
        self.coordinator._name = f"{group} {name}"

    @property
    def serves(self) -> str:
        return self.models.current.first.snapshot.name


def step(*members: Member) -> None:
    """Take the next step of each process, one after the other."""
    for member in members:
        member.coordinator.step()


def refuse_all(member: Member, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a process refuse every model."""

    def no_memory(variant: str, name: str) -> object:
        raise member.models.refuse(variant, name, "there is no memory left")

    monkeypatch.setattr(member.models, "stage", no_memory)


@contextmanager
def stepping(members: list[Member]) -> Iterator[None]:
    """Take the steps of all processes in a thread."""
    over = threading.Event()

    def run() -> None:
        while not over.is_set():
            step(*members)
            time.sleep(0.01)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_all_switch_once_all_are_ready(shelf, database):
    one, two = Member(shelf, database, "one"), Member(shelf, database, "two")
    step(one, two)
    one.coordinator.propose("main", "second")
    step(one)
    assert (one.serves, two.serves) == ("first", "first")  # the other one has not looked yet
    step(two)
    assert two.serves == "second"  # both were ready
    step(one)
    assert one.serves == "second"
    one.coordinator.propose("main", "second")
    for member in (one, two, one):
        member.coordinator.step()
        assert member.serves == "second"


def test_a_refusal_of_one_is_a_refusal_of_all(shelf, database, monkeypatch):
    one, two = Member(shelf, database, "one"), Member(shelf, database, "two")
    refuse_all(two, monkeypatch)
    step(one, two)
    one.coordinator.propose("main", "second")
    step(one, two, one, two)
    assert (one.serves, two.serves) == ("first", "first")
    for member in (one, two):
        assert "no memory" in member.models.refused["main"][1]


def test_a_process_that_is_dead_is_not_waited_for(shelf, database, monkeypatch):
    one, dead = Member(shelf, database, "one"), Member(shelf, database, "dead")
    step(one, dead)
    one.coordinator.propose("main", "second")
    step(one)
    assert one.serves == "first"
    now = time.time
    monkeypatch.setattr("sdgar.serve.coordinator.time.time", lambda: now() + 60)
    monkeypatch.setattr("sdgar.serve.store.database.time.time_ns", lambda: int((now() + 60) * 1e9))
    step(one)
    assert one.serves == "second"


@pytest.mark.parametrize("steps", [1, 3])
def test_a_late_process_follows_the_others(shelf, database, monkeypatch, steps):
    one, late = Member(shelf, database, "one"), Member(shelf, database, "late")
    step(one, late)
    with monkeypatch.context() as patched:
        refuse_all(one, patched)
        one.coordinator.propose("main", "second")
        step(*[one] * steps)
    step(late)
    assert "no memory" in late.models.refused["main"][1]
    assert (one.serves, late.serves) == ("first", "first")


def test_further_variants_change_together_too(shelf, database):
    members = [Member(shelf, database, name, variants=("main", "b")) for name in ("one", "late")]
    step(*members)
    members[0].coordinator.propose("b", "second")
    step(*members, members[1], members[1], members[0])
    for member in members:
        by_name = member.models.current.by_name
        assert [by_name[name].snapshot.name for name in ("main", "b")] == ["first", "second"]


def test_a_new_process_changes_too(shelf, database):
    members = [Member(shelf, database, "one")]
    with stepping(members):
        members[0].coordinator.reload("main", "second")
        members.append(Member(shelf, database, "late"))  # it starts with the first model
        step(members[1])
        members[0].coordinator.reload("main", "second")
    assert [member.serves for member in members] == ["second", "second"]


def test_another_group_goes_its_own_way(shelf, database):
    one, other = Member(shelf, database, "one"), Member(shelf, database, "x", group="h")
    step(one, other)
    one.coordinator.propose("main", "second")
    step(one, other)
    assert (one.serves, other.serves) == ("second", "first")


def test_a_reload_returns_when_all_have_changed(shelf, database):
    one, two = Member(shelf, database, "one"), Member(shelf, database, "two")
    with stepping([one, two]):
        assert one.coordinator.reload("main", "second").name == "second"
        assert (one.serves, two.serves) == ("second", "second")
        damaged(shelf / "first")
        with pytest.raises(UsageError, match="refused"):
            two.coordinator.reload("main", "first")
        damaged(shelf / "first")  # the same bit again: it is repaired
        assert two.coordinator.reload("main", "first").name == "first"
        assert (one.serves, two.serves) == ("first", "first")
        assert two.coordinator.reload("main", "second").name == "second"
        with pytest.raises(UsageError, match="no model"):
            two.coordinator.reload("main", "third")
    assert (one.serves, two.serves) == ("second", "second")
