"""The operations of each part of a training: how many numbers are multiplied or added.

    start      least squares: 4 products of each half sweep, O(D) a row and O(D²) a user and item
    classes    latent classes: O(K) a row and step of EM, and tables of all users and items
    users      where the users of every block start: one half sweep, and EM for their states
    prepare    the rows of a block are laid out for the kernels, by one thread
    score      2 D to score, 2 D for the gradient of u_c and 2 K for log Q, for each entry
    move       2 D for the gradient of v_i, for each entry
    follow     draws of the generator: 2 D + 6 K each
    pairs      rows of G, counted once to find neighbours and once for each block of systems
    systems    k³ / 3 for the equations of an item
    measure    2 D for the score of a user and an item, and its place in a list

Where items follow the scores, the first machine does that work for one block (``lead``), and it
chooses the weight of the memory (``choose``). A rate has the same unit, so what a count leaves out
is in the rate.
"""

from __future__ import annotations

from collections.abc import Callable

from sdgar.scale.planner.workload import Workload
from sdgar.training.memory import WEIGHTS

_PRODUCTS = 4
"""The products with the matrix in a half sweep: one before three steps, and one in each."""
_TABLE = 20
"""The operations for an entry of a table that is drawn from."""
_WEIGHTS_TRIED = len(WEIGHTS)
"""The weights of a memory that are compared with none; each ranks the items once more."""
_RANKED = 50
"""The operations to find the place of a score among those of a user, at the speed of a product."""


_LAID_OUT = 64
"""The operations to lay a row out: the user of it, the bits of a filter, the order of visits."""


def start(work: Workload) -> float:
    """Return the operations that start vectors on the first rows, in all passes."""
    sizes, dim = work.sizes, work.recipe.dim
    ends = sizes.start_users + sizes.items
    sweep = 2 * _PRODUCTS * sizes.start_rows * 4 * dim + (_PRODUCTS + 1) * ends * 2 * dim**2
    tables = _TABLE * ends * work.recipe.states
    return float(work.recipe.passes * (work.recipe.sweeps * sweep + tables))


def classes(work: Workload) -> float:
    """Return the operations that fit latent classes to the first rows, in all passes."""
    sizes, recipe = work.sizes, work.recipe
    if not recipe.pretrain or not recipe.states:
        return 0.0
    ends = sizes.start_users + sizes.items
    steps = recipe.pretrain * (6 * sizes.start_rows + 6 * ends) * recipe.states
    return float(recipe.passes * (steps + _TABLE * ends * recipe.states))


def users(work: Workload) -> float:
    """Return the operations that bring all users to where they start, in all passes."""
    sizes, recipe = work.sizes, work.recipe
    dim, states = recipe.dim, recipe.states
    vectors = _PRODUCTS * (sizes.events * 4 * dim + sizes.users * 2 * dim**2)
    steps = recipe.pretrain * 4 * states * (sizes.events + sizes.users)
    tables = _TABLE * states * sizes.users
    return float(recipe.passes * (bool(recipe.sweeps) * vectors + steps + tables))


def prepare(work: Workload) -> float:
    """Return the operations that lay out the rows of blocks in all epochs."""
    return float(work.recipe.all_epochs * _LAID_OUT * work.sizes.events)


def score(work: Workload) -> float:
    """Return the operations that score the visits of all epochs."""
    recipe = work.recipe
    return recipe.all_epochs * work.entries * (4 * recipe.dim + 2 * recipe.states)


def move(work: Workload) -> float:
    """Return the operations that move items in all epochs."""
    return work.recipe.all_epochs * work.entries * 2 * work.recipe.dim


def follow(work: Workload) -> float:
    """Return the operations by which the states of users follow the scores, in all refits."""
    recipe = work.recipe
    each = recipe.samples * (2 * recipe.dim + 6 * recipe.states)
    return float(recipe.refits * 2 * work.sizes.users * each)


def lead(work: Workload) -> float:
    """Return the operations by which items follow the scores, in all refits, with one block."""
    recipe, sizes = work.recipe, work.sizes
    each = recipe.samples * (2 * recipe.dim + 6 * recipe.states)
    return float(recipe.refits * (3 * sizes.block_users + sizes.items) * each)


def pairs(work: Workload, blocks: int) -> float:
    """Return the operations that count which items occur together."""
    return 2 * work.sizes.pairs * (1 + blocks) if work.recipe.neighbours else 0.0


def systems(work: Workload) -> float:
    """Return the operations that solve for the weights between items."""
    return work.sizes.items * work.recipe.neighbours**3 / 3


def choose(work: Workload) -> float:
    """Return the operations that choose the weight of the memory on validation rows."""
    each = 2 * work.recipe.dim + (1 + _WEIGHTS_TRIED) * _RANKED
    return float(bool(work.recipe.neighbours) * _looked_at(work) * work.sizes.items * each)


def measure(work: Workload) -> float:
    """Return the operations that rank all items: in looks, for test rows, and by popularity."""
    recipe, sizes = work.recipe, work.sizes
    tested = min(recipe.test_users, sizes.users)
    scored = recipe.looks * _looked_at(work) + tested
    return float(sizes.items * (scored * (2 * recipe.dim + _RANKED) + tested * _RANKED))


def judge(work: Workload) -> float:
    """Return the operations that measure the chosen model on validation rows once more."""
    return float(_looked_at(work) * work.sizes.items * (2 * work.recipe.dim + _RANKED))


def _looked_at(work: Workload) -> int:
    return min(work.recipe.valid_users, work.sizes.users)


BY_NAME: dict[str, Callable[[Workload], float]] = {
    "start": start,
    "classes": classes,
    "users": users,
    "prepare": prepare,
    "score": score,
    "move": move,
    "follow": follow,
    "lead": lead,
    "systems": systems,
    "choose": choose,
    "measure": measure,
    "judge": judge,
}
"""The parts whose operations do not depend on how much memory there is."""
