"""Two versions of the sequence model take turns: seconds of an epoch, and what they have learned.

    python benchmarks/sequences.py --before OTHER/src --packed carry [--epochs 2] [--share 1]

``carry/beauty.npz`` is made by ``benchmarks/accuracy.py pack``. Each version runs in a process of
its own on two threads, which waits until it is its turn. A ratio is the time of the other version
over that of this one: above 1, this one is quicker. The last row of every user is held out, and
NDCG@10 is measured on it after the last epoch. With --share n only every n-th user takes part, and
items with at least five rows.
"""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path
from typing import Any

import numpy as np

from common import CPU, ROOT, THREADS, Contestant, machine, options_of, write_report
from sdgar.systems.recipe import recipe_of

SETTINGS: dict[str, Any] = {
    "discriminator": "sequence", "sampler": "decomposable", "objective": "sdsoftmax", "dim": 64,
    "n_negatives": 16, "learning_rate": 0.003, "sampler__refit_every": 2,
    "discriminator__tau": 0.08,
}  # fmt: skip


def rows_of(packed: Path | None, share: int) -> tuple[Any, Any, Any]:
    """Return users, items and times of the rows; without a file, of walks along a circle."""
    if packed is None:
        users, steps = np.repeat(np.arange(40), 6), np.tile(np.arange(6), 40)
        return users, (users * 7 + steps) % 25, steps
    with np.load(packed / "beauty.npz") as file:
        users, items, times = file["user"], file["item"], file["time"]
    kept = users % share == 0
    if share > 1:
        kept &= np.bincount(items[kept], minlength=items.max() + 1)[items] >= 5
    return users[kept], items[kept], times[kept]


def contestant(packed: str, share: str) -> None:
    """Answer each line, ``epoch`` or ``ndcg``, with seconds or with NDCG@10."""
    import torch

    import sdgar
    from sdgar.engines.choose import ENGINES
    from sdgar.ranking.topk import top_k

    torch.set_num_threads(THREADS)
    users, items, times = rows_of(Path(packed) if packed else None, int(share))
    whole = sdgar.Interactions.from_arrays(users, items, time=times)
    parts = sdgar.split(whole, "leave-last-out")
    train, held_out = parts.train, parts.held_out
    batch_size = 4096 if len(train) > 200_000 else 1024
    model = sdgar.Composed(**SETTINGS, batch_size=batch_size)
    system = recipe_of(model).compose(train, seed=0, device=CPU)
    engine = ENGINES["eager"](system, train, seed=0, device=CPU)
    epoch = 0
    print(json.dumps(len(train)), flush=True)
    for line in sys.stdin:
        if json.loads(line) == "ndcg":
            found_TK = top_k(system.learned(), held_out.users_E, 10, seen=train.history).items_TK
            hit_TK = found_TK == held_out.items_E[:, None]
            print(json.dumps(float((hit_TK / np.log2(np.arange(2, 12))).sum(1).mean())), flush=True)
            continue
        epoch += 1
        if epoch % SETTINGS["sampler__refit_every"] == 1:
            engine.refit(epoch)
        print(json.dumps(engine.run_epoch(epoch).seconds), flush=True)


def measured(sources: dict[str, Path], packed: str, share: int, epochs: int) -> dict[str, Any]:
    """Make both take turns, and give the seconds of each epoch and NDCG@10 after the last."""
    versions = {
        name: Contestant(__file__, source, packed, share) for name, source in sources.items()
    }
    rows = {name: version.answer() for name, version in versions.items()}
    seconds: dict[str, list[float]] = {name: [] for name in versions}
    for _ in range(epochs):
        for name, version in versions.items():
            seconds[name].append(version.ask("epoch"))
    ndcg = {name: version.ask("ndcg") for name, version in versions.items()}
    for version in versions.values():
        version.end()
    both = zip(seconds["before"], seconds["now"], strict=True)
    ratio = statistics.median(before / now for before, now in both)
    return {"rows": rows["now"], "seconds": seconds, "ratio": ratio, "ndcg@10": ndcg}


def main() -> None:
    """Measure, print and write."""
    parser = options_of(
        __doc__,
        before={"type": Path, "required": True, "help": "the src folder of another version"},
        packed={"type": Path, "default": ROOT / "carry", "help": "the folder of beauty.npz"},
        epochs={"type": int, "default": 2, "help": "epochs of each"},
        share={"type": int, "default": 1, "help": "take every n-th user"},
    )
    options = parser.parse_args()
    packed, epochs = str(options.packed), options.epochs
    if options.quick:
        packed, epochs = "", 1
    sources = {"before": options.before, "now": ROOT / "src"}
    found = measured(sources, packed, options.share, epochs)
    print(f"ratio {found['ratio']:.2f}, NDCG@10 {found['ndcg@10']}")
    about = {**machine(), "threads": THREADS, "share": options.share, "epochs": epochs}
    write_report(options.json, {**about, **found})


if __name__ == "__main__":
    if sys.argv[1:2] == ["contestant"]:
        contestant(*sys.argv[2:])
    else:
        main()
