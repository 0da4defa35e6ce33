"""A place for what belongs to users, shard by shard, while those of other shards are trained."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Arrays = dict[str, NDArray[Any]]
"""Arrays by name, each with a row for every user of a shard."""


class Users(Protocol):
    """A place for what belongs to the users of shards, between two visits."""

    def has(self, shard: int, kind: str) -> bool:
        """Tell whether something was put for a shard."""
        ...

    def take(self, shard: int, kind: str) -> Arrays | None:
        """Return what was put for a shard; None if nothing was."""
        ...

    def put(self, shard: int, kind: str, arrays: Arrays) -> None:
        """Keep the ``vectors`` or the ``states`` of the users of a shard."""
        ...

    def room(self, name: str, shape: tuple[int, ...]) -> NDArray[np.float32]:
        """Return room for numbers of all users."""
        ...

    def state(self) -> Tensor:
        """Return a tensor by which ``load_state`` goes back to what is kept now."""
        ...

    def load_state(self, state: Tensor) -> None:
        """Go back to what was kept when ``state`` returned this."""
        ...


class InMemory:
    """A place in memory for the users of all shards, which no checkpoint can go back to."""

    def __init__(self) -> None:
        self._kept: dict[tuple[int, str], Arrays] = {}

    def has(self, shard: int, kind: str) -> bool:
        """Tell whether something was put for a shard."""
        return (shard, kind) in self._kept

    def take(self, shard: int, kind: str) -> Arrays | None:
        """Return what was put for a shard; None if nothing was."""
        return self._kept.get((shard, kind))

    def put(self, shard: int, kind: str, arrays: Arrays) -> None:
        """Keep a copy of the ``vectors`` or the ``states`` of the users of a shard."""
        kept = self._kept.setdefault((shard, kind), {})
        for name, array in arrays.items():
            if name in kept:  # memory that is there already takes less time than new memory
                kept[name][...] = array
            else:
                kept[name] = np.array(array)

    def room(self, name: str, shape: tuple[int, ...]) -> NDArray[np.float32]:
        """Return room for numbers of all users."""
        return np.empty(shape, np.float32)

    def state(self) -> Tensor:
        """Return nothing, as users who are in memory are lost with it."""
        return torch.zeros(0)

    def load_state(self, state: Tensor) -> None:
        """Do nothing, as nothing was written."""


class OnDevice(InMemory):
    """A place for the users of all shards in the memory of the device that trains them."""

    def __init__(self) -> None:
        super().__init__()
        self._there: dict[tuple[int, str], dict[str, Tensor]] = {}

    def has(self, shard: int, kind: str) -> bool:
        """Tell whether something was put for a shard."""
        return (shard, kind) in self._there

    def take(self, shard: int, kind: str) -> Arrays | None:
        """Copy what was put for a shard from the device; None if nothing was."""
        if not self.has(shard, kind):
            return None
        return {name: table.cpu().numpy() for name, table in self._there[shard, kind].items()}

    def join(self, shards: range, kind: str) -> dict[str, Tensor] | None:
        """Return what was put for shards that follow each other; None if nothing was."""
        if not self.has(shards[0], kind):
            return None
        parts = [self._there[shard, kind] for shard in shards]
        return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}

    def keep(self, shard: int, kind: str, tables: dict[str, Tensor]) -> None:
        """Keep a copy of tables that are on the device."""
        self._there[shard, kind] = {name: table.clone() for name, table in tables.items()}


def joined(
    users: Users, kind: str, shards: range, some: Iterable[int], start_S1: NDArray[np.int64]
) -> Arrays | None:
    """Return what was put for shards that follow each other, one after the other.

    Only ``some`` of them are taken, and the rows of the others are 0. The answer is None if nothing
    was put.
    """
    begin, end = start_S1[shards.start], start_S1[shards.stop]
    found: Arrays = {}
    for shard in some:
        arrays = users.take(shard, kind)
        if arrays is None:
            return None
        first, last = start_S1[shard : shard + 2] - begin
        for name, array in arrays.items():
            if name not in found:
                found[name] = np.zeros((end - begin, *array.shape[1:]), array.dtype)
            found[name][first:last] = array
    return found


def put_apart(
    users: Users, kind: str, shards: range, arrays: Arrays, start_S1: NDArray[np.int64]
) -> None:
    """Put what belongs to the users of shards that follow each other, shard by shard."""
    for shard in shards:
        first, last = start_S1[shard : shard + 2] - start_S1[shards.start]
        users.put(shard, kind, {name: array[first:last] for name, array in arrays.items()})
