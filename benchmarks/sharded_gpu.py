"""Measure training on shards on a GPU: users that stay there, and users that come and go.

    python benchmarks/sharded_gpu.py --rows 1e8 --json benchmarks/reports/sharded_gpu.json

Shards are synthetic as ``shards.py --direct`` does, and SD-Softmax is trained on them, two epochs
each way: with all rows and users on the GPU, and with users in blocks that wait on the GPU, in
memory or in files while others are trained. The first epoch also starts the users, so the second
one tells the speed. torch, Triton and NumPy are enough. Runs of other sizes stay in the report.
"""

from __future__ import annotations

import copy
import gc
import hashlib
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from operator import itemgetter
from pathlib import Path
from typing import Any, cast

import torch

from common import device_name, machine, options_of, write_report
from sdgar.contracts import System
from sdgar.data.interactions import Interactions
from sdgar.engines.fused.gpu import FusedGpuEngine
from sdgar.scale.block_system import with_new_users
from sdgar.scale.gpu_block_engine import GpuBlockEngine
from sdgar.scale.needs import START_ROWS
from sdgar.scale.shards import Shards
from sdgar.scale.shards.views import ShardBlocks
from sdgar.scale.users import UsersOnDisk, UserStore
from sdgar.systems.recipe import recipe_of
from sdgar.systems.sdsoftmax import SDSoftmax
from shards import make_direct

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
SEED, EPOCHS = 0, 2
ROWS_EACH = 1_000_000


def say(*words: object) -> None:
    """Print at once, so that a run that is cut off has printed what it found."""
    print(f"{time.perf_counter():8.1f}", *words, flush=True)


def fresh() -> int:
    """Return memory back, and return the bytes of the GPU that are in use; count from here on."""
    gc.collect()
    if DEVICE.type != "cuda":
        return 0
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    return torch.cuda.memory_allocated()


def peak(before: int) -> dict[str, int]:
    """Return the most bytes of the GPU that tensors had, and that were reserved for them.

    Both are those beyond what was in use before.
    """
    if DEVICE.type != "cuda":
        return {"peak_bytes": 0, "reserved_bytes": 0}
    return {
        "peak_bytes": torch.cuda.max_memory_allocated() - before,
        "reserved_bytes": torch.cuda.max_memory_reserved() - before,
    }


def digest(*tables: torch.Tensor) -> str:
    """Return the SHA-256 of the bytes of some tables."""
    found = hashlib.sha256()
    for table in tables:
        found.update(table.detach().cpu().contiguous().numpy().tobytes())
    return found.hexdigest()


def in_blocks(
    system: System, first: Interactions, blocks: ShardBlocks, users: UserStore
) -> tuple[GpuBlockEngine, dict[str, Any]]:
    """Train in blocks, with users that wait in some place."""
    before, start = fresh(), time.perf_counter()
    engine = GpuBlockEngine(
        copy.deepcopy(system), blocks, first=first, users=users, seed=SEED, device=DEVICE
    )
    engine.refit(1)
    found: dict[str, Any] = {"blocks": len(blocks), "refit_seconds": time.perf_counter() - start}
    found["epochs"] = []
    for epoch in range(1, EPOCHS + 1):
        stats = engine.run_epoch(epoch)
        waited, computed = engine.wait_seconds, engine.compute_seconds
        found_out = {"seconds": stats.seconds, "waited": waited, "computed": computed}
        found["epochs"].append({**found_out, "loss": stats.loss})
        say(found["epochs"][-1])
    found |= peak(before)
    model = engine.learned()
    found["sha256"] = digest(model.user_UD, model.item_ID, model.bias_I)
    return engine, found


def all_at_once(
    system: System, first: Interactions, blocks: ShardBlocks, seed: int
) -> tuple[FusedGpuEngine, dict[str, Any]]:
    """Train on all rows at once, with the start that the only block has."""
    before, system = fresh(), copy.deepcopy(system)
    FusedGpuEngine(system, first, seed=SEED, device=DEVICE).refit(1)
    start = time.perf_counter()
    data = blocks[0]
    engine = FusedGpuEngine(
        with_new_users(system, data, seed=seed), data, seed=seed, device=DEVICE
    )  # fmt: skip
    found: dict[str, Any] = {"start_seconds": time.perf_counter() - start, "epochs": []}
    for epoch in range(1, EPOCHS + 1):
        stats = engine.run_epoch(epoch)
        found["epochs"].append({"seconds": stats.seconds, "loss": stats.loss})
        say(found["epochs"][-1])
    return engine, found | peak(before)


def same(engine: FusedGpuEngine, blocks: GpuBlockEngine) -> bool:
    """Return whether an engine of all rows has the bytes of an engine of one block."""
    own, other = engine.state(), blocks.state()
    users = blocks._users
    assert users.on_device
    vectors = users.join(blocks.blocks.parts(0), "vectors")
    assert vectors is not None
    pairs = [
        (own["model.item_ID"], other["optimizer.item_ID"]),
        (own["model.bias_I"], other["optimizer.bias_I"]),
        (own["model.user_UD"], vectors["user_UD"]),
    ]
    return all(torch.equal(a.cpu(), b.cpu()) for a, b in pairs)


def measure(args: Any, work: Path) -> dict[str, Any]:
    """Make shards up, and train on them in all ways."""
    sizes = int(args.rows), args.users, args.items
    folder = work / f"{sizes[0]}.shards"
    n_shards = args.shards or max(4, sizes[0] // ROWS_EACH)
    start = time.perf_counter()
    if not folder.exists():
        make_direct(folder, *sizes, n_shards, threads=max(1, (os.cpu_count() or 2) - 2))
    shards = Shards.open(folder)
    found: dict[str, Any] = {"rows": len(shards), "users": args.users, "items": args.items}
    found |= {"shards": n_shards, "together": args.together, "dim": args.dim}
    found["make_seconds"] = time.perf_counter() - start
    say(f"{len(shards):,} rows are made in {found['make_seconds']:.0f} s")
    blocks = ShardBlocks(shards, args.together)
    first = blocks.rows(0, max(1, int((shards.rows_S.cumsum() <= START_ROWS).sum())))
    recipe = SDSoftmax(dim=args.dim, sampler__states=args.states, item_memory=0, device=DEVICE.type)
    before = fresh()
    settled = recipe_of(recipe).settled(
        cast("Interactions", shards)
    )  # of which only sizes are used
    start = time.perf_counter()
    system = settled.compose(first, seed=SEED, device=DEVICE)
    found["compose_seconds"] = time.perf_counter() - start
    found["compose"] = peak(before)
    found |= {"states": args.states, "batch_size": system.batch_size}
    found |= {"positives_per_visit": system.positives_per_visit, "negatives": system.n_negatives}
    say(f"the system is composed in {found['compose_seconds']:.0f} s")
    found["ways"] = ways = {}
    places: dict[str, Callable[[], UserStore]] = {
        "on the GPU": lambda: UserStore(on_device=True),
        "in memory": UserStore,
        "in files": lambda: UsersOnDisk(work / "users", n_shards),
        "in memory, again": UserStore,
    }
    for name, place in places.items():
        say(f"users wait {name}:")
        _, ways[name] = in_blocks(system, first, blocks, place())
        shutil.rmtree(work / "users", ignore_errors=True)
    say("one block:")
    whole = ShardBlocks(shards, n_shards)
    one, ways["one block"] = in_blocks(system, first, whole, UserStore(on_device=True))
    say("all rows at once:")
    engine, ways["all rows at once"] = all_at_once(system, first, whole, one._seed_of(0))
    found["same_bytes"] = {
        "wherever users wait, and again": len({ways[name]["sha256"] for name in places}) == 1,
        "one block as all rows at once": same(engine, one),
    }
    for way in ways.values():
        last = way["epochs"][-1]
        way["positives_per_second"] = round(len(shards) / last["seconds"])
        if "waited" in last:
            way["share_waited"] = last["waited"] / last["seconds"]
            way["share_not_computed"] = 1 - last["computed"] / last["seconds"]
        say({k: v for k, v in way.items() if k != "epochs"})
    say(found["same_bytes"])
    return found


def added(path: Path | None, run: dict[str, Any]) -> dict[str, Any]:
    """Return a report with this run, and the runs of other sizes that are in it already."""
    words = sys.argv[1:]
    for name in ("--work", "--json"):  # places that others do not have
        if name in words:
            del words[words.index(name) : words.index(name) + 2]
    about = machine("triton") | {"device": device_name()}
    about["command"] = " ".join(["python benchmarks/sharded_gpu.py", *words])
    before = json.loads(path.read_text())["runs"] if path and path.exists() else []
    others = [one for one in before if one["asked"] != run["asked"]]
    return {
        "protocol": "two epochs of SD-Softmax each way, in one process; the second tells the speed",
        "seed": SEED,
        "cores": os.cpu_count(),
        "runs": sorted([*others, {**about, **run}], key=itemgetter("rows")),
    }


def main() -> None:
    """Measure one size."""
    parser = options_of(
        __doc__,
        rows={"type": float, "default": 1e8},
        users={"type": int, "default": 5_000_000},
        items={"type": int, "default": 1_000_000},
        dim={"type": int, "default": 64},
        states={"type": int, "default": 64},
        shards={"type": int, "help": "the default is one for each million rows"},
        together={"type": int, "default": 8},
        work={"type": Path, "help": "a folder for shards, which are kept"},
    )
    args = parser.parse_args()
    if args.quick:
        args.rows, args.users, args.items, args.dim = 200, 20, 15, 4
        args.states, args.shards, args.together = 2, 3, 2
    with tempfile.TemporaryDirectory() as folder:
        found = measure(args, args.work or Path(folder))
    write_report(args.json, added(args.json, {"asked": args.rows, **found}))


if __name__ == "__main__":
    main()
