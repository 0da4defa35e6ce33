"""What diversity costs: NDCG@20 and the diversity of lists, for rules and plain re-rankers.

    python benchmarks/diversity.py [--users 2000] [--timed 10000] [--json FILE] [--figure FILE]

Models are iALS with its defaults and seed 0, on the rule `paper` (a fifth of every user's rows is
held out, seed 0). Every point re-ranks the 100 best items of the same users into lists of 20. The
rules are MMR and DPP of `recommend/rules/terms.py`. Beside them are two plain re-rankers:
popularity that is damped (the dial `popularity` below 0), and taking turns, which lists the best
items of each genre in turn, of as many candidates as the setting says. Where items have genres,
rules compare them by genres and so does the metric; elsewhere both go by the model's vectors.
No setting is chosen here, the curves are all of it.

Seconds are those of lists of 20 for 10,000 users of Amazon Video Games, with one thread: CPU time,
which hardly feels other programs on the machine, and wall time.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import sdgar
from common import from_parquet, machine, options_of, write_report
from sdgar.data.held_out import HeldOut
from sdgar.data.synthetic import Shape, generate
from sdgar.evaluation.measures import metrics_of
from sdgar.evaluation.ranked import Ranked
from sdgar.recommend.evaluating import known_of

K, CANDIDATES = 20, 100
STRENGTHS = {
    "mmr": (0.1, 0.2, 0.3, 0.5, 0.7, 0.9),
    "dpp": (0.02, 0.05, 0.1, 0.2, 0.4, 0.7),
    "popularity": (-0.1, -0.2, -0.4, -0.6),
    "turns": (25, 30, 40, 60, 100),
}
METRICS = [f"ndcg@{K}", f"coverage@{K}", f"tail@{K}"]
Lists = Callable[[float], Any]


def taking_turns(items_TN: Any, genres: list[list[str]], n: int) -> Any:
    """List the best items of each genre in turn, of the first n candidates; an item's first counts.

    Genres take turns in the order of their best items.
    """
    lists_TK = np.full((len(items_TN), K), -1)
    for t, row in enumerate(items_TN[:, :n].tolist()):
        queues: dict[str, list[int]] = {}
        for item in row:
            if item >= 0:
                queues.setdefault((genres[item] or [""])[0], []).append(item)
        listed: list[int] = []
        while len(listed) < K and queues:
            for genre in list(queues):
                listed.append(queues[genre].pop(0))
                if not queues[genre]:
                    del queues[genre]
        lists_TK[t, : min(K, len(listed))] = listed[:K]
    return lists_TK


def curve(name: str, data: Any, facts: dict[Any, Any] | None, n_users: int) -> dict[str, Any]:
    """Measure all points of one data set."""
    train, test = sdgar.split(data, "paper", seed=0)
    model = sdgar.IALS(seed=0).fit(train).recommender_
    held_out = HeldOut.of(test, model).sample(n_users, seed=0)
    users = model.users.at(held_out.users_T).tolist()
    diverse = f"diversity:genres@{K}" if facts else f"diversity@{K}"
    wanted = metrics_of([*METRICS, diverse], (K,))
    ranked = Ranked(np.zeros((0, K)), held_out, known_of(model, model, facts=facts), wanted)
    on = "categories" if facts else "vectors"

    def ruled(rules: dict[str, Any]) -> Any:
        own = sdgar.Rules.of({"candidates": CANDIDATES, **rules}).using(facts)
        return model.recommend_lists(users, K, rules=own).items_TK

    plain_TN = model.recommend_lists(users, CANDIDATES).items_TK
    ways: dict[str, Lists] = {
        method: lambda x, m=method: ruled({"diversity": {"strength": x, "method": m, "on": on}})
        for method in ("mmr", "dpp")
    }
    ways["popularity"] = lambda x: ruled({"popularity": {"dial": x}})
    if facts:
        ids = model.items.values.tolist()
        genres = [facts.get(item, {}).get("genres", []) for item in ids]
        genres = [[one] if isinstance(one, str) else one for one in genres]
        ways["turns"] = lambda x: taking_turns(plain_TN, genres, int(x))
    points = [{"way": "none", "setting": None, "lists": plain_TN[:, :K]}]
    points += [
        {"way": way, "setting": setting, "lists": lists(setting)}
        for way, lists in ways.items()
        for setting in STRENGTHS[way]
    ]
    for point in points:
        per_user, overall = replace(ranked, items_TK=point.pop("lists")).values()
        means = {one: float(np.nanmean(values)) for one, values in per_user.items()} | overall
        point |= {one.replace(":genres", ""): value for one, value in means.items()}
        print(name, {key: round(v, 4) if isinstance(v, float) else v for key, v in point.items()})
    return {
        "by": "genres" if facts else "vectors of the model",
        "users": len(users),
        "items": len(model.items),
        "rows": len(train),
        "points": points,
    }


def seconds(data: Any, n_users: int) -> dict[str, Any]:
    """Time lists of 20 for many users, without rules and with them."""
    model = sdgar.IALS(seed=0).fit(data).recommender_
    users = model.users.values[:n_users].tolist()
    rules = {
        "none": None,
        **{
            method: sdgar.Rules.of({"diversity": {"strength": 0.3, "method": method}})
            for method in ("mmr", "dpp")
        },
    }
    found: dict[str, Any] = {"users": len(users), "items": len(model.items), "k": K}
    for name, own in rules.items():
        model.recommend_lists(users[:10], K, rules=own)  # compiles what is compiled
        start = time.process_time(), time.perf_counter()
        model.recommend_lists(users, K, rules=own)
        found[name] = {
            "cpu": round(time.process_time() - start[0], 2),
            "wall": round(time.perf_counter() - start[1], 2),
        }
        print("seconds", name, found[name])
    return found


def draw(report: dict[str, Any], file: Path) -> None:
    """Draw NDCG against diversity, a panel for each data set."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    names = {
        "mmr": "MMR",
        "dpp": "DPP",
        "popularity": "popularity damped",
        "turns": "genres in turn",
    }
    figure, panels = plt.subplots(1, len(report["data"]), figsize=(10, 4), squeeze=False)
    for panel, (title, found) in zip(panels[0], report["data"].items(), strict=True):
        first = found["points"][0]
        for marker, way in zip("os^D", names, strict=True):
            points = [first, *(one for one in found["points"] if one["way"] == way)]
            if len(points) > 1:
                panel.plot(
                    [one[f"diversity@{K}"] for one in points],
                    [one[f"ndcg@{K}"] for one in points],
                    marker=marker, markersize=4, label=names[way],
                )  # fmt: skip
        panel.plot(
            first[f"diversity@{K}"], first[f"ndcg@{K}"], "k*", markersize=11, label="no rule"
        )
        panel.set_title(title)
        panel.set_xlabel(f"diversity@{K} by {found['by']}")
        panel.set_ylabel(f"NDCG@{K}")
        panel.grid(alpha=0.3)
        panel.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(file, dpi=120)
    plt.close(figure)


def main() -> None:
    parser = options_of(
        __doc__,
        users={"type": int, "default": 2000},
        timed={"type": int, "default": 10_000},
        figure={"type": Path, "metavar": "FILE"},
    )
    args = parser.parse_args()
    if args.quick:
        small = generate(Shape(users=60, items=120, interactions=1500, concentration=0.1), seed=0)
        kinds = ("drama", "crime", "war")
        genres = [[kinds[at % 3]] for at in range(small.n_items)]
        facts = {
            item: {"genres": one, "categories": one}
            for item, one in zip(small.items.values.tolist(), genres, strict=True)
        }
        sets = {"made up": (small, facts)}
        args.users = args.timed = 20
    else:
        films = args.data / "movielens-1m-ordered"
        small = from_parquet(args.data / "amazon-videogames" / "interactions.parquet")
        sets = {
            "MovieLens-1M": (
                from_parquet(films / "interactions.parquet"),
                sdgar.read_facts(films / "items.parquet"),
            ),
            "Amazon Video Games": (small, None),
        }
    report: dict[str, Any] = {
        **machine(),
        "seed": 0,
        "threads": 1,
        "protocol": f"rule paper, {args.users:,} held-out users, lists of {K} from {CANDIDATES} "
        "candidates, all items ranked",
        "data": {name: curve(name, *one, args.users) for name, one in sets.items()},
        "seconds": seconds(small, args.timed),
    }
    write_report(args.json, report)
    if args.figure is not None:
        draw(report, args.figure)


if __name__ == "__main__":
    main()
