"""Ten nights: a model that continues from the one of the night before, and one from scratch.

    python benchmarks/nights.py choose [--sets movielens-100k] [--json FILE]
    python benchmarks/nights.py measure [--sets movielens-100k] [--systems sdsoftmax] [--json FILE]
    python benchmarks/nights.py weights [--sets movielens-100k] [--json FILE]
    python benchmarks/nights.py measure --packed carry …   # where there is no Polars

The last tenth of the rows by time is ten nights. Each night both models learn all rows before it,
and are measured by NDCG@50 on the rows of the night, for users with rows before it. The chain
begins with a model that was trained from scratch the night before the first one.

Only movielens-100k has moments. The other sets have the order of each user's rows: there every user
begins at a moment that is drawn, and their rows follow evenly until the end. Every fourth user of
movielens-1m-ordered and of amazon-beauty takes part.

``--packed`` names a folder of files that ``accuracy.py pack`` wrote: ``ml-100k.npz`` and
``ratings.npz``, ``videogames.npz``, ``ml-1m-ordered.npz``, ``beauty.npz``.

``choose`` tries numbers of epochs and learning rates on eight of the ten nights before those ten,
which ``measure`` has as training rows alone. ``weights`` measures SD-Softmax with each weight of
its memory, compared with the weight of the first night and the one that training from scratch
chose. FILE has one JSON object a line and is added to.
"""

from __future__ import annotations

import itertools
import json
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import sdgar
from common import device_name, machine, options_of
from sdgar.data.interactions import Interactions
from sdgar.data.splits.single import Split
from sdgar.errors import SdgarWarning
from sdgar.models.sum import weighted_sum
from sdgar.recommend.recommender import Recommender
from sdgar.systems.base import Estimator
from sdgar.systems.names import SYSTEMS
from sdgar.systems.recipe import recipe_of
from sdgar.systems.sdsoftmax import SDSoftmax
from sdgar.training.fitting import Fit
from sdgar.training.item_memory import TRIED as TRIED_WEIGHTS

METRIC, K = "ndcg@50", 50
SUM = "sum of ndcg@50"
"""The sum over the users of a night; a night may have any number of them, none too."""
SETS = ("movielens-100k", "amazon-videogames", "movielens-1m-ordered", "amazon-beauty")
A_QUARTER = ("movielens-1m-ordered", "amazon-beauty")
"""The sets of whose users every fourth takes part, as training from scratch takes long."""
NIGHTS = 10
SHARE = 0.1
"""The share of the rows that the ten nights have."""
CHAIN = 4
"""The number of nights after which ``choose`` looks."""
TRIED = {
    "sdsoftmax": ((1, 0.3), (2, 0.1), (2, 0.3), (2, 0.6), (3, 0.3)),
    "bpr": ((10, 0.1), (10, 0.3), (10, 1.0), (20, 0.3), (20, 1.0), (40, 1.0)),
    "sdgar": ((10, 0.1), (10, 0.3), (10, 1.0), (20, 0.3), (20, 1.0), (40, 1.0)),
}
"""The numbers of epochs and shares of the learning rate that ``choose`` tries."""
PROTOCOL = (
    "the last tenth of the rows by time in ten nights; each night both models learn all rows "
    "before it and rank all items for users with rows before it"
)


PACKED = {
    "movielens-100k": "ml-100k",
    "amazon-videogames": "videogames",
    "movielens-1m-ordered": "ml-1m-ordered",
    "amazon-beauty": "beauty",
}
"""The names of packed files."""


def rows_of(name: str, folder: Path, packed: Path | None = None, *, quick: bool) -> Interactions:
    """Return the rows of a data set with times; synthetic ones to see that it runs."""
    if quick:
        return sdgar.synthetic("demo")[::4]
    if packed is not None:
        return from_packed(name, packed)
    import polars as pl

    path = folder / name / "interactions.parquet"
    frame = pl.read_parquet(path)
    if name in A_QUARTER:
        frame = frame.filter(pl.col("user") % 4 == 0)
    if "position" not in frame.columns:
        return sdgar.read(path, verbose=False)
    return in_time(*(frame[column].to_numpy() for column in ("user", "item", "position")))


def from_packed(name: str, folder: Path) -> Interactions:
    """Return the same rows from files of NumPy."""
    file = np.load(folder / f"{PACKED[name]}.npz")
    user_E, item_E, time_E = (file[column].astype(np.int64) for column in ("user", "item", "time"))
    if name != "movielens-100k":
        part_E = user_E % 4 == 0 if name in A_QUARTER else np.ones(len(user_E), bool)
        return in_time(user_E[part_E], item_E[part_E], time_E[part_E])
    low_E = np.load(folder / "ratings.npz")["rating"] < 4
    liked = Interactions.from_arrays(user_E[~low_E], item_E[~low_E], time=time_E[~low_E])
    return liked.with_seen(user_E[low_E], item_E[low_E], time_E[low_E])


def in_time(
    user_E: NDArray[np.int64], item_E: NDArray[np.int64], position_E: NDArray[np.int64]
) -> Interactions:
    """Make every user begin at a moment that is drawn, and their rows follow until the end."""
    _, at_E, count_U = np.unique(user_E, return_inverse=True, return_counts=True)
    rng = np.random.default_rng(0)
    begin_U, within_U = rng.random(len(count_U)), rng.random(len(count_U))
    passed_E = (position_E + within_U[at_E]) / count_U[at_E]
    clock_E = begin_U[at_E] + (1 - begin_U[at_E]) * passed_E
    return Interactions.from_arrays(user_E, item_E, time=(clock_E * 1e9).astype(np.int64))


def nights(data: Interactions, *, last: bool) -> Iterator[Split]:
    """Yield the night before the first one, then ten nights: the last ones, or those before."""
    assert data.time_E is not None
    order_E = np.argsort(data.time_E, kind="stable")
    rank_E = np.empty(len(data), np.int64)
    rank_E[order_E] = np.arange(len(data))
    first = 1 - SHARE if last else 1 - 2 * SHARE
    length = SHARE / NIGHTS
    for night in range(-1, NIGHTS):
        start, stop = (int((first + length * n) * len(data)) for n in (night, night + 1))
        yield Split(
            data.subset(rank_E < start, "later"),
            data.subset((rank_E >= start) & (rank_E < stop), "other nights"),
            f"night {night + 1}",
        )


def measured(model: Estimator | Recommender, part: Split) -> NDArray[np.float64]:
    """Return NDCG@50 on the rows of a night for each user who has rows before it."""
    known_U = part.train.users.index_of(part.held_out.users.values) >= 0
    return model.evaluate(part.held_out, ks=(K,)).per_user[METRIC] if known_U.any() else np.zeros(0)


class Clock:
    """Counts the seconds of a block: on the clock, and of the processor."""

    def __enter__(self) -> Clock:
        self._start = time.perf_counter(), time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds = time.perf_counter() - self._start[0]
        self.cpu_seconds = time.process_time() - self._start[1]

    def as_dict(self) -> dict[str, float]:
        """Return rounded values, for JSON."""
        return {"seconds": round(self.seconds, 3), "cpu_seconds": round(self.cpu_seconds, 3)}


def trained(system: str, part: Split, **settings: Any) -> tuple[Estimator, Clock]:
    """Train from scratch, and say how long it took."""
    model = SYSTEMS[system](**settings)
    with Clock() as clock:
        model.fit(part.train, verbose=False)
    return model, clock


def gone_on(
    system: str, part: Split, before: Estimator, **settings: Any
) -> tuple[Estimator, Clock]:
    """Continue from a model, and say how long it took."""
    model = SYSTEMS[system](**settings)
    with Clock() as clock:
        recipe_of(model).fit(
            Fit(rows=part.train, before=before.recommender_, protocol="warm", verbose=False)
        )
    return model, clock


def measure(system: str, name: str, data: Interactions, **short: Any) -> Iterator[dict[str, Any]]:
    """Yield a line for each of the ten nights."""
    parts = nights(data, last=True)
    chain, _ = trained(system, next(parts), **short)
    for number, part in enumerate(parts, 1):
        chain, going_on = gone_on(system, part, chain, **short)
        restarted, all_epochs = trained(system, part, **short)
        one_T, two_T = measured(chain, part), measured(restarted, part)
        yield {
            "data": name,
            "system": system,
            "seed": short.get("seed", 0),
            "night": number,
            "train_rows": len(part.train),
            "users": len(one_T),
            "new_users": part.held_out.n_users - len(one_T),
            "warm_start": {SUM: float(one_T.sum()), **described(chain), **going_on.as_dict()},
            "from_scratch": {
                SUM: float(two_T.sum()),
                **described(restarted),
                **all_epochs.as_dict(),
            },
            "squares": float(np.square(one_T - two_T).sum()),
        }


def described(model: Estimator) -> dict[str, Any]:
    """Return the engine and the epochs of a model, and the weight of its item memory."""
    trained = recipe_of(model).trained
    return {"engine": trained.engine, "epochs": trained.epochs, "memory": trained.memory}


def choose(system: str, name: str, data: Interactions, **short: Any) -> Iterator[dict[str, Any]]:
    """Yield a line for each number of epochs and rate: what chains of nights are worth at the end.

    These are nights before the ten that are measured, the first four and the next four of them.
    """
    parts = list(nights(data, last=False))
    for begin in (0, CHAIN):
        first, _ = trained(system, parts[begin], **short)
        last = parts[begin + CHAIN]
        restarted, all_epochs = trained(system, last, **short)
        wanted = float(measured(restarted, last).mean())
        for epochs, rate in TRIED[system]:
            own = short | {"warm_start__epochs": epochs, "warm_start__rate": rate}
            chain, clock = first, Clock()
            for part in parts[begin + 1 : begin + CHAIN + 1]:
                chain, clock = gone_on(system, part, chain, **own)
            yield {
                "data": name,
                "system": system,
                "further_epochs": epochs,
                "further_rate": rate,
                "night": begin + CHAIN,
                "warm_start": {METRIC: float(measured(chain, last).mean()), **clock.as_dict()},
                "from_scratch": {METRIC: wanted, **all_epochs.as_dict()},
            }


def weights(system: str, name: str, data: Interactions, **short: Any) -> Iterator[dict[str, Any]]:
    """Yield a line a night: what the vectors of both models are worth with each weight."""
    parts = nights(data, last=True)
    chain, _ = trained(system, next(parts), **short)
    first = recipe_of(chain).trained.memory
    for number, part in enumerate(parts, 1):
        chain, _ = gone_on(system, part, chain, **short, item_memory=first)
        restarted, _ = trained(system, part, **short)
        solved = recipe_of(SDSoftmax(**short)).item_memory(part.train)
        assert solved is not None
        memory = solved.of(part.train, chain.recommender_.factors.device)
        found = {}
        for how, model in (
            ("warm_start", chain.recommender_),
            ("from_scratch", restarted.recommender_),
        ):
            each = {
                w: model.with_model(weighted_sum(model.factors, memory, w), {})
                for w in TRIED_WEIGHTS
            }
            found[how] = {str(w): float(measured(one, part).sum()) for w, one in each.items()}
        yield {
            "data": name,
            "system": system,
            "seed": short.get("seed", 0),
            "night": number,
            "users": len(measured(chain, part)),
            "first": first,
            "chosen": recipe_of(restarted).trained.memory,
            **found,
        }


def main() -> None:
    parser = options_of(
        __doc__,
        sets={"default": ",".join(SETS), "help": "names of data sets, with commas"},
        systems={"default": "sdsoftmax", "help": "names of systems, with commas"},
        seeds={"default": "0", "help": "seeds, with commas"},
    )
    parser.add_argument("--packed", type=Path, metavar="DIR", help="files of NumPy, for a GPU")
    works = {"choose": choose, "measure": measure, "weights": weights}
    parser.add_argument("what", choices=tuple(works))
    given = parser.parse_args()
    work = works[given.what]
    sets = given.sets.split(",")[:1] if given.quick else given.sets.split(",")
    about = machine() | {"gpu": device_name(), "protocol": PROTOCOL, "what": given.what}
    warnings.simplefilter("ignore", SdgarWarning)
    for name in sets:
        data = rows_of(name, given.data, given.packed, quick=given.quick)
        for system, seed in itertools.product(given.systems.split(","), given.seeds.split(",")):
            usual = SYSTEMS[system]().get_params()
            small = {"dim": 8, "epochs": 2} if given.quick else {}
            short = {n: v for n, v in {"seed": int(seed), **small}.items() if n in usual}
            for line in work(system, name, data, **short):
                print(json.dumps(line), flush=True)
                if given.json is not None:
                    with given.json.open("a") as file:
                        file.write(json.dumps(line | {"about": about}) + "\n")


if __name__ == "__main__":
    main()
