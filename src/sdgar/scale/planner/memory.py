"""Bytes in memory and on disk, by what they are for.

Vectors are held twice, for the kernels and for the model. Of the generator's tables there are
copies while they are built or changed: of those of items or of users, not of both at once. This is
the one place with these numbers: what a command says before it starts and what a plan says come
from here.
"""

from __future__ import annotations

from sdgar.maths.neighbours_on_threads import least_memory, system_bytes
from sdgar.scale.planner.machines import Machines
from sdgar.scale.planner.workload import Sizes, Workload
from sdgar.scale.sharded import room_for_weights

_ROW = 44
"""The bytes of a row of a block: its item, its user, a filter of known pairs, its place."""
_ID = 48
"""The bytes of a user while the model is saved: its id and its place, before and after sorting."""
_USER_ON_DISK, _ID_ON_DISK = 24, 8
"""The bytes of a user of a shard, and of an item, beside rows: an id, a place, a start."""
_LIBRARIES = 200 << 20
"""The bytes of a process that has done nothing yet."""
_VERSIONS = 4
"""The most versions of a user's file that are kept while checkpoints may be gone back to."""
BESIDE = 0.7 * 2**30
"""The bytes for libraries, and for tables and lists that are made in pieces of bounded size; the
peak of a training on 300,000 items was that much above the rest."""
_TABLES, _COPIES = 12, 20
"""The bytes of a state of a user or an item: a bin of a table and a probability; and a copy of both
with what they are made from."""


def of_a_row(dim: int, states: int) -> dict[str, int]:
    """Return the bytes of a user or an item in memory, while no table is changed."""
    return {"vectors": 8 * dim, "generator": _TABLES * states, "optimiser": 64}


def of_items(work: Workload) -> int:
    """Return the bytes of all items, with a copy of their tables."""
    each = sum(of_a_row(work.recipe.dim, work.recipe.states).values())
    return work.sizes.items * (each + _COPIES * work.recipe.states)


def of_block(work: Workload) -> int:
    """Return the bytes of the users and rows of a block, or of those that training starts on.

    Their tables are changed while there is no copy of those of items.
    """
    sizes, recipe = work.sizes, work.recipe
    each = sum(of_a_row(recipe.dim, recipe.states).values())
    users, rows = max(sizes.block_users, sizes.start_users), max(sizes.block_rows, sizes.start_rows)
    copies = max(0, users - sizes.items) * _COPIES * recipe.states
    return users * each + copies + _ROW * rows


def in_memory(work: Workload, machines: Machines, *, shared: bool) -> dict[str, float]:
    """Return the bytes that a machine holds while it trains, by what they are for.

    With ``shared`` items each machine has 1 / R of them, else all. It has all rows of a block, and
    the vectors and states of its own users. Every machine starts on the same first rows.
    """
    each = of_a_row(work.recipe.dim, work.recipe.states)
    own = work.sizes.items / (machines.count if shared else 1)
    sizes = work.sizes
    users = max(sizes.block_users / machines.count, sizes.start_users)
    copy = _COPIES * work.recipe.states
    return {
        "items: vectors": own * each["vectors"],
        "items: generator": own * (each["generator"] + copy),
        "items: optimiser": own * each["optimiser"],
        "users of a block": users * sum(each.values()) + max(0.0, users - own) * copy,
        "rows of a block": float(_ROW * max(sizes.block_rows, sizes.start_rows)),
        "libraries and pieces": BESIDE,
    }


def of_weights(work: Workload, machines: Machines) -> tuple[float, int]:
    """Return the bytes for the weights between items on the first machine, and in how many blocks.

    All systems of equations at once are best; what does not fit is solved in blocks.
    """
    k, items = work.recipe.neighbours, work.sizes.items
    if not k:
        return 0.0, 0
    least = least_memory(items, k, threads=machines.cores)
    room = max(system_bytes(k), weights_room(work, machines) - least)
    blocks = -(-items // max(1, room // system_bytes(k)))
    return least + items * system_bytes(k) / blocks, blocks


def weights_room(work: Workload, machines: Machines) -> int:
    """Return the bytes that weights between items may take on the first machine."""
    return room_for_weights(machines.memory, work.sizes.events, _LIBRARIES)


def of_saving(work: Workload) -> float:
    """Return the bytes for the ids of all users, on the first machine as it saves the model."""
    return _ID * work.sizes.users


def on_disk(work: Workload) -> dict[str, float]:
    """Return the bytes on the disk that all machines see, by what they are for."""
    sizes, recipe = work.sizes, work.recipe
    user = 4 * recipe.dim + 4 + 8 * recipe.states
    weights = 24.0 * recipe.neighbours * sizes.items + 8.0 * sizes.events
    return {
        "shards": float(of_shards(sizes)),
        "users between visits": float(_VERSIONS * user * sizes.users),
        "rows in one order": 8.0 * sizes.events,
        "weights between items": weights if recipe.neighbours else 0.0,
        "model": 4.0 * recipe.dim * (sizes.users + sizes.items) + 4.0 * sizes.events,
    }


def of_shards(sizes: Sizes) -> int:
    """Return the bytes of a folder of shards whose ids are integers."""
    return sizes.events * sizes.row_bytes + sizes.users * _USER_ON_DISK + sizes.items * _ID_ON_DISK
