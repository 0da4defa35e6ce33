"""One run from a folder of shards to a saved, measured model, in bounded RAM.

Test rows belong to a sample of users, as ranking every item for every user of large data would take
longer than training. The saved model is the one that was measured: it has learned from all other
rows, and its recommendations exclude the test rows of these users too.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch

from sdgar._version import __version__
from sdgar.data.interactions import Interactions
from sdgar.recommend.recommender import Recommender, most_popular
from sdgar.recommend.update import with_history
from sdgar.runs.run import RunResult, summary_of
from sdgar.runs.watching import Stop, never
from sdgar.runs.workspace import WORK, Workspace, partial_of
from sdgar.scale.needs import ram_needs
from sdgar.scale.shards import Shards
from sdgar.scale.shards.views import Held, Without, hold
from sdgar.scale.training import OnShards, ShardedTraining, require_on_gpu, train_on_shards
from sdgar.scale.workers import ALONE, Workers
from sdgar.settings import CHECKPOINT_SECONDS, KS, TEST_USERS
from sdgar.systems.recipe import recipe_of
from sdgar.training.records import OnPhase

if TYPE_CHECKING:
    from sdgar.systems.learner import Learner

TEST_SHARE = 0.2
"""The share of the rows of a test user that is set aside."""
_CPU = torch.device("cpu")
_LOGGER = logging.getLogger("sdgar")


def run_shards(
    estimator: Learner,
    shards: Shards,
    *,
    out: Path,
    overwrite: bool = False,
    ram: int,
    together: int,
    test_users: int = TEST_USERS,
    gpu_memory: int | None = None,
    ks: tuple[int, ...] = KS,
    on_epoch: OnPhase | None = None,
    resume: bool = False,
    checkpoint_every: float = CHECKPOINT_SECONDS,
    stop: Stop = never,
    command: Mapping[str, Any] | None = None,
    report_note: Callable[[str], None] = _LOGGER.info,
    workers: Workers = ALONE,
) -> RunResult | None:
    """Train on shards, read the test rows once, and save; see ``sdgar.runs.run.run``.

    The first of several workers does that. The others do their part, and return None.
    """
    ram_needs(estimator, shards, together).require_within(ram, together)
    work = partial_of(out) / WORK
    how = OnShards(together=together, work=work, ram=ram, workers=workers, gpu_memory=gpu_memory)
    require_on_gpu(estimator, shards, how)
    identity = identity_of(estimator, shards, together, test_users, ks)
    workspace = Workspace(
        out, identity, command=command, overwrite=overwrite, resume=resume, on_epoch=on_epoch
    )
    with (
        workers.working(identity | {"sdgar": __version__}),
        workspace if workers.leads else nullcontext(),
    ):
        seed = int(estimator.get_params()["seed"])
        test = hold(shards, users=test_users, share=TEST_SHARE, seed=seed)
        train = Without(shards, test.rows_E)
        if not workers.leads:
            ShardedTraining(estimator, train, how).follow()
            return None
        checkpoints = workspace.checkpoints(_CPU, checkpoint_every, stop, report_note)
        train_on_shards(
            estimator, train, how, on_epoch=workspace.record, checkpoints=checkpoints, verbose=False
        )
        model = estimator.recommender_
        before = time.perf_counter()
        rows = rows_of(shards, test)
        report, popular = (one.evaluate(rows, ks=ks) for one in (model, most_popular(model)))
        summary = summary_of(estimator, cast("Interactions", train), report, popular, "validated")
        summary["kept"] = {
            "rows": "measured",
            "users": shards.n_users,
            "items": shards.n_items,
            "interactions": train.n_rows,
        }
        summary["seconds"]["evaluate"] += round(time.perf_counter() - before, 3)
        if workers.count > 1:
            summary["workers"] = {
                "count": workers.count,
                "machines": workers.machines,
                "sent in steps": workers.sent,
            }
        model = Recommender(with_history(model.saved, shards.interactions(work)))
        workspace.commit(model, {"report": summary})
    return RunResult(model, report, popular, summary, recipe_of(estimator).trained.log)


def identity_of(
    estimator: Learner, shards: Shards, together: int, test_users: int, ks: tuple[int, ...]
) -> dict[str, Any]:
    """Return what must be the same to resume a run, and for workers to train together."""
    return {
        "system": recipe_of(estimator).name,
        **recipe_of(estimator).settings,
        "data": shards.digest,
        "together": together,
        "test users": test_users,
        "k": list(ks),
    }


def rows_of(shards: Shards, held: Held) -> Interactions:
    """Return rows that were set aside, with the ids of their users and items."""
    raw = np.concatenate([shard.users.at(own) for shard, own in shards.with_users(held.users_T)])
    users_E = np.repeat(np.arange(len(raw)), np.diff(held.held_out.indptr_T1))
    items = shards.items.at(held.held_out.items_E)
    return Interactions.from_arrays(raw[users_E], items)
